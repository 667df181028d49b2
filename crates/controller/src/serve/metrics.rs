//! Metrics over HTTP, for Prometheus.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::connections;

/// The text format with types, as `prometheus-client` writes it.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Creates the text of all metrics.
pub type Text = Arc<dyn Fn() -> Result<String, std::fmt::Error> + Send + Sync>;

/// Serves `/metrics` until `shutdown`.
///
/// # Errors
///
/// When the address cannot be used; the error contains it as given.
pub fn serve_metrics(
    addr: String,
    text: Text,
    shutdown: CancellationToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let listener = connections::listen("metrics-addr", &addr).await?;
        // One at a time: a text takes memory for each ApplicationSet.
        let turn = Arc::new(tokio::sync::Semaphore::new(1));
        let scrape = move || {
            let (text, turn) = (Arc::clone(&text), Arc::clone(&turn));
            async move {
                let made = async {
                    let permit = turn.acquire_owned().await.ok()?;
                    let made = tokio::task::spawn_blocking(move || {
                        let _permit = permit;
                        text()
                    });
                    made.await.ok()?.ok()
                };
                match made.await {
                    Some(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
                    None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                }
            }
        };
        let router = Router::new().route("/metrics", get(scrape));
        connections::serve(listener, router, connections::LIMITS, shutdown).await;
        Ok(())
    })
}
