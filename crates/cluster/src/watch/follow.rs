//! Watches with a back-off after every failure, and logged errors.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as start};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::failure::{error_reason, has_code, words_of};

/// The events of a watch, including errors that are retried.
pub type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// The first and the longest pause after a failure, plus up to as much of jitter. Short
/// enough to notice an installed definition or a granted permission soon.
const PAUSES: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(5));

/// Within this time, only one expired revision is no error.
const EXPIRES_ONCE: Duration = Duration::from_secs(5);

/// Watches the objects of `api`. Retries follow with increasing delays, up to ten seconds.
///
/// `Init` is reported only with the first page of a listing, since it means that the
/// server responds. To get the time of the request, use [`follow_listings`].
pub fn follow_objects<K>(api: Api<K>, config: watcher::Config) -> Events<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    follow_listings(api, config, || {})
}

/// The same; calls `on_listing` just before a listing is requested: objects written later may
/// be missing in it.
pub fn follow_listings<K>(
    api: Api<K>,
    config: watcher::Config,
    on_listing: impl FnMut() + Send + 'static,
) -> Events<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (first, longest) = PAUSES;
    let pauses = backon::ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(longest)
        .with_jitter()
        // Those of one process differ from each other, and are the same in each simulation.
        .with_jitter_seed(seed(&api))
        .without_max_times();
    let pauses = watcher::ExponentialBackoff::from(pauses);
    answered(listed_anew(api, config), on_listing).backoff(pauses).boxed()
}

fn seed<K: Resource>(api: &Api<K>) -> u64 {
    let mut hasher = DefaultHasher::new();
    api.resource_url().hash(&mut hasher);
    hasher.finish()
}

/// A watch that lists again at once, without an error, when the server does not know its
/// revision any more: nothing failed, and a definition that was just created again has a
/// history that begins after it. The library would pause first; and where the response
/// itself has code 410, instead of an event, it would ask for the same revision without
/// end. Revisions that expire in quick succession are errors, so that a pause follows.
fn listed_anew<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = start(api.clone(), config.clone()).boxed();
    stream::unfold((events, None::<Instant>), move |(mut events, expired)| {
        let (api, config) = (api.clone(), config.clone());
        async move {
            let mut expired = expired;
            loop {
                let event = events.next().await?;
                if !event.as_ref().is_err_and(is_expired) {
                    return Some((event, (events, expired)));
                }
                events = start(api.clone(), config.clone()).boxed();
                let last = expired.replace(Instant::now());
                if last.is_some_and(|last| last.elapsed() < EXPIRES_ONCE) {
                    return Some((event, (events, expired)));
                }
            }
        }
    })
}

/// Whether the server does not know the revision any more, of a watch or of the pages of
/// a listing.
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => has_code(error, 410),
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::NoResourceVersion => false,
    }
}

/// Delays `Init` until the listing has returned objects. The library reports it before
/// the request, and each event that is not an error resets the back-off: pauses would
/// never grow, and failures never add up.
fn answered<K>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    mut on_listing: impl FnMut(),
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> {
    let mut asked = false;
    events
        .flat_map(move |event| {
            let begins = match &event {
                Ok(Event::Init) => {
                    asked = true;
                    on_listing();
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

/// Logs that a watch of `what` fails, once per reason until it succeeds.
pub fn with_log<K: 'static>(events: Events<K>, what: String) -> Events<K> {
    with_log_except(events, what, |_| false)
}

/// The same, without the errors that `is_quiet` holds for.
pub fn with_log_except<K: 'static>(
    events: Events<K>,
    what: String,
    is_quiet: impl Fn(&watcher::Error) -> bool + Send + 'static,
) -> Events<K> {
    let mut logged = None;
    let log = move |event: &Result<Event<K>, watcher::Error>| {
        if event.as_ref().is_err_and(&is_quiet) {
            return;
        }
        if let Some(message) = message(&mut logged, event.as_ref().err()) {
            tracing::warn!("cannot watch {what}, retrying: {message}");
        }
    };
    events.inspect(log).boxed()
}

/// The message to log, given the last one. An expired watch is not an error: quiet
/// watches end this way.
fn message(logged: &mut Option<String>, error: Option<&watcher::Error>) -> Option<String> {
    let Some(error) = error else {
        *logged = None;
        return None;
    };
    if is_expired(error) {
        return None;
    }
    let hint = match error {
        watcher::Error::InitialListFailed(error) if has_code(error, 404) => {
            "; is its CustomResourceDefinition installed? (wavegate crds)"
        }
        _ => "",
    };
    let text = format!("{}{hint}", watch_error(error));
    let new = logged.as_ref() != Some(&text);
    new.then(|| logged.insert(text).clone())
}

/// The error message, from the server if it responded.
pub fn watch_error(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error_reason(error),
        watcher::Error::WatchError(status) => words_of(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PostParams;

    use super::*;
    use kube_sim::{Effect, InjectedFault, Server};

    /// Names of the events within a time, and the times of errors.
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
    async fn a_rejected_listing_is_retried_with_increasing_delays() {
        let server = Server::new();
        let api: Api<ConfigMap> = Api::namespaced(server.client_as("test"), "default");
        let map = ConfigMap {
            metadata: kube::core::ObjectMeta { name: Some("a".into()), ..Default::default() },
            ..Default::default()
        };
        api.create(&PostParams::default(), &map).await.unwrap();
        let refuse = |request: &kube_sim::RequestRecord| request.verb == "list";
        server.inject(InjectedFault::new(Effect::Status(403), refuse).times(usize::MAX));
        let mut events = follow_objects(api, watcher::Config::default());
        let (names, errors) = within(&mut events, Duration::from_secs(600)).await;
        assert_eq!(names, Vec::<String>::new(), "no Init for a failed listing");
        let pauses: Vec<u64> = errors.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[8..].iter().all(|pause| (4..=11).contains(pause)), "{errors:?}");
        server.clear_faults();
        let (names, errors) = within(&mut events, Duration::from_secs(60)).await;
        assert_eq!(names, ["Init", "InitApply(a)", "InitDone"]);
        assert_eq!(errors, Vec::<u64>::new());
        assert!(events.next().now_or_never().is_none());
    }

    /// Also when the response itself is 410: the library would ask for the same revision
    /// without end.
    #[tokio::test(start_paused = true)]
    async fn an_expired_revision_is_listed_anew_at_once() {
        let server = Server::new();
        let api: Api<ConfigMap> = Api::namespaced(server.client_as("test"), "default");
        let watching = |request: &kube_sim::RequestRecord| request.verb == "watch";
        server.inject(InjectedFault::new(Effect::Status(410), watching).times(1));
        let mut events = follow_objects(api.clone(), watcher::Config::default());
        let (names, errors) = within(&mut events, Duration::from_millis(700)).await;
        assert_eq!(
            (names.as_slice(), errors.len()),
            (&[String::from("Init"), "InitDone".into(), "Init".into(), "InitDone".into()][..], 0)
        );

        // In quick succession, it is an error with a pause.
        server.inject(InjectedFault::new(Effect::Status(410), watching).times(usize::MAX));
        server.drop_watches();
        let before = server.requests().len();
        let (_, errors) = within(&mut events, Duration::from_secs(60)).await;
        assert!(errors.len() > 3, "{errors:?}");
        let requests = server.requests().len() - before;
        assert!(requests < 200, "{requests} requests in a minute");
    }

    #[test]
    fn each_reason_is_logged_once_until_it_succeeds() {
        let refused = |code: u16, message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
        };
        let old = kube::core::Status::failure("too old resource version", "Expired").with_code(410);
        let old = watcher::Error::WatchError(old.boxed());
        let missing = "no such kind; is its CustomResourceDefinition installed? (wavegate crds)";
        let mut logged = None;
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
            assert_eq!(message(&mut logged, error).as_deref(), want, "{error:?}");
        }
    }
}
