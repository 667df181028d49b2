//! The snapshot of an operation for the wave engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::app::App;
use super::observation::{Compared, Observation};
use super::operate::Settings;
use super::operation;
use crate::api::annotations::deletion_approved;
use crate::api::resource_key::ResourceKey;
use crate::api::sync_options::RESPECT_IGNORE_DIFFERENCES;
use crate::decide::diff;
use crate::decide::health;
use crate::decide::sync::{ActionOutcome, Class, LiveObject, SyncSnapshot};

/// The input of one reconcile of the wave engine.
///
/// # Errors
///
/// A message, when the operation has no sync request.
pub(super) fn snapshot(
    app: &App,
    observation: &Observation<'_>,
    compared: &Compared,
    outcomes: Vec<ActionOutcome>,
    settings: &Settings,
    now: Timestamp,
) -> Result<SyncSnapshot, String> {
    let (application, state) = (app.raw(), &app.fields.status.operation_state);
    let (results, progress) = operation::stored_results(state);
    let started_at = operation::started(state).unwrap_or(now);
    let revision = operation::pinned_of(state).into_iter().next().unwrap_or_default();
    let access = &observation.access;
    let policy = access.spec.sync_policy.as_ref();
    let inherited = policy.filter(|_| settings.inherit_sync_options);
    let inherited = inherited.map(|policy| policy.sync_options.as_slice()).unwrap_or_default();
    let request = operation::request(&state.operation, &revision, inherited)?;
    let respect = request.sync_options.iter().any(|o| o == RESPECT_IGNORE_DIFFERENCES);
    let targets = observation.placed.targets.iter().map(|target| {
        match observation.live.get(&target.key).filter(|_| respect) {
            Some(live) => Arc::new(diff::respect_ignored(&target.object, live, &compared.config)),
            None => target.object.clone(),
        }
    });
    let permits = access.permits();
    let denied = (observation.placed.targets.iter().enumerate())
        .filter_map(|(at, target)| Some((at, permits.denial(&target.key, &target.object)?)));
    let metadata = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
    Ok(SyncSnapshot {
        operation_id: operation::id(application, started_at, &revision),
        operation: request,
        attempt: operation::attempt(state),
        started_at,
        phase: state.phase,
        message: state.message.clone(),
        results,
        progress,
        outcomes,
        destination_namespace: access.spec.destination.namespace.clone(),
        project: access.project_name.to_owned(),
        targets: targets.collect(),
        live: live(application, observation, compared),
        kinds: observation.kinds.clone(),
        denied: denied.collect(),
        namespace_denied: permits.denial(&namespace_key(observation), &Value::Null),
        shared: compared.comparison.shared.clone(),
        namespace: observation.namespace.clone(),
        managed_namespace_metadata: metadata.cloned(),
        deletion_approved_at: deletion_approved(application),
        settings: settings.sync.clone(),
    })
}

fn namespace_key(observation: &Observation<'_>) -> ResourceKey {
    ResourceKey::new("", "Namespace", "", &observation.access.spec.destination.namespace)
}

/// The live objects for the wave engine: managed objects and those with the
/// identity of a target, without copies, and without objects with owners. For
/// the name of a hook, any live object is included with its owner.
fn live(
    application: &Value,
    observation: &Observation<'_>,
    compared: &Compared,
) -> BTreeMap<ResourceKey, LiveObject> {
    let uid = operation::uid(application);
    let owner = observation.owner(&uid);
    let mut live = BTreeMap::new();
    for resource in &compared.comparison.resources {
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
            tracked: observation.tracking.owns(object) && !resource.managed_namespace,
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
    // Objects of targets that are not resources, such as deletion hooks.
    for target in &observation.placed.targets {
        if let Some(object) = observation.live.get(&target.key) {
            live.entry(target.key.clone()).or_insert_with(|| other(&target.key, object));
        }
    }
    if let Some(object) = &observation.namespace_object {
        let key = namespace_key(observation);
        live.entry(key.clone()).or_insert_with(|| other(&key, object));
    }
    live
}
