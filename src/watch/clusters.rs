//! The clusters that Applications sync to, and their clients.
//!
//! The cluster of the controller itself always exists, as
//! `https://kubernetes.default.svc` and `in-cluster`. Others are Secrets with the label
//! `argocd.argoproj.io/secret-type: cluster`. A client is created when it is first needed
//! and kept until its Secret changes.
//!
//! No credential leaves this module: errors name fields, never their values.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{
    AuthInfo, Cluster as KubeCluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo,
    NamedCluster, NamedContext,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::cluster_cache::{ClusterCache, Mark, Reach};
use super::connection::{self, Unusable};
use super::read_only;
use crate::api::application::ApplicationDestination;
use crate::api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use crate::redact;

/// Why a destination cannot be used. A retry does not help before the Application or the
/// Secret changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The cluster does not exist.
    #[error("there are no clusters with this {field}: {value}")]
    Unknown {
        /// `name` or `server`: the field of `spec.destination`.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// The Secret cannot be used.
    #[error("secret {secret} of cluster {server}: {reason}")]
    Secret {
        /// Namespace and name of the Secret.
        secret: String,
        /// URL of the cluster.
        server: String,
        /// The field, and the error.
        reason: String,
    },
}

/// A cluster as described by its Secret.
#[derive(Clone)]
struct Entry {
    secret: String,
    version: String,
    name: String,
    server: String,
    project: String,
    config: Vec<u8>,
}

/// A cluster with its client.
#[derive(Clone, Debug)]
pub struct ConnectedCluster {
    /// Its live state.
    pub cluster: Arc<ClusterCache>,
    /// Its URL.
    pub server: String,
    /// Its name.
    pub name: String,
    /// The project that it is reserved for; empty for none.
    pub project: String,
}

struct Connection {
    version: String,
    cluster: Arc<ClusterCache>,
    stop: CancellationToken,
}

/// All clusters.
pub struct Clusters {
    own: kube::Client,
    mark: Mark,
    reach: Reach,
    trigger: UnboundedSender<String>,
    stop: CancellationToken,
    entries: Mutex<BTreeMap<String, Entry>>,
    connections: tokio::sync::Mutex<BTreeMap<String, Connection>>,
    /// Whether a cluster was removed whose connection may still be there.
    has_removed: AtomicBool,
    read_only: bool,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers: Vec<String> =
            self.entries.lock().values().map(|entry| redact::url(&entry.server)).collect();
        f.debug_struct("Clusters").field("servers", &servers).finish()
    }
}

impl Clusters {
    /// Only the controller's own cluster, until Secrets are added.
    pub fn new(
        own: kube::Client,
        mark: Mark,
        trigger: UnboundedSender<String>,
        stop: CancellationToken,
    ) -> Self {
        let (entries, connections) = (Mutex::default(), tokio::sync::Mutex::default());
        let has_removed = AtomicBool::default();
        let reach = Reach::default();
        let read_only = false;
        Self { own, mark, reach, trigger, stop, entries, connections, has_removed, read_only }
    }

    /// The same, reading only a part of each cluster.
    pub fn within(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// The same with read-only clients, for a dry run.
    pub fn read_only(self) -> Self {
        Self { own: read_only::client(self.own), read_only: true, ..self }
    }

    /// Adds or updates a Secret. Returns whether the change is relevant for Applications.
    pub fn put(&self, secret: &Secret) -> bool {
        let text = |field: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(field));
            let data = data.map(|bytes| String::from_utf8_lossy(&bytes.0).trim().to_owned());
            data.unwrap_or_default()
        };
        let metadata = &secret.metadata;
        let id = id(secret);
        let server = text("server").trim_end_matches('/').to_owned();
        let entry = Entry {
            secret: id.clone(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            name: match text("name") {
                name if name.is_empty() => server.clone(),
                name => name,
            },
            server,
            project: text("project"),
            config: text("config").into_bytes(),
        };
        redact::know_url(&entry.server);
        if let Ok(config) = serde_json::from_slice::<Value>(&entry.config) {
            let secrets = ["bearerToken", "password"].map(|field| config[field].as_str());
            secrets.into_iter().flatten().for_each(redact::know_secret);
        }
        let mut entries = self.entries.lock();
        let old = entries.get(&id);
        let changed = old.is_none_or(|old| old.version != entry.version);
        if old.is_some_and(|old| old.server != entry.server) {
            self.has_removed.store(true, Ordering::Relaxed);
        }
        entries.insert(id, entry);
        changed
    }

    /// Removes a deleted Secret.
    pub fn remove(&self, secret: &Secret) {
        self.entries.lock().remove(&id(secret));
        self.has_removed.store(true, Ordering::Relaxed);
    }

    /// Ends the connections of clusters that no Secret describes any more.
    fn drop_removed(&self, connections: &mut BTreeMap<String, Connection>) {
        let entries = self.entries.lock();
        let servers: HashSet<&str> = entries.values().map(|entry| entry.server.as_str()).collect();
        connections.retain(|server, connection| {
            // The own cluster has a connection without a Secret.
            let stays = server == IN_CLUSTER_SERVER || servers.contains(server.as_str());
            if !stays {
                connection.stop.cancel();
            }
            stays
        });
    }

    /// The cluster of a destination, with its client.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub async fn resolve(
        &self,
        destination: &ApplicationDestination,
    ) -> Result<ConnectedCluster, Error> {
        let (server, name) = (destination.server.trim_end_matches('/'), &destination.name);
        let entry = {
            let entries = self.entries.lock();
            let by = |entry: &&Entry| match name.as_str() {
                "" => entry.server == server,
                name => entry.name == name,
            };
            entries.values().find(by).cloned()
        };
        let own = server == IN_CLUSTER_SERVER || (server.is_empty() && name == IN_CLUSTER_NAME);
        let mut connections = self.connections.lock().await;
        if self.has_removed.swap(false, Ordering::Relaxed) {
            self.drop_removed(&mut connections);
        }
        let (version, found) = match &entry {
            // A Secret may set a name or other credentials for the own cluster.
            Some(entry) if entry.server != IN_CLUSTER_SERVER => {
                (entry.version.clone(), Some(entry))
            }
            _ if own || entry.is_some() => (String::new(), None),
            _ if name.is_empty() => {
                return Err(Error::Unknown { field: "server", value: redact::url(server) });
            }
            _ => return Err(Error::Unknown { field: "name", value: name.clone() }),
        };
        let server = found.map_or(IN_CLUSTER_SERVER, |entry| &entry.server).to_owned();
        let name = entry.as_ref().map_or(IN_CLUSTER_NAME, |entry| &entry.name).to_owned();
        let project = entry.as_ref().map(|entry| entry.project.clone()).unwrap_or_default();
        if let Some(kept) = connections.get(&server)
            && kept.version == version
        {
            let cluster = kept.cluster.clone();
            return Ok(ConnectedCluster { cluster, server, name, project });
        }
        let client = match found {
            Some(entry) if self.read_only => read_only::client(connect(entry).await?),
            Some(entry) => connect(entry).await?,
            None => self.own.clone(),
        };
        if let Some(old) = connections.remove(&server) {
            old.stop.cancel();
        }
        let stop = self.stop.child_token();
        let cluster = ClusterCache::new(
            &redact::url(&server),
            client,
            (self.mark.clone(), self.reach.clone()),
            self.trigger.clone(),
            stop.clone(),
        );
        let connection = Connection { version, cluster: cluster.clone(), stop };
        connections.insert(server.clone(), connection);
        Ok(ConnectedCluster { cluster, server, name, project })
    }
}

fn id(secret: &Secret) -> String {
    let metadata = &secret.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

async fn connect(entry: &Entry) -> Result<kube::Client, Error> {
    let failed = |reason: String| Error::Secret {
        secret: entry.secret.clone(),
        server: redact::url(&entry.server),
        reason,
    };
    let config: Value = match entry.config.as_slice() {
        [] => Value::Null,
        // The error of the parser could quote a credential.
        text => serde_json::from_slice(text).map_err(|error| {
            failed(format!("config is not JSON, line {} column {}", error.line(), error.column()))
        })?,
    };
    for field in ["awsAuthConfig", "execProviderConfig"] {
        if !config[field].is_null() {
            return Err(failed(format!(
                "config.{field} is not supported; use bearerToken or client certificates"
            )));
        }
    }
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let tls = &config["tlsClientConfig"];
    let pem = |field: &str| -> Result<Option<String>, Error> {
        let Some(text) = text(&tls[field]) else { return Ok(None) };
        let engine = base64::engine::general_purpose::STANDARD;
        match engine.decode(text.as_bytes()) {
            Ok(_) => Ok(Some(text)),
            Err(_) => Err(failed(format!("config.tlsClientConfig.{field} is not base64"))),
        }
    };
    let cluster = KubeCluster {
        server: Some(entry.server.clone()),
        insecure_skip_tls_verify: tls["insecure"].as_bool(),
        certificate_authority_data: pem("caData")?,
        tls_server_name: text(&tls["serverName"]),
        ..KubeCluster::default()
    };
    let user = AuthInfo {
        username: text(&config["username"]),
        password: text(&config["password"]).map(Into::into),
        token: text(&config["bearerToken"]).map(Into::into),
        client_certificate_data: pem("certData")?,
        client_key_data: pem("keyData")?.map(Into::into),
        ..AuthInfo::default()
    };
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig(cluster, user), &options).await;
    let config = config.map_err(|_| failed("server or config cannot be used".to_owned()))?;
    connection::client(config).map_err(|error| {
        failed(match error {
            Unusable::Server => format!("server {error}"),
            Unusable::Token => format!("config.bearerToken {error}"),
            Unusable::Credentials(reason) => {
                format!("config: certificates or credentials cannot be used: {reason}")
            }
        })
    })
}

/// A kubeconfig with one cluster and one user.
fn kubeconfig(cluster: KubeCluster, user: AuthInfo) -> Kubeconfig {
    let name = "cluster".to_owned();
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(Context {
                cluster: name.clone(),
                user: Some(name.clone()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}
