//! What a rollout waits for, and what it came to, in sentences. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::run;
use super::set::WatchedSet;
use super::state::OFF;
use super::text::{Style, StyledLine};
use crate::cli::console::commands::{TAKEN_BACK, take_back, wavegate};
use crate::cli::console::output::human;
use wavegate_rollout::requests::{Run, is_quarantined};
use wavegate_rollout::rollout::report::{
    ApplicationReport, Member, Report, ReportState, RolloutOutcome, Why,
};
use wavegate_rollout::rollout::wait::{OPERATION_START, WaitKind};

/// `12.3 s`; whole seconds without a fraction, and from a minute on `2m 5s`.
pub(in crate::cli) fn seconds(time: Duration) -> String {
    match time.subsec_millis() / 100 {
        _ if time.as_secs() >= 60 => {
            humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
        }
        0 => format!("{} s", time.as_secs()),
        tenths => format!("{}.{tenths} s", time.as_secs()),
    }
}

/// A wait with its age and its limit: `Deployment web for 35s of 5m (Progressing)`.
fn timed(
    detail: &str,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    now: Timestamp,
) -> String {
    let age = age(since, until, now);
    // Before the details, which may be cut.
    match detail.split_once(" (") {
        Some((what, rest)) => format!("{what}{age} ({rest}"),
        None => format!("{detail}{age}"),
    }
}

/// ` for 35s of 5m`; empty when the start is unknown.
fn age(since: Option<Timestamp>, until: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return String::new() };
    let between =
        |from: Timestamp, to: Timestamp| human(to.as_second().saturating_sub(from.as_second()));
    let limit = match until {
        Some(until) => format!(" of {}", between(since, until)),
        None => String::new(),
    };
    format!(" for {}{limit}", between(since, now))
}

/// What a set is waiting for, or its outcome, in one sentence.
pub(super) fn sentence(
    set: &WatchedSet,
    outcome: &RolloutOutcome,
    name: Option<&str>,
    now: Timestamp,
) -> StyledLine {
    let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let (style, text) = match outcome {
        RolloutOutcome::Complete if set.report.is_rolling() => {
            let outside = set.left_outside().map(|left| format!(" {left}")).unwrap_or_default();
            match set.run().and_then(|run| run::ended(run, &set.key())) {
                Some(ended) => (Style::Yellow, format!("{ended}.{outside}")),
                None if set.report.members.is_empty() => {
                    (Style::Yellow, "There is no Application: the generators find none.".to_owned())
                }
                None => (Style::Green, format!("All steps are complete.{outside}")),
            }
        }
        RolloutOutcome::Complete => {
            (Style::Green, "All Applications are Synced and Healthy.".to_owned())
        }
        RolloutOutcome::Running => match run_wait(set, now) {
            Some(text) => (Style::Yellow, text),
            None => (Style::Plain, waiting(set, now)),
        },
        RolloutOutcome::Blocked { .. }
        | RolloutOutcome::Manual { .. }
        | RolloutOutcome::Invalid { .. }
        | RolloutOutcome::RunEnded => (Style::Red, describe(set, outcome)),
    };
    StyledLine::of(Style::Plain, prefix).and(style, text)
}

/// What the run of a set waits for that its Applications do not say.
pub(super) fn run_wait(set: &WatchedSet, now: Timestamp) -> Option<String> {
    set.run().filter(|_| set.report.is_rolling()).and_then(|run| run::waits(run, &set.key(), now))
}

/// What the set is waiting for.
pub(in crate::cli) fn waiting(set: &WatchedSet, now: Timestamp) -> String {
    let report = &set.report;
    if let Some(text) = run_wait(set, now).filter(|_| !report.set.is_deleting) {
        return text;
    }
    if !report.set.status.exists && set.is_in_cluster && !report.set.is_deleting {
        return "Waiting for a controller: none has reconciled the set yet; check that one is running and \
                watches its namespace"
            .to_owned();
    }
    if report.state() == ReportState::Deleting {
        return "The set is being deleted".to_owned();
    }
    let Some(wait) = report.foremost() else { return "Waiting for the controllers".to_owned() };
    let (name, none) = (&wait.application, Member::default());
    let member = report.members.get(name).unwrap_or(&none);
    if let (Some(held), Some(live)) = (report.hold(member), &member.live) {
        let what = if live.is_stuck() { "failed" } else { "cannot continue by itself" };
        return format!("{name} {what}: {}", why(report, set.run(), name, &held));
    }
    let says = |live: &&ApplicationReport| {
        !live.doing.detail.is_empty() && (live.is_operating() || !live.is_partial())
    };
    let doing = member.live.as_ref().filter(says).map(|live| &live.doing);
    if let Some(doing) = doing.filter(|_| report.is_in_flight(member)) {
        let others = match report.in_flight().saturating_sub(1) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let stage = match (doing.stage.as_str(), doing.is_reason) {
            ("", _) | (_, true) => String::new(),
            (stage, false) => format!(" ({stage})"),
        };
        return format!("Waiting for {name}{others}{stage}: {}", detail(report, member, now));
    }
    let (since, until) = report.age_of(member);
    // The age says the limit.
    let is_limited = until.is_some() && wait.kind == WaitKind::OperationStart;
    let reason = if is_limited { OPERATION_START } else { &wait.message };
    format!("Waiting for {name}{}: {reason}", age(since, until, now))
}

/// What an Application waits for, with its age.
pub(super) fn detail(report: &Report, member: &Member, now: Timestamp) -> String {
    let Some(doing) = member.live.as_ref().map(|live| &live.doing) else { return String::new() };
    if doing.is_reason || doing.detail.is_empty() {
        return doing.detail.clone();
    }
    let (since, until) = report.age_of(member);
    // Without the words of the previous columns.
    let what = doing.awaited.as_ref().map_or(&doing.detail, |awaited| &awaited.resource);
    timed(what, since, until, now)
}

/// Why an Application does not continue by itself; of one that a person holds, with what ends
/// that: no sync to a target that a run was ended for.
pub(in crate::cli) fn why(report: &Report, run: Option<&Run>, name: &str, why: &Why) -> String {
    let Why { kind, message } = why;
    let live = report.members.get(name).and_then(|member| member.live.as_ref());
    match live.filter(|_| *kind == WaitKind::HeldByPerson) {
        Some(live) if run.is_some_and(|run| is_quarantined(run, name, live)) => {
            let retry = wavegate("retry", &report.set.namespace, name);
            format!("{message}; {TAKEN_BACK}; to roll the same out to it again: {retry}")
        }
        Some(live) => format!("{message}; {}", take_back(live, &report.set.namespace, name)),
        None => message.clone(),
    }
}

/// Outcome of an incomplete rollout, in one line.
pub(in crate::cli) fn describe(set: &WatchedSet, outcome: &RolloutOutcome) -> String {
    let place = |step: &Option<usize>| match step {
        Some(step) => format!("in step {}", step + 1),
        None => String::new(),
    };
    match outcome {
        RolloutOutcome::Blocked { step, application, why: cause, behind } => {
            let of_run = set.run().and_then(|run| match run.phase().has_ended() {
                true => run::ended(run, &set.key()),
                false => run::held(run, &set.key()),
            });
            if let Some(text) = of_run {
                return text;
            }
            let behind = match behind {
                0 => String::new(),
                1 => "; 1 Application is waiting for it".to_owned(),
                behind => format!("; {behind} Applications are waiting for it"),
            };
            let at = format!("Stopped {}", place(step));
            let why = why(&set.report, set.run(), application, cause);
            format!("{}: {application}: {why}{behind}", at.trim_end())
        }
        RolloutOutcome::Manual { step, applications } => {
            let who = wavegate_engine::names::some_of(applications.iter(), 3);
            match step {
                Some(step) => {
                    format!("Step {} waits for a manual sync of {who} (maxUpdate is 0)", step + 1)
                }
                None => format!("Waits for a manual sync of {who} (not automated)"),
            }
        }
        RolloutOutcome::Invalid { message, is_off: true } => {
            let message = if message.is_empty() { OFF } else { message };
            format!("Not rolled out in steps: {message}")
        }
        RolloutOutcome::Invalid { message, .. } => format!("Stopped by an error: {message}"),
        RolloutOutcome::RunEnded => {
            set.run().and_then(|run| run::ended(run, &set.key())).unwrap_or_default()
        }
        RolloutOutcome::Running | RolloutOutcome::Complete => String::new(),
    }
}
