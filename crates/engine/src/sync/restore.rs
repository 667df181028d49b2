//! The state of an operation after a restart, when the server has dropped `Progress` and our
//! fields of the results: what follows from the rest, and otherwise what waits longer.

use super::engine::Engine;
use super::messages;
use super::plan::SyncPlan;
use super::task::Task;
use wavegate_api::Raw;
use wavegate_api::operation::{OperationPhase, ResultCode, SyncPhase};

impl Engine<'_> {
    pub(super) fn restore(&mut self) {
        let refused = self.results.iter().any(|result| {
            result.sync_phase != SyncPhase::SyncFail
                && result.status == ResultCode::SyncFailed
                && result.hook_phase == OperationPhase::Failed
        });
        if refused {
            self.progress.failure.get_or_insert_with(|| messages::FAILED_TO_APPLY.to_owned());
        }
        let mut begun = false;
        for at in 0..self.tasks.len() {
            let task = &self.tasks[at];
            let Some(index) = self.index.get(&task.key).filter(|_| task.is_running()) else {
                continue;
            };
            let result = &mut self.results[*index];
            if result.since.is_none() {
                let view = task.live_view().filter(|_| task.hook && task.is_created());
                let created = view.and_then(|view| view.time("/metadata/creationTimestamp"));
                result.since = Some(created.unwrap_or(self.now));
                begun = true;
            }
        }
        let delay = self.snapshot.settings.wave_delay;
        if begun && !self.pending().is_empty() {
            self.progress.delay_until = self.now.checked_add(delay).ok();
        }
        let prunes = self.tasks.iter().filter(|task| task.is_prune());
        let waves = prunes.map(|task| (task.key.resource.to_string(), task.wave));
        self.progress.prune_waves = waves.collect();
        self.progress.dry_run_done = true;
    }

    /// An operation whose last wave had run ends as it would have (SE-242).
    pub(super) fn resume_end(&mut self) -> Option<SyncPlan> {
        let failed = self.tasks.iter().any(|task| !task.is_sync_fail() && task.has_failed());
        if failed || !self.pending().is_empty() {
            return None;
        }
        let ran = |task: &&Task<'_>| !task.is_sync_fail() && !task.is_pending();
        let last = self.tasks.iter().rfind(ran)?.slot();
        let wave =
            (0..self.tasks.len()).filter(|at| self.tasks[*at].slot() == last).collect::<Vec<_>>();
        self.all_run(&wave)
    }
}
