//! What `status`, `explain` and `plan --live` say of deletions.

use kube::api::{DeleteParams, Patch, PatchParams};

use super::embedded::Cluster;
use super::*;

const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";

/// A set with a finalizer and these Applications, which have one, too.
async fn cluster(applications: &[&str]) -> Cluster {
    let held = [CASCADE, "example.com/hold"];
    let cluster = Cluster::with_set(applications, applications, "https://r", &held).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [CASCADE]}}));
    let sets = cluster.api("ApplicationSet");
    sets.patch("set", &PatchParams::default(), &patch).await.unwrap();
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_names_what_it_waits_for_and_why_as_383() {
    let cluster = cluster(&["a", "b"]).await;
    let (sets, applications) = (cluster.api("ApplicationSet"), cluster.api("Application"));
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
    let applications = cluster.api("Application");
    applications.patch("z", &PatchParams::default(), &lost).await.unwrap();
    let elements = json!({"spec": {"generators": [{"list": {"elements": []}}]}});
    let elements = Patch::Merge(elements);
    let sets = cluster.api("ApplicationSet");
    sets.patch("set", &PatchParams::default(), &elements).await.unwrap();
    let plan = cluster.run(&["plan", "--live", "set", "-o", "json"]).await.json();
    let live = |at: usize| {
        ["application", "change", "message"].map(|field| plan["live"][at][field].as_str().unwrap())
    };
    assert_eq!(live(0), ["a", "delete", ""]);
    let why = "its resources stay: spec.destination.server: cluster https://lost is not registered";
    assert_eq!(live(1), ["z", "delete", why]);
}

/// AS-169: `kubectl delete --cascade=orphan` leaves the Applications of a set, with their finalizer.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_deleted_alone_leaves_its_applications_as_169() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    cluster.create("ApplicationSet", object).await;
    let args = ["--metrics-addr=", "--probe-addr=", "--webhook-addr=", "--sync-engine=external"];
    let running = super::arguments::Running::start(&cluster, &args, &[]);
    let (sets, applications) = (cluster.api("ApplicationSet"), cluster.api("Application"));
    crate::support::waiting::until("the Application is created", async || {
        applications.get_opt("a").await.unwrap().is_some()
    })
    .await;
    sets.delete("set", &DeleteParams::orphan()).await.unwrap();
    crate::support::waiting::until("it has no owner", async || {
        let app = applications.get("a").await.unwrap();
        let owners = app.metadata.owner_references.unwrap_or_default();
        sets.get_opt("set").await.unwrap().is_none() && owners.is_empty()
    })
    .await;
    let app = applications.get("a").await.unwrap().metadata;
    assert!(app.deletion_timestamp.is_none(), "{}", running.log());
    assert_eq!(app.finalizers, Some(vec![CASCADE.to_owned()]), "{}", running.log());
}
