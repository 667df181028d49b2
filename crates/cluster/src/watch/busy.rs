//! A client that repeats requests which a busy server refused.
//!
//! Priority and fairness, and proxies before a server, refuse requests with code 429 and say
//! in `Retry-After` when to ask again. Such a request was not executed, so that any of them
//! may be repeated, creations included; every other error is left to whoever sent the
//! request. As in client-go.

use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use kube::Client;
use kube::client::Body;
use tokio::time::{Sleep, sleep};
use tower::ServiceBuilder;
use tower::retry::{Policy, RetryLayer};

/// How often one request is repeated. The error of the last attempt is returned.
const REPEATS: u32 = 10;
/// The longest pause. A server that asks for more is down for this request: its error says
/// more than a silent wait.
const LONGEST: Duration = Duration::from_secs(10);

/// A client of the same cluster that waits for as long as a busy server asks for.
pub fn waiting_client(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let inner = inner.clone();
        async move { inner.send(request).await }
    };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Repeat { left: REPEATS }))
        .service(tower::service_fn(send));
    Client::new(service, namespace)
}

/// The attempts at one request.
#[derive(Clone)]
struct Repeat {
    left: u32,
}

impl Policy<Request<Body>, Response<Body>, kube::Error> for Repeat {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        answer: &mut Result<Response<Body>, kube::Error>,
    ) -> Option<Sleep> {
        let pause = answer.as_ref().ok().and_then(asked_pause)?;
        self.left = self.left.checked_sub(1)?;
        let (method, path, seconds) = (request.method(), request.uri().path(), pause.as_secs());
        tracing::debug!(%method, path, seconds, "the API server is busy, repeating the request");
        Some(sleep(pause))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        copy(request)
    }
}

/// A copy of a request that may be sent again; `None` if its body is not in memory.
pub(super) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// For how long a busy server asks to wait; `None` for every other answer, and for a pause
/// that is too long.
fn asked_pause(answer: &Response<Body>) -> Option<Duration> {
    if answer.status() != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|pause| *pause <= LONGEST)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{ObjectMeta, PostParams};
    use tokio::time::Instant;

    use super::*;

    /// A server that refuses the first requests with this code and pause, then answers.
    fn server(code: u16, retry_after: Option<&str>, refusals: u32) -> (Client, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let (count, pause) = (Arc::clone(&asked), retry_after.map(str::to_owned));
        let answer = move |request: Request<Body>| {
            let (count, pause) = (Arc::clone(&count), pause.clone());
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                if count.fetch_add(1, Ordering::Relaxed) >= refusals {
                    return Ok::<_, kube::Error>(Response::new(Body::from(body)));
                }
                let mut answer = Response::builder().status(code);
                if let Some(pause) = pause {
                    answer = answer.header(header::RETRY_AFTER, pause);
                }
                Ok(answer.body(Body::empty()).unwrap())
            }
        };
        (waiting_client(Client::new(tower::service_fn(answer), "default")), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_asked_again_when_the_server_says() {
        // (code, Retry-After, refusals, attempts, seconds, whether it succeeds)
        for (code, retry_after, refusals, attempts, seconds, succeeds) in [
            (429, Some("1"), 3, 4, 3, true),
            (429, Some(" 7 "), 1, 2, 7, true),
            (429, Some("1"), 99, 11, 10, false),
            (429, Some("11"), 1, 1, 0, false),
            (429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), 1, 1, 0, false),
            (429, Some("99999999999999999999999"), 1, 1, 0, false),
            (429, None, 1, 1, 0, false),
            (503, Some("1"), 1, 1, 0, false),
            (500, None, 1, 1, 0, false),
        ] {
            let (client, asked) = server(code, retry_after, refusals);
            let case = format!("{code} {retry_after:?} {refusals}");
            let began = Instant::now();
            let name = Some("a".to_owned());
            let map = ConfigMap {
                metadata: ObjectMeta { name, ..Default::default() },
                ..Default::default()
            };
            let maps: Api<ConfigMap> = Api::namespaced(client, "default");
            let answer = maps.create(&PostParams::default(), &map).await;
            assert_eq!(answer.is_ok(), succeeds, "{case}: {answer:?}");
            // The body is sent again as well.
            if let Ok(created) = answer {
                assert_eq!(created, map, "{case}");
            }
            assert_eq!(asked.load(Ordering::Relaxed), attempts, "{case}");
            assert_eq!(began.elapsed().as_secs(), seconds, "{case}");
        }
    }
}
