//! A run as a chart: its steps and Applications over time, what was or what would be (PG-014).
//!
//! A row is a table row with its name and its bar, so that it is read without seeing it. Many
//! Applications are counted: how many of a step are in which state over time.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::{class_of, human, text, word_of};
use crate::address::application_path;
use crate::reports::{
    CellState, ChartDocument, ChartRowDocument, ChartSpanDocument, ChartStepDocument,
};

/// Up to so many Applications have a row each.
const ROWS: usize = 120;
/// The columns in which more of them are counted.
const COLUMNS: i64 = 200;
/// The most spans of a row that are read aloud.
const SPOKEN: usize = 6;
/// The most marks.
const MARKS: usize = 60;
/// The width of a bar.
const WIDTH: i64 = 1000;
/// What begins together is drawn in this order.
const STATES: [CellState; 5] =
    [CellState::Done, CellState::Moving, CellState::Stuck, CellState::Skipped, CellState::Waiting];

/// The time of a chart.
#[derive(Clone, Copy)]
struct Axis {
    start: Timestamp,
    /// In milliseconds.
    length: i64,
}

impl Axis {
    fn x(self, at: Timestamp) -> i64 {
        let offset = at.as_millisecond().saturating_sub(self.start.as_millisecond());
        offset.clamp(0, self.length).saturating_mul(WIDTH) / self.length
    }

    fn after(self, at: Timestamp) -> String {
        human(at.as_second().saturating_sub(self.start.as_second()).max(0))
    }
}

/// The chart; `namespace` is that of its Applications, where they have views.
pub(super) fn chart(chart: &ChartDocument, namespace: Option<&str>) -> Markup {
    let Some((start, end)) = chart.span else {
        return html! { p class="quiet" { "It has not begun." } };
    };
    let length = end.as_millisecond().saturating_sub(start.as_millisecond()).max(1);
    let axis = Axis { start, length };
    let rows: usize = chart.steps.iter().map(|step| step.rows.len()).sum();
    let quarters = [0, 1, 2, 3, 4].map(|at| human(length * at / 4000));
    html! {
        table class="chart" aria-label="Steps and Applications over time" {
            thead { tr {
                th scope="col" { "Over time" }
                td { div class="axis" aria-hidden="true" { @for tick in &quarters { span { (tick) } } } }
                th scope="col" class="n" { "Took" }
            } }
            @for step in &chart.steps { tbody {
                (step_row(step, axis, chart.now))
                @for gate in &step.gates { (row(gate, "of-gate", axis, chart.now, None)) }
                @if rows <= ROWS {
                    @for one in &step.rows { (row(one, "one", axis, chart.now, namespace)) }
                } @else if !step.rows.is_empty() {
                    (counts(step, axis, chart.now))
                }
            } }
        }
        p class="legend" {
            @for state in STATES { span { span class={ "shape " (class_of(state)) } {} (word_of(state)) } }
        }
        @if !chart.marks.is_empty() {
            ol class="timeline marks" { @for mark in chart.marks.iter().take(MARKS) { li {
                span class="when" { (axis.after(mark.at)) }
                span { (text(&mark.text)) }
            } } }
        }
    }
}

/// When a step was open.
fn step_row(step: &ChartStepDocument, axis: Axis, now: Option<Timestamp>) -> Markup {
    let took: i64 = step.open.iter().map(seconds).sum();
    html! {
        tr class="step-row" {
            th scope="rowgroup" { (text(&step.title)) @if !step.note.is_empty() { span class="quiet" { " " (text(&step.note)) } } }
            td { (bar(&step.open, axis, now, "open")) }
            td class="n" { @if !step.open.is_empty() { (human(took)) } }
        }
    }
}

fn row(
    one: &ChartRowDocument,
    class: &str,
    axis: Axis,
    now: Option<Timestamp>,
    namespace: Option<&str>,
) -> Markup {
    html! {
        tr class=(class) {
            th scope="row" {
                @match namespace {
                    Some(namespace) => a href=(application_path(namespace, &one.name)) { (text(&one.name)) },
                    None => (text(&one.name)),
                }
            }
            td { (bar(&one.spans, axis, now, class)) }
            td class="n" { (text(&one.note)) }
        }
    }
}

fn seconds(span: &ChartSpanDocument) -> i64 {
    span.until.as_second().saturating_sub(span.from.as_second()).max(0)
}

/// States beside each other. What is not in flight is a thin line.
fn bar(spans: &[ChartSpanDocument], axis: Axis, now: Option<Timestamp>, class: &str) -> Markup {
    let spoken = spans.iter().take(SPOKEN).map(|span| {
        format!("{} from {} to {}", span.label, axis.after(span.from), axis.after(span.until))
    });
    let more = spans.len().saturating_sub(SPOKEN);
    let mut spoken = spoken.collect::<Vec<_>>().join(", ");
    if more > 0 {
        spoken.push_str(&format!(", and {more} more"));
    }
    if spoken.is_empty() {
        spoken.push_str("nothing");
    }
    let height = |state: CellState| match state {
        CellState::Moving | CellState::Stuck => (0, 10),
        CellState::Done if class == "open" => (2, 6),
        CellState::Done => (3, 4),
        CellState::Waiting | CellState::Skipped => (4, 2),
    };
    html! {
        svg class={ "bar " (class) } viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=(text(&spoken)) {
            @for span in spans {
                @let (y, height) = height(span.state);
                @let (from, until) = (axis.x(span.from), axis.x(span.until));
                rect class=(class_of(span.state)) x=(from) y=(y) width=((until - from).max(2)) height=(height) {
                    title { (text(&span.label)) " " (axis.after(span.from)) " to " (axis.after(span.until)) }
                }
            }
            @if let Some(now) = now { rect class="at" x=(axis.x(now).min(WIDTH - 2)) y="0" width="2" height="10" {} }
        }
    }
}

/// How many Applications of a step are in which state over time.
fn counts(step: &ChartStepDocument, axis: Axis, now: Option<Timestamp>) -> Markup {
    let column = |at: Timestamp| (axis.x(at) * COLUMNS / WIDTH).clamp(0, COLUMNS - 1) as usize;
    let mut counted = vec![[0_u64; STATES.len()]; COLUMNS as usize];
    for span in step.rows.iter().flat_map(|row| &row.spans) {
        let Some(state) = STATES.iter().position(|one| *one == span.state) else { continue };
        for at in &mut counted[column(span.from)..=column(span.until).max(column(span.from))] {
            at[state] += 1;
        }
    }
    let total = step.rows.len().max(1) as u64;
    let wide = WIDTH / COLUMNS;
    let mut areas = Vec::new();
    for (index, of_column) in counted.iter().enumerate() {
        let all = of_column.iter().sum::<u64>().max(total);
        let mut top = 1000;
        for (state, count) in STATES.iter().zip(of_column).filter(|(_, count)| **count > 0) {
            let height = count * 1000 / all;
            top -= height.min(top);
            areas.push((class_of(*state), index as i64 * wide, top, height));
        }
    }
    let ends: Vec<String> = STATES
        .iter()
        .filter_map(|state| {
            let at_end =
                |row: &&ChartRowDocument| row.spans.last().is_some_and(|s| s.state == *state);
            let count = step.rows.iter().filter(at_end).count();
            (count > 0).then(|| format!("{count} {}", word_of(*state)))
        })
        .collect();
    html! {
        tr class="many" {
            th scope="row" { (step.rows.len()) " Applications" }
            td {
                svg class="bar area" viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label={ "At the end: " (ends.join(", ")) } {
                    @for (class, x, y, height) in &areas { rect class=(class) x=(x) y=(y) width=(wide) height=(height) {} }
                    @if let Some(now) = now { rect class="at" x=(axis.x(now).min(WIDTH - 2)) y="0" width="2" height="1000" {} }
                }
            }
            td class="n" { (ends.join(", ")) }
        }
    }
}
