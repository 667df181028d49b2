//! What holds a step while none of its Applications is in flight.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::timeline::{GateKind, GateLine, Opening, SetLine, StepLine, Timeline};
use wavegate_rollout::rollout::wait::{EndedBy, WaitKind};
use wavegate_simulation::SpanKind;

/// The time in which a step was open in a run.
pub(super) struct Window<'a> {
    pub timeline: &'a Timeline,
    pub set: &'a SetLine,
    pub step: &'a StepLine,
    /// Counted from 1.
    pub number: usize,
    pub opening: Opening,
    pub from: Timestamp,
    pub until: Timestamp,
}

/// A gate opens at the end of its soak within this time: a controller acts, and the times are
/// stored as whole seconds.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// What holds a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A gate, with what it still waits for.
    Gate {
        /// Its name.
        name: String,
        /// Whether it soaks.
        soaks: bool,
        /// Whether approvals are missing.
        lacks_approvals: bool,
    },
    /// Applications go back to what was deployed before, also those of other steps.
    WayBack,
    /// Something else.
    Wait(WaitKind),
}

/// A time in which the same holds a step.
pub(super) struct Interval {
    pub from: Timestamp,
    pub until: Timestamp,
    /// What holds it; none while Applications are in flight or about to be.
    pub causes: Vec<Cause>,
    /// The limits for which some of its Applications wait.
    pub limits: Vec<WaitKind>,
}

/// A time with its end.
type Time = (Timestamp, Timestamp);

/// The intervals of a window, one after the other.
pub(super) fn intervals(window: &Window<'_>) -> Vec<Interval> {
    let busy = busy(window);
    let gates: Vec<GateTimes<'_>> = (window.step.gates.iter())
        .filter(|gate| gate.run == window.opening.run)
        .map(|gate| GateTimes::of(gate, window.until))
        .collect();
    let of_gates = gates.iter().flat_map(|gate| [gate.soak, gate.approvals]).flatten();
    let times = busy.iter().copied().chain(of_gates).flat_map(|(from, until)| [from, until]);
    let way_back = way_back(window.set);
    let times = times.chain(way_back.into_iter().flat_map(|(from, until)| [from, until]));
    let waits = &window.set.waits;
    let times = times.chain(waits.iter().map(|waits| waits.from));
    let mut bounds: BTreeSet<Timestamp> =
        times.filter(|time| window.from < *time && *time < window.until).collect();
    bounds.extend([window.from, window.until]);
    let bounds: Vec<Timestamp> = bounds.into_iter().collect();
    let interval = |pair: &[Timestamp]| {
        let [from, until] = [pair[0], pair[1]];
        let past = waits.partition_point(|waits| waits.from <= from);
        let kinds = past.checked_sub(1).map(|last| &waits[last].kinds);
        let kinds = || kinds.into_iter().flatten().copied();
        let causes = match (holds(way_back.as_slice(), from), holds(&busy, from)) {
            (true, _) => vec![Cause::WayBack],
            (false, true) => Vec::new(),
            (false, false) => {
                let gates = gates.iter().filter_map(|gate| gate.cause(from));
                gates.chain(kinds().filter(|kind| hold(*kind).is_some()).map(Cause::Wait)).collect()
            }
        };
        let limits = kinds().filter(|kind| kind.ended_by() == EndedBy::Turn).collect();
        Interval { from, until, causes, limits }
    };
    bounds.windows(2).map(interval).collect()
}

/// When Applications of the step are in flight: times in order that do not overlap.
fn busy(window: &Window<'_>) -> Vec<Time> {
    let spans = window.step.applications.iter().flat_map(|application| &application.spans);
    let active = spans.filter(|span| span.what.is_active());
    let mut times: Vec<Time> = active.map(|span| (span.from, span.until)).collect();
    times.sort_unstable();
    let mut all: Vec<Time> = Vec::new();
    for (from, until) in times {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => all.push((from, until)),
        }
    }
    all
}

/// From when until when a set goes back, one step after the other.
fn way_back(set: &SetLine) -> Option<Time> {
    let spans = set.steps.iter().flat_map(|step| &step.applications).flat_map(|one| &one.spans);
    let spans = spans.filter(|span| span.what == SpanKind::GoingBack);
    let times = spans.map(|span| (span.from, span.until));
    times.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// Whether a time is within one of these, which are in order.
fn holds(times: &[Time], at: Timestamp) -> bool {
    let past = times.partition_point(|(from, _)| *from <= at);
    past.checked_sub(1).is_some_and(|last| at < times[last].1)
}

/// What a gate waits for, and when.
struct GateTimes<'a> {
    gate: &'a GateLine,
    soak: Option<Time>,
    approvals: Option<Time>,
}

impl<'a> GateTimes<'a> {
    fn of(gate: &'a GateLine, end: Timestamp) -> Self {
        let until = gate.until().unwrap_or(end);
        let soaks_until = gate.soaks_until.map_or(until, |soak| soak.min(until));
        let has_soak = matches!(gate.what, GateKind::Soak | GateKind::Both);
        // When it opens at the end of its soak, all approvals were there before.
        let is_approved = gate.opened.is_some_and(|opened| opened <= soaks_until + SOON);
        let lacks_approvals = match gate.what {
            GateKind::Approval => true,
            GateKind::Both => !is_approved,
            GateKind::Soak => false,
        };
        Self {
            gate,
            soak: has_soak.then_some((gate.since, soaks_until)),
            approvals: lacks_approvals.then_some((gate.since, until)),
        }
    }

    /// What it waits for at a time, if anything.
    fn cause(&self, at: Timestamp) -> Option<Cause> {
        let holds = |time: Option<Time>| time.is_some_and(|(from, until)| from <= at && at < until);
        let (soaks, lacks_approvals) = (holds(self.soak), holds(self.approvals));
        let name = self.gate.name.clone();
        (soaks || lacks_approvals).then_some(Cause::Gate { name, soaks, lacks_approvals })
    }
}

/// What causes are in words, and what would shorten their time: all of them, when there are
/// several.
pub(super) fn words(causes: &[Cause]) -> (String, String) {
    let mut all: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for cause in causes {
        let (what, shorten) = match cause {
            Cause::Gate { name, soaks, lacks_approvals } => {
                let (soak, approval) = (
                    format!("the soak of gate {name}"),
                    format!("an earlier approval of gate {name}"),
                );
                match (soaks, lacks_approvals) {
                    (true, true) => (
                        format!("gate {name} soaks and waits for approvals"),
                        format!("{soak} together with an earlier approval of it"),
                    ),
                    (true, false) => (format!("gate {name} soaks"), soak),
                    (false, _) => (format!("gate {name} waits for approvals"), approval),
                }
            }
            Cause::WayBack => ("what was started goes back".to_owned(), String::new()),
            Cause::Wait(kind) => {
                let (what, shorten) = hold(*kind).unwrap_or_default();
                (what.to_owned(), shorten.to_owned())
            }
        };
        all.0.push(what);
        if !all.1.contains(&shorten) {
            all.1.push(shorten);
        }
    }
    (all.0.join(", "), all.1.join(", together with "))
}

/// What a wait is in words, and what would shorten it, if it holds Applications that could start
/// otherwise. Gates say themselves what they wait for.
fn hold(kind: WaitKind) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        WaitKind::Paused => ("the set or its policy is paused", "the pause"),
        WaitKind::SyncWindow => ("a sync window denies the syncs", "the sync window"),
        WaitKind::FailureBudget => ("too many have failed", "an earlier retry"),
        WaitKind::Quarantined => ("its targets are in quarantine", "an earlier retry"),
        WaitKind::HeldBack => ("it is held after it was taken back", "an earlier retry"),
        WaitKind::FailedOperation
        | WaitKind::Degraded
        | WaitKind::Deadline
        | WaitKind::OutOfSync => ("it waits for what has failed", "an earlier retry"),
        WaitKind::HeldByPerson => ("a person has synced it to something else", "an earlier retry"),
        WaitKind::ManualSync => ("it is synced by hand", "maxUpdate, which is 0"),
        WaitKind::Excluded => {
            ("an annotation excludes it from reconciling", "the annotation that excludes it")
        }
        WaitKind::Unreadable => ("its policies cannot be read", "policies that can be read"),
        WaitKind::Creating
        | WaitKind::FailedWrite
        | WaitKind::Refused
        | WaitKind::Invalid
        | WaitKind::Comparison
        | WaitKind::ErrorCondition
        | WaitKind::Approval
        | WaitKind::Soak
        | WaitKind::RollingBack
        | WaitKind::RollbackFailed
        | WaitKind::Skipped
        | WaitKind::Pace
        | WaitKind::MaxInFlight
        | WaitKind::OtherOperation
        | WaitKind::MaxUpdate
        | WaitKind::StatusFull
        | WaitKind::Promotion
        | WaitKind::OperationStart
        | WaitKind::Operation
        | WaitKind::Confirmation
        | WaitKind::Health
        | WaitKind::Deletion => return None,
    })
}
