//! Stamps on hooks of operations without an Application: a hook with a stamp belongs to an
//! operation that has not ended.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::api::Raw;
use crate::decide::sync::OPERATION_ANNOTATION;
use crate::watch::cluster_cache::raw;
use crate::watch::failure::{has_code, reason};

/// Objects of one page.
const PAGE: u32 = 500;

/// Where hooks are: a kind, and a namespace; `None` for all, or for a cluster-scoped kind.
#[derive(Clone, Debug)]
pub struct Place {
    /// The kind.
    pub resource: ApiResource,
    /// The namespace.
    pub namespace: Option<String>,
}

impl Place {
    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            None => Api::all_with(client.clone(), &self.resource),
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
        }
    }
}

/// The objects with this label and a stamp.
///
/// # Errors
///
/// The message of the server.
pub async fn stamped(
    client: &Client,
    place: &Place,
    (label, value): (&str, &str),
) -> Result<Vec<Value>, String> {
    let api = place.api(client);
    let mut params = ListParams::default().labels(&format!("{label}={value}")).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // Its definition may be part of the sync.
            Err(error) if has_code(&error, 404) => return Ok(found),
            Err(error) => return Err(reason(&error)),
        };
        let objects = page.items.into_iter().map(|object| raw(object, &place.resource));
        found.extend(objects.filter(|object| object.annotation(OPERATION_ANNOTATION).is_some()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Removes the stamp of an object, after the end of its operation. Nothing happens when the
/// object was replaced or deleted.
///
/// # Errors
///
/// The message of the server.
pub async fn release(
    client: &Client,
    resource: &ApiResource,
    object: &Value,
) -> Result<(), String> {
    let namespace = Some(object.namespace().to_owned()).filter(|namespace| !namespace.is_empty());
    let api = Place { resource: resource.clone(), namespace }.api(client);
    let patch = json!({"metadata": {
        "uid": object["metadata"]["uid"], "annotations": {OPERATION_ANNOTATION: null},
    }});
    match api.patch(object.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
        Err(error) => Err(reason(&error)),
    }
}
