//! The worked traces of Appendix E.

use super::super::*;
use super::world::{World, manifest};
use crate::health::Status;
use wavegate_api::app_spec::RetryStrategy;
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode, SyncPhase};

fn trace_one() -> World {
    let migrate = || manifest("Job", "migrate").hook("PreSync");
    World::new([
        migrate(),
        manifest("ConfigMap", "cfg").wave(-1),
        manifest("Deployment", "web"),
        manifest("Service", "svc"),
        manifest("Job", "smoke").hook("PostSync").policy("HookSucceeded"),
    ])
    .live(migrate().finalizer("argocd.argoproj.io/hook-finalizer"))
    .live(manifest("ConfigMap", "old"))
}

fn phase_of(world: &World, name: &str) -> Option<OperationPhase> {
    world.result(name).map(|result| result.hook_phase)
}

/// Waits for the delay between waves, without any other change.
fn after_delay(world: &mut World) -> SyncPlan {
    let until = world.last.as_ref().unwrap().wake_at.expect("a pause has an end");
    assert_eq!(until, world.now + jiff::SignedDuration::from_secs(2));
    world.now = until;
    world.pump()
}

#[test]
fn e1_phases_waves_prune_and_hooks() {
    use OperationPhase::{Running, Succeeded};
    let mut world = trace_one();

    let plan = world.pump();
    assert_eq!(plan.message, "waiting for deletion of hook batch/Job/migrate", "step 1");
    let dry_runs = world.log.iter().filter(|line| line.starts_with("DryRun")).count();
    assert_eq!(dry_runs, 5, "step 1: all six tasks but the prune need one");
    assert_eq!(
        world.changes(),
        ["RemoveFinalizer batch/Job/migrate", "DeleteHook batch/Job/migrate"],
        "step 1"
    );
    assert!(world.seen.results.is_empty(), "step 1");

    world.vanish();
    world.log.clear();
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for completion of hook batch/Job/migrate", "step 2");
    assert_eq!(world.changes(), ["CreateHook batch/Job/migrate"], "step 2");
    assert_eq!(phase_of(&world, "migrate"), Some(Running), "step 2");

    world.set_health("migrate", Status::Healthy);
    world.log.clear();
    let plan = after_delay(&mut world);
    assert_eq!(world.changes(), ["RemoveFinalizer batch/Job/migrate", "Apply /ConfigMap/cfg"], "3");
    assert_eq!(plan.message, "waiting for healthy state of /ConfigMap/cfg", "step 3");
    assert_eq!(phase_of(&world, "migrate"), Some(Succeeded), "step 3");
    assert_eq!(phase_of(&world, "cfg"), Some(Running), "step 3");

    world.log.clear();
    let plan = after_delay(&mut world);
    assert_eq!(
        world.changes(),
        ["Prune /ConfigMap/old", "Apply /Service/svc", "Apply apps/Deployment/web"],
        "step 4"
    );
    let message = "waiting for healthy state of /ConfigMap/old and 2 more resources";
    assert_eq!(plan.message, message, "step 4");
    assert_eq!(phase_of(&world, "cfg"), Some(Succeeded), "step 4");
    assert_eq!(phase_of(&world, "old"), Some(Succeeded), "step 4");
    assert_eq!(world.result("old").unwrap().status, ResultCode::Pruned);

    world.vanish();
    let plan = after_delay(&mut world);
    assert_eq!(plan.message, "waiting for healthy state of apps/Deployment/web", "step 5");
    assert_eq!(phase_of(&world, "svc"), Some(Succeeded), "step 5");

    world.set_health("web", Status::Healthy);
    world.log.clear();
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for completion of hook batch/Job/smoke", "step 6");
    assert_eq!(world.changes(), ["CreateHook batch/Job/smoke"], "step 6");
    assert_eq!(plan.wake_at, None, "step 6: no delay after the final wave");

    world.set_health("smoke", Status::Healthy);
    world.log.clear();
    let plan = world.pump();
    assert_eq!(plan.phase, Succeeded, "step 7");
    assert_eq!(plan.message, "successfully synced (no more tasks)", "step 7");
    assert_eq!(
        world.changes(),
        ["RemoveFinalizer batch/Job/smoke", "DeleteHook batch/Job/smoke"],
        "step 7"
    );
    world.vanish();
    assert!(!world.has("smoke") && world.has("migrate"), "step 7");
    let order: Vec<&str> = world.seen.results.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(order, ["migrate", "cfg", "old", "svc", "web", "smoke"], "order of first result");
}

#[test]
fn e1_with_a_pruned_object_that_is_not_deleted() {
    let mut world = trace_one();
    let held = manifest("ConfigMap", "old").finalizer("example.com/hold").0;
    world.store(held);
    for _ in 0..12 {
        world.pump();
        world.advance();
    }
    let plan = world.pump();
    assert_eq!(plan.message, "waiting for deletion of /ConfigMap/old");
    assert_eq!(plan.waiting_for[0].detail, "held by example.com/hold", "SE-600");
    assert!(plan.waiting_for[0].since.is_some());
    assert!(!world.has("smoke"));
}

#[test]
fn e2_failure_with_retry() {
    let strategy = RetryStrategy { limit: 2, ..RetryStrategy::default() };
    let mut world = World::new([
        manifest("Job", "before").hook("PreSync"),
        manifest("Deployment", "web"),
        manifest("ConfigMap", "late").wave(1),
        manifest("Job", "alarm").hook("SyncFail"),
    ])
    .no_delay();
    world.set_health("web", Status::Degraded);
    let mut ran = vec![];
    let message = loop {
        let plan = world.run();
        assert_eq!(plan.phase, OperationPhase::Failed);
        ran.push(world.changes().iter().filter(|line| line.starts_with("CreateHook")).count());
        world.log.clear();
        let count = world.seen.attempt;
        match decide_retry(Some(&strategy), count, plan.phase, &plan.message, false, world.now) {
            RetryDecision::Over { phase, message } => {
                assert_eq!(phase, OperationPhase::Failed);
                break message;
            }
            RetryDecision::Again { at, attempt, message } => {
                let wait = at.duration_since(world.now).as_secs();
                assert_eq!(wait, [5, 10][usize::try_from(count).unwrap()]);
                assert!(message.contains(&format!(". Retrying attempt #{attempt} at ")));
                world.now = at;
                world.retry(attempt);
            }
        }
    };
    assert!(message.ends_with(" (retried 2 times)."), "{message}");
    assert_eq!(ran, [2, 2, 2], "PreSync and SyncFail hooks run in each attempt, once");
    assert!(!world.has("late"));
}

#[test]
fn results_are_stored_as_argo_cd_stores_them() {
    let image = serde_json::json!({ "containers": [{ "image": "shop:1" }, { "image": "log:2" }] });
    let mut world = trace_one();
    world.seen.targets.push(manifest("Pod", "shop").set("spec", image).0.into());
    world.run();
    for result in &world.seen.results {
        assert_ne!(result.sync_phase, SyncPhase::Unknown, "{result:?}");
        assert_ne!(result.hook_phase, OperationPhase::Unknown, "{result:?}");
        assert_ne!(result.status, ResultCode::Unknown, "{result:?}");
        let json = serde_json::to_value(result).unwrap();
        let fields = ["group", "kind", "name", "namespace", "version"];
        assert!(
            fields.iter().all(|field| json.get(field).is_some()
                || *field == "group"
                || *field == "namespace"),
            "{json}"
        );
        let back: ResourceResult = serde_json::from_value(json).unwrap();
        assert_eq!(&back, result);
    }
    assert_eq!(world.result("shop").unwrap().images, ["shop:1", "log:2"], "SE-053");
}

#[test]
fn hooks_of_an_earlier_operation_or_attempt_are_recreated() {
    for stamp in ["op-0/0/presync", "op-1/7/presync"] {
        let hook = manifest("Job", "pre").hook("PreSync");
        let old = hook.clone().note(OPERATION_ANNOTATION, stamp);
        let mut world = World::new([hook.clone(), manifest("Secret", "s")]).live(old);
        world.run();
        assert_eq!(world.changes()[..2], ["DeleteHook batch/Job/pre", "CreateHook batch/Job/pre"]);

        // SE-294: without BeforeHookCreation it is kept, and applied.
        let keep = hook.policy("HookFailed");
        let old = keep.clone().note(OPERATION_ANNOTATION, stamp);
        let mut world = World::new([keep, manifest("Secret", "s")]).live(old);
        world.run();
        assert_eq!(world.changes()[0], "Apply batch/Job/pre");
        assert!(!world.log.iter().any(|line| line.starts_with("DeleteHook")));
    }
}
