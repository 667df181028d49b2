//! Pairs of targets and live objects (SE-140 … SE-149, SE-490 … SE-494).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::children;
use super::compared::{ComparedResource, Facts};
use super::condition::Condition;
use super::memory::digest;
use super::operation;
use super::predicted::Prediction;
use super::project::Permits;
use super::summary::summary;
use super::targets::Target;
use super::warnings::warnings;
use wavegate_api::annotations::TRACKING_ID;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::conditions::application as types;
use wavegate_api::raw::object_at;
use wavegate_api::tracking::{Tracking, from_instance_name, instance_of};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff::{self, SyncStatus};
use wavegate_engine::health::{self, Health};
use wavegate_engine::sync::{Class, classify};

/// Failed dry runs that conditions name; there is rarely more than one reason.
const NAMED_FAILURES: usize = 10;

/// The outcome of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The Application's sync status.
    pub sync: SyncStatus,
    /// The Application's health.
    pub health: Health,
    /// Its resources, sorted by group, kind, namespace and name.
    pub resources: Vec<ComparedResource>,
    /// The conditions; without those of the targets themselves.
    pub conditions: Vec<Condition>,
    /// The health scripts that failed (SE-442). Nothing is held by it, except what waits for
    /// the health of these objects.
    pub health_error: Option<Condition>,
    /// What the status says about all resources together (SE-061).
    pub summary: ApplicationSummary,
    /// Messages of `SharedResourceWarning`.
    pub shared: Vec<String>,
    /// Whether no dry run failed.
    pub is_predicted: bool,
}

/// Results of earlier comparisons: an event of one object does not compare the
/// others again. An entry is valid for one version of the live object, one
/// target, one prediction of the server and one digest of the rules.
#[derive(Debug, Default)]
pub struct DiffCache(Mutex<Differences>);

#[derive(Debug, Default)]
struct Differences {
    rules: u64,
    /// By the digest of the target's key.
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Digest of UID and resource version of the live object, of the target and the prediction.
    of: u64,
    difference: Difference,
}

/// The result of comparing two objects.
#[derive(Clone, Debug, Default)]
struct Difference {
    modified: bool,
    /// Ignore rules that exceed a limit.
    exhausted: Vec<String>,
}

impl DiffCache {
    /// Removes everything when the digest of the rules has changed.
    pub fn follow(&self, rules: u64) {
        let mut known = self.0.lock();
        if known.rules != rules {
            known.entries.clear();
            known.rules = rules;
        }
    }
}

/// How many objects are compared at a time: their ignore rules are evaluated together.
const TOGETHER: usize = 256;

impl Differences {
    /// The differences of all targets with a live object, by the digest of the key.
    fn all(&mut self, facts: &Facts<'_>) -> HashMap<u64, Difference> {
        let mut found = HashMap::new();
        let (mut unknown, mut answered) = (Vec::new(), Vec::new());
        for target in facts.targets.iter().filter(|target| target.class == Class::Resource) {
            let live = facts.live.get(&target.key).filter(|_| !target.key.name.is_empty());
            let Some(live) = live else { continue };
            let (answer, answer_digest) = match prediction(facts, target, Some(live)) {
                // What would change is not known.
                Some(Prediction::Failed(_)) => continue,
                Some(Prediction::Answer(answer, of)) => (Some(&**answer), Some(*of)),
                None => (None, None),
            };
            let (key, of) = (target.key.digest(), version(target, live, answer_digest));
            let (object, live) = (&*target.object, &**live);
            match (self.entries.get(&key).filter(|entry| Some(entry.of) == of), answer) {
                (Some(entry), _) => drop(found.insert(key, entry.difference.clone())),
                (None, Some(answer)) if migrated(facts.tracking, object, live).is_none() => {
                    answered.push((key, of, (object, live, answer)));
                }
                // As in `compare_objects`.
                (None, _) => unknown.push((key, of, object, live)),
            }
        }
        // Without server-side diff, nothing is answered.
        let how = facts.config.server_side.unwrap_or_default();
        for some in answered.chunks(TOGETHER) {
            let predicted: Vec<_> = some.iter().map(|(.., predicted)| *predicted).collect();
            for ((key, of, _), compared) in
                some.iter().zip(diff::compare_all_predicted(&predicted, facts.config, how))
            {
                found.insert(*key, self.keep(*key, *of, compared));
            }
        }
        for some in unknown.chunks(TOGETHER) {
            let migrated: Vec<Option<Value>> = (some.iter())
                .map(|(.., target, live)| migrated(facts.tracking, target, live))
                .collect();
            let pairs: Vec<(&Value, &Value)> = (some.iter().zip(&migrated))
                .map(|((.., target, live), migrated)| (*target, migrated.as_ref().unwrap_or(live)))
                .collect();
            for ((key, of, ..), compared) in
                some.iter().zip(diff::compare_all(&pairs, facts.config))
            {
                found.insert(*key, self.keep(*key, *of, compared));
            }
        }
        found
    }

    /// The difference, which is kept for the next comparison if it is final.
    fn keep(&mut self, key: u64, of: Option<u64>, compared: diff::Comparison) -> Difference {
        let is_provisional = compared.is_provisional;
        let difference =
            Difference { modified: compared.modified, exhausted: compared.exhausted_rules };
        if let Some(of) = of.filter(|_| !is_provisional) {
            self.entries.insert(key, Entry { of, difference: difference.clone() });
        }
        difference
    }
}

/// The digest of what a difference depends on besides the rules; `None` when it is not known.
fn version(target: &Target, live: &Value, predicted: Option<u64>) -> Option<u64> {
    let version = Some(live.resource_version()).filter(|version| !version.is_empty())?;
    Some(digest(&(uid(live)?, version, target.digest, predicted)))
}

/// Compares one Application with its cluster.
pub fn compare(facts: &Facts<'_>, cache: &DiffCache) -> Comparison {
    let mut cache = cache.0.lock();
    let mut resources = Vec::new();
    let mut conditions = Vec::new();
    let mut shared = Vec::new();
    let mut exhausted = BTreeMap::new();
    let differences = cache.all(facts);
    let mut unpredicted = Vec::new();
    let mut claimed = BTreeSet::new();
    for target in facts.targets {
        let live = facts.live.get(&target.key).filter(|_| !target.key.name.is_empty());
        claimed.insert(&target.key);
        if let Some(other) = live.and_then(|live| shared_with(facts, live)) {
            let ResourceKey { kind, name, .. } = &target.key;
            let this = display(&facts.tracking.instance, facts.control_plane_namespace);
            let message = format!("{kind}/{name} is part of applications {this} and {other}");
            conditions.push(Condition::new(types::SHARED_RESOURCE_WARNING, message.as_str()));
            shared.push(message);
        }
        match target.class {
            // A target that is not a resource still accounts for its object in
            // the cluster.
            Class::DeleteHook | Class::Ignored => continue,
            Class::Hook(_) if live.is_none() => continue,
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
    let mut seen = BTreeSet::new();
    for (key, live) in extra {
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
    let present: BTreeSet<u64> = resources.iter().map(|r| r.key.digest()).collect();
    cache.entries.retain(|key, _| present.contains(key));

    conditions.extend(exhausted.iter().map(|(rule, key)| {
        let ResourceKey { kind, name, .. } = key;
        Condition::comparison(format!(
            "ignoreDifferences: jqPathExpressions {rule} (on {kind}/{name}); use a simpler expression"
        ))
    }));
    let is_predicted = unpredicted.is_empty();
    conditions.extend(unpredicted.into_iter().take(NAMED_FAILURES).map(|(key, why)| {
        let ResourceKey { kind, name, .. } = key;
        Condition::comparison(format!(
            "Failed to compare desired state to live state: failed to calculate diff: error \
             calculating server side diff: {kind}/{name}: {why}"
        ))
    }));

    let circumstances = diff::Circumstances {
        failed: false,
        namespace_metadata_changed: facts.namespace_metadata_changed,
    };
    let synced: Vec<diff::Resource<'_>> = resources.iter().map(ComparedResource::sync).collect();
    let sync = diff::of_application(&synced, circumstances);
    Comparison {
        sync,
        health: health_of(facts, &resources),
        health_error: health_error(facts, &resources),
        conditions,
        summary: summary(&resources),
        shared,
        resources,
        is_predicted,
    }
}

/// Whether the Application manages a live object: tracked, without an owner,
/// and permitted by the project (SE-082, SE-115).
pub(super) fn is_managed(facts: &Facts<'_>, key: &ResourceKey, live: &Value) -> bool {
    facts.tracking.owns(live)
        && !has_owner(live)
        && !is_made(facts, key, live)
        && is_permitted(facts, key, live)
}

/// Whether a controller made it from another object ([`children`]).
fn is_made(facts: &Facts<'_>, key: &ResourceKey, live: &Value) -> bool {
    let targets = facts.targets.iter().map(|target| (&target.key, &*target.object));
    children::is_made(facts.tracking, key, live, facts.live, targets)
}

pub(super) fn has_owner(live: &Value) -> bool {
    live.owners().next().is_some()
}

pub(super) fn is_permitted(facts: &Facts<'_>, key: &ResourceKey, object: &Value) -> bool {
    let (server, cluster) = facts.cluster;
    Permits { project: facts.project, server, cluster }.denial(key, object).is_none()
}

/// Whether the project permits the kind; the namespace may be denied nevertheless.
fn is_kind_permitted(facts: &Facts<'_>, key: &ResourceKey, object: &Value) -> bool {
    let (server, cluster) = facts.cluster;
    Permits { project: facts.project, server, cluster }.denies_kind(key, object).is_none()
}

fn pair(
    facts: &Facts<'_>,
    differences: &HashMap<u64, Difference>,
    key: &ResourceKey,
    target: Option<&Target>,
    live: Option<&Arc<Value>>,
    exhausted: &mut BTreeMap<String, ResourceKey>,
) -> ComparedResource {
    let object = target.map(|target| &target.object);
    let class = match (target, live) {
        (Some(target), _) => target.class.clone(),
        (None, Some(live)) => classify(live),
        (None, None) => Class::Resource,
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
        (Some(_), Some(_), Class::Resource) => {
            let found = differences.get(&key.digest());
            for rule in found.into_iter().flat_map(|found| &found.exhausted) {
                exhausted.entry(rule.clone()).or_insert_with(|| key.clone());
            }
            found.is_none_or(|found| found.modified)
        }
        (Some(_), None, Class::Resource) => true,
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
fn lacks_metadata(facts: &Facts<'_>, live: &Value) -> bool {
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

/// What the server predicts of an object, if it was asked.
fn prediction<'a>(
    facts: &Facts<'a>,
    target: &Target,
    live: Option<&Arc<Value>>,
) -> Option<&'a Prediction> {
    facts.config.server_side?;
    live.filter(|_| target.class == Class::Resource)?;
    facts.predicted.get(&target.key)
}

/// The difference of a target and its live object; the one comparison of both. `predicted` is
/// what the server says that the live object would become (SE-158).
pub fn compare_objects(
    tracking: &Tracking,
    config: &diff::Config,
    (target, live): (&Value, &Value),
    predicted: Option<&Value>,
    values: diff::Values,
) -> diff::Comparison {
    let migrated = migrated(tracking, target, live);
    let found = migrated.as_ref().unwrap_or(live);
    match (predicted, config.server_side) {
        (Some(answer), Some(how)) if migrated.is_none() => {
            diff::compare_predicted((target, live), answer, config, how)
        }
        // What tracks the object changes, which is no difference: the server does not know that.
        _ => diff::compare_states(Some(target), Some(found), config, values),
    }
}

/// The live object as if it were tracked by annotation, if it still has the
/// label of the former method (SE-118).
fn migrated(tracking: &Tracking, target: &Value, live: &Value) -> Option<Value> {
    let is_annotated = live.annotations().is_some_and(|own| own.contains_key(TRACKING_ID));
    if tracking.method.is_by_label() || is_annotated {
        return None;
    }
    live.label(&tracking.label).filter(|own| *own == tracking.instance)?;
    let id = target.annotations()?.get(TRACKING_ID)?.clone();
    let is_labelled = target.labels().is_some_and(|own| own.contains_key(&tracking.label));
    let mut live = live.clone();
    let metadata = live.get_mut("metadata")?.as_object_mut()?;
    object_at(metadata, "annotations")?.insert(TRACKING_ID.to_owned(), id);
    if !is_labelled {
        object_at(metadata, "labels")?.remove(&tracking.label);
    }
    Some(live)
}

/// The other Application that a live object belongs to (SE-117).
fn shared_with(facts: &Facts<'_>, live: &Value) -> Option<String> {
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

fn health_error(facts: &Facts<'_>, resources: &[ComparedResource]) -> Option<Condition> {
    let mut failed = resources.iter().filter(|resource| !resource.is_hook()).filter_map(|one| {
        let error = facts.checks.script_error(one.live.as_deref()?)?;
        Some((&one.key, error))
    });
    let (ResourceKey { kind, namespace, name, .. }, error) = failed.next()?;
    let more = match failed.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(Condition::comparison(format!(
        "error setting app health: failed to get resource health for {kind:?} with name {name:?} \
         in namespace {namespace:?}: {error}{more}"
    )))
}

fn health_of(facts: &Facts<'_>, resources: &[ComparedResource]) -> Health {
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
                skipped: resource.class == Class::Skipped,
                self_referenced: resource.self_referenced,
                is_the_application: (resource.live.as_deref())
                    .is_some_and(|live| is_itself(&resource.key, live)),
            }
        })
        .collect();
    health::combine(&all).health
}
