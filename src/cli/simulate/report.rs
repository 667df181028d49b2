//! What `wavegate simulate` prints.

use serde::Serialize;

use super::path::{self, Part};
use super::scenario::SimulationCase;
use super::timeline::{SetLine, Timeline};
use super::{chart, course};
use crate::cli::console::output;
use crate::cli::rollout_view::{terminal, ui};
use wavegate_simulation::{History, SpanEnd};

/// The most rows of Applications in a terminal.
const ROWS: usize = 60;
/// The width where the output is no terminal.
const WIDTH: usize = 100;

/// One simulation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    outcome: SpanEnd,
    /// How long it took, in seconds of the simulation.
    seconds: i64,
    /// Requests of the controllers that changed something.
    writes: u64,
    critical_path: Vec<Part>,
    timeline: Timeline,
}

impl Report {
    /// The report of a history.
    pub fn of(case: &SimulationCase, history: &History) -> Self {
        let timeline = course::timeline(case, history);
        Self {
            outcome: history.outcome.clone(),
            seconds: history.end.duration_since(history.start).as_secs(),
            writes: history.writes,
            critical_path: path::parts(&timeline),
            timeline,
        }
    }

    /// Whether all is rolled out.
    pub fn is_complete(&self) -> bool {
        self.outcome == SpanEnd::Complete
    }

    /// The text.
    pub fn table(&self) -> String {
        let draws = ui::can_draw();
        let width = if draws { terminal::size().0 } else { WIDTH };
        let mut text = chart::chart(&self.timeline, width, draws, ROWS);
        let took = path::text(self.seconds);
        let end = match &self.outcome {
            SpanEnd::Complete => format!("Complete after {took}."),
            other => format!("After {took}: {}.", course::outcome(other)),
        };
        text.push_str(&format!("\n{}", output::line(&end)));
        if !self.critical_path.is_empty() {
            text.push_str("\nWhat it took its time for:\n");
        }
        let repeats = |set: &SetLine| set.runs.len() > 1;
        let has_several_runs = self.timeline.sets.iter().any(repeats);
        for part in &self.critical_path {
            let name = if has_several_runs { &part.run } else { &part.set };
            let (took, step, what) = (path::text(part.seconds), part.step, &part.what);
            let line = format!("  {took:>10}  {name} step {step}: {what}");
            text.push_str(&output::line(&line));
        }
        // What never ends is not to be shortened.
        if self.is_complete()
            && let Some(shorten) = path::shortens(&self.critical_path)
        {
            let line = format!("What would shorten it the most: {shorten}.");
            text.push_str(&output::line(&line));
        }
        text
    }
}
