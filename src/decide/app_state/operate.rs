//! One round of an operation: from its request until it waits or has ended
//! (SE-370 … SE-375). What is written into the Application here is what is
//! stored; the caller looks, calls, and carries out what comes back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::auto_sync::refuses_to_empty;
use super::deletion::asked_at;
use super::look::Look;
use super::operation::{self, Stage};
use super::operation_snapshot::snapshot;
use super::pairs::DiffCache;
use super::refresh::digest;
use super::trouble::Trouble;
use crate::api::application::RetryStrategy;
use crate::api::operation::OperationPhase;
use crate::api::resource_key::ResourceKey;
use crate::decide::sync::{self, Action, Group, How, LiveObject, Outcome, Retry, SyncPlan};

/// How long an operation looks again at what cannot be read before it ends.
const UNREADABLE_LIMIT: SignedDuration = SignedDuration::from_secs(6);
/// The first pause between two such looks; then they grow with the time.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_millis(400);

/// What an operation does next.
#[derive(Clone, Debug)]
pub enum Next {
    /// Look at everything and call [`round`].
    Look,
    /// Carry this out, then look again.
    Act(Box<Act>),
    /// Wait for events, and until this time at most.
    Wait(Option<Timestamp>),
    /// It has ended, and the Application says so.
    Over,
}

/// Actions, and what carrying them out needs.
#[derive(Clone, Debug)]
pub struct Act {
    /// What to do, group after group.
    pub groups: Vec<Group>,
    /// Whether the Application is to be stored before.
    pub persist: bool,
    /// What is live, as it was decided on.
    pub live: BTreeMap<ResourceKey, LiveObject>,
    /// Groups and kinds that definitions among the targets bring along.
    pub defined: BTreeSet<(String, String)>,
    /// Manager whose fields are taken over by server-side apply.
    pub former_manager: String,
    /// What is odd about the manifests; said in the first round only.
    pub warnings: Vec<String>,
}

impl Act {
    /// Whether carrying it out leaves the cluster and what is known of it as it
    /// is: a dry run that is made here.
    pub fn sends_nothing(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.actions).all(|action| match action {
            Action::DryRun(apply) => apply.request.method.how != How::ServerSide,
            _ => false,
        })
    }
}

/// Settings that operations depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Those of the wave engine.
    pub sync: sync::Settings,
    /// Whether operations without options take those of the spec (SE-304).
    pub inherit_sync_options: bool,
}

/// Starts what is requested, and what follows a pause between two attempts.
pub fn begin(application: &mut Value, now: Timestamp) -> Next {
    if operation::stage(application) == Stage::Requested {
        operation::begin(application, now);
        if operation::is_complete(application) {
            let given = operation::given(&application["operation"]["sync"]);
            operation::pin(application, &given);
        }
    }
    let state = &application["status"]["operationState"];
    if !state["finishedAt"].is_string() {
        return Next::Look;
    }
    let over = match is_terminating(application) {
        true => Some("Operation terminated".to_owned()),
        // The deletion waits for the operation, not for attempts to come.
        false => asked_at(application).map(|_| {
            let message = state["message"].as_str().unwrap_or_default();
            format!("{message} (no more attempts: the application is being deleted)")
        }),
    };
    if let Some(message) = over {
        operation::finish(application, OperationPhase::Failed, &message, now);
        return Next::Over;
    }
    let attempt = state["retryCount"].as_u64().unwrap_or(0);
    let strategy = strategy(application);
    let backoff = strategy.as_ref().and_then(|strategy| strategy.backoff.as_ref());
    let wait = sync::delay(backoff, attempt).unwrap_or_default();
    let due = operation::finished_at(application).and_then(|at| at.checked_add(wait).ok());
    if let Some(due) = due.filter(|due| *due > now) {
        return Next::Wait(Some(due));
    }
    operation::next_attempt(application, attempt);
    Next::Look
}

/// One round: what has become of the last actions, and what is to be done now.
pub fn round(
    application: &mut Value,
    look: &Look<'_>,
    diffs: &mut DiffCache,
    outcomes: Vec<Outcome>,
    settings: &Settings,
    now: Timestamp,
) -> Next {
    let terminating = is_terminating(application);
    if !terminating && let Some(next) = held_by_window(application, look, now) {
        return next;
    }
    let compared = look.compare(application, diffs);
    // A rule that cannot be used may be what protects a field.
    let found = compared.conditions.iter().chain(&compared.comparison.conditions);
    if let Some(bad) = found.chain(&look.placed.conditions).find(|found| found.is_error()) {
        let message = bad.message.clone();
        return conclude(application, End::of(OperationPhase::Error, message), now);
    }
    let spec = look.access.spec;
    if let Some(refusal) =
        refuses_to_empty(application, spec, &compared.comparison).filter(|_| !terminating)
    {
        return conclude_finally(application, refusal, now);
    }
    let snapshot = match snapshot(application, look, &compared, outcomes, settings, now) {
        Ok(snapshot) => snapshot,
        Err(message) => return conclude(application, End::of(OperationPhase::Error, message), now),
    };
    let first = !snapshot.progress.dry_run_done && snapshot.results.is_empty();
    let mut plan = sync::step(&snapshot, now);
    operation::store(application, &plan);
    if plan.phase.is_completed() {
        let SyncPlan { phase, message, terminated, .. } = plan;
        return conclude(application, End { phase, message, terminated }, now);
    }
    if plan.actions.is_empty() {
        return Next::Wait(plan.wake_at);
    }
    let targets = look.placed.targets.iter();
    Next::Act(Box::new(Act {
        groups: std::mem::take(&mut plan.actions),
        persist: plan.needs_persist_before_actions,
        defined: targets.filter_map(|target| sync::defines(&target.object)).collect(),
        live: snapshot.live,
        former_manager: compared.config.former_manager,
        warnings: if first { plan.warnings } else { Vec::new() },
    }))
}

/// What follows when the facts cannot be had; `since` is when that began.
pub fn stopped(
    application: &mut Value,
    trouble: &Trouble,
    since: Timestamp,
    now: Timestamp,
) -> Next {
    let elapsed = now.duration_since(since);
    if trouble.may_pass() && elapsed < UNREADABLE_LIMIT {
        return Next::Wait(now.checked_add(elapsed.max(FIRST_PAUSE)).ok());
    }
    conclude(application, End::of(OperationPhase::Error, trouble.message()), now)
}

/// Ends an operation that the engine failed on internally (SE-375).
pub fn fail_internally(application: &mut Value, message: &str, now: Timestamp) {
    if operation::stage(application) == Stage::Requested {
        operation::begin(application, now);
    }
    operation::finish(application, OperationPhase::Error, message, now);
}

/// Whether what is stored does not say yet that this attempt runs: nothing is
/// done before it does.
pub fn is_new(stored: &Value, application: &Value) -> bool {
    operation::started_at(stored) != operation::started_at(application)
        || operation::finished_at(stored) != operation::finished_at(application)
}

/// Tells rounds apart by what the operation waits for, for the log.
pub fn standing(application: &Value) -> u64 {
    let state = &application["status"]["operationState"];
    digest(&(&state["phase"], &state["retryCount"], &state["message"]))
}

fn is_terminating(application: &Value) -> bool {
    application["status"]["operationState"]["phase"] == "Terminating"
}

fn strategy(application: &Value) -> Option<RetryStrategy> {
    let operation = &application["status"]["operationState"]["operation"];
    let raw = operation.get("retry").filter(|retry| retry.is_object())?;
    serde_json::from_value(raw.clone()).ok()
}

/// Waits while sync windows do not let the operation run. Termination goes on
/// all the same (SE-410).
fn held_by_window(application: &mut Value, look: &Look<'_>, now: Timestamp) -> Option<Next> {
    let state = &application["status"]["operationState"];
    let verdict = look.access.window(Some(state), now);
    let message = verdict.blocked_message()?;
    if asked_at(application).is_some() {
        // The deletion waits for its end, and a window may stay shut for ever.
        let message = format!("{message}; it is ended, since the application is being deleted");
        operation::finish(application, OperationPhase::Failed, &message, now);
        return Some(Next::Over);
    }
    application["status"]["operationState"]["message"] = message.into();
    Some(Next::Wait(verdict.next_change))
}

/// How an attempt ended.
struct End {
    phase: OperationPhase,
    message: String,
    /// Whether a person or the time limit stopped it.
    terminated: bool,
}

impl End {
    fn of(phase: OperationPhase, message: String) -> Self {
        Self { phase, message, terminated: false }
    }
}

/// The end of an operation that fails in the same way however often it is
/// tried, unless another attempt takes a newer revision.
fn conclude_finally(application: &mut Value, message: String, now: Timestamp) -> Next {
    if operation::is_refreshed(application) {
        return conclude(application, End::of(OperationPhase::Failed, message), now);
    }
    operation::finish(application, OperationPhase::Failed, &message, now);
    Next::Over
}

/// What follows the end of an attempt: another one, or the end.
fn conclude(application: &mut Value, end: End, now: Timestamp) -> Next {
    let terminated = end.terminated || is_terminating(application);
    let count = application["status"]["operationState"]["retryCount"].as_u64().unwrap_or(0);
    let deleting = asked_at(application).is_some();
    let strategy = strategy(application).filter(|_| !deleting);
    match sync::retry(strategy.as_ref(), count, end.phase, &end.message, terminated, now) {
        Retry::Again { at, attempt, message } => {
            operation::announce_attempt(application, attempt, &message, now);
            Next::Wait(Some(at))
        }
        Retry::Over { phase, message } => {
            operation::finish(application, phase, &message, now);
            Next::Over
        }
    }
}
