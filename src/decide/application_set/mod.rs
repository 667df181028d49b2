//! The Applications of a set: which to create, patch and delete.
//!
//! Compares what is generated with what exists and plans writes that name only
//! what the set owns: the spec, and of the metadata the labels, annotations,
//! finalizers and the owner reference. Live `status` and `operation`, and what
//! the user asked to preserve, are never touched (AS-152). An equal Application
//! is not written at all.
//!
//! **A mistake deletes nothing.** An Application that is generated no more may
//! be one whose name was misspelt, or whose element was lost by a mistake that
//! shows elsewhere. So deletions wait until every generated Application is
//! valid and may be written ([`WritePlan::held`]), and then until each create and
//! update of the pass has succeeded, which whoever carries the plan out sees
//! to (AS-148).

pub mod autosync;
pub mod deletion;
pub mod ignore;
pub mod normalize;
pub mod observe;
pub mod operation;
pub mod patch;
pub mod policy;
pub mod preserve;
pub mod shape;
pub mod status;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use self::ignore::Ignore;
use self::policy::Policy;
use self::preserve::Preserve;
use crate::api::API_VERSION;
use crate::api::annotations::REFRESH;
use crate::decide::merge_patch::merge_patch;

/// How many Applications a pass asks to be compared again. A commit makes the
/// whole fleet ask for it at once, and no sync shall wait for all of these
/// writes: what is left is for the next pass, which starts syncs first.
pub const REFRESHES_PER_PASS: usize = 8;

/// Where the writes of a set stand against what exists.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The ApplicationSet, raw.
    pub set: &'a Value,
    /// The valid generated Applications by name, rewritten for the strategy
    /// already.
    pub generated: &'a BTreeMap<String, Arc<Value>>,
    /// What every generated Application is called, the invalid ones too: these
    /// are not deleted, and while there are any nothing is.
    pub generated_names: &'a BTreeSet<String>,
    /// All existing Applications of the namespace by name, whoever owns them.
    pub existing: &'a BTreeMap<String, Arc<Value>>,
    /// What may be written.
    pub policy: Policy,
    /// What is kept of live metadata.
    pub preserve: &'a Preserve,
    /// Fields that are not compared and not written.
    pub ignore: &'a Ignore,
    /// Operations to start, by Application name.
    pub operations: &'a BTreeMap<String, Value>,
    /// Applications to be compared again, the most urgent first.
    pub refreshes: &'a [String],
}

/// The writes of a pass, each list in name order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritePlan {
    /// Applications to create, whole.
    pub creates: Vec<Value>,
    /// Applications to patch.
    pub patches: Vec<Patch>,
    /// Applications to delete, once all creates and patches have succeeded.
    pub deletes: Vec<Delete>,
    /// Applications to delete that wait, and for what.
    pub held: Option<Held>,
    /// Applications that cannot be written, with the reason.
    pub refused: Vec<(String, String)>,
    /// Refreshes beyond [`REFRESHES_PER_PASS`], left for the next pass.
    pub postponed: usize,
}

impl WritePlan {
    /// The same, with nothing done: while something is wrong that makes all
    /// writes unsafe. Tells what would be deleted, and `until` what it waits.
    pub fn frozen(self, until: &str) -> Self {
        let names: Vec<String> = self.deletes.into_iter().map(|delete| delete.name).collect();
        let held = (!names.is_empty())
            .then(|| Held { applications: names, until: until.to_owned() })
            .or(self.held);
        Self { held, ..Self::default() }
    }
}

impl WritePlan {
    /// The same, without its deletions: they wait `until` something is mended.
    pub fn without_deletes(self, until: &str) -> Self {
        let Self { held, deletes, .. } = self.clone().frozen(until);
        Self { held, deletes, ..self }
    }
}

/// What may be written of a set as a whole. What else is wrong concerns single
/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// All that was decided.
    Open,
    /// All but deletions, until this.
    NoDeletes(&'static str),
    /// Nothing, until this.
    Shut(&'static str),
}

impl Gate {
    /// Judges a set: `misspelt` when there are unknown fields around its
    /// strategy, `stuck` when its RollingSync has no step (AS-304), and
    /// `unusable_rules` when it cannot be known which fields of some
    /// Application are to be left alone (AS-162).
    pub fn of(misspelt: bool, stuck: bool, unusable_rules: bool) -> Self {
        if misspelt {
            Self::Shut("spec.strategy can be read")
        } else if stuck {
            Self::Shut("spec.strategy.rollingSync.steps has a step")
        } else if unusable_rules {
            Self::NoDeletes("spec.ignoreApplicationDifferences can be used")
        } else {
            Self::Open
        }
    }
}

impl WritePlan {
    /// What a gate lets through.
    pub fn behind(self, gate: Gate) -> Self {
        match gate {
            Gate::Open => self,
            Gate::NoDeletes(until) => self.without_deletes(until),
            Gate::Shut(until) => self.frozen(until),
        }
    }
}

/// A JSON merge patch of one Application.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Its name.
    pub name: String,
    /// The merge patch. It carries the resource version that the decision was
    /// made on when it starts an operation: at most one per promotion, and
    /// never over another (AS-361).
    pub body: Value,
    /// The resource version of the object it was decided on.
    pub replaces: String,
    /// Whether it starts an operation.
    pub starts: bool,
    /// Whether it changes more than the operation and the refresh annotation.
    pub changes_spec: bool,
}

/// Deletions that wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The Applications, in name order; never empty.
    pub applications: Vec<String>,
    /// What has to happen first, as the end of a sentence after "until".
    pub until: String,
}

/// The most names that are told of Applications which wait to be deleted, and
/// the most characters of them.
const TOLD: (usize, usize) = (5, 200);

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.applications.len();
        let what = if count == 1 { "application waits" } else { "applications wait" };
        let (mut names, mut told) = (String::new(), 0);
        for name in self.applications.iter().take(TOLD.0) {
            if told > 0 && names.len() + name.len() > TOLD.1 {
                break;
            }
            names.push_str(if told > 0 { ", " } else { "" });
            names.push_str(name);
            told += 1;
        }
        let more = if told < count { format!(" and {} more", count - told) } else { String::new() };
        write!(f, "{count} {what} to be deleted until {}: {names}{more}", self.until)
    }
}

/// An Application to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Its name.
    pub name: String,
    /// Its UID, so that only this very object is deleted.
    pub uid: String,
}

/// Plans the writes of one pass.
pub fn plan(snapshot: &Snapshot<'_>) -> WritePlan {
    let mut plan = WritePlan::default();
    let mut updates = BTreeMap::new();
    for (name, generated) in snapshot.generated {
        match snapshot.existing.get(name) {
            None if snapshot.policy.creates() => plan.creates.push(create(snapshot, generated)),
            None => {}
            Some(live) => {
                let update = plan_update(snapshot, name, generated, live, &mut plan);
                updates.extend(update.map(|patch| (name.as_str(), patch)));
            }
        }
    }
    add_refreshes(snapshot, &mut updates, &mut plan);
    plan.patches = updates.into_values().filter(|patch| patch.body != json!({})).collect();
    let deletes = deletes(snapshot);
    if deletes.is_empty() {
        return plan;
    }
    match deletions_wait(snapshot, &plan) {
        Some(until) => {
            let applications = deletes.into_iter().map(|delete| delete.name).collect();
            plan.held = Some(Held { applications, until });
        }
        None => plan.deletes = deletes,
    }
    plan
}

/// The Applications that are not generated any more, where the policy lets
/// them be deleted.
fn deletes(snapshot: &Snapshot<'_>) -> Vec<Delete> {
    if !snapshot.policy.deletes() {
        return Vec::new();
    }
    let orphans = snapshot.existing.iter().filter(|(name, live)| {
        is_owned(live, snapshot.set)
            && !snapshot.generated_names.contains(*name)
            && live["metadata"]["deletionTimestamp"].is_null()
    });
    let delete = |(name, live): (&String, &Arc<Value>)| Delete {
        name: name.clone(),
        uid: live["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
    };
    orphans.map(delete).collect()
}

/// What has to happen before anything is deleted; `None` when the generation
/// can be written as a whole.
fn deletions_wait(snapshot: &Snapshot<'_>, plan: &WritePlan) -> Option<String> {
    let invalid =
        snapshot.generated_names.iter().find(|name| !snapshot.generated.contains_key(*name));
    if let Some(invalid) = invalid {
        return Some(format!("application {invalid} is valid"));
    }
    if let Some((refused, _)) = plan.refused.first() {
        return Some(format!("application {refused} can be written"));
    }
    let is_going = |name: &&String| {
        let live = snapshot.existing.get(*name);
        live.is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null())
    };
    let going = snapshot.generated.keys().find(is_going)?;
    Some(format!("application {going}, which is being deleted by somebody, is there again"))
}

/// The patch of an existing Application, empty when it is as wanted; `None`
/// when it may not be written.
fn plan_update(
    snapshot: &Snapshot<'_>,
    name: &str,
    generated: &Value,
    live: &Value,
    plan: &mut WritePlan,
) -> Option<Patch> {
    let owned = is_owned(live, snapshot.set);
    if let Some(owner) = controller_of(live).filter(|_| !owned) {
        let (kind, owner) = (&owner["kind"], &owner["name"]);
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        plan.refused
            .push((name.to_owned(), format!("it is owned by {} {}", text(kind), text(owner))));
        return None;
    }
    if !live["metadata"]["deletionTimestamp"].is_null() {
        // It goes, and is created anew by the pass that its end triggers.
        return None;
    }
    if !snapshot.policy.updates() && !owned {
        plan.refused.push((
            name.to_owned(),
            "it exists and belongs to nobody, and the policy forbids to update it".to_owned(),
        ));
        return None;
    }
    let mut body = if snapshot.policy.updates() {
        match update(snapshot, generated, live) {
            Ok(body) => body.unwrap_or_else(|| json!({})),
            Err(why) => {
                plan.refused.push((name.to_owned(), why));
                return None;
            }
        }
    } else {
        json!({})
    };
    let changes_spec = body != json!({});
    let operation = snapshot.operations.get(name);
    if let Some(operation) = operation {
        body["operation"] = operation.clone();
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    }
    let replaces = live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let starts = operation.is_some();
    Some(Patch { name: name.to_owned(), body, replaces, starts, changes_spec })
}

/// Asks the most urgent of those that may be written to be compared again.
fn add_refreshes(
    snapshot: &Snapshot<'_>,
    updates: &mut BTreeMap<&str, Patch>,
    plan: &mut WritePlan,
) {
    let mut room = REFRESHES_PER_PASS;
    for name in snapshot.refreshes {
        let asked =
            snapshot.existing.get(name).map(|live| &live["metadata"]["annotations"][REFRESH]);
        let Some(patch) =
            updates.get_mut(name.as_str()).filter(|_| asked.is_some_and(Value::is_null))
        else {
            continue;
        };
        if room == 0 {
            plan.postponed += 1;
            continue;
        }
        room -= 1;
        patch.body["metadata"]["annotations"][REFRESH] = "normal".into();
    }
}

fn create(snapshot: &Snapshot<'_>, generated: &Value) -> Value {
    let mut object = generated.clone();
    normalize::empty_objects(&mut object["spec"]);
    object["metadata"]["ownerReferences"] = json!([owner_reference(snapshot.set)]);
    object
}

/// The merge patch that makes `live` what is generated; `None` when it is
/// already. Fails where it is not known what is to be left alone.
fn update(
    snapshot: &Snapshot<'_>,
    generated: &Value,
    live: &Value,
) -> Result<Option<Value>, String> {
    let target = target(snapshot, generated, live)?;
    let mut body = json!({});
    if !normalize::equal_specs(&live["spec"], &target["spec"])
        && let Some(change) = merge_patch(&live["spec"], &target["spec"])
    {
        body["spec"] = change;
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let (live, target) = (&live["metadata"][field], &target["metadata"][field]);
        if !normalize::equal(live, target)
            && let Some(change) = merge_patch(live, target)
        {
            body["metadata"][field] = change;
        }
    }
    Ok((body != json!({})).then_some(body))
}

fn target(snapshot: &Snapshot<'_>, generated: &Value, live: &Value) -> Result<Value, String> {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    target["metadata"]["labels"] = snapshot.preserve.labels(generated, live);
    target["metadata"]["annotations"] = snapshot.preserve.annotations(generated, live);
    target["metadata"]["finalizers"] = preserve::finalizers(generated, live);
    target["metadata"]["ownerReferences"] = owner_references(live, snapshot.set);
    snapshot.ignore.keep_live(crate::desired::name_of(generated), &mut target, live)?;
    Ok(target)
}

/// Whether the spec in the cluster differs from the generated one (AS-353):
/// exactly when [`plan`] would change it (AS-165, invariant I13).
pub fn spec_differs(generated: &Value, live: &Value, ignore: &Ignore) -> bool {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    // What cannot be compared is not written, and so is no change (AS-164).
    ignore.keep_live(crate::desired::name_of(generated), &mut target, live).is_ok()
        && !normalize::equal_specs(&live["spec"], &target["spec"])
}

/// Whether the set is the Application's controller (AS-158, AS-159): by UID,
/// so that a recreated set of the same name does not take over what another
/// one left.
pub fn is_owned(application: &Value, set: &Value) -> bool {
    controller_of(application).is_some_and(|owner| {
        owner["kind"] == "ApplicationSet"
            && owner["apiVersion"] == API_VERSION
            && owner["uid"] == set["metadata"]["uid"]
    })
}

fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true))
}

fn owner_reference(set: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ApplicationSet",
        "name": set["metadata"]["name"],
        "uid": set["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The live owners with ours among them, others untouched.
fn owner_references(live: &Value, set: &Value) -> Value {
    let ours = owner_reference(set);
    let owners = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let mut owners: Vec<Value> =
        owners.into_iter().filter(|owner| owner["uid"] != ours["uid"]).collect();
    let at = live["metadata"]["ownerReferences"]
        .as_array()
        .and_then(|owners| owners.iter().position(|owner| owner["uid"] == ours["uid"]))
        .unwrap_or(owners.len());
    owners.insert(at, ours);
    owners.into()
}
