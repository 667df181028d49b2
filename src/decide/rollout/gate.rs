//! Which steps are open, and what the first incomplete step is waiting for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::budget::Limit;
use super::counts::{self, WaitKind, text};
use super::phase::{Compared, Entry, Mark, Observed, Phase, SourceKey};
use super::{InFlight, Member, Row, Snapshot, StepState, WAITING_LIMIT, Waiting, Write};
use crate::api::SyncStatusCode;
use crate::decide::health;

/// The start of the reason of an Application that validation rejected.
pub const INVALID: &str = "the application is invalid";

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

/// Why an Application is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Obstacle<'a> {
    /// It does not exist yet.
    Missing,
    /// Validation rejected it for this reason.
    Invalid(&'a str),
    /// Its entry is not Healthy.
    Entry,
    /// It has not been compared with this revision yet.
    Behind(String),
    /// It was Healthy and no longer is (only with the setting of AS-331).
    NoLongerHealthy(health::Status),
}

/// The Applications that the rollout is waiting for.
pub(super) struct Waits {
    /// The first ones by name.
    pub first: Vec<Waiting>,
    /// How many there are.
    pub count: usize,
    /// Those that have been waited for too long, the first ones by name.
    pub stalled: Vec<Waiting>,
    /// All, by the kind of the wait.
    pub kinds: BTreeMap<WaitKind, counts::Wait>,
}

impl Gate {
    /// Computes which steps are open.
    pub fn new(snapshot: &Snapshot<'_>, rows: &[Row<'_>]) -> Self {
        let steps = snapshot.strategy.steps();
        let mut gates =
            vec![StepGate { total: 0, complete: 0, limit: Limit::AtMost(0) }; steps.len()];
        let mut sizes = vec![0_u64; steps.len()];
        for row in rows {
            let Some(membership) = row.member.steps else { continue };
            let is_complete = obstacle(snapshot, row).is_none();
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
        snapshot: &Snapshot<'_>,
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
        let moves = in_flight.per_step.get(step).is_some_and(|count| *count > 0);
        let limit = snapshot.settings.stalled_after();
        for row in rows.iter().filter(in_step) {
            let Some(obstacle) = obstacle(snapshot, row) else { continue };
            let wait = || self.wait(snapshot, row, &obstacle, step, in_flight);
            waits.count += 1;
            let kind = self.kind(row, &obstacle, step, in_flight);
            counts::add(&mut waits.kinds, kind, row.entry.as_ref().map(|entry| entry.since));
            if waits.first.len() < WAITING_LIMIT {
                waits.first.push(wait());
            }
            let Some(entry) = &row.entry else { continue };
            let since = entry.since.max(opened);
            let has_turn = entry.phase != Phase::Waiting || !moves;
            let is_stalled = has_turn && now.duration_since(since) >= limit;
            if is_stalled && waits.stalled.len() < WAITING_LIMIT {
                waits.stalled.push(Waiting { since: Some(since), ..wait() });
            }
        }
        waits
    }

    fn kind(
        &self,
        row: &Row<'_>,
        obstacle: &Obstacle<'_>,
        step: usize,
        in_flight: &InFlight,
    ) -> WaitKind {
        if row.member.unwritten.is_some() && write_of(row, obstacle).is_some() {
            return WaitKind::FailedWrite;
        }
        let (entry, seen) = match (obstacle, &row.entry, row.member.observed) {
            (Obstacle::Invalid(_), ..) => return WaitKind::Invalid,
            (Obstacle::Behind(_), ..) => return WaitKind::Comparison,
            (Obstacle::NoLongerHealthy(_), ..) => return WaitKind::Health,
            (Obstacle::Entry, Some(entry), Some(seen)) => (entry, seen),
            (Obstacle::Missing | Obstacle::Entry, ..) => return WaitKind::Creating,
        };
        if entry.phase == Phase::Waiting && row.member.denied.is_some() && !entry.is_held() {
            return WaitKind::SyncWindow;
        }
        let count = in_flight.per_step.get(step).copied().unwrap_or_default();
        WaitKind::of_entry(entry, seen, self.limit(step), count, in_flight.is_full)
    }

    fn wait(
        &self,
        snapshot: &Snapshot<'_>,
        row: &Row<'_>,
        obstacle: &Obstacle<'_>,
        step: usize,
        in_flight: &InFlight,
    ) -> Waiting {
        let (entry, seen) = (row.entry.as_ref(), row.member.observed);
        let timeout = snapshot.settings.rules.progressing_timeout;
        let until = entry
            .filter(|entry| entry.phase == Phase::Pending)
            .and_then(|entry| entry.since.checked_add(timeout?).ok());
        let is_waiting =
            entry.is_some_and(|entry| entry.phase == Phase::Waiting && !entry.is_held());
        let denied = row.member.denied.filter(|_| is_waiting);
        let until = denied.map_or(until, |denied| denied.until);
        // The next attempt of its operation, which is not started then.
        let attempt = seen.filter(|seen| seen.has_operation_in_flight() && denied.is_none());
        let until = until.or(attempt.and_then(|seen| seen.until));
        let reason = match (obstacle, denied) {
            (Obstacle::Missing, _) => text::CREATING.to_owned(),
            (Obstacle::Invalid(reason), _) => format!("{INVALID}: {reason}"),
            (Obstacle::Behind(revision), _) => with_detail(
                &format!("{}{revision} yet", text::NOT_COMPARED_WITH),
                seen.filter(|seen| seen.sync == SyncStatusCode::Unknown),
            ),
            (Obstacle::NoLongerHealthy(status), _) => {
                with_detail(&format!("{}{status:?}", text::UNHEALTHY), seen)
            }
            (Obstacle::Entry, Some(denied)) => {
                format!("{}{}", text::DENIED, denied.reason)
            }
            (Obstacle::Entry, None) => match (entry, seen) {
                (Some(entry), Some(seen)) => {
                    let count = in_flight.per_step.get(step).copied().unwrap_or_default();
                    let limit = self.limit(step);
                    reason_of(entry, seen, limit, count, in_flight.is_full, until)
                }
                _ => text::UNKNOWN.to_owned(),
            },
        };
        let reason = match row.member.excluded {
            Some(why) if self.kind(row, obstacle, step, in_flight).is_for_the_controller() => {
                format!("{reason}; {why}")
            }
            _ => reason,
        };
        let wait = Waiting {
            application: row.member.name.to_owned(),
            step,
            reason,
            since: entry.map(|entry| entry.since),
            until,
            write: write_of(row, obstacle),
        };
        match row.member.unwritten {
            Some(why) => wait.after_failure(why),
            None => wait,
        }
    }
}

/// The write that an Application waits for.
fn write_of(row: &Row<'_>, obstacle: &Obstacle<'_>) -> Option<Write> {
    let (entry, seen) = match (obstacle, &row.entry, row.member.observed) {
        (Obstacle::Missing, ..) => return Some(Write::Create),
        (Obstacle::Entry, Some(entry), Some(seen)) => (entry, seen),
        _ => return None,
    };
    let is_idle = !seen.has_operation_in_flight();
    match entry.phase {
        Phase::Waiting if is_idle && seen.spec_differs => Some(Write::Update),
        Phase::Pending if is_idle => Some(Write::Start),
        _ => None,
    }
}

fn obstacle<'a>(snapshot: &Snapshot<'_>, row: &Row<'a>) -> Option<Obstacle<'a>> {
    if let Some(reason) = row.member.invalid {
        return Some(Obstacle::Invalid(reason));
    }
    let (Some(seen), Some(entry)) = (row.member.observed, &row.entry) else {
        return Some(Obstacle::Missing);
    };
    if entry.phase != Phase::Healthy {
        return Some(Obstacle::Entry);
    }
    if let Some(lag) = &row.behind {
        return Some(Obstacle::Behind(lag.revision.clone()));
    }
    (snapshot.settings.require_live_health && seen.health != health::Status::Healthy)
        .then_some(Obstacle::NoLongerHealthy(seen.health))
}

/// The reason why one Application of the open step is waiting.
fn reason_of(
    entry: &Entry,
    seen: &Observed,
    limit: Limit,
    in_flight: u64,
    is_full: bool,
    until: Option<Timestamp>,
) -> String {
    match entry.phase {
        Phase::Waiting if entry.is_held() => entry.message.clone(),
        Phase::Waiting if seen.has_operation_in_flight() => with_detail(text::ANOTHER, Some(seen)),
        Phase::Waiting if limit == Limit::AtMost(0) => {
            let wait = text::HELD;
            match &seen.operation {
                // A failure of an earlier revision is not relevant for the
                // current one.
                Some(last) if last.has_failed() && last.revisions == seen.revisions => {
                    match seen.detail.as_str() {
                        "" => format!("{wait}; its sync failed: {}", last.message),
                        detail => format!("{wait}; {detail}"),
                    }
                }
                Some(_) | None if entry.mark == Some(Mark::SyncFailed) => {
                    format!("{wait}; {}", entry.message)
                }
                Some(_) | None => wait.to_owned(),
            }
        }
        Phase::Waiting if seen.spec_differs => text::SPEC_IS_WRITTEN.to_owned(),
        Phase::Waiting if seen.compared != Compared::Current => {
            with_detail(text::NOT_COMPARED, Some(seen))
        }
        Phase::Waiting if !seen.knows_its_revisions() => {
            with_detail(text::NO_COMPARISON, Some(seen))
        }
        Phase::Waiting if !limit.has_room(in_flight) => match limit {
            Limit::AtMost(limit) => format!("{in_flight} of {limit}{}", text::IN_FLIGHT),
            Limit::Unlimited => text::NOW.to_owned(),
        },
        Phase::Waiting if is_full => text::FULL.to_owned(),
        // It names what the sync failed on.
        Phase::Waiting if entry.mark == Some(Mark::SyncFailed) => entry.message.clone(),
        Phase::Waiting => with_detail(&entry.message, Some(seen)),
        Phase::Pending => match until {
            Some(until) => format!("{}, until {until} at most", text::TO_START),
            None => text::TO_START.to_owned(),
        },
        // A dry run or a sync of some resources has taken its place in the status.
        Phase::Progressing
            if entry.needs_a_sync()
                && seen.operation.as_ref().is_some_and(|last| last.is_partial) =>
        {
            entry.message.clone()
        }
        // The resource says more than the states of the Application.
        Phase::Progressing | Phase::Healthy if !seen.detail.is_empty() => seen.detail.clone(),
        Phase::Progressing | Phase::Healthy => format!("{:?}, {:?}", seen.sync, seen.health),
    }
}

fn with_detail(what: &str, seen: Option<&Observed>) -> String {
    match seen.map(|seen| seen.detail.as_str()) {
        Some(detail) if !detail.is_empty() => format!("{what}: {detail}"),
        _ => what.to_owned(),
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
