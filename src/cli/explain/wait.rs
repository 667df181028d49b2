//! An Application that a rollout is waiting for.

use serde::Serialize;

use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_engine::blocking_resource::below::WorkloadCause;

/// An Application that the rollout is waiting for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct ExplainedWait {
    pub application: String,
    /// Step, counted from 1; `null` outside a rollout.
    pub step: Option<usize>,
    pub phase: &'static str,
    pub sync: String,
    pub health: String,
    /// The kind of the wait, as `status.rollout.waitingFor[].kind` names it.
    pub kind: &'static str,
    /// Reason of the wait.
    pub reason: String,
    /// The blocking resource; `null` when there is none.
    pub resource: Option<BlockingResource>,
    /// The object below the resource that keeps it from being ready, such as a Pod; `null`
    /// when there is none, or it could not be read.
    pub cause: Option<WorkloadCause>,
    /// Start and latest end of the wait; empty when unknown.
    pub since: String,
    pub until: String,
    /// Suggested actions in one line; empty when no action is required.
    pub advice: String,
    /// The same, one by one.
    #[serde(skip)]
    pub actions: Vec<Action>,
}

/// A suggested action in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Action {
    pub text: String,
    /// What is found below the resource says more.
    pub is_general: bool,
}

impl From<String> for Action {
    fn from(text: String) -> Self {
        Self { text, is_general: false }
    }
}

impl Action {
    pub(super) fn general(text: String) -> Self {
        Self { text, is_general: true }
    }

    /// It continues by itself.
    pub(super) fn nothing(why: &str) -> Self {
        Self::general(format!("nothing to do: {why}"))
    }
}
