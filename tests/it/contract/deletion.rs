//! Deletion: finalizers, preconditions, owners, namespaces.

use kube::Client;
use serde_json::{Value, json};

use super::support::*;

fn owned_by(name: &str, owners: &[(&Value, bool)]) -> Value {
    let mut object = config_map(name);
    let references: Vec<Value> = owners
        .iter()
        .map(|(owner, block)| {
            json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block})
        })
        .collect();
    object["metadata"]["ownerReferences"] = json!(references);
    object
}

pub async fn finalizers_delay_a_deletion(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    let created = post(&client, &all, &object).await.ok(201);
    let held = delete(&client, &one, &json!({})).await.ok(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(uid(&held), uid(&created));
    // A second deletion changes nothing.
    let again = delete(&client, &one, &json!({})).await.ok(200);
    assert_eq!(again["metadata"]["deletionTimestamp"], held["metadata"]["deletionTimestamp"]);
    let add = json!({"metadata": {"finalizers": ["example.com/one", "example.com/three"]}});
    let refusal = patch(&client, &one, MERGE, &add).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "metadata.finalizers"), "{refusal}");
    // It can be changed, but the deletion cannot be undone.
    let changed = patch(
        &client,
        &one,
        MERGE,
        &json!({"metadata": {"deletionTimestamp": null}, "data": {"a": "2"}}),
    )
    .await;
    assert!(changed.ok(200)["metadata"]["deletionTimestamp"].is_string());
    patch(&client, &one, MERGE, &json!({"metadata": {"finalizers": ["example.com/two"]}}))
        .await
        .ok(200);
    get(&client, &one).await.ok(200);
    patch(&client, &one, MERGE, &json!({"metadata": {"finalizers": null}})).await.ok(200);
    get(&client, &one).await.refused(404, "NotFound");
}

pub async fn preconditions_guard_deletion(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let first = post(&client, &all, &config_map("a")).await.ok(201);
    let options = |field: &str, value: &str| json!({"preconditions": {field: value}});
    let other = "00000000-0000-4000-8000-000000000000";
    delete(&client, &one, &options("uid", other)).await.refused(409, "Conflict");
    patch(&client, &one, MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    delete(&client, &one, &options("resourceVersion", version(&first)))
        .await
        .refused(409, "Conflict");
    get(&client, &one).await.ok(200);
    delete(&client, &one, &options("uid", uid(&first))).await.ok(200);
    get(&client, &one).await.refused(404, "NotFound");
}

pub async fn dependents_follow_their_owner(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let owner = post(&client, &all, &config_map("owner")).await.ok(201);
    let child = post(&client, &all, &owned_by("child", &[(&owner, false)])).await.ok(201);
    post(&client, &all, &owned_by("grandchild", &[(&child, false)])).await.ok(201);
    delete(&client, &format!("{all}/owner"), &json!({"propagationPolicy": "Background"}))
        .await
        .ok(200);
    gone(&client, &format!("{all}/child")).await;
    gone(&client, &format!("{all}/grandchild")).await;
}

pub async fn orphans_are_kept(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let owner = post(&client, &all, &config_map("owner")).await.ok(201);
    let child = post(&client, &all, &owned_by("child", &[(&owner, false)])).await.ok(201);
    delete(&client, &format!("{all}/owner"), &json!({"propagationPolicy": "Orphan"})).await.ok(200);
    gone(&client, &format!("{all}/owner")).await;
    let path = format!("{all}/child");
    let left = eventually(&client, &path, "disowned", |a| {
        a.body["metadata"].get("ownerReferences").is_none()
    })
    .await;
    assert_eq!(uid(&left), uid(&child));
}

pub async fn foreground_deletion_waits_for_dependents(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let owner = post(&client, &all, &config_map("owner")).await.ok(201);
    let mut child = owned_by("child", &[(&owner, true)]);
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&client, &all, &child).await.ok(201);
    let mut loose = owned_by("loose", &[(&owner, false)]);
    loose["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&client, &all, &loose).await.ok(201);
    let held =
        delete(&client, &format!("{all}/owner"), &json!({"propagationPolicy": "Foreground"}))
            .await
            .ok(200);
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["child", "loose"] {
        let path = format!("{all}/{name}");
        eventually(&client, &path, "deleting", |a| {
            a.body["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    }
    get(&client, &format!("{all}/owner")).await.ok(200);
    let release = json!({"metadata": {"finalizers": null}});
    patch(&client, &format!("{all}/child"), MERGE, &release).await.ok(200);
    // Only the blocking dependent was waited for.
    gone(&client, &format!("{all}/owner")).await;
    get(&client, &format!("{all}/loose")).await.ok(200);
    patch(&client, &format!("{all}/loose"), MERGE, &release).await.ok(200);
    gone(&client, &format!("{all}/loose")).await;
}

pub async fn foreground_deletion_is_announced(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    post(&client, &all, &config_map("a")).await.ok(201);
    // Also without dependents: the garbage collector removes the finalizer.
    let held = delete(&client, &format!("{all}/a"), &json!({"propagationPolicy": "Foreground"}))
        .await
        .ok(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    gone(&client, &format!("{all}/a")).await;
}

pub async fn one_existing_owner_is_sufficient(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = post(&client, &all, &config_map("one")).await.ok(201);
    let two = post(&client, &all, &config_map("two")).await.ok(201);
    post(&client, &all, &owned_by("child", &[(&one, false), (&two, false)])).await.ok(201);
    delete(&client, &format!("{all}/one"), &json!({"propagationPolicy": "Background"}))
        .await
        .ok(200);
    let path = format!("{all}/child");
    let refs = |a: &Answer| a.body["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    let left = eventually(&client, &path, "one owner left", |a| refs(a) == 1).await;
    assert_eq!(left["metadata"]["ownerReferences"][0]["name"], "two");
    delete(&client, &format!("{all}/two"), &json!({"propagationPolicy": "Background"}))
        .await
        .ok(200);
    gone(&client, &path).await;
}

pub async fn a_missing_owner_counts_as_deleted(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}});
    post(&client, &all, &owned_by("child", &[(&ghost, false)])).await.ok(201);
    gone(&client, &format!("{all}/child")).await;
    let mut nameless = owned_by("bad", &[(&ghost, false)]);
    nameless["metadata"]["ownerReferences"][0]["name"] = json!("");
    post(&client, &all, &nameless).await.refused(422, "Invalid");
}

pub async fn a_deleted_namespace_deletes_its_objects(client: Client, namespace: &str) {
    let name = format!("{namespace}-inner");
    let path = format!("/api/v1/namespaces/{name}");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let created = post(&client, "/api/v1/namespaces", &object).await.ok(201);
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["status"]["phase"], "Active");
    let all = config_maps(&name);
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&client, &all, &held).await.ok(201);
    post(&client, &all, &config_map("free")).await.ok(201);
    let deleted = delete(&client, &path, &json!({})).await.ok(200);
    assert_eq!(deleted["kind"], "Namespace");
    assert_eq!(deleted["status"]["phase"], "Terminating");
    gone(&client, &format!("{all}/free")).await;
    get(&client, &format!("{all}/held")).await.ok(200);
    let refusal = post(&client, &all, &config_map("late")).await.refused(403, "Forbidden");
    assert_eq!(refusal["details"]["causes"][0]["reason"], "NamespaceTerminating");
    get(&client, &path).await.ok(200);
    patch(&client, &format!("{all}/held"), MERGE, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok(200);
    gone(&client, &path).await;
}
