//! Fields of the spec and of sources, and settings of tracking (SE-001 to SE-036, SE-093 to SE-117).

use super::limits::settings;
use super::*;

fn names(app: &Value) -> Vec<&str> {
    let rows = app["status"]["resources"].as_array();
    rows.into_iter().flatten().filter_map(|row| row["name"].as_str()).collect()
}

/// SE-001, SE-002, SE-003, SE-010, SE-011, SE-013, SE-027, SE-030: what is set stays, an empty project is `default`, and `sources` replaces
/// `source`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spec_is_read_and_kept_se_001_to_se_030() {
    let world = World::start().await;
    world.write("one/one.json", &config_map("one", "1", &[]));
    world.write("two/two.json", &config_map("two", "1", &[]));
    world.commit_file("both/one.json", &config_map("one", "2", &[]));
    let repo = world.repo.path().to_str().unwrap().to_owned();
    let mut app = world.application("app", "nowhere");
    app["spec"]["project"] = "".into();
    app["spec"]["info"] = json!([{"name": "url", "value": "https://example.com"}]);
    let source = |path: &str| json!({"repoURL": repo, "path": path, "targetRevision": "main"});
    app["spec"]["sources"] = json!([source("one"), source("two"), source("both")]);
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    let app = world.create_until_good(&app).await;
    assert_eq!(app["spec"]["project"], "default", "SE-013");
    assert_eq!(app["spec"]["info"][0]["value"], "https://example.com", "SE-027");
    assert_eq!(names(&app), ["one", "two"], "SE-010, SE-011");
    let live = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(live["data"]["value"], "2", "SE-011: the last one wins");
    let text = "Resource /ConfigMap/web/one appeared 2 times among application resources.";
    assert!(condition(&app, "RepeatedResourceWarning", text), "SE-138: {app}");
    assert_eq!(app["status"]["sourceTypes"].as_array().map(Vec::len), Some(3), "SE-061");

    // SE-035: a version among the tags with a prefix.
    for tag in ["app-1.2.0", "app-1.10.0", "app-2.0.0", "other-1.99.0"] {
        git(world.repo.path(), &["tag", tag]);
    }
    let mut app = world.application("tags", "one");
    app["spec"]["source"]["targetRevision"] = "1.*".into();
    app["spec"]["source"]["tagPrefix"] = "app-".into();
    app["spec"]["source"]["name"] = "main".into();
    app["spec"]["source"]["directory"] =
        json!({"include": "*.json", "exclude": "x*", "recurse": false, "jsonnet": {}});
    app["spec"]["source"]["helm"] = json!({"skipCrds": false});
    let tagged = world.commit();
    git(world.repo.path(), &["tag", "--force", "app-1.10.0"]);
    world.create_app(&app).await;
    let app = world.until("tags", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(app["status"]["sync"]["revision"], *tagged, "SE-035");
    let kept = json!({"include": "*.json", "exclude": "x*"});
    assert_eq!(app["spec"]["source"]["directory"], kept, "SE-030");
    assert!(app["spec"]["source"]["helm"].is_null(), "SE-030");

    // SE-003: fields that are not used are as they were after each write.
    let mut app = world.application("plugin", "one");
    let plugin = json!({"name": "mine", "env": [{"name": "A", "value": "b"}],
        "parameters": [{"name": "p", "map": {"x": "y"}}]});
    app["spec"]["source"]["plugin"] = plugin.clone();
    world.create_app(&app).await;
    world.until("plugin", "refused", |app| condition(app, "ComparisonError", "plugin")).await;
    assert_eq!(world.app("plugin").await["spec"]["source"]["plugin"], plugin, "SE-003");

    // SE-001, SE-002: short names, and the columns of `kubectl get`.
    let definitions: Api<crds::CustomResourceDefinition> = Api::all(world.client.clone());
    let definition = definitions.get("applications.argoproj.io").await.unwrap();
    let definition = serde_json::to_value(definition).unwrap();
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["app", "apps"]), "SE-001");
    let version = &definition["spec"]["versions"][0];
    assert!(version["subresources"]["status"].is_null(), "SE-001");
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<(&str, bool)> = columns
        .iter()
        .map(|column| (column["jsonPath"].as_str().unwrap(), !column["priority"].is_null()))
        .collect();
    for column in [
        (".status.sync.status", false),
        (".status.health.status", false),
        (".status.sync.revision", true),
        (".spec.project", true),
    ] {
        assert!(columns.contains(&column), "SE-002: {column:?} in {columns:?}");
    }
}

/// SE-036, SE-092, SE-093, SE-094, SE-095, SE-096, SE-100, SE-102: which files of a directory are manifests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_read_as_its_options_say_se_036_se_093_to_se_102() {
    let world = World::start().await;
    let file = |path: &str, name: &str| {
        world.write(&format!("app/{path}"), &config_map(name, "1", &[]));
    };
    file("a.json", "a");
    file("b.yaml", "b");
    file("c.yml", "c");
    file("d.txt", "d");
    file("sub/e.json", "e");
    file("sub/deep/f.json", "f");
    file("secret.json", "g");
    world.write("app/skipped.yaml", "# +argocd:skip-file-rendering\nnot: [yaml");
    world.write("app/values.yaml", "replicas: 3\n");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        serde_json::from_str::<Value>(&config_map("h", "1", &[])).unwrap(),
        serde_json::from_str::<Value>(&config_map("i", "1", &[])).unwrap(),
    ]});
    world.commit_file("app/list.json", &list.to_string());
    let cases = [
        ("plain", json!({}), vec!["a", "b", "c", "g", "h", "i"]),
        ("deep", json!({"recurse": true}), vec!["a", "b", "c", "e", "f", "g", "h", "i"]),
        ("only", json!({"recurse": true, "include": "{sub/*,b.yaml}"}), vec!["b", "e", "f"]),
        ("without", json!({"exclude": "{secret.json,list.json,?.y*ml}"}), vec!["a"]),
        ("any", json!({"disableExtensionFilter": true, "include": "[!a-c].*"}), vec!["d"]),
    ];
    for (name, options, want) in cases {
        let mut app = world.application(name, "app");
        app["spec"]["source"]["directory"] = options;
        world.create_app(&app).await;
        let app = world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        assert_eq!(names(&app), want, "{name}: {app}");
        assert_eq!(app["status"]["sourceType"], "Directory", "SE-092");
    }
    // SE-100: one object in a file of JSON.
    world.commit_file("two/two.json", &format!("{0}\n{0}", config_map("x", "1", &[])));
    world.create_app(&world.application("two", "two")).await;
    let text = "Only single objects are allowed in JSON files.";
    world.until("two", "refused", |app| condition(app, "ComparisonError", text)).await;
}

/// SE-105, SE-110, SE-111, SE-112, SE-113, SE-116: by what objects are tracked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_tracked_as_it_is_configured_se_110_to_se_116() {
    let id = "argocd.argoproj.io/tracking-id";
    for (method, annotation, label) in [
        ("annotation", true, false),
        ("label", false, true),
        ("annotation+label", true, true),
        ("unknown", true, false),
    ] {
        let keys = [
            ("application.resourceTrackingMethod", method),
            ("application.instanceLabelKey", "example.com/of"),
            ("installationID", "west"),
        ];
        let mut world = World::with(settings(&keys)).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_until_good(&automated(world.application("app", "app"))).await;
        let live = world.get("v1", "ConfigMap", "web", "one").await;
        let metadata = &live["metadata"];
        let want = if annotation { json!("app:/ConfigMap:web/one") } else { Value::Null };
        assert_eq!(metadata["annotations"][id], want, "SE-111 {method}");
        let want = if label { json!("app") } else { Value::Null };
        assert_eq!(metadata["labels"]["example.com/of"], want, "SE-112 {method}");
        let installation = &metadata["annotations"]["argocd.argoproj.io/installation-id"];
        let want = if annotation { json!("west") } else { Value::Null };
        assert_eq!(*installation, want, "SE-113 {method}");
        if annotation {
            // SE-116: a copy is not of the Application.
            let mut copy = live.clone();
            copy["metadata"] = json!({"name": "copy", "namespace": "web",
                "annotations": metadata["annotations"], "labels": metadata["labels"]});
            world.create("v1", "ConfigMap", &copy).await;
            world.refresh("app").await;
            let app = world.app("app").await;
            assert_eq!(app["status"]["sync"]["status"], "Synced", "SE-116 {method}: {app}");
            assert_eq!(row(&app, "copy")["status"], Value::Null, "SE-116 {method}: {app}");
        }
        world.crash().await;
    }
}

/// SE-081: a project that is not there is not made up, not even `default`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_project_is_not_made_up_se_081() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let projects = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
    projects.delete("default", &DeleteParams::default()).await.unwrap();
    world.create_app(&world.application("app", "app")).await;
    let text = "Application referencing project default which does not exist";
    let app = world.until("app", "refused", |app| condition(app, "InvalidSpecError", text)).await;
    assert!(is(&app, "Unknown", "Unknown"), "SE-031: {app}");
    world.rest().await;
    assert!(projects.get_opt("default").await.unwrap().is_none(), "SE-081");
}

/// SE-025, SE-202, SE-325, SE-587: the metadata of a Namespace that is created, and one that is a
/// hook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_created_with_its_metadata_se_025_se_202_se_325_se_587() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hooked"}});
    world.write("hook/ns.json", &annotated(namespace, &[(HOOK, "PreSync")]));
    world.commit_file("hook/two.json", &config_map("two", "1", &[]));
    let app = |name: &str, options: Value| {
        let mut app = world.application(name, name);
        let namespace = if name == "hook" { "hooked" } else { "fresh" };
        app["spec"]["destination"]["namespace"] = namespace.into();
        app["spec"]["syncPolicy"] = options;
        app
    };
    let policy = json!({
        "automated": {}, "syncOptions": ["CreateNamespace=true"],
        "managedNamespaceMetadata": {"labels": {"team": "blue"}, "annotations": {"a": "b"}},
    });
    world.create_until_good(&app("app", policy)).await;
    let made = world.get("v1", "Namespace", "", "fresh").await;
    assert_eq!(made["metadata"]["labels"]["team"], "blue", "SE-025");
    assert_eq!(made["metadata"]["annotations"]["a"], "b", "SE-025");
    let id = &made["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"];
    assert!(id.is_null(), "SE-202: {id}");
    let policy = json!({"automated": {}, "syncOptions": ["CreateNamespace=true"]});
    world.create_app(&app("hook", policy)).await;
    let done = |app: &Value| phase(app) == "Succeeded";
    let app = world.until("hook", "synced", done).await;
    let results = &app["status"]["operationState"]["syncResult"]["resources"];
    let namespaces = results.as_array().unwrap().iter().filter(|one| one["kind"] == "Namespace");
    assert_eq!(namespaces.count(), 1, "SE-200, SE-587: the hook is the Namespace: {results}");
}

/// SE-434, SE-435, SE-437, SE-495: an object that is not tracked is read when a target names it, a
/// burst of changes costs few comparisons, and health is not that of children.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_objects_are_followed_se_435_se_437_se_495() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut live: Value = serde_json::from_str(&config_map("one", "other", &[])).unwrap();
    live["metadata"]["namespace"] = "web".into();
    world.create("v1", "ConfigMap", &live).await;
    world.create_until_good(&automated(world.application("app", "app"))).await;
    let live = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(live["data"]["value"], "1", "SE-435: it was adopted");

    // A child that fails.
    let pod = json!({
        "metadata": {"name": "child", "namespace": "web",
            "annotations": {"simulate.wavegate.dev/outcome": "fail"}, "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": live["metadata"]["uid"],
        }]},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
    });
    world.create("v1", "Pod", &pod).await;
    world.rest().await;
    let app = world.app("app").await;
    assert!(is(&app, "Synced", "Healthy"), "SE-495: {app}");
    assert_eq!(names(&app), ["one"], "SE-115");

    // As many as there are parts of 100 ms while the changes come, and a few at the ends.
    world.server.forget_requests();
    let (before, began) = (world.comparisons(), std::time::Instant::now());
    let mut round = 0;
    while began.elapsed() < Duration::from_millis(500) {
        world.patch_map("one", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        round += 1;
    }
    let parts = u64::try_from(began.elapsed().as_millis() / 100).unwrap();
    world.rest().await;
    let comparisons = world.comparisons() - before;
    assert!(
        (1..=parts + 3).contains(&comparisons),
        "SE-437: {comparisons} in {parts} parts, of {round}"
    );
    let app = world.app("app").await;
    assert!(is(&app, "Synced", "Healthy"), "SE-437: {app}");
    let writes = world.writes().into_iter().filter(|write| write.contains("applications"));
    assert!(writes.count() <= 2, "nothing of the status has changed: {:?}", world.writes());
}

/// SE-073, SE-076, SE-400: the lists and windows of a project are read, and SE-403: what is no
/// duration blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_and_lists_of_a_project_count_se_073_se_076_se_400_se_403() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "top"}, "rules": []});
    world.commit_file("top/role.json", &role.to_string());
    let window = |fields: Value| {
        let mut window = json!({"kind": "deny", "schedule": "* * * * *", "duration": "1h",
            "applications": ["*"]});
        window.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"syncWindows": [window]})
    };
    let cases = [
        ("denied", window(json!({})), false, "blocked by sync window"),
        ("manual", window(json!({"manualSync": true})), true, ""),
        ("elsewhere", window(json!({"applications": ["x*"]})), true, ""),
        ("by-namespace", window(json!({"applications": [], "namespaces": ["w?b"]})), false, ""),
        ("both", window(json!({"andOperator": true, "namespaces": ["other"]})), true, ""),
        ("days", window(json!({"duration": "1d"})), false, "blocked by sync window"),
        ("hours", window(json!({"duration": "1h30m", "timeZone": "Europe/Berlin"})), false, ""),
    ];
    for (name, project, runs, text) in cases {
        world.project(name, project).await;
        let mut app = world.application(name, "app");
        app["spec"]["project"] = name.into();
        world.create_app(&app).await;
        // Its project is known by then.
        let is_compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
        world.until(name, "compared", is_compared).await;
        world.sync(name, json!({})).await;
        let message = |app: &Value| app["status"]["operationState"]["message"].to_string();
        match runs {
            true => {
                world.until(name, "synced", |app| phase(app) == "Succeeded").await;
            }
            false => {
                let blocked = |app: &Value| message(app).contains("blocked by sync window");
                let app = world.until(name, "blocked", blocked).await;
                assert!(message(&app).contains(text), "SE-400 {name}: {}", message(&app));
                assert_eq!(phase(&app), "Running", "SE-410 {name}");
            }
        }
    }
    let denied = json!({"clusterResourceBlacklist": [{"group": "rbac*", "kind": "Cluster*"}]});
    world.project("lists", denied).await;
    world.create_with("lists", "top", json!({"spec": {"project": "lists"}})).await;
    world.sync("lists", json!({})).await;
    let app = world.until("lists", "refused", |app| phase(app) == "Failed").await;
    let message = app["status"]["operationState"]["message"].as_str().unwrap();
    assert!(message.contains("is not permitted in project lists"), "SE-073: {message}");
}
