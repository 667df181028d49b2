//! What a pass of the ApplicationSet controller may use.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;

use super::application_set::Memory;
use crate::act::events::Events;
use crate::api::ObjectKey;
use crate::clock::Clock;
use crate::decide::application_set;
use crate::settings::ApplicationSetSettings;
use crate::watch::control_plane::ControlPlane;

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
    /// The names of Applications that changed since the last reconcile of their
    /// set.
    pub changed: Mutex<HashMap<ObjectKey, BTreeSet<String>>>,
    /// How sets are reconciled.
    pub rules: application_set::Settings,
}

impl Context {
    /// Whether objects of a namespace are this controller's business.
    pub fn is_watched(&self, namespace: &str) -> bool {
        namespace == self.settings.control_plane_namespace
            || self.settings.namespaces.matches(namespace)
    }

    /// Takes what is remembered of a set; it is put back after the pass.
    pub fn take_memory(&self, key: &ObjectKey, uid: &str) -> Memory {
        let memory = self.memory.lock().remove(key).filter(|memory| memory.uid == uid);
        memory.unwrap_or_else(|| Memory::of(uid))
    }

    /// Puts back what is remembered of a set.
    pub fn put_memory(&self, key: &ObjectKey, memory: Memory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Forgets a set.
    pub fn forget(&self, key: &ObjectKey) {
        self.memory.lock().remove(key);
        self.changed.lock().remove(key);
    }

    /// Applications of a set changed.
    pub fn changed<'a>(&self, key: &ObjectKey, names: impl IntoIterator<Item = &'a str>) {
        let mut changed = self.changed.lock();
        let known = changed.entry(key.clone()).or_default();
        known.extend(names.into_iter().map(str::to_owned));
    }

    /// Which Applications of a set changed since this was asked for last.
    pub fn take_changed(&self, key: &ObjectKey) -> BTreeSet<String> {
        self.changed.lock().remove(key).unwrap_or_default()
    }
}
