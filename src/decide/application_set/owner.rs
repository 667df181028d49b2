//! The identity of a set, and the owner of an Application (AS-158, AS-159).

use serde_json::{Value, json};

use crate::api::API_VERSION;

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

pub(super) fn owner_reference(set: &Identity) -> Value {
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
pub(super) fn owner_references(live: &Value, set: &Identity) -> Value {
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
