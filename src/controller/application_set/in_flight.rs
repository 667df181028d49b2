//! How many Applications of each set are in flight, for limits that sets share (`maxInFlight`,
//! ST-030).
//!
//! A set takes its share while it decides, under the lock of [`Ledger::share`], and what it gives
//! back is free only once its status says so: whatever fails or crashes in between, more is
//! counted, never less. After a restart, a set that has not decided yet is counted from its
//! status and its Applications.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::policies::Reports;
use crate::api::{ObjectKey, OperationPhase};
use crate::decide::rollout::phase::Phase;
use crate::decide::rollout::status;
use crate::decide::rollout::steering::Pool;
use crate::watch::control_plane::ControlPlane;

/// What each set takes.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<ObjectKey, Share>>);

/// What a set takes.
#[derive(Clone, Debug, Default)]
struct Share {
    in_flight: u64,
    /// The policies whose limit it shares.
    pools: Vec<String>,
    /// Since when it waits for one of them.
    waits_since: Option<Timestamp>,
}

/// Held while a set decides.
pub struct Shares<'a>(MutexGuard<'a, BTreeMap<ObjectKey, Share>>);

impl Ledger {
    /// Keeps other sets from deciding, so that two do not take the same place.
    pub fn share(&self) -> Shares<'_> {
        Shares(self.0.lock())
    }

    /// What a set has given back is free: its status is stored. Returns whether there is any.
    pub fn settle(&self, set: &ObjectKey, in_flight: u64) -> bool {
        let mut shares = self.0.lock();
        let Some(share) = shares.get_mut(set) else { return false };
        let gives_back = in_flight < share.in_flight;
        share.in_flight = in_flight;
        gives_back
    }

    /// Forgets a deleted set.
    pub fn forget(&self, set: &ObjectKey) {
        self.0.lock().remove(set);
    }

    /// The other sets that wait for a limit that this one shares.
    pub fn waiting_beside(&self, set: &ObjectKey) -> Vec<ObjectKey> {
        let shares = self.0.lock();
        let Some(own) = shares.get(set).filter(|own| !own.pools.is_empty()) else {
            return Vec::new();
        };
        let waits = |(key, share): &(&ObjectKey, &Share)| {
            *key != set
                && key.namespace == set.namespace
                && share.waits_since.is_some()
                && share.pools.iter().any(|pool| own.pools.contains(pool))
        };
        shares.iter().filter(waits).map(|(key, _)| key.clone()).collect()
    }
}

impl Shares<'_> {
    /// What other sets take of these limits, by policy.
    pub fn pools(
        &mut self,
        set: &ObjectKey,
        limits: &[(String, u64)],
        plane: &ControlPlane,
        policies: &Reports,
    ) -> Vec<Pool> {
        if limits.is_empty() {
            return Vec::new();
        }
        let sets = plane.sets.keys().into_iter().filter(|key| key.namespace == set.namespace);
        let others: Vec<ObjectKey> = sets.filter(|key| key != set).collect();
        let waits_since = self.0.get(set).and_then(|share| share.waits_since);
        let pool = |(policy, max): &(String, u64)| {
            let mut pool = Pool {
                policy: policy.clone(),
                max: *max,
                elsewhere: 0,
                users: Vec::new(),
                reserved: 0,
            };
            let key = ObjectKey::new(&set.namespace, policy);
            for other in others.iter().filter(|other| policies.may_select(&key, other)) {
                let share = self.0.entry(other.clone()).or_insert_with(|| Share {
                    in_flight: count(other, plane),
                    ..Share::default()
                });
                pool.elsewhere += share.in_flight;
                if share.in_flight > 0 {
                    pool.users.push((other.name.clone(), share.in_flight));
                }
                let is_first = |since: Timestamp| waits_since.is_none_or(|own| since < own);
                if share.pools.contains(policy) && share.waits_since.is_some_and(is_first) {
                    pool.reserved += 1;
                }
            }
            pool.users.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            pool
        };
        limits.iter().map(pool).collect()
    }

    /// Records what a set takes now: never less than before its status is stored.
    pub fn take(
        &mut self,
        set: &ObjectKey,
        limits: &[(String, u64)],
        in_flight: u64,
        waits: bool,
        now: Timestamp,
    ) {
        let share = self.0.entry(set.clone()).or_default();
        share.in_flight = share.in_flight.max(in_flight);
        share.pools = limits.iter().map(|(policy, _)| policy.clone()).collect();
        share.waits_since = waits.then(|| share.waits_since.unwrap_or(now));
    }
}

/// How many Applications of a set are in flight, from what is stored.
fn count(set: &ObjectKey, plane: &ControlPlane) -> u64 {
    let Some(object) = plane.sets.get(set) else { return 0 };
    let entries = status::from_json(object.parse_status()["status"].get("applicationStatus"));
    let owned = plane.applications.owned_by(object.uid());
    let in_flight = owned.iter().filter(|application| {
        let phase = entries.get(application.name()).map(|entry| entry.phase);
        phase.is_some_and(Phase::is_in_flight) || has_operation(&application.parse())
    });
    in_flight.count() as u64
}

fn has_operation(application: &Value) -> bool {
    let phase = application["status"]["operationState"]["phase"].as_str();
    application["operation"].is_object()
        || phase.is_some_and(|phase| OperationPhase::from_word(phase).is_running())
}
