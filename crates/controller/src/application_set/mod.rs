//! The ApplicationSet controller.
//!
//! ```text
//! observe::Memory::observe      what changed since the last reconcile, read once
//!   application_set::reconcile  one decision: status, writes, Events, next reconcile
//!     status, writes, Events    applied in this order
//!       report::record          outcomes: status, Events, next reconcile
//! ```
//!
//! The two functions are of [`wavegate_rollout::application_set`].
//!
//! An ApplicationSet is reconciled by one worker at a time. The status is written before
//! the changes that it describes, so that the next reconcile continues after a crash. A
//! reconcile without changes writes nothing.

mod context;
mod dry_run;
mod giving_way;
mod in_flight;
mod log;
mod memory;
mod namespaces;
mod notify;
mod observe;
mod pace;
mod policies;
mod queries;
mod reconcile;
mod repositories;
mod run_observation;
mod run_record;
mod signed;
mod surroundings;
#[cfg(test)]
mod tests;
mod webhook;
mod writes;
mod written_part;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::context::Core;
use super::error::ReconcileError;
use super::runtime::{
    self, FailureBackoff, Queue, ReconcileResult, Reconciler, Slots, Trigger, Wake,
};
use crate::settings::ApplicationSetSettings;
pub use context::COMPONENT;
use context::{Context, Request};
pub use repositories::{Reading, read_repository};
pub use signed::{ByProject as DemandsByProject, project_reads};
use wavegate_api::ObjectKey;
use wavegate_cluster::watch::control_plane::{Kind, ObjectChange, Origin, set_owner};
use wavegate_cluster::watch::object::{StoredObject, kind_resource};
use wavegate_providers::{Objects, Providers};
use wavegate_rollout::application_set::decision::NextReconcile;
use wavegate_source::Repositories;
pub use webhook::Webhook;

/// Comparisons that find nothing new are reconciled within this time, many at once: of thousands
/// of Applications, several are compared in each second. What is waited for differs in more than
/// the time, or is the first comparison after an operation.
const COMPARED_AGAIN: Duration = Duration::from_secs(5);

/// The longest pause after failures.
const BACKOFF: FailureBackoff = FailureBackoff { longest: Duration::from_secs(300) };

/// Runs until `shutdown`; running reconciles are completed.
pub async fn run(
    core: Core,
    settings: ApplicationSetSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) {
    run_with(core, settings, sources, shutdown, Controller).await;
}

async fn run_with<C: Reconciler<Request = Request>>(
    core: Core,
    settings: ApplicationSetSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
    controller: impl FnOnce(Arc<Context>) -> C,
) {
    let events =
        core.recorder.events(COMPONENT, kind_resource("ApplicationSet"), !settings.dry_run);
    let slots = Slots::new(settings.concurrent_reconciliations.into());
    let caches = &core.control_plane;
    let changes = [&caches.sets, &caches.applications]
        .into_iter()
        .chain([&caches.projects, &caches.secrets, &caches.policies, &caches.runs])
        .map(|cache| cache.subscribe());
    let changes: Vec<UnboundedReceiver<ObjectChange>> = changes.collect();
    let queue = Arc::new(Queue::new(BACKOFF));
    let notifier = notify::notifier(&core, &settings);
    let providers = Providers::new(
        Objects::Cluster(core.client.clone()),
        settings.providers.clone(),
        &settings.control_plane_namespace,
        core.clock.clone(),
    );
    let context = Arc::new(Context {
        core,
        events,
        memory: Mutex::default(),
        changed: Mutex::default(),
        claims: Mutex::default(),
        asked_to_read: Mutex::default(),
        in_flight: in_flight::Ledger::default(),
        policies: policies::Reports::default(),
        notifier: notifier.clone(),
        queue: Arc::clone(&queue),
        namespaces: namespaces::Namespaces::default(),
        sources,
        providers,
        slots: slots.clone(),
        settings,
    });
    context.core.metrics.show(&context.settings);
    context.core.metrics.queue("applicationset", queue.clone());
    context.core.metrics.notifications(notifier.clone());
    let triggers = changes.into_iter().map(|changes| enqueue_changes(&context, &queue, changes));
    let triggers = futures::future::join_all(triggers);
    let trust = enqueue_all(&context, &queue);
    let work = async {
        // With incomplete caches, existing objects would look absent.
        if shutdown.run_until_cancelled(context.core.control_plane.listed()).await.is_some() {
            let controller = Arc::new(controller(Arc::clone(&context)));
            runtime::run(controller, Arc::clone(&queue), slots, shutdown.clone()).await;
        }
    };
    let ended = CancellationToken::new();
    let reconciles = async {
        tokio::select! {
            biased;
            () = work => {}
            _ = triggers => {}
            () = trust => {}
            () = notify::report(&context) => {}
        }
        ended.cancel();
    };
    // What the last reconciles have stored is sent, too.
    tokio::join!(reconciles, notifier.run(&ended));
}

/// Triggers the ApplicationSets that a change affects.
async fn enqueue_changes(
    context: &Context,
    queue: &Queue<Request>,
    mut changes: UnboundedReceiver<ObjectChange>,
) {
    let enqueue_within = |key: &ObjectKey, time: Option<Duration>| {
        if !context.is_watched(&key.namespace) {
            return;
        }
        match time {
            Some(time) => queue.enqueue_within(key, time),
            None => queue.enqueue(key, Request(true)),
        }
    };
    let enqueue = |key: &ObjectKey| {
        if context.is_watched(&key.namespace) {
            context.has_news(key, None);
            queue.enqueue(key, Request(true));
        }
    };
    while let Some(change) = changes.recv().await {
        match change.kind {
            // Own writes need no reconcile.
            Kind::ApplicationSet if change.origin == Origin::ApplicationSets => {}
            Kind::ApplicationSet => enqueue(&change.key),
            Kind::Application => {
                let owners = [&change.new, &change.old].into_iter().flatten().filter_map(set_owner);
                let mut keys: Vec<ObjectKey> = owners
                    .map(|owner| ObjectKey::new(&change.key.namespace, &owner.name))
                    .collect();
                keys.dedup();
                if is_other_owner(&change) {
                    let owner = change.new.as_ref().and_then(set_owner);
                    let owner = owner.map(|owner| owner.name).unwrap_or_default();
                    keys.extend(context.claimants(&change.key, &owner));
                }
                // Most clusters have Applications of no set as well.
                let is_again = !keys.is_empty() && is_compared_again(&change);
                for key in &keys {
                    match change.origin {
                        Origin::ApplicationSets => context.changed(key, [&*change.key.name]),
                        _ => context.has_news(key, Some(&change.key.name)),
                    }
                    enqueue_within(key, is_again.then_some(COMPARED_AGAIN));
                }
            }
            // Nor do changes of a status, which this controller writes alone.
            Kind::Policy if !is_other_spec(&change) => {}
            Kind::Run if !is_other_spec(&change) && !is_lost(&change) => {}
            Kind::Policy => {
                let keys = context.core.control_plane.sets.keys().into_iter();
                keys.filter(|set| set.namespace == change.key.namespace)
                    .for_each(|set| enqueue(&set));
            }
            Kind::Run => {
                let owner = [&change.new, &change.old].into_iter().flatten().find_map(set_owner);
                if let Some(owner) = owner {
                    enqueue(&ObjectKey::new(&change.key.namespace, &owner.name));
                }
            }
            Kind::Project | Kind::Secret => {
                context.core.control_plane.sets.keys().iter().for_each(enqueue);
            }
        }
    }
}

/// Whether the object is gone, or another ApplicationSet controls it than before.
fn is_other_owner(change: &ObjectChange) -> bool {
    let uid = |one: &Option<StoredObject>| Some(set_owner(one.as_ref()?)?.uid);
    change.new.is_none() || uid(&change.new) != uid(&change.old)
}

/// Whether no ApplicationSet controls an object that there is.
fn is_lost(change: &ObjectChange) -> bool {
    change.new.as_ref().is_some_and(|object| set_owner(object).is_none())
}

/// Whether an Application was compared once more, and nothing differs but the time: not when a
/// comparison after its last operation may have been waited for.
fn is_compared_again(change: &ObjectChange) -> bool {
    /// What is around the generation, which counts each write of a kind without a subresource
    /// for its status, the resource version and the time.
    fn around(object: &StoredObject) -> Option<[&str; 4]> {
        fn after_value(text: &str) -> Option<&str> {
            text.split_once('"').map(|(_, rest)| rest)
        }
        let text = std::str::from_utf8(object.json()).ok()?;
        let (start, rest) = text.split_once(r#""generation":"#)?;
        let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let (names, rest) = rest.split_once(r#""resourceVersion":""#)?;
        let (middle, rest) = after_value(rest)?.split_once(r#""reconciledAt":""#)?;
        Some([start, names, middle, after_value(rest)?])
    }
    let Some((old, new)) = change.old.as_ref().zip(change.new.as_ref()) else { return false };
    let both = around(old).zip(around(new));
    both.is_some_and(|(old, new)| old == new) && is_judged(old)
}

/// Whether an Application was compared after its last operation, and has no other.
fn is_judged(application: &StoredObject) -> bool {
    #[derive(Deserialize)]
    struct Application {
        operation: Option<IgnoredAny>,
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        reconciled_at: Timestamp,
        operation_state: Option<Operation>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Operation {
        finished_at: Timestamp,
    }
    application.read().is_ok_and(|Application { operation, status }| {
        let last = status.operation_state;
        operation.is_none() && last.is_none_or(|last| last.finished_at < status.reconciled_at)
    })
}

/// Whether an object was created or deleted by another, or got another spec.
fn is_other_spec(change: &ObjectChange) -> bool {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        generation: i64,
    }
    #[derive(Deserialize)]
    struct Generation {
        metadata: Metadata,
    }
    let generation = |object: &Option<StoredObject>| {
        Some(object.as_ref()?.read::<Generation>().ok()?.metadata.generation)
    };
    let both = change.old.as_ref().zip(change.new.as_ref());
    let is_same_object = both.is_some_and(|(old, new)| old.uid() == new.uid());
    change.origin != Origin::ApplicationSets
        && !(is_same_object && generation(&change.old) == generation(&change.new))
}

/// Triggers all ApplicationSets when keys or certificates of Git servers change, and when settings
/// vanish or are there again.
async fn enqueue_all(context: &Context, queue: &Queue<Request>) {
    let plane = &context.core.control_plane;
    let enqueue = || {
        for key in plane.sets.keys().iter().filter(|key| context.is_watched(&key.namespace)) {
            queue.enqueue(key, Request(true));
        }
    };
    tokio::join!(plane.trust.follow_changes(enqueue), plane.trust.absent().follow_changes(enqueue));
}

struct Controller(Arc<Context>);

impl Reconciler for Controller {
    type Request = Request;
    const FINISHES: bool = true;

    fn span(key: &ObjectKey) -> Span {
        tracing::info_span!("reconcile", applicationset = %key)
    }

    async fn gather(&self, key: &ObjectKey) {
        if let Some(until) = self.0.gathers_until(key) {
            tokio::time::sleep_until(until).await;
        }
    }

    async fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger<Request>,
    ) -> Result<ReconcileResult, ReconcileError> {
        let context = &self.0;
        let Some(set) = context.core.control_plane.sets.get(key) else {
            return Ok(ReconcileResult::Gone);
        };
        let _timer = context.core.metrics.reconcile(key);
        // After a panic it is discarded, since it may be inconsistent; all of it can be
        // computed again.
        let mut memory = context.take_memory(key, set.uid());
        let began = Instant::now();
        let ended = reconcile::reconcile(&set, context, &mut memory, trigger.conflicts).await;
        context.return_memory(key, memory);
        let reconcile::Reconciled { next, has_changed } = ended?;
        log::ended(next, began.elapsed(), has_changed);
        Ok(match next {
            NextReconcile::Gone => ReconcileResult::Gone,
            NextReconcile::On(events) => ReconcileResult::Success(Wake::On(events)),
            NextReconcile::Again => ReconcileResult::Outdated,
            NextReconcile::After(_, delay) => ReconcileResult::Success(Wake::after(delay)),
        })
    }

    async fn report(&self, key: &ObjectKey, error: &ReconcileError) {
        reconcile::report_failure(&self.0, key, error).await;
    }

    async fn forget(&self, key: &ObjectKey) {
        self.0.forget(key);
    }
}
