//! JSON, merge and strategic merge patches.

use kube::Client;
use serde_json::{Value, json};

use super::support::*;

pub async fn merge_patches_merge_maps_and_replace_lists(client: Client, namespace: &str) {
    let all = pod_templates(namespace);
    let one = format!("{all}/a");
    post(&client, &all, &pod_template("a")).await.ok(201);
    let change = json!({
        "metadata": {"labels": {"x": "1", "y": "2"}},
        "template": {"spec": {"containers": [{"name": "only", "image": "example.com/only:1"}], "volumes": null}},
    });
    let changed = patch(&client, &one, MERGE, &change).await.ok(200);
    assert_eq!(container_names(&changed), ["only"]);
    assert!(changed["template"]["spec"].get("volumes").is_none());
    let changed =
        patch(&client, &one, MERGE, &json!({"metadata": {"labels": {"x": null, "z": "3"}}}))
            .await
            .ok(200);
    assert_eq!(changed["metadata"]["labels"], json!({"y": "2", "z": "3"}));
    patch(&client, &format!("{all}/absent"), MERGE, &json!({})).await.refused(404, "NotFound");
    patch(&client, &one, MERGE, &json!({"metadata": {"name": "b"}}))
        .await
        .refused(400, "BadRequest");
}

pub async fn json_patches_apply_in_order_or_not_at_all(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    post(&client, &all, &config_map("a")).await.ok(201);
    let change = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "move", "from": "/data/b", "path": "/data/c"},
        {"op": "replace", "path": "/data/a", "value": "3"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1key", "value": "x"},
    ]);
    let changed = patch(&client, &one, JSON_PATCH, &change).await.ok(200);
    assert_eq!(changed["data"], json!({"a": "3", "c": "2"}));
    assert_eq!(changed["metadata"]["annotations"], json!({"example.com/key": "x"}));
    let failing = json!([
        {"op": "add", "path": "/data/d", "value": "4"},
        {"op": "test", "path": "/data/a", "value": "other"},
    ]);
    patch(&client, &one, JSON_PATCH, &failing).await.refused(422, "Invalid");
    patch(&client, &one, JSON_PATCH, &json!([{"op": "remove", "path": "/data/absent"}]))
        .await
        .refused(422, "Invalid");
    patch(&client, &one, JSON_PATCH, &json!({"op": "remove"})).await.refused(400, "BadRequest");
    assert_eq!(get(&client, &one).await.ok(200), changed);
}

fn container_names(object: &Value) -> Vec<&str> {
    let containers = object["template"]["spec"]["containers"].as_array().unwrap();
    containers.iter().map(|c| c["name"].as_str().unwrap()).collect()
}

pub async fn strategic_patches_merge_lists_by_key(client: Client, namespace: &str) {
    let all = pod_templates(namespace);
    let one = format!("{all}/a");
    post(&client, &all, &pod_template("a")).await.ok(201);
    let change = json!({"template": {"spec": {"containers": [
        {"name": "one", "image": "example.com/one:2", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
        {"name": "three", "image": "example.com/three:1"},
    ]}}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    let mut names = container_names(&changed);
    names.sort_unstable();
    assert_eq!(names, ["one", "three", "two"]);
    let containers = changed["template"]["spec"]["containers"].as_array().unwrap();
    let first = containers.iter().find(|c| c["name"] == "one").unwrap();
    assert_eq!(first["image"], "example.com/one:2");
    let value = |name: &str| {
        first["env"].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap()["value"]
            .clone()
    };
    assert_eq!((value("A"), value("B"), value("C")), (json!("1"), json!("3"), json!("4")));
    assert_eq!(
        changed["template"]["spec"]["volumes"],
        json!([{"name": "scratch", "emptyDir": {}}])
    );

    // Finalizers are a list of scalar values that merges.
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    patch(&client, &one, STRATEGIC, &finalizers(json!(["example.com/a"]))).await.ok(200);
    let changed =
        patch(&client, &one, STRATEGIC, &finalizers(json!(["example.com/b"]))).await.ok(200);
    let mut list: Vec<&str> = changed["metadata"]["finalizers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f.as_str().unwrap())
        .collect();
    list.sort_unstable();
    assert_eq!(list, ["example.com/a", "example.com/b"]);
    let drop = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let changed = patch(&client, &one, STRATEGIC, &drop).await.ok(200);
    assert_eq!(changed["metadata"]["finalizers"], json!(["example.com/b"]));
    let cleared = patch(&client, &one, MERGE, &finalizers(Value::Null)).await.ok(200);
    assert!(cleared["metadata"].get("finalizers").is_none());
}

pub async fn strategic_directives_delete_replace_and_order(client: Client, namespace: &str) {
    let all = pod_templates(namespace);
    let one = format!("{all}/a");
    post(&client, &all, &pod_template("a")).await.ok(201);
    let change = json!({"template": {"spec": {
        "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}],
        "containers": [{"name": "one", "env": [{"name": "A", "$patch": "delete"}]}],
    }}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    assert_eq!(container_names(&changed), ["two", "one"]);
    assert_eq!(
        changed["template"]["spec"]["containers"][1]["env"],
        json!([{"name": "B", "value": "2"}])
    );
    let change =
        json!({"template": {"spec": {"containers": [{"name": "two", "$patch": "delete"}]}}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    assert_eq!(container_names(&changed), ["one"]);
    let change = json!({"template": {"spec": {"volumes": [{
        "name": "scratch", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"},
    }]}}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    let volume = &changed["template"]["spec"]["volumes"][0];
    assert!(volume.get("emptyDir").is_none(), "{volume}");
    assert_eq!(volume["configMap"], json!({"name": "x", "defaultMode": 420}));
    let change = json!({"template": {"metadata": {"labels": {"$patch": "replace", "new": "1"}}}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    assert_eq!(changed["template"]["metadata"]["labels"], json!({"new": "1"}));
    let change = json!({"template": {"spec": {"containers": [
        {"$patch": "replace"}, {"name": "fresh", "image": "example.com/fresh:1"},
    ]}}});
    let changed = patch(&client, &one, STRATEGIC, &change).await.ok(200);
    assert_eq!(container_names(&changed), ["fresh"]);
}

pub async fn patches_can_ask_for_a_version(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    let first = post(&client, &all, &config_map("a")).await.ok(201);
    let change = |value: &str| json!({"metadata": {"resourceVersion": version(&first)}, "data": {"a": value}});
    let second = patch(&client, &one, MERGE, &change("2")).await.ok(200);
    patch(&client, &one, MERGE, &change("3")).await.refused(409, "Conflict");
    patch(&client, &one, STRATEGIC, &change("3")).await.refused(409, "Conflict");
    let test = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version(&first)},
        {"op": "replace", "path": "/data/a", "value": "3"}]);
    patch(&client, &one, JSON_PATCH, &test).await.refused(409, "Conflict");
    assert_eq!(get(&client, &one).await.ok(200), second);
}

pub async fn media_types_are_checked(client: Client, namespace: &str) {
    let all = config_maps(namespace);
    let one = format!("{all}/a");
    post(&client, &all, &config_map("a")).await.ok(201);
    patch(&client, &one, JSON, &json!({})).await.refused(415, "UnsupportedMediaType");
    patch(&client, &one, "text/plain", &json!({})).await.refused(415, "UnsupportedMediaType");
    let answer =
        send(&client, http::Method::POST, &all, "text/plain", JSON, Some(&config_map("b"))).await;
    answer.refused(415, "UnsupportedMediaType");
}
