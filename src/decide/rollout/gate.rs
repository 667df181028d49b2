//! Which steps are open, and what the first one that is not complete waits for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::budget::Limit;
use super::phase::{Compared, Entry, Observed, Phase, SourceKey};
use super::steps::Membership;
use super::{Snapshot, StepState, Waiting, limit_of};
use crate::api::SyncStatusCode;
use crate::decide::health;

/// Applications that have not been compared with a revision seen elsewhere.
pub type Behind = BTreeMap<String, Lag>;

/// What an Application has not been compared with, and whether to ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The revision that another Application saw.
    pub revision: String,
    /// Whether a new comparison may help: the last one is older than that
    /// revision. One that failed since is not asked for again, as it would
    /// fail again and again; whoever compares tries again by itself.
    pub refresh: bool,
}

/// The state of all steps in one pass (AS-330).
#[derive(Debug)]
pub struct Gate<'a> {
    steps: Vec<StepGate<'a>>,
    /// Steps before this one, and it, are open.
    last_open: usize,
    invalid: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug)]
struct StepGate<'a> {
    /// Its members, with what keeps each from being complete.
    members: Vec<(&'a str, Option<Obstacle>)>,
    limit: Limit,
}

/// What keeps an Application from being complete.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Obstacle {
    /// It does not exist yet.
    Missing,
    /// It was refused by validation, for this reason.
    Invalid(String),
    /// Its entry is not Healthy.
    Entry,
    /// It has not been compared with this revision yet.
    Behind(String),
    /// It was Healthy and is not now (only with the switch of AS-331).
    NoLongerHealthy(health::Status),
}

impl<'a> Gate<'a> {
    /// Computes which steps are open.
    pub fn new(
        snapshot: &Snapshot<'a>,
        memberships: &BTreeMap<String, Membership>,
        entries: &BTreeMap<String, Entry>,
        behind: &Behind,
    ) -> Self {
        let steps = snapshot.strategy.steps();
        let mut members: Vec<Vec<(&'a str, Option<Obstacle>)>> = vec![Vec::new(); steps.len()];
        let mut sizes = vec![0_u64; steps.len()];
        let mut invalid = BTreeMap::new();
        for (name, generated) in snapshot.generated {
            if let Some(reason) = &generated.invalid {
                invalid.insert(name.as_str(), reason.as_str());
            }
            let Some(membership) = memberships.get(name) else { continue };
            let obstacle = obstacle(snapshot, name, entries, behind);
            for step in &membership.steps {
                members[*step].push((name.as_str(), obstacle.clone()));
            }
            // An Application in several steps takes a place in its first only.
            if let Some(step) = membership.step() {
                sizes[step] += 1;
            }
        }
        let gates: Vec<StepGate<'a>> = members
            .into_iter()
            .zip(steps)
            .zip(sizes)
            .map(|((members, step), size)| StepGate { members, limit: limit_of(step, size) })
            .collect();
        let last_open = gates.iter().position(|gate| !gate.is_complete()).unwrap_or(gates.len());
        Self { steps: gates, last_open, invalid }
    }

    /// Whether Applications of this step may start.
    pub fn is_open(&self, step: usize) -> bool {
        step <= self.last_open
    }

    /// Whether validation accepted the Application.
    pub fn is_valid(&self, name: &str) -> bool {
        !self.invalid.contains_key(name)
    }

    /// How many of the step may be in flight.
    pub fn limit(&self, step: usize) -> Limit {
        self.steps.get(step).map_or(Limit::AtMost(0), |gate| gate.limit)
    }

    /// The number of steps.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// The first step that is not complete.
    pub fn first_incomplete(&self) -> Option<usize> {
        (self.last_open < self.steps.len()).then_some(self.last_open)
    }

    /// Each step's count, given how many are in flight.
    pub fn step_states(&self, in_flight: &[u64]) -> Vec<StepState> {
        let state = |(index, gate): (usize, &StepGate<'_>)| StepState {
            total: gate.members.len() as u64,
            complete: gate.members.iter().filter(|(_, obstacle)| obstacle.is_none()).count() as u64,
            in_flight: in_flight.get(index).copied().unwrap_or_default(),
            limit: gate.limit,
            open: self.is_open(index),
        };
        self.steps.iter().enumerate().map(state).collect()
    }

    /// Who keeps the first incomplete step from being complete, and why.
    pub fn waiting(
        &self,
        snapshot: &Snapshot<'_>,
        entries: &BTreeMap<String, Entry>,
        in_flight: &[u64],
    ) -> Vec<Waiting> {
        let Some(step) = self.first_incomplete() else { return Vec::new() };
        let in_flight = in_flight.get(step).copied().unwrap_or_default();
        let gate = &self.steps[step];
        let wait = |(name, obstacle): &(&'a str, Option<Obstacle>)| {
            let obstacle = obstacle.as_ref()?;
            let entry = entries.get(*name);
            let seen = snapshot.current.get(*name);
            let timeout = snapshot.settings.rules.progressing_timeout;
            let until = entry
                .filter(|entry| entry.phase == Phase::Pending)
                .and_then(|entry| entry.since.checked_add(timeout?).ok());
            let denied = snapshot.generated.get(*name).and_then(|app| app.denied.as_ref());
            let denied =
                denied.filter(|_| entry.is_some_and(|entry| entry.phase == Phase::Waiting));
            let until = denied.map_or(until, |denied| denied.until);
            let reason = match obstacle {
                Obstacle::Missing => "the application is being created".to_owned(),
                Obstacle::Invalid(reason) => format!("the application is invalid: {reason}"),
                Obstacle::Behind(revision) => with_detail(
                    &format!("it has not been compared with revision {revision} yet"),
                    seen.filter(|seen| seen.sync == SyncStatusCode::Unknown),
                ),
                Obstacle::NoLongerHealthy(status) => {
                    with_detail(&format!("its health turned {status:?}"), seen)
                }
                Obstacle::Entry if denied.is_some() => {
                    format!(
                        "a sync window denies it: {}",
                        denied.map_or("", |denied| &denied.reason)
                    )
                }
                Obstacle::Entry => match (entry, seen) {
                    (Some(entry), Some(seen)) => {
                        reason_of(entry, seen, gate.limit, in_flight, until)
                    }
                    _ => "its status is not known yet".to_owned(),
                },
            };
            Some(Waiting {
                application: (*name).to_owned(),
                step,
                reason,
                since: entry.map(|entry| entry.since),
                until,
            })
        };
        gate.members.iter().filter_map(wait).collect()
    }
}

impl StepGate<'_> {
    fn is_complete(&self) -> bool {
        self.members.iter().all(|(_, obstacle)| obstacle.is_none())
    }
}

fn obstacle(
    snapshot: &Snapshot<'_>,
    name: &str,
    entries: &BTreeMap<String, Entry>,
    behind: &Behind,
) -> Option<Obstacle> {
    if let Some(reason) = snapshot.generated.get(name).and_then(|app| app.invalid.clone()) {
        return Some(Obstacle::Invalid(reason));
    }
    let (Some(seen), Some(entry)) = (snapshot.current.get(name), entries.get(name)) else {
        return Some(Obstacle::Missing);
    };
    if entry.phase != Phase::Healthy {
        return Some(Obstacle::Entry);
    }
    if let Some(lag) = behind.get(name) {
        return Some(Obstacle::Behind(lag.revision.clone()));
    }
    (snapshot.settings.require_live_health && seen.health != health::Status::Healthy)
        .then_some(Obstacle::NoLongerHealthy(seen.health))
}

/// Says what one Application of the open step waits for.
fn reason_of(
    entry: &Entry,
    seen: &Observed,
    limit: Limit,
    in_flight: u64,
    until: Option<Timestamp>,
) -> String {
    match entry.phase {
        Phase::Waiting if seen.has_operation_in_flight() => {
            with_detail("another operation is under way", Some(seen))
        }
        Phase::Waiting if limit == Limit::AtMost(0) => {
            let wait = "maxUpdate is 0: it waits for a manual sync";
            match &seen.operation {
                // One of before says nothing of what is waited for now.
                Some(last) if last.has_failed() && last.revisions == seen.revisions => {
                    format!("{wait}; the last one failed: {}", last.message)
                }
                Some(_) | None => wait.to_owned(),
            }
        }
        Phase::Waiting if seen.spec_differs => "its new spec is being written".to_owned(),
        Phase::Waiting if seen.compared != Compared::Current => {
            with_detail("its new spec has not been compared yet", Some(seen))
        }
        Phase::Waiting if !seen.knows_its_revisions() => {
            with_detail("its comparison failed", Some(seen))
        }
        Phase::Waiting if !limit.has_room(in_flight) => match limit {
            Limit::AtMost(limit) => format!("{in_flight} of {limit} are in flight"),
            Limit::Unlimited => "its turn".to_owned(),
        },
        Phase::Waiting => with_detail(&entry.message, Some(seen)),
        Phase::Pending => match until {
            Some(until) => format!("the operation to start, until {until} at most"),
            None => "the operation to start".to_owned(),
        },
        Phase::Progressing | Phase::Healthy => {
            with_detail(&format!("{:?}, {:?}", seen.sync, seen.health), Some(seen))
        }
    }
}

fn with_detail(what: &str, seen: Option<&Observed>) -> String {
    match seen.map(|seen| seen.detail.as_str()) {
        Some(detail) if !detail.is_empty() => format!("{what}: {detail}"),
        _ => what.to_owned(),
    }
}

/// Applications that should have seen a revision that another one with the
/// same source has seen since they were last compared.
///
/// A new commit is noticed by one Application before the next. The one that
/// has not noticed reports the old revision, Synced and Healthy, and would let
/// its step pass: that is how production was rolled out before development.
///
/// A comparison that failed says nothing of revisions: what such a status still
/// names is what was known before. It is no evidence against others, and the
/// Application is behind until it was compared with what they saw.
pub fn behind(current: &BTreeMap<String, Observed>, stored: &BTreeMap<String, Entry>) -> Behind {
    let mut newest: BTreeMap<&SourceKey, (Timestamp, BTreeSet<&str>)> = BTreeMap::new();
    for (key, at, revision) in current.values().flat_map(sightings) {
        let (newest_at, revisions) = newest.entry(key).or_insert((at, BTreeSet::new()));
        if *newest_at < at {
            *newest_at = at;
            revisions.clear();
        }
        if *newest_at == at {
            revisions.insert(revision);
        }
    }
    let seen_elsewhere = |key: &SourceKey, revision: &str| {
        let (newest_at, revisions) = newest.get(key)?;
        let other = revisions.iter().find(|newest| **newest != revision)?;
        Some((*newest_at, *other, revisions.contains(revision)))
    };
    let lag = |name: &String, seen: &Observed| {
        if seen.sync == SyncStatusCode::Unknown {
            let known = match stored.get(name) {
                Some(entry) if seen.revisions.is_empty() => &entry.target_revisions,
                Some(_) | None => &seen.revisions,
            };
            let comparable =
                seen.compared == Compared::Current && seen.sources.len() == known.len();
            return seen.sources.iter().zip(known).filter(|_| comparable).find_map(
                |(key, known)| {
                    let (newest_at, other, also_known) = seen_elsewhere(key, known)?;
                    let refresh = seen.reconciled_at.is_some_and(|at| at < newest_at);
                    (!also_known).then(|| Lag { revision: other.to_owned(), refresh })
                },
            );
        }
        sightings(seen).find_map(|(key, at, revision)| {
            // Within one second nobody can tell which of two revisions is the
            // newer one, so both are looked at again.
            let (newest_at, other, _) = seen_elsewhere(key, revision)?;
            (at <= newest_at).then(|| Lag { revision: other.to_owned(), refresh: true })
        })
    };
    current.iter().filter_map(|(name, seen)| Some((name.clone(), lag(name, seen)?))).collect()
}

fn sightings(seen: &Observed) -> impl Iterator<Item = (&SourceKey, Timestamp, &str)> {
    let comparable = seen.compared == Compared::Current
        && seen.sync != SyncStatusCode::Unknown
        && seen.sources.len() == seen.revisions.len();
    let at = seen.reconciled_at.filter(|_| comparable);
    at.into_iter().flat_map(|at| {
        let pairs = seen.sources.iter().zip(&seen.revisions);
        pairs.map(move |(key, revision)| (key, at, revision.as_str()))
    })
}
