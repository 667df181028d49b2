//! A RolloutRun as stored.

use serde_json::Value;

use crate::application_set::is_owned;
use crate::rollout::left_out::LeftOut;
use crate::rollout::report::ApplicationReport;
use crate::rollout::run::holds_target;
pub use crate::rollout::run::number_of;
use wavegate_api::annotations::{PAUSED, annotation_of};
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunGate, RunPhase};
use wavegate_api::{Raw, read_leniently};

/// A run, read as much as its fields have the right types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// What people said about it.
    pub spec: RolloutRunSpec,
    /// What the controller said about it.
    pub status: RolloutRunStatus,
    /// Whether a controller has written a status.
    pub is_known: bool,
    /// Whether its ApplicationSet is paused, as far as is known.
    pub is_paused: bool,
}

/// The current run of a set: the one with the highest number, ended or not.
pub fn current_run<'a, T: AsRef<Value>>(
    runs: impl IntoIterator<Item = &'a T>,
    set: &Value,
) -> Option<&'a T> {
    let owned = runs.into_iter().filter(|run| is_owned((*run).as_ref(), set));
    owned.max_by_key(|run| number_of((*run).as_ref().name()))
}

impl Run {
    /// Reads a run.
    pub fn read(run: &Value) -> Self {
        let stored = run.get("status").filter(|status| status.is_object());
        let status: RolloutRunStatus = stored.map(read_leniently).unwrap_or_default();
        Self {
            name: run.name().to_owned(),
            spec: read_leniently(run.spec()),
            is_known: stored.is_some(),
            is_paused: status.phase == RunPhase::Paused,
            status,
        }
    }

    /// The same of a run of this set.
    pub fn of(set: &Value, run: &Value) -> Self {
        let run = Self::read(run);
        Self { is_paused: run.is_paused || annotation_of(set, PAUSED).is_some(), ..run }
    }

    /// What its steps are complete without, as far as its status names it.
    pub fn left_out(&self) -> LeftOut {
        let status = &self.status;
        let failed = status.failures.iter().flat_map(|failure| &failure.applications);
        LeftOut {
            failed: failed.cloned().collect(),
            skipped: status.skipped.clone(),
            unhealthy_before: status.unhealthy_before.clone(),
            ..LeftOut::default()
        }
    }

    /// Why an Application is not waited for while the run goes on; `None` of any other one. What
    /// goes back leaves none out.
    pub fn goes_on_without(&self, name: &str) -> Option<String> {
        let has = |names: &[String]| names.iter().any(|one| one == name);
        let Self { name: run, status, .. } = self;
        match self.phase() {
            phase if phase.has_ended() || phase == RunPhase::RollingBack => None,
            _ if has(&status.skipped) => Some(format!("run {run} skips it")),
            _ if has(&status.unhealthy_before) => {
                Some(format!("it was not Healthy before run {run}, which goes on without it"))
            }
            _ => None,
        }
    }

    /// Its phase.
    pub fn phase(&self) -> RunPhase {
        self.status.phase
    }

    /// Whether it has ended, and neither a person nor failures have ended it.
    pub(super) fn has_completed(&self) -> bool {
        matches!(self.phase(), RunPhase::Complete | RunPhase::CompleteWithFailures)
    }

    /// How many Applications of it are not complete.
    pub fn left(&self) -> i64 {
        self.status.total.saturating_sub(self.status.done).max(0)
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> i64 {
        self.status.steps.iter().map(|step| step.in_flight).sum()
    }

    /// How many it has started at most: those of its steps that are complete, failed or in
    /// flight.
    pub fn started(&self) -> i64 {
        let of_steps = self.status.steps.iter().map(|step| {
            step.done.saturating_add(step.in_flight).saturating_add(step.failed).min(step.total)
        });
        of_steps.sum()
    }

    /// Why a word about it makes no sense yet or any more, when it has no status or is superseded
    /// and no other run follows yet.
    pub(super) fn is_not_current(&self) -> Option<String> {
        if !self.is_known {
            return Some(format!("run {} has no status yet: try again in a moment", self.name));
        }
        (self.phase() == RunPhase::Superseded).then(|| {
            let why = match self.status.message.as_str() {
                "" => String::new(),
                message => format!(" ({message})"),
            };
            format!("run {} is superseded{why}, and no other one has begun yet", self.name)
        })
    }
}

/// Whether the target of an Application is one that a run was ended for (ST-060): the spec with
/// which it was started last, and the revisions that it was compared with.
pub fn is_quarantined(run: &Run, name: &str, live: &ApplicationReport) -> bool {
    let Some(spec) = &live.started_spec else { return false };
    run.is_known && holds_target(&run.status.quarantine, name, spec, &live.observed.revisions)
}

/// Whether approvals of a gate are missing.
pub(super) fn lacks_approvals(gate: &RunGate) -> bool {
    gate.applications > 0 && gate.missing() > 0
}
