//! The clusters that Applications sync to, and their clients.
//!
//! The cluster of the controller itself always exists, as
//! `https://kubernetes.default.svc` and `in-cluster`. Others are Secrets with the label
//! `argocd.argoproj.io/secret-type: cluster`. A client is created when it is first needed
//! and kept until its Secret changes.
//!
//! No credential leaves this module: errors name fields, never their values.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
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

use super::cluster_cache::{ClusterCache, ClusterFacts, Mark, Reach, TreeReaders};
use super::connection::{self, Unusable};
use super::exec_credentials::{self, Call, Credentials, Runner};
use super::{read_only, secrets};
use crate::api::ApplicationDestination;
use crate::api::annotations::is_skipped_by;
use crate::api::cluster::{
    AUTO_LABEL, ClusterScope, IN_CLUSTER_NAME, IN_CLUSTER_SERVER, KUBERNETES_VERSION_LABEL,
    LabelledSecret,
};
use crate::api::resource_filter::ResourceFilter;
use crate::clock::Clock;
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
    /// Several Secrets have this name, and nothing tells which of them is meant.
    #[error("there are {count} clusters with the same name: {of}; give each of them its own name")]
    Ambiguous {
        /// How many.
        count: usize,
        /// Their servers and their Secrets.
        of: String,
    },
    /// `cluster.inClusterEnabled` of the settings is false, and it is the own cluster.
    #[error("cluster \"{IN_CLUSTER_SERVER}\" is disabled")]
    Disabled,
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
    /// Digest of its content. Not the version of the Secret: the label that this process writes
    /// must not end the connection.
    version: String,
    name: String,
    server: String,
    project: String,
    config: Vec<u8>,
    scope: ClusterScope,
    is_skipped: bool,
    /// Set when the label with the version of Kubernetes is to be kept.
    labelled: Option<LabelledSecret>,
}

impl Entry {
    /// Whether it has credentials for the own cluster (`tlsClientConfig` alone is none, as in
    /// Argo CD).
    fn replaces_own_credentials(&self) -> bool {
        let config = serde_json::from_slice::<Value>(&self.config).unwrap_or_default();
        let set = |field: &str| config[field].as_str().is_some_and(|text| !text.is_empty());
        ["username", "password", "bearerToken"].into_iter().any(set)
    }
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
    /// The part of it that may be managed (SE-433).
    pub scope: ClusterScope,
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
    /// The live states of the connections, without waiting for one that is made.
    connected: Mutex<BTreeMap<String, Arc<ClusterCache>>>,
    /// Whether a cluster was removed whose connection may still be there.
    has_removed: AtomicBool,
    read_only: bool,
    filter: ResourceFilter,
    own_enabled: bool,
    trees: Option<TreeReaders>,
    runner: Option<Arc<dyn Runner>>,
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
        Self {
            own,
            mark,
            reach: Reach::default(),
            trigger,
            stop,
            entries,
            connections,
            connected: Mutex::default(),
            has_removed,
            read_only: false,
            filter: ResourceFilter::default(),
            own_enabled: true,
            trees: None,
            runner: None,
        }
    }

    /// The same by the settings: the kinds that are not read (SE-120), and whether
    /// Applications may use the controller's own cluster.
    pub fn with_settings(self, filter: ResourceFilter, own_enabled: bool) -> Self {
        Self { filter, own_enabled, ..self }
    }

    /// The same with the objects of all kinds, for those who read resource trees.
    pub fn with_trees(self, trees: Option<TreeReaders>) -> Self {
        Self { trees, ..self }
    }

    /// The same with programs that provide credentials; without it, clusters that need one
    /// cannot be used.
    pub fn with_programs(self, runner: Arc<dyn Runner>) -> Self {
        Self { runner: Some(runner), ..self }
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
        let raw = |key: &str| secrets::text(secret, key);
        let text = |key: &str| raw(key).trim().to_owned();
        let metadata = &secret.metadata;
        let id = id(secret);
        let server = text("server").trim_end_matches('/').to_owned();
        let entry = Entry {
            secret: id.clone(),
            version: content(secret),
            name: match text("name") {
                name if name.is_empty() => server.clone(),
                name => name,
            },
            server,
            project: text("project"),
            config: text("config").into_bytes(),
            scope: ClusterScope::parse(&raw("namespaces"), &raw("clusterResources")),
            is_skipped: is_skipped_by(metadata.annotations.as_ref()),
            labelled: None,
        };
        let entry = Entry { labelled: labelled(secret, &entry.server), ..entry };
        redact::know_url(&entry.server);
        if let Ok(config) = serde_json::from_slice::<Value>(&entry.config) {
            let secrets = ["bearerToken", "password"].map(|field| config[field].as_str());
            secrets.into_iter().flatten().for_each(redact::know_secret);
            config["proxyUrl"].as_str().into_iter().for_each(redact::know_url);
            // What its program may print.
            let variables = config["execProviderConfig"]["env"].as_object().into_iter().flatten();
            let is_path = |name: &str| PATHS.iter().any(|end| name.ends_with(end));
            let secrets =
                variables.filter(|(name, _)| redact::is_sensitive(name) && !is_path(name));
            secrets.filter_map(|(_, value)| value.as_str()).for_each(redact::know_secret);
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
                self.connected.lock().remove(server);
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
        let entry = self.entry(destination)?;
        let own = is_own(destination);
        let mut connections = self.connections.lock().await;
        if self.has_removed.swap(false, Ordering::Relaxed) {
            self.drop_removed(&mut connections);
        }
        let is_own = own || entry.as_ref().is_some_and(|entry| entry.server == IN_CLUSTER_SERVER);
        if is_own && !self.own_enabled {
            return Err(Error::Disabled);
        }
        let (version, found) = match &entry {
            // A Secret may set a name, limits or other credentials for the own cluster.
            Some(entry) if !is_own || entry.replaces_own_credentials() => {
                (entry.version.clone(), Some(entry))
            }
            Some(entry) => (entry.version.clone(), None),
            None if own => (String::new(), None),
            _ if name.is_empty() => {
                return Err(Error::Unknown { field: "server", value: redact::url(server) });
            }
            _ => return Err(Error::Unknown { field: "name", value: name.clone() }),
        };
        let server = found.map_or(IN_CLUSTER_SERVER, |entry| &entry.server).to_owned();
        let name = entry.as_ref().map_or(IN_CLUSTER_NAME, |entry| &entry.name).to_owned();
        let project = entry.as_ref().map(|entry| entry.project.clone()).unwrap_or_default();
        let scope = entry.as_ref().map(|entry| entry.scope.clone()).unwrap_or_default();
        if let Some(kept) = connections.get(&server)
            && kept.version == version
        {
            let cluster = kept.cluster.clone();
            return Ok(ConnectedCluster { cluster, server, name, project, scope });
        }
        let client = match found {
            Some(entry) if self.read_only => {
                read_only::client(connect(entry, self.runner.as_ref()).await?)
            }
            Some(entry) => connect(entry, self.runner.as_ref()).await?,
            None => self.own.clone(),
        };
        if let Some(old) = connections.remove(&server) {
            old.stop.cancel();
        }
        let stop = self.stop.child_token();
        let cluster = ClusterCache::with_trees(
            &redact::url(&server),
            client,
            (self.mark.clone(), self.reach_of(&server, &scope)),
            self.trigger.clone(),
            self.trees.clone(),
            stop.clone(),
        );
        let connection = Connection { version, cluster: cluster.clone(), stop };
        connections.insert(server.clone(), connection);
        self.connected.lock().insert(server.clone(), Arc::clone(&cluster));
        Ok(ConnectedCluster { cluster, server, name, project, scope })
    }

    /// The URLs of all clusters, with the live state of those that were used.
    pub async fn known(&self) -> Vec<(String, Option<Arc<ClusterCache>>)> {
        let connections = self.connections.lock().await;
        let mut servers: BTreeMap<String, Option<Arc<ClusterCache>>> = BTreeMap::new();
        if self.own_enabled {
            servers.insert(IN_CLUSTER_SERVER.to_owned(), None);
        }
        let named =
            self.entries.lock().values().map(|entry| entry.server.clone()).collect::<Vec<_>>();
        servers.extend(named.into_iter().map(|server| (server, None)));
        for (server, connection) in connections.iter() {
            servers.insert(server.clone(), Some(Arc::clone(&connection.cluster)));
        }
        servers.into_iter().collect()
    }

    /// The Secrets whose label with the version of Kubernetes is to be kept.
    pub fn labelled(&self) -> Vec<LabelledSecret> {
        self.entries.lock().values().filter_map(|entry| entry.labelled.clone()).collect()
    }

    /// All clusters by URL, with their name and what is known of those that were used, for
    /// metrics. Nothing is waited for.
    pub fn facts(&self) -> BTreeMap<String, (String, Option<ClusterFacts>)> {
        let mut all = BTreeMap::new();
        if self.own_enabled {
            all.insert(IN_CLUSTER_SERVER.to_owned(), (IN_CLUSTER_NAME.to_owned(), None));
        }
        for entry in self.entries.lock().values() {
            all.insert(entry.server.clone(), (entry.name.clone(), None));
        }
        let connected = self.connected.lock().clone();
        for (server, (_, facts)) in &mut all {
            *facts = connected.get(server).map(|cluster| cluster.facts());
        }
        all
    }

    /// The URL of a destination; empty for a name that no cluster has.
    pub fn server_of(&self, destination: &ApplicationDestination) -> String {
        let server = destination.server.trim_end_matches('/');
        match self.entry(destination) {
            _ if !server.is_empty() => server.to_owned(),
            Ok(Some(entry)) => entry.server,
            Ok(None) if is_own(destination) => IN_CLUSTER_SERVER.to_owned(),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// The Secret of a destination. One for the own cluster counts under each of its names:
    /// its limits must not depend on the spelling. Of several with the same server, the first
    /// by namespace and name describes it.
    fn entry(&self, destination: &ApplicationDestination) -> Result<Option<Entry>, Error> {
        let (server, name) = (destination.server.trim_end_matches('/'), &destination.name);
        let entries = self.entries.lock();
        let of_server = |server: &str| entries.values().find(|entry| entry.server == server);
        if name.is_empty() {
            return Ok(of_server(server).cloned());
        }
        let mut named = entries.values().filter(|entry| entry.name == *name);
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(ambiguous(&[first, second].into_iter().chain(named).collect::<Vec<_>>()))
            }
            (Some(only), None) => Ok(Some(only.clone())),
            (None, _) if is_own(destination) => Ok(of_server(IN_CLUSTER_SERVER).cloned()),
            (None, _) => Ok(None),
        }
    }

    /// Whether the annotation `argocd.argoproj.io/skip-reconcile` of the cluster's Secret
    /// excludes its Applications from reconciling.
    pub fn is_skipped(&self, destination: &ApplicationDestination) -> bool {
        self.entry(destination).is_ok_and(|entry| entry.is_some_and(|entry| entry.is_skipped))
    }

    /// The part of a cluster that is read.
    fn reach_of(&self, server: &str, scope: &ClusterScope) -> Reach {
        let filter = self.filter.on(server);
        match &scope.namespaces {
            None => Reach { filter, ..self.reach.clone() },
            Some(namespaces) => Reach {
                namespaces: Some(namespaces.clone()),
                namespaced_only: !scope.cluster_resources,
                cluster_resources: scope.cluster_resources,
                filter,
                ..self.reach.clone()
            },
        }
    }
}

/// The most clusters that an error names.
const NAMED: usize = 5;

/// The error of a name that several Secrets have.
fn ambiguous(named: &[&Entry]) -> Error {
    let shown = named.iter().take(NAMED);
    let servers: Vec<String> = shown.clone().map(|entry| redact::url(&entry.server)).collect();
    let secrets: Vec<&str> = shown.map(|entry| entry.secret.as_str()).collect();
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (servers, secrets) = (servers.join(" "), secrets.join(", "));
    Error::Ambiguous {
        count: named.len(),
        of: format!("[{servers}], of the Secrets {secrets}{more}"),
    }
}

/// Whether a destination names the controller's own cluster.
fn is_own(destination: &ApplicationDestination) -> bool {
    let server = destination.server.trim_end_matches('/');
    server == IN_CLUSTER_SERVER || (server.is_empty() && destination.name == IN_CLUSTER_NAME)
}

/// Digest of what a Secret says about its cluster.
fn content(secret: &Secret) -> String {
    let Secret { data, string_data, metadata, .. } = secret;
    let mut hasher = DefaultHasher::new();
    for (key, value) in data.iter().flatten() {
        (key, &value.0).hash(&mut hasher);
    }
    (string_data, &metadata.annotations, &metadata.uid).hash(&mut hasher);
    let labels = metadata.labels.iter().flatten();
    for label in labels.filter(|(name, _)| *name != KUBERNETES_VERSION_LABEL) {
        label.hash(&mut hasher);
    }
    format!("{:x}", hasher.finish())
}

fn labelled(secret: &Secret, server: &str) -> Option<LabelledSecret> {
    let metadata = &secret.metadata;
    let labels = metadata.labels.as_ref()?;
    labels.get(AUTO_LABEL).filter(|text| *text == "true")?;
    Some(LabelledSecret {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        server: server.to_owned(),
        version: labels.get(KUBERNETES_VERSION_LABEL).cloned(),
    })
}

fn id(secret: &Secret) -> String {
    let metadata = &secret.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

async fn connect(entry: &Entry, runner: Option<&Arc<dyn Runner>>) -> Result<kube::Client, Error> {
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
    let call = Call::of(&config).map_err(&failed)?;
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
        proxy_url: text(&config["proxyUrl"]),
        disable_compression: config["disableCompression"].as_bool(),
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
    let Some(call) = call else { return made(cluster, user).await.map_err(failed) };
    let Some(runner) = runner else {
        return Err(failed("config: its program is run by the controller only".to_owned()));
    };
    // What is wrong with the rest is said at once.
    made(cluster.clone(), AuthInfo::default()).await.map_err(&failed)?;
    let make = move |found: Credentials| {
        let base64 = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
        let (certificate, key) = found.certificate.unzip();
        let user = AuthInfo {
            token: found.token.map(Into::into),
            client_certificate_data: certificate.map(base64),
            client_key_data: key.map(|key| base64(key).into()),
            ..AuthInfo::default()
        };
        made(cluster.clone(), user)
    };
    Ok(exec_credentials::client(call, Arc::clone(runner), Clock::system(), make))
}

/// Ends of the names of variables whose values are paths, which messages name.
const PATHS: [&str; 5] = ["_FILE", "_PATH", "_DIR", "_BUNDLE", "_APPLICATION_CREDENTIALS"];

/// A client of a cluster; the error names fields of its Secret.
async fn made(cluster: KubeCluster, user: AuthInfo) -> Result<kube::Client, String> {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig(cluster, user), &options).await;
    let config = config.map_err(|_| "server or config cannot be used".to_owned())?;
    connection::client(config).map_err(|error| match error {
        Unusable::Server => format!("server {error}"),
        Unusable::Token => format!("config.bearerToken {error}"),
        Unusable::Credentials(reason) => {
            format!("config: certificates or credentials cannot be used: {reason}")
        }
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
