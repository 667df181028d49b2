//! `run --dry-run` writes nothing, and logs the writes it would make.

use std::process::Child;
use std::time::{Duration, Instant};

use kube::api::DeleteParams;

use super::embedded::Cluster;
use super::*;
use crate::support::manifests::{IN_CLUSTER, plain};
use crate::support::repository::Repository;

/// A controller that is killed at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn application(name: &str, repository: &Repository, automated: bool) -> Value {
    let mut application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": name,
            "annotations": {"argocd.argoproj.io/refresh": "normal"},
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": {
            "project": "default",
            "source": {"repoURL": repository.url(), "targetRevision": "HEAD", "path": "apps/a"},
            "destination": {"server": IN_CLUSTER, "namespace": "default"},
        },
    });
    if automated {
        application["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    }
    application
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_writes_nothing_and_logs_the_writes() {
    let cluster = Cluster::start().await;
    let files = tempfile::tempdir().unwrap();
    let repository = Repository::new(files.path().join("repository"));
    repository.commit("first", &plain("a", "v1"));

    let any = json!([{"server": "*", "namespace": "*"}]);
    let project = json!({"sourceRepos": ["*"], "destinations": any});
    let of = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    cluster.create("AppProject", of("AppProject", "default", project)).await;
    cluster.create("Application", application("auto", &repository, true)).await;
    let mut asked = application("asked", &repository, false);
    asked["operation"] = json!({"sync": {"revision": "HEAD", "prune": true}});
    cluster.create("Application", asked).await;
    cluster.create("Application", application("gone", &repository, false)).await;
    let applications = cluster.api("Application");
    applications.delete("gone", &DeleteParams::default()).await.unwrap();
    cluster.create("ApplicationSet", refreshed_fleet(json!([{}]))).await;

    let log = files.path().join("log");
    let mut command = program(&["run", "--dry-run", "--namespace=argocd", "--probe-addr="]);
    command
        .args(["--metrics-addr=", "--webhook-addr="])
        .args(["--enable-leader-election", "--enable-progressive-syncs", "--allow-local-sources"])
        .args(["--loglevel=info", "--logformat=text"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap());
    let mut running = Running(command.spawn().unwrap());
    let wanted = [
        "no lease is acquired",
        "would create Application a",
        "would create Application b",
        "would add the finalizer resources-finalizer.argocd.argoproj.io",
        "would remove the annotation argocd.argoproj.io/application-set-refresh",
        "would set the condition RolloutProgressing to True",
        "would start an automated sync to ",
        "would apply ConfigMap default/a-config",
        "would start the requested operation",
        "would set status.sync.status from nothing to OutOfSync",
        "would remove the annotation argocd.argoproj.io/refresh",
        "would delete its resources, and remove the finalizers resources-finalizer",
    ];
    let until = Instant::now() + WAIT;
    let text = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        let missing = wanted.iter().find(|words| !text.contains(*words));
        let Some(missing) = missing else { break text };
        assert!(running.0.try_wait().unwrap().is_none(), "it ended: {text}");
        assert!(Instant::now() < until, "no {missing:?} in {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // No write was attempted, and nothing is logged or requested repeatedly.
    assert!(!text.contains("is not sent"), "{text}");
    let calm = |cluster: &Cluster| {
        let requests = cluster.server.requests().into_iter();
        requests.filter(|request| request.client != "test").collect::<Vec<_>>()
    };
    let mut before = calm(&cluster).len();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = calm(&cluster).len();
        if now == before {
            break;
        }
        assert!(Instant::now() < until, "{now} requests and no end: {text}");
        before = now;
    }
    let requests = calm(&cluster);
    assert!(requests.len() > 5, "{requests:?}");
    let reads = ["get", "list", "watch"];
    let writes: Vec<_> =
        requests.iter().filter(|request| !reads.contains(&request.verb.as_str())).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    drop(running);
}
