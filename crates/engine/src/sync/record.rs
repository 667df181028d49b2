//! Converts outcomes of actions to results; for an unknown outcome, the live
//! object is used.

use super::engine::Engine;
use super::messages;
use super::plan::{ActionResult, Verb};
use wavegate_api::Raw;
use wavegate_api::operation::{OperationPhase, ResultCode};

impl Engine<'_> {
    /// Converts outcomes to results; the result of an unknown outcome is
    /// derived from the live object.
    pub(super) fn record(&mut self) {
        for at in 0..self.tasks.len() {
            for verb in [Verb::CreateNamespace, Verb::Apply, Verb::CreateHook] {
                self.record_apply(at, verb);
            }
            self.record_prune(at);
            for (verb, what) in [
                (Verb::RemoveFinalizer, "remove hook finalizer"),
                (Verb::DeleteHook, "delete resource"),
            ] {
                match self.outcome(verb, at) {
                    Some(ActionResult::Failed(error)) => {
                        let pending = self.tasks[at].is_pending();
                        let message = format!("failed to {what}: {error}");
                        self.set(at, None, OperationPhase::Error, message);
                        if pending && self.progress.ending.is_none() {
                            self.ran.push(at);
                        }
                    }
                    Some(ActionResult::Unknown(why)) => self.lost.push((at, why)),
                    Some(
                        ActionResult::Done { .. } | ActionResult::Gone | ActionResult::Left(_),
                    )
                    | None => {}
                }
            }
            for verb in [Verb::DryRun, Verb::Read] {
                if let Some(ActionResult::Unknown(why)) = self.outcome(verb, at) {
                    self.lost.push((at, why));
                }
            }
            // Created by a reconcile that was interrupted before it was
            // recorded.
            let task = &self.tasks[at];
            let announced = self.in_flight.get(&task.key);
            let announced = announced.is_some_and(|a| a.verb == Verb::CreateNamespace);
            if task.is_pending()
                && (task.is_created() || announced)
                && let Some(view) = task.live_view()
            {
                let mut key = task.key.resource.clone();
                key.name = view.name().to_owned();
                let verb = if task.recreated { "replaced" } else { "created" };
                let is_created = task.is_created();
                let message = messages::as_by_kubectl(&key, verb);
                self.set(at, Some(ResultCode::Synced), OperationPhase::Running, message);
                self.note(at, view.uid(), view.resource_version());
                self.lost.retain(|(lost, _)| *lost != at);
                if is_created {
                    self.ran.push(at);
                }
            }
        }
        for task in self.tasks.iter().filter(|task| !task.is_pending()) {
            self.in_flight.remove(&task.key);
        }
    }

    fn record_apply(&mut self, at: usize, verb: Verb) {
        match self.outcome(verb, at) {
            Some(ActionResult::Done { message, uid, resource_version }) => {
                self.set(at, Some(ResultCode::Synced), OperationPhase::Running, message.as_str());
                self.note(at, uid, resource_version);
            }
            Some(ActionResult::Failed(error)) => {
                let message = messages::refusal(error);
                self.set(at, Some(ResultCode::SyncFailed), OperationPhase::Failed, message);
            }
            Some(ActionResult::Gone | ActionResult::Left(_)) => {
                let message = "the object was deleted while it was applied";
                self.set(at, Some(ResultCode::SyncFailed), OperationPhase::Failed, message);
            }
            Some(ActionResult::Unknown(why)) => return self.lost.push((at, why)),
            None => return,
        }
        if verb != Verb::CreateNamespace {
            self.ran.push(at);
        }
    }

    fn record_prune(&mut self, at: usize) {
        let task = &self.tasks[at];
        let uid = self.in_flight.get(&task.key).map(|action| action.uid.clone());
        let vanished = task.is_prune() && task.is_pending() && task.live.is_none();
        match self.outcome(Verb::Prune, at) {
            Some(ActionResult::Failed(error)) => {
                let message = messages::refusal(error);
                self.set(at, Some(ResultCode::SyncFailed), OperationPhase::Failed, message);
            }
            Some(ActionResult::Left(other)) => {
                let message = messages::left_to(other);
                self.set(at, Some(ResultCode::PruneSkipped), OperationPhase::Succeeded, message);
            }
            Some(ActionResult::Unknown(why)) if !vanished => return self.lost.push((at, why)),
            None if !vanished => return,
            _ => {
                self.set(at, Some(ResultCode::Pruned), OperationPhase::Succeeded, "pruned");
                self.note(at, &uid.unwrap_or_default(), "");
            }
        }
        self.ran.push(at);
    }
}
