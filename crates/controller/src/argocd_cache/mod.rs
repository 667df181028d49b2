//! Keeps in Redis what Argo CD's API server, web page and command line read of Applications
//! and clusters (CA-211 … CA-216).
//!
//! ```text
//! comparison ──> managed resources, roots ──┐
//! change below a root ── owner graph ───────┴─> tree ──> writer ──> Redis
//!                                             │              ^
//!                            health by scripts └─ written again ┘
//! every 10 s ── clusters ──> cluster information ──> writer, label of the cluster's Secret
//! ```
//!
//! Nothing is read back, and no decision depends on it.

mod clusters;
mod publisher;
mod scripts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::orphans::Instances;
use crate::settings::ApplicationSettings;
pub use clusters::{Round, run as run_clusters};
use publisher::Followers;
pub use publisher::{PublishedComparison, Publisher};
use wavegate_application::argocd_cache::{
    Parent, Relations, ShownLabels, TreeEntry, object_relations,
};
use wavegate_cluster::act::redis::Writer;
use wavegate_cluster::watch::cluster_cache::{ChangedTree, Excerpt, OwnerLink, TreeReaders};
use wavegate_engine::health::Checks;
use wavegate_net::clock::Clock;

/// How long changes of a tree are collected before it is written.
const COLLECTED: Duration = Duration::from_millis(100);

/// What follows from changes of objects.
#[derive(Debug)]
pub struct Changes {
    trees: mpsc::UnboundedReceiver<ChangedTree>,
    judge: mpsc::UnboundedReceiver<String>,
}

/// What keeps the copies for readers of Argo CD, and what the cluster caches report to it.
/// `compare` takes instances whose status says something else than their tree.
pub fn open_cache(
    settings: &ApplicationSettings,
    instances: Instances,
    writer: Writer,
    compare: mpsc::UnboundedSender<String>,
) -> (Arc<Publisher>, TreeReaders, Changes) {
    let (changed, trees) = mpsc::unbounded_channel();
    let (judge, judged) = mpsc::unbounded_channel();
    let ApplicationSettings { redis, readers, checks, .. } = settings.clone();
    let labels = readers.labels.clone();
    let followers = Followers { compare, judge };
    let publisher = Publisher::new(redis, readers, checks.clone(), instances, writer, followers);
    let reader = Arc::new(move |object: &Value| excerpt(object, &labels, &checks));
    let changes = Changes { trees, judge: judged };
    let readers = TreeReaders { reader, changed: Some(changed) };
    (Arc::new(publisher), readers, changes)
}

/// What cluster caches keep without readers, once somebody looks for objects that nobody
/// manages: what each object belongs to.
pub fn owners_only() -> TreeReaders {
    let reader = |object: &Value| related(Box::default(), object_relations(object), None);
    TreeReaders { reader: Arc::new(reader), changed: None }
}

fn related(content: Box<[u8]>, relations: Relations, runs_on: Option<Box<str>>) -> Excerpt {
    let Relations { parents, claims } = relations;
    let owners = parents.into_iter().map(|parent| match parent {
        Parent::Uid(uid) => OwnerLink::Uid(uid.into()),
        Parent::Key(key) => OwnerLink::Key(key),
        Parent::Claim(name) => OwnerLink::Claim(name),
    });
    Excerpt { content, owners: owners.collect(), claims, runs_on }
}

fn excerpt(object: &Value, labels: &ShownLabels, checks: &Checks) -> Excerpt {
    let (entry, relations) = TreeEntry::of(object, labels, checks);
    // A structure of strings is always serialized.
    let content = serde_json::to_vec(&entry).unwrap_or_default();
    let node = entry.pod.as_ref().and_then(|pod| pod.node());
    related(content.into(), relations, node.map(Into::into))
}

/// Writes the trees of Applications below or beside whose resources something has changed, and
/// the health that scripts say of it, until `stop`.
pub async fn run_changes(
    publisher: Arc<Publisher>,
    changes: Changes,
    clock: &Clock,
    stop: CancellationToken,
) {
    let Changes { mut trees, judge } = changes;
    let work = async {
        while let Some(first) = trees.recv().await {
            tokio::time::sleep(COLLECTED).await;
            let mut all = BTreeSet::from([first]);
            while let Ok(next) = trees.try_recv() {
                all.insert(next);
            }
            let instances = all.into_iter().flat_map(|tree| match tree {
                ChangedTree::Of(instance) => vec![instance],
                ChangedTree::Unmanaged(namespace) => publisher.showing_orphans(&namespace),
            });
            for instance in instances.collect::<BTreeSet<String>>() {
                publisher.changed(&instance);
                tokio::task::yield_now().await;
            }
        }
    };
    let health = scripts::run_health(publisher.clone(), judge, clock, stop.clone());
    tokio::join!(stop.run_until_cancelled(work), health);
}
