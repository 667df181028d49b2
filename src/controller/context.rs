//! What a pass of the ApplicationSet controller may use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;

use crate::act::events::Events;
use crate::api::ObjectKey;
use crate::clock::Clock;
use crate::decide::rollout::phase::Observed;
use crate::desired::Generation;
use crate::settings::ApplicationSetSettings;
use crate::watch::control_plane::{Cache, ControlPlane};

/// What all passes share.
pub struct Context {
    /// The client for writes.
    pub client: Client,
    /// How the controller is set up.
    pub settings: ApplicationSetSettings,
    /// Where the time comes from.
    pub clock: Clock,
    /// What is watched.
    pub control_plane: Arc<ControlPlane>,
    /// Events about sets.
    pub events: Events,
    /// What is remembered of each set between two passes: nothing that could not
    /// be computed again.
    pub memory: Mutex<HashMap<ObjectKey, Memory>>,
}

impl Context {
    /// Whether objects of a namespace are this controller's business.
    pub fn is_watched(&self, namespace: &str) -> bool {
        namespace == self.settings.control_plane_namespace
            || self.settings.namespaces.matches(namespace)
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, cache: &Cache, namespace: &str) -> BTreeMap<String, Arc<Value>> {
        let objects = cache.in_namespace(namespace).into_iter();
        objects.map(|(name, object)| (name, Arc::new(object.parse()))).collect()
    }

    /// Takes what is remembered of a set; it is put back after the pass.
    pub fn take_memory(&self, key: &ObjectKey, uid: &str) -> Memory {
        let memory = self.memory.lock().remove(key).filter(|memory| memory.uid == uid);
        memory.unwrap_or_else(|| Memory { uid: uid.to_owned(), ..Memory::default() })
    }

    /// Puts back what is remembered of a set.
    pub fn put_memory(&self, key: &ObjectKey, memory: Memory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Forgets a set.
    pub fn forget(&self, key: &ObjectKey) {
        self.memory.lock().remove(key);
    }
}

/// What is remembered of a set, so that what did not change is not computed
/// again.
#[derive(Debug, Default)]
pub struct Memory {
    /// The set's UID: another of the same name has nothing to do with it.
    pub uid: String,
    /// Passes in a row that were decided on something outdated.
    pub conflicts: u32,
    /// The last generation, with the `metadata.generation` and the strategy it
    /// is for.
    pub generated: Option<Arc<Generated>>,
    /// What was read from each Application, with what it was read from.
    pub observed: BTreeMap<String, Observed>,
    /// The version of the live object and the generated one that `observed` was
    /// read from.
    pub read_from: HashMap<String, (Value, Option<Arc<Value>>)>,
    /// Failures that were told by an event, by Application: told again only
    /// once they change.
    pub told: BTreeMap<String, String>,
    /// Applications whose stalled wait was told, with when it began.
    pub stalled: BTreeMap<String, Timestamp>,
    /// What the log was told last of a dry run.
    pub would: BTreeSet<String>,
    /// The step that is waited for, counted from 0, and since when it has been
    /// seen to be.
    pub opened: Option<(usize, Timestamp)>,
}

/// What a generation came to, ready to be decided on.
#[derive(Debug)]
pub struct Generated {
    /// The `metadata.generation` of the set it was made from.
    pub of: i64,
    /// What was generated, or why not.
    pub result: Result<Generation, crate::desired::Error>,
    /// The Applications by what they are called, as they are to be written for
    /// the strategy; of several with one name one is here, and none is valid.
    pub applications: BTreeMap<String, Arc<Value>>,
    /// The same as generated, before the strategy rewrote them.
    pub originals: BTreeMap<String, Arc<Value>>,
    /// What each is called, the invalid ones too.
    pub names: BTreeSet<String>,
    /// What is wrong with them by themselves, whatever there is in the cluster.
    pub problems: BTreeMap<String, String>,
}
