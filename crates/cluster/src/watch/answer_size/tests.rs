//! Servers that answer without end, through the client that limits their answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchParams};
use kube::{Api, Client};

use super::*;
use crate::watch::failure::error_reason;
use crate::watch::time_limit;

const MIB: usize = 1 << 20;
/// What a server sends at once.
const PART: usize = MIB / 4;

/// What all servers have sent of the answers that somebody still waits for.
#[derive(Debug, Default)]
struct Sent {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// What one server has sent of an answer.
struct Sending(Arc<Sent>, usize);

impl Sending {
    fn send(&mut self, bytes: usize) {
        self.1 += bytes;
        let now = self.0.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.0.most.fetch_max(now, Ordering::SeqCst);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.now.fetch_sub(self.1, Ordering::SeqCst);
    }
}

/// A server whose answers begin with a text, go on with so many bytes of blanks, and end with
/// another one; without it they never end, and nothing more comes.
fn client(begin: String, bytes: usize, end: Option<&str>, sent: &Arc<Sent>) -> Client {
    let (end, sent) = (end.map(str::to_owned), Arc::clone(sent));
    let answer = move |_: Request<Body>| {
        let mut sending = Sending(Arc::clone(&sent), 0);
        let parts = (0..bytes / PART).map(|_| Bytes::from_static(&[b' '; PART]));
        let begin = std::iter::once(Bytes::from(begin.clone()));
        let all = begin.chain(parts).chain(end.clone().map(Bytes::from));
        let all = stream::iter(all.collect::<Vec<_>>());
        let all = all.then(async |part| {
            // As from a connection: the others have their turn.
            tokio::task::yield_now().await;
            part
        });
        let all = all.map(move |part| {
            sending.send(part.len());
            Ok::<_, tower::BoxError>(Frame::data(part))
        });
        let body = match end {
            Some(_) => StreamBody::new(all).boxed_unsync(),
            None => StreamBody::new(all.chain(stream::pending())).boxed_unsync(),
        };
        std::future::ready(Ok::<_, tower::BoxError>(Response::new(body)))
    };
    Client::new(tower::service_fn(answer), "default")
}

fn limited(client: Client, limits: &AnswerLimits) -> Api<ConfigMap> {
    Api::all(time_limit::within(client, limits.clone()))
}

const LIST: &str = r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":["#;
const EVENT: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_refused() {
    let limits = AnswerLimits::new(2 * MIB, 2 * MIB, 1_000);
    let sent = Arc::<Sent>::default();
    let read = async |bytes, end| {
        let maps = limited(client(LIST.to_owned(), bytes, end, &sent), &limits);
        maps.list(&ListParams::default()).await
    };
    assert_eq!(read(MIB, Some("]}")).await.unwrap().items.len(), 0);
    let error = read(1024 * MIB, Some("]}")).await.unwrap_err();
    assert_eq!(error_reason(&error), "its answer has more than 2 MiB");
    let error = read(MIB, None).await.unwrap_err();
    assert_eq!(error_reason(&error), "no answer within 65 s");
    let most = sent.most.load(Ordering::SeqCst);
    assert!(most <= 2 * MIB + 2 * PART, "{most} bytes were read");
}

#[tokio::test]
async fn a_list_with_too_many_entries_is_refused_before_it_is_decoded() {
    let limits = AnswerLimits::new(2 * MIB, 2 * MIB, 1_000);
    let read = async |begin: String| {
        let maps = limited(client(begin, 0, Some(""), &Arc::default()), &limits);
        maps.list(&ListParams::default()).await
    };
    let list = |count: usize| format!("{LIST}{}]}}", vec!["{}"; count].join(","));
    assert_eq!(read(list(1_000)).await.unwrap().items.len(), 1_000);
    let error = read(list(1_001)).await.unwrap_err();
    assert_eq!(error_reason(&error), "its answer has more than 1000 entries");
    // Before the error of what comes after them, also when the keys are written otherwise.
    let escaped = list(100_000).replace("items", r"\u0069tems").replace("]}", "");
    let error = read(escaped).await.unwrap_err();
    assert_eq!(error_reason(&error), "its answer has more than 1000 entries");
    // Nor are two lists with the same key.
    let twice = format!("{}{}", list(600).replace("]}", "],"), &list(600)[1..]);
    let error = read(twice).await.unwrap_err();
    assert_eq!(error_reason(&error), "its answer has more than 1000 entries");
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_watch_without_end_is_refused() {
    let limits = AnswerLimits::new(2 * MIB, 2 * MIB, 1_000).sharing(MIB, MIB, MIB, PART);
    let sent = Arc::<Sent>::default();
    let watch = async |begin: String, bytes, end| {
        let maps = limited(client(begin, bytes, end, &sent), &limits);
        let events = maps.watch(&WatchParams::default(), "0").await.unwrap();
        events.collect::<Vec<_>>().await
    };
    let event = format!("{EVENT}\n");
    let events = watch(event.repeat(100_000), 0, Some(&event)).await;
    assert_eq!(events.iter().filter(|event| event.is_ok()).count(), 100_001);
    let events = watch(event.clone(), MIB, Some(&event)).await;
    assert_eq!(events.iter().filter(|event| event.is_ok()).count(), 2);
    let reasons = |events: Vec<Result<_, kube::Error>>| {
        let errors = events.into_iter().filter_map(Result::err);
        errors.map(|error| format!("{error:?}")).collect::<Vec<_>>().join("; ")
    };
    let errors = reasons(watch(event.clone(), 1024 * MIB, Some(&event)).await);
    assert!(errors.contains("Bytes(2097152)"), "{errors}");
    let errors = reasons(watch(event.clone(), 2 * MIB - PART, None).await);
    assert!(errors.contains("Unended"), "{errors}");
    // Nothing of the budget is kept.
    assert_eq!((limits.budget.available_permits(), limits.turn.available_permits()), (4, 1));
}

/// Forty clusters that send at the same time: what they take together is limited, those that stand
/// still in the middle of an answer do not hold it for ever, and a large list of another one comes.
#[tokio::test(start_paused = true)]
async fn what_many_clusters_send_at_the_same_time_is_limited_in_all() {
    const CLUSTERS: usize = 40;
    let one = AnswerLimits::new(16 * MIB, 16 * MIB, 1_000);
    for (limits, is_limited) in [(one.clone().sharing(MIB, MIB, 8 * MIB, MIB), true), (one, false)]
    {
        let sent = Arc::<Sent>::default();
        let read = |bytes, end| {
            let maps = limited(client(LIST.to_owned(), bytes, end, &sent), &limits);
            async move { maps.list(&ListParams::default()).await.map(|list| list.items.len()) }
        };
        let hostile = (0..CLUSTERS).map(|number| match number % 2 {
            0 => read(1024 * MIB, Some("]}")),
            _ => read(4 * MIB, None),
        });
        let hostile = futures::future::join_all(hostile);
        let repeated = async {
            // As a watch begins again after an error.
            loop {
                if let Ok(found) = read(6 * MIB, Some("]}")).await {
                    return found;
                }
            }
        };
        let (ends, found) = tokio::join!(hostile, repeated);
        assert!(ends.iter().all(Result::is_err));
        assert_eq!(found, 0);
        let most = sent.most.load(Ordering::SeqCst);
        // What each has beside the budget, and one that reads on without it.
        let sum = (CLUSTERS + 1) * (MIB + PART) + 8 * MIB + 16 * MIB;
        assert_eq!(most <= sum + PART, is_limited, "{} MiB", most / MIB);
        assert_eq!(sent.now.load(Ordering::SeqCst), 0);
    }
}
