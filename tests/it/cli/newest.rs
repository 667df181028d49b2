//! What `--watch` and the commands around a first installation wait for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use kube_sim::Server;
use tokio_util::sync::CancellationToken;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;
use crate::support::controller::{Setup, Task};
use crate::support::manifests::IN_CLUSTER;
use crate::support::repository::Repository;

fn config_map(color: &str) -> (String, String) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": color}});
    ("shop/settings.yaml".to_owned(), object.to_string())
}

/// `git push && wavegate status --watch` said "complete" about the commit before.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_push_a_watch_is_about_the_new_commit() {
    let cluster = Cluster::start().await;
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::new(dir.path().join("repository"));
    repository.commit("first", &[config_map("red")]);
    cluster.permits("shop").await;
    let template = json!({
        "metadata": {"name": "{{app}}", "labels": {"app": "{{app}}"}},
        "spec": {
            "project": "default",
            "source": {"repoURL": repository.url(), "targetRevision": "main", "path": "shop"},
            "destination": {"server": IN_CLUSTER, "namespace": "shop"},
        },
    });
    let steps = json!([{"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}]);
    cluster.create("ApplicationSet", json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "set"},
        "spec": {
            "generators": [{"list": {"elements": [{"app": "a"}]}}], "template": template,
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}},
        },
    })).await;
    let checkouts = dir.path().join("checkouts");
    let controller = Task::start(cluster.client.clone(), &Setup::default(), "argocd", &checkouts);
    let first = cluster.run(&["status", "set", "--watch", "--timeout", "150s"]).await;
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);

    let applications = cluster.api("Application");
    for (command, color) in [("status", "green"), ("explain", "blue")] {
        let pushed = repository.commit(color, &[config_map(color)]);
        let mut watched = cluster.run(&[command, "set", "--watch", "--timeout", "150s"]).await;
        // On a busy machine the controller may not have answered within the 15 s of a command.
        for _ in 0..5 {
            if !watched.out.contains("what follows is of the last comparisons") {
                break;
            }
            watched = cluster.run(&[command, "set", "--watch", "--timeout", "150s"]).await;
        }
        assert_eq!(watched.code, 0, "{}{}", watched.out, watched.err);
        let words = "waiting for comparisons that are newer than this command";
        assert!(watched.out.contains(words), "it says what it waits for: {}", watched.out);
        let a = applications.get("a").await.unwrap();
        assert_eq!(a.data["status"]["sync"]["revision"], json!(pushed), "{}", watched.out);
        assert_eq!(a.data["status"]["sync"]["status"], "Synced", "{}", watched.out);
    }
    // Nothing new: it ends all the same.
    let again = cluster.run(&["status", "set", "--watch", "--timeout", "150s"]).await;
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    // Another push has replaced a commit before anybody saw it: without a limit there was no end.
    let replaced = ["wait", "set", "--revision", "0123456789abcdef", "--timeout", "150s"];
    let mut unseen = cluster.run(&replaced).await;
    for _ in 0..5 {
        if !unseen.err.contains("what follows is of the last comparisons") {
            break;
        }
        unseen = cluster.run(&replaced).await;
    }
    let said = format!("{}{}", unseen.out, unseen.err);
    assert!(unseen.code == 1 && said.contains("no Application has seen commit 0123456"), "{said}");
    controller.stop().await;

    // Without a controller it ends by what is known, and says so.
    let alone = cluster.run(&["status", "set", "--watch", "--timeout", "150s"]).await;
    assert_eq!(alone.code, 0, "{}{}", alone.out, alone.err);
    let words =
        "what follows is of the last comparisons: no controller has compared Application argocd/a";
    assert!(alone.out.contains(words), "{}", alone.out);
    let begin = Instant::now();
    let known = cluster.run(&["status", "set", "--watch", "--no-refresh"]).await;
    assert_eq!(known.code, 0, "{}{}", known.out, known.err);
    assert!(!known.out.contains("waiting for comparisons"), "{}", known.out);
    assert!(begin.elapsed() < WAIT);
}

/// Without `-n`, `--watch` looked in the namespace of the context only.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_falls_back_to_the_namespace_of_the_control_plane() {
    let cluster = Cluster::start().await;
    let mut object: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    cluster.create("ApplicationSet", object).await;
    let error = json!({"status": {"conditions": [{"type": "ErrorOccurred", "status": "True",
        "reason": "RenderTemplateParamsError", "message": "there is no function shop"}]}});
    cluster.patch_status("ApplicationSet", "set", &error).await;
    let config = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let files = folder(&[("config", &config.replace("namespace: argocd", "namespace: default"))]);
    for arguments in [
        &["status", "--watch", "--no-refresh"][..],
        &["status", "set", "--watch", "--no-refresh"],
        &["explain", "set", "--watch", "--no-refresh"],
    ] {
        let mut command = program(&[arguments, &["--timeout", "150s"]].concat());
        command.env("KUBECONFIG", files.path().join("config")).env_remove("POD_NAMESPACE");
        let run = tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap();
        assert_eq!(run.code, 1, "{arguments:?}: {}{}", run.out, run.err);
        assert!(run.out.contains("there is no function shop"), "{arguments:?}: {}", run.out);
    }
}

/// A second `run` waited in silence.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_waits_says_who_holds_the_lease() {
    let cluster = Cluster::start().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "argocd");
    let lease = json!({
        "metadata": {"name": "58ac56fa.applicationsets.argoproj.io"},
        "spec": {"holderIdentity": "wavegate-7d4b_42", "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000000Z", "renewTime": "2026-01-02T03:04:06.000000Z"},
    });
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let arguments = [
        "--enable-leader-election",
        "--logformat=text",
        "--probe-addr=",
        "--metrics-addr=",
        "--webhook-addr=",
    ];
    let mut running = Running::start(&cluster, &arguments, &[]);
    let words = "the lease is held by wavegate-7d4b_42 since 2026-01-02T03:04:05Z; waiting until it is \
                 released, or not renewed for 15 s";
    let log = running.until_logged(words).await;
    assert_eq!(log.matches("the lease is held by").count(), 1, "said once, not in a loop: {log}");
}

/// `kubectl wait` of the first version of README failed at definitions that have no conditions
/// yet.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_waited_for_until_they_are_served() {
    let server = Server::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = server.kubeconfig(listener.local_addr().unwrap());
    let files = folder(&[("config", &kubeconfig)]);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, stop).await });
    let run = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.env("KUBECONFIG", files.path().join("config"));
        tokio::task::spawn_blocking(move || finish(command, b""))
    };
    let mut none = None;
    // On a busy machine the API server may not have answered after a second.
    for limit in ["1s", "10s", "50s"] {
        let tried = run(&["crds", "--wait", "--timeout", limit]).await.unwrap();
        let is_answered = tried.err.contains("it does not exist");
        none = Some((limit, tried));
        if is_answered {
            break;
        }
    }
    let (limit, none) = none.unwrap();
    let late = format!(
        "is not served: CustomResourceDefinition applicationsets.argoproj.io: not within {limit}: it does not exist"
    );
    none.fails(1, &[&late]);

    let waiting = run(&["crds", "--wait", "--timeout", "150s"]);
    let client = Arc::new(server.client_as("test"));
    for definition in wavegate_api::crds::all_definitions() {
        Api::all(client.as_ref().clone())
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let served = waiting.await.unwrap();
    assert_eq!((served.code, served.out.as_str()), (0, ""), "{}", served.err);
    run(&["crds", "--timeout", "1s"]).await.unwrap().fails(2, &["--wait"]);
}
