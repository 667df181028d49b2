//! Summary of a rollout, from the status of a set and its Applications, for `status` and
//! `explain`. Makes no decisions; a status of another controller, without
//! `status.rollout`, is read, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::explain::take_back;
use super::output::some_of;
use crate::api::annotations::{self, SKIP_RECONCILE};
use crate::api::conditions::application_set::{self as condition, reason};
use crate::api::time::to_rfc3339;
use crate::api::{HealthStatus, OperationPhase, Raw};
use crate::decide::app_state::operation::is_full;
use crate::decide::application_set::deletion::Going;
use crate::decide::application_set::rollout_storage::with_rollout;
use crate::decide::application_set::{is_owned, stored};
use crate::decide::blocking_resource;
use crate::decide::rollout::gate::INVALID;
use crate::decide::rollout::held::{HELD, RUNNING};
use crate::decide::rollout::phase::{Entry, Mark, Phase};
use crate::decide::rollout::steps::Strategy;
use crate::desired::name_of;

/// Summary of the rollout of a set.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RolloutSummary {
    pub namespace: String,
    pub application_set: String,
    /// `RollingSync` or `AllAtOnce`.
    pub strategy: &'static str,
    pub state: State,
    /// The first incomplete step, counted from 1; `null` when there is none.
    pub step: Option<usize>,
    pub steps: usize,
    /// Number of complete Applications, and their total.
    pub complete: u64,
    pub total: u64,
    /// `status.health.status`, or `Degraded` for a rollout that is stuck; empty when absent.
    pub health: String,
    /// Description of the state in one line.
    pub message: String,
    /// That `status.resources` does not list every Application; absent when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
    /// In the order of the steps, then by name; those that no step selects come last.
    pub applications: Vec<MemberSummary>,
    /// Whether the set is kept by a finalizer while its Applications are deleted.
    #[serde(skip)]
    finalizers: Vec<String>,
}

/// Why an Application outside of the steps is not rolled out.
pub(super) const OUTSIDE: &str = "no step selects it: it waits for a manual sync";

/// State of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum State {
    /// The set is being deleted.
    Deleting,
    /// No controller has written a status yet.
    Unseen,
    /// The controller reports an error and has stopped.
    Failed,
    /// The set uses RollingSync, but progressive syncs are disabled.
    SwitchedOff,
    /// The set has no rollout.
    AllAtOnce,
    /// The rollout is in progress.
    Rolling,
    /// All steps are complete.
    Complete,
}

/// Summary of one Application of a set.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemberSummary {
    pub application: String,
    /// Step, counted from 1; `null` when no step selects the Application.
    pub step: Option<usize>,
    /// Waiting, Pending, Progressing or Healthy; empty outside a rollout.
    pub phase: String,
    /// `status.sync.status`; empty when unknown.
    pub sync: String,
    /// `status.health.status`; empty when unknown.
    pub health: String,
    /// Start of the phase; empty outside a rollout.
    pub since: String,
    /// What the rollout waits for, if it waits for this Application; else the message of
    /// the entry. What holds the Application while it is being deleted.
    pub message: String,
    /// Whether it is being deleted.
    #[serde(skip)]
    pub is_going: bool,
    /// Whether no step selects it, and it needs a manual sync.
    #[serde(skip)]
    pub is_outside: bool,
    /// Whether it is Synced and Healthy, as far as its last operation says.
    #[serde(skip)]
    pub is_ready: bool,
    /// Whether only another sync continues it, also when a dry run came after the one that
    /// failed.
    #[serde(skip)]
    pub has_failed: bool,
}

/// That Applications outside of the steps need a manual sync; `None` without any.
pub(super) fn left_outside(names: &[&str]) -> Option<String> {
    let who = some_of(names.iter().copied(), 3);
    match names.len() {
        0 => None,
        1 => Some(format!("no step selects {who}: it waits for a manual sync")),
        _ => Some(format!("no step selects {who}: they wait for a manual sync")),
    }
}

/// The reason of a wait by the Application that was just read: the status of the set follows
/// it by up to a second. `phase` is its phase in the rollout, `known` the reason there.
pub(super) fn current_reason(phase: &str, known: &str, live: Option<&Value>) -> String {
    const ANOTHER: &str = "another operation is running";
    // The Application does not say that its cluster is excluded.
    let Some(live) = live.filter(|_| !known.contains(SKIP_RECONCILE)) else {
        return known.to_owned();
    };
    let state = OperationPhase::from_word(live.text("/status/operationState/phase"));
    let is_running = state.is_running() || !live["operation"].is_null();
    let follows = match phase {
        "Progressing" => !known.starts_with(INVALID),
        "Pending" => state.is_running(),
        "Waiting" => known.starts_with(ANOTHER),
        _ => false,
    };
    if !follows {
        return known.to_owned();
    }
    let (sync, health) = (live.text("/status/sync/status"), live.text("/status/health/status"));
    // A dry run says nothing about the sync that the rollout waits for.
    let is_whole = is_full(&live["status"]["operationState"]["operation"]);
    if Mark::says_that_a_sync_is_needed(known) && !is_whole {
        return known.to_owned();
    }
    let found = blocking_resource::of(live).reason;
    match (is_running, found.as_str()) {
        (true, "") if phase == "Waiting" => ANOTHER.to_owned(),
        (true, found) if phase == "Waiting" => format!("{ANOTHER}: {found}"),
        (_, found) if !found.is_empty() => found.to_owned(),
        (false, _) if is_whole && (sync, health) == ("Synced", "Healthy") => DONE.to_owned(),
        _ => known.to_owned(),
    }
}

/// The reason for an Application that is done before the status of its set says so.
pub(super) const DONE: &str = "it is Synced and Healthy, its step is being updated";

impl RolloutSummary {
    /// Creates the summary. `applications` are all Applications of the set's namespace.
    pub fn read(set: &Value, applications: &BTreeMap<String, Arc<Value>>) -> Self {
        let set = &*with_rollout(set);
        let strategy = Strategy::read(set["spec"].get("strategy")).0;
        let stored = stored::entries(set, applications);
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
            truncated: set["status"]["resourcesCount"]
                .as_u64()
                .and_then(|count| stored::truncated(set.items("/status/resources").len(), count)),
            applications: members(set, step, &stored, applications),
            finalizers: annotations::finalizers(set).map(str::to_owned).collect(),
        };
        summary.message = summary.message(set);
        if true_condition(set, condition::DELETIONS_HELD).is_some() {
            summary
                .message
                .push_str("; deletions are held until a person approves them, see explain");
        }
        // Argo CD's word for every rollout that is not complete is Progressing (AS-190).
        let is_moving = summary.health == HealthStatus::Progressing.as_str();
        if is_moving && summary.is_stuck(set, applications) {
            HealthStatus::Degraded.as_str().clone_into(&mut summary.health);
        }
        summary
    }

    /// Whether the rollout does not continue by itself: an Application of its step has failed,
    /// or a controller has reported that it waits for too long, or nothing of the step goes on
    /// but one that a person holds (ST-065).
    fn is_stuck(&self, set: &Value, applications: &BTreeMap<String, Arc<Value>>) -> bool {
        if self.state != State::Rolling {
            return false;
        }
        let stalled = set.items("/status/rollout/stalled").iter();
        let stalled: BTreeSet<&str> = stalled.map(|one| one.field("application")).collect();
        let in_step = |member: &&MemberSummary| {
            member.step == self.step && member.phase != Phase::Healthy.name() && !member.is_going
        };
        let goes_on = |member: &MemberSummary| {
            [Phase::Pending.name(), Phase::Progressing.name()].contains(&member.phase.as_str())
        };
        let is_busy = self.applications.iter().filter(in_step).any(goes_on);
        let is_held = |member: &MemberSummary| {
            member.message.starts_with(HELD) && !member.message.contains(RUNNING)
        };
        self.applications.iter().filter(in_step).any(|member| {
            let live = applications.get(&member.application);
            stalled.contains(member.application.as_str())
                || member.message.starts_with(INVALID)
                || (is_held(member) && !is_busy)
                || live.is_some_and(|live| has_failed(member, live))
        })
    }

    /// `2/3`, or a dash without a step.
    pub fn step_text(&self) -> String {
        match self.step {
            Some(step) => format!("{step}/{}", self.steps),
            None if self.state == State::Complete => format!("{0}/{0}", self.steps),
            None => "-".to_owned(),
        }
    }

    fn message(&self, set: &Value) -> String {
        let (complete, total, steps) = (self.complete, self.total, self.steps);
        match self.state {
            State::Deleting => self.deletion_message(set),
            State::Unseen => {
                "no controller has reconciled it yet; check that a controller is running and watches its namespace"
                    .to_owned()
            }
            // What the others wait for, as the rollout itself says.
            State::Failed if self.step.is_some() && is_of_applications(set) => {
                match set.text("/status/rollout/message") {
                    "" => true_condition(set, condition::ERROR_OCCURRED).unwrap_or_default(),
                    reported => reported.to_owned(),
                }
            }
            State::Failed => true_condition(set, condition::ERROR_OCCURRED).unwrap_or_default(),
            State::SwitchedOff => {
                let reported = true_condition(set, condition::INVALID_ROLLOUT_CONFIG);
                reported.unwrap_or_else(|| {
                    "strategy.type is RollingSync, but progressive syncs are disabled; start the controller with --enable-progressive-syncs".to_owned()
                })
            }
            State::AllAtOnce => {
                format!(
                    "{complete} of {total} applications are Synced and Healthy; there are no steps"
                )
            }
            State::Complete => {
                let outside = self.applications.iter().filter(|member| member.is_outside);
                let outside: Vec<&str> =
                    outside.map(|member| member.application.as_str()).collect();
                match left_outside(&outside) {
                    Some(left) => format!("all {steps} steps are complete; {left}"),
                    None => format!("all {steps} steps are complete"),
                }
            }
            State::Rolling => match set.text("/status/rollout/message") {
                reported if !reported.is_empty() => reported.to_owned(),
                _ => {
                    let step = self.step.unwrap_or_default();
                    format!("step {step} of {steps}: {complete} of {total} applications are done")
                }
            },
        }
    }
}

impl RolloutSummary {
    /// How far a deletion is: its error, or the Application that it waits for.
    fn deletion_message(&self, set: &Value) -> String {
        if let Some(error) = true_condition(set, condition::ERROR_OCCURRED) {
            return format!("it is being deleted, which has failed: {error}");
        }
        let left = match self.applications.len() {
            0 if self.finalizers.is_empty() => return "it is being deleted".to_owned(),
            0 => {
                let finalizers = self.finalizers.join(", ");
                return format!("it is being deleted, held by its finalizers: {finalizers}");
            }
            1 => "1 application is left".to_owned(),
            left => format!("{left} applications are left"),
        };
        let mut going = self.applications.iter().filter(|member| member.is_going);
        match going.next() {
            Some(first) => {
                let more = match going.count() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                let (name, why) = (&first.application, &first.message);
                format!("it is being deleted: {left}; {name} {why}{more}")
            }
            None => format!("it is being deleted: {left}"),
        }
    }
}

/// Reasons of errors of single Applications that a controller retries by itself.
pub(super) const RETRIED: [&str; 3] = [
    reason::CREATE_APPLICATION_ERROR,
    reason::UPDATE_APPLICATION_ERROR,
    reason::DELETE_APPLICATION_ERROR,
];

/// Whether the error of the set is that of single Applications: the others are rolled out.
pub(super) fn is_of_applications(set: &Value) -> bool {
    let conditions = set.items("/status/conditions").iter();
    let mut errors = conditions.filter(|found| {
        found.field("type") == condition::ERROR_OCCURRED && found.field("status") == "True"
    });
    errors.any(|error| {
        let reason = error.field("reason");
        RETRIED.contains(&reason) || reason == reason::APPLICATION_VALIDATION_ERROR
    })
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

/// The first incomplete step, counted from 1.
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
        flags = owned.map(|live| is_ready(live)).collect();
    }
    (flags.iter().filter(|done| **done).count() as u64, flags.len() as u64)
}

/// The waits that the controller reports, by Application.
fn reported(set: &Value) -> BTreeMap<&str, &Value> {
    let waits = set.items("/status/rollout/waitingFor").iter();
    waits
        .map(|wait| (wait.field("application"), wait))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Whether an Application is Synced and Healthy, and its last operation, if any, succeeded:
/// what `--watch` counts as done outside of a rollout.
pub(super) fn is_ready(live: &Value) -> bool {
    let last = OperationPhase::from_word(live.text("/status/operationState/phase"));
    live.text("/status/sync/status") == "Synced"
        && live.text("/status/health/status") == "Healthy"
        && live["operation"].is_null()
        && !last.is_running()
        && !last.has_failed()
}

/// Whether the Application failed for what is rolled out, and nothing tries it again.
fn has_failed(member: &MemberSummary, live: &Value) -> bool {
    let last = OperationPhase::from_word(live.text("/status/operationState/phase"));
    if last.is_running() || !live["operation"].is_null() {
        return false;
    }
    let is_degraded = live.text("/status/health/status") == HealthStatus::Degraded.as_str();
    // What it says while it waits is about the revision before.
    match member.phase == Phase::Progressing.name() {
        true => last.has_failed() || member.has_failed || is_degraded,
        false => member.has_failed,
    }
}

/// Why an Application outside of a rollout is not ready.
fn unready(live: &Value) -> String {
    if is_ready(live) {
        return String::new();
    }
    let reason = blocking_resource::of(live).reason;
    match reason.is_empty() && !live["operation"].is_null() {
        true => "the operation to start".to_owned(),
        false => reason,
    }
}

fn members(
    set: &Value,
    open_step: Option<usize>,
    stored: &BTreeMap<String, Entry>,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Vec<MemberSummary> {
    let owned = applications.iter().filter(|(_, live)| is_owned(live, set)).map(|(name, _)| name);
    let reported = reported(set);
    // An Application that cannot be created is not there, and is waited for.
    let names: BTreeSet<&str> = owned
        .chain(stored.keys())
        .map(String::as_str)
        .chain(reported.keys().copied().filter(|_| open_step.is_some()))
        .collect();
    let member = |name: &str| {
        let entry = stored.get(name);
        let wait = reported.get(name).filter(|_| open_step.is_some());
        let live = |pointer| {
            applications.get(name).map(|live| live.text(pointer).to_owned()).unwrap_or_default()
        };
        let going = applications.get(name).and_then(|live| Going::read(live));
        let phase = entry.map(|entry| entry.phase.name()).unwrap_or_default();
        let has_steps = !set.items("/spec/strategy/rollingSync/steps").is_empty();
        let is_outside = has_steps
            && going.is_none()
            && entry.is_some_and(|entry| entry.step.is_none() && entry.phase == Phase::Waiting);
        MemberSummary {
            is_going: going.is_some(),
            is_outside,
            is_ready: applications.get(name).is_some_and(|live| is_ready(live)),
            has_failed: entry.is_some_and(Entry::needs_a_sync),
            application: name.to_owned(),
            step: match entry {
                Some(entry) => entry.step.map(|step| step + 1),
                None => open_step.filter(|_| wait.is_some()),
            },
            phase: phase.to_owned(),
            sync: live("/status/sync/status"),
            health: live("/status/health/status"),
            since: entry.map(|entry| to_rfc3339(entry.since)).unwrap_or_default(),
            message: match going {
                Some(going) => going.to_string(),
                None if is_outside => OUTSIDE.to_owned(),
                None => match wait.map(|wait| wait.field("reason")) {
                    Some(reason) if !reason.is_empty() => {
                        let live = applications.get(name).map(Arc::as_ref);
                        current_reason(phase, reason, live)
                    }
                    _ => match (entry, applications.get(name)) {
                        (Some(entry), _) => entry.message.clone(),
                        (None, Some(live)) => unready(live),
                        (None, None) => String::new(),
                    },
                },
            },
        }
    };
    let member = |name: &str| {
        let mut member = member(name);
        if let Some(live) = applications.get(name).filter(|_| member.message.starts_with(HELD)) {
            member.message = format!("{}; {}", member.message, take_back(live, name));
        }
        member
    };
    let mut members: Vec<MemberSummary> = names.into_iter().map(member).collect();
    // Stable, so by name within a step.
    members.sort_by_key(|member| member.step.unwrap_or(usize::MAX));
    members
}
