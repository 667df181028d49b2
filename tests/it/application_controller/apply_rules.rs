//! How objects are applied, and with which requests (SE-297 to SE-360).

use wavegate_api::annotations::SYNC_OPTIONS;

use super::limits::settings;
use super::*;

fn said(app: &Value, name: &str) -> String {
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
    let found = results.into_iter().flatten().find(|result| result["name"] == name);
    found
        .map(|result| result["message"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

/// Requests a sync with these options, and waits for its end.
async fn sync(world: &World, name: &str, options: Value) -> Value {
    world.sync_to_end(name, json!({"syncOptions": options})).await
}

/// SE-131, SE-142, SE-195, SE-319, SE-340, SE-341, SE-342, SE-345, SE-351: what each way to apply says and
/// leaves; a cluster-scoped object is found although its manifest has a namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_apply_has_its_words_se_340_se_341_se_345() {
    let world = World::start().await;
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    for (name, option, verbs, has_last) in [
        ("plain", "Validate=true", ["created", "configured", "unchanged"], true),
        (
            "server",
            "ServerSideApply=true",
            ["serverside-applied", "serverside-applied", "serverside-applied"],
            false,
        ),
        ("replace", "Replace=true", ["created", "replaced", "replaced"], false),
    ] {
        let write = |value: &str| {
            world.write(&format!("{name}/one.json"), &config_map(name, value, &[]));
            world.commit()
        };
        write("1");
        world.create_app(&world.application(name, name)).await;
        for (round, verb) in verbs.iter().enumerate() {
            if round == 1 {
                write("2");
            }
            let app = sync(&world, name, json!([option])).await;
            assert_eq!(phase(&app), "Succeeded", "{name}: {}", message(&app));
            assert_eq!(said(&app, name), format!("configmap/{name} {verb}"), "SE-341 {round}");
        }
        let api = world.api("v1", "ConfigMap", "web");
        let live = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        let metadata = &live["metadata"];
        assert_eq!(metadata["annotations"][last].is_string(), has_last, "SE-345, SE-351 {name}");
        let managers = metadata["managedFields"].as_array().unwrap();
        let ours = |entry: &&Value| entry["manager"] == "argocd-controller";
        assert!(managers.iter().any(|entry| ours(&entry)), "SE-342 {name}: {managers:?}");
    }

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "top", "namespace": "web"}, "rules": []});
    world.commit_file("top/role.json", &role.to_string());
    world.create_app(&world.application("top", "top")).await;
    sync(&world, "top", json!([])).await;
    let app = world.until_good("top").await;
    let rows = &app["status"]["resources"];
    assert_eq!(rows[0]["namespace"].as_str().unwrap_or_default(), "", "SE-131, SE-142: {rows}");
}

/// SE-342, SE-355: conflicts are tried again, and what cannot be changed is only deleted and
/// created where the sync says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_are_repeated_and_force_replaces_se_342_se_355() {
    let world = World::start().await;
    let write = |value: &str| {
        world.write("app/one.json", &config_map("one", value, &[]));
        world.commit()
    };
    write("1");
    world.create_app(&world.application("app", "app")).await;
    sync(&world, "app", json!([])).await;
    let uid = async || world.get("v1", "ConfigMap", "web", "one").await["metadata"]["uid"].clone();
    let first = uid().await;
    let patches = requests("patch", "configmaps");
    write("2");
    world.server.inject(InjectedFault::new(Effect::Status(409), patches).times(3));
    let app = sync(&world, "app", json!([])).await;
    assert_eq!(phase(&app), "Succeeded", "SE-342: {}", message(&app));
    assert_eq!(uid().await, first, "SE-342");

    write("3");
    world.server.inject(InjectedFault::new(Effect::Status(422), patches).times(1));
    let app = sync(&world, "app", json!([])).await;
    assert_eq!(phase(&app), "Failed", "SE-355: {}", message(&app));
    assert_eq!(uid().await, first, "SE-355: without force");
    world.server.inject(InjectedFault::new(Effect::Status(422), patches).times(1));
    let app = sync(&world, "app", json!(["Force=true"])).await;
    assert_eq!(phase(&app), "Failed", "SE-320: it is an option of resources: {}", message(&app));
    assert_eq!(uid().await, first, "SE-320");
    world.server.inject(InjectedFault::new(Effect::Status(422), patches).times(1));
    let force = json!({"syncStrategy": {"apply": {"force": true}}});
    let app = world.sync_to_end("app", force).await;
    assert_eq!(phase(&app), "Succeeded", "SE-320, SE-355: {}", message(&app));
    assert_ne!(uid().await, first, "SE-355");
    assert_eq!(world.get("v1", "ConfigMap", "web", "one").await["data"]["value"], "3");
}

/// SE-343: a binding is only deleted and created again when its role changes: whatever the server
/// refused, its subjects were without their permissions meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_is_replaced_only_when_its_role_changes_se_343() {
    let world = World::start().await;
    let write = |role: &str, subject: &str, has_group: bool| {
        let mut binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "binding"},
            "roleRef": {"kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": "web"}],
        });
        if has_group {
            binding["roleRef"]["apiGroup"] = "rbac.authorization.k8s.io".into();
        }
        world.commit_file("app/binding.json", &binding.to_string());
    };
    write("reader", "a", true);
    world.create_app(&world.application("app", "app")).await;
    let app = sync(&world, "app", json!([])).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let live =
        async || world.get("rbac.authorization.k8s.io/v1", "RoleBinding", "web", "binding").await;
    let uid = live().await["metadata"]["uid"].clone();
    for (role, has_group, option, verb, is_replaced) in [
        ("reader", true, "Validate=true", "patch", false),
        ("reader", false, "Validate=true", "patch", false),
        ("writer", true, "ServerSideApply=true", "apply", false),
        ("writer", true, "Validate=true", "patch", true),
    ] {
        write(role, "b", has_group);
        let writes = move |record: &RequestRecord| {
            record.client == CONTROLLER
                && record.resource == "rolebindings"
                && record.verb == verb
                && !record.dry_run
        };
        world.server.inject(InjectedFault::new(Effect::Status(422), writes).times(1));
        let app = sync(&world, "app", json!([option])).await;
        let case = format!("{role} {has_group} {option}: {}", message(&app));
        assert_eq!(phase(&app), if is_replaced { "Succeeded" } else { "Failed" }, "{case}");
        assert_eq!(live().await["metadata"]["uid"] != uid, is_replaced, "{case}");
    }
    assert_eq!(live().await["roleRef"]["name"], "writer");
}

/// SE-252, SE-293: a webhook that refuses a deletion answers with a conflict. The sync went on
/// for ever, and did not say why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_is_refused_with_a_conflict_fails_se_252() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/old.json", &config_map("old", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    sync(&world, "app", json!([])).await;
    world.remove("app/old.json");
    world.commit();
    let deletes = requests("delete", "configmaps");
    world.server.inject(InjectedFault::new(Effect::Status(409), deletes).times(usize::MAX));
    let app = world.sync_to_end("app", json!({"prune": true})).await;
    assert_eq!(phase(&app), "Failed", "{}", message(&app));
    let row = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let row = row.iter().find(|row| row["name"] == "old").unwrap();
    assert_eq!(row["status"], "SyncFailed", "{app}");
    assert_ne!(row["message"], "", "{app}");
    // A busy server refuses a few times: no reason to fail, since a retry runs hooks again.
    world.server.clear_faults();
    world.server.inject(InjectedFault::new(Effect::Status(409), deletes).times(3));
    let app = world.sync_to_end("app", json!({"prune": true})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    assert_eq!(world.get("v1", "ConfigMap", "web", "old").await, Value::Null);
}

/// SE-297, SE-566: the writes of all syncs share one limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_syncs_share_one_limit_of_requests_se_297_se_566() {
    let world = World::with(settings(&[("controller.kubectl.parallelism.limit", "1")])).await;
    for name in ["a", "b"] {
        for index in 0..2 {
            let map = config_map(&format!("{name}-{index}"), "1", &[]);
            world.write(&format!("{name}/{index}.json"), &map);
        }
    }
    world.commit();
    for name in ["a", "b"] {
        world.create_app(&world.application(name, name)).await;
        world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
    }
    let creates = requests("create", "configmaps");
    let slow = Duration::from_millis(300);
    world.server.inject(InjectedFault::new(Effect::Latency(slow), creates).times(usize::MAX));
    let started = std::time::Instant::now();
    for name in ["a", "b"] {
        world.sync(name, json!({})).await;
    }
    for name in ["a", "b"] {
        world.until(name, "synced", |app| phase(app) == "Succeeded").await;
    }
    assert!(started.elapsed() >= 4 * slow, "SE-297: {:?}", started.elapsed());
}

/// SE-597: an Application of too many resources says so, and its status stays small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_does_not_grow_without_a_limit_se_597() {
    let world = World::start().await;
    let maps: Vec<Value> = (0..5_001)
        .map(|index| serde_json::from_str(&config_map(&format!("m-{index:05}"), "1", &[])).unwrap())
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps});
    world.commit_file("app/list.json", &list.to_string());
    world.create_app(&world.application("app", "app")).await;
    let app = world.until("app", "reported", |app| condition(app, "SyncWarning", "5000")).await;
    let rows = app["status"]["resources"].as_array().map_or(0, Vec::len);
    assert_eq!((rows, &app["status"]["sync"]["status"]), (5_000, &json!("OutOfSync")), "SE-597");
}

/// SE-140, SE-141, SE-183, SE-596: what is no hook of a sync takes no part, and a hook that is misspelt is
/// named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_take_no_part_are_left_out_se_140_se_141_se_183_se_596() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/skip.json", &config_map("skip", "1", &[(HOOK, "Skip")]));
    world.write("app/garbage.json", &config_map("garbage", "1", &[(HOOK, "Presync")]));
    world.write("app/test.json", &config_map("test", "1", &[("helm.sh/hook", "test")]));
    world.commit_file("app/gone.json", &config_map("gone", "1", &[(HOOK, "PostDelete")]));
    world.create_app(&world.application("app", "app")).await;
    let app = sync(&world, "app", json!([])).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let app = world.until_good("app").await;
    for name in ["skip", "garbage", "test", "gone"] {
        assert!(world.get("v1", "ConfigMap", "web", name).await.is_null(), "SE-140 {name}");
    }
    let rows = app["status"]["resources"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name);
    assert!(row("skip").is_some_and(|row| row["status"].is_null()), "SE-141: {rows:?}");
    assert!(condition(&app, "SyncWarning", "garbage"), "SE-183, SE-596: {}", app["status"]);
}

/// Server-side apply identifies a port by its protocol. With an empty one, the Application was out of
/// sync after each sync, and the next one sent a second port of the same number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_protocol_is_tcp_under_server_side_apply() {
    let world = World::start().await;
    let service = |app: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {
                "name": "service", "annotations": {SYNC_OPTIONS: "ServerSideApply=true"}},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80, "protocol": ""}]},
        })
        .to_string()
    };
    world.create_app(&world.application("app", "app")).await;
    for app in ["one", "two"] {
        let revision = world.commit_file("app/service.json", &service(app));
        world.sync_to_end("app", json!({"revision": revision})).await;
        let is_compared =
            |app: &Value| settled(app) && app["status"]["sync"]["revision"] == *revision;
        let found = world.until("app", "compared", is_compared).await;
        assert_eq!(phase(&found), "Succeeded", "{found}");
        assert_eq!(found["status"]["sync"]["status"], "Synced", "{found}");
        let stored = world.get("v1", "Service", "web", "service").await;
        assert_eq!(stored["spec"]["ports"].as_array().map(Vec::len), Some(1), "{stored}");
        assert_eq!(stored["spec"]["selector"]["app"], app);
    }
}
