//! What Argo CD's API server reads from Redis, in a real one (CA-…).

use std::sync::Mutex;

use futures::StreamExt;
use redis::Commands;
use wavegate_application::argocd_cache::{
    ReaderSettings, RedisCredentials, RedisSettings, RedisTls, ShownLabels,
};

use super::*;
use crate::redis_server::{Certificates, Redis, free_port, sentinel};

pub(super) const TREE: &str = "app|resources-tree|app|1.8.3.gz";
pub(super) const MANAGED: &str = "app|managed-resources|app|1.8.3.gz";
const CHANNEL: &str = "app|managed-resources|app|1.8.3";
const REFRESH: &str = "argocd.argoproj.io/refresh";

pub(super) fn with_redis(redis: RedisSettings) -> ApplicationSettings {
    ApplicationSettings { redis, ..ApplicationSettings::default() }
}

pub(super) fn nodes(tree: &Value) -> Vec<&Value> {
    tree["nodes"].as_array().into_iter().flatten().collect()
}

pub(super) fn node<'a>(tree: &'a Value, kind: &str) -> &'a Value {
    nodes(tree).into_iter().find(|node| node["kind"] == kind).unwrap_or(&Value::Null)
}

pub(super) fn info<'a>(node: &'a Value, name: &str) -> &'a str {
    let all = node["info"].as_array().into_iter().flatten();
    let mut found = all.filter(|info| info["name"] == name);
    found.next().map_or("", |info| info["value"].as_str().unwrap_or("<none>"))
}

pub(super) fn row<'a>(rows: &'a Value, kind: &str) -> &'a Value {
    let mut all = rows.as_array().into_iter().flatten();
    all.find(|row| row["kind"] == kind).unwrap_or(&Value::Null)
}

pub(super) fn state(row: &Value, field: &str) -> Value {
    serde_json::from_str(row[field].as_str().unwrap()).unwrap()
}

/// CA-001, CA-004, CA-005, CA-015, CA-019 and CA-020: a Deployment, an Ingress and a Secret; with
/// the keys, the channel and the encoding of CA-203, CA-205, CA-208 and CA-209, the lists and
/// parents of CA-301 and CA-305, the Ingress of CA-332 and the masks of CA-350.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_can_be_read_as_ca_001() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let masked = "example.com/token";
    let readers = ReaderSettings {
        labels: ShownLabels { custom: vec!["team".to_owned()], ..ShownLabels::default() },
        masked_annotations: vec![masked.to_owned()],
    };
    let settings = ApplicationSettings { readers, ..with_redis(redis.settings()) };
    let world = World::with_pods(settings).await;
    let mut channel = redis.client().get_async_pubsub().await.unwrap();
    channel.subscribe(CHANNEL).await.unwrap();
    world.write("app/web.json", &deployment("web", &[]));
    let secret = |value: &str| {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
            "stringData": {"password": value},
        });
        secret["metadata"]["annotations"] = json!({masked: "annotated-value"});
        secret["metadata"]["labels"] = json!({"team": "blue"});
        secret.to_string()
    };
    world.write("app/key.json", &secret("first-value"));
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {
            "tls": [{"secretName": "key", "hosts": ["shop.example.com"]}],
            "rules": [{"host": "shop.example.com", "http": {"paths": [{
                "path": "/cart*", "pathType": "Prefix",
                "backend": {"service": {"name": "web", "port": {"number": 80}}},
            }]}}],
        },
    });
    world.commit_file("app/ingress.json", &ingress.to_string());
    let app = world.create_until_good(&automated(world.application("app", "app"))).await;

    let is_whole = |tree: &Value| info(node(tree, "Pod"), "Status Reason") == "Running";
    let tree = redis.until(TREE, "whole", is_whole).await;
    let (deployment, set, pod) =
        (node(&tree, "Deployment"), node(&tree, "ReplicaSet"), node(&tree, "Pod"));
    assert_eq!(set["parentRefs"][0]["uid"], deployment["uid"]);
    assert_eq!(pod["parentRefs"][0]["uid"], set["uid"]);
    let parent = json!([{
        "group": "apps", "version": "v1", "kind": "ReplicaSet", "namespace": "web",
        "name": set["name"], "uid": set["uid"],
    }]);
    assert_eq!(pod["parentRefs"], parent, "CA-305");
    assert_eq!(deployment["parentRefs"], Value::Null);
    assert_eq!((info(deployment, "Revision"), info(set, "Revision")), ("Rev:1", "Rev:1"));
    assert_eq!((info(pod, "Containers"), info(pod, "cpu")), ("1/1", "0"));
    assert_eq!(pod["images"], json!(["example.com/app:1"]));
    assert_eq!(pod["networkingInfo"]["labels"]["app"], "web");
    assert_eq!(
        (&deployment["health"]["status"], &deployment["version"]),
        (&json!("Healthy"), &json!("v1"))
    );
    assert!(tree["shardsCount"].is_null(), "CA-007");
    assert_eq!(info(node(&tree, "Secret"), "team"), "blue", "CA-321");
    let urls = json!(["https://shop.example.com/cart"]);
    let network = &node(&tree, "Ingress")["networkingInfo"];
    assert_eq!(network["externalURLs"], urls);
    assert_eq!(
        network["targetRefs"],
        json!([{"kind": "Service", "namespace": "web", "name": "web"}])
    );
    assert_eq!(app["status"]["summary"]["externalURLs"], urls);
    let places: Vec<String> = nodes(&tree)
        .iter()
        .map(|node| {
            let part = |field: &str| node[field].as_str().unwrap_or_default();
            ["group", "kind", "namespace", "name"].map(part).join("/")
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");

    let seconds: i64 = redis.client().get_connection().unwrap().ttl(TREE).unwrap();
    assert!((1..=3600).contains(&seconds), "{seconds}");
    let message = tokio::time::timeout(LIMIT, channel.on_message().next()).await.unwrap().unwrap();
    assert_eq!(message.get_payload_bytes(), b"");

    // The value is changed in Git only: neither state shows it.
    world.commit_file("app/key.json", &secret("second-value"));
    world.patch("app", json!({"spec": {"syncPolicy": null}})).await;
    world.refresh("app").await;
    // The controller waits for Redis for a time only.
    let is_modified = |rows: &Value| row(rows, "Secret")["modified"] == true;
    let rows = redis.until(MANAGED, "modified", is_modified).await;
    let row = row(&rows, "Secret");
    assert_eq!(row["modified"], true, "{row:#}");
    let [target, live] = ["targetState", "liveState"].map(|field| state(row, field));
    assert_eq!(target["data"]["password"], "++++++++");
    assert_eq!(live["data"]["password"], "++++++++++++");
    let [before, after] = ["normalizedLiveState", "predictedLiveState"].map(|f| state(row, f));
    assert_eq!(before["data"]["password"], "++++++++++++");
    assert_eq!(after["data"]["password"], "++++++++");
    let all = [redis.value(TREE).to_string(), rows.to_string()].concat();
    for value in ["first-value", "Zmlyc3QtdmFsdWU", "second-value", "annotated-value"] {
        assert!(!all.contains(value), "{value} is shown");
    }
    assert_eq!(app["status"]["resourceHealthSource"], Value::Null, "CA-025");
}

/// CA-003, CA-006, CA-007, CA-017, CA-018, CA-024, CA-028, CA-210: keys, shards, and what is not
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_extra_or_refused_can_be_read_as_ca_017() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let settings = RedisSettings {
        is_gzip: false,
        prefix: "p:".to_owned(),
        shard_size: 1,
        ..redis.settings()
    };
    let world = World::with(with_redis(settings)).await;
    let [tree, second, managed] = [
        "p:app|resources-tree|app|1.8.3",
        "p:app|resources-tree|app|1|1.8.3",
        "p:app|managed-resources|app|1.8.3",
    ];
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &config_map("two", "2", &[]));
    world.create_app(&world.application("app", "app")).await;
    let first = redis.until(tree, "there", |tree| tree["shardsCount"] == 2).await;
    let node = &first["nodes"][0];
    assert_eq!((nodes(&first).len(), &node["name"]), (1, &json!("one")));
    assert_eq!(node["health"]["status"], "Missing");
    for field in ["uid", "resourceVersion", "createdAt"] {
        assert_eq!(node[field], Value::Null);
    }
    let other = redis.until(second, "there", |shard| !shard.is_null()).await;
    assert_eq!((&other["nodes"][0]["name"], &other["shardsCount"]), (&json!("two"), &Value::Null));
    // Written after the tree (CA-211 a).
    let rows = redis.until(managed, "there", |rows| !rows.is_null()).await;
    let row = &rows[0];
    assert_eq!((&row["liveState"], &row["normalizedLiveState"]), (&json!("null"), &json!("null")));
    assert_eq!((&row["predictedLiveState"], &row["modified"]), (&row["targetState"], &json!(true)));
    assert_eq!(state(row, "targetState")["data"]["value"], "1");

    world.sync_until_good("app", json!({})).await;
    world.remove("app/two.json");
    world.commit();
    world.refresh("app").await;
    let is_extra = |rows: &Value| rows[1]["targetState"] == "null";
    let rows = redis.until(managed, "without a target", is_extra).await;
    let row = &rows[1];
    assert_eq!((&row["name"], &row["modified"]), (&json!("two"), &Value::Null));
    assert_eq!((&row["targetState"], &row["predictedLiveState"]), (&json!("null"), &json!("null")));
    assert_eq!(row["normalizedLiveState"], row["liveState"]);

    world.patch("app", json!({"spec": {"project": "unknown"}})).await;
    redis.until(tree, "empty", |tree| *tree == json!({})).await;
    redis.until(managed, "gone", Value::is_null).await;
    world.patch("app", json!({"spec": {"project": "default"}})).await;
    redis.until(tree, "back", |tree| tree["shardsCount"] == 2).await;

    let mut connection = redis.client().get_connection().unwrap();
    let _: () = connection.set("repo|kept", "1").unwrap();
    world.delete_app("app").await;
    for key in [tree, second, managed] {
        redis.until(key, "gone", Value::is_null).await;
    }
    assert_eq!(redis.value("repo|kept"), 1);
}

/// CA-009, CA-010, CA-011 and CA-215: Redis is away, comes back empty, and nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_is_away_holds_nothing_up_as_ca_010() {
    let Some(mut redis) = Redis::start(&[""; 0]) else { return };
    redis.stop();
    let world = World::with(with_redis(redis.settings())).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    world.refresh("app").await;
    redis.again();
    redis.until(TREE, "there", |tree| node(tree, "ConfigMap")["uid"].is_string()).await;
    redis.until(MANAGED, "there", |rows| !rows.is_null()).await;

    redis::cmd("FLUSHALL").exec(&mut redis.client()).unwrap();
    world.patch("app", json!({"metadata": {"annotations": {REFRESH: "normal"}}})).await;
    world.until("app", "refreshed", |app| app["metadata"]["annotations"][REFRESH].is_null()).await;
    for key in [TREE, MANAGED] {
        redis.until(key, "there again", |value| !value.is_null()).await;
    }

    world.rest().await;
    let (set, published) = (redis.calls("set"), redis.calls("publish"));
    // A change that no value shows.
    let annotation = json!({"metadata": {"annotations": {"example.com/changed": "1"}}});
    world.patch("app", annotation.clone()).await;
    let api = world.api("v1", "ConfigMap", "web");
    let params = PatchParams::default();
    api.patch("one", &params, &Patch::Merge(json!({"data": {"value": "2"}}))).await.unwrap();
    redis.until(MANAGED, "changed", |rows| rows[0]["modified"] == true).await;
    assert!(redis.calls("set") > set);
    // It follows the value.
    redis.until_called("publish", published).await;
}

/// CA-012 and CA-026 to CA-027: a password, and the information about clusters, of the fields and
/// at the times of CA-207, CA-213, CA-360, CA-361, CA-362 and CA-364.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_can_be_read_as_ca_026() {
    let Some(redis) = Redis::start(&["--requirepass", "right"]) else { return };
    let credentials =
        RedisCredentials { password: "right".to_owned(), ..RedisCredentials::default() };
    let every = Duration::from_millis(300);
    let settings = RedisSettings { credentials, cluster_info_every: every, ..redis.settings() };
    let world = World::with(with_redis(settings)).await;
    let own = "cluster|info|https://kubernetes.default.svc|1.8.3.gz";
    let unused = redis.until(own, "there", |info| !info.is_null()).await;
    let message = "Cluster has no applications and is not being monitored.";
    assert_eq!(
        (&unused["connectionState"]["status"], &unused["connectionState"]["message"]),
        (&json!("Unknown"), &json!(message))
    );
    assert_eq!((&unused["applicationsCount"], &unused["cacheInfo"]), (&json!(0), &json!({})));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    let is_used = |info: &Value| {
        info["connectionState"]["status"] == "Successful"
            && info["applicationsCount"] == 1
            && info["cacheInfo"]["resourcesCount"].as_u64().is_some_and(|count| count > 1)
            && info["cacheInfo"]["lastCacheSyncTime"].is_string()
    };
    let info = redis.until(own, "used", is_used).await;
    let parts: Vec<u64> = info["serverVersion"]
        .as_str()
        .and_then(|version| version.strip_prefix('v'))
        .map(|version| version.split('.').map(|part| part.parse().unwrap()).collect())
        .unwrap_or_default();
    assert!(matches!(parts.as_slice(), [1, _, _]), "CA-361: {info}");
    let versions = info["apiVersions"].as_array().unwrap();
    for version in ["v1", "v1/Pod", "apps/v1", "apps/v1/Deployment"] {
        assert!(versions.contains(&json!(version)), "CA-364: {version}");
    }
    // What can only be created is no kind of the cluster.
    for version in ["authorization.k8s.io/v1", "authorization.k8s.io/v1/SubjectAccessReview"] {
        assert!(!versions.contains(&json!(version)), "CA-364: {version}");
    }
    assert!(versions.is_sorted_by_key(|version| version.as_str().unwrap().to_owned()), "CA-364");
    let cache = &info["cacheInfo"];
    assert!(cache["apisCount"].as_u64().is_some_and(|count| count > 0), "CA-362: {info}");
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let attempted = time(&info["connectionState"]["attemptedAt"]);
    assert!(time(&cache["lastCacheSyncTime"]) <= attempted, "CA-362: {info}");
    assert_eq!(info["connectionState"]["message"], "", "CA-360: it is never left out");
    // Each round writes it, since its time changes.
    let is_later = |info: &Value| time(&info["connectionState"]["attemptedAt"]) > attempted;
    redis.until(own, "written again (CA-213)", is_later).await;
    let seconds: i64 = redis.client().get_connection().unwrap().ttl(own).unwrap();
    assert!((1..=600).contains(&seconds), "{seconds}");
}

/// CA-363 and CA-365: every Application of a cluster is counted, also one that is refused or
/// cannot be compared, by its name or URL; not one without a project.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_applications_of_a_cluster_are_counted_as_ca_363() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let every = Duration::from_millis(200);
    let settings = RedisSettings { cluster_info_every: every, ..redis.settings() };
    let world = World::with(with_redis(settings)).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.add_cluster("away", "https://127.0.0.1:1", &json!({})).await;
    // Its type is wrong, so that nothing connects to it.
    let wrong = json!({"disableCompression": "true"});
    world.add_cluster("wrong", "https://127.0.0.1:2", &wrong).await;
    let denying = json!({
        "metadata": {"name": "denying", "namespace": NAMESPACE}, "spec": {"sourceRepos": ["*"]},
    });
    world.create("argoproj.io/v1alpha1", "AppProject", &denying).await;
    world.create_app(&automated(world.application("app", "app"))).await;
    world.create_app(&world.application("broken", "nowhere")).await;
    let mut denied = world.application("denied", "app");
    denied["spec"]["project"] = "denying".into();
    denied["spec"]["destination"] = json!({"name": "in-cluster", "namespace": "web"});
    world.create_app(&denied).await;
    world.create_with("absent", "app", json!({"spec": {"project": "absent"}})).await;
    for name in ["away", "wrong"] {
        let mut elsewhere = world.application(name, "app");
        elsewhere["spec"]["destination"] = json!({"name": name, "namespace": "web"});
        world.create_app(&elsewhere).await;
    }
    let info = |server: &str| format!("cluster|info|{server}|1.8.3.gz");
    let own = info("https://kubernetes.default.svc");
    let counts = |count: usize| move |info: &Value| info["applicationsCount"] == count;
    redis.until(&own, "counted", counts(3)).await;
    redis.until(&info("https://127.0.0.1:1"), "counted", counts(1)).await;
    let unused = |info: &Value| {
        counts(1)(info) && info["connectionState"]["message"].as_str().is_none_or(str::is_empty)
    };
    redis.until(&info("https://127.0.0.1:2"), "counted", unused).await;

    // One goes elsewhere, and one goes.
    let moved = json!({"spec": {"destination": {"server": "https://127.0.0.1:1"}}});
    world.patch("broken", moved).await;
    redis.until(&info("https://127.0.0.1:1"), "counted", counts(2)).await;
    world.delete_app("denied").await;
    redis.until(&own, "counted", counts(1)).await;
}

/// CA-021, CA-022 and CA-023: a hook (CA-348), orphaned objects (CA-311), and the Node of a Pod
/// (CA-312).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_orphans_and_nodes_can_be_read_as_ca_022() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let labels = ShownLabels { of_nodes: vec!["zone".to_owned()], ..ShownLabels::default() };
    let readers = ReaderSettings { labels, ..ReaderSettings::default() };
    let world = World::with(ApplicationSettings { readers, ..with_redis(redis.settings()) }).await;
    let system = json!({
        "metadata": {"name": "n1", "labels": {"zone": "a", "secret": "b"}},
        "status": {"capacity": {"cpu": "4", "memory": "1Ki"}, "nodeInfo": {"kernelVersion": "6.1"}},
    });
    world.create("v1", "Node", &system).await;
    world
        .patch_project(json!({"orphanedResources": {
            "warn": true, "ignore": [{"kind": "ConfigMap", "name": "ignored*"}],
        }}))
        .await;
    for name in ["stray", "ignored-1", "kube-root-ca.crt"] {
        let map = json!({"metadata": {"name": name, "namespace": "web"}});
        world.create("v1", "ConfigMap", &map).await;
    }
    world.write("app/before.json", &job("before", &[(HOOK, "PreSync")]));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {"nodeName": "n1", "containers": [{
            "name": "main", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": "100m"}},
        }]},
    });
    world.write("app/pod.json", &pod.to_string());
    world.commit_file("other/map.json", &config_map("managed", "1", &[]));
    world.create_app(&automated(world.application("other", "other"))).await;
    world.create_until_good(&automated(world.application("app", "app"))).await;
    world.until_good("other").await;
    world.refresh("app").await;

    let is_whole = |tree: &Value| {
        !tree["hosts"].is_null()
            && tree["orphanedNodes"].is_array()
            && node(tree, "Job").is_object()
    };
    let tree = redis.until(TREE, "whole", is_whole).await;
    let orphans: Vec<&Value> =
        tree["orphanedNodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert_eq!(orphans, ["stray"]);
    let host = &tree["hosts"][0];
    assert_eq!((&host["name"], &host["labels"]), (&json!("n1"), &json!({"zone": "a"})));
    let cpu = json!({"resourceName": "cpu", "requestedByApp": 100, "capacity": 4000});
    assert_eq!(host["resourcesInfo"][0], cpu);
    assert_eq!(host["resourcesInfo"][1]["capacity"], 1_024_000);
    assert_eq!(host["systemInfo"].as_object().unwrap().len(), 10);
    let rows = redis.until(MANAGED, "whole", |rows| row(rows, "Job").is_object()).await;
    let hook = row(&rows, "Job");
    assert_eq!((&hook["hook"], &hook["targetState"]), (&json!(true), &json!("null")));
    let warning = "Application has 1 orphaned resources";
    world
        .until("app", "warned", |app| {
            app["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
                condition["type"] == "OrphanedResourceWarning" && condition["message"] == warning
            })
        })
        .await;
}

/// CA-002, CA-202: an Application of another namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_elsewhere_has_its_namespace_in_the_key_as_ca_002() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let namespaces =
        wavegate_controller::settings::Namespaces::parse(&["team-a".to_owned()]).unwrap();
    let settings = ApplicationSettings { namespaces, ..with_redis(redis.settings()) };
    let world = World::with(settings).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "team-a"}})).await;
    world.patch_project(json!({"sourceNamespaces": ["team-a"]})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_with("app", "app", json!({"metadata": {"namespace": "team-a"}})).await;
    let keys = ["resources-tree", "managed-resources"];
    for key in keys.map(|key| format!("app|{key}|team-a_app|1.8.3.gz")) {
        redis.until(&key, "there", |value| !value.is_null()).await;
    }
}

/// CA-013: a certificate of an authority that is trusted, and of one that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_redis_gets_values_as_ca_013() {
    let [own, other] = [(); 2].map(|()| Certificates::new());
    let port = free_port();
    let Some(redis) = Redis::start(&own.options(port, "no")) else { return };
    for (authorities, is_trusted) in [(&other, false), (&own, true)] {
        let authorities = std::fs::read(authorities.file("ca.crt")).unwrap();
        let tls = RedisTls { authorities: Some(authorities), ..RedisTls::default() };
        let server = format!("127.0.0.1:{port}");
        let settings = RedisSettings { server, tls: Some(tls), ..RedisSettings::default() };
        let world = World::with(with_redis(settings)).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_until_good(&automated(world.application("app", "app"))).await;
        if is_trusted {
            redis.until(TREE, "there", |tree| !tree.is_null()).await;
            continue;
        }
        let began = tokio::time::Instant::now();
        while !std::fs::read_to_string(own.file("log"))
            .unwrap()
            .contains("Error accepting a client")
        {
            assert!(began.elapsed() < LIMIT, "no handshake was refused");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(redis.bytes(TREE), None);
    }
}

/// CA-014: the Sentinels name another master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_follow_the_master_as_ca_014() {
    let Some(first) = Redis::start(&[""; 0]) else { return };
    let port = first.port.to_string();
    let Some(second) = Redis::start(&["--replicaof", "127.0.0.1", &port]) else { return };
    let sentinel = sentinel(first.port, "group");
    let settings = RedisSettings {
        sentinels: vec![format!("127.0.0.1:{}", sentinel.port)],
        sentinel_master: "group".to_owned(),
        ..RedisSettings::default()
    };
    let world = World::with(with_redis(settings)).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    first.until(MANAGED, "there", |rows| !rows.is_null()).await;
    // Also at the replica, which the Sentinel knows then.
    second.until(MANAGED, "there", |rows| !rows.is_null()).await;

    let began = tokio::time::Instant::now();
    let fail_over = || -> redis::RedisResult<()> {
        redis::cmd("SENTINEL").arg("FAILOVER").arg("group").exec(&mut sentinel.client())
    };
    while let Err(error) = fail_over() {
        assert!(began.elapsed() < LIMIT, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A failover cuts connections: no answer is no role yet.
    let has_role = |redis: &Redis, role: &str| {
        let info = redis::cmd("INFO").arg("replication").query::<String>(&mut redis.client());
        info.is_ok_and(|info| info.contains(&format!("role:{role}")))
    };
    while !(has_role(&second, "master") && has_role(&first, "slave")) {
        assert!(began.elapsed() < LIMIT, "no failover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.commit_file("app/two.json", &config_map("two", "2", &[]));
    world.refresh("app").await;
    second.until(MANAGED, "changed", |rows| rows[1]["name"] == "two").await;
}

/// A Redis that takes the values of all but one Application: it refuses these, or hangs on them.
fn picky(hangs: bool) -> (RedisSettings, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&taken);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let taken = Arc::clone(&all);
            std::thread::spawn(move || answer_as_redis(&stream, hangs, &taken));
        }
    });
    (RedisSettings { server, ..RedisSettings::default() }, taken)
}

/// Answers requests until the connection ends.
fn answer_as_redis(
    stream: &std::net::TcpStream,
    hangs: bool,
    taken: &Mutex<Vec<String>>,
) -> Option<()> {
    use std::io::{BufRead, Read, Write};
    let (mut reader, mut writer) = (std::io::BufReader::new(stream), stream);
    let number = |reader: &mut std::io::BufReader<&std::net::TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim().get(1..)?.parse::<usize>().ok()
    };
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut reader)? {
            let mut word = vec![0; number(&mut reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
        }
        let key = words.get(1).filter(|_| words[0].eq_ignore_ascii_case("set"));
        let answer = match key {
            Some(key) if key.contains("|bad|") => match hangs {
                true => continue,
                false => "-ERR Protocol error: invalid bulk length\r\n",
            },
            Some(key) => {
                taken.lock().unwrap().push(key.clone());
                "+OK\r\n"
            }
            None => "+OK\r\n",
        };
        writer.write_all(answer.as_bytes()).ok()?;
    }
}

/// One value that Redis refuses, or hangs on, was tried for ever before all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_does_not_take_holds_up_nothing_else() {
    for hangs in [false, true] {
        let (settings, taken) = picky(hangs);
        let world = World::with(with_redis(settings)).await;
        for name in ["bad", "good", "later"] {
            world.commit_file(&format!("{name}/one.json"), &config_map(name, "1", &[]));
        }
        world.create_until_good(&automated(world.application("bad", "bad"))).await;
        for name in ["good", "later"] {
            world.create_until_good(&automated(world.application(name, name))).await;
            let key = format!("app|resources-tree|{name}|");
            until(&format!("the tree of {name} is written"), async || {
                taken.lock().unwrap().iter().any(|taken| taken.starts_with(&key))
            })
            .await;
        }
    }
}

/// Of an object whose only annotation is that of the last apply, such as a definition, both sides
/// have an empty map of annotations: so has what the API server predicts by itself (CA-344).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_of_which_nothing_is_left_are_an_empty_map_k_20() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let world = World::with(with_redis(redis.settings())).await;
    let definition = widgets(json!({}));
    let revision = world.commit_file("app/definition.json", &definition.to_string());
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    let is_there = |rows: &Value| {
        row(rows, "CustomResourceDefinition")["liveState"]
            .as_str()
            .is_some_and(|live| live != "null")
    };
    let rows = redis.until(MANAGED, "there", is_there).await;
    let row = row(&rows, "CustomResourceDefinition");
    let [live, normalized, predicted] =
        ["liveState", "normalizedLiveState", "predictedLiveState"].map(|field| state(row, field));
    let annotations: Vec<&String> =
        live["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(annotations, ["kubectl.kubernetes.io/last-applied-configuration"]);
    assert_eq!(normalized["metadata"]["annotations"], json!({}));
    assert_eq!(predicted["metadata"]["annotations"], json!({}));
    assert!(row["modified"].is_null(), "{row}");
}
