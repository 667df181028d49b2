//! The Secrets, ConfigMaps and placement resources that a query names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource};
use serde_json::Value;

use super::failure::ProviderError;
use wavegate_api::Raw;
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_cluster::watch::secrets;

/// Timeout of a request to the API server.
const WITHIN: Duration = Duration::from_secs(30);
/// Limit on the placement resources of one query.
const MAX_RESOURCES: u32 = 1_000;

/// Where objects are read.
#[derive(Clone)]
pub enum Objects {
    /// From the API server.
    Cluster(Client),
    /// From documents; one without a namespace is in any.
    Files(Arc<Vec<Value>>),
    /// Nowhere, for this reason.
    Unknown(String),
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cluster(_) => "Cluster",
            Self::Files(_) => "Files",
            Self::Unknown(_) => "Unknown",
        })
    }
}

impl Default for Objects {
    fn default() -> Self {
        Self::Files(Arc::default())
    }
}

/// A kind, as a ConfigMap names it.
#[derive(Clone, Debug)]
pub(super) struct NamedKind {
    pub group: String,
    pub version: String,
    /// The name of its resource (`placementdecisions`), or of the kind.
    pub kind: String,
}

impl Objects {
    /// A Secret.
    pub(super) async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Secret, ProviderError> {
        let what = format!("Secret {namespace}/{name}");
        self.named(namespace, name, &what).await
    }

    /// An object of the core group.
    async fn named<K>(&self, namespace: &str, name: &str, what: &str) -> Result<K, ProviderError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        match self {
            Self::Cluster(client) => {
                get(Api::namespaced(client.clone(), namespace), name, what).await
            }
            Self::Files(objects) => {
                let (api_version, kind) = (K::api_version(&()), K::kind(&()));
                let is_this = |object: &&Value| {
                    object.field("apiVersion") == api_version
                        && object.kind() == kind
                        && is_named(object, namespace, name)
                };
                typed(objects.iter().find(is_this), what)
            }
            Self::Unknown(why) => Err(ProviderError::new(format!("{what}: {why}"))),
        }
    }

    /// The data of a ConfigMap.
    pub(super) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let what = format!("ConfigMap {namespace}/{name}");
        let found: ConfigMap = self.named(namespace, name, &what).await?;
        Ok(found.data.unwrap_or_default())
    }

    /// The objects of a kind with this name, or with these labels.
    pub(super) async fn list(
        &self,
        namespace: &str,
        kind: &NamedKind,
        name: &str,
        selector: &str,
    ) -> Result<Vec<Value>, ProviderError> {
        let NamedKind { group, version, kind: named } = kind;
        let api_version = format!("{group}/{version}");
        let what = format!("{named} of {api_version} in namespace {namespace}");
        match self {
            Self::Unknown(why) => Err(ProviderError::new(format!("{what}: {why}"))),
            Self::Files(objects) => {
                if name.is_empty() {
                    let text = "a labelSelector is not followed in files; use --live";
                    return Err(ProviderError::new(format!("{what}: {text}")));
                }
                let fits = |object: &&Value| {
                    object.field("apiVersion") == api_version
                        && is_named(object, namespace, name)
                        && is_kind(object.kind(), named)
                };
                Ok(objects.iter().filter(fits).cloned().collect())
            }
            Self::Cluster(client) => {
                let resource = resource(client, kind, &what).await?;
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, &resource);
                let mut list = ListParams::default().limit(MAX_RESOURCES);
                if name.is_empty() {
                    list = list.labels(selector);
                } else {
                    list = list.fields(&format!("metadata.name={name}"));
                }
                let found = within(api.list(&list), &what).await?;
                if found.metadata.continue_.is_some_and(|token| !token.is_empty()) {
                    let text = format!("{what}: limit exceeded: more than {MAX_RESOURCES} objects");
                    return Err(ProviderError::new(text));
                }
                let value = |object: DynamicObject| {
                    serde_json::to_value(object)
                        .map_err(|error| ProviderError::new(format!("{what}: {error}")))
                };
                found.items.into_iter().map(value).collect()
            }
        }
    }
}

/// The resource of a kind.
async fn resource(
    client: &Client,
    kind: &NamedKind,
    what: &str,
) -> Result<ApiResource, ProviderError> {
    let NamedKind { group, version, kind: named } = kind;
    let api_version = format!("{group}/{version}");
    let list = match within(client.list_api_group_resources(&api_version), what).await {
        Ok(list) => list,
        Err(failure) if failure.is_not_found() => {
            return Err(ProviderError::new(format!("{what}: the API server has no {api_version}")));
        }
        Err(failure) => return Err(failure),
    };
    let wanted = named.to_lowercase();
    let found = list.resources.into_iter().find(|one| {
        !one.name.contains('/') && (one.name == wanted || one.kind.to_lowercase() == wanted)
    });
    let Some(found) = found else {
        return Err(ProviderError::new(format!("{what}: the API server has no such kind")));
    };
    Ok(ApiResource {
        group: group.clone(),
        version: version.clone(),
        api_version,
        kind: found.kind,
        plural: found.name,
    })
}

/// Whether a kind is the one that a ConfigMap names, by its kind or its plural.
fn is_kind(kind: &str, named: &str) -> bool {
    let (kind, named) = (kind.to_lowercase(), named.to_lowercase());
    let plurals = [format!("{kind}s"), format!("{kind}es")];
    let ies = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
    kind == named || plurals.contains(&named) || ies.is_some_and(|plural| plural == named)
}

/// Whether an object of a file is this one; one without a namespace is in any.
fn is_named(object: &Value, namespace: &str, name: &str) -> bool {
    object.name() == name && (object.namespace().is_empty() || object.namespace() == namespace)
}

fn typed<T: serde::de::DeserializeOwned>(
    found: Option<&Value>,
    what: &str,
) -> Result<T, ProviderError> {
    let Some(found) = found else {
        let text = format!("{what}: is not in the files; add it with -f, or use --live");
        return Err(ProviderError::new(text));
    };
    // The error may quote a secret value.
    serde_json::from_value(found.clone())
        .map_err(|_| ProviderError::new(format!("{what}: a field has another type")))
}

async fn get<K>(api: Api<K>, name: &str, what: &str) -> Result<K, ProviderError>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    match within(api.get(name), what).await {
        Err(failure) if failure.is_not_found() => {
            Err(ProviderError::new(format!("{what}: does not exist")))
        }
        read => read,
    }
}

async fn within<T>(
    read: impl Future<Output = Result<T, kube::Error>>,
    what: &str,
) -> Result<T, ProviderError> {
    match tokio::time::timeout(WITHIN, read).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            let kind = match has_code(&error, 404) {
                true => super::failure::ProviderErrorKind::NotFound,
                false => super::failure::ProviderErrorKind::Other,
            };
            Err(ProviderError { text: format!("{what}: {}", error_reason(&error)), kind })
        }
        Err(_) => Err(ProviderError::new(format!("{what}: the API server does not answer"))),
    }
}

/// The text of a key of a Secret; `None` without it.
pub(super) fn text_of(secret: &Secret, key: &str) -> Option<String> {
    Some(secrets::secret_text(secret, key)).filter(|text| !text.is_empty())
}
