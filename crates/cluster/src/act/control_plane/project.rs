//! The only write to a project: removes its finalizer (SE-083).

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::watch::failure::{has_code, reason};
use crate::watch::object::resource;
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers};
use wavegate_api::{AppProject, Raw};

/// Removes the finalizer of a project. Nothing happens when the project was changed or
/// deleted since it was read: the watch reports its new state.
///
/// # Errors
///
/// The message of the server.
pub async fn remove_finalizer(client: &kube::Client, project: &Value) -> Result<(), String> {
    let kept: Vec<&str> = finalizers(project).filter(|own| *own != RESOURCES_FINALIZER).collect();
    let patch = json!({"metadata": {
        "finalizers": kept,
        "uid": project.uid(),
        "resourceVersion": project.resource_version(),
    }});
    let resource = resource(AppProject::KIND);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), project.namespace(), &resource);
    match api.patch(project.name(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
        Err(error) => Err(format!("cannot remove its finalizer: {}", reason(&error))),
    }
}
