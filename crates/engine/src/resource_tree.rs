//! The resources of an Application as a tree: those of its status and the hooks of its
//! last operation on top, below each the objects that it owns, down to Pods.
//!
//! Owner references are untrusted: an object is shown once, below its first owner, and a
//! cycle is never followed.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

use super::health::{self, Checks, Health};
use wavegate_api::annotations::sync_wave;
use wavegate_api::app_view::{HealthView, ResourceView, ResultView};
use wavegate_api::kind::KindRef;
use wavegate_api::raw::OwnerReference;
use wavegate_api::{Raw, ResourceKey};

/// Levels below a resource. Owners of Kubernetes' own kinds have at most three.
const MAX_DEPTH: usize = 16;

/// A live object, without its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveObject {
    /// Its key.
    pub key: ResourceKey,
    /// Its API version within the group.
    pub version: String,
    /// Its UID.
    pub uid: String,
    /// UIDs of its owners, the controlling one first.
    pub owners: Vec<String>,
    /// `metadata.creationTimestamp`.
    pub created_at: String,
    /// Its sync wave.
    pub wave: i64,
    /// Its health; `None` when its kind has no check, or its content was not read.
    pub health: Option<Health>,
    /// Names of its claim templates, of a StatefulSet.
    pub claim_templates: Vec<String>,
    /// A ReplicaSet that wants no replicas and has none: of a former revision.
    pub scaled_down: bool,
}

impl LiveObject {
    /// Reads an object. `whole`: whether it has content; without, it has no health
    /// except that of its deletion. What has a script has the health that `checks` know.
    pub fn read(object: &Value, whole: bool, checks: &Checks) -> Self {
        let KindRef { group, version, kind } = KindRef::of(object);
        let mut owners: Vec<OwnerReference<'_>> = object.owners().collect();
        owners.sort_by_key(|owner| !owner.is_controller);
        let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        let health = match whole {
            true => checks.of(object),
            false => health::pending_deletion(object),
        };
        let templates = object.items("/spec/volumeClaimTemplates").iter();
        Self {
            key: ResourceKey::new(group, kind, object.namespace(), object.name()),
            version: version.to_owned(),
            uid: object.uid().to_owned(),
            owners: owners.into_iter().map(|owner| owner.uid.to_owned()).collect(),
            created_at: object.text("/metadata/creationTimestamp").to_owned(),
            wave: sync_wave(object),
            health,
            claim_templates: templates.map(|template| template.name().to_owned()).collect(),
            scaled_down: whole
                && kind == "ReplicaSet"
                && count("/spec/replicas") == Some(0)
                && count("/status/replicas").unwrap_or(0) == 0,
        }
    }

    /// Whether it is a StatefulSet, and the object a volume claim of one of its Pods:
    /// such a claim has no owner unless the StatefulSet says so.
    fn claims(&self, other: &ResourceKey) -> bool {
        let is_claim = other.group.is_empty() && other.kind == "PersistentVolumeClaim";
        is_claim
            && other.namespace == self.key.namespace
            && self.claim_templates.iter().any(|template| {
                let rest = other.name.strip_prefix(template.as_str());
                let rest = rest.and_then(|rest| rest.strip_prefix('-'));
                let rest = rest.and_then(|rest| rest.strip_prefix(self.key.name.as_str()));
                let ordinal = rest.and_then(|rest| rest.strip_prefix('-'));
                ordinal.is_some_and(|o| !o.is_empty() && o.bytes().all(|b| b.is_ascii_digit()))
            })
    }
}

/// A resource of the Application or an object below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedResource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Sync status, of a hook the phase of its last run; empty for objects that the
    /// Application does not manage itself.
    pub sync: String,
    /// Health; `null` when there is no check for the kind.
    pub health: Option<Health>,
    /// Sync wave.
    pub wave: i64,
    /// The phase of a hook, such as `PreSync`; empty for others.
    pub hook: String,
    /// Whether it is no longer in the source.
    pub requires_pruning: bool,
    /// Whether it does not exist; unknown objects count as existing.
    pub missing: bool,
    /// When it was created; empty when unknown.
    pub created_at: String,
    /// The message of the last operation about it, when that failed.
    pub message: String,
    /// A ReplicaSet of a former revision.
    pub scaled_down: bool,
    /// The objects that it owns.
    pub children: Vec<OwnedResource>,
}

impl OwnedResource {
    /// Its key.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }

    fn of(key: ResourceKey, version: String) -> Self {
        let ResourceKey { group, kind, namespace, name } = key;
        Self { group, version, kind, namespace, name, ..Self::default() }
    }

    fn of_live(object: &LiveObject) -> Self {
        Self {
            health: object.health.clone(),
            wave: object.wave,
            created_at: object.created_at.clone(),
            scaled_down: object.scaled_down,
            ..Self::of(object.key.clone(), object.version.clone())
        }
    }
}

/// The resources in the status of an Application and the hooks of its last operation,
/// without children: PreSync hooks first, then by wave, the other hooks last.
pub fn listed_resources(application: &Value) -> Vec<OwnedResource> {
    let mut nodes: BTreeMap<ResourceKey, OwnedResource> = BTreeMap::new();
    for resource in ResourceView::rows(application) {
        let key = resource.key();
        let health = resource.health.filter(|health| !health.status.is_empty());
        let health = health.map(|HealthView { status, message, .. }| Health {
            status: health::Status::from_word(&status),
            message,
        });
        let node = OwnedResource {
            sync: resource.status,
            missing: health.as_ref().is_some_and(|h| h.status == health::Status::Missing),
            health,
            wave: resource.sync_wave,
            hook: if resource.hook { "Hook".to_owned() } else { String::new() },
            requires_pruning: resource.requires_pruning,
            ..OwnedResource::of(key.clone(), resource.version)
        };
        nodes.insert(key, node);
    }
    for result in ResultView::rows(application) {
        let has_failed = matches!(result.status.as_str(), "SyncFailed" | "PruneFailed")
            || matches!(result.hook_phase.as_str(), "Failed" | "Error");
        let key = result.key();
        if result.hook_type.is_empty() && !nodes.contains_key(&key) {
            continue;
        }
        let node = nodes
            .entry(key)
            .or_insert_with_key(|key| OwnedResource::of(key.clone(), result.version));
        if !result.hook_type.is_empty() {
            node.hook = result.hook_type;
            node.sync = result.hook_phase;
        }
        if has_failed {
            node.message = result.message;
        }
    }
    let mut nodes: Vec<OwnedResource> =
        nodes.into_values().filter(|node| !node.kind.is_empty()).collect();
    let rank = |node: &OwnedResource| match node.hook.as_str() {
        "PreSync" => 0,
        "PostSync" => 2,
        "SyncFail" => 3,
        "PreDelete" | "PostDelete" => 4,
        _ => 1,
    };
    // Equal ones stay in the order of their keys.
    nodes.sort_by_key(|node| (rank(node), node.wave));
    nodes
}

/// The objects below some others, by the index in `candidates`.
pub fn nodes_below(owners: &[LiveObject], candidates: &[LiveObject]) -> BTreeSet<usize> {
    let links = Links::new(owners.iter().chain(candidates), candidates);
    let mut found = BTreeSet::new();
    let mut next: VecDeque<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    while let Some(uid) = next.pop_front() {
        for child in links.children(uid) {
            if found.insert(child) {
                next.push_back(&candidates[child].uid);
            }
        }
    }
    found
}

/// Which objects each one owns.
struct Links<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> Links<'a> {
    fn new(owners: impl Iterator<Item = &'a LiveObject>, objects: &'a [LiveObject]) -> Self {
        let templated: Vec<&LiveObject> =
            owners.filter(|object| !object.claim_templates.is_empty()).collect();
        let mut links: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, object) in objects.iter().enumerate() {
            for owner in object.owners.iter().filter(|uid| !uid.is_empty()) {
                links.entry(owner).or_default().push(index);
            }
            for owner in templated.iter().filter(|owner| owner.claims(&object.key)) {
                links.entry(&owner.uid).or_default().push(index);
            }
        }
        Self(links)
    }

    fn children(&self, uid: &str) -> impl Iterator<Item = usize> {
        self.0.get(uid).into_iter().flatten().copied()
    }
}

/// Adds what is known of the live objects to the resources: `live` are the resources
/// themselves, as far as they could be read, and the objects below them; `absent` are
/// resources that do not exist.
pub fn with_live(
    resources: Vec<OwnedResource>,
    live: &[LiveObject],
    absent: &BTreeSet<ResourceKey>,
) -> Vec<OwnedResource> {
    let by_key: HashMap<&ResourceKey, usize> =
        live.iter().enumerate().map(|(index, object)| (&object.key, index)).collect();
    let links = Links::new(live.iter(), live);
    let tops = resources.iter().filter_map(|node| by_key.get(&node.key()).copied());
    let mut shown: BTreeSet<usize> = tops.collect();
    let mut out = Vec::new();
    for mut node in resources {
        let key = node.key();
        if let Some(index) = by_key.get(&key).copied() {
            let object = &live[index];
            node.created_at.clone_from(&object.created_at);
            // The status has the wave of the source, but not that of every hook.
            if !node.hook.is_empty() && node.wave == 0 {
                node.wave = object.wave;
            }
            node.scaled_down = object.scaled_down;
            if node.version.is_empty() {
                node.version.clone_from(&object.version);
            }
            if node.health.is_none() {
                node.health.clone_from(&object.health);
            }
            node.missing = false;
            node.children = children(&object.uid, live, &links, &mut shown, 1);
        } else if absent.contains(&key) {
            node.missing = true;
        }
        out.push(node);
    }
    out
}

fn children(
    uid: &str,
    live: &[LiveObject],
    links: &Links<'_>,
    shown: &mut BTreeSet<usize>,
    depth: usize,
) -> Vec<OwnedResource> {
    if depth > MAX_DEPTH || uid.is_empty() {
        return Vec::new();
    }
    let new: Vec<usize> = links.children(uid).filter(|child| shown.insert(*child)).collect();
    let mut nodes: Vec<OwnedResource> = new
        .into_iter()
        .map(|index| OwnedResource {
            children: children(&live[index].uid, live, links, shown, depth + 1),
            ..OwnedResource::of_live(&live[index])
        })
        .collect();
    nodes.sort_by(|a, b| (&a.kind, &a.group, &a.name).cmp(&(&b.kind, &b.group, &b.name)));
    nodes
}
