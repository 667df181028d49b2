//! The kinds of waits, and who ends them.

/// Declares the kinds once, with their names: who ends a wait of this kind, and whether the
/// application controller has to act before it ends.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($ended_by:ident, $for_the_controller:literal),)+) => {
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

            /// Who ends the wait.
            pub const fn ended_by(self) -> EndedBy {
                match self {
                    $(Self::$kind => EndedBy::$ended_by,)+
                }
            }

            /// Whether the application controller has to act before the wait ends.
            pub(super) const fn is_for_the_controller(self) -> bool {
                match self {
                    $(Self::$kind => $for_the_controller,)+
                }
            }
        }
    };
}

kinds! {
    /// It is being created.
    Creating(Events, false),
    /// It could not be written, which is tried again.
    FailedWrite(Events, false),
    /// It must not be written: another owner has it, or a policy forbids it.
    Refused(Person, false),
    /// Validation rejected it.
    Invalid(Person, false),
    /// Its spec or revision has not been compared yet.
    Comparison(Events, true),
    /// It has an error condition, such as for a source that cannot be read.
    ErrorCondition(Person, true),
    /// A person has synced it to something else (ST-065).
    HeldByPerson(Person, false),
    /// The set, or a policy of it, is paused (ST-020).
    Paused(Word, false),
    /// Policies or runs cannot be read, so that it is not known whether a gate holds it (ST-006).
    Unreadable(Person, false),
    /// A gate waits for people (ST-011).
    Approval(Word, false),
    /// A gate waits for its time (ST-012).
    Soak(Events, false),
    /// Too many have failed in the run (ST-042).
    FailureBudget(Person, false),
    /// Its target was aborted (ST-060).
    Quarantined(Person, false),
    /// It was taken back, and is held there (ST-061).
    HeldBack(Person, false),
    /// The run is taken back (ST-061).
    RollingBack(Events, false),
    /// Its way back has failed, and the rollback holds (ST-062).
    RollbackFailed(Person, false),
    /// The run skips it (ST-064).
    Skipped(Person, false),
    /// A ramp or a limit for a label permits no more (ST-030).
    Pace(Turn, false),
    /// Several sets together have as many in flight as a policy permits (ST-030).
    MaxInFlight(Turn, false),
    /// A sync window denies its sync.
    SyncWindow(Events, false),
    /// An annotation of it or of its cluster excludes it from reconciling (SE-380).
    Excluded(Events, false),
    /// An operation of another client runs.
    OtherOperation(Events, true),
    /// `maxUpdate` is 0.
    ManualSync(Sync, false),
    /// As many as `maxUpdate` allows are in flight.
    MaxUpdate(Turn, false),
    /// The status of the set can hold no more entries in flight.
    StatusFull(Turn, false),
    /// It can start now.
    Promotion(Events, false),
    /// Its operation is requested and has not started.
    OperationStart(Events, true),
    /// Its operation runs.
    Operation(Events, true),
    /// An operation waits until a person confirms its deletions.
    Confirmation(Person, true),
    /// Its operation failed.
    FailedOperation(Person, true),
    /// It is not Healthy by the deadline of a policy (ST-040).
    Deadline(Person, true),
    /// It is OutOfSync after its operation, and nothing syncs it again.
    OutOfSync(Person, true),
    /// It is Degraded after its operation.
    Degraded(Person, true),
    /// It is not Synced and Healthy yet.
    Health(Events, true),
    /// It is being deleted.
    Deletion(Events, false),
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
        matches!(self, Self::HeldBack | Self::RollingBack | Self::RollbackFailed)
    }
}
