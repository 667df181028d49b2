//! The rollout record of an Application: its state in an annotation of its own, when the status
//! of its set does not list it ([`listed`](super::listed)).

use jiff::Timestamp;

use super::entry::{Entry, Phase};

/// The rollout record of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRecord {
    /// The recorded state.
    pub kind: RecordKind,
    /// The revisions it applies to.
    pub target_revisions: Vec<String>,
    /// The digest of the generated spec it applies to.
    pub spec: String,
    /// The step at that time, counted from 0.
    pub step: Option<usize>,
    /// When the state began; for a start, the promotion.
    pub since: Timestamp,
}

/// The states of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Its operation was started: Healthy unless an entry is listed.
    Started,
    /// It was Healthy.
    Healthy,
    /// The progressing timeout made it Healthy.
    TimedOut,
    /// No state: it replaces a record that does not apply.
    Void,
}

impl CompletionRecord {
    /// Whether the record implies that an Application with these facts is
    /// Healthy.
    pub(super) fn implies_healthy(&self, spec: Option<&str>, revisions: &[String]) -> bool {
        self.kind != RecordKind::Void
            && spec.is_none_or(|spec| spec == self.spec)
            // A status without a revision could not be computed, and is not a
            // change.
            && (revisions.is_empty() || self.target_revisions == revisions)
    }

    /// Whether a Healthy entry can be restored from the record.
    pub(super) fn covers(&self, entry: &Entry, spec: Option<&str>) -> bool {
        entry.phase == Phase::Healthy
            && self.implies_healthy(spec, &entry.target_revisions)
            && entry.timed_out() == (self.kind == RecordKind::TimedOut)
    }
}
