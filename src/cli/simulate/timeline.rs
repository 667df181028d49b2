//! What happened in a simulated rollout, and when. Plain data: the simulator fills it in, and
//! [`chart`](super::chart) and the page draw it.
//!
//! Nothing here is checked. What draws a timeline accepts any content: spans that are out of
//! order, overlap, or lie outside of the simulated time, and names with any character.

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::rollout_view::text::{Style, count};
use wavegate_simulation::{SpanKind, Waits};

/// A simulated rollout of one or several ApplicationSets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The beginning of the simulated time; all offsets are relative to it.
    pub start: Timestamp,
    /// The end of the simulated time.
    pub end: Timestamp,
    /// Whether all Applications reached the end of the rollout.
    pub is_complete: bool,
    /// How it ended, such as `complete` or `does not end: step 2 waits for an approval`.
    pub outcome: String,
    /// The ApplicationSets, in the order in which they are shown.
    pub sets: Vec<SetLine>,
    /// What happened to the rollout from outside, in any order.
    pub marks: Vec<TimelineMark>,
}

/// An ApplicationSet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetLine {
    /// The namespace of the set; empty when it has none.
    pub namespace: String,
    /// The name of the set.
    pub name: String,
    /// The names of its runs, in their order: each but the last was superseded or had ended.
    pub runs: Vec<String>,
    /// The steps, in their order.
    pub steps: Vec<StepLine>,
    /// What the set waited for, in the order of time.
    #[serde(skip)]
    pub waits: Vec<Waits>,
}

/// A step of the strategy of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepLine {
    /// The number of the step, from 1; `None` for the Applications that no step selects.
    pub number: Option<usize>,
    /// The `maxUpdate` of the step as a number of Applications; `None` without a limit.
    pub limit: Option<u64>,
    /// When the last run that opened it did so: when the first Application of the step was allowed
    /// to sync; `None` if never.
    pub opened: Option<Timestamp>,
    /// When all Applications of the step were Healthy in this run; `None` if never.
    pub completed: Option<Timestamp>,
    /// When this run ended before that, such as by another one that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The name of this run.
    pub run: Option<String>,
    /// When earlier runs opened it, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Opening>,
    /// The number of Applications in the step.
    pub total: u64,
    /// The Applications; the ones that start at the same time are shown in this order.
    pub applications: Vec<ApplicationLine>,
    /// The gates that held the step or an Application of it.
    pub gates: Vec<GateLine>,
}

/// The time in which a step was open in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// The name of the run.
    pub run: String,
    /// When the first Application of the step was allowed to sync.
    pub opened: Timestamp,
    /// When all Applications of the step were Healthy; `None` if never.
    pub completed: Option<Timestamp>,
    /// When the run ended before that, such as by another one that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// A gate of a rollout policy, over the time in which it held something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateLine {
    /// The name of the gate.
    pub name: String,
    /// The name of the run that it held.
    pub run: String,
    /// When the gate began to hold.
    pub since: Timestamp,
    /// When the gate opened; `None` if it held until the end.
    pub opened: Option<Timestamp>,
    /// When its run ended before that, such as by another one that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// When its soak ends, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soaks_until: Option<Timestamp>,
    /// What the gate waits for.
    pub what: GateKind,
    /// Who approved it, when it was approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a gate waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateKind {
    /// An approval.
    Approval,
    /// A time since the step before was Healthy.
    Soak,
    /// An approval and a time.
    Both,
}

/// An Application and its states over the simulated time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationLine {
    /// The name of the Application.
    pub name: String,
    /// The states, normally one after another. Where two overlap, the one that begins later
    /// is shown. Times without a span are left blank.
    pub spans: Vec<TimelineSpan>,
}

/// A state of an Application over some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineSpan {
    /// When the state began.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// The state.
    pub what: SpanKind,
}

/// How a state is shown.
pub struct Look {
    /// In words.
    pub label: &'static str,
    /// In the chart: another one for each, since colours may be missing.
    pub glyph: char,
    /// In the chart.
    pub style: Style,
}

impl Look {
    /// That of a state.
    pub fn of(what: SpanKind) -> Self {
        let (label, glyph, style) = match what {
            SpanKind::Waiting => ("waiting", '·', Style::Dim),
            SpanKind::Held => ("held", '=', Style::Yellow),
            SpanKind::Pending => ("pending", '░', Style::Cyan),
            SpanKind::Syncing => ("syncing", '█', Style::Cyan),
            SpanKind::BecomingHealthy => ("becoming healthy", '▒', Style::Yellow),
            SpanKind::Healthy => ("healthy", '━', Style::Green),
            SpanKind::Failed => ("failed", '×', Style::Red),
            SpanKind::GoingBack => ("going back", '«', Style::Yellow),
            SpanKind::Back => ("back", '<', Style::Yellow),
            SpanKind::Skipped => ("skipped", '-', Style::Dim),
        };
        Self { label, glyph, style }
    }
}

impl GateKind {
    /// The condition in words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Soak => "soak",
            Self::Both => "approval and soak",
        }
    }
}

/// Something that happened to the rollout from outside: a commit, a pause, a fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineMark {
    /// When it happened.
    pub at: Timestamp,
    /// When it ended, for what lasted, such as an API server that was down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What happened, in a few words.
    pub text: String,
}

impl Timeline {
    /// The set, or how many there are.
    pub fn title(&self) -> String {
        match self.sets.as_slice() {
            [set] => set.key(),
            sets => count(sets.len(), "ApplicationSet"),
        }
    }

    /// The number of Applications in all sets.
    pub fn applications(&self) -> usize {
        self.steps().map(|step| step.applications.len()).sum()
    }

    /// How many steps the sets have; the Applications that no step selects are in none.
    pub fn step_count(&self) -> usize {
        self.steps().filter(|step| step.number.is_some()).count()
    }

    /// The steps of all sets, and what no step selects.
    pub fn steps(&self) -> impl Iterator<Item = &StepLine> {
        self.sets.iter().flat_map(|set| &set.steps)
    }
}

impl SetLine {
    /// `namespace/name`, or the name alone.
    pub fn key(&self) -> String {
        match self.namespace.is_empty() {
            true => self.name.clone(),
            false => format!("{}/{}", self.namespace, self.name),
        }
    }
}

impl Opening {
    /// When it was open no more; `None` if it was so at the end.
    pub fn until(&self) -> Option<Timestamp> {
        self.completed.or(self.ended)
    }
}

impl GateLine {
    /// When it held nothing any more; `None` if it did so at the end.
    pub fn until(&self) -> Option<Timestamp> {
        self.opened.or(self.ended)
    }
}

impl StepLine {
    /// The times in which it was open, each in a run.
    pub fn openings(&self) -> impl Iterator<Item = Opening> {
        let last = self.opened.map(|opened| Opening {
            run: self.run.clone().unwrap_or_default(),
            opened,
            completed: self.completed,
            ended: self.ended,
        });
        self.earlier.iter().cloned().chain(last)
    }

    /// `Step 2`, or a heading for the Applications in no step.
    pub fn title(&self) -> String {
        match self.number {
            Some(number) => format!("Step {number}"),
            None => "No step".to_owned(),
        }
    }
}
