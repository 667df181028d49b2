//! The values of each Application.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::orphans::{Instances, is_orphan};
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::tracking::Tracking;
use wavegate_api::{AppProjectSpec, Raw, ResourceKey};
use wavegate_application::argocd_cache::{
    Find, Keys, NodeHealth, Orphans, ReaderSettings, RedisSettings, ResourceTree, TreeEntry,
    TreeNode, TreeObjects, TreeRoot, build_tree, compared_rows,
};
use wavegate_application::project::permits_kind_of_key;
use wavegate_application::{ComparedResource, with_below};
use wavegate_cluster::act::redis::{PendingValues, Receipt, Writer};
use wavegate_cluster::watch::cluster_cache::{ClusterCache, GraphMember, OwnerGraph};
use wavegate_engine::diff;
use wavegate_engine::health::Checks;

/// A comparison, and where it was made.
#[derive(Debug)]
pub struct PublishedComparison<'a> {
    /// The instance name of the Application.
    pub instance: &'a str,
    /// Its resources.
    pub resources: &'a [ComparedResource],
    /// How they are tracked.
    pub tracking: &'a Tracking,
    /// The rules of the comparison.
    pub config: &'a diff::DiffConfig,
    /// The cluster.
    pub cluster: &'a Arc<ClusterCache>,
    /// The destination namespace.
    pub namespace: &'a str,
    /// The project.
    pub project: &'a Arc<AppProjectSpec>,
    /// The summary of the resources.
    pub own: &'a ApplicationSummary,
    /// The summary of the tree that the comparison knew (CA-506).
    pub below: &'a ApplicationSummary,
    /// Whether a reader asks for it: then it is written whatever was written before.
    pub is_asked_for: bool,
}

/// What is known of an Application that was compared.
#[derive(Clone, Debug)]
struct PublishedTree {
    cluster: Arc<ClusterCache>,
    namespace: String,
    project: Arc<AppProjectSpec>,
    roots: Arc<[TreeRoot]>,
    /// By UID, the health of objects that have a script.
    judged: Arc<HashMap<String, Judged>>,
    shards: usize,
    /// The summary of the resources themselves.
    own: Arc<ApplicationSummary>,
    /// The summary of the last tree.
    summary: Arc<ApplicationSummary>,
    /// What the status says, or will with the comparison that was asked for.
    said: Arc<ApplicationSummary>,
}

/// Who is told what follows from a tree.
#[derive(Debug)]
pub(super) struct Followers {
    /// Compares an instance, since its status says something else than the tree (CA-211 b).
    pub compare: UnboundedSender<String>,
    /// Judges the objects of an instance that have a script.
    pub judge: UnboundedSender<String>,
}

/// Writes the values of all Applications.
#[derive(Debug)]
pub struct Publisher {
    settings: RedisSettings,
    readers: ReaderSettings,
    keys: Keys,
    checks: Checks,
    instances: Instances,
    writer: Writer,
    followers: Followers,
    known: Mutex<HashMap<String, PublishedTree>>,
}

impl Publisher {
    pub(super) fn new(
        settings: RedisSettings,
        readers: ReaderSettings,
        checks: Checks,
        instances: Instances,
        writer: Writer,
        followers: Followers,
    ) -> Self {
        let keys = Keys { prefix: settings.prefix.clone(), is_gzip: settings.is_gzip };
        let known = Mutex::default();
        Self { settings, readers, keys, checks, instances, writer, followers, known }
    }

    /// The health checks.
    pub(super) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The writer.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Writes the values of a comparison (CA-211 a).
    pub fn compared(&self, compared: &PublishedComparison<'_>) -> Receipt {
        let PublishedComparison { instance, resources, cluster, .. } = *compared;
        let roots = resources.iter().map(|resource| TreeRoot {
            key: resource.key.clone(),
            version: resource.version.clone(),
            uid: resource
                .live
                .as_ref()
                .and_then(|live| Some(live.uid()).filter(|uid| !uid.is_empty()).map(str::to_owned)),
        });
        let before = self.known.lock().get(instance).map(|known| Arc::clone(&known.judged));
        let mut known = PublishedTree {
            cluster: Arc::clone(cluster),
            namespace: compared.namespace.to_owned(),
            project: Arc::clone(compared.project),
            roots: roots.collect(),
            judged: Arc::new(self.by_script(resources, before.as_deref())),
            shards: 0,
            own: Arc::new(compared.own.clone()),
            summary: Arc::default(),
            said: Arc::new(compared.below.clone()),
        };
        let mut values = self.tree_values(instance, &mut known);
        let masked = &self.readers.masked_annotations;
        let rows = compared_rows(resources, compared.tracking, compared.config, masked);
        values.set(self.keys.managed(instance), self.encode(&rows), self.settings.state_expiration);
        self.known.lock().insert(instance.to_owned(), known);
        self.writer.write(instance, values, compared.is_asked_for)
    }

    /// By UID, the health by scripts: that of resources is of their comparison, and other
    /// objects keep theirs. One that depends on the time is found out again.
    fn by_script(
        &self,
        resources: &[ComparedResource],
        before: Option<&HashMap<String, Judged>>,
    ) -> HashMap<String, Judged> {
        if self.checks.scripts.is_empty() {
            return HashMap::new();
        }
        let compared = resources.iter().filter_map(|resource| {
            let live = resource.live.as_deref()?;
            self.checks.scripts.of_object(live)?;
            let health = resource.health.clone().map(NodeHealth::from);
            let judged =
                Judged { version: live.resource_version().to_owned(), health, stays: true };
            Some((live.uid().to_owned(), judged))
        });
        let mut all: HashMap<String, Judged> = before.cloned().unwrap_or_default();
        for judged in all.values_mut().filter(|judged| !judged.stays) {
            judged.version.clear();
        }
        all.extend(compared);
        all
    }

    /// Writes the tree after an object below a resource has changed (CA-211 b).
    pub(super) fn changed(&self, instance: &str) {
        let known = self.known.lock().get(instance).cloned();
        // Before the first comparison there is nothing to show.
        let Some(mut known) = known else { return };
        let said = Arc::clone(&known.said);
        let values = self.tree_values(instance, &mut known);
        if let Some(entry) = self.known.lock().get_mut(instance) {
            (entry.shards, entry.summary) = (known.shards, known.summary);
            // A comparison may have said something else meanwhile.
            if !Arc::ptr_eq(&said, &known.said) {
                entry.said = known.said;
            }
        }
        drop(self.writer.write(instance, values, false));
    }

    /// The instances that show what no Application manages in a namespace.
    pub(super) fn showing_orphans(&self, namespace: &str) -> Vec<String> {
        let known = self.known.lock();
        let in_namespace = known.iter().filter(|(_, known)| {
            known.namespace == namespace && known.project.orphaned_resources.is_some()
        });
        in_namespace.map(|(instance, _)| instance.clone()).collect()
    }

    /// The summary of the last tree of an instance.
    pub fn below(&self, instance: &str) -> ApplicationSummary {
        let summary = self.known.lock().get(instance).map(|known| Arc::clone(&known.summary));
        summary.as_deref().cloned().unwrap_or_default()
    }

    /// Asks for a comparison when the status says something else than the tree.
    fn follow(&self, instance: &str, known: &mut PublishedTree) {
        let PublishedTree { own, summary, said, .. } = known;
        let is_said = summary == said || with_below(own, summary) == with_below(own, said);
        if !is_said {
            // The receiver is closed only when the controller has stopped.
            let _ = self.followers.compare.send(instance.to_owned());
            *said = Arc::clone(summary);
        }
    }

    /// The objects of an instance whose script was not run for their version.
    pub(super) fn unjudged(&self, instance: &str) -> Vec<Value> {
        let known = self.known.lock().get(instance).cloned();
        let Some(known) = known else { return Vec::new() };
        let Members { nodes, orphans } = self.members(&known);
        let all = nodes.into_iter().chain(orphans);
        all.filter(|entry| is_unjudged(entry, &known)).filter_map(|entry| entry.object).collect()
    }

    /// Writes the tree with the health of objects, by UID.
    pub(super) fn judged(&self, instance: &str, judged: Vec<(String, Judged)>) {
        if let Some(known) = self.known.lock().get_mut(instance) {
            Arc::make_mut(&mut known.judged).extend(judged);
        }
        self.changed(instance);
    }

    /// Writes that an Application has no resources that could be known (CA-211 c).
    pub fn refused(&self, instance: &str) -> Receipt {
        let mut values = PendingValues::default();
        let empty = self.encode(&ResourceTree::default());
        values.set(self.keys.tree(instance), empty, self.settings.state_expiration);
        values.delete(self.keys.managed(instance));
        values.announce(Keys::channel(instance));
        self.known.lock().remove(instance);
        self.writer.write(instance, values, true)
    }

    /// Removes the values of an Application that is gone (CA-216).
    pub fn forget(&self, instance: &str) {
        let known = self.known.lock().remove(instance);
        let mut values = PendingValues::default();
        values.delete(self.keys.tree(instance));
        values.delete(self.keys.managed(instance));
        for shard in 1..known.map_or(0, |known| known.shards) {
            values.delete(self.keys.tree_shard(instance, shard));
        }
        values.announce(Keys::channel(instance));
        drop(self.writer.write(instance, values, true));
    }

    /// Writes the information about a cluster.
    pub(super) fn cluster(&self, server: &str, info: &impl Serialize, expiration: Duration) {
        let mut values = PendingValues::default();
        values.set(self.keys.cluster(server), self.encode(info), expiration);
        drop(self.writer.write(&format!("cluster {server}"), values, true));
    }

    /// The objects of a namespace that no Application manages, if the project looks for them
    /// (CA-311).
    fn orphans(&self, known: &PublishedTree) -> Vec<Arc<GraphMember>> {
        let PublishedTree { cluster, project, namespace, roots, .. } = known;
        let (Some(orphans), Some(graph)) = (Orphans::of(project), cluster.graph()) else {
            return Vec::new();
        };
        let is_orphan = is_orphan(project, orphans, self.instances.clone());
        let managed: HashSet<&ResourceKey> = roots.iter().map(|root| &root.key).collect();
        let all = graph.ownerless_in(namespace).into_iter();
        let all = all.filter(|member| {
            is_orphan(&member.key, member.instance.as_deref()) && !managed.contains(&member.key)
        });
        all.collect()
    }

    fn tree_values(&self, instance: &str, known: &mut PublishedTree) -> PendingValues {
        let tree = self.tree(instance, known);
        known.summary = Arc::new(tree.summary());
        self.follow(instance, known);
        let shards = tree.shards(self.settings.shard_size);
        known.shards = shards.len();
        let mut values = PendingValues::default();
        for (number, shard) in shards.iter().enumerate() {
            let key = match number {
                0 => self.keys.tree(instance),
                number => self.keys.tree_shard(instance, number),
            };
            values.set(key, self.encode(shard), self.settings.state_expiration);
        }
        values.announce(Keys::channel(instance));
        values
    }

    fn members(&self, known: &PublishedTree) -> Members {
        let PublishedTree { cluster, roots, project, .. } = known;
        let Some(graph) = cluster.graph() else { return Default::default() };
        let permits = |key: &ResourceKey| permits_kind_of_key(project, key);
        let uids = roots.iter().filter_map(|root| root.uid.as_deref());
        let nodes = entries(&graph.below(uids, permits));
        let orphans = self.orphans(known);
        let orphans = graph.below(orphans.iter().map(|orphan| &*orphan.uid), permits);
        Members { nodes, orphans: entries(&orphans) }
    }

    fn tree(&self, instance: &str, known: &mut PublishedTree) -> ResourceTree {
        let cluster = Arc::clone(&known.cluster);
        let Some(graph) = cluster.graph() else { return Default::default() };
        let Members { mut nodes, mut orphans } = self.members(known);
        if !self.checks.scripts.is_empty() {
            let mut present = HashSet::new();
            let mut is_due = false;
            for entry in nodes.iter_mut().chain(&mut orphans) {
                is_due |= is_unjudged(entry, known);
                if entry.object.take().is_some() && entry.node.health.is_none() {
                    let judged = known.judged.get(&entry.node.uid);
                    entry.node.health = judged.and_then(|judged| judged.health.clone());
                }
                present.insert(entry.node.uid.clone());
            }
            if known.judged.keys().any(|uid| !present.contains(uid)) {
                Arc::make_mut(&mut known.judged).retain(|uid, _| present.contains(uid));
            }
            if is_due {
                // The receiver is closed only when the controller has stopped.
                let _ = self.followers.judge.send(instance.to_owned());
            }
        }
        // Of the Nodes that are shown alone: a cluster has Pods of many Applications.
        let names = nodes.iter().filter_map(|entry| entry.pod.as_ref()?.node());
        let names: BTreeSet<&str> = names.collect();
        let on_nodes: Vec<_> = names.iter().flat_map(|name| graph.on_node(name)).collect();
        let hosts = entries(&on_nodes);
        let seen = TreeObjects { nodes, orphans, cluster: hosts };
        build_tree(&known.roots, &seen, &InGraph(graph))
    }

    fn encode(&self, value: &impl Serialize) -> Vec<u8> {
        // Structures of strings and numbers are always serialized.
        let json = serde_json::to_vec(value).unwrap_or_default();
        if !self.settings.is_gzip {
            return json;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Memory takes all bytes.
        let _ = encoder.write_all(&json);
        encoder.finish().unwrap_or_default()
    }
}

/// The objects of a tree.
#[derive(Default)]
struct Members {
    /// The resources and what is below them.
    nodes: Vec<TreeEntry>,
    /// What no Application manages, and what is below it.
    orphans: Vec<TreeEntry>,
}

/// Whether the script of an object was not run for its version. Resources are judged by their
/// comparison.
fn is_unjudged(entry: &TreeEntry, known: &PublishedTree) -> bool {
    let node = &entry.node;
    let is_judged =
        known.judged.get(&node.uid).is_some_and(|judged| judged.version == node.resource_version);
    let is_root = || known.roots.iter().any(|root| root.uid.as_deref() == Some(&*node.uid));
    entry.object.is_some() && node.health.is_none() && !is_judged && !is_root()
}

/// Finds objects in the owner graph.
struct InGraph<'a>(&'a OwnerGraph);

impl Find for InGraph<'_> {
    fn uid(&self, key: &ResourceKey) -> Option<String> {
        self.0.uid(key).map(|uid| uid.to_string())
    }

    fn claiming(&self, name: &ResourceKey) -> Vec<TreeNode> {
        entries(&self.0.claiming(name)).into_iter().map(|entry| entry.node).collect()
    }
}

/// The excerpts as they were made here.
fn entries(members: &[Arc<GraphMember>]) -> Vec<TreeEntry> {
    members.iter().filter_map(|member| serde_json::from_slice(member.content()).ok()).collect()
}

/// The health of an object by its script.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The version of the object.
    pub version: String,
    /// The health; `None` when the script returns none.
    pub health: Option<NodeHealth>,
    /// Whether it counts as long as the object stays the same.
    pub stays: bool,
}
