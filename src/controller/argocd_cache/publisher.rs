//! The values of each Application.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::Serialize;

use crate::act::redis::{Receipt, Values, Writer};
use crate::api::tracking::Tracking;
use crate::api::{AppProjectSpec, ResourceKey};
use crate::controller::orphans::{Instances, is_stray};
use crate::decide::app_state::ComparedResource;
use crate::decide::app_state::project::permits_kind_of_key;
use crate::decide::argocd_cache::{
    Keys, NodeHealth, Orphans, ReaderSettings, RedisSettings, ResourceTree, Root, Seen, TreeEntry,
    rows, tree,
};
use crate::decide::diff;
use crate::decide::health::scripts::Scripts;
use crate::watch::cluster_cache::{ClusterCache, Member};

/// A comparison, and where it was made.
#[derive(Debug)]
pub struct Compared<'a> {
    /// The instance name of the Application.
    pub instance: &'a str,
    /// Its resources.
    pub resources: &'a [ComparedResource],
    /// How they are tracked.
    pub tracking: &'a Tracking,
    /// The rules of the comparison.
    pub config: &'a diff::Config,
    /// The cluster.
    pub cluster: &'a Arc<ClusterCache>,
    /// URL of the cluster.
    pub server: &'a str,
    /// The destination namespace.
    pub namespace: &'a str,
    /// The project.
    pub project: &'a Arc<AppProjectSpec>,
    /// Whether a reader asks for it: then it is written whatever was written before.
    pub is_asked_for: bool,
}

/// What is known of an Application that was compared.
#[derive(Clone, Debug)]
struct Known {
    cluster: Arc<ClusterCache>,
    server: String,
    namespace: String,
    project: Arc<AppProjectSpec>,
    roots: Arc<[Root]>,
    /// Health of the roots that have a script, which is not run for trees.
    by_script: Arc<HashMap<String, Option<NodeHealth>>>,
    shards: usize,
}

/// Writes the values of all Applications.
#[derive(Debug)]
pub struct Publisher {
    settings: RedisSettings,
    readers: ReaderSettings,
    keys: Keys,
    scripts: Arc<Scripts>,
    instances: Instances,
    writer: Writer,
    known: Mutex<HashMap<String, Known>>,
}

impl Publisher {
    pub(super) fn new(
        settings: RedisSettings,
        readers: ReaderSettings,
        scripts: Arc<Scripts>,
        instances: Instances,
        writer: Writer,
    ) -> Self {
        let keys = Keys { prefix: settings.prefix.clone(), is_gzip: settings.is_gzip };
        Self { settings, readers, keys, scripts, instances, writer, known: Mutex::default() }
    }

    /// The writer.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Interval of the information about clusters.
    pub(super) fn cluster_info_every(&self) -> Duration {
        self.settings.cluster_info_every
    }

    /// The number of Applications that were compared with a cluster.
    pub(super) fn applications_on(&self, server: &str) -> usize {
        self.known.lock().values().filter(|known| known.server == server).count()
    }

    /// Writes the values of a comparison (CA-211 a).
    pub fn compared(&self, compared: &Compared<'_>) -> Receipt {
        let Compared { instance, resources, cluster, .. } = *compared;
        let roots = resources.iter().map(|resource| Root {
            key: resource.key.clone(),
            version: resource.version.clone(),
            uid: resource.live.as_ref().and_then(|live| {
                Some(live["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())?.to_owned())
            }),
        });
        let mut known = Known {
            cluster: Arc::clone(cluster),
            server: compared.server.to_owned(),
            namespace: compared.namespace.to_owned(),
            project: Arc::clone(compared.project),
            roots: roots.collect(),
            by_script: Arc::new(self.by_script(resources)),
            shards: 0,
        };
        let mut values = self.tree_values(instance, &mut known);
        let masked = &self.readers.masked_annotations;
        let rows = rows(resources, compared.tracking, compared.config, masked);
        values.set(self.keys.managed(instance), self.encode(&rows), self.settings.state_expiration);
        self.known.lock().insert(instance.to_owned(), known);
        self.writer.write(instance, values, compared.is_asked_for)
    }

    /// By UID, the health of the resources that have a script.
    fn by_script(&self, resources: &[ComparedResource]) -> HashMap<String, Option<NodeHealth>> {
        let health = |resource: &ComparedResource| {
            let live = resource.live.as_deref()?;
            self.scripts.of_object(live)?;
            let health = resource.health.clone().map(NodeHealth::from);
            Some((live["metadata"]["uid"].as_str()?.to_owned(), health))
        };
        match self.scripts.is_empty() {
            true => HashMap::new(),
            false => resources.iter().filter_map(health).collect(),
        }
    }

    /// Writes the tree after an object below a resource has changed (CA-211 b).
    pub(super) fn changed(&self, instance: &str) {
        let known = self.known.lock().get(instance).cloned();
        // Before the first comparison there is nothing to show.
        let Some(mut known) = known else { return };
        let values = self.tree_values(instance, &mut known);
        if let Some(entry) = self.known.lock().get_mut(instance) {
            entry.shards = known.shards;
        }
        drop(self.writer.write(instance, values, false));
    }

    /// Writes that an Application has no resources that could be known (CA-211 c).
    pub fn refused(&self, instance: &str) -> Receipt {
        let mut values = Values::default();
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
        let mut values = Values::default();
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
        let mut values = Values::default();
        values.set(self.keys.cluster(server), self.encode(info), expiration);
        drop(self.writer.write(&format!("cluster {server}"), values, true));
    }

    /// The objects of a namespace that no Application manages, if the project looks for them
    /// (CA-311).
    fn orphans(&self, known: &Known) -> Vec<Arc<Member>> {
        let Known { cluster, project, namespace, roots, .. } = known;
        let (Some(orphans), Some(graph)) = (Orphans::of(project), cluster.graph()) else {
            return Vec::new();
        };
        let is_stray = is_stray(project, orphans, self.instances.clone());
        let managed: HashSet<&ResourceKey> = roots.iter().map(|root| &root.key).collect();
        let all = graph.ownerless_in(namespace).into_iter();
        let all = all.filter(|member| {
            is_stray(&member.key, member.instance.as_deref()) && !managed.contains(&member.key)
        });
        all.collect()
    }

    fn tree_values(&self, instance: &str, known: &mut Known) -> Values {
        let shards = self.tree(known).shards(self.settings.shard_size);
        known.shards = shards.len();
        let mut values = Values::default();
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

    fn tree(&self, known: &Known) -> ResourceTree {
        let Known { cluster, roots, project, .. } = known;
        let Some(graph) = cluster.graph() else { return ResourceTree::default() };
        let permits = |key: &ResourceKey| permits_kind_of_key(project, key);
        let uids = roots.iter().filter_map(|root| root.uid.as_deref());
        let mut nodes = entries(&graph.below(uids, permits));
        for entry in &mut nodes {
            if let Some(health) = known.by_script.get(&entry.node.uid) {
                entry.node.health.clone_from(health);
            }
        }
        let orphans = self.orphans(known);
        let orphans = graph.below(orphans.iter().map(|orphan| &*orphan.uid), permits);
        let runs = nodes.iter().any(|entry| entry.pod.is_some());
        let hosts = match runs {
            true => {
                let all = [graph.of_kind("", "Node"), graph.of_kind("", "Pod")].concat();
                entries(&all)
            }
            false => Vec::new(),
        };
        let seen = Seen { nodes, orphans: entries(&orphans), cluster: hosts };
        tree(roots, &seen, |key| graph.uid(key).map(|uid| uid.to_string()))
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

/// The excerpts as they were made here.
fn entries(members: &[Arc<Member>]) -> Vec<TreeEntry> {
    members.iter().filter_map(|member| serde_json::from_slice(member.content()).ok()).collect()
}
