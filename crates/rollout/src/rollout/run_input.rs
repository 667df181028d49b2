//! What policies and people say about a rollout, as the input of its decisions, and what they
//! amount to for one Application ([`run`](super::run) decides it).

use std::fmt;

use jiff::Timestamp;

use super::cut::cut;
use super::policy::Rules;
use super::wait_kind::WaitKind;
use wavegate_api::HealthStatus;
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus};

/// What policies and people say about the rollout of a set.
#[derive(Clone, Copy, Debug)]
pub struct RunInput<'a> {
    /// The namespace of the set, for the commands in messages.
    pub namespace: &'a str,
    /// The name of the set.
    pub set: &'a str,
    /// What the policies amount to.
    pub rules: &'a Rules,
    /// Why a person has paused the set, if one has.
    pub paused: Option<&'a str>,
    /// Who has paused it, if that is known.
    pub paused_by: Option<&'a str>,
    /// Who has resumed it last, if the annotation is there.
    pub resumed_by: Option<&'a str>,
    /// The latest run, ended or not.
    pub run: Option<CurrentRun<'a>>,
    /// Whether runs can be recorded.
    pub records_runs: bool,
    /// Whether there may be runs that cannot be read.
    pub hides_runs: bool,
    /// Whether there may be policies that cannot be read.
    pub hides_policies: bool,
    /// The number of the last name of a run that another object has; 0 without one.
    pub taken: u64,
    /// What other sets take of limits that they share.
    pub pools: &'a [Pool],
    /// The ended runs before the latest one, for the estimate.
    pub history: &'a [RolloutRunStatus],
    /// What people said to earlier runs, which act on nothing any more.
    pub late: &'a [StaleRequests],
    /// When the status of a run was written last, as far as this controller knows.
    pub written_at: Option<Timestamp>,
}

impl<'a> RunInput<'a> {
    /// What policies say alone, for a preview.
    pub fn of_policies(namespace: &'a str, set: &'a str, rules: &'a Rules) -> Self {
        Self {
            namespace,
            set,
            rules,
            paused: None,
            paused_by: None,
            resumed_by: None,
            run: None,
            records_runs: false,
            hides_runs: false,
            hides_policies: false,
            taken: 0,
            pools: &[],
            history: &[],
            late: &[],
            written_at: None,
        }
    }
}

impl RunInput<'_> {
    /// The policies that applied when they could be read last, while they cannot be read (ST-006).
    pub fn hidden_policies(&self) -> &[String] {
        match (&self.run, self.hides_policies) {
            (Some(run), true) => &run.status.policies,
            _ => &[],
        }
    }

    /// Why the latest run cannot be read, with the command that mends it, if it cannot. What it says
    /// may be an abort, and its state a quarantine: nothing is promoted, and it stays as it is.
    pub fn unreadable_run(&self) -> Option<String> {
        let run = self.run.as_ref().filter(|_| self.records_runs)?;
        let found = run.unreadable?;
        let part = if found.is_in_status { " --subresource status" } else { "" };
        let (namespace, name) = (self.namespace, &found.run);
        let edit = format!("kubectl -n {namespace} edit rolloutrun {name}{part}");
        // What is wrong may be long, and a status keeps the beginning.
        let (place, reason) = (found.place(), cut(&found.reason));
        Some(format!("{place} of RolloutRun {name} cannot be read: {edit} ({reason})"))
    }

    /// The command of a person about the set, for messages.
    pub fn command(&self, verb: &str) -> String {
        self.command_for(verb, self.set)
    }

    /// The same for one of its Applications.
    pub fn command_for(&self, verb: &str, name: &str) -> String {
        format!("wavegate {verb} -n {} {name}", self.namespace)
    }
}

/// What people said to a run that a later one has followed, and that its status does not name yet.
#[derive(Clone, Debug, PartialEq)]
pub struct StaleRequests {
    /// The name of the run.
    pub run: String,
    /// Its status as it is stored.
    pub status: RolloutRunStatus,
    /// In words.
    pub found: Vec<String>,
}

/// A run as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct CurrentRun<'a> {
    /// Its name.
    pub name: &'a str,
    /// What people say about it.
    pub spec: &'a RolloutRunSpec,
    /// The program that set the names to skip without saying who asks, if one has.
    pub skip_manager: Option<&'a str>,
    /// Its state.
    pub status: &'a RolloutRunStatus,
    /// What cannot be read of it, or of the one whose quarantine it takes over.
    pub unreadable: Option<&'a Unreadable>,
}

/// A field of a run that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The name of the run.
    pub run: String,
    /// Whether the field is one of its status.
    pub is_in_status: bool,
    /// The field below its spec or status; `.` for all of it.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Unreadable {
    fn place(&self) -> String {
        let part = if self.is_in_status { "status" } else { "spec" };
        match self.field.as_str() {
            "." => part.to_owned(),
            field => format!("{part}.{field}"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.reason)
    }
}

/// A limit that several sets share (`maxInFlight`, ST-030).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The policy.
    pub policy: String,
    /// The most Applications in flight of all sets.
    pub max: u64,
    /// How many of other sets are.
    pub elsewhere: u64,
    /// The other sets that use it, with their number; for messages.
    pub users: Vec<(String, u64)>,
    /// How many other sets that wait go first: each of them gets a place before.
    pub reserved: u64,
    /// How many other sets wait: each of them goes first after a promotion of this one.
    pub waiting: u64,
}

/// What keeps an Application from its promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The kind of its wait.
    pub kind: WaitKind,
    /// The reason in words, with the command that ends it.
    pub message: String,
    /// When it ends by itself, if it does.
    pub until: Option<Timestamp>,
}

/// Why a step goes on without an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// A person skips it (ST-064).
    Skipped,
    /// It failed within the budget (ST-042).
    Failed,
    /// It was not Healthy before, and is no worse (ST-041).
    UnhealthyBefore,
}

/// What its run says about one Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowRun {
    /// What holds it.
    pub hold: Option<Hold>,
    /// Why its step goes on without it.
    pub excuse: Option<Excuse>,
    /// When its retry was requested, or a later one of others; `None` when it is not retried.
    pub retried_at: Option<Timestamp>,
    /// Whether it had a place in its step when it failed, which it has again for its retry.
    pub keeps_place: bool,
    /// The revisions that it goes back to now (ST-061).
    pub back: Option<Vec<String>>,
    /// Whether its run is over for it: it is in flight only as long as an operation is.
    pub is_over: bool,
    /// Whether it still has to go back, now or later.
    pub is_due_back: bool,
    /// How it failed, if it did (ST-040).
    pub failure: Option<Failure>,
    /// When it fails that is not Healthy until then (ST-040); `None` when it has no deadline, or
    /// has failed.
    pub deadline: Option<Timestamp>,
    /// Whether the current run has started it for its present target.
    pub is_started: bool,
    /// Its health when the run began (ST-041); `None` when the run does not remember any.
    pub before: Option<HealthStatus>,
}

impl RowRun {
    /// Whether it is started again, whatever its state (ST-063).
    pub fn retries(&self) -> bool {
        self.retried_at.is_some()
    }

    /// Whether nothing waits for it.
    pub fn is_excused(&self) -> bool {
        self.excuse.is_some()
    }
}

/// How an Application failed (ST-040).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its signature (ST-043).
    pub signature: String,
    /// The message, for users.
    pub message: String,
    /// Whether its deadline has passed, and nothing else is wrong with it.
    pub is_overdue: bool,
}
