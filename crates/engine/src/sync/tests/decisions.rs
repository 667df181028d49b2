//! Single decisions on the way of an operation, each by what decides it.

use serde_json::{Value, json};

use super::super::*;
use super::world::{World, first_wait, manifest};
use crate::health::{Health, Status};
use wavegate_api::annotations::HOOK_FINALIZER;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::OperationPhase::{Failed, Running, Succeeded};
use wavegate_api::operation::{ResourceResult, ResultCode, SyncPhase};

/// The manifest that is sent for the first action of a verb.
fn sent(world: &mut World, verb: Verb) -> Value {
    for _ in 0..20 {
        world.reconcile().unwrap();
        let plan = world.last.clone().unwrap();
        for action in plan.actions.iter().flat_map(|group| &group.actions) {
            if let Action::Apply(apply) | Action::CreateHook(apply) = action
                && action.id().verb == verb
            {
                return apply.request.manifest.as_ref().clone();
            }
        }
    }
    panic!("{verb:?} is never done");
}

/// SE-117: the option is about resources of other Applications, and there have to be some.
#[test]
fn shared_resources_stop_only_those_that_say_so_se_117() {
    let phase = |option: bool, shared: bool| {
        let mut world = World::new([manifest("Secret", "s")]).no_delay();
        if option {
            world = world.option("FailOnSharedResource=true");
        }
        world.seen.shared.extend(shared.then(|| "Secret/s is part of a and b".to_owned()));
        world.run().phase
    };
    let phases = [(false, false), (false, true), (true, false), (true, true)];
    let found = phases.map(|(option, shared)| phase(option, shared));
    assert_eq!(found, [Succeeded, Succeeded, Succeeded, Failed]);
}

/// SE-257: whether resources are awaited depends on the number of waves.
#[test]
fn alarms_are_no_wave_when_the_settings_say_so_se_257() {
    let run = |counts: bool, later: bool, alarm: bool| {
        let mut targets = vec![manifest("Deployment", "web")];
        targets.extend(later.then(|| manifest("ConfigMap", "late").wave(1)));
        targets.extend(alarm.then(|| manifest("Job", "alarm").hook("SyncFail")));
        let mut world = World::new(targets).no_delay();
        world.seen.settings.sync_fail_counts_as_wave = counts;
        world.set_health("web", Status::Progressing);
        let plan = world.pump();
        (plan.phase, world.has("late"))
    };
    for counts in [true, false] {
        assert_eq!(run(counts, true, true), (Running, false), "a later wave waits for it");
        assert_eq!(run(counts, false, false), (Succeeded, false), "nothing waits for it");
    }
    let multi_step = |counts: bool| {
        let targets = [manifest("Deployment", "web"), manifest("Job", "alarm").hook("SyncFail")];
        let mut world = World::new(targets).no_delay();
        world.seen.settings.sync_fail_counts_as_wave = counts;
        world.reconcile().unwrap();
        world.reconcile().unwrap();
        world.seen.progress.multi_step
    };
    assert_eq!([true, false].map(multi_step), [Some(true), Some(false)]);
}

/// SE-589: alarms run on what is not valid only if there are some; else the reasons are named.
#[test]
fn without_alarms_what_is_not_valid_is_named_se_589() {
    let message = |alarm: bool| {
        let mut targets = vec![manifest("Widget", "w"), manifest("ConfigMap", "c")];
        targets.extend(alarm.then(|| manifest("Job", "alarm").hook("SyncFail")));
        let mut world = World::new(targets).no_delay();
        world.seen.settings.sync_fail_on_invalid = true;
        world.seen.denied.insert(0, Denial::Kind("rule".into()));
        let plan = world.run();
        assert_eq!(plan.phase, Failed);
        (plan.message, world.created.len())
    };
    let denied = "resource x.io:Widget is not permitted in project p: rule";
    let base = "one or more synchronization tasks are not valid";
    assert_eq!(message(false), (format!("{base}: {denied}"), 0));
    assert_eq!(message(true), (format!("{base}, reason: {denied}"), 1));
}

/// SE-241.5: what was pruned is awaited, and no other object of its name.
#[test]
fn only_the_pruned_object_itself_is_awaited_se_241() {
    let waits = |uid: &str, deleting: bool, is_itself: bool| {
        let mut world = World::new([manifest("ConfigMap", "a")])
            .no_delay()
            .live(manifest("ConfigMap", "a"))
            .live(manifest("ConfigMap", "old"));
        world.itself.extend(is_itself.then(|| "old".to_owned()));
        let key = world.key("old").unwrap();
        let object = world.objects.get_mut(&key).unwrap();
        object["metadata"]["uid"] = "own".into();
        if deleting {
            object["metadata"]["deletionTimestamp"] = world.now.to_string().into();
        }
        let row = |name: &str, status| ResourceResult {
            kind: "ConfigMap".into(),
            version: "v1".into(),
            namespace: "default".into(),
            name: name.into(),
            status,
            hook_phase: Succeeded,
            sync_phase: SyncPhase::Sync,
            ..ResourceResult::default()
        };
        let mut pruned = row("old", ResultCode::Pruned);
        pruned.uid = uid.into();
        world.seen.results = vec![row("a", ResultCode::Synced), pruned];
        world.seen.progress.dry_run_done = true;
        let plan = step(&world.snapshot(), world.now);
        assert_eq!(plan.phase == Running, !plan.waiting_for.is_empty());
        first_wait(&plan) == Some((WaitReason::Deletion, "old"))
    };
    assert!(waits("own", true, false), "it is being deleted");
    assert!(waits("own", false, false), "its deletion is not seen yet");
    assert!(waits("", true, false), "after a restart, which one it was is not known");
    assert!(!waits("other", false, false), "it was created again");
    assert!(!waits("own", true, true), "its deletion waits for this operation (SE-513)");
}

/// SE-262: of lost answers, that of a hook is named, with its reason.
#[test]
fn of_lost_answers_that_of_a_hook_comes_first_se_262() {
    let targets = [manifest("ConfigMap", "c"), manifest("Job", "check").hook("Sync")];
    let mut world = World::new(targets).no_delay();
    world.reconcile().unwrap();
    world.reconcile().unwrap();
    let plan = world.last.clone().unwrap();
    let actions = plan.actions.iter().flat_map(|group| &group.actions);
    let lost = actions.map(|action| {
        let id = action.id();
        let why = format!("lost {}", id.task.resource.name);
        ActionOutcome { action: id, result: ActionResult::Unknown(why) }
    });
    let mut seen = world.snapshot();
    (seen.outcomes, seen.live) = (lost.collect(), Default::default());
    let plan = step(&seen, world.now);
    let waits: Vec<(&str, &str)> =
        plan.waiting_for.iter().map(|wait| (&*wait.key.name, &*wait.detail)).collect();
    assert_eq!(waits, [("check", "lost check"), ("c", "lost c")]);
    assert!(plan.detailed_message().ends_with("(lost check)"), "{}", plan.detailed_message());
}

/// A hook of which only the answer is lost was created: its stamp says so (SE-397).
#[test]
fn a_hook_whose_answer_is_lost_is_awaited_se_397() {
    let targets = [manifest("Job", "check").hook("Sync"), manifest("ConfigMap", "c")];
    let mut world = World::new(targets).no_delay();
    world.pump();
    let mut seen = world.snapshot();
    let hook = TaskKey::of(world.result("check").unwrap());
    seen.results.retain(|row| row.name != "check");
    let action = ActionId { verb: Verb::CreateHook, task: hook };
    seen.outcomes = vec![ActionOutcome { action, result: ActionResult::Unknown("reset".into()) }];
    let plan = step(&seen, world.now);
    assert_eq!(first_wait(&plan), Some((WaitReason::HookCompletion, "check")));
}

/// SE-193: a hook without a name, of an earlier operation, is one of a manifest in the source.
#[test]
fn hooks_of_earlier_operations_are_known_by_their_prefix_se_193() {
    let warnings = |target: super::world::Manifest, prefix: &str| {
        let old = manifest("Job", "mig-old").hook("PreSync");
        let mut world = World::new([target, manifest("ConfigMap", "c")]).live(old);
        if !prefix.is_empty() {
            let key = world.key("mig-old").unwrap();
            world.objects.get_mut(&key).unwrap()["metadata"]["generateName"] = prefix.into();
        }
        step(&world.snapshot(), world.now).warnings
    };
    let hook = |kind: &str| manifest(kind, "x").generate("mig-").hook("PreSync");
    let left = ["hook batch/Job mig-old is no longer in the source"];
    assert_eq!(warnings(hook("Job"), "mig-"), [""; 0]);
    assert_eq!(warnings(hook("Job"), "other-"), left, "another prefix");
    assert_eq!(warnings(hook("Job"), ""), left, "it has a name of its own");
    assert_eq!(warnings(hook("Pod"), "mig-"), left, "another kind");
    assert_eq!(warnings(hook("CronJob"), "mig-"), left, "another kind of the group");
    let mut other = hook("Job");
    other.0["apiVersion"] = "example.com/v1".into();
    assert_eq!(warnings(other, "mig-"), left, "another group");
    let mut named = hook("Job");
    named.0["metadata"]["name"] = "mig-new".into();
    assert_eq!(warnings(named, "mig-"), left, "the manifest has a name");
    let plain = manifest("Job", "mig-").hook("PreSync");
    assert_eq!(warnings(plain, ""), left);
}

/// SE-131: the scope of a kind is what the server says.
#[test]
fn objects_of_a_cluster_scoped_kind_have_no_namespace_se_131() {
    for (served, want) in [
        (Served::ClusterScoped, ""),
        (Served::Namespaced, "default"),
        (Served::Failed("x".into()), "default"),
    ] {
        let mut world = World::new([manifest("Widget", "w")]);
        let kind = GroupVersionKind::new("x.io", "v1", "Widget");
        let is_failure = matches!(served, Served::Failed(_));
        world.seen.kinds.insert(kind, served);
        let plan = step(&world.snapshot(), world.now);
        let namespace = match is_failure {
            true => plan.results[0].namespace.clone(),
            false => plan.actions[0].actions[0].id().task.resource.namespace,
        };
        assert_eq!(namespace, want);
    }
}

/// SE-195: a manifest is sent with its namespace; SE-194: a hook with one finalizer.
#[test]
fn manifests_are_sent_with_their_namespace_and_finalizer_se_194_se_195() {
    let mut world = World::new([manifest("ConfigMap", "c").namespace("")]).no_delay();
    assert_eq!(sent(&mut world, Verb::Apply)["metadata"]["namespace"], "default");
    let mut world = World::new([manifest("ConfigMap", "c").namespace("other")]).no_delay();
    assert_eq!(sent(&mut world, Verb::Apply)["metadata"]["namespace"], "other");
    for (own, want) in [
        (None, json!([HOOK_FINALIZER])),
        (Some(HOOK_FINALIZER), json!([HOOK_FINALIZER])),
        (Some("x.io/own"), json!(["x.io/own", HOOK_FINALIZER])),
    ] {
        let mut hook = manifest("Job", "check").hook("Sync");
        if let Some(own) = own {
            hook = hook.finalizer(own);
        }
        let mut world = World::new([hook]).no_delay();
        assert_eq!(sent(&mut world, Verb::CreateHook)["metadata"]["finalizers"], want, "{own:?}");
    }
}

/// SE-513: the Application of an operation may be in its own source, and may be deleted meanwhile.
#[test]
fn an_application_that_is_being_deleted_is_not_applied_by_itself_se_513() {
    let run = |deleting: bool, is_itself: bool| {
        let mut world =
            World::new([manifest("Widget", "self"), manifest("ConfigMap", "late").wave(1)])
                .no_delay()
                .live(
                    manifest("Widget", "self")
                        .finalizer("example.com/hold")
                        .set("spec", "old".into()),
                );
        world.set_health("self", Status::Healthy);
        world.itself.extend(is_itself.then(|| "self".to_owned()));
        if deleting {
            let key = world.key("self").unwrap();
            world.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
                world.now.to_string().into();
        }
        let plan = world.pump();
        let row = world.result("self").map(|row| (row.status, row.message.clone()));
        (plan.phase, row, world.log.iter().filter(|line| line.contains("self")).count())
    };
    let message = "not applied: the application is being deleted".to_owned();
    assert_eq!(run(true, true), (Succeeded, Some((ResultCode::Synced, message)), 0));
    assert_eq!(run(false, true).2, 2, "it is checked and applied");
    let (phase, row, requests) = run(true, false);
    assert_eq!(
        (phase, row, requests),
        (Running, None, 1),
        "another one is applied when it is gone"
    );
}

/// A namespace or a definition that is being deleted holds what may belong to it; others do not.
#[test]
fn what_is_being_deleted_holds_what_comes_after_it_in_its_wave() {
    let applied = |first: super::world::Manifest| {
        let held = first.clone().finalizer("example.com/hold");
        let mut world = World::new([first, manifest("Deployment", "web")]).no_delay().live(held);
        world.set_health("web", Status::Healthy);
        let key = world.objects.keys().next().cloned().unwrap();
        world.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
            world.now.to_string().into();
        world.pump();
        world.has("web")
    };
    assert!(!applied(manifest("Namespace", "extra")));
    let definition = manifest("CustomResourceDefinition", "widgets.x.io").defines("x.io", "Widget");
    assert!(!applied(definition));
    assert!(applied(manifest("ConfigMap", "c")));
}

/// What is being deleted already is not deleted again, and is awaited.
#[test]
fn an_object_that_is_being_deleted_is_not_pruned_again() {
    let mut world = World::new([manifest("ConfigMap", "a"), manifest("ConfigMap", "b").wave(1)])
        .no_delay()
        .live(manifest("ConfigMap", "old").finalizer("example.com/hold"));
    let key = world.key("old").unwrap();
    world.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] =
        world.now.to_string().into();
    let plan = world.pump();
    assert_eq!(world.changes(), ["Apply /ConfigMap/a"]);
    assert_eq!(world.result("old").unwrap().status, ResultCode::Pruned);
    assert_eq!(first_wait(&plan), Some((WaitReason::Deletion, "old")));
    world.objects.remove(&key);
    assert_eq!(world.run().phase, Succeeded);
}

/// SE-597: the stored state names each announced action, so that a wave is announced in parts.
#[test]
fn so_many_actions_are_announced_at_once_se_597() {
    let pruned = |count: usize| {
        let mut world = World::new([manifest("ConfigMap", "zz")]).no_delay();
        world.checks_plans = false;
        for at in 0..count {
            world = world.live(manifest("ConfigMap", &format!("old-{at:04}")));
        }
        let mut seen = world.snapshot();
        seen.progress.dry_run_done = true;
        let plan = step(&seen, world.now);
        let actions: Vec<&Action> = plan.actions.iter().flat_map(|group| &group.actions).collect();
        let prunes = actions.iter().filter(|one| one.id().verb == Verb::Prune).count();
        assert_eq!(plan.progress.in_flight.len(), prunes);
        (prunes, actions.len() - prunes)
    };
    assert_eq!(pruned(499), (499, 1));
    assert_eq!(pruned(500), (500, 1), "and the rest of the wave");
    assert_eq!(pruned(501), (500, 0), "the rest follows when these are recorded");
}

/// SE-282: a dry run says of each task what a sync would do.
#[test]
fn a_dry_run_names_what_each_task_would_do_se_282() {
    let mut world = World::new([manifest("Secret", "same"), manifest("Secret", "new")])
        .live(manifest("Secret", "same"))
        .live(manifest("Secret", "old"));
    world.seen.operation.dry_run = true;
    let plan = world.run();
    assert_eq!(plan.phase, Succeeded);
    let found = ["same", "new", "old"].map(|name| {
        let row = world.result(name).unwrap();
        (row.status, row.message.clone())
    });
    let of = |status, message: &str| (status, message.to_owned());
    let want = [
        of(ResultCode::Synced, "secret/same created (dry run)"),
        of(ResultCode::Synced, "secret/new created (dry run)"),
        of(ResultCode::Pruned, "pruned (dry run)"),
    ];
    assert_eq!(found, want);
    // An object that goes meanwhile is no success.
    let mut world = World::new([manifest("Secret", "s")]);
    world.reconcile().unwrap();
    let id = world.last.clone().unwrap().actions[0].actions[0].id();
    let mut seen = world.snapshot();
    seen.outcomes = vec![ActionOutcome { action: id, result: ActionResult::Gone }];
    let plan = step(&seen, world.now);
    assert_eq!((plan.phase, plan.actions.len()), (Failed, 0));
    assert_eq!(plan.results[0].message, "the object was deleted during its dry run");
}

/// A hook that has ended well is not undone by its object, which stays; one that cannot be replaced
/// is not run.
#[test]
fn a_hook_that_cannot_be_deleted_fails_only_what_needs_it() {
    let forbidden = |mut world: World| {
        world.refused.insert((Verb::DeleteHook, "check".into()), "403".into());
        let plan = world.run();
        let row = world.result("check").unwrap();
        assert_eq!(row.message, "failed to delete resource: 403");
        (plan.phase, plan.message, world.has("c"))
    };
    let targets = |policy: &str| {
        [manifest("Job", "check").hook("PreSync").policy(policy), manifest("ConfigMap", "c")]
    };
    let ended = World::new(targets("HookSucceeded")).no_delay().with(|world| {
        world.seen.settings.hook_policy_scope = HookPolicyScope::Hook;
    });
    let all_run = "successfully synced (all tasks run)".to_owned();
    assert_eq!(forbidden(ended), (Succeeded, all_run, true));
    let replaced =
        World::new(targets("")).no_delay().live(manifest("Job", "check").hook("PreSync"));
    let failed = "one or more objects failed to apply".to_owned();
    assert_eq!(forbidden(replaced), (Failed, failed, false));
}

/// SE-600: a wait has the state of what it waits for.
#[test]
fn a_wait_has_the_words_of_the_health_se_600() {
    let mut world =
        World::new([manifest("Deployment", "web"), manifest("ConfigMap", "c").wave(1)]).no_delay();
    world.pump();
    for (health, want) in [
        (Some(Ok(Health::new(Status::Progressing, "1 of 2"))), "Progressing: 1 of 2"),
        (Some(Ok(Health::new(Status::Progressing, ""))), "Progressing"),
        (Some(Err("no rule".to_owned())), "health cannot be determined: no rule"),
    ] {
        let mut seen = world.snapshot();
        seen.live.values_mut().for_each(|live| live.health = health.clone());
        assert_eq!(step(&seen, world.now).waiting_for[0].detail, want);
    }
}

/// SE-319, SE-320: an object that each sync creates again carries the stamp of its task.
#[test]
fn what_is_deleted_and_created_again_has_a_stamp_se_320() {
    let stamp = |target: super::world::Manifest, live: bool| {
        let mut world = World::new([target.clone()]).no_delay();
        if live {
            world = world.live(target.set("spec", "old".into()));
        }
        let sent = sent(&mut world, Verb::Apply);
        !sent["metadata"]["annotations"][OPERATION_ANNOTATION].is_null()
    };
    let of = |kind: &str, options: &str| manifest(kind, "x").options(options);
    assert!(stamp(of("ConfigMap", "Replace=true,Force=true"), true));
    assert!(!stamp(of("ConfigMap", "Replace=true"), true));
    assert!(!stamp(of("ConfigMap", "Force=true"), true));
    assert!(!stamp(of("Namespace", "Replace=true,Force=true").namespace(""), false), "SE-350");
}
