//! Requests of the controller that a test holds back for as long as it wants.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;
use tokio::sync::watch;

use super::*;

/// A gate before some requests of the controller.
pub struct Gate {
    is_open: watch::Sender<bool>,
    held: Arc<AtomicUsize>,
}

impl Gate {
    /// Starts the controller again behind a gate, which is open.
    pub async fn start(
        world: &mut World,
        is_held: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static,
    ) -> Self {
        world.crash().await;
        let (is_open, _) = watch::channel(true);
        let held = Arc::<AtomicUsize>::default();
        let (inner, is_held) = (world.server.client_as(CONTROLLER), Arc::new(is_held));
        let (gate, count) = (is_open.clone(), Arc::clone(&held));
        let serve = move |request: Request<Body>| {
            let (inner, mut gate) = (inner.clone(), gate.subscribe());
            let (is_held, count) = (Arc::clone(&is_held), Arc::clone(&count));
            async move {
                let is_shut = !*gate.borrow();
                if is_shut && is_held(&request) {
                    count.fetch_add(1, Ordering::SeqCst);
                    // Fails only when the test has ended.
                    let _ = gate.wait_for(|is_open| *is_open).await;
                }
                inner.send(request).await
            }
        };
        world.run_as(kube::Client::new(tower::service_fn(serve), "default"));
        Self { is_open, held }
    }

    pub fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// Lets through what was held back.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Waits until a request is held back.
    pub async fn until_held(&self) {
        until("a request is held back", async || self.held.load(Ordering::SeqCst) != 0).await;
    }
}

/// Whether a request changes an Application.
pub fn patches_application(request: &Request<Body>) -> bool {
    request.method() == Method::PATCH && request.uri().path().contains("/applications/")
}
