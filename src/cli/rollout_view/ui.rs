//! Output of the demo: a screen that is redrawn, or a log.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use super::fleet::{Fleet, Transition};
use super::outcome::{self, Outcome};
use super::plain::{Columns, clock};
use super::screen::{Screen, describe};
use super::terminal::{self, Terminal};
use super::text::Line;
use crate::terminal::printable_lines;

/// Screen or log.
#[derive(Debug)]
pub(in crate::cli) enum Ui {
    /// A terminal.
    Screen { terminal: Terminal<Stdout>, colour: bool },
    /// Lines; the last reported problem is not repeated.
    Plain { columns: Columns, reported: Vec<String> },
}

impl Ui {
    /// For a terminal, with or without colours.
    pub fn screen(colour: bool) -> Self {
        Self::Screen { terminal: Terminal::new(io::stdout(), colour), colour }
    }

    /// For any other output.
    pub fn plain<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Plain { columns: Columns::for_names(names), reported: Vec::new() }
    }

    /// Prints lines before the rollout starts.
    ///
    /// # Errors
    ///
    /// Like all functions here: standard output is closed.
    pub fn announce(&self, lines: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in lines {
            let line = Line::of(super::text::Style::Plain, line).plain();
            writeln!(out, "{}", printable_lines(&line, false))?;
        }
        out.flush()
    }

    /// Prints transitions to a log.
    pub fn log_transitions(&self, transitions: &[Transition]) -> io::Result<()> {
        let Self::Plain { columns, .. } = self else { return Ok(()) };
        let mut out = io::stdout().lock();
        for transition in transitions {
            writeln!(out, "{}", printable_lines(&columns.line(transition), false))?;
        }
        out.flush()
    }

    /// Shows the current state.
    pub fn refresh(
        &mut self,
        fleet: &Fleet,
        elapsed: Duration,
        notes: &[String],
    ) -> io::Result<()> {
        let outcomes = outcome::of_fleet(fleet);
        match self {
            Self::Screen { terminal, .. } => {
                let (columns, rows) = terminal::size();
                let screen = Screen { fleet, outcomes: &outcomes, elapsed, notes };
                let lines = screen.lines(columns, Some(rows.saturating_sub(1)));
                terminal.draw(lines, (columns, rows))
            }
            Self::Plain { reported, .. } => {
                let problems: Vec<String> = outcomes
                    .iter()
                    .filter(|(_, outcome)| !matches!(outcome, Outcome::Running | Outcome::Complete))
                    .map(|(name, outcome)| format!("{name}: {}", describe(outcome)))
                    .collect();
                if problems == *reported {
                    return Ok(());
                }
                reported.clone_from(&problems);
                let lines: Vec<String> =
                    problems.iter().map(|text| format!("{} {text}", clock(elapsed))).collect();
                self.announce(&lines)
            }
        }
    }

    /// The last screen, in full, and the summary.
    pub fn finish(&mut self, fleet: &Fleet, elapsed: Duration, summary: &[Line]) -> io::Result<()> {
        let colour = match self {
            Self::Screen { terminal, colour } => {
                let (columns, rows) = terminal::size();
                let outcomes = outcome::of_fleet(fleet);
                let screen = Screen { fleet, outcomes: &outcomes, elapsed, notes: &[] };
                terminal.draw(screen.lines(columns, None), (columns, rows))?;
                *colour
            }
            Self::Plain { .. } => false,
        };
        let mut out = io::stdout().lock();
        for line in summary {
            writeln!(out, "{}", printable_lines(&line.show(colour), colour))?;
        }
        out.flush()
    }
}
