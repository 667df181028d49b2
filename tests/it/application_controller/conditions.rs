//! Warnings and waits are reported in conditions and messages, once.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_settings_are_conditions() {
    let world = World::start().await;
    world.write("app/typo.json", &job("typo", &[("argocd.argoproj.io/hook", "PreSinc")]));
    world.write("app/test.json", &job("test", &[("helm.sh/hook", "test")]));
    world.write("app/old.json", &job("old", &[("argocd.argoproj.io/hook", "PreSync")]));
    let option = [("argocd.argoproj.io/sync-options", "Prune=false,Replcae=true")];
    world.write("app/one.json", &config_map("one", "1", &option));
    let revision = world.commit_file("app/two.json", &config_map("two", "1", &[(WAVE, "abc")]));
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"syncOptions": ["CreateNamespce=true", "PruneLast=false", "Validate=true", "Force=true"]});
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;
    let warnings = |app: &Value| -> Vec<String> {
        let all = app["status"]["conditions"].as_array().into_iter().flatten();
        let of_syncs = all.into_iter().filter(|condition| condition["type"] == "SyncWarning");
        of_syncs.map(|condition| condition["message"].as_str().unwrap().to_owned()).collect()
    };
    let app = world.until_good("app").await;
    let reported = warnings(&app);
    // SE-183, SE-596: the object is ignored; tests of a chart are not reported.
    let typo = reported.iter().find(|warning| warning.contains("batch/Job web/typo is ignored"));
    assert!(typo.is_some_and(|warning| warning.contains("PreSinc")), "{reported:?}");
    // SE-186
    let wave = "ConfigMap web/two: annotation argocd.argoproj.io/sync-wave: \"abc\" has no effect";
    assert!(reported.iter().any(|w| w.starts_with(wave)), "{reported:?}");
    // SE-302
    assert!(
        reported.iter().any(|w| w.contains("syncOptions: unknown sync option CreateNamespce=true"))
    );
    assert!(reported.iter().any(|w| w == "ConfigMap web/one: unknown sync option Replcae=true"));
    // SE-320
    let force =
        "spec.syncPolicy.syncOptions: sync option Force=true has an effect on resources only";
    assert!(reported.iter().any(|w| w.starts_with(force)), "{reported:?}");
    assert_eq!(reported.len(), 5, "{reported:?}");

    // SE-296, SE-595
    world.remove("app/old.json");
    world.commit();
    world.refresh("app").await;
    let app = world.app("app").await;
    let reported = warnings(&app);
    assert!(
        reported.iter().any(|w| w.starts_with("hook batch/Job web/old is no longer")),
        "{reported:?}"
    );
    assert_eq!(reported.len(), 6, "{reported:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_names_the_state_and_the_blocking_resource() {
    let world = World::start().await;
    let never = [HANGS];
    world.write("app/one.json", &deployment("one", &never));
    let after = [("argocd.argoproj.io/sync-wave", "1")];
    let first = world.commit_file("app/two.json", &config_map("two", "2", &after));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": first})).await;
    let message = |app: &Value| {
        app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned()
    };
    // SE-588
    let app = world
        .until("app", "waiting", |app| {
            let message = message(app);
            message.starts_with("waiting for healthy state of apps/Deployment/one (Progressing")
        })
        .await;
    assert!(message(&app).contains(", since 2"), "{}", message(&app));
    world.terminate("app").await;
    world.until("app", "over", settled).await;

    // SE-600
    world.remove("app/one.json");
    let second = world.commit();
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    world.patch_object(("apps/v1", "Deployment"), "web", "one", held).await;
    world.sync("app", json!({"revision": second, "prune": true})).await;
    world
        .until("app", "waiting for a deletion", |app| {
            let message = message(app);
            message.starts_with("waiting for deletion of apps/Deployment/one (held by ")
                && message.contains("example.com/held")
        })
        .await;
}
