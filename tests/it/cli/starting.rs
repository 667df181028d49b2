//! The start of `run` while the API server does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use kube_sim::{Effect, InjectedFault, RequestRecord};
use wavegate_cluster::watch::object::kind_resource;

use super::arguments::Running;
use super::embedded::Cluster;
use super::proxy::Proxy;
use super::*;

/// The code that a probe gets; `None` while no server listens.
async fn probe(address: &str, path: &str) -> Option<u16> {
    let mut client = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer).await.ok()?;
    answer.split_whitespace().nth(1)?.parse().ok()
}

async fn until_probed(address: &str, path: &str, want: u16) {
    let look = async {
        while probe(address, path).await != Some(want) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(WAIT, look).await;
    assert!(waited.is_ok(), "{path} does not answer {want}");
}

/// The settings may say that nothing is to be written: without them nothing starts.
#[tokio::test(flavor = "multi_thread")]
async fn settings_are_waited_for_while_the_server_does_not_answer() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let set: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
    cluster.create("ApplicationSet", set).await;
    cluster
        .sets(json!({
            "applicationsetcontroller.dryrun": "true",
            "applicationsetcontroller.log.format": "text",
        }))
        .await;
    let before = writes(&cluster);

    let proxy = Proxy::in_front_of(&cluster).await;
    proxy.set_open(false);
    let probes = unused_address();
    let flag = format!("--probe-addr={probes}");
    let arguments = [&flag, "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];
    let mut running = Running::start_with(&proxy.kubeconfig(), &arguments, &[]);
    let log = running.until_logged("nothing starts before that").await;
    assert!(log.contains("ConfigMap argocd/argocd-cmd-params-cm cannot be read"), "{log}");
    assert!(!log.contains("\"starting\""), "{log}");
    until_probed(&probes, "/healthz", 200).await;
    assert_eq!(probe(&probes, "/readyz").await, Some(503), "it does nothing yet");

    proxy.set_open(true);
    let log = running.until_logged("dry run: nothing is written").await;
    let (waiting, started) = log.split_at(log.find("dry run:").unwrap());
    let last = started.lines().next().unwrap();
    assert!(waiting.starts_with('{') && !last.starts_with('{'), "the format of the map: {log}");
    running.until_logged("would create Application a").await;
    until_probed(&probes, "/readyz", 200).await;
    assert_eq!(writes(&cluster), before, "{}", running.log());
}

/// The body of the answer to a probe.
async fn body_of(address: &str, path: &str) -> String {
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut client, request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer).await.unwrap();
    answer
}

/// Refuses requests for a resource with a code until the switch is off.
fn refuse(cluster: &Cluster, resource: &'static str, code: u16) -> Arc<AtomicBool> {
    let switch = Arc::new(AtomicBool::new(true));
    let is_on = Arc::clone(&switch);
    let refused = move |request: &RequestRecord| {
        is_on.load(Ordering::Relaxed)
            && request.client != "test"
            && request.resource == resource
            && matches!(request.verb.as_str(), "get" | "list" | "watch")
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(code), refused).times(usize::MAX));
    switch
}

/// A set in the namespace `team`.
async fn elsewhere(cluster: &Cluster) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let sets: Api<kube::core::DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), "team", &kind_resource("ApplicationSet"));
    let mut set: Value = serde_json::from_str(&set(&["b"], json!([]))).unwrap();
    set["metadata"]["name"] = "other".into();
    let set = serde_json::from_value(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
}

/// Waits until `status` shows the set with this HEALTH and text.
async fn until_shown(cluster: &Cluster, command: &[&str], words: &[&str]) {
    let look = async {
        loop {
            let shown = cluster.run(command).await;
            if words.iter().all(|word| shown.out.contains(word)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(WAIT, look).await.is_err() {
        panic!("{words:?} expected: {}", cluster.run(command).await.out);
    }
}

/// AS-500: settings that the server refuses to show may forbid what the defaults permit. They
/// are read again until they can be, and HEALTH says so.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_forbidden_are_read_again_until_they_are_shown_as_500() {
    for code in [401, 403] {
        let cluster = Cluster::start().await;
        cluster.knows("default", "https://1").await;
        let set: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
        cluster.create("ApplicationSet", set).await;
        cluster.sets(json!({"applicationsetcontroller.dryrun": "true"})).await;
        elsewhere(&cluster).await;
        let switch = refuse(&cluster, "configmaps", code);
        let probes = unused_address();
        let flag = format!("--probe-addr={probes}");
        let arguments = [
            &flag,
            "--metrics-addr=",
            "--webhook-addr=",
            "--sync-engine=external",
            "--applicationset-namespaces=team",
            "--enable-scm-providers=false",
        ];
        let mut running = Running::start(&cluster, &arguments, &[]);
        running.until_logged("nothing starts before that").await;
        let unread = "ConfigMap argocd/argocd-cmd-params-cm cannot be read";
        until_shown(&cluster, &["status"], &["Degraded", unread]).await;
        until_shown(&cluster, &["status", "-n", "team"], &["Degraded", unread]).await;
        until_probed(&probes, "/readyz", 503).await;
        let ready = body_of(&probes, "/readyz").await;
        assert!(ready.contains(unread), "{ready}");
        let living = body_of(&probes, "/healthz").await;
        assert!(living.contains(" 200 ") && living.contains(unread), "{living}");
        assert!(!running.log().contains("\"message\":\"starting\""), "{}", running.log());
        let before = writes(&cluster);

        switch.store(false, Ordering::Relaxed);
        running.until_logged("would create Application a").await;
        until_probed(&probes, "/readyz", 200).await;
        assert!(body_of(&probes, "/healthz").await.ends_with("ok"));
        assert_eq!(writes(&cluster), before, "{}", running.log());
    }
}

/// Projects and Secrets that the role does not permit to read are read again until it does;
/// until then nothing is decided, and HEALTH says so.
#[tokio::test(flavor = "multi_thread")]
async fn projects_and_secrets_that_are_forbidden_are_read_again_until_they_are_shown() {
    for (resource, words) in [
        ("appprojects", "AppProjects of namespace argocd cannot be read"),
        ("secrets", "Secrets of namespace argocd cannot be read"),
    ] {
        let cluster = Cluster::start().await;
        cluster.knows("default", "https://1").await;
        let set: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
        cluster.create("ApplicationSet", set).await;
        let switch = refuse(&cluster, resource, 403);
        let arguments = ["--probe-addr=", "--metrics-addr=", "--webhook-addr="];
        let mut running = Running::start(&cluster, &arguments, &[]);
        until_shown(&cluster, &["status"], &["Degraded", words]).await;
        let applications = cluster.run(&["status", "set", "-o", "json"]).await.out;
        assert!(!running.log().contains("created"), "{} {applications}", running.log());

        switch.store(false, Ordering::Relaxed);
        running.until_logged("created").await;
        let look = async {
            while cluster.run(&["status"]).await.out.contains(words) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let mended = tokio::time::timeout(WAIT, look).await;
        assert!(mended.is_ok(), "{resource} is not reported any more");
    }
}

/// Requests that change something.
fn writes(cluster: &Cluster) -> usize {
    let requests = cluster.server.requests();
    let writing = ["create", "update", "patch", "delete", "deletecollection"];
    requests.iter().filter(|request| writing.contains(&request.verb.as_str())).count()
}

/// AS-400, SE-573: an invalid expression is refused with the name of the setting and the
/// pattern, wherever it is set, and selects nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_expression_of_namespaces_is_named_as_400() {
    let run = ["run", "--dry-run", "--probe-addr=", "--metrics-addr=", "--webhook-addr="];
    for (flag, variable, key) in [
        (
            "applicationset-namespaces",
            "ARGOCD_APPLICATIONSET_CONTROLLER_NAMESPACES",
            "applicationsetcontroller.namespaces",
        ),
        ("application-namespaces", "ARGOCD_APPLICATION_NAMESPACES", "application.namespaces"),
    ] {
        let cluster = Cluster::start().await;
        for (pattern, why) in [("/team-(?!/", "team-(?!"), ("/[z-a]/", "[z-a]"), ("[", "[")] {
            let argument = format!("--{flag}={pattern}");
            let refused = cluster.run(&[&run[..], &[&argument]].concat()).await;
            refused.fails(2, &[flag, why]);
            let refused = cluster.run_with(&run, &[(variable, pattern)]).await;
            refused.fails(2, &[flag, why]);
        }
        cluster.sets(json!({ key: "/(?<!/" })).await;
        cluster.run(&run).await.fails(2, &[flag, "(?<!"]);
    }
}
