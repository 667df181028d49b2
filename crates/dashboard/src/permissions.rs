//! What a person may do in a namespace (PG-020).

use std::collections::BTreeMap;

/// The kind that a verb writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrittenKind {
    /// ApplicationSets.
    Set,
    /// Applications.
    Application,
    /// RolloutRuns.
    Run,
}

/// What a person may not write in a namespace, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbPermissions {
    refusals: BTreeMap<WrittenKind, String>,
}

impl VerbPermissions {
    /// The same without the permission to write to a kind.
    pub fn refuse(&mut self, kind: WrittenKind, why: String) {
        self.refusals.insert(kind, why);
    }

    /// Why the person may not use a verb; `None` where it is permitted, or not known.
    pub(crate) fn refusal(&self, verb: &str) -> Option<&str> {
        self.refusals.get(&written_kind(verb)).map(String::as_str)
    }
}

/// What a verb writes to.
fn written_kind(verb: &str) -> WrittenKind {
    match verb {
        "pause" | "resume" | "approve-deletions" | "refresh" => WrittenKind::Set,
        "sync" | "refresh-app" | "terminate" => WrittenKind::Application,
        _ => WrittenKind::Run,
    }
}
