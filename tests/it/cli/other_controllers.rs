//! `run` does not start beside controllers that do the same work: a newcomer's cluster has those of
//! Argo CD.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_sim::{Effect, InjectedFault, RequestRecord};
use wavegate_controller::leader::LEASE;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

const RUN: [&str; 5] =
    ["run", "--namespace=argocd", "--probe-addr=", "--metrics-addr=", "--webhook-addr="];
const SETS: &str = "argocd-applicationset-controller";
const SYNCS: &str = "argocd-application-controller";

/// A controller as the manifests of Argo CD have it.
fn controller(name: &str) -> Value {
    let component = name.trim_start_matches("argocd-");
    let pods = json!({"app.kubernetes.io/name": name});
    json!({
        "metadata": {"name": name, "labels": {
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/part-of": "argocd",
        }},
        "spec": {"selector": {"matchLabels": pods}, "serviceName": name, "template": {
            "metadata": {"labels": pods},
            "spec": {"containers": [{"name": "one", "image": "quay.io/argoproj/argocd"}]},
        }},
    })
}

async fn scale<K>(api: &Api<K>, name: &str, replicas: u32)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn writes(cluster: &Cluster) -> Vec<RequestRecord> {
    let reads = ["get", "list", "watch"];
    let is_write = |request: &RequestRecord| {
        request.client != "test" && !reads.contains(&request.verb.as_str())
    };
    cluster.server.requests().into_iter().filter(is_write).collect()
}

/// Both halves, and what is meant to run beside them.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_beside_the_controllers_of_argo_cd_that_do_the_same() {
    let cluster = Cluster::start().await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "argocd");
    let stateful: Api<StatefulSet> = Api::namespaced(cluster.client.clone(), "argocd");
    let create = PostParams::default();
    let object = |name: &str| serde_json::from_value(controller(name)).unwrap();
    deployments.create(&create, &object(SETS)).await.unwrap();
    let object = |name: &str| serde_json::from_value(controller(name)).unwrap();
    stateful.create(&create, &object(SYNCS)).await.unwrap();

    for engine in ["embedded", "external"] {
        let flag = format!("--sync-engine={engine}");
        let refused = cluster.run(&[&RUN[..], &[&flag]].concat()).await;
        let advice = format!("kubectl -n argocd scale deployment {SETS} --replicas 0");
        refused.fails(2, &["Deployment argocd/argocd-applicationset-controller", &advice]);
    }
    scale(&deployments, SETS, 0).await;
    let refused = cluster.run(&RUN).await;
    let advice = format!("kubectl -n argocd scale statefulset {SYNCS} --replicas 0");
    refused.fails(2, &["--sync-engine=external", &advice, "--allow-other-controllers"]);
    assert!(writes(&cluster).is_empty(), "nothing was written: {:?}", writes(&cluster));

    // A dry run is no danger, and what is meant starts.
    for flag in ["--dry-run", "--allow-other-controllers", "--sync-engine=external"] {
        let mut running = Running::start(&cluster, &[&RUN[2..], &[flag]].concat(), &[]);
        running.until_logged("\"starting\"").await;
    }
    // Neither does a changed setting start the other half beside it.
    cluster.sets(json!({"applicationsetcontroller.sync.engine": "external"})).await;
    let mut running = Running::start(&cluster, &RUN[2..], &[]);
    running.until_logged("\"starting\"").await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(cluster.client.clone(), "argocd");
    maps.patch(
        "argocd-cmd-params-cm",
        &PatchParams::default(),
        &Patch::Merge(json!({"data": {"applicationsetcontroller.sync.engine": "embedded"}})),
    )
    .await
    .unwrap();
    let log = running.until_logged("the former ones stay").await;
    assert!(log.contains(&advice), "{log}");
    drop(running);
    scale(&stateful, SYNCS, 0).await;
    let mut running = Running::start(&cluster, &RUN[2..], &[]);
    running.until_logged("\"starting\"").await;
}

/// Without the permission to look, it starts, and says that it could not.
#[tokio::test(flavor = "multi_thread")]
async fn who_must_not_look_for_others_says_so_and_starts() {
    let cluster = Cluster::start().await;
    let workloads = |request: &RequestRecord| {
        ["deployments", "statefulsets"].contains(&request.resource.as_str())
    };
    let refused = InjectedFault::new(Effect::Status(403), workloads).times(usize::MAX);
    cluster.server.inject(refused);
    let mut running =
        Running::start(&cluster, &[&RUN[2..], &["--sync-engine=external"]].concat(), &[]);
    let log = running.until_logged("\"starting\"").await;
    for kind in ["Deployments", "StatefulSets"] {
        assert!(log.contains(&format!("{kind} of namespace argocd cannot be read")), "{log}");
    }
}

/// Who needs no Lease does not start beside its holder, and does once it is not renewed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_without_the_lease_while_another_one_renews_it() {
    let cluster = Cluster::start().await;
    let flags = ["--enable-leader-election", "--sync-engine=external"];
    let mut leader = Running::start(&cluster, &[&RUN[2..], &flags].concat(), &[]);
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "argocd");
    leader.until_logged("waiting for the lease").await;
    let until = std::time::Instant::now() + WAIT;
    while leases.get_opt(LEASE).await.unwrap().is_none() {
        assert!(std::time::Instant::now() < until, "{}", leader.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let other = [&RUN[..], &["--sync-engine=external"]].concat();
    let refused = cluster.run(&other).await;
    refused.fails(2, &[LEASE, "--enable-leader-election", "--allow-other-controllers"]);
    drop(leader);
    let mut running = Running::start(&cluster, &other[2..], &[]);
    let log = running.until_logged("\"starting\"").await;
    assert!(log.contains("to see whether it is renewed"), "{log}");
    drop(running);
    leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
}

/// A project that locks everything down is not opened, and one that is missing is created.
#[tokio::test(flavor = "multi_thread")]
async fn the_default_project_is_created_where_it_is_missing_and_never_changed() {
    for existing in [None, Some(json!({"description": "locked down", "sourceRepos": []}))] {
        let cluster = Cluster::start().await;
        if let Some(spec) = &existing {
            cluster
                .create("AppProject", json!({"metadata": {"name": "default"}, "spec": spec}))
                .await;
        }
        let mut running = Running::start(&cluster, &RUN[2..], &[]);
        // Written after that.
        running.until_logged("\"starting\"").await;
        cluster.create("Application", json!({
            "metadata": {"name": "a"},
            "spec": {"project": "default", "source": {"repoURL": "https://r", "path": "."},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "n"}},
        }))
        .await;
        let until = std::time::Instant::now() + WAIT;
        loop {
            let app = cluster.api("Application").get("a").await.unwrap();
            if !app.data["status"]["conditions"].is_null() {
                break;
            }
            assert!(std::time::Instant::now() < until, "{}", running.log());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let project = cluster.api("AppProject").get("default").await.unwrap();
        match existing {
            Some(spec) => assert_eq!(project.data["spec"], spec),
            None => {
                assert_eq!(project.data["spec"]["sourceRepos"], json!(["*"]));
                assert!(running.log().contains("default was missing"), "{}", running.log());
            }
        }
    }
}
