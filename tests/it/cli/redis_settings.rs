//! The settings of Redis, as users give them to `run` (CA-101 to CA-120).

use std::time::Instant;

use kube::Api;
use kube::core::DynamicObject;
use redis::Commands as _;
use wavegate_cluster::watch::object::kind_resource;

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::scrape;
use super::*;
use crate::redis_server::{Certificates, Redis, free_port, sentinel};
use crate::support::repository::Repository;

/// No servers but that of metrics.
const FLAGS: [&str; 3] = ["--probe-addr=", "--webhook-addr=", "--allow-local-sources"];
const TREE: &str = "app|resources-tree|app|1.8.3";

/// Waits until something is there.
async fn until<T>(what: &str, running: &Running, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "no {what}: {}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A control plane with an Application `app` of two ConfigMaps.
struct Site {
    cluster: Cluster,
    _files: TempDir,
}

impl Site {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        cluster.permits("web").await;
        let files = tempfile::tempdir().unwrap();
        let repository = Repository::new(files.path().join("repository"));
        let map = |name: &str| {
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            (format!("app/{name}.json"), object.to_string())
        };
        repository.commit("first", &[map("one"), map("two")]);
        let application = json!({
            "metadata": {"name": "app"},
            "spec": {
                "project": "default",
                "source": {"repoURL": repository.url(), "path": "app", "targetRevision": "HEAD"},
                "destination": {"name": "in-cluster", "namespace": "web"},
                "syncPolicy": {"automated": {}},
            },
        });
        cluster.create("Application", application).await;
        Self { cluster, _files: files }
    }

    /// Runs with no listener for metrics.
    fn run(&self, args: &[&str], environment: &[(&str, &str)]) -> Running {
        let args = [&FLAGS[..], &["--metrics-addr="], args].concat();
        Running::start(&self.cluster, &args, environment)
    }

    /// Waits until a database has a key, and returns its time to live in seconds.
    async fn until_written(&self, redis: &Redis, db: i64, key: &str, running: &Running) -> i64 {
        let written = || {
            let mut connection = redis.client_of(db).get_connection().unwrap();
            let seconds: i64 = connection.ttl(key).unwrap();
            (seconds > 0).then_some(seconds)
        };
        until(&format!("{key} in {db}"), running, written).await
    }

    /// Runs a process that must end with an error.
    async fn refuses(&self, args: &[&str], environment: &[(&str, &str)], why: &[&str]) {
        let args = [&["run", "--namespace=argocd", "--metrics-addr="], &FLAGS[..], args].concat();
        self.cluster.run_with(&args, environment).await.fails(2, why);
    }
}

/// CA-101, CA-102, CA-109, CA-110, CA-113, CA-114, CA-115, CA-116, CA-118, CA-120, CA-201, CA-204,
/// CA-206, CA-511: flags and variables, with a user who may do only what is needed.
#[tokio::test(flavor = "multi_thread")]
async fn flags_and_variables_of_redis_are_those_of_argo_cd_as_ca_101() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let mut admin = redis.client();
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg(&["limited", "on", ">secret", "~*", "&*", "-@all"]);
    acl.arg(&["+get", "+set", "+del", "+publish", "+auth", "+hello", "+select"]);
    acl.exec(&mut admin).unwrap();
    let mut connection = redis.client_of(3).get_connection().unwrap();
    let _: () = connection.set("repo|x|connection-state", "1").unwrap();
    let site = Site::new().await;
    let metrics = unused_address();
    let address = format!("--redis=127.0.0.1:{}", redis.port);
    let metrics_addr = format!("--metrics-addr={metrics}");
    let args = [
        &FLAGS[..],
        &[
            &address,
            &metrics_addr,
            "--redisdb=3",
            "--redis-compress=none",
            "--app-state-cache-expiration=0",
            "--default-cache-expiration=2h",
        ],
    ]
    .concat();
    let environment = [
        ("ARGOCD_REDIS_KEY_PREFIX", "p:"),
        ("ARGOCD_APPLICATION_TREE_SHARD_SIZE", "1"),
        ("ARGO_CD_UPDATE_CLUSTER_INFO_TIMEOUT", "1h"),
        ("REDIS_RETRY_COUNT", "5"),
        ("REDIS_USERNAME", "limited"),
        ("REDIS_PASSWORD", "secret"),
        // The flag is before it.
        ("REDIS_SERVER", "127.0.0.1:1"),
        ("REDISDB", "7"),
    ];
    let running = Running::start(&site.cluster, &args, &environment);
    let [first, second, managed, info] = [
        TREE,
        "app|resources-tree|app|1|1.8.3",
        "app|managed-resources|app|1.8.3",
        "cluster|info|https://kubernetes.default.svc|1.8.3",
    ]
    .map(|key| format!("p:{key}"));
    for key in [&first, &second, &managed] {
        let seconds = site.until_written(&redis, 3, key, &running).await;
        assert!((3601..=7200).contains(&seconds), "CA-113: {key}: {seconds}");
    }
    let seconds = site.until_written(&redis, 3, &info, &running).await;
    assert!((1..=600).contains(&seconds), "CA-206: {seconds}");
    let tree: String = connection.get(&first).unwrap();
    let tree: Value = serde_json::from_str(&tree).expect("CA-109: not compressed");
    assert_eq!((&tree["shardsCount"], &tree["nodes"][0]["name"]), (&json!(2), &json!("one")));
    for other in [0, 7] {
        let keys: u64 = redis::cmd("DBSIZE").query(&mut redis.client_of(other)).unwrap();
        assert_eq!(keys, 0, "CA-102: database {other}");
    }
    let log = running.log();
    // The log is JSON.
    let invalid = r#"ARGO_CD_UPDATE_CLUSTER_INFO_TIMEOUT: \"1h\" is not understood"#;
    assert!(log.contains(invalid), "CA-115, CA-118: {log}");
    assert!(log.contains("REDIS_RETRY_COUNT is accepted without effect"), "CA-111: {log}");
    let series = scrape(&metrics).await.unwrap();
    let is_set = |name: &&String| {
        let labels = ["command=\"set\"", "failed=\"false\"", "argocd-application-controller"];
        name.starts_with("argocd_redis_request_total{") && labels.iter().all(|l| name.contains(l))
    };
    let name = series.keys().find(is_set).expect("CA-511");
    assert!(series[name] >= 3.0, "CA-511: {series:#?}");
    assert!(series.keys().any(|name| name.starts_with("argocd_redis_request_duration_bucket")));

    // What others wrote stays, and what the Application had goes (CA-120, CA-216).
    let kind = kind_resource("Application");
    let api: Api<DynamicObject> =
        Api::namespaced_with(site.cluster.client.clone(), "argocd", &kind);
    api.delete("app", &kube::api::DeleteParams::default()).await.unwrap();
    let without_own = || {
        let keys: Vec<String> = connection.keys("*").unwrap();
        keys.iter().all(|key| !key.contains("|app|")).then_some(keys)
    };
    let keys = until("only the keys of others", &running, without_own).await;
    assert!(keys.iter().any(|key| key == "repo|x|connection-state"), "CA-120: {keys:?}");
}

/// CA-112, CA-116, CA-117, CA-118: the order of variables, keys and defaults, and a directory with
/// the credentials.
#[tokio::test(flavor = "multi_thread")]
async fn variables_are_before_keys_and_files_before_both_as_ca_117() {
    let Some(redis) = Redis::start(&["--requirepass", "right"]) else { return };
    let site = Site::new().await;
    site.cluster
        .sets(json!({
            "redis.server": "127.0.0.1:1", "redis.db": "2", "redis.compression": "none",
            "redis.key.prefix": "key:", "controller.app.state.cache.expiration": "1d",
        }))
        .await;
    let credentials = folder(&[("auth", " right\n")]);
    let (server, files) =
        (format!("127.0.0.1:{}", redis.port), credentials.path().to_str().unwrap());
    let environment = [
        ("REDIS_SERVER", server.as_str()),
        ("ARGOCD_REDIS_KEY_PREFIX", "variable:"),
        ("REDIS_CREDS_DIR_PATH", files),
        ("REDIS_PASSWORD", "wrong"),
    ];
    let running = site.run(&[], &environment);
    let key = format!("variable:{TREE}");
    let seconds = site.until_written(&redis, 2, &key, &running).await;
    assert!((1..=3600).contains(&seconds), "CA-112: more than 10h is not understood: {seconds}");
    let log = running.log();
    let key = r#"controller.app.state.cache.expiration: \"1d\" is not understood"#;
    assert!(log.contains(key), "CA-118: {log}");
    drop(running);

    let gone = credentials.path().join("gone");
    let gone = [("REDIS_CREDS_DIR_PATH", gone.to_str().unwrap())];
    let own = format!("--redis={server}");
    site.refuses(&[&own], &gone, &["REDIS_CREDS_DIR_PATH", "gone"]).await;
    let unreadable = folder(&[("auth/file", "")]);
    let unreadable = [("REDIS_CREDS_DIR_PATH", unreadable.path().to_str().unwrap())];
    site.refuses(&[&own], &unreadable, &["cannot read", "auth"]).await;
    site.refuses(&[&own, "--redis-compress=zstd"], &[], &["zstd", "gzip or none"]).await;
}

/// CA-105, CA-106, CA-107, CA-108: certificates of the server and of the client.
#[tokio::test(flavor = "multi_thread")]
async fn flags_of_certificates_are_those_of_argo_cd_as_ca_106() {
    let [own, other] = [(); 2].map(|()| Certificates::new());
    let port = free_port();
    let Some(redis) = Redis::start(&own.options(port, "yes")) else { return };
    let site = Site::new().await;
    let server = format!("--redis=127.0.0.1:{port}");
    let authority = |of: &Certificates| format!("--redis-ca-certificate={}", of.file("ca.crt"));
    // It signs clients, too.
    let client = [("certificate", "redis.crt"), ("key", "redis.key")]
        .map(|(part, file)| format!("--redis-client-{part}={}", own.file(file)));
    let (trusted, untrusted) = (authority(&own), authority(&other));
    let with = |more: &[&str]| {
        let tls = [&[server.as_str(), "--redis-use-tls"], more].concat();
        tls.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let good = with(&[&trusted, &client[0], &client[1]]);
    let insecure = with(&[&untrusted, "--redis-insecure-skip-tls-verify", &client[0], &client[1]]);
    for args in [good, insecure] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let running = site.run(&args, &[]);
        site.until_written(&redis, 0, &format!("{TREE}.gz"), &running).await;
        drop(running);
        redis::cmd("FLUSHALL").exec(&mut redis.client()).unwrap();
    }
    // Of another authority, and without a certificate of its own: nothing is written.
    for args in [with(&[&untrusted, &client[0], &client[1]]), with(&[&trusted])] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut running = site.run(&args, &[]);
        running.until_logged("cannot write to Redis").await;
        let keys: u64 = redis::cmd("DBSIZE").query(&mut redis.client()).unwrap();
        assert_eq!(keys, 0, "{args:?}");
    }
    let nowhere = "--redis-client-certificate=/nowhere/tls.crt";
    let args = with(&[nowhere, &client[1]]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    site.refuses(&args, &[], &["cannot read /nowhere/tls.crt"]).await;
    // Read only with TLS.
    let plain = format!("--redis=127.0.0.1:{}", redis.port);
    let running = site.run(&[&plain, nowhere], &[]);
    site.until_written(&redis, 0, &format!("{TREE}.gz"), &running).await;
}

/// CA-101, CA-103, CA-104: with Sentinels the server is ignored.
#[tokio::test(flavor = "multi_thread")]
async fn flags_of_sentinels_are_those_of_argo_cd_as_ca_103() {
    let Some(redis) = Redis::start(&[""; 0]) else { return };
    let watching = sentinel(redis.port, "group");
    let site = Site::new().await;
    let address = format!("127.0.0.1:{}", watching.port);
    let flag = format!("--sentinel={address}");
    let running = site.run(&["--redis=127.0.0.1:1", &flag, "--sentinelmaster=group"], &[]);
    site.until_written(&redis, 0, &format!("{TREE}.gz"), &running).await;
    drop(running);
    redis::cmd("FLUSHALL").exec(&mut redis.client()).unwrap();
    let hosts = format!(" 127.0.0.1:1 , {address} ");
    let environment =
        [("REDIS_SENTINEL_HOSTS", hosts.as_str()), ("REDIS_SENTINEL_MASTER", "group")];
    let running = site.run(&[], &environment);
    site.until_written(&redis, 0, &format!("{TREE}.gz"), &running).await;
}
