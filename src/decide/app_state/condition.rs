//! Conditions of an Application (SE-060): a condition holds if it is present.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::conditions::application as types;
use crate::api::time::to_rfc3339;

/// Longest stored message, in characters, to keep the status small.
const MAX_MESSAGE: usize = 2048;

/// Condition types of comparisons, which replace exactly these.
pub const OF_COMPARISON: &[&str] = &[
    types::INVALID_SPEC_ERROR,
    types::COMPARISON_ERROR,
    types::UNKNOWN_ERROR,
    types::SHARED_RESOURCE_WARNING,
    types::REPEATED_RESOURCE_WARNING,
    types::EXCLUDED_RESOURCE_WARNING,
    types::ORPHANED_RESOURCE_WARNING,
    types::INVALID_PROJECT_WARNING,
    types::SYNC_WARNING,
    types::UNLISTED_RESOURCE_WARNING,
    types::REPEATED_KEY_WARNING,
];

/// Condition types of automated sync (SE-429).
pub const OF_AUTO_SYNC: &[&str] = &[types::SYNC_ERROR];

/// Condition types of deletion (SE-518).
pub const OF_DELETION: &[&str] = &[types::DELETION_ERROR, types::DELETION_WARNING];

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// One of the types of [`crate::api::conditions::application`].
    pub type_: &'static str,
    /// What happened, with the object or field.
    pub message: String,
}

impl Condition {
    /// A condition with a truncated message.
    pub fn new(type_: &'static str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Self { type_, message }
    }

    /// Source and cluster cannot be compared.
    pub fn comparison(message: impl Into<String>) -> Self {
        Self::new(types::COMPARISON_ERROR, message)
    }

    /// The spec is invalid.
    pub fn invalid_spec(message: impl Into<String>) -> Self {
        Self::new(types::INVALID_SPEC_ERROR, message)
    }

    /// The project has a configuration error.
    pub fn invalid_project(project: &str, problem: &str) -> Self {
        Self::new(types::INVALID_PROJECT_WARNING, format!("AppProject {project}: {problem}"))
    }

    /// Whether it prevents an operation from starting (SE-373).
    pub fn is_error(&self) -> bool {
        matches!(
            self.type_,
            types::INVALID_SPEC_ERROR | types::COMPARISON_ERROR | types::UNKNOWN_ERROR
        )
    }
}

/// Replaces the conditions of the `owned` types in a raw list: an unchanged
/// type and message keeps its time; the list is sorted by type, message, time.
pub fn replace(list: &Value, owned: &[&str], new: &[Condition], now: Timestamp) -> Value {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let old = || list.as_array().into_iter().flatten();
    let mut result: Vec<Value> =
        old().filter(|item| !owned.contains(&text(item, "type").as_str())).cloned().collect();
    for condition in new {
        let same = |item: &&Value| {
            text(item, "type") == condition.type_ && text(item, "message") == condition.message
        };
        result.push(match old().find(same) {
            Some(kept) => kept.clone(),
            None => json!({
                "type": condition.type_,
                "message": condition.message,
                "lastTransitionTime": to_rfc3339(now),
            }),
        });
    }
    result.sort_by_key(|item| {
        (text(item, "type"), text(item, "message"), text(item, "lastTransitionTime"))
    });
    result.dedup();
    Value::Array(result)
}
