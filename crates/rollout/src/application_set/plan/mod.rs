//! Which Applications of a set to create, patch and delete.
//!
//! Compares generated with existing Applications and plans writes of owned
//! fields only: the spec, and of the metadata the labels, annotations,
//! finalizers and the owner reference. Live `status` and `operation` and
//! preserved fields are never written (AS-152). An equal Application is not
//! written at all.
//!
//! **A mistake deletes nothing.** An Application may be no longer generated
//! because its name was misspelt, or because its element was lost by a mistake
//! that shows elsewhere. So deletions wait until every generated Application is
//! valid and may be written ([`WritePlan::held`]), and then until each create
//! and update of the reconcile has succeeded, which the caller ensures
//! (AS-148). A generator that finds nothing where it found something holds them,
//! too ([`deletion_guard`](crate::application_set::deletion::deletion_guard)), and an Application that another set generates is not
//! deleted, but changes its owner ([`ownership_transfer`]).

pub mod excluded;
pub(super) mod manual_sync;
pub mod observe;
pub mod operation;
pub mod outcome;
pub mod owner;
pub mod ownership_transfer;
pub mod patch;
pub mod update;
pub mod windows;
pub mod write_plan;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use crate::application_set::generate::generated::Wanted;
use crate::application_set::generate::policy::Policy;
use crate::application_set::generate::validate;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::owner::{ApplicationOwner, Identity};
use crate::application_set::plan::ownership_transfer::Other;
use crate::application_set::plan::update::Update;
use crate::application_set::plan::write_plan::{Create, Delete, Held, Patch, Release, WritePlan};
use crate::application_set::rollout_io::last_good;
use crate::application_set::rollout_io::record;
use crate::application_set::rollout_io::started;
use crate::rollout::listed::CompletionRecord;
use crate::rollout::run::started::Started;
use wavegate_api::Cluster;
use wavegate_api::annotations::{REFRESH, ROLLOUT, RUN};
use wavegate_application::normalize;

/// The most refreshes that a reconcile requests. A new commit affects all
/// Applications at once, and syncs must not wait for all of these writes: the
/// rest is left for the next reconcile, which starts syncs first.
pub const REFRESHES_PER_RECONCILE: usize = 8;

/// The input for the writes of a set.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// Which set.
    pub set: &'a Identity,
    /// The generated Applications by name, including invalid ones: these are
    /// neither written nor deleted, and while there are any, nothing is
    /// deleted.
    pub generated: &'a [Wanted],
    /// Validation errors by name.
    pub invalid: &'a BTreeMap<String, String>,
    /// The existing Applications that the set owns or generates, by name.
    pub existing: &'a [Existing],
    /// Whether the resources of an Application stay when it is deleted.
    pub keeps_resources: bool,
    /// The known clusters, including the local one.
    pub clusters: &'a [Cluster],
    /// Whether automated sync is disabled.
    pub in_rollout: bool,
    /// The writes that are allowed.
    pub policy: Policy,
    /// Operations to start, by Application name.
    pub operations: &'a BTreeMap<String, OperationPolicy>,
    /// Other rollout records to write, by Application name.
    pub records: &'a BTreeMap<String, CompletionRecord>,
    /// Applications to refresh, the most urgent first.
    pub refreshes: &'a [String],
    /// The other sets of the namespace.
    pub others: &'a [Other],
}

/// An operation to start, with what the Application carries of it.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationPolicy {
    /// Its `operation`.
    pub operation: Value,
    /// Its rollout record.
    pub record: Option<CompletionRecord>,
    /// The run that starts it.
    pub started: Option<Started>,
    /// Whether an application controller takes it up.
    pub is_taken_up: bool,
}

/// Plans the writes of one reconcile.
pub fn plan_writes(input: &PlanInput<'_>) -> WritePlan {
    let mut plan = WritePlan::default();
    let is_valid = |name: &str| !input.invalid.contains_key(name);
    if input.policy.creates() {
        let new = with_existing(input)
            .filter(|(wanted, existing)| existing.is_none() && is_valid(&wanted.name));
        plan.creates = new.map(|(wanted, _)| create(input, wanted)).collect();
    }
    let (refreshes, postponed) = refreshes(input);
    plan.postponed = postponed;
    let mut going = None;
    for (existing, wanted) in ownership_transfer::with_wanted(input.existing, input.generated) {
        let is_generated = wanted.is_some();
        let guard = guard(existing);
        plan.guards.extend(guard.clone());
        let is_wanted = is_generated && is_valid(&existing.name);
        if is_wanted && existing.is_going {
            // It is being deleted; the reconcile after its deletion creates it
            // again.
            going = going.or(Some(&*existing.name));
        }
        let update = match is_wanted || (!is_generated && is_left(input, existing)) {
            true => update(input, existing),
            false => Ok(None),
        };
        let update = update.unwrap_or_else(|why| {
            if is_wanted {
                plan.refused.push((existing.name.to_string(), why));
            }
            None
        });
        plan.patches.extend(match update {
            Some(update) => {
                patch(input, (existing, wanted), update, refreshes.contains(&*existing.name))
            }
            None => guard,
        });
    }
    let deletes = deletes(input);
    if deletes.is_empty() {
        plan.held = taken(input);
        return plan;
    }
    match deletions_wait(input, &plan, going) {
        Some(until) => {
            let applications = deletes.into_iter().map(|delete| delete.name).collect();
            plan.held = Some(Held { applications, until });
        }
        None => plan.deletes = deletes,
    }
    plan
}

/// Every generated Application with the existing one of its name.
fn with_existing<'a>(
    input: &PlanInput<'a>,
) -> impl Iterator<Item = (&'a Wanted, Option<&'a Existing>)> + use<'a> {
    let mut existing = input.existing.iter().peekable();
    input.generated.iter().map(move |wanted| {
        while existing.next_if(|one| one.name < wanted.name).is_some() {}
        (wanted, existing.next_if(|one| one.name == wanted.name))
    })
}

/// The patch that only protects an Application. One that is invalid, or must not be written for
/// another reason, is protected like the others.
fn guard(existing: &Existing) -> Option<Patch> {
    Some(Patch {
        name: existing.name.to_string(),
        json: existing.guard.as_ref()?.to_string(),
        starts: false,
        is_taken_up: false,
        changes_spec: true,
        only_records: false,
        refreshes: false,
        step: None,
    })
}

/// Whether an Application that is no longer generated stays, because the policy forbids its
/// deletion: it is protected from garbage collection like the others.
fn is_left(input: &PlanInput<'_>, existing: &Existing) -> bool {
    !input.policy.deletes() && existing.is_owned() && matches!(existing.update, Update::Patch(_))
}

/// The Applications that are no longer generated, if the policy allows their
/// deletion.
fn deletes(input: &PlanInput<'_>) -> Vec<Delete> {
    if !input.policy.deletes() {
        return Vec::new();
    }
    let left = ownership_transfer::left_applications(input.existing, input.generated);
    left.filter(|existing| ownership_transfer::taker(input.others, existing).is_none())
        .map(|existing| Delete {
            name: existing.name.to_string(),
            uid: existing.uid.to_string(),
            version: Some(existing.version.to_string()),
            release: release(input, existing),
        })
        .collect()
}

/// The Applications that are no longer generated and that another set has still to take over.
fn taken(input: &PlanInput<'_>) -> Option<Held> {
    if !input.policy.deletes() {
        return None;
    }
    let left = ownership_transfer::left_applications(input.existing, input.generated);
    let mut taken = left.filter_map(|existing| {
        Some((&existing.name, ownership_transfer::taker(input.others, existing)?))
    });
    let (first, taker) = taken.next()?;
    let of_taker = taken.filter(|(_, other)| *other == taker).map(|(name, _)| name);
    Some(Held {
        applications: std::iter::once(first).chain(of_taker).map(ToString::to_string).collect(),
        until: format!("ApplicationSet {taker} takes over what it generates"),
    })
}

/// The removal of the finalizer for the resources, if the set keeps them or their cluster is unknown
/// (AS-160, AS-166). Of several clusters with its name one is meant: the deletion waits until that is clear.
fn release(input: &PlanInput<'_>, existing: &Existing) -> Option<Release> {
    let held = existing.held.as_ref()?;
    let release = |why| Release { json: held.release.to_string(), why };
    if input.keeps_resources {
        return Some(release(KEPT.to_owned()));
    }
    if validate::clusters_named(&held.target.cluster, input.clusters) > 1 {
        return None;
    }
    let why = validate::destination_problem(&held.target, input.clusters)?;
    Some(release(why))
}

/// Why an Application loses the finalizer for its resources.
const KEPT: &str = "spec.syncPolicy.preserveResourcesOnDeletion of the ApplicationSet";

/// What has to happen before anything is deleted; `None` when all generated
/// Applications can be written.
fn deletions_wait(input: &PlanInput<'_>, plan: &WritePlan, going: Option<&str>) -> Option<String> {
    if let Some(invalid) =
        input.generated.iter().find(|wanted| input.invalid.contains_key(&*wanted.name))
    {
        return Some(format!("application {} is valid", invalid.name));
    }
    if let Some((refused, _)) = plan.refused.first() {
        return Some(format!("application {refused} can be written"));
    }
    Some(format!("application {}, which is being deleted, is recreated", going?))
}

/// Merges one patch into another.
pub(super) fn merge(body: &mut Value, more: Value) {
    match (body, more) {
        (Value::Object(body), Value::Object(more)) => {
            for (key, value) in more {
                match body.get_mut(&key) {
                    Some(field) => merge(field, value),
                    None => {
                        body.insert(key, value);
                    }
                }
            }
        }
        (body, more) => *body = more,
    }
}

/// Why an existing Application must not be written.
pub(super) fn refusal(existing: &Existing) -> Option<String> {
    match (&existing.owner, &existing.update) {
        (ApplicationOwner::Other(owner), _) => Some(format!("it is owned by {owner}")),
        (_, Update::Refused(why)) => Some(why.to_string()),
        _ => None,
    }
}

/// The update of an existing Application as a merge patch, empty when it is up to date; `None`
/// when it must not be changed.
fn update<'a>(input: &PlanInput<'_>, existing: &'a Existing) -> Result<Option<&'a str>, String> {
    let is_of_other = matches!(existing.owner, ApplicationOwner::Other(_));
    if is_of_other && let Some(takeover) = ownership_transfer::takeover(input.others, existing) {
        return Ok(Some(&takeover.patch));
    }
    if existing.is_going && !is_of_other {
        return Ok(None);
    }
    match (refusal(existing), &existing.update) {
        (Some(why), _) => Err(why),
        (None, Update::Patch(json)) => Ok(Some(json)),
        (None, Update::None | Update::Refused(_)) => Ok(Some(EMPTY)),
    }
}

/// A merge patch that changes nothing.
const EMPTY: &str = "{}";

/// What a start, a record and a refresh add to the update of an Application.
#[derive(Serialize)]
struct PatchOfStart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a Value>,
    metadata: MetadataOfStart<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataOfStart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, String>,
}

/// The patch of an existing Application: its update, its operation, our annotations; `None`
/// when nothing changes.
fn patch(
    input: &PlanInput<'_>,
    (existing, wanted): (&Existing, Option<&Wanted>),
    update: &str,
    refreshes: bool,
) -> Option<Patch> {
    let name = &*existing.name;
    let start = input.operations.get(name);
    let record = start.map_or_else(|| input.records.get(name), |start| start.record.as_ref());
    let is_update = update != EMPTY;
    let settled = wanted.filter(|_| start.is_none() && !is_update);
    let deployed = settled.and_then(|wanted| last_good::without_a_sync(existing, wanted));
    let is_annotated = record.is_some() || refreshes || deployed.is_some();
    if !is_update && start.is_none() && !is_annotated {
        return None;
    }
    let started = start.map_or(deployed.as_ref(), |start| start.started.as_ref());
    let annotations = [
        (RUN, started.map(|started| started::text(started, &existing.uid))),
        (ROLLOUT, record.map(|record| record::text(record, &existing.uid))),
        (REFRESH, refreshes.then(|| "normal".to_owned())),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let annotations: BTreeMap<&str, String> = annotations.collect();
    let more = PatchOfStart {
        operation: start.map(|start| &start.operation),
        metadata: MetadataOfStart {
            resource_version: (start.is_some() || deployed.is_some()).then_some(&*existing.version),
            annotations,
        },
    };
    let json = match start.is_some() || is_annotated {
        false => update.to_owned(),
        true => {
            let mut body: Value = serde_json::from_str(update).unwrap_or_default();
            merge(&mut body, json!(more));
            body.to_string()
        }
    };
    Some(Patch {
        name: name.to_owned(),
        json,
        starts: start.is_some(),
        is_taken_up: start.is_some_and(|start| start.is_taken_up),
        changes_spec: is_update,
        only_records: !is_update && start.is_none() && !refreshes,
        refreshes,
        step: wanted.and_then(|wanted| wanted.steps.step()),
    })
}

/// The most urgent refreshes of Applications that may be written, and how many are left for the
/// next reconcile.
fn refreshes<'a>(input: &PlanInput<'a>) -> (BTreeSet<&'a str>, usize) {
    let may_be_refreshed = |name: &&str| {
        let found = input.existing.binary_search_by(|one| (*one.name).cmp(name));
        let Some(existing) = found.ok().map(|at| &input.existing[at]) else { return false };
        let generated = input.generated.binary_search_by(|wanted| (*wanted.name).cmp(name));
        let is_written = match generated {
            Ok(_) => !input.invalid.contains_key(*name),
            Err(_) => is_left(input, existing),
        };
        is_written && !existing.is_refreshing && matches!(update(input, existing), Ok(Some(_)))
    };
    let mut names = input.refreshes.iter().map(String::as_str).filter(may_be_refreshed);
    let first = names.by_ref().take(REFRESHES_PER_RECONCILE).collect();
    (first, names.count())
}

fn create(input: &PlanInput<'_>, wanted: &Wanted) -> Create {
    let mut object = wanted.written(input.in_rollout);
    if let Some(spec) = object.get_mut("spec") {
        normalize::empty_objects(spec);
    }
    let owners = owner::new_owner_references(input.set, input.policy);
    merge(&mut object, json!({ "metadata": { "ownerReferences": owners } }));
    let step = wanted.steps.step();
    Create { name: wanted.name.to_string(), json: object.to_string(), step }
}
