//! What a spec, a project and a source may say, and what a comparison makes of it (SE-005 to SE-148).

use wavegate_controller::settings::Namespaces;

use super::limits::settings;
use super::*;

fn live(object: &str) -> Value {
    let mut object: Value = serde_json::from_str(object).unwrap();
    object["metadata"]["namespace"] = "web".into();
    object
}

/// SE-012, SE-132: a destination is a server or a name, and what is in a namespace needs one.
/// SE-074: an empty list of kinds permits none, and no list all. SE-060: conditions keep their
/// time, and those of others stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destinations_and_kinds_are_checked_se_012_se_060_se_074_se_132() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "1", &[]));
    let server = "https://kubernetes.default.svc";
    let cases = [
        (
            "both",
            json!({"server": server, "name": "in-cluster", "namespace": "web"}),
            format!(
                "application destination can't have both name and server defined: in-cluster {server}"
            ),
        ),
        (
            "neither",
            json!({"namespace": "web"}),
            "Destination server missing from app spec".to_owned(),
        ),
        (
            "nowhere",
            json!({"server": server}),
            "Namespace for one /v1, Kind=ConfigMap is missing.".to_owned(),
        ),
    ];
    for (name, destination, text) in &cases {
        let mut app = world.application(name, "app");
        app["spec"]["destination"] = destination.clone();
        world.create_app(&app).await;
        let told = |app: &Value| condition(app, "InvalidSpecError", text);
        let app = world.until(name, text, told).await;
        let all = app["status"]["conditions"].as_array().unwrap();
        assert!(all.iter().any(|one| one["message"] == *text), "SE-012, SE-132 {name}: {all:?}");
    }
    for name in ["both", "neither"] {
        assert!(is(&world.app(name).await, "Unknown", "Unknown"), "SE-012 {name}");
    }

    let foreign = json!({"type": "OfSomebody", "message": "else", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let own = world.app("nowhere").await["status"]["conditions"].as_array().unwrap().clone();
    let mut all = own.clone();
    all.push(foreign.clone());
    world.patch("nowhere", json!({"status": {"conditions": all}})).await;
    world.refresh("nowhere").await;
    world.rest().await;
    let app = world.app("nowhere").await;
    let conditions = app["status"]["conditions"].as_array().unwrap();
    assert!(conditions.contains(&foreign), "SE-060: {conditions:?}");
    assert!(
        own.len() > 1 && own.iter().all(|one| conditions.contains(one)),
        "SE-060: {conditions:?}"
    );
    let keys: Vec<String> =
        conditions.iter().map(|one| format!("{} {}", one["type"], one["message"])).collect();
    assert!(keys.is_sorted(), "SE-060: {keys:?}");
    let namespace = json!({"spec": {"destination": {"namespace": "web"}}});
    world.patch("nowhere", namespace).await;
    let good = |app: &Value| app["status"]["conditions"] == json!([foreign]);
    world.until("nowhere", "SE-060: only ours go", good).await;

    for (name, list, runs) in [("none", json!([]), false), ("absent", Value::Null, true)] {
        world.project(name, json!({"namespaceResourceWhitelist": list})).await;
        world.rest().await;
        world.create_with(name, "app", json!({"spec": {"project": name}})).await;
        world.sync(name, json!({})).await;
        let over = |app: &Value| matches!(phase(app), "Succeeded" | "Failed");
        let app = world.until(name, "over", over).await;
        assert_eq!(phase(&app) == "Succeeded", runs, "SE-074 {name}: {app}");
        let denied =
            app.to_string().contains("resource :ConfigMap is not permitted in project none");
        assert_eq!(denied, !runs, "SE-074 {name}: {app}");
    }
}

/// SE-005: an Application of another namespace tracks with its namespace. SE-114: what is no
/// tracking value tracks nothing, and names may have colons.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tracking_values_have_their_parts_se_005_se_114() {
    let namespaces = Namespaces::parse(&["team".to_owned()]).unwrap();
    let world = World::with(ApplicationSettings { namespaces, ..Default::default() }).await;
    let id = "argocd.argoproj.io/tracking-id";
    world.write("team/one.json", &config_map("one", "1", &[]));
    // SE-090: the overrides of the Application have its name with its namespace.
    world.write("team/two.json", &config_map("two", "1", &[]));
    world.write("team/.argocd-source-team_app.yaml", "directory: {include: one.json}\n");
    world.write("team/.argocd-source-app.yaml", "directory: {include: two.json}\n");
    let role = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name}, "rules": []})
    };
    world.commit_file("app/role.json", &role("system:a:b").to_string());
    world.project("teams", json!({"sourceNamespaces": ["team"]})).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "team"}})).await;
    let mut app = world.application("app", "team");
    app["metadata"]["namespace"] = "team".into();
    app["spec"]["project"] = "teams".into();
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&app).await;
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    let app = world.create_until_good(&app).await;
    assert_eq!(row(&app, "system:a:b")["status"], "Synced", "SE-114: {app}");
    let made = world.get("rbac.authorization.k8s.io/v1", "Role", "web", "system:a:b").await;
    let want = "app:rbac.authorization.k8s.io/Role:web/system:a:b";
    assert_eq!(made["metadata"]["annotations"][id], want, "SE-114");
    until("it is synced", async || world.get("v1", "ConfigMap", "web", "one").await.is_object())
        .await;
    let made = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(made["metadata"]["annotations"][id], "team_app:/ConfigMap:web/one", "SE-005");
    assert!(world.get("v1", "ConfigMap", "web", "two").await.is_null(), "SE-090");
    for (name, value) in [
        ("a", "app"),
        ("b", "app:/ConfigMap"),
        ("c", "app:ConfigMap:web/c"),
        ("d", "app:/ConfigMap:d"),
        ("e", "app:/ConfigMap:web/e/f"),
        ("f", ""),
    ] {
        world.create("v1", "ConfigMap", &live(&config_map(name, "1", &[(id, value)]))).await;
    }
    let own = config_map("own", "1", &[(id, "app:/ConfigMap:web/own")]);
    world.create("v1", "ConfigMap", &live(&own)).await;
    until("what is tracked is pruned", async || {
        world.refresh("app").await;
        world.sync_until_settled("app", json!({"prune": true})).await;
        world.get("v1", "ConfigMap", "web", "own").await.is_null()
    })
    .await;
    let app = world.until_good("app").await;
    assert_eq!(app["status"]["resources"].as_array().map(Vec::len), Some(1), "SE-114: {app}");
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert!(world.get("v1", "ConfigMap", "web", name).await.is_object(), "SE-114 {name}");
    }
}

/// SE-097: a link may point into the repository only; one to nothing is an error, too: what it
/// named would be pruned. SE-147: what is extraneous may not count. SE-148: nothing is in sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_and_extraneous_objects_se_097_se_147_se_148() {
    let world = World::start().await;
    let outside = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(outside.path(), config_map("outside", "1", &[])).unwrap();
    let link = |to: &Path, at: &str| {
        let at = world.repo.path().join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, at).unwrap();
    };
    world.write("shared/one.json", &config_map("linked", "1", &[]));
    link(Path::new("../shared/one.json"), "inside/one.json");
    link(Path::new("nothing.json"), "dangling/one.json");
    link(outside.path(), "outside/one.json");
    link(Path::new("../../../../../../../../../../etc/passwd"), "above/one.yaml");
    world.write("nothing/readme.txt", "nothing");
    world.write("extra/one.json", &config_map("one", "1", &[]));
    world.commit_file("extra/spare.json", &config_map("spare", "1", &[]));
    for name in ["inside", "outside", "above", "dangling", "nothing", "extra"] {
        world.create_app(&world.application(name, name)).await;
    }
    let app = world.until("inside", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let rows = app["status"]["resources"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["name"]), (1, &json!("linked")), "SE-097: {app}");
    for name in ["outside", "above", "dangling"] {
        let refused = |app: &Value| condition(app, "ComparisonError", "one.");
        let app = world.until(name, "refused", refused).await;
        let rows = app["status"]["resources"].as_array();
        assert!(rows.is_none_or(Vec::is_empty), "SE-097 {name}: {app}");
        assert_eq!(app["status"]["sync"]["status"], "Unknown", "SE-097 {name}");
        assert!(!app.to_string().contains("root:"), "SE-097 {name}: {app}");
    }
    let app = world.until("nothing", "compared", |app| is(app, "Synced", "Healthy")).await;
    assert!(app["status"]["resources"].as_array().is_none_or(Vec::is_empty), "SE-148: {app}");

    world.sync_until_good("extra", json!({})).await;
    world.remove("extra/spare.json");
    world.commit();
    world.refresh("extra").await;
    world.until("extra", "SE-147", |app| is(app, "OutOfSync", "Healthy")).await;
    let note = json!({"metadata": {"annotations": {
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous"}}});
    world.patch_map("spare", note).await;
    let app = world.until("extra", "SE-147", |app| is(app, "Synced", "Healthy")).await;
    assert_eq!(row(&app, "spare")["status"], "OutOfSync", "SE-147: {app}");
    assert_eq!(row(&app, "spare")["requiresPruning"], true, "SE-147: {app}");
    // Of an object of the source the annotation says nothing.
    let drift = json!({"data": {"value": "2"}, "metadata": {"annotations": {
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous"}}});
    world.patch_map("one", drift).await;
    world.until("extra", "SE-147", |app| is(app, "OutOfSync", "Healthy")).await;
}

/// SE-031: what a source lacks is named by its field, and nothing is compared until it is there. A
/// further source may be a reference only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_source_lacks_is_named_and_nothing_is_compared_se_031() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let repo = world.repo.path().to_str().unwrap();
    let whole = json!({"repoURL": repo, "path": "app", "targetRevision": "main"});
    let with = |second: Value| json!({"sources": [whole, second]});
    let chart = json!({"repoURL": "https://charts.invalid", "chart": "web"});
    let cases = [
        (
            "no-url",
            json!({"source": {"repoURL": "", "path": "app"}}),
            "spec.source.repoURL is required",
        ),
        (
            "no-path",
            json!({"source": {"repoURL": repo, "targetRevision": "main"}}),
            "spec.source.path or spec.source.chart is required",
        ),
        (
            "no-version",
            json!({ "source": chart }),
            "spec.source.targetRevision is required if the manifest source is a helm chart",
        ),
        (
            "second-url",
            with(json!({"repoURL": "", "ref": "values"})),
            "spec.sources[1].repoURL is required",
        ),
        (
            "second-path",
            with(json!({"repoURL": repo, "targetRevision": "main"})),
            "spec.sources[1].path or spec.sources[1].chart is required, or ref",
        ),
        (
            "second-version",
            with(chart),
            "spec.sources[1].targetRevision is required if the manifest source is a helm chart",
        ),
    ];
    for (name, fields, want) in cases {
        let mut app = automated(world.application(name, "app"));
        app["spec"].as_object_mut().unwrap().remove("source");
        json_patch::merge(&mut app, &json!({ "spec": fields }));
        world.create_app(&app).await;
        let app = world.refused(name, "InvalidSpecError", want).await;
        let said = app["status"]["conditions"].as_array().unwrap();
        assert_eq!((said.len(), &said[0]["message"]), (1, &json!(want)), "{name}: {app}");
        assert!(is(&app, "Unknown", "Unknown"), "{name}: {app}");
        assert!(app["status"]["resources"].is_null(), "{name}: {app}");
        assert!(app["status"]["sync"]["revision"].is_null(), "{name}: {app}");
    }
    let reference = json!({"repoURL": repo, "targetRevision": "main", "ref": "values"});
    world.patch("second-path", json!({"spec": with(reference)})).await;
    let app = world.until_good("second-path").await;
    assert!(!condition(&app, "InvalidSpecError", ""), "{app}");
}

/// SE-112: the label that only informs is cut to 63 characters and ends with a letter or a digit. The
/// one that tracks is the whole name, and the words of the API server about it are in the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_name_is_cut_in_the_label_that_informs_and_in_no_other_se_112() {
    let name = format!("{}--{}", "a".repeat(61), "b".repeat(7));
    let long = "app.kubernetes.io/instance";
    let world =
        World::with(settings(&[("application.resourceTrackingMethod", "annotation+label")])).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application(&name, "app"))).await;
    let metadata = world.get("v1", "ConfigMap", "web", "one").await["metadata"].clone();
    assert_eq!(metadata["labels"][long], "a".repeat(61));
    let id = &metadata["annotations"]["argocd.argoproj.io/tracking-id"];
    assert_eq!(*id, format!("{name}:/ConfigMap:web/one"));

    let world = World::with(settings(&[("application.resourceTrackingMethod", "label")])).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application(&name, "app")).await;
    let app = world.sync_to_end(&name, json!({})).await;
    assert_eq!(phase(&app), "Failed", "{app}");
    let told = result(&app, "one")["message"].as_str().unwrap();
    assert!(told.contains("metadata.labels") && told.contains(&name), "{app}");
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}
