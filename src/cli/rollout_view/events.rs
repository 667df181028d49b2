//! Watches ApplicationSets and Applications of an API server, and their runs where there are any.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cli::runs::label_of;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_api::{Application, ApplicationSet, ObjectKey};
use wavegate_cluster::watch::failure::has_code;
use wavegate_cluster::watch::follow::watch_error;
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};

/// Buffered events between the watches and their reader.
const EVENTS: usize = 1024;
/// The first and the longest pause after a lost connection.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// A watch that has lasted this long was permitted.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// A watch says nothing while nothing changes. When it has said nothing for so long, the server
/// is asked something else, and has to answer in time: a connection that was cut by a sleeping
/// laptop or a lost VPN looks like one without changes.
const SILENT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

/// One of the watched kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Watched {
    Sets,
    Applications,
    /// Runs, which nothing needs: they may not exist, or not be for this user.
    Runs,
    /// Policies; the same.
    Policies,
}

impl Watched {
    /// The kinds that are needed.
    pub const ALL: [Self; 2] = [Self::Sets, Self::Applications];

    /// The name of the kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Sets => ApplicationSet::KIND,
            Self::Applications => Application::KIND,
            Self::Runs => RUN,
            Self::Policies => POLICY,
        }
    }
}

/// An event of the watches, in the order of each kind.
#[derive(Clone, Debug)]
pub(in crate::cli) enum WatchEvent {
    /// An object was created or changed.
    Changed(Watched, StoredObject),
    /// An object was deleted.
    Gone(Watched, StoredObject),
    /// All objects of the kind were reported, and changes follow: at the start, and after
    /// a lost connection. Runs that cannot be read count as none.
    Listed(Watched),
    /// The connection was lost; it is opened again.
    Lost(Watched, String),
    /// The watch is not possible.
    Refused(Watched, String),
}

/// What is watched.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct WatchScope {
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only the set with this name.
    pub set: Option<String>,
    /// Also runs.
    pub runs: bool,
    /// Also policies.
    pub policies: bool,
    /// A request that is not permitted ends the watch; otherwise it is sent again.
    pub ends_on_refusal: bool,
}

/// Watches the kinds until cancelled, or until the receiver is dropped.
pub(in crate::cli) fn watch(
    client: &Client,
    scope: &WatchScope,
    stop: &CancellationToken,
) -> mpsc::Receiver<WatchEvent> {
    let (sender, receiver) = mpsc::channel(EVENTS);
    let runs = scope.runs.then_some(Watched::Runs);
    let policies = scope.policies.then_some(Watched::Policies);
    for watched in Watched::ALL.into_iter().chain(runs).chain(policies) {
        let api = kind_api(client, scope.namespace.as_deref(), &kind_resource(watched.kind()));
        let mut config = watcher::Config::default();
        if let (Watched::Sets, Some(name)) = (watched, &scope.set) {
            config = config.fields(&format!("metadata.name={name}"));
        }
        if let (Watched::Runs, Some(name)) = (watched, &scope.set)
            && let Some(label) = label_of(name)
        {
            config = config.labels(&label);
        }
        let (sender, stop) = (sender.clone(), stop.clone());
        let ends = scope.ends_on_refusal;
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = follow(api, config, watched, ends, &sender) => {}
            }
        });
    }
    receiver
}

/// The receiver of the events was dropped.
struct Unread;

/// Lists and watches one kind, for ever. After a lost connection all objects are listed
/// again: a watch that continues reports nothing until something changes, so that it would
/// not be known whether it works again.
async fn follow(
    api: Api<StoredObject>,
    config: watcher::Config,
    watched: Watched,
    ends_on_refusal: bool,
    sender: &mpsc::Sender<WatchEvent>,
) -> Result<(), Unread> {
    let send = async |event| match (watched, event) {
        // Their loss is not told: that of the others is.
        (Watched::Runs | Watched::Policies, WatchEvent::Lost(..)) => Ok(()),
        (_, event) => sender.send(event).await.map_err(|_| Unread),
    };
    let mut known: BTreeMap<ObjectKey, StoredObject> = BTreeMap::new();
    let mut pause = PAUSES.0;
    let mut is_established = false;
    loop {
        let mut events = watcher(api.clone(), config.clone()).into_stream().boxed();
        let mut listing = BTreeMap::new();
        let mut listed_at: Option<Instant> = None;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = unanswered(api.clone().into_client()) => {
                    let why = format!("no answer of the API server within {} s", ANSWER.as_secs());
                    send(WatchEvent::Lost(watched, why)).await?;
                    break;
                }
            };
            let Some(event) = event else { break };
            is_established |= listed_at.is_some_and(|at| at.elapsed() > ESTABLISHED);
            match event {
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => {
                    let key = object.key();
                    let is_new = known.get(&key).is_none_or(|known| {
                        known.resource_version() != object.resource_version()
                            || known.uid() != object.uid()
                    });
                    listing.insert(key, object.clone());
                    if is_new {
                        send(WatchEvent::Changed(watched, object)).await?;
                    }
                }
                Ok(Event::InitDone) => {
                    let before = std::mem::replace(&mut known, std::mem::take(&mut listing));
                    for (key, object) in before {
                        if !known.contains_key(&key) {
                            send(WatchEvent::Gone(watched, object)).await?;
                        }
                    }
                    (listed_at, pause) = (Some(Instant::now()), PAUSES.0);
                    send(WatchEvent::Listed(watched)).await?;
                }
                Ok(Event::Apply(object)) => {
                    known.insert(object.key(), object.clone());
                    send(WatchEvent::Changed(watched, object)).await?;
                }
                Ok(Event::Delete(object)) => {
                    known.remove(&object.key());
                    send(WatchEvent::Gone(watched, object)).await?;
                }
                // The watcher lists again by itself: quiet watches end this way.
                Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
                Err(error) if ends_on_refusal && !is_established && is_refusal(&error) => {
                    return match Watched::ALL.contains(&watched) {
                        true => send(WatchEvent::Refused(watched, watch_error(&error))).await,
                        false => send(WatchEvent::Listed(watched)).await,
                    };
                }
                Err(error) => {
                    send(WatchEvent::Lost(watched, watch_error(&error))).await?;
                    break;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Completes when the server has not answered in time. Any answer counts, also a refusal; that
/// a connection is refused is noticed by the watch itself.
async fn unanswered(client: Client) {
    loop {
        tokio::time::sleep(SILENT).await;
        if tokio::time::timeout(ANSWER, client.apiserver_version()).await.is_err() {
            return;
        }
    }
}

/// Whether the server does not permit or not know the request.
fn is_refusal(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            has_code(error, 403) || has_code(error, 404)
        }
        watcher::Error::WatchError(status) => status.code == 403,
        watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => false,
    }
}
