//! What the user sees: a picture that is drawn over and over, or a log.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use super::fleet::{Fleet, Transition};
use super::outcome::{self, Outcome};
use super::plain::{Columns, clock};
use super::screen::{Picture, describe};
use super::terminal::{self, Terminal};
use super::text::Line;
use crate::terminal::printable_lines;

/// One of the two.
#[derive(Debug)]
pub(super) enum Ui {
    /// A terminal.
    Screen { terminal: Terminal<Stdout>, colour: bool },
    /// Lines; the last complaint is remembered so that it is not repeated.
    Plain { columns: Columns, told: Vec<String> },
}

impl Ui {
    /// For a terminal, with colours or without.
    pub fn screen(colour: bool) -> Self {
        Self::Screen { terminal: Terminal::new(io::stdout(), colour), colour }
    }

    /// For anything else.
    pub fn plain<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Plain { columns: Columns::for_names(names), told: Vec::new() }
    }

    /// Tells something before the rollout begins.
    ///
    /// # Errors
    ///
    /// Like all here: standard output is closed.
    pub fn announce(&self, lines: &[String]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in lines {
            let line = Line::of(super::text::Look::Plain, line).plain();
            writeln!(out, "{}", printable_lines(&line, false))?;
        }
        out.flush()
    }

    /// Tells transitions, in a log.
    pub fn tell(&self, transitions: &[Transition]) -> io::Result<()> {
        let Self::Plain { columns, .. } = self else { return Ok(()) };
        let mut out = io::stdout().lock();
        for transition in transitions {
            writeln!(out, "{}", printable_lines(&columns.line(transition), false))?;
        }
        out.flush()
    }

    /// Shows how things stand now.
    pub fn refresh(
        &mut self,
        fleet: &Fleet,
        elapsed: Duration,
        notes: &[String],
    ) -> io::Result<()> {
        let verdicts = outcome::of_fleet(fleet);
        match self {
            Self::Screen { terminal, .. } => {
                let (columns, rows) = terminal::size();
                let picture = Picture { fleet, verdicts: &verdicts, elapsed, notes };
                let lines = picture.lines(columns, Some(rows.saturating_sub(1)));
                terminal.draw(lines, (columns, rows))
            }
            Self::Plain { told, .. } => {
                let complaints: Vec<String> = verdicts
                    .iter()
                    .filter(|(_, verdict)| !matches!(verdict, Outcome::Running | Outcome::Complete))
                    .map(|(name, verdict)| format!("{name}: {}", describe(verdict)))
                    .collect();
                if complaints == *told {
                    return Ok(());
                }
                told.clone_from(&complaints);
                let lines: Vec<String> =
                    complaints.iter().map(|text| format!("{} {text}", clock(elapsed))).collect();
                self.announce(&lines)
            }
        }
    }

    /// The last picture, in full, and the summary.
    pub fn finish(&mut self, fleet: &Fleet, elapsed: Duration, summary: &[Line]) -> io::Result<()> {
        let colour = match self {
            Self::Screen { terminal, colour } => {
                let (columns, rows) = terminal::size();
                let verdicts = outcome::of_fleet(fleet);
                let picture = Picture { fleet, verdicts: &verdicts, elapsed, notes: &[] };
                terminal.draw(picture.lines(columns, None), (columns, rows))?;
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
