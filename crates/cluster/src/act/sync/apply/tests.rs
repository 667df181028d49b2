//! Tests of the patches.

use serde_json::{Value, json};

use super::{merge, migrate};
use wavegate_api::annotations::LAST_APPLIED;

fn deployment(containers: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": containers},
            },
        },
    })
}

/// The object as the server stores it after it was applied.
fn applied(target: &Value) -> Value {
    let mut live = merge::with_last_applied(target);
    live["metadata"]["resourceVersion"] = "7".into();
    live["metadata"]["uid"] = "u".into();
    live["status"] = json!({"replicas": 1});
    live
}

#[test]
fn what_is_the_same_needs_no_patch() {
    let target = deployment(json!([{"name": "a", "image": "a:1"}]));
    assert_eq!(merge::three_way(&target, &applied(&target)), None);
}

#[test]
fn only_what_we_applied_goes_with_the_target() {
    let before = deployment(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]));
    let mut live = applied(&before);
    // Another client has added a sidecar and a label.
    let containers = live.pointer_mut("/spec/template/spec/containers").unwrap();
    containers.as_array_mut().unwrap().push(json!({"name": "side", "image": "s:1"}));
    live["metadata"]["labels"] = json!({"other": "1"});
    let target = deployment(json!([{"name": "a", "image": "a:2"}]));
    let patch = merge::three_way(&target, &live).unwrap();
    let mut patched = live.clone();
    json_patch::merge(&mut patched, &patch);
    let containers = patched.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    let images: Vec<&str> = containers.iter().map(|c| c["image"].as_str().unwrap()).collect();
    assert_eq!(images, ["a:2", "s:1"], "SE-340");
    assert_eq!(patched["metadata"]["labels"], json!({"other": "1"}));
    assert_eq!(patched["status"], live["status"], "the status is not ours");
    let remembered = patched["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert!(remembered.contains("a:2") && remembered.ends_with('\n'), "SE-340");
    assert_eq!(merge::three_way(&target, &patched), None);
}

#[test]
fn secrets_are_merged_by_their_real_values() {
    let secret = |data: Value, strings: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "s", "namespace": "web"},
            "data": data, "stringData": strings,
        })
    };
    let before = secret(json!({"gone": "Z29uZQ=="}), json!({"password": "old"}));
    let mut live = applied(&before);
    live.as_object_mut().unwrap().remove("stringData");
    live["data"] = json!({"gone": "Z29uZQ==", "password": "b2xk", "theirs": "eA=="});
    let target = secret(json!({}), json!({"password": "new"}));
    let patch = merge::three_way(&target, &live).unwrap();
    assert_eq!(patch["data"], json!({"gone": null, "password": "bmV3"}));
    assert_eq!(patch.get("stringData"), None);
}

#[test]
fn fields_move_from_the_former_manager() {
    let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
    let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [
        entry("kubectl-client-side-apply", "Update", json!({"f:data": {"f:a": {}}})),
        entry("argocd-controller", "Apply", json!({"f:data": {"f:b": {}}})),
        entry("someone", "Update", json!({"f:data": {"f:c": {}}})),
        entry("argocd-controller", "Update", json!({"f:data": {"f:d": {}}})),
    ]}});
    let patch = migrate::patch(&live, "kubectl-client-side-apply", "argocd-controller").unwrap();
    let kept = &patch[0]["value"];
    assert_eq!(kept.as_array().unwrap().len(), 2, "SE-346");
    assert_eq!(kept[0]["fieldsV1"], json!({"f:data": {"f:a": {}, "f:b": {}, "f:d": {}}}));
    assert_eq!(patch[1]["value"], "7", "for this version only");
    assert_eq!(migrate::patch(&live, "unknown", "other"), None);
}
