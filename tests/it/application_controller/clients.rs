//! What clients of Argo CD read from an Application.

use super::*;

const DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";

fn rows(app: &Value) -> Vec<Value> {
    app["status"]["resources"].as_array().cloned().unwrap_or_default()
}

fn results(app: &Value) -> Vec<Value> {
    let result = &app["status"]["operationState"]["syncResult"]["resources"];
    result.as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_is_not_in_the_cluster_is_missing_se_058() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let revision = world.commit_file("app/skip.json", &config_map("skip", "1", &[(HOOK, "Skip")]));
    world.create_app(&world.application("app", "app")).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let row = |app: &Value, name: &str| rows(app).into_iter().find(|row| row["name"] == name);
    assert_eq!(row(&app, "one").unwrap()["health"]["status"], "Missing");
    let skipped = row(&app, "skip");
    assert!(skipped.is_none_or(|row| row["health"].is_null()), "SE-141");
    let app = world.sync_until_good("app", json!({"revision": revision})).await;
    assert!(row(&app, "one").unwrap()["health"].is_null(), "a ConfigMap has no health");
}

/// Whatever the reason is that it was not applied: a selection, a hook that failed before it, or
/// a wave that was not reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sync_did_not_reach_is_missing_k_02() {
    let world = World::start().await;
    for path in ["selected", "hooked", "waved"] {
        world.write(&format!("{path}/first.json"), &config_map(&format!("first-{path}"), "1", &[]));
        let last = config_map(&format!("last-{path}"), "1", &[(WAVE, "5")]);
        world.write(&format!("{path}/last.json"), &last);
    }
    world.write("hooked/hook.json", &job("hook", &[(HOOK, "PreSync"), FAILS]));
    let revision = world.commit_file("waved/job.json", &job("job", &[(WAVE, "1"), FAILS]));
    let one = json!([{"kind": "ConfigMap", "name": "first-selected"}]);
    for (name, sync, first) in [
        ("selected", json!({"revision": revision, "resources": one}), Value::Null),
        ("hooked", json!({"revision": revision}), json!("Missing")),
        ("waved", json!({"revision": revision}), Value::Null),
    ] {
        world.create_app(&world.application(name, name)).await;
        let app = world.sync_until_settled(name, sync).await;
        let health = |of: &str| {
            let found = rows(&app).into_iter().find(|row| row["name"] == *format!("{of}-{name}"));
            found.unwrap_or_else(|| panic!("{app}"))["health"]["status"].clone()
        };
        assert_eq!((health("first"), health("last")), (first, json!("Missing")), "{name}: {app}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_cannot_be_rendered_leaves_the_health_k_03() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &deployment("one", &[]));
    let text = "app path does not exist";
    world.create_app(&world.application("new", "nowhere")).await;
    let failed = |app: &Value| condition(app, "ComparisonError", text);
    world.until("new", "compared", |app| failed(app) && is(app, "Unknown", "Healthy")).await;

    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    world.patch("app", json!({"spec": {"source": {"path": "nowhere"}}})).await;
    world.until("app", "compared", |app| failed(app) && is(app, "Unknown", "Healthy")).await;
}

/// Argo CD's clients name the commit that the target revision means in each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_with_refresh_takes_the_commit_that_mends_it_k_04() {
    let (world, good) = World::with_app().await;
    world.sync_until_good("app", json!({"revision": good})).await;
    world.write(
        "app/none.json",
        r#"{"apiVersion":"no.kind/v1","kind":"No","metadata":{"name":"n"}}"#,
    );
    let bad = world.commit();
    let backoff = json!({"duration": "1s", "factor": 1, "maxDuration": "1s"});
    let retry = json!({"limit": -1, "refresh": true, "backoff": backoff});
    let operation = json!({
        "sync": {"revision": bad}, "retry": retry, "initiatedBy": {"username": "admin"},
    });
    world.patch("app", json!({"operation": operation})).await;
    let tried = |app: &Value| {
        app["status"]["operationState"]["retryCount"].as_i64() >= Some(1) && phase(app) == "Running"
    };
    world.until("app", "tried again", tried).await;
    world.remove("app/none.json");
    let mended = world.commit_file("app/one.json", &config_map("one", "2", &[]));
    let app = world.until("app", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
    assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], *mended);
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tracked_namespace_with_managed_metadata_is_synced_se_144() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let id = "argocd.argoproj.io/tracking-id";
    let tracked = json!({"metadata": {"annotations": {id: "app:/Namespace:web/web"}}});
    world.patch_object(("v1", "Namespace"), "", "web", tracked).await;
    let option = json!(["CreateNamespace=true"]);
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({
        "managedNamespaceMetadata": {"labels": {"team": "a"}}, "syncOptions": option,
    });
    world.create_app(&app).await;
    let row = |app: &Value| rows(app).into_iter().find(|row| row["kind"] == "Namespace");
    let differs = |app: &Value| row(app).is_some_and(|row| row["status"] == "OutOfSync");
    world.until("app", "without its metadata", differs).await;
    let app =
        world.sync_until_good("app", json!({"revision": revision, "syncOptions": option})).await;
    let row = row(&app).unwrap();
    assert!(row["requiresPruning"].is_null() && row["status"] == "Synced", "{row}");
}

/// The definitions of Argo CD do not know `operationState.progress`, so the server drops it.
async fn drop_progress(world: &World) {
    let definitions: Api<crds::CustomResourceDefinition> = Api::all(world.client.clone());
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties\
                /operationState/properties/progress";
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "remove", "path": path}])).unwrap();
    let patch = Patch::Json::<()>(patch);
    let name = "applications.argoproj.io";
    definitions.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_delay_between_waves_holds_also_under_other_definitions_se_265() {
    let mut world = World::start().await;
    drop_progress(&world).await;
    world.crash().await;
    world.settings.wave_delay = Duration::from_secs(4);
    world.run();
    // Its changes trigger reconciles during the delay.
    world.write("app/one.json", &deployment("one", &[(WAVE, "0")]));
    let revision = world.commit_file("app/two.json", &config_map("two", "1", &[(WAVE, "1")]));
    world.create_app(&world.application("app", "app")).await;
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    let made_at = |object: Value| -> jiff::Timestamp {
        object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
    };
    let one = made_at(world.get("apps/v1", "Deployment", "web", "one").await);
    let two = made_at(world.get("v1", "ConfigMap", "web", "two").await);
    assert!(two.duration_since(one).as_secs() >= 3, "{one} {two}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_namespace_is_a_result_also_under_other_definitions_k_12() {
    let world = World::start().await;
    drop_progress(&world).await;
    world.write("good/one.json", &config_map("one", "1", &[]));
    world.write("bad/one.json", &job("hook", &[(HOOK, "PreSync"), FAILS]));
    let revision = world.commit();
    for (name, ends) in [("good", "Succeeded"), ("bad", "Failed")] {
        let more = json!({"spec": {"destination": {"namespace": format!("fresh-{name}")}}});
        world.create_with(name, name, more).await;
        let options = json!(["CreateNamespace=true"]);
        world.sync(name, json!({"revision": revision, "syncOptions": options})).await;
        let app = world.until(name, "over", settled).await;
        assert_eq!(phase(&app), ends, "{app}");
        let results = results(&app);
        assert_eq!(results.len(), 2, "{name}: {results:?}");
        let found = results.iter().find(|result| result["kind"] == "Namespace").unwrap();
        assert_eq!(found["message"], *format!("namespace/fresh-{name} created"));
        assert_eq!((&found["syncPhase"], &found["status"]), (&"PreSync".into(), &"Synced".into()));
        // Nothing looks at it again (K-23).
        assert_eq!(found["hookPhase"], "Running", "{name}: {found}");
    }
}

/// The row of a created Namespace stays Running however the operation ends, and with a retry; that
/// of one with managed metadata does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_created_namespace_stays_running_whatever_fails_k_23() {
    let world = World::start().await;
    let invalid = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": "none"}}"#;
    world.write("good/one.json", &config_map("one", "1", &[]));
    world.write("refused/one.json", invalid);
    world.write("degraded/one.json", &job("last", &[(WAVE, "1"), FAILS]));
    world.write("degraded/two.json", &job("hook", &[(HOOK, "PostSync")]));
    let revision = world.commit();
    let managed = json!({"labels": {"team": "a"}});
    let cases = [
        ("good", None, "Succeeded", "Running"),
        ("refused", None, "Failed", "Running"),
        ("degraded", None, "Failed", "Running"),
        ("good", Some(managed), "Succeeded", "Succeeded"),
    ];
    for (index, (path, metadata, ends, state)) in cases.into_iter().enumerate() {
        let (name, namespace) = (format!("app-{index}"), format!("fresh-{index}"));
        let more = json!({"spec": {
            "destination": {"namespace": namespace},
            "syncPolicy": {"managedNamespaceMetadata": metadata},
        }});
        world.create_with(&name, path, more).await;
        let options = json!(["CreateNamespace=true"]);
        world.sync(&name, json!({"revision": revision, "syncOptions": options})).await;
        let app = world.until(&name, "over", settled).await;
        assert_eq!(phase(&app), ends, "{path}: {app}");
        let results = results(&app);
        let found = results.iter().find(|result| result["kind"] == "Namespace").unwrap();
        assert_eq!(
            (&found["hookPhase"], &found["status"]),
            (&state.into(), &"Synced".into()),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_termination_leaves_hooks_that_had_completed_k_13() {
    let world = World::start().await;
    let policy = (DELETE_POLICY, "HookFailed");
    world.write("app/a.json", &job("done", &[(HOOK, "PreSync"), policy]));
    world.write("app/b.json", &job("running", &[(HOOK, "PreSync"), policy, HANGS]));
    let revision = world.commit();
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    let is_half_done = |app: &Value| {
        let of = |name: &str, phase: &str| {
            results(app).iter().any(|one| one["name"] == name && one["hookPhase"] == phase)
        };
        of("done", "Succeeded") && of("running", "Running")
    };
    world.until("app", "half done", is_half_done).await;
    world.terminate("app").await;
    let app = world.until("app", "over", settled).await;
    assert_eq!(phase(&app), "Failed", "{app}");
    assert!(world.get("batch/v1", "Job", "web", "running").await.is_null());
    let done = world.get("batch/v1", "Job", "web", "done").await;
    assert!(done.is_object(), "a completed hook stays, whatever its policy");
    assert!(done["metadata"]["finalizers"].is_null(), "{done}");
}

/// Argo CD's API server creates an Application with an empty status: a first comparison that fails
/// writes what it is (SE-055).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_comparison_that_fails_is_unknown_k_15() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "missing");
    app["status"] = json!({
        "health": {}, "summary": {}, "sync": {"status": "", "comparedTo": {"source": {"repoURL": ""}}},
    });
    world.create_app(&app).await;
    let failed = |app: &Value| condition(app, "ComparisonError", "app path does not exist");
    let app = world.until("app", "compared", failed).await;
    assert_eq!(app["status"]["sync"]["status"], "Unknown", "{}", app["status"]);
    assert_eq!(app["status"]["health"]["status"], "Healthy", "{}", app["status"]);
    assert!(app["status"]["health"]["lastTransitionTime"].is_string(), "{}", app["status"]);
    let version = app["metadata"]["resourceVersion"].clone();
    world.rest().await;
    assert_eq!(world.app("app").await["metadata"]["resourceVersion"], version, "written once");
}

/// A namespace that was in the source once has the metadata of the spec also without
/// `CreateNamespace` (SE-144).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tracked_namespace_has_its_metadata_without_create_namespace_k_18() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    let revision = world.commit_file("app/web.json", &namespace.to_string());
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;

    world.remove("app/web.json");
    let revision = world.commit();
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let policy = json!({"spec": {"syncPolicy": {"managedNamespaceMetadata": metadata}}});
    world.patch("app", policy).await;
    world.refresh("app").await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    world.sync_until_good("app", json!({"revision": revision, "prune": true})).await;
    let live = world.get("v1", "Namespace", "", "web").await;
    assert_eq!(live["metadata"]["labels"]["team"], "a", "{live}");
    assert_eq!(live["metadata"]["annotations"]["note"], "b", "{live}");

    // One that the Application does not track is not its business.
    let elsewhere = json!({"spec": {"destination": {"namespace": "other"}}});
    world.create("v1", "Namespace", &json!({"metadata": {"name": "other"}})).await;
    let mut app = world.application("other", "app");
    json_patch::merge(&mut app, &elsewhere);
    app["spec"]["syncPolicy"] = json!({"managedNamespaceMetadata": {"labels": {"team": "x"}}});
    world.create_app(&app).await;
    let app = world.sync_to_end("other", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    let live = world.get("v1", "Namespace", "", "other").await;
    assert!(live["metadata"]["labels"]["team"].is_null(), "{live}");
}
