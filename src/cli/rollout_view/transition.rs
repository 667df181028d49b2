//! Changes that are worth a line.

use std::time::Duration;

use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::ApplicationReport;

/// A change to log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Transition {
    /// Time since the start.
    pub at: Duration,
    /// Name of the set.
    pub set: String,
    /// The step, counted from 0; `None` outside steps.
    pub step: Option<usize>,
    /// The Application; empty when the change concerns the step or the set.
    pub application: String,
    /// The rollout phase before and after the change, or the current one.
    pub phase: String,
    /// Description of the change.
    pub text: String,
}

/// A change of phase; `None` when there is none to report: entries that start in Waiting
/// are not reported.
pub(super) fn moved(before: Option<Phase>, after: Phase) -> Option<String> {
    match before {
        Some(before) if before == after => None,
        None if after == Phase::Waiting => None,
        None => Some(after.name().to_owned()),
        Some(before) => Some(format!("{} → {}", before.name(), after.name())),
    }
}

/// What changed in an Application, if it is worth logging.
pub(super) fn change(
    before: Option<&ApplicationReport>,
    seen: &ApplicationReport,
) -> Option<String> {
    let before = before?;
    if seen.operation().is_running() {
        let same =
            (&before.doing.stage, &before.doing.detail) == (&seen.doing.stage, &seen.doing.detail);
        return (!same && !seen.doing.detail.is_empty()).then(|| progress(seen));
    }
    if seen.is_stuck() {
        let same = before.is_stuck() && before.doing.detail == seen.doing.detail;
        let what = if seen.has_failed() { "the sync failed" } else { "cannot be synced" };
        return (!same).then(|| format!("{what}: {}", seen.doing.detail));
    }
    (seen.is_done() && !before.is_done()).then(|| "Synced and Healthy".to_owned())
}

/// Phase of a running operation and what it is waiting for.
pub(in crate::cli) fn progress(seen: &ApplicationReport) -> String {
    let seen = &seen.doing;
    let stage = if seen.is_reason { "" } else { seen.stage.as_str() };
    let what = match &seen.awaited {
        Some(hook) if hook.is_hook => {
            return format!("{stage} hook {}", hook.resource).trim().to_owned();
        }
        Some(awaited) => &awaited.resource,
        None => &seen.detail,
    };
    match (stage, what.as_str()) {
        ("", "") => "the sync started".to_owned(),
        (stage, "") => stage.to_owned(),
        ("", what) => what.to_owned(),
        (stage, what) => format!("{stage}: {what}"),
    }
}
