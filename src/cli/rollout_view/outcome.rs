//! Outcome of a rollout, from observed objects only.

use super::app_view::AppView;
use super::fleet::Fleet;
use super::member::Member;
use super::set::Set;
use crate::api::application_set::RolloutPhase;
use crate::api::conditions::application_set::reason;
use crate::api::{HealthStatus, ObjectKey, OperationPhase, SyncStatusCode};
use crate::cli::explain::{sync_commands, taking_back};
use crate::cli::rollout_summary::RETRIED;
use crate::decide::blocking_resource::{requires_confirmation, requires_pruning};
use crate::decide::rollout::phase::Mark;

/// Outcome of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Outcome {
    /// In progress.
    Running,
    /// Complete.
    Complete,
    /// An Application failed, and a user has to act.
    Stopped {
        /// The step, counted from 0.
        step: Option<usize>,
        /// The Application that failed.
        application: String,
        /// The blocking resource and its problem, or the message of the sync.
        why: String,
        /// Number of other Applications that wait for it, in its step and later ones.
        behind: usize,
    },
    /// Waits for a manual sync of these Applications.
    Manual {
        /// The step, counted from 0.
        step: Option<usize>,
        /// The Applications.
        applications: Vec<String>,
    },
    /// The set is invalid.
    Invalid(String),
    /// It has steps, but is not rolled out in steps.
    Off(String),
}

impl Outcome {
    /// Whether only a person can continue the rollout.
    pub fn is_stuck(&self) -> bool {
        !matches!(self, Self::Running | Self::Complete)
    }
}

/// Whether Applications are OutOfSync by a comparison that may be older than the end of
/// their sync: a newer one may be about to say something else.
pub(in crate::cli) fn may_be_outdated(set: &Set) -> bool {
    let mut seen = set.members.values().filter_map(|member| member.seen.as_ref());
    seen.any(|seen| {
        seen.judged_at_once && seen.sync == SyncStatusCode::OutOfSync && !seen.has_failed()
    })
}

/// State of an Application that is not complete.
pub(super) enum MemberState {
    Moving,
    Failed(String),
    /// Has no free slot of `maxUpdate`.
    Queued,
    Manual,
}

/// Outcomes of all sets: running ones first, then failed ones.
pub(in crate::cli) fn of_fleet(fleet: &Fleet) -> Vec<(ObjectKey, Outcome)> {
    let known = fleet.sets.iter().filter(|(_, set)| !set.name.is_empty());
    known.map(|(key, set)| (key.clone(), of(set))).collect()
}

/// Outcome of a set.
pub(in crate::cli) fn of(set: &Set) -> Outcome {
    if let Some(error) = &set.error {
        return Outcome::Invalid(error.clone());
    }
    let mut invalid = None;
    if let Some((reason, message)) = &set.status.error
        && !RETRIED.contains(&reason.as_str())
    {
        // The other Applications are rolled out.
        let goes_on = reason == reason::APPLICATION_VALIDATION_ERROR;
        if !goes_on || !set.plan.rolling || set.status.open_step.is_none() {
            return Outcome::Invalid(message.clone());
        }
        invalid = Some(message);
    }
    if set.is_deleting {
        return Outcome::Running;
    }
    if let Some(why) = &set.status.off {
        return Outcome::Off(why.clone());
    }
    let step = match (set.plan.rolling, set.status.complete) {
        (true, false) => match set.status.open_step {
            Some(step) => Some(step),
            None => return Outcome::Running,
        },
        (true, true) => None,
        (false, _) => Some(0),
    };
    // A complete rollout does not include Applications that no step selects.
    let matters = |member: &Member| match step {
        Some(step) => member.step == Some(step),
        None => member.step.is_some(),
    };
    let unfinished: Vec<(&String, &Member)> =
        set.members.iter().filter(|(_, member)| matters(member) && !set.is_done(member)).collect();
    if unfinished.is_empty() {
        // Applications that were not created yet may be unknown.
        let all = set.plan.observed.is_none() || set.status.exists && set.status.is_up_to_date;
        let complete = if set.plan.rolling { set.status.complete } else { all };
        return if complete { Outcome::Complete } else { Outcome::Running };
    }
    // As the controller says: what is not in sync was so when its step was complete.
    if set.plan.rolling && set.status.complete {
        let moves = |member: &Member| member.seen.as_ref().is_none_or(AppView::is_operating);
        let is_over = !unfinished.iter().any(|(_, member)| moves(member));
        return if is_over { Outcome::Complete } else { Outcome::Running };
    }
    let (mut failed, mut manual) = (None, Vec::new());
    for (name, member) in &unfinished {
        match member_state(set, step, name, member) {
            // It may be the one that is invalid.
            MemberState::Moving if member.seen.is_none() && invalid.is_some() => {}
            MemberState::Moving => return Outcome::Running,
            MemberState::Failed(why) => failed = failed.or(Some(((*name).clone(), why))),
            MemberState::Queued => {}
            MemberState::Manual => manual.push((*name).clone()),
        }
    }
    let step = step.filter(|_| set.plan.rolling);
    match failed {
        Some((application, why)) => {
            let others = set.members.iter().filter(|(name, _)| **name != application);
            let behind = others.filter(|(name, member)| set.is_behind(step, name, member)).count();
            Outcome::Stopped { step, application, why, behind }
        }
        None if manual.is_empty() => match invalid {
            Some(message) => Outcome::Invalid(message.clone()),
            None => Outcome::Running,
        },
        None => Outcome::Manual { step, applications: manual },
    }
}

/// State of an Application of the open step, or of a set without steps.
pub(super) fn member_state(
    set: &Set,
    step: Option<usize>,
    name: &str,
    member: &Member,
) -> MemberState {
    let Some(seen) = &member.seen else {
        return match set.refused_for_good(name) {
            Some(why) => MemberState::Failed(why.to_owned()),
            None => MemberState::Moving,
        };
    };
    if seen.is_operating() && requires_confirmation(&seen.detail) {
        return MemberState::Failed(seen.detail.clone());
    }
    if seen.is_operating() || seen.is_deleting {
        return MemberState::Moving;
    }
    if let Some(held) = &member.held {
        let back = sync_commands(&[name], &set.namespace);
        return MemberState::Failed(format!("{held}; {}", taking_back(&back)));
    }
    if !set.plan.rolling {
        let by_hand = seen.compared && !seen.automated && seen.sync == SyncStatusCode::OutOfSync;
        return match seen {
            seen if seen.is_stuck() => MemberState::Failed(seen.detail.clone()),
            _ if by_hand => MemberState::Manual,
            seen if requires_pruning(&seen.detail) => MemberState::Failed(seen.detail.clone()),
            _ => MemberState::Moving,
        };
    }
    let limit = step.and_then(|step| set.plan.steps.get(step)?.limit);
    let taken = set.members.values().filter(|other| {
        other.step == step
            && matches!(other.phase, RolloutPhase::Pending | RolloutPhase::Progressing)
    });
    let reason = set.wait(name).map(|wait| wait.reason.as_str());
    let needed =
        reason.filter(|reason| seen.is_partial && Mark::says_that_a_sync_is_needed(reason));
    // Its sync has ended, and a rollout requests no other one for the same revision.
    let is_over = seen.judged_since || seen.operation == OperationPhase::Unknown;
    let stays_out_of_sync = is_over
        && !seen.automated
        && seen.sync == SyncStatusCode::OutOfSync
        && seen.health != HealthStatus::Progressing;
    let why_out_of_sync = || match seen.detail.as_str() {
        "" => reason.unwrap_or("it is OutOfSync after its sync").to_owned(),
        detail => detail.to_owned(),
    };
    match member.phase {
        RolloutPhase::Waiting | RolloutPhase::Healthy if seen.has_error => {
            MemberState::Failed(seen.detail.clone())
        }
        RolloutPhase::Waiting if limit == Some(0) => MemberState::Manual,
        RolloutPhase::Waiting if limit.is_some_and(|limit| taken.count() as u64 >= limit) => {
            MemberState::Queued
        }
        RolloutPhase::Progressing if seen.is_stuck() => MemberState::Failed(seen.detail.clone()),
        // A dry run is in the place of the sync that failed.
        RolloutPhase::Progressing if needed.is_some() => {
            MemberState::Failed(needed.unwrap_or_default().to_owned())
        }
        RolloutPhase::Progressing if stays_out_of_sync => MemberState::Failed(why_out_of_sync()),
        // It is Synced and Healthy, and waited for: only a sync of all of it says how it is.
        RolloutPhase::Progressing if seen.is_done() && seen.is_partial => {
            reason.map_or(MemberState::Moving, |reason| MemberState::Failed(reason.to_owned()))
        }
        RolloutPhase::Waiting
        | RolloutPhase::Pending
        | RolloutPhase::Progressing
        | RolloutPhase::Healthy
        | RolloutPhase::Unknown => MemberState::Moving,
    }
}
