//! The time that is left (ST-083), from the durations of the last runs.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::rollout::policy::Rules;
use crate::rollout::wait::KindCount;
use crate::rollout::wait_kind::{EndedBy, WaitKind};
use wavegate_api::run::{Estimate, RolloutRunStatus, RunGate, RunPhase, RunStep, TimelineEntry};

/// Whether time alone ends what a run waits for, but for approvals and pauses, which an estimate
/// names (ST-083). Nothing is known of how long a way back takes.
pub(super) fn ends_by_time(run: &RolloutRunStatus, waits: &BTreeMap<WaitKind, KindCount>) -> bool {
    let is_of_people = |kind: &WaitKind| {
        matches!(kind.ended_by(), EndedBy::Person | EndedBy::Sync) && *kind != WaitKind::Skipped
    };
    !matches!(run.phase, RunPhase::Held | RunPhase::RollingBack) && !waits.keys().any(is_of_people)
}

/// The estimate; `None` without a run that is complete and has as many steps. The soaks of a step
/// are those of now, and its Applications take as long as they took after the soaks of then.
pub(super) fn of(
    run: &RolloutRunStatus,
    rules: &Rules,
    history: &[&RolloutRunStatus],
    now: Timestamp,
) -> Option<Estimate> {
    let is_like = |old: &&RolloutRunStatus| {
        matches!(old.phase, RunPhase::Complete | RunPhase::CompleteWithFailures)
            && old.steps.len() == run.steps.len()
    };
    let known: Vec<&RolloutRunStatus> = history.iter().copied().filter(is_like).collect();
    if known.is_empty() || run.steps.is_empty() {
        return None;
    }
    let (mut least, mut most) = (0, 0);
    for (index, step) in
        run.steps.iter().enumerate().filter(|(_, step)| step.completed_at.is_none())
    {
        let mut took: Vec<i64> =
            known.iter().filter_map(|old| seconds(old, old.steps.get(index)?)).collect();
        took.sort_unstable();
        let median = *took.get(took.len() / 2)?;
        let (first, last) = (took.first().copied()?, took.last().copied()?);
        // A step of another size takes a share of it.
        let sizes: Vec<i64> =
            known.iter().filter_map(|old| Some(old.steps.get(index)?.total.max(1))).collect();
        let size = *sizes.first()?;
        let scale = |seconds: i64| seconds.saturating_mul(step.total.max(1)) / size;
        let soak = gates_of(run, step).map(|gate| soak_left(gate, rules, now)).max();
        let soak = soak.unwrap_or_default();
        // What is behind a gate begins when that opens.
        let is_shut = gates_of(run, step).any(|gate| !gate.is_open());
        let opened = gates_of(run, step).filter_map(|gate| gate.opened_at.as_ref());
        let began = step.opened_at.iter().chain(opened).map(|at| at.0).max();
        let begun = began.filter(|_| !is_shut);
        let begun = begun.map_or(0, |began| now.duration_since(began).as_secs());
        let left = |seconds: i64| soak + (scale(seconds) - begun).max(0);
        least += left(first.min(median));
        most += left(last.max(median));
    }
    let mut without: Vec<String> = run
        .gates
        .iter()
        .filter(|gate| gate.missing() > 0)
        .map(|gate| format!("gate {}", gate.name))
        .collect();
    if run.phase == RunPhase::Paused {
        without.push("the pause".to_owned());
    }
    Some(Estimate {
        least_seconds: least.max(0),
        most_seconds: most.max(0),
        runs: i64::try_from(known.len()).unwrap_or(i64::MAX),
        without,
    })
}

/// The gates of a step.
fn gates_of<'a>(
    run: &'a RolloutRunStatus,
    step: &'a RunStep,
) -> impl Iterator<Item = &'a RunGate> + use<'a> {
    run.gates.iter().filter(|gate| step.gates.contains(&gate.name))
}

/// The seconds that a gate still soaks: all of its time when that has not begun.
fn soak_left(gate: &RunGate, rules: &Rules, now: Timestamp) -> i64 {
    if gate.is_open() {
        return 0;
    }
    if let Some(until) = &gate.soaks_until {
        return until.0.duration_since(now).max(SignedDuration::ZERO).as_secs();
    }
    let mut all = rules.gates.iter();
    let rule = all.find(|rule| rule.name == gate.name && rule.policy == gate.policy);
    rule.and_then(|rule| rule.soak.as_ref().ok()).map_or(0, SignedDuration::as_secs)
}

/// The seconds that a step took after its soaks, without those in which people held it: only
/// approvals were missing, or it was paused.
fn seconds(run: &RolloutRunStatus, step: &RunStep) -> Option<i64> {
    let (from, to) = (step.opened_at.as_ref()?.0, step.completed_at.as_ref()?.0);
    let soaked = gates_of(run, step).filter_map(|gate| gate.soaks_until.as_ref());
    let from = soaked.map(|until| until.0).max().map_or(from, |until| until.max(from));
    let held = held(run).map(|(begin, end)| {
        let (begin, end) = (begin.max(from), end.min(to));
        end.duration_since(begin).max(SignedDuration::ZERO).as_secs()
    });
    Some((to.duration_since(from).as_secs() - held.sum::<i64>()).max(0))
}

/// When people held a run that has ended: the times of these phases, which follow each other.
fn held(run: &RolloutRunStatus) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let is_phase = |entry: &&TimelineEntry| RunPhase::WORDS.contains(&entry.what.as_str());
    let phases: Vec<(Timestamp, RunPhase)> = run
        .timeline
        .iter()
        .filter(is_phase)
        .filter_map(|entry| Some((entry.at.as_ref()?.0, RunPhase::from_word(&entry.what))))
        .collect();
    let spans: Vec<_> = phases.windows(2).map(|pair| (pair[0].1, (pair[0].0, pair[1].0))).collect();
    let by_people = [RunPhase::Paused, RunPhase::AwaitingApproval];
    spans.into_iter().filter(move |(phase, _)| by_people.contains(phase)).map(|(_, span)| span)
}
