//! Files that are not manifests, or invalid ones: they are reported, nothing is pruned,
//! and no other namespace is changed.

use super::*;

impl World {
    /// An Application with one object that is synced and pruned automatically.
    async fn pruning(&self, name: &str) {
        self.commit_file("app/one.yaml", &config_map("one", "1", &[]));
        let mut app = self.application(name, "app");
        app["spec"]["syncPolicy"] = json!({"automated": {"prune": true, "allowEmpty": true}});
        self.create_until_good(&app).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_replaces_a_manifest_is_an_error_and_prunes_nothing_se_099() {
    let world = World::start().await;
    world.pruning("app").await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 123\n";
    let conflict = "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> branch\n";
    let cases = [
        ("a pointer", pointer, "app/one.yaml: line 1: a Git LFS pointer (sha256:4d7a2146)"),
        ("a conflict", conflict, "app/one.yaml: line 1: an unresolved merge conflict"),
        ("binary content", "a: 1\nb: \0\n", "app/one.yaml: line 2: binary content"),
        ("cut off in a word", "apiVersion: v1\nkind: Conf\nmeta", "app/one.yaml"),
        ("cut off in a line", "apiVersion: v1\n", "app/one.yaml"),
        ("cut off in a list", "kind: ConfigMap\nmetadata: [\n", "app/one.yaml"),
    ];
    for (name, text, message) in cases {
        world.commit_file("app/one.yaml", text);
        world.refresh("app").await;
        world.until("app", name, |app| condition(app, "ComparisonError", message)).await;
        world.rest().await;
        assert!(!world.get("v1", "ConfigMap", "web", "one").await.is_null(), "{name}: pruned");
    }
    // Files for other programs are ignored.
    world.write("app/one.yaml", &config_map("one", "2", &[]));
    world.write("app/values.yaml", "replicas: 3\nname: web\n");
    world.write("app/data.yaml", "apiVersion: 1\ndatasources: []\n");
    let revision = world.commit_file("app/sub-Chart.yaml.txt", "apiVersion: v2\nname: x\n");
    world.refresh("app").await;
    let synced = |app: &Value| {
        let done = &app["status"]["operationState"]["syncResult"]["revision"];
        settled(app) && is(app, "Synced", "Healthy") && *done == *revision
    };
    world.until("app", "synced again", synced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submodule_is_an_error_and_prunes_nothing() {
    let world = World::start().await;
    world.pruning("app").await;
    let revision = world.commit();
    let repo = world.repo.path();
    for path in ["app/vendor", "other"] {
        let entry = format!("160000,{revision},{path}");
        git(repo, &["update-index", "--add", "--cacheinfo", &entry]);
    }
    std::os::unix::fs::symlink("../other/one.yaml", repo.join("app/linked.yaml")).unwrap();
    git(repo, &["add", "app/linked.yaml"]);
    git(repo, &["commit", "--quiet", "--message=submodules"]);
    let reported = "is a git submodule, and submodules are not fetched";
    for (path, recurse) in [
        ("other", false),
        ("other/deep", false),
        ("app/vendor", false),
        ("app", true),
        ("app", false),
    ] {
        let source = json!({"path": path, "directory": {"recurse": recurse}});
        world.patch("app", json!({"spec": {"source": source}})).await;
        world.refresh("app").await;
        let app = world.until("app", path, |app| condition(app, "ComparisonError", reported)).await;
        assert_eq!(app["status"]["sync"]["status"], "Unknown", "{path}");
    }
    world.rest().await;
    assert!(!world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_key_uses_the_last_value_and_adds_a_condition() {
    let world = World::start().await;
    let yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: first\n  a: last\n";
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\"metadata\": {\"name\": \"two\"},\n\
                \"data\": {\"a\": \"first\",\n\"a\": \"last\"}}";
    world.write("app/one.yaml", yaml);
    world.commit_file("app/two.json", json);
    let app = world.create_until_good(&automated(world.application("app", "app"))).await;
    for text in ["app/one.yaml: line 6: key \"data.a\"", "app/two.json: line 4: key \"data.a\""] {
        assert!(
            condition(&app, "RepeatedKeyWarning", text),
            "{text}: {}",
            app["status"]["conditions"]
        );
    }
    for name in ["one", "two"] {
        assert_eq!(world.get("v1", "ConfigMap", "web", name).await["data"]["a"], "last");
    }
    world.write("app/one.yaml", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "1", &[]));
    world.refresh("app").await;
    world.until("app", "without warning", |app| !condition(app, "RepeatedKeyWarning", "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_a_path_causes_no_request() {
    let world = World::start().await;
    for name in ["victimns", "ok-11"] {
        world.create("v1", "Namespace", &json!({"metadata": {"name": name}})).await;
    }
    let project = json!({
        "metadata": {"name": "ok", "namespace": "argocd"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "ok-*"}],
        },
    });
    world.create("argoproj.io/v1alpha1", "AppProject", &project).await;
    let object = |metadata: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    };
    let manifests = [
        object(json!({"name": "x", "namespace": "ok-11/../../victimns"})),
        object(json!({"name": "../../../namespaces/victimns/configmaps/x"})),
        object(json!({"name": "x?dryRun=All"})),
        object(json!({"generateName": "../x-"})),
        json!({"apiVersion": "../../api/v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
            .to_string(),
    ];
    for (index, manifest) in manifests.iter().enumerate() {
        let path = format!("app-{index}");
        world.write(&format!("{path}/bad.json"), manifest);
    }
    let revision = world.commit();
    world.server.forget_requests();
    for index in 0..manifests.len() {
        let name = format!("app-{index}");
        let mut app = world.application(&name, &name);
        app["spec"]["project"] = "ok".into();
        app["spec"]["destination"]["namespace"] = "ok-11".into();
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        world.create_app(&app).await;
        let reported = format!("{name}/bad.json: line 1: ConfigMap");
        world.until(&name, "refused", |app| condition(app, "ComparisonError", &reported)).await;
        let app = world.sync_until_settled(&name, json!({"revision": revision})).await;
        assert_eq!(app["status"]["operationState"]["phase"], "Error", "{app}");
        assert!(message(&app).contains("bad.json"), "{app}");
    }
    let mut app = world.application("destination", "app-0");
    app["spec"]["project"] = "ok".into();
    app["spec"]["destination"]["namespace"] = "ok-11/../victimns".into();
    world.create_app(&app).await;
    let reported = "spec.destination.namespace: ";
    world.until("destination", "refused", |app| condition(app, "InvalidSpecError", reported)).await;
    assert!(!world.made().iter().any(|resource| resource == "configmaps"), "{:?}", world.writes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_that_take_too_much_memory_are_refused_and_others_work_se_098() {
    let settings = ApplicationSettings {
        manifest_memory: 64 << 20,
        // Without a cache, which costs time only.
        kept_manifest_memory: 0,
        ..ApplicationSettings::default()
    };
    let world = World::with(settings).await;
    let whole = |data: &str| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"big\"}},\"x\":[{data}]}}"
        )
    };
    world.write("maps/big.json", &whole(&vec!["{\"\":0}"; 120_000].join(",")));
    world.write("yaml/big.yaml", &whole(&vec!["{\"\":0}"; 120_000].join(",")));
    world.write("values/big.json", &whole(&vec!["0"; 500_001].join(",")));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    for (name, message) in [
        ("maps", "raise --manifest-memory"),
        ("yaml", "raise --manifest-memory"),
        ("values", "more than 500000 values"),
    ] {
        world.create_app(&world.application(name, name)).await;
        world.until(name, "refused", |app| condition(app, "ComparisonError", message)).await;
    }
    for name in ["a", "b", "c"] {
        let mut app = world.application(name, "app");
        app["spec"]["destination"]["namespace"] = name.into();
        app["spec"]["syncPolicy"] =
            json!({"automated": {}, "syncOptions": ["CreateNamespace=true"]});
        world.create_app(&app).await;
    }
    for name in ["a", "b", "c"] {
        world.until_good(name).await;
    }
}
