//! Connections of the page: not more than some, none that says nothing, none that does not end
//! with the page (PG-005).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Open connections. A browser has six for each host.
const CONNECTIONS: usize = 256;
/// The time for the head of a request, and between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// The most bytes that are kept of one request before it is answered.
const BUFFER: usize = 64 << 10;
/// Pause after a failed accept: without files, the next one fails, too.
const PAUSE: Duration = Duration::from_millis(50);
/// Until a connection is free, a new one waits so long before it is closed.
const TURN: Duration = Duration::from_millis(500);

/// Serves until stopped.
pub(super) async fn serve_connections(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) {
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let turn = tokio::time::timeout(TURN, Arc::clone(&turns).acquire_owned()).await;
        // More than a browser opens: it is closed without an answer.
        let Ok(Ok(turn)) = turn else { continue };
        tasks.spawn(connection(stream, router.clone(), turn));
    }
    tasks.abort_all();
}

async fn connection(stream: TcpStream, router: Router, _turn: OwnedSemaphorePermit) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let request: Request = request.map(Body::new);
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|e| match e {})) }
    });
    // An error is that of the browser; there is nobody to report it to.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
