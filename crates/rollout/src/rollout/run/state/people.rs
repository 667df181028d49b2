//! What people say about a run: retries, an abort, a rollback (ST-060 … ST-063). Failures end one in
//! the same way.

use jiff::{SignedDuration, Timestamp};

use super::super::run_name::{name_of, number_of};
use super::super::timeline::{self, Transition};
use super::super::{failures, retries, rollback, without_effect};
use super::State;
use crate::rollout::cut::cut;
use crate::rollout::phase::Phase;
use crate::rollout::snapshot::Row;
use wavegate_api::run::RunPhase;
use wavegate_api::time::{of_word, stored_time};
use wavegate_api::{OperationPhase, Time};

/// How much a time of another clock, or of a promotion, may be ahead.
const AHEAD: SignedDuration = SignedDuration::from_secs(3);

impl State {
    /// Acts on retries (ST-063): each lifts a quarantine, and starts failed Applications again. One
    /// of a run that goes back repeats the ways back that failed, and lifts none.
    pub(super) fn retry(
        &mut self,
        rows: &mut [Row<'_>],
        deadline: Option<SignedDuration>,
        now: Timestamp,
    ) {
        let spec = std::mem::take(&mut self.spec);
        // What was started before is stored: a retry is later, also in the same second, and what it
        // starts is not earlier than it (`start::promote`).
        let started = rows.iter().filter(|row| row.run.is_started);
        let started = started.filter_map(|row| row.member.started.map(|started| started.at));
        let after = started.filter_map(|at| at.checked_add(SignedDuration::from_secs(1)).ok());
        let acted_at = after.map(stored_time).chain([stored_time(now)]).max();
        let acted_at = Time(acted_at.unwrap_or(now));
        let new = retries::take(&spec, &mut self.status, &acted_at);
        self.acts_on_retry = !new.is_empty();
        for retry in new {
            let is_meant = |name: &str| {
                retry.applications.is_empty() || retry.applications.iter().any(|one| one == name)
            };
            let phase = self.status.phase;
            // For some of them only, a run that was ended stays ended for the others.
            let is_for_all = retry.applications.is_empty();
            let number = self.number();
            let mut lifted = Vec::new();
            match phase {
                RunPhase::RollingBack => {}
                _ if is_for_all => lifted = self.quarantine.lift(number, rows),
                _ => {
                    for row in rows.iter().filter(|row| is_meant(row.member.name)) {
                        self.quarantine.lift_one(number, row);
                    }
                }
            }
            let goes_on = match phase {
                RunPhase::Aborted | RunPhase::RolledBack => is_for_all,
                RunPhase::CompleteWithFailures => true,
                _ => false,
            };
            if goes_on {
                self.status.phase = RunPhase::Progressing;
                self.status.ended_at = None;
                self.status.ended_by = String::new();
            }
            let subject = retry.applications.join(", ");
            lifted.retain(|lifted| ![0, number].contains(lifted));
            let of = |number: u64| name_of(&spec.application_set, number);
            let message = match lifted.as_slice() {
                [] => String::new(),
                lifted => {
                    let all: Vec<String> = lifted.iter().map(|number| of(*number)).collect();
                    format!("the quarantine of {} is lifted", all.join(", "))
                }
            };
            let what = "Retried";
            let transition = Transition { what, subject, by: retry.by.clone(), message };
            timeline::add(&mut self.status, transition, now);
        }
        self.spec = spec;
        let last = self.status.retried.iter().max_by_key(|at| at.0).cloned();
        for row in rows.iter_mut() {
            let last = last.as_ref().filter(|_| self.is_retried(row, deadline, now));
            row.run.retried_at = last.map(|last| last.0);
        }
    }

    /// Whether a retry is due for an Application: it has failed, or is held at its last good
    /// revisions, or a person's sync holds it; and it was not started since. When it is named, it
    /// is also enough that what its sync deployed was changed, and nothing syncs it again.
    fn is_retried(&self, row: &Row<'_>, deadline: Option<SignedDuration>, now: Timestamp) -> bool {
        let (Some(entry), Some(seen)) = (&row.entry, row.member.observed) else { return false };
        let retries = self.spec.retries.iter().zip(&self.status.retried);
        let due = retries
            .filter(|(_, since)| row.member.started.is_none_or(|started| started.at < since.0));
        let is_named =
            |applications: &[String]| applications.iter().any(|name| name == row.member.name);
        if entry.is_held() {
            // One that a person has synced is taken back only when it is named.
            return due.clone().any(|(retry, since)| {
                // Also when no controller has read it before the sync.
                let said = retry.at.as_ref().map_or(since.0, |at| at.0.min(since.0));
                let is_older = seen.person.as_ref().is_none_or(|sync| sync.started_at <= said);
                is_named(&retry.applications) && is_older
            });
        }
        let Some(started) = row.member.started.filter(|_| row.run.is_started) else {
            return false;
        };
        let is_rolling_back = self.status.phase == RunPhase::RollingBack;
        let has_failed = match started.goes_back {
            true if is_rolling_back => {
                rollback::standing(started, seen, false) == rollback::RollbackState::Failed
            }
            true => entry.phase != Phase::Healthy,
            false => !is_rolling_back && failures::failure_of(row, deadline, now).is_some(),
        };
        let is_left_behind = !started.goes_back
            && !is_rolling_back
            && entry.phase != Phase::Healthy
            && seen.stays_out_of_sync();
        // One of all is about those that had failed when it was read. When one that was Healthy has
        // become Degraded is not known.
        let ended = seen.operation.as_ref().and_then(|last| last.finished_at);
        let was_overdue = |since: &Time| {
            deadline.is_some_and(|deadline| since.0.duration_since(started.at) >= deadline)
        };
        let abort = self.spec.abort.as_ref().filter(|abort| abort.terminate);
        let was_terminated = abort.and_then(|abort| abort.at.as_ref()).is_some_and(|at| {
            started.at <= at.0 && seen.operation.as_ref().is_some_and(|last| last.has_failed())
        });
        let had_failed = |since: &Time| {
            let had_ended = ended.is_none_or(|ended| ended.duration_since(since.0) <= AHEAD);
            has_failed && (had_ended || was_terminated || was_overdue(since))
        };
        let is_meant = |applications: &[String], since: &Time| {
            had_failed(since) && applications.is_empty()
                || (has_failed || is_left_behind) && is_named(applications)
        };
        !seen.has_operation_in_flight()
            && due.clone().any(|(retry, since)| is_meant(&retry.applications, since))
    }

    /// Acts on an abort and on a rollback that people ask for (ST-060, ST-061).
    pub(super) fn obey(&mut self, rows: &[Row<'_>], now: Timestamp) {
        if let Some(abort) = self.spec.abort.clone() {
            let at = of_word(abort.at.as_ref());
            let is_new = self.status.aborted_at.as_ref() != Some(&at);
            self.status.aborted_at = Some(at);
            if is_new && !self.status.phase.has_ended() {
                self.abort(rows, &abort.by, "", now);
            }
            // One that was ended so already is as the word wants it.
            let is_complete = matches!(
                self.status.phase,
                RunPhase::Complete | RunPhase::CompleteWithFailures | RunPhase::Superseded
            );
            if is_new && is_complete {
                let why = without_effect::has_ended(&self.status);
                self.late_abort = Some(format!("the abort by {}: {why}", cut(&abort.by)));
            }
            if abort.terminate && self.status.phase == RunPhase::Aborted {
                // As long as they run, since a write may fail; but not what was started later.
                let ended = self.status.ended_at.as_ref().map(|ended| ended.0);
                let last = ended.and_then(|ended| ended.checked_add(AHEAD).ok());
                let is_of_run = |promotion: Timestamp| last.is_some_and(|last| promotion <= last);
                let is_own = |row: &&Row<'_>| {
                    let running = row.member.observed.is_some_and(|seen| {
                        seen.operation.as_ref().is_some_and(|last| {
                            last.phase == OperationPhase::Running
                                && last.promotion.is_some_and(is_of_run)
                        })
                    });
                    row.run.is_started && running
                };
                let names = rows.iter().filter(is_own).map(|row| row.member.name.to_owned());
                self.terminates = names.collect();
            }
        }
        if let Some(rollback) = self.spec.rollback.clone() {
            let at = of_word(rollback.at.as_ref());
            let is_new = self.status.rollback_at.as_ref() != Some(&at);
            self.status.rollback_at = Some(at);
            let can = !matches!(
                self.status.phase,
                RunPhase::Superseded | RunPhase::RollingBack | RunPhase::RolledBack
            );
            if is_new && can {
                self.roll_back(rows, &rollback.by, "");
            }
        }
    }

    /// Ends the run: its targets are not promoted to any more (ST-060).
    pub(super) fn abort(&mut self, rows: &[Row<'_>], by: &str, why: &str, now: Timestamp) {
        self.quarantine_all(rows);
        self.status.phase = RunPhase::Aborted;
        self.status.ended_at = Some(Time(stored_time(now)));
        self.status.ended_by = by.to_owned();
        self.status.message = match why {
            "" => format!("aborted by {by}"),
            why => format!("aborted: {why}"),
        };
    }

    pub(super) fn roll_back(&mut self, rows: &[Row<'_>], by: &str, why: &str) {
        self.quarantine_all(rows);
        self.status.phase = RunPhase::RollingBack;
        self.status.ended_at = None;
        self.status.ended_by = by.to_owned();
        self.status.message = match why {
            "" => format!("{by} takes it back"),
            why => format!("taken back: {why}"),
        };
    }

    fn quarantine_all(&mut self, rows: &[Row<'_>]) {
        self.quarantine.add_run(self.number(), rows);
    }

    fn number(&self) -> u64 {
        self.name.as_deref().and_then(number_of).unwrap_or_default()
    }
}
