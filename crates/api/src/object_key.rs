//! Which ApplicationSet, Application or AppProject is meant.

use std::fmt;

use serde_json::Value;

/// Namespace and name of an object whose kind is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The key of these parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of a raw object; missing metadata counts as empty.
    pub fn of(object: &Value) -> Self {
        let text = |field| object["metadata"][field].as_str().unwrap_or_default();
        Self::new(text("namespace"), text("name"))
    }
}

/// `namespace/name`, the form of logs and messages.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
