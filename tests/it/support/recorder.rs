//! Records every version of every object of some kinds from watches.
//!
//! A watch that ends is resumed from the last version. If that is not possible, a version
//! may be missing, which the record contains, and checks of it fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use wavegate_rollout::application_set::rollout_io::rollout_storage::with_rollout;

/// A kind that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ApplicationSet,
    Application,
    AppProject,
    Event,
    Job,
    Deployment,
    ConfigMap,
    Service,
}

/// Kinds of the control plane's namespace, and kinds of the target namespace.
const CONTROL_PLANE: [Kind; 4] =
    [Kind::ApplicationSet, Kind::Application, Kind::AppProject, Kind::Event];
const TARGET: [Kind; 4] = [Kind::Job, Kind::Deployment, Kind::ConfigMap, Kind::Service];

impl Kind {
    /// The path of the collection in a namespace.
    pub fn path(self, namespace: &str) -> String {
        let (group, plural) = match self {
            Self::ApplicationSet => ("/apis/argoproj.io/v1alpha1", "applicationsets"),
            Self::Application => ("/apis/argoproj.io/v1alpha1", "applications"),
            Self::AppProject => ("/apis/argoproj.io/v1alpha1", "appprojects"),
            Self::Event => ("/apis/events.k8s.io/v1", "events"),
            Self::Job => ("/apis/batch/v1", "jobs"),
            Self::Deployment => ("/apis/apps/v1", "deployments"),
            Self::ConfigMap => ("/api/v1", "configmaps"),
            Self::Service => ("/api/v1", "services"),
        };
        format!("{group}/namespaces/{namespace}/{plural}")
    }
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Record {
    pub kind: Kind,
    pub change: Change,
    pub object: Arc<Value>,
    /// Time of the event.
    pub seen: Instant,
}

impl Record {
    /// The name of the object; of an Application without the world's suffix.
    pub fn name(&self) -> &str {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        match self.kind {
            Kind::Application => without_tag(name),
            _ => name,
        }
    }

    /// The version; it orders the writes of all kinds of one server.
    pub fn version(&self) -> u64 {
        version(&self.object)
    }
}

/// The name of an Application without the suffix that
/// [`World::tagged`](super::World::tagged) appends.
pub fn without_tag(name: &str) -> &str {
    name.rsplit_once("--").map_or(name, |(name, _)| name)
}

/// The resource version of an object as a number, which it is on both servers.
pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The record so far.
#[derive(Debug, Default)]
pub struct Log {
    /// All versions, in the order of each kind's watch.
    pub records: Vec<Record>,
    live: BTreeMap<(Kind, String), Arc<Value>>,
    /// Why the record may be incomplete.
    pub broken: Option<String>,
}

impl Log {
    /// The last version of an object; `None` when it does not exist.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Value>> {
        self.live.get(&(kind, name.to_owned()))
    }

    /// All existing objects of a kind, by name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&str, &Arc<Value>)> {
        self.live
            .iter()
            .filter(move |((of, _), _)| *of == kind)
            .map(|((_, name), object)| (name.as_str(), object))
    }

    /// The records of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.kind == kind)
    }

    /// Adds a version.
    pub fn add(&mut self, kind: Kind, change: Change, object: Value) {
        // Under Argo CD's definitions the summary of a rollout is stored in a condition.
        let object = Arc::new(with_rollout(&object).into_owned());
        let record = Record { kind, change, object: Arc::clone(&object), seen: Instant::now() };
        let key = (kind, record.name().to_owned());
        match change {
            Change::Added | Change::Modified => self.live.insert(key, object),
            Change::Deleted => self.live.remove(&key),
        };
        self.records.push(record);
    }

    /// The current state, for a message.
    pub fn state(&self) -> String {
        let mut text = String::new();
        for (name, set) in self.all(Kind::ApplicationSet) {
            let status = &set["status"];
            let _ = writeln!(text, "ApplicationSet {name}: rollout {}", status["rollout"]);
            for condition in status["conditions"].as_array().into_iter().flatten() {
                let field = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                let _ = writeln!(
                    text,
                    "  {}={} {}: {}",
                    field("type"),
                    field("status"),
                    field("reason"),
                    field("message")
                );
            }
            for entry in status["applicationStatus"].as_array().into_iter().flatten() {
                let _ = writeln!(
                    text,
                    "  {} step {} {}: {}",
                    entry["application"], entry["step"], entry["status"], entry["message"]
                );
            }
        }
        for (name, application) in self.all(Kind::Application) {
            let status = &application["status"];
            let _ = writeln!(
                text,
                "Application {name}: sync {} at {} health {} operation requested {} state {} \"{}\" finalizers {} deleted {}",
                status["sync"]["status"],
                status["sync"]["revision"],
                status["health"]["status"],
                application["operation"].is_object(),
                status["operationState"]["phase"],
                status["operationState"]["message"].as_str().unwrap_or_default(),
                application["metadata"]["finalizers"],
                application["metadata"]["deletionTimestamp"],
            );
            for condition in status["conditions"].as_array().into_iter().flatten() {
                let _ = writeln!(text, "  {}: {}", condition["type"], condition["message"]);
            }
        }
        for kind in TARGET {
            let names: Vec<&str> = self.all(kind).map(|(name, _)| name).collect();
            let _ = writeln!(text, "{kind:?}: {}", names.join(", "));
        }
        let _ = write!(text, "{} records", self.records.len());
        if let Some(last) = self.records.iter().map(|record| record.seen).max() {
            let _ = write!(text, ", the last one {:.1} s ago", last.elapsed().as_secs_f64());
        }
        if let Some(broken) = &self.broken {
            let _ = write!(text, ", with a hole: {broken}");
        }
        text
    }
}

/// Records until it is dropped.
pub struct Recorder {
    log: Arc<Mutex<Log>>,
    changed: tokio::sync::watch::Receiver<()>,
    _stop: DropGuard,
}

impl Recorder {
    /// Starts recording; existing objects count as added.
    pub async fn start(client: &Client, control_plane: &str, target: &str) -> Self {
        let stop = CancellationToken::new();
        let log = Arc::new(Mutex::new(Log::default()));
        let (change, changed) = tokio::sync::watch::channel(());
        let change = Arc::new(change);
        let kinds = CONTROL_PLANE.map(|kind| (kind, kind.path(control_plane)));
        let kinds = kinds.into_iter().chain(TARGET.map(|kind| (kind, kind.path(target))));
        for (kind, path) in kinds {
            let list: Value = get(client, &path).await.unwrap();
            for item in list["items"].as_array().into_iter().flatten() {
                log.lock().add(kind, Change::Added, item.clone());
            }
            let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let watch = Watch {
                client: client.clone(),
                kind,
                path,
                version,
                log: Arc::clone(&log),
                change: Arc::clone(&change),
            };
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(watch.run()).await });
        }
        Self { log, changed, _stop: stop.drop_guard() }
    }

    /// Reads the record.
    pub fn read<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.lock())
    }

    /// Notifies of new records.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.changed.clone()
    }

    /// Waits until `condition` returns a value, at most for `limit`; the error is the
    /// state at the end.
    pub async fn until<T>(
        &self,
        limit: Duration,
        mut condition: impl FnMut(&Log) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = tokio::time::Instant::now() + limit;
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if let Some(found) = condition(&self.log.lock()) {
                return Ok(found);
            }
            if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.log.lock().state());
            }
        }
    }

    /// Waits until nothing has been recorded for `calm`.
    pub async fn until_calm(&self, calm: Duration, limit: Duration) -> Result<(), String> {
        // In parts: where everything stands still for a while, one of them is over, and not all.
        const PARTS: u32 = 50;
        let deadline = tokio::time::Instant::now() + limit;
        let mut changed = self.changed.clone();
        changed.mark_unchanged();
        let mut calm_parts = 0;
        while calm_parts < PARTS {
            match tokio::time::timeout(calm / PARTS, changed.changed()).await {
                Err(_) => calm_parts += 1,
                Ok(_) if tokio::time::Instant::now() > deadline => {
                    return Err(self.log.lock().state());
                }
                Ok(_) => calm_parts = 0,
            }
        }
        Ok(())
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await
}

struct Watch {
    client: Client,
    kind: Kind,
    path: String,
    version: String,
    log: Arc<Mutex<Log>>,
    change: Arc<tokio::sync::watch::Sender<()>>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            let path = format!(
                "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=240&resourceVersion={}",
                self.path, self.version
            );
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            match self.client.request_events::<Value>(request).await {
                Ok(events) => {
                    let mut events = std::pin::pin!(events);
                    while let Some(Ok(event)) = events.next().await {
                        if !self.take(event) {
                            break;
                        }
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 410 => self.hole(&status.message),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            if self.log.lock().broken.is_some() {
                return;
            }
        }
    }

    /// Records an event; false when the watch ends.
    fn take(&mut self, event: WatchEvent<Value>) -> bool {
        let (change, object) = match event {
            WatchEvent::Added(object) => (Change::Added, object),
            WatchEvent::Modified(object) => (Change::Modified, object),
            WatchEvent::Deleted(object) => (Change::Deleted, object),
            WatchEvent::Bookmark(bookmark) => {
                self.version = bookmark.metadata.resource_version;
                return true;
            }
            WatchEvent::Error(status) => {
                if status.code == 410 {
                    self.hole(&status.message);
                }
                return false;
            }
        };
        self.version =
            object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        self.log.lock().add(self.kind, change, object);
        self.change.send_replace(());
        true
    }

    fn hole(&self, why: &str) {
        self.log.lock().broken = Some(format!("{:?} after {}: {why}", self.kind, self.version));
        self.change.send_replace(());
    }
}
