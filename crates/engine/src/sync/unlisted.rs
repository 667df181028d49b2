//! Results that are left out of a status which would be too large for the API server (SE-597).
//!
//! Of the resources that were applied, the first ones are left out. The row of the next one says
//! how many there are, with a digest of which: after a restart, the engine knows from it and from
//! the order of the tasks what has been applied. When the digest does not fit, since the tasks
//! have changed, nothing is assumed, and they are applied again. Hooks and failures are always
//! listed, and a pruned object that is gone is no task any more.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::engine::Engine;
use super::plan::{SyncProgress, TaskKey, Unlisted};
use super::task::Task;
use crate::json_size::json_bytes;
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode, SyncPhase};
use wavegate_api::read_leniently;

/// Between the number of resources and their digest.
const WORDS: &str = " applied resources before it are not listed (";

/// Bytes that the message about what is left out takes.
const STATEMENT: usize = 120;

/// Leaves out results until that many bytes are saved, or no more can be: applied resources
/// first, then those that were kept or pruned. The stored results are in the order of the first
/// result. Returns the number of results that are left out.
pub fn leave_out(rows: &mut Vec<Value>, bytes: usize) -> usize {
    let before = rows.len();
    let read: Vec<ResourceResult> = rows.iter().map(read_leniently).collect();
    let mut left = BTreeSet::new();
    let mut saved = 0;
    let applied: Vec<usize> = (0..rows.len()).filter(|at| is_applied(&read[*at])).collect();
    let mut statement = None;
    for pair in applied.windows(2) {
        let [at, next] = *pair else { break };
        if saved >= bytes.saturating_add(STATEMENT) {
            break;
        }
        saved += json_bytes(&rows[at]) + 1;
        left.insert(at);
        statement = Some(next);
    }
    if let Some(next) = statement {
        let mut keys: Vec<TaskKey> = left.iter().map(|at| TaskKey::of(&read[*at])).collect();
        let (count, digest) = (keys.len(), digest(&mut keys));
        let message = &read[next].message;
        rows[next]["message"] = format!("{message}; {count}{WORDS}{digest})").into();
        saved = saved.saturating_sub(STATEMENT);
    }
    for code in [ResultCode::PruneSkipped, ResultCode::Pruned] {
        let done = |row: &ResourceResult| {
            row.status == code && row.hook_phase == OperationPhase::Succeeded
        };
        // The first prune stays: that it is gone says that the waves of others were planned with it.
        let first = usize::from(code == ResultCode::Pruned);
        for at in (0..rows.len()).filter(|at| done(&read[*at])).skip(first) {
            if saved >= bytes {
                break;
            }
            saved += json_bytes(&rows[at]) + 1;
            left.insert(at);
        }
    }
    let mut at = 0;
    rows.retain(|_| {
        at += 1;
        !left.contains(&(at - 1))
    });
    before - rows.len()
}

/// Takes the statement about what is left out from stored results.
pub fn take_unlisted(results: &mut [ResourceResult], progress: &mut SyncProgress) {
    for row in results.iter_mut().filter(|row| is_applied(row)) {
        let Some((own, rest)) = row.message.split_once(WORDS) else { continue };
        let own = own.rsplit_once("; ").map_or("", |(own, _)| own).to_owned();
        let digest = rest.trim_end_matches(')').to_owned();
        row.message = own;
        progress.unlisted = Some(Unlisted { before: TaskKey::of(row), digest });
        return;
    }
}

/// Whether it is the result of a resource that was applied; of a hook, never.
fn is_applied(row: &ResourceResult) -> bool {
    row.hook_type.is_empty()
        && row.sync_phase == SyncPhase::Sync
        && row.status == ResultCode::Synced
        && matches!(row.hook_phase, OperationPhase::Running | OperationPhase::Succeeded)
}

/// A digest of tasks, in any order.
fn digest(keys: &mut [TaskKey]) -> String {
    keys.sort();
    let mut hasher = DefaultHasher::new();
    for TaskKey { phase, resource } in keys {
        (phase.as_str(), resource).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

impl Engine<'_> {
    /// Adds the results that the stored status does not list.
    pub(super) fn add_unlisted(&mut self) {
        let Some(Unlisted { before, digest: wanted }) = self.progress.unlisted.take() else {
            return;
        };
        let Some(end) = self.tasks.iter().position(|task| task.key == before) else { return };
        let is_applied = |task: &Task<'_>| task.is_pending() && !task.hook && task.target.is_some();
        let of_sync = |task: &Task<'_>| task.key.phase == SyncPhase::Sync && is_applied(task);
        let applied: Vec<usize> = (0..end).filter(|at| of_sync(&self.tasks[*at])).collect();
        let mut keys: Vec<TaskKey> = applied.iter().map(|at| self.tasks[*at].key.clone()).collect();
        if digest(&mut keys) != wanted {
            return;
        }
        // A wave begins when all before it are complete.
        let begun = self.tasks.iter().filter(|task| !task.is_sync_fail() && !task.is_pending());
        let newest = begun.map(Task::slot).max();
        for at in applied {
            let phase = match newest.is_some_and(|newest| self.tasks[at].slot() < newest) {
                true => OperationPhase::Succeeded,
                false => OperationPhase::Running,
            };
            self.set(at, Some(ResultCode::Synced), phase, "applied");
        }
    }
}
