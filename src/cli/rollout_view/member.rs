//! One Application of a set: its phase, and whether it is complete or in flight.

use jiff::Timestamp;

use super::app_view::AppView;
use crate::api::application_set::RolloutPhase;
use crate::api::{HealthStatus, SyncStatusCode};
use crate::decide::rollout::steps::Labels;

/// One Application of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Member {
    /// Its step, counted from 0.
    pub step: Option<usize>,
    /// The last observed version; `None` when it does not exist.
    pub seen: Option<AppView>,
    /// Its rollout phase in the status of the set, and the start of this phase.
    pub phase: RolloutPhase,
    pub since: Option<Timestamp>,
    /// What a person has synced it to, while that holds it (ST-065).
    pub held: Option<String>,
    /// Its labels, when its step depends on them.
    pub(super) labels: Labels,
    /// It was seen to sync and has not completed since: the demo checks the limits by this,
    /// and not by what the controller reports.
    pub(super) has_begun: bool,
    /// A user started that sync: it says nothing about the limits of the rollout.
    pub by_hand: bool,
}

/// Number of Applications of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Count {
    pub total: u64,
    /// Complete ones.
    pub done: u64,
    /// Those that use the limit of their step.
    pub in_flight: u64,
    /// Those that were seen to sync and have not completed since, without manual syncs.
    pub observed: u64,
}

impl Count {
    pub(super) fn add(&mut self, other: Self) {
        self.total += other.total;
        self.done += other.done;
        self.in_flight += other.in_flight;
        self.observed += other.observed;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.total -= other.total;
        self.done -= other.done;
        self.in_flight -= other.in_flight;
        self.observed -= other.observed;
    }
}

impl Member {
    /// Whether it is complete: in a rollout Healthy by the status of the set, which also finds
    /// Applications in sync whose last operation has failed; without one, by that operation.
    pub(super) fn is_done(&self, rolling: bool) -> bool {
        let Some(seen) = &self.seen else { return false };
        match rolling {
            true => {
                self.phase == RolloutPhase::Healthy
                    && !seen.is_operating()
                    && seen.sync == SyncStatusCode::Synced
                    && seen.health == HealthStatus::Healthy
            }
            false => seen.is_done(),
        }
    }

    /// Whether it uses the limit of its step, from the current state only: it syncs, or its
    /// sync is over and its rollout phase is not.
    pub fn is_in_flight(&self, rolling: bool) -> bool {
        let seen = self.seen.as_ref();
        if seen.is_some_and(AppView::is_operating) {
            return true;
        }
        match self.current_phase() {
            _ if !rolling => seen.is_some_and(|seen| seen.health == HealthStatus::Progressing),
            RolloutPhase::Pending => true,
            // The status of the set follows its Applications.
            RolloutPhase::Progressing => !self.is_seen_done(),
            _ => false,
        }
    }

    /// Whether its whole sync has succeeded, and it is Synced and Healthy since.
    pub fn is_seen_done(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.is_done() && !seen.is_partial)
    }

    /// Its phase at the time of the last observation: the status of the set follows its
    /// Applications by up to a second.
    pub fn current_phase(&self) -> RolloutPhase {
        let seen = self.seen.as_ref();
        match self.phase {
            RolloutPhase::Pending if seen.is_some_and(|seen| seen.has_started(self.since)) => {
                RolloutPhase::Progressing
            }
            RolloutPhase::Waiting
                if seen.is_some_and(|seen| {
                    seen.operation.is_running() && seen.rollout_started.is_some()
                }) =>
            {
                RolloutPhase::Progressing
            }
            phase => phase,
        }
    }

    /// What it adds to the count of its step.
    pub(super) fn counts(&self, rolling: bool) -> Count {
        Count {
            total: 1,
            done: self.is_done(rolling).into(),
            in_flight: self.is_in_flight(rolling).into(),
            observed: (self.has_begun && !self.by_hand).into(),
        }
    }
}
