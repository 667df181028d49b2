//! What `status`, `explain` and `plan --live` say of deletions.

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use wavegate_cluster::watch::object::resource;

use super::embedded::Cluster;
use super::*;

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "argocd", &resource(kind))
}

/// A set with a finalizer and these Applications, which have one, too.
async fn cluster(applications: &[&str]) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut object: Value = serde_json::from_str(&set(applications, json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    object["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let created = cluster.create("ApplicationSet", object).await;
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    for name in applications {
        let metadata = json!({"name": name, "labels": {"app": name}, "ownerReferences": [owner], "finalizers": ["resources-finalizer.argocd.argoproj.io", "example.com/hold"]});
        let spec = json!({"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://r"}});
        let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec});
        cluster.create("Application", application).await;
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_names_what_it_waits_for_and_why_as_383() {
    let cluster = cluster(&["a", "b"]).await;
    let (sets, applications) =
        (api(&cluster.client, "ApplicationSet"), api(&cluster.client, "Application"));
    sets.delete("set", &DeleteParams::default()).await.unwrap();
    let message = async || {
        let status = cluster.run(&["status", "set", "-o", "json"]).await;
        assert_eq!(status.code, 0, "{}", status.err);
        status.json()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message().await, "it is being deleted: 2 applications are left");

    applications.delete("b", &DeleteParams::default()).await.unwrap();
    let error = json!({"type": "DeletionError", "message": "cluster is not reachable"});
    let error = Patch::Merge(json!({"status": {"conditions": [error]}}));
    let live = applications.patch("b", &PatchParams::default(), &error).await.unwrap();
    let since = serde_json::to_value(&live.metadata.deletion_timestamp).unwrap();
    let since = since.as_str().unwrap();
    let why = format!(
        "is being deleted since {since}, held by the finalizers resources-finalizer.argocd.argoproj.io, \
         example.com/hold: cluster is not reachable"
    );
    assert_eq!(message().await, format!("it is being deleted: 2 applications are left; b {why}"));
    let explained = cluster.run(&["explain", "set"]).await;
    assert_eq!((explained.code, explained.err.as_str()), (0, ""));
    let first = format!("set: it is being deleted: 2 applications are left; b {why}");
    assert_eq!(explained.out.lines().next(), Some(first.as_str()));
    let advice = "kubectl -n argocd describe application b";
    assert!(explained.out.contains(advice), "{}", explained.out);
    let waits = cluster.run(&["explain", "set", "-o", "json"]).await.json()["waits"].clone();
    assert_eq!(waits.as_array().unwrap().len(), 1, "only b is being deleted: {waits}");
    assert_eq!((&waits[0]["application"], &waits[0]["since"]), (&json!("b"), &json!(since)));

    // What somebody has to confirm is named with the command.
    let warning = json!({"type": "DeletionWarning", "message": "waiting for approval of the deletion of ConfigMap shop/one"});
    let warning = Patch::Merge(json!({"status": {"conditions": [warning]}}));
    applications.patch("b", &PatchParams::default(), &warning).await.unwrap();
    let explained = cluster.run(&["explain", "set"]).await;
    let command = "confirm the deletion: kubectl -n argocd annotate application b --overwrite argocd.argoproj.io/deletion-approved=$(date -u +%FT%TZ)";
    for words in [": waiting for approval of the deletion of ConfigMap shop/one", command] {
        assert!(explained.out.contains(words), "{words}: {}", explained.out);
    }

    // The error of the controller comes first.
    let stuck = json!({"type": "ErrorOccurred", "status": "True", "reason": "DeleteApplicationError", "message": "application b is stuck"});
    let stuck = Patch::Merge(json!({"status": {"conditions": [stuck]}}));
    sets.patch_status("set", &PatchParams::default(), &stuck).await.unwrap();
    let want = "it is being deleted, which has failed: application b is stuck";
    assert_eq!(message().await, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_whose_resources_stay_as_166() {
    let cluster = cluster(&["a", "z"]).await;
    let lost = json!({"spec": {"destination": {"server": "https://lost"}}});
    let lost = Patch::Merge(lost);
    let applications = api(&cluster.client, "Application");
    applications.patch("z", &PatchParams::default(), &lost).await.unwrap();
    let elements = json!({"spec": {"generators": [{"list": {"elements": []}}]}});
    let elements = Patch::Merge(elements);
    let sets = api(&cluster.client, "ApplicationSet");
    sets.patch("set", &PatchParams::default(), &elements).await.unwrap();
    let plan = cluster.run(&["plan", "--live", "set", "-o", "json"]).await.json();
    let live = |at: usize| {
        ["application", "change", "message"].map(|field| plan["live"][at][field].as_str().unwrap())
    };
    assert_eq!(live(0), ["a", "delete", ""]);
    let why = "its resources stay: spec.destination.server: cluster https://lost is not registered";
    assert_eq!(live(1), ["z", "delete", why]);
}
