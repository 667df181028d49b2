//! Reads the windows of a project, so that an invalid entry affects only the Applications
//! that it matches.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::attempt::SyncAttempt;
use super::cron::Schedule;
use super::semantics::{Semantics, Specificity};
use gotime::duration;
use wavegate_api::Raw;
use wavegate_api::glob::Glob;

/// Longest description, in characters (SE-400).
const LONGEST_DESCRIPTION: usize = 255;

/// Kind of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WindowKind {
    /// Syncs run while the window is active; otherwise only manual syncs, if allowed.
    Allow,
    /// Syncs do not run while the window is active, except manual syncs, if allowed.
    Deny,
}

/// An entry of `spec.syncWindows` (SE-400).
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Index in the list, counted from 0.
    pub index: usize,
    /// The global project that has it; `None` for the project itself.
    global: Option<String>,
    /// How all windows of its project decide.
    pub(super) semantics: Semantics,
    /// The rule, or why it is invalid. An invalid window blocks each sync that it matches
    /// (SE-410).
    pub rule: Result<Rule, Vec<String>>,
    /// Whether manual syncs are allowed (SE-406).
    pub manual_sync: bool,
    /// Whether a running sync may continue (SE-408).
    pub sync_overrun: bool,
    /// Problems that block nothing: an unknown time zone, a schedule that never starts.
    pub warnings: Vec<String>,
    /// Problems that make a window invalid on validation, but block no sync (SE-411).
    pub(super) refusals: Vec<String>,
    /// Description for messages: kind, schedule, duration, zone.
    pub(super) title: String,
    and_operator: bool,
    applications: Vec<Glob>,
    namespaces: Vec<Glob>,
    clusters: Vec<Glob>,
    /// The fields that must differ between two windows (SE-411).
    pub(super) identity: Value,
}

/// When a window is active, and its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Kind of the window.
    pub kind: WindowKind,
    /// When it starts.
    pub schedule: Schedule,
    /// Time zone; UTC when empty or unknown (SE-404).
    pub zone: TimeZone,
    /// Duration; never active unless greater than zero.
    pub duration: SignedDuration,
}

/// Reads `spec.syncWindows` of an AppProject.
/// Never fails: an invalid entry is a [`Window`] with problems. Absent, `null` or not a
/// list means no windows; [`super::window_problems`] reports the last case. Looks up time zones,
/// so keep the result until the project changes.
pub fn project_windows(project: &Value) -> Vec<Window> {
    let list = project.items("/spec/syncWindows");
    let semantics = Semantics::of(project);
    list.iter().enumerate().map(|(index, entry)| read(index, entry, semantics)).collect()
}

fn read(index: usize, entry: &Value, semantics: Semantics) -> Window {
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
    let selected = (
        fields.globs("applications", &applications),
        fields.globs("namespaces", &namespaces),
        fields.globs("clusters", &clusters),
    );
    let (mut warnings, mut refusals) = (Vec::new(), Vec::new());

    if description.chars().count() > LONGEST_DESCRIPTION {
        refusals.push(format!("description is longer than {LONGEST_DESCRIPTION} characters"));
    }
    if applications.is_empty() && namespaces.is_empty() && clusters.is_empty() {
        warnings
            .push("matches nothing; set applications, namespaces or clusters, or \"*\"".to_owned());
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
    let timing = Timing { kind: &kind, schedule: &schedule, length: &length, zone: &zone };
    let rule = rule_of(timing, fields.problems, &mut warnings).map_err(|problems| {
        // Of what is not an object, a single error.
        let is_object = entry.is_object();
        if is_object { problems } else { vec!["a sync window must be an object".to_owned()] }
    });
    Window {
        index,
        global: None,
        semantics,
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

/// When a window is active and what it then does, as written.
struct Timing<'a> {
    kind: &'a str,
    schedule: &'a str,
    length: &'a str,
    zone: &'a str,
}

/// Its rule, unless there are `problems`, of the other fields or of these.
fn rule_of(
    Timing { kind, schedule, length, zone }: Timing<'_>,
    mut problems: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Rule, Vec<String>> {
    let known_kind = match kind {
        "allow" => Some(WindowKind::Allow),
        "deny" => Some(WindowKind::Deny),
        _ => {
            problems.push(format!("kind '{kind}' mismatch: can only be allow or deny"));
            None
        }
    };
    let schedule = Schedule::parse(schedule)
        .map_err(|error| problems.push(format!("cannot parse schedule '{schedule}': {error}")));
    let duration = duration::parse(length)
        .map_err(|error| problems.push(format!("cannot parse duration '{length}': {error}")));
    let zone = known_zone(zone).unwrap_or_else(|| {
        warnings.push(format!("timeZone {zone:?} is unknown; UTC is used"));
        TimeZone::UTC
    });
    match (known_kind, schedule, duration) {
        (Some(kind), Ok(schedule), Ok(duration)) if problems.is_empty() => {
            let rule = Rule { kind, schedule, zone, duration };
            if rule.duration <= SignedDuration::ZERO {
                warnings.push("is never active, since its duration is not positive".to_owned());
            } else if rule.schedule.next(&TimeZone::UTC, Timestamp::UNIX_EPOCH).is_none() {
                warnings
                    .push("is never active, since its schedule matches no existing day".to_owned());
            }
            Ok(rule)
        }
        _ => Err(problems),
    }
}

/// UTC for an empty name; `None` for an unknown name.
fn known_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        name => TimeZone::get(name).ok().filter(|zone| !zone.is_unknown()),
    }
}

/// Reads fields, and records those of a wrong type.
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
                self.problems.push(format!("{field} must be a string"));
                String::new()
            }
        }
    }

    /// A string is read as a list with one item, so that the window blocks only the
    /// intended Applications.
    fn texts(&mut self, field: &str) -> Vec<String> {
        let wrong = format!("{field} must be a list of strings");
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

    /// An invalid selector might match any Application, so it matches all; the window then
    /// blocks them with its problem.
    fn globs(&mut self, field: &str, texts: &[String]) -> Vec<Glob> {
        let read = |(index, text): (usize, &String)| {
            Glob::new(text).unwrap_or_else(|error| {
                self.problems.push(format!("{field}[{index}]: {error}"));
                Glob::any()
            })
        };
        texts.iter().enumerate().map(read).collect()
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
    /// Name in messages: index and description.
    pub fn name(&self) -> String {
        let of = self.global.as_ref().map(|name| format!(" of global project {name}"));
        format!("spec.syncWindows[{}]{} ({})", self.index, of.unwrap_or_default(), self.title)
    }

    /// The same of a global project, as the project `heir` inherits it: it decides like the
    /// others there.
    pub fn of_global(self, global: &str, heir: &Value) -> Self {
        Self { global: Some(global.to_owned()), semantics: Semantics::of(heir), ..self }
    }

    /// A window that permits no sync of any Application, for a reason.
    pub fn closed(problem: String) -> Self {
        let applications = Glob::new("*").into_iter().collect();
        let title = "unknown".to_owned();
        let none = read(0, &Value::Null, Semantics::default());
        Self { rule: Err(vec![problem]), applications, title, ..none }
    }

    /// Whether it matches this Application (SE-401).
    pub fn matches(&self, attempt: &SyncAttempt) -> bool {
        self.specificity(attempt).is_some()
    }

    /// How specific it matches this Application (SE-407); `None` if it does not (SE-401).
    ///
    /// One matching selector is sufficient; with `andOperator`, all selectors with items
    /// must match. A window without selectors matches nothing.
    pub fn specificity(&self, attempt: &SyncAttempt) -> Option<Specificity> {
        use Specificity::{
            Application, ApplicationPattern, Cluster, ClusterPattern, Namespace, NamespacePattern,
        };
        // A cluster has a name, a server or both; an empty value matches no glob.
        let cluster: Vec<&str> =
            [attempt.cluster, attempt.server].into_iter().filter(|text| !text.is_empty()).collect();
        let selectors: [(&[Glob], &[&str], Specificity, Specificity); 3] = [
            (&self.clusters, &cluster, Cluster, ClusterPattern),
            (&self.namespaces, &[attempt.namespace], Namespace, NamespacePattern),
            (&self.applications, &[attempt.application], Application, ApplicationPattern),
        ];
        let written = selectors.iter().filter(|(globs, ..)| !globs.is_empty());
        let mut hits = written.map(|(globs, texts, name, pattern)| {
            let hits = globs.iter().filter(|glob| texts.iter().any(|text| glob.matches(text)));
            hits.map(|glob| if glob.is_exact() { *name } else { *pattern }).max()
        });
        match self.and_operator {
            true => hits.try_fold(None, |most, hit| Some(most.max(Some(hit?)))).flatten(),
            false => hits.flatten().max(),
        }
    }
}

impl Rule {
    /// The end of the window if it is active at `now`, else `None`.
    ///
    /// Active means after a start and before its end, both exclusive (SE-405). Starts may
    /// overlap, and the end is that of the latest start before `now`.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.duration <= SignedDuration::ZERO {
            return None;
        }
        let before = now.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        let start = self.schedule.previous(&self.zone, before)?;
        Some(self.end(start)).filter(|end| now < *end)
    }

    /// The next instant after `now` when the result can change; `None` when there is none.
    ///
    /// For an active window it is the end, for an inactive one the first whole second
    /// after the next start: it is inactive at the start itself, and operations store
    /// their start in whole seconds. For adjacent windows, the end is that of the last
    /// one, or an earlier one when there are many.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        if self.duration <= SignedDuration::ZERO {
            return None;
        }
        let Some(mut end) = self.open_until(now) else {
            let start = self.schedule.next(&self.zone, now)?;
            let opened = SignedDuration::from_secs(1).min(self.duration);
            return Some(start.checked_add(opened).unwrap_or(Timestamp::MAX));
        };
        // Evaluating at the instant between two adjacent windows would allow a sync.
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

/// Limit on adjacent windows that are combined. A window that is always active has no end.
const OPENINGS_JOINED: usize = 50;

/// Problems of the windows of an AppProject, for validation (SE-411): kinds, schedules,
/// durations, descriptions, types and duplicates. Empty when they are valid.
pub fn window_problems(project: &Value) -> Vec<String> {
    let written = project.pointer("/spec/syncWindows");
    if written.is_some_and(|written| !written.is_null() && !written.is_array()) {
        return vec!["spec.syncWindows must be a list".to_owned()];
    }
    let mut problems = Vec::new();
    let mut seen = BTreeMap::new();
    for window in project_windows(project) {
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

/// Warnings about valid windows: unknown time zones (SE-404), windows that never start or
/// match, and unknown semantics (SE-407).
pub fn window_warnings(project: &Value) -> Vec<String> {
    let said = |window: Window| {
        let name = format!("spec.syncWindows[{}]", window.index);
        window.warnings.into_iter().map(move |warning| format!("{name}: {warning}"))
    };
    let of_windows = project_windows(project).into_iter().flat_map(said);
    Semantics::warning(project).into_iter().chain(of_windows).collect()
}
