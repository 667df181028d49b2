//! A changed field.

use serde::Serialize;
use serde_json::Value;

use wavegate_engine::diff::ValueChange;

/// A changed field, in JSON.
#[derive(Debug, Serialize)]
pub(super) struct FieldChange {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<Value>,
}

impl From<&ValueChange> for FieldChange {
    fn from(change: &ValueChange) -> Self {
        let ValueChange { path, from, to } = change.clone();
        Self { path, from, to }
    }
}
