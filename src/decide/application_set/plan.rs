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
//! too ([`emptied`](super::emptied)), and an Application that another set generates is not
//! deleted, but changes its owner ([`others`]).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::generated::Wanted;
use super::observe::Existing;
use super::others::{self, Other};
use super::owner::{self, Identity, Owner};
use super::policy::Policy;
use super::update::Update;
use super::write_plan::{Create, Delete, Held, Patch, Release, WritePlan};
use super::{normalize, record, validate};
use crate::api::Cluster;
use crate::api::annotations::{REFRESH, ROLLOUT};
use crate::decide::rollout::listed::Record;

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
    /// The known clusters, including the local one.
    pub clusters: &'a [Cluster],
    /// Whether automated sync is disabled.
    pub in_rollout: bool,
    /// The writes that are allowed.
    pub policy: Policy,
    /// Operations to start with their rollout records, by Application name.
    pub operations: &'a BTreeMap<String, (Value, Option<Record>)>,
    /// Other rollout records to write, by Application name.
    pub records: &'a BTreeMap<String, Record>,
    /// Applications to refresh, the most urgent first.
    pub refreshes: &'a [String],
    /// The other sets of the namespace.
    pub others: &'a [Other],
}

/// Plans the writes of one reconcile.
pub fn plan(input: &PlanInput<'_>) -> WritePlan {
    let mut plan = WritePlan::default();
    let mut bodies: BTreeMap<&str, Body<'_>> = BTreeMap::new();
    let mut going = None;
    for (wanted, existing) in with_existing(input) {
        if input.invalid.contains_key(&*wanted.name) {
            continue;
        }
        let Some(existing) = existing else {
            if input.policy.creates() {
                plan.creates.push(create(input, wanted));
            }
            continue;
        };
        if existing.is_going {
            // It is being deleted; the reconcile after its deletion creates it
            // again.
            going = going.or(Some(&*existing.name));
        }
        match body(input, existing) {
            Ok(body) => bodies.extend(body.map(|body| (&*existing.name, body))),
            Err(why) => plan.refused.push((existing.name.to_string(), why)),
        }
    }
    for existing in input.existing.iter().filter(|one| is_left(input, one)) {
        if let Ok(Some(body)) = body(input, existing) {
            bodies.insert(&existing.name, body);
        }
    }
    plan.postponed = add_refreshes(input, &mut bodies);
    plan.guards = input.existing.iter().filter_map(guard).collect();
    let patch = |existing: &Existing| {
        let body = bodies.remove(&*existing.name);
        let is_planned = body.is_some();
        let patch = body.map(|body| body.into_patch(&existing.name));
        let protects = || guard(existing).filter(|_| !is_planned);
        patch.filter(|patch| patch.json != "{}").or_else(protects)
    };
    plan.patches = input.existing.iter().filter_map(patch).collect();
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
        changes_spec: true,
        only_records: false,
    })
}

/// Whether an owned Application is no longer generated and stays, because the policy
/// forbids its deletion: it is protected from garbage collection like the others.
fn is_left(input: &PlanInput<'_>, existing: &Existing) -> bool {
    let is_generated =
        || input.generated.binary_search_by(|wanted| (*wanted.name).cmp(&existing.name)).is_ok();
    !input.policy.deletes()
        && existing.is_owned()
        && matches!(existing.update, Update::Patch(_))
        && !is_generated()
}

/// The Applications that are no longer generated, if the policy allows their
/// deletion.
fn deletes(input: &PlanInput<'_>) -> Vec<Delete> {
    if !input.policy.deletes() {
        return Vec::new();
    }
    let left = others::left(input.existing, input.generated);
    left.filter(|existing| others::taker(input.others, existing).is_none())
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
    let left = others::left(input.existing, input.generated);
    let mut taken =
        left.filter_map(|existing| Some((&existing.name, others::taker(input.others, existing)?)));
    let (first, taker) = taken.next()?;
    let of_taker = taken.filter(|(_, other)| *other == taker).map(|(name, _)| name);
    Some(Held {
        applications: std::iter::once(first).chain(of_taker).map(ToString::to_string).collect(),
        until: format!("ApplicationSet {taker} takes over what it generates"),
    })
}

/// The removal of the finalizer for the resources, if their cluster is unknown
/// (AS-166).
fn release(input: &PlanInput<'_>, existing: &Existing) -> Option<Release> {
    let held = existing.held.as_ref()?;
    let why = validate::destination_problem(&held.target, input.clusters)?;
    Some(Release { json: held.release.to_string(), why })
}

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

/// A patch under construction.
struct Body<'a> {
    /// The planned update.
    update: &'a str,
    /// Additional fields.
    more: Value,
    existing: &'a Existing,
    starts: bool,
    refreshes: bool,
}

impl Body<'_> {
    fn into_patch(self, name: &str) -> Patch {
        let is_update = self.update != "{}";
        let json = match self.more == json!({}) {
            true => self.update.to_owned(),
            false => {
                let mut body: Value = serde_json::from_str(self.update).unwrap_or_default();
                merge(&mut body, self.more);
                body.to_string()
            }
        };
        Patch {
            name: name.to_owned(),
            json,
            starts: self.starts,
            changes_spec: is_update,
            only_records: !is_update && !self.starts && !self.refreshes,
        }
    }

    fn annotate(&mut self, key: &str, value: String) {
        self.more["metadata"]["annotations"][key] = value.into();
    }
}

/// Merges one patch into another.
pub(super) fn merge(body: &mut Value, more: Value) {
    match (body, more) {
        (Value::Object(body), Value::Object(more)) => {
            for (key, value) in more {
                match body.get_mut(&key) {
                    Some(field) if field.is_object() => merge(field, value),
                    _ => {
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
        (Owner::Other(owner), _) => Some(format!("it is owned by {owner}")),
        (_, Update::Refused(why)) => Some(why.to_string()),
        _ => None,
    }
}

/// The patch of an existing Application, empty when it is up to date; `None`
/// when it must not be changed.
fn body<'a>(input: &PlanInput<'_>, existing: &'a Existing) -> Result<Option<Body<'a>>, String> {
    if let Owner::Other(_) = existing.owner {
        if let Some(takeover) = others::takeover(input.others, existing) {
            let update = &*takeover.patch;
            let more = json!({});
            return Ok(Some(Body { update, more, existing, starts: false, refreshes: false }));
        }
        return refusal(existing).map_or(Ok(None), Err);
    }
    if existing.is_going {
        return Ok(None);
    }
    if let Some(why) = refusal(existing) {
        return Err(why);
    }
    let update = match &existing.update {
        Update::None | Update::Refused(_) => "{}",
        Update::Patch(json) => json,
    };
    let mut body = Body { update, more: json!({}), existing, starts: false, refreshes: false };
    let recorded = match input.operations.get(&*existing.name) {
        Some((operation, record)) => {
            body.starts = true;
            body.more["operation"] = operation.clone();
            body.more["metadata"]["resourceVersion"] = (*existing.version).into();
            record.as_ref()
        }
        None => input.records.get(&*existing.name),
    };
    if let Some(record) = recorded {
        body.annotate(ROLLOUT, record::text(record, &existing.uid));
    }
    Ok(Some(body))
}

/// Requests refreshes of the most urgent Applications that may be written;
/// returns how many are left for the next reconcile.
fn add_refreshes(input: &PlanInput<'_>, bodies: &mut BTreeMap<&str, Body<'_>>) -> usize {
    let mut left = REFRESHES_PER_RECONCILE;
    let mut postponed = 0;
    for name in input.refreshes {
        let Some(body) = bodies.get_mut(&**name).filter(|body| !body.existing.is_refreshing) else {
            continue;
        };
        if left == 0 {
            postponed += 1;
            continue;
        }
        left -= 1;
        body.refreshes = true;
        body.annotate(REFRESH, "normal".to_owned());
    }
    postponed
}

fn create(input: &PlanInput<'_>, wanted: &Wanted) -> Create {
    let mut object = wanted.written(input.in_rollout);
    normalize::empty_objects(&mut object["spec"]);
    object["metadata"]["ownerReferences"] = owner::new_owner_references(input.set, input.policy);
    Create { name: wanted.name.to_string(), json: object.to_string() }
}
