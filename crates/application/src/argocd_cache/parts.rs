//! What several kinds of nodes have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A detail with its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) value: String,
}

impl Info {
    pub(super) fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }
}

/// Labels by name.
pub(super) type Map = BTreeMap<String, String>;

/// Whether a field has its default, and is left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
