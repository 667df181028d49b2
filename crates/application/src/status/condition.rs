//! Conditions of an Application (SE-060): a condition holds if it is present.

use jiff::Timestamp;

use wavegate_api::app_status::ApplicationCondition;
use wavegate_api::conditions::application as types;
use wavegate_api::time::{Time, stored_time};

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
    types::HELD_BACK_OUT_OF_SYNC_WARNING,
    types::HELD_BACK_COMPARISON_WARNING,
];

/// Condition types of automated sync (SE-429).
pub const OF_AUTO_SYNC: &[&str] = &[types::SYNC_ERROR];

/// Condition types of deletion (SE-518).
pub const OF_DELETION: &[&str] = &[types::DELETION_ERROR, types::DELETION_WARNING];

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewCondition {
    /// One of the types of [`wavegate_api::conditions::application`].
    pub type_: &'static str,
    /// What happened, with the object or field.
    pub message: String,
}

impl NewCondition {
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

/// Replaces the conditions of the `owned` types in a list: an unchanged
/// type and message keeps its time; the list is sorted by type, message, time.
pub(crate) fn replace(
    list: &mut Vec<ApplicationCondition>,
    owned: &[&str],
    new: &[NewCondition],
    now: Timestamp,
) {
    let is_owned = |old: &mut ApplicationCondition| owned.contains(&old.type_.as_str());
    let old: Vec<ApplicationCondition> = list.extract_if(.., is_owned).collect();
    list.extend(new.iter().map(|condition| {
        let mut old = old.iter();
        let same = old.find(|o| o.type_ == condition.type_ && o.message == condition.message);
        same.cloned().unwrap_or_else(|| ApplicationCondition {
            type_: condition.type_.to_owned(),
            message: condition.message.clone(),
            last_transition_time: Some(Time(stored_time(now))),
        })
    }));
    list.sort_by(|a, b| {
        let key = |c: &ApplicationCondition| c.last_transition_time.as_ref().map(|at| at.0);
        (&a.type_, &a.message, key(a)).cmp(&(&b.type_, &b.message, key(b)))
    });
    list.dedup();
}
