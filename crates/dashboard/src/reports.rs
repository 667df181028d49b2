//! What the page shows, as its program reports it: the documents, and who gives them.
//!
//! Texts are as the command line prints them. Times are RFC 3339, and empty when unknown.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

/// Why something cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What, where and why, as the command line prints it.
    pub message: String,
    /// It does not exist.
    pub is_missing: bool,
}

/// A report that is being made.
pub type PendingReport<'a, T> = BoxFuture<'a, Result<T, Unavailable>>;

/// Gives the reports, from what one person may read.
pub trait PageReports: Send + Sync + 'static {
    /// How far what is known has changed; never ends before the page.
    fn state(&self) -> watch::Receiver<KnownState>;
    /// Where the page is about, such as a kube context and namespaces.
    fn place(&self) -> String;
    /// All ApplicationSets.
    fn fleet(&self) -> PendingReport<'_, Vec<Arc<RolloutDocument>>>;
    /// One ApplicationSet with its rollout, down to Pods (`status`, `explain`).
    fn rollout<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Arc<RolloutDocument>>;
    /// One Application (`explain`, `tree`).
    fn application<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, ApplicationDocument>;
    /// The difference of an Application to its source (`diff`).
    fn difference<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Value>;
    /// The runs of an ApplicationSet, the newest first (`history`).
    fn history<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, Vec<RunDocument>>;
    /// What would happen now (`plan --live`).
    fn plan<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, PlanDocument>;
    /// The policies (`policies`).
    fn policies(&self) -> PendingReport<'_, Vec<PolicyDocument>>;
    /// What a verb comes to; with `does`, it is done (PG-020).
    fn act<'a>(&'a self, action: &'a ActionRequest, does: bool) -> PendingReport<'a, ActionAnswer>;
}

/// How current what is known is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownState {
    /// Counts changes.
    pub revision: u64,
    /// All there is was listed.
    pub is_listed: bool,
    /// What cannot be read, and why; empty while all is read.
    pub problems: Vec<String>,
}

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Whom a rollout waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attention {
    /// It goes on only when a person acts.
    Person,
    /// It goes on.
    #[default]
    Running,
    /// It is complete.
    Done,
}

/// The state of an Application in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellState {
    /// Complete.
    Done,
    /// It uses the limit of its step.
    Moving,
    /// It has not started.
    #[default]
    Waiting,
    /// It does not continue by itself.
    Stuck,
    /// It is left out of the run.
    Skipped,
}

/// An ApplicationSet and its rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutDocument {
    /// Its name.
    pub of: PageObject,
    /// Its labels, as `key=value`.
    pub labels: Vec<String>,
    /// `RollingSync` or `AllAtOnce`.
    pub strategy: String,
    /// The state in a word.
    pub state: String,
    /// Whom it waits for.
    pub attention: Attention,
    /// Complete Applications.
    pub complete: u64,
    /// All of them.
    pub total: u64,
    /// The health of the set.
    pub health: String,
    /// The state in one line (`status`).
    pub message: String,
    /// What it waits for, in one line (`explain`).
    pub summary: String,
    /// That it is paused, by whom; empty when it is not.
    pub paused: String,
    /// That its status does not list every Application; empty when it does.
    pub truncated: String,
    /// Its latest run.
    pub run: Option<RunDocument>,
    /// What failed last in a run that was ended; empty without.
    pub cause: String,
    /// The time that is left, in words; empty when unknown.
    pub left: String,
    /// The start of the rollout.
    pub started: String,
    /// The steps.
    pub steps: Vec<StepDocument>,
    /// The Applications that are waited for, most important first.
    pub waits: Vec<WaitDocument>,
    /// How many more are.
    pub more_waits: usize,
    /// The Applications behind the open step, in a sentence; empty when there are none.
    pub behind: String,
    /// What a person may do about the run.
    pub advice: Vec<String>,
    /// Conditions that report a problem: type and message.
    pub conditions: Vec<(String, String)>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// A step of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepDocument {
    /// What selects its Applications; empty for those that no step selects.
    pub selects: String,
    /// How many at a time, in words.
    pub limit: String,
    /// `open`, `closed` or `done`.
    pub status: String,
    /// Its Applications.
    pub total: u64,
    /// The complete ones.
    pub done: u64,
    /// Those in flight.
    pub in_flight: u64,
    /// Those that do not continue by themselves.
    pub stuck: u64,
    /// A cell for each Application, by name.
    pub cells: Vec<CellDocument>,
}

/// An Application in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellDocument {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: CellState,
    /// Phase, sync and health in words.
    pub words: String,
    /// Its destination.
    pub cluster: String,
    /// Its revision, short.
    pub revision: String,
    /// What it waits for; may be empty.
    pub message: String,
}

/// A wait for an Application (`explain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitDocument {
    /// The Application.
    pub application: String,
    /// Its step, counted from 1.
    pub step: Option<usize>,
    /// Phase, sync and health in words.
    pub words: String,
    /// The kind of the wait.
    pub kind: String,
    /// Who ends it, in words.
    pub ended_by: String,
    /// The reason.
    pub reason: String,
    /// What is below it, such as a Pod; may be empty.
    pub cause: String,
    /// Its start.
    pub since: String,
    /// Its latest end.
    pub until: String,
    /// What a person may do.
    pub advice: Vec<String>,
}

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

/// A plan, as `plan --live -o json` has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanDocument {
    /// Its steps.
    pub steps: Vec<PlannedStepDocument>,
    /// Applications that no step selects.
    pub unmatched: Vec<String>,
    /// What is wrong.
    pub problems: Vec<PlanProblemDocument>,
    /// What is created, changed and deleted.
    pub live: Vec<PlannedChangeDocument>,
    /// What policies say.
    pub steering: Value,
}

/// A step of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedStepDocument {
    /// Counted from 1.
    pub step: usize,
    /// How many at a time.
    pub limit: u64,
    /// The Applications of each batch.
    pub batches: Vec<Vec<String>>,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanProblemDocument {
    /// A word for it.
    pub code: String,
    /// What it is.
    pub message: String,
}

/// A change of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedChangeDocument {
    /// The Application.
    pub application: String,
    /// What becomes of it.
    pub change: String,
    /// Its sync status.
    pub sync: String,
    /// Its health.
    pub health: String,
    /// More about it.
    pub message: String,
    /// The fields that change.
    pub fields: Vec<String>,
}

/// A policy, as `policies -o json` has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyDocument {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub policy: String,
    /// Some of the sets that it selects.
    pub application_sets: Vec<String>,
    /// How many it selects.
    pub selected: i64,
    /// It pauses them.
    pub paused: bool,
    /// Its gates, with what they need.
    pub gates: Vec<String>,
    /// Its limits.
    pub limits: Vec<String>,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// What several policies come to together.
    pub effective: String,
}

/// A verb, and what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionRequest {
    /// As on the command line.
    pub verb: String,
    /// The sets, or the Applications of `skip`.
    pub of: Vec<PageObject>,
    /// Only this gate.
    pub gate: String,
    /// Why, for others.
    pub reason: String,
}

/// What a verb comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionAnswer {
    /// The commands that do the same.
    pub commands: Vec<String>,
    /// What it comes to, for each set.
    pub outcomes: Vec<ActionOutcomeDocument>,
}

/// What a verb comes to for one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionOutcomeDocument {
    /// Its namespace.
    pub namespace: String,
    /// The set.
    pub application_set: String,
    /// `planned`, `done`, `already`, `refused` or `failed`.
    pub outcome: String,
    /// How many Applications it is about.
    pub applications: i64,
    /// In words.
    pub message: String,
}
