//! Windows as a project writes them, read so that one bad entry harms only
//! the Applications that it names.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Asked;
use super::cron::Schedule;
use crate::duration;
use crate::glob::Glob;

/// Longest description, in characters (SE-400).
const LONGEST_DESCRIPTION: usize = 255;

/// Whether a window lets syncs through or stops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Syncs run inside of the window, and outside of it only by hand if at all.
    Allow,
    /// Syncs do not run inside of the window, except by hand if at all.
    Deny,
}

/// An entry of `spec.syncWindows` (SE-400).
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Place in the list, from 0.
    pub index: usize,
    /// When it is open and what it does then, or why nobody can tell. A
    /// window with problems blocks each sync that it matches (SE-410).
    pub rule: Result<Rule, Vec<String>>,
    /// Whether syncs by hand are let through (SE-406).
    pub manual_sync: bool,
    /// Whether a sync that began before may go on (SE-408).
    pub sync_overrun: bool,
    /// What the user may want to correct but blocks nothing: an unknown time
    /// zone, a schedule that never fires.
    pub warnings: Vec<String>,
    /// Reasons not to accept the window that block no sync (SE-411).
    pub(super) refusals: Vec<String>,
    /// As it was written, for messages: kind, schedule, duration, zone.
    pub(super) title: String,
    and_operator: bool,
    applications: Vec<Glob>,
    namespaces: Vec<Glob>,
    clusters: Vec<Glob>,
    /// What must differ between two windows (SE-411).
    pub(super) identity: Value,
}

/// When a window is open, and what it does then.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What it does.
    pub kind: Kind,
    /// When it opens.
    pub schedule: Schedule,
    /// On whose wall clock; UTC when none is named or nobody knows it (SE-404).
    pub zone: TimeZone,
    /// How long it stays open; never, unless more than zero.
    pub duration: SignedDuration,
}

/// How closely a window names an Application; later is closer (SE-407).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closeness {
    ClusterGlob,
    Cluster,
    NamespaceGlob,
    Namespace,
    ApplicationGlob,
    Application,
}

/// Reads `spec.syncWindows` of an AppProject.
///
/// Never fails: an entry that cannot be understood is a [`Window`] with
/// problems. Absent, `null` or not a list means no windows; [`super::problems`]
/// tells about the last. Reading looks time zones up, so keep the result as
/// long as the project does not change.
pub fn windows(project: &Value) -> Vec<Window> {
    let list = project["spec"]["syncWindows"].as_array().map_or(&[][..], Vec::as_slice);
    list.iter().enumerate().map(|(index, entry)| read(index, entry)).collect()
}

fn read(index: usize, entry: &Value) -> Window {
    let mut fields = Fields { entry, problems: Vec::new() };
    let kind = fields.text("kind");
    let schedule = fields.text("schedule");
    let length = fields.text("duration");
    let zone = fields.text("timeZone");
    let description = fields.text("description");
    let applications = fields.texts("applications");
    let namespaces = fields.texts("namespaces");
    let clusters = fields.texts("clusters");
    let manual_sync = fields.flag("manualSync");
    let sync_overrun = fields.flag("syncOverrun");
    let and_operator = fields.flag("andOperator");
    let mut problems = fields.problems;
    // A selector that cannot be read may mean anybody, so it names everybody;
    // the window then blocks them by its problem.
    let mut globs = |field: &str, texts: &[String]| -> Vec<Glob> {
        let read = |(index, text): (usize, &String)| {
            Glob::new(text).unwrap_or_else(|error| {
                problems.push(format!("{field}[{index}]: {error}"));
                Glob::any()
            })
        };
        texts.iter().enumerate().map(read).collect()
    };
    let selected = (
        globs("applications", &applications),
        globs("namespaces", &namespaces),
        globs("clusters", &clusters),
    );
    let (mut warnings, mut refusals) = (Vec::new(), Vec::new());

    if description.chars().count() > LONGEST_DESCRIPTION {
        refusals.push(format!("description is longer than {LONGEST_DESCRIPTION} characters"));
    }
    if applications.is_empty() && namespaces.is_empty() && clusters.is_empty() {
        warnings.push(
            "matches nothing; name applications, namespaces or clusters, or \"*\"".to_owned(),
        );
    }
    let title = {
        let zone = if zone.is_empty() { "UTC" } else { &zone };
        format!("{kind} {schedule:?} for {length:?}, {zone}")
    };
    let identity = serde_json::json!([
        &kind,
        &schedule,
        &length,
        &applications,
        &namespaces,
        &clusters,
        &zone,
        and_operator
    ]);

    let known_kind = match kind.as_str() {
        "allow" => Some(Kind::Allow),
        "deny" => Some(Kind::Deny),
        _ => {
            problems.push(format!("kind '{kind}' mismatch: can only be allow or deny"));
            None
        }
    };
    let schedule = Schedule::parse(&schedule)
        .map_err(|error| problems.push(format!("cannot parse schedule '{schedule}': {error}")));
    let duration = duration::parse(&length)
        .map_err(|error| problems.push(format!("cannot parse duration '{length}': {error}")));
    let zone = known_zone(&zone).unwrap_or_else(|| {
        warnings.push(format!("timeZone {zone:?} is not known; UTC is used"));
        TimeZone::UTC
    });

    if !entry.is_object() {
        // One mistake, said once.
        problems = vec!["a sync window must be an object".to_owned()];
    }
    let rule = match (known_kind, schedule, duration) {
        (Some(kind), Ok(schedule), Ok(duration)) if problems.is_empty() => {
            let rule = Rule { kind, schedule, zone, duration };
            if rule.duration <= SignedDuration::ZERO {
                warnings.push("is never open, since its duration is not more than zero".to_owned());
            } else if rule.schedule.next(&TimeZone::UTC, Timestamp::UNIX_EPOCH).is_none() {
                warnings.push("is never open, since its schedule names no existing day".to_owned());
            }
            Ok(rule)
        }
        _ => Err(problems),
    };
    Window {
        index,
        rule,
        manual_sync,
        sync_overrun,
        warnings,
        refusals,
        title,
        and_operator,
        applications: selected.0,
        namespaces: selected.1,
        clusters: selected.2,
        identity,
    }
}

/// UTC for an empty name; `None` for one that nobody knows.
fn known_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        name => TimeZone::get(name).ok().filter(|zone| !zone.is_unknown()),
    }
}

/// Reads fields one by one, noting those of a wrong type.
struct Fields<'a> {
    entry: &'a Value,
    problems: Vec<String>,
}

impl Fields<'_> {
    fn text(&mut self, field: &str) -> String {
        match &self.entry[field] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            _ => {
                self.problems.push(format!("{field} must be text"));
                String::new()
            }
        }
    }

    /// A bare text counts as a list of one, so that its window blocks those
    /// that were meant and nobody else.
    fn texts(&mut self, field: &str) -> Vec<String> {
        let wrong = format!("{field} must be a list of texts");
        match &self.entry[field] {
            Value::Null => Vec::new(),
            Value::Array(items) => {
                let texts: Vec<String> =
                    items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                if texts.len() < items.len() {
                    self.problems.push(wrong);
                }
                texts
            }
            Value::String(text) => {
                self.problems.push(wrong);
                vec![text.clone()]
            }
            _ => {
                self.problems.push(wrong);
                Vec::new()
            }
        }
    }

    fn flag(&mut self, field: &str) -> bool {
        match &self.entry[field] {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            _ => {
                self.problems.push(format!("{field} must be true or false"));
                false
            }
        }
    }
}

impl Window {
    /// How it is called in messages: its place and what it says.
    pub fn name(&self) -> String {
        format!("spec.syncWindows[{}] ({})", self.index, self.title)
    }

    /// Whether it is about this Application (SE-401).
    ///
    /// One selector that matches is enough; with `andOperator`, all those that
    /// have entries must match. A window without entries matches nothing.
    pub fn matches(&self, asked: &Asked) -> bool {
        let hits = self.hits(asked);
        let written = [&self.clusters, &self.namespaces, &self.applications];
        let mut written = written.iter().zip(hits).filter(|(globs, _)| !globs.is_empty());
        match self.and_operator {
            true => written.clone().next().is_some() && written.all(|(_, hit)| hit.is_some()),
            false => written.any(|(_, hit)| hit.is_some()),
        }
    }

    /// How closely it names this Application; `None` when it does not at all.
    pub(super) fn closeness(&self, asked: &Asked) -> Option<Closeness> {
        self.hits(asked).into_iter().flatten().max()
    }

    /// Which selectors match, and how closely: clusters, namespaces,
    /// applications.
    fn hits(&self, asked: &Asked) -> [Option<Closeness>; 3] {
        let best = |globs: &[Glob], texts: &[&str], exact, loose| {
            let fitting = globs.iter().filter(|glob| texts.iter().any(|text| glob.matches(text)));
            fitting.map(|glob| if glob.is_exact() { exact } else { loose }).max()
        };
        // A cluster has a name, a server or both; what it has not, no glob fits.
        let cluster: Vec<&str> =
            [asked.cluster, asked.server].into_iter().filter(|text| !text.is_empty()).collect();
        [
            best(&self.clusters, &cluster, Closeness::Cluster, Closeness::ClusterGlob),
            best(
                &self.namespaces,
                &[asked.namespace],
                Closeness::Namespace,
                Closeness::NamespaceGlob,
            ),
            best(
                &self.applications,
                &[asked.application],
                Closeness::Application,
                Closeness::ApplicationGlob,
            ),
        ]
    }
}

impl Rule {
    /// When the window closes that is open at `now`, or `None` when it is shut.
    ///
    /// Open means after a start and before its end; at both instants it is
    /// shut (SE-405). Starts overlap, and the end is that of the latest start
    /// before `now`.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.duration <= SignedDuration::ZERO {
            return None;
        }
        let before = now.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        let start = self.schedule.previous(&self.zone, before)?;
        Some(self.end(start)).filter(|end| now < *end)
    }

    /// The next instant after `now` at which looking again can make a
    /// difference; `None` when there is none.
    ///
    /// For an open window it is the end, for a shut one the first whole second
    /// after the next start: at the start itself it is still shut, and
    /// operations keep their start in whole seconds. Where one opening follows
    /// the other without a pause, the end is that of the last, or an earlier
    /// one when there are many.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        if self.duration <= SignedDuration::ZERO {
            return None;
        }
        let Some(mut end) = self.open_until(now) else {
            let start = self.schedule.next(&self.zone, now)?;
            let opened = SignedDuration::from_secs(1).min(self.duration);
            return Some(start.checked_add(opened).unwrap_or(Timestamp::MAX));
        };
        // Looking at the very instant where one ends and the next begins
        // would slip a sync in between.
        for _ in 0..OPENINGS_JOINED {
            let last = self.schedule.previous(&self.zone, end).map(|start| self.end(start));
            match last {
                Some(later) if later > end => end = later,
                _ => break,
            }
        }
        Some(end)
    }

    fn end(&self, start: Timestamp) -> Timestamp {
        start.checked_add(self.duration).unwrap_or(Timestamp::MAX)
    }
}

/// How many openings are followed that have no pause in between. A window
/// that is open always has no end to find.
const OPENINGS_JOINED: usize = 50;

/// What is wrong with the windows of an AppProject, for a check on saving
/// (SE-411): kinds, schedules, durations, descriptions, types and duplicates.
/// Empty means that they can be saved.
pub fn problems(project: &Value) -> Vec<String> {
    let written = &project["spec"]["syncWindows"];
    if !written.is_null() && !written.is_array() {
        return vec!["spec.syncWindows must be a list".to_owned()];
    }
    let mut problems = Vec::new();
    let mut seen = BTreeMap::new();
    for window in windows(project) {
        let at = format!("spec.syncWindows[{}]", window.index);
        let own = window.rule.as_ref().err().into_iter().flatten().chain(&window.refusals);
        problems.extend(own.map(|problem| format!("{at}: {problem}")));
        if let Some(first) = seen.get(&window.identity.to_string()) {
            problems.push(format!(
                "{at}: the same as spec.syncWindows[{first}] ({}); remove one of them",
                window.title
            ));
        } else {
            seen.insert(window.identity.to_string(), window.index);
        }
    }
    problems
}

/// What the user may want to know about windows that can be saved and block
/// nothing: unknown time zones (SE-404), windows that never open or match.
pub fn warnings(project: &Value) -> Vec<String> {
    let said = |window: Window| {
        let name = format!("spec.syncWindows[{}]", window.index);
        window.warnings.into_iter().map(move |warning| format!("{name}: {warning}"))
    };
    windows(project).into_iter().flat_map(said).collect()
}
