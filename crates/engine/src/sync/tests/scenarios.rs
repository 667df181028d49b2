//! How operations run (A.4, V-060 to V-084): gates, hooks, prune.

use jiff::SignedDuration;

use super::super::*;
use super::world::{World, first_wait, manifest};
use crate::health::Status;
use wavegate_api::ResourceKey;
use wavegate_api::operation::{OperationPhase, ResultCode};

const ALL_RUN: &str = "successfully synced (all tasks run)";
const NO_MORE: &str = "successfully synced (no more tasks)";
const UNSUCCESSFUL: &str = "one or more synchronization tasks completed unsuccessfully";

const HEALTH_OF_WEB: Option<(WaitReason, &str)> = Some((WaitReason::Health, "web"));

fn two_waves() -> World {
    World::new([manifest("Deployment", "web"), manifest("ConfigMap", "late").wave(1)]).no_delay()
}

#[test]
fn v060_one_wave_without_hooks_does_not_wait_for_health() {
    let mut world = World::new([manifest("Deployment", "web")]);
    let plan = world.pump();
    assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Succeeded, ALL_RUN));
    assert_eq!(world.writes, 1, "the end is all that is stored");
    assert_eq!(world.result("web").unwrap().hook_phase, OperationPhase::Running);

    let mut world = World::new([manifest("Deployment", "web")]);
    world.seen.settings.wait_for_health = true;
    let plan = world.pump();
    assert_eq!(first_wait(&plan), HEALTH_OF_WEB, "SE-591");
    world.set_health("web", Status::Healthy);
    assert_eq!(world.pump().message, NO_MORE);
}

#[test]
fn v061_the_next_wave_waits_for_health() {
    let mut world = two_waves();
    let plan = world.pump();
    assert_eq!(first_wait(&plan), HEALTH_OF_WEB);
    assert_eq!(plan.waiting_for[0].detail, "Progressing");
    assert_eq!(world.changes(), ["Apply apps/Deployment/web"]);
    world.set_health("web", Status::Healthy);
    let plan = world.pump();
    assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Succeeded, ALL_RUN));
    assert!(world.has("late"));
}

#[test]
fn v062_v063_gates_by_health() {
    for (row, status, phase, wait) in [
        ("V-062", Status::Degraded, OperationPhase::Failed, None),
        ("V-063", Status::Suspended, OperationPhase::Running, HEALTH_OF_WEB),
        ("SE-256", Status::Unknown, OperationPhase::Running, HEALTH_OF_WEB),
    ] {
        let mut world = two_waves();
        world.set_health("web", status);
        let plan = world.pump();
        assert_eq!((plan.phase, first_wait(&plan)), (phase, wait), "{row}");
        assert!(!world.has("late"), "{row}");
    }
}

#[test]
fn a_gate_never_opens_on_an_object_older_than_what_was_applied() {
    let mut world = two_waves().live(manifest("Deployment", "web").set("spec", "old".into()));
    world.set_health("web", Status::Healthy);
    let stale = world.snapshot().live;
    assert!(world.reconcile().unwrap(), "dry run");
    assert!(world.reconcile().unwrap(), "apply");
    let mut snapshot = world.snapshot();
    snapshot.live = stale;
    let plan = step(&snapshot, world.now);
    assert!(plan.actions.is_empty());
    assert_eq!(first_wait(&plan), HEALTH_OF_WEB);
}

#[test]
fn v064_v065_resources_beside_a_hook() {
    let world = || World::new([manifest("Job", "j").hook("Sync"), manifest("Deployment", "web")]);
    let mut alone = world();
    assert_eq!(alone.pump().message, "waiting for completion of hook batch/Job/j", "V-064");
    alone.set_health("j", Status::Healthy);
    assert_eq!(alone.pump().message, NO_MORE, "V-064");

    let with_alarm = || {
        let mut world = world();
        world.seen.targets.push(manifest("Job", "alarm").hook("SyncFail").0.into());
        world.set_health("j", Status::Healthy);
        world
    };
    assert_eq!(first_wait(&with_alarm().pump()), HEALTH_OF_WEB, "V-065");
    let mut world = with_alarm();
    world.seen.settings.sync_fail_counts_as_wave = false;
    assert_eq!(world.pump().message, NO_MORE, "SE-590");
}

#[test]
fn v066_v070_a_failed_hook_runs_the_sync_fail_hooks() {
    let mut world = World::new([
        manifest("Job", "pre").hook("PreSync"),
        manifest("ConfigMap", "c"),
        manifest("Job", "alarm").hook("SyncFail"),
        manifest("Job", "second").hook("SyncFail").wave(1),
    ]);
    world.set_health("pre", Status::Degraded);
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running, "V-101: the delay is not over");
    world.now += SignedDuration::from_secs(2);
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running, "V-070");
    assert_eq!(plan.message, "waiting for completion of hook batch/Job/alarm", "V-070");
    assert!(!world.has("second"), "SE-271: waves of SyncFail hooks are sequenced");
    world.set_health("alarm", Status::Degraded);
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for completion of hook batch/Job/second");
    world.set_health("second", Status::Healthy);
    let plan = world.pump();
    assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Failed, UNSUCCESSFUL));
    assert!(!world.has("c"), "V-066");
    assert_eq!(world.result("alarm").unwrap().hook_phase, OperationPhase::Failed, "SE-272");
}

#[test]
fn v067_a_hook_without_health_is_complete_once_it_exists() {
    let mut world =
        World::new([manifest("ConfigMap", "pre").hook("PreSync"), manifest("Secret", "s")])
            .no_delay();
    assert_eq!(world.pump().message, ALL_RUN);
    let result = world.result("pre").unwrap();
    assert_eq!(result.hook_phase, OperationPhase::Succeeded);
    assert_eq!(result.message, "pre created");
    assert_eq!(result.hook_type, "PreSync");
}

#[test]
fn v068_v069_post_sync_waits_and_sync_fail_does_not_run() {
    let mut world = World::new([
        manifest("Deployment", "web"),
        manifest("Job", "post").hook("PostSync"),
        manifest("Job", "alarm").hook("SyncFail"),
    ])
    .no_delay();
    assert_eq!(first_wait(&world.pump()), HEALTH_OF_WEB, "V-068");
    assert!(!world.has("post"), "V-068");
    assert_eq!(world.run().message, NO_MORE);
    assert!(!world.has("alarm") && world.result("alarm").is_none(), "V-069");
}

#[test]
fn v071_to_v073_waiting_messages() {
    let pods = |names: &[&str]| names.iter().map(|name| manifest("Pod", name)).collect::<Vec<_>>();
    let hooks = |names: &[&str]| {
        names.iter().map(|name| manifest("Pod", name).hook("Sync")).collect::<Vec<_>>()
    };
    let late = vec![manifest("ConfigMap", "late").wave(1)];
    let message = |parts: Vec<Vec<_>>| World::new(parts.concat()).pump().message;
    assert_eq!(
        message(vec![pods(&["p1", "p2", "p3"]), late]),
        "waiting for healthy state of /Pod/p1 and 2 more resources",
        "V-071"
    );
    assert_eq!(
        message(vec![hooks(&["h1", "h2"])]),
        "waiting for completion of hook /Pod/h1 and 1 more hooks",
        "V-072"
    );
    let late = vec![manifest("ConfigMap", "late").wave(1)];
    assert_eq!(
        message(vec![pods(&["a1", "a2"]), hooks(&["h1"]), late]),
        "waiting for completion of hook /Pod/h1 and 2 more resources",
        "V-073: the first hook is named, whatever its place"
    );
}

#[test]
fn v074_v030_lower_prune_waves_wait_until_the_higher_are_gone() {
    let mut world = World::new([])
        .no_delay()
        .live(manifest("ConfigMap", "a"))
        .live(manifest("ConfigMap", "old").wave(1));
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for deletion of /ConfigMap/old", "V-074");
    assert_eq!(world.changes(), ["Prune /ConfigMap/old"], "V-030");
    world.vanish();
    assert_eq!(world.pump().message, ALL_RUN);
    assert_eq!(world.changes(), ["Prune /ConfigMap/old", "Prune /ConfigMap/a"], "V-030");
}

#[test]
fn v031_a_refused_prune_stops_the_rest() {
    let mut world = World::new([manifest("Secret", "new").wave(0)])
        .live(manifest("ConfigMap", "a"))
        .live(manifest("ConfigMap", "b").wave(1));
    world.refused.insert((Verb::Prune, "b".into()), "403".into());
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Failed);
    assert_eq!(plan.message, "one or more objects failed to apply, reason: 403");
    assert_eq!(world.changes(), ["Prune /ConfigMap/b"], "SE-252 c: no creation in this wave");
}

#[test]
fn v075_a_hook_with_a_stuck_predecessor_waits() {
    let old = manifest("Job", "x").hook("Sync").finalizer("argocd.argoproj.io/hook-finalizer");
    let mut world = World::new([manifest("Job", "x").hook("Sync"), manifest("Secret", "s")]);
    world.store(old.0);
    assert_eq!(world.pump().message, "waiting for deletion of hook batch/Job/x");
    assert_eq!(world.changes(), ["RemoveFinalizer batch/Job/x", "DeleteHook batch/Job/x"]);
    assert!(!world.reconcile().unwrap(), "no second request while it is being deleted");
    world.vanish();
    world.pump();
    let changes = world.changes();
    assert_eq!(changes[2..], ["Apply /Secret/s", "CreateHook batch/Job/x"]);
}

#[test]
fn v075_a_predecessor_that_is_already_gone_needs_no_round() {
    let mut world = World::new([manifest("Job", "x").hook("Sync")]);
    world.store(manifest("Job", "x").hook("Sync").0);
    world.reconcile().unwrap();
    let mut snapshot = world.snapshot();
    let plan = step(&snapshot, world.now);
    let action = plan.actions[0].actions[0].id();
    assert_eq!(action.verb, Verb::DeleteHook);
    snapshot.outcomes.push(ActionOutcome { action, result: ActionResult::Gone });
    let plan = step(&snapshot, world.now);
    assert!(matches!(plan.actions[0].actions[0], Action::CreateHook(_)), "SE-251 d");
}

#[test]
fn v076_v077_policies_apply_at_the_end_of_the_operation() {
    let jobs = |policy: &str| {
        World::new([
            manifest("Job", "good").hook("PreSync").policy(policy),
            manifest("Job", "bad").hook("PreSync").policy(policy),
            manifest("Deployment", "web"),
            manifest("ConfigMap", "late").wave(1),
        ])
        .no_delay()
    };
    let mut world = jobs("HookSucceeded");
    world.set_health("good", Status::Healthy);
    world.set_health("bad", Status::Healthy);
    world.pump();
    assert!(world.has("good") && world.has("web"), "V-076: Sync is running");
    world.run();
    world.vanish();
    assert!(!world.has("good") && !world.has("bad"), "V-076");

    let mut world = jobs("HookFailed");
    world.set_health("bad", Status::Degraded);
    assert_eq!(world.run().phase, OperationPhase::Failed);
    world.vanish();
    assert!(!world.has("good") && !world.has("bad"), "V-077");

    let mut world = jobs("HookFailed");
    world.seen.settings.hook_policy_scope = HookPolicyScope::Hook;
    world.set_health("bad", Status::Degraded);
    world.run();
    world.vanish();
    assert!(world.has("good") && !world.has("bad"), "SE-292 by the hook's own end");

    let mut world = jobs("HookSucceeded");
    world.seen.settings.hook_policy_scope = HookPolicyScope::Hook;
    world.set_health("good", Status::Healthy);
    world.set_health("bad", Status::Healthy);
    world.pump();
    world.vanish();
    assert!(!world.has("good"), "SE-291 by the hook's own end");
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
    assert!(world.created.values().all(|times| *times == 1), "completed, not run again");
}

#[test]
fn v078_no_hook_is_deleted_while_a_hook_of_the_wave_runs() {
    let hook = |name| manifest("Pod", name).hook("Sync").policy("HookSucceeded,BeforeHookCreation");
    let mut world = World::new([hook("h1"), hook("h2"), hook("h3")]);
    world.set_health("h2", Status::Healthy);
    world.set_health("h3", Status::Healthy);
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running);
    assert_eq!(world.changes().len(), 3, "created, and nothing else");
}

#[test]
fn v079_an_awaited_resource_that_vanished() {
    let mut world = two_waves();
    world.pump();
    let key = world.key("web").unwrap();
    world.objects.remove(&key);
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running, "the cache may lag behind");
    world.tick();
    let plan = world.pump();
    let missing = "Resource apps/Deployment/web is missing, it might have been deleted";
    assert_eq!(plan.phase, OperationPhase::Failed);
    assert_eq!(plan.message, format!("{UNSUCCESSFUL}, reason: {missing}"));
    assert_eq!(world.result("web").unwrap().hook_phase, OperationPhase::Error);
    assert_eq!(world.log.last().unwrap(), "Read apps/Deployment/web", "SE-258");
}

#[test]
fn v080_to_v082_what_is_not_pruned() {
    let skipped = |prune: bool, option: &str, live: &str| {
        let mut world = World::new([manifest("Secret", "s")]);
        world = world.live(match live {
            "" => manifest("ConfigMap", "old"),
            options => manifest("ConfigMap", "old").options(options),
        });
        world.seen.operation.prune = prune;
        if !option.is_empty() {
            world = world.option(option);
        }
        let plan = world.run();
        assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Succeeded, ALL_RUN));
        let result = world.result("old").unwrap();
        (result.status, result.message.clone())
    };
    use ResultCode::{PruneSkipped, Pruned};
    for (row, got, want) in [
        ("V-080", skipped(false, "", ""), (PruneSkipped, "ignored (requires pruning)")),
        ("V-081", skipped(true, "", "Prune=false"), (PruneSkipped, "ignored (no prune)")),
        ("V-082", skipped(true, "Prune=false", "Prune=true"), (Pruned, "pruned")),
        ("SE-312", skipped(true, "Prune=false", ""), (PruneSkipped, "ignored (no prune)")),
    ] {
        assert_eq!((got.0, got.1.as_str()), want, "{row}");
    }
}

#[test]
fn v083_v084_prune_with_approval() {
    let mut world = World::new([manifest("Secret", "s"), manifest("Secret", "late").wave(1)])
        .no_delay()
        .live(manifest("Namespace", "x").options("Prune=confirm"));
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for pruning confirmation of /Namespace/x", "V-083");
    assert_eq!(plan.waiting_for[0].reason, WaitReason::PruneConfirmation);
    assert_eq!(world.changes(), ["Apply /Secret/s"], "SE-583: the rest of the wave runs");
    let second = SignedDuration::from_secs(1);
    world.seen.deletion_approved_at = Some(world.seen.started_at - second);
    assert_eq!(world.pump().phase, OperationPhase::Running, "V-084: approved before the start");
    world.seen.deletion_approved_at = Some(world.seen.started_at + second);
    world.run();
    assert!(!world.has("x") && world.has("late"), "V-084");
}

/// An object that another Application has in its source is left to that one, whatever the request
/// says (SE-210).
#[test]
fn what_another_application_has_is_not_pruned() {
    let key = ResourceKey::new("", "Secret", "default", "old");
    for prune in [true, false] {
        let mut world = World::new([manifest("Secret", "s")]).no_delay();
        world = world.live(manifest("Secret", "old"));
        world.seen.operation.prune = prune;
        world.seen.handovers.insert(key.clone(), Handover::Left("argocd/b".to_owned()));
        assert_eq!(world.run().phase, OperationPhase::Succeeded);
        assert!(world.has("old"));
        let result = world.result("old").unwrap();
        let left = "ignored (left to argocd/b, which has it in its source)";
        assert_eq!((result.status, result.message.as_str()), (ResultCode::PruneSkipped, left));
    }
}

/// It is not known yet who has it: the rest of the wave runs, and the message says for whom it
/// waits.
#[test]
fn a_prune_waits_for_the_comparisons_of_other_applications() {
    let key = ResourceKey::new("", "Secret", "default", "old");
    let targets = [manifest("Secret", "s"), manifest("Secret", "late").wave(1)];
    let mut world = World::new(targets).no_delay().live(manifest("Secret", "old"));
    world.seen.handovers.insert(key, Handover::Undecided("argocd/b".to_owned()));
    let plan = world.pump();
    let message = "waiting for comparisons before pruning of /Secret/old, of Applications that may \
                   have it in their sources: argocd/b";
    assert_eq!(plan.message, message);
    assert_eq!(plan.waiting_for[0].reason, WaitReason::Handover);
    assert!(plan.wake_at.is_some(), "it is looked at again");
    assert_eq!(world.changes(), ["Apply /Secret/s"], "the rest of the wave runs");
    world.seen.handovers.clear();
    world.run();
    assert!(!world.has("old") && world.has("late"));
}
