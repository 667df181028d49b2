//! Sync windows of AppProjects: whether a sync may run now, and when to look
//! again (SE-400 … SE-411).
//!
//! | the matching windows | allowed |
//! |---|---|
//! | none | yes |
//! | one cannot be read | no, until it is corrected |
//! | an open deny | by hand if each of them has `manualSync`; a sync that began before if each has `syncOverrun`; else no |
//! | else an open allow | yes |
//! | else a shut allow | by hand if each of them has `manualSync`; a sync that began before if each has `syncOverrun`; else no |
//! | only shut denies | yes |
//!
//! The answer never fails or ends an operation, and does not keep anybody
//! from terminating one (SE-410). Nothing here reads a clock or the cluster.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod cron;
mod window;

use jiff::Timestamp;

use super::application_set::operation::USERNAME;
use crate::api::time::to_rfc3339;
pub use window::{Kind, Rule, Window, problems, warnings, windows};

/// What a blocked operation shows (SE-410).
pub const BLOCKED: &str = "Sync operation blocked by sync window";

/// What is to be synced, and who wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Name of the Application.
    pub application: &'a str,
    /// URL of the destination's API server; empty when not known.
    pub server: &'a str,
    /// Name of the destination cluster; empty when not known. Windows may name
    /// clusters either way, so give both when both are known.
    pub cluster: &'a str,
    /// Namespace of the destination.
    pub namespace: &'a str,
    /// Whether it counts as asked for by hand; see [`is_manual`].
    pub manual: bool,
    /// When the running operation began; `None` for one that is not running
    /// yet, automated syncs above all (SE-408, SE-409).
    pub started_at: Option<Timestamp>,
}

/// Which reading of the rules holds (SE-407).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// As Argo CD does: all matching windows count alike, and an open allow
    /// lets everything through.
    #[default]
    Upstream,
    /// As the guide says: of each kind only the windows count that name the
    /// Application most closely (application before namespace before cluster,
    /// a name before a glob), and an open allow with `manualSync` lets only
    /// syncs by hand through.
    Seed,
}

/// Whether a sync may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may start or go on now.
    pub allowed: bool,
    /// Why, naming the window. For status and logs.
    pub reason: String,
    /// Why the windows cannot be followed at all, when a matching one cannot
    /// be read. It holds until the project changes.
    pub problem: Option<String>,
    /// When to look again: the next opening or end of a matching window, after
    /// `now`. It may be early but never late; `None` when time changes nothing.
    pub next_change: Option<Timestamp>,
}

impl Verdict {
    /// The message of an operation that waits, word for word the peer's
    /// (SE-410); `None` when it is allowed.
    pub fn blocked_message(&self) -> Option<String> {
        match (&self.problem, self.allowed) {
            (_, true) => None,
            (None, false) => Some(BLOCKED.to_owned()),
            (Some(problem), false) => Some(format!("{BLOCKED}: {problem}")),
        }
    }
}

/// Whether windows take an operation for one by hand (SE-409, AS-366).
///
/// Those of a rollout are flagged as automated and count as by hand all the
/// same: a rollout was wanted by somebody. `username` and `automated` are those
/// of `operation.initiatedBy`.
pub fn is_manual(username: &str, automated: bool) -> bool {
    !automated || username == USERNAME
}

/// Decides whether a sync may run at `now` (SE-406).
///
/// `windows` are all those of the project; the ones that do not match have no
/// influence, whatever is wrong with them.
pub fn judge(windows: &[Window], asked: &Asked, semantics: Semantics, now: Timestamp) -> Verdict {
    let matching: Vec<&Window> = windows.iter().filter(|window| window.matches(asked)).collect();
    if matching.is_empty() {
        let reason = "no sync window matches".to_owned();
        return Verdict { allowed: true, reason, problem: None, next_change: None };
    }
    let broken = matching.iter().find_map(|window| Some((*window, window.rule.as_ref().err()?)));
    if let Some((window, problems)) = broken {
        let problem = problems.join("; ");
        let reason = format!("{} cannot be followed: {problem}", window.name());
        return Verdict { allowed: false, reason, problem: Some(problem), next_change: None };
    }
    let matching: Vec<Readable> = matching
        .into_iter()
        .filter_map(|window| Some(Readable { window, rule: window.rule.as_ref().ok()? }))
        .collect();
    let counting = match semantics {
        Semantics::Upstream => matching,
        Semantics::Seed => closest(matching, asked),
    };
    let (allowed, reason) = decide(&counting, asked, semantics, now);
    let next_change = counting.iter().filter_map(|each| each.rule.next_change(now)).min();
    Verdict { allowed, reason, problem: None, next_change }
}

/// A window that can be followed.
#[derive(Clone, Copy)]
struct Readable<'a> {
    window: &'a Window,
    rule: &'a Rule,
}

/// Of each kind, those that name the Application most closely (SE-407).
fn closest<'a>(matching: Vec<Readable<'a>>, asked: &Asked) -> Vec<Readable<'a>> {
    let best = |kind| {
        let same = matching.iter().filter(|each| each.rule.kind == kind);
        same.filter_map(|each| each.window.closeness(asked)).max()
    };
    let (allow, deny) = (best(Kind::Allow), best(Kind::Deny));
    let keep = |each: &Readable| {
        let best = if each.rule.kind == Kind::Allow { allow } else { deny };
        each.window.closeness(asked) == best
    };
    matching.iter().copied().filter(keep).collect()
}

/// The table of the module, at one point in time.
fn decide(
    windows: &[Readable],
    asked: &Asked,
    semantics: Semantics,
    now: Timestamp,
) -> (bool, String) {
    let (mut denying, mut allowing, mut shut) = (Vec::new(), Vec::new(), Vec::new());
    for each in windows {
        let &Readable { window, rule } = each;
        match (rule.kind, rule.open_until(now)) {
            (Kind::Deny, Some(until)) => denying.push((window, until)),
            (Kind::Allow, Some(until)) => allowing.push((window, until)),
            (Kind::Allow, None) => shut.push(each),
            (Kind::Deny, None) => {}
        }
    }

    if let Some((window, until)) = first_in_the_way(&denying, |(window, _)| window, asked) {
        let stopping: Vec<&Window> = denying.iter().map(|(window, _)| *window).collect();
        return match excuse(&stopping, windows, asked, semantics) {
            Some(excuse) => (true, format!("{} is open, {excuse}", window.name())),
            None => (false, format!("{} is open until {}", window.name(), to_rfc3339(*until))),
        };
    }
    if let Some((first, until)) = allowing.first() {
        let by_hand_only = semantics == Semantics::Seed
            && !asked.manual
            && allowing.iter().all(|(window, _)| window.manual_sync);
        return if by_hand_only {
            (false, format!("{} lets only syncs by hand through", first.name()))
        } else {
            (true, format!("{} is open until {}", first.name(), to_rfc3339(*until)))
        };
    }
    let opens = |&Readable { rule, .. }: &&Readable| {
        rule.next_change(now).is_some().then(|| rule.schedule.next(&rule.zone, now)).flatten()
    };
    // Those that never open come last.
    let soonest = shut.iter().min_by_key(|each| opens(each).unwrap_or(Timestamp::MAX));
    if let Some(soonest) = soonest {
        let name = soonest.window.name();
        let stopping: Vec<&Window> = shut.iter().map(|each| each.window).collect();
        return match (excuse(&stopping, windows, asked, semantics), opens(soonest)) {
            (Some(excuse), _) => (true, format!("{name} is shut, {excuse}")),
            (None, Some(start)) => (false, format!("{name} is shut until {}", to_rfc3339(start))),
            (None, None) => (false, format!("{name} never opens")),
        };
    }
    (true, "no window that denies syncs is open".to_owned())
}

/// The one to name: the first that is in the way even by hand, or else the
/// first at all.
fn first_in_the_way<'a, T>(
    list: &'a [T],
    window: impl Fn(&T) -> &Window,
    asked: &Asked,
) -> Option<&'a T> {
    let firm = list.iter().find(|item| asked.manual && !window(item).manual_sync);
    firm.or(list.first())
}

/// Why a sync may run although these windows are in its way, if it may.
fn excuse(
    stopping: &[&Window],
    windows: &[Readable],
    asked: &Asked,
    semantics: Semantics,
) -> Option<&'static str> {
    if asked.manual && stopping.iter().all(|window| window.manual_sync) {
        return Some("and lets syncs by hand through");
    }
    let began = asked.started_at?;
    // At its start nothing was running yet, so nothing could overrun.
    let fresh = Asked { started_at: None, ..*asked };
    (stopping.iter().all(|window| window.sync_overrun)
        && decide(windows, &fresh, semantics, began).0)
        .then_some("and lets syncs that began before go on")
}

#[cfg(test)]
mod tests;
