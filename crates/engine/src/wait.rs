//! The waits of both controllers: what each is for, and what ends it.
//!
//! A reconcile that leaves something to be done returns a [`Wait`]. There is none without
//! an end: it has a time, or the events that end it. A decision that waits until a time is
//! made again at that time; the controller keeps the time until then, whatever else
//! reconciles the object.

use std::time::Duration;

use jiff::Timestamp;

/// Declares an enum with the list of its variants.
macro_rules! listed {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }
    };
}

listed! {
    /// What a controller waits for.
    pub enum WaitFor {
        /// The back-off before the next attempt of an operation (SE-390).
        NextAttempt,
        /// Live objects of a running operation (SE-240).
        RunningOperation,
        /// A sync window that denies a requested operation (SE-410).
        OperationWindow,
        /// The inputs of an operation, which cannot be read.
        OperationInputs,
        /// Other Applications, which come first after many rounds of an operation.
        OtherApplications,
        /// Further changes of objects that have just changed.
        MoreChanges,
        /// A repository that cannot be read for a short time (SE-107).
        Repository,
        /// The repeated comparison after an error.
        FailedComparison,
        /// A valid and permitted spec (SE-031).
        ValidSpec,
        /// The back-off of self-heal (SE-426).
        SelfHeal,
        /// A sync window that denies an automated sync (SE-420).
        AutomatedSyncWindow,
        /// The next step of the deletion of an Application (SE-512).
        Deletion,
        /// The repeated step of a deletion after an error (SE-518).
        FailedDeletion,
        /// The next check of the revision (SE-378).
        Revision,
        /// Nothing is left to do for an Application.
        ApplicationChange,
        /// The Applications of a rollout.
        Rollout,
        /// The correction of a set (AS-505).
        ValidSet,
        /// The writes that were postponed to the next reconcile of a set.
        PostponedWrites,
        /// The time of the next write of a status.
        StatusWrite,
        /// The next reading of what the generators read.
        Generators,
        /// The Applications of a set that is being deleted (AS-167).
        SetDeletion,
        /// Nothing is left to do for a set.
        SetChange,
    }
}

listed! {
    /// An event that triggers a reconcile.
    pub enum WakeEvent {
        /// The Application changes: its spec, operation, or metadata.
        Application,
        /// A live object of the Application changes.
        LiveObject,
        /// The project of the Application changes, appears, or goes.
        Project,
        /// The Secret of a cluster or a repository changes, appears, or goes.
        Secret,
        /// The ApplicationSet, or something that it generates from or owns, changes.
        ApplicationSet,
    }
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// This time, unless an event comes first.
    At(Timestamp),
    /// One of these events.
    On(&'static [WakeEvent]),
}

/// A wait between two reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What it is for.
    pub reason: WaitFor,
    /// What ends it.
    pub ends: Ends,
}

impl Wait {
    /// A wait until a time.
    pub fn until(reason: WaitFor, at: Timestamp) -> Self {
        Self { reason, ends: Ends::At(at) }
    }

    /// A wait for this long.
    pub fn for_time(reason: WaitFor, time: Duration, now: Timestamp) -> Self {
        // Out of range is never, for all practical purposes.
        Self::until(reason, now.checked_add(time).unwrap_or(Timestamp::MAX))
    }

    /// A wait that only events end.
    pub fn on(reason: WaitFor, events: &'static [WakeEvent]) -> Self {
        Self { reason, ends: Ends::On(events) }
    }

    /// When it ends without an event; `None` for never.
    pub fn at(&self) -> Option<Timestamp> {
        match self.ends {
            Ends::At(at) => Some(at),
            Ends::On(_) => None,
        }
    }

    /// Whether its time has come.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at().is_some_and(|at| at <= now)
    }

    /// The one that ends first without an event.
    #[must_use]
    pub fn or_earlier(self, other: Self) -> Self {
        match (self.at(), other.at()) {
            (_, None) => self,
            (Some(own), Some(other)) if own <= other => self,
            _ => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_waits_the_earlier_one_counts() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let [early, late] = [1, 2].map(|second| Wait::until(WaitFor::SelfHeal, at(second)));
        let event = Wait::on(WaitFor::ApplicationChange, &[WakeEvent::Application]);
        for (one, other, expected) in
            [(early, late, early), (late, early, early), (event, late, late), (late, event, late)]
        {
            assert_eq!(one.or_earlier(other), expected);
        }
        // Of two at the same time, the first one.
        let same = Wait::until(WaitFor::Deletion, at(1));
        assert_eq!((early.or_earlier(same), same.or_earlier(early)), (early, same));
        assert!(early.is_due(at(1)) && !late.is_due(at(1)) && !event.is_due(at(9)));
        let never = Wait::for_time(WaitFor::SelfHeal, Duration::MAX, at(0));
        assert_eq!(never.at(), Some(Timestamp::MAX));
    }
}
