//! The end of a run whose ApplicationSet has no rollout any more (ST-003): its strategy was
//! removed, or became `AllAtOnce`, and no step of it opens again.

use jiff::Timestamp;

use super::RunDecision;
use super::timeline::{self, Transition};
use crate::rollout::run_input::RunInput;
use wavegate_api::Time;
use wavegate_api::run::{RolloutRunStatus, RunPhase};
use wavegate_api::time::stored_time;

/// Ends the latest run, if it has not ended and can be read. It is superseded and not aborted: its
/// targets may be started again when the set has steps again. Those in quarantine stay there.
pub fn end_run(input: &RunInput<'_>, why: &str, now: Timestamp) -> Option<RunDecision> {
    let run = input.run.as_ref().filter(|_| input.records_runs)?;
    if run.status.phase.has_ended() || input.unreadable_run().is_some() {
        return None;
    }
    let mut status = run.status.clone();
    if status.started_at.is_none() {
        // It was created, and its status was not written.
        let before = input.history.last();
        let quarantine = before.map(|before| before.quarantine.clone()).unwrap_or_default();
        let started_at = Some(Time(stored_time(now)));
        status = RolloutRunStatus { started_at, quarantine, ..RolloutRunStatus::default() };
    }
    why.clone_into(&mut status.message);
    status.phase = RunPhase::Superseded;
    status.ended_at = Some(Time(stored_time(now)));
    status.estimate = None;
    status.waiting_for.clear();
    let what = RunPhase::Superseded.as_str();
    timeline::add(
        &mut status,
        Transition { what, message: why.to_owned(), ..Transition::default() },
        now,
    );
    Some(RunDecision {
        name: run.name.to_owned(),
        news: status.timeline.last().cloned().into_iter().collect(),
        new: None,
        status,
        is_urgent: true,
        is_of_shares: false,
        must_be_stored: false,
        superseded: None,
        terminates: Vec::new(),
        late: Vec::new(),
    })
}
