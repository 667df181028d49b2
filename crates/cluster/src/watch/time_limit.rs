//! A client that does not wait for ever for an answer.
//!
//! A connection can break without a sign, and a proxy can swallow an answer. What waits for it
//! would stand still until the limit of a whole reconcile. The request may have been carried out
//! all the same, as after any error of a connection.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;

/// A little more than the 60 s after which the API server itself gives up a request that is not a
/// watch.
pub const LIMIT: Duration = Duration::from_secs(65);

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
                if goes_on {
                    return Ok::<_, kube::Error>(answer);
                }
                let (parts, body) = answer.into_parts();
                let body = Body::from(body.collect().await?.to_bytes());
                Ok(Response::from_parts(parts, body))
            };
            let unanswered = |_| kube::Error::Service(Box::new(Unanswered));
            tokio::time::timeout(LIMIT, answer).await.map_err(unanswered)?
        }
    };
    Client::new(tower::service_fn(send), namespace)
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
