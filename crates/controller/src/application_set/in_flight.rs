//! How many Applications of each set are in flight, for limits that sets share (`maxInFlight`,
//! ST-030).
//!
//! A set takes its share while it decides, under the lock of [`Ledger::share`], and what it gives
//! back is free only once its status says so: whatever fails or crashes in between, more is
//! counted, never less. After a restart, a set that has not decided yet is counted from its
//! status and its Applications.
//!
//! Sets take turns: of those that wait, the one whose last promotion is the oldest goes first, so
//! that one Application does not wait for a fleet. Who decides leaves a place to each set that goes
//! first, and after a promotion of its own to each that waits.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use wavegate_api::application_set::RolloutStatus;
use wavegate_api::listed::ListedApplication;
use wavegate_api::policy::RolloutPolicySpec;
use wavegate_api::run::RunStart;
use wavegate_api::{ObjectKey, read_leniently};
use wavegate_cluster::watch::control_plane::ControlPlane;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::policy::policy_selects;
use wavegate_rollout::rollout::run_input::Pool;
use wavegate_rollout::rollout::status;
use wavegate_rollout::rollout::wait::WaitKind;

/// What each set takes.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    by: BTreeMap<ObjectKey, Share>,
    /// How many promotions there were.
    promotions: u64,
    /// Which policies select which sets, of the versions of both.
    selections: BTreeMap<(ObjectKey, ObjectKey), Selection>,
}

/// What a set takes.
#[derive(Clone, Debug, Default)]
struct Share {
    in_flight: u64,
    /// The policies whose limit it shares.
    pools: Vec<String>,
    /// Since when it waits for each of them that it waits for.
    waits_since: BTreeMap<String, Timestamp>,
    turn: Turn,
}

/// When a set was promoted from last: the number of that promotion among those of all sets, and
/// before the first one of this process its time as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64, Option<Timestamp>);

/// What a set has decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenPlaces<'a> {
    /// How many are in flight.
    pub in_flight: u64,
    /// Whether some were promoted.
    pub has_promoted: bool,
    /// The policies whose limit it waits for.
    pub waits: &'a [String],
}

/// Whether a policy selects a set.
#[derive(Debug)]
struct Selection {
    policy_version: String,
    set_version: String,
    is_selected: bool,
}

/// Held while a set decides.
pub struct Shares<'a>(MutexGuard<'a, Taken>);

impl Ledger {
    /// Keeps other sets from deciding, so that two do not take the same place.
    pub fn share(&self) -> Shares<'_> {
        Shares(self.0.lock())
    }

    /// What a set has given back is free: its status is stored. Returns whether there is any.
    pub fn settle(&self, set: &ObjectKey, in_flight: u64) -> bool {
        let mut taken = self.0.lock();
        let Some(share) = taken.by.get_mut(set) else { return false };
        let gives_back = in_flight < share.in_flight;
        share.in_flight = in_flight;
        gives_back
    }

    /// Forgets a deleted set.
    pub fn forget(&self, set: &ObjectKey) {
        let mut taken = self.0.lock();
        taken.by.remove(set);
        taken.selections.retain(|(_, selected), _| selected != set);
    }

    /// The other sets that wait for a limit that this one shares.
    pub fn waiting_beside(&self, set: &ObjectKey) -> Vec<ObjectKey> {
        let taken = self.0.lock();
        let Some(own) = taken.by.get(set).filter(|own| !own.pools.is_empty()) else {
            return Vec::new();
        };
        let waits = |(key, share): &(&ObjectKey, &Share)| {
            *key != set
                && key.namespace == set.namespace
                && share.waits_since.keys().any(|pool| own.pools.contains(pool))
        };
        taken.by.iter().filter(waits).map(|(key, _)| key.clone()).collect()
    }
}

impl Shares<'_> {
    /// What other sets take of these limits, by policy.
    pub fn pools(
        &mut self,
        set: &ObjectKey,
        limits: &[(String, u64)],
        plane: &ControlPlane,
    ) -> Vec<Pool> {
        if limits.is_empty() {
            return Vec::new();
        }
        let sets = plane.sets.keys().into_iter().filter(|key| key.namespace == set.namespace);
        let others: Vec<ObjectKey> = sets.filter(|key| key != set).collect();
        let own = self.0.by.entry(set.clone()).or_insert_with(|| stored(set, limits, plane));
        let own = own.clone();
        let pool = |(policy, max): &(String, u64)| {
            let mut pool = Pool {
                policy: policy.clone(),
                max: *max,
                elsewhere: 0,
                users: Vec::new(),
                reserved: 0,
                waiting: 0,
            };
            let key = ObjectKey::new(&set.namespace, policy);
            let never = Timestamp::MAX;
            let place = |share: &Share, name: &ObjectKey| {
                let since = share.waits_since.get(policy).copied().unwrap_or(never);
                (share.turn, since, name.clone())
            };
            let own = place(&own, set);
            for other in &others {
                if !self.0.is_selected(&key, other, plane) {
                    continue;
                }
                let share = self.0.by.entry(other.clone());
                let share = share.or_insert_with(|| stored(other, limits, plane));
                pool.elsewhere += share.in_flight;
                if share.in_flight > 0 {
                    pool.users.push((other.name.clone(), share.in_flight));
                }
                if share.waits_since.contains_key(policy) {
                    pool.waiting += 1;
                    pool.reserved += u64::from(place(share, other) < own);
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
        decided: TakenPlaces<'_>,
        now: Timestamp,
    ) {
        let TakenPlaces { in_flight, has_promoted, waits } = decided;
        let taken = &mut *self.0;
        let share = taken.by.entry(set.clone()).or_default();
        share.in_flight = share.in_flight.max(in_flight);
        share.pools = limits.iter().map(|(policy, _)| policy.clone()).collect();
        if has_promoted {
            taken.promotions += 1;
            share.turn = Turn(taken.promotions, None);
        }
        let since = |policy: &String| share.waits_since.get(policy).copied().unwrap_or(now);
        share.waits_since = waits.iter().map(|policy| (policy.clone(), since(policy))).collect();
    }
}

impl Taken {
    /// Whether a policy selects another set, as both are now: that one may not have decided since
    /// the policy came, or since one of them has changed.
    fn is_selected(&mut self, policy: &ObjectKey, set: &ObjectKey, plane: &ControlPlane) -> bool {
        let (Some(of), Some(object)) = (plane.policies.get(policy), plane.sets.get(set)) else {
            return false;
        };
        let (policy_version, set_version) = (of.resource_version(), object.resource_version());
        let known = self.selections.get(&(policy.clone(), set.clone()));
        let known = known.filter(|known| {
            known.policy_version == policy_version && known.set_version == set_version
        });
        if let Some(known) = known {
            return known.is_selected;
        }
        let is_selected = selects(&of, &object);
        let selection = Selection {
            policy_version: policy_version.to_owned(),
            set_version: set_version.to_owned(),
            is_selected,
        };
        self.selections.insert((policy.clone(), set.clone()), selection);
        is_selected
    }
}

/// Whether a policy selects a set. One that cannot be read selects none, as for the set itself.
pub(super) fn selects(policy: &StoredObject, set: &StoredObject) -> bool {
    #[derive(serde::Deserialize)]
    struct OfPolicy {
        #[serde(default)]
        spec: RolloutPolicySpec,
    }
    #[derive(serde::Deserialize)]
    struct OfSet {
        metadata: Labelled,
    }
    #[derive(serde::Deserialize)]
    struct Labelled {
        #[serde(default)]
        labels: Option<BTreeMap<String, String>>,
    }
    let (Ok(of), Ok(labels)) = (policy.read::<OfPolicy>(), set.read::<OfSet>()) else {
        return false;
    };
    let labels = labels.metadata.labels.unwrap_or_default();
    policy_selects(&of.spec.application_sets, set.name(), &labels).unwrap_or(false)
}

/// What a set takes that has not decided since the start, from what is stored: also whether it
/// waited, and when it was promoted from last.
fn stored(set: &ObjectKey, limits: &[(String, u64)], plane: &ControlPlane) -> Share {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct OfStatus {
        rollout: Option<RolloutStatus>,
    }
    let Some(object) = plane.sets.get(set) else { return Share::default() };
    let status: OfStatus = read_leniently(&object.status());
    let waits = status.rollout.into_iter().flat_map(|rollout| rollout.waiting_for);
    let waits = waits.filter(|wait| wait.kind == WaitKind::MaxInFlight.name());
    let since = waits.filter_map(|wait| wait.since).map(|since| since.0).min();
    let waits_since = limits.iter().filter_map(|(policy, _)| Some((policy.clone(), since?)));
    let owned = plane.applications.owned_by(object.uid());
    let started = owned.iter().filter_map(|application| RunStart::of(&application.parse()));
    Share {
        in_flight: count(set, plane),
        pools: Vec::new(),
        waits_since: waits_since.collect(),
        turn: Turn(0, started.filter_map(|start| start.at.parse().ok()).max()),
    }
}

/// How many Applications of a set are in flight, from what is stored.
fn count(set: &ObjectKey, plane: &ControlPlane) -> u64 {
    let Some(object) = plane.sets.get(set) else { return 0 };
    let entries = status::from_json(object.status().get("applicationStatus"));
    let owned = plane.applications.owned_by(object.uid());
    let in_flight = owned.iter().filter(|application| {
        let phase = entries.get(application.name()).map(|entry| entry.phase);
        phase.is_some_and(Phase::is_in_flight) || has_operation(application)
    });
    in_flight.count() as u64
}

fn has_operation(application: &StoredObject) -> bool {
    application.read_leniently::<ListedApplication>().has_operation()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_cluster::watch::control_plane::{Origin, WatchedScope};

    fn plane() -> ControlPlane {
        ControlPlane::new(WatchedScope {
            namespace: "argocd".to_owned(),
            sets_everywhere: false,
            applications_everywhere: false,
            syncs: false,
        })
    }

    fn set(plane: &ControlPlane, name: &str, version: &str, team: &str) -> ObjectKey {
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {
                "name": name, "namespace": "argocd", "uid": name, "resourceVersion": version,
                "labels": {"team": team},
            },
        });
        plane.sets.wrote(object.into(), Origin::ApplicationSets);
        ObjectKey::new("argocd", name)
    }

    fn policy(plane: &ControlPlane, version: &str, team: &str) {
        let object = json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {
                "name": "p", "namespace": "argocd", "uid": "p", "resourceVersion": version,
            },
            "spec": {"applicationSets": {"matchLabels": {"team": team}}, "maxInFlight": 1},
        });
        plane.policies.wrote(object.into(), Origin::ApplicationSets);
    }

    /// A policy came, or began to select a set, and another set decided before that one: what was
    /// in flight there was not counted (ST-030).
    #[test]
    fn what_is_in_flight_counts_as_soon_as_a_policy_selects_it_as_st_030() {
        let (plane, ledger) = (plane(), Ledger::default());
        let (a, b) = (set(&plane, "a", "1", "x"), set(&plane, "b", "2", "x"));
        let limits = [("p".to_owned(), 1)];
        let now = Timestamp::UNIX_EPOCH;
        for (set, in_flight) in [(&a, 0), (&b, 1)] {
            ledger.share().take(set, &[], TakenPlaces { in_flight, ..TakenPlaces::default() }, now);
        }
        let elsewhere = || ledger.share().pools(&a, &limits, &plane)[0].elsewhere;
        assert_eq!(elsewhere(), 0, "there is no policy");
        policy(&plane, "3", "x");
        assert_eq!(elsewhere(), 1, "b has not decided since");
        policy(&plane, "4", "y");
        assert_eq!(elsewhere(), 0);
        set(&plane, "b", "5", "y");
        assert_eq!(elsewhere(), 1);
        ledger.settle(&b, 0);
        assert_eq!(elsewhere(), 0);
        ledger.forget(&b);
        assert!(ledger.0.lock().selections.is_empty());
    }

    /// A set that waits for one limit does not keep others from another one (ST-030).
    #[test]
    fn only_who_waits_for_a_limit_comes_first_as_st_030() {
        let (plane, ledger) = (plane(), Ledger::default());
        let (a, b) = (set(&plane, "a", "1", "x"), set(&plane, "b", "2", "x"));
        policy(&plane, "3", "x");
        let both = [("p".to_owned(), 1), ("other".to_owned(), 1)];
        let at = |second| Timestamp::from_second(second).unwrap();
        let reserved = || ledger.share().pools(&b, &both[..1], &plane)[0].reserved;
        let take = |set: &ObjectKey, limits: &[(String, u64)], waits: &[&str], second| {
            let waits: Vec<String> = waits.iter().map(|&policy| policy.to_owned()).collect();
            let decided = TakenPlaces { waits: &waits, ..TakenPlaces::default() };
            ledger.share().take(set, limits, decided, at(second));
        };
        take(&a, &both, &["other"], 1);
        assert_eq!(reserved(), 0, "it waits for the other one");
        take(&a, &both, &["p"], 2);
        assert_eq!((reserved(), ledger.waiting_beside(&b)), (1, vec![]));
        take(&b, &both[..1], &["p"], 3);
        assert_eq!((reserved(), ledger.waiting_beside(&b)), (1, vec![a.clone()]));
        take(&a, &both, &[], 4);
        assert_eq!(reserved(), 0);
    }

    /// A fleet that always waits was always the one that had waited for the longest (ST-030).
    #[test]
    fn sets_that_wait_take_turns_as_st_030() {
        let (plane, ledger) = (plane(), Ledger::default());
        let (a, b) = (set(&plane, "a", "1", "x"), set(&plane, "b", "2", "x"));
        policy(&plane, "3", "x");
        let limits = [("p".to_owned(), 1)];
        let at = |second| Timestamp::from_second(second).unwrap();
        let waits = ["p".to_owned()];
        let take = |set: &ObjectKey, has_promoted, second| {
            let decided = TakenPlaces { has_promoted, waits: &waits, ..TakenPlaces::default() };
            ledger.share().take(set, &limits, decided, at(second));
        };
        let reserved = |set: &ObjectKey| {
            let pool = ledger.share().pools(set, &limits, &plane).remove(0);
            (pool.reserved, pool.waiting)
        };
        take(&a, false, 1);
        take(&b, false, 2);
        assert_eq!((reserved(&a), reserved(&b)), ((0, 1), (1, 1)), "the longest wait");
        for (promoted, second) in [(&a, 3), (&b, 4), (&a, 4), (&b, 4)] {
            take(promoted, true, second);
            let first = if promoted == &a { &b } else { &a };
            assert_eq!((reserved(promoted), reserved(first)), ((1, 1), (0, 1)), "{promoted}");
        }
    }

    /// Whose turn it is was forgotten with the process.
    #[test]
    fn turns_are_kept_through_a_restart_as_st_030() {
        let plane = plane();
        for (name, at) in [("a", "2026-01-02T03:04:06Z"), ("b", "2026-01-02T03:04:05Z")] {
            let waiting = json!([{"application": "x", "kind": "MaxInFlight", "reason": "r",
                "since": "2026-01-02T03:04:04Z"}]);
            let object = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "metadata": {"name": name, "namespace": "argocd", "uid": name,
                    "resourceVersion": "1", "labels": {"team": "x"}},
                "status": {"rollout": {"step": 1, "steps": 1, "waitingFor": waiting}},
            });
            plane.sets.wrote(object.into(), Origin::ApplicationSets);
            let start = json!({"run": format!("{name}-1"), "spec": "s", "revisions": [], "at": at,
                "before": "Healthy", "good": [], "goesBack": false, "uid": "app"});
            let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "name": name, "uid": name, "controller": true});
            let application = json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": format!("{name}-app"), "namespace": "argocd", "uid": "app",
                    "resourceVersion": "1", "ownerReferences": [owner],
                    "annotations": {wavegate_api::annotations::RUN: start.to_string()}},
            });
            plane.applications.wrote(application.into(), Origin::ApplicationSets);
        }
        policy(&plane, "3", "x");
        let ledger = Ledger::default();
        let limits = [("p".to_owned(), 1)];
        let reserved = |name| {
            ledger.share().pools(&ObjectKey::new("argocd", name), &limits, &plane)[0].reserved
        };
        assert_eq!((reserved("a"), reserved("b")), (1, 0), "b was promoted from before a");
    }
}
