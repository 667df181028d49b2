//! Identity of an object: group, kind, namespace, name.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Identity of an object within one cluster, independent of the API version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects and where none is given.
    pub namespace: String,
    /// Name; empty when only `generateName` is set.
    pub name: String,
}

impl ResourceKey {
    /// A key of these parts.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Self { group, kind, namespace, name }
    }

    /// The key of a raw object; `None` when it has no kind. Missing metadata
    /// counts as empty.
    pub fn from_object(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = object["kind"].as_str().filter(|kind| !kind.is_empty())?;
        let (group, _) = split_api_version(object["apiVersion"].as_str().unwrap_or_default());
        Some(Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        })
    }

    /// A digest of the key, for tables that would otherwise contain it once more for each
    /// object: it takes 8 bytes instead of some 200.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The same object in another namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// `group/Kind`, for users; only the kind in the core group.
    pub fn group_kind(&self) -> String {
        let Self { group, kind, .. } = self;
        if group.is_empty() { kind.clone() } else { format!("{group}/{kind}") }
    }

    /// `group/Kind:namespace/name`, the form of tracking values (SE-111); the core
    /// group is empty.
    pub fn tracking(&self) -> String {
        let Self { group, kind, namespace, name } = self;
        format!("{group}/{kind}:{namespace}/{name}")
    }
}

/// For users: `group/Kind namespace/name`; without the group for a kind of the core
/// group, and without the namespace for a cluster-scoped object.
impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, .. } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {namespace}{slash}{name}", self.group_kind())
    }
}

/// Splits an `apiVersion` into group and version; the core group is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
