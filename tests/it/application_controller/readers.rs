//! What Argo CD's API server reads from Redis, in a real one (CA-…).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use futures::StreamExt;
use redis::Commands;
use wavegate::decide::argocd_cache::{
    Credentials, Labels, ReaderSettings, RedisSettings, RedisTls,
};

use super::*;

pub(super) const TREE: &str = "app|resources-tree|app|1.8.3.gz";
const MANAGED: &str = "app|managed-resources|app|1.8.3.gz";
const CHANNEL: &str = "app|managed-resources|app|1.8.3";
const REFRESH: &str = "argocd.argoproj.io/refresh";

/// A Redis of this test.
pub(super) struct Redis {
    process: Child,
    port: u16,
    options: Vec<String>,
    /// What a replica gets is written to a file.
    directory: tempfile::TempDir,
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Redis {
    /// `None`, with a message, where there is none.
    pub(super) fn start(options: &[&str]) -> Option<Self> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        for _ in 0..20 {
            let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
            let Some(process) = Self::spawn(port, directory.path(), &options) else {
                eprintln!("skipped: redis-server is not installed");
                return None;
            };
            let mut redis = Self { process, port, options: options.clone(), directory };
            // Otherwise another process has taken the port meanwhile.
            if redis.answers() {
                return Some(redis);
            }
        }
        panic!("Redis does not start at any port");
    }

    fn spawn(port: u16, directory: &Path, options: &[String]) -> Option<Child> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(directory);
        command.args(options).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok()
    }

    fn again(&mut self) {
        let began = std::time::Instant::now();
        loop {
            self.process = Self::spawn(self.port, self.directory.path(), &self.options).unwrap();
            if self.answers() {
                return;
            }
            assert!(began.elapsed() < LIMIT, "the port of Redis stays taken");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it answers; false when it has ended.
    fn answers(&mut self) -> bool {
        let began = std::time::Instant::now();
        loop {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.is_there() {
                return true;
            }
            assert!(began.elapsed() < LIMIT, "Redis does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether a Redis answers, with or without a password.
    fn is_there(&self) -> bool {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let mut answer = [0; 5];
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"PING\r\n").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && [b"+PONG", b"-NOAU"].contains(&&answer)
    }

    fn client(&self) -> redis::Client {
        let password = self.options.iter().position(|option| option == "--requirepass");
        let password = password.map_or("", |at| &self.options[at + 1]);
        let login = if password.is_empty() { String::new() } else { format!(":{password}@") };
        redis::Client::open(format!("redis://{login}127.0.0.1:{}/", self.port)).unwrap()
    }

    pub(super) fn settings(&self) -> RedisSettings {
        RedisSettings { server: format!("127.0.0.1:{}", self.port), ..RedisSettings::default() }
    }

    fn read(&self, key: &str) -> redis::RedisResult<Option<Vec<u8>>> {
        self.client().get_connection()?.get(key)
    }

    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.read(key).unwrap()
    }

    /// The value of a key; null when there is none.
    pub(super) fn value(&self, key: &str) -> Value {
        parsed(key, self.bytes(key).as_deref())
    }

    /// How often a command was called.
    fn calls(&self, command: &str) -> u64 {
        let info: String =
            redis::cmd("INFO").arg("commandstats").query(&mut self.client()).unwrap();
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
        calls.map_or(0, |(count, _)| count.parse().unwrap())
    }

    /// Waits until the value of a key matches a condition.
    pub(super) async fn until(&self, key: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let began = tokio::time::Instant::now();
        loop {
            // A replica that loads the data of its master answers with an error.
            let value = self.read(key).map(|bytes| parsed(key, bytes.as_deref()));
            match value {
                Ok(value) if is(&value) => return value,
                value => assert!(began.elapsed() < LIMIT, "{key} is not {what}: {value:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The value that is written at a key; null when there is none.
fn parsed(key: &str, bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let mut text = Vec::new();
    match key.ends_with(".gz") {
        true => {
            assert_eq!(bytes[..2], [0x1f, 0x8b], "{key} is compressed");
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
        }
        false => text.extend_from_slice(bytes),
    }
    serde_json::from_slice(&text).unwrap()
}

pub(super) fn with_redis(redis: RedisSettings) -> ApplicationSettings {
    ApplicationSettings { redis, ..ApplicationSettings::default() }
}

pub(super) fn automated(mut app: Value) -> Value {
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    app
}

pub(super) fn nodes(tree: &Value) -> Vec<&Value> {
    tree["nodes"].as_array().into_iter().flatten().collect()
}

pub(super) fn node<'a>(tree: &'a Value, kind: &str) -> &'a Value {
    nodes(tree).into_iter().find(|node| node["kind"] == kind).unwrap_or(&Value::Null)
}

fn info<'a>(node: &'a Value, name: &str) -> &'a str {
    let all = node["info"].as_array().into_iter().flatten();
    let mut found = all.filter(|info| info["name"] == name);
    found.next().map_or("", |info| info["value"].as_str().unwrap_or("<none>"))
}

fn row<'a>(rows: &'a Value, kind: &str) -> &'a Value {
    let mut all = rows.as_array().into_iter().flatten();
    all.find(|row| row["kind"] == kind).unwrap_or(&Value::Null)
}

fn state(row: &Value, field: &str) -> Value {
    serde_json::from_str(row[field].as_str().unwrap()).unwrap()
}

/// CA-001, CA-004, CA-005, CA-015, CA-019 and CA-020: a Deployment, an Ingress and a Secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_can_be_read_as_ca_001() {
    let Some(redis) = Redis::start(&[]) else { return };
    let masked = "example.com/token";
    let readers = ReaderSettings {
        labels: Labels { custom: vec!["team".to_owned()], ..Labels::default() },
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
    world.write("app/ingress.json", &ingress.to_string());
    world.commit();
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&app).await;
    let app = world.until_good("app").await;

    let is_whole = |tree: &Value| info(node(tree, "Pod"), "Status Reason") == "Running";
    let tree = redis.until(TREE, "whole", is_whole).await;
    let (deployment, set, pod) =
        (node(&tree, "Deployment"), node(&tree, "ReplicaSet"), node(&tree, "Pod"));
    assert_eq!(set["parentRefs"][0]["uid"], deployment["uid"]);
    assert_eq!(pod["parentRefs"][0]["uid"], set["uid"]);
    assert_eq!(pod["parentRefs"][0]["namespace"], "web");
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
    world.write("app/key.json", &secret("second-value"));
    world.commit();
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

/// CA-003, CA-006, CA-007, CA-017, CA-018, CA-024, CA-028: keys, shards, and what is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_extra_or_refused_can_be_read_as_ca_017() {
    let Some(redis) = Redis::start(&[]) else { return };
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
    world.write("app/two.json", &config_map("two", "2", &[]));
    world.commit();
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

    world.sync("app", json!({})).await;
    world.until_good("app").await;
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
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    api.delete("app", &DeleteParams::default()).await.unwrap();
    for key in [tree, second, managed] {
        redis.until(key, "gone", Value::is_null).await;
    }
    assert_eq!(redis.value("repo|kept"), 1);
}

/// CA-008, CA-009, CA-010 and CA-011: Redis is away, comes back empty, and nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_is_away_holds_nothing_up_as_ca_010() {
    let Some(mut redis) = Redis::start(&[]) else { return };
    redis.stop();
    let world = World::with(with_redis(redis.settings())).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
    world.create_app(&automated(world.application("app", "app"))).await;
    world.until_good("app").await;
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
    let again = async {
        while redis.calls("publish") <= published {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, again).await.expect("the change is published");
}

/// CA-012 and CA-026 to CA-027: a password, and the information about clusters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_can_be_read_as_ca_026() {
    let Some(redis) = Redis::start(&["--requirepass", "right"]) else { return };
    let credentials = Credentials { password: "right".to_owned(), ..Credentials::default() };
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
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
    world.create_app(&automated(world.application("app", "app"))).await;
    world.until_good("app").await;
    let is_used = |info: &Value| {
        info["connectionState"]["status"] == "Successful"
            && info["applicationsCount"] == 1
            && info["cacheInfo"]["resourcesCount"].as_u64().is_some_and(|count| count > 1)
    };
    let info = redis.until(own, "used", is_used).await;
    assert!(info["serverVersion"].as_str().is_some_and(|v| v.starts_with("v1.")), "{info}");
    let versions = info["apiVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("v1/Pod")) && versions.contains(&json!("apps/v1")));
    let seconds: i64 = redis.client().get_connection().unwrap().ttl(own).unwrap();
    assert!((1..=600).contains(&seconds), "{seconds}");
}

/// CA-363 and CA-365: every Application of a cluster is counted, also one that is refused or
/// cannot be compared, by its name or URL; not one without a project.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_applications_of_a_cluster_are_counted_as_ca_363() {
    let Some(redis) = Redis::start(&[]) else { return };
    let every = Duration::from_millis(200);
    let settings = RedisSettings { cluster_info_every: every, ..redis.settings() };
    let world = World::with(with_redis(settings)).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
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
    let mut absent = world.application("absent", "app");
    absent["spec"]["project"] = "absent".into();
    world.create_app(&absent).await;
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
    let api = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    api.delete("denied", &DeleteParams::default()).await.unwrap();
    redis.until(&own, "counted", counts(1)).await;
}

/// CA-021, CA-022 and CA-023: a hook, orphaned objects, and the Node of a Pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_orphans_and_nodes_can_be_read_as_ca_022() {
    let Some(redis) = Redis::start(&[]) else { return };
    let labels = Labels { of_nodes: vec!["zone".to_owned()], ..Labels::default() };
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
    world.write("other/map.json", &config_map("managed", "1", &[]));
    world.commit();
    world.create_app(&automated(world.application("other", "other"))).await;
    world.create_app(&automated(world.application("app", "app"))).await;
    world.until_good("other").await;
    world.until_good("app").await;
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

/// CA-002: an Application of another namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_elsewhere_has_its_namespace_in_the_key_as_ca_002() {
    let Some(redis) = Redis::start(&[]) else { return };
    let namespaces = wavegate::settings::Namespaces::parse(&["team-a".to_owned()]).unwrap();
    let settings = ApplicationSettings { namespaces, ..with_redis(redis.settings()) };
    let world = World::with(settings).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "team-a"}})).await;
    world.patch_project(json!({"sourceNamespaces": ["team-a"]})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
    let mut app = world.application("app", "app");
    app["metadata"]["namespace"] = "team-a".into();
    world.create_app(&app).await;
    let keys = ["resources-tree", "managed-resources"];
    for key in keys.map(|key| format!("app|{key}|team-a_app|1.8.3.gz")) {
        redis.until(&key, "there", |value| !value.is_null()).await;
    }
}

/// Makes a certificate authority, and a certificate of it for this machine.
fn certificates(directory: &Path) {
    let san = directory.join("san");
    std::fs::write(&san, "subjectAltName=IP:127.0.0.1\n").unwrap();
    let san = san.to_str().unwrap().to_owned();
    let commands = [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 1 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout redis.key -out redis.csr -subj /CN=redis",
        &format!(
            "x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out redis.crt -days 1 -extfile {san}"
        ),
    ];
    for command in commands {
        let mut openssl = Command::new("openssl");
        let made = openssl.args(command.split(' ')).current_dir(directory).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

/// CA-013: a certificate of an authority that is trusted, and of one that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_redis_gets_values_as_ca_013() {
    let [own, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    certificates(own.path());
    certificates(other.path());
    let file = |name: &str| own.path().join(name).to_str().unwrap().to_owned();
    let (port, log) = (free_port(), own.path().join("log"));
    let options = [
        "--tls-port",
        &port.to_string(),
        "--tls-auth-clients",
        "no",
        "--tls-cert-file",
        &file("redis.crt"),
        "--tls-key-file",
        &file("redis.key"),
        "--tls-ca-cert-file",
        &file("ca.crt"),
        "--logfile",
        log.to_str().unwrap(),
    ];
    let Some(redis) = Redis::start(&options) else { return };
    for (authorities, is_trusted) in [(other.path(), false), (own.path(), true)] {
        let authorities = std::fs::read(authorities.join("ca.crt")).unwrap();
        let tls = RedisTls { authorities: Some(authorities), ..RedisTls::default() };
        let server = format!("127.0.0.1:{port}");
        let settings = RedisSettings { server, tls: Some(tls), ..RedisSettings::default() };
        let world = World::with(with_redis(settings)).await;
        world.write("app/one.json", &config_map("one", "1", &[]));
        world.commit();
        world.create_app(&automated(world.application("app", "app"))).await;
        world.until_good("app").await;
        if is_trusted {
            redis.until(TREE, "there", |tree| !tree.is_null()).await;
            continue;
        }
        let began = tokio::time::Instant::now();
        while !std::fs::read_to_string(&log).unwrap().contains("Error accepting a client") {
            assert!(began.elapsed() < LIMIT, "no handshake was refused");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(redis.bytes(TREE), None);
    }
}

/// CA-014: the Sentinels name another master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_follow_the_master_as_ca_014() {
    let Some(first) = Redis::start(&[]) else { return };
    let port = first.port.to_string();
    let Some(second) = Redis::start(&["--replicaof", "127.0.0.1", &port]) else { return };
    let (directory, port_of_sentinel) = (tempfile::tempdir().unwrap(), free_port());
    let config = directory.path().join("sentinel.conf");
    let text = format!(
        "port {port_of_sentinel}\nbind 127.0.0.1\nsentinel monitor group 127.0.0.1 {port} 1\n\
         sentinel down-after-milliseconds group 60000\nsentinel failover-timeout group 60000\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("redis-server");
    command.arg(&config).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
    let (process, options) = (command.spawn().unwrap(), Vec::new());
    let mut sentinel = Redis { process, port: port_of_sentinel, options, directory };
    assert!(sentinel.answers(), "the Sentinel has ended");
    let settings = RedisSettings {
        sentinels: vec![format!("127.0.0.1:{port_of_sentinel}")],
        sentinel_master: "group".to_owned(),
        ..RedisSettings::default()
    };
    let world = World::with(with_redis(settings)).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
    world.create_app(&automated(world.application("app", "app"))).await;
    world.until_good("app").await;
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
    world.write("app/two.json", &config_map("two", "2", &[]));
    world.commit();
    world.refresh("app").await;
    second.until(MANAGED, "changed", |rows| rows[1]["name"] == "two").await;
}
