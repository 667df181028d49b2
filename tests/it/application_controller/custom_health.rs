//! Health of custom resources, as waves wait for it: by what they report, and by the rules of
//! their kinds; and of Applications that an Application deploys (SE-468, SE-478).

use tokio::net::TcpListener;
use wavegate_engine::health::{Checks, KindPattern};

use super::limits::settings;
use super::*;

/// A definition of a kind whose status starts with the default, as those of Flux do.
pub(super) async fn define(world: &World, group: &str, kind: &str, default: Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut status = open.clone();
    if !default.is_null() {
        status["default"] = default;
    }
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(),
                "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "properties": {"spec": open, "status": status}}}}],
        },
    });
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    let api = world.api(&format!("{group}/v1"), kind, "web");
    until("the kind is served", async || api.list(&Default::default()).await.is_ok()).await;
}

pub(super) fn resource(group: &str, kind: &str) -> String {
    let api_version = format!("{group}/v1");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"},
        "spec": {"size": 1}})
    .to_string()
}

/// Writes what the controller of the kind reports.
pub(super) async fn report(world: &World, group: &str, kind: &str, status: Value) {
    let api = world.api(&format!("{group}/v1"), kind, "web");
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status("one", &PatchParams::default(), &patch).await.unwrap();
}

/// Whether the ConfigMap of the second wave exists.
pub(super) async fn next_wave(world: &World) -> bool {
    !world.get("v1", "ConfigMap", "web", "after").await.is_null()
}

pub(super) fn after() -> String {
    config_map("after", "1", &[("argocd.argoproj.io/sync-wave", "1")])
}

/// Starts a sync of one custom resource, and of a ConfigMap a wave later.
async fn sync_before_a_wave(world: &World, kind: &str) {
    world.write("app/one.json", &resource("example.com", kind));
    let revision = world.commit_file("app/after.json", &after());
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
}

pub(super) fn health(app: &Value, name: &str) -> (String, String) {
    let health = &row(app, name)["health"];
    let text = |field: &str| health[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

/// Waits until a resource has a health in the status.
pub(super) async fn until_health(world: &World, status: &str, message: &str) {
    let want = (status.to_owned(), message.to_owned());
    let has = |app: &Value| app["status"]["resources"].is_array() && health(app, "one") == want;
    world.until("app", &format!("{want:?}"), has).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wave_waits_for_what_a_custom_resource_reports_se_478() {
    let world = World::start().await;
    define(&world, "example.com", "Backup", json!({"observedGeneration": -1})).await;
    sync_before_a_wave(&world, "Backup").await;
    let waits = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default();
        message.contains("example.com/Backup/one")
    };
    world.until("app", "waiting for the resource", waits).await;
    assert!(!next_wave(&world).await, "the controller of the kind has seen nothing yet");

    let condition = |status: &str, reason: &str| json!([{"type": "Ready", "status": status, "reason": reason, "message": "copying"}]);
    let status = json!({"observedGeneration": 1, "conditions": condition("False", "Creating")});
    report(&world, "example.com", "Backup", status).await;
    until_health(&world, "Progressing", "copying").await;
    assert!(!next_wave(&world).await, "it is not ready");

    let status = json!({"observedGeneration": 1, "conditions": condition("True", "Done")});
    report(&world, "example.com", "Backup", status).await;
    let app = world.until_good("app").await;
    assert_eq!(phase(&app), "Succeeded");
    assert!(next_wave(&world).await);
    assert_eq!(health(&app, "one").0, "Healthy");
}

/// Whether a controller will ever write a status is not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_custom_resource_without_a_status_holds_no_wave() {
    let world = World::start().await;
    define(&world, "example.com", "Note", Value::Null).await;
    sync_before_a_wave(&world, "Note").await;
    let app = world.until_good("app").await;
    assert!(row(&app, "one")["health"].is_null(), "{}", row(&app, "one"));
    assert!(next_wave(&world).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_not_assessed_holds_no_wave() {
    let checks = Checks {
        not_generic: vec![KindPattern::parse("example.com/*").unwrap()],
        ..Checks::default()
    };
    let settings = ApplicationSettings { checks, ..ApplicationSettings::default() };
    let world = World::with(settings).await;
    define(&world, "example.com", "Backup", json!({"observedGeneration": -1})).await;
    sync_before_a_wave(&world, "Backup").await;
    let app = world.until_good("app").await;
    assert!(row(&app, "one")["health"].is_null(), "as with Argo CD: {}", row(&app, "one"));
    assert!(next_wave(&world).await);
}

/// SE-478: without generic health, no kind without a rule is assessed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kind_is_assessed_by_what_it_reports_where_the_key_says_so() {
    let world = World::with(settings(&[("controller.generic.health", "false")])).await;
    define(&world, "example.com", "Backup", json!({"observedGeneration": -1})).await;
    sync_before_a_wave(&world, "Backup").await;
    let app = world.until_good("app").await;
    assert!(row(&app, "one")["health"].is_null(), "as with Argo CD: {}", row(&app, "one"));
    assert!(next_wave(&world).await);
}

/// Runs the program against the server of a world.
async fn program(world: &World, args: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = world.server.kubeconfig(listener.local_addr().unwrap());
    let config = config.replace("namespace: default", "namespace: argocd");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config"), config).unwrap();
    let stop = CancellationToken::new();
    let (serving, until) = (world.server.clone(), stop.clone());
    tokio::spawn(async move { serving.serve(listener, until).await });
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavegate"));
    command.args(args).env("KUBECONFIG", folder.path().join("config"));
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    stop.cancel();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// SE-474, SE-478: a kind of the table of rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_degraded_resource_of_a_kind_with_rules_is_named_by_explain() {
    let world = World::start().await;
    let (group, kind) = ("kafka.strimzi.io", "KafkaUser");
    define(&world, group, kind, Value::Null).await;
    let name = "argoproj.io/v1alpha1";
    let set = json!({"metadata": {"name": "set", "namespace": NAMESPACE}, "spec": {
        "generators": [{"list": {"elements": [{"name": "app"}]}}],
        "strategy": {"type": "RollingSync", "rollingSync": {"steps": [{"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["app"]}]}]}},
        "template": {"metadata": {"name": "{{name}}"}, "spec": {"project": "default",
            "source": {"repoURL": "https://example.invalid"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}},
    }});
    world.create(name, "ApplicationSet", &set).await;
    let uid = world.get(name, "ApplicationSet", NAMESPACE, "set").await["metadata"]["uid"].clone();
    let entry = json!({"application": "app", "status": "Progressing", "step": "1", "message": "m",
        "targetRevisions": [], "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let status = json!({"status": {"rollout": {"step": 1, "steps": 1, "progress": "0/1"},
        "health": {"status": "Progressing"}, "applicationStatus": [entry]}});
    world.patch_status_of((name, "ApplicationSet"), NAMESPACE, "set", status.clone()).await;

    world.write("app/one.json", &resource(group, kind));
    let revision = world.commit_file("app/after.json", &after());
    let mut app = world.application("app", "app");
    app["metadata"]["labels"] = json!({"app": "app"});
    app["metadata"]["ownerReferences"] = json!([{"apiVersion": name, "kind": "ApplicationSet",
        "name": "set", "uid": uid, "controller": true}]);
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;
    let waits = |app: &Value| phase(app) == "Running" && !row(app, "one")["health"].is_null();
    world.until("app", "waiting for the user", waits).await;
    assert!(!next_wave(&world).await, "a kind with rules is waited for before it reports");

    let words = "Authorization needs to be enabled in the Kafka custom resource";
    let condition = json!({"type": "NotReady", "status": "True",
        "reason": "InvalidResourceException", "message": words});
    report(&world, group, kind, json!({"observedGeneration": 1, "conditions": [condition]})).await;
    until_health(&world, "Degraded", words).await;
    let app = world.until("app", "failed", |app| settled(app) && phase(app) == "Failed").await;
    assert!(is(&app, "OutOfSync", "Degraded"), "{}", app["status"]);
    assert!(!next_wave(&world).await);

    let explained = program(&world, &["explain", "set"]).await;
    assert!(explained.contains("KafkaUser") && explained.contains(words), "{explained}");
    let tree = program(&world, &["tree", "app"]).await;
    assert!(tree.contains("KafkaUser") && tree.contains("Degraded"), "{tree}");
}

/// SE-468: an Application of Applications: by default no wave waits for a child, with the
/// setting the next wave starts once the child is Healthy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wave_waits_for_child_applications_when_that_is_set() {
    for waits in [false, true] {
        let checks = Checks { applications: waits, ..Checks::default() };
        let settings = ApplicationSettings { checks, ..ApplicationSettings::default() };
        let world = World::with(settings).await;
        let mut child = world.application("one", "child");
        child["apiVersion"] = "argoproj.io/v1alpha1".into();
        child["kind"] = "Application".into();
        child["spec"]["syncPolicy"] = json!({"automated": {}});
        world.write("app/one.json", &child.to_string());
        world.write("app/after.json", &after());
        define(&world, "example.com", "Backup", json!({"observedGeneration": -1})).await;
        let mut backup: Value = serde_json::from_str(&resource("example.com", "Backup")).unwrap();
        backup["metadata"]["name"] = "backup".into();
        let revision = world.commit_file("child/backup.json", &backup.to_string());
        let more = json!({"spec": {"destination": {"namespace": "web"}}});
        world.create_with("app", "app", more).await;
        world.sync("app", json!({"revision": revision})).await;
        let progressing = |app: &Value| app["status"]["health"]["status"] == "Progressing";
        world.until("one", "progressing", progressing).await;
        if !waits {
            world.until("app", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
            assert!(next_wave(&world).await, "as Argo CD does");
            continue;
        }
        let running =
            |app: &Value| phase(app) == "Running" && health(app, "one").0 == "Progressing";
        world.until("app", "waiting for the child", running).await;
        assert!(!next_wave(&world).await);
        let status = json!({"status": {"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "True", "reason": "Done", "message": ""}]}});
        world.patch_status_of(("example.com/v1", "Backup"), "web", "backup", status).await;
        world.until("app", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
        assert!(next_wave(&world).await, "the child is Healthy");
    }
}
