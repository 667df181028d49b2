//! Signals of a program that shows a rollout: those that end it, and those that stop and
//! continue it.

use std::io;

use rustix::process::{Signal as Number, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::terminal::can_stop;
use super::ui::Ui;

/// Exit code of a program whose reader is gone, as for SIGPIPE: 128 plus the number of
/// the signal.
pub(in crate::cli) const READER_GONE: u8 = 141;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Wake {
    /// To end, with this exit code: 128 plus the number of the signal.
    End(u8),
    /// To stop until it is continued (Ctrl-Z).
    Stop,
    /// It was stopped, and the terminal may show anything.
    Continued,
}

/// Signals, from now on.
pub(in crate::cli) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    /// Only of a program that draws a screen; others stop as by default.
    stopping: Option<(Signal, Signal)>,
}

impl Signals {
    /// Registers the signals.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn new(draws_a_screen: bool) -> io::Result<Self> {
        let number = |signal: Number| SignalKind::from_raw(signal.as_raw());
        let stopping = match draws_a_screen {
            true => Some((signal(number(Number::TSTP))?, signal(number(Number::CONT))?)),
            false => None,
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stopping,
        })
    }

    /// The next signal. Safe to cancel.
    pub async fn next(&mut self) -> Wake {
        let stopping = async {
            match &mut self.stopping {
                None => std::future::pending().await,
                Some((stop, cont)) => tokio::select! {
                    _ = stop.recv() => Wake::Stop,
                    _ = cont.recv() => Wake::Continued,
                },
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Wake::End(130),
            _ = self.quit.recv() => Wake::End(131),
            _ = self.terminate.recv() => Wake::End(143),
            _ = self.hangup.recv() => Wake::End(129),
            wake = stopping => wake,
        }
    }

    /// The exit code of the next signal that ends the program.
    pub async fn end(&mut self) -> u8 {
        loop {
            match self.next().await {
                Wake::End(code) => return code,
                Wake::Stop => stop(),
                Wake::Continued => {}
            }
        }
    }

    /// Stops the program until it is continued, with the terminal as it was before.
    ///
    /// # Errors
    ///
    /// The terminal is closed.
    pub async fn stop(&mut self, ui: &mut Ui) -> io::Result<()> {
        if !can_stop() {
            return Ok(());
        }
        ui.leave()?;
        stop();
        // The process may run on for a moment before it stops.
        if let Some((_, cont)) = &mut self.stopping {
            cont.recv().await;
        }
        Ok(())
    }
}

/// Stops this process. Its own handler has replaced what SIGTSTP does by default.
fn stop() {
    if can_stop() {
        // Cannot fail for the own process.
        let _ = kill_process(getpid(), Number::STOP);
    }
}
