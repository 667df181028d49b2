//! A run as a chart of its steps and Applications over time: what was, or what a simulation says.

use jiff::Timestamp;

use super::objects::CellState;

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartDocument {
    /// Its begin and its end; none when it has not begun.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The time that is shown in it, for one of a simulation.
    pub now: Option<Timestamp>,
    /// Its steps.
    pub steps: Vec<ChartStepDocument>,
    /// What happened from outside.
    pub marks: Vec<ChartMarkDocument>,
}

/// A step of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartStepDocument {
    /// `Step 2`.
    pub title: String,
    /// More about it, such as its limit.
    pub note: String,
    /// When it was open.
    pub open: Vec<ChartSpanDocument>,
    /// The gates that held it.
    pub gates: Vec<ChartRowDocument>,
    /// Its Applications.
    pub rows: Vec<ChartRowDocument>,
}

/// A row of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartRowDocument {
    /// An Application, or a gate.
    pub name: String,
    /// Its states.
    pub spans: Vec<ChartSpanDocument>,
    /// What it took, or where it ended.
    pub note: String,
}

/// A state over some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartSpanDocument {
    /// When it began.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Its colour.
    pub state: CellState,
    /// In words.
    pub label: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartMarkDocument {
    /// When.
    pub at: Timestamp,
    /// In words.
    pub text: String,
}

/// The clock of what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageClock {
    /// Its begin.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// The time that is shown.
    pub now: Timestamp,
}
