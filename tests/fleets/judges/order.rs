//! No Application of a step is started before those of earlier steps are Healthy with the same
//! change, or a newer one (AS-330).

use std::time::Duration;

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::{App, What};
use crate::track::{Begun, Moment, Tracked, begun};
use crate::world::{Changed, Kind};

pub struct Order;

/// After this time, the controllers know the commit with which an Application was compared.
const KNOWN: Duration = Duration::from_secs(5);
/// A request that is not picked up for this time counts as complete (AS-356).
const PROGRESSING_TIMEOUT: i64 = 295;

impl Judge for Order {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        let begun = begun(moments).filter(|begun| begun.is_by_rollout && !begun.goes_back);
        let (Some(begun), Some(app), true) =
            (begun, known.case.app(&changed.key.name), known.has_begun)
        else {
            return Ok(());
        };
        for earlier in (0..app.step).flat_map(|step| known.case.step(app.set, step)) {
            if let Some(why) = missing(known, &earlier.name, begun) {
                return Err(format!(
                    "{} of step {} is started with commit {} before {} of step {}: {why}",
                    app.name,
                    app.step + 1,
                    begun.commit,
                    earlier.name,
                    earlier.step + 1,
                ));
            }
        }
        Ok(())
    }
}

/// Why a later Application may not be started yet, if so.
fn missing(known: &Known<'_>, name: &str, begun: &Begun) -> Option<String> {
    // It was taken out of the set, or left out of the run.
    if known.case.is_removed(name) || is_skipped(known, name) {
        return None;
    }
    let Some(tracked) = known.track.apps.get(name) else {
        return Some("it does not exist".to_owned());
    };
    match is_excused(known, tracked) {
        Ok(true) => return None,
        Ok(false) => {}
        Err(too_many) => return Some(too_many),
    }
    if !tracked.done.iter().any(|done| *done >= begun.commit) {
        return Some(format!("it was Healthy with {:?} only", tracked.done));
    }
    let (newest, since) = tracked.compared_at?;
    let is_known = Duration::try_from(known.now.duration_since(since)).unwrap_or_default() > KNOWN;
    let is_behind = !tracked.done.contains(&newest) && newest > begun.commit;
    (is_behind && is_known && known.is_calm_for(Duration::from_secs(60)))
        .then(|| format!("it is behind commit {newest} since {since}"))
}

/// Whether a run leaves it out.
fn is_skipped(known: &Known<'_>, name: &str) -> bool {
    let is_named = known.case.has(|what| *what == What::Skip(name.to_owned()));
    is_named
        && known.world.all(Kind::Run).any(|(_, run)| {
            let skip = run["spec"]["skip"].as_array();
            skip.is_some_and(|names| names.iter().any(|one| one == name))
        })
}

/// Whether a step may go on without it: it has failed within the budget, or its
/// operation was not picked up in time.
///
/// # Errors
///
/// More have failed than the budget permits.
fn is_excused(known: &Known<'_>, tracked: &Tracked) -> Result<bool, String> {
    let object = &tracked.object;
    let is_late = tracked.begun.last().is_some_and(|begun| {
        object["operation"].is_object()
            && known.now.duration_since(begun.at).as_secs() >= PROGRESSING_TIMEOUT
    });
    if is_late {
        return Ok(true);
    }
    let (Some(max), Some(app)) = (
        known.case.policy.failures,
        known.case.app(object["metadata"]["name"].as_str().unwrap_or_default()),
    ) else {
        return Ok(false);
    };
    if !app::has_failed(object) {
        return Ok(false);
    }
    let failed = failures(known, app.set);
    // A run that has ended without some goes on as it ended.
    if failed.len() as u64 <= max
        || known.run_phase(known.case.sets[app.set].name) == "CompleteWithFailures"
    {
        return Ok(true);
    }
    Err(format!("{failed:?} have failed, and {max} may"))
}

/// The Applications of a set that have failed with what they were started for, as far as the
/// controllers know it.
fn failures<'a>(known: &Known<'a>, set: usize) -> Vec<&'a str> {
    let has_failed = |app: &&App| {
        let Some(tracked) = known.track.apps.get(&app.name) else { return false };
        let is_of_run = tracked.begun.last().is_some_and(|last| {
            last.is_by_rollout
                && !last.goes_back
                && app::compared(&tracked.object) == Some(last.commit)
        });
        let is_known =
            tracked.failed_since.is_some_and(|since| !known.is_unaware_of("applications", since));
        is_of_run && is_known && !known.case.is_removed(&app.name) && !is_skipped(known, &app.name)
    };
    let case = known.case;
    case.apps.iter().filter(|app| app.set == set).filter(has_failed).map(|app| &*app.name).collect()
}
