//! State of an operation that survives a server without [`Progress`], whose definition of
//! Applications drops the field: actions in flight are results without a phase.

use std::collections::BTreeSet;

use super::messages;
use super::plan::{InFlight, SyncProgress, TaskKey, Verb};
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode};

/// The results to store: those of tasks, and one for each announced action without a result.
pub fn with_announced(results: &[ResourceResult], progress: &SyncProgress) -> Vec<ResourceResult> {
    let mut all = results.to_vec();
    if progress.in_flight.is_empty() {
        return all;
    }
    let mut known: BTreeSet<TaskKey> = results.iter().map(TaskKey::of).collect();
    for action in &progress.in_flight {
        if !known.insert(action.task.clone()) {
            continue;
        }
        all.push(ResourceResult {
            message: words(action.verb).to_owned(),
            uid: action.uid.clone(),
            ..action.task.result(&action.version)
        });
    }
    all
}

/// Takes announced actions out of stored results; `progress` gets those that it lacks.
pub fn take_announced(results: &mut Vec<ResourceResult>, progress: &mut SyncProgress) {
    let mut known: BTreeSet<TaskKey> =
        progress.in_flight.iter().map(|action| action.task.clone()).collect();
    results.retain(|result| {
        let Some(verb) = announced(result) else { return true };
        let task = TaskKey::of(result);
        if known.insert(task.clone()) {
            let (version, uid) = (result.version.clone(), result.uid.clone());
            progress.in_flight.push(InFlight { verb, task, wave: 0, version, uid });
        }
        false
    });
}

/// The action that a result announces; `None` for the result of a task.
fn announced(result: &ResourceResult) -> Option<Verb> {
    if result.hook_phase != OperationPhase::Unknown || result.status != ResultCode::Unknown {
        return None;
    }
    let verbs = [Verb::Prune, Verb::CreateNamespace, Verb::Apply];
    verbs.into_iter().find(|verb| result.message == words(*verb))
}

/// Only these actions are announced.
fn words(verb: Verb) -> &'static str {
    match verb {
        Verb::Prune => messages::ABOUT_TO_PRUNE,
        Verb::CreateNamespace => messages::ABOUT_TO_CREATE,
        _ => messages::ABOUT_TO_APPLY,
    }
}
