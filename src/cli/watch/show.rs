//! How followed rollouts are shown: on a screen, as lines, or by the first line of `explain`.

use std::io;

use jiff::Timestamp;

use super::followed::{Ending, FollowedRollouts};
use super::reasons::Reasons;
use crate::cli::cluster::ClusterConnection;
use crate::cli::rollout_view::plain::Columns;
use crate::cli::rollout_view::signals::Signals;
use crate::cli::rollout_view::transition::Transition;
use crate::cli::rollout_view::ui::Ui;

/// A screen, lines, or reasons.
pub(super) enum Show {
    Ui(Ui),
    Reasons(Reasons),
}

impl Show {
    /// The state at the start is known.
    pub fn begin(&mut self, followed: &FollowedRollouts) -> io::Result<()> {
        let Some(ui) = self.ui() else { return Ok(()) };
        let members = followed.live.fleet.known().flat_map(|set| set.report.members.keys());
        let mut columns = Columns::for_names(members.map(String::as_str));
        columns.names_sets = followed.live.scope().set.is_none();
        ui.begin(followed.frame(), columns)
    }

    fn ui(&mut self) -> Option<&mut Ui> {
        match self {
            Self::Ui(ui) => Some(ui),
            Self::Reasons(_) => None,
        }
    }

    pub fn log(&mut self, transitions: &[Transition], now: Timestamp) -> io::Result<()> {
        self.ui().map_or(Ok(()), |ui| ui.log_transitions(transitions, now))
    }

    /// Prints a line, unless there is a screen: that shows it below.
    pub fn say(&mut self, followed: &FollowedRollouts, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let line =
            followed.line(followed.live.scope().set.clone().unwrap_or_default(), text.to_owned());
        match self {
            Self::Ui(ui) => ui.log_transitions(&[line], Timestamp::now()),
            Self::Reasons(reasons) => reasons.say(text),
        }
    }

    /// Reads what is below the workloads that a rollout is stuck on.
    pub async fn look_below(
        &mut self,
        followed: &FollowedRollouts,
        ending: &Ending,
        cluster: &ClusterConnection,
    ) {
        if let (Self::Reasons(reasons), Ending::Stuck, Some(set)) =
            (self, ending, followed.live.fleet.known().next())
        {
            reasons.look_below(&set.key(), cluster).await;
        }
    }

    pub fn refresh(&mut self, followed: &FollowedRollouts, is_changed: bool) -> io::Result<()> {
        match self {
            // Lines begin with the state at the start.
            Self::Ui(Ui::Plain(_))
                if !followed.live.is_listed() && followed.live.disconnected().is_none() =>
            {
                Ok(())
            }
            Self::Ui(ui) => ui.refresh(followed.frame(), is_changed),
            Self::Reasons(reasons) => match is_changed.then(|| followed.reason()).flatten() {
                Some(reason) => reasons.refresh(reason),
                None => Ok(()),
            },
        }
    }

    pub fn leave(&mut self) -> io::Result<()> {
        self.ui().map_or(Ok(()), Ui::leave)
    }

    pub async fn stop(&mut self, signals: &mut Signals) -> io::Result<()> {
        let Some(ui) = self.ui() else { return Ok(()) };
        signals.stop(ui).await
    }

    pub fn finish(&mut self, followed: &FollowedRollouts, ending: &Ending) -> io::Result<()> {
        let mut summary = followed.summary(ending);
        // Others have printed these lines.
        if !matches!(self, Self::Ui(Ui::Screen(_))) {
            let notes = followed.notes.len().min(summary.len());
            if matches!(ending, Ending::Complete | Ending::Stuck) {
                summary.drain(..notes);
            }
        }
        match self {
            Self::Ui(ui) => {
                if matches!(ending, Ending::Stuck) {
                    ui.refresh(followed.frame(), true)?;
                }
                ui.finish(followed.frame(), &summary)
            }
            Self::Reasons(reasons) => match ending {
                Ending::Complete | Ending::Signal(_) | Ending::ReaderGone => Ok(()),
                Ending::Stuck | Ending::Deleted | Ending::TimedOut(_) => reasons.finish(&summary),
            },
        }
    }
}
