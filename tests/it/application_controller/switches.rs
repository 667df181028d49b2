//! Switches where Argo CD has only one behaviour: timeouts of hooks and waves, waiting for
//! health, when hooks are deleted, and the dry run of a server-side apply.

use super::limits::settings;
use super::*;

const OUTCOME: &str = "simulate.wavegate.dev/outcome";
const POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
const HANGS: (&str, &str) = (OUTCOME, "hang");

/// SE-601, SE-588: a hook and a resource that never complete fail the sync after their time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_completes_fails_after_its_timeout_as_se_601() {
    let world = World::with(settings(&[
        ("controller.hook.timeout.seconds", "1"),
        ("controller.wave.timeout.seconds", "1"),
    ]))
    .await;
    world.write("hook/job.json", &job("stuck", &[(HOOK, "PreSync"), HANGS]));
    world.write("hook/one.json", &config_map("one", "1", &[]));
    world.write("wave/web.json", &deployment("web", &[(WAVE, "0"), HANGS]));
    world.write("wave/two.json", &config_map("two", "1", &[(WAVE, "1")]));
    world.commit();
    for (name, resource) in [("hook", "stuck"), ("wave", "web")] {
        world.create_app(&world.application(name, name)).await;
        world.sync(name, json!({})).await;
        let app = world.until(name, "ended", |app| phase(app) == "Failed").await;
        let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
        let failed = results.unwrap().iter().find(|result| result["name"] == resource).unwrap();
        let text = failed["message"].as_str().unwrap();
        assert!(text.contains("in time"), "{name}: {text}");
    }
    assert!(!world.made().contains(&"configmaps".to_owned()), "nothing of a later wave");
}

/// SE-591: a sync of one wave succeeds before its resources are healthy, unless the annotation
/// or the setting says otherwise; an unreadable annotation is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_waits_for_health_where_it_is_asked_to_as_se_591() {
    let world = World::start().await;
    world.write("app/web.json", &deployment("web", &[HANGS]));
    world.commit();
    let waits = "wavegate.dev/wait-for-health";
    for (name, value) in [("plain", None), ("waits", Some("true")), ("typo", Some("yes"))] {
        let mut app = world.application(name, "app");
        if let Some(value) = value {
            app["metadata"]["annotations"] = json!({ waits: value });
        }
        app["spec"]["destination"]["namespace"] = name.into();
        app["spec"]["syncPolicy"] = json!({"syncOptions": ["CreateNamespace=true"]});
        world.create_app(&app).await;
        world.sync(name, json!({"syncOptions": ["CreateNamespace=true"]})).await;
    }
    world.until("plain", "succeeded", |app| phase(app) == "Succeeded").await;
    let app = world.until("typo", "refused", |app| phase(app) == "Error").await;
    assert!(message(&app).contains(waits) && message(&app).contains("true or false"), "{app}");
    let is_waiting = |app: &Value| message(app).contains("waiting for healthy state of");
    let app = world.until("waits", "waits", is_waiting).await;
    assert_eq!(phase(&app), "Running");
}

/// SE-291, SE-519: hooks are deleted by their own result, and hooks of a deletion that succeeded
/// whatever their policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_are_deleted_when_the_settings_say_so_as_se_291_and_se_519() {
    let world = World::with(settings(&[
        ("controller.hook.succeeded.scope", "hook"),
        ("controller.clean.delete.hooks", "true"),
    ]))
    .await;
    let names = "post-delete-finalizer.argocd.argoproj.io";
    world.write("app/pre.json", &job("pre", &[(HOOK, "PreSync"), (POLICY, "HookSucceeded")]));
    world.write("app/bad.json", &job("bad", &[(HOOK, "Sync"), (OUTCOME, "fail")]));
    world.write("gone/one.json", &config_map("one", "1", &[]));
    world.write("gone/bye.json", &job("bye", &[(HOOK, "PostDelete")]));
    world.commit();
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    world.until("app", "failed", |app| phase(app) == "Failed").await;
    let jobs = world.api("batch/v1", "Job", "web");
    // By the result of the operation it would stay.
    assert!(jobs.get_opt("pre").await.unwrap().is_none(), "SE-291");
    assert!(jobs.get_opt("bad").await.unwrap().is_some());

    let mut app = world.application("gone", "gone");
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    world.create_app(&app).await;
    world.sync("gone", json!({})).await;
    let has = |app: &Value| app["metadata"]["finalizers"].to_string().contains(names);
    world.until("gone", "SE-511", |app| phase(app) == "Succeeded" && has(app)).await;
    let applications = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    applications.delete("gone", &Default::default()).await.unwrap();
    let end = tokio::time::Instant::now() + LIMIT;
    while applications.get_opt("gone").await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < end, "the deletion ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.made().iter().filter(|made| *made == "jobs").count() >= 3, "the hook has run");
    assert!(jobs.get_opt("bye").await.unwrap().is_none(), "SE-519");
}
