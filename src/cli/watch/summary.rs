//! What following rollouts came to, in lines.

use jiff::Timestamp;

use super::followed::{Ending, FollowedRollouts};
use crate::cli::console::commands::wavegate;
use crate::cli::rollout_view::sentence::{describe, seconds, waiting};
use crate::cli::rollout_view::set::WatchedSet;
use crate::cli::rollout_view::text::{Style, StyledLine};
use wavegate_rollout::rollout::report::RolloutOutcome;

impl FollowedRollouts {
    /// What it came to.
    pub(super) fn summary(&self, ending: &Ending) -> Vec<StyledLine> {
        let now = Timestamp::now();
        let outcomes = self.live.fleet.outcomes();
        let mut lines = Vec::new();
        match ending {
            Ending::Complete => {
                let text = match outcomes.as_slice() {
                    [(key, _)] => {
                        let set = self.live.fleet.sets.get(key);
                        let time = set.filter(|set| set.report.is_rolling());
                        match time.and_then(|set| set.duration(now)) {
                            Some(time) => {
                                format!("Rollout of {} complete after {}", key.name, seconds(time))
                            }
                            None => format!("Rollout of {} complete", key.name),
                        }
                    }
                    sets => format!("All {} rollouts are complete", sets.len()),
                };
                let sets = || outcomes.iter().filter_map(|(key, _)| self.live.fleet.sets.get(key));
                let without: Vec<String> =
                    sets().filter_map(WatchedSet::complete_without).collect();
                let style = if without.is_empty() { Style::Green } else { Style::Yellow };
                lines.push(StyledLine::of(style, text));
                lines.extend(without.into_iter().map(|text| StyledLine::of(Style::Yellow, text)));
                for (key, _) in &outcomes {
                    let set = self.live.fleet.sets.get(key);
                    if let Some(left) = set.and_then(WatchedSet::left_outside) {
                        let name = if outcomes.len() > 1 { &key.name } else { "" };
                        let colon = if name.is_empty() { "" } else { ": " };
                        lines.push(StyledLine::of(Style::Yellow, format!("{name}{colon}{left}")));
                    }
                }
            }
            Ending::Stuck => {
                for (key, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_stuck()) {
                    let command = wavegate("explain", &key.namespace, &key.name);
                    let text =
                        format!("{} cannot continue by itself. What to do: {command}", key.name);
                    lines.push(StyledLine::of(Style::Red, text));
                }
            }
            Ending::Deleted => {
                let what = match &self.live.scope().set {
                    Some(name) => {
                        let namespace = self.live.scope().namespace.as_deref().unwrap_or_default();
                        format!("ApplicationSet {namespace}/{name} was deleted.")
                    }
                    None => "All ApplicationSets were deleted.".to_owned(),
                };
                lines.push(StyledLine::of(Style::Red, what));
            }
            Ending::TimedOut(time) => {
                let time = humantime::format_duration(*time);
                let open =
                    outcomes.iter().filter(|(_, outcome)| *outcome != RolloutOutcome::Complete);
                for (key, outcome) in open {
                    let Some(set) = self.live.fleet.sets.get(key) else { continue };
                    let why = match outcome {
                        RolloutOutcome::Running => waiting(set, now),
                        outcome => describe(set, outcome),
                    };
                    let why = match self.live.disconnected() {
                        Some(lost) => format!("Disconnected: {lost}. The last state: {why}"),
                        None => why,
                    };
                    let text = format!("{} is not complete after {time}. {why}", key.name);
                    lines.push(StyledLine::of(Style::Red, text));
                }
                if lines.is_empty() {
                    let unknown = match self.live.is_listed() {
                        true => "no ApplicationSet was found",
                        false => "the API server has not answered yet",
                    };
                    let why = self.live.disconnected().unwrap_or(unknown);
                    let text = format!("Nothing is complete after {time}: {why}");
                    lines.push(StyledLine::of(Style::Red, text));
                }
            }
            Ending::Signal(_) | Ending::ReaderGone => {}
        }
        if matches!(ending, Ending::Complete | Ending::Stuck) {
            let notes = self.notes.iter().map(|note| StyledLine::of(Style::Yellow, note.clone()));
            lines.splice(0..0, notes);
        }
        lines
    }
}
