//! Crashes at every point, and the same result in the end.
//!
//! A run is repeated once for each step of the executor (a write of the state,
//! an action), interrupted directly before and after it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use super::world::{World, manifest};
use crate::health::Status;
use wavegate_api::Raw;
use wavegate_api::operation::OperationPhase;

/// Simulated clusters that use all actions.
fn worlds() -> Vec<(&'static str, World)> {
    let hook = |name, phase| manifest("Job", name).hook(phase);
    let everything = || {
        World::new([
            hook("migrate", "PreSync"),
            hook("both", "PreSync,PostSync"),
            manifest("ConfigMap", "cfg").wave(-1),
            manifest("Deployment", "web"),
            manifest("Service", "svc"),
            manifest("Job", "unnamed").generate("gen-").hook("Sync"),
            manifest("ConfigMap", "unnamed").generate("free-"),
            manifest("Job", "again").options("Replace=true,Force=true"),
            hook("smoke", "PostSync").policy("HookSucceeded"),
            hook("keep", "PostSync").policy("HookFailed").wave(1),
            hook("alarm", "SyncFail").policy("HookSucceeded,HookFailed"),
            hook("siren", "SyncFail").wave(1),
        ])
        .live(hook("migrate", "PreSync").finalizer("argocd.argoproj.io/hook-finalizer"))
        .live(hook("keep", "PostSync"))
        .live(manifest("Job", "again").set("spec", "before".into()))
        .live(manifest("ConfigMap", "old"))
        .live(manifest("ConfigMap", "older").wave(1))
        .live(manifest("ConfigMap", "saved").options("Prune=false"))
    };
    let mut failing = everything();
    failing.set_health("web", Status::Degraded);
    let mut refused = everything();
    refused.refused.insert((Verb::Apply, "svc".into()), "quota".into());
    let mut no_prune = everything();
    no_prune.refused.insert((Verb::Prune, "older".into()), "403".into());
    let mut namespace = everything().option("CreateNamespace=true");
    namespace.seen.namespace = NamespaceFact::Missing;
    let mut by_hook = everything();
    by_hook.seen.settings.hook_policy_scope = HookPolicyScope::Hook;
    let drifted = manifest("Deployment", "web").set("spec", "drifted".into());
    let partial = everything().option("ApplyOutOfSyncOnly=true").live(drifted);
    let mut stopped = everything();
    stopped.set_health("migrate", Status::Progressing);
    stopped.seen.settings.sync_timeout = Some(jiff::SignedDuration::from_secs(30));
    vec![
        ("success", everything()),
        ("without a pause", everything().no_delay()),
        ("a resource degrades", failing),
        ("a resource is refused", refused),
        ("a prune is refused", no_prune),
        ("the namespace is created", namespace),
        ("policies go by the hook", by_hook),
        ("only what is out of sync", partial),
        ("stopped by the timeout", stopped),
        ("prune comes last", everything().option("PruneLast=true")),
        ("a prune comes first", prunes()),
        ("a prune comes first, without a pause", prunes().no_delay()),
        ("prunes among what is out of sync", prunes().option("ApplyOutOfSyncOnly=true")),
        ("a prune beside the last hook", last_hook()),
    ]
}

/// Prunes in several waves, the first one before anything is applied.
fn prunes() -> World {
    World::new([
        manifest("Deployment", "web").wave(-1),
        manifest("Deployment", "api").wave(1),
        manifest("Deployment", "end").wave(2),
        manifest("Job", "check").hook("Sync").wave(2),
        manifest("Job", "smoke").hook("PostSync"),
    ])
    .live(manifest("ConfigMap", "first").wave(2))
    .live(manifest("ConfigMap", "second").wave(1))
    .live(manifest("ConfigMap", "third"))
    .live(manifest("ConfigMap", "fourth").wave(-1))
}

/// A prune in the wave of a hook, which is the last one.
fn last_hook() -> World {
    let hook = manifest("Job", "check").hook("Sync").wave(-1);
    World::new([manifest("Deployment", "web").wave(-2), hook])
        .live(manifest("ConfigMap", "old").wave(-1))
}

fn assert_same(cut: &World, smooth: &World, context: &str) {
    let (got, want) = (cut.picture(), smooth.picture());
    assert_eq!((got.0, got.1), (want.0, want.1), "{context}");
    let more: Vec<_> = got.2.symmetric_difference(&want.2).collect();
    assert!(more.is_empty(), "{context}: {more:#?}");
    assert_eq!(got.3, want.3, "{context}");
}

/// The waves of the objects to prune, from what a user sees at the start (SE-210, SE-211).
fn prune_waves(world: &World) -> BTreeMap<String, i64> {
    let seen = world.snapshot();
    let own = |name: &str| seen.targets.iter().any(|target| target.name() == name);
    let gone: Vec<(String, i64)> = (seen.live.iter())
        .filter(|(key, live)| {
            !own(&key.name) && classify_hook(&live.object) == ObjectClass::Resource
        })
        .map(|(key, live)| (key.name.clone(), wavegate_api::annotations::sync_wave(&live.object)))
        .collect();
    let waves: BTreeSet<i64> = gone.iter().map(|(_, wave)| *wave).collect();
    let mirrored: BTreeMap<&i64, &i64> = waves.iter().zip(waves.iter().rev()).collect();
    let last = seen.operation.sync_options.iter().any(|option| option == "PruneLast=true");
    let wave = |wave: &i64| if last { i64::MAX } else { **mirrored.get(wave).unwrap() };
    gone.iter().map(|(name, own)| (name.clone(), wave(own))).collect()
}

/// SE-210: before an object is pruned, everything of the waves before is applied and healthy,
/// and the objects of the prune waves before are being deleted.
fn assert_prune_order(run: &World, start: &World, context: &str) {
    let waves = prune_waves(start);
    let targets = run.seen.targets.iter().filter(|target| !target.name().is_empty());
    let applied: Vec<(&str, i64)> = targets
        .filter(|target| classify_hook(target) == ObjectClass::Resource)
        .map(|target| (target.name(), wavegate_api::annotations::sync_wave(target)))
        .collect();
    for (name, state) in &run.prunes {
        for (target, wave) in &applied {
            let in_time = *wave >= waves[name] || state.ready.contains(*target);
            assert!(in_time, "{context}: {name} is pruned before {target}: {:#?}", run.log);
        }
        for (other, wave) in &waves {
            let kept = run.result(other).is_some_and(|result| result.message.contains("no prune"));
            let in_time = *wave >= waves[name] || kept || !state.present.contains(other);
            assert!(in_time, "{context}: {name} is pruned before {other}: {:#?}", run.log);
        }
    }
}

fn crash_everywhere(name: &str, world: &World) {
    let mut smooth = world.clone();
    smooth.run();
    smooth.vanish();
    assert_prune_order(&smooth, world, name);
    for (at, restarts_late) in crashes(&smooth) {
        let mut cut = world.clone();
        (cut.crash_at, cut.checks_plans) = (Some(at), false);
        cut.restarts_late = restarts_late;
        cut.run();
        cut.vanish();
        let context = format!("{name}: interrupted at {at}, late {restarts_late}");
        assert_eq!(cut.crash_at, None, "{context}");
        assert_same(&cut, &smooth, &context);
        assert_prune_order(&cut, world, &context);
        for (hook, times) in &cut.created {
            assert_eq!(*times, 1, "{context}: {hook:?}");
        }
    }
}

/// Every crash point, with a restart at once, and with one after deletions have completed. How
/// far an operation comes until its time limit depends on when they complete.
fn crashes(smooth: &World) -> Vec<(usize, bool)> {
    let is_limited = smooth.seen.settings.sync_timeout.is_some();
    let late = smooth.deleting_at.iter().filter(|_| !is_limited).map(|at| (*at, true));
    (1..=smooth.crash_points).map(|at| (at, false)).chain(late).collect()
}

#[test]
fn the_end_is_the_same_wherever_a_run_is_interrupted() {
    for (name, world) in worlds() {
        crash_everywhere(name, &world);
    }
}

#[test]
fn a_run_can_be_interrupted_twice() {
    let (_, world) = worlds().remove(1);
    let mut smooth = world.clone();
    smooth.run();
    smooth.vanish();
    for first in (1..smooth.crash_points).step_by(3) {
        for gap in [1, 2, 5] {
            let mut cut = world.clone();
            cut.crash_at = Some(first);
            while cut.crash_at.is_some() {
                if cut.pump().phase.is_completed() {
                    break;
                }
                cut.advance();
            }
            cut.crash_at = Some(cut.crash_points + gap);
            cut.run();
            cut.vanish();
            assert_same(&cut, &smooth, &format!("interrupted at {first} and {gap} later"));
        }
    }
}

/// Where the server drops what Argo CD's definitions lack: the same results and objects, and
/// no hook twice. Only who stopped the operation may be unknown.
#[test]
fn a_store_that_drops_progress_leads_to_the_same_end() {
    for (name, world) in worlds() {
        let mut smooth = world.clone();
        smooth.run();
        smooth.vanish();
        for (at, restarts_late) in crashes(&smooth) {
            let mut cut = world.clone();
            (cut.drops_progress, cut.restarts_late) = (true, restarts_late);
            (cut.crash_at, cut.checks_plans) = (Some(at), false);
            cut.run();
            cut.vanish();
            let context = format!("{name}: interrupted at {at}, late {restarts_late}");
            assert_same(&cut, &smooth, &context);
            assert_prune_order(&cut, &world, &context);
            assert!(cut.created.values().all(|times| *times == 1), "{context}");
        }
    }
}

/// SE-597: a store that lists as few results as possible. The same objects and results, but for
/// those of pruned objects, no hook twice, and what has been applied is not applied again.
#[test]
fn results_that_are_not_listed_lead_to_the_same_end() {
    let listed = |world: &World| {
        let (phase, message, results, objects) = world.picture();
        // After a failure nothing is awaited, so that a resource may stay Running.
        let results = results.into_iter().filter(|row| !row.contains("} Prune"));
        let results = results.map(|row| row.replace("} Synced Running", "} Synced Succeeded"));
        // An object whose prune is not listed is pruned again, and then it is the last one.
        let message = message.replace("(all tasks run)", "(no more tasks)");
        (phase, message, results.collect::<BTreeSet<String>>(), objects)
    };
    let mut checked = 0;
    for (name, world) in worlds() {
        for drops_progress in [false, true] {
            let mut smooth = world.clone();
            (smooth.drops_progress, smooth.checks_plans) = (drops_progress, false);
            let whole = smooth.clone();
            smooth.lists_little = true;
            smooth.run();
            smooth.vanish();
            for (at, restarts_late) in crashes(&smooth) {
                let [cut, kept] = [true, false].map(|lists_little| {
                    let mut cut = whole.clone();
                    (cut.lists_little, cut.restarts_late) = (lists_little, restarts_late);
                    cut.crash_at = Some(at);
                    cut.run();
                    cut.vanish();
                    cut
                });
                let context = format!("{name}: interrupted at {at}, late {restarts_late}");
                // The end is stored, and nothing adds what it does not list.
                if at < smooth.crash_points {
                    assert_eq!(listed(&cut), listed(&smooth), "{context}");
                }
                assert_prune_order(&cut, &world, &context);
                assert!(cut.created.values().all(|times| *times == 1), "{context}");
                if cut.writes == kept.writes && cut.crash_points == kept.crash_points {
                    checked += 1;
                    assert_eq!(cut.changes(), kept.changes(), "{context}");
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// SE-318: what was applied before a restart is in sync, and was never seen healthy.
#[test]
fn a_restart_opens_no_wave_early_where_progress_is_dropped() {
    for option in ["Validate=true", "ApplyOutOfSyncOnly=true"] {
        let drifted = manifest("Deployment", "web").set("spec", "drifted".into());
        let world =
            World::new([manifest("Deployment", "web"), manifest("ConfigMap", "late").wave(1)]);
        let world = world.live(drifted).option(option).no_delay().with(|world| {
            world.set_health("web", Status::Progressing);
            (world.drops_progress, world.checks_plans) = (true, false);
        });
        for at in 1..20 {
            let mut cut = world.clone();
            cut.crash_at = Some(at);
            cut.pump();
            if cut.crash_at.take().is_some() {
                break;
            }
            cut.pump();
            assert!(!cut.has("late"), "{option}: interrupted at {at}: {:#?}", cut.log);
            cut.set_health("web", Status::Healthy);
            assert_eq!(cut.run().phase, OperationPhase::Succeeded, "{option} at {at}");
            assert!(cut.has("late"));
        }
    }
}

/// SE-601: a limit counts again after a restart; without its start there would be none.
#[test]
fn a_limit_holds_where_progress_is_dropped() {
    let mut world = World::new([manifest("Job", "slow").hook("PreSync")]).no_delay();
    world.set_health("slow", Status::Progressing);
    world.seen.settings.hook_timeout = Some(jiff::SignedDuration::from_secs(60));
    (world.drops_progress, world.checks_plans) = (true, false);
    for at in 1..20 {
        let mut cut = world.clone();
        cut.crash_at = Some(at);
        cut.pump();
        if cut.crash_at.take().is_some() {
            assert!(at > 3, "it was interrupted");
            break;
        }
        let waits = cut.pump();
        assert_eq!(waits.phase, OperationPhase::Running);
        cut.now = waits.wake_at.expect("the limit ends the wait");
        assert_eq!(cut.pump().phase, OperationPhase::Failed, "interrupted at {at}");
    }
}
