//! What an operation may say, and what its state and the history hold (SE-040 … SE-059).

use super::*;

fn results(app: &Value) -> Vec<&Value> {
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
    results.into_iter().flatten().collect()
}

fn names(app: &Value) -> Vec<&str> {
    results(app).into_iter().filter_map(|result| result["name"].as_str()).collect()
}

fn history(app: &Value) -> usize {
    app["status"]["history"].as_array().map_or(0, Vec::len)
}

async fn value(world: &World, name: &str) -> Value {
    world.get("v1", "ConfigMap", "web", name).await["data"]["value"].clone()
}

/// SE-040, SE-042, SE-043, SE-044, SE-045, SE-049, SE-050, SE-051, SE-053, SE-055, SE-056, SE-057,
/// SE-059, SE-280, SE-281, SE-282, SE-386, SE-491.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_does_what_its_fields_say_se_040_to_se_059() {
    let world = World::start().await;
    let hook = |value: &str| config_map("hook", value, &[(HOOK, "PreSync")]);
    let write = |value: &str| {
        world.write("app/one.json", &config_map("one", value, &[]));
        world.write("app/two.json", &config_map("two", value, &[]));
        world.write("app/hook.json", &hook(value));
        world.commit()
    };
    let first = write("1");
    let second = write("2");
    world.create_app(&world.application("app", "app")).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    assert_eq!(app["status"]["sync"]["comparedTo"]["source"], app["spec"]["source"], "SE-056");
    assert_eq!(app["status"]["sync"]["comparedTo"]["destination"], app["spec"]["destination"]);

    // SE-040, SE-049, SE-051: the revision of the request, and a copy of the request.
    let request = json!({
        "sync": {"revision": first},
        "initiatedBy": {"username": "ann"}, "info": [{"name": "why", "value": "a test"}],
    });
    let app = world.operate("app", request.clone()).await;
    let state = &app["status"]["operationState"];
    assert_eq!((phase(&app), message(&app)), ("Succeeded", "successfully synced (all tasks run)"));
    assert_eq!(state["syncResult"]["revision"], *first, "SE-040");
    for field in ["initiatedBy", "info"] {
        assert_eq!(state["operation"][field], request[field], "SE-049, SE-051");
    }
    assert_eq!(state["operation"]["sync"]["revision"], *first, "SE-051");
    assert!(state["startedAt"].as_str() <= state["finishedAt"].as_str(), "{state}");
    assert_eq!(state["syncResult"]["source"], app["spec"]["source"], "SE-052");
    assert_eq!(names(&app), ["hook", "one", "two"], "SE-053");
    let one = results(&app)[1];
    for (field, want) in [
        ("group", ""),
        ("version", "v1"),
        ("kind", "ConfigMap"),
        ("namespace", "web"),
        ("status", "Synced"),
        ("syncPhase", "Sync"),
        ("message", "configmap/one created"),
    ] {
        assert_eq!(one[field].as_str().unwrap_or_default(), want, "SE-053 {field}: {one}");
    }
    assert_eq!(results(&app)[0]["hookType"], "PreSync", "SE-053");
    let entry = &app["status"]["history"][0];
    assert_eq!((&entry["id"], &entry["revision"]), (&json!(0), &json!(first)), "SE-059");
    assert_eq!(entry["source"], app["spec"]["source"], "SE-059");
    assert_eq!(entry["initiatedBy"], json!({"username": "ann"}), "SE-059");
    assert_eq!(entry["deployStartedAt"], state["startedAt"], "SE-059");
    assert!(entry["deployedAt"].is_string(), "SE-059");
    assert_eq!(value(&world, "one").await, "1");
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(app["status"]["sync"]["revision"], *second, "SE-055, SE-056");
    let since = app["status"]["health"]["lastTransitionTime"].clone();
    assert!(since.is_string(), "SE-057");

    // SE-044, SE-280: some resources, no hooks, no history.
    let only = json!([{"group": "", "kind": "ConfigMap", "name": "one", "namespace": "web"}]);
    let app = world.operate("app", json!({"sync": {"resources": only}})).await;
    assert_eq!((phase(&app), names(&app)), ("Succeeded", vec!["one"]), "SE-280");
    assert_eq!((value(&world, "one").await, value(&world, "two").await), (json!("2"), json!("1")));
    assert_eq!(history(&app), 1, "SE-280");
    let none = json!([{"group": "apps", "kind": "ConfigMap", "name": "two"}]);
    world.operate("app", json!({"sync": {"resources": none}})).await;
    assert_eq!(value(&world, "two").await, "1", "SE-044: of another group");

    // SE-042, SE-282: nothing changes, and no history.
    let app = world.operate("app", json!({"sync": {"dryRun": true}})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    for result in results(&app) {
        let text = result["message"].as_str().unwrap();
        assert!(text.ends_with("(dry run)"), "SE-282: {text}");
        assert_eq!(result["hookPhase"], "Succeeded", "SE-282");
    }
    assert_eq!((value(&world, "two").await, history(&app)), (json!("1"), 1), "SE-282");

    // SE-043, SE-281: no hooks, but history.
    let apply = json!({"sync": {"syncStrategy": {"apply": {}}}});
    let app = world.operate("app", apply).await;
    assert_eq!((phase(&app), names(&app)), ("Succeeded", vec!["one", "two"]), "SE-281");
    assert_eq!((value(&world, "two").await, history(&app)), (json!("2"), 2), "SE-281");
    assert_eq!(app["status"]["history"][1]["id"], 1, "SE-059");
    assert_eq!(value(&world, "hook").await, "1", "SE-281");

    // SE-045, SE-386: back to the source of the history.
    let back = app["status"]["history"][0].clone();
    let sync = json!({"revision": back["revision"], "source": back["source"]});
    let app = world.operate("app", json!({ "sync": sync })).await;
    assert_eq!(phase(&app), "Succeeded", "SE-386: {}", message(&app));
    assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], *first, "SE-045");
    assert_eq!((value(&world, "one").await, history(&app)), (json!("1"), 3), "SE-386");
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(app["status"]["health"]["lastTransitionTime"], since, "SE-057: still Healthy");
}

/// SE-041, SE-252: what is pruned, and what is not. SE-047, SE-300, SE-301, SE-303, SE-316: the
/// options of the request count, those of the resource first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_prunes_as_its_options_say_se_041_se_300_to_se_303_se_316() {
    let world = World::start().await;
    let option = "argocd.argoproj.io/sync-options";
    let gone = [
        ("kept", vec![(option, "Prune=false")]),
        ("asked", vec![(option, "Prune=true")]),
        ("plain", vec![]),
        ("last", vec![(option, " PruneLast=true , PruneLast=true")]),
    ];
    world.write("app/one.json", &config_map("one", "1", &[]));
    for (name, annotations) in &gone {
        world.write(&format!("app/{name}.json"), &config_map(name, "1", annotations));
    }
    world.commit();
    world.create_app(&world.application("app", "app")).await;
    world.operate("app", json!({"sync": {}})).await;
    world.until_good("app").await;
    for (name, _) in &gone {
        world.remove(&format!("app/{name}.json"));
    }
    world.commit_file("app/one.json", &config_map("one", "2", &[(WAVE, "2")]));
    let message_of = |app: &Value, name: &str| {
        let result = results(app).into_iter().find(|result| result["name"] == name);
        result.map(|result| result["message"].as_str().unwrap_or_default().to_owned())
    };
    // SE-041: without permission nothing is pruned, and the operation succeeds all the same.
    let app = world.operate("app", json!({"sync": {}})).await;
    assert_eq!(phase(&app), "Succeeded", "SE-328: {}", message(&app));
    for (name, _) in &gone {
        let want = Some("ignored (requires pruning)".to_owned());
        assert_eq!(message_of(&app, name), want, "SE-252 {name}");
    }
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    let rows = app["status"]["resources"].as_array().unwrap();
    let surplus = rows.iter().filter(|row| row["requiresPruning"] == true).count();
    assert_eq!(surplus, gone.len(), "SE-328");

    // The option of the resource wins; unknown ones and other spellings are none.
    world.server.forget_requests();
    let sync = json!({"prune": true, "syncOptions": ["Prune=false", "prune=true"]});
    let app = world.operate("app", json!({ "sync": sync })).await;
    let ignored = Some("ignored (no prune)".to_owned());
    for name in ["kept", "plain", "last"] {
        assert_eq!(message_of(&app, name), ignored, "SE-301 {name}");
    }
    assert_eq!(message_of(&app, "asked").as_deref(), Some("pruned"), "SE-301, SE-303");
    let app = world.operate("app", json!({"sync": {"prune": true}})).await;
    assert_eq!(message_of(&app, "kept"), ignored, "SE-301");
    assert_eq!(message_of(&app, "plain").as_deref(), Some("pruned"), "SE-300");
    assert_eq!(message_of(&app, "last").as_deref(), Some("pruned"), "SE-316");
    let deleted: Vec<String> = world
        .server
        .requests()
        .into_iter()
        .filter(|request| request.client == CONTROLLER && request.verb == "delete")
        .map(|request| request.name)
        .collect();
    assert_eq!(deleted, ["asked", "plain", "last"], "SE-316: after all others");
    assert!(world.get("v1", "ConfigMap", "web", "kept").await.is_object(), "SE-312");
}

/// SE-048, SE-054, SE-370, SE-376, SE-428: the request of an automated sync, which one is at a
/// time; one that a client writes is started as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_automated_operation_has_what_the_spec_says_se_428() {
    let world = World::start().await;
    let first = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({
        "automated": {"prune": true, "selfHeal": true}, "syncOptions": ["Validate=true"],
        "retry": {"limit": 3, "backoff": {"duration": "7s", "factor": 3, "maxDuration": "1m"}},
    });
    let app = world.create_until_good(&app).await;
    let state = &app["status"]["operationState"];
    let operation = &state["operation"];
    assert_eq!(operation["initiatedBy"], json!({"automated": true}), "SE-428");
    assert_eq!(operation["sync"]["revision"], *first, "SE-428");
    assert_eq!(operation["sync"]["prune"], true, "SE-016");
    assert_eq!(operation["sync"]["syncOptions"], json!(["Validate=true"]), "SE-428");
    assert_eq!(operation["retry"], app["spec"]["syncPolicy"]["retry"], "SE-395");
    assert_eq!(operation["sync"]["autoHealAttemptsCount"], Value::Null, "SE-048");
    let api = world.api("v1", "ConfigMap", "web");
    let drift = Patch::Merge(json!({"data": {"value": "drifted"}}));
    api.patch("one", &PatchParams::default(), &drift).await.unwrap();
    // SE-017: drift at the same revision starts another one, for what differs.
    let is_healed = |app: &Value| {
        let sync = &app["status"]["operationState"]["operation"]["sync"];
        settled(app) && is(app, "Synced", "Healthy") && sync["autoHealAttemptsCount"] == 1
    };
    let app = world.until("app", "healed", is_healed).await;
    let resources = &app["status"]["operationState"]["operation"]["sync"]["resources"];
    assert_eq!(resources[0]["name"], "one", "SE-425");
    assert_eq!(resources[0]["namespace"], "web", "SE-431, SE-594");
    assert_eq!(history(&app), 1, "SE-594: of some resources only");
    assert_eq!(value(&world, "one").await, "1");
}

/// SE-424: without self-heal, drift at a synced revision is only shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_left_without_self_heal_se_424() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let app = world.create_until_good(&automated(world.application("app", "app"))).await;
    let started = app["status"]["operationState"]["startedAt"].clone();
    world.patch_map("one", json!({"data": {"value": "drifted"}})).await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    world.rest().await;
    let app = world.app("app").await;
    assert_eq!(app["status"]["operationState"]["startedAt"], started, "SE-424");
    assert_eq!(value(&world, "one").await, "drifted");
}
