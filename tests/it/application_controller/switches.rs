//! Switches where Argo CD has only one behaviour: timeouts of hooks and waves, waiting for
//! health, when hooks are deleted, and the dry run of a server-side apply.

use super::limits::settings;
use super::*;

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
    world.commit_file("wave/two.json", &config_map("two", "1", &[(WAVE, "1")]));
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
    world.commit_file("app/web.json", &deployment("web", &[HANGS]));
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

/// SE-591: with the key every sync waits, unless the annotation says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_annotation_wins_over_the_key_as_se_591() {
    let world = World::with(settings(&[("controller.wait.for.health", "true")])).await;
    for (name, value) in [("key", None), ("on", Some("true")), ("off", Some("false"))] {
        world.commit_file(&format!("{name}/web.json"), &deployment(name, &[HANGS]));
        let mut app = world.application(name, name);
        if let Some(value) = value {
            app["metadata"]["annotations"] = json!({ "wavegate.dev/wait-for-health": value });
        }
        world.create_app(&app).await;
        world.sync(name, json!({})).await;
    }
    world.until("off", "succeeded", |app| phase(app) == "Succeeded").await;
    for name in ["key", "on"] {
        let is_waiting = |app: &Value| message(app).contains("waiting for healthy state of");
        let app = world.until(name, "waits", is_waiting).await;
        assert_eq!(phase(&app), "Running", "{name}");
    }
}

/// The dry run of a server-side apply is sent to the server, unless the key says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dry_run_is_sent_where_the_key_says_so() {
    for (key, is_sent) in [("true", true), ("false", false)] {
        let world = World::with(settings(&[("controller.server.dry.run", key)])).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_app(&world.application("app", "app")).await;
        world.sync("app", json!({"syncOptions": ["ServerSideApply=true"]})).await;
        world.until("app", "synced", |app| phase(app) == "Succeeded").await;
        let requests = world.server.requests();
        let applied = |is_dry: bool| {
            requests.iter().any(|request| {
                request.client == CONTROLLER
                    && request.verb == "apply"
                    && request.resource == "configmaps"
                    && request.dry_run == is_dry
            })
        };
        assert!(applied(false), "{key}: it is applied by the server");
        assert_eq!(applied(true), is_sent, "{key}: {requests:#?}");
    }
}

/// SE-292: by its own result, a hook that succeeded stays when the sync fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_hooks_that_failed_are_deleted_when_the_settings_say_so_as_se_292() {
    let world = World::with(settings(&[("controller.hook.succeeded.scope", "hook")])).await;
    let failed = (POLICY, "HookFailed");
    world.write("app/good.json", &job("good", &[(HOOK, "PreSync"), failed]));
    world.write("app/bad.json", &job("bad", &[(HOOK, "PreSync"), FAILS, failed]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    let app = world.until("app", "failed", |app| phase(app) == "Failed").await;
    let jobs = world.api("batch/v1", "Job", "web");
    assert!(jobs.get_opt("bad").await.unwrap().is_none(), "{app}");
    // By the result of the operation it would be gone.
    assert!(jobs.get_opt("good").await.unwrap().is_some(), "{app}");
}

/// SE-590: by default a hook for failures makes a sync of one wave, with a hook, one of several,
/// which waits for health; with the key it does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_for_failures_counts_as_a_wave_by_default_as_se_590() {
    for (counts, keys) in [
        (true, &[][..]),
        (true, &[("controller.sync.fail.counts.as.wave", "true")]),
        (false, &[("controller.sync.fail.counts.as.wave", "false")]),
    ] {
        let world = World::with(settings(keys)).await;
        world.write("app/hook.json", &config_map("hook", "1", &[(HOOK, "Sync")]));
        world.write("app/web.json", &deployment("web", &[HANGS]));
        world.commit_file("app/alarm.json", &config_map("alarm", "1", &[(HOOK, "SyncFail")]));
        world.create_app(&world.application("app", "app")).await;
        world.sync("app", json!({})).await;
        let decided = |app: &Value| {
            phase(app) == "Succeeded" || message(app).contains("waiting for healthy state of")
        };
        let app = world.until("app", "decided", decided).await;
        let want = if counts { "Running" } else { "Succeeded" };
        assert_eq!(phase(&app), want, "{keys:?}: {}", message(&app));
    }
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
    world.write("app/bad.json", &job("bad", &[(HOOK, "Sync"), FAILS]));
    world.write("gone/one.json", &config_map("one", "1", &[]));
    world.commit_file("gone/bye.json", &job("bye", &[(HOOK, "PostDelete")]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    world.until("app", "failed", |app| phase(app) == "Failed").await;
    let jobs = world.api("batch/v1", "Job", "web");
    // By the result of the operation it would stay.
    assert!(jobs.get_opt("pre").await.unwrap().is_none(), "SE-291");
    assert!(jobs.get_opt("bad").await.unwrap().is_some());

    world.create_with("gone", "gone", json!({"metadata": {"finalizers": [CASCADE]}})).await;
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
