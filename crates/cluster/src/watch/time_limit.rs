//! A client that does not wait for ever for an answer, and takes none without end.
//!
//! A connection can break without a sign, and a proxy can swallow an answer. What waits for it
//! would stand still until the limit of a whole reconcile. The request may have been carried out
//! all the same, as after any error of a connection.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use super::answer_size::{AnswerLimits, Share};

/// A little more than the 60 s after which the API server itself gives up a request that is not a
/// watch.
pub const LIMIT: Duration = Duration::from_secs(65);

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, tower::BoxError>;

/// A request that was not answered.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", LIMIT.as_secs())]
struct Unanswered;

/// A line of a watch that did not end.
#[derive(Debug, thiserror::Error)]
#[error("a large event did not end within {} s", LIMIT.as_secs())]
struct Unended;

/// A client of the same cluster whose requests fail when they are not answered within [`LIMIT`].
/// Of watches and of other answers that go on, only the beginning has to come by then.
pub fn limited_client(inner: Client) -> Client {
    within(inner, AnswerLimits::of_process())
}

/// The same with other limits of its answers.
pub(super) fn within(inner: Client, limits: AnswerLimits) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (inner, limits) = (inner.clone(), limits.clone());
        async move {
            let goes_on = goes_on(request.uri().query().unwrap_or_default());
            let answer = async {
                let answer = inner.send(request).await?;
                let (parts, body) = answer.into_parts();
                if goes_on {
                    return Ok::<_, kube::Error>(Response::from_parts(
                        parts,
                        by_lines(body, limits),
                    ));
                }
                let body = Full::new(limits.collect(body).await?).map_err(|never| match never {});
                Ok(Response::from_parts(parts, body.boxed_unsync()))
            };
            let unanswered = |_| kube::Error::Service(Box::new(Unanswered));
            tokio::time::timeout(LIMIT, answer).await.map_err(unanswered)?
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

/// An answer that goes on.
struct Lines {
    frames: BodyStream<Body>,
    limits: AnswerLimits,
    /// The bytes of the line that has not ended.
    line: usize,
    share: Share,
    /// When a line has to end that takes of what all share.
    ends: Option<Instant>,
}

/// The body of an answer that goes on, of which each line has a limit.
fn by_lines(body: Body, limits: AnswerLimits) -> Answer {
    let frames = BodyStream::new(body);
    let lines = Lines { frames, limits, line: 0, share: Share::default(), ends: None };
    let frames = stream::unfold(Some(lines), |lines| async move {
        let mut lines = lines?;
        match lines.next().await {
            Ok(frame) => frame.map(|frame| (Ok(frame), Some(lines))),
            Err(error) => Some((Err(error), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, tower::BoxError> {
        let frame = match self.ends {
            None => self.frames.next().await,
            Some(ends) => {
                tokio::time::timeout_at(ends, self.frames.next()).await.map_err(|_| Unended)?
            }
        };
        let Some(frame) = frame.transpose()? else { return Ok(None) };
        if let Some(data) = frame.data_ref() {
            let (begun, rest) = match data.iter().position(|byte| *byte == b'\n') {
                Some(first) => {
                    let last = data.iter().rposition(|byte| *byte == b'\n').unwrap_or(first);
                    (self.line.saturating_add(first), Some(data.len() - last - 1))
                }
                None => (self.line.saturating_add(data.len()), None),
            };
            self.limits.take_for_line(&mut self.share, begun).await?;
            if let Some(rest) = rest {
                (self.line, self.share, self.ends) = (rest, Share::default(), None);
            } else {
                self.line = begun;
            }
            if self.line > self.limits.free_line && self.ends.is_none() {
                self.ends = Some(Instant::now() + LIMIT);
            }
        }
        Ok(Some(frame))
    }
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
