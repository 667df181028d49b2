//! A client that acts as another user.

use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;

/// The header by which an API server takes a request as that of another user.
const IMPERSONATE_USER: &str = "impersonate-user";

/// A client of the same cluster whose requests are those of `user`; the API server derives the
/// groups of a service account from its name.
pub fn impersonating_client(inner: Client, user: HeaderValue) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |mut request: Request<Body>| {
        let inner = inner.clone();
        request.headers_mut().insert(IMPERSONATE_USER, user.clone());
        async move { inner.send(request).await }
    };
    Client::new(tower::service_fn(send), namespace)
}
