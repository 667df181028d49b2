//! A plan and policies, as `plan --live` and `policies` report them.

use serde::Deserialize;
use serde_json::Value;

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
    pub steering: PlanPoliciesDocument,
    /// What differs of each Application that changes (`diff appset/NAME`).
    pub difference: Vec<AppDifferenceDocument>,
}

/// What policies say about a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPoliciesDocument {
    /// The hash of the plan; empty when the gates are not known.
    pub hash: String,
    /// The policies that select the set.
    pub policies: Vec<String>,
    /// What holds it.
    pub gates: Vec<PlannedGateDocument>,
    /// Pauses, budgets and limits, in words.
    pub limits: Vec<String>,
}

/// A gate that holds a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedGateDocument {
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: String,
    /// How many approvals it needs.
    pub approvals: u64,
    /// Its soak; empty without one.
    pub soak: String,
    /// The Applications that it holds.
    pub applications: Vec<String>,
}

/// What differs of an Application.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppDifferenceDocument {
    /// Its name.
    pub application: String,
    /// What becomes of it.
    pub change: String,
    /// The fields.
    pub changes: Vec<FieldDocument>,
    /// Before; null when it does not exist.
    pub live: Value,
    /// After; null when it is deleted.
    pub predicted: Value,
}

/// A field that differs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldDocument {
    /// Its path.
    pub path: String,
    /// Before; null when absent.
    pub from: Value,
    /// After; null when absent.
    pub to: Value,
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
