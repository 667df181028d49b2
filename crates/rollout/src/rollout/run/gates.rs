//! Gates (ST-010 … ST-013): which are shut, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::target_set::{CAPACITY, TargetSet};
use crate::rollout::left_out::LeftOut;
use crate::rollout::policy::{GateRule, Rules};
use crate::rollout::run_input::{Hold, RunInput};
use crate::rollout::snapshot::Row;
use crate::rollout::wait;
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::HealthStatus;
use wavegate_api::run::{RolloutRunSpec, RunGate};
use wavegate_api::time::stored_time;

/// The state of each gate of a run, in the order of the rules.
pub fn evaluate(
    rules: &Rules,
    spec: &RolloutRunSpec,
    known: &[RunGate],
    rows: &[Row<'_>],
    now: Timestamp,
) -> Vec<RunGate> {
    let behind = behind(rules, rows);
    let all = rules.gates.iter().zip(behind);
    all.map(|(rule, behind)| {
        let known = known.iter().find(|gate| gate.name == rule.name && gate.policy == rule.policy);
        gate(rule, &behind, spec, known, rows, now)
    })
    .collect()
}

/// The indices of the rows behind each gate.
fn behind(rules: &Rules, rows: &[Row<'_>]) -> Vec<Vec<usize>> {
    let mut behind = vec![Vec::new(); rules.gates.len()];
    for (index, row) in rows.iter().enumerate() {
        for gate in rules.gates_of(row.member.name) {
            behind[*gate].push(index);
        }
    }
    behind
}

fn gate(
    rule: &GateRule,
    behind: &[usize],
    spec: &RolloutRunSpec,
    known: Option<&RunGate>,
    rows: &[Row<'_>],
    now: Timestamp,
) -> RunGate {
    let covers = covers(behind.iter().map(|index| &rows[*index]));
    let of_gate = spec.approvals.iter().filter(|one| one.gate == rule.name);
    let (valid, void): (Vec<_>, Vec<_>) = of_gate.partition(|one| one.covers == covers);
    let names = |all: Vec<&wavegate_api::run::Approval>| -> BTreeSet<String> {
        all.into_iter().map(|one| one.by.clone()).filter(|by| !by.is_empty()).collect()
    };
    let valid = names(valid);
    // One that is created anew has no revisions yet: it is not known whether its target is another.
    let is_known = |index: &usize| {
        let entry = rows[*index].entry.as_ref();
        entry.is_some_and(|entry| !entry.target_revisions.is_empty())
    };
    let void = if behind.iter().all(is_known) { names(void) } else { BTreeSet::new() };
    let is_approved = valid.len() as u64 >= rule.approvals;
    // It begins again when one is not Healthy any more (ST-012), and when the clock was set back:
    // it would take as much longer.
    let soaking_since = earlier(rule, rows).all(is_well).then(|| {
        let known = known.and_then(|gate| gate.soaking_since.as_ref());
        known.map_or(stored_time(now), |since| since.0.min(stored_time(now)))
    });
    let soaks_until = match (&rule.soak, soaking_since) {
        (Ok(soak), Some(since)) => since.checked_add(*soak).ok(),
        (Ok(soak), None) if soak.is_zero() => Some(now),
        _ => None,
    };
    let has_soaked = soaks_until.is_some_and(|until| until <= now);
    let was_open = known.and_then(|gate| gate.opened_at.as_ref()).map(|at| at.0);
    let opened_at = was_open.or((is_approved && has_soaked).then(|| stored_time(now)));
    // An approval counts for the targets that it was given for, also after the gate has opened.
    let was_for = known.map(|gate| (gate.opened_for.clone(), gate.admits.clone()));
    let all = || behind.iter().map(|index| &rows[*index]);
    let (opened_for, admits) = match was_for {
        _ if opened_at.is_none() || rule.approvals == 0 => Default::default(),
        Some((of, admits)) if of == covers => (of, admits),
        _ if is_approved => (covers.clone(), admitted(all())),
        // Some are gone; the others are those that were approved.
        Some((_, admits)) if admits_all(&admits, all()) => (covers.clone(), admits),
        other => other.unwrap_or_default(),
    };
    let is_whole = opened_at.is_some() && (rule.approvals == 0 || opened_for == covers);
    let (valid, void) = match known.filter(|_| is_whole && !is_approved) {
        Some(known) => (known.approved_by.iter().cloned().collect(), BTreeSet::new()),
        None => (valid, void),
    };
    let has_any = !behind.is_empty();
    // One of a later step is approved by its name only (ST-011). A step may also be complete with
    // what is not Healthy, such as after a timeout.
    let is_reached =
        || soaking_since.is_some() || earlier(rule, rows).all(|row| wait::is_complete(row, false));
    let waits_for_people = has_any && !is_whole && !is_approved && has_soaked && is_reached();
    let waiting_since = waits_for_people.then(|| {
        known.and_then(|gate| gate.waiting_since.as_ref()).map_or(stored_time(now), |since| since.0)
    });
    let time = |at: Timestamp| wavegate_api::Time(at);
    let has_soak = rule.soak.as_ref().is_ok_and(|soak| !soak.is_zero());
    RunGate {
        name: rule.name.clone(),
        policy: rule.policy.clone(),
        applications: i64::try_from(behind.len()).unwrap_or(i64::MAX),
        covers,
        approvals: i64::try_from(rule.approvals).unwrap_or(i64::MAX),
        void: void.difference(&valid).cloned().collect(),
        approved_by: valid.into_iter().collect(),
        waiting_since: waiting_since.map(time),
        soaking_since: soaking_since.filter(|_| has_soak).map(time),
        soaks_until: soaks_until.filter(|_| has_soak && soaking_since.is_some()).map(time),
        opened_at: opened_at.map(time),
        opened_for,
        admits,
        ..RunGate::default()
    }
}

/// The targets of Applications; none of more than fit in a status, so that any change of one of
/// them needs another approval of all.
fn admitted<'a>(rows: impl Iterator<Item = &'a Row<'a>>) -> String {
    let mut all = TargetSet::default();
    for row in rows {
        all.add(row);
    }
    match all.len() <= CAPACITY {
        true => all.text(),
        false => String::new(),
    }
}

/// The Applications of the steps before the first one behind a gate.
fn earlier<'a>(rule: &GateRule, rows: &'a [Row<'a>]) -> impl Iterator<Item = &'a Row<'a>> {
    let first = rule.first_step.unwrap_or_default();
    rows.iter().filter(move |row| row.member.step().is_some_and(|step| step < first))
}

/// Whether an Application is Healthy for its target, or its step does not wait for it. One whose
/// sync never started is complete after a timeout, but not Healthy for its target.
fn is_well(row: &Row<'_>) -> bool {
    let seen = row.member.observed;
    let timed_out = row.entry.as_ref().is_some_and(|entry| entry.timed_out());
    let is_healthy = seen.is_some_and(|seen| seen.health == HealthStatus::Healthy);
    row.run.is_excused() || is_healthy && !timed_out && wait::is_complete(row, false)
}

/// The hash of the targets of Applications (ST-011).
pub(super) fn covers<'a>(rows: impl Iterator<Item = &'a Row<'a>>) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        hash.update(row.member.name.as_bytes());
        hash.update(b" ");
        hash.update(row.member.spec.unwrap_or_default().as_bytes());
        for revision in row.entry.iter().flat_map(|entry| &entry.target_revisions) {
            hash.update(b" ");
            hash.update(revision.as_bytes());
        }
        hash.update(b"\n");
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

/// Whether the targets of all of them are among these.
fn admits_all<'a>(admits: &str, mut rows: impl Iterator<Item = &'a Row<'a>>) -> bool {
    let admits = TargetSet::read(admits);
    rows.all(|row| admits.has(row))
}

/// How many approvals are missing, in the one form that there is for it.
pub fn missing_approvals(missing: i64, of: i64) -> String {
    format!("{missing} of {of} approvals missing")
}

/// A gate that is shut for some of the Applications behind it.
#[derive(Debug)]
pub struct ClosedGate {
    hold: Hold,
    /// The targets that were approved, if it has opened.
    admits: TargetSet,
}

impl ClosedGate {
    /// What keeps an Application behind it from its promotion.
    pub fn hold_of(&self, row: &Row<'_>) -> Option<&Hold> {
        (!self.admits.has(row)).then_some(&self.hold)
    }
}

/// The gates that are shut, by their index in the rules. A gate that the run does not know, such as
/// one that was added after its end, is not shut.
pub(crate) fn shut(
    input: &RunInput<'_>,
    gates: &[RunGate],
    rows: &[Row<'_>],
    now: Timestamp,
) -> BTreeMap<usize, ClosedGate> {
    let rules = input.rules.gates.iter().enumerate();
    let shut = |(index, rule): (usize, &GateRule)| {
        let gate =
            gates.iter().find(|gate| gate.name == rule.name && gate.policy == rule.policy)?;
        (!gate.is_open()).then(|| {
            let admits = match gate.opened_at {
                Some(_) => TargetSet::read(&gate.admits),
                None => TargetSet::default(),
            };
            (index, ClosedGate { hold: hold(input, rule, gate, rows, now), admits })
        })
    };
    rules.filter_map(shut).collect()
}

fn hold(
    input: &RunInput<'_>,
    rule: &GateRule,
    gate: &RunGate,
    rows: &[Row<'_>],
    now: Timestamp,
) -> Hold {
    let of = format!("gate {} (policy {})", rule.name, rule.policy);
    // What its soak and its approvals are about may be complete without some.
    let left_out = LeftOut::of(earlier(rule, rows)).rest();
    let given = gate.approved_by.len() as u64;
    let missing = rule.approvals.saturating_sub(given);
    if missing > 0 {
        let who = match gate.approved_by.as_slice() {
            [] => String::new(),
            by => format!("; approved by {}", by.join(", ")),
        };
        let void = match gate.void.as_slice() {
            [] => String::new(),
            by => format!("; the approval of {} was for other targets", by.join(", ")),
        };
        let message = format!(
            "{of} waits, {}{who}{void}{left_out}: {} --gate {}",
            missing_approvals(missing.cast_signed(), rule.approvals.cast_signed()),
            input.command("approve"),
            rule.name
        );
        return Hold { kind: WaitKind::Approval, message, until: None };
    }
    if let Err(text) = &rule.soak {
        let message = format!("{of} stays shut: its soak {text:?} is no duration");
        return Hold { kind: WaitKind::Approval, message, until: None };
    }
    let until = gate.soaks_until.as_ref().map(|until| until.0);
    let soak = rule.soak.as_ref().map_or(SignedDuration::ZERO, |soak| *soak);
    let message = match until {
        // Who reads it says how much is left: it is stored once.
        Some(_) => format!("{of} soaks for {}{left_out}", gotime::duration::print_duration(soak)),
        None => {
            let first = earlier(rule, rows).find(|row| !is_well(row));
            let but = first.map(|row| format!("; {} is not", row.member.name)).unwrap_or_default();
            format!(
                "{of} opens {} after all Applications of the earlier steps are Healthy{but}{left_out}",
                gotime::duration::print_duration(soak)
            )
        }
    };
    // Time opens no gate of a run that has ended.
    Hold { kind: WaitKind::Soak, message, until: until.filter(|until| *until > now) }
}
