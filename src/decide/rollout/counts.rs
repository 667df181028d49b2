//! Counts of a rollout, for metrics (AS-603).

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::budget::Limit;
use super::phase::{Compared, Entry, Mark, Observed, Phase};

/// Counts of one reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Applications by step, counted from 0, and phase.
    pub applications: BTreeMap<(Option<usize>, Phase), u64>,
    /// The Applications that the open step waits for, by the kind of the wait.
    pub waits: BTreeMap<WaitKind, Wait>,
}

/// The Applications that are waited for because of one kind of reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// How many.
    pub count: u64,
    /// Since when the first of them, if known.
    pub since: Option<Timestamp>,
}

/// The words of reasons, which the status names and [`WaitKind::of_reason`] reads.
pub(super) mod text {
    pub const CREATING: &str = "the application is being created";
    pub const UNKNOWN: &str = "its status is not known yet";
    pub const NOT_COMPARED_WITH: &str = "it has not been compared with revision ";
    pub const SPEC_IS_WRITTEN: &str = "its new spec is being written";
    pub const NOT_COMPARED: &str = "its new spec has not been compared yet";
    pub const NO_COMPARISON: &str = "its comparison failed";
    pub const DENIED: &str = "a sync window denies it: ";
    pub const ANOTHER: &str = "another operation is running";
    pub const HELD: &str = "maxUpdate is 0: it waits for a manual sync";
    pub const IN_FLIGHT: &str = " are in flight";
    pub const FULL: &str =
        "as many Applications are in flight as the status of the ApplicationSet can hold";
    pub const NOW: &str = "it can start now";
    pub const TO_START: &str = "the operation to start";
    pub const UNHEALTHY: &str = "its health is now ";
}

/// Why an Application is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKind {
    /// It is being created.
    Creating,
    /// It could not be written.
    FailedWrite,
    /// Validation rejected it.
    Invalid,
    /// Its spec or revision has not been compared yet, or the comparison failed.
    Comparison,
    /// A person has synced it to something else (ST-065).
    HeldByPerson,
    /// A sync window denies its sync.
    SyncWindow,
    /// An operation of another client runs.
    OtherOperation,
    /// `maxUpdate` is 0.
    ManualSync,
    /// As many as `maxUpdate` allows are in flight.
    MaxUpdate,
    /// The status of the set can hold no more entries in flight.
    StatusFull,
    /// It can start now.
    Promotion,
    /// Its operation is requested and has not started.
    OperationStart,
    /// Its operation runs.
    Operation,
    /// Its operation failed.
    FailedOperation,
    /// It is not Healthy.
    Health,
}

impl WaitKind {
    /// All kinds, in the order of the declaration.
    pub const ALL: [Self; 15] = [
        Self::Creating,
        Self::FailedWrite,
        Self::Invalid,
        Self::Comparison,
        Self::HeldByPerson,
        Self::SyncWindow,
        Self::OtherOperation,
        Self::ManualSync,
        Self::MaxUpdate,
        Self::StatusFull,
        Self::Promotion,
        Self::OperationStart,
        Self::Operation,
        Self::FailedOperation,
        Self::Health,
    ];

    /// The kind of a wait by the reason that the status names, which has no field for the
    /// kind; `None` for a reason in the words of a resource or of an operation.
    pub fn of_reason(reason: &str) -> Option<Self> {
        let starts: [(&str, Self); 16] = [
            (text::CREATING, Self::Creating),
            (text::UNKNOWN, Self::Creating),
            (super::NOT_CREATED, Self::FailedWrite),
            (super::NOT_WRITTEN, Self::FailedWrite),
            (super::NOT_STARTED, Self::FailedWrite),
            (super::gate::INVALID, Self::Invalid),
            (text::NOT_COMPARED_WITH, Self::Comparison),
            (text::SPEC_IS_WRITTEN, Self::Comparison),
            (text::NOT_COMPARED, Self::Comparison),
            (text::NO_COMPARISON, Self::Comparison),
            (super::held::HELD, Self::HeldByPerson),
            (text::DENIED, Self::SyncWindow),
            (text::ANOTHER, Self::OtherOperation),
            (text::HELD, Self::ManualSync),
            (text::FULL, Self::StatusFull),
            (text::UNHEALTHY, Self::Health),
        ];
        if let Some((_, kind)) = starts.into_iter().find(|(start, _)| reason.starts_with(start)) {
            return Some(kind);
        }
        match reason {
            text::NOW => Some(Self::Promotion),
            _ if reason.starts_with(text::TO_START) => Some(Self::OperationStart),
            _ if reason.ends_with(text::IN_FLIGHT) => Some(Self::MaxUpdate),
            _ if Mark::says_that_a_sync_is_needed(reason) => Some(Self::FailedOperation),
            _ => None,
        }
    }

    /// Whether the application controller ends the wait, by a comparison or a sync.
    pub(super) const fn is_for_the_controller(self) -> bool {
        match self {
            Self::Comparison
            | Self::OtherOperation
            | Self::OperationStart
            | Self::Operation
            | Self::FailedOperation
            | Self::Health => true,
            Self::Creating
            | Self::FailedWrite
            | Self::Invalid
            | Self::HeldByPerson
            | Self::SyncWindow
            | Self::ManualSync
            | Self::MaxUpdate
            | Self::StatusFull
            | Self::Promotion => false,
        }
    }

    /// The kind as the value of a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::FailedWrite => "FailedWrite",
            Self::Invalid => "Invalid",
            Self::Comparison => "Comparison",
            Self::HeldByPerson => "HeldByPerson",
            Self::SyncWindow => "SyncWindow",
            Self::OtherOperation => "OtherOperation",
            Self::ManualSync => "ManualSync",
            Self::MaxUpdate => "MaxUpdate",
            Self::StatusFull => "StatusFull",
            Self::Promotion => "Promotion",
            Self::OperationStart => "OperationStart",
            Self::Operation => "Operation",
            Self::FailedOperation => "FailedOperation",
            Self::Health => "Health",
        }
    }

    /// The kind of the wait for an entry that is not Healthy, in the order of the reasons
    /// that users see.
    pub(super) fn of_entry(
        entry: &Entry,
        seen: &Observed,
        limit: Limit,
        in_flight: u64,
        is_full: bool,
    ) -> Self {
        let failed =
            entry.needs_a_sync() || seen.operation.as_ref().is_some_and(|last| last.has_failed());
        match entry.phase {
            Phase::Waiting if entry.is_held() => Self::HeldByPerson,
            Phase::Waiting if seen.has_operation_in_flight() => Self::OtherOperation,
            Phase::Waiting if limit == Limit::AtMost(0) => Self::ManualSync,
            Phase::Waiting
                if seen.spec_differs
                    || seen.compared != Compared::Current
                    || !seen.knows_its_revisions() =>
            {
                Self::Comparison
            }
            Phase::Waiting if !limit.has_room(in_flight) => Self::MaxUpdate,
            Phase::Waiting if is_full => Self::StatusFull,
            Phase::Waiting => Self::Promotion,
            Phase::Pending => Self::OperationStart,
            Phase::Progressing | Phase::Healthy if seen.has_operation_in_flight() => {
                Self::Operation
            }
            Phase::Progressing | Phase::Healthy if failed => Self::FailedOperation,
            Phase::Progressing | Phase::Healthy => Self::Health,
        }
    }
}

impl Counts {
    /// The counts of entries; waits are added by [`Self::wait`].
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut counts = Self::default();
        for entry in entries {
            *counts.applications.entry((entry.step, entry.phase)).or_default() += 1;
        }
        counts
    }
}

/// Adds a wait.
pub(super) fn add(waits: &mut BTreeMap<WaitKind, Wait>, kind: WaitKind, since: Option<Timestamp>) {
    let wait = waits.entry(kind).or_default();
    wait.count += 1;
    wait.since = [wait.since, since].into_iter().flatten().min();
}
