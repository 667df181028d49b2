//! The server over the network, for `kubectl` and other processes.
//!
//! Everything that a peer can make wait or grow has a bound: how many
//! connections there are, how long a request may take to arrive, how long an
//! answer may take to be read, and how many bytes of answers wait to be read.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::answer::{ResponseBody, error_response};
use super::effect::Dropped;
use super::guard::Guard;
use super::handler::handle;
use super::inner::Inner;

/// Connections at a time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 1000;
/// How long a peer may take to say hello, and to send the head of a request. A
/// connection without a request is closed after that as well.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long a peer may leave what it asked for unread.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Bytes kept for the head of a request and for what waits to be sent.
const BUFFER: usize = 64 << 10;
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 22;

/// The server as a `tower` service: one per client.
#[derive(Clone)]
pub struct ApiService {
    pub(super) server: Arc<Inner>,
    /// Whom requests are attributed to; without it, it is the `User-Agent`.
    pub(super) client: Option<Arc<str>>,
    /// What is asked of requests, and where they arrive.
    pub(super) guard: Option<(Arc<Guard>, Option<SocketAddr>)>,
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Dropped;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let request = match &this.guard {
                None => request,
                Some((guard, listener)) => {
                    let (parts, body) = request.into_parts();
                    if let Err(error) = guard.check(*listener, &parts) {
                        return Ok(error_response(&error));
                    }
                    Request::from_parts(parts, body)
                }
            };
            handle(this.server, this.client.as_deref(), request).await
        })
    }
}

/// Serves until cancelled; open connections are closed then.
pub(super) async fn serve(
    server: Arc<Inner>,
    listener: TcpListener,
    guard: Option<Arc<Guard>>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let address = listener.local_addr().ok();
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // One connection that failed leaves the others alone.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    // Out of file descriptors, most likely: do not spin.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::debug!(limit = MAX_CONNECTIONS, "too many connections");
            continue;
        };
        let guard = guard.clone();
        let service = ApiService {
            server: server.clone(),
            client: None,
            guard: guard.clone().map(|guard| (guard, address)),
        };
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = connection(stream, guard.as_deref(), service) => {}
            }
            drop(place);
        });
    }
}

/// Answers the requests of one connection, with or without TLS.
async fn connection(stream: TcpStream, guard: Option<&Guard>, service: ApiService) {
    let Some(guard) = guard else { return requests(stream, service).await };
    let mut first = [0];
    let peeked = tokio::time::timeout(HEAD_WITHIN, stream.peek(&mut first)).await;
    match peeked {
        Ok(Ok(1)) if first[0] == TLS_HANDSHAKE => {
            match tokio::time::timeout(HEAD_WITHIN, guard.tls.accept(stream)).await {
                Ok(Ok(stream)) => requests(stream, service).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
                Err(_) => tracing::debug!("the TLS connection takes too long"),
            }
        }
        Ok(Ok(1)) => requests(stream, service).await,
        _ => {}
    }
}

async fn requests<S>(stream: S, service: ApiService)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(READ_WITHIN));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}
