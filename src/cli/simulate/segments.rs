//! The states of Applications in order and without overlap, and reduced to a number of cells:
//! the columns of a terminal or the pixels of a picture.

use super::scale::TimeAxis;
use super::timeline::{ApplicationLine, SetLine, StepLine, Timeline};
use wavegate_simulation::SpanKind;

/// The number of states.
pub const KINDS: usize = SpanKind::ALL.len();

/// A state from one offset to a later one, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The offset of its beginning.
    pub from: i64,
    /// The offset of its end, after the beginning.
    pub until: i64,
    /// The state.
    pub what: SpanKind,
}

/// The states of an Application in order, without overlap, within the simulated time, and
/// neighbours of the same state as one.
pub fn segments(application: &ApplicationLine, clock: TimeAxis) -> Vec<Segment> {
    let mut spans: Vec<Segment> = application
        .spans
        .iter()
        .map(|span| Segment {
            from: clock.offset(span.from),
            until: clock.offset(span.until),
            what: span.what,
        })
        .filter(|span| span.from < span.until)
        .collect();
    spans.sort_by_key(|span| span.from);
    let mut painted: Vec<Segment> = Vec::with_capacity(spans.len());
    for span in spans {
        paint(&mut painted, span);
    }
    let mut out: Vec<Segment> = Vec::with_capacity(painted.len());
    for span in painted {
        match out.last_mut() {
            Some(last) if last.what == span.what && last.until == span.from => {
                last.until = span.until;
            }
            _ => out.push(span),
        }
    }
    out
}

/// Puts a span over the others, none of which begins after it.
fn paint(painted: &mut Vec<Segment>, span: Segment) {
    let mut rest = Vec::new();
    while let Some(last) = painted.pop_if(|last| last.until > span.from) {
        if last.until > span.until {
            rest.push(Segment { from: last.from.max(span.until), ..last });
        }
        if last.from < span.from {
            painted.push(Segment { until: span.from, ..last });
            break;
        }
    }
    painted.push(span);
    painted.extend(rest.into_iter().rev());
}

/// The state of an Application at the end; `None` without a span.
pub fn ending(application: &ApplicationLine, clock: TimeAxis) -> Option<SpanKind> {
    let last = application.spans.iter().max_by_key(|span| {
        // A span of no time at the end is the state that was reached.
        (clock.offset(span.until), clock.offset(span.from))
    });
    last.map(|span| span.what)
}

/// How long the Application was in flight.
pub fn in_flight(segments: &[Segment]) -> i64 {
    segments.iter().filter(|one| one.what.is_active()).map(|one| one.until - one.from).sum()
}

/// When the Application was first in flight; the greatest number if never.
pub fn starts(segments: &[Segment]) -> i64 {
    let first = segments.iter().find(|one| one.what.is_active());
    first.map_or(i64::MAX, |one| one.from)
}

/// The segment that is shown in each of `count` cells of equal time, as its index: the one
/// that takes most of the cell. A failure, and what is in flight for less than a cell, is
/// shown at the cost of its neighbours, since it would be lost otherwise.
pub fn cells(segments: &[Segment], length: i64, count: usize) -> Vec<Option<usize>> {
    let mut cells: Vec<(f64, Option<usize>)> = vec![(0.0, None); count];
    if length <= 0 || count == 0 {
        return vec![None; count];
    }
    let position = |offset: i64| offset as f64 / length as f64 * count as f64;
    let cell_of = |position: f64| (position.max(0.0) as usize).min(count - 1);
    for (index, segment) in segments.iter().enumerate() {
        let (from, until) = (position(segment.from), position(segment.until));
        let (first, last) = (cell_of(from), cell_of(until));
        for (at, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
            let part = until.min((at + 1) as f64) - from.max(at as f64);
            // Two halves of a cell: the later one.
            if part > 1e-9 && part >= cell.0 - 1e-9 {
                *cell = (part, Some(index));
            }
        }
    }
    let mut owned = vec![0_usize; segments.len()];
    for index in cells.iter().filter_map(|cell| cell.1) {
        owned[index] += 1;
    }
    for (index, segment) in segments.iter().enumerate() {
        let is_failed = segment.what == SpanKind::Failed;
        if owned[index] > 0 || !(segment.what.is_active() || is_failed) {
            continue;
        }
        let middle = cell_of((position(segment.from) + position(segment.until)) / 2.0);
        let owner = cells[middle].1;
        let gives = owner.is_none_or(|owner| {
            let what = segments[owner].what;
            let is_quiet = !what.is_active() && what != SpanKind::Failed;
            owned[owner] > 1 || is_quiet || is_failed && what != SpanKind::Failed
        });
        if gives {
            if let Some(owner) = owner {
                owned[owner] -= 1;
            }
            owned[index] = 1;
            cells[middle].1 = Some(index);
        }
    }
    cells.into_iter().map(|cell| cell.1).collect()
}

/// Neighbouring cells with the same content: the first cell, the number of cells, the content.
pub fn runs<T: PartialEq + Copy>(cells: &[Option<T>]) -> Vec<(usize, usize, T)> {
    let mut runs: Vec<(usize, usize, T)> = Vec::new();
    for (at, content) in cells.iter().enumerate() {
        let Some(content) = *content else { continue };
        match runs.last_mut() {
            Some((first, size, last)) if *last == content && *first + *size == at => *size += 1,
            _ => runs.push((at, 1, content)),
        }
    }
    runs
}

/// How many Applications are in each state, as an average over each of `count` cells. An
/// average, so that what is shorter than a cell counts for its time.
pub fn counts(rows: &[Row], length: i64, count: usize) -> Vec<[f64; KINDS]> {
    let mut out = vec![[0.0; KINDS]; count];
    if length <= 0 || count == 0 {
        return out;
    }
    // Whole cells as changes of the number, so that a long segment costs as much as a short one.
    let mut changes = vec![[0_i64; KINDS]; count + 1];
    let position = |offset: i64| offset as f64 / length as f64 * count as f64;
    for segment in rows.iter().flat_map(|row| &row.segments) {
        let kind = segment.what.index();
        let (from, until) = (position(segment.from), position(segment.until));
        let (first, last) = ((from as usize).min(count), (until as usize).min(count));
        if first == last {
            if let Some(cell) = out.get_mut(first) {
                cell[kind] += until - from;
            }
            continue;
        }
        out[first][kind] += (first + 1) as f64 - from;
        if let Some(cell) = out.get_mut(last) {
            cell[kind] += until - last as f64;
        }
        changes[first + 1][kind] += 1;
        changes[last][kind] -= 1;
    }
    let mut now = [0_i64; KINDS];
    for (cell, change) in out.iter_mut().zip(&changes) {
        for kind in 0..KINDS {
            now[kind] += change[kind];
            cell[kind] += now[kind] as f64;
        }
    }
    out
}

/// The most Applications that were in each state at the same time.
pub fn peaks(rows: &[Row]) -> [u64; KINDS] {
    let mut changes: Vec<(i64, bool, usize)> = Vec::new();
    for segment in rows.iter().flat_map(|row| &row.segments) {
        changes.push((segment.from, true, segment.what.index()));
        changes.push((segment.until, false, segment.what.index()));
    }
    // Ends before beginnings: one that ends as another begins is not a second one.
    changes.sort_unstable();
    let (mut now, mut most) = ([0_u64; KINDS], [0_u64; KINDS]);
    for (_, is_start, kind) in changes {
        match is_start {
            true => now[kind] += 1,
            false => now[kind] = now[kind].saturating_sub(1),
        }
        most[kind] = most[kind].max(now[kind]);
    }
    most
}

/// An Application with its segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// The Application.
    pub application: &'a ApplicationLine,
    /// Its segments.
    pub segments: Vec<Segment>,
    /// The state at the end.
    pub ending: Option<SpanKind>,
}

/// The Applications of a step in the order in which they were first in flight, and the rest in
/// the given order: the rows of a step form stairs then, whatever the names are.
pub fn rows(step: &StepLine, clock: TimeAxis) -> Vec<Row<'_>> {
    let row = |application| Row {
        application,
        segments: segments(application, clock),
        ending: ending(application, clock),
    };
    let mut rows: Vec<Row> = step.applications.iter().map(row).collect();
    rows.sort_by_key(|row| starts(&row.segments));
    rows
}

/// A step with its rows.
#[derive(Debug)]
pub struct DrawnStep<'a> {
    /// The step.
    pub line: &'a StepLine,
    /// Its rows.
    pub rows: Vec<Row<'a>>,
}

/// The sets with their steps, of which there are at most so many in all.
pub fn steps_of_sets(
    timeline: &Timeline,
    clock: TimeAxis,
    most: usize,
) -> Vec<(&SetLine, Vec<DrawnStep<'_>>)> {
    let mut left = most;
    let mut sets = Vec::new();
    for set in &timeline.sets {
        let lines = set.steps.iter().take(left);
        let steps: Vec<DrawnStep> =
            lines.map(|line| DrawnStep { line, rows: rows(line, clock) }).collect();
        left -= steps.len();
        sets.push((set, steps));
    }
    sets
}

/// The names of the Applications that are failed at the end.
pub fn failed<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let failed = rows.iter().filter(|row| row.ending == Some(SpanKind::Failed));
    failed.map(|row| row.application.name.as_str()).collect()
}

/// The states that occur in rows, by [`SpanKind::index`].
pub fn occurring<'a>(rows: impl IntoIterator<Item = &'a Row<'a>>) -> [bool; KINDS] {
    let mut out = [false; KINDS];
    for segment in rows.into_iter().flat_map(|row| &row.segments) {
        out[segment.what.index()] = true;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::SpanKind::{Failed, Healthy, Syncing, Waiting};
    use super::*;
    use crate::cli::simulate::fixtures::{application, empty, span, step};

    /// Spans of a timeline of 100 s, in seconds.
    fn of(spans: &[(i64, i64, SpanKind)]) -> Vec<(i64, i64, SpanKind)> {
        let clock = TimeAxis::of(&empty(100));
        let spans = spans.iter().map(|(from, until, what)| span(*from, *until, *what)).collect();
        let line = ApplicationLine { name: "a".into(), spans };
        let seconds = |one: &Segment| (one.from / 1000, one.until / 1000, one.what);
        segments(&line, clock).iter().map(seconds).collect()
    }

    #[test]
    fn spans_become_ordered_and_disjoint() {
        let cases = [
            ("none", vec![], vec![]),
            ("of no time", vec![(5, 5, Waiting), (9, 7, Healthy)], vec![]),
            (
                "out of order",
                vec![(50, 100, Healthy), (0, 50, Waiting)],
                vec![(0, 50, Waiting), (50, 100, Healthy)],
            ),
            (
                "beyond both ends",
                vec![(-50, 10, Waiting), (10, 500, Healthy), (200, 300, Failed)],
                vec![(0, 10, Waiting), (10, 100, Healthy)],
            ),
            (
                "a later one within another one",
                vec![(0, 90, Waiting), (20, 30, Syncing), (25, 40, Failed)],
                vec![(0, 20, Waiting), (20, 25, Syncing), (25, 40, Failed), (40, 90, Waiting)],
            ),
            (
                "three over one",
                vec![(0, 90, Waiting), (20, 30, Syncing), (40, 50, Syncing), (45, 99, Healthy)],
                vec![
                    (0, 20, Waiting),
                    (20, 30, Syncing),
                    (30, 40, Waiting),
                    (40, 45, Syncing),
                    (45, 99, Healthy),
                ],
            ),
            (
                "of the same beginning",
                vec![(10, 50, Waiting), (10, 20, Syncing)],
                vec![(10, 20, Syncing), (20, 50, Waiting)],
            ),
            (
                "neighbours of the same state",
                vec![(0, 10, Waiting), (10, 20, Waiting), (30, 40, Waiting)],
                vec![(0, 20, Waiting), (30, 40, Waiting)],
            ),
        ];
        for (name, spans, want) in cases {
            assert_eq!(of(&spans), want, "{name}");
        }
    }

    #[test]
    fn short_states_are_not_lost_in_cells() {
        let clock = TimeAxis::of(&empty(100));
        let kinds = |name: &str, count| -> Vec<Option<SpanKind>> {
            let rows = segments(&application("a", name), clock);
            cells(&rows, clock.length, count)
                .iter()
                .map(|index| index.map(|index| rows[index].what))
                .collect()
        };
        let some = |kinds: &[SpanKind]| kinds.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(kinds("0 w 50 h 100", 4), some(&[Waiting, Waiting, Healthy, Healthy]));
        let short = "0 w 50 s 51 b 52 h 100";
        assert_eq!(kinds(short, 4), some(&[Waiting, Waiting, Syncing, Healthy]));
        assert_eq!(kinds("0 w 60 s 61 h 100", 2), some(&[Waiting, Syncing]));
        assert_eq!(kinds("0 s 50 x 51 s 100", 2), some(&[Syncing, Failed]));
        assert_eq!(kinds("20 s 60", 5), [None, Some(Syncing), Some(Syncing), None, None]);
        assert_eq!(kinds("0 s 100", 0), []);
        assert_eq!(cells(&[], 0, 2), [None, None]);
    }

    #[test]
    fn counts_are_averages_that_add_up() {
        let clock = TimeAxis::of(&empty(100));
        let spans = ["0 w 25 s 30 h 100", "0 w 60 s 100", "0 x 100"];
        let step = step(1, None, (0, 9), spans.map(|spans| application("a", spans)).into());
        let rows = rows(&step, clock);
        let counts = counts(&rows, clock.length, 2);
        let near = |cell: usize, what: SpanKind, want: f64| {
            let found = counts[cell][what.index()];
            assert!((found - want).abs() < 1e-9, "{cell} {what:?} {found}");
        };
        near(0, Waiting, 1.5);
        near(0, Syncing, 0.1);
        near(0, Healthy, 0.4);
        near(1, Syncing, 0.8);
        near(1, Failed, 1.0);
        for cell in &counts {
            assert!((cell.iter().sum::<f64>() - 3.0).abs() < 1e-9);
        }
        assert_eq!(peaks(&rows)[Waiting.index()], 2);
        assert_eq!(peaks(&rows)[Syncing.index()], 1);
    }
}
