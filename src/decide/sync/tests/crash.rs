//! Crashes at every point, and the same result in the end.
//!
//! A run is repeated once for each step of the executor (a write of the state,
//! an action), interrupted directly before and after it.

use super::super::*;
use super::world::{World, manifest};
use crate::api::operation::OperationPhase;
use crate::decide::health::Status;

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
            hook("smoke", "PostSync").policy("HookSucceeded"),
            hook("keep", "PostSync").policy("HookFailed").wave(1),
            hook("alarm", "SyncFail").policy("HookSucceeded,HookFailed"),
            hook("siren", "SyncFail").wave(1),
        ])
        .live(hook("migrate", "PreSync").finalizer("argocd.argoproj.io/hook-finalizer"))
        .live(hook("keep", "PostSync"))
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
    ]
}

fn assert_same(cut: &World, smooth: &World, context: &str) {
    let (got, want) = (cut.picture(), smooth.picture());
    assert_eq!((got.0, got.1), (want.0, want.1), "{context}");
    let more: Vec<_> = got.2.symmetric_difference(&want.2).collect();
    assert!(more.is_empty(), "{context}: {more:#?}");
    assert_eq!(got.3, want.3, "{context}");
}

fn crash_everywhere(name: &str, world: &World) {
    let mut smooth = world.clone();
    smooth.run();
    smooth.vanish();
    for at in 1..=smooth.crash_points {
        let mut cut = world.clone();
        (cut.crash_at, cut.checks_plans) = (Some(at), false);
        cut.run();
        cut.vanish();
        assert_eq!(cut.crash_at, None, "{name}: interrupted at {at}");
        assert_same(&cut, &smooth, &format!("{name}: interrupted at {at}"));
        for (hook, times) in &cut.created {
            assert_eq!(*times, 1, "{name}: interrupted at {at}: {hook:?}");
        }
    }
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
        for at in 1..=smooth.crash_points {
            let mut cut = world.clone();
            cut.drops_progress = true;
            (cut.crash_at, cut.checks_plans) = (Some(at), false);
            cut.run();
            cut.vanish();
            assert_same(&cut, &smooth, &format!("{name}: interrupted at {at}"));
            assert!(cut.created.values().all(|times| *times == 1), "{name}: interrupted at {at}");
        }
    }
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
