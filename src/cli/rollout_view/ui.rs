//! What a person sees: a screen that is redrawn, or lines.

use std::io::{self, IsTerminal, Stdout, Write};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::fleet::Fleet;
use super::plain::{Columns, Stamp};
use super::screen::{Frame, Screen};
use super::sentence::{describe, waiting};
use super::terminal::{self, Terminal};
use super::text::{Style, StyledLine};
use super::transition::Transition;
use crate::cli::console::error::Error;
use crate::cli::console::output;
use wavegate_api::ObjectKey;
use wavegate_net::terminal::printable_lines;
use wavegate_rollout::rollout::report::RolloutOutcome;

/// Most lines of the last screen, which stays in the scrollback.
const LAST_SCREEN: usize = 100;

/// Whether standard output was closed.
///
/// # Errors
///
/// Any other failure to write.
pub(in crate::cli) fn is_closed(written: io::Result<()>) -> Result<bool, Error> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(Error::input("cannot write", "standard output", error)),
    }
}

/// Screen or lines.
#[derive(Debug)]
pub(in crate::cli) enum Ui {
    /// A terminal.
    Screen(ScreenUi),
    /// Any other output.
    Plain(PlainUi),
}

/// A terminal that shows a screen.
#[derive(Debug)]
pub(in crate::cli) struct ScreenUi {
    terminal: Terminal<Stdout>,
    colour: bool,
    /// What the last drawing depends on besides the fleet.
    shown: Option<(u64, (usize, usize), bool)>,
}

/// Lines, one per transition.
#[derive(Debug)]
pub(in crate::cli) struct PlainUi {
    columns: Columns,
    stamp: Stamp,
    /// While something waits, a line is printed at least at this interval.
    interval: Duration,
    /// Time of the last line.
    printed: Instant,
    /// The last reported problems, which are not repeated.
    reported: Vec<String>,
    is_disconnected: bool,
}

/// Whether a screen can be drawn on standard output. With RUST_LOG the log is shown, which
/// a screen would cover.
pub(in crate::cli) fn can_draw() -> bool {
    let logged = std::env::var_os("RUST_LOG").is_some_and(|filter| !filter.is_empty());
    !logged && io::stdout().is_terminal() && terminal::can_draw()
}

impl Ui {
    /// For a terminal.
    pub fn screen() -> Self {
        terminal::leave_on_panic();
        let colour = output::colour();
        Self::Screen(ScreenUi {
            terminal: Terminal::new(io::stdout(), colour),
            colour,
            shown: None,
        })
    }

    /// Lines with this time in front; while something waits, at least at this interval.
    pub fn plain(columns: Columns, stamp: Stamp, interval: Duration) -> Self {
        Self::Plain(PlainUi {
            columns,
            stamp,
            interval,
            printed: Instant::now(),
            reported: Vec::new(),
            is_disconnected: false,
        })
    }

    /// Prints lines before the rollout starts.
    ///
    /// # Errors
    ///
    /// Like all functions here: standard output is closed.
    pub fn announce(&self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<StyledLine> =
            lines.iter().map(|line| StyledLine::of(Style::Plain, line)).collect();
        print(&lines, false)
    }

    /// The state at the start is known: lines begin with it.
    pub fn begin(&mut self, frame: Frame<'_>, columns: Columns) -> io::Result<()> {
        let Self::Plain(plain) = self else { return Ok(()) };
        plain.columns = columns;
        let at = plain.stamp.text(frame.elapsed, frame.now);
        let outcomes = frame.fleet.outcomes();
        let screen = Screen { frame, outcomes: &outcomes };
        let states = outcomes.iter().map(|(key, outcome)| screen.state_of(key, outcome));
        let lines: Vec<StyledLine> =
            states.map(|state| StyledLine::of(Style::Plain, format!("{at} {state}"))).collect();
        plain.reported = problems(frame.fleet, &outcomes);
        plain.print(&lines)
    }

    /// Prints transitions, unless there is a screen.
    pub fn log_transitions(
        &mut self,
        transitions: &[Transition],
        now: Timestamp,
    ) -> io::Result<()> {
        let Self::Plain(plain) = self else { return Ok(()) };
        let line = |transition: &Transition| {
            let at = plain.stamp.text(transition.at, now);
            StyledLine::of(Style::Plain, plain.columns.line(&at, transition))
        };
        plain.print(&transitions.iter().map(line).collect::<Vec<_>>())
    }

    /// Shows the current state; `is_changed`: whether the fleet has changed since.
    pub fn refresh(&mut self, frame: Frame<'_>, is_changed: bool) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.refresh(frame, is_changed),
            Self::Plain(plain) => plain.refresh(frame, is_changed),
        }
    }

    /// Restores the terminal. The next refresh draws the screen again.
    pub fn leave(&mut self) -> io::Result<()> {
        match self {
            Self::Screen(screen) => {
                screen.shown = None;
                screen.terminal.leave()
            }
            Self::Plain(_) => Ok(()),
        }
    }

    /// The last screen, and the summary.
    pub fn finish(&mut self, frame: Frame<'_>, summary: &[StyledLine]) -> io::Result<()> {
        self.leave()?;
        let (mut lines, mut colour) = (Vec::new(), false);
        if let Self::Screen(screen) = self {
            let outcomes = frame.fleet.outcomes();
            let frame = Frame { notes: &[], ..frame };
            let screen_of = Screen { frame, outcomes: &outcomes };
            lines = screen_of.lines(terminal::size().0, Some(LAST_SCREEN));
            colour = screen.colour;
        }
        lines.extend_from_slice(summary);
        print(&lines, colour)
    }
}

fn print(lines: &[StyledLine], colour: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", printable_lines(&line.show(colour), colour))?;
    }
    out.flush()
}

/// The outcomes that need a person.
fn problems(fleet: &Fleet, outcomes: &[(ObjectKey, RolloutOutcome)]) -> Vec<String> {
    let stuck = outcomes.iter().filter(|(_, outcome)| outcome.is_stuck());
    let sets = stuck.filter_map(|(key, outcome)| Some((fleet.sets.get(key)?, outcome)));
    sets.map(|(set, outcome)| format!("{}: {}", set.name(), describe(set, outcome))).collect()
}

impl ScreenUi {
    fn refresh(&mut self, frame: Frame<'_>, is_changed: bool) -> io::Result<()> {
        if !terminal::is_in_foreground() {
            // The terminal belongs to a shell; drawn again when the program gets it back.
            self.shown = None;
            return Ok(());
        }
        let size = terminal::size();
        // Ages and the clock have whole seconds.
        let key = (frame.elapsed.as_secs(), size, frame.disconnected.is_some());
        if !is_changed && self.shown == Some(key) {
            return Ok(());
        }
        self.shown = Some(key);
        let outcomes = frame.fleet.outcomes();
        let lines = Screen { frame, outcomes: &outcomes }.lines(size.0, Some(size.1));
        self.terminal.draw(lines, size)
    }
}

impl PlainUi {
    fn print(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.printed = Instant::now();
        print(lines, false)
    }

    fn refresh(&mut self, frame: Frame<'_>, is_changed: bool) -> io::Result<()> {
        let is_due = self.printed.elapsed() >= self.interval;
        let is_disconnected = frame.disconnected.is_some();
        if !is_changed && !is_due && is_disconnected == self.is_disconnected {
            return Ok(());
        }
        let at = self.stamp.text(frame.elapsed, frame.now);
        let mut texts = Vec::new();
        if is_disconnected != self.is_disconnected || is_disconnected && is_due {
            self.is_disconnected = is_disconnected;
            texts.push(match frame.disconnected {
                Some(why) => format!("disconnected, retrying: {why}"),
                None => "connected again".to_owned(),
            });
        }
        let outcomes = frame.fleet.outcomes();
        let problems = problems(frame.fleet, &outcomes);
        if problems != self.reported {
            texts.extend(problems.iter().cloned());
            self.reported = problems;
        }
        // No silent wait: what is waited for, since when.
        if texts.is_empty() && is_due {
            let running =
                outcomes.iter().filter(|(_, outcome)| *outcome == RolloutOutcome::Running);
            for (key, _) in running {
                let Some(set) = frame.fleet.sets.get(key) else { continue };
                let step = match set.report.open_step {
                    Some(step) => format!("step {}", step + 1),
                    None => String::new(),
                };
                let name =
                    if self.columns.names_sets { format!("{}  ", key.name) } else { String::new() };
                texts.push(format!("{name}{step:<6}  {}", waiting(set, frame.now)));
            }
            if outcomes.is_empty() {
                texts.push("waiting for an ApplicationSet".to_owned());
            }
            if texts.is_empty() {
                // Nothing waits.
                self.printed = Instant::now();
            }
        }
        let line = |text: &String| StyledLine::of(Style::Plain, format!("{at} {text}"));
        self.print(&texts.iter().map(line).collect::<Vec<_>>())
    }
}
