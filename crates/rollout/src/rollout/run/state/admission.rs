//! What a run holds (ST-010, ST-020, ST-042, ST-060): each Application for the first reason that
//! there is, or all of them while what may hold them cannot be read.

use jiff::Timestamp;

use super::super::run_name::{name_of, number_of};
use super::super::started::Started;
use super::super::{gates, rollback, run_status};
use super::{State, is_known};
use crate::rollout::run_input::{Excuse, Hold, RunInput};
use crate::rollout::snapshot::Row;
use crate::rollout::wait_kind::WaitKind;
use wavegate_api::policy::OnFailure;
use wavegate_api::run::RunPhase;
use wavegate_engine::names::some_of;

/// How many policies a message names.
const NAMED: usize = 3;

impl State {
    /// Holds what a policy may hold while the policies that applied to the run, or to the one
    /// before it, cannot be read; and what approvals, failures or an ended run may hold while runs
    /// cannot: a permission that was taken away opens no gate, lifts no limit, and promotes to no
    /// target that was aborted. A run with a value that cannot be read holds all.
    fn is_unreadable(&self, input: &RunInput<'_>, rows: &mut [Row<'_>]) -> bool {
        let policies = match self.name {
            Some(_) if input.hides_policies => &self.status.policies[..],
            _ => &[],
        };
        let lacks_runs = !input.records_runs;
        // What a run has started says that there are runs.
        let has_hidden =
            lacks_runs && input.hides_runs && rows.iter().any(|row| row.member.started.is_some());
        let needs_runs = !input.rules.gates.is_empty() || input.rules.failures.is_some();
        let unreadable = input.unreadable_run();
        let is_run_unreadable = unreadable.is_some();
        let message = if let Some(why) = unreadable {
            why
        } else if !policies.is_empty() {
            format!(
                "RolloutPolicies cannot be read, and {} applied before: give the controller get, \
                 list and watch on them",
                some_of(policies, NAMED)
            )
        } else if has_hidden || lacks_runs && needs_runs {
            "RolloutRuns, which have the approvals, failures and aborted targets, cannot be read: \
             give the controller get, list, watch, create and patch on them"
                .to_owned()
        } else {
            return false;
        };
        let all = is_run_unreadable
            || !policies.is_empty()
            || has_hidden
            || input.rules.failures.is_some();
        for row in rows.iter_mut().filter(|row| row.run.hold.is_none()) {
            if all || !input.rules.gates_of(row.member.name).is_empty() {
                let (kind, message) = (WaitKind::Unreadable, message.clone());
                row.run.hold = Some(Hold { kind, message, until: None });
            }
        }
        true
    }

    /// Holds Applications, once it is known which steps are open. `heals` is whether one that is
    /// held at its last good revisions is synced to them again when it has drifted.
    pub fn hold(
        &mut self,
        input: &RunInput<'_>,
        heals: bool,
        rows: &mut [Row<'_>],
        now: Timestamp,
    ) {
        if let Some(why) = &self.is_paused {
            let hold = Hold { kind: WaitKind::Paused, message: why.clone(), until: None };
            rows.iter_mut().for_each(|row| row.run.hold = Some(hold.clone()));
        }
        if !input.hides_policies {
            self.status.policies.clone_from(&input.rules.policies);
            self.status.policies.truncate(run_status::NAMES);
        }
        let is_unreadable = self.is_unreadable(input, rows);
        let Some(name) = self.name.clone() else { return };
        if !is_unreadable && !self.status.phase.has_ended() {
            self.status.gates =
                gates::evaluate(input.rules, &self.spec, &self.status.gates, rows, now);
        }
        let is_held = is_unreadable || self.is_paused.is_some();
        if self.status.phase == RunPhase::RollingBack {
            let holds: Vec<Option<Hold>> = match is_held {
                true => rows.iter().map(|row| row.run.hold.clone()).collect(),
                false => Vec::new(),
            };
            self.rollback = rollback::decide(input, rows, heals.then_some(now));
            // Nothing goes back while the set is paused, or its limits are not known.
            for (row, hold) in rows.iter_mut().zip(holds) {
                row.run.back = None;
                row.run.hold = hold;
            }
            return;
        }
        if is_held {
            return;
        }
        let shut = gates::shut(input, &self.status.gates, rows, now);
        let budget = match (&self.verdict.exceeded, self.status.phase.has_ended()) {
            (Some((OnFailure::Hold, why)), false) => Some(format!(
                "{why}: {}, wavegate skip, {}, {}",
                input.command("retry"),
                input.command("abort"),
                input.command("rollback")
            )),
            _ => None,
        };
        for row in rows.iter_mut() {
            let held_by = |kind, message| Some(Hold { kind, message, until: None });
            let is_quarantined = self.quarantine.has(row);
            row.run.is_over = is_quarantined;
            // One that went back from another target is not held for this one.
            let is_of_target =
                |started: &&Started| started.goes_back && row.has_target(&started.target);
            let back = row.member.started.filter(is_of_target);
            row.run.hold = if row.run.excuse == Some(Excuse::Skipped) {
                held_by(WaitKind::Skipped, format!("run {name} skips it"))
            } else if is_quarantined && let Some(back) = back {
                let good = back.good.join(", ");
                let has_drifted = |seen| rollback::is_to_be_healed(back, seen, now);
                if heals && row.member.observed.is_some_and(has_drifted) {
                    row.run.back = Some(back.good.clone());
                }
                let differs = match row.member.observed {
                    Some(seen) if seen.has_left_its_hold => ", and differs from it",
                    _ => "",
                };
                let message = format!(
                    "it is held at {good} after a rollback{differs}, until its target changes: {}",
                    input.command("retry")
                );
                match row.run.back {
                    Some(_) => None,
                    None => held_by(WaitKind::HeldBack, message),
                }
            } else if is_quarantined {
                let of = self.quarantine.run_of(row).filter(|number| *number > 0);
                let is_own = of == number_of(&name);
                let why = match (self.status.phase, of) {
                    (RunPhase::Aborted, Some(_)) if is_own => "its run was aborted".to_owned(),
                    (RunPhase::RollingBack | RunPhase::RolledBack, Some(_)) if is_own => {
                        "its run was taken back".to_owned()
                    }
                    (_, Some(number)) => {
                        format!("run {} was ended before", name_of(input.set, number))
                    }
                    (_, None) => "a run was aborted or has ended without it".to_owned(),
                };
                let message = format!(
                    "{why}, and its target is not promoted to again: {}",
                    input.command("retry")
                );
                held_by(WaitKind::Quarantined, message)
            } else if !row.run.retries()
                && let Some(why) = &budget
            {
                held_by(WaitKind::FailureBudget, why.clone())
            } else if self.status.phase.has_ended() && is_known(row) {
                // A gate was open for it before, and no gate of this run can open any more.
                None
            } else {
                let gates = input.rules.gates_of(row.member.name).iter();
                let holds = gates.filter_map(|gate| shut.get(gate)?.hold_of(row));
                // A person is asked at once, whatever soaks besides (ST-004); else what ends last.
                let order = |hold: &&Hold| {
                    let until = hold.until.unwrap_or(Timestamp::MAX);
                    (hold.kind != WaitKind::Approval, std::cmp::Reverse(until))
                };
                holds.min_by_key(order).cloned()
            };
        }
    }
}
