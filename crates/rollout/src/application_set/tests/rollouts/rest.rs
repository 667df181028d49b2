//! What a rollout does when people stop and nothing fails any more: it ends, or waits for
//! something that has a name, and that is really so.

use super::guards::ended;
use super::world::World;
use crate::application_set::decision::Decision;
use crate::rollout::wait::{RolloutWait, WaitKind};
use wavegate_api::run::RunPhase;

/// What the last decision says that a rollout waits for.
#[derive(Debug, Default)]
pub struct Waits {
    open_step: Option<usize>,
    kinds: Vec<WaitKind>,
    first: Vec<RolloutWait>,
    phase: Option<RunPhase>,
}

impl World {
    /// Remembers what a decision waits for.
    pub fn remember_waits(&mut self, decision: &Decision) {
        let phase = self.current(decision).map(|run| run.status.phase);
        self.waits = decision.rollout.as_ref().map(|plan| Waits {
            open_step: plan.open_step,
            kinds: plan.counts.waits.keys().copied().collect(),
            first: plan.waiting.clone(),
            phase,
        });
    }

    /// Lets the cluster go on by itself until nothing happens any more, and checks that what is
    /// left has a reason.
    pub fn rest(&mut self) {
        if let Some(model) = &mut self.model {
            model.is_held = false;
        }
        self.queued = true;
        let (mut quiet, mut before) = (0, self.cluster.writes);
        for _ in 0..900 {
            let moved = self.advance_all();
            self.queued |= moved;
            self.cluster.wait(300);
            if self.queued || self.wake.is_some_and(|at| at <= self.cluster.now) {
                self.reconcile();
            } else if !moved {
                let Some(wake) = self.wake else { break };
                self.cluster.now = wake.max(self.cluster.now);
                quiet += 1;
            }
            if moved || self.cluster.writes != before {
                (quiet, before) = (0, self.cluster.writes);
            }
            // Soaks and deadlines are over then.
            if quiet >= 12 {
                break;
            }
        }
        assert!(quiet >= 12 || self.wake.is_none(), "it never comes to rest: {}", self.state());
        if self.is_decided && self.is_fresh() {
            self.check_rest();
        }
    }

    fn check_rest(&self) {
        let Some(waits) = &self.waits else { return };
        let has_ended = waits.phase.is_none_or(RunPhase::has_ended);
        if waits.open_step.is_none() && waits.first.is_empty() {
            assert!(has_ended, "a run goes on without waiting for anything: {}", self.state());
            return;
        }
        let is_named = waits.first.iter().all(|wait| !wait.message.is_empty());
        assert!(is_named && !waits.first.is_empty(), "it waits in silence: {}", self.state());
        let is_so = waits.kinds.iter().any(|kind| self.is_so(*kind));
        assert!(is_so, "nothing is the reason for {:?}: {}", waits.kinds, self.state());
    }

    /// Whether a wait of this kind keeps a rollout from going on, for ever if nobody acts.
    fn is_so(&self, kind: WaitKind) -> bool {
        let Some(model) = &self.model else { return true };
        let run = model.runs.last();
        let gates = || model.policies.iter().flat_map(|policy| &policy.gates);
        let live = || self.memory.cache.values();
        let phase_is =
            |phases: &[RunPhase]| run.is_some_and(|run| phases.contains(&run.status.phase));
        match kind {
            WaitKind::Paused => {
                self.set.paused.is_some() || model.policies.iter().any(|policy| policy.paused)
            }
            WaitKind::Approval => gates().any(|gate| gate.approvals > 0),
            // All earlier ones have to be Healthy now, not only once.
            WaitKind::Soak => {
                gates().any(|gate| !gate.soak.is_empty())
                    && live().any(|live| live["status"]["health"]["status"] != "Healthy")
            }
            WaitKind::FailureBudget => self.budgets().count() > 0 && phase_is(&[RunPhase::Held]),
            WaitKind::Quarantined | WaitKind::HeldBack => {
                run.is_some_and(|run| !run.status.quarantine.is_empty())
            }
            WaitKind::Skipped => run.is_some_and(|run| !run.spec.skip.is_empty()),
            WaitKind::RollingBack | WaitKind::RollbackFailed => phase_is(&[RunPhase::RollingBack]),
            WaitKind::HeldByPerson => {
                let mut entries = self.set.status.entries.iter().flatten();
                entries.any(|entry| entry.is_held())
            }
            WaitKind::MaxInFlight => model.elsewhere > 0,
            WaitKind::ManualSync => {
                (0..self.spec.steps.len()).any(|step| self.spec.allowed(step) == Some(0))
            }
            WaitKind::FailedOperation => {
                live().any(|live| matches!(ended(live), "Failed" | "Error"))
            }
            WaitKind::Degraded => {
                live().any(|live| live["status"]["health"]["status"] == "Degraded")
            }
            WaitKind::Deadline => {
                let failures = model.policies.iter().filter_map(|policy| policy.failures.as_ref());
                failures.map(|rule| &rule.deadline).any(|deadline| !deadline.is_empty())
            }
            WaitKind::Creating
            | WaitKind::FailedWrite
            | WaitKind::Refused
            | WaitKind::Invalid
            | WaitKind::Comparison
            | WaitKind::ErrorCondition
            | WaitKind::OutOfSync
            | WaitKind::Health => true,
            // Others of the step have to end first, or its own turn has come.
            _ => false,
        }
    }
}
