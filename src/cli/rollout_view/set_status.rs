//! The displayed part of a set's status, also of one that Argo CD's own controller wrote.

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::application_set::{
    ApplicationSetApplicationStatus, ApplicationSetCondition, RolloutPhase, RolloutStatus,
    WaitingFor,
};
use crate::api::conditions::application_set as condition;
use crate::api::time::Time;
use crate::decide::application_set::rollout_storage::summary_in;

/// The displayed part of a set's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Status {
    /// A controller has written it.
    pub exists: bool,
    /// The first incomplete step, counted from 0; `None` before the rollout started and
    /// after it ended.
    pub open_step: Option<usize>,
    /// All steps are complete.
    pub complete: bool,
    /// Description of the rollout's state.
    pub message: String,
    /// Start of the rollout, if it is recorded.
    pub started_at: Option<Timestamp>,
    /// Last change of a phase, if it is recorded.
    pub changed_at: Option<Timestamp>,
    /// Applications the rollout is waiting for, and why.
    pub waiting: Vec<Wait>,
    /// Reason and message of an error that requires user action.
    pub error: Option<(String, String)>,
    /// Why the set is not rolled out in steps, although it has a RollingSync.
    pub off: Option<String>,
    /// Its Applications match the set, as far as the controller reports it.
    pub is_up_to_date: bool,
}

/// An Application that a rollout is waiting for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Wait {
    pub application: String,
    pub reason: String,
    /// Start of the wait, and its end at the latest.
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// The part of a set's status that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StatusView {
    pub conditions: Vec<ApplicationSetCondition>,
    pub application_status: Vec<ApplicationSetApplicationStatus>,
    pub rollout: Option<RolloutStatus>,
}

impl StatusView {
    /// Takes the summary of the rollout from its condition, where the installed definition
    /// has no field for it.
    pub fn take_rollout(&mut self) {
        let at = self.conditions.iter().position(|found| found.type_ == condition::ROLLOUT_STATUS);
        let Some(stored) = at.map(|at| self.conditions.remove(at)) else { return };
        if self.rollout.is_none() {
            self.rollout =
                summary_in(&stored.message).and_then(|summary| serde_json::from_str(summary).ok());
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SetView {
    pub metadata: Metadata,
    pub status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub generation: Option<i64>,
    pub deletion_timestamp: Option<String>,
}

/// Reads the displayed part; `steps` is the number of steps of the set.
pub(super) fn summarize(status: &StatusView, steps: usize, rolling: bool) -> Status {
    let find = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let holds = |kind: &str| find(kind).filter(|condition| condition.status == "True");
    let error = holds(condition::ERROR_OCCURRED);
    let entries = &status.application_status;
    let times = entries.iter().filter_map(|entry| entry.last_transition_time.as_ref());
    let mut summary = Status {
        exists: !status.conditions.is_empty() || !entries.is_empty() || status.rollout.is_some(),
        changed_at: times.map(|at| at.0).max(),
        error: error.map(|condition| (condition.reason.clone(), hidden(&condition.message))),
        is_up_to_date: find(condition::RESOURCES_UP_TO_DATE)
            .is_none_or(|condition| condition.status != "False"),
        ..Status::default()
    };
    if let Some(rollout) = &status.rollout {
        let progressing = find(condition::ROLLOUT_PROGRESSING);
        summary.complete = progressing.is_some_and(|condition| condition.status == "False");
        let step = usize::try_from(rollout.step.saturating_sub(1)).ok();
        summary.open_step = step.filter(|step| !summary.complete && *step < steps);
        summary.message = hidden(&rollout.message);
        summary.started_at = rollout.started_at.as_ref().map(|at| at.0);
        let time = |time: &Option<Time>| time.as_ref().map(|at| at.0);
        let wait = |wait: &WaitingFor| Wait {
            application: wait.application.clone(),
            reason: hidden(&wait.reason),
            since: time(&wait.since),
            until: time(&wait.until),
        };
        summary.waiting = rollout.waiting_for.iter().map(wait).collect();
    } else if rolling && !entries.is_empty() {
        // Written by Argo CD's own controller.
        let unfinished = entries.iter().filter(|entry| entry.status != RolloutPhase::Healthy);
        let open = unfinished
            .filter_map(|entry| {
                usize::try_from(entry.step.parse::<i64>().ok()?.saturating_sub(1)).ok()
            })
            .min();
        summary.open_step = open.filter(|step| *step < steps);
        summary.complete = open.is_none();
    } else if rolling && summary.exists {
        let reported = holds(condition::INVALID_ROLLOUT_CONFIG).map(|found| hidden(&found.message));
        summary.off = Some(reported.unwrap_or_else(|| {
            "strategy.type is RollingSync, but the status has no rollout; are progressive syncs enabled in \
             the controller? (--enable-progressive-syncs)"
                .to_owned()
        }));
    }
    summary
}

/// A message without credentials.
pub(super) fn hidden(message: &str) -> String {
    crate::redact::text(message).into_owned()
}
