//! The Application controller: compares each Application with its cluster,
//! runs its operations, and writes its status.
//!
//! ```text
//! Applications, projects, clusters ──┐
//! live objects of each cluster ──────┼──> queue ──> pass: operate, compare ──> one write
//! revisions of repositories ─────────┘
//! ```
//!
//! A pass reads what is known (`store`, `watch::cluster_cache`), decides with
//! `decide::sync` and `decide::app_state`, acts, and writes once. It holds on to
//! nothing while it waits: an event or a due time brings the Application back.
//! Passes of one Application follow each other; those of different ones run
//! side by side.
//!
//! What identifies an operation is stored before the operation does anything.
//! All state is in the Application; what is remembered besides saves work only.

mod compare;
mod context;
mod dry_run;
mod error;
mod events;
mod execute;
mod finalize;
mod observe;
mod operate;
mod projects;
mod queue;
mod reconcile;
mod revisions;
mod store;
#[cfg(test)]
mod tests;
mod watches;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::act::application_status;
use crate::api::conditions::application::UNKNOWN_ERROR;
use crate::api::tracking::from_instance_name;
use crate::decide::app_state::Condition;
use crate::decide::app_state::refresh::{Level, Request};
use crate::decide::app_state::status::conditions;
use crate::settings::ApplicationSettings;
use crate::source::Repositories;
use crate::watch::cluster_cache::Mark;
use crate::watch::clusters::Clusters;

pub use error::Error;

use crate::api::ObjectKey;
use context::Context;
use queue::{Queue, ReconcileResult, Trigger};
use store::Store;

/// A pass that takes longer hangs on a request. It may be cut off anywhere and
/// goes on where it was.
const PASS_LIMIT: Duration = Duration::from_secs(900);

/// Runs the controller until `shutdown`.
///
/// May be cut off at any moment: what was under way is finished by the next
/// run, and neither repeated nor left out.
///
/// # Errors
///
/// [`Error::Watch`] when a kind of the control plane may not be watched.
pub async fn run(
    client: kube::Client,
    settings: ApplicationSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let stop = shutdown.child_token();
    // Whichever way this function is left, the watches of clusters end.
    let _guard = stop.clone().drop_guard();
    let queue = Arc::new(Queue::default());
    let store = Arc::new(Store::default());
    let mark = Mark { method: settings.tracking_method, label: settings.instance_label.clone() };
    let (wake, woken) = mpsc::unbounded_channel();
    let clusters = Clusters::new(client.clone(), mark, wake, stop.clone());
    let clusters = if settings.dry_run { clusters.read_only() } else { clusters };
    let ctx = Arc::new(Context::new(client, settings, sources, store, clusters, queue));
    let watches = watches::run(ctx.clone(), stop.clone());
    let live = forward(ctx.clone(), woken);
    let projects = projects::run(ctx.clone());
    let work = work(ctx.clone(), stop.clone());
    tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        ended = watches => ended,
        () = live => Ok(()),
        () = projects => Ok(()),
        () = work => Ok(()),
    }
}

/// Wakes those whose live objects have changed.
async fn forward(ctx: Arc<Context>, mut woken: mpsc::UnboundedReceiver<String>) {
    while let Some(instance) = woken.recv().await {
        let control_plane = &ctx.settings.control_plane_namespace;
        let (namespace, name) = from_instance_name(&instance, control_plane);
        let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
        if ctx.store.application(&key).is_some() {
            ctx.queue.wake(&key, Request::new(Level::Live));
        }
    }
}

/// Hands Applications to passes, as many at a time as may run.
async fn work(ctx: Arc<Context>, stop: CancellationToken) {
    let permits = ctx.slots.clone();
    let mut passes = JoinSet::new();
    loop {
        // Only then a slot: a pass that has lent its own must get it back while
        // nothing else is due.
        let (key, trigger) = tokio::select! {
            next = ctx.queue.next() => next,
            () = stop.cancelled() => return,
        };
        let permit = tokio::select! {
            permit = permits.clone().acquire_owned() => permit,
            () = stop.cancelled() => return,
        };
        let Ok(permit) = permit else { return };
        // Done ones are taken out, so that the set does not grow.
        while passes.try_join_next().is_some() {}
        let ctx = ctx.clone();
        let span = tracing::debug_span!("pass", application = %key);
        passes.spawn(
            async move {
                let ended =
                    contained(&ctx, &key, trigger, reconcile::reconcile(&ctx, &key, trigger)).await;
                drop(permit);
                ctx.queue.done(&key, trigger, ended);
            }
            .instrument(span),
        );
    }
}

/// A pass whose failure, even a panic, stays its own (SE-375).
async fn contained(
    ctx: &Context,
    key: &ObjectKey,
    trigger: Trigger,
    pass: impl Future<Output = Result<ReconcileResult, Error>>,
) -> ReconcileResult {
    let pass = AssertUnwindSafe(pass).catch_unwind();
    let Ok(ended) = tokio::time::timeout(PASS_LIMIT, pass).await else {
        let limit = PASS_LIMIT.as_secs();
        tracing::warn!(application = %key, limit, "pass cut off, a request did not end in time");
        return ReconcileResult::Failed;
    };
    let ended = ended.unwrap_or_else(|panic| Err(Error::Panic(words_of(panic.as_ref()))));
    match ended {
        Ok(ended) => ended,
        Err(error) if error.is_gone() => {
            ctx.forget(key).await;
            ReconcileResult::Gone
        }
        Err(error) if error.is_stale() => {
            tracing::debug!(application = %key, "changed meanwhile, looking again");
            ctx.queue.wake(key, trigger.request);
            ReconcileResult::Well(None)
        }
        Err(error @ Error::Panic(_)) => {
            tracing::error!(application = %key, %error, "pass failed");
            if AssertUnwindSafe(admit(ctx, key, &error)).catch_unwind().await.is_err() {
                tracing::error!(application = %key, "its failure cannot be told either");
            }
            ReconcileResult::Failed
        }
        Err(error) => {
            tracing::warn!(application = %key, %error, "pass failed");
            ReconcileResult::Failed
        }
    }
}

/// Says on the Application that its pass failed. The next comparison that works
/// takes that back.
async fn admit(ctx: &Context, key: &ObjectKey, error: &Error) {
    let Some(application) = ctx.store.application(key) else { return };
    let mut wanted = application.as_ref().clone();
    if !wanted["status"].is_object() {
        wanted["status"] = serde_json::json!({});
    }
    let Some(status) = wanted["status"].as_object_mut() else { return };
    let text = format!("{error}; this is a bug of wavegate, others are not concerned");
    let condition = Condition::new(UNKNOWN_ERROR, text);
    let now = ctx.now();
    conditions(status, &[UNKNOWN_ERROR], &[condition], now);
    let written = application_status::write(&ctx.client.0, &application, &wanted, now).await;
    match written {
        Ok(Some(written)) => {
            events::publish(ctx, &application, &written).await;
            ctx.store.put(key, Arc::new(written));
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(application = %key, %error, "cannot tell that it failed"),
    }
}

/// What a panic said.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
