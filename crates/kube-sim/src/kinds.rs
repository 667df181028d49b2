//! What the server knows about each kind: names, scope, subresources.
//!
//! Built-in kinds come from [`super::builtin`]; kinds of CustomResourceDefinitions
//! are added and removed at run time by [`super::crd`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::place::ResourceKey;
use super::schema::Schema;

/// Which changes count as a new `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    None,
    /// Built-in kinds: a change of `spec` (or of `webhooks`, for configurations without one).
    Spec,
    /// Custom kinds with a status subresource: all but `metadata` and `status`.
    AllButStatus,
    /// Custom kinds without one: all but `metadata`.
    AllButMetadata,
}

/// Where the scale subresource finds its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub spec: Vec<String>,
    pub status: Vec<String>,
    /// A label selector: an object for built-in kinds, text for custom ones.
    pub selector: Option<Vec<String>>,
}

/// A printer column of a CustomResourceDefinition.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub format: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub priority: i64,
    pub json_path: String,
}

/// What a CustomResourceDefinition says about one version.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub schema: Option<Arc<Schema>>,
    /// As written, for the OpenAPI documents.
    pub raw_schema: Option<Value>,
    /// Objects of this revision, and older ones, were stored with another schema. 0: none.
    pub redefined_at: u64,
    pub columns: Vec<Column>,
}

/// One served version of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Whether there is a status subresource.
    pub status: bool,
    pub scale: Option<Scale>,
    pub generation: Generation,
    pub storage: ResourceKey,
    /// `apiVersion` under which objects are stored.
    pub stored_as: String,
    pub custom: Option<Custom>,
}

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `deployments.apps`, as messages name a resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub fn is_builtin(&self) -> bool {
        self.custom.is_none()
    }

    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether this is one of the two kinds of Events.
    pub fn is_event(&self) -> bool {
        self.is_builtin() && &*self.storage.resource == "events" && self.storage.group.is_empty()
    }

    /// Whether this is the kind that defines kinds.
    pub fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    pub fn schema(&self) -> Option<&Schema> {
        self.custom.as_ref().and_then(|c| c.schema.as_deref())
    }
}

/// All served kinds, by group, version and plural name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    kinds: BTreeMap<(String, String, String), Arc<Kind>>,
}

impl Registry {
    pub fn insert(&mut self, kind: Kind) {
        self.add(Arc::new(kind));
    }

    /// Adds a kind that other servers may have as well.
    pub fn add(&mut self, kind: Arc<Kind>) {
        let key = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        self.kinds.insert(key, kind);
    }

    /// Removes every version of a resource.
    pub fn remove(&mut self, group: &str, plural: &str) {
        self.kinds.retain(|(g, _, p), _| g != group || p != plural);
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        // The key is owned; three short strings per request cost little.
        self.kinds.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The same without the resources of these plural names.
    pub fn without(&self, hidden: &[&str]) -> Self {
        let is_shown =
            |((_, _, plural), _): &(&(String, String, String), _)| !hidden.contains(&&**plural);
        let shown = self.kinds.iter().filter(is_shown);
        Self { kinds: shown.map(|(key, kind)| (key.clone(), Arc::clone(kind))).collect() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }
}
