//! Webhooks over HTTP. Anyone may send requests, so their size, their time and the memory
//! of all of them are limited.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::connections;

/// The most bytes of one body; GitHub sends no more than this.
const MAX_BODY: usize = 25 << 20;
/// The most KiB of all bodies in memory.
const MEMORY: usize = 64 << 10;
/// How long a client may take to send a body.
const TIME: Duration = Duration::from_secs(20);

/// Takes headers and body of a request, and returns the response.
pub type Receive =
    Arc<dyn Fn(HeaderMap, Bytes) -> BoxFuture<'static, (StatusCode, String)> + Send + Sync>;

/// Serves `POST /api/webhook` until `shutdown` (AS-421).
///
/// # Errors
///
/// When the address cannot be used; the error contains it as given.
pub fn serve_webhook(
    addr: String,
    receive: Receive,
    shutdown: CancellationToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let listener = connections::listen("webhook-addr", &addr).await?;
        let memory = Arc::new(Semaphore::new(MEMORY));
        let handle = move |request: Request| {
            let (receive, memory) = (Arc::clone(&receive), Arc::clone(&memory));
            async move {
                let (parts, body) = request.into_parts();
                let read = tokio::time::timeout(TIME, read(body, &memory)).await;
                match read.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT)) {
                    // The memory is released after the response was made.
                    Ok((body, _permits)) => receive(parts.headers, body).await,
                    Err(code) => (code, String::new()),
                }
            }
        };
        let router = Router::new().route("/api/webhook", post(handle));
        connections::serve(listener, router, connections::LIMITS, shutdown).await;
        Ok(())
    })
}

/// Reads a body, whatever length was announced.
async fn read(
    mut body: Body,
    memory: &Arc<Semaphore>,
) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), StatusCode> {
    let (mut read, mut permits) = (Vec::new(), Vec::new());
    let mut reserved = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else { continue };
        let length = read.len() + data.len();
        if length > MAX_BODY {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if length > reserved {
            // At least as much as before, so that few reservations are made.
            let more = (length - reserved).max(reserved).max(64 << 10).div_ceil(1 << 10);
            let permit = u32::try_from(more)
                .ok()
                .and_then(|more| Arc::clone(memory).try_acquire_many_owned(more).ok());
            permits.push(permit.ok_or(StatusCode::SERVICE_UNAVAILABLE)?);
            reserved += more << 10;
        }
        read.extend_from_slice(&data);
    }
    Ok((read.into(), permits))
}
