//! The table of built-in kinds: their types, names and parts.

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

use super::kinds::{Generation, Kind, Registry, Scale};
use super::place::ResourceKey;

/// A built-in kind in one version.
pub(crate) struct Builtin {
    group: &'static str,
    version: &'static str,
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    /// `n` namespaced, `s` status, `g` generation, `r` scale, `a` category `all`.
    flags: &'static str,
    /// Reads an object and writes it again.
    pub through: fn(&Value) -> Result<Value, String>,
    /// Adds the schema to the definitions of a generator.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

const fn row<T>(flags: &'static str, short_names: &'static [&'static str]) -> Builtin
where
    T: k8s_openapi::Resource + DeserializeOwned + Serialize + JsonSchema,
{
    Builtin {
        group: T::GROUP,
        version: T::VERSION,
        api_version: T::API_VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        short_names,
        flags,
        through: through::<T>,
        schema: SchemaGenerator::subschema_for::<T>,
    }
}

fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|e| e.to_string())?;
    serde_json::to_value(typed).map_err(|e| e.to_string())
}

/// All of them.
const KINDS: &[Builtin] = &[
    row::<core::v1::Namespace>("s", &["ns"]),
    row::<core::v1::Node>("s", &["no"]),
    row::<core::v1::Pod>("nsa", &["po"]),
    row::<core::v1::Service>("nsa", &["svc"]),
    row::<core::v1::Endpoints>("n", &["ep"]),
    row::<core::v1::ConfigMap>("n", &["cm"]),
    row::<core::v1::Secret>("n", &[]),
    row::<core::v1::ServiceAccount>("n", &["sa"]),
    row::<core::v1::PersistentVolume>("s", &["pv"]),
    row::<core::v1::PersistentVolumeClaim>("ns", &["pvc"]),
    row::<core::v1::Event>("n", &["ev"]),
    row::<core::v1::LimitRange>("n", &["limits"]),
    row::<core::v1::ResourceQuota>("ns", &["quota"]),
    row::<core::v1::ReplicationController>("nsgra", &["rc"]),
    row::<core::v1::PodTemplate>("n", &[]),
    row::<apps::v1::Deployment>("nsgra", &["deploy"]),
    row::<apps::v1::ReplicaSet>("nsgra", &["rs"]),
    row::<apps::v1::StatefulSet>("nsgra", &["sts"]),
    row::<apps::v1::DaemonSet>("nsga", &["ds"]),
    row::<apps::v1::ControllerRevision>("n", &[]),
    row::<batch::v1::Job>("nsga", &[]),
    row::<batch::v1::CronJob>("nsga", &["cj"]),
    row::<autoscaling::v2::HorizontalPodAutoscaler>("nsa", &["hpa"]),
    row::<networking::v1::Ingress>("nsg", &["ing"]),
    row::<networking::v1::NetworkPolicy>("ng", &["netpol"]),
    row::<networking::v1::IngressClass>("g", &[]),
    row::<rbac::v1::Role>("n", &[]),
    row::<rbac::v1::RoleBinding>("n", &[]),
    row::<rbac::v1::ClusterRole>("", &[]),
    row::<rbac::v1::ClusterRoleBinding>("", &[]),
    row::<policy::v1::PodDisruptionBudget>("nsg", &["pdb"]),
    row::<storage::v1::StorageClass>("", &["sc"]),
    row::<storage::v1::VolumeAttachment>("s", &[]),
    row::<storage::v1::CSIDriver>("", &[]),
    row::<storage::v1::CSINode>("", &[]),
    row::<coordination::v1::Lease>("n", &[]),
    row::<discovery::v1::EndpointSlice>("ng", &[]),
    row::<scheduling::v1::PriorityClass>("g", &["pc"]),
    row::<admissionregistration::v1::MutatingWebhookConfiguration>("g", &[]),
    row::<admissionregistration::v1::ValidatingWebhookConfiguration>("g", &[]),
    row::<APIService>("s", &[]),
    row::<autoscaling::v1::HorizontalPodAutoscaler>("nsa", &["hpa"]),
    row::<events::v1::Event>("n", &["ev"]),
    row::<CustomResourceDefinition>("sg", &["crd", "crds"]),
];

/// Registers every built-in kind.
pub(crate) fn register(registry: &mut Registry) {
    for row in KINDS {
        let has = |flag: char| row.flags.contains(flag);
        // Versions and groups that share storage: the first one is stored.
        let stored = KINDS.iter().find(|known| known.plural == row.plural).unwrap_or(row);
        let steps = |path: &[&str]| path.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        registry.insert(Kind {
            group: row.group.to_owned(),
            version: row.version.to_owned(),
            kind: row.kind.to_owned(),
            list_kind: format!("{}List", row.kind),
            plural: row.plural.to_owned(),
            singular: row.kind.to_lowercase(),
            short_names: row.short_names.iter().map(|s| (*s).to_owned()).collect(),
            categories: if has('a') {
                vec!["all".to_owned()]
            } else if row.group == "apiextensions.k8s.io" {
                vec!["api-extensions".to_owned()]
            } else {
                Vec::new()
            },
            namespaced: has('n'),
            status: has('s'),
            scale: has('r').then(|| Scale {
                spec: steps(&["spec", "replicas"]),
                status: steps(&["status", "replicas"]),
                selector: Some(steps(&["spec", "selector"])),
            }),
            generation: if has('g') { Generation::Spec } else { Generation::None },
            storage: ResourceKey::new(stored.group, stored.plural),
            stored_as: stored.api_version.to_owned(),
            custom: None,
        });
    }
}

/// The row of a built-in kind.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Builtin> {
    KINDS.iter().find(|row| row.kind == kind && row.api_version == api_version)
}
