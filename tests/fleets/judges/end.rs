//! A rollout ends when faults end and people have seen to what is left: complete, or with a
//! reason.

use wavegate_simulation::{History, SpanEnd as Outcome};

use serde_json::Value;

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::{App, Case};
use crate::track::Track;
use crate::world::Kind;

pub struct End;

impl Judge for End {
    fn end(&mut self, known: &Known<'_>, history: &History) -> Verdict {
        let case = known.case;
        let last = case.last_commit();
        let message = match &history.outcome {
            Outcome::Complete => "",
            Outcome::Ended { message } | Outcome::Stuck { message } => message,
            Outcome::TimeIsOver { message } => {
                return Err(format!("the rollout goes on and on: {message}"));
            }
        };
        let left = left(case, known.track);
        let has_no_reason = |name: &&&str| case.app(name).is_none_or(|app| !has_reason(known, app));
        let unreached: Vec<&&str> = left.iter().filter(has_no_reason).collect();
        if !unreached.is_empty() {
            return Err(format!("commit {last} never reaches {unreached:?}: {message}"));
        }
        let sets: Vec<&Value> = known.world.all(Kind::Set).map(|(_, set)| &**set).collect();
        let unsaid: Vec<&&str> = left.iter().filter(|app| !is_said(&sets, app)).collect();
        if message.is_empty() && !unsaid.is_empty() {
            return Err(format!("{unsaid:?} are left, and nothing says why"));
        }
        Ok(())
    }
}

/// Whether there is a reason that an Application is left: its commit does not work, people have
/// left it out or ended its run, or it stands behind one whose commit does not work.
fn has_reason(known: &Known<'_>, app: &App) -> bool {
    let case = known.case;
    if case.is_removed(&app.name) {
        return false;
    }
    let phase = known.run_phase(case.sets[app.set].name);
    let is_ended = matches!(phase, "Aborted" | "RollingBack" | "RolledBack");
    if fails(case, app) || is_skipped(known, app) || is_ended {
        return true;
    }
    // What fails within a budget holds nothing up (ST-042).
    let blocks = |set: usize| {
        let failed: Vec<&App> = case
            .apps
            .iter()
            .filter(|one| one.set == set && fails(case, one))
            .filter(|one| !case.is_removed(&one.name) && !is_skipped(known, one))
            .collect();
        let is_excused = case.policy.failures.is_some_and(|max| failed.len() as u64 <= max);
        if is_excused { Vec::new() } else { failed }
    };
    let failed = blocks(app.set);
    let is_held = case.policy.failures.is_some() && !failed.is_empty();
    let is_behind = failed.iter().any(|one| one.step < app.step);
    let of_step = case.step(app.set, app.step).filter(|one| !case.is_removed(&one.name)).count();
    let limit = case.sets[app.set].steps[app.step].of(of_step);
    let in_step = failed.iter().filter(|one| one.step == app.step).count();
    let of_all: usize = (0..case.sets.len()).map(|set| blocks(set).len()).sum();
    let is_full = case.policy.max_in_flight.is_some_and(|max| of_all as u64 >= max);
    is_held || is_behind || in_step >= limit || is_full
}

fn fails(case: &Case, app: &App) -> bool {
    app.fails_at == Some(case.last_commit())
}

/// Whether the newest run of its set leaves it out.
fn is_skipped(known: &Known<'_>, app: &App) -> bool {
    let run = known.run(known.case.sets[app.set].name);
    let skipped = run.and_then(|run| run["spec"]["skip"].as_array());
    skipped.is_some_and(|names| names.iter().any(|name| *name == *app.name))
}

/// Whether a set, which may be complete, says that it does without an Application.
fn is_said(sets: &[&Value], app: &str) -> bool {
    let waits = sets.iter().filter_map(|set| set["status"]["rollout"]["waitingFor"].as_array());
    waits.flatten().any(|wait| wait["application"] == app)
}

/// The Applications that are not Healthy with the last commit, or still there.
pub fn left<'a>(case: &'a Case, track: &Track) -> Vec<&'a str> {
    let is_left = |app: &&App| {
        let known = track.apps.get(&app.name);
        match case.is_removed(&app.name) {
            true => known.is_some(),
            false => {
                let done = known.and_then(|tracked| app::done(&tracked.object));
                done != Some(case.last_commit())
            }
        }
    };
    case.apps.iter().filter(is_left).map(|app| &*app.name).collect()
}
