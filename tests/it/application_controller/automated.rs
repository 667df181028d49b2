//! When the controller compares and syncs by itself (SE-014, SE-015, SE-028, SE-377, SE-385, SE-421).

use super::*;

fn automated(world: &World, name: &str, policy: Value) -> Value {
    let mut app = world.application(name, name);
    if !policy.is_null() {
        app["spec"]["syncPolicy"] = json!({ "automated": policy });
    }
    app
}

/// SE-014, SE-015: the block switches automated syncs on, unless it says otherwise, and what else
/// it says is kept. SE-421: what only has to be pruned is no reason for a sync that may not prune.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_switches_automated_syncs_on_se_014_se_015_se_421() {
    let world = World::start().await;
    let cases = [
        ("absent", Value::Null, false),
        ("empty", json!({}), true),
        ("on", json!({"enabled": true}), true),
        ("off", json!({"enabled": false, "prune": true, "selfHeal": true}), false),
    ];
    for (name, ..) in &cases {
        world.write(&format!("{name}/one.json"), &config_map(&format!("{name}-one"), "1", &[]));
        world.write(&format!("{name}/two.json"), &config_map(&format!("{name}-two"), "1", &[]));
    }
    world.commit();
    for (name, policy, _) in &cases {
        world.create_app(&automated(&world, name, policy.clone())).await;
    }
    for (name, _, starts) in &cases {
        if *starts {
            world.until_good(name).await;
        } else {
            world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        }
    }
    world.rest().await;
    for (name, _, starts) in &cases {
        let app = world.app(name).await;
        assert_eq!(phase(&app) == "Succeeded", *starts, "SE-014, SE-015 {name}: {app}");
        assert!(*starts || app["operation"].is_null(), "SE-014, SE-015 {name}: {app}");
    }
    let app = world.app("off").await;
    let want = json!({"enabled": false, "prune": true, "selfHeal": true});
    assert_eq!(app["spec"]["syncPolicy"]["automated"], want, "SE-015");
    // Switched on, with what it kept.
    let on = json!({"spec": {"syncPolicy": {"automated": {"enabled": true}}}});
    world.patch("off", on).await;
    let app = world.until_good("off").await;
    assert_eq!(app["status"]["operationState"]["operation"]["sync"]["prune"], true, "SE-015");

    for name in ["empty", "off"] {
        world.remove(&format!("{name}/two.json"));
    }
    world.commit();
    let before = world.app("empty").await["status"]["operationState"]["startedAt"].clone();
    world.refresh("empty").await;
    world.until("empty", "compared", |app| row(app, "empty-two")["requiresPruning"] == true).await;
    world.rest().await;
    let app = world.app("empty").await;
    assert_eq!(app["status"]["operationState"]["startedAt"], before, "SE-421: {app}");
    assert!(is(&app, "OutOfSync", "Healthy") && app["operation"].is_null(), "SE-421: {app}");
    assert!(!condition(&app, "SyncError", ""), "SE-421: it is no error: {app}");
    // One that may prune does.
    world.refresh("off").await;
    world.until("off", "pruned", |app| row(app, "off-two").is_null() && settled(app)).await;
    assert!(world.get("v1", "ConfigMap", "web", "off-two").await.is_null(), "SE-421");
}

/// SE-028, SE-385: the history has the newest entries, numbered on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_has_its_limit_se_028_se_385() {
    let world = World::start().await;
    let cases = [
        ("two", json!(2), vec![2, 3]),
        ("none", json!(0), vec![]),
        ("negative", json!(-1), vec![]),
    ];
    for (name, limit, want) in cases {
        world.commit_file(&format!("{name}/one.json"), &config_map(name, "0", &[]));
        let mut app = world.application(name, name);
        app["spec"]["revisionHistoryLimit"] = limit;
        world.create_app(&app).await;
        let mut revisions = Vec::new();
        for value in 0..4 {
            world.write(&format!("{name}/one.json"), &config_map(name, &value.to_string(), &[]));
            let revision = world.commit();
            world.sync(name, json!({"revision": revision})).await;
            let is_over = |app: &Value| {
                let synced = &app["status"]["operationState"]["syncResult"]["revision"];
                phase(app) == "Succeeded" && *synced == *revision
            };
            world.until(name, "over", is_over).await;
            revisions.push(revision);
        }
        let app = world.app(name).await;
        let history = app["status"]["history"].as_array().cloned().unwrap_or_default();
        let ids: Vec<i64> = history.iter().map(|entry| entry["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, want, "SE-028, SE-385 {name}");
        for entry in &history {
            let id = usize::try_from(entry["id"].as_i64().unwrap()).unwrap();
            assert_eq!(entry["revision"], *revisions[id], "SE-385 {name}");
        }
    }
}

/// SE-377: each of these changes is compared, though nothing is compared by time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_an_application_are_compared_at_once_se_377() {
    let mut world = World::start().await;
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::ZERO;
    world.run();
    for name in ["app", "other"] {
        world.write(&format!("{name}/one.json"), &config_map("one", name, &[]));
    }
    let first = world.commit();
    world.create("v1", "Namespace", &json!({"metadata": {"name": "elsewhere"}})).await;
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({})).await;

    let second = world.commit();
    for how in ["normal", "hard"] {
        let asked = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": how}}});
        world.patch("app", asked).await;
        let answered = |app: &Value| {
            app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
                && app["status"]["sync"]["revision"] == *second
        };
        world.until("app", how, answered).await;
    }
    assert_ne!(first, second);
    let third = world.commit();
    let compared = |path: &'static str, want: Value| {
        move |app: &Value| app["status"]["sync"]["comparedTo"].pointer(path) == Some(&want)
    };
    // Another source reads the newest revision, too.
    world.patch("app", json!({"spec": {"source": {"path": "other"}}})).await;
    let app = world.until("app", "SE-377 source", compared("/source/path", json!("other"))).await;
    assert_eq!(app["status"]["sync"]["revision"], *third, "SE-377 source");
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync", "SE-377 source");
    let rule = json!([{"kind": "ConfigMap", "jsonPointers": ["/data"]}]);
    world.patch("app", json!({"spec": {"ignoreDifferences": rule}})).await;
    world.until("app", "SE-377 rules", |app| is(app, "Synced", "Healthy")).await;
    world.patch("app", json!({"spec": {"destination": {"namespace": "elsewhere"}}})).await;
    let app = world
        .until("app", "SE-377 destination", compared("/destination/namespace", json!("elsewhere")))
        .await;
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync", "SE-377 destination: {app}");
    world.sync("app", json!({"prune": true})).await;
    world.until("app", "synced", |app| is(app, "Synced", "Healthy") && settled(app)).await;
    let labels = json!({"managedNamespaceMetadata": {"labels": {"a": "b"}}, "syncOptions": ["CreateNamespace=true"]});
    world.patch("app", json!({"spec": {"syncPolicy": labels}})).await;
    // SE-147: it is not what was synced last.
    world.until("app", "SE-377 labels", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
}

/// A dry run, or a sync of some resources, does not deploy the commit: the automated sync of it
/// follows. Of what was deployed as a whole none does (SE-422).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_or_a_sync_of_a_resource_is_not_that_of_its_commit_se_422() {
    let world = World::start().await;
    let write = |value: &str| {
        for name in ["one", "two"] {
            world.write(&format!("app/{name}.json"), &config_map(name, value, &[]));
        }
        world.commit()
    };
    write("0");
    let app = world.create_until_good(&super::automated(world.application("app", "app"))).await;
    let synced = |app: &Value| app["status"]["operationState"]["startedAt"].clone();
    let one = json!([{"kind": "ConfigMap", "group": "", "name": "one"}]);
    let mut last = synced(&app);
    for (value, more) in [("1", json!({"dryRun": true})), ("2", json!({"resources": one}))] {
        // Before the controller has seen it.
        world.patch("app", json!({"spec": {"syncPolicy": {"automated": null}}})).await;
        world.rest().await;
        let revision = write(value);
        let mut sync = json!({"revision": revision});
        json_patch::merge(&mut sync, &more);
        let app = world.sync_to_end("app", sync.clone()).await;
        assert_eq!(phase(&app), "Succeeded", "{app}");
        world.refresh("app").await;
        world.patch("app", json!({"spec": {"syncPolicy": {"automated": {}}}})).await;
        let app = world.until_good("app").await;
        for name in ["one", "two"] {
            let live = world.get("v1", "ConfigMap", "web", name).await;
            assert_eq!(live["data"]["value"], value, "{more}: {name}");
        }
        assert_ne!(synced(&app), last, "{more}");

        // It is deployed now: a drift stays without self-heal, also after another such sync.
        world.patch_map("two", json!({"data": {"value": "drift"}})).await;
        world.until("app", "drifted", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
        let app = world.sync_to_end("app", sync).await;
        last = synced(&app);
        world.refresh("app").await;
        world.rest().await;
        let app = world.app("app").await;
        assert_eq!(synced(&app), last, "{more}: {app}");
        assert_eq!(row(&app, "two")["status"], "OutOfSync", "{more}: {app}");
    }
}
