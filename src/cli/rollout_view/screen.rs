//! The screen: draws a fleet in lines that fit a width and a height. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::fleet::Fleet;
use super::sentence::{detail, run_wait, seconds, sentence, why};
use super::set::{WatchedSet, max_update};
use super::text::{Style, StyledLine, cell, count, ellipsis, width as columns};
use wavegate_api::{HealthStatus, ObjectKey, SyncStatusCode};
use wavegate_rollout::rollout::budget::Limit;
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::{
    ApplicationReport, Count, Member, RolloutOutcome, StepStatus,
};

/// What is shown at one time.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Frame<'a> {
    pub fleet: &'a Fleet,
    /// Time since the start.
    pub elapsed: Duration,
    pub now: Timestamp,
    /// Lines at the bottom, such as how to reach the server.
    pub notes: &'a [String],
    /// Why there are no news of the API server.
    pub disconnected: Option<&'a str>,
}

/// The content of one screen.
#[derive(Debug)]
pub(in crate::cli) struct Screen<'a> {
    pub frame: Frame<'a>,
    /// Outcome of each set.
    pub outcomes: &'a [(ObjectKey, RolloutOutcome)],
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
    pub fn lines(&self, width: usize, height: Option<usize>) -> Vec<StyledLine> {
        let title = self.title(width);
        let bottom = self.bottom(width, height);
        let Some(height) = height else {
            return [vec![title], self.all_sets(width, usize::MAX), bottom].concat();
        };
        // Omitted first: the members of complete steps, then of later steps, then of the
        // current one.
        let mut lines_left = height;
        loop {
            let middle = self.all_sets(width, lines_left);
            let used = middle.len() + bottom.len() + 1;
            if used <= height {
                return [vec![title], middle, bottom].concat();
            }
            if lines_left == 0 {
                return self.compact(title, middle, bottom, width, height);
            }
            // At least one less each time, so that the loop ends.
            lines_left = lines_left.saturating_sub((used - height).max(1));
        }
    }

    /// For a screen that is too small for all steps: without blank lines, and with as many
    /// as fit between the title and what is waited for.
    fn compact(
        &self,
        title: StyledLine,
        middle: Vec<StyledLine>,
        mut bottom: Vec<StyledLine>,
        width: usize,
        height: usize,
    ) -> Vec<StyledLine> {
        let mut middle = match self.outcomes.len() {
            0 | 1 => middle,
            _ => {
                bottom = self.notes(width);
                self.rows(width, height.saturating_sub(1 + bottom.len()))
            }
        };
        middle.retain(|line| line.width() > 0);
        bottom.retain(|line| line.width() > 0);
        bottom.truncate(height.saturating_sub(1));
        let lines_left = height.saturating_sub(1 + bottom.len());
        if middle.len() > lines_left {
            let hidden = middle.len() - lines_left.saturating_sub(1);
            middle.truncate(lines_left.saturating_sub(1));
            if lines_left > 0 {
                middle.push(StyledLine::of(Style::Dim, format!("… {hidden} more")).cut(width));
            }
        }
        let mut lines = [vec![title], middle, bottom].concat();
        lines.truncate(height);
        lines
    }

    /// Each set in one line, or in several ones where all fit.
    fn rows(&self, width: usize, lines_left: usize) -> Vec<StyledLine> {
        let rows = |most: usize| -> Vec<StyledLine> {
            let of =
                |(key, outcome): &(ObjectKey, RolloutOutcome)| self.row(key, outcome, width, most);
            self.outcomes.iter().flat_map(of).collect()
        };
        let fitting = (2..=WRAPPED).rev().map(rows).find(|rows| rows.len() <= lines_left);
        fitting.unwrap_or_else(|| rows(1))
    }

    /// A set in up to `most` lines.
    fn row(
        &self,
        key: &ObjectKey,
        outcome: &RolloutOutcome,
        width: usize,
        most: usize,
    ) -> Vec<StyledLine> {
        let Some(set) = self.frame.fleet.sets.get(key) else { return Vec::new() };
        let (glyph, style) = match outcome {
            RolloutOutcome::Complete if set.complete_without().is_some() => ("✔", Style::Yellow),
            RolloutOutcome::Complete => ("✔", Style::Green),
            RolloutOutcome::Running => ("●", Style::Yellow),
            _ => ("✘", Style::Red),
        };
        let (title, sentence) = self.state(set, key, outcome);
        let text = StyledLine::of(Style::Bold, format!("{title}  ")).and(Style::Plain, sentence);
        let lines = text.wrapped(width.saturating_sub(2), most).into_iter().enumerate();
        let begin = |at| if at == 0 { format!("{glyph} ") } else { "  ".to_owned() };
        lines
            .map(|(at, line)| StyledLine::of(style, begin(at)).followed_by(line).cut(width))
            .collect()
    }

    /// The state of a set in one line of text.
    pub fn state_of(&self, key: &ObjectKey, outcome: &RolloutOutcome) -> String {
        let Some(set) = self.frame.fleet.sets.get(key) else { return key.to_string() };
        let (title, sentence) = self.state(set, key, outcome);
        format!("{title}. {sentence}")
    }

    fn state(
        &self,
        set: &WatchedSet,
        key: &ObjectKey,
        outcome: &RolloutOutcome,
    ) -> (String, String) {
        // As the status counts: without those that no step selects.
        let Count { total, done, .. } = set.report.total();
        let step = match set.report.open_step {
            Some(step) => format!(", step {} of {}", step + 1, set.report.steps.len()),
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
        self.frame.fleet.known().map(|set| set.report.members.len()).sum()
    }

    fn all_sets(&self, width: usize, lines_left: usize) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        let mut lines_left = lines_left;
        for (key, _) in self.outcomes {
            let Some(set) = self.frame.fleet.sets.get(key) else { continue };
            if self.outcomes.len() > 1 {
                let time = match set.duration(self.frame.now) {
                    Some(time) => format!("  {}", clock(time)),
                    None => String::new(),
                };
                lines.push(StyledLine::default());
                let title = format!("ApplicationSet {}", self.called(key));
                lines.push(StyledLine::of(Style::Bold, title).and(Style::Dim, time).cut(width));
            }
            lines.extend(set_lines(set, width, &mut lines_left, self.frame.now));
        }
        lines
    }

    /// What is waited for, and the notes.
    fn bottom(&self, width: usize, height: Option<usize>) -> Vec<StyledLine> {
        let mut lines = vec![StyledLine::default()];
        for (key, outcome) in self.outcomes {
            if let Some(set) = self.frame.fleet.sets.get(key) {
                let name = self.called(key);
                let many = (self.outcomes.len() > 1).then_some(name.as_str());
                let line = sentence(set, outcome, many, self.frame.now);
                // Why it cannot go on is said in full, where it fits.
                let says_why =
                    |member: &Member| member.live.as_ref().is_some_and(|live| live.doing.is_reason);
                let holds = |member: &Member| set.report.hold(member).is_some() || says_why(member);
                let matters = outcome.is_stuck()
                    || set.report.members.values().any(holds)
                    || run_wait(set, self.frame.now).is_some();
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

    fn notes(&self, width: usize) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if let Some(why) = self.frame.disconnected {
            let text = format!("Disconnected, retrying: {why}");
            lines.push(StyledLine::of(Style::Red, text).cut(width));
        }
        // In full, since they are to be copied.
        for note in self.frame.notes {
            let mut rest = note.as_str();
            while !rest.is_empty() && width > 0 {
                let fits = rest.char_indices().map(|(at, c)| at + c.len_utf8());
                let end = fits.take_while(|end| columns(&rest[..*end]) <= width).last();
                let end = end.unwrap_or(rest.len());
                let line = StyledLine::of(Style::Dim, &rest[..end]);
                rest = &rest[end..];
                // A terminal copies it as one line then. A wide character may not have fitted.
                let is_full = line.width() == width && !rest.is_empty();
                lines.push(if is_full { line.continued() } else { line });
            }
        }
        lines
    }

    fn title(&self, width: usize) -> StyledLine {
        let what = match self.outcomes {
            [] => "starting".to_owned(),
            [(key, _)] => {
                let members = count(self.members(), "Application");
                let set = self.frame.fleet.sets.get(key);
                let left = set.and_then(WatchedSet::left).map(|left| format!(", {left}"));
                format!("ApplicationSet {}, {members}{}", key.name, left.unwrap_or_default())
            }
            sets => {
                let members = count(self.members(), "Application");
                format!("{} ApplicationSets, {members}", sets.len())
            }
        };
        let left = StyledLine::of(Style::Bold, "Wavegate").and(Style::Plain, format!("  {what}"));
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

fn set_lines(
    set: &WatchedSet,
    width: usize,
    lines_left: &mut usize,
    now: Timestamp,
) -> Vec<StyledLine> {
    let report = &set.report;
    let name_width = report.members.keys().map(|name| columns(name)).max().unwrap_or_default();
    let name_width = name_width.min(NAME_WIDTH).min(width / 3);
    // When not all members fit: those of the current step first, then of later ones.
    let mut shares = vec![0; report.steps.len()];
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|step| match report.step_status(*step) {
        StepStatus::Open => (0, *step),
        StepStatus::Closed => (1, *step),
        StepStatus::Done => (2, *step),
    });
    for step in order {
        let size = usize::try_from(report.steps[step].count.total).unwrap_or(usize::MAX);
        shares[step] = size.min(*lines_left);
        *lines_left = lines_left.saturating_sub(size);
    }
    let mut lines = Vec::new();
    for (step, share) in shares.iter().enumerate() {
        lines.push(StyledLine::default());
        lines.push(step_line(set, step, width));
        lines.extend(member_lines(set, Some(step), *share, name_width, width, now));
    }
    let is_outside = |member: &&Member| report.is_rolling() && member.step.is_none();
    let outside = report.members.values().filter(is_outside).count();
    if outside > 0 {
        lines.push(StyledLine::default());
        lines.push(StyledLine::of(Style::Bold, "Not selected by a step").cut(width));
        let share = outside.min(*lines_left);
        *lines_left = lines_left.saturating_sub(outside);
        lines.extend(member_lines(set, None, share, name_width, width, now));
    }
    lines
}

fn member_lines(
    set: &WatchedSet,
    step: Option<usize>,
    share: usize,
    name_width: usize,
    width: usize,
    now: Timestamp,
) -> Vec<StyledLine> {
    if share == 0 {
        return Vec::new();
    }
    let report = &set.report;
    let mut members: Vec<(&String, &Member)> =
        report.members.iter().filter(|(_, one)| !report.is_rolling() || one.step == step).collect();
    let hidden = members.len().saturating_sub(share);
    if hidden > 0 {
        // Complete members are the least interesting.
        members.sort_by_key(|(_, member)| report.is_done(member));
        members.truncate(share);
        members.sort_by_key(|(name, _)| *name);
    }
    let mut lines: Vec<StyledLine> = members
        .into_iter()
        .map(|(name, member)| member_line(set, name, member, name_width, width, now))
        .collect();
    if hidden > 0 && share > 0 {
        lines.pop();
        lines.push(StyledLine::of(Style::Dim, format!("    … {} more", hidden + 1)).cut(width));
    }
    lines
}

fn step_line(set: &WatchedSet, step: usize, width: usize) -> StyledLine {
    let report = &set.report;
    let plan = &report.steps[step];
    let Count { total, done, in_flight, .. } = plan.count;
    let (word, style) = match report.step_status(step) {
        StepStatus::Closed => ("closed", Style::Dim),
        StepStatus::Open => ("open", Style::Cyan),
        StepStatus::Done => ("done", Style::Green),
    };
    let title = if report.is_rolling() { format!("Step {}", step + 1) } else { "All".to_owned() };
    let flight = match plan.limit() {
        Limit::AtMost(limit) => format!("{in_flight} of {limit} in flight"),
        Limit::Unlimited => format!("{in_flight} in flight"),
    };
    let progress = format!("{done}/{total} done");
    let written = match max_update(&plan.rule.max_update) {
        none if none.is_empty() => none,
        written => format!("maxUpdate {written}"),
    };
    let fixed = title.len() + progress.len() + flight.len() + word.len() + 8;
    let bar = if width >= WITH_BAR { BAR + 2 } else { 0 };
    let left = width.saturating_sub(fixed + bar);
    let written = Some(written).filter(|text| !text.is_empty() && text.len() + 12 <= left);
    let left = left.saturating_sub(written.as_ref().map_or(0, |text| text.len() + 2));
    let mut line = StyledLine::of(Style::Bold, &title)
        .and(Style::Plain, format!("  {}", ellipsis(&set.selects(step), left.min(40), false)));
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
    set: &WatchedSet,
    name: &str,
    member: &Member,
    name_width: usize,
    width: usize,
    now: Timestamp,
) -> StyledLine {
    let report = &set.report;
    let live = member.live.as_ref();
    let held = report.hold(member);
    let is_done = report.is_done(member);
    let (glyph, style) = match () {
        () if is_done => ("✔", Style::Green),
        () if held.is_some() => ("✘", Style::Red),
        () if report.is_in_flight(member) => ("●", Style::Yellow),
        () => ("○", Style::Dim),
    };
    let phase = match (report.is_rolling(), member.phase()) {
        _ if live.is_none() && held.is_some() => "refused",
        (true, None) if live.is_none() => "to come",
        (true, phase) => phase.map_or("Unknown", Phase::name),
        (false, _) if is_done => "done",
        (false, _) if member.is_operating() => "syncing",
        (false, _) => "",
    };
    let stage = match live.map(|live| (live.doing.stage.as_str(), live.observed.sync)) {
        None | Some(("", SyncStatusCode::Unknown)) => "",
        Some(("", sync)) => sync.as_str(),
        Some((stage, _)) => stage,
    };
    let known = live.map_or(HealthStatus::Unknown, |live| live.observed.health);
    let health = if known == HealthStatus::Unknown { "" } else { known.as_str() };
    let text = if is_done { Style::Dim } else { Style::Plain };
    let mut line = StyledLine::of(style, format!("  {glyph} "))
        .and(if is_done { Style::Plain } else { Style::Bold }, cell(name, name_width))
        .and(style, format!("  {}", cell(phase, 11)))
        .and(text, format!("  {}", cell(stage, 11)));
    if width >= WITH_HEALTH {
        let style = match known {
            HealthStatus::Degraded => Style::Red,
            HealthStatus::Healthy => Style::Green,
            _ => text,
        };
        line = line.and(style, format!("  {}", cell(health, 11)));
    }
    let stuck = live.filter(|live| live.is_stuck());
    let detail = match &held {
        Some(held) => why(report, set.run(), name, held),
        None if is_done => String::new(),
        // A failure has no age.
        None => match stuck {
            Some(ApplicationReport { doing, .. }) => doing.detail.clone(),
            None => detail(report, member, now),
        },
    };
    line.and(if held.is_some() { Style::Red } else { Style::Plain }, format!("  {detail}"))
        .cut(width)
}
