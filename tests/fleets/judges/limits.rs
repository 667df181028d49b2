//! No step has more Applications in flight than its `maxUpdate` permits, and no policy more than
//! its `maxInFlight` (AS-341, ST-030).

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::{App, What};
use crate::track::{Moment, Tracked, begun};
use crate::world::Changed;

pub struct Limits;

impl Judge for Limits {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        let begun = begun(moments).filter(|begun| begun.is_by_rollout && known.has_begun);
        let Some(begun) = begun else { return Ok(()) };
        let Some(app) = known.case.app(&changed.key.name) else { return Ok(()) };
        let running = |of: &App| {
            let tracked = known.track.apps.get(&of.name);
            // One that was taken out of the set does not count, nor one that is left out of the
            // run (AS-344, ST-064).
            !known.case.is_removed(&of.name)
                && !known.case.has(|what| *what == What::Skip(of.name.clone()))
                && tracked.is_some_and(|tracked| is_running(known, tracked, begun.goes_back))
        };
        let of_step: Vec<&App> = known.case.step(app.set, app.step).collect();
        let limit = known.case.sets[app.set].steps[app.step].of(of_step.len());
        let names: Vec<&str> =
            of_step.iter().filter(|one| running(one)).map(|one| &*one.name).collect();
        if names.len() > limit {
            let step = app.step + 1;
            return Err(format!("step {step} permits {limit} at once; in flight: {names:?}"));
        }
        let Some(limit) = known.case.policy.max_in_flight else { return Ok(()) };
        // Of all sets: each that is started and not Healthy, or has an operation, whoever asked for it.
        let is_in_flight = |of: &&App| {
            let is_busy =
                known.track.apps.get(&of.name).is_some_and(|tracked| app::is_busy(&tracked.object));
            is_busy || running(of) && !has_ended(known, of)
        };
        let in_flight: Vec<&str> =
            known.case.apps.iter().filter(is_in_flight).map(|one| &*one.name).collect();
        if in_flight.len() as u64 > limit {
            return Err(format!("the policy permits {limit} in flight; there are {in_flight:?}"));
        }
        Ok(())
    }
}

/// Whether a start by the rollout is not complete. A failure gives its slot back within a budget,
/// and when the run goes back (ST-042, ST-061).
fn is_running(known: &Known<'_>, tracked: &Tracked, goes_back: bool) -> bool {
    let object = &tracked.object;
    let has_failed =
        matches!(app::phase(object), "Failed" | "Error") || app::health(object) == "Degraded";
    // One that was never Healthy before cannot go back, and holds none that can.
    let cannot_go_back = tracked.done.is_empty();
    let is_excused = match goes_back {
        true => has_failed || cannot_go_back,
        false => known.case.policy.failures.is_some() && has_failed,
    };
    tracked.running.is_some() && (app::is_busy(object) || !is_excused)
}

/// Whether the run of its set was aborted or goes back: then only operations count.
fn has_ended(known: &Known<'_>, app: &App) -> bool {
    let phase = known.run_phase(known.case.sets[app.set].name);
    matches!(phase, "Aborted" | "RollingBack" | "RolledBack")
}
