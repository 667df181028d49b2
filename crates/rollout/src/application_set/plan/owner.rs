//! The identity of a set, and the owner of an Application (AS-158, AS-159).

use serde_json::{Value, json};

use crate::application_set::generate::policy::Policy;
use wavegate_api::live::{LiveMetadata, LiveOwner};
use wavegate_api::{API_VERSION, Raw};

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
        let [namespace, name, uid] = [set.namespace(), set.name(), set.uid()].map(str::to_owned);
        Self { namespace, name, uid, namespace_uid: None }
    }

    /// Its Namespace as an owner of Applications that must outlive the set.
    ///
    /// Garbage collection deletes an object when its last owner is gone, and in the
    /// foreground already when its last owner is being deleted. An owner that stays
    /// prevents both, whether a controller runs or not: only the reference to the set is
    /// removed (AS-167).
    fn namespace_owner(&self) -> Option<LiveOwner> {
        Some(LiveOwner {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            name: self.namespace.clone(),
            uid: self.namespace_uid.clone()?,
            ..LiveOwner::default()
        })
    }

    /// Whether an owner reference is that of [`Self::namespace_owner`].
    pub(in crate::application_set) fn is_namespace_owner(&self, owner: &LiveOwner) -> bool {
        owner.kind == "Namespace" && owner.api_version == "v1" && owner.name == self.namespace
    }
}

/// The owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationOwner {
    /// The set.
    Set,
    /// Not owned.
    None,
    /// Owned by another object: its kind and name.
    Other(Box<str>),
}

impl ApplicationOwner {
    /// The controlling owner of an Application.
    pub(in crate::application_set) fn of(metadata: &LiveMetadata, set: &Identity) -> Self {
        let Some(owner) = metadata.controller() else { return Self::None };
        if is_set(owner) && owner.uid == set.uid {
            return Self::Set;
        }
        let text = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
        Self::Other(format!("{} {}", text(&owner.kind), text(&owner.name)).into())
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
    let metadata = LiveMetadata::of(application);
    metadata.controller().is_some_and(|owner| is_set(owner) && owner.uid == set.uid())
}

/// The name of the ApplicationSet that controls an Application.
pub fn set_of(application: &Value) -> Option<&str> {
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let owner = application.items("/metadata/ownerReferences").iter().find(is_controller)?;
    (owner.kind() == "ApplicationSet").then(|| owner.field("name")).filter(|name| !name.is_empty())
}

fn is_set(owner: &LiveOwner) -> bool {
    owner.kind == "ApplicationSet" && owner.api_version == API_VERSION
}

/// How a set takes over an Application that another set controls; `None` when none does.
pub(in crate::application_set) fn takeover(
    live: &LiveMetadata,
    set: &Identity,
    policy: Policy,
) -> Option<Takeover> {
    let owner = live.controller().filter(|owner| is_set(owner) && owner.uid != set.uid)?;
    let mut owners = with_namespace(live, set, policy);
    owners.retain(|one| one.uid != owner.uid && one.uid != set.uid);
    owners.push(owner_reference(set));
    let patch = patch_of_owners(live, &owners).to_string();
    Some(Takeover { from: owner.uid.as_str().into(), patch: patch.into() })
}

/// The merge patch that changes the owners of an object only, as long as it is as observed.
pub(in crate::application_set) fn patch_of_owners(
    live: &LiveMetadata,
    owners: &[LiveOwner],
) -> Value {
    let version = &live.resource_version;
    json!({ "metadata": { "ownerReferences": owners, "resourceVersion": version } })
}

/// The owner reference of an Application to its set.
pub fn owner_reference(set: &Identity) -> LiveOwner {
    LiveOwner {
        api_version: API_VERSION.to_owned(),
        kind: "ApplicationSet".to_owned(),
        name: set.name.clone(),
        uid: set.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..LiveOwner::default()
    }
}

/// The owner references of a new Application.
pub(in crate::application_set) fn new_owner_references(
    set: &Identity,
    policy: Policy,
) -> Vec<LiveOwner> {
    let stays = (!policy.deletes()).then(|| set.namespace_owner()).flatten();
    std::iter::once(owner_reference(set)).chain(stays).collect()
}

/// The live owner references with ours; others are unchanged.
pub(in crate::application_set) fn owner_references(
    live: &LiveMetadata,
    set: &Identity,
    policy: Policy,
) -> Vec<LiveOwner> {
    let mut owners = with_namespace(live, set, policy);
    let at = owners.iter().position(|owner| owner.uid == set.uid);
    owners.retain(|owner| owner.uid != set.uid);
    owners.insert(at.unwrap_or(owners.len()), owner_reference(set));
    owners
}

/// The merge patch that only adds or removes the reference to the Namespace, for an
/// Application that is otherwise not written; `None` when it is as the policy requires.
pub(in crate::application_set) fn guard(
    live: &LiveMetadata,
    set: &Identity,
    policy: Policy,
) -> Option<Value> {
    let owners = with_namespace(live, set, policy);
    let is_guarded = live.owner_references.as_ref() == Some(&owners);
    (!is_guarded).then(|| patch_of_owners(live, &owners))
}

/// The live owner references, with the Namespace if the policy forbids deletion and
/// without it otherwise; as they are while its UID is unknown.
fn with_namespace(live: &LiveMetadata, set: &Identity, policy: Policy) -> Vec<LiveOwner> {
    let mut owners = live.owners().to_vec();
    if policy.deletes() {
        owners.retain(|owner| !set.is_namespace_owner(owner));
    } else if let Some(stays) = set.namespace_owner()
        && !owners.iter().any(|owner| owner.uid == stays.uid)
    {
        owners.retain(|owner| !set.is_namespace_owner(owner));
        owners.push(stays);
    }
    owners
}
