//! What people do to rollouts (ST-060 … ST-070): whether it makes sense now, and what it writes.
//!
//! A person's word is a field of a RolloutRun or an annotation of an ApplicationSet. Each
//! function reads an object as stored, and returns what the word changes, that it is so already,
//! or why it makes no sense. What follows from the word is decided by the rollout.
//!
//! Nothing that others wrote is dropped: lists are extended and reduced as they are stored.

mod again;
mod approve;
mod awaited;
mod end;
mod pause;
mod run;
mod select;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

pub use self::again::{retry_applications, skip_applications, undo_skip};
pub use self::approve::{approve_deletions, approve_gates};
pub use self::awaited::{
    DeployedRevision, Goal, Seen, WaitEnding, WaitProgress, is_revision, wait_progress,
};
pub use self::end::{RollbackScope, abort_run, rollback_run};
pub use self::pause::{pause_set, paused_by_policies, resume_set, unpause_command};
pub use self::run::{Run, current_run, is_quarantined, number_of};
pub use self::select::selects_set;
use wavegate_api::live::LiveMetadata;
use wavegate_api::time::to_rfc3339;
use wavegate_api::{Raw, Time};

/// The most entries that say who has skipped what.
const SKIPS: usize = 100;

/// Who speaks, and when.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// The user.
    pub by: &'a str,
    /// The time.
    pub at: Timestamp,
}

impl Actor<'_> {
    /// The time as it is stored.
    fn stored_at(&self) -> String {
        to_rfc3339(self.at)
    }

    /// The same for a word that is acted on once for each time: later than the one that was acted
    /// on last, also when both are said in one second.
    fn stored_after(&self, acted_on: Option<&Time>) -> String {
        let next = acted_on.and_then(|last| last.0.checked_add(SignedDuration::from_secs(1)).ok());
        to_rfc3339(next.map_or(self.at, |next| next.max(self.at)))
    }
}

/// What a person's word comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It changes the object.
    Change {
        /// What it does, as the rest of a sentence after "will".
        says: String,
        /// How many Applications it is about.
        applications: i64,
        /// What is written.
        change: RequestedChange,
    },
    /// It is so already; says how.
    Already(String),
    /// It makes no sense; says why, and what to do instead.
    Refused(String),
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestedChange {
    /// An annotation; removed without a value.
    Annotation {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: Option<String>,
        /// The word of a person that it replaces or removes, if it does: another one is not what
        /// was confirmed.
        replaces: Option<String>,
        /// Annotations that say who it was.
        by: Vec<(&'static str, Option<String>)>,
    },
    /// Entries that are added to a list of the spec.
    Entries {
        /// The list.
        list: &'static str,
        /// The new entries.
        entries: Vec<Value>,
    },
    /// Names that are added to the skipped ones, or removed from them.
    Skip {
        /// The names.
        names: Vec<String>,
        /// Whether they are removed.
        undo: bool,
        /// Who asks for it, as an entry of the list of the spec.
        said: Value,
    },
    /// A field of the spec.
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: Value,
    },
}

impl RequestedChange {
    /// The merge patch for the object as stored, based on its version.
    pub fn patch(&self, object: &Value) -> Value {
        // The name could refer to another object by now, and another person may have spoken.
        let LiveMetadata { uid, resource_version, .. } = LiveMetadata::of(object);
        let mut metadata = Map::from_iter([
            ("uid".to_owned(), uid.into()),
            ("resourceVersion".to_owned(), resource_version.into()),
        ]);
        let spec = match self {
            Self::Annotation { key, value, by, .. } => {
                let all = by.iter().map(|(key, value)| (*key, value)).chain([(*key, value)]);
                let annotations: Map<String, Value> =
                    all.map(|(key, value)| (key.to_owned(), json!(value))).collect();
                metadata.insert("annotations".to_owned(), annotations.into());
                return json!({"metadata": metadata});
            }
            Self::Entries { list, entries } => {
                let stored = object.spec().items(&format!("/{list}"));
                let all: Vec<&Value> = stored.iter().chain(entries).collect();
                json!({*list: all})
            }
            Self::Skip { names, undo, said } => {
                let names: Vec<Value> = names.iter().map(|name| name.as_str().into()).collect();
                let stored = object.spec().items("/skip").iter();
                let skip: Vec<&Value> = match undo {
                    true => stored.filter(|entry| !names.contains(entry)).collect(),
                    false => stored.chain(&names).collect(),
                };
                // The definition permits so many: the earliest are forgotten.
                let known = object.spec().items("/skips");
                let known = &known[known.len().saturating_sub(SKIPS - 1)..];
                let skips: Vec<&Value> = known.iter().chain([said]).collect();
                json!({"skip": skip, "skips": skips})
            }
            Self::Field { field, value } => json!({*field: value}),
        };
        json!({"metadata": metadata, "spec": spec})
    }

    /// Whether a person who confirmed `other` has confirmed this as well: the object may have
    /// changed since. When it is said does not count.
    pub fn is_within(&self, other: &Self) -> bool {
        let is_same = |a: &Value, b: &Value| match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                let without_time = |all: &Map<String, Value>| {
                    let mut all = all.clone();
                    all.remove("at");
                    all
                };
                without_time(a) == without_time(b)
            }
            _ => a == b,
        };
        match (self, other) {
            (Self::Entries { list, entries }, Self::Entries { list: of, entries: confirmed }) => {
                let is_confirmed = |entry: &Value| confirmed.iter().any(|one| is_same(entry, one));
                list == of && entries.iter().all(is_confirmed)
            }
            (
                Self::Skip { names, undo, .. },
                Self::Skip { names: confirmed, undo: was_undo, .. },
            ) => undo == was_undo && names.iter().all(|name| confirmed.contains(name)),
            _ => self == other,
        }
    }
}

/// `1 Application`, `2 Applications`.
pub fn applications_text(count: i64) -> String {
    if count == 1 { "1 Application".to_owned() } else { format!("{count} Applications") }
}
