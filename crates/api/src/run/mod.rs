//! RolloutRun (ST-002 … ST-006): the record of one change that is rolled out, and the place
//! where people act on it.

mod start;

pub use self::start::RunStart;
use crate::time::Time;

/// The label of a run with the name of its ApplicationSet, where that fits.
pub const SET_LABEL: &str = "wavegate.dev/application-set";
/// The kind of runs.
pub const RUN: &str = "RolloutRun";
/// The plural of runs, as in paths.
pub const RUNS: &str = "rolloutruns";

lenient! {
    /// What people say about a run. Everything in it is written by people, or by the commands
    /// that they use; the controller writes none of it but the name.
    #[schemars(extend("required" = ["applicationSet"]))]
    pub struct RolloutRunSpec {
        /// Name of the ApplicationSet.
        #[schemars(length(min = 1, max = 253))]
        pub application_set: String,
        /// Approvals of gates (ST-011).
        #[schemars(length(max = 100))]
        pub approvals: Vec<Approval>,
        /// Names of Applications that the run does not promote and does not wait for (ST-064).
        #[schemars(length(max = 1000), inner(length(min = 1, max = 253)))]
        pub skip: Vec<String>,
        /// Who has asked for skips, and who has taken one back; the names in `skip` count.
        #[schemars(length(max = 100))]
        pub skips: Vec<SkipRequest>,
        /// Ends the run (ST-060).
        pub abort: Option<Abort>,
        /// Ends the run, and takes back what it started (ST-061).
        pub rollback: Option<UserRequest>,
        /// Starts failed Applications again, once for each entry (ST-063).
        #[schemars(length(max = 100))]
        pub retries: Vec<Retry>,
    }

    /// An approval of a gate. It counts as long as the targets behind the gate are the same.
    #[schemars(extend("required" = ["gate", "by", "covers"]))]
    pub struct Approval {
        /// Name of the gate.
        #[schemars(length(min = 1, max = 63))]
        pub gate: String,
        /// Who approves.
        #[schemars(length(min = 1, max = 256))]
        pub by: String,
        /// When.
        pub at: Option<Time>,
        /// The hash of the targets behind the gate, as in the status of the gate.
        #[schemars(length(min = 1, max = 128))]
        pub covers: String,
    }

    /// Who leaves Applications out of the run, or takes them in again.
    #[schemars(extend("required" = ["by"]))]
    pub struct SkipRequest {
        /// Who asks for it.
        #[schemars(length(min = 1, max = 256))]
        pub by: String,
        /// When.
        pub at: Option<Time>,
        /// Names of the Applications.
        #[schemars(length(max = 1000), inner(length(min = 1, max = 253)))]
        pub applications: Vec<String>,
        /// Takes them in again.
        pub undo: bool,
    }

    /// Ends the run.
    #[schemars(extend("required" = ["by"]))]
    pub struct Abort {
        /// Who aborts.
        #[schemars(length(min = 1, max = 256))]
        pub by: String,
        /// When.
        pub at: Option<Time>,
        /// Also terminate the running operations that the run started.
        pub terminate: bool,
    }

    /// A request, and who made it.
    #[schemars(extend("required" = ["by"]))]
    pub struct UserRequest {
        /// Who asks for it.
        #[schemars(length(min = 1, max = 256))]
        pub by: String,
        /// When.
        pub at: Option<Time>,
    }

    /// Starts failed and held Applications again.
    #[schemars(extend("required" = ["by", "at"]))]
    pub struct Retry {
        /// Who asks for it.
        #[schemars(length(min = 1, max = 256))]
        pub by: String,
        /// When. A request is acted on once: the same again has another time.
        pub at: Option<Time>,
        /// Names of the Applications; all failed ones of the run when empty.
        #[schemars(length(max = 1000), inner(length(min = 1, max = 253)))]
        pub applications: Vec<String>,
    }

    /// The state of a run.
    pub struct RolloutRunStatus {
        /// The phase in words: what it waits for, or how it ended.
        pub message: String,
        /// When it began.
        pub started_at: Option<Time>,
        /// When it ended.
        pub ended_at: Option<Time>,
        /// Revisions before the run, most frequent first, at most 10.
        pub from: Vec<RevisionCount>,
        /// Revisions that it rolls out, most frequent first, at most 10.
        pub to: Vec<RevisionCount>,
        /// Open step, counted from 1; absent when all are complete.
        pub step: Option<i64>,
        /// The steps.
        pub steps: Vec<RunStep>,
        /// Names of the policies that applied to it when they could last be read; at most 50.
        pub policies: Vec<String>,
        /// The gates.
        pub gates: Vec<RunGate>,
        /// Digests of the targets that gates were opened for, in base64, and the gates of each, where
        /// that is shorter than a list for each gate.
        pub admitted: String,
        /// What it waits for, as in the status of the ApplicationSet.
        pub waiting_for: Vec<RunWait>,
        /// The failures, by signature (ST-043).
        pub failures: Vec<RunFailure>,
        /// Applications that were not Healthy before their promotion, and do not count
        /// (ST-041); at most 50.
        pub unhealthy_before: Vec<String>,
        /// Applications that were skipped (ST-064); at most 50.
        pub skipped: Vec<String>,
        /// What people wrote into the spec that has no effect, such as an approval of a gate that
        /// does not exist; at most 10.
        pub without_effect: Vec<String>,
        /// The last 50 transitions.
        pub timeline: Vec<TimelineEntry>,
        /// Number of all transitions of the run, also those that the timeline has no more.
        pub transitions: i64,
        /// Number of the first transitions that were delivered to all sinks of its policies, or
        /// given up; absent without sinks (ST-084).
        pub notified: Option<i64>,
        /// Sinks that have got more than that, while another one has not; at most 50.
        pub notified_sinks: Vec<SinkMark>,
        /// The time that is left, from the last runs (ST-083).
        pub estimate: Option<Estimate>,
        /// Digests of the targets that are not promoted to (ST-060), in base64: for each run that was
        /// ended, its number and, after a colon, targets, Applications with their specs, the revisions
        /// with which these are such targets, and targets that were there without a sync.
        pub quarantine: String,
        /// Digests of the names of Applications that were Degraded, Missing, Progressing or
        /// Suspended when the run began (ST-041), in base64.
        pub health_before: String,
        /// When each of the retries in the spec was acted on.
        pub retried: Vec<Time>,
        /// Hashes of these retries, by which a retry is known wherever it is in the list.
        pub retried_for: Vec<String>,
        /// The abort that was acted on.
        pub aborted_at: Option<Time>,
        /// The request of a rollback that was acted on.
        pub rollback_at: Option<Time>,
        /// Who ended the run: a person, or Failures.
        pub ended_by: String,
    } and always {
        /// The phase.
        pub phase: RunPhase,
        /// Number of Applications of all steps.
        pub total: i64,
        /// Number of the complete ones.
        pub done: i64,
        /// Number of the failed ones.
        pub failed: i64,
        /// Complete and total Applications, as in `12/30`.
        pub progress: String,
    }

    /// How far a sink has got the transitions of a run (ST-084).
    pub struct SinkMark {
        /// The sink: a digest of its policy and of what the policy says of it.
        pub sink: String,
        /// Number of the first transitions that were delivered to it, or given up.
        pub notified: i64,
    } and extra

    /// A revision, and how many Applications have it.
    pub struct RevisionCount {
        /// The revision; those of several sources separated by commas.
        pub revision: String,
        /// Number of Applications.
        pub applications: i64,
    } and extra

    /// A step of a run.
    pub struct RunStep {
        /// When it opened.
        pub opened_at: Option<Time>,
        /// When it was complete.
        pub completed_at: Option<Time>,
        /// The size of the current batch, of a ramp.
        pub batch: Option<i64>,
        /// How many were started before the current batch.
        pub before_batch: Option<i64>,
        /// How many had failed before the current batch.
        pub failed_before_batch: Option<i64>,
        /// Names of the gates that hold Applications of it.
        pub gates: Vec<String>,
    } and always {
        /// Number of Applications.
        pub total: i64,
        /// Number of the complete ones.
        pub done: i64,
        /// Number of those in flight.
        pub in_flight: i64,
        /// Number of the failed ones.
        pub failed: i64,
    } and extra

    /// A gate of a run.
    pub struct RunGate {
        /// Name of the gate.
        pub name: String,
        /// Name of the policy.
        pub policy: String,
        /// Number of Applications behind it.
        pub applications: i64,
        /// The hash of their targets, for an approval.
        pub covers: String,
        /// Number of people who have to approve.
        pub approvals: i64,
        /// Who has approved these targets.
        pub approved_by: Vec<String>,
        /// Who has approved other targets, which does not count any more.
        pub void: Vec<String>,
        /// Since when only approvals are missing.
        pub waiting_since: Option<Time>,
        /// Since when all earlier steps are Healthy.
        pub soaking_since: Option<Time>,
        /// When the soak ends.
        pub soaks_until: Option<Time>,
        /// When the gate opened for this run.
        pub opened_at: Option<Time>,
        /// The hash of the targets that it was opened for, if people have approved it.
        pub opened_for: String,
        /// Digests of these targets, in base64, unless `admitted` in the status has them: others are
        /// not let through before they are approved.
        pub admits: String,
    } and extra

    /// An Application that a run waits for.
    pub struct RunWait {
        /// Name of the Application.
        pub application: String,
        /// Kind of the wait.
        pub kind: String,
        /// The resource at fault, as `apps/Deployment shop/web`.
        pub resource: String,
        /// The reason.
        pub message: String,
    } and extra

    /// Applications that failed with the same signature.
    pub struct RunFailure {
        /// The signature.
        pub signature: String,
        /// How many Applications.
        pub count: i64,
        /// The first three of them.
        pub applications: Vec<String>,
        /// The message of the first one.
        pub message: String,
    } and extra

    /// A transition of a run.
    pub struct TimelineEntry {
        /// When.
        pub at: Option<Time>,
        /// What: a word of a closed list.
        pub what: String,
        /// The step, gate or Application, if it is about one.
        pub subject: String,
        /// Who, if a person did it.
        pub by: String,
        /// In words.
        pub message: String,
    } and extra

    /// The time that is left.
    pub struct Estimate {
        /// At least, in seconds.
        pub least_seconds: i64,
        /// At most, in seconds.
        pub most_seconds: i64,
        /// Number of runs that it is based on.
        pub runs: i64,
        /// What it does not contain: gates that wait for approvals, and pauses.
        pub without: Vec<String>,
    }
}

words! {
    /// The phase of a run (ST-004).
    pub enum RunPhase {
        /// Nobody may be promoted.
        Paused = "Paused",
        /// A gate waits for people.
        AwaitingApproval = "AwaitingApproval",
        /// A gate waits for its time.
        Soaking = "Soaking",
        /// Too many have failed.
        Held = "Held",
        /// All Applications are Healthy.
        Complete = "Complete",
        /// All are, apart from failed ones within the budget.
        CompleteWithFailures = "CompleteWithFailures",
        /// Another change has taken its place, or its ApplicationSet has no rollout any more.
        Superseded = "Superseded",
        /// A person or failures have ended it.
        Aborted = "Aborted",
        /// What it started is taken back.
        RollingBack = "RollingBack",
        /// What it started was taken back.
        RolledBack = "RolledBack",
        _ =>
        /// It goes on.
        Progressing = "Progressing",
    }
}

impl RunGate {
    /// Whether it lets all Applications through that are behind it: it has opened, and people have
    /// approved each of the present targets, if they have to.
    pub fn is_open(&self) -> bool {
        self.opened_at.is_some() && (self.approvals <= 0 || self.opened_for == self.covers)
    }

    /// How many approvals of the present targets are missing.
    pub fn missing(&self) -> i64 {
        let given = i64::try_from(self.approved_by.len()).unwrap_or(i64::MAX);
        if self.is_open() { 0 } else { self.approvals.saturating_sub(given).max(0) }
    }
}

impl RolloutRunStatus {
    /// How many Applications its failures are, of whatever signature.
    pub fn failed_by_signature(&self) -> i64 {
        self.failures.iter().fold(0, |all, one| all.saturating_add(one.count.max(0)))
    }
}

impl RunPhase {
    /// Whether the run has ended.
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Complete
            | Self::CompleteWithFailures
            | Self::Superseded
            | Self::Aborted
            | Self::RolledBack => true,
            Self::Progressing
            | Self::Paused
            | Self::AwaitingApproval
            | Self::Soaking
            | Self::Held
            | Self::RollingBack => false,
        }
    }
}
