//! Pairs of targets and live objects (SE-140 … SE-149, SE-490 … SE-494).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::children;
use crate::compared::{ComparedResource, ComparisonFacts};
use crate::condition::NewCondition;
use crate::differences::{DiffCache, Difference, prediction};
use crate::operation;
use crate::predicted::Prediction;
use crate::project::Permits;
use crate::summary::summary;
use crate::targets::PlacedTarget;
use crate::warnings::warnings;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::conditions::application as types;
use wavegate_api::tracking::{from_instance_name, instance_of};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff::{self, SyncStatus};
use wavegate_engine::health::{self, Health};
use wavegate_engine::sync::{Handover, ObjectClass, classify_hook};

/// Failed dry runs that conditions name; there is rarely more than one reason.
const NAMED_FAILURES: usize = 10;

/// The outcome of a comparison.
#[derive(Clone, Debug)]
pub struct ComparedApplication {
    /// The Application's sync status.
    pub sync: SyncStatus,
    /// The Application's health.
    pub health: Health,
    /// Its resources, sorted by group, kind, namespace and name.
    pub resources: Vec<ComparedResource>,
    /// What it tracks and has no longer in its source, but another Application has: it is that
    /// one's, and none of the resources.
    pub left: Vec<ResourceKey>,
    /// The conditions; without those of the targets themselves.
    pub conditions: Vec<NewCondition>,
    /// The health scripts that failed (SE-442). Nothing is held by it, except what waits for
    /// the health of these objects.
    pub health_error: Option<NewCondition>,
    /// What the status says about all resources together (SE-061).
    pub summary: ApplicationSummary,
    /// Messages of `SharedResourceWarning`.
    pub shared: Vec<String>,
    /// Whether no dry run failed.
    pub is_predicted: bool,
}

/// Compares one Application with its cluster.
pub fn compare(facts: &ComparisonFacts<'_>, cache: &DiffCache) -> ComparedApplication {
    let mut resources = Vec::new();
    let mut conditions = Vec::new();
    let mut shared = Vec::new();
    let mut exhausted = BTreeMap::new();
    let differences = cache.differences(facts);
    let mut unpredicted = Vec::new();
    let mut claimed = BTreeSet::new();
    for target in facts.targets {
        let live = facts.live.get(&target.key).filter(|_| !target.key.name.is_empty());
        claimed.insert(&target.key);
        if let Some(other) = live.and_then(|live| shared_with(facts, live)) {
            let ResourceKey { kind, name, .. } = &target.key;
            let this = display(&facts.tracking.instance, facts.control_plane_namespace);
            let message = format!("{kind}/{name} is part of applications {this} and {other}");
            conditions.push(NewCondition::new(types::SHARED_RESOURCE_WARNING, message.as_str()));
            shared.push(message);
        }
        match target.class {
            // A target that is not a resource still accounts for its object in
            // the cluster.
            ObjectClass::DeleteHook | ObjectClass::Ignored => continue,
            ObjectClass::Hook(_) if live.is_none() => continue,
            _ => {}
        }
        if let Some(Prediction::Failed(why)) = prediction(facts, target, live) {
            unpredicted.push((&target.key, why));
        }
        resources.push(pair(facts, &differences, &target.key, Some(target), live, &mut exhausted));
    }
    let uids: BTreeSet<&str> = resources.iter().filter_map(|r| uid(r.live.as_deref()?)).collect();
    let extra: Vec<_> = (facts.live.iter())
        .filter(|(key, live)| !claimed.contains(key) && is_managed(facts, key, live))
        .filter(|(_, live)| uid(live).is_none_or(|uid| !uids.contains(uid)))
        .collect();
    let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
    for (key, live) in extra {
        if let Some(Handover::Left(_)) = facts.handovers.get(key) {
            left.push(key.clone());
            continue;
        }
        // One object may exist in several API groups.
        if uid(live).is_none_or(|uid| seen.insert(uid)) {
            resources.push(pair(facts, &differences, key, None, Some(live), &mut exhausted));
        }
    }
    conditions.extend(warnings(facts, &resources));
    let place = |r: &ComparedResource| {
        let ResourceKey { group, kind, namespace, name } = &r.key;
        format!("{group}/{kind}/{namespace}/{name}")
    };
    resources.sort_by_cached_key(place);
    conditions.extend(exhausted.iter().map(|(rule, key)| {
        let ResourceKey { kind, name, .. } = key;
        NewCondition::comparison(format!(
            "ignoreDifferences: jqPathExpressions {rule} (on {kind}/{name}); use a simpler expression"
        ))
    }));
    let is_predicted = unpredicted.is_empty();
    conditions.extend(unpredicted.into_iter().take(NAMED_FAILURES).map(|(key, why)| {
        let ResourceKey { kind, name, .. } = key;
        NewCondition::comparison(format!(
            "Failed to compare desired state to live state: failed to calculate diff: error \
             calculating server side diff: {kind}/{name}: {why}"
        ))
    }));

    let circumstances = diff::SyncStatusInput {
        failed: false,
        namespace_metadata_changed: facts.namespace_metadata_changed,
    };
    let synced: Vec<diff::ResourceState<'_>> =
        resources.iter().map(ComparedResource::sync).collect();
    let sync = diff::of_application(&synced, circumstances);
    ComparedApplication {
        sync,
        health: health_of(facts, &resources),
        health_error: health_error(facts, &resources),
        conditions,
        summary: summary(&resources),
        shared,
        resources,
        left,
        is_predicted,
    }
}

/// Whether the Application manages a live object: tracked, without an owner,
/// and permitted by the project (SE-082, SE-115).
pub(crate) fn is_managed(facts: &ComparisonFacts<'_>, key: &ResourceKey, live: &Value) -> bool {
    facts.tracking.owns(live)
        && !has_owner(live)
        && !is_made(facts, key, live)
        && is_permitted(facts, key, live)
}

/// Whether a controller made it from another object ([`children`]).
fn is_made(facts: &ComparisonFacts<'_>, key: &ResourceKey, live: &Value) -> bool {
    let targets = facts.targets.iter().map(|target| (&target.key, &*target.object));
    children::is_made(facts.tracking, key, live, facts.live, targets)
}

pub(crate) fn has_owner(live: &Value) -> bool {
    live.owners().next().is_some()
}

pub(crate) fn is_permitted(facts: &ComparisonFacts<'_>, key: &ResourceKey, object: &Value) -> bool {
    let (server, cluster) = facts.cluster;
    Permits { project: facts.project, server, cluster }.denial(key, object).is_none()
}

/// Whether the project permits the kind; the namespace may be denied nevertheless.
fn is_kind_permitted(facts: &ComparisonFacts<'_>, key: &ResourceKey, object: &Value) -> bool {
    let (server, cluster) = facts.cluster;
    Permits { project: facts.project, server, cluster }.denies_kind(key, object).is_none()
}

fn pair(
    facts: &ComparisonFacts<'_>,
    differences: &HashMap<u64, Difference>,
    key: &ResourceKey,
    target: Option<&PlacedTarget>,
    live: Option<&Arc<Value>>,
    exhausted: &mut BTreeMap<String, ResourceKey>,
) -> ComparedResource {
    let object = target.map(|target| &target.object);
    let class = match (target, live) {
        (Some(target), _) => target.class.clone(),
        (None, Some(live)) => classify_hook(live),
        (None, None) => ObjectClass::Resource,
    };
    let destination = &facts.spec.destination.namespace;
    let policy = facts.spec.sync_policy.as_ref();
    let managed_namespace = is_namespace(key, destination)
        && policy.is_some_and(|policy| policy.managed_namespace_metadata.is_some());
    let prediction = target.and_then(|target| prediction(facts, target, live));
    let predicted = match prediction {
        Some(Prediction::Answer(answer, of)) => Some((answer, of)),
        Some(Prediction::Failed(_)) | None => None,
    };
    let modified = match (target, live, &class) {
        // It is not known.
        (Some(_), Some(_), _) if matches!(prediction, Some(Prediction::Failed(_))) => false,
        (Some(_), Some(_), ObjectClass::Resource) => {
            let found = differences.get(&key.digest());
            for rule in found.into_iter().flat_map(|found| &found.exhausted) {
                exhausted.entry(rule.clone()).or_insert_with(|| key.clone());
            }
            found.is_none_or(|found| found.modified)
        }
        (Some(_), None, ObjectClass::Resource) => true,
        (None, Some(live), _) => managed_namespace && lacks_metadata(facts, live),
        _ => false,
    };
    let self_referenced = match (target, live) {
        (Some(_), Some(live)) => {
            !facts.tracking.owns(live) || facts.tracking.is_self_referenced(live, key)
        }
        (None, Some(live)) => facts.tracking.is_self_referenced(live, key),
        (_, None) => true,
    };
    ComparedResource {
        version: object.or(live).map_or("", |object| object.version()).to_owned(),
        permitted: object.or(live).is_some_and(|object| is_kind_permitted(facts, key, object)),
        managed_namespace,
        health: live.and_then(|live| facts.checks.of(live)),
        key: key.clone(),
        target: object.cloned(),
        live: live.cloned(),
        class,
        modified,
        is_comparable: !matches!(prediction, Some(Prediction::Failed(_))),
        predicted: predicted.map(|(answer, _)| Arc::clone(answer)),
        self_referenced,
    }
}

/// Whether a namespace lacks labels or annotations of `managedNamespaceMetadata` (SE-144).
fn lacks_metadata(facts: &ComparisonFacts<'_>, live: &Value) -> bool {
    let policy = facts.spec.sync_policy.as_ref();
    let Some(wanted) = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()) else {
        return false;
    };
    wanted.labels.iter().any(|(key, value)| live.label(key) != Some(value))
        || wanted.annotations.iter().any(|(key, value)| live.annotation(key) != Some(value))
}

fn is_namespace(key: &ResourceKey, name: &str) -> bool {
    key.group.is_empty() && key.kind == "Namespace" && key.name == name && !name.is_empty()
}

/// The other Application that a live object belongs to (SE-117).
fn shared_with(facts: &ComparisonFacts<'_>, live: &Value) -> Option<String> {
    let tracking = facts.tracking;
    let other = instance_of(tracking.method, &tracking.label, live)?;
    let other = (other != tracking.instance && !other.is_empty()).then_some(other)?;
    Some(display(other, facts.control_plane_namespace))
}

fn display(instance: &str, control_plane_namespace: &str) -> String {
    let (namespace, name) = from_instance_name(instance, control_plane_namespace);
    format!("{namespace}/{name}")
}

fn uid(object: &Value) -> Option<&str> {
    Some(object.uid()).filter(|uid| !uid.is_empty())
}

fn health_error(
    facts: &ComparisonFacts<'_>,
    resources: &[ComparedResource],
) -> Option<NewCondition> {
    let mut failed = resources.iter().filter(|resource| !resource.is_hook()).filter_map(|one| {
        let error = facts.checks.script_error(one.live.as_deref()?)?;
        Some((&one.key, error))
    });
    let (ResourceKey { kind, namespace, name, .. }, error) = failed.next()?;
    let more = match failed.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(NewCondition::comparison(format!(
        "error setting app health: failed to get resource health for {kind:?} with name {name:?} \
         in namespace {namespace:?}: {error}{more}"
    )))
}

fn health_of(facts: &ComparisonFacts<'_>, resources: &[ComparedResource]) -> Health {
    let is_itself =
        |key: &ResourceKey, live: &Value| operation::is_itself(facts.application, key, live);
    let all: Vec<health::Resource<'_>> = (resources.iter())
        .map(|resource| {
            let ResourceKey { group, kind, namespace, name } = &resource.key;
            health::Resource {
                group,
                kind,
                namespace,
                name,
                live: resource.live.as_deref(),
                health: resource.health.clone(),
                hook: resource.is_hook(),
                skipped: resource.class == ObjectClass::Skipped,
                self_referenced: resource.self_referenced,
                is_the_application: (resource.live.as_deref())
                    .is_some_and(|live| is_itself(&resource.key, live)),
            }
        })
        .collect();
    health::combine_health(&all).health
}
