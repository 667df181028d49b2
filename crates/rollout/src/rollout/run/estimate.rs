//! The time that is left (ST-083), from the durations of the last runs.

use jiff::{SignedDuration, Timestamp};

use wavegate_api::run::{Estimate, RolloutRunStatus, RunPhase, RunStep, TimelineEntry};

/// The estimate; `None` without a run that is complete and has as many steps.
pub(super) fn of(
    run: &RolloutRunStatus,
    history: &[RolloutRunStatus],
    now: Timestamp,
) -> Option<Estimate> {
    let is_like = |old: &&RolloutRunStatus| {
        matches!(old.phase, RunPhase::Complete | RunPhase::CompleteWithFailures)
            && old.steps.len() == run.steps.len()
    };
    let known: Vec<&RolloutRunStatus> = history.iter().filter(is_like).collect();
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
        let begun = step.opened_at.as_ref().map_or(0, |at| now.duration_since(at.0).as_secs());
        let soak = run
            .gates
            .iter()
            .filter(|gate| step.gates.contains(&gate.name))
            .filter_map(|gate| gate.soaks_until.as_ref())
            .map(|until| until.0.duration_since(now).max(SignedDuration::ZERO).as_secs())
            .max()
            .unwrap_or_default();
        least += (scale(first.min(median)) - begun).max(soak);
        most += (scale(last.max(median)) - begun).max(soak);
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

/// The seconds that a step took, without those in which people held it: only approvals were missing,
/// or it was paused. A soak goes on meanwhile, so that what is before its end counts.
fn seconds(run: &RolloutRunStatus, step: &RunStep) -> Option<i64> {
    let (from, to) = (step.opened_at.as_ref()?.0, step.completed_at.as_ref()?.0);
    let gates = run.gates.iter().filter(|gate| step.gates.contains(&gate.name));
    let soaked = gates.filter_map(|gate| gate.soaks_until.as_ref()).map(|until| until.0).max();
    let after_soak = soaked.map_or(from, |until| until.max(from));
    let held = held(run).map(|(begin, end)| {
        let (begin, end) = (begin.max(after_soak), end.min(to));
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
