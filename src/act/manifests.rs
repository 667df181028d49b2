//! Manifests that are applied as they are: the objects of a control plane in memory.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::api::{Raw, crds};

/// Applies the definitions of all kinds of this program.
///
/// # Errors
///
/// When a definition is rejected.
pub async fn define_all(client: &Client, manager: &str) -> Result<(), kube::Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crds::all() {
        let params = PatchParams::apply(manager).force();
        api.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    }
    Ok(())
}

/// Applies one object; without a namespace, it is in `default`. Returns it as stored.
///
/// # Errors
///
/// When its kind does not exist, or the object is rejected.
pub async fn apply(
    client: &Client,
    manager: &str,
    object: &Value,
) -> Result<DynamicObject, kube::Error> {
    let api_version = object.field("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, object.field("kind"));
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, "") => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    let params = PatchParams::apply(manager).force();
    api.patch(object.name(), &params, &Patch::Apply(object)).await
}
