//! How an operation goes on from step to step, and how it ends (SE-193 to SE-288, SE-374 to SE-397).

use super::hooks::nameless;
use super::limits::settings;
use super::*;

const FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";

/// Creates an Application of the folder with its name, and runs an operation to its end.
async fn run(world: &World, name: &str, operation: Value) -> Value {
    world.create_app(&world.application(name, name)).await;
    world.until(name, "compared", |app| app["status"]["reconciledAt"].is_string()).await;
    world.patch(name, json!({ "operation": operation })).await;
    world.until(name, "over", |app| matches!(phase(app), "Succeeded" | "Failed" | "Error")).await
}

/// SE-201: a Namespace that cannot be read fails its task. SE-203: one that cannot be created ends
/// the operation before anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_cannot_be_created_ends_the_operation_se_201_se_203() {
    let text = "the namespace failed to apply";
    for (verb, starts, contains) in [
        (
            "get",
            "one or more synchronization tasks are not valid",
            "namespace auto creation failed: ",
        ),
        ("create", text, text),
    ] {
        let world = World::start().await;
        world.write("app/one.json", &config_map("one", "1", &[]));
        world.commit_file("app/alarm.json", &config_map("alarm", "1", &[(HOOK, "SyncFail")]));
        let mut app = world.application("app", "app");
        // One that is there is read before the operation relies on it.
        let namespace = if verb == "get" { "web" } else { "fresh" };
        app["spec"]["destination"]["namespace"] = namespace.into();
        world.create_app(&app).await;
        world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
        let refused = move |record: &RequestRecord| {
            record.client == CONTROLLER && record.resource == "namespaces" && record.verb == verb
        };
        world.server.inject(InjectedFault::new(Effect::Forbidden, refused).times(usize::MAX));
        world.sync("app", json!({"syncOptions": ["CreateNamespace=true"]})).await;
        let app = world.until("app", "over", |app| matches!(phase(app), "Failed" | "Error")).await;
        assert!(message(&app).starts_with(starts), "SE-201, SE-203 {verb}: {}", message(&app));
        assert!(message(&app).contains(contains), "SE-201, SE-203 {verb}: {}", message(&app));
        if verb == "get" {
            let failed = result(&app, "web");
            assert_eq!(failed["status"], "SyncFailed", "SE-201: {app}");
            assert_eq!(failed["hookPhase"], "Error", "SE-201: {app}");
        }
        assert_eq!(world.made(), [""; 0], "SE-203: neither resources nor hooks");
    }
}

/// SE-251: a failed prune keeps its wave from being applied, and one kind that fails does not keep
/// the others of its wave; later waves do not begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_ends_its_wave_as_se_251_says() {
    let world = World::start().await;
    world.write("prune/old.json", &config_map("old", "1", &[]));
    world.write("prune/kept.json", &config_map("kept", "1", &[]));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    world.write("apply/a.json", &config_map("a", "1", &[]));
    world.write("apply/b.json", &config_map("b", "1", &[]));
    world.write("apply/service.json", &service.to_string());
    world.commit_file("apply/late.json", &deployment("late", &[(WAVE, "1")]));
    run(&world, "prune", json!({"sync": {}})).await;
    world.remove("prune/old.json");
    world.commit_file("prune/new.json", &config_map("new", "1", &[]));
    let deletes = |record: &RequestRecord| record.client == CONTROLLER && record.verb == "delete";
    world.server.inject(InjectedFault::new(Effect::Forbidden, deletes).times(usize::MAX));
    world.patch("prune", json!({"operation": {"sync": {"prune": true}}})).await;
    let app = world.until("prune", "failed", |app| phase(app) == "Failed").await;
    assert!(message(&app).starts_with("one or more objects failed to apply, reason: "), "{app}");
    assert_eq!(result(&app, "old")["status"], "SyncFailed", "SE-251: {app}");
    assert!(world.get("v1", "ConfigMap", "web", "new").await.is_null(), "SE-251 c");
    world.server.clear_faults();

    let creates = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.resource == "configmaps"
            && matches!(record.verb.as_str(), "create" | "apply" | "patch")
            && !record.dry_run
    };
    world.server.inject(InjectedFault::new(Effect::Forbidden, creates).times(usize::MAX));
    let app = run(&world, "apply", json!({"sync": {}})).await;
    assert_eq!(phase(&app), "Failed", "{}", message(&app));
    for name in ["a", "b"] {
        assert_eq!(result(&app, name)["status"], "SyncFailed", "SE-251 e: {app}");
    }
    assert_eq!(result(&app, "service")["status"], "Synced", "SE-251 e: {app}");
    assert!(world.get("v1", "Service", "web", "service").await.is_object(), "SE-251 e");
    assert!(world.get("apps/v1", "Deployment", "web", "late").await.is_null(), "SE-251");
}

/// SE-254: the objects of a kind wait for its definition to be established.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_wait_for_their_definition_se_254() {
    let world = World::start().await;
    world.write("app/crd.json", &widgets(json!({})).to_string());
    let widget = |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    world.write("app/one.json", &widget("one").to_string());
    world.commit_file("app/two.json", &widget("two").to_string());
    // The definition can be read a while after it was written only, as on a slow API server.
    let reads = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.resource == "customresourcedefinitions"
            && matches!(record.verb.as_str(), "get" | "list" | "watch")
    };
    world
        .server
        .inject(InjectedFault::new(Effect::Latency(Duration::from_millis(700)), reads).times(3));
    let app = run(&world, "app", json!({"sync": {}})).await;
    assert_eq!(phase(&app), "Succeeded", "SE-254: {}", message(&app));
    let made = world.made();
    assert_eq!(made, ["customresourcedefinitions", "widgets", "widgets"], "SE-254");
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let definition = world.get(kind.0, kind.1, "", "widgets.example.com").await;
    let tracked = &definition["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"];
    assert!(tracked.is_null(), "definitions are never tracked");
    let failed = world.server.requests().into_iter().filter(|record| {
        record.client == CONTROLLER && record.resource.contains("widgets") && record.code == 404
    });
    assert_eq!(failed.count(), 0, "SE-254: none came too early");
}

/// SE-194: a hook that runs has its finalizer. SE-258: what a wave waits for and is deleted fails
/// the operation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_waited_for_and_vanishes_is_missing_se_194_se_258() {
    let world = World::start().await;
    world.write("hook/job.json", &job("stuck", &[(HOOK, "PreSync"), HANGS]));
    world.write("hook/one.json", &config_map("one", "1", &[]));
    world.write("wave/web.json", &deployment("web", &[HANGS]));
    world.commit_file("wave/two.json", &config_map("two", "1", &[(WAVE, "1")]));
    for name in ["hook", "wave"] {
        world.create_app(&world.application(name, name)).await;
        world.sync(name, json!({})).await;
        world.until(name, "waiting", |app| message(app).starts_with("waiting for ")).await;
    }
    let hook = world.get("batch/v1", "Job", "web", "stuck").await;
    assert_eq!(hook["metadata"]["finalizers"], json!([FINALIZER]), "SE-194");
    let map = world.get("apps/v1", "Deployment", "web", "web").await;
    assert!(map["metadata"]["finalizers"].is_null(), "SE-194: only hooks");
    let deployments = world.api("apps/v1", "Deployment", "web");
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    let app = world.until("wave", "failed", |app| phase(app) == "Failed").await;
    let text = "Resource apps/Deployment/web is missing, it might have been deleted";
    assert_eq!(result(&app, "web")["message"], text, "SE-258: {app}");
    assert_eq!(result(&app, "web")["status"], "SyncFailed", "SE-258");
    assert_eq!(result(&app, "web")["hookPhase"], "Error", "SE-258");
    assert!(message(&app).contains(text), "SE-258: {}", message(&app));
    assert!(world.get("v1", "ConfigMap", "web", "two").await.is_null(), "SE-258");
    world.terminate("hook").await;
    world.until("hook", "over", |app| phase(app) == "Failed").await;
    assert!(world.get("batch/v1", "Job", "web", "stuck").await.is_null(), "SE-194: it is free");
}

/// The finalizers of a hook; `None` when it is gone.
async fn finalizers_of(world: &World, hook: &str) -> Option<Value> {
    let hook = world.get("batch/v1", "Job", "web", hook).await;
    hook.is_object().then(|| hook["metadata"]["finalizers"].clone())
}

/// Waits until a hook has no finalizer, or is gone.
async fn until_released(world: &World, hook: &str) {
    let released = async || finalizers_of(world, hook).await != Some(json!([FINALIZER]));
    until("the hook loses its finalizer", released).await;
}

/// SE-194: a sync that ends with an error before its next plan does not release its hooks. One that
/// was deleted after it stayed until the next sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_of_a_sync_that_ended_with_an_error_can_be_deleted_se_194() {
    let world = World::start().await;
    world.write("app/job.json", &job("stuck", &[(HOOK, "PreSync"), HANGS]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    world.until("app", "waiting", |app| message(app).starts_with("waiting for ")).await;
    let rule = json!({"kind": "ConfigMap", "jqPathExpressions": [".data |"]});
    world.patch("app", json!({"spec": {"ignoreDifferences": [rule]}})).await;
    world.until("app", "over", |app| phase(app) == "Error").await;
    assert_eq!(finalizers_of(&world, "stuck").await, Some(json!([FINALIZER])), "nothing needs it");
    world.api("batch/v1", "Job", "web").delete("stuck", &DeleteParams::default()).await.unwrap();
    until_released(&world, "stuck").await;
}

/// SE-194, SE-510: an Application without finalizers waits for no operation when it is deleted. Its
/// hook kept the finalizer, so that neither the hook nor its namespace could be deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_of_an_application_that_is_gone_is_released_se_194() {
    let world = World::start().await;
    for name in ["gone", "other"] {
        let hook = job(&format!("hook-of-{name}"), &[(HOOK, "PreSync"), HANGS]);
        world.write(&format!("{name}/job.json"), &hook);
        world.write(&format!("{name}/one.json"), &config_map(name, "1", &[]));
    }
    world.commit();
    for name in ["gone", "other"] {
        world.create_app(&world.application(name, name)).await;
        world.sync(name, json!({})).await;
        world.until(name, "waiting", |app| message(app).starts_with("waiting for ")).await;
    }
    world.delete_app("gone").await;
    until_released(&world, "hook-of-gone").await;
    assert_eq!(finalizers_of(&world, "hook-of-gone").await, Some(Value::Null), "it is left");
    assert_eq!(finalizers_of(&world, "hook-of-other").await, Some(json!([FINALIZER])));
}

/// SE-240, SE-374: an operation goes on when an object changes, with nothing else to wake it, and
/// to its end with the revision that it began with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_keeps_its_revision_from_step_to_step_se_240_se_374() {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::ZERO;
    world.run();
    world.write("app/job.json", &job("slow", &[HANGS]));
    let first = world.commit_file("app/late.json", &config_map("late", "first", &[(WAVE, "1")]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    world.until("app", "waiting", |app| message(app).starts_with("waiting for healthy")).await;
    let second = world.commit_file("app/late.json", &config_map("late", "second", &[(WAVE, "1")]));
    world.refresh("app").await;
    let app = world
        .until("app", "at the second", |app| app["status"]["sync"]["revision"] == *second)
        .await;
    assert_eq!(phase(&app), "Running");
    assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], *first, "SE-374");
    world.rest().await;
    // The only event: the Job completes.
    world.complete_job("slow").await;
    let app = world.until("app", "over", |app| phase(app) == "Succeeded").await;
    assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], *first, "SE-374");
    let live = world.get("v1", "ConfigMap", "web", "late").await;
    assert_eq!(live["data"]["value"], "first", "SE-240, SE-374");
}

/// SE-288: an operation that takes too long is terminated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_ends_after_its_timeout_se_288() {
    let world = World::with(settings(&[("controller.sync.timeout.seconds", "1")])).await;
    world.write("app/job.json", &job("stuck", &[(HOOK, "PreSync"), HANGS]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let retry = json!({"limit": 5, "backoff": {"duration": "1s"}});
    let app = run(&world, "app", json!({"sync": {}, "retry": retry})).await;
    assert_eq!(phase(&app), "Failed");
    let want = "Operation terminated, triggered by controller sync timeout";
    assert_eq!(message(&app), want, "SE-288");
    assert!(world.get("batch/v1", "Job", "web", "stuck").await.is_null(), "SE-285");
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// SE-394: a pause that is no duration ends the operation. SE-193, SE-397: a hook with a generated
/// name has the same one in each attempt, and is created again by its policy; another operation
/// has another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_keeps_the_names_of_hooks_se_193_se_394_se_397() {
    let world = World::start().await;
    world.write("odd/job.json", &job("bad", &[(HOOK, "Sync"), FAILS]));
    world.write("app/pre.json", &nameless(&job("x", &[(HOOK, "PreSync")]), "migrate-"));
    world.write("app/job.json", &job("worse", &[(HOOK, "Sync"), FAILS]));
    let revision = world.commit();
    let odd = json!({"limit": 3, "backoff": {"duration": "soon"}});
    let app = run(&world, "odd", json!({"sync": {}, "retry": odd})).await;
    assert_eq!(phase(&app), "Error", "SE-394: {}", message(&app));
    assert!(message(&app).contains(" (failed to retry: "), "SE-394: {}", message(&app));
    assert!(message(&app).contains("soon"), "SE-394: {}", message(&app));

    world.server.forget_requests();
    let retry = json!({"limit": 1, "backoff": {"duration": "1s"}});
    let app = run(&world, "app", json!({"sync": {}, "retry": retry})).await;
    assert!(message(&app).ends_with(" (retried 1 times)."), "{}", message(&app));
    let names = async || -> Vec<String> {
        let jobs = world.api("batch/v1", "Job", "web").list(&Default::default()).await.unwrap();
        let names = jobs.items.into_iter().filter_map(|job| job.metadata.name);
        names.filter(|name| name.starts_with("migrate-")).collect()
    };
    let first = names().await;
    assert_eq!(first.len(), 1, "SE-397: {first:?}");
    let state = &app["status"]["operationState"];
    let started: jiff::Timestamp = state["startedAt"].as_str().unwrap().parse().unwrap();
    let name = format!("migrate-{}-presync-{}", &revision[..7], started.as_second());
    assert!(first[0].starts_with(&name), "SE-193: {first:?} {name}");
    let jobs = world.made().into_iter().filter(|made| made == "jobs");
    assert_eq!(jobs.count(), 4, "SE-397: both hooks in both attempts");
    // The next second has another name.
    world.patch("app", json!({"operation": {"sync": {}}})).await;
    let again = |app: &Value| {
        app["status"]["operationState"]["startedAt"] != state["startedAt"] && phase(app) == "Failed"
    };
    world.until("app", "over again", again).await;
    assert_eq!(names().await.len(), 2, "SE-193");
}

/// SE-185: when a hook is deleted, by the annotations of Argo CD and of Helm together; what is no
/// policy is none, and without one a hook is deleted before it is created again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policies_of_a_hook_are_united_se_185() {
    const OURS: &str = "argocd.argoproj.io/hook-delete-policy";
    const HELM: &str = "helm.sh/hook-delete-policy";
    let world = World::start().await;
    // Whether it is there after a sync that succeeds, whether the next one creates it again, and
    // whether it is there after one that fails.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool, bool, bool);
    let cases: [Case<'_>; 9] = [
        ("none", &[], true, true, true),
        ("garbage", &[(OURS, "garbage"), (HELM, "HookSucceeded")], true, true, true),
        ("before", &[(OURS, "BeforeHookCreation")], true, true, true),
        ("helm-before", &[(HELM, "before-hook-creation")], true, true, true),
        ("succeeded", &[(OURS, " HookSucceeded , x")], false, true, true),
        ("helm-succeeded", &[(HELM, "hook-succeeded")], false, true, true),
        ("failed", &[(OURS, "HookFailed")], true, false, false),
        ("helm-failed", &[(HELM, "hook-failed")], true, false, false),
        ("united", &[(OURS, "HookFailed"), (HELM, "hook-succeeded")], false, true, false),
    ];
    let mut before = BTreeMap::new();
    for (name, policy, ..) in cases {
        let annotations = [&[(HOOK, "PreSync")][..], policy].concat();
        world.write(&format!("{name}/job.json"), &job(name, &annotations));
        world.write(&format!("{name}/one.json"), &config_map(name, "1", &[]));
    }
    world.commit();
    // Once it is gone, where it has to go.
    let uid = async |name: &str, is_left: bool| {
        until_some(&format!("SE-185 {name}: it is gone"), async || {
            let live = world.get("batch/v1", "Job", "web", name).await;
            let uid = live["metadata"]["uid"].as_str().map(str::to_owned);
            (is_left || live.is_null()).then_some(uid)
        })
        .await
    };
    for (name, _, is_left, ..) in cases {
        let app = run(&world, name, json!({"sync": {}})).await;
        assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
        let live = uid(name, is_left).await;
        assert_eq!(live.is_some(), is_left, "SE-185 {name}");
        before.insert(name, live);
    }
    for (name, _, is_left, is_new, _) in cases {
        let started = world.app(name).await["status"]["operationState"]["startedAt"].clone();
        world.sync(name, json!({})).await;
        let again = |app: &Value| {
            app["status"]["operationState"]["startedAt"] != started && phase(app) == "Succeeded"
        };
        world.until(name, "over again", again).await;
        let live = uid(name, is_left).await;
        assert_eq!(live.is_some(), is_left, "SE-185 {name}");
        assert_eq!(live != before[name] || !is_left, is_new, "SE-185 {name}: created again");
    }
    for (name, ..) in cases {
        world.write(
            &format!("{name}/bad.json"),
            &job(&format!("{name}-bad"), &[FAILS, (HOOK, "PreSync")]),
        );
    }
    world.commit();
    for (name, ..) in cases {
        world.sync(name, json!({})).await;
    }
    for (name, _, _, _, is_left) in cases {
        world.until(name, "failed", |app| phase(app) == "Failed").await;
        assert_eq!(uid(name, is_left).await.is_some(), is_left, "SE-185 {name}: after a failure");
    }
}
