//! Deletion of an Application: hooks, its resources, its finalizers, in this
//! order (SE-510 … SE-521).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::app::{App, Fields};
use crate::condition::{self, NewCondition, OF_DELETION};
use crate::delete_hooks::{self, DeleteHook, HookStepInput};
use crate::deletion::{self, CascadeStep, asked_at};
use crate::deletion_scope::DeletionScope;
use crate::errors::ObserveError;
use crate::memory::{ApplicationMemory, Tries, Try};
use crate::observation::{Live, Observation};
use crate::{children, operation, outside};
use wavegate_api::ApplicationStatus;
use wavegate_api::annotations as names;
use wavegate_api::conditions::application::{DELETION_ERROR, DELETION_WARNING};
use wavegate_api::hooks::HookType;
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::names::some_of;
use wavegate_engine::sync::{Handover, Propagation};
use wavegate_engine::wait::{Wait, WaitFor, WakeEvent};

/// A deletion is reconciled after this time, even without an event.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// A deletion that has taken longer says what it waits for.
const SILENT: SignedDuration = SignedDuration::from_mins(1);

/// How many objects a message names.
const NAMED: usize = 5;

/// How long a deletion waits for kinds that cannot be listed (SE-436). They are tried several
/// times meanwhile; but the server of an extension may never come back, and the kind may have
/// nothing to do with the Application.
const LISTED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Kinds and API groups that cannot be listed, though not for want of a permission: why, and
/// for how long.
pub type UnlistedKinds = BTreeMap<String, (String, Duration)>;

const HOOKS: [&str; 4] = [
    names::PRE_DELETE_FINALIZER,
    names::PRE_DELETE_CLEANUP_FINALIZER,
    names::POST_DELETE_FINALIZER,
    names::POST_DELETE_CLEANUP_FINALIZER,
];

/// An object to delete.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Its key.
    pub key: ResourceKey,
    /// The live object.
    pub object: Arc<Value>,
    /// How its dependents are treated.
    pub propagation: Propagation,
    /// Whether it has the hook finalizer.
    pub release: bool,
    /// Whether it is not being deleted yet.
    pub delete: bool,
}

/// The inputs of a step of a deletion.
#[derive(Clone, Copy, Debug)]
pub struct DeletionSnapshot<'a> {
    /// The Application.
    pub app: &'a App,
    /// What the process remembers of it.
    pub memory: &'a ApplicationMemory,
    /// What was observed, or why it cannot be.
    pub observed: Result<DeletionInput<'a>, &'a str>,
    /// Whether hooks that succeeded are deleted whatever their policy says (SE-519).
    pub clean_hooks: bool,
    /// The time.
    pub now: Timestamp,
}

/// What a deletion observes.
#[derive(Clone, Copy, Debug)]
pub enum DeletionInput<'a> {
    /// There is no cluster to delete from, for this reason.
    Nowhere(&'a str),
    /// Source and cluster, which objects may be deleted, and the kinds whose objects are not
    /// known.
    In(&'a Observation<'a>, &'a DeletionScope, &'a UnlistedKinds),
}

/// The decision of a step of a deletion.
#[derive(Clone, Debug)]
pub struct DeletionDecision {
    /// The Application without the finalizers of the steps that have ended.
    pub app: App,
    /// What the process remembers of it, with the hooks of this step.
    pub memory: ApplicationMemory,
    /// What to do.
    pub plan: Plan,
}

/// What a step of a deletion does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Objects to delete.
    pub removals: Vec<Removal>,
    /// Hooks to create, with the number of the attempt.
    pub creations: Vec<(DeleteHook, u64)>,
    /// The resulting state, unless one of these fails.
    pub state: DeletionState,
    /// What is not deleted although it is tracked, and why.
    pub left: Option<String>,
}

/// The state of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeletionState {
    /// It is complete.
    #[default]
    Done,
    /// It is in progress.
    Waits {
        /// The reason.
        reason: String,
        /// Whether a failure that was reported before still applies.
        keep: bool,
    },
    /// Somebody else has to do something first; the reason says what.
    Held(String),
    /// It has failed, and is retried at this time at the latest.
    Stuck {
        /// The error.
        message: String,
        /// The time.
        next: Option<Timestamp>,
    },
}

impl DeletionState {
    /// The state after the actions of a step.
    #[must_use]
    pub fn after(self, done: Result<(), String>) -> Self {
        done.map_or_else(|message| Self::Stuck { message, next: None }, |()| self)
    }
}

impl Plan {
    /// Whether it changes the cluster.
    pub fn acts(&self) -> bool {
        !self.removals.is_empty() || !self.creations.is_empty()
    }

    fn waits(reason: impl Into<String>) -> Self {
        let state = DeletionState::Waits { reason: reason.into(), keep: false };
        Self { state, ..Self::default() }
    }

    fn stuck(message: String, next: Option<Timestamp>) -> Self {
        Self { state: DeletionState::Stuck { message, next }, ..Self::default() }
    }
}

/// Whether a deletion has anything to do: other finalizers are those of others.
pub fn is_held(app: &Fields) -> bool {
    app.metadata.finalizers.iter().any(|own| {
        let own = own.as_str();
        names::RESOURCES_FINALIZERS.contains(&own) || HOOKS.contains(&own)
    })
}

/// The wait when nothing is left to do: for others to remove their finalizers.
pub fn wait_released() -> Wait {
    Wait::on(WaitFor::ApplicationChange, &[WakeEvent::Application])
}

/// Why the hooks of a deletion cannot run, with the way to do without them: what is refused may
/// never be permitted again, as when the project is gone.
pub fn without_hooks(app: &Fields, error: ObserveError) -> ObserveError {
    let ObserveError::Refused(_) = &error else { return error };
    let own = app.metadata.finalizers.iter().filter(|own| HOOKS.contains(&own.as_str()));
    let own: Vec<&str> = own.map(String::as_str).collect();
    ObserveError::Operation(format!(
        "{}; the hooks of the deletion wait for it: mend it, or delete the application without \
         them by removing its finalizers {}",
        error.message(),
        own.join(", ")
    ))
}

/// The wait after hooks were created: their kinds may have no health, and they are complete.
pub fn wait_made(now: Timestamp) -> Wait {
    Wait::until(WaitFor::Deletion, now)
}

/// Whether the source must be read: without hooks, an unreadable source does
/// not block the cascade (SE-521).
pub fn needs_source(app: &Fields) -> bool {
    app.metadata.finalizers.iter().any(|own| HOOKS.contains(&own.as_str()))
}

/// Whether the newest revision is needed: a failed hook is fixed in the source
/// (SE-518).
pub fn needs_newest(app: &Fields) -> bool {
    let mut conditions = app.status.conditions.iter();
    conditions.any(|condition| condition.type_ == DELETION_ERROR) || is_refreshed(app)
}

fn is_refreshed(app: &Fields) -> bool {
    app.metadata.annotations.kind().is_some()
}

/// Reverts the creation of hooks that failed to be sent.
pub fn not_made<'a>(tries: &mut Tries, hooks: impl IntoIterator<Item = &'a ResourceKey>) {
    for key in hooks {
        if let Some(own) = tries.get_mut(key) {
            own.made_at = None;
        }
    }
}

/// The next of the steps of SE-512.
pub fn finalize_deletion(snapshot: &DeletionSnapshot<'_>) -> DeletionDecision {
    let (mut app, mut memory) = (snapshot.app.clone(), snapshot.memory.clone());
    let finalizers = &mut app.metadata.finalizers;
    let plan = match snapshot.observed {
        Ok(DeletionInput::In(observation, scope, unlisted)) => {
            let DeletionSnapshot { app, clean_hooks, now, .. } = *snapshot;
            let hurry = is_refreshed(app);
            let (application, status) = (app.raw(), &app.status);
            let finalizer = Finalizer {
                application,
                status,
                observation,
                scope,
                unlisted,
                hurry,
                clean_hooks,
                now,
            };
            finalizer.next(finalizers, &mut memory.tries)
        }
        Ok(DeletionInput::Nowhere(why)) => {
            // Nothing can be deleted, so the finalizers go.
            remove(
                finalizers,
                &[names::RESOURCES_FINALIZERS.as_slice(), HOOKS.as_slice()].concat(),
            );
            let left = format!("finalizers are removed without deleting resources: {why}");
            Plan { left: Some(left), ..Plan::default() }
        }
        Err(error) => Plan::stuck(error.to_owned(), None),
    };
    DeletionDecision { app, memory, plan }
}

impl Finalizer<'_> {
    /// The steps in order. Finalizers of completed steps are removed from the Application.
    fn next(&self, finalizers: &mut Vec<String>, tries: &mut Tries) -> Plan {
        if has(finalizers, names::PRE_DELETE_FINALIZER) {
            if let Some(plan) = self.hooks(HookType::PreDelete, tries) {
                return plan;
            }
            remove(finalizers, &[names::PRE_DELETE_FINALIZER]);
        }
        let (mut released, mut left) = (Vec::new(), None);
        if let Some(cascade) = names::deletion_cascade(self.application) {
            let propagation = match cascade {
                names::Cascade::Foreground => Propagation::Foreground,
                names::Cascade::Background => Propagation::Background,
            };
            let managed = self.managed();
            released = Finalizer::released(&managed);
            let mut plan = match deletion::decide_cascade(self.application, &managed, self.now) {
                CascadeStep::Wait(reason) => Plan::waits(reason),
                CascadeStep::Held(reason) => {
                    Plan { state: DeletionState::Held(reason), ..Plan::default() }
                }
                CascadeStep::Delete(keys) => match self.undecided(&keys) {
                    Some(reason) => Plan::waits(reason),
                    None => Plan {
                        removals: removals(&keys, &managed, propagation),
                        ..Plan::waits(format!("waiting for deletion of {} resources", keys.len()))
                    },
                },
                CascadeStep::Done => match self.outside().or_else(|| self.waits_for_kinds()) {
                    Some(reason) => Plan { state: DeletionState::Held(reason), ..Plan::default() },
                    None => {
                        remove(finalizers, &names::RESOURCES_FINALIZERS);
                        left = self.left();
                        Plan::default()
                    }
                },
            };
            if plan.state != DeletionState::Done {
                released.append(&mut plan.removals);
                return Plan { removals: released, ..plan };
            }
        }
        let mut plan = self.after_cascade(finalizers, tries);
        released.append(&mut plan.removals);
        Plan { removals: released, left, ..plan }
    }
}

/// Records the state after a step in an Application. Returns what follows.
pub fn record_deletion(app: &mut App, state: DeletionState, now: Timestamp) -> Wait {
    if is_refreshed(app) {
        app.metadata.annotations = Default::default();
    }
    let again = |reason| Wait::for_time(reason, AGAIN.unsigned_abs(), now);
    let mut warning = None;
    let (problem, wait) = match state {
        DeletionState::Done => (None, wait_released()),
        DeletionState::Held(reason) => {
            warning = Some(NewCondition::new(DELETION_WARNING, reason));
            (None, again(WaitFor::Deletion))
        }
        DeletionState::Waits { keep: true, .. } => return again(WaitFor::Deletion),
        DeletionState::Waits { keep: false, reason } => {
            let is_long = asked_at(app.raw()).is_some_and(|at| now.duration_since(at) >= SILENT);
            warning = is_long.then(|| NewCondition::new(DELETION_WARNING, reason));
            (None, again(WaitFor::Deletion))
        }
        DeletionState::Stuck { message, next } => {
            let again = again(WaitFor::FailedDeletion);
            let next = next.map(|at| Wait::until(WaitFor::FailedDeletion, at));
            (Some(message), next.map_or(again, |next| next.or_earlier(again)))
        }
    };
    let problem = problem.map(|message| NewCondition::new(DELETION_ERROR, message));
    let problems: Vec<NewCondition> = problem.into_iter().chain(warning).collect();
    condition::replace(&mut app.status.conditions, OF_DELETION, &problems, now);
    wait
}

fn has(finalizers: &[String], finalizer: &str) -> bool {
    finalizers.iter().any(|own| own == finalizer)
}

fn remove(finalizers: &mut Vec<String>, ended: &[&str]) {
    finalizers.retain(|own| !ended.contains(&own.as_str()));
}

fn is_going(object: &Value) -> bool {
    object.is_deleting()
}

fn removals(keys: &[ResourceKey], live: &Live, propagation: Propagation) -> Vec<Removal> {
    let found = keys.iter().filter_map(|key| Some((key, live.get(key)?)));
    let removal = |(key, object): (&ResourceKey, &Arc<Value>)| Removal {
        key: key.clone(),
        object: object.clone(),
        propagation,
        release: names::is_held_as_hook(object),
        delete: !is_going(object),
    };
    found.map(removal).collect()
}

struct Finalizer<'a> {
    application: &'a Value,
    status: &'a ApplicationStatus,
    observation: &'a Observation<'a>,
    scope: &'a DeletionScope,
    unlisted: &'a UnlistedKinds,
    /// Whether a user wants it to be retried now.
    hurry: bool,
    now: Timestamp,
    /// Whether hooks that succeeded are deleted whatever their policy says (SE-519).
    clean_hooks: bool,
}

impl Finalizer<'_> {
    /// Live objects that are deleted with the Application: its own that the project
    /// permits (SE-082).
    fn managed(&self) -> Live {
        let permitted =
            self.own().filter(|(key, live)| self.permits(key, live) && self.other(key).is_none());
        permitted.map(|(key, live)| (key.clone(), live.clone())).collect()
    }

    /// The other Applications that have an object in their sources, so that it is left to them.
    fn other(&self, key: &ResourceKey) -> Option<&str> {
        match self.observation.handovers.get(key)? {
            Handover::Left(others) => Some(others),
            Handover::Undecided(_) => None,
        }
    }

    /// Why these are not deleted yet: other Applications may have them in their sources.
    fn undecided(&self, keys: &[ResourceKey]) -> Option<String> {
        keys.iter().find_map(|key| match self.observation.handovers.get(key)? {
            Handover::Undecided(others) => Some(format!(
                "waiting, before the deletion of {key}, for the comparisons of applications that \
                 may have it in their sources: {others}"
            )),
            Handover::Left(_) => None,
        })
    }

    fn permits(&self, key: &ResourceKey, live: &Value) -> bool {
        self.scope.contains(key) && self.observation.access.permits().denial(key, live).is_none()
    }

    /// Why the deletion is not complete although all objects that can be read are gone: others are
    /// known from before the Secret of the cluster was narrowed (SE-433).
    fn outside(&self) -> Option<String> {
        let access = &self.observation.access;
        let left = outside::rows(self.status, self.application.spec(), access);
        let message = outside::message(&left, access)?;
        Some(format!(
            "waiting, since {message}; or delete them, and then remove the finalizers of the \
             application"
        ))
    }

    /// Why the deletion is not complete although all known objects are gone: there may be others,
    /// of kinds that could not be listed (SE-436).
    fn waits_for_kinds(&self) -> Option<String> {
        let asked = asked_at(self.application).map(|at| self.now.duration_since(at));
        let asked = asked.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        let is_new = |age: &Duration| asked.min(*age) < LISTED_WITHIN;
        if !self.unlisted.values().any(|(_, age)| is_new(age)) {
            return None;
        }
        let kinds = self.unlisted_kinds()?;
        let minutes = LISTED_WITHIN.as_secs() / 60;
        Some(format!(
            "waiting until all kinds of the cluster can be listed, for {minutes} minutes at most, \
             since resources of other kinds may be left: {kinds}"
        ))
    }

    /// The kinds that could not be listed, with the reason of the first; `None` when they do not
    /// matter, since what is deleted is known by name.
    fn unlisted_kinds(&self) -> Option<String> {
        let (_, (why, _)) = self.unlisted.first_key_value()?;
        match self.scope {
            DeletionScope::Tracked => {
                Some(format!("{}: {why}", some_of(self.unlisted.keys(), NAMED)))
            }
            DeletionScope::Listed(_) => None,
        }
    }

    /// What is left in the cluster, since it may not be deleted or is not known.
    fn left(&self) -> Option<String> {
        let unlisted = self.unlisted_kinds().map(|kinds| {
            format!("resources may be left in the cluster, of kinds that cannot be listed: {kinds}")
        });
        let left: Vec<String> =
            self.denied().into_iter().chain(self.handed_over()).chain(unlisted).collect();
        (!left.is_empty()).then(|| left.join("; "))
    }

    /// The objects that are left in the cluster, since other Applications have them.
    fn handed_over(&self) -> Option<String> {
        let own = self.own().filter(|(key, live)| self.permits(key, live));
        let left = own.filter_map(|(key, _)| Some(format!("{key} to {}", self.other(key)?)));
        let left: Vec<String> = left.collect();
        (!left.is_empty()).then(|| {
            let named = some_of(left, NAMED);
            format!("resources are left to applications that have them in their sources: {named}")
        })
    }

    /// The objects that are left in the cluster, since they may not be deleted.
    fn denied(&self) -> Option<String> {
        let denied = self.own().filter(|(key, live)| !self.permits(key, live));
        let denied: Vec<&ResourceKey> = denied.map(|(key, _)| key).collect();
        if denied.is_empty() {
            return None;
        }
        let named = some_of(denied, NAMED);
        let project = self.observation.access.project_name;
        let why = match self.scope {
            DeletionScope::Tracked => format!("project '{project}' does not permit them"),
            DeletionScope::Listed(_) => format!(
                "project '{project}' does not exist or is not for this application, and \
                 status.resources does not list them"
            ),
        };
        Some(format!("resources are left in the cluster, since {why}: {named}"))
    }

    /// Live objects of the Application: tracked, without an owner, and not hooks that run
    /// after their deletion.
    fn own(&self) -> impl Iterator<Item = (&ResourceKey, &Arc<Value>)> {
        let tracking = self.observation.tracking;
        self.observation.live.iter().filter(move |(key, live)| {
            let owned = live.owners().next().is_some();
            let follows = deletion::is_of(HookType::PostDelete, live)
                && delete_hooks::is_made_by(self.application, live);
            tracking.owns(live)
                && tracking.is_self_referenced(live, key)
                && !owned
                && !children::is_made(tracking, key, live, self.observation.live, [])
                && !follows
        })
    }

    /// Hooks that are already being deleted are released: the sync that would
    /// have done so no longer runs.
    fn released(managed: &Live) -> Vec<Removal> {
        let held =
            managed.iter().filter(|(_, live)| is_going(live) && names::is_held_as_hook(live));
        let held: Vec<ResourceKey> = held.map(|(key, _)| key.clone()).collect();
        removals(&held, managed, Propagation::Foreground)
    }

    fn after_cascade(&self, finalizers: &mut Vec<String>, tries: &mut Tries) -> Plan {
        if has(finalizers, names::POST_DELETE_FINALIZER) {
            if let Some(plan) = self.hooks(HookType::PostDelete, tries) {
                return plan;
            }
            remove(finalizers, &[names::POST_DELETE_FINALIZER]);
        }
        let cleanups = [
            (names::PRE_DELETE_CLEANUP_FINALIZER, HookType::PreDelete),
            (names::POST_DELETE_CLEANUP_FINALIZER, HookType::PostDelete),
        ];
        for (finalizer, type_) in cleanups {
            if !has(finalizers, finalizer) {
                continue;
            }
            let hooks = DeleteHook::all(type_, self.application, &self.observation.placed.targets);
            let (live, checks) = (self.observation.live, self.observation.checks);
            let gone = delete_hooks::clean_up(&hooks, live, checks, self.clean_hooks);
            if !gone.is_empty() {
                return Plan {
                    removals: removals(&gone, self.observation.live, Propagation::Foreground),
                    ..Plan::waits(format!("cleaning up {} hooks", type_.as_str()))
                };
            }
            remove(finalizers, &[finalizer]);
        }
        Plan::default()
    }

    /// One step of delete hooks; `None` when all have completed.
    fn hooks(&self, type_: HookType, tries: &mut Tries) -> Option<Plan> {
        let hooks = DeleteHook::all(type_, self.application, &self.observation.placed.targets);
        let uid = operation::uid_of(self.application);
        let about = HookStepInput {
            owner: self.observation.owner(&uid),
            permits: self.observation.access.permits(),
            project: self.observation.access.project_name,
            checks: self.observation.checks,
            hurry: self.hurry,
            now: self.now,
        };
        let live = self.observation.live;
        let failed_before = tries.values().any(|own| own.attempt > 0);
        let waits = |reason: String, again: bool| {
            let state = DeletionState::Waits { reason, keep: again || failed_before };
            Plan { state, ..Plan::default() }
        };
        Some(match delete_hooks::next_hook_step(&hooks, live, &about) {
            delete_hooks::NextHook::Done => {
                tries.clear();
                return None;
            }
            delete_hooks::NextHook::Wait { reason, again } => waits(reason, again),
            delete_hooks::NextHook::Create(hooks) => self.create(hooks, type_, tries),
            delete_hooks::NextHook::Remove(former) => Plan {
                removals: removals(&former, live, Propagation::Foreground),
                ..waits(format!("waiting for deletion of {} former hooks", former.len()), false)
            },
            delete_hooks::NextHook::Refused(message) => Plan::stuck(message, None),
            delete_hooks::NextHook::Failed { message, due, next } => {
                let keys: Vec<ResourceKey> = due.iter().map(|(key, _)| key.clone()).collect();
                let again =
                    due.into_iter().map(|(key, attempt)| (key, Try { attempt, made_at: None }));
                tries.extend(again);
                Plan {
                    removals: removals(&keys, live, Propagation::Foreground),
                    ..Plan::stuck(message, next)
                }
            }
        })
    }

    /// Creates hooks, except those that were deleted before they had completed:
    /// these are not recreated at once.
    fn create(&self, hooks: Vec<DeleteHook>, type_: HookType, tries: &mut Tries) -> Plan {
        let count = hooks.len();
        let mut creations = Vec::new();
        for hook in hooks {
            let mut own = tries.get(&hook.key).copied().unwrap_or_default();
            if let Some(made_at) = own.made_at {
                let due = made_at.checked_add(delete_hooks::retry_pause(own.attempt)).ok();
                if let Some(due) = due.filter(|due| *due > self.now) {
                    let message = format!("hook {} was deleted before it completed", hook.key);
                    return Plan { creations, ..Plan::stuck(message, Some(due)) };
                }
                own.attempt = own.attempt.saturating_add(1);
            }
            tries.insert(hook.key.clone(), Try { made_at: Some(self.now), ..own });
            creations.push((hook, own.attempt));
        }
        let keep = tries.values().any(|own| own.attempt > 0);
        let reason = format!("waiting for {count} {} hooks", type_.as_str());
        Plan { creations, state: DeletionState::Waits { reason, keep }, ..Plan::default() }
    }
}
