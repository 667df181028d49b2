//! The ApplicationSet controller.
//!
//! ```text
//! observe::Memory::observe      what changed since the last time, read once
//!   decide::…::reconcile        one decision: status, writes, Events, what follows
//!     status, writes, Events    applied in this order
//!       decide::…::record       what became of it: status, Events, what follows
//! ```
//!
//! One reconcile per event, never two of one set at a time. The status is written
//! before anything that it says is done, so that a crash in between is made up
//! for by the next reconcile; one that finds nothing to do writes nothing.

mod dry_run;
mod log;
mod observe;
mod reconcile;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::context::Context;
use super::error::Error;
use super::runtime::{self, Backoff, Queue, ReconcileResult, Reconciler, Slots, Trigger};
use crate::act::events::Recorder;
use crate::api::ObjectKey;
use crate::clock::Clock;
use crate::decide::application_set::reconcile::Next;
use crate::settings::ApplicationSetSettings;
use crate::watch::control_plane::{Change, ControlPlane, Kind, Origin, owner};
use crate::watch::object::resource;
pub use observe::Memory;

/// The name under which it writes events and asks for operations.
pub const COMPONENT: &str = "applicationset-controller";

/// The longest pause after failures.
const BACKOFF: Backoff = Backoff { longest: Duration::from_secs(300) };

/// What a reconcile of a set is asked for. All that wakes it may be what a
/// rollout waits for; only what is due comes after that.
#[derive(Clone, Copy, Debug, Default)]
struct Woken(bool);

impl runtime::Request for Woken {
    fn and(self, other: Self) -> Self {
        Self(self.0 || other.0)
    }

    fn is_urgent(self) -> bool {
        self.0
    }
}

/// Runs until `shutdown`; reconciles that have begun are finished.
pub async fn run(
    client: Client,
    control_plane: Arc<ControlPlane>,
    settings: ApplicationSetSettings,
    clock: Clock,
    recorder: &Recorder,
    shutdown: CancellationToken,
) {
    let events = recorder.events(COMPONENT, resource("ApplicationSet"), !settings.dry_run);
    let slots = Slots::new(settings.concurrent_reconciliations.into());
    let changes = [&control_plane.sets, &control_plane.applications]
        .into_iter()
        .chain([&control_plane.projects, &control_plane.secrets])
        .map(|cache| cache.subscribe());
    let changes: Vec<UnboundedReceiver<Change>> = changes.collect();
    let context = Arc::new(Context {
        client,
        clock,
        control_plane,
        events,
        memory: Mutex::default(),
        changed: Mutex::default(),
        rules: settings.rules(),
        settings,
    });
    let queue = Arc::new(Queue::new(BACKOFF));
    let wake = changes.into_iter().map(|changes| wake(&context, &queue, changes));
    let wake = futures::future::join_all(wake);
    let work = async {
        // Decisions on half-filled caches would be decisions on absences that are
        // none.
        if shutdown.run_until_cancelled(context.control_plane.listed()).await.is_some() {
            let controller = Arc::new(Controller(Arc::clone(&context)));
            runtime::run(controller, Arc::clone(&queue), slots, shutdown.clone()).await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = wake => {}
    }
}

/// Wakes the sets that a change concerns.
async fn wake(context: &Context, queue: &Queue<Woken>, mut changes: UnboundedReceiver<Change>) {
    let wake = |key: &ObjectKey| {
        if context.is_watched(&key.namespace) {
            queue.wake(key, Woken(true));
        }
    };
    while let Some(change) = changes.recv().await {
        match change.kind {
            // Whoever wrote a set knows what it says.
            Kind::ApplicationSet if change.origin == Origin::ApplicationSets => {}
            Kind::ApplicationSet => wake(&change.key),
            Kind::Application => {
                let owners = [&change.new, &change.old].into_iter().flatten().filter_map(owner);
                let mut keys: Vec<ObjectKey> = owners
                    .map(|owner| ObjectKey::new(&change.key.namespace, &owner.name))
                    .collect();
                keys.dedup();
                for key in &keys {
                    context.changed(key, [change.key.name.as_str()]);
                    wake(key);
                }
            }
            Kind::Project | Kind::Secret => {
                context.control_plane.sets.keys().iter().for_each(wake);
            }
        }
    }
}

struct Controller(Arc<Context>);

impl Reconciler for Controller {
    type Request = Woken;
    const FINISHES: bool = true;

    fn span(key: &ObjectKey) -> Span {
        tracing::info_span!("reconcile", application_set = %key)
    }

    async fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger<Woken>,
    ) -> Result<ReconcileResult, Error> {
        let context = &self.0;
        let Some(set) = context.control_plane.sets.get(key) else {
            return Ok(ReconcileResult::Gone);
        };
        // After a panic nothing of it is put back: it is not to be trusted, and
        // all of it can be computed again.
        let mut memory = context.take_memory(key, set.uid());
        let ended = reconcile::reconcile(&set, context, &mut memory, trigger.conflicts).await;
        context.put_memory(key, memory);
        Ok(match ended? {
            Next::Gone => ReconcileResult::Gone,
            Next::Wait => ReconcileResult::Well(None),
            Next::Again => ReconcileResult::Outdated,
            // What is too far away for a clock is never.
            Next::After(delay) => ReconcileResult::Well(Instant::now().checked_add(delay)),
        })
    }

    async fn report(&self, key: &ObjectKey, error: &Error) {
        reconcile::report(&self.0, key, error).await;
    }

    async fn forget(&self, key: &ObjectKey) {
        self.0.forget(key);
    }
}
