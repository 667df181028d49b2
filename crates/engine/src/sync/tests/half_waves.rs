//! Waves of which a part could not be applied at once.

use super::super::*;
use super::world::{World, manifest};
use crate::health::Status;
use wavegate_api::annotations::HOOK_FINALIZER;
use wavegate_api::operation::OperationPhase;

/// SE-251: the claim of the last set is still going when its wave begins. The new one was never
/// created, since the set without it was awaited first.
#[test]
fn what_was_being_deleted_is_created_while_the_rest_of_its_wave_is_awaited() {
    let held = manifest("PersistentVolumeClaim", "data").finalizer("kubernetes.io/pvc-protection");
    let mut world = World::new([
        manifest("PersistentVolumeClaim", "data"),
        manifest("StatefulSet", "db"),
        manifest("ConfigMap", "late").wave(1),
    ])
    .live(held);
    let key = world.key("data").unwrap();
    world.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
        "2023-11-14T22:13:20Z".into();
    world.set_health("data", Status::Healthy);
    world.set_health("db", Status::Progressing);
    let plan = world.pump();
    let waits: Vec<_> =
        plan.waiting_for.iter().map(|wait| (wait.reason, &*wait.key.name)).collect();
    assert_eq!(waits, [(WaitReason::Health, "db"), (WaitReason::Deletion, "data")]);
    assert!(
        plan.detailed_message().starts_with("waiting for healthy state of apps/StatefulSet/db")
    );

    world.objects.remove(&key);
    world.tick();
    world.pump();
    let made = ["Apply apps/StatefulSet/db", "Apply /PersistentVolumeClaim/data"];
    assert_eq!(world.changes(), made);
    world.set_health("db", Status::Healthy);
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
}

/// SE-251: the answer to a part of a wave is lost, and the rest is applied and needs that part.
#[test]
fn what_was_lost_is_applied_again_while_the_rest_of_its_wave_is_awaited() {
    let mut world = World::new([
        manifest("ConfigMap", "cfg"),
        manifest("Deployment", "web"),
        manifest("ConfigMap", "late").wave(1),
    ]);
    world.lost.insert((Verb::Apply, "cfg".into()));
    world.set_health("web", Status::Progressing);
    let plan = world.pump();
    let message = plan.detailed_message();
    let want = "waiting for the response to a request for /ConfigMap/cfg (connection reset)";
    assert_eq!(message, want, "SE-262: with the reason");
    assert!(!world.has("cfg") && world.has("web"));
    world.tick();
    let plan = world.pump();
    assert!(world.has("cfg") && !world.has("late"), "{:#?}", world.log);
    assert_eq!(plan.phase, OperationPhase::Running);
    world.set_health("web", Status::Healthy);
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
}

/// SE-251: the same while what was pruned is awaited, which may need what was lost to go.
#[test]
fn what_was_lost_is_applied_again_while_a_pruned_object_is_awaited() {
    let mut world = World::new([manifest("Deployment", "web"), manifest("ConfigMap", "b").wave(1)])
        .live(manifest("ConfigMap", "old").finalizer("example.com/hold"));
    world.lost.insert((Verb::Apply, "web".into()));
    world.pump();
    world.tick();
    world.pump();
    assert!(world.has("web") && world.has("old"), "{:#?}", world.log);
}

/// SE-258: after a failure in a wave nothing else of it begins.
#[test]
fn a_wave_that_has_failed_is_not_completed() {
    let mut world = World::new([
        manifest("ConfigMap", "cfg"),
        manifest("Deployment", "bad"),
        manifest("Deployment", "web"),
        manifest("ConfigMap", "late").wave(1),
    ]);
    world.lost.insert((Verb::Apply, "cfg".into()));
    world.set_health("bad", Status::Degraded);
    world.set_health("web", Status::Progressing);
    world.pump();
    world.tick();
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running, "the rest is awaited");
    assert!(!world.has("cfg"), "{:#?}", world.log);
}

/// SE-241.11: the operation waited for the finalizer of another controller, and said nothing of
/// its failure.
#[test]
fn a_wave_that_failed_to_apply_does_not_wait_for_what_it_pruned() {
    for later in [false, true] {
        let mut targets = vec![manifest("ConfigMap", "cfg")];
        targets.extend(later.then(|| manifest("ConfigMap", "late").wave(1)));
        let mut world =
            World::new(targets).live(manifest("ConfigMap", "old").finalizer("example.com/hold"));
        world.refused.insert((Verb::Apply, "cfg".into()), "quota".into());
        let plan = world.pump();
        let message = "one or more objects failed to apply, reason: quota";
        assert_eq!((plan.phase, &*plan.message), (OperationPhase::Failed, message));
        assert!(world.has("old") && !world.has("late"));
    }
}

/// The hook of the wave is awaited, not the object that it replaces.
#[test]
fn a_hook_is_replaced_while_the_rest_of_its_wave_is_awaited() {
    let mut world = World::new([
        manifest("Deployment", "web"),
        manifest("Job", "check").hook("Sync"),
        manifest("ConfigMap", "late").wave(1),
    ])
    .live(manifest("Job", "check").hook("Sync").finalizer(HOOK_FINALIZER));
    world.lost.insert((Verb::DeleteHook, "check".into()));
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
    assert!(world.created.values().all(|times| *times == 1));
}
