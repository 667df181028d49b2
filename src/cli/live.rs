//! What a rollout would meet in the cluster: for `plan --live`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::decide::fleet::ignore::Ignore;
use crate::decide::fleet::policy::Policy;
use crate::decide::fleet::preserve::Preserve;
use crate::decide::fleet::{self, Snapshot, autosync};
use crate::decide::rollout::status as entries;
use crate::desired::{Generation, name_of};

/// What applying a set would do to one Application, and where that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Live {
    /// Its name.
    pub application: String,
    /// What would be done.
    pub change: Change,
    /// Why it is refused; empty otherwise.
    pub message: String,
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

/// Compares generated Applications with what is in the namespace of their set.
///
/// `stored` is the set as the cluster has it, if it does: it tells which
/// Applications are its own. `rolling` tells that a RollingSync decides when
/// to sync. `invalid` ones are not written.
pub(super) fn compare(
    set: &Value,
    stored: Option<&Value>,
    generation: &Generation,
    invalid: &BTreeMap<String, String>,
    existing: &BTreeMap<String, Arc<Value>>,
    rolling: bool,
) -> Vec<Live> {
    let set = with_identity(set, stored);
    let mut generated = BTreeMap::new();
    for (name, application) in generation.called() {
        let mut application = application.clone();
        if rolling {
            autosync::disable(&mut application);
        }
        generated.insert(name.to_owned(), Arc::new(application));
    }
    let names: BTreeSet<String> = generated.keys().cloned().collect();
    generated.retain(|name, _| !invalid.contains_key(name));
    let own = set["spec"]["syncPolicy"]["applicationsSync"].as_str();
    let plan = fleet::plan(&Snapshot {
        set: &set,
        generated: &generated,
        generated_names: &names,
        existing,
        policy: Policy::Sync.effective(own, true),
        preserve: &Preserve::new(&set, &[], &[]),
        ignore: &Ignore::read(&set).0,
        operations: &BTreeMap::new(),
        refreshes: &[],
    });

    let mut changes: BTreeMap<String, (Change, String)> =
        names.into_iter().map(|name| (name, (Change::None, String::new()))).collect();
    let mut mark = |name: &str, change: Change, message: &str| {
        changes.insert(name.to_owned(), (change, message.to_owned()));
    };
    plan.creates.iter().for_each(|create| mark(name_of(create), Change::Create, ""));
    plan.patches.iter().for_each(|patch| mark(&patch.name, Change::Update, ""));
    plan.deletes.iter().for_each(|delete| mark(&delete.name, Change::Delete, ""));
    if let Some(held) = &plan.held {
        let until = format!("deleted once {}", held.until);
        held.applications.iter().for_each(|name| mark(name, Change::Wait, &until));
    }
    let refused = plan.refused.iter().map(|(name, why)| (name, why)).chain(invalid);
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
