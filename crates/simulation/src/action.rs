//! What happens during a simulation, besides what the controllers do.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::behavior::WorkloadOutcome;
use super::fault::FleetFault;
use wavegate_api::Raw as _;
use wavegate_engine::names::some_of;

/// The most names in a message.
const NAMES: usize = 3;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledAction {
    /// When: the time since the start.
    pub at: Duration,
    /// What.
    pub action: FleetAction,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetAction {
    /// A commit, which changes these Applications; all without names.
    Push(Option<BTreeSet<String>>),
    /// The branch is set to the commit of this number, which it has had before.
    Reset(u64),
    /// The deployments of Applications that begin from now on behave in another way.
    Behave(BTreeSet<String>, FleetChange),
    /// Healthy Applications become Degraded.
    Degrade(BTreeSet<String>),
    /// The controllers are killed, and start again.
    Restart,
    /// The API server answers no request for this time.
    ApiDown(Duration),
    /// All sets are paused.
    Pause,
    /// They are resumed.
    Resume,
    /// A person approves the gates of this name.
    Approve(String),
    /// A person takes the current runs back.
    Rollback,
    /// A person aborts the current runs.
    Abort,
    /// A person retries these Applications; without names, all that have failed.
    Retry(BTreeSet<String>),
    /// A person leaves Applications out.
    Skip(BTreeSet<String>),
    /// A user applies an object.
    Apply(Value),
    /// The ConfigMap with the settings of the controllers is deleted.
    DeleteSettings,
    /// It is created again.
    CreateSettings,
    /// Somebody takes the owner references from the current runs.
    Disown,
    /// Something goes wrong.
    Fault(FleetFault),
}

impl FleetAction {
    /// How long it goes on.
    pub fn lasts(&self) -> Duration {
        match self {
            Self::ApiDown(time) => *time,
            Self::Fault(fault) => fault.lasting(),
            _ => Duration::ZERO,
        }
    }
}

/// In which way deployments behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetChange {
    /// What comes of them.
    Outcome(WorkloadOutcome),
    /// How long they take to become Healthy.
    Health(Duration),
}

impl std::fmt::Display for FleetAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Push(None) => f.write_str("a commit is pushed"),
            Self::Push(Some(names)) => {
                write!(f, "a commit for {} is pushed", some_of(names, NAMES))
            }
            Self::Reset(commit) => write!(f, "the branch is set back to commit {commit}"),
            Self::Behave(names, change) => {
                let how = match change {
                    FleetChange::Outcome(WorkloadOutcome::Succeeds) => "succeed".to_owned(),
                    FleetChange::Outcome(WorkloadOutcome::Fails) => "fail".to_owned(),
                    FleetChange::Outcome(WorkloadOutcome::Hangs) => "hang".to_owned(),
                    FleetChange::Outcome(WorkloadOutcome::Flaky(share)) => {
                        format!("fail in {share} % of the cases")
                    }
                    FleetChange::Health(time) => format!("take {}", text(*time)),
                };
                write!(f, "from now on {how}: {}", some_of(names, NAMES))
            }
            Self::Degrade(names) => write!(f, "Degraded: {}", some_of(names, NAMES)),
            Self::Restart => f.write_str("the controllers are killed and start again"),
            Self::ApiDown(time) => write!(f, "the API server is down for {}", text(*time)),
            Self::Pause => f.write_str("the sets are paused"),
            Self::Resume => f.write_str("the sets are resumed"),
            Self::Approve(gate) => write!(f, "gate {gate} is approved"),
            Self::Rollback => f.write_str("a person takes the run back"),
            Self::Abort => f.write_str("a person aborts the run"),
            Self::Retry(names) if names.is_empty() => {
                f.write_str("a person retries what has failed")
            }
            Self::Retry(names) => write!(f, "a person retries {}", some_of(names, NAMES)),
            Self::Skip(names) => write!(f, "a person skips {}", some_of(names, NAMES)),
            Self::Apply(object) => {
                write!(f, "a user applies {} {}", object.field("kind"), object.name())
            }
            Self::DeleteSettings => f.write_str("the settings of the controllers are deleted"),
            Self::CreateSettings => f.write_str("the settings are created again"),
            Self::Disown => f.write_str("somebody takes the owner references from the runs"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

/// A duration without the units that are 0, as the chart has it.
fn text(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("h", seconds / 3600), ("m", seconds / 60 % 60), ("s", seconds % 60)];
    let units = units.into_iter().filter(|(_, number)| *number > 0);
    let text: String = units.map(|(unit, number)| format!("{number}{unit}")).collect();
    if text.is_empty() { format!("{}ms", time.as_millis()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_no_units_of_zero() {
        for (seconds, want) in
            [(30, "30s"), (90, "1m30s"), (120, "2m"), (3600, "1h"), (3630, "1h30s")]
        {
            assert_eq!(text(Duration::from_secs(seconds)), want);
        }
    }
}
