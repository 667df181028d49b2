//! Approvals: of gates (ST-011), and of deletions (ST-050).

use serde_json::{Value, json};

use super::run::lacks_approvals;
use super::{Actor, RequestedChange, Run, Verdict, applications_text};
use crate::application_set::deletion::approval::DeletionApproval;
use crate::application_set::deletion::deletion_guard;
use crate::rollout::run::missing_approvals;
use wavegate_api::annotations::{APPROVED_DELETIONS, annotation_of};
use wavegate_api::conditions::application_set::DELETIONS_HELD;
use wavegate_api::run::RunGate;
use wavegate_api::unknown::nearest_name;
use wavegate_api::{Raw, time};

/// Approves a gate of a run, or without a name all that wait for nothing but approvals. An
/// approval covers the targets that the status of the gate names.
pub fn approve_gates(run: &Run, gate: Option<&str>, person: Actor<'_>) -> Verdict {
    if let Some(why) = run.is_not_current() {
        return Verdict::Refused(why);
    }
    let gates = &run.status.gates;
    let has_approved = |gate: &RunGate| {
        let is_mine =
            run.spec.approvals.iter().any(|one| {
                one.gate == gate.name && one.by == person.by && one.covers == gate.covers
            });
        is_mine || gate.approved_by.iter().any(|by| by == person.by)
    };
    let named: Vec<&RunGate> =
        gates.iter().filter(|one| gate.is_none_or(|name| one.name == name)).collect();
    // Said twice, of which the first has let the run go on: it is so already.
    let done: Vec<&RunGate> = named.iter().copied().filter(|gate| has_approved(gate)).collect();
    if run.phase().has_ended() {
        if !done.is_empty() && run.has_completed() {
            return approved(run, &done, person);
        }
        let why =
            format!("run {} has ended ({}): nothing waits for an approval", run.name, run.phase());
        return Verdict::Refused(why);
    }
    let waits = |one: &&RunGate| gate.is_some() || one.waiting_since.is_some();
    let mut chosen: Vec<&RunGate> = named.iter().copied().filter(waits).collect();
    if chosen.is_empty() {
        chosen = done;
    }
    let missing: Vec<&RunGate> = chosen
        .iter()
        .copied()
        .filter(|gate| lacks_approvals(gate) && !has_approved(gate))
        .collect();
    if missing.is_empty() {
        return nothing(run, gate, &chosen, has_approved, person);
    }
    if let Some(unknown) = missing.iter().find(|gate| gate.covers.is_empty()) {
        let why = format!(
            "the targets behind gate {} of run {} are not known yet: try again in a moment",
            unknown.name, run.name
        );
        return Verdict::Refused(why);
    }
    let said: Vec<String> = missing
        .iter()
        .map(|gate| {
            let number = gate.approved_by.len() + 1;
            let of = match gate.approvals {
                1 => String::new(),
                all => format!(", approval {number} of {all}"),
            };
            let early = if gate.waiting_since.is_none() { ", before it is reached" } else { "" };
            format!("{} ({}{of}{early})", gate.name, applications_text(gate.applications))
        })
        .collect();
    let entry = |gate: &&RunGate| json!({"gate": gate.name, "by": person.by, "at": person.stored_at(), "covers": gate.covers});
    Verdict::Change {
        says: format!(
            "approve gate {} of run {} as {}{}",
            said.join(" and gate "),
            run.name,
            person.by,
            run.left_out().rest()
        ),
        applications: missing.iter().map(|gate| gate.applications).sum(),
        change: RequestedChange::Entries {
            list: "approvals",
            entries: missing.iter().map(entry).collect(),
        },
    }
}

/// That a person has approved these gates.
fn approved(run: &Run, gates: &[&RunGate], person: Actor<'_>) -> Verdict {
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    // The status may be older than the approval.
    let missing = |gate: &&RunGate| {
        let is_counted = gate.approved_by.iter().any(|by| by == person.by);
        gate.missing() - i64::from(!is_counted)
    };
    let of = gates.iter().map(|gate| gate.approvals).max().unwrap_or_default();
    let others = match gates.iter().map(missing).max().unwrap_or_default() {
        ..=0 => String::new(),
        1 => format!("; {}, of another person", missing_approvals(1, of)),
        more => format!("; {}, of other persons", missing_approvals(more, of)),
    };
    let (gates, name, by) = (names.join(", "), &run.name, person.by);
    Verdict::Already(format!(
        "{by} has approved these targets of gate {gates} of run {name}{others}"
    ))
}

/// Why there is nothing to approve.
fn nothing(
    run: &Run,
    gate: Option<&str>,
    chosen: &[&RunGate],
    has_approved: impl Fn(&RunGate) -> bool,
    person: Actor<'_>,
) -> Verdict {
    let mine: Vec<&RunGate> = chosen.iter().copied().filter(|gate| has_approved(gate)).collect();
    if !mine.is_empty() {
        return approved(run, &mine, person);
    }
    let known: Vec<&str> = run.status.gates.iter().map(|gate| gate.name.as_str()).collect();
    match (gate, chosen.first()) {
        (_, Some(gate)) if gate.is_open() => {
            Verdict::Already(format!("gate {} of run {} is open", gate.name, run.name))
        }
        (_, Some(gate)) if gate.approvals <= 0 => {
            Verdict::Refused(match gate.soaks_until.as_ref() {
                Some(until) => format!(
                    "gate {} needs no approval; it waits until {}",
                    gate.name,
                    time::to_rfc3339(until.0)
                ),
                None => format!("gate {} needs no approval", gate.name),
            })
        }
        (_, Some(gate)) if gate.applications <= 0 => Verdict::Refused(format!(
            "no Application is behind gate {} of run {}",
            gate.name, run.name
        )),
        (_, Some(gate)) => {
            Verdict::Already(format!("gate {} of run {} has its approvals", gate.name, run.name))
        }
        (Some(name), None) => {
            let hint = match nearest_name(name, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None if known.is_empty() => "it has none".to_owned(),
                None => format!("its gates: {}", known.join(", ")),
            };
            Verdict::Refused(format!("run {} has no gate {name}; {hint}", run.name))
        }
        (None, None) => {
            let ahead: Vec<&RunGate> =
                run.status.gates.iter().filter(|gate| lacks_approvals(gate)).collect();
            let hint = match ahead.first() {
                Some(gate) => format!(
                    "; gate {} comes later: approve it in advance with --gate {}",
                    gate.name, gate.name
                ),
                None => String::new(),
            };
            let phase = run.phase();
            Verdict::Refused(format!(
                "no gate of run {} waits for an approval ({phase}){hint}",
                run.name
            ))
        }
    }
}

/// Approves the deletions of a set that are held: those that its condition names.
pub fn approve_deletions(set: &Value) -> Verdict {
    let conditions = set.items("/status/conditions").iter();
    let mut held = conditions
        .filter(|found| found.field("type") == DELETIONS_HELD && found.field("status") == "True");
    let Some(condition) = held.next() else {
        return Verdict::Refused("no deletions are held".to_owned());
    };
    let Some((what, hash)) = deletion_guard::approval_of(condition.field("message")) else {
        let why = format!(
            "its condition {DELETIONS_HELD} names no approval: {}",
            condition.field("message")
        );
        return Verdict::Refused(why);
    };
    let approval = annotation_of(set, APPROVED_DELETIONS).and_then(DeletionApproval::read);
    if approval.is_some_and(|approval| approval.hash() == hash) {
        return Verdict::Already(
            "these deletions are approved; no controller has acted yet".to_owned(),
        );
    }
    Verdict::Change {
        says: format!("approve these deletions ({hash}): {what}"),
        applications: 0,
        change: RequestedChange::Annotation {
            key: APPROVED_DELETIONS,
            value: Some(hash.to_owned()),
            // An approval of other deletions is over.
            replaces: None,
            by: Vec::new(),
        },
    }
}
