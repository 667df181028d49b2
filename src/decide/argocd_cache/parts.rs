//! What several kinds of nodes have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::annotations::LINK;

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

/// The links that users wrote on an object, as they are (CA-330).
pub(super) fn links(object: &Value) -> impl Iterator<Item = &str> + '_ {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = annotations.filter(|(name, _)| name.starts_with(LINK));
    own.filter_map(|(_, value)| value.as_str()).filter(|value| {
        let url = value.split_once('|').map_or(*value, |(_, url)| url);
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        matches!(scheme.as_deref(), Some("http" | "https"))
    })
}

/// Labels by name.
pub(super) type Map = BTreeMap<String, String>;

/// The strings of an object of strings.
pub(super) fn strings(value: &Value) -> Map {
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
