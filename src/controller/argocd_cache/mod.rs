//! Keeps in Redis what Argo CD's API server, web page and command line read of Applications
//! and clusters (CA-211 … CA-216).
//!
//! ```text
//! comparison ──> managed resources, roots ──┐
//! change below a root ── owner graph ───────┴─> tree ──> writer ──> Redis
//! every 10 s ── clusters ──> cluster information ────────^
//! ```
//!
//! Nothing is read back, and no decision depends on it.

mod clusters;
mod publisher;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::act::redis::Writer;
use crate::controller::orphans::Instances;
use crate::decide::argocd_cache::{Labels, Parent, TreeEntry, parents};
use crate::decide::health::Checks;
use crate::settings::ApplicationSettings;
use crate::watch::cluster_cache::{Excerpt, Owner, TreeReaders};
pub use clusters::run as run_clusters;
pub use publisher::{Compared, Publisher};

/// How long changes of a tree are collected before it is written.
const COLLECTED: Duration = Duration::from_millis(100);

/// Writes trees whose objects have changed.
#[derive(Debug)]
pub struct Changes(mpsc::UnboundedReceiver<String>);

/// What keeps the copies for readers of Argo CD, and what the cluster caches report to it.
pub fn open(
    settings: &ApplicationSettings,
    instances: Instances,
    writer: Writer,
) -> (Arc<Publisher>, TreeReaders, Changes) {
    let (changed, changes) = mpsc::unbounded_channel();
    let ApplicationSettings { redis, readers, checks, .. } = settings.clone();
    let labels = readers.labels.clone();
    let scripts = Arc::clone(&checks.scripts);
    let reader = Arc::new(move |object: &Value| excerpt(object, &labels, &checks));
    let publisher = Publisher::new(redis, readers, scripts, instances, writer);
    (Arc::new(publisher), TreeReaders { reader, changed: Some(changed) }, Changes(changes))
}

/// What cluster caches keep without readers, once somebody looks for objects that nobody
/// manages: what each object belongs to.
pub fn owners_only() -> TreeReaders {
    let reader = |object: &Value| Excerpt {
        content: Box::default(),
        owners: parents(object).into_iter().map(owner).collect(),
    };
    TreeReaders { reader: Arc::new(reader), changed: None }
}

fn owner(parent: Parent) -> Owner {
    match parent {
        Parent::Uid(uid) => Owner::Uid(uid.into()),
        Parent::Key(key) => Owner::Key(key),
    }
}

fn excerpt(object: &Value, labels: &Labels, checks: &Checks) -> Excerpt {
    let (entry, parents) = TreeEntry::of(object, labels, checks);
    let owners = parents.into_iter().map(owner);
    // A structure of strings is always serialized.
    let content = serde_json::to_vec(&entry).unwrap_or_default();
    Excerpt { content: content.into(), owners: owners.collect() }
}

/// Writes the trees of Applications below whose resources something has changed, until `stop`.
pub async fn run_changes(publisher: Arc<Publisher>, changes: Changes, stop: CancellationToken) {
    let Changes(mut changes) = changes;
    let work = async {
        while let Some(first) = changes.recv().await {
            tokio::time::sleep(COLLECTED).await;
            let mut all = std::collections::BTreeSet::from([first]);
            while let Ok(next) = changes.try_recv() {
                all.insert(next);
            }
            for instance in all {
                publisher.changed(&instance);
                tokio::task::yield_now().await;
            }
        }
    };
    stop.run_until_cancelled(work).await;
}
