//! A client that does not wait for ever for an answer, and takes none without end.
//!
//! A connection can break without a sign, and a proxy can swallow an answer. What waits for it
//! would stand still until the limit of a whole reconcile. The request may have been carried out
//! all the same, as after any error of a connection.

use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;

/// A little more than the 60 s after which the API server itself gives up a request that is not a
/// watch.
pub const LIMIT: Duration = Duration::from_secs(65);

/// Largest answer in bytes, and largest event of a watch: no page of a listing
/// that is asked for here comes near it.
const MAX_ANSWER: usize = 256 << 20;

/// An answer that is too large.
#[derive(Debug, thiserror::Error)]
#[error("its answer has more than {} MiB", MAX_ANSWER >> 20)]
struct TooLarge;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, tower::BoxError>;

/// A request that was not answered.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", LIMIT.as_secs())]
struct Unanswered;

/// A client of the same cluster whose requests fail when they are not answered within [`LIMIT`].
/// Of watches and of other answers that go on, only the beginning has to come by then.
pub fn limited_client(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let goes_on = goes_on(request.uri().query().unwrap_or_default());
            let answer = async {
                let answer = inner.send(request).await?;
                let (parts, body) = answer.into_parts();
                if goes_on {
                    return Ok::<_, kube::Error>(Response::from_parts(parts, by_lines(body)));
                }
                let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| {
                    match error.is::<LengthLimitError>() {
                        true => kube::Error::Service(Box::new(TooLarge)),
                        false => match error.downcast::<kube::Error>() {
                            Ok(error) => *error,
                            Err(error) => kube::Error::Service(error),
                        },
                    }
                })?;
                let body = Full::new(body.to_bytes()).map_err(|never| match never {});
                Ok(Response::from_parts(parts, body.boxed_unsync()))
            };
            let unanswered = |_| kube::Error::Service(Box::new(Unanswered));
            tokio::time::timeout(LIMIT, answer).await.map_err(unanswered)?
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

/// The body of an answer that goes on, of which each line has a limit.
fn by_lines(body: Body) -> Answer {
    let mut line = 0_usize;
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame?;
        if let Some(data) = frame.data_ref() {
            line = match data.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => data.len() - end - 1,
                None => line.saturating_add(data.len()),
            };
            if line > MAX_ANSWER {
                return Err(TooLarge.into());
            }
        }
        Ok(frame)
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Whether the answer has no end of its own: a watch, or the log of a container.
fn goes_on(query: &str) -> bool {
    query.split('&').any(|one| matches!(one, "watch=true" | "watch=1" | "follow=true"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};
    use kube_sim::{Effect, InjectedFault, Server};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_fails_and_a_watch_goes_on() {
        let server = Server::new();
        let namespaces: Api<Namespace> = Api::all(limited_client(server.client()));
        namespaces.list(&ListParams::default()).await.unwrap();
        for effect in [Effect::Hang, Effect::HangAfterApplying] {
            server.inject(InjectedFault::new(effect, |_| true));
            let begun = Instant::now();
            let error = namespaces.get("default").await.unwrap_err();
            assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
            assert_eq!(crate::watch::failure::error_reason(&error), "no answer within 65 s");
        }
        let params = WatchParams::default().timeout(280);
        let mut events = Box::pin(namespaces.watch(&params, "0").await.unwrap());
        let begun = Instant::now();
        while futures::StreamExt::next(&mut events).await.is_some() {}
        assert!(begun.elapsed() > LIMIT * 2, "a watch lasts as long as it asks to");
    }
}
