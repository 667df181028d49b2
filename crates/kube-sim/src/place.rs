//! Where an object is stored: its resource, and its namespace and name.

use std::fmt;
use std::sync::Arc;

/// Where objects of a kind are stored: all served versions share one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceKey {
    pub group: Arc<str>,
    pub resource: Arc<str>,
}

impl ResourceKey {
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    pub fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// The Events of both groups.
    pub fn events() -> Self {
        Self::new("", "events")
    }

    /// The definitions of custom kinds.
    pub fn definitions() -> Self {
        Self::new("apiextensions.k8s.io", "customresourcedefinitions")
    }
}

impl fmt::Debug for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.resource)
    }
}

/// A place in a resource. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// An object's place in the store.
pub(crate) type Place = (ResourceKey, Key);
