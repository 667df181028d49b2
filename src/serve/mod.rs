//! HTTP servers: health and readiness for the probes of a Deployment, metrics, and webhooks.

mod connections;
mod metrics;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use metrics::metrics;
pub use webhook::{Receive, webhook};

/// Readiness of the process, shared by its parts.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets the readiness.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// The current readiness; not ready at first.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves `/healthz` and `/readyz` until `shutdown`.
///
/// # Errors
///
/// When the address cannot be used; the error contains it as given. An address such as
/// `:8081` means all interfaces.
pub async fn probes(
    addr: String,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let listener = listen("probe-addr", &addr).await?;
    let ready = move || {
        let ready = readiness.get();
        async move {
            if ready {
                (StatusCode::OK, "ok")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready: starting or stopping")
            }
        }
    };
    let router =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready));
    connections::serve(listener, router, connections::LIMITS, shutdown).await;
    Ok(())
}

/// Listens on the address of a setting; `:8081` means all interfaces.
async fn listen(setting: &str, addr: &str) -> std::io::Result<TcpListener> {
    let full = if addr.starts_with(':') { format!("0.0.0.0{addr}") } else { addr.to_owned() };
    let failed = |error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("{setting} {addr}: {error}"))
    };
    TcpListener::bind(&full).await.map_err(failed)
}
