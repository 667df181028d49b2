//! `tree`: the resources of an Application down to Pods.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault, RequestRecord};

use super::embedded::Cluster;
use super::*;
use crate::support::manifests::IN_CLUSTER;

/// Creates an object in the namespace `shop`, with its status, below an owner. Returns its
/// reference.
async fn create(cluster: &Cluster, kind: &ApiResource, mut object: Value, owner: &Value) -> Value {
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "shop", kind);
    object["apiVersion"] = kind.api_version.clone().into();
    object["kind"] = kind.kind.clone().into();
    if owner.is_object() {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    let status = object.as_object_mut().unwrap().remove("status");
    let created: DynamicObject = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &created).await.unwrap();
    let name = created.metadata.name.unwrap();
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }
    json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": created.metadata.uid, "controller": true})
}

fn replica_set() -> ApiResource {
    kind_of("apps", "ReplicaSet")
}

fn pod() -> ApiResource {
    kind_of("", "Pod")
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "example.invalid/main:1"}]}})
}

fn workload(name: &str, replicas: u32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}})
}

fn running(name: &str) -> Value {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let containers = json!([{"name": "main", "ready": true, "state": {"running": {}}}]);
    json!({"metadata": {"name": name}, "spec": {"restartPolicy": "Always", "containers": [{"name": "main", "image": "a"}]}, "status": {"phase": "Running", "conditions": ready, "containerStatuses": containers}})
}

fn failing(name: &str) -> Value {
    let mut pod = running(name);
    let waiting =
        json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such \u{1b}[31mimage"}});
    pod["status"] = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false, "state": waiting}]});
    pod
}

/// A namespace with a Deployment, its two ReplicaSets, and Pods of the newer one.
async fn workloads(cluster: &Cluster, healthy: usize) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let deployment = kind_of("apps", "Deployment");
    let web = create(cluster, &deployment, workload("web", 3), &Value::Null).await;
    create(cluster, &replica_set(), workload("web-old", 0), &web).await;
    let new = create(cluster, &replica_set(), workload("web-new", 3), &web).await;
    create(cluster, &pod(), failing("web-new-x"), &new).await;
    for number in 0..healthy {
        create(cluster, &pod(), running(&format!("web-new-{number:04}")), &new).await;
    }
    // Of no owner.
    create(cluster, &pod(), running("alone"), &Value::Null).await;
}

fn application(destination: &Value) -> Value {
    let web = json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web", "status": "Synced", "syncWave": 2, "health": {"status": "Degraded", "message": "image pull failed"}});
    let old = json!({"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "old", "status": "OutOfSync", "requiresPruning": true});
    let hook = json!({"group": "batch", "version": "v1", "kind": "Job", "namespace": "shop", "name": "migrate", "hookType": "PreSync", "hookPhase": "Succeeded", "status": "", "message": "done"});
    let status = json!({
        "sync": {"status": "OutOfSync", "revision": "0123456789012345678901234567890123456789"},
        "health": {"status": "Degraded"},
        "controllerNamespace": "argocd",
        "resources": [old, web],
        "operationState": {"phase": "Succeeded", "startedAt": "2026-01-02T03:04:05Z", "operation": {}, "syncResult": {"revision": "0", "resources": [hook]}},
    });
    let spec = json!({"project": "default", "destination": destination, "source": {"repoURL": "https://r"}});
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"}, "spec": spec, "status": status})
}

fn here() -> Value {
    json!({"server": IN_CLUSTER, "namespace": "shop"})
}

/// The table without ages.
fn without_ages(text: &str) -> String {
    let age = regex::Regex::new(r" \d+s( |$)").unwrap();
    text.lines().map(|line| age.replace_all(line, " AGE$1").trim_end().to_owned() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_reaches_down_to_pods() {
    let cluster = Cluster::start().await;
    workloads(&cluster, 2).await;
    cluster.create("Application", application(&here())).await;
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!((tree.code, tree.err.as_str()), (0, ""));
    let lines: Vec<String> = without_ages(&tree.out)
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let want = [
        "Application argocd/shop: OutOfSync, Degraded; project default, destination in-cluster/shop, revision 0123456",
        "Waits for: Deployment shop/web is Degraded: image pull failed",
        "",
        "NAME SYNC HEALTH WAVE HOOK AGE MESSAGE",
        "Application/shop OutOfSync Degraded - - AGE",
        "├─ Job/migrate Succeeded - 0 PreSync -",
        "├─ ConfigMap/old OutOfSync Missing 0 - - not in the source, would be pruned",
        "└─ Deployment/web Synced Degraded 2 - AGE image pull failed",
        "├─ ReplicaSet/web-new - Progressing 0 - AGE",
        "│ ├─ Pod/web-new-0000 - Healthy 0 - AGE",
        "│ ├─ Pod/web-new-0001 - Healthy 0 - AGE",
        "│ └─ Pod/web-new-x - Degraded 0 - AGE no such \\u{1b}[31mimage",
        "└─ … 1 former ReplicaSet",
    ];
    for (index, want) in want.iter().enumerate() {
        let got = lines.get(index).map(String::as_str).unwrap_or_default();
        assert!(got.starts_with(want), "line {index}: {got:?}, not {want:?}\n{}", tree.out);
    }
    assert_eq!(lines.len(), want.len(), "{}", tree.out);
    let all = cluster.run(&["tree", "shop", "--all"]).await;
    assert!(all.out.contains("ReplicaSet/web-old"), "{}", all.out);

    let json = cluster.run(&["tree", "shop", "-o", "json"]).await.json();
    let web = &json["resources"][2];
    assert_eq!(
        (&web["name"], &web["wave"], &web["sync"]),
        (&json!("web"), &json!(2), &json!("Synced"))
    );
    let names = |children: &Value| -> Vec<String> {
        let all = children.as_array().unwrap().iter();
        all.map(|child| child["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&web["children"]), ["web-new", "web-old"]);
    assert_eq!(
        names(&web["children"][0]["children"]),
        ["web-new-0000", "web-new-0001", "web-new-x"]
    );
    assert_eq!(json["resources"][1]["missing"], true);
    assert_eq!(json["waitsFor"], "Deployment shop/web is Degraded: image pull failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_folded_and_read_with_few_requests() {
    let cluster = Cluster::start().await;
    workloads(&cluster, 1000).await;
    cluster.create("Application", application(&here())).await;
    let before = cluster.server.requests().len();
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!((tree.code, tree.err.as_str()), (0, ""));
    let requests = cluster.server.requests().split_off(before);
    let of_pods = requests.iter().filter(|request| request.resource == "pods").count();
    // Three pages of metadata and three of content.
    assert_eq!(of_pods, 6, "{requests:?}");
    let lines: Vec<&str> = tree.out.lines().collect();
    let position = |part: &str| lines.iter().position(|line| line.contains(part));
    assert!(position("Pod/web-new-x") < position("Pod/web-new-0000"), "{}", tree.out);
    assert!(tree.out.contains("… 991 more Pods, all Healthy"), "{}", tree.out);
    assert_eq!(lines.len(), 21, "{}", tree.out);
    let json = cluster.run(&["tree", "shop", "-o", "json"]).await.json();
    let pods = &json["resources"][2]["children"][0]["children"];
    assert_eq!(pods.as_array().unwrap().len(), 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_is_noted_once() {
    let cluster = Cluster::start().await;
    workloads(&cluster, 2).await;
    cluster.create("Application", application(&here())).await;
    let forbidden = |request: &RequestRecord| {
        matches!(request.resource.as_str(), "pods" | "configmaps") && request.client != "test"
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(100));
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!(tree.code, 0, "{}", tree.err);
    assert_eq!(tree.err.lines().count(), 2, "{}", tree.err);
    assert!(tree.err.contains("note: health scripts are not run"), "{}", tree.err);
    says(&tree.err, "note: not shown: configmaps, pods in namespace shop: ");
    assert!(tree.out.contains("ReplicaSet/web-new") && !tree.out.contains("Pod/"), "{}", tree.out);
    assert!(!tree.out.contains("Missing"), "a failed read is no absence: {}", tree.out);
    // Nothing but the Application can be read.
    let all =
        |request: &RequestRecord| request.resource != "applications" && request.client != "test";
    cluster.server.inject(InjectedFault::new(Effect::Status(403), all).times(100));
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!(tree.code, 0, "{}", tree.err);
    assert!(tree.out.contains("└─ Deployment/web"), "{}", tree.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_another_cluster_are_read_with_its_secret() {
    let (cluster, other) = (Cluster::start().await, Cluster::start().await);
    workloads(&other, 1).await;
    let kubeconfig = std::fs::read_to_string(other.kubeconfig()).unwrap();
    let server = kubeconfig.split("server: ").nth(1).unwrap().split_whitespace().next().unwrap();
    cluster.knows("default", server).await;
    cluster.create("Application", application(&json!({"name": "one", "namespace": "shop"}))).await;
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!((tree.code, tree.err.as_str()), (0, ""));
    assert!(tree.out.contains("destination one/shop"), "{}", tree.out);
    assert!(tree.out.contains("Pod/web-new-0000"), "{}", tree.out);

    // Without the Secrets: the status alone, and the reason.
    let secrets = |request: &RequestRecord| request.resource == "secrets";
    cluster.server.inject(InjectedFault::new(Effect::Status(403), secrets).times(100));
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!(tree.code, 0, "{}", tree.err);
    says(&tree.err, "note: only the status is shown, since live objects cannot be read: ");
    says(&tree.err, "Secrets of clusters and repositories in namespace argocd");
    assert!(tree.out.contains("└─ Deployment/web"), "{}", tree.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_without_a_status_has_no_resources() {
    let cluster = Cluster::start().await;
    let mut fresh = application(&here());
    fresh.as_object_mut().unwrap().remove("status");
    cluster.create("Application", fresh).await;
    let tree = cluster.run(&["tree", "shop"]).await;
    let want = "\
Application argocd/shop: not compared yet; project default, destination in-cluster/shop

It was not compared yet: no resources are known.
";
    assert_eq!((tree.code, tree.out.as_str(), tree.err.as_str()), (0, want, ""));
    let ran = cluster.run(&["tree", "nobody"]).await;
    ran.fails(2, &["error: cannot find: Application argocd/nobody"]);
    cluster.run(&["tree", "pod/a"]).await.fails(2, &["pod/a: the kind before the / is none of"]);
    assert_eq!(cluster.run(&["tree", "app/shop"]).await.code, 0);
    let mut fleet: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    fleet["metadata"]["namespace"] = "argocd".into();
    cluster.create("ApplicationSet", fleet).await;
    let ran = cluster.run(&["tree", "set"]).await;
    ran.fails(2, &["set: is an ApplicationSet; wavegate status set"]);
}

/// On a real API server, with the ReplicaSets and Pods of its own controllers.
mod cluster {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::support::cluster::KUBECONFIG;
    use crate::support::manifests::{self, set, with_deployment};
    use crate::support::{Kind, Setup, World};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_deployment_is_shown_down_to_its_pods() {
        let Some(mut world) = World::cluster("tree").await else { return };
        let kubeconfig = std::env::var_os(KUBECONFIG).unwrap();
        world.repository.commit("first", &with_deployment("web", "v1", "succeed"));
        let strategy = manifests::rolling(&[("dev", Value::Null)]);
        world
            .create(Kind::ApplicationSet, set(&world, "fleet", &[("web", "dev")], &strategy))
            .await;
        world.start(&Setup::default()).await;
        let name = world.tagged("web");
        let namespace = world.namespace.clone();
        let run = async |args: &[&str]| run(&kubeconfig, args).await;
        let begin = Instant::now();
        let tree = loop {
            let tree = run(&["tree", &name, "-n", &namespace, "-o", "json"]).await;
            let pods = |tree: &Value| tree.pointer("/resources/0/children/0/children/0").is_some();
            if tree.code == 0 && pods(&tree.json()) {
                break tree.json();
            }
            assert!(begin.elapsed() < Duration::from_secs(300), "{}{}", tree.out, tree.err);
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let kinds =
            ["/resources/0", "/resources/0/children/0", "/resources/0/children/0/children/0"];
        let kinds = kinds.map(|pointer| tree.pointer(pointer).unwrap()["kind"].clone());
        assert_eq!(kinds, ["Deployment", "ReplicaSet", "Pod"].map(Value::from));
        world
            .until("the rollout", |log| {
                let done = |app: &Value| app["status"]["sync"]["status"] == "Synced";
                log.get(Kind::Application, "web").is_some_and(|app| done(app)).then_some(())
            })
            .await;
        let diff =
            run(&["diff", &name, "-n", &namespace, "--control-plane-namespace", &namespace]).await;
        assert_eq!((diff.code, diff.err.as_str()), (0, ""), "{}", diff.out);
        world.finish().await;
    }

    async fn run(kubeconfig: impl AsRef<Path>, args: &[&str]) -> Run {
        let mut command = program(args);
        command.env("KUBECONFIG", kubeconfig.as_ref());
        tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap()
    }
}

/// SE-480: what the resources own is assessed by the scripts of the control plane.
#[cfg(feature = "lua")]
#[tokio::test(flavor = "multi_thread")]
async fn the_tree_assesses_by_scripts() {
    let cluster = Cluster::start().await;
    workloads(&cluster, 1).await;
    cluster.create("Application", application(&here())).await;
    let script = "return {status = 'Suspended', message = 'by script ' .. obj.metadata.name}";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
        "data": {"resource.customizations.health.Pod": script},
    });
    cluster.create_map(map).await;
    let tree = cluster.run(&["tree", "shop"]).await;
    assert_eq!((tree.code, tree.err.as_str()), (0, ""));
    let pods = tree.out.lines().filter(|line| line.contains("Pod/"));
    let pods: Vec<&str> = pods.collect();
    assert_eq!(pods.len(), 2, "{}", tree.out);
    for pod in pods {
        assert!(pod.contains("Suspended") && pod.contains("by script web-new-"), "{pod}");
    }
}
