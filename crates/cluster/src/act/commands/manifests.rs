//! Manifests that are applied as they are: the objects of a control plane in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use serde_json::Value;

use wavegate_api::{Raw, crds};

/// Applies the definitions of all kinds of this program.
///
/// # Errors
///
/// When a definition is rejected.
pub async fn define_all(client: &Client, manager: &str) -> Result<(), kube::Error> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for definition in crds::raw_definitions() {
        let params = PatchParams::apply(manager).force();
        api.patch(definition.name(), &params, &Patch::Apply(definition)).await?;
    }
    Ok(())
}

/// Applies one object; without a namespace, it is in `default`. Returns it as stored.
///
/// # Errors
///
/// When its kind does not exist, or the object is rejected.
pub async fn apply_manifest(
    client: &Client,
    manager: &str,
    object: &Value,
) -> Result<DynamicObject, kube::Error> {
    Applier::new(client, manager).apply(object).await
}

/// Creates one object with a namespace, of a kind with a regular plural: the server is not asked
/// for the kind.
///
/// # Errors
///
/// When its kind does not exist, or the object is rejected.
pub async fn create_manifest(
    client: &Client,
    manager: &str,
    object: &Value,
) -> Result<(), kube::Error> {
    let resource = ApiResource::from_gvk(&kind(object));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), object.namespace(), &resource);
    let object = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    api.create(&params, &object).await.map(drop)
}

fn kind(object: &Value) -> GroupVersionKind {
    let api_version = object.field("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, object.field("kind"))
}

/// Applies objects one after the other, and asks the server once for each kind.
pub struct Applier<'a> {
    client: &'a Client,
    manager: &'a str,
    kinds: HashMap<GroupVersionKind, (ApiResource, Scope)>,
}

impl fmt::Debug for Applier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl<'a> Applier<'a> {
    /// Applies as this field manager.
    pub fn new(client: &'a Client, manager: &'a str) -> Self {
        Self { client, manager, kinds: HashMap::new() }
    }

    /// Applies one object; without a namespace, it is in `default`. Returns it as stored.
    ///
    /// # Errors
    ///
    /// As [`apply_manifest`].
    pub async fn apply(&mut self, object: &Value) -> Result<DynamicObject, kube::Error> {
        let client = self.client.clone();
        let (resource, scope) = match self.kinds.entry(kind(object)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (resource, found) = discovery::pinned_kind(&client, place.key()).await?;
                place.insert((resource, found.scope))
            }
        };
        let api: Api<DynamicObject> = match (scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client, resource),
            (Scope::Namespaced, "") => Api::default_namespaced_with(client, resource),
            (Scope::Namespaced, namespace) => Api::namespaced_with(client, namespace, resource),
        };
        let params = PatchParams::apply(self.manager).force();
        api.patch(object.name(), &params, &Patch::Apply(object)).await
    }
}
