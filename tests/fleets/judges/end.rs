//! A rollout ends when faults end and people have seen to what is left: complete, or with a
//! reason.

use wavegate::simulation::{End as Outcome, History};

use serde_json::Value;

use super::{Judge, Known};
use crate::app;
use crate::case::{App, Case, What};
use crate::track::Track;
use crate::world::Kind;

pub struct End;

impl Judge for End {
    fn name(&self) -> &'static str {
        "end"
    }

    fn end(&mut self, known: &Known<'_>, history: &History) -> Result<(), String> {
        let case = known.case;
        let last = case.last_commit();
        let message = match &history.outcome {
            Outcome::Complete => "",
            Outcome::Ended { message } | Outcome::Stuck { message } => message,
            Outcome::TimeIsOver { message } => {
                return Err(format!("the rollout goes on and on: {message}"));
            }
        };
        // People may have ended it, and a commit may not work.
        let is_ended =
            case.has(|what| matches!(what, What::Abort | What::Rollback | What::Skip(_)));
        let fails = case.apps.iter().any(|app| app.fails_at == Some(last));
        let left = left(case, known.track);
        if left.is_empty() {
            return Ok(());
        }
        if !(fails || is_ended) {
            return Err(format!("commit {last} never reaches {left:?}: {message}"));
        }
        let sets: Vec<&Value> = known.world.all(Kind::Set).map(|(_, set)| &**set).collect();
        let unsaid: Vec<&&str> = left.iter().filter(|app| !is_said(&sets, app)).collect();
        if message.is_empty() && !unsaid.is_empty() {
            return Err(format!("{unsaid:?} are left, and nothing says why"));
        }
        Ok(())
    }
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
