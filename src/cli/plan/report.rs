//! What is printed, and what may be wrong with a set.

use serde::Serialize;
use serde_json::Value;

use super::policies::PlanPolicies;
use super::trial_report::TrialReport;
use crate::cli::plan::live_diff::LiveChange;

/// The code of what is wrong with a policy, besides unknown fields.
pub(super) const INVALID_POLICY: &str = "InvalidPolicy";

/// Maximum number of names in a line of the table; JSON and YAML contain all.
pub(super) const NAMES_PER_LINE: usize = 8;

/// The data that is printed.
#[derive(Serialize)]
pub(super) struct PlanReport {
    /// Name of the set; not part of the documented output.
    #[serde(skip)]
    pub(super) set: String,
    /// Whether the strategy is RollingSync.
    #[serde(skip)]
    pub(super) rolling: bool,
    /// Number of Applications.
    #[serde(skip)]
    pub(super) total: usize,
    pub(super) steps: Vec<PlannedStep>,
    pub(super) unmatched: Vec<String>,
    pub(super) problems: Vec<PlanProblem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) live: Option<Vec<LiveChange>>,
    /// What policies say; with --live, or with policies in the files.
    #[serde(rename = "steering", skip_serializing_if = "Option::is_none")]
    pub(super) policies: Option<PlanPolicies>,
    /// With what is not pushed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<TrialReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedStep {
    /// Counted from 1.
    pub(super) step: usize,
    /// As written by the user.
    pub(super) max_update: Value,
    pub(super) limit: u64,
    pub(super) batches: Vec<Vec<String>>,
    pub(super) applications: Vec<String>,
    /// Text of the limit, for the table.
    #[serde(skip)]
    pub(super) max_update_text: String,
    /// Whether some of its Applications are in no earlier step.
    #[serde(skip)]
    pub(super) has_own: bool,
}

#[derive(Serialize)]
pub(super) struct PlanProblem {
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Counted from 1; `null` when it concerns several steps or none.
    pub(super) step: Option<usize>,
    /// The policy and the path of its field, if it concerns one.
    #[serde(skip)]
    pub(super) place: Option<(String, String)>,
}

impl PlanProblem {
    /// One that concerns no step.
    pub(super) fn of(code: &'static str, message: String) -> Self {
        Self { code, message, step: None, place: None }
    }

    /// Whether it concerns this field of the policy, or one within it.
    pub(super) fn is_about(&self, policy: &str, field: &str) -> bool {
        let place = self.place.as_ref().filter(|(of, _)| of == policy && !field.is_empty());
        let within = place.and_then(|(_, found)| found.strip_prefix(field));
        within.is_some_and(|rest| matches!(rest.chars().next(), None | Some('.' | '[')))
    }
}
