//! Custom kinds.

use kube::Client;
use serde_json::{Value, json};

use super::support::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn spec_schema() -> Value {
    json!({
        "type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "replicas": {"type": "integer"},
            // The name of a map of quantities, in other kinds.
            "max": {"type": "integer", "minimum": 1},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
            },
            "plain": {"type": "array", "items": {"type": "string"}},
        },
    })
}

/// A definition in a group of its own.
fn definition(namespace: &str, status: bool) -> Value {
    let group = format!("{namespace}.example.com");
    let mut subresources = json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    if status {
        subresources["status"] = json!({});
    } else {
        subresources = json!({});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wdg"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": {
                        "operation": {"type": "string"},
                        "spec": spec_schema(),
                        "status": {"type": "object", "properties": {
                            "phase": {"type": "string"}, "replicas": {"type": "integer"},
                            "conditions": {"type": "array", "items": {"type": "object",
                                "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}},
                        }},
                    },
                }},
            }],
        },
    })
}

fn widget(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{namespace}.example.com/v1"), "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": 3},
    })
}

fn widgets(namespace: &str) -> String {
    format!("/apis/{namespace}.example.com/v1/namespaces/{namespace}/widgets")
}

/// Creates a definition and waits until its objects can be created.
async fn establish(client: &Client, namespace: &str, status: bool) -> Value {
    establish_as(client, namespace, &definition(namespace, status)).await
}

async fn establish_as(client: &Client, namespace: &str, definition: &Value) -> Value {
    post(client, CRDS, definition).await.ok(201);
    let path = format!("{CRDS}/widgets.{namespace}.example.com");
    let established = eventually(client, &path, "established", |a| {
        let conditions = a.body["status"]["conditions"].as_array();
        conditions
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
    })
    .await;
    // A real server serves it later, on each of its handlers.
    for _ in 0..3 {
        eventually(client, &widgets(namespace), "served", |a| a.code == 200).await;
    }
    established
}

async fn clean_up(client: &Client, namespace: &str) {
    let path = format!("{CRDS}/widgets.{namespace}.example.com");
    delete(client, &path, &json!({})).await.ok(200);
    gone(client, &path).await;
}

pub async fn definitions_are_established_and_served(client: Client, namespace: &str) {
    let established = establish(&client, namespace, true).await;
    assert_eq!(established["status"]["acceptedNames"]["kind"], "Widget");
    assert_eq!(established["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(established["status"]["acceptedNames"]["singular"], "widget");
    assert_eq!(established["status"]["storedVersions"], json!(["v1"]));
    let path = format!("/apis/{namespace}.example.com/v1");
    let listed = eventually(&client, &path, "discovered", |a| a.code == 200).await;
    let resource =
        listed["resources"].as_array().unwrap().iter().find(|r| r["name"] == "widgets").unwrap();
    assert_eq!(resource["kind"], "Widget");
    assert_eq!(resource["shortNames"], json!(["wdg"]));
    let list = get(&client, &widgets(namespace)).await.ok(200);
    assert_eq!(list["kind"], "WidgetList");
    let mut wrong = definition(namespace, true);
    wrong["metadata"]["name"] = json!(format!("gadgets.{namespace}.example.com"));
    let refusal = post(&client, CRDS, &wrong).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "metadata.name"), "{refusal}");

    post(&client, &widgets(namespace), &widget(namespace, "a")).await.ok(201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table =
        send(&client, http::Method::GET, &widgets(namespace), JSON, accept, None).await.ok(200);
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Size", "Ready"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3, null]));
    clean_up(&client, namespace).await;
}

pub async fn custom_objects_are_validated(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let cases = [
        ("a missing field", json!({}), "spec.size"),
        ("a wrong type", json!({"size": "three"}), "spec.size"),
        ("too small", json!({"size": 0}), "spec.size"),
        ("too large", json!({"size": 11}), "spec.size"),
        ("a limit below a field named max", json!({"size": 1, "max": 0}), "spec.max"),
        ("no integer", json!({"size": 1.5}), "spec.size"),
        ("not among the values", json!({"size": 1, "color": "blue"}), "spec.color"),
        ("a pattern that does not fit", json!({"size": 1, "code": "A"}), "spec.code"),
        ("too long", json!({"size": 1, "code": "abcdef"}), "spec.code"),
        ("neither number nor text", json!({"size": 1, "port": true}), "spec.port"),
        ("a wrong value in a map", json!({"size": 1, "labels": {"a": 1}}), "spec.labels.a"),
        (
            "a list item without its key",
            json!({"size": 1, "parts": [{"value": "x"}]}),
            "spec.parts[0].name",
        ),
    ];
    for (what, spec, field) in cases {
        let mut object = widget(namespace, "a");
        object["spec"] = spec;
        let refusal = post(&client, &widgets(namespace), &object).await.refused(422, "Invalid");
        // 1.20 omits the index.
        let plain = field.replace("[0]", "");
        assert!(names_field(&refusal, field) || names_field(&refusal, &plain), "{what}: {refusal}");
        assert_eq!(refusal["details"]["kind"], "Widget");
    }
    let mut object = widget(namespace, "a");
    object["spec"]["tags"] = json!(["x", "x"]);
    post(&client, &widgets(namespace), &object).await.refused(422, "Invalid");
    object.as_object_mut().unwrap().remove("kind");
    post(&client, &widgets(namespace), &object).await.refused(400, "BadRequest");
    let mut fine = widget(namespace, "fine");
    fine["spec"] =
        json!({"size": 1, "port": "http", "maybe": null, "free": {"any": [1, {"thing": true}]}});
    let created = post(&client, &widgets(namespace), &fine).await.ok(201);
    assert_eq!(created["spec"]["free"], json!({"any": [1, {"thing": true}]}));
    assert_eq!(created["spec"]["maybe"], Value::Null);
    let one = format!("{}/fine", widgets(namespace));
    patch(&client, &one, MERGE, &json!({"spec": {"size": 99}})).await.refused(422, "Invalid");
    patch(&client, &one, STRATEGIC, &json!({"spec": {"size": 2}}))
        .await
        .refused(415, "UnsupportedMediaType");
    clean_up(&client, namespace).await;
}

pub async fn unknown_fields_are_pruned_and_defaults_filled_in(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let mut object = widget(namespace, "a");
    object["spec"] =
        json!({"size": 1, "unknown": true, "nested": {"unknown": 1}, "labels": {"k": "v"}});
    object["unknown"] = json!({"a": 1});
    let created = post(&client, &widgets(namespace), &object).await.ok(201);
    assert_eq!(
        created["spec"],
        json!({"size": 1, "color": "red", "nested": {"depth": 3}, "labels": {"k": "v"}})
    );
    assert!(created.get("unknown").is_none());
    let list = get(&client, &widgets(namespace)).await.ok(200);
    assert_eq!(list["items"][0]["kind"], "Widget");
    clean_up(&client, namespace).await;
}

/// What was stored with another schema is read as the new one knows it, and is still there
/// when the old one returns; a write stores what the new one knows.
pub async fn a_changed_definition_changes_what_was_stored_before(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let all = widgets(namespace);
    for name in ["kept", "written"] {
        let mut object = widget(namespace, name);
        object["spec"] = json!({"size": 1, "code": "abc", "parts": [{"name": "p", "value": "x"}]});
        post(&client, &all, &object).await.ok(201);
        let status = json!({"status": {"phase": "Made", "replicas": 2}});
        patch(&client, &format!("{all}/{name}/status"), MERGE, &status).await.ok(200);
    }
    let redefine = |narrow: bool| {
        let client = client.clone();
        async move {
            let path = format!("{CRDS}/widgets.{namespace}.example.com");
            let mut spec = definition(namespace, true)["spec"].take();
            let schema = &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
            if narrow {
                for place in [
                    "/spec/properties/code",
                    "/status/properties/phase",
                    "/spec/properties/parts/items/properties/value",
                ] {
                    let (parent, field) = place.rsplit_once('/').unwrap();
                    schema.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
                }
                schema["spec"]["properties"]["shape"] =
                    json!({"type": "string", "default": "round"});
            }
            patch(&client, &path, MERGE, &json!({"spec": {"versions": spec["versions"]}}))
                .await
                .ok(200);
        }
    };
    redefine(true).await;
    let one = format!("{all}/kept");
    let narrow =
        eventually(&client, &one, "pruned", |a| a.body["spec"].get("code").is_none()).await;
    assert_eq!(
        narrow["spec"],
        json!({"size": 1, "color": "red", "shape": "round", "parts": [{"name": "p"}]})
    );
    assert_eq!(narrow["status"], json!({"replicas": 2}));
    let list = get(&client, &all).await.ok(200);
    for item in list["items"].as_array().unwrap() {
        assert_eq!(item["spec"], narrow["spec"], "a list shows the same");
        assert_eq!(item["status"], narrow["status"], "a list shows the same");
    }
    // A patch meets what is read, not what is stored.
    let test = json!([{"op": "test", "path": "/status/phase", "value": "Made"}]);
    patch(&client, &format!("{one}/status"), JSON_PATCH, &test).await.refused(422, "Invalid");
    let written = format!("{all}/written");
    patch(&client, &written, MERGE, &json!({"spec": {"size": 2}})).await.ok(200);

    redefine(false).await;
    let whole = eventually(&client, &one, "whole", |a| a.body["spec"].get("code").is_some()).await;
    assert_eq!(
        whole["spec"],
        json!({"size": 1, "code": "abc", "color": "red", "parts": [{"name": "p", "value": "x"}]})
    );
    assert_eq!(whole["status"], json!({"phase": "Made", "replicas": 2}));
    assert_eq!(version(&whole), version(&narrow), "nothing was written");
    let written = get(&client, &written).await.ok(200);
    assert_eq!(written["spec"], json!({"size": 2, "color": "red", "parts": [{"name": "p"}]}));
    assert_eq!(written["status"], json!({"replicas": 2}));
    clean_up(&client, namespace).await;
}

pub async fn custom_status_and_generation(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let all = widgets(namespace);
    let one = format!("{all}/a");
    let mut object = widget(namespace, "a");
    object["status"] = json!({"phase": "Made"});
    let created = post(&client, &all, &object).await.ok(201);
    assert!(created.get("status").is_none(), "{created}");
    assert_eq!(created["metadata"]["generation"], 1);
    let both = json!({"spec": {"size": 4}, "status": {"phase": "Main"}});
    let main = patch(&client, &one, MERGE, &both).await.ok(200);
    assert!(main.get("status").is_none());
    assert_eq!(main["metadata"]["generation"], 2);
    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 5}, "status": {"phase": "Status"}});
    let status = patch(&client, &format!("{one}/status"), MERGE, &both).await.ok(200);
    assert_eq!(status["status"]["phase"], "Status");
    assert_eq!(status["spec"]["size"], 4);
    assert!(status["metadata"].get("labels").is_none(), "{status}");
    assert_eq!(status["metadata"]["generation"], 2);
    let labelled =
        patch(&client, &one, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(labelled["metadata"]["generation"], 2);
    let top = patch(&client, &one, MERGE, &json!({"operation": "sync"})).await.ok(200);
    assert_eq!(top["metadata"]["generation"], 3);
    let scaled = patch(&client, &format!("{one}/scale"), MERGE, &json!({"spec": {"replicas": 7}}))
        .await
        .ok(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    assert_eq!(get(&client, &one).await.ok(200)["spec"]["replicas"], 7);
    clean_up(&client, namespace).await;
}

pub async fn without_a_status_subresource_status_is_a_field(client: Client, namespace: &str) {
    establish(&client, namespace, false).await;
    let all = widgets(namespace);
    let one = format!("{all}/a");
    let mut object = widget(namespace, "a");
    object["status"] = json!({"phase": "Made"});
    let created = post(&client, &all, &object).await.ok(201);
    assert_eq!(created["status"]["phase"], "Made");
    let reported = patch(&client, &one, MERGE, &json!({"status": {"phase": "Done"}})).await.ok(200);
    assert_eq!(reported["status"]["phase"], "Done");
    assert_eq!(reported["metadata"]["generation"], 2);
    let labelled =
        patch(&client, &one, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(labelled["metadata"]["generation"], 2);
    assert_eq!(patch(&client, &format!("{one}/status"), MERGE, &json!({})).await.code, 404);
    clean_up(&client, namespace).await;
}

pub async fn custom_objects_need_a_version_to_be_replaced(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let all = widgets(namespace);
    let one = format!("{all}/a");
    let created = post(&client, &all, &widget(namespace, "a")).await.ok(201);
    let refusal = put(&client, &one, &widget(namespace, "a")).await.refused(422, "Invalid");
    assert!(names_field(&refusal, "metadata.resourceVersion"), "{refusal}");
    let mut changed = created.clone();
    changed["spec"]["size"] = json!(4);
    put(&client, &one, &changed).await.ok(200);
    changed["spec"]["size"] = json!(5);
    let refusal = put(&client, &one, &changed).await.refused(409, "Conflict");
    assert_eq!(refusal["details"]["group"], format!("{namespace}.example.com"));
    clean_up(&client, namespace).await;
}

pub async fn custom_lists_merge_as_declared(client: Client, namespace: &str) {
    let mut object = definition(namespace, true);
    let schema = &mut object["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    // 1.20 treats all lists of a kind as atomic if a field is a number or a string.
    schema["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("port");
    establish_as(&client, namespace, &object).await;
    let one = format!("{}/a", widgets(namespace));
    let with = |spec: Value| {
        let mut object = widget(namespace, "a");
        object["spec"] = spec;
        object
    };
    let by = |manager: &str| format!("{one}?fieldManager={manager}");
    let first = with(
        json!({"size": 1, "tags": ["a", "b"], "parts": [{"name": "x", "value": "1"}], "plain": ["p"]}),
    );
    patch(&client, &by("first"), APPLY, &first).await.ok(201);
    let second = with(json!({"tags": ["b", "c"], "parts": [{"name": "y", "value": "2"}]}));
    let merged = patch(&client, &by("second"), APPLY, &second).await.ok(200);
    assert_eq!(merged["spec"]["tags"], json!(["a", "b", "c"]));
    assert_eq!(
        merged["spec"]["parts"],
        json!([{"name": "x", "value": "1"}, {"name": "y", "value": "2"}])
    );
    // A list without a type is atomic.
    let refusal = patch(&client, &by("second"), APPLY, &with(json!({"plain": ["q"]})))
        .await
        .refused(409, "Conflict");
    assert_eq!(refusal["details"]["causes"][0]["field"], ".spec.plain");
    let third =
        patch(&client, &by("first"), APPLY, &with(json!({"size": 1, "tags": ["b"]}))).await.ok(200);
    assert_eq!(third["spec"]["tags"], json!(["b", "c"]));
    assert_eq!(third["spec"]["parts"], json!([{"name": "y", "value": "2"}]));
    assert!(third["spec"].get("plain").is_none());
    clean_up(&client, namespace).await;
}

pub async fn deleting_a_definition_deletes_its_objects(client: Client, namespace: &str) {
    establish(&client, namespace, true).await;
    let mut object = widget(namespace, "a");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&client, &widgets(namespace), &object).await.ok(201);
    post(&client, &widgets(namespace), &widget(namespace, "b")).await.ok(201);
    let path = format!("{CRDS}/widgets.{namespace}.example.com");
    delete(&client, &path, &json!({})).await.ok(200);
    gone(&client, &format!("{}/b", widgets(namespace))).await;
    let held = get(&client, &path).await.ok(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let release = json!({"metadata": {"finalizers": null}});
    patch(&client, &format!("{}/a", widgets(namespace)), MERGE, &release).await.ok(200);
    gone(&client, &path).await;
    eventually(&client, &widgets(namespace), "no longer served", |a| a.code == 404).await;
}
