//! Requests and waiting.

use std::time::Duration;

use http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// A response: HTTP status code and JSON body.
#[derive(Debug, Clone)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    /// The body of a response with this code.
    #[track_caller]
    pub fn ok(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    /// The body of an error with this code and reason.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        assert_eq!(self.body["kind"], "Status", "{}", self.body);
        assert_eq!(self.body["status"], "Failure", "{}", self.body);
        assert_eq!(self.body["reason"], reason, "{}", self.body);
        assert_eq!(self.body["code"], code, "{}", self.body);
        self.body
    }
}

/// Whether the causes of an error contain a field.
pub fn names_field(status: &Value, field: &str) -> bool {
    status["details"]["causes"]
        .as_array()
        .is_some_and(|causes| causes.iter().any(|c| c["field"] == field))
}

pub async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    media: &str,
    accept: &str,
    body: Option<&Value>,
) -> Answer {
    let bytes = body.map(|b| serde_json::to_vec(b).unwrap()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .header(header::ACCEPT, accept)
        .body(Body::from(bytes))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { code, body }
}

pub async fn get(client: &kube::Client, path: &str) -> Answer {
    send(client, Method::GET, path, JSON, JSON, None).await
}

pub async fn post(client: &kube::Client, path: &str, body: &Value) -> Answer {
    send(client, Method::POST, path, JSON, JSON, Some(body)).await
}

pub async fn put(client: &kube::Client, path: &str, body: &Value) -> Answer {
    send(client, Method::PUT, path, JSON, JSON, Some(body)).await
}

pub async fn patch(client: &kube::Client, path: &str, media: &str, body: &Value) -> Answer {
    send(client, Method::PATCH, path, media, JSON, Some(body)).await
}

pub async fn delete(client: &kube::Client, path: &str, options: &Value) -> Answer {
    send(client, Method::DELETE, path, JSON, JSON, Some(options)).await
}

/// Reads until the response matches; the panic contains the last one.
pub async fn eventually(
    client: &kube::Client,
    path: &str,
    what: &str,
    wanted: impl Fn(&Answer) -> bool,
) -> Value {
    let mut last = get(client, path).await;
    for _ in 0..3_600 {
        if wanted(&last) {
            return last.body;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        last = get(client, path).await;
    }
    panic!("{what}: not within the time; last: {last:?}");
}

/// Reads until the object does not exist.
pub async fn gone(client: &kube::Client, path: &str) {
    eventually(client, path, "gone", |a| a.code == 404).await;
}

/// Whether the server is older than Kubernetes 1.`minor`, and so lacks `what`; says it.
pub async fn lacks(client: &kube::Client, minor: u32, what: &str) -> bool {
    let version = get(client, "/version").await.ok(200);
    let digits = version["minor"].as_str().unwrap().trim_end_matches(|c: char| !c.is_ascii_digit());
    let old = digits.parse::<u32>().unwrap() < minor;
    if old {
        eprintln!("skipped: {what} came with Kubernetes 1.{minor}, this is 1.{digits}");
    }
    old
}

pub fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

/// Without replicas, so that nothing is created for it.
pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1", "env": [{"name": "A", "value": "1"}]}]},
            },
        },
    })
}

/// A kind with lists that merge, and without a controller.
pub fn pod_template(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {
                "containers": [
                    {"name": "one", "image": "example.com/one:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                    {"name": "two", "image": "example.com/two:1"},
                ],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            },
        },
    })
}

pub fn pod_templates(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/podtemplates")
}

pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// Names in a list, in its order.
pub fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap())
        .collect()
}
