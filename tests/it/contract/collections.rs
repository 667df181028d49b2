//! Lists: selectors, pages, deletion of collections, tables.

use http::Method;
use kube::Client;
use serde_json::json;

use super::support::*;

async fn some_maps(client: &Client, namespace: &str, count: usize) {
    for i in 0..count {
        let mut object = config_map(&format!("m{i}"));
        object["metadata"]["labels"] = json!({"set": "m", "index": i.to_string(), "parity": if i % 2 == 0 { "even" } else { "odd" }});
        post(client, &config_maps(namespace), &object).await.ok(201);
    }
}

pub async fn labels_and_fields_select(client: Client, namespace: &str) {
    some_maps(&client, namespace, 5).await;
    let all = config_maps(namespace);
    let cases = [
        ("labelSelector=set%3Dm", vec!["m0", "m1", "m2", "m3", "m4"]),
        ("labelSelector=parity%3Deven", vec!["m0", "m2", "m4"]),
        ("labelSelector=set%3Dm,parity!%3Deven", vec!["m1", "m3"]),
        ("labelSelector=index%20in%20(1,2)", vec!["m1", "m2"]),
        ("labelSelector=set%3Dm,index%20notin%20(1,2)", vec!["m0", "m3", "m4"]),
        ("labelSelector=set,!absent,index%3D3", vec!["m3"]),
        ("labelSelector=index%3E3", vec!["m4"]),
        ("fieldSelector=metadata.name%3Dm3", vec!["m3"]),
        ("labelSelector=set%3Dm&fieldSelector=metadata.name!%3Dm3", vec!["m0", "m1", "m2", "m4"]),
    ];
    for (query, want) in cases {
        let list = get(&client, &format!("{all}?{query}")).await.ok(200);
        assert_eq!(names(&list), want, "{query}");
        assert_eq!(list["kind"], "ConfigMapList");
        assert_eq!(list["apiVersion"], "v1");
        assert!(!version(&list).is_empty());
        // Items of built-in kinds have no kind.
        assert!(list["items"].as_array().unwrap().iter().all(|i| i.get("kind").is_none()));
    }
    get(&client, &format!("{all}?fieldSelector=data.a%3D1")).await.refused(400, "BadRequest");
    get(&client, &format!("{all}?labelSelector=%3D%3D")).await.refused(400, "BadRequest");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "example.com/own"});
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    post(&client, &secrets, &secret).await.ok(201);
    let list =
        get(&client, &format!("{secrets}?fieldSelector=type%3Dexample.com/own")).await.ok(200);
    assert_eq!(names(&list), ["s"]);
}

pub async fn pages_are_a_consistent_snapshot(client: Client, namespace: &str) {
    some_maps(&client, namespace, 5).await;
    let all = format!("{}?labelSelector=set%3Dm&limit=2", config_maps(namespace));
    let first = get(&client, &all).await.ok(200);
    assert_eq!(names(&first), ["m0", "m1"]);
    // Later changes are not visible in further pages.
    delete(&client, &format!("{}/m2", config_maps(namespace)), &json!({})).await.ok(200);
    let change = json!({"data": {"a": "changed"}});
    patch(&client, &format!("{}/m3", config_maps(namespace)), MERGE, &change).await.ok(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&client, &format!("{all}&continue={token}")).await.ok(200);
    assert_eq!(names(&second), ["m2", "m3"]);
    assert_eq!(second["items"][1]["data"]["a"], "1");
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = get(&client, &format!("{all}&continue={token}")).await.ok(200);
    assert_eq!(names(&third), ["m4"]);
    assert!(third["metadata"].get("continue").is_none_or(|c| c == ""));
    get(&client, &format!("{all}&continue=nonsense")).await.refused(400, "BadRequest");
}

pub async fn collections_are_deleted_by_selector(client: Client, namespace: &str) {
    some_maps(&client, namespace, 4).await;
    let all = config_maps(namespace);
    let path = format!("{all}?labelSelector=parity%3Dodd");
    let deleted = send(&client, Method::DELETE, &path, JSON, JSON, None).await.ok(200);
    assert_eq!(names(&deleted), ["m1", "m3"]);
    let left = get(&client, &format!("{all}?labelSelector=set%3Dm")).await.ok(200);
    assert_eq!(names(&left), ["m0", "m2"]);
}

pub async fn tables_are_rendered(client: Client, namespace: &str) {
    let mut object = deployment("web");
    object["spec"]["paused"] = json!(true);
    post(&client, &deployments(namespace), &object).await.ok(201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table =
        send(&client, Method::GET, &deployments(namespace), JSON, accept, None).await.ok(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    let columns: Vec<(&str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["priority"].as_i64().unwrap()))
        .collect();
    let want = [
        ("Name", 0),
        ("Ready", 0),
        ("Up-to-date", 0),
        ("Available", 0),
        ("Age", 0),
        ("Containers", 1),
        ("Images", 1),
        ("Selector", 1),
    ];
    assert_eq!(columns, want);
    let row = &table["rows"][0];
    let cells = row["cells"].as_array().unwrap();
    assert_eq!(cells[..4], [json!("web"), json!("0/0"), json!(0), json!(0)]);
    assert_eq!(cells[5..], [json!("main"), json!("example.com/main:1"), json!("app=web")]);
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "web");
}

pub async fn metadata_can_be_asked_for_alone(client: Client, namespace: &str) {
    some_maps(&client, namespace, 1).await;
    let all = config_maps(namespace);
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let one = send(&client, Method::GET, &format!("{all}/m0"), JSON, accept, None).await.ok(200);
    assert_eq!(one["kind"], "PartialObjectMetadata");
    assert_eq!(one["metadata"]["name"], "m0");
    assert!(one.get("data").is_none());
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let path = format!("{all}?labelSelector=set%3Dm");
    let list = send(&client, Method::GET, &path, JSON, accept, None).await.ok(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&list), ["m0"]);
    assert!(list["items"][0].get("data").is_none());
}
