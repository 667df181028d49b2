//! Which steps are open, and what the first incomplete step is waiting for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::budget::Limit;
use super::phase::{Compared, Observed, Phase, SourceKey};
use super::wait::{self, KindCount, Turn, Unfinished, Wait, WaitKind};
use super::{InFlight, Member, RolloutSnapshot, Row, StepState, WAITING_LIMIT};
use crate::api::SyncStatusCode;

/// The revision that an Application has not been compared with, and whether to
/// request a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The revision that another Application has seen.
    pub revision: String,
    /// Whether a refresh may help: the last comparison is older than that
    /// revision. If a later comparison failed, no refresh is requested, as it
    /// would fail again; the application controller retries by itself.
    pub refresh: bool,
}

/// The state of all steps in one reconcile (AS-330).
#[derive(Debug)]
pub(super) struct Gate {
    steps: Vec<StepGate>,
    /// This step and all before it are open.
    last_open: usize,
}

#[derive(Clone, Copy, Debug)]
struct StepGate {
    total: u64,
    complete: u64,
    limit: Limit,
}

/// The Applications that the rollout is waiting for.
pub(super) struct Waits {
    /// The first ones by name.
    pub first: Vec<Wait>,
    /// How many there are.
    pub count: usize,
    /// Those that have been waited for too long, the first ones by name.
    pub stalled: Vec<Wait>,
    /// All, by the kind of the wait.
    pub kinds: BTreeMap<WaitKind, KindCount>,
}

impl Gate {
    /// Computes which steps are open.
    pub fn new(snapshot: &RolloutSnapshot<'_>, rows: &[Row<'_>]) -> Self {
        let steps = snapshot.strategy.steps();
        let mut gates =
            vec![StepGate { total: 0, complete: 0, limit: Limit::AtMost(0) }; steps.len()];
        let mut sizes = vec![0_u64; steps.len()];
        for row in rows {
            let Some(membership) = row.member.steps else { continue };
            let is_complete = wait::is_complete(row, snapshot.settings.require_live_health);
            for step in &membership.steps {
                let Some(gate) = gates.get_mut(*step) else { continue };
                gate.total += 1;
                gate.complete += u64::from(is_complete);
            }
            // An Application of several steps counts in its first step only.
            if let Some(size) = membership.step().and_then(|step| sizes.get_mut(step)) {
                *size += 1;
            }
        }
        for ((gate, step), size) in gates.iter_mut().zip(steps).zip(sizes) {
            gate.limit = step.max_update.limit(size);
        }
        let is_incomplete = |gate: &StepGate| gate.complete < gate.total;
        let last_open = gates.iter().position(is_incomplete).unwrap_or(gates.len());
        Self { steps: gates, last_open }
    }

    /// Whether Applications of this step may start.
    pub fn is_open(&self, step: usize) -> bool {
        step <= self.last_open
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
        let state = |(index, gate): (usize, &StepGate)| StepState {
            total: gate.total,
            complete: gate.complete,
            in_flight: in_flight.get(index).copied().unwrap_or_default(),
            limit: gate.limit,
            open: self.is_open(index),
        };
        self.steps.iter().enumerate().map(state).collect()
    }

    /// The Applications that keep the first incomplete step from being
    /// complete, with reasons; `since` is when the step opened.
    pub fn waiting(
        &self,
        snapshot: &RolloutSnapshot<'_>,
        rows: &[Row<'_>],
        in_flight: &InFlight,
        opened: Timestamp,
        now: Timestamp,
    ) -> Waits {
        let mut waits =
            Waits { first: Vec::new(), count: 0, stalled: Vec::new(), kinds: BTreeMap::new() };
        let Some(step) = self.first_incomplete() else { return waits };
        let in_step = |row: &&Row<'_>| {
            row.member.steps.is_some_and(|membership| membership.steps.contains(&step))
        };
        let count = in_flight.per_step.get(step).copied().unwrap_or_default();
        let moves = count > 0;
        let turn = Turn { limit: self.limit(step), in_flight: count, is_full: in_flight.is_full };
        let limit = snapshot.settings.stalled_after();
        let timeout = snapshot.settings.rules.progressing_timeout;
        for row in rows.iter().filter(in_step) {
            let live_health = snapshot.settings.require_live_health;
            let Some(unfinished) = Unfinished::of(row, turn, live_health) else { continue };
            waits.count += 1;
            let since = row.entry.as_ref().map(|entry| entry.since);
            wait::add(&mut waits.kinds, unfinished.kind, since);
            if waits.first.len() < WAITING_LIMIT {
                waits.first.push(unfinished.wait(step, timeout));
            }
            let Some(entry) = &row.entry else { continue };
            let since = entry.since.max(opened);
            let has_turn = entry.phase != Phase::Waiting || !moves;
            let is_stalled = has_turn && now.duration_since(since) >= limit;
            if is_stalled && waits.stalled.len() < WAITING_LIMIT {
                let wait = unfinished.wait(step, timeout);
                waits.stalled.push(Wait { since: Some(since), ..wait });
            }
        }
        waits
    }
}

/// For each member: the revision that another Application with the same source
/// has seen since this one was last compared.
///
/// A new commit is noticed by one Application before the next. The one that has
/// not noticed it reports the old revision as Synced and Healthy and would
/// complete its step: production would then be rolled out before development.
///
/// A failed comparison says nothing about revisions: its status still names
/// those known before. It is not used as evidence for other Applications, and
/// the Application is behind until it was compared with the revision that they
/// have seen.
pub(super) fn behind(members: &[Member<'_>]) -> Vec<Option<Lag>> {
    let newest = Newest::of(members);
    let lag = |member: &Member<'_>| {
        let seen = member.observed?;
        if seen.sync == SyncStatusCode::Unknown {
            let known = match member.entry {
                Some(entry) if seen.revisions.is_empty() => &entry.target_revisions,
                Some(_) | None => &seen.revisions,
            };
            let comparable =
                seen.compared == Compared::Current && seen.sources.len() == known.len();
            return seen.sources.iter().zip(known).filter(|_| comparable).find_map(
                |(key, known)| {
                    let (newest_at, other, also_known) = newest.elsewhere(key, known)?;
                    let refresh = seen.reconciled_at.is_some_and(|at| at < newest_at);
                    (!also_known).then(|| Lag { revision: other.to_owned(), refresh })
                },
            );
        }
        sightings(seen).find_map(|(key, at, revision)| {
            // Within one second the order of two revisions is unknown, so both
            // Applications are refreshed.
            let (newest_at, other, _) = newest.elsewhere(key, revision)?;
            (at <= newest_at).then(|| Lag { revision: other.to_owned(), refresh: true })
        })
    };
    members.iter().map(lag).collect()
}

/// The latest revisions of each source, and when they were seen.
struct Newest<'a>(BTreeMap<&'a SourceKey, (Timestamp, BTreeSet<&'a str>)>);

impl<'a> Newest<'a> {
    fn of(members: &[Member<'a>]) -> Self {
        let mut newest: BTreeMap<&SourceKey, (Timestamp, BTreeSet<&str>)> = BTreeMap::new();
        let seen = members.iter().filter_map(|member| member.observed);
        for (key, at, revision) in seen.flat_map(sightings) {
            let (newest_at, revisions) = newest.entry(key).or_insert((at, BTreeSet::new()));
            if *newest_at < at {
                *newest_at = at;
                revisions.clear();
            }
            if *newest_at == at {
                revisions.insert(revision);
            }
        }
        Self(newest)
    }

    /// A different latest revision of the source: when it was seen, which, and
    /// whether `revision` was seen at the same time.
    fn elsewhere(&self, key: &SourceKey, revision: &str) -> Option<(Timestamp, &'a str, bool)> {
        let (newest_at, revisions) = self.0.get(key)?;
        let other = revisions.iter().find(|newest| **newest != revision)?;
        Some((*newest_at, *other, revisions.contains(revision)))
    }
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
