//! The only write to the Secret of a cluster: its label with the version of Kubernetes
//! (CA-510).

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::watch::failure::{error_reason, has_code};
use wavegate_api::cluster::KUBERNETES_VERSION_LABEL;

/// Sets the label. Nothing happens when the Secret is gone.
///
/// # Errors
///
/// The message of the server.
pub async fn write_label(
    client: &kube::Client,
    (namespace, name): (&str, &str),
    version: &str,
) -> Result<(), String> {
    let patch = json!({"metadata": {"labels": {KUBERNETES_VERSION_LABEL: version}}});
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(format!(
            "cannot write the label {KUBERNETES_VERSION_LABEL} of Secret {namespace}/{name}: {}; \
             permit to patch Secrets there, or remove the label of the Secret that asks for it",
            error_reason(&error)
        )),
    }
}
