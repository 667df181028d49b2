//! The transitions of a run, for its history and for notifications.

use jiff::Timestamp;

use crate::notify;
use wavegate_api::Time;
use wavegate_api::run::{RolloutRunStatus, RunPhase, SkipRequest, TimelineEntry};
use wavegate_api::time::stored_time;

/// How many are kept.
const KEPT: usize = 50;

/// A transition to record.
#[derive(Clone, Debug, Default)]
pub(super) struct Transition {
    pub what: &'static str,
    pub subject: String,
    pub by: String,
    pub message: String,
}

/// Adds a transition.
pub(super) fn add(status: &mut RolloutRunStatus, transition: Transition, now: Timestamp) {
    let Transition { what, subject, by, message } = transition;
    status.transitions = notify::transition_count(status) + 1;
    status.timeline.push(TimelineEntry {
        at: Some(Time(stored_time(now))),
        what: what.to_owned(),
        subject,
        by,
        message: message.chars().take(300).collect(),
        ..TimelineEntry::default()
    });
    let surplus = status.timeline.len().saturating_sub(KEPT);
    status.timeline.drain(..surplus);
}

/// Who has asked for what, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requesters<'a> {
    pub skips: &'a [SkipRequest],
    /// The program that set the names to skip, where they are not by one of the requests.
    pub skip_manager: Option<&'a str>,
    /// The names that are skipped.
    pub skip: &'a [String],
    /// Whether the set is paused: a run may also end while it is.
    pub is_paused: bool,
    /// Who has paused the set, while it is paused by a person.
    pub paused_by: Option<&'a str>,
    /// Who has resumed it, while it is not.
    pub resumed_by: Option<&'a str>,
}

impl Requesters<'_> {
    /// Who has skipped an Application last, or taken it in again.
    fn of_skip(&self, application: &str, undo: bool) -> String {
        if let Some(manager) = self.skip_manager {
            return manager.to_owned();
        }
        let is_about = |one: &&SkipRequest| {
            one.undo == undo && one.applications.iter().any(|name| name == application)
        };
        let last = self.skips.iter().rev().find(is_about);
        last.map(|one| one.by.clone()).unwrap_or_default()
    }
}

/// Adds what differs between two states of a run. `is_well`: whether an Application is Healthy for
/// its target.
pub(super) fn compare(
    old: &RolloutRunStatus,
    new: &mut RolloutRunStatus,
    requesters: Requesters<'_>,
    is_well: impl Fn(&str) -> bool,
    now: Timestamp,
) {
    let mut found = Vec::new();
    for (number, step) in new.steps.iter().enumerate() {
        let before = old.steps.get(number);
        let subject = (number + 1).to_string();
        let was = |of: fn(&wavegate_api::run::RunStep) -> bool| before.is_some_and(of);
        if step.opened_at.is_some() && !was(|step| step.opened_at.is_some()) {
            let what = "StepOpened";
            found.push(Transition { what, subject: subject.clone(), ..Transition::default() });
        }
        if step.completed_at.is_some() && !was(|step| step.completed_at.is_some()) {
            let what = "StepCompleted";
            found.push(Transition { what, subject, ..Transition::default() });
        }
    }
    for gate in &new.gates {
        let before =
            old.gates.iter().find(|one| one.name == gate.name && one.policy == gate.policy);
        let given = before.map(|gate| gate.approved_by.as_slice()).unwrap_or_default();
        // One that counts again was said already, unless it was said to be void.
        let is_said = |by: &str| {
            let words = ["GateApproved", "ApprovalVoid"];
            let of_gate = |entry: &&TimelineEntry| {
                entry.subject == gate.name && entry.by == by && words.contains(&&*entry.what)
            };
            let last = old.timeline.iter().rev().find(of_gate);
            last.is_some_and(|last| last.what == "GateApproved")
        };
        for by in gate.approved_by.iter().filter(|by| !given.contains(by) && !is_said(by)) {
            let (what, subject) = ("GateApproved", gate.name.clone());
            found.push(Transition { what, subject, by: by.clone(), ..Transition::default() });
        }
        let known = before.map(|gate| gate.void.as_slice()).unwrap_or_default();
        for by in gate.void.iter().filter(|by| !known.contains(by)) {
            let message = "the approval was for other targets".to_owned();
            let (what, subject) = ("ApprovalVoid", gate.name.clone());
            found.push(Transition { what, subject, by: by.clone(), message });
        }
        let soaked = before.filter(|gate| !gate.is_open());
        let soaked = soaked.and_then(|gate| gate.soaking_since.as_ref());
        let goes_on = !new.phase.has_ended() && new.phase != RunPhase::RollingBack;
        if let Some(since) = soaked.filter(|_| goes_on && !gate.is_open())
            && gate.soaking_since.as_ref().is_none_or(|now| now.0 > since.0)
        {
            let (what, subject) = ("SoakRestarted", gate.name.clone());
            let message = "an Application of the earlier steps is not Healthy any more".to_owned();
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
        if gate.is_open() && before.is_none_or(|gate| !gate.is_open()) {
            let (what, subject) = ("GateOpened", gate.name.clone());
            found.push(Transition { what, subject, ..Transition::default() });
        }
    }
    for failure in &new.failures {
        if !old.failures.iter().any(|known| known.signature == failure.signature) {
            let subject = failure.applications.first().cloned().unwrap_or_default();
            let (what, message) = ("Failed", failure.message.clone());
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
    }
    for failure in &old.failures {
        let is_over = !new.failures.iter().any(|known| known.signature == failure.signature);
        if is_over && failure.applications.iter().all(|name| is_well(name)) {
            let subject = failure.applications.first().cloned().unwrap_or_default();
            let message = match failure.count {
                ..=1 => String::new(),
                count => format!("so have all {count} that failed in this way"),
            };
            let what = "Recovered";
            found.push(Transition { what, subject, message, ..Transition::default() });
        }
    }
    for skipped in new.skipped.iter().filter(|name| !old.skipped.contains(name)) {
        let (what, subject) = ("Skipped", skipped.clone());
        let by = requesters.of_skip(skipped, false);
        found.push(Transition { what, subject, by, ..Transition::default() });
    }
    // One that is gone, or that a list of names had no place for, is not taken in again.
    let is_taken_in =
        |name: &&String| !new.skipped.contains(name) && !requesters.skip.contains(name);
    for name in old.skipped.iter().filter(is_taken_in) {
        let by = requesters.of_skip(name, true);
        found.push(Transition {
            what: "Unskipped",
            subject: name.clone(),
            by,
            ..Transition::default()
        });
    }
    for message in new.without_effect.iter().filter(|text| !old.without_effect.contains(text)) {
        let (what, message) = ("WithoutEffect", message.clone());
        found.push(Transition { what, message, ..Transition::default() });
    }
    let (is_paused, was_paused) = (new.phase == RunPhase::Paused, old.phase == RunPhase::Paused);
    if was_paused && !requesters.is_paused {
        let by = requesters.resumed_by.unwrap_or_default().to_owned();
        found.push(Transition { what: "Resumed", by, ..Transition::default() });
    }
    if new.phase != old.phase || old.started_at.is_none() {
        let what = new.phase.as_str();
        let by = match is_paused {
            true => requesters.paused_by.unwrap_or_default().to_owned(),
            false => new.ended_by.clone(),
        };
        let message = new.message.clone();
        found.push(Transition { what, by, message, ..Transition::default() });
    }
    for transition in found {
        add(new, transition, now);
    }
}
