//! An Application, as `explain` and `tree` report it.

use serde::Deserialize;
use serde_json::Value;

use super::objects::PageObject;
use super::wait::WaitDocument;

/// One Application.
#[derive(Clone, Debug, Default)]
pub struct ApplicationDocument {
    /// Its name.
    pub of: PageObject,
    /// The set that owns it.
    pub set: Option<PageObject>,
    /// What it waits for, in one line (`explain`).
    pub summary: String,
    /// Its waits.
    pub waits: Vec<WaitDocument>,
    /// Conditions that report a problem: type and message.
    pub conditions: Vec<(String, String)>,
    /// What is said of it and of its resources (`tree -o json`).
    pub tree: TreeDocument,
    /// Its links.
    pub links: Vec<String>,
    /// Applications that have resources of it as theirs, too (`SharedResourceWarning`).
    pub others: Vec<PageObject>,
    /// Its Events, the newest first.
    pub events: Vec<EventDocument>,
    /// Its former revisions, the newest first: time, revision, who.
    pub deployed: Vec<(String, String, String)>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// The resources of an Application, as `tree -o json` has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TreeDocument {
    /// Its project.
    pub project: String,
    /// Where it is deployed.
    pub destination: Value,
    /// Its revisions, by source.
    pub revisions: Vec<String>,
    /// Its sync status.
    pub sync: String,
    /// Its health: `status` and `message`.
    pub health: Value,
    /// The phase of the last operation.
    pub operation: String,
    /// What it waits for.
    pub waits_for: String,
    /// Its resources.
    pub resources: Vec<ResourceDocument>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// A resource of an Application, with what it owns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceDocument {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its sync status, or the phase of a hook.
    pub sync: String,
    /// Its health: `status` and `message`; null without a check.
    pub health: Value,
    /// Its sync wave.
    pub wave: i64,
    /// The phase of a hook.
    pub hook: String,
    /// It does not exist.
    pub missing: bool,
    /// The message of the last operation about it.
    pub message: String,
    /// A ReplicaSet of a former revision.
    pub scaled_down: bool,
    /// What it owns.
    pub children: Vec<ResourceDocument>,
}

/// An Event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDocument {
    /// When it was last seen.
    pub at: String,
    /// It is no normal one.
    pub is_warning: bool,
    /// Its reason, a word.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// How often it was seen.
    pub count: i64,
}
