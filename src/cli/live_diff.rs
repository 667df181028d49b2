//! What a rollout would meet in the cluster: for `plan --live`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::output::some_of;
use crate::decide::application_set::ignore::Ignore;
use crate::decide::application_set::preserve::Preserve;
use crate::decide::application_set::{self, Gate, Snapshot, autosync, patch};
use crate::decide::rollout::status as entries;
use crate::decide::rollout::steps::{self, Strategy};
use crate::desired::{Generation, name_of};
use crate::settings::ApplicationSetSettings;

/// How many fields of an update a line of the table shows.
const FIELDS_PER_LINE: usize = 6;

/// What applying a set would do to one Application, and where that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Live {
    /// Its name.
    pub application: String,
    /// What would be done.
    pub change: Change,
    /// Why it is refused or waits; empty otherwise.
    pub message: String,
    /// The fields that an update changes, such as `spec.source.path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Where the last rollout left it; empty when it never was in one.
    pub phase: String,
    /// `status.sync.status`, empty when nothing was compared.
    pub sync: String,
    /// `status.health.status`, empty when unknown.
    pub health: String,
}

/// What would be done to an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Change {
    /// It does not exist yet.
    Create,
    /// It exists and differs.
    Update,
    /// It is no longer generated.
    Delete,
    /// It is no longer generated, and is deleted once everything else is well.
    Wait,
    /// It may not be written; the message says why.
    Refuse,
    /// It is as generated.
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

/// What there is to compare.
pub(super) struct Seen<'a> {
    /// The set as it shall be.
    pub set: &'a Value,
    /// The set as the cluster has it, if it does: it tells which Applications
    /// are its own.
    pub stored: Option<&'a Value>,
    /// What it generates.
    pub generation: &'a Generation,
    /// What is wrong with what it generates.
    pub invalid: &'a BTreeMap<String, String>,
    /// The Applications in its namespace.
    pub existing: &'a BTreeMap<String, Arc<Value>>,
    /// How the controller is set up.
    pub settings: &'a ApplicationSetSettings,
}

/// Compares generated Applications with what is in the namespace of their set,
/// as the controller does.
pub(super) fn compare(seen: &Seen<'_>) -> Vec<Live> {
    let Seen { stored, generation, invalid, existing, settings, .. } = *seen;
    let set = with_identity(seen.set, stored);
    let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
    let rolling = settings.progressive_syncs && !strategy.steps().is_empty();
    let (ignore, unusable) = Ignore::read(&set);
    let mut generated = BTreeMap::new();
    for (name, application) in generation.called() {
        let mut application = application.clone();
        if rolling {
            autosync::disable(&mut application);
        }
        generated.insert(name.to_owned(), Arc::new(application));
    }
    let names: BTreeSet<String> = generated.keys().cloned().collect();
    let mut refused = invalid.clone();
    for name in &names {
        if let Some(problem) = unusable.iter().find(|problem| problem.concerns(name)) {
            refused.entry(name.clone()).or_insert_with(|| problem.message.clone());
        }
    }
    generated.retain(|name, _| !refused.contains_key(name));
    let own = set["spec"]["syncPolicy"]["applicationsSync"].as_str();
    let plan = application_set::plan(&Snapshot {
        set: &set,
        generated: &generated,
        generated_names: &names,
        existing,
        policy: settings.policy.effective(own, settings.policy_override),
        preserve: &Preserve::new(&set, &settings.preserved_annotations, &settings.preserved_labels),
        ignore: &ignore,
        operations: &BTreeMap::new(),
        refreshes: &[],
    });
    let stuck = settings.progressive_syncs && strategy.is_empty_rolling_sync();
    let gate = Gate::of(!steps::misspelt(&set).is_empty(), stuck, !unusable.is_empty());

    let mut changes: BTreeMap<String, (Change, String)> =
        names.into_iter().map(|name| (name, (Change::None, String::new()))).collect();
    let mut mark = |name: &str, change: Change, message: &str| {
        changes.insert(name.to_owned(), (change, message.to_owned()));
    };
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if let Gate::Shut(until) = gate {
        let why = format!("held until {until}");
        let creates = plan.creates.iter().map(name_of);
        let patches = plan.patches.iter().map(|patch| patch.name.as_str());
        let deletes = plan.deletes.iter().map(|delete| delete.name.as_str());
        creates.chain(patches).chain(deletes).for_each(|name| mark(name, Change::Wait, &why));
    }
    let plan = plan.behind(gate);
    plan.creates.iter().for_each(|create| mark(name_of(create), Change::Create, ""));
    for patch in &plan.patches {
        let changed = patch::fields(&patch.body);
        mark(&patch.name, Change::Update, &format!("changes {}", some_of_fields(&changed)));
        fields.insert(patch.name.clone(), changed);
    }
    plan.deletes.iter().for_each(|delete| mark(&delete.name, Change::Delete, ""));
    if let Some(held) = &plan.held {
        let until = format!("deleted once {}", held.until);
        held.applications.iter().for_each(|name| mark(name, Change::Wait, &until));
    }
    let refused = plan.refused.iter().map(|(name, why)| (name, why)).chain(&refused);
    refused.for_each(|(name, why)| mark(name, Change::Refuse, why));

    let phases = entries::from_json(set["status"].get("applicationStatus"));
    let live = |(application, (change, message)): (String, (Change, String))| {
        let text = |pointer: &str| {
            let found = existing.get(&application).and_then(|live| live.pointer(pointer));
            found.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Live {
            change,
            message,
            fields: fields.get(&application).cloned().unwrap_or_default(),
            phase: phases
                .get(&application)
                .map(|entry| entry.phase.name().to_owned())
                .unwrap_or_default(),
            sync: text("/status/sync/status"),
            health: text("/status/health/status"),
            application,
        }
    };
    changes.into_iter().map(live).collect()
}

/// The fields for a line of the table; JSON and YAML show all.
fn some_of_fields(fields: &[String]) -> String {
    some_of(fields.iter().map(String::as_str), FIELDS_PER_LINE)
}

/// The set of a file with the identity and the status that the cluster gave it.
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
