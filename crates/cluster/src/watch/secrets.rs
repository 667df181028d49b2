//! The Secrets that describe clusters and repositories.

use k8s_openapi::api::core::v1::Secret;

use wavegate_api::annotations::{SECRET_TYPE_CLUSTER, SECRET_TYPE_LABEL};

/// What a Secret describes, by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A cluster.
    Cluster,
    /// A repository.
    Repository,
    /// The credentials of all repositories with a URL prefix.
    RepositoryTemplate,
}

/// What a Secret describes; `None` for another one.
pub fn secret_kind(secret: &Secret) -> Option<SecretKind> {
    match secret.metadata.labels.as_ref()?.get(SECRET_TYPE_LABEL)?.as_str() {
        SECRET_TYPE_CLUSTER => Some(SecretKind::Cluster),
        "repository" => Some(SecretKind::Repository),
        "repo-creds" => Some(SecretKind::RepositoryTemplate),
        _ => None,
    }
}

/// Whether a Secret describes a cluster.
pub fn is_cluster(secret: &Secret) -> bool {
    secret_kind(secret) == Some(SecretKind::Cluster)
}

/// The text of a key; empty without it. `stringData` is that of a Secret from a file, which
/// the API server would store as `data`.
pub fn secret_text(secret: &Secret, key: &str) -> String {
    let written = secret.string_data.as_ref().and_then(|data| data.get(key)).cloned();
    let stored = || {
        let bytes = secret.data.as_ref()?.get(key)?;
        Some(String::from_utf8_lossy(&bytes.0).into_owned())
    };
    written.or_else(stored).unwrap_or_default()
}
