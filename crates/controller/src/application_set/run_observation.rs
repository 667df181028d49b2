//! What policies and runs say of a rollout, read from the caches with what other sets
//! take of limits that they share.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::policies::Reports;
use wavegate_api::field_managers::RequestedField;
use wavegate_api::policy::understood_policy_spec;
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus};
use wavegate_api::{ObjectKey, Raw, ReadError, read_typed};
use wavegate_cluster::watch::control_plane::ControlPlane;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::generate::generated::Generated;
use wavegate_rollout::application_set::plan::owner::Identity;
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;
use wavegate_rollout::rollout::policy::{Policy, Rules};
use wavegate_rollout::rollout::run::number_of;
use wavegate_rollout::rollout::run_input::{CurrentRun, Pool, RunInput, StaleRequests, Unreadable};

/// The versions that the rules of a set were made of.
#[derive(Debug, Default)]
struct Versions {
    policies: Vec<(String, String)>,
    /// Held, so that no later one has its address.
    generated: Option<Arc<Generated>>,
    labels: BTreeMap<String, String>,
}

impl PartialEq for Versions {
    fn eq(&self, other: &Self) -> bool {
        let address = |from: &Self| from.generated.as_ref().map(Arc::as_ptr);
        self.policies == other.policies
            && self.labels == other.labels
            && address(self) == address(other)
    }
}

/// A part of an object; absent as its default.
fn part<T: serde::de::DeserializeOwned + Default>(value: &Value) -> Result<T, ReadError> {
    if value.is_null() { Ok(T::default()) } else { read_typed(value) }
}

/// The runs of a set.
///
/// One whose owner reference somebody has removed is a run all the same: an abort holds, and its
/// number is taken (ST-060). It is of this set if it was written by the controller after the set
/// was created; the runs of an earlier set of that name were deleted with it.
pub(super) fn runs_of(plane: &ControlPlane, set: &Identity) -> Vec<StoredObject> {
    let mut runs = plane.runs.owned_by(&set.uid);
    let key = ObjectKey::new(&set.namespace, &set.name);
    let lost = plane.runs.without_owner(&key);
    if !lost.is_empty()
        && let Some(set) = plane.sets.get(&key).filter(|stored| stored.uid() == set.uid)
    {
        let created = set.created();
        let is_of_set = |run: &StoredObject| {
            run.created() >= created && number_of(run.name()).is_some() && !run.status().is_null()
        };
        runs.extend(lost.into_iter().filter(is_of_set));
    }
    runs
}

/// Policies and runs of a set, as read. It can be read again at any time.
#[derive(Debug, Default)]
pub struct RunObservation {
    /// The versions of the policies, and the generation, that the rules were made of.
    from: Versions,
    /// What the policies amount to.
    rules: Arc<Rules>,
    /// Its runs, the oldest first.
    pub(super) runs: Vec<Run>,
    /// The states of the ended ones before the latest.
    history: Vec<RolloutRunStatus>,
    /// What people said to those before the latest.
    late: Vec<StaleRequests>,
    has_runs: bool,
    /// Whether there may be runs, and policies, that cannot be read.
    hides_runs: bool,
    hides_policies: bool,
    /// The number of the last name that another object was found to have.
    pub(super) taken: u64,
    /// What other sets take.
    pub(super) pools: Vec<Pool>,
    /// When the status of a run was written last.
    pub(super) written_at: Option<Timestamp>,
}

/// A run as it is stored.
#[derive(Debug)]
pub(super) struct Run {
    pub object: StoredObject,
    spec: RolloutRunSpec,
    /// The program that set the names to skip, where that did not write who asks.
    skip_manager: Option<String>,
    pub status: RolloutRunStatus,
    unreadable: Option<Unreadable>,
}

impl Run {
    fn read(object: StoredObject) -> Self {
        #[derive(serde::Deserialize)]
        struct Fields {
            #[serde(default)]
            metadata: Value,
            #[serde(default)]
            spec: RolloutRunSpec,
            #[serde(default)]
            status: RolloutRunStatus,
        }
        match object.read::<Fields>() {
            Ok(Fields { metadata, spec, status }) => {
                let skip_manager = RequestedField::Skip.manager(&metadata);
                Self { object, spec, skip_manager, status, unreadable: None }
            }
            Err(_) => Self::read_apart(object),
        }
    }

    /// The same of one that cannot be read: what people say does not count as unsaid, and its
    /// state stays as it is, whatever they have written.
    fn read_apart(object: StoredObject) -> Self {
        let value = object.parse();
        let run = object.name().to_owned();
        let found = |is_in_status: bool, error: ReadError| Unreadable {
            run: run.clone(),
            is_in_status,
            field: error.path,
            reason: error.reason,
        };
        let spec = part::<RolloutRunSpec>(value.spec()).map_err(|error| found(false, error));
        let status = part::<RolloutRunStatus>(value.status()).map_err(|error| found(true, error));
        let unreadable = [spec.as_ref().err(), status.as_ref().err()].into_iter().flatten().next();
        let unreadable = unreadable.cloned();
        if let Some(error) = &unreadable {
            tracing::warn!(run = %object.key(), %error, "cannot read the RolloutRun");
        }
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let skip_manager = RequestedField::Skip.manager(&value["metadata"]);
        Self { object, spec, skip_manager, status, unreadable }
    }

    /// Whether its status was written and cannot be read.
    fn hides_status(&self) -> bool {
        self.unreadable.as_ref().is_some_and(|found| found.is_in_status)
    }

    fn number(&self) -> Option<u64> {
        number_of(self.object.name())
    }
}

impl RunObservation {
    /// Reads what has changed.
    pub fn observe(
        &mut self,
        set: &StoredApplicationSet,
        generated: &Arc<Generated>,
        plane: &ControlPlane,
        reports: &Reports,
    ) {
        self.has_runs = plane.has_runs();
        self.hides_runs = plane.hides_runs();
        self.hides_policies = plane.hides_policies();
        let policies = plane.policies.in_namespace(&set.id.namespace);
        let from = Versions {
            policies: policies.values().map(StoredObject::version).collect(),
            generated: Some(Arc::clone(generated)),
            labels: set.labels.clone(),
        };
        if self.from != from {
            let version = |object: &StoredObject| (object.uid().to_owned(), object.generation());
            let read = policies.values().map(|one| (one.name().to_owned(), version(one)));
            let read = read.collect();
            self.rules = match policies.is_empty() {
                true => Arc::default(),
                false => Arc::new(rules(policies.into_values(), set, generated)),
            };
            self.from = from;
            reports.report(&set.id.namespace, &set.id.name, &self.rules, &read);
        }
        self.observe_runs(runs_of(plane, &set.id));
    }

    /// Reads the runs that have changed.
    pub fn observe_runs(&mut self, objects: Vec<StoredObject>) {
        let is_known = |object: &StoredObject| {
            self.runs.iter().any(|run| {
                run.object.uid() == object.uid()
                    && run.object.resource_version() == object.resource_version()
            })
        };
        if objects.len() == self.runs.len() && objects.iter().all(is_known) {
            return;
        }
        let mut known = std::mem::take(&mut self.runs);
        let mut runs: Vec<Run> = objects
            .into_iter()
            .map(|object| {
                let at = known.iter().position(|run| {
                    run.object.uid() == object.uid()
                        && run.object.resource_version() == object.resource_version()
                });
                at.map_or_else(|| Run::read(object), |at| known.swap_remove(at))
            })
            .collect();
        runs.sort_by_key(Run::number);
        let before = runs.len().saturating_sub(1);
        self.history = runs.iter().take(before).map(|run| run.status.clone()).collect();
        let late = |run: &Run| match run.unreadable {
            None => StaleRequests::of(run.object.name(), &run.spec, &run.status),
            Some(_) => None,
        };
        self.late = runs.iter().take(before).filter_map(late).collect();
        self.runs = runs;
    }

    /// A run of the set, by its name.
    pub(super) fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.object.name() == name)
    }

    /// What the policies amount to.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The input of a decision; `None` when nothing can be said about the set.
    pub fn input<'a>(&'a self, set: &'a StoredApplicationSet) -> Option<RunInput<'a>> {
        let is_free = !self.has_runs && !self.hides_runs && self.rules.is_empty();
        if is_free && set.paused.is_none() {
            return None;
        }
        let current = self.runs.last();
        // One without a status takes over the quarantine of the one before it.
        let before = self.runs.iter().rev().nth(1).filter(|run| run.hides_status());
        let unreadable = |run: &'a Run| {
            let inherits = run.status.started_at.is_none();
            let inherited = before.filter(|_| inherits).and_then(|run| run.unreadable.as_ref());
            run.unreadable.as_ref().or(inherited)
        };
        Some(RunInput {
            namespace: &set.id.namespace,
            set: &set.id.name,
            rules: &self.rules,
            paused: set.paused.as_deref(),
            paused_by: set.paused_by.as_deref(),
            resumed_by: set.resumed_by.as_deref(),
            run: current.map(|run| CurrentRun {
                name: run.object.name(),
                spec: &run.spec,
                skip_manager: run.skip_manager.as_deref(),
                status: &run.status,
                unreadable: unreadable(run),
            }),
            records_runs: self.has_runs,
            hides_runs: self.hides_runs,
            hides_policies: self.hides_policies,
            taken: self.taken,
            pools: &self.pools,
            history: &self.history,
            late: &self.late,
            written_at: self.written_at,
        })
    }
}

fn rules(
    policies: impl Iterator<Item = StoredObject>,
    set: &StoredApplicationSet,
    generated: &Generated,
) -> Rules {
    let policies: Vec<Policy> = policies
        .map(|object| Policy {
            name: object.name().to_owned(),
            spec: understood_policy_spec(&object.parse()),
        })
        .collect();
    let selects_by_labels = |policy: &Policy| {
        policy.spec.as_ref().is_ok_and(|spec| {
            !spec.gates.is_empty() || spec.pace.as_ref().is_some_and(|pace| pace.spread.is_some())
        })
    };
    let applications = match policies.iter().any(selects_by_labels) {
        false => Vec::new(),
        true => generated.selectable(),
    };
    let steps = generated.strategy.steps().len();
    Rules::of(&policies, &set.id.name, &set.labels, &applications, steps)
}
