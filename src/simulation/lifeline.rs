//! A client that can be cut off, as that of a process that is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use kube::Client;
use kube::client::Body;

/// Whether the process of a client still lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifeline(Arc<AtomicBool>);

impl Lifeline {
    /// A client of the same server: once it is cut off, none of its requests is sent, and none is
    /// answered.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let is_cut = Arc::clone(&self.0);
        let send = move |request: Request<Body>| {
            let (inner, is_cut) = (inner.clone(), Arc::clone(&is_cut));
            async move {
                if is_cut.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                let answer = inner.send(request).await;
                if is_cut.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                answer
            }
        };
        Client::new(tower::service_fn(send), namespace)
    }

    pub fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
