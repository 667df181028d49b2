//! The state that all reconciles of ApplicationSets share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Memory;
use super::log::Logged;
use super::namespaces::Namespaces;
use crate::act::events::Events;
use crate::api::ObjectKey;
use crate::controller::context::Core;
use crate::controller::runtime::Slots;
use crate::decide::application_set;
use crate::settings::ApplicationSetSettings;
use crate::source::Repositories;

/// The state that all reconciles share.
pub struct Context {
    /// What both controllers share.
    pub core: Core,
    /// Settings of the controller.
    pub settings: ApplicationSetSettings,
    /// Events about ApplicationSets.
    pub events: Events,
    /// Cached state of each ApplicationSet between reconciles: everything can be computed
    /// again.
    pub memory: Mutex<HashMap<ObjectKey, Memory>>,
    /// The names of Applications that changed since the last reconcile of their ApplicationSet.
    pub changed: Mutex<HashMap<ObjectKey, BTreeSet<String>>>,
    /// What was logged about each ApplicationSet.
    pub logged: Mutex<HashMap<ObjectKey, Logged>>,
    /// The namespaces of sets whose policy forbids deletion.
    pub namespaces: Namespaces,
    /// Repositories of git generators.
    pub sources: Arc<Repositories>,
    /// Worker slots: a reconcile holds one while it runs.
    pub slots: Slots,
    /// The part of the settings that decisions use.
    pub rules: application_set::Settings,
}

impl Context {
    /// Whether the controller watches a namespace.
    pub fn is_watched(&self, namespace: &str) -> bool {
        self.settings.covers(namespace)
    }

    /// Takes the cached state of an ApplicationSet; it is put back after the reconcile.
    pub fn take_memory(&self, key: &ObjectKey, uid: &str) -> Memory {
        let memory = self.memory.lock().remove(key).filter(|memory| memory.uid == uid);
        memory.unwrap_or_else(|| Memory::of(uid))
    }

    /// Puts back the cached state of an ApplicationSet.
    pub fn put_memory(&self, key: &ObjectKey, memory: Memory) {
        self.memory.lock().insert(key.clone(), memory);
    }

    /// Changes what was logged about an ApplicationSet.
    pub fn logged<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Logged) -> T) -> T {
        change(self.logged.lock().entry(key.clone()).or_default())
    }

    /// Drops the cached state of a deleted ApplicationSet.
    pub fn forget(&self, key: &ObjectKey) {
        self.core.metrics.forget(key);
        self.logged.lock().remove(key);
        self.memory.lock().remove(key);
        self.changed.lock().remove(key);
    }

    /// Records that Applications of an ApplicationSet have changed.
    pub fn changed<'a>(&self, key: &ObjectKey, names: impl IntoIterator<Item = &'a str>) {
        let mut changed = self.changed.lock();
        let known = changed.entry(key.clone()).or_default();
        known.extend(names.into_iter().map(str::to_owned));
    }

    /// Takes the names of the changed Applications.
    pub fn take_changed(&self, key: &ObjectKey) -> BTreeSet<String> {
        self.changed.lock().remove(key).unwrap_or_default()
    }
}
