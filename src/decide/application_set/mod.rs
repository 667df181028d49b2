//! The Applications of a set: which to create, patch and delete.
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
//! (AS-148).

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

/// The most refreshes that a reconcile requests. A new commit affects all
/// Applications at once, and syncs must not wait for all of these writes: the
/// rest is left for the next reconcile, which starts syncs first.
pub const REFRESHES_PER_PASS: usize = 8;

/// The settings of ApplicationSets, from flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// The state machine's settings.
    pub rollout: rollout::Settings,
    /// The policy of the controller: which writes are allowed.
    pub policy: Policy,
    /// Whether a set may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// The most resources that a status lists; 0 means as many as fit.
    pub max_resources: usize,
    /// Whether sync windows treat a sync of a rollout as manual (AS-366).
    pub windows_by_hand: bool,
    /// The size limits of a status.
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

/// The most bytes of the lists of a status. All other fields are bounded to
/// less than 96 KiB in total, so that the status stays below 512 KiB.
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

/// The identity of a set.
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
    /// From a raw set.
    pub fn of(set: &Value) -> Self {
        let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { namespace: text("namespace"), name: text("name"), uid: text("uid") }
    }
}

/// The owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The set.
    Set,
    /// Not owned.
    Nobody,
    /// Owned by another object: its kind and name.
    Other(Box<str>),
}

impl Owner {
    /// The controlling owner of an Application.
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

/// What to write of an existing Application, apart from operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Nothing: it is as generated.
    None,
    /// This JSON merge patch.
    Patch(Box<str>),
    /// It must not be written, for this reason.
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

/// The input for the writes of a set.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
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
    /// Applications whose deletion waits, and the reason.
    pub held: Option<Held>,
    /// Applications that cannot be written, with the reason.
    pub refused: Vec<(String, String)>,
    /// Refreshes beyond [`REFRESHES_PER_PASS`], left for the next reconcile.
    pub postponed: usize,
}

impl WritePlan {
    /// Whether everything is as generated.
    pub fn is_settled(&self) -> bool {
        self.creates.is_empty()
            && self.patches.iter().all(|patch| patch.only_records)
            && self.deletes.is_empty()
            && self.held.is_none()
            && self.refused.is_empty()
            && self.postponed == 0
    }

    /// The same plan without writes: an error makes all writes unsafe. Keeps
    /// the Applications that would be deleted, which wait `until` the error is
    /// fixed.
    pub fn frozen(self, until: &str) -> Self {
        let names: Vec<String> = self.deletes.into_iter().map(|delete| delete.name).collect();
        let held = (!names.is_empty())
            .then(|| Held { applications: names, until: until.to_owned() })
            .or(self.held);
        Self { held, ..Self::default() }
    }
}

impl WritePlan {
    /// The same plan without deletions: they wait `until` the error is fixed.
    pub fn without_deletes(self, until: &str) -> Self {
        let Self { held, deletes, .. } = self.clone().frozen(until);
        Self { held, deletes, ..self }
    }
}

/// Which writes of a set as a whole are allowed. Other errors concern single
/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// All.
    Open,
    /// All but deletions, which wait until this condition.
    NoDeletes(&'static str),
    /// None, until this condition.
    Shut(&'static str),
}

impl Gate {
    /// Evaluates a set: `misspelt` if there are unknown fields in its strategy,
    /// `stuck` if its RollingSync has no step (AS-304), and `unusable_rules` if
    /// the ignored fields of some Application are unknown (AS-162).
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
    /// Removes the writes that are not allowed.
    pub fn behind(self, gate: Gate) -> Self {
        match gate {
            Gate::Open => self,
            Gate::NoDeletes(until) => self.without_deletes(until),
            Gate::Shut(until) => self.frozen(until),
        }
    }
}

/// An Application to create, kept as text, since there may be thousands.
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
    /// The merge patch, as JSON. If it starts an operation, it contains the
    /// resource version that the decision is based on: at most one operation
    /// per promotion, and never over another one (AS-361).
    pub json: String,
    /// Whether it starts an operation.
    pub starts: bool,
    /// Whether it changes more than the operation and our annotations.
    pub changes_spec: bool,
    /// Whether it only writes a rollout record.
    pub only_records: bool,
}

impl Patch {
    /// The merge patch.
    pub fn body(&self) -> Value {
        // It was serialized here.
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

/// The most names of Applications to be deleted in a message, and the most
/// characters of them.
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
    /// Its UID, so that only this object is deleted.
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
            // It is being deleted; the reconcile after its deletion creates it
            // again.
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

/// The Applications that are no longer generated, if the policy allows their
/// deletion.
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

/// What has to happen before anything is deleted; `None` when all generated
/// Applications can be written.
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

/// The patch of an existing Application, empty when it is up to date; `None`
/// when it must not be changed.
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

/// Requests refreshes of the most urgent Applications that may be written;
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

/// The merge patch that changes `live` to the generated Application; `None`
/// when they are equal. Fails if the ignored fields are unknown.
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

/// Whether the live spec differs from the generated one (AS-353): exactly when
/// [`plan`] would change it (AS-165, invariant I13).
pub fn spec_differs(generated: &Value, live: &Value, ignore: &ignore::Ignore) -> bool {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    // An Application that cannot be compared is not written, so this is not a
    // change (AS-164).
    ignore.keep_live(crate::desired::name_of(generated), &mut target, live).is_ok()
        && !normalize::equal_specs(&live["spec"], &target["spec"])
}

/// Whether the set is the controlling owner of the Application (AS-158,
/// AS-159): by UID, so that a recreated set of the same name does not adopt
/// Applications of the former one.
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

/// The live owner references with ours; others are unchanged.
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
