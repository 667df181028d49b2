//! What a pass of the ApplicationSet controller may use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use serde_json::Value;

use crate::act::events::Events;
use crate::clock::Clock;
use crate::decide::rollout::phase::Observed;
use crate::desired::Generation;
use crate::settings::ApplicationSetSettings;
use crate::watch::stores::Cache;

/// What all passes share.
pub struct Context {
    /// The client for writes.
    pub client: Client,
    /// How the controller is set up.
    pub settings: ApplicationSetSettings,
    /// Where the time comes from.
    pub clock: Clock,
    /// The sets.
    pub sets: Cache,
    /// The Applications.
    pub applications: Cache,
    /// The projects.
    pub projects: Cache,
    /// The Secrets that describe clusters.
    pub clusters: Store<Secret>,
    /// Events about sets.
    pub events: Events,
    /// What is remembered of each set between two passes, by UID: nothing that
    /// could not be computed again.
    pub memory: Mutex<HashMap<String, Memory>>,
}

impl Context {
    /// Whether objects of a namespace are this controller's business.
    pub fn is_watched(&self, namespace: &str) -> bool {
        namespace == self.settings.control_plane_namespace
            || self.settings.namespaces.matches(namespace)
    }

    /// Takes what is remembered of a set; it is put back after the pass.
    pub fn take_memory(&self, uid: &str) -> Memory {
        self.memory.lock().remove(uid).unwrap_or_default()
    }

    /// Puts back what is remembered of a set; drops what is remembered of sets
    /// that are gone.
    pub fn put_memory(&self, uid: &str, memory: Memory) {
        let mut all = self.memory.lock();
        all.insert(uid.to_owned(), memory);
        if all.len() > self.sets.store.len() {
            let sets = self.sets.store.state();
            let known: BTreeSet<&str> =
                sets.iter().filter_map(|set| set.value()["metadata"]["uid"].as_str()).collect();
            all.retain(|uid, _| known.contains(uid.as_str()));
        }
    }

    /// Forgets a set.
    pub fn forget(&self, uid: &str) {
        self.memory.lock().remove(uid);
    }
}

/// What is remembered of a set, so that what did not change is not computed
/// again.
#[derive(Debug, Default)]
pub struct Memory {
    /// The last generation, with the `metadata.generation` and the strategy it
    /// is for.
    pub generated: Option<Arc<Generated>>,
    /// What was read from each Application, with what it was read from.
    pub observed: BTreeMap<String, Observed>,
    /// The live and the generated object that `observed` was read from.
    pub read_from: HashMap<String, (Arc<Value>, Option<Arc<Value>>)>,
    /// Failed passes in a row, for the backoff.
    pub failures: u32,
    /// Passes in a row that were decided on something outdated, for the backoff.
    pub conflicts: u32,
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
