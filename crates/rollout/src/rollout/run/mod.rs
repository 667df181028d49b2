//! RunInput (ST-001 … ST-064): what policies and people say about a rollout.
//!
//! ```text
//! policies ─ rules ─┐
//! annotation paused ┼─> holds, excuses and limits of Applications ─> promotions
//! run: spec, status ┘                                             └─> the next status of the run
//! ```
//!
//! - A **hold** keeps an Application from its promotion: a pause, a gate, the failure budget, a
//!   quarantine. A promotion whose operation is not written yet is taken back.
//! - An **excuse** lets its step go on without it: it is skipped, or failed within the budget.
//! - A **limit** permits fewer Applications in flight than `maxUpdate`.
//!
//! Without policies, runs and annotations there is no [`RunInput`], and no decision differs.
//!
//! What the next decision depends on is stored: in the run, whose status is written before the
//! promotions that follow from it, and on each Application that the run starts ([`Started`]),
//! with the operation that starts it.

mod admitted;
mod digest_code;
mod estimate;
mod failures;
mod gates;
mod health_before;
pub(super) mod pace;
mod paused;
mod quarantine;
mod retries;
mod rollback;
mod run_name;
mod run_status;
mod signature;
pub mod started;
mod state;
mod status_size;
mod target_set;
#[cfg(test)]
mod tests;
mod timeline;
mod without_effect;
mod without_rollout;

use jiff::Timestamp;

pub use self::gates::missing_approvals;
pub use self::retries::open_retries;
pub use self::run_name::number_of;
pub use self::run_status::REVISIONS;
use self::started::Started;
pub use self::state::{LateRun, PlannedRun, RunDecision};
pub use self::without_rollout::end_run;
use super::gate::Gate;
use super::run_input::RunInput;
use super::snapshot::{RolloutSnapshot, Row};

/// Whether the text of a status has a target of an Application in quarantine (ST-060).
pub fn holds_target(quarantine: &str, application: &str, spec: &str, revisions: &[String]) -> bool {
    quarantine::Quarantine::read(quarantine).has_target(application, spec, revisions)
}

/// The run during one reconcile.
#[derive(Debug)]
pub(super) struct RunStepper<'a> {
    input: RunInput<'a>,
    run: state::State,
    pace: pace::RolloutPace,
}

impl<'a> RunStepper<'a> {
    /// Judges the Applications for the current run, which may be a new one: excuses, failures,
    /// retries. Holds follow when the open steps are known.
    pub fn begin(
        snapshot: &RolloutSnapshot<'a>,
        rows: &mut [Row<'a>],
        now: Timestamp,
    ) -> Option<Self> {
        let input = snapshot.run_input?;
        let mut run = state::State::begin(&input, rows, now);
        run.judge(&input, rows, now);
        let pace = pace::RolloutPace::default();
        Some(Self { input, run, pace })
    }

    /// Holds Applications, and sets the limits of the open steps.
    pub fn hold(
        &mut self,
        snapshot: &RolloutSnapshot<'_>,
        gate: &Gate,
        rows: &mut [Row<'_>],
        now: Timestamp,
    ) {
        let heals = snapshot.settings.rules.capture_drift;
        self.run.hold(&self.input, heals, rows, now);
        self.pace = pace::RolloutPace::new(&self.input, &self.run.status, snapshot, gate, rows);
    }

    /// The limits besides `maxUpdate`.
    pub fn pace(&mut self) -> &mut pace::RolloutPace {
        &mut self.pace
    }

    /// What a start records on its Application.
    pub fn started(&self, row: &Row<'_>, promotion: Timestamp) -> Option<Started> {
        self.run.started(row, promotion)
    }

    /// No promotion has an earlier time: the last retry is older than what is started after it.
    pub fn promotes_from(&self) -> Option<Timestamp> {
        self.run.status.retried.iter().map(|at| at.0).max()
    }

    /// Whether there is a run that has not ended.
    pub fn is_live(&self) -> bool {
        self.run.is_live()
    }

    /// Whether another reconcile has to follow soon: what it decides does not wait for an event.
    pub fn is_followed(&self, rows: &[Row<'_>]) -> bool {
        self.run.is_followed(self.input.set, rows)
    }

    /// When time alone changes something of the run next: a deadline passes, or a soak ends.
    pub fn next_timer(&self, rows: &[Row<'_>], now: Timestamp) -> Option<Timestamp> {
        let deadlines = rows.iter().filter_map(|row| row.run.deadline);
        let shut = self.run.status.gates.iter().filter(|gate| !gate.is_open());
        let soaks = shut.filter_map(|gate| gate.soaks_until.as_ref()).map(|until| until.0);
        let soaks = soaks.filter(|_| self.is_live());
        deadlines.chain(soaks).filter(|at| *at > now).min()
    }

    /// The run after this reconcile.
    pub fn finish(self, facts: &run_status::Facts<'_, '_>, now: Timestamp) -> Option<RunDecision> {
        self.run.finish(&self.input, &self.pace.batches, facts, now)
    }
}

pub(super) use run_status::Facts;
