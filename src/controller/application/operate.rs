//! Drives an operation: from its request until it waits or has ended
//! (SE-370 … SE-375).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::context::{Context, Draft, Memory, Rendered, off_worker};
use super::execute::Executor;
use super::observe::{self, ClusterState, Destination, Trouble};
use super::queue::Trigger;
use crate::api::ObjectKey;
use crate::api::annotations::deletion_approved;
use crate::api::application::RetryStrategy;
use crate::api::operation::OperationPhase;
use crate::api::path_segment;
use crate::api::sync_options::{CREATE_NAMESPACE, RESPECT_IGNORE_DIFFERENCES};
use crate::api::tracking::Tracking;
use crate::api::{ApplicationSource, ResourceKey};
use crate::controller::error::Error;
use crate::decide::app_state::operation::{self, Stage};
use crate::decide::app_state::owner::Owner;
use crate::decide::app_state::{self, Comparison, auto_sync, deletion, spec};
use crate::decide::diff;
use crate::decide::health;
use crate::decide::sync::{
    self, Class, LiveObject, NamespaceFact, Outcome, Retry, Snapshot, SyncPlan,
};
use crate::watch::cluster_cache::kind_of;

/// Rounds of plan and actions in one pass; then others have their turn.
const ROUNDS: usize = 200;

/// How often an operation looks again, within some six seconds, at what cannot
/// be read before it ends by it.
const UNREADABLE_TRIES: u32 = 4;

/// A repository that answers later does not hold back that the operation runs.
const SHOWN_AFTER: std::time::Duration = std::time::Duration::from_millis(500);

/// How an operation stands at the end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// It has ended, and the draft says so.
    ReconcileResult,
    /// It waits for events, and until this time at most.
    Waits(Option<Timestamp>),
}

/// Starts what is requested and goes on with what is under way. The draft is
/// written before each action that must not be forgotten; what remains in it
/// is for the caller to write.
pub async fn drive(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    trigger: Trigger,
) -> Result<Driven, Error> {
    if operation::stage(&draft.wanted) == Stage::Requested {
        start(ctx, memory, draft);
    }
    if let Some(until) = pause(ctx, draft)? {
        return Ok(until);
    }
    if draft.wanted["status"]["operationState"]["finishedAt"].is_string() {
        begin_attempt(draft);
        ctx.save(key, memory, draft).await?;
    }
    let mut outcomes = Vec::new();
    for _ in 0..ROUNDS {
        let observed = observe(ctx, key, memory, draft, trigger).await;
        let observed = match observed {
            Ok(observed) => {
                memory.unreadable = 0;
                observed
            }
            Err(Stop::Unreadable(message)) if memory.unreadable < UNREADABLE_TRIES => {
                memory.unreadable += 1;
                tracing::warn!(application = %key, %message, "the sync goes on when this can be read");
                let pause = SignedDuration::from_millis(200) * (1 << memory.unreadable);
                return Ok(Driven::Waits(ctx.now().checked_add(pause).ok()));
            }
            Err(Stop::Unreadable(message) | Stop::Trouble(message)) => {
                memory.unreadable = 0;
                return Ok(conclude(ctx, draft, OperationPhase::Error, &message));
            }
            Err(Stop::Error(error)) => return Err(error),
        };
        if let Some(waits) = blocked(ctx, key, draft, &observed.place) {
            return Ok(waits);
        }
        if let Some(refusal) = refuses_to_empty(draft, &observed) {
            return Ok(conclude_finally(ctx, draft, &refusal));
        }
        let snapshot = snapshot(ctx, draft, &observed, std::mem::take(&mut outcomes));
        let plan = sync::step(&snapshot, ctx.now());
        report(key, memory, draft, &plan);
        operation::store(&mut draft.wanted, &plan);
        if plan.phase.is_completed() {
            return Ok(conclude(ctx, draft, plan.phase, &plan.message));
        }
        if plan.actions.is_empty() {
            return Ok(Driven::Waits(plan.wake_at));
        }
        if plan.needs_persist_before_actions || is_new(draft) {
            ctx.save(key, memory, draft).await?;
        }
        let kinds: BTreeMap<ResourceKey, _> = (observed.world.placed.targets.iter())
            .map(|target| (target.key.clone(), kind_of(&target.object)))
            .collect();
        let targets = observed.world.placed.targets.iter();
        let defined = targets.filter_map(|target| sync::defines(&target.object)).collect();
        let uid = operation::uid(&draft.wanted);
        let executor = Executor {
            ctx,
            place: &observed.place,
            live: &snapshot.live,
            kinds: &kinds,
            defined: &defined,
            former_manager: &observed.config.former_manager,
            owner: observed.owner(ctx, &uid),
        };
        outcomes = executor.run(&plan.actions).await;
    }
    // Others first; this one comes right back.
    Ok(Driven::Waits(Some(ctx.now())))
}

/// Waits while sync windows do not let the operation run. Termination goes on
/// all the same (SE-410).
fn blocked(
    ctx: &Context,
    key: &ObjectKey,
    draft: &mut Draft,
    place: &Destination,
) -> Option<Driven> {
    let state = &draft.wanted["status"]["operationState"];
    if state["phase"] == "Terminating" {
        return None;
    }
    let verdict = observe::windows(key, place, Some(state), ctx.now());
    let message = verdict.blocked_message()?;
    if deletion::asked_at(&draft.wanted).is_some() {
        // The deletion waits for its end, and a window may stay shut for ever.
        let message = format!("{message}; it is ended, since the application is being deleted");
        let phase = OperationPhase::Failed;
        operation::finish(&mut draft.wanted, phase, &message, ctx.now());
        return Some(Driven::ReconcileResult);
    }
    if state["message"] != *message {
        tracing::info!(application = %key, reason = %verdict.reason, "operation waits");
        draft.wanted["status"]["operationState"]["message"] = message.into();
    }
    Some(Driven::Waits(verdict.next_change))
}

/// Says that the operation runs. What is known of it may be older than the
/// request (SE-371): the write that says so is for the version that was looked
/// at, and comes before anything is done.
fn start(ctx: &Context, memory: &mut Memory, draft: &mut Draft) {
    let earliest =
        memory.last_started.and_then(|at| at.checked_add(SignedDuration::from_secs(1)).ok());
    let now = ctx.now();
    operation::begin(&mut draft.wanted, earliest.map_or(now, |earliest| earliest.max(now)));
    memory.last_started = operation::started_at(&draft.wanted);
    if operation::is_complete(&draft.wanted) {
        let given = operation::given(&draft.wanted["operation"]["sync"]);
        operation::pin(&mut draft.wanted, &given);
    }
}

/// Between two attempts: until when, unless it is over or was told to stop.
fn pause(ctx: &Context, draft: &mut Draft) -> Result<Option<Driven>, Error> {
    let state = &draft.wanted["status"]["operationState"];
    if !state["finishedAt"].is_string() {
        return Ok(None);
    }
    let ended = match state["phase"] == "Terminating" {
        true => Some("Operation terminated".to_owned()),
        // The deletion waits for the operation, not for attempts to come.
        false => deletion::asked_at(&draft.wanted).map(|_| {
            let message = state["message"].as_str().unwrap_or_default();
            format!("{message} (no more attempts: the application is being deleted)")
        }),
    };
    if let Some(message) = ended {
        let phase = OperationPhase::Failed;
        operation::finish(&mut draft.wanted, phase, &message, ctx.now());
        return Ok(Some(Driven::ReconcileResult));
    }
    let attempt = state["retryCount"].as_u64().unwrap_or(0);
    let strategy = strategy(state);
    let backoff = strategy.as_ref().and_then(|strategy| strategy.backoff.as_ref());
    let wait = sync::delay(backoff, attempt).unwrap_or_default();
    let ended = operation::finished_at(&draft.wanted);
    let due = ended.and_then(|at| at.checked_add(wait).ok());
    Ok(due.filter(|due| *due > ctx.now()).map(|due| Driven::Waits(Some(due))))
}

/// Whether the start of the operation is not stored yet: nothing is done before
/// it is.
fn is_new(draft: &Draft) -> bool {
    operation::started_at(&draft.base) != operation::started_at(&draft.wanted)
}

fn strategy(state: &Value) -> Option<RetryStrategy> {
    let raw = state["operation"].get("retry").filter(|retry| retry.is_object())?;
    serde_json::from_value(raw.clone()).ok()
}

fn begin_attempt(draft: &mut Draft) {
    let state = &draft.wanted["status"]["operationState"];
    let attempt = state["retryCount"].as_u64().unwrap_or(0);
    operation::next_attempt(&mut draft.wanted, attempt);
}

/// See [`auto_sync::refuses_to_empty`]; one that was told to stop does stop.
fn refuses_to_empty(draft: &Draft, observed: &Observed) -> Option<String> {
    if draft.wanted["status"]["operationState"]["phase"] == "Terminating" {
        return None;
    }
    let (spec, comparison) = (&observed.place.spec, &observed.comparison);
    auto_sync::refuses_to_empty(&draft.wanted, spec, comparison)
}

/// The end of an operation that fails in the same way however often it is
/// tried, unless another attempt takes a newer revision.
fn conclude_finally(ctx: &Context, draft: &mut Draft, message: &str) -> Driven {
    let phase = OperationPhase::Failed;
    if operation::is_refreshed(&draft.wanted) {
        return conclude(ctx, draft, phase, message);
    }
    operation::finish(&mut draft.wanted, phase, message, ctx.now());
    Driven::ReconcileResult
}

/// What follows the end of an attempt: another one, or the end.
fn conclude(ctx: &Context, draft: &mut Draft, phase: OperationPhase, message: &str) -> Driven {
    let now = ctx.now();
    let state = &draft.wanted["status"]["operationState"];
    let terminated = state["phase"] == "Terminating" || message.starts_with("Operation terminat");
    let count = state["retryCount"].as_u64().unwrap_or(0);
    let deleting = deletion::asked_at(&draft.wanted).is_some();
    let strategy = strategy(state).filter(|_| !deleting);
    match sync::retry(strategy.as_ref(), count, phase, message, terminated, now) {
        Retry::Again { at, attempt, message } => {
            operation::announce_attempt(&mut draft.wanted, attempt, &message, now);
            Driven::Waits(Some(at))
        }
        Retry::Over { phase, message } => {
            operation::finish(&mut draft.wanted, phase, &message, now);
            Driven::ReconcileResult
        }
    }
}

/// Why an operation cannot go on.
enum Stop {
    /// A reason that its user is told.
    Trouble(String),
    /// Something could not be read, which may be over in a moment. An operation
    /// that ended by it would run its hooks again when it is tried again.
    Unreadable(String),
    /// The pass is to be made again.
    Error(Error),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        match &trouble {
            Trouble::Live(_) | Trouble::Source { transient: true, .. } => {
                Self::Unreadable(trouble.message())
            }
            Trouble::Spec(_) | Trouble::Source { transient: false, .. } => {
                Self::Trouble(trouble.message())
            }
        }
    }
}

struct Observed {
    place: Destination,
    world: ClusterState,
    tracking: Tracking,
    config: diff::Config,
    comparison: Comparison,
    request: sync::ResolvedOperation,
    namespace: NamespaceFact,
    namespace_object: Option<Arc<Value>>,
}

impl Observed {
    fn owner<'a>(&'a self, ctx: &'a Context, uid: &'a str) -> Owner<'a> {
        let control_plane_namespace = &ctx.settings.control_plane_namespace;
        Owner { tracking: &self.tracking, control_plane_namespace, uid }
    }
}

async fn observe(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    trigger: Trigger,
) -> Result<Observed, Stop> {
    let state = &draft.wanted["status"]["operationState"];
    operation::request(state, "", &[]).map_err(Stop::Trouble)?;
    let place = observe::place(ctx, key, &draft.wanted).await?;
    let raw = operation::sources(&draft.wanted);
    // An operation may name other sources than the spec, as for a rollback.
    let urls = raw.iter().map(|source| source["repoURL"].as_str().unwrap_or_default());
    let denied = |url| spec::denied_source(url, &place.project_name, &place.project.spec);
    if let Some(denied) = urls.filter_map(denied).next() {
        return Err(Stop::Trouble(denied.message));
    }
    let rendered = match literal(&draft.wanted)? {
        Some(rendered) => {
            if operation::pinned(&draft.wanted).is_empty() {
                let state = &draft.wanted["status"]["operationState"];
                let given = operation::given(&state["operation"]["sync"]);
                operation::pin(&mut draft.wanted, &given);
            }
            rendered
        }
        None => {
            let pinned = pin(ctx, key, memory, draft, &raw, trigger).await?;
            let namespace = &place.spec.destination.namespace;
            observe::manifests(ctx, key, memory, &raw, &pinned, namespace, false).await?
        }
    };
    let application = &draft.wanted;
    let tracking = ctx.tracking(key);
    let world = observe::world(memory, application, &place, &rendered, &tracking).await?;
    let (config, comparison, rules) = off_worker(|| {
        let (config, rules) = observe::rules(memory, application);
        let facts = observe::facts(ctx, application, &place, &world, &tracking, &config);
        let comparison = app_state::compare(&facts, &mut memory.diffs);
        (config, comparison, rules)
    });
    // A rule that cannot be used may be what protects a field.
    let mut found = rules.iter().chain(&comparison.conditions).chain(&world.placed.conditions);
    if let Some(bad) = found.find(|condition| condition.is_error()) {
        return Err(Stop::Trouble(bad.message.clone()));
    }
    let revision = operation::pinned(application).into_iter().next().unwrap_or_default();
    let inherited = match ctx.settings.inherit_sync_options {
        true => place.spec.sync_policy.as_ref().map(|policy| policy.sync_options.clone()),
        false => None,
    };
    let state = &application["status"]["operationState"];
    let request = operation::request(state, &revision, &inherited.unwrap_or_default());
    let request = request.map_err(Stop::Trouble)?;
    let creates = request.sync_options.iter().any(|option| option == CREATE_NAMESPACE);
    let (namespace, namespace_object) = observe::namespace(&place, creates).await;
    Ok(Observed {
        place,
        world,
        tracking,
        config,
        comparison,
        request,
        namespace,
        namespace_object,
    })
}

/// The commits of the operation: pinned, or resolved now and pinned (SE-374).
async fn pin(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    raw: &[Value],
    trigger: Trigger,
) -> Result<Vec<crate::source::Revision>, Stop> {
    let pinned = operation::pinned(&draft.wanted);
    let given = operation::given(&draft.wanted["status"]["operationState"]["operation"]["sync"]);
    let sources = raw.iter().enumerate().map(|(index, raw)| {
        crate::api::read::<ApplicationSource>(raw)
            .map_err(|error| Stop::Trouble(format!("source {index}: {error}")))
    });
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let known = if pinned.is_empty() { given } else { pinned.clone() };
    if !known.is_empty() && known.len() != sources.len() {
        let (revisions, sources) = (known.len(), sources.len());
        return Err(Stop::Trouble(format!(
            "operation.sync: {revisions} revisions are given for {sources} sources: name one for \
             each source in operation.sync.revisions, or none"
        )));
    }
    let fresh = trigger.at.elapsed();
    let resolve = observe::revisions(ctx, key, &sources, &known, fresh);
    tokio::pin!(resolve);
    let revisions = match tokio::time::timeout(SHOWN_AFTER, &mut resolve).await {
        Ok(revisions) => revisions?,
        Err(_) => {
            // Whoever asked sees that it has begun.
            ctx.save(key, memory, draft).await.map_err(Stop::Error)?;
            resolve.await?
        }
    };
    if pinned.is_empty() {
        let shas: Vec<String> = revisions.iter().map(|revision| revision.sha.clone()).collect();
        operation::pin(&mut draft.wanted, &shas);
        // The same write says that it runs, unless that is stored already.
        if !is_new(draft) {
            ctx.save(key, memory, draft).await.map_err(Stop::Error)?;
        }
    }
    Ok(revisions)
}

/// Manifests that the request itself holds (SE-046).
fn literal(application: &Value) -> Result<Option<Rendered>, Stop> {
    let sync = &application["status"]["operationState"]["operation"]["sync"];
    let Some(texts) = sync["manifests"].as_array().filter(|texts| !texts.is_empty()) else {
        return Ok(None);
    };
    let mut manifests = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let text = text.as_str().unwrap_or_default();
        let documents = crate::yaml::documents(text);
        let wrong = |error: &dyn std::fmt::Display| {
            Stop::Trouble(format!("operation.sync.manifests[{index}]: {error}"))
        };
        for document in documents.map_err(|error| wrong(&error))? {
            for repeated in &document.repeated {
                tracing::warn!("operation.sync.manifests[{index}]: {repeated}");
            }
            if let Some(problem) = path_segment::problem_of_object(&document.value) {
                return Err(wrong(&problem));
            }
            manifests.push(Arc::new(document.value));
        }
    }
    let from = sync["manifests"].to_string();
    let rendered = Rendered { from, manifests: Arc::new(manifests), ..Rendered::default() };
    Ok(Some(rendered))
}

fn snapshot(ctx: &Context, draft: &Draft, observed: &Observed, outcomes: Vec<Outcome>) -> Snapshot {
    let application = &draft.wanted;
    let state = &application["status"]["operationState"];
    let (results, progress) = operation::stored_results(application);
    let started_at = operation::started_at(application).unwrap_or_else(|| ctx.now());
    let revision = &observed.request.revision;
    let respect = observed.request.sync_options.iter().any(|o| o == RESPECT_IGNORE_DIFFERENCES);
    let targets = observed.world.placed.targets.iter().map(|target| {
        match observed.world.live.get(&target.key).filter(|_| respect) {
            Some(live) => Arc::new(diff::respect_ignored(&target.object, live, &observed.config)),
            None => target.object.clone(),
        }
    });
    let permits = observed.place.permits();
    let denied = (observed.world.placed.targets.iter().enumerate())
        .filter_map(|(at, target)| Some((at, permits.denial(&target.key, &target.object)?)));
    let namespace = &observed.place.spec.destination.namespace;
    let namespace_key = ResourceKey::new("", "Namespace", "", namespace);
    let policy = observed.place.spec.sync_policy.as_ref();
    let metadata = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
    let phase = OperationPhase::from_word(state["phase"].as_str().unwrap_or_default());
    let wave_delay = SignedDuration::try_from(ctx.settings.wave_delay).unwrap_or_default();
    Snapshot {
        operation: observed.request.clone(),
        operation_id: operation::id(application, started_at, revision),
        attempt: state["retryCount"].as_u64().unwrap_or(0),
        started_at,
        phase,
        message: state["message"].as_str().unwrap_or_default().to_owned(),
        results,
        progress,
        outcomes,
        destination_namespace: observed.place.spec.destination.namespace.clone(),
        project: observed.place.project_name.clone(),
        targets: targets.collect(),
        live: live(observed, &observed.owner(ctx, &operation::uid(application))),
        kinds: observed.world.kinds.clone(),
        denied: denied.collect(),
        namespace_denied: permits.denial(&namespace_key, &Value::Null),
        shared: observed.comparison.shared.clone(),
        namespace: observed.namespace.clone(),
        managed_namespace_metadata: metadata.cloned(),
        deletion_approved_at: deletion_approved(application),
        settings: sync::Settings { wave_delay, ..ctx.settings.sync.clone() },
    }
}

/// What the wave engine may see: managed objects and those that have the
/// identity of a target, without copies, and without what others own. Under the
/// name of a hook it sees whatever is there, and whose it is.
fn live(observed: &Observed, owner: &Owner<'_>) -> BTreeMap<ResourceKey, LiveObject> {
    let tracking = &observed.tracking;
    let mut live = BTreeMap::new();
    for resource in &observed.comparison.resources {
        let Some(object) = &resource.live else { continue };
        let hook = matches!(resource.class, Class::Hook(_));
        let owned = object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| !owners.is_empty());
        let named_by_hook = hook && resource.target.is_some();
        if (owned || !resource.self_referenced) && !named_by_hook {
            continue;
        }
        let entry = LiveObject {
            object: object.clone(),
            health: resource.health.clone().map(Ok),
            out_of_sync: resource.modified,
            tracked: tracking.owns(object) && !resource.managed_namespace,
            objection: owner.objection(&resource.key, object).filter(|_| hook),
        };
        live.insert(resource.key.clone(), entry);
    }
    let other = |key: &ResourceKey, object: &Arc<Value>| LiveObject {
        health: health::of(object).map(Ok),
        object: object.clone(),
        out_of_sync: false,
        tracked: false,
        objection: owner.objection(key, object),
    };
    // Objects of targets that are no resources, such as hooks of deletion.
    for target in &observed.world.placed.targets {
        if let Some(object) = observed.world.live.get(&target.key) {
            live.entry(target.key.clone()).or_insert_with(|| other(&target.key, object));
        }
    }
    if let Some(object) = &observed.namespace_object {
        let name = &observed.place.spec.destination.namespace;
        let key = ResourceKey::new("", "Namespace", "", name);
        live.entry(key.clone()).or_insert_with(|| other(&key, object));
    }
    live
}

/// Tells what has changed, and each warning once for an operation (SE-302).
fn report(key: &ObjectKey, memory: &mut Memory, draft: &Draft, plan: &SyncPlan) {
    let state = &draft.wanted["status"]["operationState"];
    let before = state["message"].as_str().unwrap_or_default();
    if before != plan.message && !before.starts_with(&format!("{} (", plan.message)) {
        let phase = state["phase"].as_str().unwrap_or_default();
        tracing::info!(application = %key, phase, message = plan.told(), "operation");
    }
    let started = state["startedAt"].as_str().unwrap_or_default();
    if memory.told_warnings.0 != started {
        memory.told_warnings = (started.to_owned(), Default::default());
    }
    for warning in &plan.warnings {
        if memory.told_warnings.1.insert(warning.clone()) {
            tracing::warn!(application = %key, %warning, "operation");
        }
    }
}
