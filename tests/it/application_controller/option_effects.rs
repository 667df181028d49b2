//! What each sync option changes (SE-019, SE-172, SE-211, SE-310 to SE-333, SE-583, SE-599).

use futures::StreamExt;
use http::{Method, Request};
use kube::api::WatchEvent;
use kube::client::Body;

use super::gates::Gate;
use super::*;

const OPTIONS: &str = "argocd.argoproj.io/sync-options";
const APPROVED: &str = "argocd.argoproj.io/deletion-approved";

/// Of the folder with its name, not synced.
async fn create(world: &World, name: &str) {
    world.create_app(&world.application(name, name)).await;
}

/// SE-310: fields that no schema knows are refused, unless validation is switched off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_fields_are_refused_unless_validation_is_off_se_310() {
    let world = World::start().await;
    let typo = |name: &str, options: &[(&str, &str)]| {
        deployment(name, options).replace("\"replicas\":1", "\"replicass\":1")
    };
    for name in ["strict", "asked", "by-app"] {
        world.write(&format!("{name}/web.json"), &typo(name, &[]));
    }
    world.commit_file("by-object/web.json", &typo("by-object", &[(OPTIONS, "Validate=false")]));
    for (name, options, runs) in [
        ("strict", json!([]), false),
        ("asked", json!(["Validate=true"]), false),
        ("by-app", json!(["Validate=false"]), true),
        ("by-object", json!([]), true),
    ] {
        create(&world, name).await;
        let app = world.sync_to_end(name, json!({"syncOptions": options})).await;
        assert_eq!(phase(&app) == "Succeeded", runs, "SE-310 {name}: {}", message(&app));
        if !runs {
            assert!(app.to_string().contains("replicass"), "SE-310: it is named: {app}");
        }
        let made = world.get("apps/v1", "Deployment", "web", name).await;
        assert_eq!(made.is_object(), runs, "SE-310 {name}");
    }
}

/// SE-321: a resource decides for itself. SE-322: what kubectl applied is moved to our manager,
/// unless it is switched off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_is_chosen_per_resource_and_takes_over_se_321_se_322() {
    let world = World::start().await;
    world.write("app/plain.json", &config_map("plain", "1", &[]));
    let no = [(OPTIONS, "ServerSideApply=false")];
    world.write("app/no.json", &config_map("no", "1", &no));
    world.write("own/own.json", &config_map("own", "1", &[(OPTIONS, "ServerSideApply=true")]));
    for name in ["moved", "left"] {
        world.write(&format!("{name}/map.json"), &config_map(name, "1", &[]));
        let mut live: Value = serde_json::from_str(&config_map(name, "0", &[])).unwrap();
        live["metadata"]["namespace"] = "web".into();
        live["data"]["old"] = "1".into();
        let by = PostParams {
            field_manager: Some("kubectl-client-side-apply".into()),
            ..Default::default()
        };
        let live: DynamicObject = serde_json::from_value(live).unwrap();
        world.api("v1", "ConfigMap", "web").create(&by, &live).await.unwrap();
    }
    world.commit();
    let server = "ServerSideApply=true";
    for (name, options) in [
        ("app", json!([server])),
        ("own", json!([])),
        ("moved", json!([server])),
        ("left", json!([server, "ClientSideApplyMigration=false"])),
    ] {
        create(&world, name).await;
        let app = world.sync_to_end(name, json!({"syncOptions": options})).await;
        assert_eq!(phase(&app), "Succeeded", "{name}: {}", message(&app));
        for (map, words) in [
            ("plain", "configmap/plain serverside-applied"),
            ("no", "configmap/no created"),
            ("own", "configmap/own serverside-applied"),
        ] {
            let said = &result(&app, map)["message"];
            assert!(said.is_null() || said == words, "SE-321 {map}: {said}");
        }
        assert!(!result(&app, if name == "app" { "plain" } else { name }).is_null());
    }
    for (name, is_left) in [("moved", false), ("left", true)] {
        let live = world.get("v1", "ConfigMap", "web", name).await;
        assert_eq!(live["data"]["value"], "1");
        // What our manager owns and no longer applies goes.
        assert_eq!(live["data"]["old"].is_string(), is_left, "SE-322 {name}: {live}");
        let managers = live["metadata"]["managedFields"].to_string();
        assert_eq!(managers.contains("kubectl-client-side-apply"), is_left, "SE-322 {name}");
    }
}

/// The finalizers of an object once it is being deleted.
pub(super) async fn finalizers_of_deletion(
    changes: &mut (impl futures::Stream<Item = Result<WatchEvent<DynamicObject>, kube::Error>> + Unpin),
    name: &str,
) -> Vec<String> {
    let going = async {
        while let Some(event) = changes.next().await {
            if let WatchEvent::Modified(map) = event.unwrap()
                && map.metadata.name.as_deref() == Some(name)
                && map.metadata.deletion_timestamp.is_some()
            {
                return map.metadata.finalizers.unwrap_or_default();
            }
        }
        Vec::new()
    };
    tokio::time::timeout(LIMIT, going).await.expect("it is deleted")
}

/// SE-317: how dependents of what is pruned are deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_propagation_of_a_prune_is_an_option_se_317() {
    let world = World::start().await;
    let policy = |name: &str| format!("PrunePropagationPolicy={name}");
    let cases = [
        ("default", vec![], "foregroundDeletion"),
        ("foreground", vec![policy("foreground")], "foregroundDeletion"),
        ("background", vec![policy("background")], ""),
        ("orphan", vec![policy("orphan")], "orphan"),
        ("several", vec![policy("foreground"), policy("background")], ""),
    ];
    for (name, ..) in &cases {
        let mut held: Value = serde_json::from_str(&config_map(name, "1", &[])).unwrap();
        // Shows how it is deleted.
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        world.write(&format!("{name}/map.json"), &held.to_string());
    }
    world.commit();
    for (name, ..) in &cases {
        create(&world, name).await;
        let app = world.sync_to_end(name, json!({})).await;
        assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
        world.remove(&format!("{name}/map.json"));
        world.write(&format!("{name}/none.txt"), "");
    }
    world.commit();
    let maps = world.api("v1", "ConfigMap", "web");
    for (name, options, want) in cases {
        let live = maps.get(name).await.unwrap().metadata.resource_version.unwrap();
        let mut changes = maps.watch(&Default::default(), &live).await.unwrap().boxed();
        world.sync(name, json!({"prune": true, "syncOptions": options})).await;
        let mut found = finalizers_of_deletion(&mut changes, name).await;
        found.retain(|one| one != "example.com/hold");
        let want: Vec<&str> = Some(want).into_iter().filter(|want| !want.is_empty()).collect();
        assert_eq!(found, want, "SE-317 {name}");
        world.patch_map(name, json!({"metadata": {"finalizers": null}})).await;
    }
}

/// SE-019: of several values the first counts, and only as it is spelt. SE-313: a prune waits for
/// its approval, which must be newer than the operation. SE-583: the rest of its wave does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_waits_for_its_approval_se_019_se_313_se_583() {
    let world = World::start().await;
    world.write("app/old.json", &config_map("old", "1", &[]));
    world.write("app/own.json", &config_map("own", "1", &[(OPTIONS, "Prune=confirm")]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    create(&world, "app").await;
    world.sync_to_end("app", json!({})).await;
    world.remove("app/old.json");
    world.remove("app/own.json");
    world.write("app/new.json", &config_map("new", "1", &[]));
    world.commit_file("app/late.json", &config_map("late", "1", &[(WAVE, "1")]));
    let exists = async |name: &str| world.get("v1", "ConfigMap", "web", name).await.is_object();
    let options = json!(["prune=false", "Prune=confirm", "Prune=false"]);
    world.sync("app", json!({"prune": true, "syncOptions": options})).await;
    let text = "waiting for pruning confirmation of /ConfigMap/o";
    let waits = |app: &Value| message(app).starts_with(text);
    let app = world.until("app", "waiting for approval", waits).await;
    assert!(message(&app).contains(" and 1 more resources"), "SE-019: {}", message(&app));
    assert!(exists("new").await, "SE-583: the rest of the wave is applied");
    assert!(exists("old").await && exists("own").await && !exists("late").await, "SE-313");
    let approve =
        |time: jiff::Timestamp| json!({"metadata": {"annotations": {APPROVED: time.to_string()}}});
    let minute = jiff::SignedDuration::from_secs(60);
    world.patch("app", approve(jiff::Timestamp::now() - minute)).await;
    world.rest().await;
    assert!(exists("old").await, "SE-313: that was before the operation");
    world.patch("app", approve(jiff::Timestamp::now() + minute)).await;
    let app = world.until("app", "over", |app| phase(app) == "Succeeded").await;
    assert!(!exists("old").await && !exists("own").await && exists("late").await, "SE-313: {app}");
}

/// SE-211: with PruneLast all prunes come after all waves, whatever their own ones are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prunes_come_last_where_it_is_asked_for_se_211() {
    for last in [true, false] {
        let world = World::start().await;
        for (name, wave) in [("a", "-5"), ("b", "7")] {
            world.write(&format!("app/{name}.json"), &config_map(name, "1", &[(WAVE, wave)]));
        }
        world.commit();
        create(&world, "app").await;
        world.sync_to_end("app", json!({})).await;
        for name in ["a", "b"] {
            world.remove(&format!("app/{name}.json"));
        }
        for wave in ["-9", "0", "3"] {
            let name = format!("new{wave}");
            world.write(&format!("app/{name}.json"), &config_map(&name, "1", &[(WAVE, wave)]));
        }
        world.commit();
        world.server.forget_requests();
        let options = if last { json!(["PruneLast=true"]) } else { json!([]) };
        let app = world.sync_to_end("app", json!({"prune": true, "syncOptions": options})).await;
        assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
        let writes = world.server.requests().into_iter().filter(|request| {
            request.client == CONTROLLER && request.resource == "configmaps" && !request.dry_run
        });
        let verbs = writes.filter(|request| matches!(request.verb.as_str(), "create" | "delete"));
        let verbs: Vec<String> = verbs.map(|request| request.verb).collect();
        let first = verbs.iter().position(|verb| verb == "delete");
        assert_eq!(first == Some(3), last, "SE-211: {verbs:?}");
        assert_eq!(verbs.len(), 5, "{verbs:?}");
    }
}

/// SE-599: what is created again under the name of what is pruned is another object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_was_created_again_is_not_deleted_se_599() {
    let mut world = World::start().await;
    world.write("app/old.json", &config_map("old", "1", &[]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    create(&world, "app").await;
    world.sync_to_end("app", json!({})).await;
    world.remove("app/old.json");
    world.commit();
    let deletes = |request: &Request<Body>| request.method() == Method::DELETE;
    let gate = Gate::start(&mut world, deletes).await;
    gate.shut();
    world.sync("app", json!({"prune": true})).await;
    gate.until_held().await;
    // Somebody is faster.
    let maps = world.api("v1", "ConfigMap", "web");
    world.delete_map("old").await;
    let mut again: Value = serde_json::from_str(&config_map("old", "of a person", &[])).unwrap();
    again["metadata"]["namespace"] = "web".into();
    world.create("v1", "ConfigMap", &again).await;
    let made = maps.get("old").await.unwrap().metadata.uid;
    gate.open();
    world.until("app", "over", |app| matches!(phase(app), "Succeeded" | "Failed")).await;
    world.rest().await;
    let left = maps.get_opt("old").await.unwrap().and_then(|map| map.metadata.uid);
    assert_eq!(left, made, "SE-599");
}

/// SE-172: what a pointer names, escaped or by its index, is no difference, and one to nothing is
/// no error. SE-332, SE-333: where ignored fields are respected, a sync leaves them, finds elements
/// of lists by their keys, and never copies a status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_fields_are_found_by_pointer_and_by_key_se_172_se_332_se_333() {
    let world = World::start().await;
    let map = |a: &str, c: &str, e: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "map", "labels": {"example.com/a": a}}, "data": {"c": c, "e": e}})
    };
    let budget = |labels: Value| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    };
    let named = |name: &str, images: &[(&str, &str)]| {
        let mut object: Value = serde_json::from_str(&deployment(name, &[])).unwrap();
        let containers: Vec<Value> =
            images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        object["spec"]["template"]["spec"]["containers"] = containers.into();
        object["metadata"]["namespace"] = "web".into();
        object
    };
    let web = |images: &[(&str, &str)]| named("web", images);
    let pair = |images: &[(&str, &str)]| named("pair", images);
    world.write("app/pair.json", &pair(&[("x", "x:1"), ("y", "y:1")]).to_string());
    world.write("app/map.json", &map("1", "1", "1").to_string());
    world.write("app/budget.json", &budget(json!({"a": "1", "b": "2"})).to_string());
    world.commit_file("app/web.json", &web(&[("a", "a:1"), ("b", "b:1")]).to_string());
    world
        .create("policy/v1", "PodDisruptionBudget", &budget(json!({"a": "9", "b": "3", "c": "4"})))
        .await;
    world.create("apps/v1", "Deployment", &web(&[("b", "b:2"), ("a", "a:2")])).await;
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] = json!([
        {"kind": "ConfigMap", "jsonPointers": [
            "/metadata/labels/example.com~1a", "/data/c", "/data/none", "/spec/0/none"]},
        {"group": "policy", "kind": "PodDisruptionBudget",
            "jsonPointers": ["/spec/selector/matchLabels/a"]},
        {"group": "apps", "kind": "Deployment", "jqPathExpressions": [
            ".spec.template.spec.containers[] | select(.name == \"b\") | .image"]},
        {"group": "apps", "kind": "Deployment", "name": "pair",
            "jsonPointers": ["/spec/template/spec/containers/0/image"]},
    ]);
    world.create_app(&app).await;
    let options = json!(["RespectIgnoreDifferences=true"]);
    let app = world.sync_to_end("app", json!({"syncOptions": options})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let app =
        world.until("app", "in sync", |app| app["status"]["sync"]["status"] == "Synced").await;
    assert!(app["status"]["conditions"].is_null(), "SE-172: {app}");
    let live = world.get("policy/v1", "PodDisruptionBudget", "web", "budget").await;
    assert_eq!(live["spec"]["selector"]["matchLabels"], json!({"a": "9", "b": "2"}), "SE-333");
    let live = world.get("apps/v1", "Deployment", "web", "web").await;
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    for (name, image) in [("a", "a:1"), ("b", "b:2")] {
        let found = containers.iter().find(|container| container["name"] == name).unwrap();
        assert_eq!(found["image"], image, "SE-333: {containers:?}");
    }
    assert!(live["status"].is_object(), "it has a status");
    let applied =
        &live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let applied: Value = serde_json::from_str(applied.as_str().unwrap()).unwrap();
    assert_eq!(applied["status"], Value::Null, "SE-332");

    let maps = world.api("v1", "ConfigMap", "web");
    let drift = |value: Value| Patch::Merge(value);
    maps.patch("map", &PatchParams::default(), &drift(map("2", "2", "1"))).await.unwrap();
    world.rest().await;
    assert_eq!(world.app("app").await["status"]["sync"]["status"], "Synced", "SE-172");
    maps.patch("map", &PatchParams::default(), &drift(map("2", "2", "2"))).await.unwrap();
    world.until("app", "different", |app| app["status"]["sync"]["status"] == "OutOfSync").await;

    // An element by its index: the first image is ignored, the second one is not.
    let deployments = world.api("apps/v1", "Deployment", "web");
    for (images, is_ignored) in
        [([("x", "x:2"), ("y", "y:1")], true), ([("x", "x:2"), ("y", "y:2")], false)]
    {
        let containers = pair(&images)["spec"]["template"].clone();
        let patch = drift(json!({"spec": {"template": containers}}));
        deployments.patch("pair", &PatchParams::default(), &patch).await.unwrap();
        world.rest().await;
        world.refresh("app").await;
        let app = world.app("app").await;
        let rows = app["status"]["resources"].as_array().unwrap();
        let found = rows.iter().find(|row| row["name"] == "pair").unwrap();
        assert_eq!(found["status"] == "Synced", is_ignored, "SE-172: an index: {found}");
    }
}

/// SE-172: `~0` is a tilde, and what it gives is not unescaped again. SE-332: a sync that respects
/// the rule leaves such a field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tilde_in_a_pointer_is_escaped_se_172_se_332() {
    let world = World::start().await;
    world.define("Widget").await;
    let widget = |tilde: &str, both: &str, slash: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"},
            "spec": {"a~b": tilde, "~1": both, "/": slash}})
    };
    world.commit_file("app/one.json", &widget("1", "1", "1").to_string());
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] = json!([
        {"group": "example.com", "kind": "Widget", "jsonPointers": ["/spec/a~0b", "/spec/~01"]},
    ]);
    world.create_app(&app).await;
    world.sync_until_good("app", json!({})).await;
    let drift = async |object: Value| {
        world.patch_object(("example.com/v1", "Widget"), "web", "one", object).await;
    };
    // Not what a pointer that is unescaped twice would name.
    drift(widget("2", "2", "2")).await;
    world.until("app", "different", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    let options = json!(["RespectIgnoreDifferences=true"]);
    let app = world.sync_to_end("app", json!({"syncOptions": options})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let live = world.get("example.com/v1", "Widget", "web", "one").await;
    assert_eq!(live["spec"], json!({"a~b": "2", "~1": "2", "/": "1"}), "SE-172, SE-332");
    // In sync, although both differ.
    let app = world.until_good("app").await;
    assert!(app["status"]["conditions"].is_null(), "SE-172: {app}");
}

/// SE-361: what is deleted in the foreground is there until it is gone, and the prunes of lower waves
/// wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_wave_waits_for_what_is_being_deleted_se_361() {
    let world = World::start().await;
    let mut late: Value = serde_json::from_str(&config_map("late", "1", &[(WAVE, "1")])).unwrap();
    late["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.write("app/late.json", &late.to_string());
    world.write("app/early.json", &config_map("early", "1", &[(WAVE, "0")]));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    create(&world, "app").await;
    world.sync_to_end("app", json!({})).await;
    world.remove("app/late.json");
    world.remove("app/early.json");
    world.commit();
    world.sync("app", json!({"prune": true})).await;
    let map = async |name: &str| world.get("v1", "ConfigMap", "web", name).await;
    until("it is being deleted", async || {
        !map("late").await["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    world.rest().await;
    assert!(map("early").await["metadata"]["deletionTimestamp"].is_null(), "it waits");
    assert_eq!(phase(&world.app("app").await), "Running");
    world.patch_map("late", json!({"metadata": {"finalizers": null}})).await;
    let app = world.until("app", "over", |app| phase(app) == "Succeeded").await;
    assert!(map("early").await.is_null() && map("late").await.is_null(), "{app}");
}
