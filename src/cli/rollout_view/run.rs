//! The run of a rollout in words: what it waits for, with the command that ends that, and how it
//! ended. Pure.
//!
//! Of a run that goes on without policies and failures nothing is said: its Applications say it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::cli::console::commands::{in_namespace, wavegate, word};
use crate::cli::console::output::human;
use wavegate_api::ObjectKey;
use wavegate_api::run::{Estimate, RunGate, RunPhase, TimelineEntry};
use wavegate_api::time::to_rfc3339;
use wavegate_engine::names::some_of;
use wavegate_rollout::requests::{
    Actor, RollbackScope, Run, Verdict, applications_text, paused_by_policies, rollback_run,
};
use wavegate_rollout::rollout::report::{Report, Set};
use wavegate_rollout::rollout::run::missing_approvals;

/// The latest run of a set, for the output.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RunSummary {
    pub name: String,
    pub phase: &'static str,
    /// Complete and total Applications, such as `3/14`.
    pub progress: String,
    pub failed: i64,
    /// How many Applications it skips, as far as it names them.
    pub skipped: usize,
    /// What it waits for, or how it ended.
    pub message: String,
    /// What failed last in a run that failures hold or that was ended; absent without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Since when it is in this phase; absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When the soak of a gate ends by itself; absent when none soaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The time that is left, in words; absent without a history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

impl RunSummary {
    /// Of a run that a controller has described; `None` before.
    pub fn of(run: &Run) -> Option<Self> {
        let status = &run.status;
        let estimate = status.estimate.as_ref().filter(|_| !run.phase().has_ended());
        run.is_known.then(|| Self {
            name: run.name.clone(),
            phase: run.phase().as_str(),
            progress: status.progress.clone(),
            failed: status.failed,
            skipped: status.skipped.len(),
            message: status.message.clone(),
            cause: cause(run),
            since: since(run).map(to_rfc3339),
            until: soaks_until(run).map(to_rfc3339),
            left: estimate.map(estimate_text),
        })
    }

    /// One line about it.
    pub fn text(&self, now: Timestamp) -> String {
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let until = self.until.as_deref().and_then(|until| until.parse().ok());
        let opens = until.map(|until| opens(until, now)).unwrap_or_default();
        let more = [self.message.as_str(), &opens, self.left.as_deref().unwrap_or_default()];
        let more: Vec<&str> = more.into_iter().filter(|part| !part.is_empty()).collect();
        let more = if more.is_empty() { String::new() } else { format!(": {}", more.join("; ")) };
        format!("run {} {} {}{failed}{more}", self.name, self.phase, self.progress)
    }

    /// How failures have ended it, with what failed: what waits since is fine. `None` for another
    /// one.
    pub fn ended_by_failures(&self) -> Option<String> {
        let how = match RunPhase::from_word(self.phase) {
            RunPhase::RollingBack => "is being taken back",
            RunPhase::RolledBack => "was taken back",
            RunPhase::Aborted => "was aborted",
            _ => return None,
        };
        let cause = self.cause.as_deref()?;
        Some(format!("run {} {how}: {cause}", self.name))
    }

    /// Whether it says more than the Applications do.
    pub fn is_of_interest(&self) -> bool {
        let plain = [RunPhase::Progressing, RunPhase::Complete, RunPhase::Superseded];
        // One that is complete names what it is complete without.
        let is_without = self.phase == RunPhase::Complete.as_str() && !self.message.is_empty();
        is_without || !plain.map(RunPhase::as_str).contains(&self.phase)
    }

    /// The phase, for a column.
    pub fn phase_text(&self) -> String {
        match (self.failed, self.skipped) {
            (0, 0) => self.phase.to_owned(),
            (failed, 0) => format!("{} ({failed} failed)", self.phase),
            (0, skipped) => format!("{} ({skipped} skipped)", self.phase),
            (failed, skipped) => format!("{} ({failed} failed, {skipped} skipped)", self.phase),
        }
    }
}

/// What failed last, with the revisions that were rolled out, in a run that failures hold, or that
/// was aborted or taken back: what waits then is fine. `None` for another one.
pub(in crate::cli) fn cause(run: &Run) -> Option<String> {
    let is_ended =
        matches!(run.phase(), RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack);
    let by_failures = run.status.ended_by == "Failures" || run.status.failed > 0;
    if !(is_ended && by_failures) && run.phase() != RunPhase::Held {
        return None;
    }
    // What fails afterwards, such as what was terminated, is no cause.
    let ends = [RunPhase::Held, RunPhase::Aborted, RunPhase::RollingBack].map(RunPhase::as_str);
    let timeline = &run.status.timeline;
    let end = timeline.iter().rposition(|entry| ends.contains(&entry.what.as_str()));
    let failure = |part: &'_ [TimelineEntry]| part.iter().rposition(|entry| entry.what == "Failed");
    let failed = end.and_then(|end| failure(&timeline[..end])).or_else(|| failure(timeline))?;
    let failed = &timeline[failed];
    let to: Vec<String> = run.status.to.iter().map(|to| short_revision(&to.revision)).collect();
    let at = match to.is_empty() {
        true => String::new(),
        false => format!(" at {}", some_of(to, REVISIONS)),
    };
    Some(format!("{} failed{at}: {}", failed.subject, failed.message))
}

/// The most revisions in a line.
const REVISIONS: usize = 3;

/// The first characters of the name of a commit, which Git prints; another revision as it is.
fn short_revision(revision: &str) -> String {
    let is_commit = revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit());
    revision.chars().take(if is_commit { 7 } else { usize::MAX }).collect()
}

/// That a set is paused by its annotation or by policies of its namespace, with the commands that
/// end it; `None` while its run says so, or when it is not.
pub(in crate::cli) fn paused(
    report: &Report,
    run: Option<&RunSummary>,
    set: &Value,
    policies: &[Arc<Value>],
) -> Option<String> {
    if run.is_some_and(|run| run.phase == RunPhase::Paused.as_str()) {
        return None;
    }
    let by = [paused_by_annotation(&report.set), paused_by_policies(set, policies)];
    let all: Vec<String> = by.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// That a set is paused by its annotation, with the command that ends it; `None` when it is not.
pub(in crate::cli) fn paused_by_annotation(set: &Set) -> Option<String> {
    let reason = set.paused.as_deref()?;
    let reason = if reason.is_empty() { "no reason given" } else { reason };
    let resume = wavegate("resume", &set.namespace, &set.name);
    Some(format!("paused: {reason}: nothing is promoted until {resume}"))
}

/// Since when a run is in its phase.
fn since(run: &Run) -> Option<Timestamp> {
    let mut entries = run.status.timeline.iter().rev();
    let last = entries.find(|entry| entry.what == run.phase().as_str());
    last.and_then(|entry| entry.at.as_ref()).map(|at| at.0)
}

/// When the last gate that soaks opens by itself.
fn soaks_until(run: &Run) -> Option<Timestamp> {
    let soaks = |gate: &&RunGate| !gate.is_open();
    let gates = run.status.gates.iter().filter(soaks);
    let until = gates.filter_map(|gate| gate.soaks_until.as_ref()).map(|until| until.0).max();
    until.filter(|_| run.phase() == RunPhase::Soaking)
}

fn opens(until: Timestamp, now: Timestamp) -> String {
    match between(now, until) {
        0 => "it opens now".to_owned(),
        left => format!("it opens in {}", human(left)),
    }
}

/// Whole seconds; 0 when the second time is not later.
fn between(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second().saturating_sub(from.as_second()).max(0)
}

/// What a run waits for that its Applications do not say, in one sentence: a pause, a gate,
/// failures, a way back; `None` for another one.
pub(in crate::cli) fn waits(run: &Run, of: &ObjectKey, now: Timestamp) -> Option<String> {
    let left = match run.phase() {
        // Its message names the command.
        RunPhase::Paused | RunPhase::AwaitingApproval => String::new(),
        RunPhase::Held | RunPhase::RollingBack => what_to_do(run, of),
        RunPhase::Soaking => match soaks_until(run) {
            Some(until) => format!("; {}", opens(until, now)),
            None => String::new(),
        },
        RunPhase::Progressing
        | RunPhase::Complete
        | RunPhase::CompleteWithFailures
        | RunPhase::Superseded
        | RunPhase::Aborted
        | RunPhase::RolledBack => return None,
    };
    let age = match since(run).map(|since| between(since, now)) {
        Some(age) => format!(" for {}", human(age)),
        None => String::new(),
    };
    let message = &run.status.message;
    Some(format!("Run {} is {}{age}: {message}{left}", run.name, run.phase()))
}

/// What holds a run that has failures, without its age: that is no news; `None` for another one.
pub(in crate::cli) fn held(run: &Run, of: &ObjectKey) -> Option<String> {
    let is_held = run.phase() == RunPhase::Held;
    let next = || what_to_do(run, of);
    is_held.then(|| format!("Run {} is Held: {}{}", run.name, run.status.message, next()))
}

/// How a run ended that left something to do: it was aborted or taken back, or is complete without
/// some Applications; `None` for another one.
pub(in crate::cli) fn ended(run: &Run, of: &ObjectKey) -> Option<String> {
    let Run { name, status, .. } = run;
    let by = match status.ended_by.as_str() {
        "" => String::new(),
        by => format!(" by {by}"),
    };
    // What is back has not failed any more: the timeline says what did.
    let failed = status.timeline.iter().rev().find(|entry| entry.what == "Failed");
    let failed = failed.filter(|_| run.phase() != RunPhase::Complete);
    let failed = failed.map(|entry| format!("; {} failed: {}", entry.subject, entry.message));
    let failed = failed.unwrap_or_default();
    let how = match run.phase() {
        RunPhase::Aborted => format!("was aborted{by}"),
        RunPhase::RolledBack => format!("was rolled back{by}"),
        RunPhase::CompleteWithFailures => "is complete".to_owned(),
        // Its message names what it is complete without.
        RunPhase::Complete if !status.message.is_empty() => "is complete".to_owned(),
        _ => return None,
    };
    let next = what_to_do(run, of);
    Some(format!("Run {name} {how}: {}{failed}{next}", status.message))
}

/// What a person may do, as the end of a sentence.
fn what_to_do(run: &Run, of: &ObjectKey) -> String {
    let all = commands(run, of).into_iter();
    all.map(|(what, command)| format!("; {what}: {command}")).collect()
}

/// What a person does about a run now, as commands; the first one is the most likely. Without a
/// look at its Applications, none is a rollback that may be refused but where failures hold it.
pub(in crate::cli) fn commands(run: &Run, of: &ObjectKey) -> Vec<(String, String)> {
    commands_within(run, of, None)
}

/// The same with what its Applications can go back to: no command is one that would be refused.
pub(in crate::cli) fn commands_within(
    run: &Run,
    of: &ObjectKey,
    reach: Option<&RollbackScope>,
) -> Vec<(String, String)> {
    let at = in_namespace(&of.namespace);
    let of = |verb: &str| wavegate(verb, &of.namespace, &of.name);
    let named = |what: &str, command: String| (what.to_owned(), command);
    let take_back = || named("to take back what was started", of("rollback"));
    match run.phase() {
        RunPhase::AwaitingApproval => {
            let lacking = run.status.gates.iter().filter(|gate| gate.missing() > 0);
            let lacking: Vec<&RunGate> = lacking.filter(|gate| gate.applications > 0).collect();
            // One whose time has not passed yet, or of a later step, is approved by its name.
            let is_reached = |gate: &&&RunGate| gate.waiting_since.is_some();
            let soaks = |gate: &&&RunGate| gate.soaks_until.is_some();
            let mut waiting: Vec<&RunGate> = lacking.iter().filter(is_reached).copied().collect();
            if waiting.is_empty() {
                waiting = lacking.iter().filter(soaks).copied().collect();
            }
            if waiting.is_empty() {
                waiting = lacking;
            }
            let gate = |gate: &RunGate| {
                let held = applications_text(gate.applications);
                let when = match &gate.soaks_until {
                    Some(until) if gate.waiting_since.is_none() => {
                        format!(", when its soak has ended at {},", to_rfc3339(until.0))
                    }
                    _ => String::new(),
                };
                let what = format!("to let go{when} {held} behind gate {}", gate.name);
                (what, format!("{} --gate {}", of("approve"), word(&gate.name)))
            };
            waiting.into_iter().map(gate).collect()
        }
        RunPhase::Paused => vec![named("to go on", of("resume"))],
        RunPhase::Held => {
            let mut all = vec![
                named("to start what failed again", of("retry")),
                named("to go on without one of them", {
                    let names = run.status.failures.iter().flat_map(|one| &one.applications);
                    let name =
                        names.map(|name| word(name)).next().unwrap_or_else(|| "APP".to_owned());
                    format!("wavegate skip {at}{name}")
                }),
            ];
            all.extend((reach.is_none() || can_go_back(run, reach)).then(take_back));
            all.push(named("to end it, and leave all as it is", of("abort")));
            all
        }
        RunPhase::RollingBack if run.status.failed > 0 => {
            vec![named("to repeat the ways back that failed", of("retry"))]
        }
        RunPhase::Aborted => {
            let back = can_go_back(run, reach).then(take_back);
            back.into_iter().chain([named("to roll the same out again", of("retry"))]).collect()
        }
        RunPhase::RolledBack => vec![named("to roll the same out again", of("retry"))],
        RunPhase::Progressing
        | RunPhase::Soaking
        | RunPhase::RollingBack
        | RunPhase::Complete
        | RunPhase::CompleteWithFailures
        | RunPhase::Superseded => Vec::new(),
    }
}

/// Whether a rollback would take back some Application.
fn can_go_back(run: &Run, reach: Option<&RollbackScope>) -> bool {
    let nobody = Actor { by: "", at: Timestamp::UNIX_EPOCH };
    reach.is_some() && matches!(rollback_run(run, reach, nobody), Verdict::Change { .. })
}

/// A transition of a run in words, for a log; `None` for what the Applications and the steps say.
pub(super) fn transition(run: &Run, entry: &TimelineEntry) -> Option<String> {
    let TimelineEntry { what, subject, by, message, .. } = entry;
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    let more = if message.is_empty() { String::new() } else { format!(": {message}") };
    let silent = [RunPhase::Progressing, RunPhase::Complete].map(RunPhase::as_str);
    match what.as_str() {
        "StepOpened" | "StepCompleted" | "Failed" | "Recovered" => None,
        "GateApproved" => Some(format!("gate {subject} is approved{by}")),
        "GateOpened" => Some(format!("gate {subject} opens")),
        "ApprovalVoid" => Some(format!("gate {subject}: what was approved{by} has changed{more}")),
        "Skipped" => Some(format!("{subject} is skipped{by}")),
        "Unskipped" => Some(format!("{subject} is taken in again{by}")),
        "Resumed" => Some(format!("run {} is resumed{by}", run.name)),
        "Retried" => Some(format!("run {}: retried{by}{more}", run.name)),
        "QuarantineEnded" | "BudgetExceeded" => Some(format!("run {}: {message}", run.name)),
        "SoakRestarted" => Some(format!("gate {subject}: its soak begins again{more}")),
        "WithoutEffect" => Some(format!("run {}: it has no effect{more}", run.name)),
        phase if silent.contains(&phase) => None,
        phase => Some(format!("run {} is {phase}{by}{more}", run.name)),
    }
}

/// What a gate waits for, with the command that ends it; empty for one that is open.
pub(in crate::cli) fn gate_text(gate: &RunGate, namespace: &str, set: &str) -> String {
    if gate.is_open() {
        return String::new();
    }
    let soak = gate
        .soaks_until
        .as_ref()
        .map(|until| format!("soaks until {}", to_rfc3339(until.0)))
        .unwrap_or_default();
    let approval = match gate.missing() {
        0 => String::new(),
        missing => format!(
            "waits, {}: {} --gate {}",
            missing_approvals(missing, gate.approvals),
            wavegate("approve", namespace, set),
            word(&gate.name)
        ),
    };
    let parts: Vec<String> = [soak, approval].into_iter().filter(|part| !part.is_empty()).collect();
    format!(
        "gate {} ({}) {}",
        gate.name,
        applications_text(gate.applications),
        if parts.is_empty() { "is shut".to_owned() } else { parts.join("; ") }
    )
}

/// The time that is left, in words.
pub(in crate::cli) fn estimate_text(estimate: &Estimate) -> String {
    let (least, most) = (human(estimate.least_seconds), human(estimate.most_seconds));
    let range = if least == most { least } else { format!("{least} to {most}") };
    let without = match estimate.without.as_slice() {
        [] => String::new(),
        parts => format!("; without {}", parts.join(", ")),
    };
    let runs =
        if estimate.runs == 1 { "1 run".to_owned() } else { format!("{} runs", estimate.runs) };
    match estimate.most_seconds {
        0 => format!("it takes longer than before, by {runs}{without}"),
        _ => format!("about {range} left, from {runs}{without}"),
    }
}
