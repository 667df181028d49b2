//! Whether a rollout is over, and how: decided by what is seen, not by time.

use super::app_view::AppView;
use super::fleet::{Fleet, Member, Set};
use crate::api::SyncStatusCode;
use crate::api::application_set::RolloutPhase;
use crate::api::conditions::application_set::reason;

/// Errors that a controller tries again by itself.
const TRANSIENT: [&str; 3] = [
    reason::CREATE_APPLICATION_ERROR,
    reason::UPDATE_APPLICATION_ERROR,
    reason::DELETE_APPLICATION_ERROR,
];

/// How a set stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Something is under way.
    Running,
    /// All that was asked for works.
    Complete,
    /// An Application failed, and nothing will move until somebody acts.
    Stopped {
        /// The step, from 0.
        step: Option<usize>,
        /// The Application that failed.
        application: String,
        /// The resource and what is wrong with it, or what the sync said.
        why: String,
        /// How many others wait behind it, in its step and in later ones.
        behind: usize,
    },
    /// It waits for somebody to sync these by hand.
    Manual {
        /// The step, from 0.
        step: Option<usize>,
        /// The Applications.
        applications: Vec<String>,
    },
    /// The set itself cannot be carried out.
    Invalid(String),
}

/// What one Application that is not done is doing.
enum Standing {
    Moving,
    Failed(String),
    /// It has no place until another one is done.
    Queued,
    Manual,
}

/// How all sets stand: what is running first, then what went wrong.
pub(super) fn of_fleet(fleet: &Fleet) -> Vec<(String, Outcome)> {
    fleet.known().map(|set| (set.name.clone(), of(set))).collect()
}

/// How a set stands.
pub(super) fn of(set: &Set) -> Outcome {
    if let Some(mistake) = &set.mistake {
        return Outcome::Invalid(mistake.clone());
    }
    if let Some((reason, message)) = &set.status.error
        && !TRANSIENT.contains(&reason.as_str())
    {
        return Outcome::Invalid(message.clone());
    }
    let step = match (set.plan.rolling, set.status.complete) {
        (true, false) => match set.status.open_step {
            Some(step) => Some(step),
            None => return Outcome::Running,
        },
        (true, true) => None,
        (false, _) => Some(0),
    };
    // A complete rollout says nothing of Applications that no step selects.
    let matters = |member: &Member| match step {
        Some(step) => member.step == Some(step),
        None => member.step.is_some(),
    };
    let unfinished: Vec<(&String, &Member)> =
        set.members.iter().filter(|(_, member)| matters(member) && !set.is_done(member)).collect();
    if unfinished.is_empty() {
        let complete = !set.plan.rolling || set.status.complete;
        return if complete { Outcome::Complete } else { Outcome::Running };
    }
    let (mut failed, mut manual) = (None, Vec::new());
    for (name, member) in &unfinished {
        match standing(set, step, member) {
            Standing::Moving => return Outcome::Running,
            Standing::Failed(why) => failed = failed.or(Some(((*name).clone(), why))),
            Standing::Queued => {}
            Standing::Manual => manual.push((*name).clone()),
        }
    }
    let step = step.filter(|_| set.plan.rolling);
    match failed {
        Some((application, why)) => {
            let behind = set.members.values().filter(|member| is_behind(set, step, member)).count();
            Outcome::Stopped { step, application, why, behind }
        }
        None if manual.is_empty() => Outcome::Running,
        None => Outcome::Manual { step, applications: manual },
    }
}

fn is_behind(set: &Set, step: Option<usize>, member: &Member) -> bool {
    let later = set.plan.rolling && member.step.is_some() && member.step >= step;
    later && !set.is_done(member) && !member.seen.as_ref().is_some_and(AppView::is_stuck)
}

fn standing(set: &Set, step: Option<usize>, member: &Member) -> Standing {
    let Some(seen) = &member.seen else { return Standing::Moving };
    if seen.is_operating() {
        return Standing::Moving;
    }
    if !set.plan.rolling {
        let by_hand = seen.compared && !seen.automated && seen.sync == SyncStatusCode::OutOfSync;
        return match seen {
            seen if seen.is_stuck() => Standing::Failed(seen.detail.clone()),
            _ if by_hand => Standing::Manual,
            _ => Standing::Moving,
        };
    }
    let limit = step.and_then(|step| set.plan.steps.get(step)?.limit);
    let taken = set.members.values().filter(|other| {
        other.step == step
            && matches!(other.phase, RolloutPhase::Pending | RolloutPhase::Progressing)
    });
    match member.phase {
        RolloutPhase::Waiting if seen.trouble => Standing::Failed(seen.detail.clone()),
        RolloutPhase::Waiting if limit == Some(0) => Standing::Manual,
        RolloutPhase::Waiting if limit.is_some_and(|limit| taken.count() as u64 >= limit) => {
            Standing::Queued
        }
        RolloutPhase::Progressing if seen.is_stuck() => Standing::Failed(seen.detail.clone()),
        RolloutPhase::Waiting
        | RolloutPhase::Pending
        | RolloutPhase::Progressing
        | RolloutPhase::Healthy
        | RolloutPhase::Unknown => Standing::Moving,
    }
}
