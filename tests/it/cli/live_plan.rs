//! `plan --live` shows the writes of the controller, with its policy, its projects and
//! clusters, and its invalid rules.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;

use super::embedded::Cluster;
use super::*;

/// A cluster with a set `set`, two of its Applications that differ from the generated
/// ones, and one that is no longer generated.
async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut object: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    let created = cluster.create("ApplicationSet", object).await;
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    for name in ["a", "b", "z"] {
        let metadata = json!({"name": name, "labels": {"app": name}, "ownerReferences": [owner], "finalizers": ["resources-finalizer.argocd.argoproj.io"]});
        let spec = json!({"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://old"}});
        let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec});
        cluster.create("Application", application).await;
    }
    cluster
}

/// Name, change and message of each Application.
async fn changes(cluster: &Cluster, file: Option<&str>, args: &[&str]) -> (i32, Vec<[String; 3]>) {
    let mut all = vec!["plan", "--live", "-o", "json"];
    match file {
        Some(file) => all.extend(["-f", file]),
        None => all.push("set"),
    }
    all.extend(args);
    let run = cluster.run(&all).await;
    let text = |live: &Value, field: &str| live[field].as_str().unwrap().to_owned();
    let report = run.json();
    let rows = report["live"]
        .as_array()
        .unwrap()
        .iter()
        .map(|live| ["application", "change", "message"].map(|field| text(live, field)));
    (run.code, rows.collect())
}

fn names_and_changes(rows: &[[String; 3]]) -> Vec<(&str, &str)> {
    rows.iter().map(|[name, change, _]| (name.as_str(), change.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_shows_fields_and_policies() {
    let cluster = cluster().await;
    let run = cluster.run(&["plan", "--live", "set", "-o", "json"]).await;
    let report = run.json();
    assert_eq!(report["live"][0]["fields"], json!(["spec.source.repoURL"]), "{report}");
    assert_eq!(report["live"][0]["message"], "changes spec.source.repoURL");
    let want = [("a", "update"), ("b", "update"), ("z", "delete")];
    assert_eq!(names_and_changes(&changes(&cluster, None, &[]).await.1), want);

    // A flag of the controller, and the same in its ConfigMap (AS-150, AS-500).
    let want = [("a", "none"), ("b", "none"), ("z", "delete")];
    let flags = ["--policy", "create-delete"];
    assert_eq!(names_and_changes(&changes(&cluster, None, &flags).await.1), want);
    let keys = json!({
        "metadata": {"name": "argocd-cmd-params-cm"},
        "data": {"applicationsetcontroller.policy": "create-update"},
    });
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "argocd");
    let keys = serde_json::from_value(keys).unwrap();
    maps.create(&PostParams::default(), &keys).await.unwrap();
    let rows = changes(&cluster, None, &[]).await.1;
    assert_eq!(names_and_changes(&rows[..2]), [("a", "update"), ("b", "update")]);
    assert!(rows.iter().all(|[_, change, _]| change != "delete"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_references_are_refused_and_deletions_wait_as_148_as_180() {
    let cluster = cluster().await;
    let file: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    let cases = [
        ("/spec/template/spec/project", json!("missing"), "missing"),
        ("/spec/template/spec/destination/server", json!("https://2"), "https://2"),
        ("/spec/template/metadata/name", json!("App_{{name}}"), "App_"),
    ];
    for (place, value, word) in cases {
        let mut file = file.clone();
        *file.pointer_mut(place).unwrap() = value;
        let files = folder(&[("set.json", &file.to_string())]);
        let (code, rows) = changes(&cluster, Some(&in_folder(&files, "set.json")), &[]).await;
        assert_eq!(code, 1, "{place}");
        let refused =
            rows.iter().filter(|[_, change, why]| change == "refuse" && why.contains(word));
        assert_eq!(refused.count(), 2, "{place}: {rows:?}");
        assert!(rows.iter().any(|[name, change, _]| name == "z" && change == "wait"), "{rows:?}");
        assert!(rows.iter().all(|[_, change, _]| change != "delete"), "{rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_rule_is_shown_where_it_applies_as_162() {
    let cluster = cluster().await;
    let mut file: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    file["spec"]["ignoreApplicationDifferences"] =
        json!([{"name": "a", "jqPathExpressions": [".spec["]}]);
    let files = folder(&[("set.json", &file.to_string())]);
    let (code, rows) = changes(&cluster, Some(&in_folder(&files, "set.json")), &[]).await;
    assert_eq!(code, 1);
    let want = [("a", "refuse"), ("b", "update"), ("z", "wait")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
}
