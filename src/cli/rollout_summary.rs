//! Where a set stands, read from its status and its Applications: what
//! `status` and `explain` print. Nothing is decided here; a status that another
//! controller wrote, without our own `status.rollout`, is read as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::api::Raw;
use crate::api::conditions::application_set as condition;
use crate::api::time::to_rfc3339;
use crate::decide::application_set::is_owned;
use crate::decide::rollout::phase::{Entry, Phase};
use crate::decide::rollout::status as entries;
use crate::decide::rollout::steps::Strategy;
use crate::desired::name_of;

/// Where a set stands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RolloutSummary {
    pub namespace: String,
    pub application_set: String,
    /// `RollingSync` or `AllAtOnce`.
    pub strategy: &'static str,
    pub state: State,
    /// The first step that is not complete, from 1; `null` when there is none.
    pub step: Option<usize>,
    pub steps: usize,
    /// Applications that are done, and all of them.
    pub complete: u64,
    pub total: u64,
    /// `status.health.status`, empty when there is none.
    pub health: String,
    /// One line on the state.
    pub message: String,
    /// By name.
    pub applications: Vec<Member>,
}

/// The states of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum State {
    /// It is being deleted.
    Deleting,
    /// No controller has written a status yet.
    Unseen,
    /// The controller reports an error and goes no further.
    Failed,
    /// A RollingSync is asked for, and the controller does not run any.
    SwitchedOff,
    /// There is no rollout to stand anywhere.
    AllAtOnce,
    /// A rollout is under way.
    Rolling,
    /// Every step is complete.
    Complete,
}

/// Where one Application of a set stands.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Member {
    pub application: String,
    /// From 1; `null` when no step selects it.
    pub step: Option<usize>,
    /// Waiting, Pending, Progressing, Healthy; empty outside a rollout.
    pub phase: String,
    /// `status.sync.status`, empty when unknown.
    pub sync: String,
    /// `status.health.status`, empty when unknown.
    pub health: String,
    /// When the phase began; empty outside a rollout.
    pub since: String,
    /// The entry's message.
    pub message: String,
}

impl RolloutSummary {
    /// Reads it. `applications` are those of the set's namespace, its own and
    /// others.
    pub fn read(set: &Value, applications: &BTreeMap<String, Arc<Value>>) -> Self {
        let strategy = Strategy::read(set["spec"].get("strategy")).0;
        let stored = entries::from_json(set["status"].get("applicationStatus"));
        let steps = strategy.steps().len();
        let step = open_step(set, &stored);
        let (complete, total) = progress(set, &stored, applications);
        let mut summary = Self {
            namespace: set.text("/metadata/namespace").to_owned(),
            application_set: name_of(set).to_owned(),
            strategy: match strategy {
                Strategy::AllAtOnce => "AllAtOnce",
                Strategy::RollingSync(_) => "RollingSync",
            },
            state: state(set, steps, &stored, step),
            step,
            steps,
            complete,
            total,
            health: set.text("/status/health/status").to_owned(),
            message: String::new(),
            applications: members(set, &stored, applications),
        };
        summary.message = summary.say(set);
        summary
    }

    /// `2/3`, or a dash where there are no steps to be in.
    pub fn step_text(&self) -> String {
        match self.step {
            Some(step) => format!("{step}/{}", self.steps),
            None if self.state == State::Complete => format!("{0}/{0}", self.steps),
            None => "-".to_owned(),
        }
    }

    fn say(&self, set: &Value) -> String {
        let (complete, total, steps) = (self.complete, self.total, self.steps);
        match self.state {
            State::Deleting => "it is being deleted".to_owned(),
            State::Unseen => {
                "no controller has looked at it yet; check that one runs and watches its namespace"
                    .to_owned()
            }
            State::Failed => true_condition(set, condition::ERROR_OCCURRED).unwrap_or_default(),
            State::SwitchedOff => {
                let told = true_condition(set, condition::INVALID_ROLLOUT_CONFIG);
                told.unwrap_or_else(|| {
                    "RollingSync is asked for and not run; start the controller with --enable-progressive-syncs".to_owned()
                })
            }
            State::AllAtOnce => {
                format!("{complete} of {total} applications are Healthy; there are no steps")
            }
            State::Complete => format!("all {steps} steps are complete"),
            State::Rolling => match set.text("/status/rollout/message") {
                told if !told.is_empty() => told.to_owned(),
                _ => {
                    let step = self.step.unwrap_or_default();
                    format!("step {step} of {steps}: {complete} of {total} applications are done")
                }
            },
        }
    }
}

/// The message of a condition that is `True`.
pub(super) fn true_condition(set: &Value, kind: &str) -> Option<String> {
    let conditions = set["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind && condition["status"] == "True")?;
    Some(found.text("/message").to_owned())
}

fn state(
    set: &Value,
    steps: usize,
    stored: &BTreeMap<String, Entry>,
    step: Option<usize>,
) -> State {
    let status = &set["status"];
    let is_empty = status.as_object().is_none_or(serde_json::Map::is_empty);
    if !set["metadata"]["deletionTimestamp"].is_null() {
        State::Deleting
    } else if is_empty {
        State::Unseen
    } else if true_condition(set, condition::ERROR_OCCURRED).is_some() {
        State::Failed
    } else if steps == 0 {
        State::AllAtOnce
    } else if stored.is_empty() && !status["rollout"].is_object() {
        State::SwitchedOff
    } else if step.is_some() {
        State::Rolling
    } else {
        State::Complete
    }
}

/// The first step that is not complete, from 1.
fn open_step(set: &Value, stored: &BTreeMap<String, Entry>) -> Option<usize> {
    let rollout = &set["status"]["rollout"];
    if let Some(step) = rollout["step"].as_u64() {
        return progress_of(rollout)
            .is_none_or(|(complete, total)| complete < total)
            .then(|| usize::try_from(step).unwrap_or(usize::MAX));
    }
    let unfinished = stored.values().filter(|entry| entry.phase != Phase::Healthy);
    unfinished.filter_map(|entry| entry.step).min().map(|step| step + 1)
}

fn progress_of(rollout: &Value) -> Option<(u64, u64)> {
    let (complete, total) = rollout["progress"].as_str()?.split_once('/')?;
    Some((complete.parse().ok()?, total.parse().ok()?))
}

fn progress(
    set: &Value,
    stored: &BTreeMap<String, Entry>,
    applications: &BTreeMap<String, Arc<Value>>,
) -> (u64, u64) {
    if let Some(progress) = progress_of(&set["status"]["rollout"]) {
        return progress;
    }
    let mut flags: Vec<bool> = stored
        .values()
        .filter(|entry| entry.step.is_some())
        .map(|entry| entry.phase == Phase::Healthy)
        .collect();
    if stored.is_empty() {
        let owned = applications.values().filter(|live| is_owned(live, set));
        flags = owned.map(|live| live["status"]["health"]["status"] == "Healthy").collect();
    }
    (flags.iter().filter(|done| **done).count() as u64, flags.len() as u64)
}

fn members(
    set: &Value,
    stored: &BTreeMap<String, Entry>,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Vec<Member> {
    let owned = applications.iter().filter(|(_, live)| is_owned(live, set)).map(|(name, _)| name);
    let names: BTreeSet<&String> = owned.chain(stored.keys()).collect();
    let member = |name: &String| {
        let entry = stored.get(name);
        let live = |pointer| {
            applications.get(name).map(|live| live.text(pointer).to_owned()).unwrap_or_default()
        };
        Member {
            application: name.clone(),
            step: entry.and_then(|entry| entry.step).map(|step| step + 1),
            phase: entry.map(|entry| entry.phase.name().to_owned()).unwrap_or_default(),
            sync: live("/status/sync/status"),
            health: live("/status/health/status"),
            since: entry.map(|entry| to_rfc3339(entry.since)).unwrap_or_default(),
            message: entry.map(|entry| entry.message.clone()).unwrap_or_default(),
        }
    };
    names.into_iter().map(member).collect()
}
