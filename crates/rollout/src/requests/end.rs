//! Ending a run: aborting it (ST-060), and rolling it back (ST-061).

use serde_json::{Value, json};

use super::{Actor, RequestedChange, Run, Verdict, applications_text};
use wavegate_api::run::{RunPhase, RunStart};
use wavegate_api::time::of_word;
use wavegate_api::{Raw, Time};

/// Ends a run: nothing more is promoted. With `terminate`, its running operations are ended.
pub fn abort_run(run: &Run, terminate: bool, person: Actor<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let (name, status) = (&run.name, &run.status);
    let asked_abort = run.spec.abort.as_ref().map(|abort| &abort.at);
    let asked_rollback = run.spec.rollback.as_ref().map(|word| &word.at);
    if run.phase() == RunPhase::RollingBack {
        return Verdict::Refused(format!(
            "run {name} goes back, and promotes nothing any more; only a pause stops that: wavegate \
             pause"
        ));
    }
    let is_ended = match run.phase() {
        RunPhase::Aborted | RunPhase::RolledBack => true,
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
    let is_back = run.phase() == RunPhase::RolledBack;
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
        (count, true) => {
            format!("the syncs of {} in flight are terminated", applications_text(count))
        }
        (1, false) => format!("{} in flight ends by itself", applications_text(1)),
        (count, false) => format!("{} in flight end by themselves", applications_text(count)),
    };
    Verdict::Change {
        says: format!(
            "abort run {name}: {}; {running}",
            match (run.left(), run.status.total) {
                (1, 1) => "1 Application is not complete and stays as it is".to_owned(),
                (1, all) => {
                    let all = applications_text(all);
                    format!("1 of {all} is not complete and stays as it is")
                }
                (left, all) => {
                    let all = applications_text(all);
                    format!("{left} of {all} are not complete and stay as they are")
                }
            }
        ),
        applications: run.left(),
        change: RequestedChange::Field {
            field: "abort",
            value: json!({
                "by": person.by,
                "at": person.stored_after(status.aborted_at.as_ref()),
                "terminate": terminate,
            }),
        },
    }
}

/// Whether a word was said that no controller has acted on.
fn is_open(said: Option<&Option<Time>>, acted: &Option<Time>) -> bool {
    said.is_some_and(|at| acted.as_ref() != Some(&of_word(at.as_ref())))
}

/// The Applications that a run has started, as these say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackScope {
    /// How many know their last good revisions, and can go back to them by themselves.
    back: i64,
    /// The names of the others.
    cannot: Vec<String>,
}

impl RollbackScope {
    /// Of a run; `all` are the Applications of its set.
    pub fn of<'a>(run: &str, all: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut reach = Self::default();
        for application in all {
            match RunStart::of(application).filter(|start| start.run == run) {
                Some(start) if start.good.is_empty() => {
                    reach.cannot.push(application.name().to_owned());
                }
                Some(_) => reach.back += 1,
                None => {}
            }
        }
        reach
    }

    fn started(&self) -> i64 {
        self.back.saturating_add(i64::try_from(self.cannot.len()).unwrap_or(i64::MAX))
    }
}

/// Ends a run, and takes back what it started. A complete run can be taken back as well. `reach` is
/// `None` when the Applications cannot be read.
pub fn rollback_run(run: &Run, reach: Option<&RollbackScope>, person: Actor<'_>) -> Verdict {
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
    // What was found Synced is complete, and was not started by it.
    let started = reach.map_or_else(|| run.started(), RollbackScope::started);
    if started == 0 {
        let then = match run.phase().has_ended() {
            true => "there is nothing to take back",
            false => "abort it instead",
        };
        return Verdict::Refused(format!("run {name} has started no Application: {then}"));
    }
    let (back, many) = match reach {
        Some(RollbackScope { back: 0, .. }) => {
            let end = match run.phase().has_ended() {
                true => "",
                false => "; wavegate abort ends the run, and leaves all as it is",
            };
            return Verdict::Refused(format!(
                "none of {} that run {name} started can go back by itself: there is no revision \
                 before it with which one was Healthy, or more than the revision has changed \
                 since; revert the change in the source or in the ApplicationSet{end}",
                applications_text(started)
            ));
        }
        Some(reach) => {
            (reach.back, format!("{} of {}", reach.back, applications_text(reach.started())))
        }
        None => (started, format!("up to {}", applications_text(started))),
    };
    let cannot = match reach.map(|reach| reach.cannot.as_slice()) {
        None | Some([]) => String::new(),
        Some([one]) => format!("; {one} cannot go back by itself: revert the ApplicationSet"),
        Some([first, others @ ..]) => format!(
            "; {first} and {} more cannot go back by themselves: revert the ApplicationSet",
            others.len()
        ),
    };
    let later = match run.is_paused {
        true => "; the ApplicationSet is paused: nothing goes back before it is resumed",
        false => "",
    };
    Verdict::Change {
        says: format!(
            "roll back run {name}: {many} that it started go back to their last good revisions, \
             in the reverse order of steps{cannot}{later}"
        ),
        applications: back,
        change: RequestedChange::Field {
            field: "rollback",
            value: json!({
                "by": person.by,
                "at": person.stored_after(run.status.rollback_at.as_ref()),
            }),
        },
    }
}
