//! Starting failed Applications again (ST-063), and leaving some out (ST-064).

use serde_json::json;

use super::{Actor, RequestedChange, Run, Verdict, applications_text};
use crate::rollout::run::open_retries;
use wavegate_api::run::RunPhase;

/// Starts Applications of a run again, once each: those that failed, or the named ones. Lifts the
/// quarantine of the run.
pub fn retry_applications(run: &Run, names: &[&str], person: Actor<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    if let Some(why) = is_skipped(run, names) {
        return Verdict::Refused(why);
    }
    let status = &run.status;
    let mut open = open_retries(&run.spec, status);
    // One of all is not about an Application that has not failed, such as one that was changed
    // after its sync: it has to be named.
    let is_same = |given: &Vec<String>| match names {
        [] => given.is_empty(),
        names => names.iter().all(|name| given.iter().any(|one| one == name)),
    };
    if let Some(same) = open.find(|retry| is_same(&retry.applications)) {
        return Verdict::Already(format!(
            "{} has asked for it; no controller has acted yet",
            same.by
        ));
    }
    // What failed before all went back is started again with all of that.
    let failed = if run.phase() == RunPhase::RolledBack { 0 } else { status.failed };
    let name = &run.name;
    let goes_back = run.phase() == RunPhase::RollingBack;
    let says = if goes_back {
        let what = match (names, failed) {
            ([], failed) if failed > 0 => applications_text(failed),
            ([], _) => {
                return Verdict::Refused(format!(
                    "run {name} goes back, and no way back of it has failed: it goes on by itself"
                ));
            }
            (names, _) => names.join(", "),
        };
        format!(
            "retry run {name}, which goes back: repeat the way back of {what}; nothing is rolled \
             out again"
        )
    } else if names.is_empty() {
        let is_held =
            matches!(run.phase(), RunPhase::Held | RunPhase::Aborted | RunPhase::RolledBack);
        let is_quarantined = !status.quarantine.is_empty();
        if failed <= 0 && !is_held && !is_quarantined {
            let phase = run.phase();
            // Said twice, of which the first has started them.
            if let Some(last) = run.spec.retries.iter().rfind(|one| is_same(&one.applications)) {
                return Verdict::Already(format!(
                    "{} has asked for it, and nothing of run {name} has failed since ({phase})",
                    last.by
                ));
            }
            return Verdict::Refused(format!(
                "nothing of run {name} has failed ({phase}); wavegate retry APP is for one \
                 Application, such as one that a person has synced"
            ));
        }
        let lifts = if is_quarantined { ", and lift the quarantine of its targets" } else { "" };
        match failed {
            // What earlier runs have left in quarantine need not be a target now.
            0 if is_quarantined && !is_held => format!(
                "retry run {name}: promote to what was aborted before, where it is the target now"
            ),
            0 if is_quarantined => {
                format!("retry run {name}: promote to its targets again, which are in quarantine")
            }
            failed => {
                format!(
                    "retry run {name}: start {} that failed again{lifts}",
                    applications_text(failed)
                )
            }
        }
    } else {
        let each = if names.len() == 1 { "" } else { " each" };
        format!("retry {} in run {name}, once{each}", names.join(", "))
    };
    let entry = match names {
        [] => json!({"by": person.by, "at": person.stored_at()}),
        names => json!({"by": person.by, "at": person.stored_at(), "applications": names}),
    };
    let count = i64::try_from(names.len()).unwrap_or(i64::MAX);
    Verdict::Change {
        says,
        applications: if names.is_empty() { failed } else { count },
        change: RequestedChange::Entries { list: "retries", entries: vec![entry] },
    }
}

/// Why none of these can be started again: the run skips them.
fn is_skipped(run: &Run, names: &[&str]) -> Option<String> {
    let skips = |name: &&str| run.spec.skip.iter().any(|one| one == *name);
    if names.is_empty() || !names.iter().all(skips) {
        return None;
    }
    let undo = format!("wavegate skip {} --undo", names.join(" "));
    Some(format!("run {} skips {}: {undo} takes it in again", run.name, names.join(", ")))
}

/// Leaves Applications out of a run: it does not promote them and does not wait for them.
pub fn skip_applications(run: &Run, names: &[&str], person: Actor<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let name = &run.name;
    let is_new = |name: &&&str| !run.spec.skip.iter().any(|one| one == **name);
    let new: Vec<&str> = names.iter().filter(is_new).copied().collect();
    let is_said = new.is_empty() && run.phase() != RunPhase::RollingBack;
    if is_said && (!run.phase().has_ended() || run.has_completed()) {
        return Verdict::Already(format!("run {name} skips {}", names.join(", ")));
    }
    if run.phase().has_ended() {
        return Verdict::Refused(format!(
            "run {name} has ended ({}): there is nothing to skip",
            run.phase()
        ));
    }
    if run.phase() == RunPhase::RollingBack {
        return Verdict::Refused(format!(
            "run {name} goes back, and a skip keeps nothing from its way back: wavegate retry \
             repeats a way back that has failed"
        ));
    }
    Verdict::Change {
        says: format!(
            "skip {} in run {name}: not promoted, and not waited for; the next run takes it again",
            new.join(", ")
        ),
        applications: i64::try_from(new.len()).unwrap_or(i64::MAX),
        change: skip_change(&new, false, person),
    }
}

/// Takes back that Applications are left out of a run.
pub fn undo_skip(run: &Run, names: &[&str], person: Actor<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let name = &run.name;
    let is_skipped = |name: &&&str| run.spec.skip.iter().any(|one| one == **name);
    let known: Vec<&str> = names.iter().filter(is_skipped).copied().collect();
    if known.is_empty() {
        return Verdict::Already(format!("run {name} does not skip {}", names.join(", ")));
    }
    let known_names = known.join(", ");
    let says = match run.phase() {
        phase if phase.has_ended() => format!(
            "take {known_names} into run {name} again, which has ended ({phase}): wavegate retry \
             starts what it has started before"
        ),
        _ => format!(
            "take {known_names} into run {name} again: promoted, and waited for, also when its \
             step was complete without it"
        ),
    };
    Verdict::Change {
        says,
        applications: i64::try_from(known.len()).unwrap_or(i64::MAX),
        change: skip_change(&known, true, person),
    }
}

fn skip_change(names: &[&str], undo: bool, person: Actor<'_>) -> RequestedChange {
    let (by, at) = (person.by, person.stored_at());
    let said = match undo {
        true => json!({"by": by, "at": at, "applications": names, "undo": true}),
        false => json!({"by": by, "at": at, "applications": names}),
    };
    RequestedChange::Skip {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        undo,
        said,
    }
}
