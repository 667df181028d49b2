//! The identity of a set, and the owner of an Application (AS-158, AS-159).

use serde_json::{Value, json};

use super::policy::Policy;
use wavegate_api::API_VERSION;

/// The identity of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The UID of its namespace; `None` while it is unknown.
    pub namespace_uid: Option<String>,
}

impl Identity {
    /// From a raw set.
    pub fn of(set: &Value) -> Self {
        let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        Self { namespace, name, uid, namespace_uid: None }
    }

    /// Its Namespace as an owner of Applications that must outlive the set.
    ///
    /// Garbage collection deletes an object when its last owner is gone, and in the
    /// foreground already when its last owner is being deleted. An owner that stays
    /// prevents both, whether a controller runs or not: only the reference to the set is
    /// removed (AS-167).
    fn namespace_owner(&self) -> Option<Value> {
        let uid = self.namespace_uid.as_deref()?;
        Some(json!({
            "apiVersion": "v1", "kind": "Namespace", "name": self.namespace, "uid": uid,
        }))
    }

    /// Whether an owner reference is that of [`Self::namespace_owner`].
    pub(super) fn is_namespace_owner(&self, owner: &Value) -> bool {
        owner["kind"] == "Namespace"
            && owner["apiVersion"] == "v1"
            && owner["name"] == *self.namespace
    }
}

/// The owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The set.
    Set,
    /// Not owned.
    None,
    /// Owned by another object: its kind and name.
    Other(Box<str>),
}

impl Owner {
    /// The controlling owner of an Application.
    pub(super) fn of(application: &Value, set: &Identity) -> Self {
        let Some(owner) = controller_of(application) else { return Self::None };
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

/// The change of the owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The UID of the set that owns it.
    pub from: Box<str>,
    /// The merge patch, with the observed version as a precondition.
    pub patch: Box<str>,
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

/// The name of the ApplicationSet that controls an Application.
pub fn set_of(application: &Value) -> Option<&str> {
    let owner = controller_of(application).filter(|owner| owner["kind"] == "ApplicationSet");
    owner?["name"].as_str()
}

fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true))
}

/// How a set takes over an Application that another set controls; `None` when none does.
pub(super) fn takeover(live: &Value, set: &Identity, policy: Policy) -> Option<Takeover> {
    let owner = controller_of(live)?;
    let is_set = owner["kind"] == "ApplicationSet" && owner["apiVersion"] == API_VERSION;
    let from = owner["uid"].as_str().filter(|uid| is_set && *uid != set.uid)?;
    let mut references = with_namespace(live, set, policy);
    references.retain(|one| one["uid"] != from && one["uid"] != *set.uid);
    references.push(owner_reference(set));
    let version = &live["metadata"]["resourceVersion"];
    let patch =
        json!({ "metadata": { "ownerReferences": references, "resourceVersion": version } });
    Some(Takeover { from: from.into(), patch: patch.to_string().into() })
}

/// The owner reference of an Application to its set.
pub fn owner_reference(set: &Identity) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ApplicationSet",
        "name": set.name,
        "uid": set.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The owner references of a new Application.
pub(super) fn new_owner_references(set: &Identity, policy: Policy) -> Value {
    let stays = (!policy.deletes()).then(|| set.namespace_owner()).flatten();
    std::iter::once(owner_reference(set)).chain(stays).collect()
}

/// The live owner references with ours; others are unchanged.
pub(super) fn owner_references(live: &Value, set: &Identity, policy: Policy) -> Value {
    let ours = owner_reference(set);
    let owners = with_namespace(live, set, policy);
    let at = owners.iter().position(|owner| owner["uid"] == ours["uid"]);
    let mut owners: Vec<Value> =
        owners.into_iter().filter(|owner| owner["uid"] != ours["uid"]).collect();
    owners.insert(at.unwrap_or(owners.len()), ours);
    owners.into()
}

/// The merge patch that only adds or removes the reference to the Namespace, for an
/// Application that is otherwise not written; `None` when it is as the policy requires.
pub(super) fn guard(live: &Value, set: &Identity, policy: Policy) -> Option<Value> {
    let owners = with_namespace(live, set, policy);
    if live["metadata"]["ownerReferences"].as_array() == Some(&owners) {
        return None;
    }
    let version = &live["metadata"]["resourceVersion"];
    Some(json!({ "metadata": { "ownerReferences": owners, "resourceVersion": version } }))
}

/// The live owner references, with the Namespace if the policy forbids deletion and
/// without it otherwise; as they are while its UID is unknown.
fn with_namespace(live: &Value, set: &Identity, policy: Policy) -> Vec<Value> {
    let mut owners = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    if policy.deletes() {
        owners.retain(|owner| !set.is_namespace_owner(owner));
    } else if let Some(stays) = set.namespace_owner()
        && !owners.iter().any(|owner| owner["uid"] == stays["uid"])
    {
        owners.retain(|owner| !set.is_namespace_owner(owner));
        owners.push(stays);
    }
    owners
}
