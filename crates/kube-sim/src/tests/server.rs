//! The server's own promises: records, faults, time, limits, versions of kinds.

use std::time::Duration;

use ::http::Method;
use serde_json::{Value, json};

use super::super::{Effect, InjectedFault, Server, ServerSettings};
use super::{MAPS, get, map, post, send, with_maps};

const MERGE: &str = "application/merge-patch+json";

/// A definition with two versions and a free-form schema.
pub(super) fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v1beta1", false)]},
    })
}

#[tokio::test]
async fn requests_are_recorded_by_client_and_verb() {
    let server = Server::new();
    let client = server.client_as("tester");
    post(&client, MAPS, &map("a")).await;
    get(&client, &format!("{MAPS}/a")).await;
    get(&client, &format!("{MAPS}/absent")).await;
    let dry = format!("{MAPS}/a?dryRun=All&fieldManager=x");
    send(&client, Method::PATCH, &dry, "application/apply-patch+yaml", &map("a")).await;
    let seen: Vec<(String, String, u16, bool)> =
        server.requests().into_iter().map(|r| (r.client, r.verb, r.code, r.dry_run)).collect();
    let entry = |verb: &str, code, dry| ("tester".to_owned(), verb.to_owned(), code, dry);
    // The apply says what is there already, so that there is no conflict.
    assert_eq!(
        seen,
        [
            entry("create", 201, false),
            entry("get", 200, false),
            entry("get", 404, false),
            entry("apply", 200, true)
        ]
    );
    assert_eq!(
        server.counts()[&("tester".to_owned(), "get".to_owned(), "configmaps".to_owned())],
        2
    );
    let (_, stored) = get(&client, &format!("{MAPS}/a")).await;
    assert_eq!(stored["metadata"]["managedFields"][0]["manager"], "tester");
    server.forget_requests();
    assert!(server.requests().is_empty() && server.counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn faults_happen_as_often_as_asked() {
    let server = Server::new();
    let client = server.client();
    server.inject(InjectedFault::new(Effect::Status(429), |r| r.verb == "create").times(2));
    for code in [429, 429, 201] {
        let (found, body) = post(&client, MAPS, &map("a")).await;
        assert_eq!(found, code, "{body}");
    }
    server.inject(InjectedFault::new(Effect::Latency(Duration::from_secs(5)), |r| r.name == "a"));
    let began = tokio::time::Instant::now();
    assert_eq!(get(&client, &format!("{MAPS}/a")).await.0, 200);
    assert_eq!(began.elapsed().as_secs(), 5);
    server.inject(InjectedFault::new(Effect::DropAfterApplying, |r| r.verb == "create"));
    let request = ::http::Request::post(MAPS)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(&map("b")).unwrap()))
        .unwrap();
    client.send(request).await.expect_err("the connection is cut");
    // It was executed anyway.
    assert_eq!(get(&client, &format!("{MAPS}/b")).await.0, 200);
    server.inject(InjectedFault::new(Effect::Status(500), |_| true).times(9));
    server.clear_faults();
    assert_eq!(get(&client, MAPS).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn time_is_tokios() {
    let (_server, client) = with_maps(1).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    post(&client, MAPS, &map("later")).await;
    let created = async |name: &str| {
        let (_, object) = get(&client, &format!("{MAPS}/{name}")).await;
        object["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second()
    };
    assert_eq!(created("later").await - created("m0").await, 3600);
}

#[tokio::test]
async fn the_same_run_gives_the_same_names() {
    let run = async || {
        let (_server, client) = with_maps(1).await;
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
        let (_, made) = post(&client, MAPS, &object).await;
        (made["metadata"]["name"].clone(), made["metadata"]["uid"].clone())
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let (_server, client) = with_maps(0).await;
    let mut large = map("a");
    large["data"]["a"] = json!("x".repeat(2 << 20));
    let (code, status) = post(&client, MAPS, &large).await;
    assert_eq!(code, 500, "{status}");
    assert!(
        status["message"].as_str().unwrap().contains("etcdserver: request is too large"),
        "{status}"
    );
    large["data"]["a"] = json!("x".repeat(4 << 20));
    let (code, status) = post(&client, MAPS, &large).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    assert_eq!(get(&client, &format!("{MAPS}/a")).await.0, 404);
}

#[tokio::test]
async fn limits_of_size_can_be_left_out() {
    let server = Server::with(ServerSettings { size_limits: false, ..ServerSettings::default() });
    let client = server.client();
    let mut large = map("a");
    large["data"]["a"] = json!("x".repeat(4 << 20));
    let (code, status) = post(&client, MAPS, &large).await;
    assert_eq!(code, 201, "{status}");
    let (code, stored) = get(&client, &format!("{MAPS}/a")).await;
    assert_eq!((code, &stored["data"]["a"]), (200, &large["data"]["a"]));
}

#[tokio::test]
async fn versions_of_a_kind_share_their_objects() {
    let (_server, client) = with_maps(0).await;
    let v1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let v2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let object = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
    });
    let (code, created) = post(&client, v1, &object).await;
    assert_eq!((code, &created["apiVersion"]), (201, &json!("autoscaling/v1")), "{created}");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 80);
    let (_, other) = get(&client, &format!("{v2}/a")).await;
    assert_eq!(other["apiVersion"], "autoscaling/v2");
    assert_eq!(other["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    assert_eq!(other["metadata"]["uid"], created["metadata"]["uid"]);

    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&client, crds, &definition()).await.0, 201);
    let widgets = |version: &str| format!("/apis/example.com/{version}/namespaces/default/widgets");
    let widget = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"x": 1}});
    let (code, made) = post(&client, &widgets("v1beta1"), &widget).await;
    assert_eq!((code, &made["apiVersion"]), (201, &json!("example.com/v1beta1")));
    let (_, list) = get(&client, &widgets("v1")).await;
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1");
    let path = format!("{}/w", widgets("v1beta1"));
    let (code, changed) =
        send(&client, Method::PATCH, &path, MERGE, &json!({"spec": {"x": 2}})).await;
    assert_eq!((code, &changed["metadata"]["generation"]), (200, &json!(2)));
}

#[tokio::test]
async fn events_are_one_storage_in_two_groups() {
    let (_server, client) = with_maps(0).await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "ConfigMap", "name": "m"}, "reason": "Tried", "note": "said", "type": "Normal",
        "action": "Try", "reportingController": "test", "reportingInstance": "one",
        "eventTime": "2026-01-02T03:04:05.000000Z",
    });
    let (code, made) =
        post(&client, "/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    assert_eq!((code, &made["note"]), (201, &json!("said")), "{made}");
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dm";
    let (_, list) = get(&client, path).await;
    assert_eq!(list["items"][0]["message"], "said");
    assert_eq!(list["items"][0]["reportingComponent"], "test");
}

#[tokio::test]
async fn unknown_fields_are_refused_or_warned_of_when_asked() {
    let (_server, client) = with_maps(0).await;
    let mut object = map("a");
    object["nonsense"] = json!(1);
    let (code, status) = post(&client, &format!("{MAPS}?fieldValidation=Strict"), &object).await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().contains("unknown field \"nonsense\""), "{status}");
    let request = ::http::Request::post(format!("{MAPS}?fieldValidation=Warn"))
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(&object).unwrap()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 201);
    let warning = response.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.starts_with("299 - ") && warning.contains("nonsense"), "{warning}");
}

#[tokio::test]
async fn lists_of_the_future_have_to_wait() {
    let (server, client) = with_maps(1).await;
    let future = server.revision() + 100;
    let (code, status) = get(&client, &format!("{MAPS}?resourceVersion={future}")).await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    // The past can be asked for exactly.
    let past = server.revision();
    post(&client, MAPS, &map("new")).await;
    let (_, list) =
        get(&client, &format!("{MAPS}?resourceVersion={past}&resourceVersionMatch=Exact")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["metadata"]["resourceVersion"], past.to_string());
}

#[tokio::test]
async fn server_side_apply_of_status_is_its_own_manager() {
    let (_server, client) = with_maps(0).await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&client, crds, &definition()).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets/w";
    let apply = "application/apply-patch+yaml";
    let widget = |extra: &Value| {
        let mut w =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
        w.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        w
    };
    let main = widget(&json!({"spec": {"x": 1}, "status": {"phase": "no"}}));
    let (code, made) =
        send(&client, Method::PATCH, &format!("{path}?fieldManager=me"), apply, &main).await;
    assert_eq!(code, 201);
    assert!(made.get("status").is_none());
    let status = widget(&json!({"spec": {"x": 2}, "status": {"phase": "yes"}}));
    let (code, reported) =
        send(&client, Method::PATCH, &format!("{path}/status?fieldManager=me"), apply, &status)
            .await;
    assert_eq!(
        (code, &reported["status"]["phase"], &reported["spec"]["x"]),
        (200, &json!("yes"), &json!(1))
    );
    let managers = reported["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 2, "{reported}");
    assert!(
        managers
            .iter()
            .any(|m| m["subresource"] == "status"
                && m["fieldsV1"]["f:status"]["f:phase"].is_object())
    );
    // Applying the main part again leaves the status alone.
    let (_, again) =
        send(&client, Method::PATCH, &format!("{path}?fieldManager=me"), apply, &main).await;
    assert_eq!(again, reported);
}

#[tokio::test]
async fn managers_that_update_are_bounded_in_number() {
    let (server, client) = with_maps(1).await;
    for i in 0..30 {
        let client = server.client_as(&format!("manager-{i}"));
        let change = json!({"data": {format!("k{i}"): "v"}});
        assert_eq!(
            send(&client, Method::PATCH, &format!("{MAPS}/m0"), MERGE, &change).await.0,
            200
        );
    }
    let (_, object) = get(&client, &format!("{MAPS}/m0")).await;
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.len() <= 11, "{}", managers.len());
    let ancient = managers.iter().find(|m| m["manager"] == "ancient-changes").unwrap();
    assert!(ancient["fieldsV1"]["f:data"]["f:k0"].is_object());
    // They can be reset altogether.
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let (_, object) = send(&client, Method::PATCH, &format!("{MAPS}/m0"), MERGE, &reset).await;
    assert!(object["metadata"].get("managedFields").is_none(), "{object}");
}

#[tokio::test]
async fn deleting_an_owner_of_many_takes_them_all() {
    let (server, client) = with_maps(1).await;
    let (_, owner) = get(&client, &format!("{MAPS}/m0")).await;
    for i in 0..200 {
        let mut child = map(&format!("child-{i}"));
        child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "m0", "uid": owner["metadata"]["uid"]}]);
        post(&client, MAPS, &child).await;
    }
    let before = server.revision();
    send(&client, Method::DELETE, &format!("{MAPS}/m0"), "application/json", &Value::Null).await;
    let (_, list) = get(&client, MAPS).await;
    assert_eq!(list["items"], json!([]));
    // One revision for each, and none besides.
    assert_eq!(server.revision() - before, 201);
}

#[tokio::test]
async fn built_in_namespaces_stay() {
    let (_server, client) = with_maps(0).await;
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        assert_eq!(
            send(&client, Method::DELETE, &path, "application/json", &Value::Null).await.0,
            403
        );
        assert_eq!(get(&client, &path).await.1["status"]["phase"], "Active");
    }
}
