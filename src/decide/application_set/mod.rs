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
pub mod events;
pub mod generated;
pub mod ignore;
pub mod normalize;
pub mod observe;
pub mod operation;
pub mod outcome;
pub mod pace;
pub mod patch;
pub mod policy;
pub mod preserve;
pub mod reconcile;
pub mod record;
pub mod shape;
pub mod status;
pub mod stored;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod windows;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::generated::Wanted;
use self::observe::{Existing, Rules};
use self::policy::Policy;
use self::preserve::Preserve;
use crate::api::API_VERSION;
use crate::api::annotations::{REFRESH, ROLLOUT};
use crate::decide::merge_patch::merge_patch;
use crate::decide::rollout;
use crate::decide::rollout::listed::{ENTRIES_BYTES, Record};

/// How many Applications a reconcile asks to be compared again. A commit makes
/// the whole fleet ask for it at once, and no sync shall wait for all of these
/// writes: what is left is for the next reconcile, which starts syncs first.
pub const REFRESHES_PER_PASS: usize = 8;

/// How sets are reconciled, by flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// The state machine's settings.
    pub rollout: rollout::Settings,
    /// What sets may do to their Applications.
    pub policy: Policy,
    /// Whether a set may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// The most resources that a status lists; 0 means as many as fit.
    pub max_resources: usize,
    /// Whether sync windows take a sync of a rollout for one by hand (AS-366).
    pub windows_by_hand: bool,
    /// What a status has room for.
    pub room: Room,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            progressive_syncs: false,
            rollout: rollout::Settings::default(),
            policy: Policy::Sync,
            policy_override: true,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            max_resources: 5000,
            windows_by_hand: true,
            room: Room::default(),
        }
    }
}

/// How many bytes the lists of a status may take. Everything else in a status
/// is bounded by itself, to less than 96 KiB, so that it stays below 512 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `status.applicationStatus`.
    pub entries: usize,
    /// `status.resources`.
    pub resources: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { entries: ENTRIES_BYTES, resources: 160 << 10 }
    }
}

/// Which set it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Identity {
    /// That of a raw set.
    pub fn of(set: &Value) -> Self {
        let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { namespace: text("namespace"), name: text("name"), uid: text("uid") }
    }
}

/// Who controls an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The set.
    Set,
    /// Nobody.
    Nobody,
    /// Somebody else, as kind and name.
    Other(Box<str>),
}

impl Owner {
    /// The controller of an Application.
    fn of(application: &Value, set: &Identity) -> Self {
        let Some(owner) = controller_of(application) else { return Self::Nobody };
        if owner["kind"] == "ApplicationSet"
            && owner["apiVersion"] == API_VERSION
            && owner["uid"] == *set.uid
        {
            return Self::Set;
        }
        let text = |field: &str| owner[field].as_str().unwrap_or("?");
        Self::Other(format!("{} {}", text("kind"), text("name")).into())
    }
}

/// What is to be written of an existing Application, apart from operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// It is as generated.
    None,
    /// This JSON merge patch makes it so.
    Patch(Box<str>),
    /// It may not be written, for this reason.
    Refused(Box<str>),
}

impl Update {
    fn plan(live: &Value, wanted: &Value, owner: &Owner, rules: &Rules<'_>) -> Self {
        if !rules.policy.updates() {
            return match owner {
                Owner::Nobody => Self::Refused(
                    "it already exists and is not owned by an ApplicationSet, and the policy forbids \
                     to update it"
                        .into(),
                ),
                Owner::Set | Owner::Other(_) => Self::None,
            };
        }
        match update(rules, wanted, live) {
            Ok(Some(body)) => Self::Patch(body.to_string().into()),
            Ok(None) => Self::None,
            Err(why) => Self::Refused(why.into()),
        }
    }
}

/// Where the writes of a set stand against what exists.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Which set.
    pub set: &'a Identity,
    /// The generated Applications by name, the invalid ones too: these are not
    /// written and not deleted, and while there are any nothing is deleted.
    pub generated: &'a [Wanted],
    /// Why each of them may not be written, by name.
    pub invalid: &'a BTreeMap<String, String>,
    /// The existing Applications that the set owns or generates, by name.
    pub existing: &'a [Existing],
    /// Whether automated sync is switched off.
    pub in_rollout: bool,
    /// What may be written.
    pub policy: Policy,
    /// Operations to start, with what is recorded of each, by Application name.
    pub operations: &'a BTreeMap<String, (Value, Option<Record>)>,
    /// What else is to be recorded, by Application name.
    pub records: &'a BTreeMap<String, Record>,
    /// Applications to be compared again, the most urgent first.
    pub refreshes: &'a [String],
}

/// The writes of a reconcile, each list in name order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritePlan {
    /// Applications to create, whole.
    pub creates: Vec<Create>,
    /// Applications to patch.
    pub patches: Vec<Patch>,
    /// Applications to delete, once all creates and patches have succeeded.
    pub deletes: Vec<Delete>,
    /// Applications to delete that wait, and for what.
    pub held: Option<Held>,
    /// Applications that cannot be written, with the reason.
    pub refused: Vec<(String, String)>,
    /// Refreshes beyond [`REFRESHES_PER_PASS`], left for the next reconcile.
    pub postponed: usize,
}

impl WritePlan {
    /// Whether all is as generated.
    pub fn is_settled(&self) -> bool {
        self.creates.is_empty()
            && self.patches.iter().all(|patch| patch.only_records)
            && self.deletes.is_empty()
            && self.held.is_none()
            && self.refused.is_empty()
            && self.postponed == 0
    }

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

/// An Application to create. Kept as text, since a fleet of them may be created
/// at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Its name.
    pub name: String,
    /// Its JSON.
    pub json: String,
}

/// A JSON merge patch of one Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its name.
    pub name: String,
    /// The merge patch, as JSON. It carries the resource version that the
    /// decision was made on when it starts an operation: at most one per
    /// promotion, and never over another (AS-361).
    pub json: String,
    /// Whether it starts an operation.
    pub starts: bool,
    /// Whether it changes more than the operation and our annotations.
    pub changes_spec: bool,
    /// Whether it does no more than to record something of the rollout.
    pub only_records: bool,
}

impl Patch {
    /// The merge patch.
    pub fn body(&self) -> Value {
        // It was written here, by a serializer.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
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

/// Plans the writes of one reconcile.
pub fn plan(snapshot: &Snapshot<'_>) -> WritePlan {
    let mut plan = WritePlan::default();
    let mut bodies: BTreeMap<&str, Body<'_>> = BTreeMap::new();
    let mut going = None;
    for (wanted, existing) in paired(snapshot) {
        if snapshot.invalid.contains_key(&*wanted.name) {
            continue;
        }
        let Some(existing) = existing else {
            if snapshot.policy.creates() {
                plan.creates.push(create(snapshot, wanted));
            }
            continue;
        };
        if existing.is_going {
            // It goes, and is created anew by the reconcile that its end triggers.
            going = going.or(Some(&*existing.name));
        }
        match body(snapshot, existing) {
            Ok(body) => bodies.extend(body.map(|body| (&*existing.name, body))),
            Err(why) => plan.refused.push((existing.name.to_string(), why)),
        }
    }
    plan.postponed = add_refreshes(snapshot, &mut bodies);
    let patches = bodies.into_iter().map(|(name, body)| body.into_patch(name));
    plan.patches = patches.filter(|patch| patch.json != "{}").collect();
    let deletes = deletes(snapshot);
    if deletes.is_empty() {
        return plan;
    }
    match deletions_wait(snapshot, &plan, going) {
        Some(until) => {
            let applications = deletes.into_iter().map(|delete| delete.name).collect();
            plan.held = Some(Held { applications, until });
        }
        None => plan.deletes = deletes,
    }
    plan
}

/// Every generated Application with the existing one of its name.
fn paired<'a>(
    snapshot: &Snapshot<'a>,
) -> impl Iterator<Item = (&'a Wanted, Option<&'a Existing>)> + use<'a> {
    let mut existing = snapshot.existing.iter().peekable();
    snapshot.generated.iter().map(move |wanted| {
        while existing.next_if(|one| one.name < wanted.name).is_some() {}
        (wanted, existing.next_if(|one| one.name == wanted.name))
    })
}

/// The Applications that are not generated any more, where the policy lets
/// them be deleted.
fn deletes(snapshot: &Snapshot<'_>) -> Vec<Delete> {
    if !snapshot.policy.deletes() {
        return Vec::new();
    }
    let mut generated = snapshot.generated.iter().peekable();
    let mut deletes = Vec::new();
    for existing in snapshot.existing {
        while generated.next_if(|wanted| wanted.name < existing.name).is_some() {}
        let is_generated = generated.peek().is_some_and(|wanted| wanted.name == existing.name);
        if existing.is_owned() && !is_generated && !existing.is_going {
            let (name, uid) = (existing.name.to_string(), existing.uid.to_string());
            deletes.push(Delete { name, uid });
        }
    }
    deletes
}

/// What has to happen before anything is deleted; `None` when the generation
/// can be written as a whole.
fn deletions_wait(
    snapshot: &Snapshot<'_>,
    plan: &WritePlan,
    going: Option<&str>,
) -> Option<String> {
    if let Some(invalid) =
        snapshot.generated.iter().find(|wanted| snapshot.invalid.contains_key(&*wanted.name))
    {
        return Some(format!("application {} is valid", invalid.name));
    }
    if let Some((refused, _)) = plan.refused.first() {
        return Some(format!("application {refused} can be written"));
    }
    Some(format!("application {}, which is being deleted by somebody, is there again", going?))
}

/// A patch in the making.
struct Body<'a> {
    /// The planned update, as it was read.
    update: &'a str,
    /// What comes on top of it.
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

/// Adds the fields of one patch to another.
fn merge(body: &mut Value, more: Value) {
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

/// The patch of an existing Application, empty when it is as wanted; `None`
/// when it is left alone.
fn body<'a>(snapshot: &Snapshot<'_>, existing: &'a Existing) -> Result<Option<Body<'a>>, String> {
    if let Owner::Other(owner) = &existing.owner {
        return Err(format!("it is owned by {owner}"));
    }
    if existing.is_going {
        return Ok(None);
    }
    let update = match &existing.update {
        Update::None => "{}",
        Update::Patch(json) => json,
        Update::Refused(why) => return Err(why.to_string()),
    };
    let mut body = Body { update, more: json!({}), existing, starts: false, refreshes: false };
    let recorded = match snapshot.operations.get(&*existing.name) {
        Some((operation, record)) => {
            body.starts = true;
            body.more["operation"] = operation.clone();
            body.more["metadata"]["resourceVersion"] = (*existing.version).into();
            record.as_ref()
        }
        None => snapshot.records.get(&*existing.name),
    };
    if let Some(record) = recorded {
        body.annotate(ROLLOUT, record::text(record, &existing.uid));
    }
    Ok(Some(body))
}

/// Asks the most urgent of those that may be written to be compared again;
/// returns how many are left for the next reconcile.
fn add_refreshes(snapshot: &Snapshot<'_>, bodies: &mut BTreeMap<&str, Body<'_>>) -> usize {
    let mut room = REFRESHES_PER_PASS;
    let mut postponed = 0;
    for name in snapshot.refreshes {
        let Some(body) = bodies.get_mut(&**name).filter(|body| !body.existing.is_refreshing) else {
            continue;
        };
        if room == 0 {
            postponed += 1;
            continue;
        }
        room -= 1;
        body.refreshes = true;
        body.annotate(REFRESH, "normal".to_owned());
    }
    postponed
}

fn create(snapshot: &Snapshot<'_>, wanted: &Wanted) -> Create {
    let mut object = wanted.written(snapshot.in_rollout);
    normalize::empty_objects(&mut object["spec"]);
    object["metadata"]["ownerReferences"] = json!([owner_reference(snapshot.set)]);
    Create { name: wanted.name.to_string(), json: object.to_string() }
}

/// The merge patch that makes `live` what is generated; `None` when it is
/// already. Fails where it is not known what is to be left alone.
fn update(rules: &Rules<'_>, generated: &Value, live: &Value) -> Result<Option<Value>, String> {
    let target = target(rules, generated, live)?;
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

fn target(rules: &Rules<'_>, generated: &Value, live: &Value) -> Result<Value, String> {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    target["metadata"]["labels"] = rules.preserve.labels(generated, live);
    target["metadata"]["annotations"] = rules.preserve.annotations(generated, live);
    target["metadata"]["finalizers"] = preserve::finalizers(generated, live);
    target["metadata"]["ownerReferences"] = owner_references(live, rules.set);
    rules.ignore.keep_live(crate::desired::name_of(generated), &mut target, live)?;
    Ok(target)
}

/// Whether the spec in the cluster differs from the generated one (AS-353):
/// exactly when [`plan`] would change it (AS-165, invariant I13).
pub fn spec_differs(generated: &Value, live: &Value, ignore: &ignore::Ignore) -> bool {
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

fn owner_reference(set: &Identity) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ApplicationSet",
        "name": set.name,
        "uid": set.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The live owners with ours among them, others untouched.
fn owner_references(live: &Value, set: &Identity) -> Value {
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
