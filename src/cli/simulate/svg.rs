//! A timeline as a picture: a Gantt chart by step and Application, as SVG. Pure.
//!
//! The file stands alone, without scripts, fonts or links, and follows the colour scheme of the
//! reader. Up to 60 Applications have a row with a name each. Up to about 1,000 have a thin row
//! each, with the name in a tooltip. More are counted: areas show how many of a step are in
//! which state over time.

mod area;
mod layout;
mod marks;
mod step;
mod style;
mod writer;

#[cfg(test)]
mod tests;

use self::layout::{Density, Layout};
use self::marks::Marks;
use self::step::Sheet;
use self::writer::{Anchor, Writer, columns, cut};
use super::scale::{exact, short, ticks};
use super::segments::occurring;
use super::timeline::{Look, Timeline};
use crate::cli::rollout_view::text::count;
use wavegate_simulation::SpanKind;

/// Where the first line of text stands.
const TITLE: f64 = 34.0;
/// The height of a line of the legend.
const LEGEND: f64 = 22.0;
/// Space for the labels of the axis.
const AXIS: f64 = 24.0;
/// Most columns of a line of text, and most lines of an outcome.
const LINE: usize = 150;
const OUTCOME: usize = 3;

/// A timeline as an SVG document.
///
/// The same timeline gives the same bytes. The size is bounded: below 2 MB whatever the number
/// of sets, steps, Applications, spans and marks is, with names of usual lengths.
pub fn svg(timeline: &Timeline) -> String {
    let layout = Layout::of(timeline);
    let mut body = Writer::default();
    let mut y = title(&mut body, &layout);
    y = legend(&mut body, &layout, y);
    let marks = Marks::of(&layout);
    let axis = y + marks.height() + AXIS;
    let mut sheet = Sheet::default();
    let end = step::steps(&mut sheet, &layout, axis + 6.0);
    body.open("g", "under");
    lines(&mut body, &layout, axis, end);
    body.close("g");
    body.append(sheet.shapes);
    if layout.density != Density::Named {
        body.open("g", "over");
        lines(&mut body, &layout, axis, end);
        body.close("g");
    }
    marks.draw(&mut body, &layout, y, axis, end);
    scale(&mut body, &layout, axis, end);
    body.append(sheet.labels);
    document(timeline, &body.finish(), layout::WIDTH, end + AXIS + 8.0)
}

fn document(timeline: &Timeline, body: &str, width: f64, height: f64) -> String {
    let mut out = Writer::default();
    let sets: Vec<String> = timeline.sets.iter().take(9).map(|set| set.key()).collect();
    let title = format!("Simulated rollout of {}: {}", sets.join(", "), timeline.outcome);
    out.root(width, height, &cut(&title, LINE));
    out.raw(style::STYLE);
    out.raw(style::PATTERNS);
    out.rect("bg", 0.0, 0.0, width, height);
    out.raw(body);
    out.raw("</svg>\n");
    out.finish()
}

/// What it is about, and how it ended.
fn title(out: &mut Writer, layout: &Layout) -> f64 {
    let timeline = layout.timeline;
    out.text(layout::MARGIN, TITLE, "h1", Anchor::Start, &cut(&timeline.title(), LINE / 2));
    let facts = format!(
        "{} in {} · {} · from {}",
        count(timeline.applications(), "Application"),
        count(timeline.step_count(), "step"),
        exact(layout.clock.length),
        layout.clock.time(0),
    );
    out.text(layout::WIDTH - layout::MARGIN, TITLE, "dim", Anchor::End, &facts);
    let class = if timeline.is_complete { "good" } else { "bad" };
    let glyph = if timeline.is_complete { "✔" } else { "✖" };
    let mut y = TITLE;
    for line in writer::wrapped(&format!("{glyph} {}", timeline.outcome), LINE, OUTCOME) {
        y += 20.0;
        out.text(layout::MARGIN, y, class, Anchor::Start, &line);
    }
    y + 8.0
}

/// The states that occur, with their colours.
fn legend(out: &mut Writer, layout: &Layout, top: f64) -> f64 {
    let seen = occurring(layout.steps().flat_map(|step| &step.rows));
    let looks = SpanKind::ALL.into_iter().filter(|what| seen[what.index()]).map(Look::of);
    let mut items: Vec<(&str, &str)> = looks.map(|look| (look.class, look.label)).collect();
    if layout.steps().any(|step| !step.line.gates.is_empty()) {
        items.push(("gate", "gate"));
    }
    if items.is_empty() {
        return top;
    }
    if layout.steps().any(|step| step.line.opened.is_some()) {
        items.push(("open", "step is open"));
    }
    let (mut x, y) = (layout::MARGIN, top + LEGEND - 6.0);
    for (class, label) in items {
        out.rounded(class, x, y - 10.0, 18.0, 12.0, 2.0);
        out.text(x + 24.0, y, "small", Anchor::Start, label);
        x += 24.0 + columns(label) * writer::SMALL + 18.0;
    }
    top + LEGEND + 4.0
}

/// The axis above and below.
fn scale(out: &mut Writer, layout: &Layout, top: f64, bottom: f64) {
    for offset in ticks(layout.clock.length, layout::TICKS) {
        let x = layout.x(offset);
        out.text(x, top - 7.0, "tick", Anchor::Middle, &short(offset));
        out.text(x, bottom + 16.0, "tick", Anchor::Middle, &short(offset));
    }
    out.line("axis", layout::LEFT, top, layout::RIGHT, top);
    out.line("axis", layout::LEFT, bottom, layout::RIGHT, bottom);
}

/// A line for each tick of the axis.
fn lines(out: &mut Writer, layout: &Layout, top: f64, bottom: f64) {
    for offset in ticks(layout.clock.length, layout::TICKS) {
        let x = layout.x(offset);
        out.line("grid", x, top, x, bottom);
    }
}
