//! Server-side apply and field ownership.

use kube::Client;
use serde_json::{Value, json};

use super::support::*;

fn by(path: &str, manager: &str) -> String {
    format!("{path}?fieldManager={manager}")
}

fn forced(path: &str, manager: &str) -> String {
    format!("{path}?fieldManager={manager}&force=true")
}

/// The fields that a manager owns by one kind of operation.
fn owned(object: &Value, manager: &str, operation: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .find(|e| e["manager"] == manager && e["operation"] == operation)
        .map_or(Value::Null, |e| e["fieldsV1"].clone())
}

fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub async fn apply_creates_and_is_idempotent(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    let mut wanted = config("a", json!({"x": "1"}));
    wanted["metadata"]["labels"] = json!({"l": "1"});
    let created = patch(&client, &by(&one, "first"), APPLY, &wanted).await.ok(201);
    assert_eq!(
        owned(&created, "first", "Apply"),
        json!({"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:x": {}}})
    );
    let again = patch(&client, &by(&one, "first"), APPLY, &wanted).await.ok(200);
    assert_eq!(again, created);
    let dry = format!("{}&dryRun=All", by(&one, "first"));
    let shown = patch(&client, &dry, APPLY, &config("a", json!({"x": "2"}))).await.ok(200);
    assert_eq!(shown["data"]["x"], "2");
    assert_eq!(get(&client, &one).await.ok(200), created);
}

pub async fn apply_rejects_fields_of_others_unless_forced(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1"})))
        .await
        .ok(201);
    let refusal = patch(&client, &by(&one, "second"), APPLY, &config("a", json!({"x": "2"}))).await;
    let refusal = refusal.refused(409, "Conflict");
    let causes = refusal["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1, "{refusal}");
    assert_eq!(causes[0]["reason"], "FieldManagerConflict");
    assert_eq!(causes[0]["field"], ".data.x");
    assert!(
        causes[0]["message"].as_str().unwrap().starts_with("conflict with \"first\""),
        "{refusal}"
    );
    let taken = patch(&client, &forced(&one, "second"), APPLY, &config("a", json!({"x": "2"})))
        .await
        .ok(200);
    assert_eq!(taken["data"], json!({"x": "2", "y": "1"}));
    assert_eq!(owned(&taken, "first", "Apply"), json!({"f:data": {"f:y": {}}}));
    assert_eq!(owned(&taken, "second", "Apply"), json!({"f:data": {"f:x": {}}}));
}

pub async fn apply_removes_fields_that_left_the_configuration(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1", "z": "1"})))
        .await
        .ok(201);
    patch(&client, &by(&one, "second"), APPLY, &config("a", json!({"y": "1", "w": "1"})))
        .await
        .ok(200);
    // Fields that others own, too, or alone, are kept.
    let reduced =
        patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1"}))).await.ok(200);
    assert_eq!(reduced["data"], json!({"w": "1", "x": "1", "y": "1"}));
    assert_eq!(owned(&reduced, "first", "Apply"), json!({"f:data": {"f:x": {}}}));
    let all = deployments(namespace);
    let path = format!("{all}/web");
    let mut wanted = deployment("web");
    wanted["spec"]["minReadySeconds"] = json!(5);
    wanted["spec"]["revisionHistoryLimit"] = json!(3);
    patch(&client, &by(&path, "first"), APPLY, &wanted).await.ok(201);
    let reduced = patch(&client, &by(&path, "first"), APPLY, &deployment("web")).await.ok(200);
    assert!(reduced["spec"].get("minReadySeconds").is_none());
    // A field with a default is reset to it.
    assert_eq!(reduced["spec"]["revisionHistoryLimit"], 10);
}

pub async fn apply_shares_equal_fields(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1"}))).await.ok(201);
    let shared =
        patch(&client, &by(&one, "second"), APPLY, &config("a", json!({"x": "1"}))).await.ok(200);
    assert_eq!(owned(&shared, "first", "Apply"), json!({"f:data": {"f:x": {}}}));
    assert_eq!(owned(&shared, "second", "Apply"), json!({"f:data": {"f:x": {}}}));
    // A change by each of them is then a conflict, and by a third one with both.
    patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "2"})))
        .await
        .refused(409, "Conflict");
    let refusal = patch(&client, &by(&one, "third"), APPLY, &config("a", json!({"x": "3"}))).await;
    assert_eq!(refusal.refused(409, "Conflict")["details"]["causes"].as_array().unwrap().len(), 2);
}

pub async fn apply_merges_lists_by_their_keys(client: Client, namespace: &str) {
    let one = format!("{}/a", pod_templates(namespace));
    let with = |containers: Value| {
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"},
            "template": {"spec": {"containers": containers}}})
    };
    let first = with(
        json!([{"name": "one", "image": "example.com/one:1", "ports": [{"containerPort": 80}]}]),
    );
    patch(&client, &by(&one, "first"), APPLY, &first).await.ok(201);
    let second = with(json!([{"name": "two", "image": "example.com/two:1"}]));
    let both = patch(&client, &by(&one, "second"), APPLY, &second).await.ok(200);
    let names = |object: &Value| {
        let mut names: Vec<String> = object["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&both), ["one", "two"]);
    let env = with(json!([{"name": "one", "env": [{"name": "A", "value": "1"}]}]));
    let third = patch(&client, &by(&one, "third"), APPLY, &env).await.ok(200);
    let key = r#"k:{"name":"one"}"#;
    let fields = owned(&third, "third", "Apply");
    let container = &fields["f:template"]["f:spec"]["f:containers"][key];
    assert_eq!(
        container["f:env"][r#"k:{"name":"A"}"#],
        json!({".": {}, "f:name": {}, "f:value": {}}),
        "{fields}"
    );
    let fields = owned(&third, "first", "Apply");
    let ports = &fields["f:template"]["f:spec"]["f:containers"][key]["f:ports"];
    assert!(ports[r#"k:{"containerPort":80,"protocol":"TCP"}"#].is_object(), "{fields}");
    // A container is removed when its only owner drops it, including its defaults.
    let gone = patch(&client, &by(&one, "second"), APPLY, &with(json!([]))).await.ok(200);
    assert_eq!(names(&gone), ["one"]);
    // A container with another owner is kept without the dropped fields.
    let less = with(json!([{"name": "one", "image": "example.com/one:1"}]));
    let less = patch(&client, &by(&one, "first"), APPLY, &less).await.ok(200);
    let container = &less["template"]["spec"]["containers"][0];
    assert!(container.get("ports").is_none(), "{container}");
    assert_eq!(container["env"], json!([{"name": "A", "value": "1"}]));
}

pub async fn apply_needs_a_manager_and_known_fields(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    let answer = patch(&client, &one, APPLY, &config("a", json!({"x": "1"}))).await;
    assert!(matches!(answer.code, 400 | 422), "{answer:?}");
    let mut unknown = config("a", json!({"x": "1"}));
    unknown["nonsense"] = json!(true);
    let answer = patch(&client, &by(&one, "first"), APPLY, &unknown).await;
    assert!(answer.code >= 400, "{answer:?}");
    let mut managed = config("a", json!({"x": "1"}));
    managed["metadata"]["managedFields"] =
        json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]);
    patch(&client, &by(&one, "first"), APPLY, &managed).await.refused(400, "BadRequest");
    get(&client, &one).await.refused(404, "NotFound");
}

pub async fn updates_take_fields_from_appliers(client: Client, namespace: &str) {
    let one = format!("{}/a", config_maps(namespace));
    patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1"})))
        .await
        .ok(201);
    let changed =
        patch(&client, &by(&one, "hand"), MERGE, &json!({"data": {"x": "2"}})).await.ok(200);
    assert_eq!(owned(&changed, "first", "Apply"), json!({"f:data": {"f:y": {}}}));
    assert_eq!(owned(&changed, "hand", "Update"), json!({"f:data": {"f:x": {}}}));
    let refusal =
        patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1"}))).await;
    let refusal = refusal.refused(409, "Conflict");
    assert_eq!(refusal["details"]["causes"][0]["field"], ".data.x");
    let back =
        patch(&client, &forced(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1"})))
            .await
            .ok(200);
    assert_eq!(back["data"], json!({"x": "1", "y": "1"}));
    assert_eq!(owned(&back, "hand", "Update"), Value::Null);
    // A manual removal is not a conflict: the next apply restores the field.
    patch(&client, &by(&one, "hand"), MERGE, &json!({"data": {"y": null}})).await.ok(200);
    let back = patch(&client, &by(&one, "first"), APPLY, &config("a", json!({"x": "1", "y": "1"})))
        .await
        .ok(200);
    assert_eq!(back["data"]["y"], "1");
}
