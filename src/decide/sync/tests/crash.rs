//! Every way of being cut off, and what must be the same in the end.
//!
//! A run is repeated once for each thing that its executor does (a write of
//! the state, an action), cut off right before and right after it.

use super::super::*;
use super::world::{World, manifest};
use crate::api::operation::OperationPhase;
use crate::decide::health::Status;

/// Worlds that between them use every action.
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
        ("all goes well", everything()),
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
        (cut.crash_at, cut.plans_twice) = (Some(at), false);
        cut.run();
        cut.vanish();
        assert_eq!(cut.crash_at, None, "{name}: cut off at {at}");
        assert_same(&cut, &smooth, &format!("{name}: cut off at {at}"));
        for (hook, times) in &cut.created {
            assert_eq!(*times, 1, "{name}: cut off at {at}: {hook:?}");
        }
    }
}

#[test]
fn the_end_is_the_same_wherever_a_run_is_cut_off() {
    for (name, world) in worlds() {
        crash_everywhere(name, &world);
    }
}

#[test]
fn two_cuts_are_no_worse_than_one() {
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
            assert_same(&cut, &smooth, &format!("cut off at {first} and {gap} later"));
        }
    }
}

/// What is lost then is when an object is pruned, relative to what is applied:
/// prune waves are counted anew over what is left.
#[test]
fn a_store_without_room_for_our_notes_leads_to_the_same_end() {
    for (name, world) in worlds() {
        let mut smooth = world.clone();
        smooth.run();
        smooth.vanish();
        for at in (1..=smooth.crash_points).step_by(3) {
            let mut cut = world.clone();
            cut.forgets_progress = true;
            (cut.crash_at, cut.plans_twice) = (Some(at), false);
            cut.run();
            cut.vanish();
            let (want, got) = (smooth.picture(), cut.picture());
            assert_eq!(got.0, want.0, "{name}: cut off at {at}");
            if want.0 == OperationPhase::Succeeded {
                assert_eq!(got.3, want.3, "{name}: cut off at {at}");
            }
            assert!(cut.created.values().all(|times| *times == 1), "{name}: cut off at {at}");
        }
    }
}
