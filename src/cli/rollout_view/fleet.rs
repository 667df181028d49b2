//! State of ApplicationSets and their Applications, from a watch of the API server only.
//!
//! Pure: takes events and the time, returns transitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::set::WatchedSet;
use super::steps;
use super::transition::Transition;
use wavegate_api::ObjectKey;
use wavegate_cluster::watch::control_plane::set_owner;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::desired::inputs::Inputs;
use wavegate_rollout::requests::Run;
use wavegate_rollout::rollout::report::RolloutOutcome;

/// Where the steps of Applications come from.
#[derive(Clone, Debug)]
pub(in crate::cli) enum FleetSource {
    /// All are generated, with what the generators read.
    Generated(Inputs),
    /// A cluster, of which only the objects are known; with a name, only of this set.
    Cluster(Option<String>),
}

impl Default for FleetSource {
    fn default() -> Self {
        Self::Generated(Inputs::default())
    }
}

/// All sets.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Fleet {
    pub sets: BTreeMap<ObjectKey, WatchedSet>,
    source: FleetSource,
    /// Whether the runs that there are were seen: all others are new.
    pub are_runs_listed: bool,
    /// Completed syncs, by Application and start time.
    syncs: BTreeSet<(String, String)>,
    /// Completed hooks, by Application, start time of the sync, and hook.
    hooks: BTreeSet<(String, String, String)>,
}

impl Fleet {
    /// No set is known yet.
    pub fn new(source: FleetSource) -> Self {
        Self { source, ..Self::default() }
    }

    /// A set was created or changed.
    pub fn set(&mut self, object: &StoredObject, now: Timestamp, at: Duration) -> Vec<Transition> {
        if !self.includes(object.name()) {
            return Vec::new();
        }
        let set = self.sets.entry(object.key()).or_default();
        let raw = object.parse();
        set.is_in_cluster = matches!(self.source, FleetSource::Cluster(_));
        let mut read = report_input::read_set(&raw);
        // The status changes much more often than the spec.
        let generation = raw.pointer("/metadata/generation").and_then(Value::as_i64);
        let version = (object.uid().to_owned(), generation);
        read.generated = match &self.source {
            _ if version.1.is_some() && version == set.version => set.report.set.generated.take(),
            FleetSource::Generated(inputs) => {
                Some(steps::generated(&raw, inputs, now).map_err(|error| error.to_string()))
            }
            FleetSource::Cluster(_) => steps::of_cluster(&raw, now).map(Ok),
        };
        set.version = version;
        set.read(read, at)
    }

    fn includes(&self, set: &str) -> bool {
        !matches!(&self.source, FleetSource::Cluster(Some(only)) if only != set)
    }

    /// The set of an Application or a run.
    fn owner(&self, object: &StoredObject) -> Option<ObjectKey> {
        let owner = set_owner(object).filter(|owner| self.includes(&owner.name))?;
        Some(ObjectKey::new(object.namespace(), &owner.name))
    }

    /// An Application was created or changed; Applications without a set are ignored.
    pub fn application(&mut self, object: &StoredObject, at: Duration) -> Vec<Transition> {
        let Some(set) = self.owner(object) else { return Vec::new() };
        let (name, live) = (object.name(), report_input::read_application(&object.parse()));
        // Only the demo counts them: a cluster may be watched for days.
        if !live.doing.started_at.is_empty() && matches!(self.source, FleetSource::Generated(_)) {
            let key = (name.to_owned(), live.doing.started_at.clone());
            for hook in &live.doing.hooks {
                self.hooks.insert((key.0.clone(), key.1.clone(), hook.clone()));
            }
            if live.operation().is_completed() {
                self.syncs.insert(key);
            }
        }
        self.sets.entry(set).or_default().observe(name, live, at)
    }

    /// An Application was deleted.
    pub fn application_gone(&mut self, object: &StoredObject, at: Duration) -> Vec<Transition> {
        let set = self.owner(object).and_then(|set| self.sets.get_mut(&set));
        Vec::from_iter(set.and_then(|set| set.lose(object.name(), at)))
    }

    /// A run was created or changed; one without a set is ignored.
    pub fn run(&mut self, object: &StoredObject, at: Duration) -> Vec<Transition> {
        let Some(set) = self.owner(object) else { return Vec::new() };
        let is_known = !self.are_runs_listed && matches!(self.source, FleetSource::Cluster(_));
        let run = Run::read(&object.parse());
        self.sets.entry(set).or_default().observe_run(run, is_known, at)
    }

    /// A run was deleted.
    pub fn run_gone(&mut self, object: &StoredObject) {
        let key = self.owner(object);
        if let Some(set) = key.and_then(|key| self.sets.get_mut(&key)) {
            set.lose_run(object.name());
        }
    }

    /// Sets that were observed themselves, not only through their Applications.
    pub fn known(&self) -> impl Iterator<Item = &WatchedSet> {
        self.sets.values().filter(|set| !set.name().is_empty())
    }

    /// Outcomes of all these sets.
    pub fn outcomes(&self) -> Vec<(ObjectKey, RolloutOutcome)> {
        self.known().map(|set| (set.key(), set.outcome())).collect()
    }

    /// Number of completed syncs.
    pub fn syncs(&self) -> usize {
        self.syncs.len()
    }

    /// Number of completed hooks.
    pub fn hooks(&self) -> usize {
        self.hooks.len()
    }
}
