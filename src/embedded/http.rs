//! The server over HTTP, for `kubectl` and other processes.
//!
//! There is no authentication and no TLS: meant for the loopback address only.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::handler::{Dropped, ResponseBody, handle};

/// The server as a `tower` service: one per client.
#[derive(Clone)]
pub struct ApiService {
    pub(super) server: Arc<Inner>,
    /// Whom requests are attributed to; without it, the `User-Agent` tells.
    pub(super) client: Option<Arc<str>>,
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
        Box::pin(async move { handle(this.server, this.client.as_deref(), request).await })
    }
}

/// Serves until cancelled; open connections are closed then.
pub(super) async fn serve(
    server: Arc<Inner>,
    listener: TcpListener,
    stop: CancellationToken,
) -> std::io::Result<()> {
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // One connection that failed leaves the others alone.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    // Out of file descriptors, most likely: do not spin.
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let service = TowerToHyperService::new(ApiService { server: server.clone(), client: None });
        let stop = stop.clone();
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = stop.cancelled() => {}
                result = connection => if let Err(error) = result {
                    tracing::debug!(error, "connection ended");
                }
            }
        });
    }
}
