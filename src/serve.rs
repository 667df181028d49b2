//! Health and readiness over HTTP, for the probes of a Deployment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the process does its work; set by whoever knows.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says that it does, or no longer does.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// What was said last; not ready at first.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Answers `/healthz` and `/readyz` until `shutdown`.
///
/// # Errors
///
/// When the address cannot be listened on; it is named as given. An address
/// such as `:8081` means all interfaces.
pub async fn probes(
    addr: String,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let full = if addr.starts_with(':') { format!("0.0.0.0{addr}") } else { addr.clone() };
    let listener = TcpListener::bind(&full).await.map_err(|error| {
        std::io::Error::new(error.kind(), format!("probe-addr {addr}: {error}"))
    })?;
    let ready = move || {
        let ready = readiness.get();
        async move {
            if ready {
                (StatusCode::OK, "ok")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready: it is starting or stopping")
            }
        }
    };
    let router =
        Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready));
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
}
