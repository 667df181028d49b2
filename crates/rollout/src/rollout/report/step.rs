//! The steps of a rollout, in numbers of Applications.

use crate::rollout::budget::Limit;
use crate::rollout::snapshot::SlotCount;
use crate::rollout::steps::Step as Rule;
use crate::rollout::wait::StepCapacity;

/// A step; a set without steps has one that stands for all of its Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What selects its Applications, and `maxUpdate`.
    pub rule: Rule,
    /// Its Applications in numbers.
    pub count: Count,
}

impl Step {
    /// How many may be in flight.
    pub fn limit(&self) -> Limit {
        self.rule.max_update.limit(self.count.total)
    }

    /// How many may be in flight, and are.
    pub fn turn(&self) -> StepCapacity {
        let places = SlotCount { in_flight: self.count.promoted, kept: 0 };
        StepCapacity { limit: self.limit(), places, keeps_place: false, is_full: false }
    }
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// Its Applications wait for an earlier step.
    Closed,
    /// Its Applications may start.
    Open,
    /// It is complete.
    Done,
}

/// Numbers of Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub total: u64,
    /// Complete ones that are Synced and Healthy now.
    pub done: u64,
    /// Those that are syncing, or not Healthy yet after it.
    pub in_flight: u64,
    /// Those that count against `maxUpdate`.
    pub promoted: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.total += other.total;
        self.done += other.done;
        self.in_flight += other.in_flight;
        self.promoted += other.promoted;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.total -= other.total;
        self.done -= other.done;
        self.in_flight -= other.in_flight;
        self.promoted -= other.promoted;
    }
}
