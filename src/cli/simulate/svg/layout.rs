//! Where things are: the columns of the picture, and how high the rows are.

use crate::cli::simulate::scale::TimeAxis;
use crate::cli::simulate::segments::{DrawnStep, endings, steps_of_sets};
use crate::cli::simulate::timeline::{SetLine, Timeline};

/// The width of the picture, and of the space around it.
pub(super) const WIDTH: f64 = 1280.0;
pub(super) const MARGIN: f64 = 24.0;
/// The time axis: names are on its left, durations on its right.
pub(super) const LEFT: f64 = 310.0;
pub(super) const RIGHT: f64 = 1180.0;
/// Most ticks of the axis.
pub(super) const TICKS: usize = 11;
/// The height of the heading of a set, of a step, and of a gate.
pub(super) const SET: f64 = 34.0;
pub(super) const HEADING: f64 = 26.0;
pub(super) const GATE: f64 = 20.0;
/// The space after a step.
pub(super) const GAP: f64 = 14.0;
/// The height of a line of notes beside rows without names.
pub(super) const NOTE: f64 = 16.0;
/// Most gates of a step.
pub(super) const GATES: usize = 20;

/// The height of a row with a name, and the most such rows.
const NAMED: f64 = 20.0;
const MOST_NAMED: usize = 60;
/// The height of all rows up to which there is one for each Application, and that of one row.
const HEIGHT: f64 = 2200.0;
const THIN: std::ops::RangeInclusive<usize> = 2..=4;
/// The height of all areas, and of one.
const AREAS: f64 = 900.0;
const AREA: std::ops::RangeInclusive<f64> = 48.0..=420.0;
/// Most steps. More than fit on a screen many times over help nobody.
const STEPS: usize = 100;

/// How the Applications of a step are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Density {
    /// Up to 60 in all: a row with a name each.
    Named,
    /// As long as rows of 2 to 4 px fit the height, which is about 1,000: a thin row each.
    Thin(f64),
    /// More: how many are in which state over time, as stacked areas.
    Areas,
}

/// A timeline with its measures.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub timeline: &'a Timeline,
    pub clock: TimeAxis,
    pub density: Density,
    /// The sets with the steps that are drawn.
    pub sets: Vec<(&'a SetLine, Vec<DrawnStep<'a>>)>,
    /// The number of steps that are not.
    pub hidden: usize,
}

impl<'a> Layout<'a> {
    pub fn of(timeline: &'a Timeline) -> Self {
        let clock = TimeAxis::of(timeline);
        let mut sets = steps_of_sets(timeline, clock, STEPS);
        sets.retain(|(_, steps)| !steps.is_empty());
        let mut layout = Self { timeline, clock, density: Density::Named, sets, hidden: 0 };
        layout.hidden = timeline.steps().count() - layout.steps().count();
        layout.density = layout.fitting();
        layout
    }

    pub fn steps(&self) -> impl Iterator<Item = &DrawnStep<'a>> {
        self.sets.iter().flat_map(|(_, steps)| steps)
    }

    fn applications(&self) -> usize {
        self.steps().map(|step| step.rows.len()).sum()
    }

    /// The one that shows most.
    fn fitting(&self) -> Density {
        let all = self.applications();
        if all <= MOST_NAMED {
            return Density::Named;
        }
        let height = |row: f64| -> f64 { self.steps().map(|step| thin(step, row)).sum() };
        let fits = THIN.rev().map(|row| row as f64).find(|row| height(*row) <= HEIGHT);
        fits.map_or(Density::Areas, Density::Thin)
    }

    /// The height of the rows of a step.
    pub fn height(&self, step: &DrawnStep) -> f64 {
        match self.density {
            Density::Named => step.rows.len() as f64 * NAMED,
            Density::Thin(row) => thin(step, row),
            Density::Areas if step.rows.is_empty() => 0.0,
            Density::Areas => {
                let part = step.rows.len() as f64 / self.applications().max(1) as f64;
                (AREAS * part).clamp(*AREA.start(), *AREA.end()).round()
            }
        }
    }

    /// The height of one row with a name.
    pub fn named(&self) -> f64 {
        NAMED
    }

    /// The position of an offset on the time axis.
    pub fn x(&self, offset: i64) -> f64 {
        LEFT + self.clock.part(offset) * (RIGHT - LEFT)
    }
}

/// The height of thin rows: not less than that of the notes beside them.
fn thin(step: &DrawnStep, row: f64) -> f64 {
    let notes = endings(&step.rows).iter().filter(|number| **number > 0).count().min(2);
    (step.rows.len() as f64 * row).max(notes as f64 * NOTE)
}
