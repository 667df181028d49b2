//! The screen: draws a fleet in lines that fit a width and a height. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::app_view::AppView;
use super::outcome::Outcome;
use super::set::{Count, Member, Set};
use super::set_status::Wait;
use super::text::{Line, Style, cell, count, ellipsis, width as columns};
use super::ui::Frame;
use crate::api::application_set::RolloutPhase;
use crate::api::{HealthStatus, ObjectKey, SyncStatusCode};
use crate::cli::rollout_summary::DONE;

/// The content of one screen.
#[derive(Debug)]
pub(in crate::cli) struct Screen<'a> {
    pub frame: Frame<'a>,
    /// Outcome of each set.
    pub outcomes: &'a [(ObjectKey, Outcome)],
}

/// Longest name that widens the column of names.
const NAME_WIDTH: usize = 28;
/// Minimum width for the column of health.
const WITH_HEALTH: usize = 76;
/// Minimum width for progress bars.
const WITH_BAR: usize = 96;
const BAR: usize = 12;
/// Most lines of the last sentence, and the height from which it may have more than one.
const WRAPPED: usize = 3;
const ROOMY: usize = 16;

impl Screen<'_> {
    /// The lines, not wider than `width`, and not more than `height`.
    pub fn lines(&self, width: usize, height: Option<usize>) -> Vec<Line> {
        let title = self.title(width);
        let bottom = self.bottom(width, height);
        let Some(height) = height else {
            return [vec![title], self.all_sets(width, usize::MAX), bottom].concat();
        };
        // Omitted first: the members of complete steps, then of later steps, then of the
        // current one.
        let mut room = height;
        loop {
            let middle = self.all_sets(width, room);
            let used = middle.len() + bottom.len() + 1;
            if used <= height {
                return [vec![title], middle, bottom].concat();
            }
            if room == 0 {
                return self.compact(title, middle, bottom, width, height);
            }
            // At least one less each time, so that the loop ends.
            room = room.saturating_sub((used - height).max(1));
        }
    }

    /// For a screen that is too small for all steps: without blank lines, and with as many
    /// as fit between the title and what is waited for.
    fn compact(
        &self,
        title: Line,
        middle: Vec<Line>,
        mut bottom: Vec<Line>,
        width: usize,
        height: usize,
    ) -> Vec<Line> {
        let mut middle = match self.outcomes.len() {
            0 | 1 => middle,
            _ => {
                bottom = self.notes(width);
                self.outcomes.iter().map(|(key, outcome)| self.row(key, outcome, width)).collect()
            }
        };
        middle.retain(|line| line.width() > 0);
        bottom.retain(|line| line.width() > 0);
        bottom.truncate(height.saturating_sub(1));
        let room = height.saturating_sub(1 + bottom.len());
        if middle.len() > room {
            let hidden = middle.len() - room.saturating_sub(1);
            middle.truncate(room.saturating_sub(1));
            if room > 0 {
                middle.push(Line::of(Style::Dim, format!("… {hidden} more")).cut(width));
            }
        }
        let mut lines = [vec![title], middle, bottom].concat();
        lines.truncate(height);
        lines
    }

    /// A set in one line.
    fn row(&self, key: &ObjectKey, outcome: &Outcome, width: usize) -> Line {
        let Some(set) = self.frame.fleet.sets.get(key) else { return Line::default() };
        let (glyph, style) = match outcome {
            Outcome::Complete => ("✔", Style::Green),
            Outcome::Running => ("●", Style::Yellow),
            _ => ("✘", Style::Red),
        };
        let (title, sentence) = self.state(set, key, outcome);
        Line::of(style, format!("{glyph} "))
            .and(Style::Bold, format!("{title}  "))
            .and(Style::Plain, sentence)
            .cut(width)
    }

    /// The state of a set in one line of text.
    pub fn state_of(&self, key: &ObjectKey, outcome: &Outcome) -> String {
        let Some(set) = self.frame.fleet.sets.get(key) else { return key.to_string() };
        let (title, sentence) = self.state(set, key, outcome);
        format!("{title}. {sentence}")
    }

    fn state(&self, set: &Set, key: &ObjectKey, outcome: &Outcome) -> (String, String) {
        // As the status counts: without those that no step selects.
        let counted = |member: &&Member| !set.plan.rolling || member.step.is_some();
        let members = || set.members.values().filter(counted);
        let (total, done) =
            (members().count(), members().filter(|member| set.is_done(member)).count());
        let step = match set.status.open_step {
            Some(step) => format!(", step {} of {}", step + 1, set.plan.steps.len()),
            None => String::new(),
        };
        let title = format!("{}{step}, {done}/{total} done", self.called(key));
        (title, sentence(set, outcome, None, self.frame.now).plain())
    }

    /// The name of a set; with its namespace when there are several.
    fn called(&self, key: &ObjectKey) -> String {
        let mut others = self.outcomes.iter().map(|(key, _)| key);
        match others.any(|other| other.namespace != key.namespace) {
            true => key.to_string(),
            false => key.name.clone(),
        }
    }

    fn members(&self) -> usize {
        self.frame.fleet.known().map(|set| set.members.len()).sum()
    }

    fn all_sets(&self, width: usize, room: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut room = room;
        for (key, _) in self.outcomes {
            let Some(set) = self.frame.fleet.sets.get(key) else { continue };
            if self.outcomes.len() > 1 {
                let time = match set.duration(self.frame.now) {
                    Some(time) => format!("  {}", clock(time)),
                    None => String::new(),
                };
                lines.push(Line::default());
                let title = format!("ApplicationSet {}", self.called(key));
                lines.push(Line::of(Style::Bold, title).and(Style::Dim, time).cut(width));
            }
            lines.extend(set_lines(set, width, &mut room, self.frame.now));
        }
        lines
    }

    /// What is waited for, and the notes.
    fn bottom(&self, width: usize, height: Option<usize>) -> Vec<Line> {
        let mut lines = vec![Line::default()];
        for (key, outcome) in self.outcomes {
            if let Some(set) = self.frame.fleet.sets.get(key) {
                let name = self.called(key);
                let many = (self.outcomes.len() > 1).then_some(name.as_str());
                let line = sentence(set, outcome, many, self.frame.now);
                // Why it cannot go on is said in full, where there is room.
                let failed = || set.members.values().filter_map(|member| member.seen.as_ref());
                let matters = outcome.is_stuck() || failed().any(AppView::is_stuck);
                let is_roomy = height.is_none_or(|height| height >= ROOMY);
                match many {
                    None if matters && is_roomy => lines.extend(line.wrapped(width, WRAPPED)),
                    _ => lines.push(line.cut(width)),
                }
            }
        }
        lines.extend(self.notes(width));
        lines
    }

    fn notes(&self, width: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(why) = self.frame.disconnected {
            let text = format!("Disconnected, retrying: {why}");
            lines.push(Line::of(Style::Red, text).cut(width));
        }
        // In full, since they are to be copied.
        for note in self.frame.notes {
            let mut rest = note.as_str();
            while !rest.is_empty() && width > 0 {
                let fits = rest.char_indices().map(|(at, c)| at + c.len_utf8());
                let end = fits.take_while(|end| columns(&rest[..*end]) <= width).last();
                let end = end.unwrap_or(rest.len());
                lines.push(Line::of(Style::Dim, &rest[..end]));
                rest = &rest[end..];
            }
        }
        lines
    }

    fn title(&self, width: usize) -> Line {
        let what = match self.outcomes {
            [] => "starting".to_owned(),
            [(key, _)] => {
                let members = count(self.members(), "Application");
                format!("ApplicationSet {}, {members}", key.name)
            }
            sets => {
                let members = count(self.members(), "Application");
                format!("{} ApplicationSets, {members}", sets.len())
            }
        };
        let left = Line::of(Style::Bold, "Wavegate").and(Style::Plain, format!("  {what}"));
        let clock = clock(self.frame.elapsed);
        let left = left.cut(width.saturating_sub(clock.len() + 1));
        let gap = width.saturating_sub(left.width() + clock.len());
        left.and(Style::Dim, format!("{:gap$}{clock}", "")).cut(width)
    }
}

/// A time in whole seconds.
fn clock(time: Duration) -> String {
    seconds(Duration::from_secs(time.as_secs()))
}

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

fn set_lines(set: &Set, width: usize, room: &mut usize, now: Timestamp) -> Vec<Line> {
    let name_width = set.members.keys().map(|name| columns(name)).max().unwrap_or_default();
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
        let size = usize::try_from(set.count(step).total).unwrap_or(usize::MAX);
        shares[step] = size.min(*room);
        *room = room.saturating_sub(size);
    }
    let mut lines = Vec::new();
    for (step, share) in shares.iter().enumerate() {
        lines.push(Line::default());
        lines.push(step_line(set, step, width));
        lines.extend(member_lines(set, Some(step), *share, name_width, width, now));
    }
    let outside = set.members.values().filter(|member| member.step.is_none()).count();
    if outside > 0 {
        lines.push(Line::default());
        lines.push(Line::of(Style::Bold, "Not selected by a step").cut(width));
        let share = outside.min(*room);
        *room = room.saturating_sub(outside);
        lines.extend(member_lines(set, None, share, name_width, width, now));
    }
    lines
}

fn member_lines(
    set: &Set,
    step: Option<usize>,
    share: usize,
    name_width: usize,
    width: usize,
    now: Timestamp,
) -> Vec<Line> {
    if share == 0 {
        return Vec::new();
    }
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
        .map(|(name, member)| member_line(set, name, member, name_width, width, now))
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

fn member_line(
    set: &Set,
    name: &str,
    member: &Member,
    name_width: usize,
    width: usize,
    now: Timestamp,
) -> Line {
    let seen = member.seen.clone().unwrap_or_default();
    let stuck = member.seen.as_ref().is_some_and(AppView::is_stuck);
    let is_done = set.is_done(member);
    let (glyph, style) = match () {
        () if is_done => ("✔", Style::Green),
        () if stuck => ("✘", Style::Red),
        () if member.in_flight => ("●", Style::Yellow),
        () => ("○", Style::Dim),
    };
    let phase = match (set.plan.rolling, member.current_phase()) {
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
        (false, false) if seen.detail.is_empty() => String::new(),
        (false, false) => {
            let (since, until) = set.wait_of(name, member);
            timed(short(&seen.detail), since, until, now)
        }
    };
    line.and(if stuck { Style::Red } else { Style::Plain }, format!("  {detail}")).cut(width)
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
fn sentence(set: &Set, outcome: &Outcome, name: Option<&str>, now: Timestamp) -> Line {
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

/// What the set is waiting for: a failed Application first, then running operations, then
/// the status of the set.
pub(in crate::cli) fn waiting(set: &Set, now: Timestamp) -> String {
    if set.is_deleting {
        return "The set is being deleted".to_owned();
    }
    if !set.status.exists && set.plan.observed.is_some() {
        return "Waiting for a controller: none has reconciled the set yet; check that one is running and \
                watches its namespace"
            .to_owned();
    }
    let wait = |name: &str, member: &Member, detail: &str| {
        let (since, until) = set.wait_of(name, member);
        timed(short(detail), since, until, now)
    };
    let seen = |pick: fn(&Member, &AppView) -> bool| {
        let members = set.members.iter().filter(|(_, member)| !set.is_done(member));
        let mut seen =
            members.filter_map(|(name, member)| Some((name, member, member.seen.as_ref()?)));
        seen.find(|(_, member, seen)| !seen.detail.is_empty() && pick(member, seen))
    };
    if let Some((name, _, seen)) = seen(|_, seen| seen.is_stuck()) {
        return format!("{name} failed: {}", seen.detail);
    }
    if let Some((name, member, seen)) = seen(|member, _| member.in_flight) {
        let others = set.members.values().filter(|member| member.in_flight).count() - 1;
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        let stage =
            if seen.stage.is_empty() { String::new() } else { format!(" ({})", seen.stage) };
        let detail = wait(name, member, &seen.detail);
        return format!("Waiting for {name}{others}{stage}: {detail}");
    }
    if let Some(Wait { application, reason, since, until }) = set.status.waiting.first() {
        let member = set.members.get(application);
        let (since, until) =
            member.map_or((*since, *until), |member| set.wait_of(application, member));
        let is_done = |member: &Member| {
            let seen = member.seen.as_ref().filter(|seen| !seen.is_partial);
            member.phase == RolloutPhase::Progressing && seen.is_some_and(AppView::is_done)
        };
        let reason = match reason.rsplit_once(", until ") {
            // The status of the set follows its Applications.
            _ if member.is_some_and(is_done) => DONE,
            // Said as the limit already.
            Some((what, end)) if until.is_some() && end.ends_with(" at most") => what,
            _ => reason,
        };
        return format!("Waiting for {application}{}: {reason}", age(since, until, now));
    }
    let unfinished = set.members.iter().find(|(_, member)| !set.is_done(member));
    match unfinished.and_then(|(name, member)| Some((name, member.seen.as_ref()?))) {
        Some((name, seen)) => format!("Waiting for {name}: {}, {}", seen.sync, seen.health),
        None => "Waiting for the controllers".to_owned(),
    }
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
