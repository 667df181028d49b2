//! How operations begin and end (A.4, V-085 to V-109): validation, dry run,
//! namespaces, partial operations, termination.

use jiff::SignedDuration;

use super::super::*;
use super::world::{World, manifest};
use crate::health::Status;
use wavegate_api::app_spec::ManagedNamespaceMetadata;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::{OperationPhase, ResultCode, SyncOperationResource, SyncPhase};

fn missing(world: &mut World, kind: &str, others: Option<(&str, &str)>) {
    let gvk = GroupVersionKind { group: "x.io".into(), version: "v1".into(), kind: kind.into() };
    let installed = others.map(|(group, version)| (group.to_owned(), version.to_owned()));
    world.seen.kinds.insert(gvk, Served::Missing { installed });
}

#[test]
fn v085_a_kind_that_does_not_exist() {
    let mut world = World::new([manifest("Widget", "w"), manifest("ConfigMap", "c")])
        .with(|world| missing(world, "Widget", None));
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Failed);
    assert_eq!(
        plan.message,
        "one or more synchronization tasks are not valid: The Kubernetes API could not find \
         x.io/Widget for requested resource default/w. Make sure the \"Widget\" CRD is installed \
         on the destination cluster."
    );
    assert!(world.log.is_empty(), "no request is sent");
    assert_eq!(world.result("w").unwrap().status, ResultCode::SyncFailed);
    // Its name as in the manifest, such as that of a kustomization among plain manifests.
    for (unnamed, name) in
        [(manifest("Widget", ""), ""), (manifest("Widget", "").generate("w-"), "w-")]
    {
        let mut world = World::new([unnamed]).with(|world| missing(world, "Widget", None));
        let message = world.run().message;
        assert!(message.contains(&format!("requested resource default/{name}. ")), "{message}");
    }
    let mut world = World::new([manifest("Widget", "w")]);
    missing(&mut world, "Widget", Some(("x.io", "v2")));
    let message = world.run().message;
    assert!(message.contains("version \"v1\"") && message.contains("\"v2\""), "SE-208: {message}");
}

#[test]
fn v086_to_v088_kinds_that_come_later() {
    let crd = manifest("CustomResourceDefinition", "widgets").defines("x.io", "Widget");
    let mut world = World::new([manifest("Widget", "w"), crd]);
    missing(&mut world, "Widget", None);
    world.run();
    let (a, b) = ("CustomResourceDefinition", "x.io/Widget/w");
    assert_eq!(world.log.len(), 3, "V-086: {:?}", world.log);
    assert!(world.log[0].starts_with("DryRun") && world.log[0].contains(a), "V-086");
    assert!(world.log[1].contains(a) && world.log[2].contains(b), "V-086");
    let waits =
        |action: &Action| matches!(action, Action::Apply(apply) if apply.request.wait_established);
    let mut world = World::new([manifest("CustomResourceDefinition", "c").defines("g", "K")]);
    world.reconcile().unwrap();
    world.reconcile().unwrap();
    assert!(waits(&world.last.unwrap().actions[0].actions[0]), "SE-254");

    let tolerant = || manifest("Widget", "w").options("SkipDryRunOnMissingResource=true");
    let mut world = World::new([tolerant()]).with(|world| missing(world, "Widget", None));
    world.run();
    assert_eq!(world.log, ["Apply x.io/Widget/w"], "V-087");
    let mut world = World::new([tolerant()]);
    world.run();
    assert_eq!(world.log, ["DryRun x.io/Widget/w", "Apply x.io/Widget/w"], "V-088");
}

#[test]
fn v089_what_the_project_forbids() {
    for (denial, want) in [
        (
            Denial::Kind("rule".to_owned()),
            "resource apps:Deployment is not permitted in project p: rule",
        ),
        (
            Denial::Namespace("rule".to_owned()),
            "namespace default is not permitted in project 'p': rule",
        ),
    ] {
        let mut world = World::new([manifest("Deployment", "web"), manifest("Secret", "s")]);
        world.seen.denied.insert(0, denial);
        let plan = world.run();
        let all = format!("one or more synchronization tasks are not valid: {want}");
        assert_eq!((plan.phase, plan.message), (OperationPhase::Failed, all), "V-089");
        assert_eq!(world.result("web").unwrap().message, want, "V-089");
    }
}

#[test]
fn v090_to_v092_the_destination_namespace() {
    let world = || World::new([manifest("Secret", "s")]).option("CreateNamespace=true").no_delay();
    let mut new = world();
    new.seen.namespace = NamespaceFact::Missing;
    new.run();
    let want = ["CreateNamespace /Namespace/default", "DryRun /Secret/s", "Apply /Secret/s"];
    assert_eq!(new.log, want, "V-090");
    let result = new.result("default").unwrap();
    assert_eq!((result.status, result.sync_phase), (ResultCode::Synced, SyncPhase::PreSync));

    let mut there = world();
    there.run();
    assert_eq!(there.changes(), ["Apply /Secret/s"], "V-091");

    let mut there = world().live(manifest("Namespace", "default"));
    there.run();
    assert_eq!(there.changes(), ["Apply /Secret/s"], "SE-202: and it is never pruned");

    let mut managed = world();
    managed.seen.managed_namespace_metadata = Some(ManagedNamespaceMetadata {
        labels: [("team".to_owned(), "a".to_owned())].into(),
        ..ManagedNamespaceMetadata::default()
    });
    managed.reconcile().unwrap();
    managed.reconcile().unwrap();
    let plan = managed.last.clone().unwrap();
    let Action::Apply(apply) = &plan.actions[0].actions[0] else { panic!("{plan:?}") };
    assert_eq!(apply.request.method.how, ApplyMethod::ServerSide, "V-092");
    assert_eq!(apply.request.manifest["metadata"]["labels"]["team"], "a", "V-092");

    let mut refused = world();
    refused.seen.namespace = NamespaceFact::Missing;
    refused.refused.insert((Verb::CreateNamespace, "default".into()), "forbidden".into());
    let plan = refused.run();
    assert_eq!(plan.message, "the namespace failed to apply, reason: forbidden", "SE-203");

    let mut unread = world();
    unread.seen.namespace = NamespaceFact::Failed("no route".into());
    let message = unread.run().message;
    assert!(message.ends_with("namespace auto creation failed: no route"), "SE-201: {message}");
    assert_eq!(unread.result("default").unwrap().hook_phase, OperationPhase::Error, "SE-201");

    let hook = manifest("Namespace", "default").hook("PreSync");
    let mut declared = World::new([hook]).option("CreateNamespace=true");
    declared.seen.namespace = NamespaceFact::Missing;
    declared.run();
    let created = declared.changes().iter().filter(|l| l.starts_with("Create")).count();
    assert_eq!(created, 1, "SE-200: a hook that is the namespace counts");
}

#[test]
fn v093_v104_dry_run_failures() {
    let mut world = World::new([
        manifest("Secret", "s"),
        manifest("Secret", "bad"),
        manifest("Job", "alarm").hook("SyncFail"),
    ]);
    world.refused.insert((Verb::DryRun, "bad".into()), "namespace not found".into());
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Failed);
    assert_eq!(plan.message, "one or more objects failed to apply (dry run)");
    assert!(world.changes().is_empty(), "SE-273: nor SyncFail hooks");
    assert_eq!(world.seen.results.len(), 1, "SE-250: only failures are stored");
}

#[test]
fn v094_v095_without_hooks() {
    let world = || {
        World::new([
            manifest("Job", "pre").hook("PreSync"),
            manifest("ConfigMap", "a"),
            manifest("ConfigMap", "b"),
        ])
        .live(manifest("ConfigMap", "old"))
    };
    let mut selective = world();
    let [group, kind, name, namespace] = ["", "ConfigMap", "a", ""].map(str::to_owned);
    selective.seen.operation.resources = vec![SyncOperationResource {
        group,
        kind,
        name,
        namespace,
        ..SyncOperationResource::default()
    }];
    selective.run();
    assert_eq!(selective.changes(), ["Apply /ConfigMap/a"], "V-094");
    let mut plain = world();
    plain.seen.operation.apply_only = true;
    plain.run();
    let want = ["Prune /ConfigMap/old", "Apply /ConfigMap/a", "Apply /ConfigMap/b"];
    assert_eq!(plain.changes(), want, "V-095");
}

#[test]
fn v096_a_dry_run_operation_changes_nothing() {
    let old = manifest("Job", "pre").hook("PreSync");
    let mut world = World::new([
        old.clone(),
        manifest("Deployment", "web").wave(1),
        manifest("Job", "alarm").hook("SyncFail"),
    ])
    .live(old)
    .live(manifest("ConfigMap", "gone"))
    .live(manifest("ConfigMap", "kept").options("Prune=false"));
    world.seen.operation.dry_run = true;
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    assert!(world.changes().is_empty());
    assert_eq!(world.result("web").unwrap().message, "deployment/web created (dry run)");
    assert_eq!(world.result("web").unwrap().hook_phase, OperationPhase::Succeeded);
    assert_eq!(world.result("gone").unwrap().message, "pruned (dry run)", "SE-252");
    assert_eq!(world.result("kept").unwrap().message, "ignored (no prune)");
    assert!(world.result("alarm").is_none());
}

#[test]
fn v097_v098_only_what_is_out_of_sync() {
    let names: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
    let mut world = World::new(names.iter().map(|name| manifest("ConfigMap", name)))
        .option("ApplyOutOfSyncOnly=true");
    for name in &names {
        let live = manifest("ConfigMap", name);
        world = world.live(if name == "c4" { live.set("spec", "drifted".into()) } else { live });
    }
    let mut same = world.clone();
    world.run();
    assert_eq!(world.log, ["DryRun /ConfigMap/c4", "Apply /ConfigMap/c4"], "V-097");
    assert_eq!(world.seen.results.len(), 1, "V-097");
    same.store(manifest("ConfigMap", "c4").0);
    let plan = same.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded, "V-098");
    assert!(same.log.is_empty(), "V-098");
}

#[test]
fn v099_v100_terminate() {
    let world = |policy: &str| {
        let hook = manifest("Job", "pre").hook("PreSync").policy(policy);
        let mut world = World::new([hook, manifest("ConfigMap", "c")]).no_delay();
        world.pump();
        world.seen.phase = OperationPhase::Terminating;
        world
    };
    let mut running = world("BeforeHookCreation");
    let plan = running.run();
    assert_eq!(plan.phase, OperationPhase::Failed, "V-099");
    assert_eq!(plan.message, "Operation terminated", "V-099");
    assert_eq!(running.result("pre").unwrap().message, "Terminated", "V-099");
    assert_eq!(running.result("pre").unwrap().hook_phase, OperationPhase::Failed, "V-099");
    running.vanish();
    assert!(!running.has("pre") && !running.has("c"), "V-099");

    let mut complete = world("BeforeHookCreation");
    complete.set_health("pre", Status::Healthy);
    assert_eq!(complete.run().message, "Operation terminated", "V-100");
    assert_eq!(complete.result("pre").unwrap().hook_phase, OperationPhase::Succeeded, "V-100");
    complete.vanish();
    assert!(complete.has("pre"), "V-100");

    let mut policy = world("HookFailed");
    policy.set_health("pre", Status::Healthy);
    policy.run();
    policy.vanish();
    assert!(!policy.has("pre"), "V-100");

    let mut refused = world("BeforeHookCreation");
    refused.refused.insert((Verb::DeleteHook, "pre".into()), "403".into());
    let plan = refused.run();
    assert_eq!(plan.phase, OperationPhase::Error, "SE-285");
    assert_eq!(plan.message, "Operation termination had errors", "SE-285");
}

#[test]
fn the_sync_timeout_terminates() {
    let mut world = World::new([manifest("Job", "pre").hook("PreSync"), manifest("Secret", "s")]);
    world.seen.settings.sync_timeout = Some(SignedDuration::from_secs(60));
    let plan = world.pump();
    let deadline = world.seen.started_at + SignedDuration::from_secs(60);
    assert!(plan.wake_at.is_some_and(|at| at <= deadline), "it is reconciled in time");
    world.now = deadline;
    world.reconcile().unwrap();
    assert_eq!(world.seen.phase, OperationPhase::Terminating);
    assert_eq!(world.seen.message, "operation is terminating due to timeout", "SE-288");
    let plan = world.pump();
    assert_eq!(plan.message, "Operation terminated, triggered by controller sync timeout");
}

#[test]
fn own_limits_of_hooks_and_waves() {
    let minute = SignedDuration::from_secs(60);
    let mut world = World::new([manifest("Pod", "h").hook("PreSync"), manifest("Secret", "s")]);
    world.seen.settings.hook_timeout = Some(minute);
    let plan = world.pump();
    let start = world.now;
    world.now = plan.wake_at.unwrap();
    let plan = world.pump();
    assert_eq!(plan.wake_at, Some(start + minute), "SE-601: reconciled when the limit is reached");
    assert_eq!(plan.waiting_for[0].until, Some(start + minute));
    world.now = start + minute;
    assert_eq!(world.pump().phase, OperationPhase::Failed, "SE-601");
    assert_eq!(world.result("h").unwrap().message, "h did not complete in time");

    let mut world =
        World::new([manifest("Deployment", "d"), manifest("Secret", "s").wave(1)]).no_delay();
    world.seen.settings.wave_timeout = Some(minute);
    world.pump();
    world.now += minute;
    assert_eq!(world.pump().phase, OperationPhase::Failed, "SE-588");
}

#[test]
fn v101_the_delay_between_waves() {
    let mut world = World::new([
        manifest("ConfigMap", "a").wave(-1),
        manifest("ConfigMap", "b"),
        manifest("ConfigMap", "post").hook("PostSync"),
    ]);
    let mut pauses = vec![];
    loop {
        let plan = world.pump();
        if plan.phase.is_completed() {
            break;
        }
        assert_eq!(plan.waiting_for[0].reason, WaitReason::WaveDelay);
        assert!(!world.reconcile().unwrap(), "an event does not end the delay");
        assert_eq!(world.last.as_ref().unwrap(), &plan, "nor change what is stored");
        pauses.push(plan.wake_at.unwrap().duration_since(world.now).as_secs());
        world.tick();
    }
    assert_eq!(pauses, [2, 2]);
}

#[test]
fn v103_an_emptied_application() {
    let mut world = World::new([]).live(manifest("ConfigMap", "only"));
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    world.vanish();
    assert!(world.objects.is_empty());
    let plan = World::new([]).run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
}

#[test]
fn v105_shared_resources() {
    let mut world = World::new([manifest("Secret", "s")]).option("FailOnSharedResource=true");
    world.seen.shared = vec!["Secret/s is part of applications a and b".into()];
    let plan = world.run();
    let want = "Shared resource found: Secret/s is part of applications a and b";
    assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Failed, want));
    assert!(world.log.is_empty());
}

#[test]
fn a_failed_kind_does_not_stop_the_other_kinds_of_its_wave() {
    let mut world = World::new([
        manifest("ConfigMap", "a"),
        manifest("ConfigMap", "b"),
        manifest("Service", "s"),
        manifest("Deployment", "late").wave(1),
        manifest("Job", "alarm").hook("SyncFail"),
    ]);
    for name in ["a", "b"] {
        world.refused.insert((Verb::Apply, name.into()), format!("{name} is wrong"));
    }
    world.refused.insert((Verb::CreateHook, "alarm".into()), "no quota".into());
    let plan = world.run();
    assert!(world.has("s") && !world.has("late"), "SE-251 e");
    assert_eq!(
        plan.message,
        "one or more objects failed to apply, reason: a is wrong,b is wrong\n\
         one or more SyncFail hooks failed, reason: no quota",
        "SE-272"
    );
}

#[test]
fn an_action_without_a_response_is_repeated_after_a_delay() {
    let mut world = World::new([manifest("Job", "pre").hook("PreSync"), manifest("Secret", "s")]);
    world.reconcile().unwrap();
    world.reconcile().unwrap();
    let hook = world.last.clone().unwrap().actions[0].actions[0].id();
    assert_eq!(hook.verb, Verb::CreateHook);
    let lost = ActionOutcome { action: hook, result: ActionResult::Unknown("timeout".into()) };

    let mut created = world.snapshot();
    created.outcomes = vec![lost.clone()];
    let plan = step(&created, world.now);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.results[0].hook_phase, OperationPhase::Running, "by its stamp");

    let mut absent = created.clone();
    absent.live.clear();
    let plan = step(&absent, world.now);
    assert_eq!(plan.message, "waiting for the response to a request for batch/Job/pre");
    assert!(plan.actions.is_empty() && plan.wake_at > Some(world.now));
    absent.outcomes.clear();
    let plan = step(&absent, world.now);
    assert!(
        plan.actions
            .iter()
            .any(|g| matches!(g.actions[0], Action::CreateHook(_) | Action::DryRun(_)))
    );
}

#[test]
fn an_unknown_phase_never_counts_as_running() {
    // The phase of the operation: no action, and no change.
    let mut world = World::new([manifest("ConfigMap", "c")]);
    world.seen.phase = OperationPhase::Unknown;
    world.seen.message = "as stored".into();
    let plan = step(&world.snapshot(), world.now);
    assert_eq!((plan.phase, plan.message.as_str()), (OperationPhase::Unknown, "as stored"));
    assert!(plan.actions.is_empty() && plan.waiting_for.is_empty() && plan.wake_at.is_none());

    // The phase of one result: the task counts as not run.
    let targets = [manifest("Job", "pre").hook("PreSync"), manifest("Secret", "s")];
    let mut world = World::new(targets).no_delay();
    let made = |world: &World| world.seen.results.iter().position(|result| result.name == "pre");
    world.pump();
    let at = made(&world).unwrap();
    assert_eq!(world.seen.results[at].hook_phase, OperationPhase::Running);
    world.seen.results[at].hook_phase = OperationPhase::Unknown;
    let plan = step(&world.snapshot(), world.now);
    assert_eq!(plan.results[at].hook_phase, OperationPhase::Running, "by its live object");
    world.objects.clear();
    world.seen.results[at].hook_phase = OperationPhase::Unknown;
    let plan = step(&world.snapshot(), world.now);
    let group = plan.actions.first().unwrap_or_else(|| panic!("nothing is done: {plan:?}"));
    assert!(matches!(group.actions[0], Action::CreateHook(_)), "{plan:?}");

    // The stored final phase of an operation: it ends without success.
    let mut world = World::new([manifest("ConfigMap", "c")]);
    world.seen.progress.ending =
        Some(SyncEnding { phase: OperationPhase::Unknown, message: "m".into() });
    assert_eq!(step(&world.snapshot(), world.now).phase, OperationPhase::Error);
}

/// What has ended, or is in a phase of a later version, keeps its state.
#[test]
fn an_operation_that_does_not_run_is_left_as_it_is() {
    for phase in [OperationPhase::Succeeded, OperationPhase::Failed, OperationPhase::Unknown] {
        let mut world = World::new([manifest("ConfigMap", "c")]);
        let progress = SyncProgress { dry_run_done: true, ..SyncProgress::default() };
        (world.seen.phase, world.seen.message) = (phase, "so it ended".into());
        world.seen.progress = progress.clone();
        let plan = step(&world.snapshot(), world.now);
        assert_eq!((plan.phase, plan.message.as_str()), (phase, "so it ended"));
        assert_eq!((plan.progress, plan.actions.len()), (progress, 0));
    }
}
