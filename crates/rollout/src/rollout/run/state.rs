//! The run of a rollout (ST-002 … ST-006): when one begins, what people say about it, and its
//! next state.

mod admission;
mod people;

use jiff::Timestamp;

use super::failures::{self, Verdict};
use super::pace::Batch;
use super::quarantine::Quarantine;
use super::rollback::Progress;
use super::run_name::{name_of, number_of};
use super::run_status::{self, Facts, beginning};
use super::started::Started;
use super::target_set::CAPACITY;
use super::timeline::{self, Transition};
use super::{admitted, estimate, health_before, paused, status_size, target_set, without_effect};
use crate::rollout::cut::cut;
use crate::rollout::left_out::LeftOut;
use crate::rollout::phase::Phase;
use crate::rollout::policy::Rules;
use crate::rollout::run_input::{CurrentRun, Excuse, RunInput};
use crate::rollout::snapshot::Row;
use crate::rollout::unknown_fields::keep_unknown_of_run;
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::policy::OnFailure;
use wavegate_api::run::{
    RolloutRunSpec, RolloutRunStatus, RunGate, RunPhase, RunStep, TimelineEntry,
};
use wavegate_api::time::stored_time;
use wavegate_api::{HealthStatus, Time};

/// What is to be recorded of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDecision {
    /// The name of the run.
    pub name: String,
    /// The run to create, if it is a new one.
    pub new: Option<PlannedRun>,
    /// Its status.
    pub status: RolloutRunStatus,
    /// Whether something differs that people or the next decision depend on, so that it is
    /// written before anything else.
    pub is_urgent: bool,
    /// Whether nothing differs but what it says of the share of other sets in a limit, which each
    /// of their moves changes.
    pub is_of_shares: bool,
    /// Whether promotions follow from what people say about it: they wait for this write.
    pub must_be_stored: bool,
    /// The run that this one supersedes, with its last state.
    pub superseded: Option<(String, RolloutRunStatus)>,
    /// The Applications whose running operation is terminated.
    pub terminates: Vec<String>,
    /// The transitions that are new.
    pub news: Vec<TimelineEntry>,
    /// The earlier runs to which people said something.
    pub late: Vec<LateRun>,
}

/// An earlier run to which people said something: it records that this has no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct LateRun {
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: RolloutRunStatus,
    /// The transitions that are new.
    pub news: Vec<TimelineEntry>,
}

/// A run to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Its number in the set.
    pub number: u64,
    /// Its spec.
    pub application_set: String,
}

/// The run during one reconcile.
#[derive(Debug)]
pub(super) struct State {
    /// `None` while no run can be recorded, or none was needed yet.
    name: Option<String>,
    new: Option<PlannedRun>,
    spec: RolloutRunSpec,
    before: RolloutRunStatus,
    pub status: RolloutRunStatus,
    superseded: Option<(String, RolloutRunStatus)>,
    quarantine: Quarantine,
    verdict: Verdict,
    rollback: Progress,
    terminates: Vec<String>,
    /// Whether it acts on a retry.
    acts_on_retry: bool,
    is_paused: Option<String>,
    /// The abort that came after its end, in words.
    late_abort: Option<String>,
}

impl State {
    /// The current run, or a new one if something is to be rolled out that it does not cover.
    pub fn begin(input: &RunInput<'_>, rows: &[Row<'_>], now: Timestamp) -> Self {
        let current = input.run;
        let (name, spec, status) = match current {
            Some(CurrentRun { name, spec, status, .. }) => {
                let mut status = status.clone();
                admitted::unpack(&mut status);
                (Some(name.to_owned()), spec.clone(), status)
            }
            None => (None, RolloutRunSpec::default(), RolloutRunStatus::default()),
        };
        let mut state = Self {
            quarantine: Quarantine::read(&status.quarantine),
            name,
            new: None,
            spec,
            before: status.clone(),
            status,
            superseded: None,
            verdict: Verdict::default(),
            rollback: Progress::default(),
            terminates: Vec::new(),
            acts_on_retry: false,
            is_paused: None,
            late_abort: None,
        };
        // One that cannot be read stays as it is: what it does not say now may be an abort.
        if !input.records_runs || input.unreadable_run().is_some() {
            state.name = None;
            return state;
        }
        // It was created, and its status was not written.
        if state.name.is_some() && state.status.started_at.is_none() {
            state.status = beginning(rows, now);
            if let Some(before) = input.history.last() {
                state.quarantine = Quarantine::read(&before.quarantine).inherited();
                state.status.policies.clone_from(&before.policies);
            }
        }
        state.quarantine.observe(rows);
        let is_live = state.is_live();
        let is_superseded =
            is_live && rows.iter().any(|row| state.is_superseded_by(row, input.set));
        let begins = !is_live && rows.iter().any(|row| state.is_changed(row, input.set));
        if is_superseded || begins {
            state.renew(input, rows, is_superseded, now);
        }
        state
    }

    /// Whether the run has started an Application that has another target now, or a later run has
    /// started one and could not be recorded (ST-003, ST-006).
    fn is_superseded_by(&self, row: &Row<'_>, set: &str) -> bool {
        let (Some(name), Some(started)) = (&self.name, row.member.started) else { return false };
        if number_in(set, &started.run) > number_in(set, name) {
            return true;
        }
        let Some(entry) = &row.entry else { return false };
        // A deleted one may have had the same name.
        let is_own = self.status.started_at.as_ref().is_none_or(|since| started.at >= since.0);
        started.run == *name
            && is_own
            && row.member.spec.is_some()
            && !started.is_of(name, row.member.spec, &entry.target_revisions)
    }

    /// Whether an Application has something to roll out that no run covers: none has started it for
    /// its target, or the one that did is gone (ST-006), or it has ended and another one follows,
    /// as after a time without a strategy (ST-003).
    fn is_changed(&self, row: &Row<'_>, set: &str) -> bool {
        if row.member.spec.is_none() || row.member.step().is_none() {
            return false;
        }
        let Some(entry) = &row.entry else { return true };
        let is_superseded = self.status.phase == RunPhase::Superseded;
        // What was aborted stays so until it is known what the next target is.
        let was_ended = matches!(self.status.phase, RunPhase::Aborted | RunPhase::RolledBack);
        entry.phase != Phase::Healthy
            && !entry.is_held()
            && (!is_known(row) || self.is_lost(row, set) || is_superseded)
            // The run that has taken its place may not have been created, and retries are of that one.
            && (is_superseded || !self.quarantine.has(row))
            && !(was_ended && row.behind.is_some())
    }

    /// Whether the run that has started an Application does not exist any more: a person has
    /// deleted it, or it could not be recorded. Those of another set have other names.
    fn is_lost(&self, row: &Row<'_>, set: &str) -> bool {
        let Some(started) = row.member.started.filter(|started| !started.goes_back) else {
            return false;
        };
        let latest = self.name.as_deref().and_then(number_of).unwrap_or_default();
        number_in(set, &started.run).is_some_and(|number| number > latest)
    }

    fn renew(&mut self, input: &RunInput<'_>, rows: &[Row<'_>], superseded: bool, now: Timestamp) {
        let last = self.name.as_deref().and_then(number_of).unwrap_or_default();
        let number = next_number(input.set, last.max(input.taken), rows);
        let name = name_of(input.set, number);
        let quarantine = self.quarantine.inherited();
        // It cannot be asked which apply now, when the policies cannot be read.
        let policies = self.status.policies.clone();
        if superseded && let Some(old) = self.name.take() {
            let mut status = std::mem::take(&mut self.status);
            status.phase = RunPhase::Superseded;
            status.message = format!("run {name} has taken its place");
            status.ended_at = Some(Time(stored_time(now)));
            status.waiting_for.clear();
            let transition = Transition {
                what: RunPhase::Superseded.as_str(),
                message: status.message.clone(),
                ..Transition::default()
            };
            timeline::add(&mut status, transition, now);
            self.superseded = Some((old, status));
        }
        self.new = Some(PlannedRun { number, application_set: input.set.to_owned() });
        self.name = Some(name);
        self.spec =
            RolloutRunSpec { application_set: input.set.to_owned(), ..RolloutRunSpec::default() };
        self.quarantine = quarantine;
        self.before = RolloutRunStatus::default();
        self.status = RolloutRunStatus { policies, ..beginning(rows, now) };
    }

    /// Judges each Application: whether the run has started it, whether it is skipped, failed or
    /// tried again; then what people and the budgets say.
    pub fn judge(&mut self, input: &RunInput<'_>, rows: &mut [Row<'_>], now: Timestamp) {
        self.is_paused = paused::paused(input);
        let Some(name) = self.name.clone() else { return };
        health_before::set_health_before(&self.status.health_before, rows);
        for row in rows.iter_mut() {
            let revisions = row.entry.as_ref().map(|entry| entry.target_revisions.as_slice());
            row.run.is_started = row.member.started.is_some_and(|started| {
                started.is_of(&name, row.member.spec, revisions.unwrap_or_default())
            });
            let is_skipped = self.spec.skip.iter().any(|skipped| skipped == row.member.name);
            row.run.excuse = is_skipped.then_some(Excuse::Skipped);
        }
        let deadline = input.rules.deadline;
        self.retry(rows, deadline, now);
        let is_rolling_back =
            |phase: RunPhase| matches!(phase, RunPhase::RollingBack | RunPhase::RolledBack);
        if !is_rolling_back(self.status.phase) {
            for row in rows.iter_mut().filter(|row| row.run.is_started) {
                let Some(started) = row.member.started else { continue };
                let is_no_worse =
                    input.rules.ignores_baseline && failures::is_no_worse(row, deadline, now);
                let is_judged = !started.goes_back && row.run.excuse.is_none();
                if is_judged && !is_no_worse {
                    row.run.failure = failures::failure_of(row, deadline, now);
                    let pending = Some(&*row).filter(|row| row.run.failure.is_none());
                    row.run.deadline = pending.and_then(|row| failures::deadline_of(row, deadline));
                }
            }
            self.keep_places(input.rules, rows);
            self.verdict = failures::judge(input.rules, rows);
        }
        self.obey(rows, now);
        if !self.status.phase.has_ended() && self.status.phase != RunPhase::RollingBack {
            match self.verdict.exceeded.clone() {
                Some((OnFailure::Abort, why)) => self.abort(rows, "Failures", &why, now),
                Some((OnFailure::Rollback, why)) => self.roll_back(rows, "Failures", &why),
                Some((OnFailure::Hold | OnFailure::Continue, _)) | None => {}
            }
        }
        // One that ended so goes on as it ended, whatever the budget is now.
        if self.status.phase == RunPhase::CompleteWithFailures {
            self.verdict = Verdict { exceeded: None, excuses: true };
        }
        failures::excuse(input.rules, &self.verdict, rows, now);
    }

    /// One that is started again has not failed, until that start has ended; but it keeps its place
    /// in its step, unless its failure was excused and the place has been given to another one.
    fn keep_places(&self, rules: &Rules, rows: &mut [Row<'_>]) {
        let is_over = matches!(self.status.phase, RunPhase::Aborted | RunPhase::Superseded);
        let was_excused = is_over || failures::judge(rules, rows).excuses;
        for row in rows.iter_mut().filter(|row| row.run.retries()) {
            let failure = row.run.failure.take();
            let is_left_behind = failure.is_none() && row.phase() == Some(Phase::Progressing);
            let had_place = is_left_behind || failure.is_some() && !was_excused;
            // What went back is at rest, and gave its place away.
            let went_back = row.member.started.is_some_and(|started| started.goes_back);
            row.run.keeps_place = had_place && !is_over && !went_back;
        }
    }

    /// Whether there is a run that has not ended.
    pub fn is_live(&self) -> bool {
        self.name.is_some() && !self.status.phase.has_ended()
    }

    /// Whether another reconcile has to follow: it begins another run, since a retry has lifted the
    /// quarantine of some targets of one that has ended; or all are back that can be, and what holds
    /// the Applications is not their way back any more.
    pub fn is_followed(&self, set: &str, rows: &[Row<'_>]) -> bool {
        let begins = !self.is_live() && rows.iter().any(|row| self.is_changed(row, set));
        let is_back = self.status.phase == RunPhase::RollingBack && self.rollback.is_complete();
        self.name.is_some() && (begins || is_back)
    }

    /// What a start records.
    pub fn started(&self, row: &Row<'_>, promotion: Timestamp) -> Option<Started> {
        let run = self.name.clone()?;
        let target = row.target()?;
        // Its run, and what it started, stay.
        let held = row
            .member
            .started
            .filter(|one| one.goes_back && row.run.back.is_some() && row.has_target(&one.target));
        if let Some(held) = held {
            return Some(Started { at: promotion, ..held.clone() });
        }
        let earlier =
            row.member.started.filter(|one| one.is_of(&run, Some(&target.spec), &target.revisions));
        let health = row.member.observed.map_or(HealthStatus::Unknown, |seen| seen.health);
        let goes_back = row.run.back.is_some();
        Some(Started {
            run,
            target,
            at: promotion,
            before: earlier.map_or(health, |earlier| earlier.before),
            good: earlier.map(|earlier| earlier.good.clone()).unwrap_or_default(),
            base: String::new(),
            goes_back,
        })
    }

    /// The run after this reconcile; `None` when nothing is recorded.
    pub fn finish(
        mut self,
        input: &RunInput<'_>,
        batches: &[Option<Batch>],
        facts: &Facts<'_, '_>,
        now: Timestamp,
    ) -> Option<RunDecision> {
        let name = self.name.clone()?;
        let late = input.late.iter().map(|words| {
            let (status, news) = without_effect::recorded(&words.status, &words.found, now);
            LateRun { name: words.run.clone(), status, news }
        });
        let late: Vec<LateRun> = late.collect();
        let had_ended = self.before.phase.has_ended() && self.new.is_none();
        let has_ended = self.status.phase.has_ended();
        self.bound_quarantine(input.set, now);
        self.status.quarantine = self.quarantine.text();
        if had_ended && has_ended && self.before.phase == self.status.phase {
            // It is history. What people said since is acknowledged.
            let mut found = without_effect::found_late(&self.spec, &self.before, true);
            found.extend(self.late_abort.take());
            found.truncate(without_effect::room(&self.before));
            self.status.without_effect.extend(found);
            if self.status == self.before && self.terminates.is_empty() && late.is_empty() {
                return None;
            }
        } else {
            run_status::describe(&mut self.status, &self.before, input, batches, facts, now);
            if input.unreadable_run().is_none() && !input.hides_policies {
                self.status.without_effect = without_effect::found(
                    &self.spec,
                    &self.status,
                    &self.before.without_effect,
                    self.acts_on_retry,
                    input.rules,
                    facts.rows,
                );
            }
            self.report_budget(now);
            self.settle(facts, now);
        }
        self.status.quarantine = self.quarantine.text();
        let mut status = std::mem::take(&mut self.status);
        let is_well = |name: &str| {
            let row = facts.rows.iter().find(|row| row.member.name == name);
            row.is_some_and(|row| row.phase() == Some(Phase::Healthy) && row.run.failure.is_none())
        };
        let requesters = timeline::Requesters {
            skips: &self.spec.skips,
            skip_manager: input.run.and_then(|run| run.skip_manager),
            skip: &self.spec.skip,
            is_paused: self.is_paused.is_some(),
            paused_by: input.paused_by.filter(|_| input.paused.is_some()),
            resumed_by: input.resumed_by.filter(|_| input.paused.is_none()),
        };
        timeline::compare(&self.before, &mut status, requesters, is_well, now);
        let ends_by_time =
            !status.phase.has_ended() && estimate::ends_by_time(&status, facts.kinds);
        // What a new one follows is not among those before it yet.
        let latest = input.run.filter(|_| self.new.is_some()).map(|run| run.status);
        let history: Vec<&RolloutRunStatus> = input.history.iter().chain(latest).collect();
        let estimate = || estimate::of(&status, input.rules, &history, now);
        status.estimate = ends_by_time.then(estimate).flatten();
        keep_unknown_of_run(&self.before, &mut status);
        let is_new = |entry: &&TimelineEntry| !self.before.timeline.contains(entry);
        let news = status.timeline.iter().filter(is_new).cloned().collect();
        let revisions = target_set::revisions_of(facts.rows);
        if status != self.before {
            status_size::bound_size(&mut status, &revisions);
        }
        let is_urgent = self.new.is_some() || differs(&self.before, &status);
        let is = |phase: RunPhase| (status.phase == phase) != (self.before.phase == phase);
        let must_be_stored = self.acts_on_retry
            || self.quarantine.has_grown()
            || status.retried != self.before.retried
            || status.aborted_at != self.before.aborted_at
            || status.rollback_at != self.before.rollback_at
            || is(RunPhase::Aborted)
            || is(RunPhase::RollingBack)
            || status.gates.iter().any(|gate| gate.is_open() && !was_open(gate, &self.before));
        let is_recorded = is_urgent
            || status != self.before
            || self.superseded.is_some()
            || !late.is_empty()
            || !self.terminates.is_empty();
        if !is_recorded {
            return None;
        }
        let is_of_shares = !is_urgent && run_status::differs_in_shares(&self.before, &status);
        admitted::pack(&mut status, &revisions);
        if let Some((_, superseded)) = &mut self.superseded {
            status_size::bound_size(superseded, &revisions);
            admitted::pack(superseded, &revisions);
        }
        Some(RunDecision {
            name,
            new: self.new,
            is_of_shares,
            status,
            is_urgent,
            must_be_stored,
            superseded: self.superseded,
            terminates: self.terminates,
            news,
            late,
        })
    }

    /// Forgets what does not fit into the status, and says so (ST-060).
    fn bound_quarantine(&mut self, set: &str, now: Timestamp) {
        for forgotten in self.quarantine.bound() {
            let run = match forgotten.run {
                0 => "an earlier run".to_owned(),
                number => format!("run {}", name_of(set, number)),
            };
            let what = match forgotten.kept {
                0 => format!("the targets of {run} are promoted to again"),
                kept => format!("only {kept} targets of {run} stay in quarantine"),
            };
            let transition = Transition {
                what: "QuarantineEnded",
                message: format!("{what}: more than {CAPACITY} are not remembered"),
                ..Transition::default()
            };
            timeline::add(&mut self.status, transition, now);
        }
    }

    /// The phase and the message (ST-004).
    fn settle(&mut self, facts: &Facts<'_, '_>, now: Timestamp) {
        let is_aborted = self.status.phase == RunPhase::Aborted;
        if is_aborted {
            self.status.waiting_for.clear();
            return;
        }
        if self.status.phase == RunPhase::RollingBack {
            let Progress { total, back, cannot, held, failed } = &self.rollback;
            let named = |names: &[String], one: &str, more: &str, next: &str| match names {
                [] => String::new(),
                [name] => format!("; 1 {one}: {name}{next}"),
                [first, ..] => format!("; {} {more}, such as {first}{next}", names.len()),
            };
            let revert = ": revert the ApplicationSet";
            self.status.message = format!(
                "{back} of {total} {} back{}{}{}",
                if *total == 1 { "is" } else { "are" },
                named(failed, "failed", "failed", ""),
                named(
                    held,
                    "stays where a person has synced it",
                    "stay where a person has synced them",
                    ""
                ),
                named(cannot, "cannot go back by itself", "cannot go back by themselves", revert)
            );
            self.status.failed = i64::try_from(failed.len()).unwrap_or(i64::MAX);
            if self.rollback.is_complete() {
                self.status.phase = RunPhase::RolledBack;
                self.status.ended_at = Some(Time(stored_time(now)));
                // No way back is open any more: what remains is what the run has failed by.
                self.status.failed = self.status.failed_by_signature();
                self.status.waiting_for.clear();
            }
            return;
        }
        if facts.open_step.is_none() && !self.status.steps.is_empty() {
            let failed = facts.rows.iter().filter(|row| row.run.excuse == Some(Excuse::Failed));
            let left_out = LeftOut::of(facts.rows);
            let others = LeftOut { failed: Vec::new(), ..left_out };
            (self.status.phase, self.status.message) = match (failed.count(), self.goes_on()) {
                (0, _) => (RunPhase::Complete, others.text()),
                (_, Some(why)) => {
                    (RunPhase::CompleteWithFailures, format!("{}{}", cut(why), others.rest()))
                }
                (failed, None) => (
                    RunPhase::CompleteWithFailures,
                    format!("{failed} failed, within the budget{}", others.rest()),
                ),
            };
            self.status.ended_at = Some(Time(stored_time(now)));
            self.status.waiting_for.clear();
            // What it leaves begins no run of its own.
            for row in facts.rows.iter().filter(|row| row.run.is_excused()) {
                if !row.run.is_started {
                    self.quarantine.leave_out(row);
                }
            }
            return;
        }
        let waits = |kind: WaitKind| facts.kinds.contains_key(&kind);
        let message = |kind: WaitKind| {
            let wait = facts.waiting.iter().find(|wait| wait.kind == kind);
            wait.map(|wait| cut(&wait.message)).unwrap_or_default()
        };
        (self.status.phase, self.status.message) = if let Some(why) = &self.is_paused {
            (RunPhase::Paused, why.clone())
        } else if let Some((OnFailure::Hold, why)) = &self.verdict.exceeded {
            (RunPhase::Held, cut(why))
        } else if waits(WaitKind::Approval) {
            (RunPhase::AwaitingApproval, message(WaitKind::Approval))
        } else if waits(WaitKind::Soak) {
            (RunPhase::Soaking, message(WaitKind::Soak))
        } else {
            let first = facts.waiting.first();
            let first = first.map(|wait| format!("{}: {}", wait.application, wait.message));
            let goes_on = self.goes_on().map(|why| format!("{why}; going on"));
            let parts: Vec<String> = goes_on.into_iter().chain(first).collect();
            (RunPhase::Progressing, cut(&parts.join("; ")))
        };
    }

    /// That more have failed than a budget permits which only reports (ST-042).
    fn goes_on(&self) -> Option<&str> {
        match &self.verdict.exceeded {
            Some((OnFailure::Continue, why)) => Some(why),
            Some((OnFailure::Hold | OnFailure::Abort | OnFailure::Rollback, _)) | None => None,
        }
    }

    /// Says once that a budget is exceeded which only reports (ST-042).
    fn report_budget(&mut self, now: Timestamp) {
        let what = "BudgetExceeded";
        let is_said = self.status.timeline.iter().any(|entry| entry.what == what);
        if let Some(why) = self.goes_on().filter(|_| !is_said) {
            let message = format!("{why}; going on");
            let transition = Transition { what, message, ..Transition::default() };
            timeline::add(&mut self.status, transition, now);
        }
    }
}

/// The number of a run of this set; `None` for a name of another form.
fn number_in(set: &str, run: &str) -> Option<u64> {
    number_of(run).filter(|number| name_of(set, *number) == run)
}

/// The number of a new run, after `last`. Applications remember runs that were deleted (ST-006):
/// the name of one that is under way is taken again, so that what it has started still counts; that
/// of one that is over is not, since what it has started would count for another change.
fn next_number(set: &str, last: u64, rows: &[Row<'_>]) -> u64 {
    let of = |row: &Row<'_>| {
        let started = row.member.started?;
        let number = number_in(set, &started.run)?;
        let is_open = row.entry.as_ref().is_some_and(|entry| entry.phase != Phase::Healthy);
        let is_under_way = is_open && row.has_target(&started.target);
        Some((number, is_under_way))
    };
    match rows.iter().filter_map(of).max() {
        Some((known, true)) if known > last => known,
        Some((known, false)) => last.max(known).saturating_add(1),
        _ => last.saturating_add(1),
    }
}

/// Whether a run has started an Application for its present target.
fn is_known(row: &Row<'_>) -> bool {
    row.member.started.is_some_and(|one| row.has_target(&one.target))
}

/// Whether a gate was open for the same targets.
fn was_open(gate: &RunGate, before: &RolloutRunStatus) -> bool {
    before.gates.iter().any(|one| {
        one.name == gate.name
            && one.policy == gate.policy
            && one.is_open()
            && one.opened_for == gate.opened_for
    })
}

/// Whether two states differ in what people or the next decision depend on.
fn differs(old: &RolloutRunStatus, new: &RolloutRunStatus) -> bool {
    let steps = |status: &RolloutRunStatus| {
        let step = |step: &RunStep| {
            (step.opened_at.clone(), step.completed_at.clone(), step.batch, step.before_batch)
        };
        status.steps.iter().map(step).collect::<Vec<_>>()
    };
    old.phase != new.phase
        || old.failed != new.failed
        || old.timeline != new.timeline
        || old.quarantine != new.quarantine
        || old.gates != new.gates
        || old.policies != new.policies
        || old.retried != new.retried
        || old.aborted_at != new.aborted_at
        || old.rollback_at != new.rollback_at
        || steps(old) != steps(new)
}

#[cfg(test)]
mod tests;
