//! Settings of the ConfigMaps that change while `run` runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_sim::{Effect, InjectedFault, RequestRecord};
use wavegate_controller::leader::LEASE;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

/// No servers, and Argo CD does the syncing.
const FLAGS: [&str; 4] =
    ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];

/// Changes keys of `argocd-cmd-params-cm`.
async fn change(cluster: &Cluster, data: Value) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let patch = Patch::Merge(json!({ "data": data }));
    maps.patch("argocd-cmd-params-cm", &PatchParams::default(), &patch).await.unwrap();
}

fn is_read(request: &RequestRecord) -> bool {
    request.client != "test"
        && (request.verb.as_str(), request.resource.as_str()) == ("get", "configmaps")
}

/// Waits until the settings have been read for the watches that begin.
async fn until_followed(cluster: &Cluster) {
    let reads = || cluster.server.requests().iter().filter(|request| is_read(request)).count();
    let calm = async {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = reads();
            // Those of the start, and those of a watch.
            if now >= 4 && now == before {
                return;
            }
            before = now;
        }
    };
    tokio::time::timeout(WAIT, calm).await.expect("the settings are followed");
}

/// AS-500: the event of a change comes once. When the API server does not answer the read that
/// follows, it is read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_setting_acts_although_its_first_reads_fail() {
    let cluster = Cluster::start().await;
    cluster.sets(json!({"applicationsetcontroller.policy": "sync"})).await;
    let mut running = Running::start(&cluster, &FLAGS, &[]);
    running.until_logged("\"starting\"").await;
    until_followed(&cluster).await;

    let left = Arc::new(AtomicUsize::new(2));
    let fails = Arc::clone(&left);
    let refused = move |request: &RequestRecord| {
        let take = |left: usize| left.checked_sub(1);
        is_read(request) && fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(500), refused).times(usize::MAX));
    change(&cluster, json!({"applicationsetcontroller.policy": "create-only"})).await;
    let log = running.until_logged("the settings have changed").await;
    assert_eq!(left.load(Ordering::SeqCst), 0, "the reads have failed");
    assert!(log.contains("its last settings stay until it can"), "{log}");
}

/// AS-161, AS-500: whether a process needs the Lease is decided at its start. A dry run that is
/// switched off needs a restart; otherwise each replica would write, without the Lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_goes_on_until_a_restart_although_it_is_switched_off() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let set: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
    cluster.create("ApplicationSet", set).await;
    let (dry_run, policy) = ("applicationsetcontroller.dryrun", "applicationsetcontroller.policy");
    cluster.sets(json!({ dry_run: "true" })).await;
    let flags = [&FLAGS[..], &["--enable-leader-election"]].concat();
    let mut replicas = [0, 1].map(|_| Running::start(&cluster, &flags, &[]));
    for running in &mut replicas {
        running.until_logged("would create Application a").await;
    }
    let words = format!("{dry_run} has changed, and needs a restart of the process");
    change(&cluster, json!({ dry_run: "false" })).await;
    for running in &mut replicas {
        running.until_logged(&words).await;
    }
    // Another setting acts, and the dry run goes on.
    change(&cluster, json!({ policy: "create-only" })).await;
    for running in &mut replicas {
        let log = running.until_logged("the settings have changed").await;
        let changed = log.find("the settings have changed").unwrap();
        let until = std::time::Instant::now() + WAIT;
        while !running.log()[changed..].contains("would create Application a") {
            assert!(std::time::Instant::now() < until, "{}", running.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let log = running.log();
        assert_eq!(log.matches(&words).count(), 1, "said once: {log}");
        assert_eq!(log.matches("dry run: nothing is written").count(), 2, "{log}");
    }
    let requests = cluster.server.requests().into_iter();
    let reads = ["get", "list", "watch"];
    let written: Vec<RequestRecord> = requests
        .filter(|request| request.client != "test" && !reads.contains(&request.verb.as_str()))
        .collect();
    assert!(written.is_empty(), "{written:#?}");
}

/// AS-150, AS-500: a replica that has waited for the Lease since another policy was set must not
/// begin with the policy of its start.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_acts_first_with_the_settings_of_now() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let object: Value = serde_json::from_str(&set(&["b"], json!([]))).unwrap();
    let created = cluster.create("ApplicationSet", object).await;
    // Not generated any more: the policy of the start would delete it.
    let owner = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
        "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    });
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "labels": {"app": "a"}, "ownerReferences": [owner]},
        "spec": {"project": "default", "destination": {"server": "https://1"},
            "source": {"repoURL": "https://r"}},
    });
    cluster.create("Application", application).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "argocd");
    let lease = json!({
        "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T03:04:06.000000Z"},
    });
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let policy = "applicationsetcontroller.policy";
    cluster.sets(json!({ policy: "sync" })).await;

    let flags = [&FLAGS[..], &["--enable-leader-election"]].concat();
    let mut running = Running::start(&cluster, &flags, &[]);
    running.until_logged("the lease is held by other").await;
    change(&cluster, json!({ policy: "create-only" })).await;
    leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
    let log = running.until_logged("end of reconcile").await;
    let read = log.find("the settings have changed").expect(&log);
    assert!(read < log.find("end of reconcile").unwrap(), "{log}");
    let applications = cluster.api("Application");
    let until = std::time::Instant::now() + WAIT;
    while applications.get_opt("b").await.unwrap().is_none() {
        assert!(std::time::Instant::now() < until, "it does not act: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let kept = applications.get_opt("a").await.unwrap();
    let kept = kept.is_some_and(|kept| kept.metadata.deletion_timestamp.is_none());
    assert!(kept, "create-only deletes nothing: {}", running.log());
}

/// AS-500, CA-119, SE-575: a mistyped address of Redis, or format or level of the log, in a
/// ConfigMap ends no start: the next one of the process would fail although this one runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_redis_or_log_ends_no_start_as_500() {
    let cluster = Cluster::start().await;
    let log_settings =
        ["log.format", "log.level"].map(|key| format!("applicationsetcontroller.{key}"));
    let [format, level] = &log_settings;
    cluster
        .sets(json!({
            "redis.server": "argocd-redis", format.as_str(): "xml", level.as_str(): "inof",
        }))
        .await;
    let mut running = Running::start(&cluster, &FLAGS, &[]);
    let log = running.until_logged("\"starting\"").await;
    for key in &log_settings {
        let words = "is not understood, the default is used";
        let is_named = |line: &str| line.contains(&format!("{key}: ")) && line.contains(words);
        assert!(log.lines().any(is_named), "{key}: {log}");
    }
    assert!(log.contains("Redis is not used") && log.contains("write host:port"), "{log}");
    until_followed(&cluster).await;
    let log = running.log();
    assert_eq!(log.matches("write host:port").count(), 1, "said once: {log}");
    drop(running);

    // In any case, as in Argo CD.
    change(&cluster, json!({ format.as_str(): "TEXT", level.as_str(): "Warning" })).await;
    let mut running = Running::start(&cluster, &FLAGS, &[]);
    let log = running.until_logged("Redis is not used").await;
    assert!(!log.contains("\"level\"") && log.contains("ERROR"), "text: {log}");

    let run = ["run", "--namespace=argocd"];
    let refused = |flag: &'static str| [&run[..], &FLAGS, &[flag]].concat();
    cluster.run(&refused("--redis=argocd-redis")).await.fails(2, &["write host:port"]);
    cluster.run(&refused("--loglevel=inof")).await.fails(2, &["inof is no level"]);
}

/// A Redis that cannot be used is no reason to end or to forget the one in use, nor to leave
/// other settings as they were.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_redis_leaves_the_former_one_and_other_settings_act() {
    let cluster = Cluster::start().await;
    let policy = "applicationsetcontroller.policy";
    cluster.sets(json!({"redis.server": "127.0.0.1:1"})).await;
    let mut running = Running::start(&cluster, &FLAGS, &[]);
    running.until_logged("\"starting\"").await;
    change(&cluster, json!({"redis.server": "argocd-redis"})).await;
    let log = running.until_logged("the former ones stay").await;
    assert!(log.contains("the changed settings of Redis cannot be used"), "{log}");
    assert!(!log.contains("the settings have changed"), "{log}");

    change(&cluster, json!({ policy: "create-only" })).await;
    running.until_logged("the settings have changed").await;
    until_followed(&cluster).await;
    let log = running.log();
    assert_eq!(log.matches("the settings have changed").count(), 1, "{log}");
    assert_eq!(log.matches("settings of Redis cannot be used").count(), 1, "said once: {log}");
}
