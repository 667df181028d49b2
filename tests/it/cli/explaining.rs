//! `explain` down to the Pod, with simulated workloads on the embedded API server.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault, RequestRecord, workloads};
use tokio_util::sync::CancellationToken;

use super::dashboard::PageServer;
use super::embedded::Cluster;
use super::*;
use crate::support::manifests::IN_CLUSTER;

/// A cluster with simulated workloads in the namespace `shop`, a set in two steps, and its
/// Application `a`, which waits for a resource.
struct Shop {
    cluster: Cluster,
    owner: Value,
    stop: CancellationToken,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shop {
    async fn new() -> Self {
        let shop = Self::alone().await;
        let options = workloads::WorkloadOptions {
            delay: Duration::from_millis(50),
            pods: true,
            ..workloads::WorkloadOptions::default()
        };
        let client = shop.cluster.server.client_as("simulation");
        tokio::spawn(workloads::run(client, options, shop.stop.clone()));
        shop
    }

    /// The same where nothing becomes of workloads.
    async fn alone() -> Self {
        let cluster = Cluster::start().await;
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let steps = json!([selects(&["a"], json!(1)), selects(&["b"], Value::Null)]);
        let mut object: Value = serde_json::from_str(&set(&["a", "b"], steps)).unwrap();
        object["metadata"]["namespace"] = "argocd".into();
        let created = cluster.create("ApplicationSet", object).await;
        let owner = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
            "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true,
        });
        Self { cluster, owner, stop: CancellationToken::new() }
    }

    fn api(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.cluster.client.clone(), "shop", kind)
    }

    /// Creates a workload whose Pods fail so.
    async fn workload(&self, kind: &ApiResource, name: &str, failure: &str, job: bool) {
        let labels = json!({"app": name});
        let mut pod = json!({"containers": [{"name": "main", "image": "example.invalid/main:1"}]});
        if job {
            pod["restartPolicy"] = "Never".into();
        }
        let mut spec = json!({"template": {"metadata": {"labels": labels}, "spec": pod}});
        if !job {
            spec["selector"] = json!({"matchLabels": labels});
        }
        let annotations = json!({
            "simulate.wavegate.dev/outcome": "fail", "simulate.wavegate.dev/failure": failure,
            "simulate.wavegate.dev/message": "connecting\ncannot reach db: postgres://u:hunter2@db/x\n",
        });
        let object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap();
    }

    /// Makes the set wait for a resource of the Application `a`.
    async fn waits_for(&self, kind: &ApiResource, name: &str, hook: bool) {
        let key = json!({"group": kind.group, "version": "v1", "kind": kind.kind, "namespace": "shop", "name": name});
        let mut status = json!({"sync": {"status": "Synced"}, "health": {"status": "Degraded"}});
        if hook {
            let mut result = key.clone();
            result["hookType"] = "PreSync".into();
            result["hookPhase"] = "Failed".into();
            result["message"] = "Job has reached the specified backoff limit".into();
            status["operationState"] = json!({"phase": "Failed", "message": "a hook failed", "operation": {},
                "startedAt": "2026-01-02T03:04:05Z", "syncResult": {"revision": "r", "resources": [result]}});
        } else {
            let mut resource = key.clone();
            resource["status"] = "Synced".into();
            resource["health"] = json!({"status": "Degraded", "message": "not ready"});
            status["resources"] = json!([resource]);
        }
        let metadata =
            json!({"name": "a", "labels": {"app": "a"}, "ownerReferences": [self.owner]});
        let spec = json!({"project": "default", "source": {"repoURL": "https://r"},
            "destination": {"server": IN_CLUSTER, "namespace": "shop"}});
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": metadata, "spec": spec, "status": status});
        let applications = self.cluster.api("Application");
        let _ = applications.delete("a", &Default::default()).await;
        self.cluster.create("Application", object).await;
        let entry = |name: &str, phase: &str, step: &str| {
            json!({"application": name, "status": phase,
            "step": step, "message": "m", "targetRevisions": [], "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        let status = json!({"status": {
            "rollout": {"step": 1, "steps": 2, "progress": "0/2"},
            "health": {"status": "Progressing"},
            "applicationStatus": [entry("a", "Progressing", "1"), entry("b", "Waiting", "2")],
        }});
        self.cluster.patch_status("ApplicationSet", "set", &status).await;
    }

    /// Runs `explain` until it prints this: the simulation takes a moment.
    async fn explains(&self, words: &[&str]) -> Run {
        let begin = Instant::now();
        loop {
            let explained = self.cluster.run(&["explain", "set"]).await;
            assert_eq!(explained.code, 0, "{}{}", explained.out, explained.err);
            if words.iter().all(|words| explained.out.contains(words)) {
                return explained;
            }
            assert!(begin.elapsed() < WAIT, "{words:?}: {}{}", explained.out, explained.err);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// PG-018: the page has the end of the log of the Pod that holds a step, where the person may read it.
#[tokio::test(flavor = "multi_thread")]
async fn pg_018_the_page_has_the_end_of_the_log_of_that_pod() {
    let shop = Shop::new().await;
    let deployment = kind_of("apps", "Deployment");
    shop.workload(&deployment, "web", "CrashLoopBackOff", false).await;
    shop.waits_for(&deployment, "web", false).await;
    shop.explains(&["container main: CrashLoopBackOff"]).await;
    let page = || {
        let mut command = program(&["dashboard"]);
        command.env("KUBECONFIG", shop.cluster.kubeconfig());
        PageServer::with(command)
    };
    let body = page().await.until("/set/argocd/set", "Log of shop/web-").await;
    says(&body, "simulation: fails, as it was asked to, exit code 1");
    assert!(!body.contains("hunter2"), "{body}");

    let is_log = |request: &RequestRecord| request.subresource == "log";
    shop.cluster.server.inject(InjectedFault::new(Effect::Forbidden, is_log).times(usize::MAX));
    let body = page().await.until("/set/argocd/set", " is not shown: ").await;
    assert!(!body.contains("simulation: fails"), "{body}");
}

/// Who was on call had to know which `kubectl` commands lead from a Deployment to its Pods.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_holds_a_step_is_explained_down_to_its_pod() {
    let shop = Shop::new().await;
    let deployment = || kind_of("apps", "Deployment");
    let quota = "exceeded quota: simulated";
    let cases: [(ApiResource, &str, &[&str]); 7] = [
        (
            deployment(),
            "ImagePullBackOff",
            &[
                "Pod shop/",
                ": container main: ImagePullBackOff: Back-off pulling image \"example.invalid/main:1\"",
                "correct the image",
            ],
        ),
        (
            deployment(),
            "CrashLoopBackOff",
            &[
                ": container main: CrashLoopBackOff: back-off 10s",
                "it exited with code 1: connecting; cannot reach db",
                "kubectl -n shop logs ",
                " -c main --previous",
            ],
        ),
        (
            kind_of("apps", "StatefulSet"),
            "Unschedulable",
            &["Pod shop/unschedulable-0: Unschedulable: 0/1 nodes are available"],
        ),
        (
            kind_of("apps", "DaemonSet"),
            "Unhealthy",
            &["Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503"],
        ),
        (
            deployment(),
            "FailedCreate",
            &["ReplicaSet shop/", "FailedCreate: ", quota, "describe resourcequota"],
        ),
        (
            kind_of("apps", "StatefulSet"),
            "FailedCreate",
            &["StatefulSet shop/failedcreate: FailedCreate: ", quota],
        ),
        (
            kind_of("apps", "DaemonSet"),
            "FailedCreate",
            &["DaemonSet shop/failedcreate: FailedCreate: ", quota],
        ),
    ];
    for (kind, failure, words) in cases {
        let name = failure.to_lowercase();
        shop.workload(&kind, &name, failure, false).await;
        shop.waits_for(&kind, &name, false).await;
        let explained = shop.explains(words).await;
        assert_eq!(explained.err, "", "{failure}");
        // A termination message may hold credentials.
        assert!(!explained.out.contains("hunter2"), "{}", explained.out);
        let data = shop.cluster.run(&["explain", "set", "-o", "json"]).await;
        assert!(!data.out.contains("hunter2"), "{}", data.out);
        assert_eq!(data.json()["waits"][0]["cause"]["namespace"], "shop", "{failure}");
        shop.api(&kind).delete(&name, &Default::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failed_pod_of_a_hook_is_explained_with_its_last_words() {
    let shop = Shop::new().await;
    let job = kind_of("batch", "Job");
    shop.workload(&job, "migrate", "CrashLoopBackOff", true).await;
    shop.waits_for(&job, "migrate", true).await;
    let words = [
        "PreSync hook Job shop/migrate failed",
        "Pod shop/migrate-",
        "it exited with code 1: connecting; cannot reach db",
    ];
    let explained = shop.explains(&words).await;
    assert!(!explained.out.contains("hunter2"), "{}", explained.out);
    // The whole explanation at the end of a watch has it, too.
    let watched = shop.cluster.run(&["explain", "set", "--watch", "--no-refresh"]).await;
    assert_eq!(watched.code, 1, "{}{}", watched.out, watched.err);
    assert!(watched.out.contains("Pod shop/migrate-"), "{}", watched.out);
    let listed = shop.cluster.run(&["status"]).await;
    assert!(listed.out.contains("Degraded"), "it is stuck: {}", listed.out);
}

/// A user who may not read Pods still gets the rest, with a note.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_said_and_the_rest_explained() {
    let shop = Shop::new().await;
    let deployment = kind_of("apps", "Deployment");
    shop.workload(&deployment, "web", "FailedCreate", false).await;
    shop.waits_for(&deployment, "web", false).await;
    shop.explains(&["ReplicaSet shop/web-"]).await;
    let pods = |request: &RequestRecord| request.resource == "pods" && request.verb == "list";
    shop.cluster.server.inject(InjectedFault::new(Effect::Status(403), pods).times(100));
    let explained = shop.explains(&["ReplicaSet shop/web-", "FailedCreate"]).await;
    let note = "note: not explained down to Pods: Deployment shop/web: pods: ";
    assert!(explained.err.starts_with(note), "{}", explained.err);
}

/// The advice named another cluster than the one that the user had selected.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_are_for_the_context_that_was_given() {
    let shop = Shop::new().await;
    let deployment = kind_of("apps", "Deployment");
    shop.workload(&deployment, "web", "ImagePullBackOff", false).await;
    shop.waits_for(&deployment, "web", false).await;
    shop.explains(&["ImagePullBackOff"]).await;
    let config = std::fs::read_to_string(shop.cluster.kubeconfig()).unwrap();
    let context = config.lines().find_map(|line| line.trim().strip_prefix("current-context: "));
    let context = context.unwrap().trim_matches('"').to_owned();
    let explained = shop.cluster.run(&["explain", "set", "--context", &context]).await;
    assert_eq!(explained.code, 0, "{}", explained.err);
    let commands = explained
        .out
        .lines()
        .filter(|line| line.contains("kubectl ") || line.contains("wavegate "));
    for line in commands.filter(|line| line.starts_with("  a: ")) {
        assert!(line.contains(&format!("--context {context} -n ")), "{line}");
    }
    assert!(explained.out.contains("--context"), "{}", explained.out);
}

/// A ClusterRole was shown in the namespace of its Application.
#[tokio::test(flavor = "multi_thread")]
async fn a_difference_of_files_gives_no_namespace_to_a_cluster_scoped_object() {
    let role = |namespace: Value, verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "reader", "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
        .to_string()
    };
    let files = folder(&[
        ("desired.yaml", &role("shop".into(), "get")),
        ("live.yaml", &role(Value::Null, "list")),
        ("same.yaml", &role(Value::Null, "get")),
    ]);
    let path = |name: &str| files.path().join(name).display().to_string();
    let (desired, live, same) = (path("desired.yaml"), path("live.yaml"), path("same.yaml"));
    let run = |live: String| {
        let mut command = program(&["diff", "--desired", &desired, "--live", &live, "-o", "json"]);
        command.env_remove("KUBECONFIG");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), serde_json::from_str::<Value>(&text).unwrap())
    };
    let (code, found) = run(live);
    assert_eq!((code, &found["namespace"]), (Some(1), &json!("")), "{found}");
    assert_eq!(found["predicted"]["metadata"]["namespace"], Value::Null);
    assert_eq!(run(same).0, Some(0), "the namespace is no difference");
}

/// A Pod that needs what only a later wave creates waits for ever, since that wave waits for it: the
/// advice names both waves. An object of an earlier or of the same wave is not the cause.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_needs_an_object_of_a_later_wave_is_told_the_waves() {
    let shop = Shop::alone().await;
    let deployment = kind_of("apps", "Deployment");
    let labels = json!({"app": "web"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/main:1"}]},
    });
    let create = async |kind: &ApiResource, name: &str, owner: Value, mut rest: Value| {
        rest["apiVersion"] = kind.api_version.as_str().into();
        rest["kind"] = kind.kind.as_str().into();
        rest["metadata"]["name"] = name.into();
        rest["metadata"]["labels"] = labels.clone();
        if !owner.is_null() {
            rest["metadata"]["ownerReferences"] = json!([owner]);
        }
        let object: DynamicObject = serde_json::from_value(rest).unwrap();
        let made = shop.api(kind).create(&PostParams::default(), &object).await.unwrap();
        json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": name,
            "uid": made.metadata.uid, "controller": true})
    };
    let of_pods =
        json!({"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}});
    let owner = create(&deployment, "web", Value::Null, of_pods.clone()).await;
    let owner = create(&kind_of("apps", "ReplicaSet"), "web-1", owner, of_pods).await;
    let kind = kind_of("", "Pod");
    create(&kind, "web-1-a", owner, pod.clone()).await;
    for (words, kind_of_missing) in [("secret \"db\"", "Secret"), ("configmap \"db\"", "ConfigMap")]
    {
        let waiting = json!({"reason": "CreateContainerConfigError", "message": format!("{words} not found")});
        let status = json!({"status": {"phase": "Pending", "containerStatuses": [{
            "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": waiting},
        }]}});
        let params = kube::api::PatchParams::default();
        shop.api(&kind)
            .patch_status("web-1-a", &params, &kube::api::Patch::Merge(&status))
            .await
            .unwrap();
        for (wave, is_told) in [(1, true), (0, false), (-1, false)] {
            shop.waits_for(&deployment, "web", false).await;
            let app = shop.cluster.api("Application").get("a").await.unwrap();
            let mut resources = app.data["status"]["resources"].clone();
            resources.as_array_mut().unwrap().push(json!({
                "version": "v1", "kind": kind_of_missing, "namespace": "shop", "name": "db",
                "status": "OutOfSync", "health": {"status": "Missing"}, "syncWave": wave,
            }));
            let patch = kube::api::Patch::Merge(json!({"status": {"resources": resources}}));
            shop.cluster.api("Application").patch("a", &params, &patch).await.unwrap();
            let explained = shop.explains(&[words]).await;
            let advice = format!(
                "{kind_of_missing} db is in wave {wave}, which waits for Deployment web in wave 0"
            );
            assert_eq!(explained.out.contains(&advice), is_told, "{wave}: {}", explained.out);
            let named = format!("give {kind_of_missing} db the wave 0 or an earlier one");
            assert_eq!(explained.out.contains(&named), is_told, "{wave}: {}", explained.out);
        }
    }
}
