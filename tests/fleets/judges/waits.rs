//! While a rollout is not complete and nothing changes, its set says what it waits for, and that
//! is true; so do the operations of Applications. One that is complete without Applications that
//! failed or are skipped does not count them as done.

use std::time::Duration;

use jiff::Timestamp;
use kube_sim::Exchange;
use serde_json::Value;

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::{Case, What};
use crate::world::{Changed, Kind};

/// After this time without faults and changes, the status is up to date: writes that failed are
/// tried again after pauses of up to five minutes and a quarter more.
const SETTLED: Duration = Duration::from_secs(400);

#[derive(Default)]
pub struct Waits {
    /// When something other than the status of a set changed last.
    changed_at: Option<Timestamp>,
    said_at: Option<Timestamp>,
}

impl Judge for Waits {
    fn change(&mut self, _: &Known<'_>, changed: &Changed, _: &[super::Moment]) -> Verdict {
        let matters =
            !matches!(changed.key.kind, Kind::Set | Kind::Run | Kind::Policy | Kind::Other);
        let is_spec = changed.before.as_ref().map(|before| &before["spec"])
            != changed.after.as_ref().map(|after| &after["spec"]);
        if matters || is_spec {
            self.changed_at = Some(changed.at);
        }
        Ok(())
    }

    fn request(&mut self, known: &Known<'_>, exchange: &Exchange, _: &[Changed]) -> Verdict {
        let Some(changed) = self.changed_at else { return Ok(()) };
        let quiet = |since: Timestamp| {
            Duration::try_from(exchange.answered.duration_since(since)).unwrap_or_default()
        };
        // Once for each quiet time.
        if quiet(changed) < SETTLED || self.said_at == Some(changed) || !known.is_quiet_for(SETTLED)
        {
            return Ok(());
        }
        self.said_at = Some(changed);
        known.world.all(Kind::Set).try_for_each(|(_, set)| check(known, set))
    }

    fn end(&mut self, known: &Known<'_>, _: &wavegate_simulation::History) -> Verdict {
        known.world.all(Kind::Set).try_for_each(|(_, set)| check(known, set))
    }
}

/// Checks what a set says.
fn check(known: &Known<'_>, set: &Value) -> Verdict {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let behind = behind(known, known.case, name);
    for app in &behind {
        let object = &known.track.apps[*app].object;
        let message = object["status"]["operationState"]["message"].as_str().unwrap_or_default();
        if app::phase(object) == "Running" && message.is_empty() {
            return Err(format!("the operation of {app} runs and does not say what it waits for"));
        }
    }
    let rollout = &set["status"]["rollout"];
    let waits = rollout["waitingFor"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = rollout["message"].as_str().unwrap_or_default();
    let error = set["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "ErrorOccurred" && condition["status"] == "True");
    // It is complete without what has failed within the budget, or was left out (ST-042, ST-064).
    let is_excused = |app: &&str| {
        let health = app::health(&known.track.apps[*app].object);
        known.case.policy.failures.is_some() && health == "Degraded"
            || known.case.has(|what| *what == What::Skip((*app).to_owned()))
    };
    if error {
        return Ok(());
    }
    if behind.iter().all(is_excused) {
        let progress = rollout["progress"].as_str().unwrap_or_default();
        let is_whole = progress.split_once('/').is_some_and(|(done, all)| done == all);
        // What was Healthy for its commit, and is not any more, was done.
        let last = Some(known.case.last_commit());
        let fails = |app: &&&str| known.case.app(app).is_some_and(|app| app.fails_at == last);
        return match behind.iter().find(fails).filter(|_| is_whole) {
            None => Ok(()),
            Some(app) => Err(format!("{name} goes on without {app} and says {progress} are done")),
        };
    }
    if said.is_empty() || waits.is_empty() {
        return Err(format!("{name} waits for {behind:?} and says {rollout}"));
    }
    for wait in waits {
        let text = |field: &str| wait[field].as_str().unwrap_or_default();
        if text("kind").is_empty() || text("message").is_empty() && text("reason").is_empty() {
            return Err(format!("{name} waits without a reason: {wait}"));
        }
        let app = text("application");
        if known.track.apps.get(app).is_some_and(|tracked| !is_behind(&tracked.object)) {
            return Err(format!("{name} waits for {app}, which is complete: {wait}"));
        }
    }
    Ok(())
}

/// The Applications of a set in a step that are not Healthy with what they were compared with.
fn behind<'a>(known: &Known<'_>, case: &'a Case, set: &str) -> Vec<&'a str> {
    let of_set = case.apps.iter().filter(|app| case.sets[app.set].name == set);
    let names = of_set.map(|app| &*app.name);
    let is_it =
        |name: &&str| known.track.apps.get(*name).is_some_and(|tracked| is_behind(&tracked.object));
    names.filter(|name| !case.is_removed(name)).filter(is_it).collect()
}

fn is_behind(object: &Value) -> bool {
    app::is_busy(object)
        || object["status"]["sync"]["status"] != "Synced"
        || app::health(object) != "Healthy"
}
