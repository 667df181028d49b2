//! The invariants of the specification (Appendix C), checked on decisions, at
//! each write, and on the state after each reconcile.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::cluster::{App, commit_of};
use super::spec::SET;
use super::world::World;
use crate::application_set::Patch;
use crate::application_set::Update;
use crate::application_set::decision::Decision;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::owner::ApplicationOwner;
use crate::rollout::phase::{Entry, Phase};
use wavegate_api::annotations::{REFRESH, ROLLOUT, RUN};
use wavegate_engine::promotion::promotion_of;

/// I13: the spec of an Application has changed exactly when a write would
/// change it.
pub fn spec_change(existing: &Existing, updates: bool) {
    let is_ours = !matches!(existing.owner, ApplicationOwner::Other(_));
    let is_changed = match &existing.update {
        Update::Patch(patch) => {
            let patch: Value = serde_json::from_str(patch).unwrap();
            patch.get("spec").is_some()
        }
        Update::None | Update::Refused(_) => false,
    };
    if updates && is_ours && !existing.is_going {
        assert_eq!(existing.observed.spec_differs, is_changed, "I13: {}", existing.name);
    }
}

/// I14: the same observation leads to the same decision.
pub fn same(first: &Decision, second: &Decision) {
    assert_eq!(first.status, second.status, "I14");
    assert_eq!(first.writes, second.writes, "I14");
    assert_eq!(first.events, second.events, "I14");
    assert_eq!(first.stalled, second.stalled, "I14");
    assert_eq!(first.rollout, second.rollout, "I14");
    assert_eq!((&first.finalizers, first.next), (&second.finalizers, second.next), "I14");
}

/// Whether the rollout is evaluated.
fn is_rolling(world: &World) -> bool {
    let known = world.known();
    world.settings.progressive_syncs && known.rolling && !known.steps.is_empty() && !known.fails
}

/// Whether nothing may be written: generating fails, or RollingSync has no
/// step.
fn is_shut(world: &World) -> bool {
    let known = world.known();
    let is_empty = known.rolling && known.steps.is_empty();
    !world.memory.set.is_deleting && (known.fails || world.settings.progressive_syncs && is_empty)
}

fn entries(entries: Option<&Vec<Entry>>) -> BTreeMap<&str, &Entry> {
    entries.into_iter().flatten().map(|entry| (entry.application.as_str(), entry)).collect()
}

/// A decision, before its writes.
pub fn decision(world: &World, decision: &Decision) {
    let memory = &world.memory;
    let writes = &decision.writes;
    if is_shut(world) {
        let patches = writes.patches.iter().filter(|patch| !is_guard(patch)).count();
        let count = writes.creates.len() + patches + writes.deletes.len();
        assert_eq!(count, 0, "I7, AS-304: {writes:?}");
    }
    if memory.set.is_deleting {
        return;
    }
    if !is_rolling(world) {
        let starts = writes.patches.iter().any(|patch| patch.starts);
        assert!(!starts, "AS-302: no operation is set without a RollingSync");
        if let Some(status) = decision.status.as_ref().filter(|_| !world.known().fails) {
            assert_eq!(status.entries, None, "AS-301, AS-303, AS-304: the entries are removed");
        }
        return;
    }
    let Some(status) = &decision.status else { return };
    let owned: Vec<&str> =
        memory.existing.iter().filter(|one| one.is_owned()).map(|one| &*one.name).collect();
    let names: Vec<&str> =
        status.entries.iter().flatten().map(|entry| entry.application.as_str()).collect();
    assert_eq!(names, owned, "I5, AS-350: one entry for each Application, by name");
    if status.entries == memory.set.status.entries {
        return;
    }
    let (stored, new) =
        (entries(memory.set.status.entries.as_ref()), entries(status.entries.as_ref()));
    for entry in new.values() {
        let steps = world.known().steps_of(&entry.application);
        assert_eq!(entry.step, steps.first().copied(), "AS-314, AS-316, AS-350: {entry:?}");
        if let Some(was) = stored.get(entry.application.as_str()) {
            transition(world, was, entry);
        }
    }
    ceiling(world, &stored, &new);
}

/// An entry does not skip a phase: what is Pending becomes Healthy only by a
/// change of what is rolled out, or by the timeout (R7).
fn transition(world: &World, was: &Entry, entry: &Entry) {
    if was.phase != Phase::Pending || entry.phase != Phase::Healthy {
        return;
    }
    let seen = &world.memory.existing[index(world, &entry.application)].observed;
    let is_reset = seen.spec_differs || was.target_revisions != seen.revisions;
    let age = world.cluster.now.duration_since(was.since);
    let timeout = world.settings.rollout.rules.progressing_timeout;
    let timed_out = timeout.is_some_and(|timeout| age >= timeout);
    assert!(timed_out || is_reset, "AS-351, AS-356: {was:?} becomes {entry:?}");
}

fn index(world: &World, name: &str) -> usize {
    world.memory.existing.binary_search_by(|one| (*one.name).cmp(name)).unwrap()
}

/// I1: no promotion lets more Applications of a step be in flight than allowed.
fn ceiling(world: &World, stored: &BTreeMap<&str, &Entry>, new: &BTreeMap<&str, &Entry>) {
    let runs =
        |name: &str| world.memory.existing[index(world, name)].observed.has_operation_in_flight();
    for step in 0..world.known().steps.len() {
        let Some(allowed) = world.known().allowed(step) else { continue };
        let of_step = || new.iter().filter(|(_, entry)| entry.step == Some(step));
        let is_promoted = |(name, entry): &(&&str, &&Entry)| {
            let was = stored.get(**name);
            let is_known =
                was.is_some_and(|was| was.phase == Phase::Pending && was.since == entry.since);
            entry.phase == Phase::Pending && !is_known && !runs(name)
        };
        if !of_step().any(|one| is_promoted(&one)) {
            continue;
        }
        let flying = of_step().filter(|(name, entry)| {
            // What failed, was aborted or goes back counts while it is promoted.
            let is_counted = world.model.is_none() || entry.phase == Phase::Pending;
            entry.phase.is_in_flight() && is_counted || runs(name)
        });
        let flying: Vec<&&str> = flying.map(|(name, _)| name).collect();
        assert!(
            flying.len() as u64 <= allowed,
            "I1: step {} allows {allowed}: {flying:?}",
            step + 1
        );
    }
}

/// A write of an operation: I1 and I2, also for what is really deployed.
pub fn start(world: &World, name: &str, body: &Value) {
    let known = world.known();
    let stored = entries(world.memory.set.status.entries.as_ref());
    let promotion = promotion_of(&body["operation"]).unwrap();
    let entry = stored.get(name).expect("AS-308: the promotion is stored before its operation");
    assert!(entry.phase == Phase::Pending && entry.since == promotion, "AS-308: {name}: {entry:?}");
    assert!(!known.invalid.contains(name), "AS-182: {name} is invalid");
    let steps = known.steps_of(name);
    let step = *steps.first().expect("AS-316: an Application of no step gets no operation");
    let target = body["operation"]["sync"]["revision"].as_str().map(commit_of);
    for (lower, element) in &known.elements {
        if known.steps_of(lower).iter().all(|lower| *lower >= step)
            || world.is_excusable(lower)
            || goes_back(body)
        {
            continue;
        }
        let phase = stored.get(lower.as_str()).map(|entry| entry.phase);
        assert_eq!(
            phase,
            Some(Phase::Healthy),
            "I2: {name} of step {} starts before {lower}",
            step + 1
        );
        assert!(world.memory.cache.contains_key(lower), "I2: {lower} is missing");
        let is_current = |app: &&App| !app.is_going() && !world.cluster.changed.contains(lower);
        let Some(app) = world.cluster.apps.get(lower).filter(is_current) else { continue };
        let wanted = if known.policy().updates() { element.path() } else { app.path().to_owned() };
        let is_done = app.deployed.as_ref().is_some_and(|(path, commit)| {
            *path == wanted && target.is_none_or(|target| target <= *commit)
        });
        assert!(
            is_done || world.timed_out,
            "I2: {name} starts {target:?} while {lower} is at {:?}",
            app.deployed
        );
    }
    let runs = |(other, app): &(&String, &App)| {
        *other != name
            && known.steps_of(other).first() == Some(&step)
            && app.runs_promotion()
            && app.promoted_in == world.configuration
    };
    let running = world.cluster.apps.iter().filter(runs).count() as u64 + 1;
    let is_allowed = known.allowed(step).is_none_or(|allowed| running <= allowed);
    assert!(is_allowed || world.timed_out, "I1: step {} runs {running} operations", step + 1);
}

/// Whether a start takes an Application back (ST-061).
fn goes_back(body: &Value) -> bool {
    let carried = body["metadata"]["annotations"][RUN].as_str();
    carried.is_some_and(|carried| carried.contains("\"goesBack\":true"))
}

/// The creation of an Application: I6, I7, I9.
pub fn create(world: &World, name: &str, object: &Value) {
    let known = world.known();
    assert!(!is_shut(world) && !world.memory.set.is_deleting, "I7: {name} is created");
    assert!(
        known.elements.contains_key(name) && !known.invalid.contains(name),
        "{name} is created"
    );
    let metadata = &object["metadata"];
    assert_eq!(object["spec"]["project"], "team", "I9: the project of the template");
    assert_eq!(metadata["namespace"], "argocd", "I9: the namespace of the set");
    assert_eq!(metadata["ownerReferences"][0]["uid"], SET);
    assert_eq!(object["operation"], Value::Null, "AS-332: it is created without a sync");
    let automated = &object["spec"]["syncPolicy"]["automated"];
    if is_rolling(world) && automated.is_object() {
        assert_eq!(automated["enabled"], false, "I6, AS-370: {name}");
    }
}

/// Whether a patch only protects an Application from garbage collection, or no longer
/// (AS-167).
fn is_guard(patch: &Patch) -> bool {
    let body = patch.body();
    let own = [REFRESH, ROLLOUT];
    let is_own = |(field, value): (&String, &Value)| match field.as_str() {
        "ownerReferences" | "resourceVersion" => true,
        // Not part of what a policy is about.
        "annotations" => {
            value.as_object().is_some_and(|all| all.keys().all(|key| own.contains(&key.as_str())))
        }
        _ => false,
    };
    body.as_object().is_some_and(|body| body.keys().eq(["metadata"]))
        && body["metadata"].as_object().is_some_and(|fields| fields.iter().all(is_own))
}

/// A patch without an operation: I7, I8.
pub fn patch(world: &World, patch: &Patch) {
    assert!(!is_shut(world) || is_guard(patch), "I7: {} is patched", patch.name);
    let known = world.known();
    let is_released = world.memory.set.is_deleting && !known.policy().deletes();
    if let Some(app) = world.cluster.apps.get(&patch.name) {
        assert_eq!(app.owner(), SET, "I8: {} of another owner is patched", patch.name);
    }
    let body = patch.body();
    let updates = known.policy().updates() || is_released || is_guard(patch);
    assert!(updates || !patch.changes_spec, "I8: {}: {}", known.policy, patch.json);
    // An abort may terminate what runs.
    let is_own =
        body.get("status").is_none() || super::limits::terminates(world, &patch.name, &body);
    assert!(is_own && body.get("operation").is_none(), "{body}");
}

/// A deletion: I8, and the order of AS-381.
pub fn delete(world: &World, name: &str) {
    let known = world.known();
    assert!(!is_shut(world), "I7: {name} is deleted");
    assert!(known.policy().deletes(), "I8: {name} is deleted with policy {}", known.policy);
    let cached = &world.memory.cache[name];
    assert_eq!(cached["metadata"]["ownerReferences"][0]["uid"], SET, "I8: {name} of another owner");
    assert_eq!(
        cached["metadata"]["deletionTimestamp"],
        Value::Null,
        "AS-382: {name} is deleted twice"
    );
    if !world.memory.set.is_deleting {
        assert!(!known.elements.contains_key(name), "I8: {name} is generated");
        return;
    }
    let place = |live: &Value| {
        let label = live["metadata"]["labels"]["step"].as_str().unwrap();
        known.step_of_label(label).unwrap_or(usize::MAX)
    };
    let own = place(cached);
    for (other, live) in &world.memory.cache {
        let is_ours = world.cluster.apps.get(other).is_some_and(|app| app.owner() == SET);
        let is_first = place(live) <= own;
        assert!(!is_ours || is_first, "AS-381: {name} is deleted before {other}");
    }
}

/// The state after a reconcile.
pub fn state(world: &World, was_fresh: bool) {
    let memory = &world.memory;
    if world.is_gone || memory.set.is_deleting {
        let left = world.cluster.apps.values().any(|app| app.owner() == SET);
        let reverse = world.spec.reverse && world.spec.rolling && !world.spec.steps.is_empty();
        let is_released = world.set.finalizers.is_empty() && reverse && was_fresh;
        assert!(
            !is_released || !left,
            "I12: the finalizer is removed before all Applications are gone"
        );
        return;
    }
    if world.is_settled && !is_shut(world) && world.spec.policy().updates() {
        written(world);
    }
    // With a deadline, an Application fails instead (ST-040).
    let has_deadline = world.budgets().any(|budget| !budget.deadline.is_empty());
    if let Some(timeout) = world.settings.rollout.rules.progressing_timeout
        && !has_deadline
        && world.is_settled
        && world.is_decided
    {
        let pending = memory.set.status.entries.iter().flatten();
        for entry in pending.filter(|entry| entry.phase == Phase::Pending) {
            let age = world.cluster.now.duration_since(entry.since);
            assert!(age < timeout, "I11: {} is Pending for {age}", entry.application);
        }
    }
}

/// Every valid Application of every step is as generated (AS-306), with
/// automated sync disabled in a rollout (I6).
fn written(world: &World) {
    for (name, element) in &world.spec.elements {
        let is_ours = |app: &&App| app.owner() == SET && !app.is_going();
        let app = world.cluster.apps.get(name).filter(is_ours);
        let is_taken = world.cluster.apps.contains_key(name);
        if world.spec.invalid.contains(name) || app.is_none() && is_taken {
            continue;
        }
        let app = app.unwrap_or_else(|| panic!("AS-306: {name} was not created"));
        assert_eq!(
            app.path(),
            element.path(),
            "AS-306: {name} of steps {:?}",
            world.spec.steps_of(name)
        );
        let enabled = element.automated.map(|enabled| enabled && !is_rolling(world));
        let live = &app.object["spec"]["syncPolicy"]["automated"]["enabled"];
        assert_eq!(*live, json!(enabled), "I6, AS-370: {name}");
    }
}

/// The longest time that a rollout waits for an event (AS-390).
pub const POLL: SignedDuration = SignedDuration::from_secs(30);

/// AS-390: while an entry is not Healthy, the controller wakes up by itself.
pub fn wakes(world: &World) {
    let unfinished = world.memory.set.status.entries.iter().flatten();
    let unfinished: Vec<&str> = unfinished
        .filter(|entry| entry.phase != Phase::Healthy)
        .map(|entry| entry.application.as_str())
        .collect();
    if is_rolling(world) && !unfinished.is_empty() {
        let last = world.cluster.now + POLL;
        assert!(
            world.wake.is_some_and(|at| at <= last),
            "AS-390: nothing wakes it: {unfinished:?}"
        );
    }
}
