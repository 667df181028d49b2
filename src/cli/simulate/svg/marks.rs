//! What happened from outside, as lines across all steps, with labels above the axis.

use super::layout::{self, Layout};
use super::writer::{Anchor, SMALL, Writer, columns, cut, tooltip_of};
use crate::cli::simulate::scale::exact;

/// Most marks, and most lines of labels.
const MARKS: usize = 200;
const LANES: usize = 8;
/// The height of a line of labels.
const LANE: f64 = 17.0;
/// Most columns of a label.
const LABEL: usize = 44;

/// The marks, with a place for the label of each.
pub(super) struct Marks {
    placed: Vec<Placed>,
    lanes: usize,
}

struct Placed {
    from: f64,
    until: Option<f64>,
    label: String,
    tooltip: String,
    /// Where the label begins and ends.
    span: (f64, f64),
    /// The lane from the axis upwards; `None` for a mark whose label has no place.
    lane: Option<usize>,
}

impl Marks {
    /// The labels are placed from the right to the left. A label is right of its line, so
    /// each line of a later lane passes left of the labels below it, and none crosses a label
    /// as long as there are lanes.
    pub fn of(layout: &Layout) -> Self {
        let mut marks: Vec<_> = layout.timeline.marks.iter().collect();
        marks.sort_by_key(|mark| (mark.at, mark.until));
        marks.truncate(MARKS);
        let mut placed: Vec<Placed> = Vec::with_capacity(marks.len());
        for mark in marks.into_iter().rev() {
            let from = layout.clock.offset(mark.at);
            let until = mark.until.map(|until| layout.clock.offset(until).max(from));
            let end = until.map(|until| format!(" to {}", exact(until))).unwrap_or_default();
            let label = cut(&mark.text, LABEL);
            let tooltip = format!(
                "{}: {}{end}, {}",
                tooltip_of(&mark.text),
                exact(layout.clock.since_start(mark.at)),
                layout.clock.time(layout.clock.since_start(mark.at))
            );
            let width = columns(&label) * SMALL;
            let x = layout.x(from);
            let start = (x + 4.0).min(layout::WIDTH - 8.0 - width);
            let mut new = Placed {
                from: x,
                until: until.map(|until| layout.x(until)),
                label,
                tooltip,
                span: (start, start + width),
                lane: None,
            };
            new.lane = (0..LANES)
                .find(|lane| placed.iter().all(|other| new.fits(*lane, other, true)))
                .or_else(|| {
                    let apart =
                        |lane: &usize| placed.iter().all(|other| new.fits(*lane, other, false));
                    (0..LANES).find(apart)
                });
            placed.push(new);
        }
        let lanes = placed.iter().filter_map(|mark| mark.lane).max().map_or(0, |lane| lane + 1);
        Self { placed, lanes }
    }

    /// The height of the labels.
    pub fn height(&self) -> f64 {
        self.lanes as f64 * LANE
    }

    /// The labels between `top` and the axis, and the lines down to `bottom`.
    pub fn draw(&self, out: &mut Writer, layout: &Layout, top: f64, axis: f64, bottom: f64) {
        let y = |lane: usize| top + (self.lanes - lane) as f64 * LANE;
        let mut drawn: Vec<(f64, f64)> = Vec::new();
        let mut highest: Vec<&Placed> = self.placed.iter().collect();
        highest.sort_by_key(|mark| std::cmp::Reverse(mark.lane));
        for mark in highest {
            let start = mark.lane.map_or(axis, |lane| y(lane) - 9.0);
            out.raw("<g>");
            out.title(&mark.tooltip);
            if let Some(until) = mark.until {
                let width = (until - mark.from).max(1.0);
                out.rect("markrange", mark.from, axis, width, bottom - axis);
                out.line("markline", until, axis, until, bottom);
            }
            // Dashes over dashes would be a solid line.
            let is_same = |line: &(f64, f64)| (line.0 - mark.from).abs() < 0.5 && line.1 <= start;
            if !drawn.iter().any(is_same) {
                out.line("markline", mark.from, start, mark.from, bottom);
                drawn.push((mark.from, start));
            }
            out.close("g");
        }
        // Over all lines.
        for mark in &self.placed {
            let Some(lane) = mark.lane else { continue };
            out.text(mark.span.0, y(lane), "mark", Anchor::Start, &mark.label);
        }
        let hidden = self.placed.iter().filter(|mark| mark.lane.is_none()).count()
            + layout.timeline.marks.len().saturating_sub(self.placed.len());
        if hidden > 0 {
            let text = format!("and {hidden} more marks");
            out.text(layout::LEFT - 14.0, axis - 7.0, "small", Anchor::End, &text);
        }
    }
}

impl Placed {
    /// Whether the label can be in a lane beside another mark. `strict` keeps lines out of
    /// labels, too.
    fn fits(&self, lane: usize, other: &Self, strict: bool) -> bool {
        let Some(place) = other.lane else { return true };
        let is_apart = self.span.1 + 6.0 < other.span.0 || other.span.1 + 6.0 < self.span.0;
        let within = |x: f64, span: (f64, f64)| span.0 - 3.0 <= x && x <= span.1 + 3.0;
        match lane.cmp(&place) {
            std::cmp::Ordering::Equal => is_apart,
            std::cmp::Ordering::Less => !strict || !within(other.from, self.span),
            std::cmp::Ordering::Greater => !strict || !within(self.from, other.span),
        }
    }
}
