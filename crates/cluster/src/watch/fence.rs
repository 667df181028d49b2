//! A client that writes only while this process may, for a leader.
//!
//! A process that was stopped for a while continues in the middle of its reconciles, before it
//! has noticed that another replica leads now: what it was about to write must not be sent.

use std::sync::Arc;

use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;

use super::read_only::{is_read, refusal};

/// Whether this process may write now.
pub type MayWrite = Arc<dyn Fn() -> bool + Send + Sync>;

/// A client of the same cluster. Other requests than reads get a response with code 503 and are
/// not sent while `may_write` says so.
pub fn fenced_client(inner: Client, may_write: MayWrite) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (inner, may_write) = (inner.clone(), Arc::clone(&may_write));
        async move {
            if is_read(request.method()) || may_write() {
                return inner.send(request).await;
            }
            let (method, path) = (request.method(), request.uri().path());
            let message = format!("the lease was not renewed in time: {method} {path} is not sent");
            Ok(refusal((StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"), &message))
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;

    use super::*;
    use kube_sim::Server;

    #[tokio::test]
    async fn writes_are_sent_only_while_they_may_be() {
        let server = Server::new();
        let may = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&may);
        let client = fenced_client(
            server.client_as("leader"),
            Arc::new(move || asked.load(Ordering::Relaxed)),
        );
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let map = |name: &str| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(name.to_owned());
            map
        };
        maps.create(&PostParams::default(), &map("a")).await.unwrap();
        may.store(false, Ordering::Relaxed);
        let refused = maps.create(&PostParams::default(), &map("b")).await.unwrap_err();
        assert!(refused.to_string().contains("the lease was not renewed in time"), "{refused}");
        assert!(maps.get_opt("a").await.unwrap().is_some());
        assert!(maps.get_opt("b").await.unwrap().is_none());
    }
}
