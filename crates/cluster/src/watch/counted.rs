//! A client that reports the outcome of each request, for metrics.

use std::sync::Arc;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;

/// Takes the method and the status code of a request; no code when there was no response.
pub type Observe = Arc<dyn Fn(&Method, Option<u16>) + Send + Sync>;

/// A client of the same cluster whose requests are reported to `observe`.
pub fn counted_client(inner: Client, observe: Observe) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (inner, observe) = (inner.clone(), Arc::clone(&observe));
        async move {
            let method = request.method().clone();
            let response = inner.send(request).await;
            observe(&method, response.as_ref().ok().map(|response| response.status().as_u16()));
            response
        }
    };
    Client::new(tower::service_fn(send), namespace)
}
