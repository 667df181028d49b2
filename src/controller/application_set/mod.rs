//! The ApplicationSet controller: observe, generate, decide, record, act.
//!
//! One pass per event, never two of one set at a time. The status is written
//! before anything that it tells is done, so that a crash in between is made up
//! for by the next pass; a pass that finds nothing to do writes nothing.

mod deletion;
mod dry_run;
mod events;
mod observe;
mod reconcile;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::Client;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::context::{Context, Memory};
use super::error::{Error, after_conflict, backoff};
use crate::act::events::Events;
use crate::clock::Clock;
use crate::settings::ApplicationSetSettings;
use crate::watch::follow::words;
use crate::watch::object::{Object, resource};
use crate::watch::stores::{self, Cache, Changes};

/// The name under which it writes events and asks for operations.
pub const COMPONENT: &str = "applicationset-controller";

/// Runs until `shutdown`; passes that have begun are finished.
pub async fn run(
    client: Client,
    settings: ApplicationSetSettings,
    clock: Clock,
    shutdown: CancellationToken,
) {
    // With no namespaces besides, the rest of the cluster is not even watched.
    let only = settings.control_plane_namespace.clone();
    let namespace = settings.namespaces.is_empty().then_some(only.as_str());
    let (sets, set_changes) = Cache::watch(&client, "ApplicationSet", namespace);
    let (applications, application_changes) = Cache::watch(&client, "Application", namespace);
    let (projects, project_changes) = Cache::watch(&client, "AppProject", Some(&only));
    let (clusters, cluster_changes) = stores::cluster_secrets(&client, &only);
    let events =
        Events::new(client.clone(), COMPONENT, resource("ApplicationSet"), settings.dry_run);
    let context = Arc::new(Context {
        client,
        clock,
        sets: sets.clone(),
        applications,
        projects,
        clusters,
        events,
        memory: Mutex::default(),
        settings,
    });

    let everything = project_changes.map(drop).boxed();
    let everything = futures::stream::select(everything, cluster_changes.map(drop));
    let concurrency = context.settings.concurrent_reconciliations;
    let stop = shutdown.clone();
    Controller::for_stream_with(
        watched(set_changes, &context),
        sets.store,
        resource("ApplicationSet"),
    )
    .with_config(Config::default().concurrency(concurrency))
    .reconcile_on(owners(application_changes, Arc::clone(&context)))
    .reconcile_all_on(everything)
    .graceful_shutdown_on(async move { stop.cancelled().await })
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(kube::runtime::controller::Error::QueueError(error)) = result {
            let error = words(&error);
            tracing::debug!(error, "a watch was interrupted and begins anew");
        }
    })
    .await;
}

/// Only sets of watched namespaces.
fn watched(changes: Changes, context: &Arc<Context>) -> Changes {
    let context = Arc::clone(context);
    let keep = move |change: &Result<Object, _>| {
        let keep = change.as_ref().map_or(true, |set| context.is_watched(set.namespace()));
        futures::future::ready(keep)
    };
    changes.filter(keep).boxed()
}

/// The set that owns each changed Application.
fn owners(
    changes: Changes,
    context: Arc<Context>,
) -> impl Stream<Item = ObjectRef<Object>> + Send + 'static {
    changes.filter_map(move |change| {
        let owner = change.ok().and_then(|application| {
            let owners = application.value()["metadata"]["ownerReferences"].as_array()?;
            let owner = owners.iter().find(|owner| {
                owner["kind"] == "ApplicationSet" && owner["controller"] == Value::Bool(true)
            })?;
            let name = owner["name"].as_str()?;
            let namespace = application.namespace();
            context
                .is_watched(namespace)
                .then(|| ObjectRef::new_with(name, resource("ApplicationSet")).within(namespace))
        });
        futures::future::ready(owner)
    })
}

async fn reconcile(set: Arc<Object>, context: Arc<Context>) -> Result<Action, Error> {
    if !context.is_watched(set.namespace()) {
        return Ok(Action::await_change());
    }
    let set = context.sets.overlay.newest((*set).clone());
    let uid = set.value()["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let span = tracing::info_span!(
        "pass",
        application_set = format!("{}/{}", set.namespace(), set.name())
    );
    crate::redact::know_urls_of(&set.value()["spec"]);
    let mut memory = context.take_memory(&uid);
    let pass = AssertUnwindSafe(reconcile::reconcile(&set, &context, &mut memory)).catch_unwind();
    let result = pass.instrument(span).await.unwrap_or_else(|panic| {
        let name = format!("{}/{}", set.namespace(), set.name());
        Err(Error::Panic { name, message: panic_text(&*panic) })
    });
    if matches!(result, Err(Error::Panic { .. })) {
        // What a panic left behind is not to be trusted; all of it can be
        // computed again.
        memory = Memory { failures: memory.failures, ..Memory::default() };
    }
    memory.conflicts = match &result {
        Ok(reconcile::Next::Again) => memory.conflicts.saturating_add(1),
        Ok(_) | Err(_) => 0,
    };
    let again = after_conflict(memory.conflicts);
    match &result {
        Ok(_) => memory.failures = 0,
        Err(_) => memory.failures = memory.failures.saturating_add(1),
    }
    if matches!(&result, Ok(reconcile::Next::Gone)) {
        context.forget(&uid);
    } else {
        context.put_memory(&uid, memory);
    }
    result.map(|next| match next {
        reconcile::Next::Gone | reconcile::Next::Wait => Action::await_change(),
        reconcile::Next::Again => Action::requeue(again),
        reconcile::Next::After(delay) => Action::requeue(delay),
    })
}

/// What a panic said, if it was text.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

fn on_error(set: Arc<Object>, error: &Error, context: Arc<Context>) -> Action {
    let uid = set.value()["metadata"]["uid"].as_str().unwrap_or_default();
    let failures = context.memory.lock().get(uid).map_or(1, |memory| memory.failures);
    // The clock's fraction of a second is chance enough to spread retries.
    let chance = f64::from(context.clock.now().subsec_nanosecond()) / 1e9;
    let delay: Duration = backoff(failures, chance);
    let name = format!("{}/{}", set.namespace(), set.name());
    tracing::warn!(application_set = name, %error, failures, ?delay, "pass failed, trying again");
    Action::requeue(delay)
}
