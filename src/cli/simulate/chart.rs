//! A timeline as text for a terminal: a line for each Application, or how many of a step are
//! in which state. Pure.

use super::scale::{TimeAxis, exact, short, ticks};
use super::segments::{
    DrawnStep, Row, cells, counts, failed, in_flight, occurring, peaks, runs, steps_of_sets,
};
use super::timeline::{GateLine, Look, SetLine, StepLine, Timeline, TimelineMark};
use crate::cli::rollout_view::text::{Style, StyledLine, count, width as columns};
use wavegate_engine::names::some_of;
use wavegate_simulation::SpanKind;

#[cfg(test)]
mod tests;

/// Columns of the durations, with the space before them.
const DURATION: usize = 11;
/// The narrowest bar with a column of durations beside it.
const WITH_DURATION: usize = 20;
/// The widest column of names, for one that is as long as a label may be, and the one for the names
/// of states.
const NAMES: usize = 65;
const STATES: usize = 19;
/// Below this width, names take a third of it at most; else two fifths.
const NARROW: usize = 80;
/// Columns for each tick, so that labels such as `12h30m` stay apart.
const TICK: usize = 9;
/// Most lines of an outcome and of the legend.
const WRAPPED: usize = 6;
/// Most gates of a step, marks, and names of Applications that failed.
const GATES: usize = 8;
const MARKS: usize = 24;
const FAILED: usize = 5;
/// Most steps, so that the text has an end.
const STEPS: usize = 200;
/// Parts of a column by height.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A timeline in lines that are not wider than `width`, each with a line break.
///
/// Up to `max_rows` Applications have a line each. When there are more, the lines are shared
/// among the steps, and a step with more Applications than its share has a line for each state
/// instead: how many Applications are in it over time, each relative to its own maximum.
/// The other lines, such as headings, gates and marks, are not counted.
pub fn chart(timeline: &Timeline, width: usize, colors: bool, max_rows: usize) -> String {
    let mut out = String::new();
    for line in Chart::of(timeline, width, max_rows).lines() {
        out.push_str(&line.cut(width).show(colors));
        out.push('\n');
    }
    out
}

/// The columns, and what is the same for all lines.
struct Chart<'a> {
    timeline: &'a Timeline,
    clock: TimeAxis,
    width: usize,
    names: usize,
    bar: usize,
    has_durations: bool,
    /// Most Applications that a step shows one by one.
    share: usize,
    /// The steps of each set with their rows, as many as are shown.
    sets: Vec<(&'a SetLine, Vec<DrawnStep<'a>>)>,
    hidden: usize,
}

impl<'a> Chart<'a> {
    fn of(timeline: &'a Timeline, width: usize, max_rows: usize) -> Self {
        let clock = TimeAxis::of(timeline);
        let sets = steps_of_sets(timeline, clock, STEPS);
        let shown: usize = sets.iter().map(|(_, steps)| steps.len()).sum();
        let share = match timeline.applications() <= max_rows {
            true => usize::MAX,
            false => max_rows / shown.max(1),
        };
        let of_step = |step: &DrawnStep| match step.rows.len() <= share {
            true => step.rows.iter().map(|row| 2 + columns(&row.application.name)).max(),
            false => Some(STATES),
        };
        let gates = timeline.steps().flat_map(|step| step.gates.iter().take(GATES));
        let widest = sets.iter().flat_map(|(_, steps)| steps).filter_map(of_step);
        let widest = widest.chain(gates.map(|gate| 7 + columns(&gate.name))).max();
        let most = if width < NARROW { width / 3 } else { width * 2 / 5 };
        let names = widest.unwrap_or_default().clamp(STATES, NAMES).min(most.max(8));
        let left = width.saturating_sub(names + 1);
        let has_durations = left >= WITH_DURATION + DURATION;
        let bar = if has_durations { left - DURATION } else { left };
        let hidden = timeline.steps().count() - shown;
        Self { timeline, clock, width, names, bar, has_durations, share, sets, hidden }
    }

    fn lines(&self) -> Vec<StyledLine> {
        let mut lines = self.title();
        lines.push(StyledLine::default());
        lines.extend(self.axis());
        let mut marks: Vec<&TimelineMark> = self.timeline.marks.iter().collect();
        marks.sort_by_key(|mark| (mark.at, mark.until));
        lines.extend(marks.iter().take(MARKS).map(|mark| self.mark(mark)));
        lines.extend(more(marks.len(), MARKS, "mark"));
        for (set, steps) in self.sets.iter().filter(|(_, steps)| !steps.is_empty()) {
            if self.sets.len() > 1 {
                lines.push(StyledLine::default());
                lines.push(StyledLine::of(Style::Bold, set.key()));
            }
            for step in steps {
                lines.push(StyledLine::default());
                lines.extend(self.step(step));
            }
        }
        if self.hidden > 0 {
            lines.push(StyledLine::default());
            let text = format!("… and {}", count(self.hidden, "more step"));
            lines.push(StyledLine::of(Style::Dim, text));
        }
        let legend = self.legend();
        if legend.width() > 0 {
            lines.push(StyledLine::default());
            lines.extend(legend.wrapped(self.width, WRAPPED));
        }
        lines
    }

    /// What it is about, and how it ended.
    fn title(&self) -> Vec<StyledLine> {
        let facts = format!(
            "  {}, {}, {}",
            count(self.timeline.applications(), "Application"),
            count(self.timeline.step_count(), "step"),
            exact(self.clock.length),
        );
        let (glyph, style) = match self.timeline.is_complete {
            true => ("✔ ", Style::Green),
            false => ("✖ ", Style::Red),
        };
        let outcome = StyledLine::of(style, glyph).and(style, &self.timeline.outcome);
        let mut lines =
            vec![StyledLine::of(Style::Bold, self.timeline.title()).and(Style::Dim, facts)];
        lines.extend(outcome.wrapped(self.width, WRAPPED));
        lines
    }

    /// Times over a ruler.
    fn axis(&self) -> [StyledLine; 2] {
        let indent = " ".repeat(self.names + 1);
        let mut ruler = vec!['-'; self.bar];
        for end in [0, self.bar.saturating_sub(1)] {
            if let Some(cell) = ruler.get_mut(end) {
                *cell = '|';
            }
        }
        let mut labels = String::new();
        let positions = ticks(self.clock.length, (self.bar / TICK).max(1));
        for offset in positions {
            let at = self.column(offset);
            if let Some(cell) = ruler.get_mut(at).filter(|cell| **cell == '-') {
                *cell = '+';
            }
            labels.push_str(&" ".repeat(at.saturating_sub(labels.len())));
            labels.push_str(&exact(offset));
        }
        let ruler: String = ruler.into_iter().collect();
        [indent.clone() + &labels, indent + &ruler].map(|line| StyledLine::of(Style::Dim, line))
    }

    /// The column of a time within the bar.
    fn column(&self, offset: i64) -> usize {
        let column = (self.clock.part(offset) * self.bar as f64) as usize;
        column.min(self.bar.saturating_sub(1))
    }

    /// A moment or a time with its text beside it.
    fn mark(&self, mark: &TimelineMark) -> StyledLine {
        let from = self.clock.offset(mark.at);
        let until = mark.until.map(|until| self.clock.offset(until).max(from));
        let first = self.column(from);
        let bar = match until.map(|until| self.column(until) - first) {
            None | Some(0) => "▼".to_owned(),
            Some(size) => format!("├{}┤", "─".repeat(size - 1)),
        };
        // What happens after the end of the rollout changes nothing, and is not within it.
        let name = format!("at {}", exact(self.clock.since_start(mark.at)));
        let name = StyledLine::of(Style::Cyan, name);
        let end = until.map(|until| short(until - from)).unwrap_or_default();
        let text = StyledLine::of(Style::Cyan, &mark.text);
        self.row(name, self.beside(first, &bar, Style::Cyan, text), &end, Style::Cyan)
    }

    /// A bar that begins in a column, and a text after it, or before it, or within it, where
    /// there is more space.
    fn beside(&self, first: usize, bar: &str, style: Style, text: StyledLine) -> StyledLine {
        let used = first + columns(bar);
        let after = self.bar.saturating_sub(used + 1);
        let before = first.saturating_sub(1);
        let within = columns(bar).saturating_sub(4);
        if text.width() > after.max(before) && within > after.max(before) {
            let text = text.cut(within);
            let end = bar.chars().skip(text.width() + 3).collect::<String>();
            let start = bar.chars().next().map(String::from).unwrap_or_default();
            return StyledLine::of(Style::Plain, " ".repeat(first))
                .and(style, start + " ")
                .followed_by(text)
                .and(style, format!(" {end}"));
        }
        let bar = StyledLine::of(style, bar);
        if text.width() <= after || after >= before {
            let bar = StyledLine::of(Style::Plain, " ".repeat(first)).followed_by(bar);
            return bar.and(Style::Plain, " ").followed_by(text.cut(after));
        }
        let text = text.cut(before);
        let space = " ".repeat(first - 1 - text.width());
        StyledLine::of(Style::Plain, space)
            .followed_by(text)
            .and(Style::Plain, " ")
            .followed_by(bar)
    }

    /// A line in columns.
    fn row(&self, name: StyledLine, bar: StyledLine, end: &str, style: Style) -> StyledLine {
        let line = filled(name.cut_within(self.names), self.names).and(Style::Plain, " ");
        self.ended(line.followed_by(bar.cut(self.bar)), end, style)
    }

    /// A line with something in the column of durations.
    fn ended(&self, line: StyledLine, end: &str, style: Style) -> StyledLine {
        if !self.has_durations || end.is_empty() {
            return line;
        }
        let end = StyledLine::of(style, end).cut(DURATION - 1);
        let width = self.names + 1 + self.bar + DURATION - end.width();
        filled(line, width).followed_by(end)
    }

    fn step(&self, step: &DrawnStep) -> Vec<StyledLine> {
        let mut lines = vec![self.heading(step.line)];
        lines.extend(step.line.gates.iter().take(GATES).map(|gate| self.gate(gate)));
        lines.extend(more(step.line.gates.len(), GATES, "gate"));
        if step.rows.len() <= self.share {
            lines.extend(step.rows.iter().map(|row| self.application(row)));
        } else {
            lines.extend(self.states(&step.rows));
        }
        lines
    }

    fn heading(&self, step: &StepLine) -> StyledLine {
        let limit = match step.limit {
            Some(limit) => format!(", maxUpdate {limit}"),
            None => String::new(),
        };
        let total = usize::try_from(step.total).unwrap_or(usize::MAX);
        let line = StyledLine::of(Style::Bold, step.title())
            .and(Style::Plain, format!("  {}{limit}", count(total, "Application")));
        let offset = |time| self.clock.offset(time);
        let took = |start, end| exact((offset(end) - offset(start)).max(0));
        let time = |time| exact(offset(time));
        let again = if step.earlier.is_empty() { "" } else { "again " };
        let (style, text, end) = match (step.opened, step.completed) {
            (Some(start), None) if let Some(ended) = step.ended => {
                let text = format!("opened {again}{}, its run ended {}", time(start), time(ended));
                (Style::Dim, text, String::new())
            }
            (None, None) => (Style::Dim, "not opened".to_owned(), String::new()),
            (None, Some(end)) => (Style::Dim, format!("completed {}", time(end)), String::new()),
            (Some(start), None) => {
                let text = format!("opened {again}{}, not completed", time(start));
                (Style::Yellow, text, String::new())
            }
            (Some(start), Some(end)) => {
                let text = format!("opened {again}{}, completed {}", time(start), time(end));
                (Style::Dim, text, took(start, end))
            }
        };
        let line = line.and(style, format!("  {text}"));
        // The times are worth more than how far they are apart.
        match line.width() <= self.names + 1 + self.bar {
            true => self.ended(line, &end, Style::Bold),
            false => line,
        }
    }

    fn gate(&self, gate: &GateLine) -> StyledLine {
        let (from, until) = self.clock.span(gate.since, gate.until());
        let (first, last) = (self.column(from), self.column(until));
        let bar = match gate.opened {
            Some(_) => format!("{}◆", "/".repeat(last - first)),
            None => "/".repeat(last + 1 - first),
        };
        let by = gate.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let text = format!("{}{by}", gate.what.label());
        let name = StyledLine::of(Style::Yellow, format!("  gate {}", gate.name));
        let bar = self.beside(first, &bar, Style::Yellow, StyledLine::of(Style::Dim, text));
        let end = match (gate.opened, gate.ended) {
            (Some(_), _) => short(until - from),
            (None, Some(_)) => "run ended".to_owned(),
            (None, None) => "not opened".to_owned(),
        };
        self.row(name, bar, &end, Style::Yellow)
    }

    fn application(&self, row: &Row) -> StyledLine {
        let kinds: Vec<Option<SpanKind>> = cells(&row.segments, self.clock.length, self.bar)
            .into_iter()
            .map(|cell| cell.and_then(|index| row.segments.get(index)).map(|one| one.what))
            .collect();
        let (mut bar, mut at) = (StyledLine::default(), 0);
        for (first, size, what) in runs(&kinds) {
            let Look { glyph, style, .. } = Look::of(what);
            let text: String = std::iter::repeat_n(glyph, size).collect();
            bar = bar.and(Style::Plain, " ".repeat(first - at)).and(style, text);
            at = first + size;
        }
        let name = StyledLine::of(Style::Plain, format!("  {}", row.application.name));
        let (end, style) = duration(row);
        self.row(name, bar, &end, style)
    }

    /// How many Applications are in each state, over time.
    fn states(&self, rows: &[Row]) -> Vec<StyledLine> {
        let (seen, peaks) = (occurring(rows), peaks(rows));
        let counts = counts(rows, self.clock.length, self.bar);
        let mut lines = Vec::new();
        for what in SpanKind::ALL.into_iter().filter(|what| seen[what.index()]) {
            let numbers = counts.iter().map(|cell| cell[what.index()]);
            let most = numbers.clone().fold(0.0, f64::max);
            let bar: String = numbers.map(|number| height(number, most)).collect();
            let Look { label, style, .. } = Look::of(what);
            let name = StyledLine::of(Style::Plain, format!("  {label}"));
            let end = format!("max {}", peaks[what.index()]);
            lines.push(self.row(name, StyledLine::of(style, bar), &end, Style::Dim));
        }
        let names = failed(rows);
        if !names.is_empty() {
            let names = some_of(names, FAILED);
            lines.push(StyledLine::of(Style::Red, format!("  failed: {names}")));
        }
        lines
    }

    /// The characters that were used.
    fn legend(&self) -> StyledLine {
        let steps = || self.sets.iter().flat_map(|(_, steps)| steps);
        let shown = steps().filter(|step| step.rows.len() <= self.share);
        let seen = occurring(shown.flat_map(|step| &step.rows));
        let mut line = StyledLine::default();
        let mut add = |style, text: String, label: &str| {
            let space = if line.width() == 0 { "" } else { "  " };
            let before = std::mem::take(&mut line);
            line = before
                .and(Style::Plain, space)
                .and(style, text)
                .and(Style::Dim, format!(" {label}"));
        };
        for what in SpanKind::ALL.into_iter().filter(|what| seen[what.index()]) {
            let Look { label, glyph, style, .. } = Look::of(what);
            add(style, glyph.to_string(), label);
        }
        if steps().any(|step| !step.line.gates.is_empty()) {
            add(Style::Yellow, "/".to_owned(), "gate");
            add(Style::Yellow, "◆".to_owned(), "gate opens");
        }
        line
    }
}

/// How long an Application was in flight, or the state in which it remained.
fn duration(row: &Row) -> (String, Style) {
    let took = short(in_flight(&row.segments));
    match row.ending {
        None => (String::new(), Style::Plain),
        Some(SpanKind::Healthy) => (took, Style::Plain),
        Some(what) if what.is_active() => (format!("{took}+"), Style::Yellow),
        Some(what) => (Look::of(what).label.to_owned(), Look::of(what).style),
    }
}

fn height(number: f64, most: f64) -> char {
    if number <= 1e-6 || most <= 0.0 {
        return ' ';
    }
    let part = (number / most * HEIGHTS.len() as f64).ceil() as usize;
    HEIGHTS[part.clamp(1, HEIGHTS.len()) - 1]
}

fn more(all: usize, most: usize, thing: &str) -> Option<StyledLine> {
    let hidden = all.checked_sub(most).filter(|hidden| *hidden > 0)?;
    Some(StyledLine::of(Style::Dim, format!("  … and {}", count(hidden, &format!("more {thing}")))))
}

/// A line with spaces up to a width.
fn filled(line: StyledLine, width: usize) -> StyledLine {
    let space = width.saturating_sub(line.width());
    line.and(Style::Plain, " ".repeat(space))
}
