//! HTTP servers: health and readiness for the probes of a Deployment, metrics, and webhooks.

mod connections;
mod metrics;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use metrics::serve_metrics;
pub use webhook::{Receive, serve_webhook};

/// Readiness of the process, shared by its parts.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    ready: Arc<AtomicBool>,
    /// What is waited for at the start; empty for nothing.
    waits: Arc<Mutex<String>>,
}

impl Readiness {
    /// Sets the readiness.
    pub fn set(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// The current readiness; not ready at first.
    pub fn get(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Sets what is waited for at the start; empty for nothing.
    pub fn wait_for(&self, what: &str) {
        what.clone_into(&mut self.waits.lock());
    }

    /// What is waited for, or `default`.
    fn waits_or(&self, default: &str) -> String {
        let waits = self.waits.lock();
        if waits.is_empty() { default.to_owned() } else { format!("waits: {waits}") }
    }
}

/// Serves `/healthz` and `/readyz` until `shutdown`.
///
/// # Errors
///
/// When the address cannot be used; the error contains it as given. An address such as
/// `:8081` means all interfaces.
pub fn serve_probes(
    addr: String,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let listener = connections::listen("probe-addr", &addr).await?;
        let living = readiness.clone();
        let ready = move || {
            let ready = readiness.get();
            let why = readiness.waits_or("starting or stopping");
            async move {
                match ready {
                    true => (StatusCode::OK, "ok".to_owned()),
                    false => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}")),
                }
            }
        };
        // A process that waits must not be killed for it.
        let healthy = move || {
            let text = living.waits_or("ok");
            async move { text }
        };
        let router = Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready));
        connections::serve(listener, router, connections::LIMITS, shutdown).await;
        Ok(())
    })
}
