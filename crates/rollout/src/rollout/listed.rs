//! Which entries `status.applicationStatus` lists, and the implied state of
//! those that it does not list.
//!
//! The size of a status is bounded, the number of Applications is not. As long
//! as all entries fit, all are listed, as in Argo CD. Beyond that,
//! `status.rollout.listed` is the number of listed entries, and an entry is
//! omitted if it can be restored from other objects (`implied`):
//!
//! - **Waiting** is implied for an Application without a record, or with one of
//!   other revisions or another generated spec.
//! - **Healthy** is recorded in an annotation of the Application ([`CompletionRecord`]),
//!   which is written with the patch that starts its operation.
//!
//! # Why no state is lost
//!
//! The record is written when the Application is promoted, before it is
//! Healthy. From then on the entry is listed until it is Healthy as recorded,
//! or the record is replaced: an entry in flight is always listed, and so is
//! one that returned to Waiting and whose Application carries a record that
//! does not apply (`Listing::Must`). That record is replaced by one that
//! implies nothing, and then the entry is omitted. Hence a record that no
//! listed entry contradicts is valid: the Application *was* Healthy with these
//! revisions and this generated spec.
//!
//! The status is written before the Applications. So after a crash between any
//! two writes, either the entry is listed or the record exists.
//!
//! A user may remove entries from a status, or other software may write it.
//! Then `status.rollout.listed` is absent or differs from the number of
//! entries, and every Application that is not listed is Waiting regardless of
//! its record: it becomes Healthy again when it is observed to be Healthy.

use jiff::Timestamp;

use super::entry::Earlier;
use super::phase::{Entry, EntryMark, Observed, Phase};
pub use super::record::{CompletionRecord, RecordKind};
use super::snapshot::Member;
use super::status::{self, MESSAGE_LIMIT};

/// The most bytes of all listed entries. All entries of about 1,000
/// Applications with names of 25 characters fit, or about 750 in flight.
pub const ENTRIES_BYTES: usize = 256 << 10;

/// The most bytes of a message when not all messages fit; more than the longest
/// [`Mark::prefix`].
const SHORT_MESSAGE: usize = 96;

/// The most records written per reconcile, besides those of started operations.
pub const RECORDS_PER_RECONCILE: usize = 50;

/// The entry of an Application that a compacted status does not list.
///
/// `spec` is the digest of its generated spec, or `None` if unknown; then it is
/// not compared. `began` is when the rollout began.
pub(crate) fn implied(
    name: &str,
    step: Option<usize>,
    record: Option<&CompletionRecord>,
    spec: Option<&str>,
    seen: &Observed,
    began: Timestamp,
) -> Entry {
    let entry = Entry {
        application: name.to_owned(),
        phase: Phase::Waiting,
        step,
        message: "Waiting for its step".to_owned(),
        mark: None,
        target_revisions: seen.revisions.clone(),
        // Later than the last known promotion.
        since: record.map_or(began, |record| record.since.max(began)),
        earlier: Earlier::Unknown,
    };
    let Some(record) = record.filter(|record| record.implies_healthy(spec, &seen.revisions)) else {
        return entry;
    };
    let timed_out = record.kind == RecordKind::TimedOut;
    Entry {
        phase: Phase::Healthy,
        message: match timed_out {
            true => EntryMark::TimedOut.prefix().to_owned(),
            false => "Application is synced and healthy".to_owned(),
        },
        mark: timed_out.then_some(EntryMark::TimedOut),
        target_revisions: record.target_revisions.clone(),
        since: record.since,
        ..entry
    }
}

/// Whether an entry has to be listed in a compacted status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listing {
    /// It cannot be restored.
    Must,
    /// Without it the state is observed again, which is safe: the Application
    /// only becomes Healthy if it is Healthy.
    Wish,
    /// It can be restored from other objects.
    Implied,
}

/// Classifies one entry.
pub(super) fn listing(member: &Member<'_>, entry: &Entry) -> Listing {
    let record = member.record.filter(|record| record.kind != RecordKind::Void);
    // For a listed entry it is unknown whether the record ever applied.
    let unproven = || match member.is_listed {
        true => Listing::Must,
        false => Listing::Wish,
    };
    match (entry.phase, record) {
        (Phase::Pending | Phase::Progressing, _) => Listing::Must,
        _ if matches!(
            entry.mark,
            Some(EntryMark::StepClosed | EntryMark::Requested | EntryMark::HeldByPerson)
        ) =>
        {
            Listing::Must
        }
        (Phase::Healthy, Some(record)) if record.covers(entry, member.spec) => Listing::Implied,
        (Phase::Healthy, Some(_)) => unproven(),
        (Phase::Healthy, None) => Listing::Wish,
        (Phase::Waiting, Some(_)) if member.is_listed => Listing::Must,
        // If it were omitted, the next reconcile would restore it as Healthy, although
        // the recorded operation may not have started.
        (Phase::Waiting, Some(record)) => {
            match record.implies_healthy(member.spec, &entry.target_revisions) {
                true => Listing::Must,
                false => Listing::Implied,
            }
        }
        // Without it the order of the sync and the target is decided by times.
        (Phase::Waiting, None) if matches!(entry.earlier, Earlier::Sync(_)) => Listing::Wish,
        (Phase::Waiting, None) => Listing::Implied,
    }
}

/// The size of an entry in the status if it must be listed, in bytes.
pub(super) fn reserved(member: &Member<'_>, entry: &Entry) -> usize {
    match listing(member, entry) {
        Listing::Must => in_flight(entry),
        Listing::Wish | Listing::Implied => 0,
    }
}

/// The size of an entry in the status while it is in flight, in bytes.
pub(super) fn in_flight(entry: &Entry) -> usize {
    status::bytes_around(entry) + Phase::Progressing.name().len() + SHORT_MESSAGE
}

/// The listed entries, and the records to write so that more can be omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The entries, by name.
    pub entries: Vec<Entry>,
    /// The value of `status.rollout.listed`; `None` when all entries are
    /// listed, and when omitted entries must be observed again.
    pub count: Option<usize>,
    /// Whether entries are omitted, and started operations carry records.
    pub is_compact: bool,
    /// Records to write, by Application.
    pub records: Vec<(String, CompletionRecord)>,
}

/// Selects the entries of a plan to list within `limit` bytes.
///
/// A compacted status stays compacted until all entries are clearly below the
/// limit, so that it does not change its form with every message.
pub(crate) fn choose(members: &[Member<'_>], entries: Vec<Entry>, limit: usize) -> Listed {
    let was_compact = members.iter().any(|member| member.entry.is_some() && !member.is_listed);
    let all: usize = entries.iter().map(|entry| status::bytes(entry, MESSAGE_LIMIT)).sum();
    let most = if was_compact { limit / 4 * 3 } else { limit };
    if all <= most {
        return Listed { entries, ..Listed::default() };
    }
    let mut existing = members.iter().filter(|member| member.observed.is_some());
    let mut classified: Vec<(Listing, &Member<'_>, Entry)> = Vec::with_capacity(entries.len());
    for entry in entries {
        // Both are sorted by name, and each entry has its member.
        if let Some(member) = existing.find(|member| member.name == entry.application) {
            classified.push((listing(member, &entry), member, entry));
        }
    }
    let records = records(&classified);
    let sum = |message: usize| -> usize {
        let must = classified.iter().filter(|(listing, ..)| *listing == Listing::Must);
        must.map(|(_, _, entry)| status::bytes(entry, message)).sum()
    };
    let message = if sum(MESSAGE_LIMIT) <= limit { MESSAGE_LIMIT } else { SHORT_MESSAGE };
    let mut left = limit.checked_sub(sum(message));
    // The entries that must be listed do not fit: then no omitted entry may
    // become Healthy by its record.
    let is_whole = left.is_some();
    let mut rest = limit;
    let mut listed = Vec::new();
    for (listing, _, mut entry) in classified {
        let takes = status::bytes(&entry, message);
        let fits = match (listing, &mut left) {
            (Listing::Implied, _) => false,
            (Listing::Must, Some(_)) => true,
            (Listing::Must, None) => {
                let fits = takes <= rest;
                rest -= if fits { takes } else { 0 };
                fits
            }
            (Listing::Wish, Some(left)) => {
                let fits = takes <= *left;
                *left -= if fits { takes } else { 0 };
                fits
            }
            (Listing::Wish, None) => false,
        };
        if fits {
            entry.message.truncate(status::cut(&entry.message, message).len());
            listed.push(entry);
        }
    }
    Listed { count: is_whole.then_some(listed.len()), entries: listed, is_compact: true, records }
}

/// The records that allow the next status to omit more entries, the first ones
/// by name: for Healthy Applications without such a record, and for Waiting
/// ones with a record that does not apply.
fn records(classified: &[(Listing, &Member<'_>, Entry)]) -> Vec<(String, CompletionRecord)> {
    let record = |(listing, member, entry): &(Listing, &Member<'_>, Entry)| {
        let kind = match (listing, entry.phase) {
            (Listing::Implied, _) => return None,
            (_, Phase::Healthy) if entry.timed_out() => RecordKind::TimedOut,
            (_, Phase::Healthy) => RecordKind::Healthy,
            (Listing::Must, Phase::Waiting) if entry.mark.is_none() => RecordKind::Void,
            _ => return None,
        };
        let record = CompletionRecord {
            kind,
            target_revisions: entry.target_revisions.clone(),
            spec: member.spec?.to_owned(),
            step: entry.step,
            since: entry.since,
        };
        Some((entry.application.clone(), record))
    };
    classified.iter().filter_map(record).take(RECORDS_PER_RECONCILE).collect()
}
