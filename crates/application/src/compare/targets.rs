//! Converts manifests to targets: with namespace, tracking, and unique keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::condition::NewCondition;
use crate::memory::digest_of;
use wavegate_api::annotations::{INSTALLATION_ID, RUN_ID, TRACKING_ID};
use wavegate_api::cluster::ClusterScope;
use wavegate_api::conditions::application as types;
use wavegate_api::kind::KindRef;
use wavegate_api::raw::object_at;
use wavegate_api::resource_filter::KindFilter;
use wavegate_api::tracking::{Tracking, TrackingId, TrackingMethod, instance_label};
use wavegate_api::{Raw, ResourceKey, read_leniently};
use wavegate_engine::sync::{ObjectClass, classify_hook};

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    /// Namespaced.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
    /// The kind is not known to the cluster.
    Unknown,
}

/// One target.
#[derive(Clone, Debug)]
pub struct PlacedTarget {
    /// The object, with namespace and tracking.
    pub object: Arc<Value>,
    /// Its key; the name is empty if the server generates it.
    pub key: ResourceKey,
    /// Its role in a sync.
    pub class: ObjectClass,
    /// A digest of the object.
    pub digest: u64,
}

/// All targets of an Application.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// In source order.
    pub targets: Vec<PlacedTarget>,
    /// The conditions.
    pub conditions: Vec<NewCondition>,
}

/// Computes targets (SE-112, SE-120, SE-131, SE-132, SE-138, SE-139).
///
/// `scope` returns the scope of a kind (group, version, kind); `filter` has the kinds that
/// are not managed.
pub fn place_targets(
    manifests: Vec<Value>,
    destination_namespace: &str,
    tracking: &Tracking,
    scope: &dyn Fn(&str, &str, &str) -> KindScope,
    filter: &KindFilter,
) -> Placed {
    let defined = defined_scopes(&manifests);
    let mut placed: Vec<Option<PlacedTarget>> = Vec::new();
    let mut conditions = Vec::new();
    let mut last: BTreeMap<ResourceKey, (usize, usize)> = BTreeMap::new();
    for mut manifest in manifests {
        drop_empty_protocols(&mut manifest);
        let Some(key) = ResourceKey::from_object(&manifest) else { continue };
        if filter.excludes(&key.group, &key.kind) {
            conditions.push(NewCondition::new(
                types::EXCLUDED_RESOURCE_WARNING,
                format!(
                    "Resource {}/{} {} is excluded in the settings",
                    key.group, key.kind, key.name
                ),
            ));
            continue;
        }
        let version = manifest.version();
        let scope = match scope(&key.group, version, &key.kind) {
            KindScope::Unknown => {
                let own = defined.get(&(key.group.clone(), key.kind.clone()));
                own.copied().unwrap_or(KindScope::Unknown)
            }
            known => known,
        };
        let namespace = match (scope, key.namespace.as_str()) {
            (KindScope::Cluster, _) => "",
            (_, "") => destination_namespace,
            (_, namespace) => namespace,
        };
        if scope == KindScope::Namespaced && namespace.is_empty() {
            // Also for the core group, as Go prints it.
            conditions.push(NewCondition::invalid_spec(format!(
                "Namespace for {} {}/{version}, Kind={} is missing.",
                key.name, key.group, key.kind
            )));
        }
        let namespace = namespace.to_owned();
        let key = key.in_namespace(&namespace);
        let object = tracked(manifest, &key, destination_namespace, tracking);
        let class = classify_hook(&object);
        if !key.name.is_empty() {
            let entry = last.entry(key.clone()).or_insert((placed.len(), 0));
            if entry.1 > 0 {
                placed[entry.0] = None;
                entry.0 = placed.len();
            }
            entry.1 += 1;
        }
        let digest = digest_of(&object);
        placed.push(Some(PlacedTarget { object: Arc::new(object), key, class, digest }));
    }
    if tracking.method == TrackingMethod::AnnotationAndLabel
        && !placed.is_empty()
        && instance_label(&tracking.instance).is_none()
    {
        conditions.push(NewCondition::comparison(format!(
            "application.resourceTrackingMethod is annotation+label, and nothing of the name {:?} \
             can be a value of the label {}; use the method annotation",
            tracking.instance, tracking.label
        )));
    }
    for (key, (_, times)) in last.iter().filter(|(_, (_, times))| *times > 1) {
        let ResourceKey { group, kind, namespace, name } = key;
        conditions.push(NewCondition::new(
            types::REPEATED_RESOURCE_WARNING,
            format!(
                "Resource {group}/{kind}/{namespace}/{name} appeared {times} times among \
                 application resources."
            ),
        ));
    }
    Placed { targets: placed.into_iter().flatten().collect(), conditions }
}

impl Placed {
    /// Why a target must not be managed in its cluster (SE-433).
    ///
    /// # Errors
    ///
    /// The message for the first such target.
    pub fn check(&self, scope: &ClusterScope) -> Result<(), String> {
        let ignored = |target: &&PlacedTarget| target.class != ObjectClass::Ignored;
        self.targets.iter().filter(ignored).try_for_each(|target| {
            let ResourceKey { kind, namespace, name, .. } = &target.key;
            scope.check(kind, namespace, name)
        })
    }
}

/// Scopes of the kinds that the manifests themselves define.
fn defined_scopes(manifests: &[Value]) -> BTreeMap<(String, String), KindScope> {
    let crds = manifests.iter().filter(|manifest| KindRef::of(manifest).is_crd());
    let defined = crds.filter_map(|crd| {
        let DefinitionView { group, names, scope } = read_leniently(crd.spec());
        let scope = match scope?.as_str() {
            "Cluster" => KindScope::Cluster,
            _ => KindScope::Namespaced,
        };
        Some(((group?, names.kind?), scope))
    });
    defined.collect()
}

/// What the spec of a CustomResourceDefinition says about its kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionView {
    group: Option<String>,
    names: DefinitionNames,
    scope: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionNames {
    kind: Option<String>,
}

/// The manifest with its namespace and tracking (SE-105, SE-111).
fn tracked(
    mut object: Value,
    key: &ResourceKey,
    destination_namespace: &str,
    tracking: &Tracking,
) -> Value {
    let definition = KindRef::of(&object).is_crd();
    let fields = object.as_object_mut();
    let Some(metadata) = fields.and_then(|fields| object_at(fields, "metadata")) else {
        return object;
    };
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), key.namespace.clone().into());
    }
    if definition {
        return object;
    }
    let id = || {
        let namespace =
            if key.namespace.is_empty() { destination_namespace } else { &key.namespace };
        let instance = tracking.instance.clone();
        TrackingId { instance, key: key.clone().in_namespace(namespace) }.to_string()
    };
    if !tracking.method.is_by_label() {
        set(metadata, "annotations", TRACKING_ID, &id());
        if !tracking.installation.is_empty() {
            set(metadata, "annotations", INSTALLATION_ID, &tracking.installation);
        } else if let Some(annotations) =
            metadata.get_mut("annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(INSTALLATION_ID);
        }
    }
    match tracking.method {
        TrackingMethod::Annotation => {}
        TrackingMethod::Label => set(metadata, "labels", &tracking.label, &tracking.instance),
        TrackingMethod::Run => {
            set(metadata, "labels", &tracking.label, &tracking.instance);
            set(metadata, "annotations", RUN_ID, &id());
            // Of a manifest that was read from a cluster: it claims an Application.
            if let Some(annotations) =
                metadata.get_mut("annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(TRACKING_ID);
                annotations.remove(INSTALLATION_ID);
            }
        }
        TrackingMethod::AnnotationAndLabel => {
            if let Some(label) = instance_label(&tracking.instance) {
                set(metadata, "labels", &tracking.label, &label);
            }
        }
    }
    object
}

/// Removes an empty protocol of a port, which is TCP as an absent one is. Server-side apply
/// identifies a port by it before the server fills it in: the stored port would not be the applied
/// one, out of sync after each sync, and a second port for the next apply.
fn drop_empty_protocols(object: &mut Value) {
    let kind = KindRef::of(object);
    let is_service = kind.group.is_empty() && kind.kind == "Service";
    let pod = kind.pod_spec();
    let Some(path) = pod.or(is_service.then_some(&["spec"])) else { return };
    let mut spec = object;
    for name in path {
        let Some(below) = spec.get_mut(*name) else { return };
        spec = below;
    }
    if pod.is_none() {
        return drop_empty_protocols_in(spec);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(drop_empty_protocols_in);
    }
}

fn drop_empty_protocols_in(holder: &mut Value) {
    let ports = holder.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if port.get("protocol").is_some_and(|protocol| protocol == "") {
            port.remove("protocol");
        }
    }
}

fn set(metadata: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    if let Some(map) = object_at(metadata, field) {
        map.insert(key.to_owned(), value.into());
    }
}
