//! The Secrets, ConfigMaps and placement resources that a query names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use super::failure::Failure;
use wavegate_cluster::watch::failure::{has_code, reason};
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
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, Failure> {
        let what = format!("Secret {namespace}/{name}");
        match self {
            Self::Cluster(client) => {
                get(Api::namespaced(client.clone(), namespace), name, &what).await
            }
            Self::Files(objects) => typed(find(objects, "v1", "Secret", namespace, name), &what),
            Self::Unknown(why) => Err(Failure::new(format!("{what}: {why}"))),
        }
    }

    /// The data of a ConfigMap.
    pub(super) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let what = format!("ConfigMap {namespace}/{name}");
        let found: ConfigMap = match self {
            Self::Cluster(client) => {
                get(Api::namespaced(client.clone(), namespace), name, &what).await?
            }
            Self::Files(objects) => {
                typed(find(objects, "v1", "ConfigMap", namespace, name), &what)?
            }
            Self::Unknown(why) => return Err(Failure::new(format!("{what}: {why}"))),
        };
        Ok(found.data.unwrap_or_default())
    }

    /// The objects of a kind with this name, or with these labels.
    pub(super) async fn list(
        &self,
        namespace: &str,
        kind: &NamedKind,
        name: &str,
        selector: &str,
    ) -> Result<Vec<Value>, Failure> {
        let NamedKind { group, version, kind: named } = kind;
        let api_version = format!("{group}/{version}");
        let what = format!("{named} of {api_version} in namespace {namespace}");
        match self {
            Self::Unknown(why) => Err(Failure::new(format!("{what}: {why}"))),
            Self::Files(objects) => {
                if name.is_empty() {
                    let text = "a labelSelector is not followed in files; use --live";
                    return Err(Failure::new(format!("{what}: {text}")));
                }
                let fits = |object: &&Value| {
                    object["apiVersion"] == api_version.as_str()
                        && object["metadata"]["name"] == name
                        && is_in(object, namespace)
                        && object["kind"].as_str().is_some_and(|kind| is_named(kind, named))
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
                    return Err(Failure::new(text));
                }
                let value = |object: DynamicObject| {
                    serde_json::to_value(object)
                        .map_err(|error| Failure::new(format!("{what}: {error}")))
                };
                found.items.into_iter().map(value).collect()
            }
        }
    }
}

/// The resource of a kind.
async fn resource(client: &Client, kind: &NamedKind, what: &str) -> Result<ApiResource, Failure> {
    let NamedKind { group, version, kind: named } = kind;
    let api_version = format!("{group}/{version}");
    let list = match within(client.list_api_group_resources(&api_version), what).await {
        Ok(list) => list,
        Err(failure) if failure.is_not_found() => {
            return Err(Failure::new(format!("{what}: the API server has no {api_version}")));
        }
        Err(failure) => return Err(failure),
    };
    let wanted = named.to_lowercase();
    let found = list.resources.into_iter().find(|one| {
        !one.name.contains('/') && (one.name == wanted || one.kind.to_lowercase() == wanted)
    });
    let Some(found) = found else {
        return Err(Failure::new(format!("{what}: the API server has no such kind")));
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
fn is_named(kind: &str, named: &str) -> bool {
    let (kind, named) = (kind.to_lowercase(), named.to_lowercase());
    let plurals = [format!("{kind}s"), format!("{kind}es")];
    let ies = kind.strip_suffix('y').map(|stem| format!("{stem}ies"));
    kind == named || plurals.contains(&named) || ies.is_some_and(|plural| plural == named)
}

fn is_in(object: &Value, namespace: &str) -> bool {
    object["metadata"]["namespace"].as_str().is_none_or(|own| own == namespace)
}

fn find<'a>(
    objects: &'a [Value],
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<&'a Value> {
    objects.iter().find(|object| {
        object["apiVersion"] == api_version
            && object["kind"] == kind
            && object["metadata"]["name"] == name
            && is_in(object, namespace)
    })
}

fn typed<T: serde::de::DeserializeOwned>(found: Option<&Value>, what: &str) -> Result<T, Failure> {
    let Some(found) = found else {
        let text = format!("{what}: is not in the files; add it with -f, or use --live");
        return Err(Failure::new(text));
    };
    // The error may quote a secret value.
    serde_json::from_value(found.clone())
        .map_err(|_| Failure::new(format!("{what}: a field has another type")))
}

async fn get<K>(api: Api<K>, name: &str, what: &str) -> Result<K, Failure>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    match within(api.get(name), what).await {
        Err(failure) if failure.is_not_found() => {
            Err(Failure::new(format!("{what}: does not exist")))
        }
        read => read,
    }
}

async fn within<T>(
    read: impl Future<Output = Result<T, kube::Error>>,
    what: &str,
) -> Result<T, Failure> {
    match tokio::time::timeout(WITHIN, read).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            let kind = match has_code(&error, 404) {
                true => super::failure::Kind::NotFound,
                false => super::failure::Kind::Other,
            };
            Err(Failure { text: format!("{what}: {}", reason(&error)), kind })
        }
        Err(_) => Err(Failure::new(format!("{what}: the API server does not answer"))),
    }
}

/// The text of a key of a Secret; `None` without it.
pub(super) fn text_of(secret: &Secret, key: &str) -> Option<String> {
    Some(secrets::secret_text(secret, key)).filter(|text| !text.is_empty())
}
