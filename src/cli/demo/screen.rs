//! The screen: draws a fleet in lines that fit a width and a height. Pure.

use std::time::Duration;

use super::app_view::AppView;
use super::fleet::{Count, Fleet, Member, Set};
use super::outcome::Outcome;
use super::text::{Line, Style, cell, count, ellipsis};
use crate::api::application_set::RolloutPhase;
use crate::api::{HealthStatus, SyncStatusCode};

/// The content of one screen.
#[derive(Debug)]
pub(super) struct Screen<'a> {
    pub fleet: &'a Fleet,
    /// Outcome of each set, by name.
    pub outcomes: &'a [(String, Outcome)],
    /// Time since the start.
    pub elapsed: Duration,
    /// Lines at the bottom, such as how to reach the server.
    pub notes: &'a [String],
}

/// Longest name that widens the column of names.
const NAME_WIDTH: usize = 28;
/// Minimum width for the column of health.
const WITH_HEALTH: usize = 76;
/// Minimum width for progress bars.
const WITH_BAR: usize = 96;
const BAR: usize = 12;

impl Screen<'_> {
    /// The lines, not wider than `width`, and not more than `height`.
    pub fn lines(&self, width: usize, height: Option<usize>) -> Vec<Line> {
        let mut room = usize::MAX;
        // Omitted first: the members of complete steps, then of later steps, then of the
        // current one.
        loop {
            let lines = self.draw(width, room);
            let Some(height) = height.filter(|height| lines.len() > *height) else { return lines };
            if room == 0 {
                return lines.into_iter().take(height).collect();
            }
            let members = self.members();
            let surplus = lines.len() - height;
            // At least one less each time, so that the loop ends.
            room = room.min(members).saturating_sub(surplus.max(1));
        }
    }

    fn members(&self) -> usize {
        self.fleet.known().map(|set| set.members.len()).sum()
    }

    fn draw(&self, width: usize, room: usize) -> Vec<Line> {
        let mut lines = vec![self.title(width)];
        let mut room = room;
        for set in self.fleet.known() {
            if self.fleet.known().count() > 1 {
                lines.push(Line::default());
                lines
                    .push(Line::of(Style::Bold, format!("ApplicationSet {}", set.name)).cut(width));
            }
            lines.extend(set_lines(set, width, &mut room));
        }
        lines.push(Line::default());
        for (name, outcome) in self.outcomes {
            if let Some(set) = self.fleet.sets.get(name) {
                let many = (self.outcomes.len() > 1).then_some(name.as_str());
                lines.push(sentence(set, outcome, many).cut(width));
            }
        }
        lines.extend(self.notes.iter().map(|note| Line::of(Style::Dim, note).cut(width)));
        lines
    }

    fn title(&self, width: usize) -> Line {
        let sets: Vec<&Set> = self.fleet.known().collect();
        let what = match sets.as_slice() {
            [] => "starting".to_owned(),
            [set] => {
                format!("ApplicationSet {}, {}", set.name, count(set.members.len(), "Application"))
            }
            sets => {
                let members = count(self.members(), "Application");
                format!("{} ApplicationSets, {members}", sets.len())
            }
        };
        let left = Line::of(Style::Bold, "Wavegate").and(Style::Plain, format!("  {what}"));
        let clock = seconds(Duration::from_secs(self.elapsed.as_secs()));
        let left = left.cut(width.saturating_sub(clock.len() + 1));
        let gap = width.saturating_sub(left.width() + clock.len());
        left.and(Style::Dim, format!("{:gap$}{clock}", "")).cut(width)
    }
}

/// `12.3 s`; whole seconds without a fraction, and from a minute on `2m 5s`.
pub(super) fn seconds(time: Duration) -> String {
    match time.subsec_millis() / 100 {
        _ if time.as_secs() >= 60 => {
            humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
        }
        0 => format!("{} s", time.as_secs()),
        tenths => format!("{}.{tenths} s", time.as_secs()),
    }
}

fn set_lines(set: &Set, width: usize, room: &mut usize) -> Vec<Line> {
    let name_width = set.members.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    let name_width = name_width.min(NAME_WIDTH).min(width / 3);
    // When not all members fit: those of the current step first, then of later ones.
    let mut shares = vec![0; set.plan.steps.len()];
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|step| match state(set, *step) {
        StepState::Open => (0, *step),
        StepState::Closed => (1, *step),
        StepState::Done => (2, *step),
    });
    for step in order {
        let size = set.members.values().filter(|member| member.step == Some(step)).count();
        shares[step] = size.min(*room);
        *room = room.saturating_sub(size);
    }
    let mut lines = Vec::new();
    for (step, share) in shares.iter().enumerate() {
        lines.push(Line::default());
        lines.push(step_line(set, step, width));
        lines.extend(member_lines(set, Some(step), *share, name_width, width));
    }
    let outside = set.members.values().filter(|member| member.step.is_none()).count();
    if outside > 0 {
        lines.push(Line::default());
        lines.push(Line::of(Style::Bold, "Not selected by a step").cut(width));
        let share = outside.min(*room);
        *room = room.saturating_sub(outside);
        lines.extend(member_lines(set, None, share, name_width, width));
    }
    lines
}

fn member_lines(
    set: &Set,
    step: Option<usize>,
    share: usize,
    name_width: usize,
    width: usize,
) -> Vec<Line> {
    let mut members: Vec<(&String, &Member)> =
        set.members.iter().filter(|(_, member)| member.step == step).collect();
    let hidden = members.len().saturating_sub(share);
    if hidden > 0 {
        // Complete members are the least interesting.
        members.sort_by_key(|(_, member)| set.is_done(member));
        members.truncate(share);
        members.sort_by_key(|(name, _)| *name);
    }
    let mut lines: Vec<Line> = members
        .into_iter()
        .map(|(name, member)| member_line(set, name, member, name_width, width))
        .collect();
    if hidden > 0 && share > 0 {
        lines.pop();
        lines.push(Line::of(Style::Dim, format!("    … {} more", hidden + 1)).cut(width));
    }
    lines
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepState {
    Closed,
    Open,
    Done,
}

fn state(set: &Set, step: usize) -> StepState {
    let Count { total, done, .. } = set.count(step);
    let passed = set.status.complete || set.status.open_step > Some(step);
    match set.plan.rolling {
        true if passed => StepState::Done,
        true if set.is_open(step) => StepState::Open,
        true => StepState::Closed,
        false if total > 0 && done == total => StepState::Done,
        false => StepState::Open,
    }
}

fn step_line(set: &Set, step: usize, width: usize) -> Line {
    let plan = &set.plan.steps[step];
    let Count { total, done, in_flight, .. } = set.count(step);
    let state = state(set, step);
    let (word, style) = match state {
        StepState::Closed => ("closed", Style::Dim),
        StepState::Open => ("open", Style::Cyan),
        StepState::Done => ("done", Style::Green),
    };
    let title = if set.plan.rolling { format!("Step {}", step + 1) } else { "All".to_owned() };
    let flight = match plan.limit {
        Some(limit) => format!("{in_flight} of {limit} in flight"),
        None => format!("{in_flight} in flight"),
    };
    let progress = format!("{done}/{total} done");
    let written = match plan.max_update.as_str() {
        "" => String::new(),
        written => format!("maxUpdate {written}"),
    };
    let fixed = title.len() + progress.len() + flight.len() + word.len() + 8;
    let bar = if width >= WITH_BAR { BAR + 2 } else { 0 };
    let left = width.saturating_sub(fixed + bar);
    let written = Some(written).filter(|text| !text.is_empty() && text.len() + 12 <= left);
    let left = left.saturating_sub(written.as_ref().map_or(0, |text| text.len() + 2));
    let mut line = Line::of(Style::Bold, &title)
        .and(Style::Plain, format!("  {}", ellipsis(&plan.selects, left.min(40), false)));
    if let Some(written) = written {
        line = line.and(Style::Plain, format!("  {written}"));
    }
    if bar > 0 {
        let filled = if total == 0 { 0 } else { BAR * done as usize / total as usize };
        line = line.and(Style::Green, format!("  {}", "━".repeat(filled)));
        line = line.and(Style::Dim, "─".repeat(BAR - filled));
    }
    line.and(Style::Plain, format!("  {progress}"))
        .and(if in_flight > 0 { Style::Yellow } else { Style::Dim }, format!("  {flight}"))
        .and(style, format!("  {word}"))
        .cut(width)
}

fn member_line(set: &Set, name: &str, member: &Member, name_width: usize, width: usize) -> Line {
    let seen = member.seen.clone().unwrap_or_default();
    let stuck = member.seen.as_ref().is_some_and(AppView::is_stuck);
    let is_done = set.is_done(member);
    let (glyph, style) = match () {
        () if is_done => ("✔", Style::Green),
        () if stuck => ("✘", Style::Red),
        () if member.in_flight => ("●", Style::Yellow),
        () => ("○", Style::Dim),
    };
    let phase = match (set.plan.rolling, member.phase) {
        (true, RolloutPhase::Unknown) if member.seen.is_none() => "to come",
        (true, phase) => phase.as_str(),
        (false, _) if is_done => "done",
        (false, _) if seen.is_operating() => "syncing",
        (false, _) => "",
    };
    let stage = match (seen.stage.as_str(), seen.sync) {
        ("", SyncStatusCode::Unknown) => "",
        ("", sync) => sync.as_str(),
        (stage, _) => stage,
    };
    let health = match seen.health {
        HealthStatus::Unknown => "",
        health => health.as_str(),
    };
    let text = if is_done { Style::Dim } else { Style::Plain };
    let mut line = Line::of(style, format!("  {glyph} "))
        .and(if is_done { Style::Plain } else { Style::Bold }, cell(name, name_width))
        .and(style, format!("  {}", cell(phase, 11)))
        .and(text, format!("  {}", cell(stage, 11)));
    if width >= WITH_HEALTH {
        let style = match seen.health {
            HealthStatus::Degraded => Style::Red,
            HealthStatus::Healthy => Style::Green,
            _ => text,
        };
        line = line.and(style, format!("  {}", cell(health, 11)));
    }
    let detail = match (is_done, stuck) {
        (true, _) => String::new(),
        (false, true) => seen.detail,
        (false, false) => short(&seen.detail).to_owned(),
    };
    line.and(if stuck { Style::Red } else { Style::Plain }, format!("  {detail}")).cut(width)
}

/// A wait without the words of the previous columns.
fn short(detail: &str) -> &str {
    let bare = ["healthy state of ", "completion of hook "];
    bare.iter().find_map(|prefix| detail.strip_prefix(prefix)).unwrap_or(detail)
}

/// What a set is waiting for, or its outcome, in one sentence.
fn sentence(set: &Set, outcome: &Outcome, name: Option<&str>) -> Line {
    let prefix = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let (style, text) = match outcome {
        Outcome::Complete if set.plan.rolling => {
            (Style::Green, "All steps are complete.".to_owned())
        }
        Outcome::Complete => (Style::Green, "All Applications are Synced and Healthy.".to_owned()),
        Outcome::Running => (Style::Plain, waiting(set)),
        Outcome::Stopped { .. } | Outcome::Manual { .. } | Outcome::Invalid(_) => {
            (Style::Red, describe(outcome))
        }
    };
    Line::of(Style::Plain, prefix).and(style, text)
}

/// What the set is waiting for: a failed Application first, then running operations, then
/// the status of the set.
pub(super) fn waiting(set: &Set) -> String {
    let seen = |pick: fn(&Member, &AppView) -> bool| {
        let members = set.members.iter().filter(|(_, member)| !set.is_done(member));
        let mut seen =
            members.filter_map(|(name, member)| Some((name, member, member.seen.as_ref()?)));
        seen.find(|(_, member, seen)| !seen.detail.is_empty() && pick(member, seen))
    };
    if let Some((name, _, seen)) = seen(|_, seen| seen.is_stuck()) {
        return format!("{name} failed: {}", seen.detail);
    }
    if let Some((name, _, seen)) = seen(|member, _| member.in_flight) {
        let others = set.members.values().filter(|member| member.in_flight).count() - 1;
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        let stage =
            if seen.stage.is_empty() { String::new() } else { format!(" ({})", seen.stage) };
        return format!("Waiting for {name}{others}{stage}: {}", short(&seen.detail));
    }
    if let Some((application, reason)) = set.status.waiting.first() {
        return format!("Waiting for {application}: {reason}");
    }
    let unfinished = set.members.iter().find(|(_, member)| !set.is_done(member));
    match unfinished.and_then(|(name, member)| Some((name, member.seen.as_ref()?))) {
        Some((name, seen)) => format!("Waiting for {name}: {}, {}", seen.sync, seen.health),
        None => "Waiting for the controllers".to_owned(),
    }
}

/// Outcome of an incomplete rollout, in one line.
pub(super) fn describe(outcome: &Outcome) -> String {
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
        Outcome::Running | Outcome::Complete => String::new(),
    }
}
