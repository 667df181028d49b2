//! Connections of the page: not more than some, none that keeps a person out, none that does not end
//! with the page (PG-005).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::tls::PageTls;
use crate::team::{HANDSHAKE, ProxyCertificate};

/// Open connections: the streams, and some more.
const CONNECTIONS: usize = 256;
/// The time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The longest time of a connection. The browser opens a stream again by itself.
const LASTS: Duration = Duration::from_secs(600);
/// The most bytes that are kept of one request before it is answered.
const BUFFER: usize = 64 << 10;
/// Pause after a failed accept: without files, the next one fails, too.
const PAUSE: Duration = Duration::from_millis(50);

/// An open connection.
struct Open {
    /// It has sent a request.
    serving: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Serves until stopped.
pub(super) async fn serve_connections(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<PageTls>>,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<Open> = VecDeque::new();
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
        open.retain(|one| !one.task.is_finished());
        if open.len() >= CONNECTIONS && !close_oldest(&mut open) {
            // All of them are served: more than browsers open.
            continue;
        }
        let serving = Arc::new(AtomicBool::new(false));
        let task = tasks.spawn(accept(stream, tls.clone(), router.clone(), Arc::clone(&serving)));
        open.push_back(Open { serving, task });
    }
    tasks.abort_all();
}

/// Closes the oldest connection without a request; `false` when there is none.
fn close_oldest(open: &mut VecDeque<Open>) -> bool {
    let oldest = open.iter().position(|one| !one.serving.load(Ordering::Relaxed));
    let closed = oldest.and_then(|oldest| open.remove(oldest));
    closed.inspect(|one| one.task.abort()).is_some()
}

/// Serves a connection, through TLS where there is some.
async fn accept(
    stream: TcpStream,
    tls: Option<Arc<PageTls>>,
    router: Router,
    serving: Arc<AtomicBool>,
) {
    let Some(tls) = tls else {
        return connection(stream, ProxyCertificate(false), router, serving).await;
    };
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await
    else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let is_proxy = certificates.and_then(|all| all.first()).is_some_and(|own| tls.is_proxy(own));
    connection(stream, ProxyCertificate(is_proxy), router, serving).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    certificate: ProxyCertificate,
    router: Router,
    serving: Arc<AtomicBool>,
) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        serving.store(true, Ordering::Relaxed);
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(certificate);
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|e| match e {})) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        // One that stays open for further requests would count as served.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error is that of the browser; there is no place to report it.
    let _ = tokio::time::timeout(LASTS, connection).await;
}
