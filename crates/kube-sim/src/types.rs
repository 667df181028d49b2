//! The types of built-in kinds: what an object may hold, and its schema.

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, coordination, core, discovery, events,
    networking, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A built-in kind in one version.
pub(crate) struct Type {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Reads an object and writes it again.
    pub through: fn(&Value) -> Result<Value, String>,
    /// Adds the schema to the definitions of a generator.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Whether objects are stored in this version, and pass through it.
    stored: bool,
}

const fn stored<T>(api_version: &'static str, kind: &'static str) -> Type
where
    T: DeserializeOwned + Serialize + JsonSchema,
{
    Type {
        api_version,
        kind,
        through: through::<T>,
        schema: SchemaGenerator::subschema_for::<T>,
        stored: true,
    }
}

const fn described<T>(api_version: &'static str, kind: &'static str) -> Type
where
    T: DeserializeOwned + Serialize + JsonSchema,
{
    Type { stored: false, ..stored::<T>(api_version, kind) }
}

fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|e| e.to_string())?;
    serde_json::to_value(typed).map_err(|e| e.to_string())
}

/// All of them.
pub(crate) const TYPES: &[Type] = &[
    stored::<core::v1::Namespace>("v1", "Namespace"),
    stored::<core::v1::Node>("v1", "Node"),
    stored::<core::v1::Pod>("v1", "Pod"),
    stored::<core::v1::Service>("v1", "Service"),
    stored::<core::v1::Endpoints>("v1", "Endpoints"),
    stored::<core::v1::ConfigMap>("v1", "ConfigMap"),
    stored::<core::v1::Secret>("v1", "Secret"),
    stored::<core::v1::ServiceAccount>("v1", "ServiceAccount"),
    stored::<core::v1::PersistentVolume>("v1", "PersistentVolume"),
    stored::<core::v1::PersistentVolumeClaim>("v1", "PersistentVolumeClaim"),
    stored::<core::v1::Event>("v1", "Event"),
    stored::<core::v1::LimitRange>("v1", "LimitRange"),
    stored::<core::v1::ResourceQuota>("v1", "ResourceQuota"),
    stored::<core::v1::ReplicationController>("v1", "ReplicationController"),
    stored::<core::v1::PodTemplate>("v1", "PodTemplate"),
    stored::<apps::v1::Deployment>("apps/v1", "Deployment"),
    stored::<apps::v1::ReplicaSet>("apps/v1", "ReplicaSet"),
    stored::<apps::v1::StatefulSet>("apps/v1", "StatefulSet"),
    stored::<apps::v1::DaemonSet>("apps/v1", "DaemonSet"),
    stored::<apps::v1::ControllerRevision>("apps/v1", "ControllerRevision"),
    stored::<batch::v1::Job>("batch/v1", "Job"),
    stored::<batch::v1::CronJob>("batch/v1", "CronJob"),
    stored::<autoscaling::v2::HorizontalPodAutoscaler>("autoscaling/v2", "HorizontalPodAutoscaler"),
    stored::<networking::v1::Ingress>("networking.k8s.io/v1", "Ingress"),
    stored::<networking::v1::NetworkPolicy>("networking.k8s.io/v1", "NetworkPolicy"),
    stored::<networking::v1::IngressClass>("networking.k8s.io/v1", "IngressClass"),
    stored::<rbac::v1::Role>("rbac.authorization.k8s.io/v1", "Role"),
    stored::<rbac::v1::RoleBinding>("rbac.authorization.k8s.io/v1", "RoleBinding"),
    stored::<rbac::v1::ClusterRole>("rbac.authorization.k8s.io/v1", "ClusterRole"),
    stored::<rbac::v1::ClusterRoleBinding>("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    stored::<policy::v1::PodDisruptionBudget>("policy/v1", "PodDisruptionBudget"),
    stored::<storage::v1::StorageClass>("storage.k8s.io/v1", "StorageClass"),
    stored::<storage::v1::VolumeAttachment>("storage.k8s.io/v1", "VolumeAttachment"),
    stored::<storage::v1::CSIDriver>("storage.k8s.io/v1", "CSIDriver"),
    stored::<storage::v1::CSINode>("storage.k8s.io/v1", "CSINode"),
    stored::<coordination::v1::Lease>("coordination.k8s.io/v1", "Lease"),
    stored::<discovery::v1::EndpointSlice>("discovery.k8s.io/v1", "EndpointSlice"),
    stored::<scheduling::v1::PriorityClass>("scheduling.k8s.io/v1", "PriorityClass"),
    stored::<admissionregistration::v1::MutatingWebhookConfiguration>(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
    ),
    stored::<admissionregistration::v1::ValidatingWebhookConfiguration>(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    ),
    stored::<APIService>("apiregistration.k8s.io/v1", "APIService"),
    described::<autoscaling::v1::HorizontalPodAutoscaler>(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
    ),
    described::<events::v1::Event>("events.k8s.io/v1", "Event"),
    described::<CustomResourceDefinition>("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// The type that objects of a kind are stored as, in this version.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Type> {
    TYPES.iter().find(|t| t.stored && t.kind == kind && t.api_version == api_version)
}
