//! Operations that end before their first write, and objects that are updated as a whole.

use futures::StreamExt;
use kube::api::WatchEvent;

use super::*;

/// The words of Argo CD are before the reason (SE-373).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_without_its_project_or_cluster_says_so_se_373() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let unknown = |name: &str, field: &str, value: Value| {
        let mut app = world.application(name, "app");
        app["spec"][field] = value;
        app
    };
    let cases = [
        (
            unknown("no-project", "project", json!("gone")),
            "Failed to load application project: Application referencing project gone which \
             does not exist",
        ),
        (
            unknown("no-name", "destination", json!({"name": "nobody", "namespace": "web"})),
            "Failed to get destination cluster: spec.destination.name: ",
        ),
        (
            unknown(
                "no-server",
                "destination",
                json!({"server": "https://nobody.example.com", "namespace": "web"}),
            ),
            "Failed to get destination cluster: spec.destination.server: ",
        ),
        (
            unknown("both", "destination", json!({"server": "https://1", "name": "two"})),
            "application destination can't have both name and server defined",
        ),
    ];
    for (app, words) in cases {
        let name = app["metadata"]["name"].as_str().unwrap().to_owned();
        world.create_app(&app).await;
        world.sync(&name, json!({"revision": revision})).await;
        let app = world.until(&name, "ended", |app| phase(app) == "Error").await;
        assert!(message(&app).starts_with(words), "{name}: {}", message(&app));
        let conditions = app["status"]["conditions"].to_string();
        assert!(!conditions.contains("Failed to"), "only in the operation: {conditions}");
    }
    world.create_app(&world.application("empty", "app")).await;
    world.until("empty", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.patch("empty", json!({"operation": {"info": [{"name": "a", "value": "b"}]}})).await;
    let app = world.until("empty", "ended", |app| phase(app) == "Error").await;
    assert_eq!(message(&app), "Invalid operation request: no operation specified");
}

/// Credentials that are replaced at this moment: the comparison failed (SE-205).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discovery_that_is_not_authenticated_is_repeated_se_205() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    // A kind that was not there before makes the controller ask again.
    let definition = widgets(json!({}));
    let is_discovery = |record: &RequestRecord| {
        record.client == CONTROLLER && record.verb == "get" && record.resource.starts_with("/api")
    };
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    let mut changes = api.watch(&Default::default(), "0").await.unwrap().boxed();
    world.server.inject(InjectedFault::new(Effect::Status(401), is_discovery).times(3));
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}});
    world.commit_file("app/widget.json", &widget.to_string());
    world.refresh("app").await;
    let all_versions = async {
        while let Some(event) = changes.next().await {
            let (WatchEvent::Added(app) | WatchEvent::Modified(app)) = event.unwrap() else {
                continue;
            };
            let status = &app.data["status"];
            assert_ne!(status["sync"]["status"], "Unknown", "{status}");
            let rows = status["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
            if rows.iter().any(|row| row["kind"] == "Widget" && row["status"] == "OutOfSync") {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, all_versions).await.expect("it is compared");
    let refused = world.server.requests().into_iter().filter(|record| record.code == 401);
    assert_eq!(refused.count(), 3, "the fault was met");
}

/// A kind that is served and cannot be read is no resource that can be synced (SE-205).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_cannot_be_read_is_not_installed_se_205() {
    let world = World::start().await;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "metadata": {"name": "one"}, "spec": {},
    });
    let revision = world.commit_file("app/one.json", &review.to_string());
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    let app = world.until("app", "over", |app| matches!(phase(app), "Failed" | "Error")).await;
    let rows = &app["status"]["operationState"]["syncResult"]["resources"];
    let said = rows[0]["message"].as_str().unwrap_or_default();
    let words = "The Kubernetes API could not find authorization.k8s.io/SelfSubjectAccessReview";
    assert!(said.starts_with(words), "{said}: {}", message(&app));
}

/// A definition or a Namespace is updated with the version that was read, and never deleted:
/// everything in it would go, too (SE-350).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_and_namespaces_are_replaced_by_an_update_se_350() {
    let world = World::start().await;
    let option = ("argocd.argoproj.io/sync-options", "Replace=true,Force=true");
    let namespace = |value: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team", "labels": {"value": value}}});
        annotated(object, &[option])
    };
    let definition = |value: &str| {
        let mut object = widgets(json!({}));
        object["metadata"]["labels"] = json!({"value": value});
        annotated(object, &[option])
    };
    let write = |value: &str| {
        world.write("app/namespace.json", &namespace(value));
        world.write("app/definition.json", &definition(value));
        world.write("app/map.json", &config_map("map", value, &[option]));
        world.commit()
    };
    let first = write("1");
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": first})).await;
    let inside: Value = serde_json::from_str(&config_map("inside", "1", &[])).unwrap();
    let mut inside = inside;
    inside["metadata"]["namespace"] = "team".into();
    world.create("v1", "ConfigMap", &inside).await;
    let uid = |object: Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let uids = || async {
        let crds = world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "");
        let definition = crds.get("widgets.example.com").await.unwrap().metadata.uid;
        let namespace = uid(world.get("v1", "Namespace", "", "team").await);
        let map = uid(world.get("v1", "ConfigMap", "web", "map").await);
        (definition.unwrap(), namespace, map)
    };
    let before = uids().await;
    let second = write("2");
    world.server.forget_requests();
    world.sync("app", json!({"revision": second})).await;
    let is_new = |app: &Value| {
        settled(app) && app["status"]["operationState"]["syncResult"]["revision"] == *second
    };
    let app = world.until("app", "replaced", is_new).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let after = uids().await;
    assert_eq!((&before.0, &before.1), (&after.0, &after.1), "neither is deleted");
    assert_ne!(before.2, after.2, "what is forced and neither is deleted and created");
    assert!(!world.get("v1", "ConfigMap", "team", "inside").await.is_null());
    let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let said = |kind: &str| {
        let row = rows.iter().find(|row| row["kind"] == kind).unwrap();
        row["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(said("Namespace"), "Namespace/team updated");
    let want = "CustomResourceDefinition/widgets.example.com updated";
    assert_eq!(said("CustomResourceDefinition"), want);
    let requests = world.server.requests();
    let deleted: Vec<&str> = requests
        .iter()
        .filter(|record| record.client == CONTROLLER && record.verb == "delete")
        .map(|record| record.resource.as_str())
        .collect();
    assert_eq!(deleted, ["configmaps"]);

    // What cannot be updated is an error of the API server, and nothing is deleted either.
    let refuse = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.resource == "namespaces"
            && record.verb == "update"
            && !record.dry_run
    };
    world.server.inject(InjectedFault::new(Effect::Status(422), refuse).times(10));
    let third = write("3");
    world.sync("app", json!({"revision": third})).await;
    let is_over = |app: &Value| {
        settled(app) && app["status"]["operationState"]["syncResult"]["revision"] == *third
    };
    let app = world.until("app", "refused", is_over).await;
    assert_eq!(phase(&app), "Failed", "{}", message(&app));
    assert_eq!(uids().await.1, before.1, "it is not deleted");
}

/// Manifests of the request are applied in place of the source, and comparisons go on with them
/// until the next operation, also after a restart; a dry run changes nothing (SE-046).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_of_the_request_are_applied_se_046() {
    let mut world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "of the source", &[]));
    world.create_app(&world.application("app", "app")).await;
    let manifests = [config_map("one", "of the request", &[]), config_map("two", "1", &[])];
    let app = world.sync_until_settled("app", json!({"manifests": manifests})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["one", "two"]);
    let value = |object: Value| object["data"]["value"].clone();
    assert_eq!(value(world.get("v1", "ConfigMap", "web", "one").await), "of the request");
    world.until_good("app").await;
    world.refresh("app").await;
    world.crash().await;
    world.run();
    world.refresh("app").await;
    let app = world.app("app").await;
    assert!(is(&app, "Synced", "Healthy"), "{}", app["status"]);
    // They are what drifts.
    let change = json!({"data": {"value": "by hand"}});
    world.patch_object(("v1", "ConfigMap"), "web", "two", change).await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    let back = json!({"data": {"value": "1"}});
    world.patch_object(("v1", "ConfigMap"), "web", "two", back).await;
    world.until("app", "the same again", |app| is(app, "Synced", "Healthy")).await;
    // With another source in the spec, they are not what is wanted any more.
    world.write("else/one.json", &config_map("one", "elsewhere", &[]));
    world.commit();
    world.patch("app", json!({"spec": {"source": {"path": "else"}}})).await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    world.patch("app", json!({"spec": {"source": {"path": "app"}}})).await;
    world.until("app", "the same again", |app| is(app, "Synced", "Healthy")).await;

    world.sync("app", json!({"revision": revision})).await;
    let is_back = |app: &Value| {
        settled(app) && app["status"]["operationState"]["syncResult"]["revision"] == *revision
    };
    world.until("app", "over", is_back).await;
    assert_eq!(value(world.get("v1", "ConfigMap", "web", "one").await), "of the source");
    world.until("app", "with what is too much", |app| is(app, "OutOfSync", "Healthy")).await;
    let sync = json!({"manifests": manifests, "dryRun": true});
    let app = world.sync_until_settled("app", sync).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    world.refresh("app").await;
    let app = world.app("app").await;
    assert!(is(&app, "OutOfSync", "Healthy"), "{}", app["status"]);
}

/// A request to terminate that comes in while the controller writes is not overwritten (SE-287).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_termination_during_a_write_is_kept_se_287() {
    let world = World::start().await;
    world.write("app/hook.json", &job("hook", &[(HOOK, "PreSync"), HANGS]));
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    let mut changes = api.watch(&Default::default(), "0").await.unwrap().boxed();
    let slow = requests("patch", "applications");
    // Each write takes long enough for another client to be faster.
    world
        .server
        .inject(InjectedFault::new(Effect::Latency(Duration::from_millis(300)), slow).times(50));
    world.sync("app", json!({"revision": revision})).await;
    world.until("app", "running", |app| phase(app) == "Running").await;
    world.terminate("app").await;
    let phases = async {
        let mut seen: Vec<String> = Vec::new();
        while let Some(event) = changes.next().await {
            let (WatchEvent::Added(app) | WatchEvent::Modified(app)) = event.unwrap() else {
                continue;
            };
            let phase = phase(&app.data).to_owned();
            if seen.last() != Some(&phase) {
                seen.push(phase.clone());
            }
            if phase == "Failed" {
                return seen;
            }
        }
        seen
    };
    let seen = tokio::time::timeout(LIMIT, phases).await.expect("it ends");
    assert_eq!(seen, ["", "Running", "Terminating", "Failed"]);
    let app = world.until("app", "over", settled).await;
    assert!(message(&app).contains("terminated"), "{}", message(&app));
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// The finalizer of a hook that somebody else changes meanwhile is removed all the same (SE-295).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_does_not_leave_the_finalizer_of_a_hook_se_295() {
    let world = World::start().await;
    world.write("app/hook.json", &job("hook", &[(HOOK, "PreSync")]));
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    let removes = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.resource == "jobs"
            && matches!(record.verb.as_str(), "patch" | "update")
            && !record.dry_run
    };
    world.server.inject(InjectedFault::new(Effect::Status(409), removes).times(2));
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let conflicts = world.server.requests().into_iter().filter(|record| record.code == 409);
    assert!(conflicts.count() > 0, "the fault was met");
    let hook = world.get("batch/v1", "Job", "web", "hook").await;
    assert!(hook.is_object() && hook["metadata"]["finalizers"].is_null(), "{hook}");
}

/// A request without options has none, unless the controller has another setting (SE-304, SE-598).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_the_spec_are_inherited_where_it_is_configured_se_304() {
    for inherits in [false, true] {
        let mut world = World::start().await;
        world.crash().await;
        world.settings.inherit_sync_options = inherits;
        world.run();
        let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
        let mut app = world.application("app", "app");
        app["spec"]["destination"]["namespace"] = "fresh".into();
        app["spec"]["syncPolicy"] = json!({"syncOptions": ["CreateNamespace=true"]});
        world.create_app(&app).await;
        world.sync("app", json!({"revision": revision})).await;
        let ended = |app: &Value| matches!(phase(app), "Succeeded" | "Failed" | "Error");
        let app = world.until("app", "over", ended).await;
        assert_eq!(phase(&app) == "Succeeded", inherits, "{}", message(&app));
        let made = !world.get("v1", "Namespace", "", "fresh").await.is_null();
        assert_eq!(made, inherits);
        world.crash().await;
    }
}

/// An object that is skipped is none that an automated sync would leave (SE-427, SE-607).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_object_does_not_permit_to_prune_all_others_se_607() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/skip.json", &config_map("skip", "1", &[(HOOK, "Skip")]));
    let more = json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}});
    world.create_good_with("app", "app", more).await;
    world.remove("app/one.json");
    let revision = world.commit();
    world.refresh("app").await;
    let text =
        format!("Skipping sync attempt to [{revision}]: auto-sync will wipe out all resources");
    world.until("app", "refused", |app| condition(app, "SyncError", &text)).await;
    world.rest().await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_object());
}
