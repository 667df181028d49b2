//! The kinds of waits, and who ends them.

/// Declares the kinds once, with their names.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)+) => {
        /// Why an Application is waited for: a closed list, for
        /// `status.rollout.waitingFor[].kind` and for metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum WaitKind {
            $($(#[$doc])* $kind,)+
        }

        impl WaitKind {
            /// All kinds, in the order of the declaration.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The kind as the status and labels of metrics name it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)+
                }
            }
        }
    };
}

kinds! {
    /// It is being created.
    Creating,
    /// It could not be written, which is tried again.
    FailedWrite,
    /// It must not be written: another owner has it, or a policy forbids it.
    Refused,
    /// Validation rejected it.
    Invalid,
    /// Its spec or revision has not been compared yet.
    Comparison,
    /// It has an error condition, such as for a source that cannot be read.
    ErrorCondition,
    /// A person has synced it to something else (ST-065).
    HeldByPerson,
    /// The set, or a policy of it, is paused (ST-020).
    Paused,
    /// Policies or runs cannot be read, so that it is not known whether a gate holds it (ST-006).
    Unreadable,
    /// A gate waits for people (ST-011).
    Approval,
    /// A gate waits for its time (ST-012).
    Soak,
    /// Too many have failed in the run (ST-042).
    FailureBudget,
    /// Its target was aborted (ST-060).
    Quarantined,
    /// It was taken back, and is held there (ST-061).
    HeldBack,
    /// The run is taken back (ST-061).
    RollingBack,
    /// The run skips it (ST-064).
    Skipped,
    /// A ramp or a limit for a label permits no more (ST-030).
    Pace,
    /// Several sets together have as many in flight as a policy permits (ST-030).
    MaxInFlight,
    /// A sync window denies its sync.
    SyncWindow,
    /// An annotation of it or of its cluster excludes it from reconciling (SE-380).
    Excluded,
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
    /// An operation waits until a person confirms its deletions.
    Confirmation,
    /// Its operation failed.
    FailedOperation,
    /// It is OutOfSync after its operation, and nothing syncs it again.
    OutOfSync,
    /// It is Degraded after its operation.
    Degraded,
    /// It is not Synced and Healthy yet.
    Health,
    /// It is being deleted.
    Deletion,
}

/// Who ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// A controller, the cluster, or time. Nobody has to act for the rollout to continue, although
    /// somebody may.
    Events,
    /// The end of another Application's turn: it is behind the limit of its step.
    Turn,
    /// A sync by a person.
    Sync,
    /// The word of a person that is asked for on purpose: an approval, or the end of a pause.
    /// Nothing is wrong.
    Word,
    /// A person, who removes the cause.
    Person,
}

impl WaitKind {
    /// The kind that a status names; `None` for another word, or none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Who ends the wait.
    pub const fn ended_by(self) -> EndedBy {
        match self {
            Self::Creating
            | Self::FailedWrite
            | Self::Comparison
            | Self::SyncWindow
            | Self::Excluded
            | Self::OtherOperation
            | Self::Promotion
            | Self::OperationStart
            | Self::Operation
            | Self::Health
            | Self::Soak
            | Self::RollingBack
            | Self::Deletion => EndedBy::Events,
            Self::MaxUpdate | Self::StatusFull | Self::Pace | Self::MaxInFlight => EndedBy::Turn,
            Self::ManualSync => EndedBy::Sync,
            Self::Refused
            | Self::Invalid
            | Self::ErrorCondition
            | Self::HeldByPerson
            | Self::Confirmation
            | Self::FailedOperation
            | Self::OutOfSync
            | Self::FailureBudget
            | Self::Quarantined
            | Self::HeldBack
            | Self::Skipped
            | Self::Unreadable
            | Self::Degraded => EndedBy::Person,
            Self::Paused | Self::Approval => EndedBy::Word,
        }
    }

    /// Whether it waits for the end of another Application's turn by a policy.
    pub const fn is_of_a_limit(self) -> bool {
        matches!(self, Self::Pace | Self::MaxInFlight)
    }

    /// Whether people want it to last, however long, so that it is never stalled.
    pub const fn is_wanted(self) -> bool {
        matches!(self, Self::Paused | Self::Approval | Self::Soak | Self::RollingBack)
    }

    /// Whether it is about an Application that was synced, and goes or went back.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::HeldBack | Self::RollingBack)
    }

    /// Whether the application controller has to act before the wait ends.
    pub(super) const fn is_for_the_controller(self) -> bool {
        match self {
            Self::Comparison
            | Self::ErrorCondition
            | Self::OtherOperation
            | Self::OperationStart
            | Self::Operation
            | Self::Confirmation
            | Self::FailedOperation
            | Self::OutOfSync
            | Self::Degraded
            | Self::Health => true,
            Self::Creating
            | Self::FailedWrite
            | Self::Refused
            | Self::Invalid
            | Self::HeldByPerson
            | Self::Paused
            | Self::Unreadable
            | Self::Approval
            | Self::Soak
            | Self::FailureBudget
            | Self::Quarantined
            | Self::HeldBack
            | Self::RollingBack
            | Self::Skipped
            | Self::Pace
            | Self::MaxInFlight
            | Self::SyncWindow
            | Self::Excluded
            | Self::ManualSync
            | Self::MaxUpdate
            | Self::StatusFull
            | Self::Promotion
            | Self::Deletion => false,
        }
    }
}
