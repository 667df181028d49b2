//! One round of an operation (SE-370 … SE-375): [`operate_round`] takes what was observed and
//! returns the Application to be stored, and the actions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::auto_sync::refuses_to_empty;
use crate::deletion::asked_at;
use crate::differences::DiffCache;
pub use crate::engine_input::OperationSettings;
use crate::engine_input::sync_snapshot;
use crate::errors::ObserveError;
use crate::memory::{ApplicationMemory, digest_of};
use crate::observation::Observation;
use crate::operation::{self, OperationStage, operation_stage};
use wavegate_api::ResourceKey;
use wavegate_api::operation::{OperationPhase, OperationState};
use wavegate_api::sync_options::APPLY_OUT_OF_SYNC_ONLY;
use wavegate_api::time::Time;
use wavegate_engine::sync::{
    self, Action, ActionOutcome, ApplyMethod, Group, LiveObject, RetryDecision, SyncPlan,
};
use wavegate_engine::wait::{Wait, WaitFor};

/// How long an operation retries failed reads before it ends.
const UNREADABLE_LIMIT: SignedDuration = SignedDuration::from_secs(6);
/// The first delay between two such retries; later ones grow with the elapsed
/// time.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_millis(400);
/// A running operation is reconciled after this time, even without an event (SE-240).
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// The next step of an operation.
#[derive(Clone, Debug)]
pub enum Next {
    /// Observe everything and call [`operate_round`].
    Observe,
    /// Apply this, then observe again.
    Act(Box<OperationAct>),
    /// Wait for events, and until the time of this at most.
    Wait(Wait),
    /// It has ended, as recorded in the Application.
    Over,
    /// There is none.
    Idle,
}

impl Next {
    /// What follows, with the comparison after the operation.
    pub fn and_compared(&self, compared: Wait) -> Wait {
        match self {
            Self::Wait(wait) => wait.or_earlier(compared),
            Self::Observe | Self::Act(_) | Self::Over | Self::Idle => compared,
        }
    }
}

/// The inputs of one round.
#[derive(Clone, Copy, Debug)]
pub struct OperationSnapshot<'a> {
    /// The Application, with its operation in progress ([`begin_round`]).
    pub app: &'a App,
    /// What the process remembers of it.
    pub memory: &'a ApplicationMemory,
    /// The commits of the sources, by source; `None` if they are not known.
    pub commits: Option<&'a [String]>,
    /// Source and cluster, or why they cannot be observed.
    pub observed: Result<&'a Observation<'a>, &'a ObserveError>,
    /// The results of earlier comparisons.
    pub diffs: &'a DiffCache,
    /// The outcomes of the last actions.
    pub outcomes: &'a [ActionOutcome],
    /// The settings.
    pub settings: &'a OperationSettings,
    /// The time.
    pub now: Timestamp,
}

/// The decision of one round.
#[derive(Clone, Debug)]
pub struct OperationDecision {
    /// The Application to be stored.
    pub app: App,
    /// What the process remembers of it.
    pub memory: ApplicationMemory,
    /// What follows.
    pub next: Next,
}

/// Actions, and what is needed to apply them.
#[derive(Clone, Debug)]
pub struct OperationAct {
    /// The actions, group after group.
    pub groups: Vec<Group>,
    /// Whether the Application must be stored before.
    pub persist: bool,
    /// The live objects that the decision is based on.
    pub live: BTreeMap<ResourceKey, LiveObject>,
    /// Groups and kinds defined by CustomResourceDefinitions among the targets.
    pub defined: BTreeSet<(String, String)>,
    /// Manager whose fields are migrated by server-side apply.
    pub former_manager: String,
    /// Warnings about the manifests; in the first round only.
    pub warnings: Vec<String>,
}

impl OperationAct {
    /// Whether applying it does not change the cluster: a client-side dry run.
    pub fn sends_nothing(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.actions).all(|action| match action {
            Action::DryRun(apply) => apply.request.method.how != ApplyMethod::ServerSide,
            _ => false,
        })
    }
}

/// Starts the requested operation, and the next attempt after its backoff. What is observed
/// depends on it.
pub fn begin_round(
    app: &App,
    memory: &ApplicationMemory,
    settings: &OperationSettings,
    now: Timestamp,
) -> OperationDecision {
    let (mut app, mut memory) = (app.clone(), memory.clone());
    let stage = operation_stage(&app);
    if stage == OperationStage::Requested {
        memory.operation_began = Some(now);
        // What could not be read for the last one, which may have ended in between.
        memory.unreadable_since = None;
    }
    let next = started(&mut app, stage, settings, now);
    let next = within_limit(next, &app, settings, now);
    OperationDecision { app, memory, next }
}

/// One round: records the commits that are deployed and the outcomes of the last actions, and
/// decides the next.
pub fn operate_round(snapshot: &OperationSnapshot<'_>) -> OperationDecision {
    let (mut app, mut memory) = (snapshot.app.clone(), snapshot.memory.clone());
    let pinned = operation::pinned_revisions(&app.status.operation_state);
    if let Some(commits) = snapshot.commits.filter(|_| pinned.is_empty()) {
        operation::pin(&mut app, commits);
    }
    let next = match snapshot.observed {
        Ok(observation) => {
            memory.unreadable_since = None;
            round(&mut app, observation, snapshot)
        }
        Err(error) => stopped(&mut app, &mut memory, error, snapshot.now),
    };
    let next = within_limit(next, &app, snapshot.settings, snapshot.now);
    OperationDecision { app, memory, next }
}

/// A wait of an operation ends at its time limit (SE-288): then the operation ends, whatever it
/// waits for.
fn within_limit(next: Next, app: &App, settings: &OperationSettings, now: Timestamp) -> Next {
    let deadline = deadline(&app.status.operation_state, settings);
    match (next, deadline) {
        // What remains to be done after the limit has its own pauses.
        (Next::Wait(wait), Some(at)) if at > now || wait.reason == WaitFor::NextAttempt => {
            Next::Wait(wait.or_earlier(Wait::until(wait.reason, at.max(now))))
        }
        (next, _) => next,
    }
}

fn is_overdue(state: &OperationState, settings: &OperationSettings, now: Timestamp) -> bool {
    deadline(state, settings).is_some_and(|deadline| deadline <= now)
}

fn deadline(state: &OperationState, settings: &OperationSettings) -> Option<Timestamp> {
    settings.sync.deadline(operation::started(state)?)
}

fn started(
    app: &mut App,
    stage: OperationStage,
    settings: &OperationSettings,
    now: Timestamp,
) -> Next {
    if stage == OperationStage::Requested {
        operation::begin_operation(app, now);
        if operation::is_complete(app) {
            let given = operation::requested_revisions(&app.status.operation_state);
            operation::pin(app, &given);
        }
    }
    let state = &app.status.operation_state;
    let Some(Time(finished)) = state.finished_at else { return Next::Observe };
    let over = match is_terminating(state) {
        true => Some(sync::TERMINATED.to_owned()),
        false if is_overdue(state, settings, now) => {
            Some(format!("{}{}", sync::TERMINATED, sync::BY_TIMEOUT))
        }
        // The deletion waits for the operation, but not for further attempts.
        false => asked_at(app.raw()).map(|_| {
            let message = &state.message;
            format!("{message} (no more attempts: the application is being deleted)")
        }),
    };
    if let Some(message) = over {
        operation::finish(app, OperationPhase::Failed, message, now);
        return Next::Over;
    }
    let attempt = operation::attempt(state);
    let backoff = state.operation.retry.as_ref().and_then(|strategy| strategy.backoff.as_ref());
    let wait = sync::retry_delay(backoff, attempt).unwrap_or_default();
    let due = finished.checked_add(wait).ok();
    if let Some(due) = due.filter(|due| *due > now) {
        return Next::Wait(Wait::until(WaitFor::NextAttempt, due));
    }
    operation::next_attempt(app, attempt);
    Next::Observe
}

fn round(app: &mut App, observation: &Observation<'_>, given: &OperationSnapshot<'_>) -> Next {
    let OperationSnapshot { diffs, outcomes, settings, now, .. } = *given;
    let state = &app.status.operation_state;
    let terminating = is_terminating(state) || is_overdue(state, settings, now);
    if !terminating && let Some(next) = held_by_window(app, observation, now) {
        return next;
    }
    let compared = observation.compare(app, diffs);
    // An invalid rule may protect a field.
    let found = compared.conditions.iter().chain(&compared.comparison.conditions);
    if let Some(bad) = found.chain(&observation.placed.conditions).find(|found| found.is_error()) {
        let message = bad.message.clone();
        return conclude(app, End::of(OperationPhase::Error, message), now);
    }
    let state = &app.status.operation_state;
    let refusal = refuses_to_empty(state, observation.access.spec, &compared.comparison);
    if let Some(refusal) = refusal.filter(|_| !terminating) {
        return conclude_finally(app, refusal, now);
    }
    let snapshot = sync_snapshot(app, observation, &compared, outcomes.to_vec(), settings, now);
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        Err(message) => return conclude(app, End::of(OperationPhase::Error, message), now),
    };
    let first = !snapshot.progress.dry_run_done && snapshot.results.is_empty();
    let mut plan = sync::step(&snapshot, now);
    operation::store(&mut app.status.operation_state, &plan);
    operation::record_metadata(app, snapshot.has_namespace(&plan));
    if plan.phase.is_completed() {
        let SyncPlan { phase, message, terminated, .. } = plan;
        return conclude(app, End { phase, message, terminated }, now);
    }
    if plan.actions.is_empty() {
        return Next::Wait(look(WaitFor::RunningOperation, plan.wake_at, now));
    }
    let targets = observation.placed.targets.iter();
    Next::Act(Box::new(OperationAct {
        groups: std::mem::take(&mut plan.actions),
        persist: plan.needs_persist_before_actions || is_new(app),
        defined: targets.filter_map(|target| sync::defines_kind(&target.object)).collect(),
        live: snapshot.live,
        former_manager: compared.config.former_manager,
        warnings: if first { plan.warnings } else { Vec::new() },
    }))
}

/// Whether the operation skips objects that do not differ, so that it has to know which do as a
/// comparison does (SE-318).
pub fn skips_unchanged(app: &App) -> bool {
    let request = app.status.operation_state.operation.view().sync.as_ref();
    let requested = request.into_iter().flat_map(|sync| &sync.sync_options);
    let mut options = app.spec_view().sync_policy.sync_options.iter().chain(requested);
    options.any(|option| option == APPLY_OUT_OF_SYNC_ONLY)
}

/// What follows when the state cannot be observed.
fn stopped(
    app: &mut App,
    memory: &mut ApplicationMemory,
    error: &ObserveError,
    now: Timestamp,
) -> Next {
    let elapsed = now.duration_since(*memory.unreadable_since.get_or_insert(now));
    if error.is_transient() && elapsed < UNREADABLE_LIMIT {
        let pause = elapsed.max(FIRST_PAUSE).unsigned_abs();
        return Next::Wait(Wait::for_time(WaitFor::OperationInputs, pause, now));
    }
    memory.unreadable_since = None;
    conclude(app, End::of(OperationPhase::Error, error.of_operation()), now)
}

/// Ends an operation after an internal error of the engine (SE-375); `None` without one.
pub fn fail_internally(app: &mut App, error: &str, now: Timestamp) -> Option<Next> {
    fail(app, format!("internal error: {error}"), now)
}

/// Ends an operation that runs and whose state the API server does not store, for a reason of its
/// own: it would go on from the same state without an end (SE-062). One that is only requested waits,
/// and nothing is done for it. `None` if none runs.
pub fn fail_unstored(app: &mut App, reason: &str, now: Timestamp) -> Option<Next> {
    if !matches!(operation_stage(app), OperationStage::InProgress) {
        return None;
    }
    let message = format!(
        "the status of the application is too large to be stored ({reason}); divide the \
         application into several, or shorten what its status repeats: its source with inline \
         values, and its history (spec.revisionHistoryLimit)"
    );
    fail(app, message, now)
}

fn fail(app: &mut App, message: String, now: Timestamp) -> Option<Next> {
    match operation_stage(app) {
        OperationStage::Idle => return None,
        OperationStage::Requested => operation::begin_operation(app, now),
        OperationStage::InProgress => {}
    }
    operation::finish(app, OperationPhase::Error, message, now);
    Some(Next::Over)
}

/// Whether the stored state does not contain the start of this attempt or what it deploys
/// yet: nothing is applied before it does.
fn is_new(app: &App) -> bool {
    let identity = |state: &OperationState| {
        (operation::started(state), operation::finished(state), operation::pinned_revisions(state))
    };
    identity(&app.before().status.operation_state) != identity(&app.status.operation_state)
}

/// Identifies rounds by what the operation waits for, for the log.
pub fn wait_digest(state: &OperationState) -> u64 {
    digest_of(&(state.phase.as_str(), state.retry_count, &state.message))
}

/// A wait of a running operation: until a time, and never longer than [`LOOK`].
fn look(reason: WaitFor, at: Option<Timestamp>, now: Timestamp) -> Wait {
    let look = Wait::for_time(reason, LOOK.unsigned_abs(), now);
    at.map_or(look, |at| look.or_earlier(Wait::until(reason, at)))
}

/// The wait after many rounds: others first.
pub fn after_others(now: Timestamp) -> Wait {
    Wait::until(WaitFor::OtherApplications, now)
}

fn is_terminating(state: &OperationState) -> bool {
    state.phase == OperationPhase::Terminating
}

/// Waits while sync windows deny the operation. Termination continues anyway, by a person or by
/// the time limit (SE-410).
fn held_by_window(app: &mut App, observation: &Observation<'_>, now: Timestamp) -> Option<Next> {
    let state = &app.status.operation_state;
    let evaluation = observation.access.window(Some(state), now);
    let message = evaluation.blocked_message()?;
    if asked_at(app.raw()).is_some() {
        // The deletion waits for its end, and a window may stay closed forever.
        let message =
            format!("{message}; the operation ends, since the application is being deleted");
        operation::finish(app, OperationPhase::Failed, message, now);
        return Some(Next::Over);
    }
    app.status.operation_state.message = message;
    Some(Next::Wait(look(WaitFor::OperationWindow, evaluation.next_change, now)))
}

/// The end of an attempt.
struct End {
    phase: OperationPhase,
    message: String,
    /// Whether a user or the time limit terminated it.
    terminated: bool,
}

impl End {
    fn of(phase: OperationPhase, message: String) -> Self {
        Self { phase, message, terminated: false }
    }
}

/// The end of an operation that would fail again in every attempt, unless
/// another attempt uses a newer revision.
fn conclude_finally(app: &mut App, message: String, now: Timestamp) -> Next {
    if operation::is_refreshed(&app.status.operation_state) {
        return conclude(app, End::of(OperationPhase::Failed, message), now);
    }
    operation::finish(app, OperationPhase::Failed, message, now);
    Next::Over
}

/// What follows the end of an attempt: another one, or the end.
fn conclude(app: &mut App, end: End, now: Timestamp) -> Next {
    let deleting = asked_at(app.raw()).is_some();
    let state = &mut app.status.operation_state;
    let terminated = end.terminated || is_terminating(state);
    let strategy = state.operation.retry.as_ref().filter(|_| !deleting);
    let attempt = operation::attempt(state);
    match sync::decide_retry(strategy, attempt, end.phase, &end.message, terminated, now) {
        RetryDecision::Again { at, attempt, message } => {
            operation::announce_attempt(state, attempt, message, now);
            Next::Wait(Wait::until(WaitFor::NextAttempt, at))
        }
        RetryDecision::Over { phase, message } => {
            operation::finish(app, phase, message, now);
            Next::Over
        }
    }
}
