//! The clusters that Applications sync to, and their clients.
//!
//! The cluster of the controller itself always exists, as
//! `https://kubernetes.default.svc` and `in-cluster`. Others are Secrets with the label
//! `argocd.argoproj.io/secret-type: cluster`. A connection is made when it is first needed
//! and kept until no Secret describes it any more; Secrets that say the same of one server
//! share it. A name, a label or another annotation ends none.
//!
//! No credential leaves this module: errors name fields, never their values.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::cluster_cache::{
    ClusterCache, ClusterFacts, ClusterReach, TrackingMark, TreeReaders, WantedKinds,
};
use super::exec_credentials::Runner;
use super::fence::{self, MayWrite};
use super::{cluster_config, read_only, secrets};
use wavegate_api::ApplicationDestination;
use wavegate_api::annotations::{REFRESH, is_skipped_by};
use wavegate_api::cluster::{
    AUTO_LABEL, ClusterScope, IN_CLUSTER_NAME, IN_CLUSTER_SERVER, KUBERNETES_VERSION_LABEL,
    LabelledSecret,
};
use wavegate_api::resource_filter::ResourceFilter;
use wavegate_net::redact;

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
    /// Several Secrets have this name, and it is not known which of them is meant.
    #[error("there are {count} clusters with the same name: {of}; give each of them its own name")]
    Ambiguous {
        /// How many.
        count: usize,
        /// Their Secrets.
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

/// What a connection is made from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    server: String,
    /// The fields of `config` of the Secret; `None` for the credentials of this process.
    config: Option<String>,
    /// What is read through it.
    scope: ClusterScope,
}

impl Link {
    /// That of the own cluster without a Secret.
    fn own() -> Self {
        let server = IN_CLUSTER_SERVER.to_owned();
        Self { server, config: None, scope: ClusterScope::default() }
    }
}

/// A cluster as described by its Secret.
#[derive(Clone)]
struct Entry {
    secret: String,
    link: Link,
    name: String,
    project: String,
    /// When Argo CD's web page was asked to list everything again (CA-509).
    refresh: String,
    is_skipped: bool,
    /// Why it cannot be used.
    problem: Option<String>,
    /// Keys and fields that nothing reads.
    unread: Vec<String>,
    /// Set when the label with the version of Kubernetes is to be kept.
    labelled: Option<LabelledSecret>,
}

impl Entry {
    /// Whether another one means the same for Applications.
    fn is_as(&self, other: &Self) -> bool {
        let Self { link, name, project, refresh, is_skipped, problem, .. } = self;
        (link, name, project) == (&other.link, &other.name, &other.project)
            && (refresh, is_skipped, problem) == (&other.refresh, &other.is_skipped, &other.problem)
    }

    /// The error of its Secret.
    fn failed(&self, reason: String) -> Error {
        let server = redact::redact_url(&self.link.server);
        Error::Secret { secret: self.secret.clone(), server, reason }
    }
}

/// What a Secret has changed.
#[derive(Debug)]
pub struct Taken {
    /// Whether Applications may depend on it.
    pub counts: bool,
    /// Its keys and the fields of its `config` that nothing reads, if they are others than
    /// before.
    pub unread: Vec<String>,
}

/// The keys that are read. `shard` is known, too, and has no effect.
const KEYS: [&str; 6] = ["name", "server", "project", "namespaces", "clusterResources", "config"];

/// The keys of a Secret that nothing reads.
fn unread_keys(secret: &Secret) -> impl Iterator<Item = String> {
    let stored = secret.data.iter().flat_map(BTreeMap::keys);
    let written = secret.string_data.iter().flat_map(BTreeMap::keys);
    stored.chain(written).filter(|key| !KEYS.contains(&key.as_str())).cloned()
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
    /// The newest request to list everything again when it was made.
    refresh: String,
    cluster: Arc<ClusterCache>,
}

/// The Secrets, by namespace and name, and the connections that were made from them.
#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    connections: BTreeMap<Link, Connection>,
    /// What Applications want, by server: also while its Secret changes.
    wanted: BTreeMap<String, Arc<Mutex<WantedKinds>>>,
}

impl State {
    /// The first Secret of a server, by namespace and name.
    fn of_server(&self, server: &str) -> Option<&Entry> {
        self.entries.values().find(|entry| entry.link.server == server)
    }

    /// The newest request to list everything again; `None` if no destination has this
    /// connection any more.
    fn refresh(&self, link: &Link) -> Option<&str> {
        let sharing = self.entries.values().filter(|entry| entry.link == *link);
        let newest = sharing.map(|entry| entry.refresh.as_str()).max();
        // The own cluster has a connection without a Secret.
        let is_own = || *link == Link::own() && self.of_server(IN_CLUSTER_SERVER).is_none();
        newest.or_else(|| is_own().then_some(""))
    }

    /// Ends the connections that are not described any more, or are to be listed again.
    fn end_outdated(&mut self) {
        let is_current = |(link, connection): &(&Link, &Connection)| {
            self.refresh(link).is_some_and(|refresh| refresh == connection.refresh)
        };
        let outdated = self.connections.iter().filter(|one| !is_current(one));
        let outdated: Vec<Link> = outdated.map(|(link, _)| link.clone()).collect();
        for connection in outdated.iter().filter_map(|link| self.connections.remove(link)) {
            connection.cluster.end();
        }
    }
}

/// All clusters.
pub struct Clusters {
    own: kube::Client,
    mark: TrackingMark,
    reach: ClusterReach,
    trigger: UnboundedSender<String>,
    stop: CancellationToken,
    state: Mutex<State>,
    read_only: bool,
    may_write: Option<MayWrite>,
    filter: ResourceFilter,
    own_enabled: bool,
    is_inside: bool,
    trees: Option<TreeReaders>,
    runner: Option<Arc<dyn Runner>>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        let entries = state.entries.values();
        let servers: Vec<String> =
            entries.map(|entry| redact::redact_url(&entry.link.server)).collect();
        f.debug_struct("Clusters").field("servers", &servers).finish()
    }
}

impl Clusters {
    /// Only the controller's own cluster, until Secrets are added.
    pub fn new(
        own: kube::Client,
        mark: TrackingMark,
        trigger: UnboundedSender<String>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            own,
            mark,
            reach: ClusterReach::default(),
            trigger,
            stop,
            state: Mutex::default(),
            read_only: false,
            may_write: None,
            filter: ResourceFilter::default(),
            own_enabled: true,
            is_inside: false,
            trees: None,
            runner: None,
        }
    }

    /// The same by the settings: the kinds that are not read (SE-120), and whether
    /// Applications may use the controller's own cluster.
    pub fn with_settings(self, filter: ResourceFilter, own_enabled: bool) -> Self {
        Self { filter, own_enabled, ..self }
    }

    /// The same for a process that runs in its own cluster, or does not. Only inside of it is
    /// there a server at the address that Secrets give it; from outside, it is reached as this
    /// process reaches it, whatever credentials a Secret has.
    pub fn running_inside(self, is_inside: bool) -> Self {
        Self { is_inside, ..self }
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
    pub fn within(self, reach: ClusterReach) -> Self {
        Self { reach, ..self }
    }

    /// The same with read-only clients, for a dry run.
    pub fn read_only(self) -> Self {
        Self { own: read_only::read_only_client(self.own), read_only: true, ..self }
    }

    /// The same with clients that write to other clusters only while this process may. The client
    /// of its own cluster is one already.
    pub fn fenced(self, may_write: Option<MayWrite>) -> Self {
        Self { may_write, ..self }
    }

    /// Adds or updates a Secret, and ends the connections that it does not describe any more.
    pub fn put(&self, secret: &Secret) -> Taken {
        let raw = |key: &str| secrets::secret_text(secret, key);
        let text = |key: &str| raw(key).trim().to_owned();
        let annotations = secret.metadata.annotations.as_ref();
        let refresh = annotations.and_then(|all| all.get(REFRESH)).cloned().unwrap_or_default();
        let server = text("server").trim_end_matches('/').to_owned();
        let config = cluster_config::read_config(text("config").as_bytes());
        redact::know_url(&server);
        let mut wrong: Vec<String> = config.fields.as_ref().err().cloned().into_iter().collect();
        if !matches!(&*text("clusterResources"), "" | "true" | "false") {
            wrong.push("clusterResources is not true or false".to_owned());
        }
        let fields = config.fields.unwrap_or_default();
        cluster_config::know_secrets(&fields);
        // A Secret may set a name, limits or other credentials for the own cluster.
        let is_used = server != IN_CLUSTER_SERVER
            || (self.is_inside && cluster_config::replaces_own_credentials(&fields));
        let unread = unread_keys(secret).chain(config.unread);
        let scope = ClusterScope::parse(&raw("namespaces"), &raw("clusterResources"));
        let entry = Entry {
            secret: id(secret),
            name: match text("name") {
                name if name.is_empty() => server.clone(),
                name => name,
            },
            project: text("project"),
            refresh,
            is_skipped: is_skipped_by(annotations),
            problem: (!wrong.is_empty()).then(|| wrong.join(", ")),
            unread: unread.map(|key| key.chars().take(SHOWN).collect()).take(UNREAD).collect(),
            labelled: labelled(secret, &server),
            link: Link { server, config: is_used.then(|| fields.to_string()), scope },
        };
        let mut state = self.state.lock();
        let old = state.entries.insert(entry.secret.clone(), entry.clone());
        let counts = old.as_ref().is_none_or(|old| !old.is_as(&entry));
        if counts {
            state.end_outdated();
        }
        let is_known = old.is_some_and(|old| old.unread == entry.unread);
        Taken { counts, unread: if is_known { Vec::new() } else { entry.unread } }
    }

    /// The clusters that are reserved for a project: their URLs, and what may be managed there.
    pub fn reserved_for(&self, project: &str) -> Vec<(String, ClusterScope)> {
        let state = self.state.lock();
        let own = state.entries.values().filter(|entry| entry.project == project);
        own.map(|entry| (entry.link.server.clone(), entry.link.scope.clone())).collect()
    }

    /// Removes a deleted Secret, and ends its connection.
    pub fn remove(&self, secret: &Secret) {
        let mut state = self.state.lock();
        if state.entries.remove(&id(secret)).is_some() {
            state.end_outdated();
        }
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
        loop {
            let entry = self.described(destination)?;
            let link = entry.as_ref().map_or_else(Link::own, |entry| entry.link.clone());
            let kept = self.state.lock().connections.get(&link).map(|one| one.cluster.clone());
            let cluster = match (kept, &entry) {
                (Some(kept), _) => Some(kept),
                (None, Some(entry)) => {
                    let client = self.client_of(entry).await?;
                    self.connected(&link, client)
                }
                (None, None) => self.connected(&link, self.own.clone()),
            };
            // Otherwise the Secret has changed meanwhile.
            let Some(cluster) = cluster else { continue };
            let (name, project) = match entry {
                Some(entry) => (entry.name, entry.project),
                None => (IN_CLUSTER_NAME.to_owned(), String::new()),
            };
            let Link { server, scope, .. } = link;
            return Ok(ConnectedCluster { cluster, server, name, project, scope });
        }
    }

    /// A client by a Secret.
    async fn client_of(&self, entry: &Entry) -> Result<kube::Client, Error> {
        let Link { server, config: Some(config), .. } = &entry.link else {
            return Ok(self.own.clone());
        };
        // Written by this process.
        let config = serde_json::from_str(config).unwrap_or_default();
        let client = cluster_config::config_client(server, &config, self.runner.as_ref()).await;
        let client = client.map_err(|reason| entry.failed(reason))?;
        let client = if self.read_only { read_only::read_only_client(client) } else { client };
        Ok(match &self.may_write {
            Some(may_write) => fence::fenced_client(client, Arc::clone(may_write)),
            None => client,
        })
    }

    /// The Secret of a destination; `None` for the own cluster without one.
    fn described(&self, destination: &ApplicationDestination) -> Result<Option<Entry>, Error> {
        let (server, name) = (destination.server.trim_end_matches('/'), &destination.name);
        let (entry, is_own) = (self.entry(destination)?, is_own(destination));
        let uses_own =
            is_own || entry.as_ref().is_some_and(|entry| entry.link.server == IN_CLUSTER_SERVER);
        match entry {
            _ if uses_own && !self.own_enabled => Err(Error::Disabled),
            None if !is_own && name.is_empty() => {
                Err(Error::Unknown { field: "server", value: redact::redact_url(server) })
            }
            None if !is_own => Err(Error::Unknown { field: "name", value: name.clone() }),
            Some(entry) => match &entry.problem {
                Some(problem) => Err(entry.failed(problem.clone())),
                None => Ok(Some(entry)),
            },
            None => Ok(None),
        }
    }

    /// The connection of a new client, or one that was made meanwhile; `None` when no destination
    /// has it any more.
    fn connected(&self, link: &Link, client: kube::Client) -> Option<Arc<ClusterCache>> {
        let mut state = self.state.lock();
        if let Some(kept) = state.connections.get(link) {
            return Some(kept.cluster.clone());
        }
        let refresh = state.refresh(link)?.to_owned();
        let wanted = Arc::clone(state.wanted.entry(link.server.clone()).or_default());
        let cluster = ClusterCache::new(
            &redact::redact_url(&link.server),
            client,
            (self.mark.clone(), self.reach_of(link), wanted),
            self.trigger.clone(),
            self.trees.clone(),
            self.stop.child_token(),
        );
        let connection = Connection { refresh, cluster: cluster.clone() };
        state.connections.insert(link.clone(), connection);
        Some(cluster)
    }

    /// All clusters by URL, each with its name, and its live state if it was used. Of several
    /// Secrets, the first that was used counts.
    fn all(&self) -> BTreeMap<String, (String, Option<Arc<ClusterCache>>)> {
        let state = self.state.lock();
        let connected =
            |link: &Link| state.connections.get(link).map(|one| Arc::clone(&one.cluster));
        let mut all = BTreeMap::<String, (String, Option<Arc<ClusterCache>>)>::new();
        for entry in state.entries.values() {
            let found = all.entry(entry.link.server.clone());
            let (_, cluster) = found.or_insert_with(|| (entry.name.clone(), None));
            *cluster = cluster.take().or_else(|| connected(&entry.link));
        }
        if self.own_enabled {
            let own = || (IN_CLUSTER_NAME.to_owned(), connected(&Link::own()));
            all.entry(IN_CLUSTER_SERVER.to_owned()).or_insert_with(own);
        }
        all
    }

    /// The URLs of all clusters, with the live state of those that were used.
    pub fn known(&self) -> Vec<(String, Option<Arc<ClusterCache>>)> {
        self.all().into_iter().map(|(server, (_, cluster))| (server, cluster)).collect()
    }

    /// The Secrets whose label with the version of Kubernetes is to be kept.
    pub fn labelled(&self) -> Vec<LabelledSecret> {
        let state = self.state.lock();
        state.entries.values().filter_map(|entry| entry.labelled.clone()).collect()
    }

    /// All clusters by URL, with their name and what is known of those that were used, for
    /// metrics. Nothing is waited for.
    pub fn facts(&self) -> BTreeMap<String, (String, Option<ClusterFacts>)> {
        let facts = |cluster: Option<Arc<ClusterCache>>| cluster.map(|cluster| cluster.facts());
        let all = self.all().into_iter();
        all.map(|(server, (name, cluster))| (server, (name, facts(cluster)))).collect()
    }

    /// The URL of a destination; empty for a name that no cluster has.
    pub fn server_of(&self, destination: &ApplicationDestination) -> String {
        let server = destination.server.trim_end_matches('/');
        if !server.is_empty() {
            return server.to_owned();
        }
        match self.entry(destination) {
            Ok(Some(entry)) => entry.link.server,
            Ok(None) if is_own(destination) => IN_CLUSTER_SERVER.to_owned(),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// The Secret of a destination. One for the own cluster counts under each of its names:
    /// its limits must not depend on the spelling. Of several with the same server, the first
    /// by namespace and name describes it.
    fn entry(&self, destination: &ApplicationDestination) -> Result<Option<Entry>, Error> {
        let (server, name) = (destination.server.trim_end_matches('/'), &destination.name);
        let state = self.state.lock();
        if name.is_empty() {
            return Ok(state.of_server(server).cloned());
        }
        let mut named = state.entries.values().filter(|entry| entry.name == *name);
        match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                Err(ambiguous(&[first, second].into_iter().chain(named).collect::<Vec<_>>()))
            }
            (Some(only), None) => Ok(Some(only.clone())),
            (None, _) if is_own(destination) => Ok(state.of_server(IN_CLUSTER_SERVER).cloned()),
            (None, _) => Ok(None),
        }
    }

    /// Whether the annotation `argocd.argoproj.io/skip-reconcile` of the cluster's Secret
    /// excludes its Applications from reconciling.
    pub fn is_skipped(&self, destination: &ApplicationDestination) -> bool {
        self.entry(destination).is_ok_and(|entry| entry.is_some_and(|entry| entry.is_skipped))
    }

    /// The part of a cluster that is read.
    fn reach_of(&self, Link { server, scope, .. }: &Link) -> ClusterReach {
        let filter = self.filter.on(server);
        match &scope.namespaces {
            None => ClusterReach { filter, ..self.reach.clone() },
            Some(namespaces) => ClusterReach {
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

/// The most keys that are reported of a Secret, and the most characters of each.
const UNREAD: usize = 20;
const SHOWN: usize = 80;

/// The error of a name that several Secrets have.
fn ambiguous(named: &[&Entry]) -> Error {
    let shown = named.iter().take(NAMED);
    let secrets: Vec<&str> = shown.map(|entry| entry.secret.as_str()).collect();
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let secrets = secrets.join(", ");
    Error::Ambiguous { count: named.len(), of: format!("the Secrets {secrets}{more}") }
}

/// Whether a destination names the controller's own cluster.
fn is_own(destination: &ApplicationDestination) -> bool {
    let server = destination.server.trim_end_matches('/');
    server == IN_CLUSTER_SERVER || (server.is_empty() && destination.name == IN_CLUSTER_NAME)
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
