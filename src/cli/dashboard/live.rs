//! The objects that the page reports on, as their watches say, and what was made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::commits::KnownCommits;
use super::documents;
use super::permissions::KnownPermissions;
use crate::cli::cluster::ClusterConnection;
use crate::cli::explain::Explanation;
use crate::cli::rollout_view::events::{self, WatchEvent, WatchScope, Watched};
use crate::cli::runs::ReportedSet;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::watch::control_plane::set_owner;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_dashboard::reports::{KnownState, RolloutDocument};
use wavegate_rollout::application_set::is_owned;
use wavegate_rollout::requests::{Run, current_run, number_of};

/// An operation that has just begun is advised about after this time (`explain`): what was made
/// before is made again.
const SETTLED: Duration = Duration::from_secs(11);
/// Buffered events of all scopes.
const EVENTS: usize = 256;
/// What changes within this time is one change for the page.
const TOGETHER: Duration = Duration::from_millis(50);

/// The fleet of one person.
pub(in crate::cli) struct LiveCluster {
    pub connection: Arc<ClusterConnection>,
    pub place: String,
    pub context: Option<String>,
    /// What was found below the workloads of a set.
    pub(super) looked: Mutex<BTreeMap<ObjectKey, LookedBelow>>,
    /// The words of commits.
    pub(super) commits: Arc<KnownCommits>,
    pub(super) permissions: KnownPermissions,
    objects: Mutex<Objects>,
    pub(super) state: watch::Sender<KnownState>,
}

/// What is followed for one person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct LiveScope {
    /// `None` for all namespaces.
    pub namespace: Option<String>,
    /// The person may list Applications there; they are asked for in any case.
    pub applications: bool,
    pub runs: bool,
    pub policies: bool,
}

impl LiveScope {
    /// In words.
    pub fn words(&self) -> &str {
        self.namespace.as_deref().unwrap_or("all namespaces")
    }
}

/// What is known, and what was made of it.
#[derive(Default)]
struct Objects {
    scopes: Vec<LiveScope>,
    sets: BTreeMap<ObjectKey, StoredObject>,
    applications: BTreeMap<ObjectKey, StoredObject>,
    runs: BTreeMap<ObjectKey, StoredObject>,
    policies: BTreeMap<ObjectKey, StoredObject>,
    /// The Applications and the runs of each set, by name.
    owned: BTreeMap<ObjectKey, BTreeSet<(Watched, String)>>,
    /// How often what a set is reported by has changed.
    versions: BTreeMap<ObjectKey, u64>,
    made: BTreeMap<ObjectKey, (u64, Arc<MadeReport>)>,
    /// With the number of the scope.
    listed: BTreeSet<(usize, Watched)>,
    lost: BTreeMap<(usize, Watched), String>,
}

/// The waits of a set down to the Pod, as they were last read.
#[derive(Clone)]
pub(super) struct LookedBelow {
    /// What they are about.
    pub about: Vec<String>,
    pub at: Instant,
    pub document: Arc<RolloutDocument>,
}

/// What was made of a set.
pub(super) struct MadeReport {
    pub document: Arc<RolloutDocument>,
    pub explanation: Explanation,
    pub applications: BTreeMap<String, Arc<Value>>,
}

impl LiveCluster {
    /// Follows a cluster, or a namespace of it, until stopped.
    pub fn follow(
        connection: ClusterConnection,
        namespace: Option<String>,
        place: String,
        context: Option<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let scope = LiveScope { namespace, applications: true, runs: true, policies: true };
        Self::follow_scopes(connection, vec![scope], place, context, stop)
    }

    /// Nothing, with the reason.
    pub fn of_nothing(connection: ClusterConnection, place: String, why: String) -> Arc<Self> {
        let live = Self::with(connection, Vec::new(), place, None);
        let known = KnownState { revision: 1, is_listed: true, problems: vec![why] };
        live.state.send_replace(known);
        Arc::new(live)
    }

    fn with(
        connection: ClusterConnection,
        scopes: Vec<LiveScope>,
        place: String,
        context: Option<String>,
    ) -> Self {
        Self {
            connection: Arc::new(connection),
            place,
            context,
            looked: Mutex::default(),
            commits: Arc::default(),
            permissions: KnownPermissions::default(),
            objects: Mutex::new(Objects { scopes, ..Objects::default() }),
            state: watch::Sender::new(KnownState::default()),
        }
    }

    /// Follows some namespaces of a cluster until stopped.
    pub fn follow_scopes(
        connection: ClusterConnection,
        scopes: Vec<LiveScope>,
        place: String,
        context: Option<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let mut events = watch_all(connection.client(), &scopes, stop);
        let live = Arc::new(Self::with(connection, scopes, place, context));
        let (following, stop) = (Arc::clone(&live), stop.clone());
        tokio::spawn(async move {
            let mut settles: Option<Instant> = None;
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.recv() => event,
                    () = sleep_until(settles) => {
                        settles = None;
                        following.settle();
                        continue;
                    }
                };
                let Some(event) = event else { return };
                // What follows at once belongs to it, and is known with it.
                let mut together = vec![event];
                let until = Instant::now() + TOGETHER;
                while let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await {
                    together.push(event);
                }
                {
                    let mut objects = following.objects.lock();
                    together.into_iter().for_each(|(scope, event)| objects.take(scope, event));
                }
                following.publish();
                settles = Some(Instant::now() + SETTLED);
            }
        });
        live
    }

    /// How current what is known is.
    pub fn state(&self) -> watch::Receiver<KnownState> {
        self.state.subscribe()
    }

    /// The sets, in the order of namespace and name.
    pub fn sets(&self) -> Vec<ObjectKey> {
        self.objects.lock().sets.keys().cloned().collect()
    }

    /// An Application.
    pub fn application(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.objects.lock().applications.get(key).map(|object| Arc::new(object.parse()))
    }

    /// A set.
    pub fn set(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.objects.lock().sets.get(key).map(|object| Arc::new(object.parse()))
    }

    /// All policies.
    pub fn policies(&self) -> Vec<Arc<Value>> {
        self.objects.lock().policies.values().map(|object| Arc::new(object.parse())).collect()
    }

    /// The runs of a set, the newest first.
    pub fn runs(&self, key: &ObjectKey) -> Vec<Arc<Value>> {
        self.objects.lock().runs_of(key)
    }

    /// A set with all that is reported by it, and its current run.
    pub fn reported(&self, key: &ObjectKey) -> Option<(ReportedSet, Option<Arc<Value>>)> {
        let (set, owned, runs, policies) = {
            let objects = self.objects.lock();
            let set = objects.sets.get(key)?.clone();
            let policies = objects.policies.values().filter(|one| one.namespace() == key.namespace);
            let policies: Vec<StoredObject> = policies.cloned().collect();
            (set, objects.applications_of(key), objects.runs_of(key), policies)
        };
        let set = Arc::new(set.parse());
        let named = |object: StoredObject| (object.name().to_owned(), Arc::new(object.parse()));
        let run = current_run(&runs, &set).cloned();
        let found = ReportedSet {
            applications: owned.into_iter().map(named).collect(),
            run: run.as_ref().map(|run| Run::read(run)),
            policies: policies.iter().map(|policy| Arc::new(policy.parse())).collect(),
            set,
        };
        Some((found, run))
    }

    /// What is reported of a set; made anew only after a change.
    pub(super) fn report(&self, key: &ObjectKey, now: Timestamp) -> Option<Arc<MadeReport>> {
        let version = {
            let objects = self.objects.lock();
            let version = objects.versions.get(key).copied().unwrap_or_default();
            if let Some((of, made)) = objects.made.get(key)
                && *of == version
            {
                return Some(Arc::clone(made));
            }
            version
        };
        let (found, run) = self.reported(key)?;
        let (document, explanation) = documents::rollout(&found, run.as_ref(), now);
        // Only what is waited for is looked at below.
        let is_waited_for =
            |name: &str| explanation.waits.iter().any(|wait| wait.application == name);
        let mut applications = found.applications;
        applications.retain(|name, _| is_waited_for(name));
        let made = Arc::new(MadeReport { document: Arc::new(document), explanation, applications });
        self.objects.lock().made.insert(key.clone(), (version, Arc::clone(&made)));
        Some(made)
    }

    /// Makes reports again that depend on the time, once nothing has changed for a while.
    fn settle(&self) {
        let mut objects = self.objects.lock();
        let is_over = |made: &MadeReport| made.explanation.waits.is_empty();
        let before = objects.made.len();
        objects.made.retain(|_, (_, made)| is_over(made));
        if objects.made.len() < before {
            drop(objects);
            self.publish();
        }
    }

    fn publish(&self) {
        let objects = self.objects.lock();
        let is_listed = (0..objects.scopes.len()).all(|scope| {
            Watched::ALL.iter().all(|watched| objects.listed.contains(&(scope, *watched)))
        });
        let problem = |((scope, watched), why): (&(usize, Watched), &String)| {
            let place = match objects.scopes.as_slice() {
                [_] => String::new(),
                all => format!(" of {}", all[*scope].words()),
            };
            format!("{}s{place} cannot be read, and may be older than shown: {why}", watched.kind())
        };
        let problems: Vec<String> = objects.lost.iter().map(problem).collect();
        drop(objects);
        self.state.send_modify(|state| {
            *state = KnownState { revision: state.revision + 1, is_listed, problems };
        });
    }
}

/// The events of all scopes, each with the number of its scope.
fn watch_all(
    client: &Client,
    scopes: &[LiveScope],
    stop: &CancellationToken,
) -> mpsc::Receiver<(usize, WatchEvent)> {
    let (sender, receiver) = mpsc::channel(EVENTS);
    for (index, scope) in scopes.iter().enumerate() {
        let LiveScope { namespace, runs, policies, .. } = scope.clone();
        let scope = WatchScope { namespace, set: None, runs, policies, ends_on_refusal: false };
        let mut events = events::watch(client, &scope, stop);
        let sender = sender.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if sender.send((index, event)).await.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Objects {
    fn take(&mut self, scope: usize, event: WatchEvent) {
        match event {
            WatchEvent::Changed(watched, object) => self.change(watched, &object, true),
            WatchEvent::Gone(watched, object) => self.change(watched, &object, false),
            WatchEvent::Listed(watched) => {
                self.lost.remove(&(scope, watched));
                self.listed.insert((scope, watched));
            }
            WatchEvent::Lost(watched, why) | WatchEvent::Refused(watched, why) => {
                self.lost.insert((scope, watched), why);
            }
        }
    }

    fn change(&mut self, watched: Watched, object: &StoredObject, exists: bool) {
        let key = object.key();
        let all = match watched {
            Watched::Sets => &mut self.sets,
            Watched::Applications => &mut self.applications,
            Watched::Runs => &mut self.runs,
            Watched::Policies => &mut self.policies,
        };
        let before = match exists {
            true => all.insert(key.clone(), object.clone()),
            false => all.remove(&key),
        };
        match watched {
            Watched::Sets => {
                if !exists {
                    self.made.remove(&key);
                }
                self.touch(&key);
            }
            Watched::Policies => {
                let of_namespace = |set: &&ObjectKey| set.namespace == key.namespace;
                let sets: Vec<ObjectKey> = self.sets.keys().filter(of_namespace).cloned().collect();
                sets.iter().for_each(|set| self.touch(set));
            }
            Watched::Applications | Watched::Runs => {
                let name = (watched, key.name.clone());
                let owner = |object: &StoredObject| {
                    set_owner(object).map(|owner| ObjectKey::new(object.namespace(), &owner.name))
                };
                if let Some(set) = before.as_ref().and_then(owner) {
                    if let Some(owned) = self.owned.get_mut(&set) {
                        owned.remove(&name);
                    }
                    self.touch(&set);
                }
                if let Some(set) = Some(object).filter(|_| exists).and_then(owner) {
                    self.owned.entry(set.clone()).or_default().insert(name);
                    self.touch(&set);
                }
            }
        }
    }

    fn touch(&mut self, set: &ObjectKey) {
        *self.versions.entry(set.clone()).or_default() += 1;
    }

    fn applications_of(&self, set: &ObjectKey) -> Vec<StoredObject> {
        let found = |(watched, name): &(Watched, String)| match watched {
            Watched::Applications => self.applications.get(&ObjectKey::new(&set.namespace, name)),
            _ => None,
        };
        self.owned.get(set).into_iter().flatten().filter_map(found).cloned().collect()
    }

    fn runs_of(&self, key: &ObjectKey) -> Vec<Arc<Value>> {
        let Some(set) = self.sets.get(key).map(StoredObject::parse) else { return Vec::new() };
        let found = |(watched, name): &(Watched, String)| match watched {
            Watched::Runs => self.runs.get(&ObjectKey::new(&key.namespace, name)),
            _ => None,
        };
        let runs = self.owned.get(key).into_iter().flatten().filter_map(found);
        let mut runs: Vec<Arc<Value>> = runs.map(|run| Arc::new(run.parse())).collect();
        runs.retain(|run| is_owned(run, &set));
        runs.sort_by_key(|run| std::cmp::Reverse(number_of(run.name())));
        runs
    }
}
