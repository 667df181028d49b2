//! The only writes to projects: removes their finalizer (SE-083), and creates the one named
//! `default`.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::watch::failure::{error_reason, has_code};
use crate::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers_of};
use wavegate_api::{AppProject, DEFAULT_PROJECT, Raw, permissive_project};

/// Creates the project `default`, which permits everything, as Argo CD does, unless there is one:
/// that is never changed. Returns whether it was missing.
///
/// # Errors
///
/// The error of the request.
pub async fn create_default(client: &kube::Client, namespace: &str) -> Result<bool, kube::Error> {
    let resource = kind_resource(AppProject::KIND);
    let api: Api<StoredObject> = kind_api(client, Some(namespace), &resource);
    if api.get_opt(DEFAULT_PROJECT).await?.is_some() {
        return Ok(false);
    }
    let project = permissive_project(DEFAULT_PROJECT, namespace).into();
    match api.create(&PostParams::default(), &project).await {
        Ok(_) => Ok(true),
        // Somebody else was faster.
        Err(error) if has_code(&error, 409) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the finalizer of a project. Nothing happens when the project was changed or
/// deleted since it was read: the watch reports its new state.
///
/// # Errors
///
/// The message of the server.
pub async fn remove_finalizer(client: &kube::Client, project: &Value) -> Result<(), String> {
    let kept: Vec<&str> =
        finalizers_of(project).filter(|own| *own != RESOURCES_FINALIZER).collect();
    let patch = json!({"metadata": {
        "finalizers": kept,
        "uid": project.uid(),
        "resourceVersion": project.resource_version(),
    }});
    let resource = kind_resource(AppProject::KIND);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), project.namespace(), &resource);
    match api.patch(project.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
        Err(error) => Err(format!("cannot remove its finalizer: {}", error_reason(&error))),
    }
}
