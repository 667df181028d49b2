//! The details of what Argo CD's API server reads from Redis: nodes, networks, rows (CA-3xx).

use redis::Commands;
use wavegate_application::argocd_cache::RedisSettings;

use super::readers::{MANAGED, TREE, info, node, nodes, state, with_redis};
use super::*;
use crate::redis_server::Redis;

impl World {
    /// Defines a kind of a group, with any fields.
    pub(super) async fn define_kind(&self, group: &str, kind: &str, plural: &str) {
        let definition = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}],
            },
        });
        self.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    }

    /// A world in which no kubelet and no cloud write a status.
    async fn alone(settings: ApplicationSettings) -> Self {
        let options = workloads::WorkloadOptions {
            kubelet: false,
            infrastructure: false,
            ..workloads::WorkloadOptions::default()
        };
        Self::with_workloads(settings, options).await
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
}

/// CA-016, CA-303, CA-304, CA-306, CA-307, CA-322: what a Pod shows, as kubectl does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_in_trouble_is_shown_as_kubectl_shows_it_as_ca_016() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::alone(with_redis(redis.settings())).await;
    let container = |name: &str, image: &str, cpu: &str| json!({"name": name, "image": image, "resources": {"requests": {"cpu": cpu, "memory": "1Ki"}}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {
            "nodeName": "n1",
            "initContainers": [container("first", "example.com/b:1", "50m")],
            "containers": [
                container("main", "example.com/c:1", "100m"),
                container("side", "example.com/a:1", "0"),
                container("twin", "example.com/a:1", "0"),
            ],
        },
    });
    world.commit_file("app/pod.json", &pod.to_string());
    world.create_app(&automated(world.application("app", "app"))).await;
    redis.until(TREE, "there", |tree| node(tree, "Pod")["uid"].is_string()).await;

    let status = |name: &str, count: u64, state: Value| json!({"name": name, "ready": false, "restartCount": count, "state": state, "image": "", "imageID": ""});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let running = json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}});
    let crashing = json!({"status": {
        "phase": "Running",
        "initContainerStatuses": [status("first", 1, json!({"terminated": {"exitCode": 0}}))],
        "containerStatuses": [
            status("main", 2, waiting), status("side", 0, running.clone()), status("twin", 0, running),
        ],
    }});
    let pods = world.api("v1", "Pod", "web");
    let params = PatchParams::default();
    pods.patch_status("one", &params, &Patch::Merge(crashing)).await.unwrap();
    let is_crashing = |tree: &Value| info(node(tree, "Pod"), "Status Reason") == "CrashLoopBackOff";
    let tree = redis.until(TREE, "crashing", is_crashing).await;
    let pod = node(&tree, "Pod");
    let shown: Vec<[&str; 2]> = pod["info"]
        .as_array()
        .unwrap()
        .iter()
        .map(|info| ["name", "value"].map(|field| info[field].as_str().unwrap()))
        .collect();
    let want = [
        ["Status Reason", "CrashLoopBackOff"],
        ["Node", "n1"],
        ["Containers", "0/3"],
        ["Restart Count", "3"],
        ["cpu", "100"],
        ["memory", "3072000"],
    ];
    assert_eq!(shown, want, "CA-322");
    let images = json!(["example.com/a:1", "example.com/b:1", "example.com/c:1"]);
    assert_eq!(pod["images"], images, "CA-307");
    let live = world.get("v1", "Pod", "web", "one").await;
    for (field, own) in
        [("uid", "uid"), ("resourceVersion", "resourceVersion"), ("createdAt", "creationTimestamp")]
    {
        assert_eq!(pod[field], live["metadata"][own], "CA-304: {field}");
    }
    assert!(pod["createdAt"].as_str().unwrap().ends_with('Z'), "{pod}");
    let identity = ["group", "version", "kind", "namespace", "name"].map(|field| &pod[field]);
    let want = [&Value::Null, &json!("v1"), &json!("Pod"), &json!("web"), &json!("one")];
    assert_eq!(identity, want, "CA-303");

    // One that has ended requests nothing any more.
    let ended = json!({"status": {"phase": "Succeeded", "containerStatuses": []}});
    pods.patch_status("one", &params, &Patch::Merge(ended)).await.unwrap();
    let has_ended = |tree: &Value| info(node(tree, "Pod"), "cpu").is_empty();
    redis.until(TREE, "without requests", has_ended).await;
}

/// CA-309, CA-330, CA-331, CA-333, CA-334: how objects are reached, by kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_are_read_by_kind_as_ca_334() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::alone(with_redis(redis.settings())).await;
    let (istio, gateways) = ("networking.istio.io", "gateway.networking.k8s.io");
    world.define_kind(istio, "VirtualService", "virtualservices").await;
    world.define_kind(istio, "ServiceEntry", "serviceentries").await;
    world.define_kind(gateways, "HTTPRoute", "httproutes").await;
    world.define_kind(gateways, "Gateway", "gateways").await;
    let link = |name: &str| format!("link.argocd.argoproj.io/{name}");
    let of = |group: &str, kind: &str, name: &str, spec: Value| {
        let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
    };
    let ports = json!([{"port": 80}]);
    let mut linked = of("", "ConfigMap", "linked", Value::Null);
    linked.as_object_mut().unwrap().remove("spec");
    linked["metadata"]["annotations"] = json!({
        link("a"): "https://a.example.com", link("b"): "Docs|https://b.example.com",
        link("c"): "javascript:alert(1)",
    });
    let destination = |host: &str| json!({"route": [{"destination": {"host": host}}]});
    let objects = [
        linked,
        of(
            "",
            "Service",
            "balanced",
            json!({"type": "LoadBalancer", "selector": {"app": "a"}, "ports": ports}),
        ),
        of("", "Service", "plain", json!({"ports": ports})),
        of(
            istio,
            "VirtualService",
            "v",
            json!({
                "http": [destination("one"), destination("two.other.svc.cluster.local")],
            }),
        ),
        of(istio, "ServiceEntry", "e", json!({"workloadSelector": {"labels": {"app": "vm"}}})),
        of(
            gateways,
            "HTTPRoute",
            "r",
            json!({
                "parentRefs": [{"name": "g"}],
                "rules": [{"backendRefs": [{"name": "one", "port": 80}]}],
            }),
        ),
        of(
            gateways,
            "Gateway",
            "g",
            json!({"listeners": [
                {"name": "tls", "protocol": "HTTPS", "port": 443, "hostname": "shop.example.com"},
                {"name": "any", "protocol": "HTTP", "port": 8080},
            ]}),
        ),
    ];
    for (number, object) in objects.iter().enumerate() {
        world.write(&format!("app/{number}.json"), &object.to_string());
    }
    world.commit();
    world.create_app(&automated(world.application("app", "app"))).await;
    let reached = |tree: &Value, name: &str| {
        let found = nodes(tree).into_iter().find(|node| node["name"] == name);
        found.map_or(Value::Null, |node| node["networkingInfo"]["ingress"].clone())
    };
    let all = |tree: &Value| nodes(tree).iter().filter(|node| node["uid"].is_string()).count() == 7;
    redis.until(TREE, "there", all).await;
    let balancer = json!({"status": {"loadBalancer": {"ingress": [
        {"hostname": "lb.example.com", "ip": "192.0.2.1"}, {"ip": "192.0.2.2"},
    ]}}});
    for name in ["balanced", "plain"] {
        world.patch_status_of(("v1", "Service"), "web", name, balancer.clone()).await;
    }
    let addresses = json!({"status": {"addresses": [
        {"type": "IPAddress", "value": "192.0.2.3"}, {"type": "Hostname", "value": "gw.example.com"},
    ]}});
    let gateway = ("gateway.networking.k8s.io/v1", "Gateway");
    world.patch_object(gateway, "web", "g", addresses).await;
    let is_reached = |tree: &Value| {
        reached(tree, "balanced")[0]["hostname"].is_string() && reached(tree, "g").is_array()
    };
    let tree = redis.until(TREE, "reached", is_reached).await;
    let of = |name: &str| {
        let found = nodes(&tree).into_iter().find(|node| node["name"] == name);
        &found.unwrap()["networkingInfo"]
    };
    let urls = json!(["https://a.example.com", "Docs|https://b.example.com"]);
    assert_eq!(*of("linked"), json!({"externalURLs": urls}), "CA-330");
    assert_eq!(
        *of("balanced"),
        json!({
            "targetLabels": {"app": "a"},
            "ingress": [{"hostname": "lb.example.com"}, {"ip": "192.0.2.2"}],
        }),
        "CA-331"
    );
    assert_eq!(*of("plain"), json!({}), "CA-309");
    let service = |name: &str, namespace: &str| json!({"kind": "Service", "namespace": namespace, "name": name});
    let targets = json!([service("two", "other"), service("one", "web")]);
    assert_eq!(*of("v"), json!({"targetRefs": targets}), "CA-333");
    let entry = json!({"targetLabels": {"app": "vm"}, "targetRefs": [{"kind": "Pod"}]});
    assert_eq!(*of("e"), entry, "CA-333");
    let mut gateway =
        json!({"group": gateways, "kind": "Gateway", "namespace": "web", "name": "g"});
    let targets = json!([service("one", "web"), gateway.take()]);
    assert_eq!(*of("r"), json!({"targetRefs": targets}), "CA-334");
    assert_eq!(
        *of("g"),
        json!({
            "ingress": [{"ip": "192.0.2.3"}, {"hostname": "gw.example.com"}],
            "externalURLs": [
                "https://shop.example.com", "http://192.0.2.3:8080", "http://gw.example.com:8080",
            ],
        }),
        "CA-334"
    );
}

/// CA-302, CA-310, CA-320, CA-323: Applications in the tree of their parent, objects below objects,
/// and nodes in order. CA-516: one that is skipped has no keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_are_in_the_tree_in_order_as_ca_310() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with_pods(with_redis(redis.settings())).await;
    world.write("child/one.json", &config_map("one", "1", &[]));
    let mut child = automated(world.application("child", "child"));
    child["apiVersion"] = "argoproj.io/v1alpha1".into();
    child["kind"] = "Application".into();
    let url = "https://argocd.example.com";
    child["metadata"]["annotations"] = json!({"argocd.argoproj.io/managed-by-url": url});
    world.write("app/child.json", &child.to_string());
    world.commit_file("app/web.json", &deployment("web", &[]));
    let more = json!({"metadata": {"annotations": {"argocd.argoproj.io/skip-reconcile": "true"}}});
    world.create_with("skipped", "child", more).await;
    world.create_app(&automated(world.application("app", "app"))).await;
    let is_whole = |tree: &Value| {
        info(node(tree, "Pod"), "Status Reason") == "Running" && nodes(tree).len() == 4
    };
    let tree = redis.until(TREE, "whole", is_whole).await;
    let kinds: Vec<&str> = nodes(&tree).iter().map(|node| node["kind"].as_str().unwrap()).collect();
    // Of the core group first, then by group.
    assert_eq!(kinds, ["Pod", "Deployment", "ReplicaSet", "Application"], "CA-302");
    let application = node(&tree, "Application");
    let managed = json!([{"name": "managed-by-url", "value": url}]);
    assert_eq!(application["info"], managed, "CA-323");
    assert_eq!(application["namespace"], NAMESPACE);
    assert_eq!(info(node(&tree, "Deployment"), "Revision"), "Rev:1", "CA-320");
    assert_eq!(info(node(&tree, "Pod"), "Revision"), "", "CA-320");
    for key in [TREE, MANAGED].map(|key| key.replace("|app|1.8.3", "|skipped|1.8.3")) {
        assert_eq!(redis.bytes(&key), None, "CA-516: {key}");
    }
}

/// CA-340 to CA-351: the states of managed resources, whatever was in Redis before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_resources_can_be_read_as_ca_340() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with(with_redis(redis.settings())).await;
    world.write("app/a.json", &config_map("a", "1", &[]));
    world.write("app/b.json", &config_map("b", "1", &[]));
    world.commit_file("app/hook.json", &config_map("hook", "1", &[(HOOK, "PostSync")]));
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] =
        json!([{"kind": "ConfigMap", "name": "a", "jsonPointers": ["/data/value"]}]);
    world.create_app(&app).await;
    // The hook does not exist yet, and has no row (CA-349).
    let rows = redis.until(MANAGED, "there", |rows| rows.is_array()).await;
    assert_eq!(names(&rows), ["a", "b"], "CA-340");
    world.sync_until_good("app", json!({})).await;
    for name in ["a", "b"] {
        world.patch_map(name, json!({"data": {"value": "drifted"}})).await;
    }
    let of = |rows: &Value, name: &str| {
        let all = rows.as_array().into_iter().flatten();
        all.cloned().into_iter().find(|row| row["name"] == name).unwrap_or_default()
    };
    let is_modified = |rows: &Value| of(rows, "b")["modified"] == true;
    let rows = redis.until(MANAGED, "modified", is_modified).await;
    let (ignored, drifted) = (of(&rows, "a"), of(&rows, "b"));
    let live = world.get("v1", "ConfigMap", "web", "b").await;
    assert_eq!(drifted["resourceVersion"], live["metadata"]["resourceVersion"], "CA-346");
    assert_eq!((&drifted["kind"], &drifted["namespace"]), (&json!("ConfigMap"), &json!("web")));
    assert_eq!((&drifted["group"], &drifted["version"]), (&Value::Null, &Value::Null), "CA-341");
    let of_state = |row: &Value, field: &str| state(row, field)["data"]["value"].clone();
    assert_eq!(of_state(&drifted, "targetState"), "1", "CA-342");
    assert!(
        state(&drifted, "targetState")["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"]
            .is_string(),
        "CA-342: with the tracking metadata"
    );
    assert_eq!(of_state(&drifted, "liveState"), "drifted", "CA-343");
    assert_eq!(of_state(&drifted, "normalizedLiveState"), "drifted", "CA-344");
    assert_eq!(of_state(&drifted, "predictedLiveState"), "1", "CA-345");
    assert_eq!(ignored["modified"], Value::Null, "CA-347: {ignored:#}");
    assert_eq!(of_state(&ignored, "liveState"), "drifted", "CA-343: not normalized");
    let [normalized, predicted] =
        ["normalizedLiveState", "predictedLiveState"].map(|field| state(&ignored, field));
    assert_eq!(normalized["data"], predicted["data"], "CA-344");
    assert_ne!(normalized["data"]["value"], "1", "CA-344");

    // Nothing is decided by what is in Redis, and it is replaced.
    let forged = json!([{"kind": "ConfigMap", "namespace": "web", "name": "b",
        "resourceVersion": drifted["resourceVersion"], "targetState": "null", "liveState": "null",
        "normalizedLiveState": "null", "predictedLiveState": "null"}]);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, forged.to_string().as_bytes()).unwrap();
    let mut connection = redis.client().get_connection().unwrap();
    let _: () = connection.set(MANAGED, encoder.finish().unwrap()).unwrap();
    world.refresh("app").await;
    redis.until(MANAGED, "replaced", is_modified).await;
    let app = world.app("app").await;
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync", "CA-351");
}

/// CA-030, CA-212, CA-403, CA-501: a reader that misses a key asks for a refresh, and finds the keys
/// when its request is gone; also when Redis is slow. CA-502: what the API server sets for a hydrator
/// that is not there holds up nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_are_there_before_a_request_is_gone_as_ca_403() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with(with_redis(redis.settings())).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    let annotation = |name: &str| format!("argocd.argoproj.io/{name}");
    let request = ["refresh", "refresh-timestamp"].map(annotation);
    let time = "2026-01-02T03:04:05Z";
    let asked = json!({"metadata": {"annotations": {
        &request[0]: "normal", &request[1]: time,
        annotation("hydrate"): "normal", annotation("hydrate-timestamp"): time,
    }}});
    for refused in [false, true] {
        if refused {
            world.patch("app", json!({"spec": {"project": "unknown"}})).await;
            redis.until(TREE, "empty", |tree| *tree == json!({})).await;
        }
        let mut client = redis.client();
        redis::cmd("FLUSHALL").exec(&mut client).unwrap();
        // Otherwise a request that is removed too early is rarely seen.
        redis::cmd("CLIENT").arg("PAUSE").arg(300).arg("WRITE").exec(&mut client).unwrap();
        world.patch("app", asked.clone()).await;
        let is_gone = |app: &Value| {
            request.iter().all(|name| app["metadata"]["annotations"][name.as_str()].is_null())
        };
        world.until("app", "answered", is_gone).await;
        assert!(redis.bytes(TREE).is_some(), "CA-403: refused: {refused}");
        // Of a refused spec the rows are deleted (CA-211 c).
        assert_eq!(redis.bytes(MANAGED).is_some(), !refused, "CA-212: refused: {refused}");
    }
    world.rest().await;
}

/// CA-008, CA-214: what is written already is not written again, and is announced all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_values_are_announced_and_not_written_again_as_ca_214() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    // The information about clusters is always written (CA-213).
    let settings =
        RedisSettings { cluster_info_every: Duration::from_secs(3600), ..redis.settings() };
    let world = World::with(with_redis(settings)).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    redis.until(MANAGED, "there", |rows| !rows.is_null()).await;
    world.rest().await;
    let set = redis.calls("set");
    for limit in 5..8 {
        let published = redis.calls("publish");
        // A change of the spec that changes no resource: a comparison follows.
        world.patch("app", json!({"spec": {"revisionHistoryLimit": limit}})).await;
        redis.until_called("publish", published).await;
    }
    assert_eq!(redis.calls("set"), set, "CA-008");
}

/// CA-029, CA-503, CA-505: what the readers of an operation expect of its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_an_operation_is_one_write_as_ca_503() {
    let (world, _) = World::with_app().await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    let first = api.get("app").await.unwrap().metadata.resource_version.unwrap();
    let params = kube::api::WatchParams::default().fields("metadata.name=app");
    let mut events = std::pin::pin!(api.watch(&params, &first).await.unwrap());
    // As the API server requests it: in one update.
    let request = json!({"operation": {"sync": {}}, "status": {"operationState": null}});
    world.patch("app", request).await;
    let is_compared = |app: &Value| {
        let time = |value: &Value| value.as_str()?.parse::<jiff::Timestamp>().ok();
        let finished = time(&app["status"]["operationState"]["finishedAt"]);
        let reconciled = time(&app["status"]["reconciledAt"]);
        finished.is_some() && reconciled >= finished && is(app, "Synced", "Healthy")
    };
    let mut versions = Vec::new();
    let until_compared = async {
        while !versions.last().is_some_and(is_compared) {
            let event = futures::StreamExt::next(&mut events).await.expect("the watch goes on");
            if let kube::api::WatchEvent::Modified(app) = event.unwrap() {
                versions.push(serde_json::to_value(app).unwrap());
            }
        }
    };
    let compared = tokio::time::timeout(LIMIT, until_compared).await;
    compared.expect("CA-505: it is compared after its operation");
    let is_final = |app: &&Value| {
        ["Succeeded", "Failed", "Error"]
            .contains(&app["status"]["operationState"]["phase"].as_str().unwrap_or_default())
    };
    let is_running = |app: &&Value| app["status"]["operationState"]["phase"] == "Running";
    assert!(versions.iter().any(|app| is_running(&app)), "CA-503: it can be terminated");
    let end = versions.iter().find(is_final).expect("the end was seen");
    assert_eq!(end["operation"], Value::Null, "CA-029: in the same write");
    assert!(end["status"]["operationState"]["finishedAt"].is_string(), "CA-029");
    let before = versions.iter().take_while(|app| !is_final(app));
    let requested = before.filter(|app| is_running(app));
    assert!(requested.clone().all(|app| app["operation"].is_object()), "CA-503: until the end");
    assert_eq!(end["status"]["controllerNamespace"], NAMESPACE, "CA-507");
}
