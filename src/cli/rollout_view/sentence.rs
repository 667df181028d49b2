//! What a rollout waits for, and what it came to, in sentences. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::app_view::AppView;
use super::member::Member;
use super::outcome::Outcome;
use super::set::Set;
use super::set_status::Wait;
use super::text::{Line, Style};
use crate::api::application_set::RolloutPhase;
use crate::cli::rollout_summary::DONE;

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

/// A wait without the words of the previous columns.
fn short(detail: &str) -> &str {
    let bare = ["healthy state of ", "completion of hook "];
    bare.iter().find_map(|prefix| detail.strip_prefix(prefix)).unwrap_or(detail)
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
    let between = |from: Timestamp, to: Timestamp| {
        let seconds = to.as_second().saturating_sub(from.as_second());
        crate::age::human(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    };
    let limit = match until {
        Some(until) => format!(" of {}", between(since, until)),
        None => String::new(),
    };
    format!(" for {}{limit}", between(since, now))
}

/// What a set is waiting for, or its outcome, in one sentence.
pub(super) fn sentence(set: &Set, outcome: &Outcome, name: Option<&str>, now: Timestamp) -> Line {
    let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let (style, text) = match outcome {
        Outcome::Complete if set.plan.rolling => {
            let outside = set.left_outside().map(|left| format!(" {left}")).unwrap_or_default();
            (Style::Green, format!("All steps are complete.{outside}"))
        }
        Outcome::Complete => (Style::Green, "All Applications are Synced and Healthy.".to_owned()),
        Outcome::Running => (Style::Plain, waiting(set, now)),
        Outcome::Stopped { .. }
        | Outcome::Manual { .. }
        | Outcome::Invalid(_)
        | Outcome::Off(_) => (Style::Red, describe(outcome)),
    };
    Line::of(Style::Plain, prefix).and(style, text)
}

/// What the set is waiting for: a failed Application first, then what its status waits for,
/// as far as it has begun, then running operations, then the rest of its status.
pub(in crate::cli) fn waiting(set: &Set, now: Timestamp) -> String {
    if set.is_deleting {
        return "The set is being deleted".to_owned();
    }
    if !set.status.exists && set.is_in_cluster {
        return "Waiting for a controller: none has reconciled the set yet; check that one is running and \
                watches its namespace"
            .to_owned();
    }
    if let Some((name, member, why)) = set.first_failure() {
        let what = match &member.seen {
            Some(seen) if seen.is_stuck() => "failed",
            _ => "cannot continue by itself",
        };
        return format!("{name} {what}: {why}");
    }
    let rolling = set.plan.rolling;
    let is_in_flight = |member: &Member| {
        let is_open = !rolling || member.step == set.status.open_step;
        is_open && member.is_in_flight(rolling)
    };
    let has_detail = |seen: &&AppView| !seen.detail.is_empty();
    let moves = |name: &str, member: &Member, seen: &AppView| {
        let others = set.members.values().filter(|member| is_in_flight(member)).count();
        let others = match others.saturating_sub(1) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let stage = match seen.stage.as_str() {
            stage if stage.is_empty() || seen.is_reason => String::new(),
            stage => format!(" ({stage})"),
        };
        format!("Waiting for {name}{others}{stage}: {}", detail(set, name, member, seen, now))
    };
    // The status of the set follows its Applications.
    let is_over = |wait: &&Wait| {
        let member = set.members.get(&wait.application);
        member.is_some_and(|member| {
            member.phase == RolloutPhase::Progressing && member.is_seen_done()
        })
    };
    let waits = || set.status.waiting.iter();
    let begun = waits().filter(|wait| !is_over(wait)).find_map(|wait| {
        Some((wait, set.members.get(&wait.application).filter(|member| is_in_flight(member))?))
    });
    if let Some((wait, member)) = begun {
        let known = |seen: &&AppView| has_detail(seen) && (seen.is_operating() || !seen.is_partial);
        let running = member.seen.as_ref().filter(known);
        return match running {
            Some(seen) => moves(&wait.application, member, seen),
            None => of_status(set, wait, now),
        };
    }
    let seen = |member: &Member| {
        let seen = member.seen.clone().filter(|seen| has_detail(&seen));
        seen.filter(|_| !set.is_done(member) && is_in_flight(member))
    };
    let moving = set.members.iter().find_map(|(name, member)| Some((name, member, seen(member)?)));
    if let Some((name, member, seen)) = moving {
        return moves(name, member, &seen);
    }
    if let Some(wait) = waits().find(|wait| !is_over(wait)) {
        return of_status(set, wait, now);
    }
    if let Some(wait) = waits().next() {
        return format!("Waiting for {}: {DONE}", wait.application);
    }
    let mut unfinished = set.members.iter().filter(|(_, member)| !set.is_done(member));
    match unfinished.find_map(|(name, member)| Some((name, member.seen.as_ref()?))) {
        Some((name, seen)) => format!("Waiting for {name}: {}, {}", seen.sync, seen.health),
        None => "Waiting for the controllers".to_owned(),
    }
}

/// What the status of the set waits for.
fn of_status(set: &Set, wait: &Wait, now: Timestamp) -> String {
    let Wait { application, reason, since, until } = wait;
    let member = set.members.get(application);
    let (since, until) = member.map_or((*since, *until), |member| set.wait_of(application, member));
    let reason = match reason.rsplit_once(", until ") {
        // Said as the limit already.
        Some((what, end)) if until.is_some() && end.ends_with(" at most") => what,
        _ => reason,
    };
    format!("Waiting for {application}{}: {reason}", age(since, until, now))
}

/// What an Application waits for, with its age.
pub(super) fn detail(
    set: &Set,
    name: &str,
    member: &Member,
    seen: &AppView,
    now: Timestamp,
) -> String {
    if seen.is_reason || seen.detail.is_empty() {
        return seen.detail.clone();
    }
    let (since, until) = set.wait_of(name, member);
    timed(short(&seen.detail), since, until, now)
}

/// Outcome of an incomplete rollout, in one line.
pub(in crate::cli) fn describe(outcome: &Outcome) -> String {
    let place = |step: &Option<usize>| match step {
        Some(step) => format!("in step {}", step + 1),
        None => String::new(),
    };
    match outcome {
        Outcome::Stopped { step, application, why, behind } => {
            let behind = match behind {
                0 => String::new(),
                1 => "; 1 Application is waiting for it".to_owned(),
                behind => format!("; {behind} Applications are waiting for it"),
            };
            let at = format!("Stopped {}", place(step));
            format!("{}: {application}: {why}{behind}", at.trim_end())
        }
        Outcome::Manual { step, applications } => {
            let who = crate::cli::output::some_of(applications.iter().map(String::as_str), 3);
            match step {
                Some(step) => {
                    format!("Step {} waits for a manual sync of {who} (maxUpdate is 0)", step + 1)
                }
                None => format!("Waits for a manual sync of {who} (not automated)"),
            }
        }
        Outcome::Invalid(message) => format!("Stopped by an error: {message}"),
        Outcome::Off(message) => format!("Not rolled out in steps: {message}"),
        Outcome::Running | Outcome::Complete => String::new(),
    }
}
