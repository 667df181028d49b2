//! Gates (ST-010 … ST-013): which are shut, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::rules::{GateRule, Rules};
use crate::api::HealthStatus;
use crate::api::steering::{RolloutRunSpec, RunGate};
use crate::api::time::stored;
use crate::decide::rollout::snapshot::Row;
use crate::decide::rollout::steering::{Hold, Steering};
use crate::decide::rollout::wait;
use crate::decide::rollout::wait_kind::WaitKind;

/// The state of each gate of a run, in the order of the rules.
pub fn evaluate(
    rules: &Rules,
    spec: &RolloutRunSpec,
    known: &[RunGate],
    rows: &[Row<'_>],
    require_live_health: bool,
    now: Timestamp,
) -> Vec<RunGate> {
    let behind = behind(rules, rows);
    let all = rules.gates.iter().zip(behind);
    all.map(|(rule, behind)| {
        let known = known.iter().find(|gate| gate.name == rule.name && gate.policy == rule.policy);
        gate(rule, &behind, spec, known, rows, require_live_health, now)
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
    require_live_health: bool,
    now: Timestamp,
) -> RunGate {
    let covers = covers(behind.iter().map(|index| &rows[*index]));
    let of_gate = spec.approvals.iter().filter(|one| one.gate == rule.name);
    let (valid, void): (Vec<_>, Vec<_>) = of_gate.partition(|one| one.covers == covers);
    let names = |all: Vec<&crate::api::steering::Approval>| -> BTreeSet<String> {
        all.into_iter().map(|one| one.by.clone()).filter(|by| !by.is_empty()).collect()
    };
    let (valid, void) = (names(valid), names(void));
    let is_approved = valid.len() as u64 >= rule.approvals;
    // It begins again when one is not Healthy any more (ST-012).
    let soaking_since = is_soaking(rule, rows, require_live_health).then(|| {
        known.and_then(|gate| gate.soaking_since.as_ref()).map_or(stored(now), |since| since.0)
    });
    let soaks_until = match (&rule.soak, soaking_since) {
        (Ok(soak), Some(since)) => since.checked_add(*soak).ok(),
        (Ok(soak), None) if soak.is_zero() => Some(now),
        _ => None,
    };
    let has_soaked = soaks_until.is_some_and(|until| until <= now);
    let was_open = known.and_then(|gate| gate.opened_at.as_ref()).map(|at| at.0);
    let opened_at = was_open.or((is_approved && has_soaked).then(|| stored(now)));
    let waits_for_people = opened_at.is_none() && !is_approved && has_soaked;
    let waiting_since = waits_for_people.then(|| {
        known.and_then(|gate| gate.waiting_since.as_ref()).map_or(stored(now), |since| since.0)
    });
    let time = |at: Timestamp| crate::api::Time(at);
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
    }
}

/// Whether every Application of all earlier steps is Healthy for its target, apart from those
/// that their steps do not wait for.
fn is_soaking(rule: &GateRule, rows: &[Row<'_>], require_live_health: bool) -> bool {
    let Some(first) = rule.first_step else { return true };
    let earlier = rows.iter().filter(|row| row.member.step().is_some_and(|step| step < first));
    earlier.into_iter().all(|row| {
        let is_healthy =
            row.member.observed.is_some_and(|seen| seen.health == HealthStatus::Healthy);
        row.steering.is_excused() || is_healthy && wait::is_complete(row, require_live_health)
    })
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
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The hold of each gate that is shut, by its index.
pub fn holds(steering: &Steering<'_>, gates: &[RunGate], now: Timestamp) -> BTreeMap<usize, Hold> {
    let shut = gates.iter().enumerate().filter(|(_, gate)| gate.opened_at.is_none());
    let hold = |(index, gate): (usize, &RunGate)| {
        let rule = &steering.rules.gates[index];
        (index, hold(steering, rule, gate, now))
    };
    shut.map(hold).collect()
}

fn hold(steering: &Steering<'_>, rule: &GateRule, gate: &RunGate, now: Timestamp) -> Hold {
    let of = format!("gate {} (policy {})", rule.name, rule.policy);
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
            "{of} waits for {missing} of {} approvals{who}{void}: wavegate approve {} --gate {}",
            rule.approvals, steering.set, rule.name
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
        Some(until) => {
            let left = until.duration_since(now).max(SignedDuration::ZERO);
            let left = SignedDuration::from_secs(left.as_secs());
            format!("{of} opens in {}", gotime::duration::print(left))
        }
        None => format!(
            "{of} opens {} after all Applications of the earlier steps are Healthy",
            gotime::duration::print(soak)
        ),
    };
    Hold { kind: WaitKind::Soak, message, until }
}
