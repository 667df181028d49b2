//! What the record of the API server says there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_sim::{EventType, RecordedChange};
use serde_json::Value;

/// The resources that judges read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Set,
    Application,
    Run,
    Policy,
    Deployment,
    Job,
    ConfigMap,
    Other,
}

impl Kind {
    fn of(group: &str, resource: &str) -> Self {
        match (group, resource) {
            ("argoproj.io", "applicationsets") => Self::Set,
            ("argoproj.io", "applications") => Self::Application,
            ("wavegate.dev", "rolloutruns") => Self::Run,
            ("wavegate.dev", "rolloutpolicies") => Self::Policy,
            ("apps", "deployments") => Self::Deployment,
            ("batch", "jobs") => Self::Job,
            ("", "configmaps") => Self::ConfigMap,
            _ => Self::Other,
        }
    }
}

/// A place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    /// The resource, as in URLs.
    pub resource: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
    }
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Changed {
    pub key: Key,
    pub event: EventType,
    /// Empty (null) of kinds that no judge reads.
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
    pub at: Timestamp,
    /// The number of the request.
    pub cause: u64,
}

/// The objects that exist.
#[derive(Debug, Default)]
pub struct World {
    objects: BTreeMap<Key, Arc<Value>>,
}

impl World {
    /// Takes a change.
    pub fn take(&mut self, change: &RecordedChange) -> Changed {
        let key = Key {
            kind: Kind::of(&change.group, &change.resource),
            resource: change.resource.clone(),
            namespace: change.namespace.clone(),
            name: change.name.clone(),
        };
        let before = self.objects.get(&key).cloned();
        let after = (change.event != EventType::Deleted).then(|| {
            Arc::new(match key.kind {
                Kind::Other => Value::Null,
                _ => serde_json::from_slice(&change.object).expect("stored objects are JSON"),
            })
        });
        match &after {
            Some(object) => drop(self.objects.insert(key.clone(), Arc::clone(object))),
            None => drop(self.objects.remove(&key)),
        }
        let (at, cause) = (change.time, change.cause);
        Changed { key, event: change.event, before, after, at, cause }
    }

    /// The objects of a kind, by name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| key.kind == kind)
    }

    /// The object of this name, in whichever namespace.
    pub fn named(&self, kind: Kind, name: &str) -> Option<&Arc<Value>> {
        self.all(kind).find(|(key, _)| &*key.name == name).map(|(_, object)| object)
    }
}
