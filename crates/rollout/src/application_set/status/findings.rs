//! What a reconcile has found, for its status, and how it is worded.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::application_set::deletion::deletion_guard::HeldDeletions;
use crate::application_set::generate::generated::Generated;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::write_plan::Held;
use crate::application_set::settings::DecisionSettings;
use crate::application_set::status::stored::StoredApplicationSet;
use crate::rollout::RolloutPlan;
use crate::rollout::listed::Listed;
use crate::rollout::status::cut;
use crate::rollout::steps::Problem;
use wavegate_api::conditions::application_set::reason;

/// The most problems in one message.
const PROBLEMS_LIMIT: usize = 20;
/// The most bytes of the reason of a wait, and of the summary of the rollout.
const REASON_LIMIT: usize = 1024;
/// The most bytes of the reason of the first wait in the summary of the rollout.
const SHORT_REASON_LIMIT: usize = 700;

/// The failure of a reconcile: reason and message of the `ErrorOccurred`
/// condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The condition's reason.
    pub reason: &'static str,
    /// The error, its field, and how to fix it.
    pub message: String,
}

/// The results of a reconcile.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// The set, with the status that is updated.
    pub set: &'a StoredApplicationSet,
    /// The result of reading its spec.
    pub generated: &'a Generated,
    /// The settings.
    pub settings: &'a DecisionSettings,
    /// The existing Applications that the set owns or generates, by name.
    pub existing: &'a [Existing],
    /// The failure, if any.
    pub failure: Option<Failure>,
    /// Every Application is as generated: nothing is to be written.
    pub up_to_date: bool,
    /// Whether everything but deletions is as generated.
    pub is_written: bool,
    /// Whether deletions wait for other sets, so that it is not known yet whether they are
    /// held.
    pub keeps_hold: bool,
    /// The rollout, if there is one.
    pub rollout: Option<Rollout<'a>>,
    /// Deletions that wait.
    pub held: Option<&'a Held>,
    /// Why they wait for a person.
    pub emptied: Option<&'a HeldDeletions>,
    /// The sources of settings that are gone, whose last settings stay in force.
    pub absent_settings: &'a [&'static str],
    /// Removes credentials from a text.
    pub redact: fn(&str) -> String,
}

/// The results of the rollout.
#[derive(Clone, Copy, Debug)]
pub struct Rollout<'a> {
    /// The decisions.
    pub plan: &'a RolloutPlan,
    /// Which entries are listed.
    pub listed: &'a Listed,
    /// The stalled waits that were reported, and their start.
    pub stalled: &'a [(String, Timestamp)],
}

/// The failure of a set whose strategy is ambiguous; `None` when it is valid.
pub(crate) fn held(misspelt: &[Problem]) -> Option<Failure> {
    if misspelt.is_empty() {
        return None;
    }
    let message = format!(
        "{}; no Application is created, updated, synced or deleted until this is fixed",
        texts(misspelt)
    );
    Some(Failure { reason: reason::APPLICATION_SET_ROLLOUT_ERROR, message })
}

pub(in crate::application_set) fn text(text: &str, findings: &Findings<'_>) -> String {
    cut(&(findings.redact)(text), REASON_LIMIT).to_owned()
}

/// The message of the rollout, and of its condition.
pub(in crate::application_set) fn rollout_text(
    plan: &RolloutPlan,
    findings: &Findings<'_>,
) -> String {
    text(&rollout_message(plan), findings)
}

/// One line: the step, the progress, and the Applications it is waiting for.
pub fn rollout_message(plan: &RolloutPlan) -> String {
    let steps = plan.steps.len();
    let has_any = plan.steps.iter().any(|step| step.total > 0);
    let mut message = match plan.open_step {
        Some(open) => {
            let state = &plan.steps[open];
            format!(
                "step {} of {steps}: {} of {} applications are done",
                open + 1,
                state.done(),
                state.total
            )
        }
        None if !has_any && plan.counts.applications.is_empty() => NO_APPLICATION.to_owned(),
        None => all_complete(steps),
    };
    message.push_str(&plan.left_out.rest());
    if let Some(wait) = plan.waiting.first() {
        let reason = shortened(&wait.message);
        message.push_str(&format!("; {} waits: {reason}", wait.application));
        if plan.waiting_count > 1 {
            message.push_str(&format!(" (and {} more)", plan.waiting_count - 1));
        }
    }
    message
}

/// That a set is complete since it has nothing to roll out.
pub const NO_APPLICATION: &str = "there is no Application: the generators find none";

/// That all of so many steps are complete.
pub fn all_complete(steps: usize) -> String {
    match steps {
        1 => "the only step is complete".to_owned(),
        steps => format!("all {steps} steps are complete"),
    }
}

/// A reason, cut to its part of a message.
fn shortened(reason: &str) -> Cow<'_, str> {
    match cut(reason, SHORT_REASON_LIMIT) {
        all if all.len() == reason.len() => Cow::Borrowed(reason),
        part => Cow::Owned(format!("{part}…")),
    }
}

pub(in crate::application_set) fn texts(problems: &[Problem]) -> String {
    let texts: Vec<&str> =
        problems.iter().take(PROBLEMS_LIMIT).map(|problem| problem.message.as_str()).collect();
    let more = match problems.len() - texts.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    texts.join("; ") + &more
}
