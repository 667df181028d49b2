//! A run as data, and in the words of tables.

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::console::output::{human, or_dash};
use crate::cli::tree::view::short;
use wavegate_api::Time;
use wavegate_api::run::{
    Estimate, RevisionCount, RolloutRunSpec, RunFailure, RunGate, RunPhase, RunStep, RunWait,
    TimelineEntry,
};
use wavegate_api::time::to_rfc3339;
use wavegate_engine::names::some_of;
use wavegate_rollout::requests::{Run, number_of};

/// A run, for JSON and YAML.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunRecord {
    pub namespace: String,
    pub application_set: String,
    pub run: String,
    /// The number in its name; `null` for another name.
    pub number: Option<u64>,
    pub phase: RunPhase,
    pub message: String,
    pub from: Vec<RevisionCount>,
    pub to: Vec<RevisionCount>,
    /// The open step, counted from 1; `null` when all are complete.
    pub step: Option<i64>,
    pub steps: Vec<RunStep>,
    pub total: i64,
    pub done: i64,
    pub failed: i64,
    /// RFC 3339; empty before it.
    pub started_at: String,
    pub ended_at: String,
    /// Until its end, or until now; `null` before its start.
    pub duration_seconds: Option<i64>,
    pub ended_by: String,
    pub gates: Vec<RunGate>,
    pub waiting_for: Vec<RunWait>,
    pub failures: Vec<RunFailure>,
    pub unhealthy_before: Vec<String>,
    pub skipped: Vec<String>,
    pub estimate: Option<Estimate>,
    pub timeline: Vec<TimelineEntry>,
    /// What people said: the spec of the run.
    pub spec: RolloutRunSpec,
}

impl RunRecord {
    /// Of a run.
    pub fn of(namespace: &str, set: &str, run: Run, now: Timestamp) -> Self {
        let Run { name, spec, status, .. } = run;
        let text =
            |time: &Option<Time>| time.as_ref().map(|time| to_rfc3339(time.0)).unwrap_or_default();
        let end = status.ended_at.as_ref().map_or(now, |time| time.0);
        let start = status.started_at.as_ref();
        Self {
            namespace: namespace.to_owned(),
            application_set: set.to_owned(),
            number: number_of(&name),
            run: name,
            phase: status.phase,
            message: status.message,
            step: status.step,
            total: status.total,
            done: status.done,
            failed: status.failed,
            started_at: text(&status.started_at),
            ended_at: text(&status.ended_at),
            duration_seconds: start
                .map(|start| end.as_second().saturating_sub(start.0.as_second()).max(0)),
            ended_by: status.ended_by,
            from: status.from,
            to: status.to,
            steps: status.steps,
            gates: status.gates,
            waiting_for: status.waiting_for,
            failures: status.failures,
            unhealthy_before: status.unhealthy_before,
            skipped: status.skipped,
            estimate: status.estimate,
            timeline: status.timeline,
            spec,
        }
    }

    /// `2/3`: the open step, or all.
    pub fn steps_text(&self) -> String {
        let all = self.steps.len();
        match self.step {
            Some(step) => format!("{step}/{all}"),
            None if all == 0 => "-".to_owned(),
            None => format!("{all}/{all}"),
        }
    }

    /// `12/30`.
    pub fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }

    /// How long it took, or takes.
    pub fn duration(&self) -> String {
        match self.duration_seconds {
            Some(seconds) => human(seconds),
            None => "-".to_owned(),
        }
    }
}

/// Revisions, most frequent first: the first one, and how many others there are.
pub(super) fn revisions(all: &[RevisionCount]) -> String {
    let texts: Vec<String> = all.iter().map(|one| shortened(&one.revision)).collect();
    or_dash(&some_of(texts.iter(), 1))
}

/// A revision, or those of several sources.
pub(super) fn shortened(revision: &str) -> String {
    revision.split(',').map(|one| short(one.trim())).collect::<Vec<_>>().join(",")
}
