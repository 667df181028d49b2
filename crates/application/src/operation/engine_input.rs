//! The inputs of the wave engine for one round of an operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::app::App;
use crate::deletion;
use crate::observation::{ComparedState, Observation};
use crate::operation;
use wavegate_api::annotations::{WAIT_FOR_HEALTH, annotation_of};
use wavegate_api::sync_options::RESPECT_IGNORE_DIFFERENCES;
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff;
use wavegate_engine::health::Health;
use wavegate_engine::sync::{self, ActionOutcome, LiveObject, ObjectClass};

/// Settings of operations.
#[derive(Clone, Debug)]
pub struct OperationSettings {
    /// Those of the wave engine.
    pub sync: sync::SyncSettings,
    /// Whether operations without options use those of the spec (SE-304).
    pub inherit_sync_options: bool,
}

/// The settings of the engine, with what annotations of the Application say (SE-591).
///
/// # Errors
///
/// A message, when an annotation has no valid value.
fn of_application(
    application: &Value,
    settings: &sync::SyncSettings,
) -> Result<sync::SyncSettings, String> {
    let wait_for_health = match annotation_of(application, WAIT_FOR_HEALTH) {
        None => settings.wait_for_health,
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(format!(
                "annotation {WAIT_FOR_HEALTH}: {other:?} is not a switch; write true or false"
            ));
        }
    };
    Ok(sync::SyncSettings { wait_for_health, ..settings.clone() })
}

/// The targets as they are applied: with the live values of ignored fields, if these are
/// respected (SE-331). A hook is a new object each time, so nothing of an old one is kept.
fn targets(
    observation: &Observation<'_>,
    compared: &ComparedState,
    respect: bool,
) -> Vec<Arc<Value>> {
    let all = &observation.placed.targets;
    let mut objects: Vec<Arc<Value>> = all.iter().map(|target| target.object.clone()).collect();
    if respect {
        let mut found = Vec::new();
        let resources =
            all.iter().enumerate().filter(|(_, target)| target.class == ObjectClass::Resource);
        for (at, target) in resources {
            if let Some(live) = observation.live.get(&target.key) {
                found.push((at, &*target.object, &**live));
            }
        }
        let pairs: Vec<(&Value, &Value)> =
            found.iter().map(|(_, target, live)| (*target, *live)).collect();
        let respected = diff::respect_ignored(&pairs, &compared.config);
        for ((at, ..), object) in found.into_iter().zip(respected) {
            objects[at] = Arc::new(object);
        }
    }
    objects
}

/// The inputs of the wave engine.
///
/// # Errors
///
/// A message, when the operation has no sync request.
pub(crate) fn sync_snapshot(
    app: &App,
    observation: &Observation<'_>,
    compared: &ComparedState,
    outcomes: Vec<ActionOutcome>,
    settings: &OperationSettings,
    now: Timestamp,
) -> Result<sync::SyncSnapshot, String> {
    let (application, state) = (app.raw(), &app.status.operation_state);
    let (results, progress) = operation::stored_results(state);
    let started_at = operation::started(state).unwrap_or(now);
    let revision = operation::pinned_revisions(state).into_iter().next().unwrap_or_default();
    let access = &observation.access;
    let policy = access.spec.sync_policy.as_ref();
    let inherited = policy.filter(|_| settings.inherit_sync_options);
    let inherited = inherited.map(|policy| policy.sync_options.as_slice()).unwrap_or_default();
    let request = operation::request(&state.operation, &revision, inherited)?;
    let sync_settings = of_application(application, &settings.sync)?;
    let respect = request.sync_options.iter().any(|o| o == RESPECT_IGNORE_DIFFERENCES);
    let targets = targets(observation, compared, respect);
    let permits = access.permits();
    let denied = (observation.placed.targets.iter().enumerate())
        .filter_map(|(at, target)| Some((at, permits.denial(&target.key, &target.object)?)));
    let metadata = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
    Ok(sync::SyncSnapshot {
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
        targets,
        live: live(application, observation, compared),
        handovers: observation.handovers.clone(),
        kinds: observation.kinds.clone(),
        denied: denied.collect(),
        namespace_denied: permits.denial(&namespace_key(observation), &Value::Null),
        shared: compared.comparison.shared.clone(),
        namespace: observation.namespace.clone(),
        managed_namespace_metadata: metadata.cloned(),
        tracks_namespace: (compared.comparison.resources.iter())
            .any(|one| one.managed_namespace && one.target.is_none() && one.live.is_some()),
        deletion_approved_at: deletion::approved_at(application, now),
        settings: sync_settings,
    })
}

fn namespace_key(observation: &Observation<'_>) -> ResourceKey {
    ResourceKey::new("", "Namespace", "", &observation.access.spec.destination.namespace)
}

/// The live objects for the wave engine: managed objects, without copies, and without objects
/// with owners; and all objects with the identity of a target, which are not tracked if they are
/// such. What is not known to be in sync differs: it must not be skipped (SE-318).
fn live(
    application: &Value,
    observation: &Observation<'_>,
    compared: &ComparedState,
) -> BTreeMap<ResourceKey, LiveObject> {
    let uid = operation::uid_of(application);
    let owner = observation.owner(&uid);
    // A script that fails is an error for a hook, and holds a wave (SE-442).
    let checked = |object: &Value, health: Option<Health>| {
        let error = observation.checks.script_error(object);
        error.map(|error| Err(error.to_owned())).or_else(|| health.map(Ok))
    };
    let mut live = BTreeMap::new();
    for resource in &compared.comparison.resources {
        let Some(object) = &resource.live else { continue };
        let hook = matches!(resource.class, ObjectClass::Hook(_));
        let owned = object.owners().next().is_some();
        let named_by_hook = hook && resource.target.is_some();
        let is_itself = operation::is_itself(application, &resource.key, object);
        let is_of_others = (owned || !resource.self_referenced) && !named_by_hook;
        if is_of_others && resource.target.is_none() {
            continue;
        }
        // Its rows say which of its labels and annotations are missing, not which are too many.
        let is_unknown = !resource.is_comparable || resource.managed_namespace;
        let entry = LiveObject {
            object: object.clone(),
            health: match is_itself {
                true => None,
                false => checked(object, resource.health.clone()),
            },
            out_of_sync: resource.modified || is_unknown,
            tracked: observation.tracking.owns(object)
                && !resource.managed_namespace
                && !is_of_others,
            objection: owner.objection(&resource.key, object).filter(|_| hook),
            is_itself,
        };
        live.insert(resource.key.clone(), entry);
    }
    let other = |key: &ResourceKey, object: &Arc<Value>| LiveObject {
        health: checked(object, observation.checks.of(object)),
        object: object.clone(),
        out_of_sync: true,
        tracked: false,
        objection: owner.objection(key, object),
        is_itself: false,
    };
    // The results say to whom they are left.
    for (key, object) in
        compared.comparison.left.iter().filter_map(|key| observation.live.get_key_value(key))
    {
        let left = LiveObject { tracked: true, out_of_sync: false, ..other(key, object) };
        live.insert(key.clone(), left);
    }
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
