//! One reconcile of an ApplicationSet: observe, decide, apply, record.

use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::context::{Context, Request};
use super::in_flight::TakenPlaces;
use super::memory::{SetMemory, redact};
use super::observe::{MayRead, UnreadInput};
use super::pace::ReconcilePace;
use super::repositories::Reading;
use super::writes::write;
use super::{dry_run, log, notify, policies, run_record};
use crate::error::ReconcileError;
use wavegate_api::annotations::APPLICATION_SET_REFRESH;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::act::control_plane::application_set_metadata;
use wavegate_cluster::act::control_plane::application_set_status::{
    self as status_writer, Written,
};
use wavegate_cluster::act::control_plane::applications::{Writer, failure_cause};
use wavegate_cluster::act::events::EventRecord;
use wavegate_cluster::watch::control_plane::Origin;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_engine::wait::WaitFor;
use wavegate_rollout::application_set::decision::{Decision, NextReconcile};
use wavegate_rollout::application_set::deletion::{Presence, Stuck};
use wavegate_rollout::application_set::generate::generated::Wanted;
use wavegate_rollout::application_set::reconcile;
use wavegate_rollout::application_set::status::error_status;
use wavegate_rollout::application_set::status::events::{self, SetEvent};
use wavegate_rollout::application_set::status::report::{self, Carried, Recorded};
use wavegate_rollout::application_set::status::stored::{Status, StoredApplicationSet};
use wavegate_rollout::desired::inputs::MAX_READS;
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::run_input::Pool;
use wavegate_rollout::rollout::wait::RolloutWait;

/// After what time a run is recorded that could not be.
const RUN_AGAIN: Duration = Duration::from_secs(1);

/// The end of a reconcile.
pub struct Reconciled {
    /// What follows.
    pub next: NextReconcile,
    /// Whether something was written.
    pub has_changed: bool,
}

/// Runs one reconcile. `conflicts` is the number of consecutive reconciles that were
/// based on outdated objects.
pub async fn reconcile(
    object: &StoredObject,
    context: &Arc<Context>,
    memory: &mut SetMemory,
    conflicts: u32,
) -> Result<Reconciled, ReconcileError> {
    let began = Instant::now();
    let mut decided = decide(object, context, memory).await;
    if !decided.decision.unsure.is_empty() && !context.settings.dry_run {
        let unsure = &decided.decision.unsure;
        memory.presence = writer(&decided.set, context).read(unsure).await;
        decided = decide(object, context, memory).await;
        memory.presence.clear();
    }
    let Decided { decision, set, now } = decided;
    let metrics = &context.core.metrics;
    metrics.rollout(&object.key(), decision.rollout.as_ref());
    if context.settings.dry_run {
        let lines = dry_run::decision_lines(&set, &decision);
        dry_run::log(lines, &mut memory.would);
        return Ok(Reconciled { next: dry_run::next_dry_run(&decision, now), has_changed: false });
    }
    if let Some(finalizers) = &decision.finalizers {
        write_finalizers(&set, context, finalizers).await?;
        return Ok(Reconciled { next: decision.next, has_changed: true });
    }
    if let Some(annotations) = &decision.annotations {
        write_annotations(&set, context, annotations).await?;
        return Ok(Reconciled { next: NextReconcile::Again, has_changed: true });
    }
    read_ahead(&set, context, memory, &decision);
    if !set.is_deleting {
        run_record::restore_owners(&set, &mut memory.run_observation, context).await;
    }
    let mut is_run_due = false;
    if let Some(run) = decision.run() {
        match run_record::record(&set, &mut memory.run_observation, run, context, now).await? {
            run_record::Recorded::Done => publish(object, context, &events::run(run)),
            // They would be announced again and again.
            run_record::Recorded::Unwritten => {}
            run_record::Recorded::Later => is_run_due = true,
            run_record::Recorded::Outdated => {
                return Ok(Reconciled { next: NextReconcile::Again, has_changed: false });
            }
        }
    }
    notify::offer(&set, &memory.run_observation, context);
    policies::write_policies(&context.core, &context.policies, now).await;
    let observed = set.version.clone();
    let opened = set.status.open_step().zip(set.status.step_opened_at());
    let Some(set) = write_status(&set, decision.status.as_ref(), context, memory, now).await?
    else {
        return Ok(Reconciled { next: NextReconcile::Again, has_changed: false });
    };
    if decision.status.is_some()
        && context.in_flight.settle(&object.key(), memory.in_flight(&decision))
    {
        for other in context.in_flight.waiting_beside(&object.key()) {
            context.queue.enqueue(&other, Request(true));
        }
    }
    if let (Some(plan), Some(_)) = (&decision.rollout, &decision.status) {
        metrics.transitions(&object.key(), plan, opened, now);
    }
    log::decided(&mut memory.logged, &decision);
    publish(object, context, &decision.events);
    log::patches(&decision.writes);
    let writer = writer(&set, context);
    let (outcomes, is_postponed) =
        write((&writer, &object.key()), context, &decision, memory, began).await;
    memory.asked.record(decision.behind(), &decision.writes, &outcomes, &memory.existing, now);
    context.changed(&object.key(), outcomes.iter().map(|outcome| outcome.application.as_str()));
    let stalled = report_stalled(object, context, &decision.stalled).await;
    report_stuck(object, context, memory, &decision.stuck).await;
    let recorded = {
        let carried = Carried { set: &set, outcomes: &outcomes, stalled: &stalled, conflicts };
        record(&decision, &carried, context, memory, now)
    };
    let has_changed = set.version != observed || !outcomes.is_empty();
    let Some(recorded) = recorded else {
        return Ok(Reconciled { next: decision.next, has_changed });
    };
    publish(object, context, &recorded.events);
    if let Some(status) = &recorded.status {
        write_status(&set, Some(status), context, memory, now).await?;
    }
    if is_postponed {
        let next = NextReconcile::After(WaitFor::PostponedWrites, Duration::ZERO);
        return Ok(Reconciled { next, has_changed });
    }
    if let Some((count, first)) = recorded.error {
        return Err(ReconcileError::Applications { name: object.key().to_string(), count, first });
    }
    if let Some(first) = decision.stuck.first() {
        let (name, count) = (object.key().to_string(), decision.stuck.len());
        let first = format!("{} {}", first.name, first.why());
        return Err(ReconcileError::DeletionStuck { name, count, first });
    }
    let is_sooner = match recorded.next {
        NextReconcile::After(_, delay) => delay < RUN_AGAIN,
        next => matches!(next, NextReconcile::Again),
    };
    if is_run_due && !is_sooner {
        let next = NextReconcile::After(WaitFor::StatusWrite, RUN_AGAIN);
        return Ok(Reconciled { next, has_changed });
    }
    if decision.ends_refresh {
        let next = end_refresh(&set, context, memory, recorded.next, now).await?;
        return Ok(Reconciled { next, has_changed: true });
    }
    Ok(Reconciled { next: recorded.next, has_changed })
}

/// Asks for the sources of the first Applications that are written, once for what was generated.
fn read_ahead(
    set: &StoredApplicationSet,
    context: &Context,
    memory: &mut SetMemory,
    decision: &Decision,
) {
    let Some(generated) = &memory.generated else { return };
    let newest = Arc::downgrade(generated);
    if memory.read_ahead.ptr_eq(&newest) {
        return;
    }
    let wanted = |name: &str| generated.get(name).map(Wanted::original);
    if context.core.prefetches.ask_for(&set.id.namespace, &decision.writes, wanted) {
        memory.read_ahead = newest;
    }
}

/// A decision, and what it is based on.
#[derive(Default)]
struct Decided {
    decision: Decision,
    set: Arc<StoredApplicationSet>,
    /// The time of the observation.
    now: Timestamp,
}

/// Observes and decides.
async fn decide(object: &StoredObject, context: &Arc<Context>, memory: &mut SetMemory) -> Decided {
    if let Some(newest) = context.core.control_plane.sets.get(&object.key())
        && !memory.is_known_to_delete(&newest)
    {
        context.namespaces.read(&newest, &context.core, &context.settings.decisions).await;
    }
    let mut reads = 0;
    loop {
        let may_read = MayRead { again: reads == 0, more: reads < MAX_READS };
        let unread = match decide_once(object, context, memory, may_read).await {
            Ok(decided) => return decided,
            Err(unread) => unread,
        };
        let (credentials, demands) = (memory.credentials(), memory.demands());
        let UnreadInput { requests, queries, freshness } = unread;
        let now = context.core.clock.now();
        let (sources, submodules) = (&context.sources, context.settings.git_submodules);
        let (answers, asked) = (&mut memory.answers, &mut memory.queries);
        let key = object.key();
        let read = async {
            let ask = asked.ask(queries, &context.providers, &key, now);
            if requests.is_empty() {
                return ask.await;
            }
            let (credentials, demands) = (&*credentials, &*demands);
            let reading = Reading { sources, credentials, demands, freshness, submodules };
            tokio::join!(answers.read(requests, &reading, now), ask);
        };
        context.slots.lend_slot(read).await;
        reads += 1;
    }
}

/// Runs work that may take long: on a blocking thread, or at once where there is only one
/// thread, as in a simulation, which then takes the same course each time.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Ok(work()),
        _ => tokio::task::spawn_blocking(work).await,
    }
}

/// The same on a blocking thread, since templates and jq rules of users may take long.
async fn decide_once(
    object: &StoredObject,
    context: &Arc<Context>,
    memory: &mut SetMemory,
    may_read: MayRead,
) -> Result<Decided, UnreadInput> {
    let (object, context, span) = (object.clone(), Arc::clone(context), tracing::Span::current());
    let mut taken = std::mem::take(memory);
    let work = move || {
        let _entered = span.entered();
        let began = Instant::now();
        let now = context.core.clock.now();
        // Writes since the request are newer than the request. Another ApplicationSet of
        // this name is reconciled on its own.
        let newest = context.core.control_plane.sets.get(&object.key());
        let Some(object) = newest.filter(|newest| newest.uid() == object.uid()) else {
            let mut outdated = Decided::default();
            outdated.decision.next = NextReconcile::Again;
            return (Ok(outdated), taken);
        };
        if let Err(unread) = taken.observe(&object, &context, may_read, now) {
            return (Err(unread), taken);
        }
        taken.absent_settings = context.core.control_plane.trust.absent().names();
        let set = taken.set.clone().unwrap_or_default();
        if let Some(generated) = taken.generated.as_deref().filter(|_| !set.is_deleting) {
            log::generated(&mut taken.logged, generated);
        }
        let decision = decide_with_shares(&object.key(), &set, &context, &mut taken, now);
        let ended = Instant::now();
        let steps = decision.rollout.iter().flat_map(|plan| &plan.steps);
        let in_flight: u64 = steps.map(|step| step.in_flight).sum();
        let applications = taken.generated.as_ref().map_or(0, |made| made.applications.len());
        taken.pace = Some(ReconcilePace::after(began, ended, in_flight, applications));
        (Ok(Decided { decision, set, now }), taken)
    };
    match run(work).await {
        Ok((decided, taken)) => {
            *memory = taken;
            decided
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => futures::future::pending().await,
        },
    }
}

/// Decides; two sets that share a limit do not decide at the same time.
fn decide_with_shares(
    key: &ObjectKey,
    set: &StoredApplicationSet,
    context: &Context,
    memory: &mut SetMemory,
    now: Timestamp,
) -> Decision {
    let limits = memory.run_observation.rules().pools.clone();
    let mut shares = (!limits.is_empty()).then(|| context.in_flight.share());
    memory.run_observation.pools = shares
        .as_mut()
        .map_or_else(Vec::new, |shares| shares.pools(key, &limits, &context.core.control_plane));
    let snapshot = memory.snapshot(set, &context.settings.decisions, now);
    let decision = snapshot.map(|snapshot| reconcile::reconcile(&snapshot)).unwrap_or_default();
    let plan = decision.rollout.as_ref();
    let transitions = plan.map_or(&[][..], |plan| &plan.transitions);
    let decided = TakenPlaces {
        in_flight: memory.in_flight(&decision),
        has_promoted: transitions.iter().any(|transition| transition.to == Phase::Pending),
        waits: plan.map_or(&[][..], |plan| &plan.waits_for_pools),
    };
    let has_free = |pool: &Pool| pool.elsewhere + decided.in_flight < pool.max;
    let leaves_a_place = decided.has_promoted && memory.run_observation.pools.iter().any(has_free);
    // Also without a limit: a policy may come, and select it, while it is in flight.
    let mut shares = shares.unwrap_or_else(|| context.in_flight.share());
    shares.take(key, &limits, decided, now);
    drop(shares);
    if leaves_a_place {
        // It is left to those whose turn it is now.
        for other in context.in_flight.waiting_beside(key) {
            context.queue.enqueue(&other, Request(true));
        }
    }
    decision
}

fn record(
    decision: &Decision,
    carried: &Carried<'_>,
    context: &Context,
    memory: &mut SetMemory,
    now: Timestamp,
) -> Option<Recorded> {
    log::outcomes(carried.outcomes);
    let mut reported = std::mem::take(&mut memory.reported);
    let snapshot = memory.snapshot(carried.set, &context.settings.decisions, now);
    let recorded = snapshot
        .map(|snapshot| report::record_outcome(&snapshot, decision, carried, &mut reported));
    memory.reported = reported;
    recorded
}

fn writer(set: &StoredApplicationSet, context: &Context) -> Writer {
    let writer = Writer::new(
        &context.core.client,
        &set.id.namespace,
        Arc::clone(&context.core.control_plane.applications),
        context.settings.concurrent_application_updates,
    );
    match context.settings.begins_operations {
        true => writer.beginning_at(context.core.clock.now()),
        false => writer,
    }
}

/// Writes the status; `None` when the ApplicationSet has changed in the meantime.
///
/// A status that the API server rejects must not stop a rollout in silence: then only a
/// condition with the error is written.
async fn write_status(
    set: &Arc<StoredApplicationSet>,
    wanted: Option<&Status>,
    context: &Context,
    memory: &mut SetMemory,
    now: Timestamp,
) -> Result<Option<Arc<StoredApplicationSet>>, ReconcileError> {
    let Some(wanted) = wanted else { return Ok(Some(Arc::clone(set))) };
    if memory.was_answered(&set.status, wanted) {
        return Ok(Some(Arc::clone(set)));
    }
    let write = context.core.control_plane.sets.begin_write(key_of(set));
    let client = &context.core.client;
    let error = match write.answer(status_writer::write_set_status(client, set, wanted)).await {
        Ok(Written::Unchanged) => return Ok(Some(Arc::clone(set))),
        Ok(Written::Changed(object, stored)) => {
            let set = take_over(set, *stored, object, context, memory, now);
            memory.answered(&set.status, wanted);
            return Ok(Some(set));
        }
        Ok(Written::Conflict) => return Ok(None),
        Err(error) => error,
    };
    let name = key_of(set).to_string();
    let cause = failure_cause(&error);
    if cause.code.is_some()
        && let Some(snapshot) = memory.snapshot(set, &context.settings.decisions, now)
    {
        let (status, event) = error_status::refused_status(&snapshot, &cause);
        match status_writer::write_set_status(client, set, &status).await {
            Ok(Written::Changed(object, stored)) => {
                publish(&object, context, event.as_slice());
                take_over(set, *stored, object, context, memory, now);
            }
            Ok(Written::Unchanged | Written::Conflict) => {}
            Err(error) => {
                tracing::error!(error = error_reason(&error), "cannot write the condition either");
            }
        }
    }
    Err(ReconcileError::Status { name, reason: cause.text })
}

fn take_over(
    set: &StoredApplicationSet,
    status: Status,
    object: StoredObject,
    context: &Context,
    memory: &mut SetMemory,
    now: Timestamp,
) -> Arc<StoredApplicationSet> {
    let new = Arc::new(StoredApplicationSet {
        id: set.id.clone(),
        version: object.resource_version().to_owned(),
        generation: set.generation,
        is_deleting: set.is_deleting,
        finalizers: set.finalizers.clone(),
        is_refreshing: set.is_refreshing,
        found: set.found.clone(),
        approved_deletions: set.approved_deletions.clone(),
        paused: set.paused.clone(),
        paused_by: set.paused_by.clone(),
        resumed_by: set.resumed_by.clone(),
        existed: set.existed,
        unknown_annotations: set.unknown_annotations.clone(),
        labels: set.labels.clone(),
        status,
    });
    memory.wrote(Arc::clone(&new), now);
    context.core.control_plane.sets.wrote(object, Origin::ApplicationSets);
    new
}

fn publish(about: &StoredObject, context: &Context, events: &[SetEvent]) {
    for event in events {
        context.events.publish(about, event_record(event));
    }
}

fn event_record(event: &SetEvent) -> EventRecord {
    let SetEvent { warning, reason, action, text } = event.clone();
    EventRecord::new(warning, reason, action, text)
}

/// Reports stalled waits; returns those that are reported. The Event of each has a stable
/// name, so that it exists once, also after a crash.
async fn report_stalled(
    about: &StoredObject,
    context: &Context,
    stalled: &[RolloutWait],
) -> Vec<RolloutWait> {
    let report = |wait: &RolloutWait| {
        let wait = wait.clone();
        async move {
            let since = wait.since?;
            let event = events::stalled_event(&wait, since);
            tracing::warn!(app.name = wait.application, step = wait.step + 1, "{}", event.text);
            let once = format!("{}.{}", wait.application, since.as_second());
            let published = context.events.publish_once(about, event_record(&event), &once).await;
            published.then_some(wait)
        }
    };
    futures::stream::iter(stalled).filter_map(report).collect().await
}

/// Reports Applications whose deletion is stuck, each of them once: the Event has a stable
/// name.
async fn report_stuck(
    about: &StoredObject,
    context: &Context,
    memory: &mut SetMemory,
    stuck: &[Stuck],
) {
    for one in stuck {
        if let Presence::Unreadable(error) = &one.presence {
            tracing::warn!(app.name = one.name, error, "cannot read the Application");
        }
        if memory.reported_stuck.contains(&one.uid) {
            continue;
        }
        let event = events::deletion_stuck(one);
        tracing::warn!(app.name = one.name, "{}", event.text);
        let once = format!("deletion.{}", one.uid);
        if context.events.publish_once(about, event_record(&event), &once).await {
            memory.reported_stuck.insert(one.uid.clone());
        }
    }
}

/// Writes the finalizers of the ApplicationSet; after a conflict, the next reconcile does it.
async fn write_finalizers(
    set: &StoredApplicationSet,
    context: &Context,
    finalizers: &[String],
) -> Result<(), ReconcileError> {
    let patch = json!({"finalizers": finalizers, "resourceVersion": set.version});
    patch_set(set, context, patch).await
}

/// Writes annotations of the ApplicationSet. That they are stored is checked, since the next
/// reconcile would write them again.
async fn write_annotations(
    set: &StoredApplicationSet,
    context: &Context,
    wanted: &Value,
) -> Result<(), ReconcileError> {
    patch_set(set, context, json!({ "annotations": wanted })).await?;
    let newest = context.core.control_plane.sets.get(&key_of(set));
    let stored = newest.map(|set| set.parse_status().annotations().cloned().unwrap_or_default());
    let lost = wanted.as_object().into_iter().flatten().find(|(key, value)| {
        stored.as_ref().is_some_and(|stored| stored.get(key.as_str()) != Some(*value))
    });
    match lost {
        None => Ok(()),
        Some((key, _)) => {
            let name = key_of(set).to_string();
            let reason = format!("the API server did not store the annotation {key} as written");
            Err(ReconcileError::Patch { name, reason })
        }
    }
}

/// Removes the refresh annotation at the end of a reconcile (AS-148, AS-420). If that
/// fails, the status reports it until it succeeds.
async fn end_refresh(
    set: &Arc<StoredApplicationSet>,
    context: &Context,
    memory: &mut SetMemory,
    next: NextReconcile,
    now: Timestamp,
) -> Result<NextReconcile, ReconcileError> {
    // A request since the observation is one for the next reconcile.
    let annotations = json!({APPLICATION_SET_REFRESH: null});
    let patch = json!({"annotations": annotations, "resourceVersion": set.version});
    let Err(error) = patch_set(set, context, patch).await else {
        // A reported failure is removed from the status.
        return Ok(match memory.refresh_failure.take() {
            Some(_) => NextReconcile::After(WaitFor::StatusWrite, Duration::ZERO),
            None => next,
        });
    };
    let ReconcileError::Patch { reason, .. } = &error else { return Err(error) };
    tracing::warn!(error = reason, "cannot remove the annotation {APPLICATION_SET_REFRESH}");
    let known = memory.refresh_failure.get_or_insert_with(|| {
        format!("metadata.annotations: cannot remove {APPLICATION_SET_REFRESH}: {reason}")
    });
    let (status, event) = error_status::refresh_failed(set, known, redact, now);
    write_status(set, Some(&status), context, memory, now).await?;
    if let Some(object) = context.core.control_plane.sets.get(&key_of(set)) {
        publish(&object, context, event.as_slice());
    }
    Err(error)
}

fn key_of(set: &StoredApplicationSet) -> ObjectKey {
    ObjectKey::new(&set.id.namespace, &set.id.name)
}

async fn patch_set(
    set: &StoredApplicationSet,
    context: &Context,
    metadata: Value,
) -> Result<(), ReconcileError> {
    let written =
        application_set_metadata::patch_set_metadata(&context.core.client, set, metadata).await;
    let stored = written.map_err(|error| ReconcileError::Patch {
        name: key_of(set).to_string(),
        reason: error_reason(&error),
    })?;
    // One that was held by its last finalizer is gone now.
    if let Some(object) =
        stored.filter(|object| !StoredApplicationSet::read(&object.parse_status()).is_deleting)
    {
        context.core.control_plane.sets.wrote(object, Origin::ApplicationSets);
    }
    Ok(())
}

/// Reports on an ApplicationSet that its reconcile failed because of a bug. The next
/// successful reconcile removes the condition.
pub async fn report_failure(context: &Context, key: &ObjectKey, error: &ReconcileError) {
    if context.settings.dry_run {
        return;
    }
    let Some(object) = context.core.control_plane.sets.get(key) else { return };
    let set = StoredApplicationSet::read(&object.parse_status());
    let error = error.to_string();
    let (status, event) =
        error_status::failed_status(&set, &error, redact, context.core.clock.now());
    match status_writer::write_set_status(&context.core.client, &set, &status).await {
        Ok(Written::Changed(object, _)) => {
            publish(&object, context, event.as_slice());
            context.core.control_plane.sets.wrote(object, Origin::ApplicationSets);
        }
        Ok(Written::Unchanged | Written::Conflict) => {}
        Err(error) => {
            tracing::warn!(error = error_reason(&error), "cannot write the status with the error");
        }
    }
}
