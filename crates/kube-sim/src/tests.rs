//! Tests of what only the embedded server has, and of its parts.
//!
//! What it shares with a real server is in `tests/it/contract`.

mod bounds;
mod definitions;
mod disturbances;
mod faults;
mod memory;
mod over_http;
mod parts;
mod patches;
mod recording;
mod restoring;
mod same_run;
mod server;
mod watches;

use ::http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};

use super::Server;

/// Sends a request; gives back code and body.
async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> (u16, Value) {
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Body::from(bytes))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn get(client: &kube::Client, path: &str) -> (u16, Value) {
    send(client, Method::GET, path, "application/json", &Value::Null).await
}

async fn post(client: &kube::Client, path: &str, body: &Value) -> (u16, Value) {
    send(client, Method::POST, path, "application/json", body).await
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A server with some ConfigMaps `m0`, `m1`, … in `default`.
async fn with_maps(count: usize) -> (Server, kube::Client) {
    let server = Server::new();
    let client = server.client();
    for i in 0..count {
        let (code, body) = post(&client, MAPS, &map(&format!("m{i}"))).await;
        assert_eq!(code, 201, "{body}");
    }
    (server, client)
}
