//! The moment at which the state of a server is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_sim::{EventType, RecordedRequest, Server, ServerClock};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

static NONE: Value = Value::Null;

/// Plural name, namespace and name.
type Key = (Arc<str>, Arc<str>, Arc<str>);

/// What a server holds.
#[derive(Clone, Debug, Default)]
pub struct State(BTreeMap<Key, Value>);

impl State {
    /// The objects of a plural name.
    pub fn all<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |((of, ..), _)| **of == *resource).map(|(_, object)| object)
    }

    /// An object by its name; null when there is none.
    pub fn get(&self, resource: &str, name: &str) -> &Value {
        let mut all =
            self.0.iter().filter(|((of, _, called), _)| **of == *resource && **called == *name);
        all.next().map_or(&NONE, |(_, object)| object)
    }

    /// An Application by its name in the manifests.
    pub fn application(&self, name: &str) -> &Value {
        self.get("applications", &format!("{name}--0"))
    }

    /// The last run.
    pub fn run(&self) -> &Value {
        let name = |run: &&Value| run["metadata"]["name"].as_str().map(str::to_owned);
        self.all("rolloutruns").max_by_key(name).unwrap_or(&NONE)
    }

    /// All objects: Namespaces first, then by resource.
    pub fn into_objects(self) -> Vec<Value> {
        let (mut first, rest): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|((resource, ..), _)| &**resource == "namespaces");
        first.extend(rest);
        first.into_iter().map(|(_, object)| object).collect()
    }
}

type Condition = Box<dyn Fn(&State) -> bool + Send>;

#[derive(Default)]
struct Follower {
    state: State,
    is: Option<Condition>,
    found: Option<(State, Timestamp)>,
}

impl Follower {
    fn look(&mut self, clock: &ServerClock, reached: &Notify) {
        let is_it = self.is.as_ref().is_some_and(|is| is(&self.state));
        if self.found.is_none() && is_it {
            self.found = Some((self.state.clone(), clock.now()));
            reached.notify_one();
        }
    }
}

/// Follows all changes of a server, and keeps its state as it was when a condition first held:
/// between two writes, so that no later one is part of it, however busy the machine is.
#[derive(Clone)]
pub struct Moment {
    follower: Arc<Mutex<Follower>>,
    reached: Arc<Notify>,
    clock: ServerClock,
}

impl Moment {
    /// Follows a server from its beginning.
    pub fn of(server: &Server) -> Self {
        let moment =
            Self { follower: Arc::default(), reached: Arc::default(), clock: server.clock() };
        let (follower, reached, clock) =
            (moment.follower.clone(), moment.reached.clone(), moment.clock.clone());
        server.record_into(move |entry| {
            let RecordedRequest::Change(change) = entry else { return };
            // The installation brings them.
            if &*change.resource == "customresourcedefinitions" {
                return;
            }
            let mut follower = follower.lock();
            let key = (change.resource, change.namespace, change.name);
            match change.event {
                EventType::Deleted => follower.state.0.remove(&key),
                _ => follower.state.0.insert(key, serde_json::from_slice(&change.object).unwrap()),
            };
            follower.look(&clock, &reached);
        });
        moment
    }

    /// Says which moment it is, which may be now.
    pub fn when(&self, is: impl Fn(&State) -> bool + Send + 'static) {
        let mut follower = self.follower.lock();
        follower.is = Some(Box::new(is));
        follower.look(&self.clock, &self.reached);
    }

    /// The state at the moment, once it has come; `None` after the limit.
    pub async fn reached(&self, limit: std::time::Duration) -> Option<(State, Timestamp)> {
        // The permit of a moment that is over is kept.
        tokio::time::timeout(limit, self.reached.notified()).await.ok()?;
        self.follower.lock().found.clone()
    }
}
