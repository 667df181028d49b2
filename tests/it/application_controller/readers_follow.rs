//! What follows from the trees that Argo CD's API server reads, and what is written for it besides
//! Redis (CA-211, CA-308, CA-313, CA-510).

use super::limits::settings;
use super::readers::{TREE, node, nodes, with_redis};
use super::*;
use crate::redis_server::Redis;

/// An owner reference to an object.
fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

fn summary(app: &Value) -> &Value {
    &app["status"]["summary"]
}

/// CA-211 b, CA-506: a Pod below a resource, and orphaned objects: the tree shows them
/// at once, and the status follows in the summary and in the condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_follows_what_is_below_and_beside_the_resources_as_ca_211() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with(with_redis(redis.settings())).await;
    world.patch_project(json!({"orphanedResources": {"warn": true}})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    world.refresh("app").await;
    let before = world.app("app").await;
    assert_eq!(summary(&before)["images"], Value::Null);

    let one = world.get("v1", "ConfigMap", "web", "one").await;
    let pod = json!({
        "metadata": {"name": "below", "namespace": "web", "ownerReferences": [owner(&one)], "annotations": {
            "link.argocd.argoproj.io/a": "https://below.example.com",
        }},
        "spec": {"containers": [{"name": "main", "image": "example.com/below:1"}]},
    });
    world.create("v1", "Pod", &pod).await;
    redis.until(TREE, "with the Pod", |tree| node(tree, "Pod").is_object()).await;
    let has_image = |app: &Value| summary(app)["images"] == json!(["example.com/below:1"]);
    let app = world.until("app", "with the image of the Pod", has_image).await;
    assert_eq!(summary(&app)["externalURLs"], json!(["https://below.example.com"]));
    assert_eq!(app["status"]["sync"], before["status"]["sync"]);
    assert_eq!(app["status"]["resources"], before["status"]["resources"]);

    let mut child = world.application("child", "app");
    child["metadata"]["ownerReferences"] = json!([owner(&one)]);
    child["metadata"]["namespace"] = "web".into();
    world.create("argoproj.io/v1alpha1", "Application", &child).await;
    let is_parent = |app: &Value| summary(app)["isAppOfApps"] == true;
    world.until("app", "with an Application below", is_parent).await;

    let pods = world.api("v1", "Pod", "web");
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("below", &now).await.unwrap();
    world.until("app", "without the image", |app| summary(app)["images"].is_null()).await;

    let is_orphan = |name: &str, tree: &Value| {
        let all = tree["orphanedNodes"].as_array().into_iter().flatten();
        all.into_iter().any(|node| node["name"] == name)
    };
    let warns = |app: &Value| condition(app, "OrphanedResourceWarning", "has 1 orphaned resources");
    let stray = json!({"metadata": {"name": "stray", "namespace": "web"}});
    world.create("v1", "ConfigMap", &stray).await;
    redis.until(TREE, "with the orphan", |tree| is_orphan("stray", tree)).await;
    world.until("app", "warned", warns).await;
    world.delete_map("stray").await;
    redis.until(TREE, "without the orphan", |tree| !is_orphan("stray", tree)).await;
    world.until("app", "not warned any more", |app| !warns(app)).await;
    world.rest().await;
}

/// CA-313: objects that belong to others by their names and annotations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inferred_parents_are_in_the_tree_as_ca_313() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with(with_redis(redis.settings())).await;
    for (kind, plural) in
        [("OperatorGroup", "operatorgroups"), ("ClusterServiceVersion", "clusterserviceversions")]
    {
        world.define_kind("operators.coreos.com", kind, plural).await;
    }
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 0, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "example.com/db:1"}]},
            },
            "volumeClaimTemplates": [claim("data"), claim("log")],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"},
        "spec": {"ports": [{"port": 80}]},
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "db"}});
    let group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "group"},
    });
    world.write("app/set.json", &annotated(set, &[HANGS]));
    for (name, object) in [("service", &service), ("account", &account), ("group", &group)] {
        world.write(&format!("app/{name}.json"), &object.to_string());
    }
    world.commit();
    world.create_app(&automated(world.application("app", "app"))).await;
    redis.until(TREE, "there", |tree| node(tree, "OperatorGroup")["uid"].is_string()).await;

    let named = |name: &str| json!({"metadata": {"name": name, "namespace": "web"}});
    for name in ["data-db-0", "log-db-11", "data-db", "other-db-0", "data-db-0-1"] {
        let mut claim = claim(name);
        claim["metadata"]["namespace"] = "web".into();
        claim["spec"]["resources"] = json!({"requests": {"storage": "1Gi"}});
        world.create("v1", "PersistentVolumeClaim", &claim).await;
    }
    world.create("v1", "Endpoints", &named("db")).await;
    let mut token = named("token");
    token["type"] = "kubernetes.io/service-account-token".into();
    let uid = world.get("v1", "ServiceAccount", "web", "db").await["metadata"]["uid"].clone();
    token["metadata"]["annotations"] = json!({
        "kubernetes.io/service-account.name": "db", "kubernetes.io/service-account.uid": uid,
    });
    world.create("v1", "Secret", &token).await;
    let mut version = named("version");
    version["metadata"]["annotations"] = json!({"olm.operatorGroup": "group"});
    world.create("operators.coreos.com/v1", "ClusterServiceVersion", &version).await;

    let want = [
        ("Endpoints", "db", "Service"),
        ("Secret", "token", "ServiceAccount"),
        ("ClusterServiceVersion", "version", "OperatorGroup"),
        ("PersistentVolumeClaim", "data-db-0", "StatefulSet"),
        ("PersistentVolumeClaim", "log-db-11", "StatefulSet"),
    ];
    let find = |tree: &Value, kind: &str, name: &str| {
        let all = nodes(tree).into_iter().cloned();
        let mut found = all.filter(|node| node["kind"] == kind && node["name"] == name);
        found.next().unwrap_or_default()
    };
    let is_whole =
        |tree: &Value| want.iter().all(|(kind, name, _)| find(tree, kind, name).is_object());
    let tree = redis.until(TREE, "whole", is_whole).await;
    for (kind, name, parent) in want {
        let references = find(&tree, kind, name)["parentRefs"].clone();
        let owner = node(&tree, parent);
        let mut expected = json!({
            "group": owner["group"], "version": owner["version"], "kind": parent,
            "namespace": "web", "name": owner["name"], "uid": owner["uid"],
        });
        expected.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(references, json!([expected]), "{kind} {name}");
    }
    for name in ["data-db", "other-db-0", "data-db-0-1"] {
        let found = find(&tree, "PersistentVolumeClaim", name);
        assert_eq!(found, Value::Null, "{name} belongs to nobody");
    }
}

/// CA-308: what controllers create from a resource has the health that a script says, newly so
/// with each version; a script that fails or does not end is Unknown, and holds nothing.
#[cfg(feature = "lua")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_have_the_health_of_scripts_as_ca_308() {
    use super::custom_health::define;

    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let script = "if obj.metadata.name == 'broken' then error('no such field') end\n\
        if obj.metadata.name == 'slow' then while true do end end\n\
        if obj.status == nil then return {status='Progressing', message='no status'} end\n\
        return {status=obj.status.phase, message='version ' .. obj.metadata.resourceVersion}\n";
    let keys = [("resource.customizations.health.example.com_Backup", script)];
    wavegate_sandbox::start_workers_by(env!("CARGO_BIN_EXE_wavegate").into());
    let world =
        World::with(ApplicationSettings { redis: redis.settings(), ..settings(&keys) }).await;
    define(&world, "example.com", "Backup", Value::Null).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    for name in ["own", "broken", "slow"] {
        let object = json!({
            "metadata": {"name": name, "namespace": "web", "ownerReferences": [owner(&map)]},
            "spec": {},
        });
        world.create("example.com/v1", "Backup", &object).await;
    }
    let health = |tree: &Value, name: &str| {
        let mut all = nodes(tree).into_iter().filter(|node| node["name"] == name);
        all.next().map_or(Value::Null, |node| node["health"].clone())
    };
    let said = |status: &str, message: &str| json!({"status": status, "message": message});
    let first = said("Progressing", "no status");
    redis.until(TREE, "with the first health", |tree| health(tree, "own") == first).await;
    let is = |tree: &Value, name: &str, text: &str| {
        let health = health(tree, name);
        let message = health["message"].as_str().unwrap_or_default();
        health["status"] == "Unknown" && message.contains(text)
    };
    let tree = redis.until(TREE, "with the limit", |tree| is(tree, "slow", "1000 ms")).await;
    assert!(is(&tree, "broken", "no such field"), "{tree:#}");
    assert!(world.app("app").await["status"]["health"]["status"] == "Healthy");

    // The one that does not end holds the others of its kind only for its time.
    let api = world.api("example.com/v1", "Backup", "web");
    let patch = Patch::Merge(json!({"status": {"phase": "Healthy"}}));
    let own = api.patch_status("own", &PatchParams::default(), &patch).await.unwrap();
    let version = own.metadata.resource_version.unwrap();
    let newer = said("Healthy", &format!("version {version}"));
    redis.until(TREE, "with the newer health", |tree| health(tree, "own") == newer).await;
    world.rest().await;
}

/// CA-308: the health of a child follows its versions.
#[cfg(feature = "lua")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_health_of_a_child_follows_its_versions_as_ca_308() {
    use super::custom_health::define;

    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let script = "return {status=obj.spec.phase, message='it says ' .. obj.spec.phase}\n";
    let keys = [("resource.customizations.health.example.com_*", script)];
    wavegate_sandbox::start_workers_by(env!("CARGO_BIN_EXE_wavegate").into());
    let world =
        World::with(ApplicationSettings { redis: redis.settings(), ..settings(&keys) }).await;
    define(&world, "example.com", "Backup", Value::Null).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let root = json!({
        "apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "root"},
        "spec": {"phase": "Suspended"},
    });
    world.commit_file("app/root.json", &root.to_string());
    world.create_app(&automated(world.application("app", "app"))).await;
    let exists = |tree: &Value| node(tree, "Backup")["uid"].is_string();
    redis.until(TREE, "there", exists).await;
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    for number in 0..60 {
        let object = json!({
            "metadata": {
                "name": format!("child-{number:02}"), "namespace": "web",
                "ownerReferences": [owner(&map)],
            },
            "spec": {"phase": "Progressing"},
        });
        world.create("example.com/v1", "Backup", &object).await;
    }
    let of = |tree: &Value, status: &str| {
        let has = |node: &&Value| {
            node["kind"] == "Backup"
                && node["health"]
                    == json!({"status": status, "message": format!("it says {status}")})
        };
        nodes(tree).into_iter().filter(has).count()
    };
    let whole = |tree: &Value| of(tree, "Progressing") == 60 && of(tree, "Suspended") == 1;
    redis.until(TREE, "with the health of all", whole).await;
    let api = world.api("example.com/v1", "Backup", "web");
    let patch = Patch::Merge(json!({"spec": {"phase": "Degraded"}}));
    api.patch("child-07", &PatchParams::default(), &patch).await.unwrap();
    redis.until(TREE, "with the new health", |tree| of(tree, "Degraded") == 1).await;
    world.rest().await;
}

/// CA-510: the Secret of a cluster gets the version of Kubernetes as a label, with and without
/// Redis; the label ends no connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_gets_the_version_of_its_cluster_as_ca_510() {
    const LABEL: &str = "argocd.argoproj.io/kubernetes-version";
    let mut settings = ApplicationSettings::default();
    settings.redis.cluster_info_every = Duration::from_millis(200);
    let world = World::with(settings).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let secret = |name: &str, server: &str, auto: &str| {
        json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
                "argocd.argoproj.io/secret-type": "cluster",
                "argocd.argoproj.io/auto-label-cluster-info": auto,
            }},
            "stringData": {"name": name, "server": server},
        })
    };
    let own = "https://kubernetes.default.svc";
    world.create("v1", "Secret", &secret("own", own, "true")).await;
    world.create("v1", "Secret", &secret("away", "https://127.0.0.1:1", "true")).await;
    world.create("v1", "Secret", &secret("silent", "https://127.0.0.1:2", "false")).await;
    world.create_until_good(&automated(world.application("app", "app"))).await;
    let labelled = async |name: &str| {
        world.get("v1", "Secret", NAMESPACE, name).await["metadata"]["labels"][LABEL].clone()
    };
    let began = tokio::time::Instant::now();
    let version = loop {
        if let Some(version) = labelled("own").await.as_str() {
            break version.to_owned();
        }
        assert!(began.elapsed() < LIMIT, "no label");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let parts = version.strip_prefix('v').map(|rest| rest.split('.').count());
    assert_eq!(parts, Some(3), "{version}");
    assert_eq!((labelled("away").await, labelled("silent").await), (Value::Null, Value::Null));

    let lists = || {
        let all = world.server.requests().into_iter();
        all.filter(|request| request.verb == "list" && request.resource == "configmaps").count()
    };
    world.rest().await;
    let before = lists();
    world.refresh("app").await;
    assert_eq!(lists(), before, "the label has not ended the connection");

    // Somebody removes it.
    let api = world.api("v1", "Secret", NAMESPACE);
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}}));
    api.patch("own", &PatchParams::default(), &patch).await.unwrap();
    let began = tokio::time::Instant::now();
    while labelled("own").await != version.as_str() {
        assert!(began.elapsed() < LIMIT, "the label is not back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// CA-121, CA-512: with the component, Pods and Services have the label by which Argo CD's
/// NetworkPolicies and `argocd admin cluster` find its application controller.
#[test]
fn the_component_for_readers_gives_the_label_of_the_controller_as_ca_512() {
    let Some(kustomize) = super::programs::program("kustomize/kustomize") else { return };
    let root = tempfile::tempdir().unwrap();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let copied = Command::new("cp").arg("-r").arg(deploy).arg(root.path()).status().unwrap();
    assert!(copied.success());
    let text = "resources: [deploy]\ncomponents: [deploy/argocd-readers]\n";
    std::fs::write(root.path().join("kustomization.yaml"), text).unwrap();
    let built = Command::new(kustomize).arg("build").arg(root.path()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let text = String::from_utf8(built.stdout).unwrap();
    let all = wavegate_api::yaml::parse_documents(&text).unwrap();
    let of = |kind: &str| {
        let found = all.iter().map(|document| &document.value);
        found.filter(|object| object["kind"] == kind).cloned().collect::<Vec<Value>>()
    };
    let name = json!("argocd-application-controller");
    let [deployment] = of("Deployment").try_into().unwrap();
    let spec = &deployment["spec"];
    for labels in [&spec["selector"]["matchLabels"], &spec["template"]["metadata"]["labels"]] {
        assert_eq!(labels["app.kubernetes.io/name"], name, "{deployment:#}");
    }
    let services = of("Service");
    assert!(!services.is_empty());
    for service in &services {
        assert_eq!(service["spec"]["selector"]["app.kubernetes.io/name"], name, "{service:#}");
    }
    let container = &spec["template"]["spec"]["containers"][0];
    let variables = container["env"].as_array().unwrap();
    let has = |name: &str| variables.iter().any(|variable| variable["name"] == name);
    assert!(has("REDIS_SERVER") && has("REDIS_PASSWORD") && has("POD_NAMESPACE"), "{container:#}");
}
