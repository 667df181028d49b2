//! Which entries `status.applicationStatus` lists one by one, and what those
//! that it does not list are.
//!
//! A status is bounded, a fleet is not. As long as all entries fit, all are
//! listed, as Argo CD does. Beyond that `status.rollout.listed` tells how many
//! are, and an entry is left out when what is kept elsewhere gives it back
//! ([`implied`]):
//!
//! - **Waiting** is what an Application is that carries no record, or one of
//!   other revisions or another generated spec.
//! - **Healthy** is kept with the Application, in an annotation ([`Record`]) that
//!   the patch which starts its operation writes anyway.
//!
//! # Why this loses nothing
//!
//! The record is written when the Application is promoted, which is before it
//! is Healthy. So an entry stays listed from then on until it is Healthy as the
//! record says, or the record is replaced: an entry in flight is always listed,
//! and so is one that went back from there and whose Application carries a record
//! that is not true of it (`Listing::Must`). Its record is replaced by one that
//! implies nothing, and then it is left out. Hence a record that is not
//! contradicted by a listed entry is true, and stays so: it says that the
//! Application *was* Healthy with these revisions and this generated spec.
//!
//! Each status is written before the Applications, so whatever a crash falls
//! between finds either the entry listed or the record in place.
//!
//! Somebody may remove entries from a status, or write it with other software.
//! Then the number of listed entries is not the one that the status names, or
//! there is none, and what is not listed is Waiting whatever is recorded: it
//! counts as Healthy again when it is seen to be.

use jiff::Timestamp;

use super::Member;
use super::phase::{Entry, Mark, Observed, Phase};
use super::status::{self, MESSAGE_LIMIT};

/// The most bytes that listed entries take. All entries of about 1,000
/// Applications with names of 25 characters fit, or about 750 in flight.
pub const ENTRIES_BYTES: usize = 256 << 10;

/// The most bytes of a message where not every message fits; more than the
/// longest [`Mark::prefix`].
const SHORT_MESSAGE: usize = 96;

/// How many records one reconcile writes besides those that starts carry.
pub const RECORDS_PER_RECONCILE: usize = 50;

/// What an Application carries about its rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub kind: RecordKind,
    /// The revisions that it is about.
    pub target_revisions: Vec<String>,
    /// The digest of the generated spec that it is about.
    pub spec: String,
    /// The step at that time, counted from 0.
    pub step: Option<usize>,
    /// When it came about; for a start, the promotion.
    pub since: Timestamp,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// It was started: Healthy unless an entry is listed.
    Started,
    /// It was Healthy.
    Healthy,
    /// The progressing timeout made it Healthy.
    TimedOut,
    /// Nothing: it replaces a record that did not come true.
    Void,
}

impl Record {
    /// Whether it says that an Application with these facts is Healthy.
    fn implies_healthy(&self, spec: Option<&str>, revisions: &[String]) -> bool {
        self.kind != RecordKind::Void
            && spec.is_none_or(|spec| spec == self.spec)
            // A status without a revision could not be computed: no change.
            && (revisions.is_empty() || self.target_revisions == revisions)
    }

    /// Whether it gives a Healthy entry back.
    fn covers(&self, entry: &Entry, spec: Option<&str>) -> bool {
        entry.phase == Phase::Healthy
            && self.implies_healthy(spec, &entry.target_revisions)
            && entry.timed_out() == (self.kind == RecordKind::TimedOut)
    }
}

/// The entry of an Application that a compacted status does not list.
///
/// `spec` is the digest of its generated spec; `None` where that is not known,
/// and not compared. `began` is when the rollout began.
pub fn implied(
    name: &str,
    step: Option<usize>,
    record: Option<&Record>,
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
        // Later than the last promotion that is known.
        since: record.map_or(began, |record| record.since.max(began)),
    };
    let Some(record) = record.filter(|record| record.implies_healthy(spec, &seen.revisions)) else {
        return entry;
    };
    let timed_out = record.kind == RecordKind::TimedOut;
    Entry {
        phase: Phase::Healthy,
        message: match timed_out {
            true => Mark::TimedOut.prefix().to_owned(),
            false => "Application is synced and healthy".to_owned(),
        },
        mark: timed_out.then_some(Mark::TimedOut),
        target_revisions: record.target_revisions.clone(),
        since: record.since,
        ..entry
    }
}

/// Whether an entry has to be listed in a compacted status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listing {
    /// Left out it would be another one.
    Must,
    /// Left out it would have to be found anew, which is no harm: it cannot be
    /// Healthy without being so.
    Wish,
    /// What is kept elsewhere gives it back.
    Implied,
}

/// Judges one entry.
pub(super) fn listing(member: &Member<'_>, entry: &Entry) -> Listing {
    let record = member.record.filter(|record| record.kind != RecordKind::Void);
    // Of a listed entry it is not known whether the record ever came true.
    let unproven = || match member.is_listed {
        true => Listing::Must,
        false => Listing::Wish,
    };
    match (entry.phase, record) {
        (Phase::Pending | Phase::Progressing, _) => Listing::Must,
        _ if entry.mark == Some(Mark::StepClosed) => Listing::Must,
        (Phase::Healthy, Some(record)) if record.covers(entry, member.spec) => Listing::Implied,
        (Phase::Healthy, Some(_)) => unproven(),
        (Phase::Healthy, None) => Listing::Wish,
        (Phase::Waiting, Some(_)) if member.is_listed => Listing::Must,
        (Phase::Waiting, Some(record)) => {
            match record.implies_healthy(member.spec, &entry.target_revisions) {
                true => Listing::Wish,
                false => Listing::Implied,
            }
        }
        (Phase::Waiting, None) => Listing::Implied,
    }
}

/// What an entry takes of the status because it must be listed, in bytes.
pub(super) fn reserved(member: &Member<'_>, entry: &Entry) -> usize {
    match listing(member, entry) {
        Listing::Must => in_flight(entry),
        Listing::Wish | Listing::Implied => 0,
    }
}

/// What an entry takes of the status while it is in flight, in bytes.
pub(super) fn in_flight(entry: &Entry) -> usize {
    status::bytes_around(entry) + Phase::Progressing.name().len() + SHORT_MESSAGE
}

/// Which entries are listed, and what has to be recorded so that fewer are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The entries, by name.
    pub entries: Vec<Entry>,
    /// How many `status.rollout.listed` tells; `None` when all are listed, and
    /// when what is not listed has to be found anew.
    pub count: Option<usize>,
    /// Whether entries are left out, and starts carry records.
    pub is_compact: bool,
    /// Records to write, by Application.
    pub records: Vec<(String, Record)>,
}

/// Chooses which of the entries of a plan are listed within `limit` bytes.
///
/// A compacted status stays so until all entries take clearly less, so that it
/// does not change its form with every message.
pub fn choose(members: &[Member<'_>], entries: Vec<Entry>, limit: usize) -> Listed {
    let was_compact = members.iter().any(|member| member.entry.is_some() && !member.is_listed);
    let all: usize = entries.iter().map(|entry| status::bytes(entry, MESSAGE_LIMIT)).sum();
    let most = if was_compact { limit / 4 * 3 } else { limit };
    if all <= most {
        return Listed { entries, ..Listed::default() };
    }
    let mut existing = members.iter().filter(|member| member.observed.is_some());
    let mut judged: Vec<(Listing, &Member<'_>, Entry)> = Vec::with_capacity(entries.len());
    for entry in entries {
        // Both are by name, and each entry has its member.
        if let Some(member) = existing.find(|member| member.name == entry.application) {
            judged.push((listing(member, &entry), member, entry));
        }
    }
    let records = records(&judged);
    let sum = |message: usize| -> usize {
        let must = judged.iter().filter(|(listing, ..)| *listing == Listing::Must);
        must.map(|(_, _, entry)| status::bytes(entry, message)).sum()
    };
    let message = if sum(MESSAGE_LIMIT) <= limit { MESSAGE_LIMIT } else { SHORT_MESSAGE };
    let mut room = limit.checked_sub(sum(message));
    // What must be listed does not fit: nothing that is left out may be taken
    // for Healthy by its record then.
    let is_whole = room.is_some();
    let mut rest = limit;
    let mut listed = Vec::new();
    for (listing, _, mut entry) in judged {
        let takes = status::bytes(&entry, message);
        let fits = match (listing, &mut room) {
            (Listing::Implied, _) => false,
            (Listing::Must, Some(_)) => true,
            (Listing::Must, None) => {
                let fits = takes <= rest;
                rest -= if fits { takes } else { 0 };
                fits
            }
            (Listing::Wish, Some(room)) => {
                let fits = takes <= *room;
                *room -= if fits { takes } else { 0 };
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

/// The records that let the next status leave more out, the first ones by name:
/// of Healthy Applications that carry none that says so, and of Waiting ones that
/// carry one which did not come true.
fn records(judged: &[(Listing, &Member<'_>, Entry)]) -> Vec<(String, Record)> {
    let record = |(listing, member, entry): &(Listing, &Member<'_>, Entry)| {
        let kind = match (listing, entry.phase) {
            (Listing::Implied, _) => return None,
            (_, Phase::Healthy) if entry.timed_out() => RecordKind::TimedOut,
            (_, Phase::Healthy) => RecordKind::Healthy,
            (Listing::Must, Phase::Waiting) if entry.mark.is_none() => RecordKind::Void,
            _ => return None,
        };
        let record = Record {
            kind,
            target_revisions: entry.target_revisions.clone(),
            spec: member.spec?.to_owned(),
            step: entry.step,
            since: entry.since,
        };
        Some((entry.application.clone(), record))
    };
    judged.iter().filter_map(record).take(RECORDS_PER_RECONCILE).collect()
}
