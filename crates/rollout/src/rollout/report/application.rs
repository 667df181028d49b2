//! One Application, as far as a report of a rollout shows it.

use jiff::Timestamp;

use crate::rollout::listed::CompletionRecord;
use crate::rollout::observed::Observed;
use crate::rollout::phase::{Entry, Phase};
use crate::rollout::steps::Labels;
use wavegate_api::{OperationPhase, SyncStatusCode};
use wavegate_engine::blocking_resource::Blocking;

/// What is known of one Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationReport {
    /// What a decision observes of it.
    pub observed: Observed,
    /// The rollout record that it carries.
    pub record: Option<CompletionRecord>,
    /// Its labels, from which its step follows where the generated ones are not known.
    pub labels: Labels,
    /// `status.sync.status` and `status.health.status` as written; empty when absent.
    pub sync: String,
    /// The same for health.
    pub health: String,
    /// What it waits for.
    pub blocking: Blocking,
    /// The last good revisions to which a run has taken it back from its present target (ST-061).
    pub held_at: Option<Vec<String>>,
    /// The digest of the generated spec with which a run started it last, if one has.
    pub started_spec: Option<String>,
    /// Its deletion, if it is being deleted.
    pub deletion: Option<Deletion>,
    /// An operation would only prune.
    pub only_prunes: bool,
    /// Who requested the current or last operation.
    pub initiator: Initiator,
    /// The operation, in the few words that fit in a line of a screen.
    pub doing: Doing,
}

/// Who requested an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initiator {
    /// A rollout.
    Rollout,
    /// An automated sync.
    Automation,
    /// A person, or nobody yet.
    #[default]
    Person,
}

/// The deletion of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// When it was requested, as in the object.
    pub since: String,
    /// What holds it.
    pub message: String,
}

/// What an operation does, in few words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// Phase and wave of the running operation, such as `Sync wave 0`.
    pub stage: String,
    /// What it waits for, or why it failed; may be empty.
    pub detail: String,
    /// The resource of the detail, if it is only the wait for one.
    pub awaited: Option<Awaited>,
    /// The detail is a whole reason, which is shown as it is.
    pub is_reason: bool,
    /// The start of this wait, if known.
    pub since: Option<Timestamp>,
    /// Start of the last operation as text, which identifies it.
    pub started_at: String,
    /// Hooks of the last operation that ended, as `PreSync Job/migrate`.
    pub hooks: Vec<String>,
}

/// A resource that a running operation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// It and its state, such as `Deployment web (Progressing)`.
    pub resource: String,
    /// It is a hook that has to complete; other resources have to be Healthy.
    pub is_hook: bool,
}

impl ApplicationReport {
    /// An Application of which only this is known.
    #[cfg(test)]
    pub fn of(observed: Observed) -> Self {
        Self {
            observed,
            record: None,
            labels: Labels::default(),
            sync: String::new(),
            health: String::new(),
            blocking: Blocking::default(),
            held_at: None,
            started_spec: None,
            deletion: None,
            only_prunes: false,
            initiator: Initiator::default(),
            doing: Doing::default(),
        }
    }

    /// Phase of the last operation; Unknown when there was none.
    pub fn operation(&self) -> OperationPhase {
        self.observed.operation.as_ref().map_or(OperationPhase::Unknown, |last| last.phase)
    }

    /// The operation for a table: phase and wave while it runs, else how the last one ended; empty
    /// without one.
    pub fn operation_text(&self) -> &str {
        match self.operation() {
            _ if self.observed.requested.is_some() => "Requested",
            phase if phase.is_running() && !self.doing.stage.is_empty() => &self.doing.stage,
            phase => phase.as_str(),
        }
    }

    /// A sync is requested or running.
    pub fn is_operating(&self) -> bool {
        self.observed.has_operation_in_flight()
    }

    /// Whether the last operation is a dry run, or one of some resources.
    pub fn is_partial(&self) -> bool {
        self.observed.is_partial()
    }

    /// Synced and Healthy, and the last operation, if any, succeeded.
    pub fn is_done(&self) -> bool {
        !self.is_operating()
            && self.observed.is_synced_and_healthy()
            && matches!(self.operation(), OperationPhase::Succeeded | OperationPhase::Unknown)
    }

    /// The operation ended without a Synced and Healthy Application, and no change is in
    /// progress.
    pub fn has_failed(&self) -> bool {
        let badly = self.operation().has_failed() || self.observed.is_degraded();
        !self.is_operating() && self.deletion.is_none() && badly
    }

    /// It has failed, or cannot be compared.
    pub fn is_stuck(&self) -> bool {
        let rests = !self.is_operating() && self.deletion.is_none() && !self.is_done();
        self.has_failed() || self.observed.has_error && rests
    }

    /// Whether it is OutOfSync by a comparison of the second in which its sync ended, so that
    /// a newer one may be about to say something else.
    pub fn may_be_outdated(&self) -> bool {
        let is_out = self.observed.sync == SyncStatusCode::OutOfSync;
        is_out && self.observed.is_judged_at_once() && !self.has_failed()
    }

    /// Whether the operation of the promotion of a Pending entry was seen, or a rollout syncs
    /// it although its entry is still Waiting: the status of a set follows its Applications by
    /// up to a second.
    pub(super) fn has_started(&self, entry: &Entry) -> bool {
        let Some(last) = &self.observed.operation else { return false };
        let of_rollout = self.initiator == Initiator::Rollout;
        match entry.phase {
            Phase::Pending if entry.since == Timestamp::UNIX_EPOCH => false,
            // Argo CD's own controller does not name the promotion.
            Phase::Pending if last.promotion.is_none() => {
                of_rollout && last.started_at >= entry.since
            }
            Phase::Pending => entry.owns(last),
            Phase::Waiting => of_rollout && last.phase.is_running() && !entry.is_held(),
            Phase::Progressing | Phase::Healthy => false,
        }
    }
}
