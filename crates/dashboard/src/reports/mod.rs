//! What the page shows, as its program reports it: the documents, and who gives them.
//!
//! Texts are as the command line prints them. Times are RFC 3339, and empty when unknown.

mod application;
mod chart;
mod objects;
mod plan;
mod run;
mod wait;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::permissions::VerbPermissions;

pub use self::application::{ApplicationDocument, EventDocument, ResourceDocument, TreeDocument};
pub use self::chart::{
    ChartDocument, ChartMarkDocument, ChartRowDocument, ChartSpanDocument, ChartStepDocument,
    PageClock,
};
pub use self::objects::{CellState, PageObject};
pub use self::plan::{
    AppDifferenceDocument, FieldDocument, PlanDocument, PlanPoliciesDocument, PlanProblemDocument,
    PlannedChangeDocument, PlannedGateDocument, PlannedStepDocument, PolicyDocument,
};
pub use self::run::{
    FailureDocument, GateDocument, HappeningDocument, RevisionDocument, RunDocument,
    RunStepDocument,
};
pub use self::wait::{LogDocument, WaitDocument};

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
    /// A run of an ApplicationSet over time; nothing, where none is known.
    fn chart<'a>(&'a self, _of: &'a PageObject, _run: &'a str) -> PendingReport<'a, ChartDocument> {
        Box::pin(async { Ok(ChartDocument::default()) })
    }
    /// What would happen now (`plan --live`).
    fn plan<'a>(&'a self, of: &'a PageObject) -> PendingReport<'a, PlanDocument>;
    /// The policies (`policies`).
    fn policies(&self) -> PendingReport<'_, Vec<PolicyDocument>>;
    /// What a verb comes to; with `does`, it is done (PG-020).
    fn act<'a>(&'a self, action: &'a ActionRequest, does: bool) -> PendingReport<'a, ActionAnswer>;
    /// What the person may do in a namespace (PG-020); everything, where nothing says otherwise.
    fn permissions<'a>(&'a self, _namespace: &'a str) -> PendingReport<'a, VerbPermissions> {
        Box::pin(async { Ok(VerbPermissions::default()) })
    }
    /// The same at a time of what was recorded, as the address has it; `None` of a cluster, which is
    /// as it is now.
    fn at_time(&self, _asked: &str) -> Option<TimedReports> {
        None
    }
}

/// Reports of a time of what was recorded.
pub struct TimedReports {
    /// The reports.
    pub reports: Arc<dyn PageReports>,
    /// The time.
    pub clock: PageClock,
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
    /// Limits of policies, with who uses them.
    pub limits: Vec<LimitDocument>,
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

/// A limit of policies, and who uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitDocument {
    /// In words (`plan`).
    pub text: String,
    /// What it counts, each with what uses it.
    pub uses: Vec<LimitUseDocument>,
}

/// What uses a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitUseDocument {
    /// What is counted, such as a value of a label.
    pub of: String,
    /// How many use it.
    pub used: u64,
    /// How many may; none where the limit does not say so.
    pub most: Option<u64>,
    /// Some of them.
    pub applications: Vec<String>,
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
