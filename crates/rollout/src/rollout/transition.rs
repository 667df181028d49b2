//! Phase transitions of entries, for logs, Events and metrics.

use super::entry::{EntryMark, Phase};
use super::snapshot::Row;
use wavegate_api::SyncStatusCode;
use wavegate_engine::health;

/// A phase transition of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The Application.
    pub application: String,
    /// Its step, counted from 0.
    pub step: Option<usize>,
    /// The phase before; `None` for a new entry.
    pub from: Option<Phase>,
    /// The phase after.
    pub to: Phase,
    /// The entry's message.
    pub message: String,
    /// The entry's target revisions.
    pub target_revisions: Vec<String>,
    /// The rest of the entry before; `None` for a new entry.
    pub before: Option<EntryBefore>,
    /// The observed health of the Application.
    pub health: health::Status,
    /// Its observed sync status.
    pub sync: SyncStatusCode,
    /// Why it happened, in one word.
    pub cause: &'static str,
    /// Whether the progressing timeout caused it (AS-612).
    pub timed_out: bool,
}

/// An entry before a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryBefore {
    /// Its step, counted from 0.
    pub step: Option<usize>,
    /// Its message.
    pub message: String,
    /// Its target revisions.
    pub target_revisions: Vec<String>,
}

/// The transitions of a reconcile, by name.
pub(super) fn transitions(rows: &[Row<'_>]) -> Vec<Transition> {
    let changed = rows.iter().filter_map(|row| {
        let (entry, seen) = (row.entry.as_ref()?, row.member.observed?);
        let before = row.member.entry;
        let from = before.map(|entry| entry.phase);
        if from == Some(entry.phase) && before.map(|entry| entry.since) == Some(entry.since) {
            return None;
        }
        Some(Transition {
            application: entry.application.clone(),
            step: entry.step,
            from,
            to: entry.phase,
            message: entry.message.clone(),
            target_revisions: entry.target_revisions.clone(),
            before: before.map(|entry| EntryBefore {
                step: entry.step,
                message: entry.message.clone(),
                target_revisions: entry.target_revisions.clone(),
            }),
            health: seen.health,
            sync: seen.sync,
            cause: cause(from, entry.phase, entry.mark, row),
            timed_out: entry.timed_out(),
        })
    });
    changed.collect()
}

/// One of few words, since it is the label of a metric (AS-603).
fn cause(from: Option<Phase>, to: Phase, mark: Option<EntryMark>, row: &Row<'_>) -> &'static str {
    match mark {
        Some(EntryMark::TimedOut) => return "ProgressingTimeout",
        Some(EntryMark::StepClosed) => return "StepClosed",
        Some(EntryMark::FoundSynced) => return "FoundSynced",
        Some(EntryMark::Requested) => return "Requested",
        Some(EntryMark::HeldByPerson) => return "HeldByPerson",
        None | Some(EntryMark::SyncFailed | EntryMark::Degraded | EntryMark::ResultUnknown) => {}
    }
    match to {
        Phase::Waiting if from.is_none() => "NewApplication",
        Phase::Waiting if row.member.denied.is_some() => "SyncWindow",
        Phase::Waiting if row.run.hold.is_some() && from == Some(Phase::Pending) => "Held",
        Phase::Waiting => "NewRevision",
        Phase::Pending => "StepOpened",
        Phase::Progressing => "OperationStarted",
        Phase::Healthy => "ApplicationHealthy",
    }
}
