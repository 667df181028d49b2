//! The order of a sync: phase, wave, kind, name (SE-215..SE-220).
//!
//! Used by the engine and `wavegate order`. The order is total: two different
//! resources are never equal, so the order of the input does not matter.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::hooks::{self, ObjectClass};
use super::object::{defines, is_namespace};
use wavegate_api::Raw;
use wavegate_api::annotations::sync_wave;
use wavegate_api::operation::SyncPhase;

/// The slot of a task in the sync order. Field order is sort order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Slot {
    /// The phase, compared first.
    pub phase: SyncPhase,
    /// From the sync-wave annotation: may be negative, 0 when absent.
    pub wave: i64,
    /// See [`kind_rank`]. Not printed.
    #[serde(skip)]
    pub kind_rank: u8,
    /// Byte-wise; a hook without a name is listed by its `generateName`.
    pub name: String,
    /// Empty for cluster-scoped kinds and for manifests without a namespace.
    pub namespace: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Kind as written.
    pub kind: String,
    /// Whether it is a hook.
    pub hook: bool,
}

/// Kinds in the order in which they are applied within a wave, regardless of
/// their group (SE-216).
const KINDS: [&str; 35] = [
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Position of a kind within a wave, from 1; all other kinds share the last
/// position and are sorted by name only.
pub fn kind_rank(kind: &str) -> u8 {
    let found = KINDS.iter().position(|known| *known == kind);
    let rank = found.map_or(KINDS.len() + 1, |index| index + 1);
    u8::try_from(rank).unwrap_or(u8::MAX)
}

/// A slot together with the input for promotion (SE-218, SE-219).
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub slot: Slot,
    pub item: T,
    /// The namespace that this target creates.
    pub creates_namespace: Option<String>,
    /// The group and kind that this target defines.
    pub defines_kind: Option<(String, String)>,
    /// Whether there is a target; prune tasks are not promoted.
    pub has_target: bool,
}

impl<T> Placed<T> {
    pub fn new(slot: Slot, target: Option<&Value>, item: T) -> Self {
        let namespace = target.filter(|target| is_namespace(target));
        let namespace = namespace.map(|target| target.name().to_owned());
        let defines = target.and_then(defines);
        Self {
            slot,
            item,
            creates_namespace: namespace,
            defines_kind: defines.map(|(group, kind, _)| (group.to_owned(), kind.to_owned())),
            has_target: target.is_some(),
        }
    }
}

/// Sorts, then moves each Namespace and each CustomResourceDefinition that
/// would be too late directly before the first target that needs it, into the
/// phase and wave of that target.
pub(super) fn arrange<T>(mut items: Vec<Placed<T>>) -> Vec<Placed<T>> {
    items.sort_by(|a, b| a.slot.cmp(&b.slot));
    let items = promote(
        items,
        |placed| placed.creates_namespace.clone(),
        |placed| Some(placed.slot.namespace.clone()).filter(|name| !name.is_empty()),
    );
    promote(
        items,
        |placed| placed.defines_kind.clone(),
        |placed| Some((placed.slot.group.clone(), placed.slot.kind.clone())),
    )
}

fn promote<T, K: std::hash::Hash + Eq>(
    mut items: Vec<Placed<T>>,
    provides: impl Fn(&Placed<T>) -> Option<K>,
    needs: impl Fn(&Placed<T>) -> Option<K>,
) -> Vec<Placed<T>> {
    let mut first_need: HashMap<K, usize> = HashMap::new();
    let mut moves: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, placed) in items.iter().enumerate().filter(|(_, placed)| placed.has_target) {
        if let Some(provided) = provides(placed) {
            if let Some(at) = first_need.get(&provided) {
                moves.entry(*at).or_default().push(index);
            }
        } else if let Some(needed) = needs(placed) {
            first_need.entry(needed).or_insert(index);
        }
    }
    if moves.is_empty() {
        return items;
    }
    for (at, moved) in &moves {
        let (phase, wave) = (items[*at].slot.phase, items[*at].slot.wave);
        for index in moved {
            (items[*index].slot.phase, items[*index].slot.wave) = (phase, wave);
        }
    }
    let mut left: Vec<Option<Placed<T>>> = items.into_iter().map(Some).collect();
    let mut arranged = Vec::with_capacity(left.len());
    for index in 0..left.len() {
        let before = moves.get(&index).into_iter().flatten().copied();
        for from in before.chain([index]) {
            arranged.extend(left[from].take());
        }
    }
    arranged
}

/// The order in which manifests are applied, SyncFail hooks last.
///
/// Of duplicate resources, the last manifest is used (SE-138). Manifests that
/// are never applied (`Skip`, deletion hooks, unknown hook types) are omitted.
pub fn apply_order(manifests: &[Value]) -> Vec<Slot> {
    let mut placed = Vec::new();
    for (index, manifest) in last_of_each(manifests).into_iter().enumerate() {
        let (phases, hook) = match hooks::classify_hook(manifest) {
            ObjectClass::Resource => (vec![SyncPhase::Sync], false),
            ObjectClass::Hook(phases) => (phases, true),
            ObjectClass::Skipped | ObjectClass::DeleteHook | ObjectClass::Ignored => continue,
        };
        for phase in phases {
            let slot = slot(manifest, phase, sync_wave(manifest), hook);
            placed.push(Placed::new(slot, Some(manifest), index));
        }
    }
    let mut placed = arrange(placed);
    // Two phases of one hook can be promoted to the same slot.
    let mut seen = HashSet::new();
    placed.retain(|placed| seen.insert((placed.item, placed.slot.phase)));
    placed.into_iter().map(|placed| placed.slot).collect()
}

pub(super) fn slot(manifest: &Value, phase: SyncPhase, wave: i64, hook: bool) -> Slot {
    let name = if manifest.name().is_empty() { manifest.generate_name() } else { manifest.name() };
    Slot {
        phase,
        wave,
        kind_rank: kind_rank(manifest.kind()),
        name: name.to_owned(),
        namespace: manifest.namespace().to_owned(),
        group: manifest.group().to_owned(),
        kind: manifest.kind().to_owned(),
        hook,
    }
}

/// Manifests without those that a later one of the same identity replaces.
/// Objects that only have `generateName` never replace each other.
pub(super) fn last_of_each(manifests: &[Value]) -> Vec<&Value> {
    let mut last = HashMap::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let nameless = manifest.name().is_empty().then_some(index);
        let key =
            (manifest.group(), manifest.kind(), manifest.namespace(), manifest.name(), nameless);
        last.insert(key, index);
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    kept.into_iter().map(|index| &manifests[index]).collect()
}
