//! An Application that cannot be written is reported in the words of the API server: in the
//! status, its conditions, `status` and `explain`, and without a write for each try.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use kube_sim::{Effect, InjectedFault};

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;
use crate::support::manifests::IN_CLUSTER;

const ARGS: [&str; 6] = [
    "--probe-addr=",
    "--metrics-addr=",
    "--webhook-addr=",
    "--sync-engine=external",
    "--enable-progressive-syncs",
    "--logformat=text",
];

/// A set whose Applications are `a` and `b` in step 1, and `c` in step 2.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let steps = json!([selects(&["a", "b"], Value::Null), selects(&["c"], Value::Null)]);
    let mut fleet: Value = serde_json::from_str(&set(&["a", "b", "c"], steps)).unwrap();
    fleet["spec"]["template"]["spec"]["destination"] =
        json!({"server": IN_CLUSTER, "namespace": "default"});
    cluster.create("ApplicationSet", fleet).await;
    cluster
}

async fn until(cluster: &Cluster, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let api = cluster.api("ApplicationSet");
    let until = Instant::now() + WAIT;
    loop {
        let set = serde_json::to_value(api.get("set").await.unwrap()).unwrap();
        if holds(&set) {
            return set;
        }
        assert!(Instant::now() < until, "{what}: {set:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn condition<'a>(set: &'a Value, kind: &str) -> &'a str {
    let conditions = set["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
    found["message"].as_str().unwrap()
}

fn wait_for<'a>(set: &'a Value, application: &str) -> Option<&'a Value> {
    let waits = set["status"]["rollout"]["waitingFor"].as_array()?;
    waits.iter().find(|wait| wait["application"] == application)
}

/// Whether the set waits for an Application in this way.
fn waits(set: &Value, application: &str, kind: &str) -> bool {
    wait_for(set, application).is_some_and(|wait| wait["kind"] == kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_cannot_be_created_says_so_everywhere() {
    let cluster = cluster().await;
    let refused = |request: &kube_sim::RequestRecord| {
        request.resource == "applications"
            && request.verb == "create"
            && request.client.starts_with("wavegate")
    };
    // Each of the three creations is refused, and tried again.
    cluster.server.inject(InjectedFault::new(Effect::Status(422), refused).times(1_000_000));
    let mut running = Running::start(&cluster, &ARGS, &[]);
    let reported = until(&cluster, "the refusal is reported", |set| {
        waits(set, "a", "FailedWrite") && waits(set, "b", "FailedWrite")
    })
    .await;
    let reason = wait_for(&reported, "a").unwrap()["reason"].as_str().unwrap();
    assert_eq!(wait_for(&reported, "b").unwrap()["reason"], reason);
    let message =
        format!("step 1 of 2: 0 of 2 applications are done; a waits: {reason} (and 1 more)");
    assert_eq!(reported["status"]["rollout"]["message"], *message);
    assert_eq!(condition(&reported, "RolloutProgressing"), message);
    let words = reason.strip_prefix("it cannot be created: 422: ").unwrap();
    assert_eq!(condition(&reported, "ErrorOccurred"), format!("application a: {words}"));

    let explained = cluster.run(&["explain", "set"]).await;
    let summary = format!("set waits in step 1 of 2: a: {reason} (and 1 more)");
    assert_eq!((explained.code, explained.out.lines().next()), (0, Some(summary.as_str())));
    says(&explained.out, "a, b: fix the cause: the ApplicationSet, or ");
    let status = cluster.run(&["status", "set", "-o", "json"]).await.json();
    let row = |at: usize| {
        (status["applications"][at]["application"].clone(), &status["applications"][at]["message"])
    };
    assert_eq!(row(0), (json!("a"), &json!(reason)));
    assert_eq!(row(1), (json!("b"), &json!(reason)));

    // The tries that follow write nothing else.
    let version = reported["metadata"]["resourceVersion"].clone();
    let tries = running.log().matches("write failed").count();
    let until_tried = Instant::now() + WAIT;
    while running.log().matches("write failed").count() < tries + 6 {
        assert!(Instant::now() < until_tried, "{}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let same = until(&cluster, "it is unchanged", |_| true).await;
    assert_eq!(same["metadata"]["resourceVersion"], version, "{same:#}");

    cluster.server.clear_faults();
    let fixed = until(&cluster, "they are created", |set| {
        wait_for(set, "a").is_some_and(|wait| wait["kind"] != "FailedWrite")
            && condition(set, "ErrorOccurred").contains("have been generated")
    })
    .await;
    assert!(condition(&fixed, "RolloutProgressing").starts_with("step 1 of 2: "), "{fixed:#}");
    running.until_logged("created").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_is_refused_and_a_foreign_application_say_so() {
    let cluster = cluster().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    let owners: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let owner = serde_json::from_value(owner).unwrap();
    let uid = owners.create(&PostParams::default(), &owner).await.unwrap().metadata.uid;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid, "controller": true});
    let foreign = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "b", "ownerReferences": [owner]},
        "spec": {"project": "default", "destination": {}, "source": {"repoURL": "https://r"}},
    });
    cluster.create("Application", foreign).await;
    let _running = Running::start(&cluster, &ARGS, &[]);
    until(&cluster, "the foreign Application is reported", |set| waits(set, "b", "Refused")).await;
    // What is refused later is a change of it.
    let applications = cluster.api("Application");
    let until_created = Instant::now() + WAIT;
    while applications.get_opt("a").await.unwrap().is_none() {
        assert!(Instant::now() < until_created, "a is not created");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let explained = cluster.run(&["explain", "set", "-o", "json"]).await.json();
    let b = explained["waits"].as_array().unwrap().iter().find(|wait| wait["application"] == "b");
    assert_eq!(b.unwrap()["reason"], "it cannot be created: it is owned by ConfigMap other");

    let patched = |request: &kube_sim::RequestRecord| {
        request.resource == "applications"
            && request.verb == "patch"
            && request.name == "a"
            && request.client.starts_with("wavegate")
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(403), patched).times(1_000_000));
    let api = cluster.api("ApplicationSet");
    let change = json!({"spec": {"template": {"spec": {"source": {"repoURL": "https://other"}}}}});
    let params = kube::api::PatchParams::default();
    api.patch("set", &params, &kube::api::Patch::Merge(&change)).await.unwrap();
    until(&cluster, "the refused update is reported", |set| waits(set, "a", "FailedWrite")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_does_not_exist_is_named() {
    let cluster = cluster().await;
    let api = cluster.api("ApplicationSet");
    let change = json!({"spec": {"template": {"spec": {"project": "nope"}}}});
    let params = kube::api::PatchParams::default();
    api.patch("set", &params, &kube::api::Patch::Merge(&change)).await.unwrap();
    let _running = Running::start(&cluster, &ARGS, &[]);
    let reason = "the application is invalid: spec.project: AppProject nope does not exist in namespace argocd";
    let set = until(&cluster, "it is reported", |set| waits(set, "a", "Invalid")).await;
    assert!(condition(&set, "RolloutProgressing").contains(reason), "{set:#}");
    let explained = cluster.run(&["explain", "set"]).await;
    let summary = format!("set waits in step 1 of 2: a: {reason} (and 1 more)");
    assert_eq!(explained.out.lines().next(), Some(summary.as_str()));
}
