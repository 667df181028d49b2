//! A rollout ends when faults end and people have seen to what is left: complete, or with a
//! reason.

use wavegate::simulation::{End as Outcome, History};

use super::{Judge, Known};
use crate::app;
use crate::case::{App, Case, What};
use crate::track::Track;

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
        if message.is_empty() {
            return Err(format!("{left:?} are left, and nothing says why"));
        }
        Ok(())
    }
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
