//! Built-in kinds pass through their types once: wrong types are refused,
//! unknown fields are found and dropped, nulls disappear, as in the real one.

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, coordination, core, discovery, networking,
    policy, rbac, scheduling, storage,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::schema::Path;

/// Reads and writes an object of a built-in kind in its stored version, as far
/// as it differs from `old`. Its metadata are left out: see [`metadata`].
///
/// Adds the paths of unknown fields to `dropped`.
///
/// # Errors
///
/// What serde says about a field of a wrong type.
pub(crate) fn normalise(
    kind: &Kind,
    object: &mut Value,
    old: Option<&Value>,
    dropped: &mut Vec<String>,
) -> Result<(), String> {
    let Some(map) = object.as_object_mut() else { return Ok(()) };
    let fields = std::mem::take(map).into_iter();
    let is_known = |field: &str, value: &Value| {
        field == "metadata" || old.is_some_and(|old| old.get(field) == Some(value))
    };
    let (known, fresh): (Map<_, _>, Map<_, _>) =
        fields.partition(|(field, value)| is_known(field, value));
    let mut fresh = Value::Object(fresh);
    quantities(&mut fresh);
    for field in ["apiVersion", "kind"] {
        if let Some(value) = known.get(field) {
            fresh[field] = value.clone();
        }
    }
    *object = through_type(kind, fresh, dropped)?;
    if let Some(map) = object.as_object_mut() {
        map.extend(known);
    }
    Ok(())
}

/// Reads an object as its type and writes it again.
fn through_type(kind: &Kind, value: Value, dropped: &mut Vec<String>) -> Result<Value, String> {
    let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
    let result = match (api_version.as_str(), kind.kind.as_str()) {
        ("v1", "Namespace") => through::<core::v1::Namespace>(&value),
        ("v1", "Node") => through::<core::v1::Node>(&value),
        ("v1", "Pod") => through::<core::v1::Pod>(&value),
        ("v1", "Service") => through::<core::v1::Service>(&value),
        ("v1", "Endpoints") => through::<core::v1::Endpoints>(&value),
        ("v1", "ConfigMap") => through::<core::v1::ConfigMap>(&value),
        ("v1", "Secret") => through::<core::v1::Secret>(&value),
        ("v1", "ServiceAccount") => through::<core::v1::ServiceAccount>(&value),
        ("v1", "PersistentVolume") => through::<core::v1::PersistentVolume>(&value),
        ("v1", "PersistentVolumeClaim") => through::<core::v1::PersistentVolumeClaim>(&value),
        ("v1", "Event") => through::<core::v1::Event>(&value),
        ("v1", "LimitRange") => through::<core::v1::LimitRange>(&value),
        ("v1", "ResourceQuota") => through::<core::v1::ResourceQuota>(&value),
        ("v1", "ReplicationController") => through::<core::v1::ReplicationController>(&value),
        ("v1", "PodTemplate") => through::<core::v1::PodTemplate>(&value),
        ("apps/v1", "Deployment") => through::<apps::v1::Deployment>(&value),
        ("apps/v1", "ReplicaSet") => through::<apps::v1::ReplicaSet>(&value),
        ("apps/v1", "StatefulSet") => through::<apps::v1::StatefulSet>(&value),
        ("apps/v1", "DaemonSet") => through::<apps::v1::DaemonSet>(&value),
        ("apps/v1", "ControllerRevision") => through::<apps::v1::ControllerRevision>(&value),
        ("batch/v1", "Job") => through::<batch::v1::Job>(&value),
        ("batch/v1", "CronJob") => through::<batch::v1::CronJob>(&value),
        ("autoscaling/v2", "HorizontalPodAutoscaler") => {
            through::<autoscaling::v2::HorizontalPodAutoscaler>(&value)
        }
        ("networking.k8s.io/v1", "Ingress") => through::<networking::v1::Ingress>(&value),
        ("networking.k8s.io/v1", "NetworkPolicy") => {
            through::<networking::v1::NetworkPolicy>(&value)
        }
        ("networking.k8s.io/v1", "IngressClass") => through::<networking::v1::IngressClass>(&value),
        ("rbac.authorization.k8s.io/v1", "Role") => through::<rbac::v1::Role>(&value),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => through::<rbac::v1::RoleBinding>(&value),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => through::<rbac::v1::ClusterRole>(&value),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => {
            through::<rbac::v1::ClusterRoleBinding>(&value)
        }
        ("policy/v1", "PodDisruptionBudget") => through::<policy::v1::PodDisruptionBudget>(&value),
        ("storage.k8s.io/v1", "StorageClass") => through::<storage::v1::StorageClass>(&value),
        ("storage.k8s.io/v1", "VolumeAttachment") => {
            through::<storage::v1::VolumeAttachment>(&value)
        }
        ("storage.k8s.io/v1", "CSIDriver") => through::<storage::v1::CSIDriver>(&value),
        ("storage.k8s.io/v1", "CSINode") => through::<storage::v1::CSINode>(&value),
        ("coordination.k8s.io/v1", "Lease") => through::<coordination::v1::Lease>(&value),
        ("discovery.k8s.io/v1", "EndpointSlice") => through::<discovery::v1::EndpointSlice>(&value),
        ("scheduling.k8s.io/v1", "PriorityClass") => {
            through::<scheduling::v1::PriorityClass>(&value)
        }
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration") => {
            through::<admissionregistration::v1::MutatingWebhookConfiguration>(&value)
        }
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") => {
            through::<admissionregistration::v1::ValidatingWebhookConfiguration>(&value)
        }
        ("apiregistration.k8s.io/v1", "APIService") => through::<APIService>(&value),
        // Definitions hold free-form schemas: kept as they are.
        _ => return Ok(value),
    };
    let typed = result?;
    lost(&value, &typed, &Path::Root, dropped);
    Ok(typed)
}

fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|e| e.to_string())?;
    serde_json::to_value(typed).map_err(|e| e.to_string())
}

/// Paths that are in one value and not in the other; nulls and empty ones do not count.
fn lost(before: &Value, after: &Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(b), Value::Object(a)) => {
            for (key, value) in b {
                let path = path.field(key);
                match a.get(key) {
                    Some(kept) => lost(value, kept, &path, dropped),
                    None if value.is_null() => {}
                    None => dropped.push(path.to_string()),
                }
            }
        }
        (Value::Array(b), Value::Array(a)) => {
            for (i, (value, kept)) in b.iter().zip(a).enumerate() {
                lost(value, kept, &path.item(i), dropped);
            }
        }
        _ => {}
    }
}

/// Maps whose values are quantities, which may be written as numbers.
const QUANTITY_MAPS: &[&str] = &[
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "min",
    "max",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
    "overhead",
    "allocatedResources",
];

/// Writes quantities given as numbers as text.
pub(crate) fn quantities(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if QUANTITY_MAPS.contains(&key.as_str())
                    && let Some(inner) = child.as_object_mut()
                {
                    for quantity in inner.values_mut().filter(|q| q.is_number()) {
                        *quantity = json!(quantity.to_string());
                    }
                }
                quantities(child);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(quantities),
        _ => {}
    }
}

/// Reads and writes `metadata`, for every kind; empty lists and maps go.
///
/// # Errors
///
/// What serde says about a field of a wrong type.
pub(crate) fn metadata(object: &mut Value) -> Result<(), String> {
    let meta = object["metadata"].take();
    let meta: ObjectMeta = serde_json::from_value(meta)
        .map_err(|e| format!("json: cannot unmarshal metadata: {e}"))?;
    let mut meta = serde_json::to_value(meta).map_err(|e| e.to_string())?;
    if let Some(map) = meta.as_object_mut() {
        map.retain(|_, v| match v {
            Value::Array(list) => !list.is_empty(),
            Value::Object(inner) => !inner.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
    object["metadata"] = meta;
    Ok(())
}
