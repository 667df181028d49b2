//! What is remembered of an Application from one reconcile to the next, and
//! within one. Losing it costs work, never truth.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::revisions::Wanted;
use crate::api::kind::{GroupVersionKind, Served};
use crate::decide::app_state::finalize::Tries;
use crate::decide::app_state::refresh::{Request, digest};
use crate::decide::app_state::{DiffCache, Placed};
use crate::watch::cluster_cache::ClusterCache;

/// How many renderings of one Application are kept: what is compared, and what
/// an operation syncs.
const KEPT: usize = 3;

/// What is remembered of one Application.
#[derive(Debug, Default)]
pub struct Memory {
    /// When its revision was last looked up.
    pub checked_at: Option<Timestamp>,
    /// When it was last compared.
    pub compared_at: Option<Timestamp>,
    /// When it was last rendered in spite of an unchanged revision.
    pub rendered_at: Option<Timestamp>,
    /// Renderings, the latest last.
    pub rendered: Vec<Rendered>,
    /// Differences of unchanged objects.
    pub diffs: DiffCache,
    /// Digest of the spec that was last looked at.
    pub last_spec: Option<u64>,
    /// Since when its repository cannot be read. It changes no status at first,
    /// so that nothing but this process knows.
    pub failing_since: Option<Timestamp>,
    /// Since when its operation cannot read what it needs.
    pub unreadable_since: Option<Timestamp>,
    /// Digest of how its operation stood when the log said so last.
    pub logged: u64,
    /// The cluster whose objects it wants.
    pub cluster: Option<Arc<ClusterCache>>,
    /// The sources that it waits for.
    pub sources: Vec<Wanted>,
    /// The comparison that failed last and has to be made up for.
    pub owed: Request,
    /// Digests of what the log was told last of a dry run.
    pub would: Vec<u64>,
    /// Hooks of its deletion that were created or failed.
    pub tries: Tries,
    /// Digest of the last patch that was sent, and the version that came of it.
    pub last_patch: Option<(u64, Value)>,
}

impl Memory {
    /// A rendering of these inputs, if it is kept.
    pub fn rendering(&self, from: u128) -> Option<&Rendered> {
        self.rendered.iter().find(|rendered| rendered.from == from)
    }

    /// Bytes that its renderings take.
    pub fn weight(&self) -> u64 {
        self.rendered.iter().map(Rendered::weight).sum()
    }

    /// Keeps a rendering.
    pub fn keep(&mut self, rendered: Rendered) {
        self.rendered.retain(|old| old.from != rendered.from);
        self.rendered.push(rendered);
        let surplus = self.rendered.len().saturating_sub(KEPT);
        self.rendered.drain(..surplus);
    }
}

/// One rendered set of sources. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Tells what it was made from; see [`Rendered::made_from`].
    pub from: u128,
    /// The objects as JSON, in source order.
    pub manifests: Arc<[Arc<[u8]>]>,
    /// `status.sourceType`, by source.
    pub types: Arc<[String]>,
    /// What the user may want to correct, with file and line.
    pub warnings: Arc<[String]>,
}

impl Rendered {
    /// Tells sources, revisions and namespace from others.
    pub fn made_from(inputs: &Value) -> u128 {
        let half = |salt: u8| u128::from(digest(&(salt, inputs)));
        half(0) << 64 | half(1)
    }

    /// The objects.
    pub fn objects(&self) -> Vec<Value> {
        // They were written by ourselves.
        self.manifests.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect()
    }

    fn weight(&self) -> u64 {
        self.manifests.iter().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Manifests that several Applications have are kept once.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Pool>);

#[derive(Debug, Default)]
struct Pool {
    by_digest: HashMap<u64, Weak<[u8]>>,
    /// At this size those that nobody has any more are taken out.
    sweep_at: usize,
}

impl Shared {
    /// The same bytes, once.
    pub fn bytes(&self, bytes: Vec<u8>) -> Arc<[u8]> {
        let digest = digest(&bytes);
        let mut pool = self.0.lock();
        let known = pool.by_digest.get(&digest).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == *bytes) {
            return known;
        }
        let bytes: Arc<[u8]> = bytes.into();
        pool.by_digest.insert(digest, Arc::downgrade(&bytes));
        if pool.by_digest.len() > pool.sweep_at {
            pool.by_digest.retain(|_, kept| kept.strong_count() > 0);
            pool.sweep_at = 2 * pool.by_digest.len() + 1024;
        }
        bytes
    }
}

/// What one reconcile has read already, so that its rounds do not read it
/// again.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The rendering that was placed last, the kinds it was placed by, and
    /// itself.
    pub placed: Option<(u128, BTreeMap<GroupVersionKind, Served>, Arc<Placed>)>,
}
