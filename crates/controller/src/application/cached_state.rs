//! Cached state of an Application, kept between reconciles and within one. It only saves
//! work: everything can be computed again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;

use super::acting::Acting;
use super::revisions::WantedRevision;
use wavegate_api::ResourceKey;
use wavegate_api::conditions::application::{REPEATED_KEY_WARNING, SYNC_WARNING};
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_application::app::App;
use wavegate_application::memory::{ApplicationMemory, digest_of};
use wavegate_application::operation::StoredProgress;
use wavegate_application::predictions::Predictions;
use wavegate_application::{DiffCache, NewCondition, Placed};
use wavegate_cluster::act::application_events::Announced;
use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_engine::health::scripts::ScriptResults;

/// Maximum number of cached renderings per Application: one for the comparison, others
/// for operations.
const KEPT: usize = 3;

/// The cached state of one Application.
#[derive(Debug, Default)]
pub struct CachedState {
    /// What decisions remember.
    pub memory: ApplicationMemory,
    /// Renderings, latest last.
    pub rendered: Vec<Rendered>,
    /// Differences of unchanged objects.
    pub diffs: DiffCache,
    /// Results of health scripts for the objects that were observed last.
    pub script_results: Arc<ScriptResults>,
    /// What the API server predicts of objects.
    pub predictions: Predictions,
    /// Digest of the operation progress that was last logged.
    pub logged: u64,
    /// The UID of the Application: when it is gone, nothing else says which hooks were its own.
    pub uid: String,
    /// The cluster with the objects that it watches.
    pub cluster: Option<Arc<ClusterCache>>,
    /// Who writes there.
    pub acting: Option<Acting>,
    /// The sources that it is registered for.
    pub sources: Vec<WantedRevision>,
    /// Digests of the last logged lines of a dry run.
    pub would: Vec<u64>,
    /// The progress of the running operation as last written, for servers whose definition
    /// lacks the field.
    pub progress: Option<StoredProgress>,
    /// The Events of writes that have not succeeded yet, and of the last ones that have.
    pub announced: Announced,
    /// Digest of the last patch without the time of the comparison, and the resulting resource version.
    pub last_patch: Option<(u64, String)>,
}

impl CachedState {
    /// The Application as it is stored, with what the server has dropped of its progress.
    pub fn restored(&self, mut stored: Value) -> App {
        if let Some(progress) = &self.progress {
            progress.restore(&mut stored);
        }
        App::of(stored)
    }

    /// The rendering of these inputs, if it is cached.
    pub fn rendering(&self, from: u128) -> Option<&Rendered> {
        self.rendered.iter().find(|rendered| rendered.from == from)
    }

    /// Size of its renderings in bytes.
    pub fn weight(&self) -> u64 {
        self.rendered.iter().map(Rendered::weight).sum()
    }

    /// Caches a rendering.
    pub fn keep(&mut self, rendered: Rendered) {
        self.rendered.retain(|old| old.from != rendered.from);
        // One is the rule; a vector grows to four.
        self.rendered.reserve_exact(1);
        self.rendered.push(rendered);
        let surplus = self.rendered.len().saturating_sub(KEPT);
        self.rendered.drain(..surplus);
    }
}

/// One rendered set of sources. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Digest of its inputs; see [`Rendered::made_from`].
    pub from: u128,
    /// The objects as JSON, in source order.
    pub manifests: Arc<[Arc<[u8]>]>,
    /// `status.sourceType`, by source.
    pub types: Arc<[String]>,
    /// Problems in the manifests, with file and line.
    pub warnings: Arc<[String]>,
    /// What was left out of the manifests, with its file.
    pub notes: Arc<[String]>,
    /// The repositories that it was made from besides those of the sources: of dependencies
    /// and submodules. It may be used only while the project permits each of them.
    pub repositories: Arc<[String]>,
}

impl Rendered {
    /// Digest of sources, revisions and namespace.
    pub fn made_from(inputs: &Value) -> u128 {
        let half = |salt: u8| u128::from(digest_of(&(salt, inputs)));
        half(0) << 64 | half(1)
    }

    /// The objects.
    pub fn objects(&self) -> Vec<Value> {
        // Serialized by this process.
        self.manifests.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok()).collect()
    }

    /// What its warnings and notes are in a status.
    pub fn conditions(&self) -> impl Iterator<Item = NewCondition> {
        let of = |kind, texts: &[String]| -> Vec<NewCondition> {
            texts.iter().map(|text| NewCondition::new(kind, text.as_str())).collect()
        };
        let notes = of(SYNC_WARNING, &self.notes);
        of(REPEATED_KEY_WARNING, &self.warnings).into_iter().chain(notes)
    }

    fn weight(&self) -> u64 {
        self.manifests.iter().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Shares equal manifests of several Applications.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Pool>);

#[derive(Debug, Default)]
struct Pool {
    by_digest: HashMap<u64, Weak<[u8]>>,
    /// At this size, unused manifests are removed.
    sweep_at: usize,
}

impl Shared {
    /// Returns a shared copy of the bytes.
    pub fn bytes(&self, bytes: Vec<u8>) -> Arc<[u8]> {
        let digest = digest_of(&bytes);
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

/// Manifests and live objects that the current reconcile has already parsed.
#[derive(Debug, Default)]
pub struct ParsedState {
    /// The last rendering with destination namespaces, the kinds that it depends on, and
    /// the result.
    pub placed: Option<(u128, BTreeMap<GroupVersionKind, Served>, Arc<Placed>)>,
    /// What it claims at the revisions at which a rollback holds it.
    pub held: BTreeSet<ResourceKey>,
}
