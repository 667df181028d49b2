//! What a pass of the ApplicationSet controller may use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use serde_json::Value;

use crate::act::events::Events;
use crate::clock::Clock;
use crate::decide::application_set::policy::Policy;
use crate::decide::rollout;
use crate::decide::rollout::phase::Observed;
use crate::desired::Generation;
use crate::glob::NamePattern;
use crate::watch::stores::Cache;

/// How the ApplicationSet controller is set up (AS-500 to AS-505).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of projects and cluster Secrets.
    pub control_plane_namespace: String,
    /// Which namespaces are watched besides (AS-400).
    pub namespaces: Namespaces,
    /// Whether progressive syncs are enabled (AS-301).
    pub progressive_syncs: bool,
    /// The state machine's settings.
    pub rollout: rollout::Settings,
    /// What sets may do to their Applications.
    pub policy: Policy,
    /// Whether a set may choose its own policy (AS-502).
    pub policy_override: bool,
    /// Nothing is written, and the log says what would be (AS-161).
    pub dry_run: bool,
    /// How many sets are reconciled at once.
    pub concurrent_reconciliations: u16,
    /// How many Applications of one set are written at once.
    pub concurrent_application_updates: usize,
    /// Annotations that are preserved on all Applications.
    pub preserved_annotations: Vec<String>,
    /// Labels that are preserved on all Applications.
    pub preserved_labels: Vec<String>,
    /// The most resources that a status lists; 0 means all.
    pub max_resources: usize,
    /// Whether sync windows take a sync of a rollout for one by hand (AS-366):
    /// who syncs decides that, and Argo CD's application controller does not.
    pub windows_by_hand: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control_plane_namespace: "argocd".to_owned(),
            namespaces: Namespaces::default(),
            progressive_syncs: false,
            rollout: rollout::Settings::default(),
            policy: Policy::Sync,
            policy_override: true,
            dry_run: false,
            concurrent_reconciliations: 10,
            concurrent_application_updates: 1,
            preserved_annotations: Vec::new(),
            preserved_labels: Vec::new(),
            max_resources: 5000,
            windows_by_hand: true,
        }
    }
}

/// Namespaces besides the control plane's own, as globs or `/regex/`.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    patterns: Vec<NamePattern>,
}

impl Namespaces {
    /// Reads the patterns. They come from a list with commas in between, so
    /// those whose braces are open go on in the next.
    ///
    /// # Errors
    ///
    /// The pattern that is neither a glob nor a regular expression, and why.
    pub fn parse(patterns: &[String]) -> Result<Self, String> {
        let mut joined: Vec<String> = Vec::new();
        for pattern in patterns {
            match joined.last_mut() {
                Some(last) if last.matches('{').count() > last.matches('}').count() => {
                    *last = format!("{last},{pattern}");
                }
                _ => joined.push(pattern.clone()),
            }
        }
        let parse = |pattern: &String| NamePattern::new(pattern);
        Ok(Self { patterns: joined.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether there is none: only the control plane's namespace is watched.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a namespace is covered.
    pub fn matches(&self, namespace: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(namespace))
    }
}

/// What all passes share.
pub struct Context {
    /// The client for writes.
    pub client: Client,
    /// How the controller is set up.
    pub settings: Settings,
    /// Where the time comes from.
    pub clock: Clock,
    /// The sets.
    pub sets: Cache,
    /// The Applications.
    pub applications: Cache,
    /// The projects.
    pub projects: Cache,
    /// The Secrets that describe clusters.
    pub clusters: Store<Secret>,
    /// Events about sets.
    pub events: Events,
    /// What is remembered of each set between two passes, by UID: nothing that
    /// could not be computed again.
    pub memory: Mutex<HashMap<String, Memory>>,
}

impl Context {
    /// Whether objects of a namespace are this controller's business.
    pub fn is_watched(&self, namespace: &str) -> bool {
        namespace == self.settings.control_plane_namespace
            || self.settings.namespaces.matches(namespace)
    }

    /// Takes what is remembered of a set; it is put back after the pass.
    pub fn take_memory(&self, uid: &str) -> Memory {
        self.memory.lock().remove(uid).unwrap_or_default()
    }

    /// Puts back what is remembered of a set; drops what is remembered of sets
    /// that are gone.
    pub fn put_memory(&self, uid: &str, memory: Memory) {
        let mut all = self.memory.lock();
        all.insert(uid.to_owned(), memory);
        if all.len() > self.sets.store.len() {
            let sets = self.sets.store.state();
            let known: BTreeSet<&str> =
                sets.iter().filter_map(|set| set.value()["metadata"]["uid"].as_str()).collect();
            all.retain(|uid, _| known.contains(uid.as_str()));
        }
    }

    /// Forgets a set.
    pub fn forget(&self, uid: &str) {
        self.memory.lock().remove(uid);
    }
}

/// What is remembered of a set, so that what did not change is not computed
/// again.
#[derive(Debug, Default)]
pub struct Memory {
    /// The last generation, with the `metadata.generation` and the strategy it
    /// is for.
    pub generated: Option<Arc<Generated>>,
    /// What was read from each Application, with what it was read from.
    pub observed: BTreeMap<String, Observed>,
    /// The live and the generated object that `observed` was read from.
    pub read_from: HashMap<String, (Arc<Value>, Option<Arc<Value>>)>,
    /// Failed passes in a row, for the backoff.
    pub failures: u32,
    /// Passes in a row that were decided on something outdated, for the backoff.
    pub conflicts: u32,
    /// Failures that were told by an event, by Application: told again only
    /// once they change.
    pub told: BTreeMap<String, String>,
    /// Applications whose stalled wait was told, with when it began.
    pub stalled: BTreeMap<String, Timestamp>,
    /// What the log was told last of a dry run.
    pub would: BTreeSet<String>,
    /// The step that is waited for, counted from 0, and since when it has been
    /// seen to be.
    pub opened: Option<(usize, Timestamp)>,
}

/// What a generation came to, ready to be decided on.
#[derive(Debug)]
pub struct Generated {
    /// The `metadata.generation` of the set it was made from.
    pub of: i64,
    /// What was generated, or why not.
    pub result: Result<Generation, crate::desired::Error>,
    /// The Applications by what they are called, as they are to be written for
    /// the strategy; of several with one name one is here, and none is valid.
    pub applications: BTreeMap<String, Arc<Value>>,
    /// The same as generated, before the strategy rewrote them.
    pub originals: BTreeMap<String, Arc<Value>>,
    /// What each is called, the invalid ones too.
    pub names: BTreeSet<String>,
    /// What is wrong with them by themselves, whatever there is in the cluster.
    pub problems: BTreeMap<String, String>,
}
