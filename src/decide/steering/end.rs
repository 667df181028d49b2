//! Ending a run: aborting it (ST-060), and rolling it back (ST-061).

use serde_json::json;

use super::{Change, Person, Run, Verdict, applications};
use crate::api::Time;
use crate::api::steering::RunPhase;
use crate::api::time::of_word;

/// Ends a run: nothing more is promoted. With `terminate`, its running operations are ended.
pub fn abort(run: &Run, terminate: bool, person: Person<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let (name, status) = (&run.name, &run.status);
    let asked_abort = run.spec.abort.as_ref().map(|abort| &abort.at);
    let asked_rollback = run.spec.rollback.as_ref().map(|word| &word.at);
    let is_ended = match run.phase() {
        RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack => true,
        phase if phase.has_ended() => {
            let why = format!(
                "run {name} has ended ({phase}): there is nothing to abort; wavegate rollback takes \
                 it back"
            );
            return Verdict::Refused(why);
        }
        // One that was acted on is over when a person has retried the run since.
        _ => {
            is_open(asked_abort, &status.aborted_at) || is_open(asked_rollback, &status.rollback_at)
        }
    };
    let terminates = run.spec.abort.as_ref().is_some_and(|abort| abort.terminate);
    // What a rollback has started is not what an abort ends.
    let is_back = matches!(run.phase(), RunPhase::RollingBack | RunPhase::RolledBack);
    let is_new = terminate && !terminates && run.in_flight() > 0 && !is_back;
    if is_ended && !is_new {
        let by = run.spec.abort.as_ref().map(|abort| format!(" by {}", abort.by));
        return Verdict::Already(format!(
            "run {name} is ended{} ({})",
            by.unwrap_or_default(),
            run.phase()
        ));
    }
    let running = match (run.in_flight(), terminate) {
        (0, _) => "nothing of it is in flight".to_owned(),
        (count, true) => format!("the syncs of {} in flight are terminated", applications(count)),
        (count, false) => format!("{} in flight end by themselves", applications(count)),
    };
    Verdict::Change {
        says: format!(
            "abort run {name}: {} of {} are not complete and stay as they are; {running}",
            run.left(),
            applications(run.status.total)
        ),
        applications: run.left(),
        change: Change::Field {
            field: "abort",
            value: json!({"by": person.by, "at": person.stored_at(), "terminate": terminate}),
        },
    }
}

/// Whether a word was said that no controller has acted on.
fn is_open(said: Option<&Option<Time>>, acted: &Option<Time>) -> bool {
    said.is_some_and(|at| acted.as_ref() != Some(&of_word(at.as_ref())))
}

/// Ends a run, and takes back what it started. A complete run can be taken back as well.
pub fn rollback(run: &Run, person: Person<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let name = &run.name;
    let asked = run.spec.rollback.as_ref().map(|word| &word.at);
    let is_asked = is_open(asked, &run.status.rollback_at);
    if is_asked || matches!(run.phase(), RunPhase::RollingBack | RunPhase::RolledBack) {
        let by = run.spec.rollback.as_ref().map(|word| format!(" by {}", word.by));
        return Verdict::Already(format!(
            "run {name} is taken back{} ({})",
            by.unwrap_or_default(),
            run.phase()
        ));
    }
    let started = run.started();
    if started == 0 {
        let why = format!("run {name} has started no Application: abort it instead");
        return Verdict::Refused(why);
    }
    let later = match run.is_paused {
        true => "; the ApplicationSet is paused: nothing goes back before it is resumed",
        false => "",
    };
    Verdict::Change {
        says: format!(
            "roll back run {name}: up to {} that it started go back to their last good revisions, \
             in the reverse order of steps{later}",
            applications(started)
        ),
        applications: started,
        change: Change::Field {
            field: "rollback",
            value: json!({"by": person.by, "at": person.stored_at()}),
        },
    }
}
