//! The limits of a rollout with policies, counted in the cluster: failures (ST-042, ST-043), pace
//! (ST-030) and deletions (ST-050).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::App;
use super::guards::{Current, carried, ended, ended_of, entry_of, is_busy};
use super::world::World;
use crate::application_set::decision::Decision;
use crate::application_set::deletion::deletion_guard;
use crate::rollout::phase::{Entry, Phase};
use wavegate_api::IntOrString;
use wavegate_api::policy::{Failures, OnFailure};
use wavegate_api::run::RunPhase;

/// The number of a limit, for a group of this size.
fn limit(max: &IntOrString, size: usize) -> usize {
    match max {
        IntOrString::Int(count) => usize::try_from(*count).unwrap(),
        IntOrString::String(share) => {
            size * share.trim_end_matches('%').parse::<usize>().unwrap() / 100
        }
    }
}

/// An Application that has failed beyond doubt.
#[derive(Clone, Debug)]
pub struct Failed {
    step: usize,
    /// What is the same of two that failed in the same way.
    why: String,
}

/// The batches of the ramp of a run.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// The configuration and the rule that it began with: with another one it is not known.
    rule: (u64, Option<(usize, usize)>),
    /// By step: those that it may be in, since not every failure is beyond doubt.
    batches: BTreeMap<usize, BTreeSet<Batch>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Batch {
    size: usize,
    /// How many were started before it.
    before: usize,
    /// How many may have failed before it.
    failed: usize,
}

/// The order of care: the most careful action is taken (ST-001).
fn care(action: OnFailure) -> u8 {
    match action {
        OnFailure::Continue => 0,
        OnFailure::Hold => 1,
        OnFailure::Abort => 2,
        OnFailure::Rollback => 3,
    }
}

impl World {
    /// Those that have failed beyond doubt, of those that a run has started (ST-040).
    fn failed(&self, run: Current<'_>, entries: &[Entry]) -> Vec<Failed> {
        let of = |name: &String| {
            let (live, step) = (self.memory.cache.get(name)?, self.step_of(name)?);
            let begun = self.begun(name, run.name, entries).filter(|begun| !begun.goes_back)?;
            let entry = entry_of(entries, name)?;
            let is_ignored = self.ignores_baseline() && !self.was_healthy(run.name, name);
            let is_skipped =
                run.spec.is_some_and(|spec| spec.skip.iter().any(|skipped| skipped == name));
            let is_open = entry.phase != Phase::Healthy && !self.is_retried(name, run);
            if is_ignored || is_skipped || !is_open {
                return None;
            }
            let state = &live["status"]["operationState"];
            let is_own = ended_of(live).is_some_and(|promotion| promotion >= begun.at);
            let is_over = is_own && !is_busy(live);
            let compared = live["status"]["reconciledAt"].as_str();
            let is_judged = compared.zip(state["finishedAt"].as_str()).is_some_and(|(a, b)| a >= b);
            let is_degraded = live["status"]["health"]["status"] == "Degraded" && is_judged;
            let why = match ended(live) {
                "Failed" | "Error" if is_over => state["message"].as_str()?.split(' ').next()?,
                "Succeeded" if is_over && is_degraded => "Degraded",
                // Each may have been late in its own way; what a person has taken is not late.
                _ if self.is_late(begun.at) && !entry.is_held() => name,
                _ => return None,
            };
            Some(Failed { step, why: why.to_owned() })
        };
        self.known().elements.keys().filter_map(of).collect()
    }

    /// Whether a budget is exceeded.
    fn is_over(&self, budget: &Failures, failed: &[Failed]) -> bool {
        let mut ways: BTreeMap<&str, i64> = BTreeMap::new();
        failed.iter().for_each(|one| *ways.entry(&one.why).or_default() += 1);
        let is_same = budget.same.is_some_and(|same| ways.values().any(|count| *count >= same));
        let of_step = |step: usize| failed.iter().filter(|one| one.step == step).count();
        let is_over = match &budget.max {
            None => false,
            Some(max @ IntOrString::Int(_)) => failed.len() > limit(max, 0),
            Some(max) => (0..self.known().steps.len()).any(|step| {
                let of = |name: &&String| self.step_of(name) == Some(step);
                let size = self.known().elements.keys().filter(of).count();
                of_step(step) > limit(max, size)
            }),
        };
        is_same || is_over
    }

    /// ST-042, ST-043: beyond the budget nothing starts but what a person retries, and the run
    /// does what the policies say.
    pub fn check_failures(&self, decision: &Decision) {
        let entries = &decision.listed.entries;
        let Some(run) = self.current(decision) else { return };
        let was = self.model.as_ref().and_then(|model| model.known.last());
        let had_ended = was.is_some_and(|was| was.name == run.name && was.status.phase.has_ended());
        if had_ended && run.status.phase.has_ended() {
            return;
        }
        let failed = self.failed(run, entries);
        // Whichever limit it is: the most careful action of all policies is taken.
        if !self.budgets().any(|budget| self.is_over(budget, &failed)) {
            return;
        }
        let actions = self.budgets().map(|budget| budget.on_failure);
        let Some(action) = actions.max_by_key(|one| care(*one)) else { return };
        if action == OnFailure::Continue {
            return;
        }
        let phase = run.status.phase;
        let is_ended = matches!(
            phase,
            RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack | RunPhase::Superseded
        );
        let is_held = matches!(phase, RunPhase::Held | RunPhase::Paused);
        let acts = is_ended || is_held && action == OnFailure::Hold;
        assert!(acts, "ST-042: {phase:?} instead of {action:?}: {failed:?}");
        for patch in decision.writes.patches.iter().filter(|patch| patch.starts) {
            let goes_back = phase == RunPhase::RollingBack;
            let is_retried = self.is_retried(&patch.name, run);
            assert!(goes_back || is_retried, "ST-042: {} starts beyond {failed:?}", patch.name);
        }
    }

    /// The Applications that count against limits without doubt, once these have started.
    fn in_flight(&self, starts: &[&str], entries: &[Entry]) -> BTreeSet<String> {
        let is_in_flight = |name: &String| {
            let entry = entry_of(entries, name);
            let live = &self.memory.cache[name];
            let app = self.cluster.apps.get(name);
            // The cache may not show it yet.
            let is_written = app.is_some_and(|app| self.runs_now(app))
                && entry.is_some_and(|entry| entry.phase != Phase::Healthy);
            let is_owned = app.is_some_and(|app| app.owner() == super::spec::SET);
            let phase = entry.map(|entry| entry.phase);
            is_owned
                && (phase == Some(Phase::Pending) && !self.is_shut_again(entry)
                    || is_busy(live)
                    || is_written)
        };
        let names = self.memory.cache.keys().filter(|name| is_in_flight(name)).cloned();
        names.chain(starts.iter().map(|name| (*name).to_owned())).collect()
    }

    /// Whether a promotion is suspended, since its step has closed before its operation was
    /// written.
    fn is_shut_again(&self, entry: Option<&Entry>) -> bool {
        entry.is_some_and(|entry| entry.mark == Some(crate::rollout::phase::EntryMark::StepClosed))
    }

    fn runs_now(&self, app: &App) -> bool {
        app.runs_promotion() && app.promoted_in == self.configuration
    }

    /// ST-030: with what a decision starts, no limit besides `maxUpdate` is exceeded.
    pub fn check_limits(&self, decision: &Decision) {
        let Some(model) = &self.model else { return };
        let starts: Vec<&str> =
            decision.writes.patches.iter().filter(|one| one.starts).map(|one| &*one.name).collect();
        if starts.is_empty() {
            return;
        }
        let in_flight = self.in_flight(&starts, &decision.listed.entries);
        for pace in model.policies.iter().filter_map(|policy| policy.pace.as_ref()) {
            if let Some(spread) = &pace.spread {
                for name in &starts {
                    let value = self.label(name, &spread.label);
                    let is_same = |other: &&String| self.label(other, &spread.label) == value;
                    let count = in_flight.iter().filter(is_same).count() as i64;
                    assert!(count <= spread.max, "ST-030: {name} is one of {count}, {spread:?}");
                }
            }
            if let Some(max) = pace.max_in_flight {
                let count = in_flight.len() as i64 + model.elsewhere as i64;
                assert!(count <= max, "ST-030: {count} of maxInFlight {max}: {in_flight:?}");
            }
        }
    }

    /// The same when an operation is written, for what really runs, in all sets.
    pub fn check_shared(&self, name: &str) {
        let Some(model) = &self.model else { return };
        let runs = |(other, app): &(&String, &App)| *other != name && self.runs_now(app);
        let running = self.cluster.apps.iter().filter(runs).count() as u64 + 1;
        if let Some(max) = model.shared() {
            let is_loose = self.timed_out;
            assert!(running + model.elsewhere <= max || is_loose, "ST-030: {running} of {max}");
        }
    }

    /// The configuration and the ramp in effect.
    fn ramp_rule(&self) -> (u64, Option<(usize, usize)>) {
        let policies = self.model.iter().flat_map(|model| &model.policies);
        let ramps: Vec<_> = policies.filter_map(|one| one.pace.as_ref()?.ramp.as_ref()).collect();
        let of = |value: Option<i64>, or: usize| value.map_or(or, |value| value as usize);
        let start = ramps.iter().map(|ramp| of(ramp.start, 1)).min();
        let factor = ramps.iter().map(|ramp| of(ramp.factor, 2)).min();
        (self.configuration, start.zip(factor))
    }

    /// Remembers the ramp that a run begins with. With another one, its batches are not known.
    pub fn remember_ramp(&mut self, decision: &Decision) {
        let Some(run) = self.current(decision) else { return };
        let (name, is_new, rule) = (run.name.to_owned(), run.spec.is_none(), self.ramp_rule());
        let Some(model) = &mut self.model else { return };
        let fresh = Ramp { rule, batches: BTreeMap::new() };
        match model.ramps.get_mut(&name).filter(|_| !is_new) {
            None => drop(model.ramps.insert(name, fresh)),
            Some(ramp) if ramp.rule == rule => {}
            Some(ramp) => ramp.rule = (0, None),
        }
    }

    /// ST-030: a batch of the ramp begins when the one before it has ended, and is larger only
    /// after one without a failure.
    pub fn check_ramp(&mut self, name: &str, run: &str, entries: &[Entry]) {
        let Some(step) = self.step_of(name) else { return };
        let Some(model) = &self.model else { return };
        let (rule, known) = (self.ramp_rule(), model.ramps.get(run));
        let Some(mut ramp) = known.filter(|ramp| ramp.rule == rule).cloned() else { return };
        if let (_, Some((start, factor))) = rule {
            let begun = self.begun_of_step(name, run, step, entries);
            let count = begun.len();
            let is_running = |other: &&String| self.is_under_way(other, entries);
            let running: Vec<&String> = begun.iter().copied().filter(is_running).collect();
            let known = model.known.iter().find(|known| known.name == run);
            let failed = known.map_or(0, |known| {
                let run = Current { name: run, spec: Some(&known.spec), status: &known.status };
                self.failed(run, entries).iter().filter(|one| one.step == step).count()
            });
            let is_open = |other: &&&String| {
                entry_of(entries, other).is_none_or(|entry| entry.phase != Phase::Healthy)
            };
            let may_have_failed = begun.iter().filter(is_open).count();
            let next = |batch: &Batch| {
                if count < batch.before + batch.size {
                    let is_limit_kept = running.len() < batch.size || self.timed_out;
                    return Vec::from_iter(is_limit_kept.then_some(*batch));
                }
                // One that was tried again since is of the new batch.
                let is_first = |other: &&String| {
                    !self.is_begun_again(other, run, entries) && !self.begins_again(other, entries)
                };
                if running.iter().copied().any(|other| is_first(&other)) && !self.timed_out {
                    return Vec::new();
                }
                let next = match failed > batch.failed {
                    true => vec![start],
                    false => vec![start, batch.size * factor],
                };
                let is_kept = |size: &usize| running.len() < *size || self.timed_out;
                let batch_of = |size| Batch { size, before: count, failed: may_have_failed };
                next.into_iter().filter(is_kept).map(batch_of).collect()
            };
            let first = BTreeSet::from([Batch { size: start, before: 0, failed: 0 }]);
            let batches = ramp.batches.entry(step).or_insert(first);
            let after: BTreeSet<Batch> = batches.iter().flat_map(next).collect();
            assert!(
                !after.is_empty(),
                "ST-030: {name} of step {} starts after {count}, while {running:?} runs: {batches:?}",
                step + 1
            );
            *batches = after;
        }
        if let Some(model) = &mut self.model {
            model.ramps.insert(run.to_owned(), ramp);
        }
    }

    /// The others of a step that a run has started, written or not known yet.
    fn begun_of_step(&self, name: &str, run: &str, step: usize, entries: &[Entry]) -> Vec<&String> {
        let is_begun = |other: &&String| {
            *other != name
                && self.step_of(other) == Some(step)
                && self.cluster.apps.get(*other).is_some_and(|app| {
                    let target = self.target(other, entries);
                    app.begun.iter().any(|one| one.run == run && one.target == target)
                })
        };
        self.known().elements.keys().filter(is_begun).collect()
    }

    /// Whether a run has started an Application more than once for its target.
    fn is_begun_again(&self, name: &str, run: &str, entries: &[Entry]) -> bool {
        let target = self.target(name, entries);
        let begun = self.cluster.apps.get(name).into_iter().flat_map(|app| &app.begun);
        begun.filter(|one| one.run == run && one.target == target).count() > 1
    }

    /// Whether one that was started is promoted again, and its operation is not written.
    fn begins_again(&self, name: &str, entries: &[Entry]) -> bool {
        let known = self.memory.cache.get(name).and_then(carried);
        let at = known.and_then(|start| start["at"].as_str()?.parse::<Timestamp>().ok());
        let entry = entry_of(entries, name).filter(|entry| entry.phase == Phase::Pending);
        entry.zip(at).is_some_and(|(entry, at)| at < entry.since)
    }

    /// Whether a started Application is neither Healthy nor failed beyond doubt.
    fn is_under_way(&self, name: &str, entries: &[Entry]) -> bool {
        let (Some(live), Some(entry)) = (self.memory.cache.get(name), entry_of(entries, name))
        else {
            return false;
        };
        let health = &live["status"]["health"]["status"];
        let known = carried(live).and_then(|start| start["at"].as_str()?.parse().ok());
        if known.is_some_and(|at| self.is_late(at)) {
            return false;
        }
        let becomes_healthy = entry.phase == Phase::Progressing
            && ended(live) == "Succeeded"
            && health == "Progressing"
            && !self.is_excusable(name);
        entry.phase == Phase::Pending || is_busy(live) || becomes_healthy
    }

    /// ST-050: more deletions than permitted are those that a person has approved.
    pub fn check_deletions(&mut self, decision: &Decision) {
        let is_here = |one: &&crate::application_set::plan::observe::Existing| {
            one.is_owned() && !one.is_going
        };
        let exist = self.memory.existing.iter().filter(is_here);
        let names: BTreeSet<String> = exist.map(|one| one.name.to_string()).collect();
        let is_left = |name: &&String| !self.known().elements.contains_key(*name);
        let left: BTreeSet<String> = names.iter().filter(is_left).cloned().collect();
        let Some(model) = &mut self.model else { return };
        if let Some(held) = &decision.emptied
            && let Some((_, hash)) = deletion_guard::approval_of(&held.message)
        {
            model.deletions.insert(hash.to_owned(), left);
        }
        let deletes: BTreeSet<String> =
            decision.writes.deletes.iter().map(|one| one.name.to_string()).collect();
        for policy in &model.policies {
            let max = policy.deletions.as_ref().and_then(|one| one.max.as_ref());
            let Some(max) = max else { continue };
            let least = usize::from(matches!(max, IntOrString::String(_)));
            if deletes.len() <= limit(max, names.len()).max(least) {
                continue;
            }
            let approved = self.memory.set.approved_deletions.as_deref();
            // What each of them is has been written after the hash.
            let hash = approved.map(|text| text.split(':').next().unwrap_or_default());
            let approved = hash.and_then(|hash| model.deletions.get(hash));
            let is_approved = approved.is_some_and(|all| deletes.is_subset(all));
            assert!(is_approved, "ST-050: {deletes:?} deleted without an approval, {max:?}");
        }
    }
}

/// ST-060: operations are terminated when a person asks for it, and only those of the run.
pub fn terminates(world: &World, name: &str, body: &Value) -> bool {
    let run = world.model.as_ref().and_then(|model| model.known.last());
    let Some(run) = run.filter(|run| run.spec.abort.as_ref().is_some_and(|one| one.terminate))
    else {
        return false;
    };
    let begun = world.begun(name, &run.name, &world.stored_entries());
    let state = &body["status"]["operationState"];
    let is_end = *state == serde_json::json!({"phase": "Terminating"})
        && body["status"].as_object().is_some_and(|status| status.len() == 1);
    let is_over = matches!(
        run.status.phase,
        // A rollback of nothing ends at once.
        RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack
    );
    begun.is_some() && is_end && is_over
}
