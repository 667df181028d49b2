//! Comparison of generated Applications with the cluster, for `plan --live`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::controller::Controller;
use super::generate;
use super::output::some_of;
use crate::api::Cluster;
use crate::decide::application_set::generated::Collector;
use crate::decide::application_set::observe::{Existing, Rules};
use crate::decide::application_set::{self, Gate, Identity, Snapshot, WritePlan, patch, stored};
use crate::desired::Generation;
use crate::desired::inputs::Reads;
use crate::settings::ApplicationSetSettings;

/// Maximum number of fields that the table shows for an update.
const FIELDS_PER_LINE: usize = 6;

/// The change that applying a set makes to one Application, and its current state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Live {
    /// Its name.
    pub application: String,
    /// The change.
    pub change: Change,
    /// Why the change is rejected or waits; empty otherwise.
    pub message: String,
    /// The fields that an update changes, such as `spec.source.path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Its phase in the last rollout; empty without one.
    pub phase: String,
    /// `status.sync.status`, empty before the first comparison.
    pub sync: String,
    /// `status.health.status`, empty when unknown.
    pub health: String,
    /// The Application after the change; `None` when it is deleted or not written.
    #[serde(skip)]
    pub after: Option<Value>,
}

/// The change of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Change {
    /// It does not exist yet.
    Create,
    /// It exists and differs.
    Update,
    /// It is no longer generated.
    Delete,
    /// It is no longer generated, and is deleted when all other Applications are written.
    Wait,
    /// It is not written; the message contains the reason.
    Refuse,
    /// It is up to date.
    None,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Wait => "wait",
            Self::Refuse => "refuse",
            Self::None => "-",
        })
    }
}

/// The inputs of a comparison.
pub(super) struct Seen<'a> {
    /// The set to apply.
    pub set: &'a Value,
    /// The set in the cluster, if it exists: it identifies the owned Applications.
    pub stored: Option<&'a Value>,
    /// Its generated Applications.
    pub generation: &'a Generation,
    /// Problems of the generated Applications.
    pub invalid: &'a BTreeMap<String, String>,
    /// The Applications in its namespace.
    pub existing: &'a BTreeMap<String, Arc<Value>>,
    /// The known clusters.
    pub clusters: &'a [Cluster],
    /// The settings of the controller.
    pub settings: &'a ApplicationSetSettings,
}

/// Compares the Applications that a set generates with those in the cluster, as the
/// controller of this control plane does. Returns also why some of them are invalid.
pub(super) fn of_controller(
    controller: &Controller,
    set: &Value,
    stored: Option<&Value>,
    generation: &Generation,
    existing: &BTreeMap<String, Arc<Value>>,
) -> (BTreeMap<String, String>, Vec<Live>) {
    let known = controller.known(generate::assumed(generation));
    let invalid = controller.problems(generation, &known);
    let live = compare(&Seen {
        set,
        stored,
        generation,
        invalid: &invalid,
        existing,
        clusters: &known.clusters,
        settings: &controller.settings,
    });
    (invalid, live)
}

/// Compares generated Applications with those in the namespace of their set, as the
/// controller does.
pub(super) fn compare(seen: &Seen<'_>) -> Vec<Live> {
    let set = with_identity(seen.set, seen.stored);
    let rules = seen.settings.rules();
    let mut collector = Collector::new(&set, &rules);
    for (application, origin) in seen.generation.applications.iter().zip(&seen.generation.origins) {
        collector.add(application.clone(), origin);
    }
    let generated = collector.finish(&set, &rules, Reads::default(), None);
    let mut refused = seen.invalid.clone();
    for wanted in &generated.applications {
        if let Some(problem) = &wanted.unusable_rule {
            refused.entry(wanted.name.to_string()).or_insert_with(|| problem.clone());
        }
    }
    let id = Identity::of(&set);
    let compared_by = Rules {
        set: &id,
        policy: generated.policy,
        preserve: &generated.preserve,
        ignore: &generated.ignore,
    };
    let read = |(name, live): (&String, &Arc<Value>)| {
        let wanted = generated.get(name).map(|wanted| wanted.written(generated.has_steps));
        Existing::read(live, wanted.as_ref(), &compared_by)
    };
    let observed: Vec<Existing> = seen.existing.iter().map(read).collect();
    let plan = application_set::plan(&Snapshot {
        set: &id,
        generated: &generated.applications,
        invalid: &refused,
        existing: &observed,
        clusters: seen.clusters,
        in_rollout: generated.has_steps,
        policy: generated.policy,
        operations: &BTreeMap::new(),
        records: &BTreeMap::new(),
        refreshes: &[],
        others: &[],
    });
    let gate = Gate::of(
        !generated.misspelt.is_empty(),
        generated.is_stuck(&rules),
        !generated.ignore_problems.is_empty(),
    );
    let names: Vec<String> =
        generated.applications.iter().map(|wanted| wanted.name.to_string()).collect();
    let after = after(&plan, seen.existing);
    let changes = changes(plan, gate, names, &refused);
    describe(changes, &set, seen.existing, after)
}

/// The Applications after the writes of a plan, by name.
fn after(plan: &WritePlan, existing: &BTreeMap<String, Arc<Value>>) -> BTreeMap<String, Value> {
    let created = plan.creates.iter().map(|create| {
        // It was serialized by the plan.
        (create.name.clone(), serde_json::from_str(&create.json).unwrap_or_default())
    });
    let patched = plan.patches.iter().map(|patch| {
        let mut after = existing.get(&patch.name).map(|live| (**live).clone()).unwrap_or_default();
        json_patch::merge(&mut after, &patch.body());
        (patch.name.clone(), after)
    });
    created.chain(patched).collect()
}

/// The change of each Application, with its message and the fields of an update.
type Changes = BTreeMap<String, (Change, String, Vec<String>)>;

fn changes(
    plan: WritePlan,
    gate: Gate,
    names: Vec<String>,
    refused: &BTreeMap<String, String>,
) -> Changes {
    let none = |name| (name, (Change::None, String::new(), Vec::new()));
    let mut changes: Changes = names.into_iter().map(none).collect();
    let mut mark = |name: &str, change: Change, message: &str| {
        changes.insert(name.to_owned(), (change, message.to_owned(), Vec::new()));
    };
    if let Gate::Shut(until) = gate {
        let why = format!("held until {until}");
        let creates = plan.creates.iter().map(|create| create.name.as_str());
        let patches = plan.patches.iter().map(|patch| patch.name.as_str());
        let deletes = plan.deletes.iter().map(|delete| delete.name.as_str());
        creates.chain(patches).chain(deletes).for_each(|name| mark(name, Change::Wait, &why));
    }
    let plan = plan.behind(gate);
    plan.creates.iter().for_each(|create| mark(&create.name, Change::Create, ""));
    for delete in &plan.deletes {
        let release = delete.release.as_ref();
        let message = release.map(|release| format!("its resources stay: {}", release.why));
        mark(&delete.name, Change::Delete, &message.unwrap_or_default());
    }
    if let Some(held) = &plan.held {
        let until = format!("deleted once {}", held.until);
        held.applications.iter().for_each(|name| mark(name, Change::Wait, &until));
    }
    for patch in &plan.patches {
        let fields = patch::fields(&patch.body());
        let message = format!("changes {}", some_of_fields(&fields));
        changes.insert(patch.name.clone(), (Change::Update, message, fields));
    }
    let refused = plan.refused.iter().map(|(name, why)| (name, why)).chain(refused);
    for (name, why) in refused {
        changes.insert(name.clone(), (Change::Refuse, why.clone(), Vec::new()));
    }
    changes
}

fn describe(
    changes: Changes,
    set: &Value,
    existing: &BTreeMap<String, Arc<Value>>,
    mut after: BTreeMap<String, Value>,
) -> Vec<Live> {
    let phases = stored::entries(set, existing);
    let live =
        |(application, (change, message, fields)): (String, (Change, String, Vec<String>))| {
            let text = |pointer: &str| {
                let found = existing.get(&application).and_then(|live| live.pointer(pointer));
                found.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let written = matches!(change, Change::Create | Change::Update);
            let after = after.remove(&application).filter(|_| written);
            let phase = phases.get(&application).map(|entry| entry.phase.name().to_owned());
            Live {
                change,
                message,
                fields,
                phase: phase.unwrap_or_default(),
                sync: text("/status/sync/status"),
                health: text("/status/health/status"),
                after,
                application,
            }
        };
    changes.into_iter().map(live).collect()
}

/// The fields for a line of the table; JSON and YAML contain all.
fn some_of_fields(fields: &[String]) -> String {
    some_of(fields.iter().map(String::as_str), FIELDS_PER_LINE)
}

/// The set of a file with the identity and the status from the cluster.
fn with_identity(set: &Value, stored: Option<&Value>) -> Value {
    let mut set = set.clone();
    let (Some(stored), Some(object)) = (stored, set.as_object_mut()) else { return set };
    if let Some(status) = stored.get("status") {
        object.insert("status".to_owned(), status.clone());
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let (Some(metadata), Some(uid)) = (metadata.as_object_mut(), stored["metadata"].get("uid")) {
        metadata.insert("uid".to_owned(), uid.clone());
    }
    set
}
