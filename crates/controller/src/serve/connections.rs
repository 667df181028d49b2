//! Connections of the HTTP servers. Anyone may open them, so their number and their time are
//! limited: the file descriptors of the process are for its work.

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
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The limits of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most connections. One more closes the oldest that has sent no complete request.
    pub connections: usize,
    /// How long a client may take to send the headers of a request.
    pub header: Duration,
    /// How long a connection may last in all.
    pub connection: Duration,
}

/// Of all servers: probes, scrapes and webhooks are few, and each connection serves one
/// request. Three servers take less than a fifth of the usual 1,024 descriptors.
pub(super) const LIMITS: Limits = Limits {
    connections: 64,
    header: Duration::from_secs(10),
    connection: Duration::from_secs(120),
};

/// How long requests that are being served may take after the shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, such as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// One open connection.
struct Open {
    /// Whether a request is complete and being served.
    serving: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Listens on the address of a setting; `:8081` means all interfaces.
pub(super) async fn listen(setting: &str, addr: &str) -> std::io::Result<TcpListener> {
    let full = if addr.starts_with(':') { format!("0.0.0.0{addr}") } else { addr.to_owned() };
    let failed = |error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("{setting} {addr}: {error}"))
    };
    TcpListener::bind(&full).await.map_err(failed)
}

/// Serves a router until `shutdown`, one request per connection; then waits for the requests
/// that are being served.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let open: Arc<Mutex<VecDeque<Open>>> = Arc::default();
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut open = open.lock();
        open.retain(|one| !one.task.is_finished());
        if open.len() >= limits.connections && !close_oldest(&mut open) {
            // All of them are being served.
            continue;
        }
        let serving = Arc::new(AtomicBool::new(false));
        let connection = connection(stream, router.clone(), limits, Arc::clone(&serving));
        let task = tasks.spawn(connection);
        open.push_back(Open { serving, task });
    }
    drop(listener);
    open.lock().iter().filter(|one| !one.serving.load(Ordering::Relaxed)).for_each(|one| {
        one.task.abort();
    });
    let _ = tokio::time::timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
}

/// Closes the oldest connection without a complete request; `false` when there is none.
fn close_oldest(open: &mut VecDeque<Open>) -> bool {
    let oldest = open.iter().position(|one| !one.serving.load(Ordering::Relaxed));
    let closed = oldest.and_then(|oldest| open.remove(oldest));
    closed.inspect(|one| one.task.abort()).is_some()
}

async fn connection(stream: TcpStream, router: Router, limits: Limits, serving: Arc<AtomicBool>) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        serving.store(true, Ordering::Relaxed);
        let request: Request = request.map(Body::new);
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|e| match e {})) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        // A connection that stays open for further requests would count until it is used.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error is that of the client; there is nobody to report it to.
    let _ = tokio::time::timeout(limits.connection, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that accepts a few connections.
    async fn start(header: Duration) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "ok" }));
        let limits = Limits { connections: 4, header, connection: Duration::from_secs(600) };
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, router, limits, stop.clone()));
        (address, stop)
    }

    async fn ask(address: std::net::SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_and_slow_connections_give_way_to_requests() {
        let (address, _stop) = start(Duration::from_secs(600)).await;
        let mut slow = Vec::new();
        for index in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if index % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX: ").await.unwrap();
            }
            slow.push(stream);
        }
        for _ in 0..8 {
            let answer = ask(address).await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
        // The oldest ones are closed.
        let mut rest = Vec::new();
        let _ = slow[0].read_to_end(&mut rest).await;
        let _ = slow[1].read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }

    #[tokio::test]
    async fn headers_have_a_time_limit_and_the_shutdown_waits_for_nobody_idle() {
        let (address, stop) = start(Duration::from_millis(50)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains("200"));
        let mut idle = TcpStream::connect(address).await.unwrap();
        stop.cancel();
        let _ = idle.read_to_end(&mut rest).await;
    }
}
