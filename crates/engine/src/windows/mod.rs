//! Sync windows of AppProjects: whether a sync may run now, and when to evaluate again
//! (SE-400 … SE-411).
//!
//! | matching windows | allowed |
//! |---|---|
//! | none | yes |
//! | an invalid one | no, until it is corrected |
//! | an active deny window | manual syncs if all of them have `manualSync`; running syncs if all have `syncOverrun`; otherwise no |
//! | else an active allow window | yes |
//! | else an inactive allow window | manual syncs if all of them have `manualSync`; running syncs if all have `syncOverrun`; otherwise no |
//! | only inactive deny windows | yes |
//!
//! An annotation of the project changes which of them decide ([`Semantics`], SE-407).
//!
//! Windows never fail or end an operation, and do not prevent its termination (SE-410).
//! This module reads no clock and no cluster.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod attempt;
pub mod cron;
mod semantics;
mod window;

use jiff::Timestamp;

use crate::promotion::USERNAME;
pub use attempt::SyncAttempt;
pub use semantics::Semantics;
use wavegate_api::time::to_rfc3339;
pub use window::{Rule, Window, WindowKind, project_windows, window_problems, window_warnings};

/// Message of a blocked operation (SE-410).
pub const BLOCKED: &str = "Sync operation blocked by sync window";

/// Whether a sync may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Whether it may start or continue now.
    pub allowed: bool,
    /// The reason, with the window. For status and logs.
    pub reason: String,
    /// Why the windows cannot be evaluated, when a matching one is invalid. Applies until
    /// the project changes.
    pub problem: Option<String>,
    /// When to evaluate again: the next start or end of a matching window, after `now`.
    /// May be early but never late; `None` when time has no effect.
    pub next_change: Option<Timestamp>,
}

impl Evaluation {
    /// The message of a waiting operation, equal to Argo CD's (SE-410); `None` when it is
    /// allowed.
    pub fn blocked_message(&self) -> Option<String> {
        match (&self.problem, self.allowed) {
            (_, true) => None,
            (None, false) => Some(BLOCKED.to_owned()),
            (Some(problem), false) => Some(format!("{BLOCKED}: {problem}")),
        }
    }
}

/// Whether windows treat an operation as manual (SE-409, AS-366).
///
/// Operations of a rollout are marked as automated but count as manual. `username` and
/// `automated` are those of `operation.initiatedBy`.
pub fn is_manual(username: &str, automated: bool) -> bool {
    !automated || username == USERNAME
}

/// Decides whether a sync may run at `now` (SE-406).
///
/// `windows` are all windows of the project; those that do not match have no effect, even
/// if invalid.
pub fn evaluate(windows: &[Window], attempt: &SyncAttempt, now: Timestamp) -> Evaluation {
    let matching: Vec<&Window> = windows.iter().filter(|window| window.matches(attempt)).collect();
    if matching.is_empty() {
        let reason = "no sync window matches".to_owned();
        return Evaluation { allowed: true, reason, problem: None, next_change: None };
    }
    let broken = matching.iter().find_map(|window| Some((*window, window.rule.as_ref().err()?)));
    if let Some((window, problems)) = broken {
        let problem = problems.join("; ");
        let reason = format!("{} is invalid: {problem}", window.name());
        return Evaluation { allowed: false, reason, problem: Some(problem), next_change: None };
    }
    let mut matching: Vec<Readable> = matching
        .into_iter()
        .filter_map(|window| Some(Readable { window, rule: window.rule.as_ref().ok()? }))
        .collect();
    if matching.first().is_some_and(|each| each.window.semantics == Semantics::Seed) {
        most_specific(&mut matching, attempt);
    }
    let (allowed, reason) = decide(&matching, attempt, now);
    let next_change = matching.iter().filter_map(|each| each.rule.next_change(now)).min();
    Evaluation { allowed, reason, problem: None, next_change }
}

/// A valid window.
#[derive(Clone, Copy)]
struct Readable<'a> {
    window: &'a Window,
    rule: &'a Rule,
}

/// Keeps of each kind those with the most specific selector (SE-407).
fn most_specific(matching: &mut Vec<Readable>, attempt: &SyncAttempt) {
    for kind in [WindowKind::Allow, WindowKind::Deny] {
        let is_other = |each: &Readable| each.rule.kind != kind;
        let of_kind = matching.iter().filter(|each| !is_other(each));
        let most = of_kind.map(|each| each.window.specificity(attempt)).max().flatten();
        matching.retain(|each| is_other(each) || each.window.specificity(attempt) == most);
    }
}

/// Whether an active allow window does not permit this sync, since it permits manual ones only
/// (SE-407).
fn is_for_others(window: &Window, attempt: &SyncAttempt) -> bool {
    window.semantics == Semantics::Seed && window.manual_sync && !attempt.manual
}

/// The table in the module documentation, at one point in time.
fn decide(windows: &[Readable], attempt: &SyncAttempt, now: Timestamp) -> (bool, String) {
    let (mut denying, mut allowing, mut shut) = (Vec::new(), Vec::new(), Vec::new());
    let mut for_others = Vec::new();
    for each in windows {
        let &Readable { window, rule } = each;
        match (rule.kind, rule.open_until(now)) {
            (WindowKind::Deny, Some(until)) => denying.push((window, until)),
            (WindowKind::Allow, Some(until)) if is_for_others(window, attempt) => {
                for_others.push((window, until));
            }
            (WindowKind::Allow, Some(until)) => allowing.push((window, until)),
            (WindowKind::Allow, None) => shut.push(each),
            (WindowKind::Deny, None) => {}
        }
    }

    if let Some((window, until)) = first_in_the_way(&denying, |(window, _)| window, attempt) {
        let stopping: Vec<&Window> = denying.iter().map(|(window, _)| *window).collect();
        return match excuse(&stopping, windows, attempt) {
            Some(excuse) => (true, format!("{} is active, {excuse}", window.name())),
            None => (false, format!("{} is active until {}", window.name(), to_rfc3339(*until))),
        };
    }
    if let Some((first, until)) = allowing.first() {
        return (true, format!("{} is active until {}", first.name(), to_rfc3339(*until)));
    }
    let stopping: Vec<&Window> = shut.iter().map(|each| each.window).collect();
    let excuse = match stopping.is_empty() {
        true => None,
        false => excuse(&stopping, windows, attempt),
    };
    if let Some((first, until)) = for_others.first().filter(|_| excuse.is_none()) {
        let (name, until) = (first.name(), to_rfc3339(*until));
        return (false, format!("{name} permits manual syncs only, until {until}"));
    }
    let opens = |&Readable { rule, .. }: &&Readable| {
        rule.next_change(now).is_some().then(|| rule.schedule.next(&rule.zone, now)).flatten()
    };
    // Windows that never start come last.
    let soonest = shut.iter().min_by_key(|each| opens(each).unwrap_or(Timestamp::MAX));
    if let Some(soonest) = soonest {
        let name = soonest.window.name();
        return match (excuse, opens(soonest)) {
            (Some(excuse), _) => (true, format!("{name} is inactive, {excuse}")),
            (None, Some(start)) => {
                (false, format!("{name} is inactive until {}", to_rfc3339(start)))
            }
            (None, None) => (false, format!("{name} never starts")),
        };
    }
    (true, "no deny window is active".to_owned())
}

/// The window to name: the first that also blocks manual syncs, or else the first.
fn first_in_the_way<'a, T>(
    list: &'a [T],
    window: impl Fn(&T) -> &Window,
    attempt: &SyncAttempt,
) -> Option<&'a T> {
    let firm = list.iter().find(|item| attempt.manual && !window(item).manual_sync);
    firm.or(list.first())
}

/// Why a sync may run despite these windows, if it may.
fn excuse(
    stopping: &[&Window],
    windows: &[Readable],
    attempt: &SyncAttempt,
) -> Option<&'static str> {
    if attempt.manual && stopping.iter().all(|window| window.manual_sync) {
        return Some("and allows manual syncs");
    }
    let began = attempt.started_at?;
    // No sync was running at its start, so none can overrun it.
    let fresh = SyncAttempt { started_at: None, ..*attempt };
    (stopping.iter().all(|window| window.sync_overrun) && decide(windows, &fresh, began).0)
        .then_some("and allows running syncs to continue")
}

#[cfg(test)]
mod tests;
