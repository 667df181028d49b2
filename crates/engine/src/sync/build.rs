//! Converts manifests and live objects to the ordered list of tasks.
//!
//! The list is rebuilt in every reconcile. It depends only on the snapshot; the
//! state of its tasks is added from the results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::hooks::{self, ObjectClass};
use super::messages;
use super::object::{defines, is_namespace};
use super::options::{self, AppOptions, ResourceOptions};
use super::order::{self, Placed, Slot, kind_rank};
use super::plan::{TaskKey, Verb};
use super::prune;
use super::snapshot::{LiveObject, NamespaceFact, SyncSnapshot};
use super::task::Task;
use wavegate_api::Raw;
use wavegate_api::annotations::{self, sync_wave};
use wavegate_api::hooks::delete_policies;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::operation::{OperationPhase, SyncPhase};
use wavegate_api::resource_key::ResourceKey;

/// The tasks in run order, and warnings that do not stop the operation.
pub(super) struct Built<'a> {
    pub tasks: Vec<Task<'a>>,
    pub warnings: Vec<String>,
}

/// Builds all tasks of one reconcile.
pub(super) fn build<'a>(snapshot: &'a SyncSnapshot, app: &AppOptions) -> Built<'a> {
    let mut builder = Builder {
        snapshot,
        app,
        defined: defined_kinds(&snapshot.targets),
        stamps: (snapshot.live.iter())
            .filter_map(|(key, live)| Some((hooks::stamp_of(&live.object)?, (key, live))))
            .collect(),
        claimed: BTreeSet::new(),
        tasks: Vec::new(),
        warnings: app.problems.clone(),
    };
    builder.add_targets();
    builder.add_namespace();
    builder.add_prunes();
    prune::assign_waves(&mut builder.tasks, app);
    if snapshot.has_lost_progress() {
        prune::prune_later(snapshot, &mut builder.tasks);
    }
    builder.add_vanished();
    let Builder { mut tasks, warnings, .. } = builder;

    for task in tasks.iter_mut().filter(|task| task.is_prune()) {
        let planned = snapshot.progress.prune_waves.get(&task.key.resource.to_string());
        task.wave = planned.copied().unwrap_or(task.wave);
    }
    Built { tasks: arrange(tasks), warnings }
}

/// Orders tasks; promotion may change their phase and wave.
fn arrange(tasks: Vec<Task<'_>>) -> Vec<Task<'_>> {
    let placed = tasks.into_iter().map(|task| {
        let ResourceKey { group, kind, namespace, name } = task.key.resource.clone();
        let (phase, wave, hook) = (task.key.phase, task.wave, task.hook);
        let kind_rank = kind_rank(&kind);
        let slot = Slot { phase, wave, kind_rank, name, namespace, group, kind, hook };
        let target = task.target.clone();
        Placed::new(slot, target.as_deref(), task)
    });
    let mut seen = BTreeSet::new();
    let mut tasks = Vec::new();
    for Placed { slot, item: mut task, .. } in order::arrange(placed.collect()) {
        task.key.phase = slot.phase;
        task.wave = slot.wave;
        // Two phases of one hook can be promoted to the same slot.
        if seen.insert(task.key.clone()) {
            tasks.push(task);
        }
    }
    tasks
}

/// Kinds defined by CustomResourceDefinitions among the targets, and whether
/// they are cluster-scoped.
fn defined_kinds(targets: &[Arc<Value>]) -> BTreeMap<(&str, &str), bool> {
    let defined = targets.iter().filter_map(|target| defines(target));
    defined.map(|(group, kind, scope)| ((group, kind), scope == "Cluster")).collect()
}

struct Builder<'a, 'b> {
    snapshot: &'a SyncSnapshot,
    app: &'b AppOptions,
    defined: BTreeMap<(&'a str, &'a str), bool>,
    /// Live objects by the stamp they carry.
    stamps: BTreeMap<&'a str, (&'a ResourceKey, &'a LiveObject)>,
    /// Live objects that belong to a target of any class.
    claimed: BTreeSet<&'a ResourceKey>,
    tasks: Vec<Task<'a>>,
    warnings: Vec<String>,
}

impl<'a> Builder<'a, '_> {
    fn add_targets(&mut self) {
        let targets = &self.snapshot.targets;
        let mut last = BTreeMap::new();
        let mut nameless = 0;
        for (index, target) in targets.iter().enumerate() {
            // A manifest without a name is identified by its index among all
            // such manifests, so that changes of the others do not affect it.
            let position = target.name().is_empty().then(|| {
                nameless += 1;
                nameless - 1
            });
            last.insert((self.key_of(target), position), (index, position));
        }
        let names: BTreeSet<ResourceKey> = last.keys().map(|(key, _)| key.clone()).collect();
        let kept: BTreeMap<usize, Option<usize>> = last.into_values().collect();
        for (index, position) in kept {
            self.add_target(index, position, &names);
        }
    }

    fn add_target(&mut self, index: usize, position: Option<usize>, names: &BTreeSet<ResourceKey>) {
        let target = &self.snapshot.targets[index];
        let key = self.key_of(target);
        let view: &Value = target;
        match hooks::classify_hook(target) {
            ObjectClass::Resource => {
                let nameless = position.is_some();
                let stamp = self.stamp(SyncPhase::Sync, position);
                let mut key = key;
                if let Some(position) = position {
                    // Without a name it is identified by its index in the
                    // source.
                    key.name = format!("{}{position}", view.generate_name());
                    while names.contains(&key) {
                        key.name.push('*');
                    }
                }
                let live = match nameless {
                    true => self.stamps.get(stamp.as_str()).copied(),
                    false => self.find(&key),
                };
                self.claim(live);
                if !self.is_selected(&key) {
                    return;
                }
                let live = live.map(|(_, live)| live);
                let denial = self.denial(index, &key);
                let task = self.task(key, SyncPhase::Sync, target.clone(), live, stamp, denial);
                let recreated = options::is_recreated(target, task.live_view(), self.app, nameless);
                self.tasks.push(Task { nameless, recreated, ..task });
            }
            ObjectClass::Hook(phases) => {
                for phase in phases {
                    let mut key = key.clone();
                    if let Some(position) = position {
                        key.name = self.generated_name(view, phase, position);
                    }
                    let live = self.find(&key);
                    self.claim(live);
                    if !self.snapshot.operation.runs_hooks() {
                        continue;
                    }
                    let stamp = self.stamp(phase, position);
                    let live = live.map(|(_, live)| live);
                    let denial = self.denial(index, &key);
                    let task = self.task(key, phase, target.clone(), live, stamp, denial);
                    let policies = delete_policies(target);
                    self.tasks.push(Task { hook: true, policies, ..task });
                }
            }
            ObjectClass::Ignored => {
                let kind = view.kind();
                self.warnings.push(format!("{kind} {} has no valid hook type", key.name));
                self.claim(self.find(&key));
            }
            ObjectClass::Skipped | ObjectClass::DeleteHook => self.claim(self.find(&key)),
        }
    }

    /// A task without hook fields; also validates it.
    fn task(
        &self,
        key: ResourceKey,
        phase: SyncPhase,
        target: Arc<Value>,
        live: Option<&'a LiveObject>,
        stamp: String,
        denial: Option<String>,
    ) -> Task<'a> {
        let view: &Value = &target;
        let (skip_dry_run, invalid) = match denial {
            Some(denial) => (false, Some(denial)),
            None => self.check(&key, view),
        };
        let invalid = invalid.map(|message| (OperationPhase::Failed, message));
        Task {
            version: view.version().to_owned(),
            wave: sync_wave(&target),
            key: TaskKey { phase, resource: key },
            live,
            stamp,
            finalizer: self.snapshot.settings.hook_finalizer,
            skip_dry_run,
            invalid,
            target: Some(target),
            ..Task::default()
        }
    }

    /// Whether to skip the dry run, and why the task must not run (SE-206).
    fn check(&self, key: &ResourceKey, view: &Value) -> (bool, Option<String>) {
        let missing = match self.fact(view) {
            None | Some(Served::Namespaced | Served::ClusterScoped) => return (false, None),
            Some(Served::Failed(error)) => return (false, Some(error.clone())),
            Some(Served::Missing { installed }) => installed.as_ref(),
        };
        let tolerated = self.app.skip_dry_run_on_missing
            || ResourceOptions::of(view).skip_dry_run_on_missing
            || self.defined.contains_key(&(view.group(), view.kind()));
        match tolerated {
            true => (true, None),
            false => {
                // Not the index that stands for the name here.
                let name = match view.name() {
                    "" => view.generate_name().to_owned(),
                    _ => key.name.clone(),
                };
                let key = ResourceKey { name, ..key.clone() };
                (false, Some(messages::missing_kind(&key, view.version(), missing)))
            }
        }
    }

    /// Why the project forbids a target (SE-206).
    fn denial(&self, index: usize, key: &ResourceKey) -> Option<String> {
        let denial = self.snapshot.denied.get(&index)?;
        Some(denial.message(key, &self.snapshot.project))
    }

    /// The name of a hook without one: the same for a retry (SE-397), and
    /// unique to the operation and Application.
    fn generated_name(&self, view: &Value, phase: SyncPhase, position: usize) -> String {
        let SyncSnapshot { operation, operation_id, started_at, .. } = self.snapshot;
        let identity = format!("{operation_id}/{phase}/{position}");
        let words = hooks::purpose(&operation.revision, phase, *started_at);
        hooks::generated_name(view.generate_name(), &words, &identity)
    }

    fn fact(&self, view: &Value) -> Option<&'a Served> {
        self.snapshot.kinds.get(&GroupVersionKind::of(view))
    }

    /// The identity of a target: cluster-scoped kinds have no namespace, all
    /// others without one are in the destination namespace (SE-131, SE-195).
    fn key_of(&self, target: &Value) -> ResourceKey {
        let view = target;
        let defined = self.defined.get(&(view.group(), view.kind()));
        let cluster_scoped = match self.fact(view) {
            Some(Served::ClusterScoped) => true,
            Some(Served::Namespaced) => false,
            _ if is_namespace(view) || defines(view).is_some() => true,
            _ => defined.copied().unwrap_or(false),
        };
        let namespace = match (cluster_scoped, view.namespace()) {
            (true, _) => "",
            (false, "") => self.snapshot.destination_namespace.as_str(),
            (false, namespace) => namespace,
        };
        ResourceKey::new(view.group(), view.kind(), namespace, view.name())
    }

    /// The live object of a target. Both scopes are tried, since the scope of a
    /// kind may be unknown (SE-142).
    fn find(&self, key: &ResourceKey) -> Option<(&'a ResourceKey, &'a LiveObject)> {
        let live = &self.snapshot.live;
        let scoped = live.get_key_value(key);
        scoped.or_else(|| live.get_key_value(&key.clone().in_namespace("")))
    }

    fn claim(&mut self, live: Option<(&'a ResourceKey, &'a LiveObject)>) {
        self.claimed.extend(live.map(|(key, _)| key));
    }

    fn stamp(&self, phase: SyncPhase, position: Option<usize>) -> String {
        let SyncSnapshot { operation_id, attempt, .. } = self.snapshot;
        hooks::operation_stamp(operation_id, *attempt, &phase.to_string(), position)
    }

    fn is_selected(&self, key: &ResourceKey) -> bool {
        self.snapshot.operation.selects(key)
    }

    /// The destination namespace, if the sync has to create it or to manage its
    /// metadata (SE-200..SE-202).
    fn add_namespace(&mut self) {
        let name = self.snapshot.destination_namespace.as_str();
        let declared = |target: &Arc<Value>| {
            let applied = matches!(
                hooks::classify_hook(target),
                ObjectClass::Resource | ObjectClass::Hook(_)
            );
            is_namespace(target) && target.name() == name && applied
        };
        let metadata = self.snapshot.managed_namespace_metadata.as_ref();
        let is_left = self.snapshot.tracks_namespace && metadata.is_some();
        if !(self.app.create_namespace || is_left)
            || name.is_empty()
            || self.snapshot.targets.iter().any(declared)
        {
            return;
        }
        let key = ResourceKey::new("", "Namespace", "", name);
        let task_key = TaskKey { phase: SyncPhase::PreSync, resource: key.clone() };
        // Once this operation creates it, it stays a task of the operation.
        let in_flight = &self.snapshot.progress.in_flight;
        // A server whose definition lacks the field for actions in flight has dropped it.
        let answered = self.snapshot.outcomes.iter();
        let begun = answered.map(|outcome| &outcome.action.task).any(|task| *task == task_key)
            || in_flight.iter().any(|action| action.task == task_key)
            || self.snapshot.results.iter().any(|result| TaskKey::of(result) == task_key);
        let found = self.find(&key);
        let goes = found.is_some_and(|(_, live)| live.object.is_deleting());
        let failed = match &self.snapshot.namespace {
            NamespaceFact::Failed(error) if !begun => {
                Some((OperationPhase::Error, messages::namespace_unreadable(error)))
            }
            // One that is being deleted is created again when it is gone.
            NamespaceFact::Exists if metadata.is_none() && !begun && !goes => return,
            _ => None,
        };
        let mut target = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": name },
        });
        if let Some(metadata) = metadata {
            let mut all = metadata.annotations.clone();
            all.insert(annotations::SYNC_OPTIONS.to_owned(), "ServerSideApply=true".to_owned());
            target["metadata"]["annotations"] = json!(all);
            target["metadata"]["labels"] = json!(metadata.labels);
        }
        self.claim(found);
        let stamp = self.stamp(SyncPhase::PreSync, None);
        let live = found.map(|(_, live)| live);
        let denial = self
            .snapshot
            .namespace_denied
            .as_ref()
            .map(|denial| messages::namespace_denied(&key, denial, &self.snapshot.project));
        let mut task = self.task(key, SyncPhase::PreSync, Arc::new(target), live, stamp, denial);
        task.wave = 0;
        task.invalid = failed.or(task.invalid);
        self.tasks.push(task);
    }

    /// Whether an object was created from a target without a name.
    fn generates(&self, key: &ResourceKey, live: &Value) -> bool {
        let prefix = live.generate_name();
        let made = |target: &Arc<Value>| {
            let same = target.group() == key.group && target.kind() == key.kind;
            same && target.name().is_empty() && target.generate_name() == prefix
        };
        !prefix.is_empty() && self.snapshot.targets.iter().any(made)
    }

    /// Live resources that do not belong to any target (SE-190, SE-191).
    fn add_prunes(&mut self) {
        let operation = &self.snapshot.operation_id;
        for (key, live) in &self.snapshot.live {
            if self.claimed.contains(key) || hooks::is_stamped_by(&live.object, operation) {
                continue;
            }
            match hooks::classify_hook(&live.object) {
                ObjectClass::Resource if live.tracked && self.is_selected(key) => {
                    let version = live.object.version().to_owned();
                    let wave = sync_wave(&live.object);
                    let task = prune_task(key.clone(), version, wave, Some(live));
                    self.tasks.push(task);
                }
                // Created by an earlier operation, from a manifest that is
                // still in the source.
                ObjectClass::Hook(_) if self.generates(key, &live.object) => {}
                ObjectClass::Hook(_) => {
                    let name = format!("{} {}", key.group_kind(), key.name);
                    self.warnings.push(format!("hook {name} is no longer in the source"));
                }
                ObjectClass::Resource
                | ObjectClass::Skipped
                | ObjectClass::DeleteHook
                | ObjectClass::Ignored => {}
            }
        }
    }

    /// Objects that were about to be pruned and no longer exist: they stay
    /// tasks until their result is recorded, in the wave in which they were
    /// pruned. They move no others.
    fn add_vanished(&mut self) {
        let in_flight = &self.snapshot.progress.in_flight;
        if in_flight.is_empty() {
            return;
        }
        let mut known: BTreeSet<TaskKey> = self.tasks.iter().map(|t| t.key.clone()).collect();
        for action in in_flight.iter().filter(|action| action.verb == Verb::Prune) {
            if known.insert(action.task.clone()) {
                let (key, version) = (action.task.resource.clone(), action.version.clone());
                let task = prune_task(key, version, action.wave, None);
                self.tasks.push(task);
            }
        }
    }
}

/// Prune tasks for resources that do not belong to any target. Live objects
/// that the project forbids are not in the snapshot (SE-082).
fn prune_task<'a>(
    key: ResourceKey,
    version: String,
    wave: i64,
    live: Option<&'a LiveObject>,
) -> Task<'a> {
    let key = TaskKey { phase: SyncPhase::Sync, resource: key };
    Task { key, version, wave, live, ..Task::default() }
}
