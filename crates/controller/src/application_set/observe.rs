//! Observes the inputs of a reconcile and caches them: each version of an Application is
//! read once, the spec of the ApplicationSet once per generation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::context::{Claim, Context, Read};
use super::memory::{GeneratedFrom, SetMemory};
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::watch::object::StoredObject;
use wavegate_net::entropy::template_environment;
use wavegate_rollout::application_set::deletion::Leaving;
use wavegate_rollout::application_set::generate::generated::{Collector, Generated};
use wavegate_rollout::application_set::plan::observe::Existing;
use wavegate_rollout::application_set::plan::ownership_transfer::{self, Moves};
use wavegate_rollout::application_set::reconcile::AFTER_BAD_INPUT;
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;
use wavegate_rollout::desired;
use wavegate_rollout::desired::inputs::{GitRequest, Inputs, REQUEUE_AFTER, Reads};
use wavegate_rollout::desired::queries::Query;
use wavegate_rollout::rollout::POLL;
use wavegate_source::Freshness;

/// Which repositories may be read for a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct MayRead {
    /// Those that were read for an earlier one, again.
    pub again: bool,
    /// Others. Otherwise their generators fail.
    pub more: bool,
}

/// Repositories that must be read before the reconcile can continue.
#[derive(Debug)]
pub struct UnreadInput {
    /// What is read.
    pub requests: BTreeSet<GitRequest>,
    /// What services are asked.
    pub queries: BTreeSet<Query>,
    /// Maximum age of an answer.
    pub freshness: Freshness,
}

impl SetMemory {
    /// Observes the changes since the last reconcile; the changed Applications are taken
    /// from the context.
    ///
    /// # Errors
    ///
    /// The repositories to read first. Nothing is taken from the context then.
    pub fn observe(
        &mut self,
        object: &StoredObject,
        context: &Context,
        may_read: MayRead,
        now: Timestamp,
    ) -> Result<(), UnreadInput> {
        let namespace_uid = context.namespaces.uid(object);
        let known = self.set.as_ref().filter(|set| set.version == object.resource_version());
        let found_namespace =
            self.set.as_ref().is_some_and(|set| set.id.namespace_uid != namespace_uid);
        let set = match known.filter(|_| !found_namespace) {
            Some(set) => Arc::clone(set),
            None => {
                let mut set = StoredApplicationSet::read(&object.parse_status());
                set.id.namespace_uid = namespace_uid;
                Arc::new(set)
            }
        };
        self.set = Some(Arc::clone(&set));
        let namespace = &context.settings.control_plane_namespace;
        let global = &context.settings.global_projects;
        let moved = self.surroundings.observe(&context.core.control_plane, namespace, global);
        if may_read.again && !set.is_deleting {
            let is_asked = context.is_asked_to_read(&object.key());
            self.check_answers(&set, is_asked, now)?;
        }
        // A refresh that was put off after an error must not end without a read.
        let is_put_off = set.is_refreshing && self.has_failed();
        let is_current = |made: &Arc<Generated>| made.generation == set.generation;
        let current = self.generated.clone().filter(is_current);
        let is_new = current.is_none() || (!set.is_deleting && self.inputs_moved());
        let generated = match current {
            Some(made) if !is_new => made,
            _ => Arc::new(self.generate(object, &set, context, may_read, now)?),
        };
        self.generated = Some(Arc::clone(&generated));
        if may_read.again && is_put_off && generated.error.is_none() {
            let requests = self.answers.requests();
            let queries = self.queries.due(None, AFTER_BAD_INPUT, true, now);
            if !(requests.is_empty() && queries.is_empty()) {
                return Err(UnreadInput { requests, queries, freshness: Freshness::NOW });
            }
        }
        if set.is_deleting {
            context.disclaim(&object.key());
            self.observe_leaving(&set, &generated, context);
            return Ok(());
        }
        let changed = context.take_changed(&object.key());
        if is_new || moved {
            self.invalid = generated.invalid(&self.surroundings.known);
        }
        if is_new || found_namespace {
            self.observe_all(&set, &generated, context);
            self.all_observed_at = Some(now);
        } else {
            let mut names: BTreeSet<String> = self.not_owned(&generated).chain(changed).collect();
            if self.may_have_missed_events(now) {
                names.extend(self.all_names(&set, context));
                self.all_observed_at = Some(now);
            }
            self.observe_some(&set, &generated, names, context);
        }
        self.observe_others(object, &generated, context, now);
        let plane = &context.core.control_plane;
        self.run_observation.observe(&set, &generated, plane, &context.policies);
        Ok(())
    }

    /// Reads the other ApplicationSets of the namespace if an Application may change its owner.
    fn observe_others(
        &mut self,
        object: &StoredObject,
        generated: &Arc<Generated>,
        context: &Context,
        now: Timestamp,
    ) {
        // A failed generation releases nothing, although it generates nothing.
        let moves = match &generated.error {
            Some(_) => Moves::default(),
            None => Moves::of(&self.existing, &generated.applications),
        };
        if generated.error.is_none() {
            let left =
                ownership_transfer::left_applications(&self.existing, &generated.applications);
            self.releases.update(generated.generation, left, now);
        }
        let (key, waits) = (object.key(), moves.any());
        let read = Read {
            clusters: self.generated_from.clusters.clone(),
            repositories: self.queries.with(self.answers.repositories()),
        };
        // First, so that no change of the others is missed.
        let policy = generated.policy;
        let (uid, generated) = (object.uid().to_owned(), Arc::clone(generated));
        context.claim(&key, Claim { uid, generated, waits, read: read.clone() });
        let current = Read { clusters: Some(Arc::clone(&self.surroundings.clusters)), ..read };
        let may_delete = moves.leaves && policy.deletes();
        let current = may_delete.then_some(&current);
        self.others = if waits { context.others(&key, current) } else { Vec::new() };
    }

    /// Whether repositories are read and services asked again: at their interval, after a failure, when a user
    /// asks for it (AS-097), when credentials have changed after a failure, and when another
    /// set needs to know what this one generates.
    fn check_answers(
        &mut self,
        set: &StoredApplicationSet,
        is_needed: bool,
        now: Timestamp,
    ) -> Result<(), UnreadInput> {
        let interval = self.generated.as_ref().and_then(|made| made.reads.requeue_after);
        let is_due = self.repositories_due_at().is_some_and(|at| at <= now);
        // The annotation stays after an error; events must not read them without a pause.
        let is_early = self.pause_ends().is_some_and(|at| at > now);
        let is_asked = set.is_refreshing && !(self.has_failed() && is_early);
        self.was_refreshed = set.is_refreshing && (self.was_refreshed || is_asked);
        let is_admitted = self.answers.may_succeed(&self.surroundings.credentials);
        let requests = match is_due || is_asked || is_admitted || is_needed {
            true => self.answers.requests(),
            false => BTreeSet::new(),
        };
        let queries = self.queries.due(interval, AFTER_BAD_INPUT, is_asked || is_needed, now);
        if requests.is_empty() && queries.is_empty() {
            return Ok(());
        }
        let freshness = match is_asked || is_admitted || is_needed {
            true => Freshness::NOW,
            false => fresh(interval),
        };
        Err(UnreadInput { requests, queries, freshness })
    }

    /// Generates the Applications, in a compact form.
    fn generate(
        &mut self,
        object: &StoredObject,
        set: &StoredApplicationSet,
        context: &Context,
        may_read: MayRead,
        now: Timestamp,
    ) -> Result<Generated, UnreadInput> {
        let inputs = Inputs {
            clusters: Arc::clone(&self.surroundings.clusters),
            git: self.answers.all(),
            answers: self.queries.all(),
            projects: Some(self.surroundings.projects_for(&set.id.namespace)),
            ..context.settings.inputs()
        };
        let object = object.parse();
        wavegate_net::redact::know_urls_of(object.spec());
        // Only the strategy of a set that is being deleted is needed.
        let generated = if set.is_deleting {
            let collector = Collector::new(&object, &context.settings.decisions);
            collector.finish(&object, &context.settings.decisions, Reads::default(), None)
        } else {
            generate(&object, &inputs, context, now)
        };
        if let Some(desired::GenerateError::Unread(unread)) = &generated.error
            && may_read.more
        {
            let freshness = fresh(Some(inputs.requeue_after));
            let (requests, queries) = (unread.git.clone(), unread.queries.clone());
            return Err(UnreadInput { requests, queries, freshness });
        }
        self.generated_from = GeneratedFrom {
            answers: self.versions(),
            clusters: generated.reads.clusters.then_some(inputs.clusters),
            projects: inputs.projects.filter(|_| generated.reads.projects),
        };
        if generated.error.is_none() {
            self.answers.retain(&generated.reads.git);
            self.queries.retain(&generated.reads.queries);
        }
        Ok(generated)
    }

    /// The generated Applications that do not exist or are not owned by the
    /// ApplicationSet: their changes do not trigger a reconcile.
    fn not_owned(&self, generated: &Generated) -> impl Iterator<Item = String> + use<> {
        let mut existing = self.existing.iter().peekable();
        let mut names = Vec::new();
        for wanted in &generated.applications {
            while existing.next_if(|one| one.name < wanted.name).is_some() {}
            let same = existing.next_if(|one| one.name == wanted.name);
            if !same.is_some_and(Existing::is_owned) {
                names.push(wanted.name.to_string());
            }
        }
        names.into_iter()
    }

    /// Whether all Applications are observed again: a rollout continues although an event about one
    /// of them was lost (AS-390).
    fn may_have_missed_events(&self, now: Timestamp) -> bool {
        // A clock that was set back does not put it off.
        self.all_observed_at.is_none_or(|at| now < at || now.duration_since(at) >= POLL)
    }

    /// The names of the Applications that are known, and of those that it owns.
    fn all_names(&self, set: &StoredApplicationSet, context: &Context) -> BTreeSet<String> {
        let owned = context.core.control_plane.applications.owned_by(&set.id.uid).into_iter();
        let owned = owned.filter(|object| object.namespace() == set.id.namespace);
        let known = self.existing.iter().map(|one| one.name.to_string());
        known.chain(owned.map(|object| object.name().to_owned())).collect()
    }

    fn observe_all(
        &mut self,
        set: &StoredApplicationSet,
        generated: &Generated,
        context: &Context,
    ) {
        let cache = &context.core.control_plane.applications;
        let mut objects: BTreeMap<String, StoredObject> = cache
            .owned_by(&set.id.uid)
            .into_iter()
            .filter(|object| object.namespace() == set.id.namespace)
            .map(|object| (object.name().to_owned(), object))
            .collect();
        for wanted in &generated.applications {
            if !objects.contains_key(&*wanted.name)
                && let Some(object) = cache.get(&ObjectKey::new(&set.id.namespace, &wanted.name))
            {
                objects.insert(wanted.name.to_string(), object);
            }
        }
        self.existing = objects
            .values()
            .filter_map(|object| Existing::related(&object.parse(), &set.id, generated))
            .collect();
    }

    fn observe_some(
        &mut self,
        set: &StoredApplicationSet,
        generated: &Generated,
        names: BTreeSet<String>,
        context: &Context,
    ) {
        let cache = &context.core.control_plane.applications;
        for name in names {
            let place = self.existing.binary_search_by(|one| (*one.name).cmp(&name));
            let object = cache.get(&ObjectKey::new(&set.id.namespace, &name));
            if let (Ok(at), Some(object)) = (place, &object)
                && *self.existing[at].version == *object.resource_version()
                && *self.existing[at].uid == *object.uid()
            {
                continue;
            }
            let existing =
                object.and_then(|object| Existing::related(&object.parse(), &set.id, generated));
            match (place, existing) {
                (Ok(at), Some(existing)) => self.existing[at] = existing,
                (Ok(at), None) => {
                    self.existing.remove(at);
                }
                (Err(at), Some(existing)) => self.existing.insert(at, existing),
                (Err(_), None) => {}
            }
        }
    }

    fn observe_leaving(
        &mut self,
        set: &StoredApplicationSet,
        generated: &Generated,
        context: &Context,
    ) {
        let cache = &context.core.control_plane.applications;
        // Garbage collection may have removed the reference to the set already; that to the
        // Namespace is removed as well then. Without a controlling owner it protects nothing.
        let released = match generated.policy.deletes() {
            true => BTreeMap::new(),
            false => cache.in_namespace(&set.id.namespace),
        };
        let released = released
            .into_values()
            .filter(|object| Leaving::is_released(&owners_of(object), &set.id));
        let owned = cache.owned_by(&set.id.uid).into_iter().chain(released);
        self.leaving = owned
            .filter(|object| object.namespace() == set.id.namespace)
            .map(|object| {
                let answer = self.presence.get(object.uid()).cloned();
                Leaving::read(&object.parse(), &set.id, &generated.strategy).with(answer)
            })
            .collect();
    }
}

/// The owner references of an object, without reading the rest of it.
fn owners_of(object: &StoredObject) -> Value {
    #[derive(serde::Deserialize)]
    struct Metadata {
        #[serde(default, rename = "ownerReferences")]
        owners: Value,
    }
    #[derive(serde::Deserialize)]
    struct Owned {
        metadata: Metadata,
    }
    let owners = object.read::<Owned>().map(|owned| owned.metadata.owners);
    json!({ "metadata": { "ownerReferences": owners.unwrap_or_default() } })
}

/// Repositories of several ApplicationSets are read together.
fn fresh(interval: Option<Duration>) -> Freshness {
    Freshness(interval.unwrap_or(REQUEUE_AFTER) / 4)
}

/// Most bytes that several sets may generate at the same time, each, and most bytes of their
/// parameter sets; a larger one is generated alone. The limits of one set would otherwise apply to
/// each of those that are reconciled at once: ten sets that are refused in the end took 10 GiB.
const SMALL: usize = 16 << 20;

/// Held while a set is generated that may be large.
static LARGE: Mutex<()> = Mutex::new(());

/// Generates the Applications of an ApplicationSet, in a compact form.
fn generate(set: &Value, inputs: &Inputs, context: &Context, now: Timestamp) -> Generated {
    // They are not kept as trees.
    let limits = desired::Limits { tree_bytes: u64::MAX, ..desired::Limits::default() };
    let small = desired::Limits { bytes: SMALL, parameter_bytes: SMALL as u64, ..limits };
    let is_limit = |error: &desired::GenerateError| error.is_limit();
    let mut generated = generate_within(set, inputs, small, context, now);
    if generated.error.as_ref().is_some_and(is_limit) {
        let _alone = LARGE.lock();
        generated = generate_within(set, inputs, limits, context, now);
    }
    for warning in &generated.reads.warnings {
        tracing::warn!("{warning}");
    }
    if generated.error.is_none() {
        tracing::info!(applications = generated.applications.len(), "generated");
        for application in generated.switched_off() {
            tracing::warn!(
                application,
                "spec.template.spec.syncPolicy.automated is disabled by RollingSync; the rollout starts the syncs"
            );
        }
    }
    generated
}

/// As [`generate`], with limits.
fn generate_within(
    set: &Value,
    inputs: &Inputs,
    limits: desired::Limits,
    context: &Context,
    now: Timestamp,
) -> Generated {
    let mut collector = Collector::new(set, &context.settings.decisions);
    let mut env = template_environment(now);
    let mut reads = Reads::default();
    let take = &mut |application: Value, origin: String| {
        // For all messages about them.
        wavegate_net::redact::know_urls_of(application.spec());
        collector.add(application, &origin);
    };
    let error =
        desired::generate_each_within(set, inputs, limits, &mut env, &mut reads, take).err();
    collector.finish(set, &context.settings.decisions, reads, error)
}
