//! What is known of an ApplicationSet and its status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::rollout::phase::Entry;
use crate::rollout::steps::StepStrategy;
use crate::rollout::wait_kind::WaitKind;

/// What is known of an ApplicationSet.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// It is being deleted.
    pub is_deleting: bool,
    /// Why it is paused, by its annotation (ST-020); `None` without steps, which nothing holds.
    pub paused: Option<String>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its strategy.
    pub strategy: StepStrategy,
    /// The step of each Application that it generates, where that is known; an error of its
    /// generators.
    pub generated: Option<Result<BTreeMap<String, Option<usize>>, String>>,
    /// Its status.
    pub status: Status,
}

impl Default for Set {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            name: String::new(),
            is_deleting: false,
            paused: None,
            finalizers: Vec::new(),
            strategy: StepStrategy::AllAtOnce,
            generated: None,
            status: Status::default(),
        }
    }
}

/// What the status of a set says.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// A controller has written it.
    pub exists: bool,
    /// Reason and message of its error.
    pub error: Option<(String, String)>,
    /// The conditions that report a problem.
    pub problems: Vec<SetCondition>,
    /// What is wrong with its strategy.
    pub invalid_config: Option<String>,
    /// Deletions wait for the approval of a person.
    pub holds_deletions: bool,
    /// Its Applications match the set, as far as the controller reports it.
    pub is_up_to_date: bool,
    /// `health.status`; empty when absent.
    pub health: String,
    /// That `resources` does not list every Application.
    pub truncated: Option<String>,
    /// The listed entries, by name.
    pub entries: Vec<Entry>,
    /// The entries that are not listed follow from the Applications (`implied`); the
    /// start of the rollout then.
    pub implied_since: Option<Timestamp>,
    /// The summary; `None` for a status of Argo CD's own controller, and while there is no
    /// rollout.
    pub rollout: Option<Rollout>,
}

/// A condition of the set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SetCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// The summary of a rollout in the status.
#[derive(Clone, Debug, Default)]
pub struct Rollout {
    /// The open step, or the last one when all are complete; counted from 0.
    pub step: Option<usize>,
    /// All steps are complete.
    pub is_complete: bool,
    /// Number of complete Applications, and of all.
    pub progress: Option<(u64, u64)>,
    /// The state in one line.
    pub message: String,
    /// Its start.
    pub started_at: Option<Timestamp>,
    /// The first Applications that it waits for.
    pub waiting: Vec<ReportedWait>,
    /// Those that it has waited for too long.
    pub stalled: BTreeSet<String>,
}

/// A wait as the status reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedWait {
    /// The Application.
    pub application: String,
    /// `None` in a status of an older version.
    pub kind: Option<WaitKind>,
    /// The reason.
    pub message: String,
    /// The resource; empty when there is none.
    pub resource: String,
    /// Start of the wait, and its latest end.
    pub since: Option<Timestamp>,
    /// The latest end.
    pub until: Option<Timestamp>,
}
