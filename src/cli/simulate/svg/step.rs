//! A step: its heading, its gates, and its Applications in rows.

use super::area;
use super::layout::{self, Density, Layout};
use super::writer::{Anchor, SMALL, TEXT, Writer, clean, columns, cut, number, tooltip_of};
use crate::cli::rollout_view::text::count;
use crate::cli::simulate::scale::{exact, short};
use crate::cli::simulate::segments::{
    DrawnStep, Row, Segment, cells, endings, failed, in_flight, runs,
};
use crate::cli::simulate::timeline::{GateLine, Look, Opening};
use wavegate_engine::names::some_of;
use wavegate_simulation::SpanKind;

/// Cells of the time axis for each pixel, for rows with names.
const FINE: usize = 2;
/// Most bars of a row with a name, and of all thin rows. An Application that fails and is
/// retried all the time is shown in coarser cells then.
const BARS: usize = 80;
const THIN_BARS: usize = 32_000;
/// Most brackets over a step, of the last runs.
const OPENINGS: usize = 50;
/// Most spans and names in a tooltip.
const TOOLTIP: usize = 12;
/// Where names begin.
const INDENT: f64 = layout::MARGIN + 14.0;

/// The least width of a failure in a thin row, in pixels: a red dot would not be seen.
const FAILURE: f64 = 6.0;

/// What is drawn, in two parts: the marks are lines over the first, and the texts of the
/// second are over the marks.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub shapes: Writer,
    pub labels: Writer,
}

/// All steps from `top` downwards; returns where they end.
pub(super) fn steps(sheet: &mut Sheet, layout: &Layout, top: f64) -> f64 {
    let mut y = top;
    for (set, steps) in &layout.sets {
        if layout.sets.len() > 1 {
            sheet.labels.text(layout::MARGIN, y + 22.0, "h2", Anchor::Start, &cut(&set.key(), 100));
            y += layout::SET;
        }
        for (index, step) in steps.iter().enumerate() {
            if index > 0 {
                let out = &mut sheet.shapes;
                out.line("rule", layout::MARGIN, y, layout::WIDTH - layout::MARGIN, y);
            }
            y = self::step(sheet, layout, step, y) + layout::GAP;
        }
    }
    if layout.hidden > 0 {
        let text = format!("… and {}", count(layout.hidden, "more step"));
        sheet.labels.text(layout::MARGIN, y + 14.0, "dim", Anchor::Start, &text);
        y += layout::HEADING;
    }
    y
}

fn step(sheet: &mut Sheet, layout: &Layout, step: &DrawnStep, top: f64) -> f64 {
    let gates = step.line.gates.iter().take(layout::GATES);
    let hidden = step.line.gates.len().saturating_sub(layout::GATES);
    let mut y = top + layout::HEADING;
    let rows = y + (gates.len() + usize::from(hidden > 0)) as f64 * layout::GATE;
    let bottom = rows + layout.height(step);
    heading(sheet, layout, step, top, bottom);
    for line in gates {
        gate(sheet, layout, line, y);
        y += layout::GATE;
    }
    let out = &mut sheet.shapes;
    if hidden > 0 {
        let text = format!("… and {}", count(hidden, "more gate"));
        out.text(INDENT, y + 14.0, "small", Anchor::Start, &text);
    }
    match layout.density {
        Density::Named => {
            for (index, row) in step.rows.iter().enumerate() {
                named(out, layout, row, rows + index as f64 * layout.named());
            }
        }
        Density::Thin(height) => thin(out, layout, step, rows, height),
        Density::Areas => area::area(out, layout, step, rows, bottom - rows),
    }
    if layout.density != Density::Named {
        notes(out, step, rows, bottom - rows);
    }
    bottom
}

/// The name of the step, and a bracket over the time in which it was open.
fn heading(sheet: &mut Sheet, layout: &Layout, step: &DrawnStep, top: f64, bottom: f64) {
    let Sheet { shapes: out, labels } = sheet;
    let line = step.line;
    let title = line.title();
    out.text(layout::MARGIN, top + 17.0, "h3", Anchor::Start, &title);
    let total = usize::try_from(line.total).unwrap_or(usize::MAX);
    let limit = line.limit.map(|limit| format!(", maxUpdate {limit}")).unwrap_or_default();
    let facts = format!("{}{limit}", count(total, "Application"));
    let x = layout::MARGIN + columns(&title) * 8.6 + 8.0;
    out.fitted(x, top + 17.0, "small", &facts, layout::LEFT - x - 4.0, 6.4);
    let Some(last) = line.openings().last() else {
        let text = "not opened";
        return labels.text(layout::LEFT + 6.0, top + 17.0, "small", Anchor::Start, text);
    };
    let first = line.openings().count().saturating_sub(OPENINGS);
    for opening in line.openings().skip(first) {
        bracket(out, layout, &title, &opening, (top, bottom));
    }
    let (from, until, text) = time_of(layout, &last);
    let (start, end) = (layout.x(from), layout.x(until));
    let wide = columns(&text) * SMALL;
    if end + 8.0 + wide < layout::RIGHT {
        labels.text(end + 8.0, top + 18.0, "note", Anchor::Start, &text);
    } else if start - 8.0 - wide > layout::LEFT {
        labels.text(start - 8.0, top + 18.0, "note", Anchor::End, &text);
    }
    let (took, class) = match (line.completed, line.ended) {
        (Some(_), _) => (short(until - from), "h3"),
        (None, Some(_)) => ("run ended".to_owned(), "took"),
        (None, None) => ("still open".to_owned(), "bad"),
    };
    let x = layout::WIDTH - layout::MARGIN;
    out.text(x, top + 18.0, class, Anchor::End, &took);
}

/// From when until when a step was open, and that in words.
fn time_of(layout: &Layout, opening: &Opening) -> (i64, i64, String) {
    let (from, until) = layout.clock.span(opening.opened, opening.until());
    let text = match (opening.completed, opening.ended) {
        (Some(_), _) => format!("{} to {}", exact(from), exact(until)),
        (None, Some(_)) => format!("from {}, run ended {}", exact(from), exact(until)),
        (None, None) => format!("from {}, not completed", exact(from)),
    };
    (from, until, text)
}

/// A bracket over a time in which a step was open.
fn bracket(
    out: &mut Writer,
    layout: &Layout,
    title: &str,
    opening: &Opening,
    (top, bottom): (f64, f64),
) {
    let (from, until, text) = time_of(layout, opening);
    let (x, width) = (layout.x(from), (layout.x(until) - layout.x(from)).max(2.0));
    if layout.density == Density::Named {
        out.rect("band", x, top + 15.0, width, bottom - top - 15.0);
    }
    out.raw("<g>");
    let times = format!("{} to {}", layout.clock.time(from), layout.clock.time(until));
    out.title(&format!("{title} is open: {text}, {times}"));
    let (x, width, y) = (number(x), number(width), number(top + 11.0));
    // A bar with feet at both ends.
    out.path("open", &format!("M{x} {y}h{width}v8l-4 -4H{x}z"));
    out.path("open", &format!("M{x} {y}v8l4 -4z"));
    out.close("g");
}

fn gate(sheet: &mut Sheet, layout: &Layout, gate: &GateLine, top: f64) {
    let Sheet { shapes: out, labels } = sheet;
    let name = format!("◆ {}", gate.name);
    let space = layout::LEFT - INDENT - 8.0;
    out.fitted(INDENT, top + 14.0, "text", &name, space, TEXT);
    let (from, until) = layout.clock.span(gate.since, gate.until());
    let (start, end) = (layout.x(from), layout.x(until));
    let by = gate.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let state = match (gate.opened, gate.ended) {
        (Some(_), _) => format!("opened {}", exact(until)),
        (None, Some(_)) => "run ended".to_owned(),
        (None, None) => "not opened".to_owned(),
    };
    let tooltip = format!(
        "Gate {}: {}{}, held from {}, {state}, {} to {}",
        tooltip_of(&gate.name),
        gate.what.label(),
        tooltip_of(&by),
        exact(from),
        layout.clock.time(from),
        layout.clock.time(until)
    );
    out.bar("gate", start, top + 5.0, ((end - start).max(1.0), 10.0), &tooltip);
    if gate.opened.is_some() {
        let (x, y) = (number(end), number(top + 2.0));
        out.path("opens", &format!("M{x} {y}l7 8l-7 8l-7 -8z"));
    }
    let text = cut(&format!("{}{by}", gate.what.label()), 60);
    let wide = columns(&text) * SMALL;
    if end + 12.0 + wide < layout::RIGHT {
        labels.text(end + 12.0, top + 14.0, "note", Anchor::Start, &text);
    } else if start - 10.0 - wide > layout::LEFT {
        labels.text(start - 10.0, top + 14.0, "note", Anchor::End, &text);
    } else if wide + 12.0 < end - start {
        // On a plate: hatches are no background for a text.
        let middle = f64::midpoint(start, end);
        labels.rounded("bg", middle - wide / 2.0 - 6.0, top + 3.0, wide + 12.0, 14.0, 3.0);
        labels.text(middle, top + 14.0, "note", Anchor::Middle, &text);
    }
    let took = match gate.opened {
        Some(_) => short(until - from),
        None => state,
    };
    let x = layout::WIDTH - layout::MARGIN;
    out.text(x, top + 14.0, "took", Anchor::End, &took);
}

/// The bars of a row: where each begins, how long it is, and its segment. Not more than
/// `most`, by taking coarser cells.
fn bars(layout: &Layout, row: &[Segment], scale: usize, most: usize) -> Vec<(f64, f64, Segment)> {
    let pixels = layout::RIGHT - layout::LEFT;
    let mut count = pixels as usize * scale;
    loop {
        let runs = runs(&cells(row, layout.clock.length, count));
        if runs.len() <= most || count <= 1 {
            let size = pixels / count.max(1) as f64;
            return runs
                .into_iter()
                .filter_map(|(first, cells, index)| {
                    let segment = row.get(index)?;
                    Some((layout::LEFT + first as f64 * size, cells as f64 * size, *segment))
                })
                .collect();
        }
        count /= 2;
    }
}

/// A row with a name.
fn named(out: &mut Writer, layout: &Layout, row: &Row, top: f64) {
    let name = &row.application.name;
    out.fitted(INDENT, top + 14.0, "text", name, layout::LEFT - INDENT - 8.0, TEXT);
    let name = tooltip_of(name);
    for (x, width, segment) in bars(layout, &row.segments, FINE, BARS) {
        // What is not in flight is a thin line.
        let height = match segment.what {
            SpanKind::Held | SpanKind::Skipped => 8.0,
            SpanKind::Failed => 12.0,
            what if what.is_active() => 12.0,
            _ => 4.0,
        };
        let y = top + (layout.named() - height) / 2.0;
        let tooltip = format!("{name}: {}", span(layout, &segment));
        out.bar(Look::of(segment.what).class, x, y, (width, height), &tooltip);
    }
    let took = short(in_flight(&row.segments));
    let (text, class) = match row.ending {
        None => return,
        Some(SpanKind::Healthy) => (took, "took"),
        Some(what) if what.is_active() => (format!("{took} +"), "took"),
        Some(SpanKind::Failed) => ("failed".to_owned(), "bad"),
        Some(what) => (Look::of(what).label.to_owned(), "took"),
    };
    out.text(layout::WIDTH - layout::MARGIN, top + 14.0, class, Anchor::End, &text);
}

/// `syncing 10s to 30s (20s), 2026-01-05T10:00:10Z to 2026-01-05T10:00:30Z`.
fn span(layout: &Layout, segment: &Segment) -> String {
    let Segment { from, until, what } = *segment;
    let (start, end) = (layout.clock.time(from), layout.clock.time(until));
    let took = exact(until - from);
    let label = Look::of(what).label;
    format!("{label} {} to {} ({took}), {start} to {end}", exact(from), exact(until))
}

/// Rows without names. Neighbours with the same spans are one element, as high as all of them.
fn thin(out: &mut Writer, layout: &Layout, step: &DrawnStep, top: f64, height: f64) {
    let all: usize = layout.steps().map(|step| step.rows.len()).sum();
    let most = (THIN_BARS / all.max(1)).max(4);
    let mut y = top;
    for rows in step.rows.chunk_by(|one, other| one.segments == other.segments) {
        let size = rows.len() as f64 * height;
        let Some(first) = rows.first() else { continue };
        out.open("g", "thin");
        out.title(&tooltip(rows));
        let bars = bars(layout, &first.segments, 1, most);
        // Failures last, since they cover what is beside them.
        let others = SpanKind::ALL.into_iter().filter(|what| *what != SpanKind::Failed);
        for what in others.chain([SpanKind::Failed]) {
            let least = if what == SpanKind::Failed { FAILURE } else { 0.0 };
            let data: String = bars
                .iter()
                .filter(|bar| bar.2.what == what)
                .map(|(x, width, _)| {
                    let width = width.max(least);
                    let (x, width) = (number(x.min(layout::RIGHT - width)), number(width));
                    format!("M{x} {}h{width}v{size}h-{width}z", number(y))
                })
                .collect();
            if !data.is_empty() {
                out.path(Look::of(what).class, &data);
            }
        }
        out.close("g");
        y += size;
    }
}

/// The names of rows with the same spans, and the spans.
fn tooltip(rows: &[Row]) -> String {
    let names = some_of(rows.iter().map(|row| tooltip_of(&row.application.name)), TOOLTIP);
    let spans = rows.first().map(|row| row.segments.as_slice()).unwrap_or_default();
    let line = |one: &Segment| {
        format!("{} {} to {}", Look::of(one.what).label, exact(one.from), exact(one.until))
    };
    let mut lines: Vec<String> = spans.iter().take(TOOLTIP).map(line).collect();
    if spans.len() > TOOLTIP {
        lines.push(format!("and {} more", spans.len() - TOOLTIP));
    }
    format!("{names}\n{}", lines.join("\n"))
}

/// Beside rows without names: how many are in which state at the end, and who failed.
fn notes(out: &mut Writer, step: &DrawnStep, top: f64, height: f64) {
    let numbers = endings(&step.rows);
    let names = failed(&step.rows);
    let mut lines: Vec<(Option<SpanKind>, String)> = SpanKind::ALL
        .into_iter()
        .filter(|what| numbers[what.index()] > 0)
        .map(|what| (Some(what), format!("{} {}", numbers[what.index()], Look::of(what).label)))
        .collect();
    // What needs a person first.
    lines.sort_by_key(|line| line.0 != Some(SpanKind::Failed));
    let has_failed = |row: &&Row| row.segments.iter().any(|one| one.what == SpanKind::Failed);
    let recovered = step.rows.iter().filter(has_failed).count().saturating_sub(names.len());
    if recovered > 0 {
        lines.push((None, format!("{recovered} failed in between")));
    }
    // The names take the lines that are left, below their number.
    let left = ((height / layout::NOTE) as usize).saturating_sub(lines.len()).min(TOOLTIP);
    let shown = if names.len() <= left { names.len() } else { left.saturating_sub(1) };
    let mut listed: Vec<_> = names.iter().take(shown).map(|name| (None, clean(name))).collect();
    if shown > 0 && shown < names.len() {
        listed.push((None, format!("and {} more", names.len() - shown)));
    }
    lines.splice(1.min(lines.len())..1.min(lines.len()), listed);
    let space = layout::LEFT - INDENT - 40.0;
    for (index, (what, text)) in lines.iter().take((height / layout::NOTE) as usize).enumerate() {
        let y = top + index as f64 * layout::NOTE;
        if let Some(what) = what {
            out.rounded(Look::of(*what).class, INDENT, y + 3.0, 10.0, 10.0, 2.0);
        }
        out.fitted(INDENT + 16.0, y + 12.0, "small", text, space, SMALL);
    }
}
