//! Counts of a rollout, for metrics (AS-603).

use std::collections::BTreeMap;

use super::phase::{Entry, Phase};
use super::wait::{KindCount, WaitKind};

/// Counts of one reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Applications by step, counted from 0, and phase.
    pub applications: BTreeMap<(Option<usize>, Phase), u64>,
    /// The Applications that the open step waits for, by the kind of the wait.
    pub waits: BTreeMap<WaitKind, KindCount>,
}

impl StepCounts {
    /// The counts of entries; the waits are the gate's.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut counts = Self::default();
        for entry in entries {
            *counts.applications.entry((entry.step, entry.phase)).or_default() += 1;
        }
        counts
    }
}
