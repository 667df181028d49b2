//! What was held by another server, put back.

use ::http::Method;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::watches::open;
use super::{MAPS, get, map, post, send};
use crate::{Server, ServerSettings};

const MERGE: &str = "application/merge-patch+json";

fn another() -> Server {
    Server::with(ServerSettings { seed: 7, ..ServerSettings::default() })
}

/// An owner that is being deleted in the foreground, and waits for what it owns.
async fn in_the_middle() -> (Vec<Value>, u64) {
    let server = Server::new();
    let client = server.client();
    let (_, namespace) = post(
        &client,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
    )
    .await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let (_, owner) = post(&client, maps, &map("owner")).await;
    let mut owned = map("owned");
    owned["metadata"]["finalizers"] = json!(["example.com/held"]);
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    post(&client, maps, &owned).await;
    let way = json!({"propagationPolicy": "Foreground"});
    let path = format!("{maps}/owner");
    send(&client, Method::DELETE, &path, "application/json", &way).await;
    let mut objects = vec![namespace];
    for name in ["owned", "owner"] {
        let (code, object) = get(&client, &format!("{maps}/{name}")).await;
        assert_eq!(code, 200, "{object}");
        objects.push(object);
    }
    // In any order.
    objects.reverse();
    (objects, server.revision())
}

#[tokio::test]
async fn what_was_held_is_there_as_it_was_and_goes_on() {
    let (objects, revision) = in_the_middle().await;
    let server = another();
    server.restore(&objects).unwrap();
    let client = server.client();
    let maps = "/api/v1/namespaces/n/configmaps";
    for object in &objects[..2] {
        let name = object["metadata"]["name"].as_str().unwrap();
        let (_, found) = get(&client, &format!("{maps}/{name}")).await;
        assert_eq!(found, *object, "{name}");
        assert!(found["metadata"]["managedFields"].is_array(), "{name}");
        assert!(found["metadata"]["deletionTimestamp"].is_string(), "{name}");
    }
    assert!(server.revision() > revision);
    // The deletion that had begun ends with what held it.
    let free = json!({"metadata": {"finalizers": null}});
    let (code, _) = send(&client, Method::PATCH, &format!("{maps}/owned"), MERGE, &free).await;
    assert_eq!(code, 200);
    for name in ["owned", "owner"] {
        assert_eq!(get(&client, &format!("{maps}/{name}")).await.0, 404, "{name}");
    }
}

#[tokio::test]
async fn versions_go_on_and_watches_do_not() {
    let (server, old) = (another(), another());
    let client = old.client();
    let (_, before) = post(&client, MAPS, &map("a")).await;
    let version = |object: &Value| -> u64 {
        object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    let mut later = before.clone();
    later["metadata"]["resourceVersion"] = json!((version(&before) + 1000).to_string());
    server.restore([&later]).unwrap();
    let client = server.client();
    let same = json!({"metadata": {"resourceVersion": later["metadata"]["resourceVersion"]}});
    let path = format!("{MAPS}/a");
    let (code, patched) = send(&client, Method::PATCH, &path, MERGE, &same).await;
    assert_eq!((code, version(&patched)), (200, version(&later)), "no change is no write");
    let stale = json!({"metadata": {"resourceVersion": "3"}, "data": {"a": "2"}});
    assert_eq!(send(&client, Method::PATCH, &path, MERGE, &stale).await.0, 409);
    let (_, written) =
        send(&client, Method::PATCH, &path, MERGE, &json!({"data": {"a": "2"}})).await;
    assert!(version(&written) > version(&later));
    assert_eq!(written["metadata"]["uid"], before["metadata"]["uid"]);
    let from = version(&later) - 1;
    let events: Vec<_> = open(&client, &format!("resourceVersion={from}")).await.collect().await;
    assert_eq!(events[0].1["code"], 410);
}

#[tokio::test]
async fn objects_without_an_identity_or_a_place_are_refused() {
    let (objects, _) = in_the_middle().await;
    let without = |field: &str| {
        let mut object = objects[0].clone();
        object["metadata"].as_object_mut().unwrap().remove(field);
        object
    };
    let mut unknown = objects[0].clone();
    unknown["kind"] = "Unknown".into();
    let mut twin = objects[0].clone();
    twin["metadata"]["name"] = "twin".into();
    let namespace = &objects[2];
    let cases = [
        (vec![&objects[0]], "the namespace \"n\" does not exist"),
        (vec![namespace, &unknown], "no such kind in \"v1\""),
        (vec![namespace, &objects[0], &twin], "another object has its UID"),
    ];
    for (objects, want) in cases {
        let error = another().restore(objects).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    for field in ["name", "uid", "resourceVersion", "creationTimestamp"] {
        let error = another().restore([namespace, &without(field)]).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

/// Regression: a Job that ran could not end, since its template had been read as a new one is,
/// and nobody may change it.
#[tokio::test]
async fn what_runs_can_end() {
    let server = Server::new();
    let client = server.client();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}],
        }}},
    });
    let (code, job) = post(&client, jobs, &job).await;
    assert_eq!(code, 201, "{job}");
    let server = another();
    server.restore([&job]).unwrap();
    let ended = json!({"status": {"succeeded": 1}});
    let path = format!("{jobs}/a/status");
    let (code, ended) = send(&server.client(), Method::PATCH, &path, MERGE, &ended).await;
    assert_eq!(code, 200, "{ended}");
}
