//! Failed Applications, and the budget for them (ST-040 … ST-043).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::signature;
use super::started::Started;
use crate::rollout::entry::EntryMark;
use crate::rollout::phase::{ObservedOperation, Phase};
use crate::rollout::policy::{Max, Rules};
use crate::rollout::run_input::{Excuse, Failure};
use crate::rollout::snapshot::Row;
use wavegate_api::HealthStatus;
use wavegate_api::policy::OnFailure;
use wavegate_api::run::RunFailure;
use wavegate_engine::blocking_resource;

/// The most signatures in a status.
const SIGNATURES: usize = 20;
/// The most names of one signature.
const NAMED: usize = 3;

/// How a started Application has failed (ST-040); `None` while it has not.
pub fn failure_of(
    row: &Row<'_>,
    deadline: Option<SignedDuration>,
    now: Timestamp,
) -> Option<Failure> {
    let (entry, seen) = (row.entry.as_ref()?, row.member.observed?);
    let started = row.member.started?;
    let failure = |message: &str| {
        let names = [row.member.name];
        let signature = signature::failure_signature(row.member.resource, message, &names);
        Some(Failure { signature, message: message.to_owned(), is_overdue: false })
    };
    // What a person has synced to is no failure of it (ST-065).
    if entry.is_held() {
        return None;
    }
    // A dry run or a sync of some resources takes back no failure, neither while it runs nor when
    // it has taken the place of the sync in the status.
    let is_running = seen.has_sync_in_flight();
    let is_replaced = seen.is_partial();
    let is_degraded = !is_running && seen.health == HealthStatus::Degraded;
    if entry.phase == Phase::Healthy && !entry.timed_out() {
        // It was Healthy for its target, and is not any more.
        return match is_degraded && (is_replaced || seen.is_degraded()) {
            true => failure(seen.why_degraded()),
            false => None,
        };
    }
    let last = seen.operation.as_ref().filter(|last| is_own(last, started));
    if !is_running && last.is_some_and(|last| last.has_failed() && !last.is_partial) {
        let cause = blocking_resource::cause_of_failure(&seen.detail);
        let message = last.map(|last| last.message.as_str()).unwrap_or_default();
        return failure(if cause.is_empty() { message } else { cause });
    }
    if last.is_some() && is_degraded && seen.is_judged_after_sync(started.at) {
        return failure(seen.why_degraded());
    }
    let is_known = is_replaced || entry.mark == Some(EntryMark::Degraded);
    if let Some(why) = entry.failure().filter(|_| !is_running && is_known) {
        return failure(why);
    }
    deadline_of(row, deadline).filter(|at| *at <= now)?;
    let limit = gotime::duration::print_duration(deadline?);
    let why = match seen.detail.as_str() {
        "" => format!("{:?}, {:?}", seen.sync, seen.health),
        detail => detail.to_owned(),
    };
    let failure = failure(&format!("failed by its deadline of {limit}: {why}"))?;
    Some(Failure { is_overdue: true, ..failure })
}

/// Whether an operation is that of a start, and not an older one.
fn is_own(last: &ObservedOperation, started: &Started) -> bool {
    last.promotion.is_none_or(|promotion| promotion >= started.at) || last.is_partial
}

/// When a started Application fails that is not Healthy until then (ST-040). One that waits again
/// has drifted after it was Healthy, or its start was withdrawn; or the status of its set was lost,
/// and nothing has looked at what its sync has done.
pub fn deadline_of(row: &Row<'_>, deadline: Option<SignedDuration>) -> Option<Timestamp> {
    let (entry, seen) = (row.entry.as_ref()?, row.member.observed?);
    let started = row.member.started?;
    let is_unknown = || {
        seen.operation.as_ref().is_some_and(|last| is_own(last, started) && !last.is_partial)
            && !seen.is_judged_after_sync(started.at)
    };
    let is_under_way = match entry.phase {
        Phase::Waiting => seen.has_sync_in_flight() || is_unknown(),
        Phase::Pending | Phase::Progressing => true,
        Phase::Healthy => entry.timed_out(),
    };
    let is_under_way = is_under_way && !entry.is_held();
    is_under_way.then_some(())?;
    started.at.checked_add(deadline?).ok()
}

fn is_overdue(started: &Started, deadline: SignedDuration, now: Timestamp) -> bool {
    now.duration_since(started.at) >= deadline
}

/// Whether an Application that was not Healthy before its run is no worse after its sync (ST-041):
/// what the run itself has broken, ahead of the promotion of this one, is not excused. One
/// whose health was not known, such as a new one, is not compared with it. One that makes progress
/// has not ended: it is waited for until its deadline, unless it did so before.
pub fn is_no_worse(row: &Row<'_>, deadline: Option<SignedDuration>, now: Timestamp) -> bool {
    let (Some(started), Some(seen)) = (row.member.started, row.member.observed) else {
        return false;
    };
    let before = row.run.before.unwrap_or(started.before);
    let has_ended = match (before, seen.health) {
        (HealthStatus::Progressing, HealthStatus::Progressing) => true,
        (HealthStatus::Degraded, HealthStatus::Progressing) => {
            deadline.is_some_and(|deadline| is_overdue(started, deadline, now))
        }
        (_, HealthStatus::Progressing) => false,
        _ => true,
    };
    !matches!(before, HealthStatus::Healthy | HealthStatus::Unknown)
        && has_ended
        && !seen.has_sync_in_flight()
        && seen.is_judged_after_sync(started.at)
        && seen.sync == wavegate_api::SyncStatusCode::Synced
        && rank(seen.health) <= rank(before)
}

/// How bad a health is.
const fn rank(health: HealthStatus) -> u8 {
    match health {
        HealthStatus::Healthy => 0,
        HealthStatus::Suspended => 1,
        HealthStatus::Progressing => 2,
        HealthStatus::Missing => 3,
        HealthStatus::Degraded => 4,
        HealthStatus::Unknown => 5,
    }
}

/// What the budgets say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is to be done, and why, if too many have failed.
    pub exceeded: Option<(OnFailure, String)>,
    /// Whether failed ones do not hold their step.
    pub excuses: bool,
}

/// Judges the failed Applications by the budgets (ST-042, ST-043).
pub(crate) fn judge(rules: &Rules, rows: &[Row<'_>]) -> Verdict {
    let Some(budget) = &rules.failures else { return Verdict::default() };
    let failed: Vec<&Row<'_>> = rows.iter().filter(|row| row.run.failure.is_some()).collect();
    let mut sizes: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let Some(step) = row.member.step() else { continue };
        let (size, failures) = sizes.entry(step).or_default();
        *size += 1;
        *failures += u64::from(row.run.failure.is_some());
    }
    let mut signatures: BTreeMap<&str, u64> = BTreeMap::new();
    for failure in failed.iter().filter_map(|row| row.run.failure.as_ref()) {
        *signatures.entry(&failure.signature).or_default() += 1;
    }
    // It only reports, also that the rollout goes on.
    let only_reports = budget.only_reports();
    let more = |max: u64| match only_reports {
        true => format!("more than {max}"),
        false => format!("and {max} may"),
    };
    let same = budget.same.as_ref().and_then(|limit| {
        let (signature, count) = signatures.iter().find(|(_, count)| **count >= limit.value)?;
        Some((limit, format!("{count} failed in the same way: {signature}")))
    });
    let of_run = || {
        let limit = budget.count.as_ref().filter(|limit| failed.len() as u64 > limit.value)?;
        Some((limit, format!("{} failed, {}", failed.len(), more(limit.value))))
    };
    let of_step = || {
        let limit = budget.percent.as_ref()?;
        let share = Max::Percent(limit.value);
        sizes.iter().find_map(|(step, (size, failures))| {
            let (step, max) = (step + 1, share.of(*size));
            let text = || format!("{failures} of step {step} failed, {} ({share})", more(max));
            (*failures > max).then(|| (limit, text()))
        })
    };
    let exceeded = same.or_else(of_run).or_else(of_step).map(|(limit, why)| {
        (budget.on_failure.value, format!("{why} {}", budget.source_text(limit)))
    });
    let excuses = (exceeded.is_none() || only_reports) && budget.holds_step.is_none();
    Verdict { exceeded, excuses }
}

/// Excuses Applications that failed within the budget, and those that were not Healthy before.
pub(crate) fn excuse(rules: &Rules, verdict: &Verdict, rows: &mut [Row<'_>], now: Timestamp) {
    for row in rows.iter_mut().filter(|row| row.run.excuse.is_none()) {
        if row.run.failure.is_some() {
            row.run.excuse = verdict.excuses.then_some(Excuse::Failed);
            continue;
        }
        let is_open = row.entry.as_ref().is_some_and(|entry| entry.phase != Phase::Healthy);
        let is_no_worse = row.run.is_started
            && rules.ignores_baseline
            && is_open
            && is_no_worse(row, rules.deadline, now);
        row.run.excuse = is_no_worse.then_some(Excuse::UnhealthyBefore);
    }
}

/// The failures by signature, the most frequent ones first.
pub fn by_signature(rows: &[Row<'_>]) -> Vec<RunFailure> {
    let mut all: BTreeMap<&str, RunFailure> = BTreeMap::new();
    for row in rows {
        let Some(failure) = &row.run.failure else { continue };
        let known = all.entry(&failure.signature).or_insert_with(|| RunFailure {
            signature: failure.signature.clone(),
            message: failure.message.chars().take(500).collect(),
            ..RunFailure::default()
        });
        known.count += 1;
        if known.applications.len() < NAMED {
            known.applications.push(row.member.name.to_owned());
        }
    }
    let mut all: Vec<RunFailure> = all.into_values().collect();
    all.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    all.truncate(SIGNATURES);
    all
}
