//! What must always hold of a rollout with policies (section 6 of `steering.md`), checked at each
//! decision. Nothing here asks the code under test: policies are read as their user wrote them,
//! what an Application was started for is remembered when that is written, and what gates,
//! quarantines and retries mean is found out from the Applications and from what people said.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::{App, revision};
use super::people::Run;
use super::world::World;
use crate::application_set::decision::Decision;
use crate::rollout::phase::{Entry, EntryMark, Phase};
use wavegate_api::annotations::{RUN, annotation_of};
use wavegate_api::policy::{Baseline, Failures, Gate, OnFailure};
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunPhase};
use wavegate_engine::promotion::promotion_of;

/// A start of an Application by a run, as it was written.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The run.
    pub run: String,
    /// The target of the Application, also when it goes back.
    pub target: String,
    /// The promotion.
    pub at: Timestamp,
    /// Whether it takes the Application back.
    pub goes_back: bool,
    /// The health before the first start for this target in the run.
    pub before: String,
    /// The path and the commit that it may go back to.
    pub good: Option<(String, u32)>,
}

/// What is known about a gate in a run.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// Since when all Applications of earlier steps are Healthy.
    since: Option<Timestamp>,
    /// Whether it may be open.
    is_open: bool,
    /// The Applications with the targets that people let through.
    admits: BTreeSet<(String, String)>,
}

/// A run as a decision leaves it.
#[derive(Clone, Copy)]
pub struct Current<'a> {
    pub name: &'a str,
    /// What people said, as far as the controller knows; nothing about a new run.
    pub spec: Option<&'a RolloutRunSpec>,
    pub status: &'a RolloutRunStatus,
}

fn soak(gate: &Gate) -> SignedDuration {
    let seconds = gate.soak.trim_end_matches('s');
    SignedDuration::from_secs(if seconds.is_empty() { 0 } else { seconds.parse().unwrap() })
}

/// What an Application carries of a run.
pub fn carried(application: &Value) -> Option<Value> {
    serde_json::from_str(annotation_of(application, RUN)?).ok()
}

/// When the start was promoted that an Application carries.
fn carried_at(application: &Value) -> Option<Timestamp> {
    carried(application)?["at"].as_str()?.parse().ok()
}

/// The state of its last operation.
pub fn ended(application: &Value) -> &str {
    application["status"]["operationState"]["phase"].as_str().unwrap_or_default()
}

/// Whether an operation is requested or running.
pub fn is_busy(application: &Value) -> bool {
    application["operation"].is_object() || matches!(ended(application), "Running" | "Terminating")
}

/// The promotion of its last operation.
pub fn ended_of(application: &Value) -> Option<Timestamp> {
    promotion_of(&application["status"]["operationState"]["operation"])
}

pub fn entry_of<'a>(entries: &'a [Entry], name: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.application == name)
}

impl World {
    /// The value of a label of a generated Application.
    pub fn label(&self, name: &str, label: &str) -> Option<String> {
        let element = self.known().elements.get(name)?;
        Some(match label {
            "zone" => super::spec::zone(name).to_owned(),
            _ => element.label.to_string(),
        })
    }

    /// The step that an Application counts in.
    pub fn step_of(&self, name: &str) -> Option<usize> {
        self.known().steps_of(name).first().copied()
    }

    pub fn is_behind(&self, name: &str, gate: &Gate) -> bool {
        let by_label = gate.applications.as_ref().is_some_and(|selector| {
            let mut labels = selector.match_labels.iter();
            labels.all(|(label, value)| self.label(name, label).as_ref() == Some(value))
        });
        let step = self.step_of(name).map(|step| step as i64 + 1);
        self.known().elements.contains_key(name)
            && (by_label || step.is_some_and(|step| gate.steps.contains(&step)))
    }

    /// The target of a generated Application.
    pub fn target(&self, name: &str, entries: &[Entry]) -> String {
        let element = &self.known().elements[name];
        let revisions = entry_of(entries, name).map(|entry| entry.target_revisions.join(","));
        let revisions = revisions.unwrap_or_default();
        format!("{} {:?} {revisions}", element.path(), element.automated)
    }

    /// The entries that are stored.
    pub fn stored_entries(&self) -> Vec<Entry> {
        self.set.status.entries.iter().flatten().cloned().collect()
    }

    /// The start that an Application carries, as far as the controller knows, if it is one of
    /// this run for its present target.
    pub fn begun(&self, name: &str, run: &str, entries: &[Entry]) -> Option<&Begun> {
        let at = carried_at(self.memory.cache.get(name)?)?;
        let begun = self.cluster.apps.get(name)?.begun.iter().find(|begun| begun.at == at)?;
        let is_current = self.known().elements.contains_key(name)
            && begun.run == run
            && begun.target == self.target(name, entries);
        is_current.then_some(begun)
    }

    /// The latest run that the controller knows.
    fn latest(&self) -> Option<&Run> {
        self.model.as_ref()?.known.last()
    }

    /// The run after a decision.
    pub fn current<'a>(&'a self, decision: &'a Decision) -> Option<Current<'a>> {
        let known = self.latest();
        let decided = decision.rollout.as_ref().and_then(|plan| plan.run.as_ref());
        match decided {
            Some(run) => {
                let spec = known.filter(|_| run.new.is_none()).map(|known| &known.spec);
                Some(Current { name: &run.name, spec, status: &run.status })
            }
            None => known.map(|run| Current {
                name: &run.name,
                spec: Some(&run.spec),
                status: &run.status,
            }),
        }
    }

    /// The failure policies.
    pub fn budgets(&self) -> impl Iterator<Item = &Failures> {
        let policies = self.model.iter().flat_map(|model| &model.policies);
        policies.filter_map(|policy| policy.failures.as_ref())
    }

    /// Whether no policy counts Applications that were not Healthy before (ST-041).
    pub fn ignores_baseline(&self) -> bool {
        self.budgets().count() > 0 && self.budgets().all(|one| one.baseline == Baseline::Ignore)
    }

    /// Whether a rollout may go on without this Application.
    pub fn is_excusable(&self, name: &str) -> bool {
        let Some(run) = self.latest() else { return false };
        let live = self.memory.cache.get(name);
        let entries = self.stored_entries();
        let begun = self.begun(name, &run.name, &entries);
        let (Some(live), Some(begun)) = (live, begun) else { return skips(&run.spec, name) };
        let has_failed = matches!(ended(live), "Failed" | "Error")
            || live["status"]["health"]["status"] == "Degraded"
            || self.is_late(begun.at);
        let mut budgets = self.budgets();
        let is_within = self.budgets().count() > 0
            && budgets.all(|one| one.max.is_some() || one.on_failure == OnFailure::Continue);
        let has_finished = run.status.phase == RunPhase::CompleteWithFailures;
        let is_no_worse = self.ignores_baseline() && !self.was_healthy(&run.name, name);
        skips(&run.spec, name)
            || has_failed && (is_within || has_finished)
            || is_no_worse && ended(live) == "Succeeded"
    }

    /// Whether the deadline of a promotion is over.
    pub fn is_late(&self, promotion: Timestamp) -> bool {
        let passed = self.cluster.now.duration_since(promotion);
        self.budgets().any(|one| match one.deadline.trim_end_matches('s') {
            "" => false,
            seconds => passed >= SignedDuration::from_secs(seconds.parse().unwrap()),
        })
    }

    fn is_paused(&self) -> bool {
        let policies = self.model.iter().flat_map(|model| &model.policies);
        self.memory.set.paused.is_some() || policies.into_iter().any(|policy| policy.paused)
    }

    /// Whether a retry of an Application is due: a person asked for it after its start.
    pub fn is_retried(&self, name: &str, run: Current<'_>) -> bool {
        let Some(spec) = run.spec else { return false };
        let before = self.memory.cache.get(name).and_then(carried_at);
        spec.retries.iter().zip(&run.status.retried).any(|(retry, since)| {
            let is_meant =
                retry.applications.is_empty() || retry.applications.iter().any(|one| one == name);
            is_meant && before.is_none_or(|before| before < since.0)
        })
    }

    /// Checks a decision, and remembers what it means.
    pub fn decided(&mut self, decision: &Decision) {
        if self.memory.set.is_deleting {
            return;
        }
        self.compare_without_runs(decision);
        if self.model.is_none() {
            return;
        }
        self.check_deletions(decision);
        let Some(plan) = &decision.rollout else { return };
        let covered = self.covered(decision);
        for (covers, targets) in covered {
            let Some(model) = &mut self.model else { return };
            let known = model.covered.entry(covers).or_insert_with(|| targets.clone());
            assert_eq!(*known, targets, "ST-011: one hash covers other targets");
        }
        self.remember_health(decision);
        let doors = self.doors(decision);
        if let Some(model) = &mut self.model {
            model.doors = doors;
            model.in_flight = model.in_flight.max(plan.in_flight);
        }
        self.remember_ramp(decision);
        self.check_pause(decision);
        self.check_failures(decision);
        self.check_limits(decision);
        for patch in decision.writes.patches.iter().filter(|patch| patch.starts) {
            self.check_promotion(&patch.name, &patch.body(), decision);
        }
    }

    /// ST-041: the health of Applications when a run begins.
    fn remember_health(&mut self, decision: &Decision) {
        let run = decision.rollout.as_ref().and_then(|plan| plan.run.as_ref());
        let Some((run, model)) = run.zip(self.model.as_mut()) else { return };
        let stored = model.known.iter().find(|known| known.name == run.name);
        if stored.is_some_and(|stored| stored.status.started_at.is_some()) {
            return;
        }
        let health = |live: &Value| live["status"]["health"]["status"].as_str().map(str::to_owned);
        let all = self.memory.cache.iter();
        let all = all.filter_map(|(name, live)| Some((name.clone(), health(live)?))).collect();
        model.health_before.insert(run.name.clone(), all);
    }

    /// Whether an Application was Healthy, or its health not known, when a run began.
    pub fn was_healthy(&self, run: &str, name: &str) -> bool {
        let model = self.model.as_ref().and_then(|model| model.health_before.get(run));
        let health = model.and_then(|all| all.get(name)).map_or("Unknown", String::as_str);
        matches!(health, "Healthy" | "Unknown")
    }

    /// ST-020: nothing is promoted while the set is paused, and nothing stays promoted whose
    /// operation is not written.
    fn check_pause(&self, decision: &Decision) {
        let is_paused = self.is_paused();
        if let Some(run) = self.current(decision)
            && !run.status.phase.has_ended()
            && run.status.phase != RunPhase::RollingBack
        {
            assert_eq!(run.status.phase == RunPhase::Paused, is_paused, "ST-004: {:?}", run.status);
        }
        if !is_paused {
            return;
        }
        let start = decision.writes.patches.iter().find(|patch| patch.starts);
        assert!(start.is_none(), "ST-020: promoted while the set is paused: {start:?}");
        let is_unwritten = |entry: &&Entry| {
            let live = &self.memory.cache[&entry.application];
            let promotions = [promotion_of(&live["operation"]), ended_of(live)];
            let is_written = promotions.into_iter().flatten().any(|at| at >= entry.since);
            entry.phase == Phase::Pending
                && entry.mark != Some(EntryMark::Requested)
                && !is_written
                && !is_busy(live)
        };
        let unwritten = decision.listed.entries.iter().find(is_unwritten);
        assert!(unwritten.is_none(), "ST-020: {unwritten:?} stays promoted while it is paused");
    }

    /// ST-011: what the hash of each gate covers are the targets behind it.
    fn covered(&self, decision: &Decision) -> Vec<(String, BTreeMap<String, String>)> {
        let entries = &decision.listed.entries;
        let run = decision.rollout.as_ref().and_then(|plan| plan.run.as_ref());
        let run = run.filter(|run| !run.status.phase.has_ended());
        let (Some(run), Some(model)) = (run, &self.model) else { return Vec::new() };
        let mut found = Vec::new();
        for (number, policy) in model.policies.iter().enumerate() {
            for gate in &policy.gates {
                let of = format!("policy-{number}");
                let is_it =
                    |one: &&wavegate_api::run::RunGate| one.name == gate.name && one.policy == of;
                let shown = run.status.gates.iter().find(is_it);
                let shown = shown.unwrap_or_else(|| panic!("ST-010: {gate:?} is not shown"));
                let targets = self.targets_behind(gate, entries);
                assert_eq!(shown.applications, targets.len() as i64, "ST-010: {shown:?}");
                found.push((shown.covers.clone(), targets));
            }
        }
        found
    }

    fn targets_behind(&self, gate: &Gate, entries: &[Entry]) -> BTreeMap<String, String> {
        let behind = self.known().elements.keys().filter(|name| self.is_behind(name, gate));
        behind.map(|name| (name.clone(), self.target(name, entries))).collect()
    }

    /// The gates of all runs, after a decision: one opens with the approvals of what is behind
    /// it, once all earlier Applications have been Healthy for long enough (ST-010 … ST-012).
    fn doors(&self, decision: &Decision) -> BTreeMap<(String, usize, String), Door> {
        let Some(model) = &self.model else { return BTreeMap::new() };
        let mut doors = model.doors.clone();
        let Some(run) = self.current(decision) else { return doors };
        let (now, entries) = (self.cluster.now, &decision.listed.entries);
        if run.spec.is_none() {
            doors.retain(|(known, ..), _| known != run.name);
        }
        let approvals = run.spec.map(|spec| &spec.approvals);
        for (number, policy) in model.policies.iter().enumerate() {
            for gate in &policy.gates {
                let targets = self.targets_behind(gate, entries);
                let first = targets.keys().filter_map(|name| self.step_of(name)).min();
                let is_earlier = |name: &&String| {
                    first.zip(self.step_of(name)).is_some_and(|(first, step)| step < first)
                };
                let is_healthy = |name: &String| {
                    let entry = entry_of(entries, name);
                    let live = self.memory.cache.get(name);
                    let is_healthy = entry.is_some_and(|entry| entry.phase == Phase::Healthy)
                        && live.is_some_and(|live| live["status"]["health"]["status"] == "Healthy");
                    is_healthy || self.is_excusable(name)
                };
                let may_soak = self.known().elements.keys().filter(is_earlier).all(is_healthy);
                let people: BTreeSet<&String> = approvals
                    .into_iter()
                    .flatten()
                    .filter(|one| one.gate == gate.name)
                    .filter(|one| model.covered.get(&one.covers) == Some(&targets))
                    .map(|one| &one.by)
                    .collect();
                let door = (run.name.to_owned(), number, gate.name.clone());
                let door = doors.entry(door).or_default();
                door.since = may_soak.then(|| door.since.unwrap_or(now));
                // The controller stores whole seconds.
                let has_soaked = door.since.is_some_and(|since| {
                    now.duration_since(since) + SignedDuration::from_secs(1) >= soak(gate)
                });
                let is_approved = people.len() as i64 >= gate.approvals;
                door.is_open |= is_approved && (soak(gate).is_zero() || has_soaked);
                if door.is_open && is_approved {
                    door.admits.extend(targets);
                }
            }
        }
        doors
    }

    /// A promotion whose operation is to be written.
    fn check_promotion(&self, name: &str, body: &Value, decision: &Decision) {
        let Some(model) = &self.model else { return };
        let entries = &decision.listed.entries;
        let target = self.target(name, entries);
        let app = self.cluster.apps.get(name);
        let is_known = app.is_none_or(|app| app.begun.iter().any(|one| one.target == target));
        let Some((start, run)) = carried(body).zip(self.current(decision)) else {
            // Its run was deleted.
            assert!(is_known, "ST-002: {name} is promoted to {target} without a run");
            return;
        };
        if start["goesBack"] == true {
            return self.check_way_back(name, &start, run, entries);
        }
        assert_eq!(start["run"], run.name, "ST-002: {name} is of another run");
        assert_ne!(run.status.phase, RunPhase::RollingBack, "ST-061: {name} is promoted");
        let is_aborted = model.quarantine.contains(&(name.to_owned(), target.clone()));
        let state = || self.state();
        assert!(!is_aborted, "ST-060: {name} is promoted to {target}, aborted: {}", state());
        if run.status.phase.has_ended() {
            // What it has rolled out is healed, and nothing else.
            let is_known = is_known || self.is_retried(name, run);
            assert!(is_known, "ST-003: {name} is promoted to {target} by a run that has ended");
            return;
        }
        let begun = self.cluster.apps.get(name).into_iter().flat_map(|app| &app.begun);
        // A deleted run may have had the same name, and a retry continues one that has ended.
        let is_of_run = |one: &&Begun| {
            let was_continued = run.spec.is_some_and(|spec| !spec.retries.is_empty());
            !was_continued
                && one.run == run.name
                && run.status.started_at.as_ref().is_some_and(|at| one.at >= at.0)
        };
        let other = begun.into_iter().filter(is_of_run).find(|one| one.target != target);
        assert!(other.is_none(), "ST-003: {name} is promoted to {target} by the run of {other:?}");
        for (number, policy) in model.policies.iter().enumerate() {
            for gate in policy.gates.iter().filter(|gate| self.is_behind(name, gate)) {
                let door = model.doors.get(&(run.name.to_owned(), number, gate.name.clone()));
                let is_open = door.is_some_and(|door| {
                    let is_admitted = door.admits.contains(&(name.to_owned(), target.clone()));
                    door.is_open && (gate.approvals == 0 || is_admitted)
                });
                assert!(is_open, "ST-010: {name} behind {gate:?}: {door:?} {:?}", run.spec);
            }
        }
        let is_skipped = run.spec.is_some_and(|spec| skips(spec, name));
        assert!(!is_skipped, "ST-064: {name} is promoted, and skipped");
    }

    /// ST-061: what goes back was started by the run, and those of later steps are back. What is
    /// back is healed to what it went back to.
    fn check_way_back(&self, name: &str, start: &Value, run: Current<'_>, entries: &[Entry]) {
        let of = start["run"].as_str().unwrap();
        let begun = self.begun(name, of, entries);
        let all = || (self.target(name, entries), &self.cluster.apps[name].begun);
        assert!(begun.is_some(), "ST-061: {name} goes back, not started by {of}: {:?}", all());
        if run.status.phase != RunPhase::RollingBack || of != run.name {
            let live = &self.memory.cache[name];
            let is_back = begun.is_some_and(|begun| begun.goes_back) && ended(live) == "Succeeded";
            assert!(is_back && App::has_left(live), "ST-061: {name} goes back without a reason");
            return;
        }
        let step = self.step_of(name);
        for other in self.known().elements.keys().filter(|other| self.step_of(other) > step) {
            let Some(begun) = self.begun(other, run.name, entries) else { continue };
            let live = &self.memory.cache[other];
            // Some cannot go back.
            let can = carried(live).is_some_and(|carried| carried["good"] != json!([]));
            let is_back = begun.goes_back
                && ended(live) == "Succeeded"
                && ended_of(live).is_some_and(|promotion| promotion >= begun.at)
                && live["status"]["health"]["status"] == "Healthy";
            // A person may have taken it back meanwhile.
            let is_taken = entry_of(entries, other).is_some_and(Entry::is_held);
            assert!(
                is_back || is_taken || !can,
                "ST-061: {name} goes back before {other} of a later step"
            );
        }
    }

    /// Before an operation is written: what people said to let it start is recorded.
    pub fn check_start(&self, name: &str, body: &Value) {
        let Some(model) = &self.model else { return };
        let Some(start) = carried(body).filter(|start| start["goesBack"] != true) else { return };
        let stored = model.runs.iter().find(|run| start["run"] == *run.name);
        let Some(stored) = stored.filter(|run| !run.status.phase.has_ended()) else { return };
        for gate in &stored.status.gates {
            let number: usize = gate.policy.trim_start_matches("policy-").parse().unwrap();
            let policy = model.policies.get(number);
            let rule =
                policy.and_then(|policy| policy.gates.iter().find(|one| one.name == gate.name));
            let is_held = rule.is_some_and(|rule| self.is_behind(name, rule));
            assert!(
                !is_held || gate.opened_at.is_some(),
                "ST-006: {name} before {gate:?} is stored"
            );
        }
        self.check_shared(name);
    }

    /// An operation was written.
    pub fn begin(&mut self, name: &str, body: &Value) {
        let Some(start) = carried(body).filter(|_| self.model.is_some()) else { return };
        let entries = self.stored_entries();
        let target = self.target(name, &entries);
        let run = start["run"].as_str().unwrap().to_owned();
        let goes_back = start["goesBack"] == true;
        if !goes_back {
            self.check_ramp(name, &run, &entries);
        }
        let Some(app) = self.cluster.apps.get_mut(name) else { return };
        let at = start["at"].as_str().unwrap().parse().unwrap();
        let (before, good) = app.left_by(&run, &target);
        if goes_back {
            let (_, commit) =
                good.as_ref().unwrap_or_else(|| panic!("ST-061: {name} cannot go back"));
            assert_eq!(body["operation"]["sync"]["revision"], revision(*commit), "ST-061: {name}");
        }
        app.begun.push(Begun { run, target, at, goes_back, before, good });
    }

    /// Remembers what a stored run has aborted.
    pub fn quarantine(&mut self, old: Option<&Run>, new: &Run, decision: &Decision) {
        let size = serde_json::to_string(&new.status).unwrap().len();
        assert!(size < 64 << 10, "ST-005: a status of {size} bytes");
        let entries = &decision.listed.entries;
        let is_ending = |phase| {
            matches!(phase, RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack)
        };
        let was_ending = old.is_some_and(|old| is_ending(old.status.phase));
        let is_of_run = |entry: &&Entry| {
            let name = &entry.application;
            entry.step.is_some()
                && self.known().elements.contains_key(name)
                && (entry.phase != Phase::Healthy || self.begun(name, &new.name, entries).is_some())
        };
        let aborted: Vec<(String, String)> = entries
            .iter()
            .filter(is_of_run)
            .map(|entry| (entry.application.clone(), self.target(&entry.application, entries)))
            .collect();
        let Some(model) = &mut self.model else { return };
        if is_ending(new.status.phase) && !was_ending {
            model.quarantine.extend(aborted);
        }
    }
}

fn skips(run: &RolloutRunSpec, name: &str) -> bool {
    run.skip.iter().any(|one| one == name)
}

impl App {
    /// Its health before the first start for a target in a run, and what it may go back to: what
    /// was deployed before, if it was Healthy with it and only the commit differs (ST-061).
    fn left_by(&self, run: &str, target: &str) -> (String, Option<(String, u32)>) {
        let first = self.begun.iter().find(|one| one.run == run && one.target == target);
        if let Some(first) = first {
            return (first.before.clone(), first.good.clone());
        }
        let health = self.object["status"]["health"]["status"].as_str().unwrap_or("Unknown");
        let is_same = |(path, _): &&(String, u32)| path == self.path();
        let deployed = self.deployed.as_ref().filter(is_same).filter(|_| health == "Healthy");
        let earlier = || self.begun.last()?.good.as_ref().filter(is_same);
        (health.to_owned(), deployed.or_else(earlier).cloned())
    }
}
