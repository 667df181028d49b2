//! Pruning: what is deleted, what is protected, and the order.
//!
//! Deletion runs through the waves in reverse: what was applied last is deleted
//! first, so that nothing loses its dependencies (SE-210..SE-212).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::hooks::{self, ObjectClass};
use super::messages;
use super::options::{AppOptions, Prune, ResourceOptions};
use super::order::{self, Placed, Slot};
use super::plan::{TaskKey, Verb};
use super::snapshot::{Handover, SyncSnapshot};
use super::task::Task;
use wavegate_api::annotations::sync_wave;
use wavegate_api::operation::{ResultCode, SyncPhase};

/// The new wave of each wave with prune tasks: the sorted waves are mirrored,
/// first with last and so on (SE-210).
pub(super) fn mirror(waves: impl IntoIterator<Item = i64>) -> BTreeMap<i64, i64> {
    let waves: BTreeSet<i64> = waves.into_iter().collect();
    waves.iter().copied().zip(waves.iter().rev().copied()).collect()
}

/// Assigns waves to prune tasks. `tasks` contains every task of the operation;
/// those of other phases and kinds only matter for `PruneLast` (SE-211).
pub(super) fn assign_waves(tasks: &mut [Task<'_>], app: &AppOptions) {
    let mirrored = mirror(tasks.iter().filter(|task| task.is_prune()).map(|task| task.wave));
    for task in tasks.iter_mut().filter(|task| task.is_prune()) {
        task.wave = mirrored.get(&task.wave).copied().unwrap_or(task.wave);
    }
    let in_sync = tasks.iter().filter(|task| task.key.phase == SyncPhase::Sync);
    let last = in_sync.map(|task| task.wave).max().unwrap_or(0).max(0).saturating_add(1);
    for task in tasks.iter_mut().filter(|task| task.is_prune()) {
        let on_object = task.live.is_some_and(|live| ResourceOptions::of(&live.object).prune_last);
        if app.prune_last || on_object {
            task.wave = last;
        }
    }
}

/// Moves prune tasks behind all others if some objects were pruned already, with or without a
/// result: the waves were planned with those, so that the waves of the remaining ones would be
/// too early (SE-210). `tasks` are those of existing objects and of targets.
pub(super) fn prune_later(snapshot: &SyncSnapshot, tasks: &mut [Task<'_>]) {
    let pruned = snapshot.results.iter().filter(|result| result.status == ResultCode::Pruned);
    let announced = snapshot.progress.in_flight.iter().filter(|a| a.verb == Verb::Prune);
    let mut pruned = pruned.map(TaskKey::of).chain(announced.map(|action| action.task.clone()));
    if !pruned.any(|key| tasks.iter().all(|task| task.key != key)) {
        return;
    }
    let applied = tasks.iter().filter(|task| !task.is_prune() && task.key.phase == SyncPhase::Sync);
    let last = applied.map(|task| task.wave).max();
    let first = tasks.iter().filter(|task| task.is_prune()).map(|task| task.wave).min();
    let (Some(last), Some(first)) = (last, first) else { return };
    let shift = last.saturating_add(1).saturating_sub(first).max(0);
    for task in tasks.iter_mut().filter(|task| task.is_prune()) {
        task.wave = task.wave.saturating_add(shift);
    }
}

/// What an operation does with an extraneous object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PruneDecision {
    Delete,
    /// Kept, with the message that states why (SE-252).
    Skip(String),
    /// Decided when other Applications have been compared.
    Await,
    /// Deleted once a user has confirmed it (SE-313).
    Confirm,
}

pub(super) fn decide(
    live: &Value,
    handover: Option<&Handover>,
    app: &AppOptions,
    prune: bool,
) -> PruneDecision {
    if let Some(Handover::Left(others)) = handover {
        return PruneDecision::Skip(messages::left_to(others));
    }
    if !prune {
        return PruneDecision::Skip("ignored (requires pruning)".to_owned());
    }
    match (ResourceOptions::of(live).prune.or(app.prune), handover) {
        (Some(Prune::False), _) => PruneDecision::Skip("ignored (no prune)".to_owned()),
        (_, Some(Handover::Undecided(_))) => PruneDecision::Await,
        (Some(Prune::Confirm), _) => PruneDecision::Confirm,
        (Some(Prune::True) | None, _) => PruneDecision::Delete,
    }
}

/// The order in which these objects are deleted when an Application is deleted:
/// waves mirrored, with `PruneLast`, without hooks (SE-191).
pub fn prune_order(manifests: &[Value]) -> Vec<Slot> {
    let gone: Vec<&Value> = order::last_of_each(manifests)
        .into_iter()
        .filter(|object| hooks::classify_hook(object) == ObjectClass::Resource)
        .collect();
    let mirrored = mirror(gone.iter().copied().map(sync_wave));
    let last = mirrored.keys().next_back().copied().unwrap_or(0).max(0).saturating_add(1);
    let placed = gone.into_iter().map(|object| {
        let wave = sync_wave(object);
        let wave = match ResourceOptions::of(object).prune_last {
            true => last,
            false => mirrored.get(&wave).copied().unwrap_or(wave),
        };
        Placed::new(order::slot(object, SyncPhase::Sync, wave, false), None, ())
    });
    order::arrange(placed.collect()).into_iter().map(|placed| placed.slot).collect()
}
