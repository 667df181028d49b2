//! What steps are complete without: Applications that failed, are skipped, or were not Healthy
//! before, and that are not as the rollout wants them (ST-041, ST-042, ST-064).

use super::entry::{Entry, Phase};
use super::run_input::Excuse;
use super::snapshot::Row;
use wavegate_api::HealthStatus;
use wavegate_engine::names::some_of;

/// The most names of each kind in a message.
const NAMED: usize = 3;

/// The Applications that steps go on without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Those that failed within the budget, or beyond one that only reports.
    pub failed: Vec<String>,
    /// Those that a person skips.
    pub skipped: Vec<String>,
    /// Those that were not Healthy before.
    pub unhealthy_before: Vec<String>,
    /// Those that a timeout has moved on without a sync (AS-356).
    pub timed_out: Vec<String>,
    /// Whether one of those that a run goes on without has failed, or is not Healthy now.
    pub is_unhealthy: bool,
}

impl LeftOut {
    /// Those of these Applications.
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row<'a>>) -> Self {
        let mut all = Self::default();
        for row in rows {
            if !is_left_out(row) {
                if has_timed_out(row) {
                    all.timed_out.push(row.member.name.to_owned());
                }
                continue;
            }
            let names = match row.run.excuse {
                Some(Excuse::Failed) => &mut all.failed,
                Some(Excuse::Skipped) => &mut all.skipped,
                Some(Excuse::UnhealthyBefore) => &mut all.unhealthy_before,
                None => continue,
            };
            names.push(row.member.name.to_owned());
            all.is_unhealthy |= row.run.failure.is_some() || !is_healthy(row);
        }
        all
    }

    /// In words, such as `1 failed: a; 2 skipped: b, c`; empty without any.
    pub fn text(&self) -> String {
        let parts = [
            (&self.failed, "failed"),
            (&self.skipped, "skipped"),
            (&self.unhealthy_before, "not Healthy, as before"),
            (&self.timed_out, "moved on by the progressing timeout"),
        ];
        let parts = parts.into_iter().filter(|(names, _)| !names.is_empty());
        let parts =
            parts.map(|(names, what)| format!("{} {what}: {}", names.len(), some_of(names, NAMED)));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// The same as the rest of a sentence.
    pub fn rest(&self) -> String {
        match self.text().as_str() {
            "" => String::new(),
            text => format!("; {text}"),
        }
    }
}

/// Whether its step is complete, or goes on, only since it is left out.
pub(super) fn is_left_out(row: &Row<'_>) -> bool {
    let is_complete = row.phase() == Some(Phase::Healthy)
        && !has_timed_out(row)
        && row.run.failure.is_none()
        && is_healthy(row);
    row.run.is_excused() && row.member.step().is_some() && !is_complete
}

fn has_timed_out(row: &Row<'_>) -> bool {
    row.entry.as_ref().is_some_and(Entry::timed_out)
}

fn is_healthy(row: &Row<'_>) -> bool {
    row.member.observed.is_some_and(|seen| seen.health == HealthStatus::Healthy)
}
