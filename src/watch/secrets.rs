//! The Secrets that describe clusters and repositories.

use k8s_openapi::api::core::v1::Secret;

use crate::api::annotations::{SECRET_TYPE_CLUSTER, SECRET_TYPE_LABEL};

/// What a Secret describes: the value of its label.
pub fn type_of(secret: &Secret) -> Option<&str> {
    secret.metadata.labels.as_ref()?.get(SECRET_TYPE_LABEL).map(String::as_str)
}

/// Whether a Secret describes a cluster.
pub fn is_cluster(secret: &Secret) -> bool {
    type_of(secret) == Some(SECRET_TYPE_CLUSTER)
}

/// The text of a key; empty without it. `stringData` is that of a Secret from a file, which
/// the API server would store as `data`.
pub fn text(secret: &Secret, key: &str) -> String {
    let written = secret.string_data.as_ref().and_then(|data| data.get(key)).cloned();
    let stored = || {
        let bytes = secret.data.as_ref()?.get(key)?;
        Some(String::from_utf8_lossy(&bytes.0).into_owned())
    };
    written.or_else(stored).unwrap_or_default()
}
