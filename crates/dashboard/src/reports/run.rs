//! A run, as `history` reports it.

use serde::Deserialize;

/// A run, as `history -o json` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunDocument {
    /// Its name.
    pub run: String,
    /// Its number, from its name.
    pub number: Option<u64>,
    /// Its phase.
    pub phase: String,
    /// What it waits for, or how it ended.
    pub message: String,
    /// What it went from.
    pub from: Vec<RevisionDocument>,
    /// What it goes to.
    pub to: Vec<RevisionDocument>,
    /// Its steps.
    pub steps: Vec<RunStepDocument>,
    /// Its Applications.
    pub total: i64,
    /// The complete ones.
    pub done: i64,
    /// Those that failed.
    pub failed: i64,
    /// Its start.
    pub started_at: String,
    /// Its end; empty while it goes on.
    pub ended_at: String,
    /// Until its end, or until now.
    pub duration_seconds: Option<i64>,
    /// Who ended it.
    pub ended_by: String,
    /// Its gates.
    pub gates: Vec<GateDocument>,
    /// What failed, by its signature.
    pub failures: Vec<FailureDocument>,
    /// Applications that were not Healthy before it.
    pub unhealthy_before: Vec<String>,
    /// Applications that it leaves out.
    pub skipped: Vec<String>,
    /// What happened, in order.
    pub timeline: Vec<HappeningDocument>,
}

/// A revision, with how many Applications have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionDocument {
    /// As it is known to the source.
    pub revision: String,
    /// How many Applications.
    pub applications: i64,
    /// The subject of its commit; empty while that is not known.
    #[serde(skip)]
    pub subject: String,
    /// The author of its commit.
    #[serde(skip)]
    pub author: String,
}

/// A step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunStepDocument {
    /// Its Applications.
    pub total: i64,
    /// The complete ones.
    pub done: i64,
    /// Those that failed.
    pub failed: i64,
    /// When it was opened; absent before.
    pub opened_at: Option<String>,
    /// When it was complete; absent before.
    pub completed_at: Option<String>,
}

/// A gate of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GateDocument {
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: String,
    /// How many approvals it needs.
    pub approvals: i64,
    /// Who has approved it.
    pub approved_by: Vec<String>,
    /// When its soak ends.
    pub soaks_until: Option<String>,
    /// Since when it waits.
    pub waiting_since: Option<String>,
    /// When it was opened.
    pub opened_at: Option<String>,
    /// The Applications behind it.
    pub applications: i64,
}

/// What failed in a run in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureDocument {
    /// How many Applications.
    pub count: i64,
    /// Some of them.
    pub applications: Vec<String>,
    /// How.
    pub message: String,
}

/// An entry of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HappeningDocument {
    /// When.
    pub at: Option<String>,
    /// What.
    pub what: String,
    /// To whom.
    pub subject: String,
    /// By whom.
    pub by: String,
    /// More about it.
    pub message: String,
}
