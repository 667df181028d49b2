//! Classification, policies and names of hooks (A.3).

use jiff::Timestamp;

use super::super::hooks::purpose;
use super::super::*;
use super::world::{START, World, manifest};
use crate::health::Status;
use wavegate_api::Raw;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::OperationPhase;
use wavegate_api::operation::SyncPhase::{PostSync, PreSync, Sync};

#[test]
fn classification() {
    let argo = |hook: &str| classify_hook(&manifest("Job", "x").hook(hook).0);
    let helm = |hook: &str| classify_hook(&manifest("Job", "x").note("helm.sh/hook", hook).0);
    let cases = [
        ("V-035", argo("PreSync"), ObjectClass::Hook(vec![PreSync])),
        ("V-036", argo("PreSync,PostSync"), ObjectClass::Hook(vec![PreSync, PostSync])),
        ("V-037", argo("Sync, Sync"), ObjectClass::Hook(vec![Sync])),
        ("V-038", argo("Skip"), ObjectClass::Skipped),
        ("V-039", argo("Skip,PreSync"), ObjectClass::Hook(vec![PreSync])),
        ("V-040", argo("Garbage"), ObjectClass::Ignored),
        ("V-041", argo("Sync,Garbage"), ObjectClass::Hook(vec![Sync])),
        ("V-042", argo("presync"), ObjectClass::Ignored),
        ("V-043", helm("pre-install,pre-upgrade"), ObjectClass::Hook(vec![PreSync])),
        ("V-044", helm("crd-install"), ObjectClass::Resource),
        ("V-045", helm("test"), ObjectClass::Ignored),
        ("V-045", helm("pre-rollback"), ObjectClass::Ignored),
        (
            "V-046",
            classify_hook(&manifest("Job", "x").hook("Sync").note("helm.sh/hook", "pre-install").0),
            ObjectClass::Hook(vec![Sync]),
        ),
        ("V-047", argo("PostDelete"), ObjectClass::DeleteHook),
        ("V-048", argo("PreSync,PostDelete"), ObjectClass::Hook(vec![PreSync])),
        ("V-049", helm("pre-delete"), ObjectClass::DeleteHook),
    ];
    for (row, got, want) in cases {
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn generated_names() {
    let at = Timestamp::from_second(START).unwrap();
    let cases = [
        ("V-050", "mig-", "0123456789abcdef", PreSync, "mig-0123456-presync-1700000000-"),
        ("V-051", "mig-", "v1.2.3", PostSync, "mig-v1.2.3-postsync-1700000000-"),
        ("V-052", "x-", "abcdefgh", PreSync, "x-abcdefg-presync-1700000000-"),
        ("not every word is a name", "x-", "Größe_1", Sync, "x-gr--e-1-sync-1700000000-"),
    ];
    for (row, prefix, revision, phase, want) in cases {
        let name = |identity: &str| generated_name(prefix, &purpose(revision, phase, at), identity);
        let made = name("a");
        let mark = made.strip_prefix(want).unwrap_or_else(|| panic!("{row}: {made}"));
        assert!(mark.len() == 8 && mark.bytes().all(|b| b.is_ascii_hexdigit()), "{row}: {made}");
        assert_eq!(made, name("a"), "{row}");
        assert_ne!(made, name("b"), "SE-604: {row}");
    }
    let long = generated_name(&"p".repeat(58), &purpose("0123456789", Sync, at), "a");
    assert_eq!(long.len(), 63, "a Job copies its name into a label: {long}");
}

#[test]
fn hooks_without_a_name_are_distinguished() {
    let hook = || manifest("Job", "x").generate("mig-").hook("PreSync");
    let mut world = World::new([hook(), hook(), manifest("ConfigMap", "c")]).no_delay();
    world.run();
    let jobs = world.objects.keys().filter(|key| key.kind == "Job");
    assert_eq!(jobs.count(), 2, "{:?}", world.log);

    let names = |operation: &str| -> Vec<String> {
        let mut world = World::new([hook()]);
        world.seen.operation_id = operation.into();
        world.pump();
        world.objects.keys().map(|key| key.name.clone()).collect()
    };
    assert_eq!(names("op-1"), names("op-1"), "SE-397");
    assert_ne!(names("op-1"), names("op-2"), "SE-604");
}

#[test]
fn a_resource_without_a_name_never_matches_one_with_a_name() {
    let nameless = manifest("Secret", "x").generate("s-");
    let mut world = World::new([nameless, manifest("Secret", "s-0")]).no_delay();
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    assert_eq!(world.seen.results.len(), 2, "{:?}", world.seen.results);
}

#[test]
fn unrelated_objects_are_never_changed_for_a_hook() {
    for (hook, policy) in [
        ("PreSync", ""),
        ("PostSync", "BeforeHookCreation"),
        ("PreSync", "HookSucceeded"),
        ("PostSync", "HookFailed"),
        ("SyncFail", "HookSucceeded,HookFailed"),
    ] {
        let target = manifest("ConfigMap", "mine").hook(hook).policy(policy);
        let theirs = manifest("ConfigMap", "mine").finalizer("argocd.argoproj.io/hook-finalizer");
        let mut world = World::new([target, manifest("Secret", "s")]).no_delay().live(theirs);
        world.unrelated.insert("mine".into());
        let plan = world.run();
        assert_eq!(plan.phase, OperationPhase::Failed, "{hook} {policy}");
        assert!(plan.message.contains("not ours"), "{hook} {policy}: {}", plan.message);
        assert_eq!(world.changes(), [""; 0], "{hook} {policy}");
    }
}

#[test]
fn an_unrelated_object_that_appears_later_fails_the_hook_and_is_kept() {
    for (hook, policy) in [("PostSync", "HookFailed"), ("SyncFail", "HookFailed")] {
        let target = manifest("Job", "late").hook(hook).policy(policy);
        let fails = manifest("Job", "bad").hook("PostSync").wave(-1);
        let mut world = World::new([target, fails, manifest("Secret", "s")]).no_delay();
        if hook == "SyncFail" {
            world.set_health("bad", Status::Degraded);
        } else {
            world.set_health("bad", Status::Progressing);
        }
        while !world.has("bad") {
            world.reconcile().unwrap();
        }
        let uid = world.store(manifest("Job", "late").0).0;
        world.unrelated.insert("late".into());
        if hook == "PostSync" {
            world.set_health("bad", Status::Healthy);
        }
        let plan = world.run();
        assert_eq!(plan.phase, OperationPhase::Failed, "{hook}");
        assert!(plan.message.contains("not ours"), "{hook}: {}", plan.message);
        let late = &world.objects[&world.key("late").unwrap()];
        assert_eq!(late["metadata"]["uid"], uid, "{hook}");
    }
}

#[test]
fn a_hook_is_sent_with_name_namespace_finalizer_and_stamp() {
    let hook = manifest("Job", "x").namespace("").generate("mig-").hook("PreSync");
    let mut world = World::new([hook]);
    world.pump();
    let (key, live) = world.objects.first_key_value().unwrap();
    assert!(key.name.starts_with("mig-0123456-presync-1700000000-"), "SE-193: {key}");
    assert_eq!(live["metadata"]["namespace"], "default", "SE-195");
    assert_eq!(live["metadata"]["finalizers"][0], "argocd.argoproj.io/hook-finalizer", "SE-194");
    assert_eq!(live["metadata"]["annotations"][OPERATION_ANNOTATION], "op-1/0/presync/0");
    assert!(world.seen.targets[0]["metadata"]["name"].is_null(), "the source is not changed");
}

#[test]
fn a_hook_of_two_phases_runs_twice() {
    let mut world =
        World::new([manifest("Job", "x").hook("PreSync,PostSync"), manifest("ConfigMap", "c")])
            .no_delay();
    let plan = world.run();
    assert_eq!(plan.phase, OperationPhase::Succeeded);
    assert_eq!(
        world.changes(),
        [
            "CreateHook batch/Job/x",
            "RemoveFinalizer batch/Job/x",
            "Apply /ConfigMap/c",
            "DeleteHook batch/Job/x",
            "CreateHook batch/Job/x",
            "RemoveFinalizer batch/Job/x",
        ],
        "SE-184, V-036"
    );
    assert_eq!(world.seen.results.len(), 3);
    assert!(world.created.values().all(|times| *times == 1));
}

#[test]
fn a_hook_that_is_misspelt_or_left_behind_is_reported() {
    let left = manifest("Job", "old").hook("PreSync");
    let world = World::new([manifest("Job", "x").hook("Garbage")]).live(left).option("Prone=true");
    let plan = step(&world.snapshot(), world.now);
    assert_eq!(
        plan.warnings,
        [
            "unknown sync option Prone=true",
            "Job x has no valid hook type",
            "hook batch/Job old is no longer in the source",
        ],
        "SE-183, SE-296, SE-302"
    );
    assert!(plan.results.is_empty(), "V-040, SE-191");
}

/// One of a former destination or source kept its finalizer, so that neither it nor its namespace
/// could ever be deleted (SE-194, SE-241).
#[test]
fn hooks_that_are_no_task_any_more_are_released_at_the_end_se_194() {
    const HELD: &str = "argocd.argoproj.io/hook-finalizer";
    for ends in ["Succeeded", "Failed", "Terminated"] {
        let mut job = manifest("Job", "run").hook("PostSync");
        job.0["metadata"]["namespace"] = "default".into();
        let world = World::new([job, manifest("Secret", "s")]).no_delay();
        let mut world = world
            .live(manifest("Job", "former").hook("PreSync").finalizer(HELD))
            .live(manifest("Job", "theirs").hook("PreSync").finalizer(HELD))
            .live(manifest("Job", "plain").finalizer("example.com/hold"));
        world.seen.operation.prune = false;
        world.untracked.insert("theirs".into());
        world.set_health("run", Status::Progressing);
        world.pump();
        let held = |world: &World, name: &str| {
            let object = &world.objects[&world.key(name).unwrap()];
            object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
        };
        assert!(held(&world, "former"), "{ends}: the operation may still need it");
        match ends {
            "Succeeded" => world.set_health("run", Status::Healthy),
            "Failed" => world.set_health("run", Status::Degraded),
            _ => world.seen.phase = OperationPhase::Terminating,
        }
        let plan = world.run();
        assert_eq!(plan.phase == OperationPhase::Succeeded, ends == "Succeeded", "{plan:?}");
        assert!(!held(&world, "former"), "{ends}");
        assert!(held(&world, "theirs") && held(&world, "plain"), "{ends}");
        assert!(!world.objects[&world.key("former").unwrap()].is_deleting(), "{ends}");
    }
}

/// A person deletes a hook that hangs, and nothing happens: what holds it was not said (SE-260).
#[test]
fn a_hook_that_is_being_deleted_is_awaited_and_says_so_se_260() {
    let target = manifest("Job", "run").hook("PreSync");
    let mut world = World::new([target, manifest("Secret", "s")]).no_delay();
    world.set_health("run", Status::Progressing);
    let plan = world.pump();
    assert_eq!(plan.waiting_for[0].detail, "Progressing");
    let key = world.key("run").unwrap();
    world.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
        "2026-01-01T00:00:00Z".into();
    let plan = world.pump();
    assert_eq!(plan.phase, OperationPhase::Running);
    assert_eq!(
        plan.waiting_for[0].detail,
        "Progressing, being deleted; it is held until it completes, or the operation is terminated"
    );
    world.set_health("run", Status::Healthy);
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
}

/// What the operation itself has created is its own, whatever else claims it.
#[test]
fn a_hook_that_was_created_is_deleted_although_another_one_claims_it() {
    let hook = manifest("Job", "mine").hook("PreSync").policy("HookSucceeded");
    let mut world = World::new([hook, manifest("Secret", "s")]).no_delay();
    while !world.has("mine") {
        world.reconcile().unwrap();
    }
    world.unrelated.insert("mine".into());
    assert_eq!(world.run().phase, OperationPhase::Succeeded);
    assert!(world.log.contains(&"DeleteHook batch/Job/mine".to_owned()), "{:?}", world.log);
}

/// A finalizer of an earlier operation that must not be removed keeps nothing waiting.
#[test]
fn the_finalizer_of_an_abandoned_hook_is_removed_once() {
    for is_refused in [false, true] {
        let abandoned =
            manifest("Job", "old").hook("PreSync").finalizer("argocd.argoproj.io/hook-finalizer");
        let mut world = World::new([manifest("Secret", "s")]).no_delay().live(abandoned);
        if is_refused {
            world.refused.insert((Verb::RemoveFinalizer, "old".into()), "403".into());
        }
        assert_eq!(world.run().phase, OperationPhase::Succeeded, "{is_refused}");
        let tries = world.log.iter().filter(|line| line.starts_with("RemoveFinalizer")).count();
        assert_eq!(tries, 1, "{is_refused}: {:?}", world.log);
    }
}

/// SE-195: a kind is namespaced as the server has it, whatever a definition beside it says.
#[test]
fn the_scope_of_a_kind_is_that_of_the_server() {
    let mut definition =
        manifest("CustomResourceDefinition", "widgets.x.io").defines("x.io", "Widget");
    definition.0["spec"]["scope"] = "Cluster".into();
    for (served, namespace) in
        [(None, ""), (Some(Served::Namespaced), "default"), (Some(Served::ClusterScoped), "")]
    {
        let widget = manifest("Widget", "w");
        let kind = GroupVersionKind::of(&widget.0);
        let mut world = World::new([definition.clone(), widget]).no_delay();
        world.seen.kinds.extend(served.map(|served| (kind, served)));
        world.pump();
        let result = world.result("w").unwrap();
        assert_eq!(result.namespace, namespace, "{result:?}");
    }
}
