//! Watches that do not wear out a server that refuses, and say why they wait.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as start};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::failure::{has_code, reason, words_of};

/// What a watch brings, errors that are tried again included.
pub type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// The first pause after a failure, and the longest; up to as much again is
/// added by chance. Short enough for a definition that is installed, or a right
/// that is granted, to be noticed soon.
const PAUSES: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(5));

/// Watches what `api` reaches. Attempts that follow a failure come later and
/// later, up to ten seconds apart.
///
/// The beginning of a listing is told only once its first page is there: it
/// means that the server answers. Whoever has to know when it was asked for
/// uses [`follow_asking`].
pub fn follow<K>(api: Api<K>, config: watcher::Config) -> Events<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    follow_asking(api, config, || {})
}

/// The same, and calls `asks` just before the server is asked for a listing:
/// what is written from then on may be missing in it.
pub fn follow_asking<K>(
    api: Api<K>,
    config: watcher::Config,
    asks: impl FnMut() + Send + 'static,
) -> Events<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (first, longest) = PAUSES;
    let pauses = backon::ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times();
    let pauses = watcher::ExponentialBackoff::from(pauses);
    answered(start(api, config), asks).backoff(pauses).boxed()
}

/// Holds `Init` back until the listing has brought something. The library tells
/// it before it asks the server, and every event that is no error counts as a
/// success: pauses would never grow, and failures never add up.
fn answered<K>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    mut asks: impl FnMut(),
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> {
    let mut asked = false;
    events
        .flat_map(move |event| {
            let begins = match &event {
                Ok(Event::Init) => {
                    asked = true;
                    asks();
                    return stream::iter([None, None]);
                }
                Ok(_) => std::mem::take(&mut asked),
                Err(_) => {
                    asked = false;
                    false
                }
            };
            stream::iter([begins.then_some(Ok(Event::Init)), Some(event)])
        })
        .filter_map(std::future::ready)
}

/// Tells in the log that a watch of `what` fails, once for each reason until it
/// works again: until then nothing is decided, and nobody should have to guess
/// why.
pub fn told<K: 'static>(events: Events<K>, what: String) -> Events<K> {
    let mut told = None;
    let tell = move |event: &Result<Event<K>, watcher::Error>| {
        if let Some(news) = news(&mut told, event.as_ref().err()) {
            tracing::warn!("cannot watch {what}, trying again: {news}");
        }
    };
    events.inspect(tell).boxed()
}

/// What is worth a line, given what was told last. A watch that has become too
/// old to go on is none: that is how quiet watches end.
fn news(told: &mut Option<String>, error: Option<&watcher::Error>) -> Option<String> {
    let Some(error) = error else {
        *told = None;
        return None;
    };
    if matches!(error, watcher::Error::WatchError(status) if status.code == 410) {
        return None;
    }
    let hint = match error {
        watcher::Error::InitialListFailed(error) if has_code(error, 404) => {
            "; is its CustomResourceDefinition installed? (wavegate crds)"
        }
        _ => "",
    };
    let text = format!("{}{hint}", words(error));
    let new = told.as_ref() != Some(&text);
    new.then(|| told.insert(text).clone())
}

/// What went wrong, in the server's words where it answered.
pub fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => reason(error),
        watcher::Error::WatchError(status) => words_of(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PostParams;
    use tokio::time::Instant;

    use super::*;
    use crate::embedded::{Effect, Fault, Server};

    /// Names of the events that come within a time, and when the errors came.
    async fn within(events: &mut Events<ConfigMap>, limit: Duration) -> (Vec<String>, Vec<u64>) {
        let began = Instant::now();
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        while let Ok(Some(event)) = tokio::time::timeout_at(began + limit, events.next()).await {
            match event {
                Ok(event) => names.push(event.to_string()),
                Err(_) => errors.push(began.elapsed().as_secs()),
            }
        }
        (names, errors)
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_that_is_refused_is_asked_for_less_and_less_and_ends_well() {
        let server = Server::new();
        let api: Api<ConfigMap> = Api::namespaced(server.client_as("test"), "default");
        let map = ConfigMap {
            metadata: kube::core::ObjectMeta { name: Some("a".into()), ..Default::default() },
            ..Default::default()
        };
        api.create(&PostParams::default(), &map).await.unwrap();
        let refuse = |request: &crate::embedded::RequestRecord| request.verb == "list";
        server.inject(Fault::new(Effect::Status(403), refuse).times(usize::MAX));
        let mut events = follow(api, watcher::Config::default());
        let (names, errors) = within(&mut events, Duration::from_secs(600)).await;
        assert_eq!(names, Vec::<String>::new(), "a listing that fails never began");
        let pauses: Vec<u64> = errors.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[8..].iter().all(|pause| (4..=11).contains(pause)), "{errors:?}");
        server.clear_faults();
        let (names, errors) = within(&mut events, Duration::from_secs(60)).await;
        assert_eq!(names, ["Init", "InitApply(a)", "InitDone"]);
        assert_eq!(errors, Vec::<u64>::new());
        assert!(events.next().now_or_never().is_none());
    }

    #[test]
    fn each_reason_is_told_once_until_it_works_again() {
        let refused = |code: u16, message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
        };
        let old = kube::core::Status::failure("too old resource version", "Expired").with_code(410);
        let old = watcher::Error::WatchError(old.boxed());
        let missing = "no such kind; is its CustomResourceDefinition installed? (wavegate crds)";
        let mut told = None;
        for (error, want) in [
            (None, None),
            (Some(&old), None),
            (Some(&refused(403, "forbidden")), Some("forbidden")),
            (Some(&refused(403, "forbidden")), None),
            (Some(&refused(404, "no such kind")), Some(missing)),
            (Some(&refused(404, "no such kind")), None),
            (None, None),
            (Some(&refused(404, "no such kind")), Some(missing)),
        ] {
            assert_eq!(news(&mut told, error).as_deref(), want, "{error:?}");
        }
    }
}
