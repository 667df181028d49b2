//! A read-only client, for a dry run.
//!
//! The controllers do not write in a dry run. This client makes sure of it: it rejects
//! requests of code that does not check for it, too.

use http::{Method, Request, Response, StatusCode, header};
use kube::Client;
use kube::client::Body;
use serde_json::json;

/// A client of the same cluster that only sends read requests, and the dry runs by which the
/// server predicts an apply. All else, also other requests with `dryRun=All`, gets a response with
/// code 405 and is not sent.
pub fn read_only_client(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if is_read(request.method()) || is_prediction(&request) {
                return inner.send(request).await;
            }
            let (method, path) = (request.method(), request.uri().path());
            let message = format!("dry run: {method} {path} is not sent");
            Ok(refusal((StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"), &message))
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The dry run of a server-side apply, which changes nothing (SE-158).
fn is_prediction(request: &Request<Body>) -> bool {
    let is_apply = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|type_| type_.as_bytes().starts_with(b"application/apply-patch+"));
    let query = request.uri().query().unwrap_or_default();
    let is_dry = query.split('&').any(|part| part == "dryRun=All");
    *request.method() == Method::PATCH && is_apply && is_dry
}

/// The response to a request that is not sent.
pub(super) fn refusal((code, reason): (StatusCode, &str), message: &str) -> Response<Body> {
    tracing::warn!("{message}");
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message,
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;

    use kube_sim::Server;

    #[tokio::test]
    async fn only_reads_are_sent() {
        let server = Server::new();
        let client = super::read_only_client(server.client_as("dry"));
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let map = ConfigMap::default();
        let patch = Patch::Merge(json!({}));
        let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
        let dry_patch = PatchParams { dry_run: true, ..PatchParams::default() };
        let refused = [
            maps.create(&PostParams::default(), &map).await.err(),
            maps.create(&dry, &map).await.err(),
            maps.replace("a", &PostParams::default(), &map).await.err(),
            maps.patch("a", &PatchParams::default(), &patch).await.err(),
            maps.patch("a", &dry_patch, &patch).await.err(),
            maps.patch("a", &PatchParams::apply("m"), &apply).await.err(),
            maps.delete("a", &DeleteParams::default()).await.err(),
        ];
        for error in refused {
            let error = error.unwrap().to_string();
            assert!(error.contains("dry run: "), "{error}");
        }
        let predicting = PatchParams { dry_run: true, ..PatchParams::apply("m") };
        maps.patch("a", &predicting, &apply).await.unwrap();
        assert!(maps.get_opt("a").await.unwrap().is_none());
        let verbs: Vec<String> = server
            .requests()
            .into_iter()
            .filter(|request| request.client == "dry")
            .map(|request| request.verb)
            .collect();
        assert_eq!(verbs, ["apply", "get"]);
    }
}
