//! A simulated cluster and executor: applies plans, changes health and the
//! clock, and can be interrupted before or after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::*;
use crate::health::{Health, Status};
use wavegate_api::Raw;
use wavegate_api::annotations::HOOK_FINALIZER;
use wavegate_api::operation::{OperationPhase, ResourceResult, ResultCode};
use wavegate_api::resource_key::ResourceKey;

pub const START: i64 = 1_700_000_000;

/// A manifest; each method changes one fact.
#[derive(Clone, Debug)]
pub struct Manifest(pub Value);

pub fn manifest(kind: &str, name: &str) -> Manifest {
    let api_version = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "Ingress" | "IngressClass" => "networking.k8s.io/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "APIService" => "apiregistration.k8s.io/v1",
        "Widget" | "Gadget" => "x.io/v1",
        _ => "v1",
    };
    let namespace = if kind == "Namespace" { "" } else { "default" };
    let value = json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
        "spec": { "of": name },
    });
    Manifest(value).namespace(namespace)
}

impl Manifest {
    pub fn namespace(mut self, namespace: &str) -> Self {
        if namespace.is_empty() {
            self.0["metadata"].as_object_mut().unwrap().remove("namespace");
        } else {
            self.0["metadata"]["namespace"] = namespace.into();
        }
        self
    }

    pub fn note(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = value.into();
        self
    }

    pub fn wave(self, wave: i64) -> Self {
        self.note("argocd.argoproj.io/sync-wave", &wave.to_string())
    }

    pub fn hook(self, hook: &str) -> Self {
        self.note("argocd.argoproj.io/hook", hook)
    }

    pub fn policy(self, policy: &str) -> Self {
        self.note("argocd.argoproj.io/hook-delete-policy", policy)
    }

    pub fn options(self, options: &str) -> Self {
        self.note("argocd.argoproj.io/sync-options", options)
    }

    pub fn generate(mut self, prefix: &str) -> Self {
        let metadata = self.0["metadata"].as_object_mut().unwrap();
        metadata.remove("name");
        metadata.insert("generateName".into(), prefix.into());
        self
    }

    pub fn finalizer(mut self, name: &str) -> Self {
        self.0["metadata"]["finalizers"] = json!([name]);
        self
    }

    pub fn set(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    /// Makes a CustomResourceDefinition define a kind.
    pub fn defines(self, group: &str, kind: &str) -> Self {
        let spec = json!({ "group": group, "names": { "kind": kind }, "scope": "Namespaced" });
        self.namespace("").set("spec", spec)
    }
}

/// The run was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The state of the cluster when a prune is requested.
#[derive(Clone, Debug)]
pub struct AtPrune {
    /// Names of targets that are applied and healthy.
    pub ready: BTreeSet<String>,
    /// Names of objects that are not being deleted.
    pub present: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct World {
    pub now: Timestamp,
    pub objects: BTreeMap<ResourceKey, Value>,
    /// By name; other objects by kind.
    pub health: BTreeMap<String, Status>,
    /// Names of objects that do not belong to the Application.
    pub untracked: BTreeSet<String>,
    /// Names of objects that no hook may change.
    pub unrelated: BTreeSet<String>,
    /// Names of objects that are the Application of the operation.
    pub itself: BTreeSet<String>,
    /// Errors of requests, by verb and name.
    pub refused: BTreeMap<(Verb, String), String>,
    /// Requests that get lost once, by verb and name.
    pub lost: BTreeSet<(Verb, String)>,
    /// The input of the next snapshot, including the state of the run.
    pub seen: SyncSnapshot,
    /// The state that survives a crash.
    stored: (OperationPhase, String, Vec<ResourceResult>, SyncProgress),
    /// The applied actions, one line each.
    pub log: Vec<String>,
    /// How often each stamp was created.
    pub created: BTreeMap<(ResourceKey, String), usize>,
    pub writes: usize,
    pub last: Option<SyncPlan>,
    /// Whether the store drops fields that are not Argo CD's.
    pub drops_progress: bool,
    /// Whether the store lists as few results as possible.
    pub lists_little: bool,
    /// Whether every plan is computed twice and compared.
    pub checks_plans: bool,
    /// Interrupted at this crash point, once.
    pub crash_at: Option<usize>,
    /// Whether deleted objects disappear before the restart.
    pub restarts_late: bool,
    pub crash_points: usize,
    /// The crash points at which an object is being deleted.
    pub deleting_at: Vec<usize>,
    /// Each request to prune an object: its name, and what was true at that time.
    pub prunes: Vec<(String, AtPrune)>,
    version: u64,
}

/// What a plan waits for first: the reason, and the name of the object.
pub(super) fn first_wait(plan: &SyncPlan) -> Option<(WaitReason, &str)> {
    plan.waiting_for.first().map(|wait| (wait.reason, &*wait.key.name))
}

impl World {
    pub fn new(targets: impl IntoIterator<Item = Manifest>) -> Self {
        let now = Timestamp::from_second(START).unwrap();
        let seen = SyncSnapshot {
            operation: ResolvedOperation {
                revision: "0123456789abcdef".into(),
                prune: true,
                ..ResolvedOperation::default()
            },
            operation_id: "op-1".into(),
            attempt: 0,
            started_at: now,
            phase: OperationPhase::Running,
            message: String::new(),
            results: vec![],
            progress: SyncProgress::default(),
            outcomes: vec![],
            destination_namespace: "default".into(),
            project: "p".into(),
            targets: targets.into_iter().map(|m| Arc::new(m.0)).collect(),
            live: BTreeMap::new(),
            handovers: BTreeMap::new(),
            kinds: BTreeMap::new(),
            denied: BTreeMap::new(),
            namespace_denied: None,
            shared: vec![],
            namespace: NamespaceFact::Exists,
            managed_namespace_metadata: None,
            tracks_namespace: false,
            deletion_approved_at: None,
            settings: SyncSettings::default(),
        };
        Self {
            now,
            objects: BTreeMap::new(),
            health: BTreeMap::new(),
            untracked: ["default".to_owned()].into(),
            unrelated: BTreeSet::new(),
            itself: BTreeSet::new(),
            refused: BTreeMap::new(),
            lost: BTreeSet::new(),
            seen,
            stored: (OperationPhase::Running, String::new(), vec![], SyncProgress::default()),
            log: vec![],
            created: BTreeMap::new(),
            writes: 0,
            last: None,
            drops_progress: false,
            lists_little: false,
            checks_plans: true,
            crash_at: None,
            restarts_late: false,
            crash_points: 0,
            deleting_at: vec![],
            prunes: vec![],
            version: 0,
        }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn option(mut self, option: &str) -> Self {
        self.seen.operation.sync_options.push(option.into());
        self
    }

    pub fn no_delay(mut self) -> Self {
        self.seen.settings.wave_delay = SignedDuration::ZERO;
        self
    }

    /// Adds an object to the cluster.
    pub fn live(mut self, object: Manifest) -> Self {
        self.store(object.0);
        self
    }

    pub fn store(&mut self, mut object: Value) -> (String, String) {
        self.version += 1;
        let key = ResourceKey::from_object(&object).unwrap();
        let old = self.objects.get(&key).map(|old| old.uid().to_owned());
        let uid = old.unwrap_or_else(|| format!("uid-{}", self.version));
        object["metadata"]["uid"] = uid.clone().into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(key, object);
        (uid, self.version.to_string())
    }

    pub fn key(&self, name: &str) -> Option<ResourceKey> {
        self.objects.keys().find(|key| key.name == name).cloned()
    }

    pub fn has(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    pub fn set_health(&mut self, name: &str, status: Status) {
        self.health.insert(name.into(), status);
    }

    fn health_of(&self, key: &ResourceKey) -> Option<Status> {
        if let Some(status) = self.health.get(&key.name) {
            return Some(*status);
        }
        match key.kind.as_str() {
            "Deployment" | "StatefulSet" | "Job" | "Pod" | "Widget" => Some(Status::Progressing),
            "Service" => Some(Status::Healthy),
            _ => None,
        }
    }

    pub fn snapshot(&self) -> SyncSnapshot {
        let targets: BTreeMap<_, _> = self
            .seen
            .targets
            .iter()
            .filter_map(|t| Some((ResourceKey::from_object(t)?, t)))
            .collect();
        let mut snapshot = self.seen.clone();
        for (key, object) in &self.objects {
            let status = self.health_of(key);
            let health = status.map(|status| Ok(Health { status, message: String::new() }));
            let target = targets.get(key).map(|target| target["spec"].clone());
            let out_of_sync = target.is_some_and(|spec| spec != object["spec"]);
            let object = Arc::new(object.clone());
            let tracked = !self.untracked.contains(&key.name);
            let objection = self.unrelated.contains(&key.name).then(|| "not ours".to_owned());
            let is_itself = self.itself.contains(&key.name);
            let live = LiveObject { object, health, out_of_sync, tracked, objection, is_itself };
            snapshot.live.insert(key.clone(), live);
        }
        if self.objects.keys().any(|k| k.kind == "Namespace" && k.name == "default") {
            snapshot.namespace = NamespaceFact::Exists;
        }
        snapshot
    }

    fn crash_point(&mut self) -> Result<(), Interrupted> {
        self.crash_points += 1;
        if self.objects.values().any(|object| object.is_deleting()) {
            self.deleting_at.push(self.crash_points);
        }
        if self.crash_at == Some(self.crash_points) {
            self.crash_at = None;
            let seen = &mut self.seen;
            seen.outcomes.clear();
            (seen.phase, seen.message, seen.results, seen.progress) = self.stored.clone();
            if self.restarts_late {
                self.vanish();
            }
            return Err(Interrupted);
        }
        Ok(())
    }

    fn persist(&mut self, plan: &SyncPlan) -> Result<(), Interrupted> {
        let json = serde_json::to_value(&plan.results).unwrap();
        let results: Vec<ResourceResult> = serde_json::from_value(json).unwrap();
        assert_eq!(results, plan.results, "results can be stored and read");
        let json = serde_json::to_value(&plan.progress).unwrap();
        let progress: SyncProgress = serde_json::from_value(json).unwrap();
        assert_eq!(progress, plan.progress, "progress can be stored and read");
        let mut state = (plan.phase, plan.message.clone(), results, progress);
        if self.drops_progress {
            state.2 = with_announced(&state.2, &state.3);
            state.3 = SyncProgress::default();
            for result in &mut state.2 {
                (result.uid, result.resource_version, result.since) = Default::default();
            }
            take_announced(&mut state.2, &mut state.3);
        }
        if self.lists_little {
            let rows = with_announced(&state.2, &state.3).into_iter();
            let mut rows: Vec<Value> = rows.map(|row| json!(row)).collect();
            leave_out(&mut rows, usize::MAX);
            state.2 = serde_json::from_value(json!(rows)).unwrap();
            take_announced(&mut state.2, &mut state.3);
            take_unlisted(&mut state.2, &mut state.3);
        }
        if self.stored == state {
            return Ok(());
        }
        self.crash_point()?;
        self.writes += 1;
        self.stored = state;
        self.crash_point()
    }

    /// One reconcile of the executor; `true` if there were actions.
    pub fn reconcile(&mut self) -> Result<bool, Interrupted> {
        let snapshot = self.snapshot();
        let plan = step(&snapshot, self.now);
        if self.checks_plans {
            assert_eq!(plan, step(&snapshot, self.now), "same snapshot, same plan");
        }
        if plan.phase.is_completed() {
            assert!(plan.actions.is_empty(), "a completed operation does nothing");
        }
        self.last = Some(plan.clone());
        if plan.needs_persist_before_actions || plan.actions.is_empty() {
            self.persist(&plan)?;
        }
        let seen = &mut self.seen;
        (seen.phase, seen.message) = (plan.phase, plan.message.clone());
        (seen.results, seen.progress) = (plan.results.clone(), plan.progress.clone());
        let mut outcomes = vec![];
        for group in &plan.actions {
            assert!(!group.actions.is_empty(), "no empty groups");
            let mut failed = false;
            for action in &group.actions {
                self.crash_point()?;
                let result = self.apply(action);
                failed |= matches!(result, ActionResult::Failed(_));
                outcomes.push(ActionOutcome { action: action.id(), result });
            }
            if failed && group.stops_on_failure {
                break;
            }
        }
        let acted = !plan.actions.is_empty();
        if acted {
            // The point after an action is that before the next one; this is
            // the one after the last.
            self.crash_point()?;
        }
        self.seen.outcomes = outcomes;
        Ok(acted)
    }

    /// Reconciles until the engine waits; returns its last plan.
    pub fn pump(&mut self) -> SyncPlan {
        for _ in 0..200 {
            match self.reconcile() {
                Ok(true) | Err(Interrupted) => {}
                Ok(false) => return self.last.clone().unwrap(),
            }
        }
        panic!("the engine does not come to rest: {:#?}", self.last);
    }

    /// Changes the cluster: finished deletions complete, progressing objects
    /// become healthy, the clock advances to the next reconcile.
    pub fn advance(&mut self) {
        self.vanish();
        let keys: Vec<ResourceKey> = self.objects.keys().cloned().collect();
        for key in keys {
            if self.health_of(&key) == Some(Status::Progressing)
                && !self.health.contains_key(&key.name)
            {
                self.set_health(&key.name, Status::Healthy);
            }
        }
        self.tick();
    }

    /// Deleted objects without finalizers disappear.
    pub fn vanish(&mut self) {
        self.objects
            .retain(|_, object| !object.is_deleting() || object.finalizers().next().is_some());
    }

    pub fn tick(&mut self) {
        let second = self.now + SignedDuration::from_secs(1);
        let wake = self.last.as_ref().and_then(|plan| plan.wake_at);
        self.now = wake.filter(|wake| *wake > self.now).unwrap_or(second);
    }

    /// Runs to the end; the cluster changes whenever the engine waits.
    pub fn run(&mut self) -> SyncPlan {
        for _ in 0..100 {
            let plan = self.pump();
            if plan.phase.is_completed() {
                assert_eq!(self.reconcile(), Ok(false), "nothing after the end");
                return plan;
            }
            assert!(!plan.waiting_for.is_empty(), "no silent wait: {}", plan.message);
            self.advance();
        }
        panic!("the operation does not end: {:#?}", self.last);
    }

    fn apply(&mut self, action: &Action) -> ActionResult {
        let id = action.id();
        let ResourceKey { group, kind, namespace: _, name } = &id.task.resource;
        let refused = self.refused.get(&(id.verb, name.clone())).cloned();
        let verb = format!("{:?}", id.verb);
        self.log.push(format!("{verb} {group}/{kind}/{name}"));
        if let Some(error) = refused {
            return ActionResult::Failed(error);
        }
        if self.lost.remove(&(id.verb, name.clone())) {
            return ActionResult::Unknown("connection reset".into());
        }
        if let Action::Prune(..) = action {
            self.prunes.push((name.clone(), self.at_prune()));
        }
        let done = |message: String, (uid, resource_version): (String, String)| {
            ActionResult::Done { message, uid, resource_version }
        };
        match action {
            Action::DryRun(_) => done(
                format!("{}/{name} created (dry run)", kind.to_lowercase()),
                Default::default(),
            ),
            Action::CreateNamespace(apply) | Action::Apply(apply) | Action::CreateHook(apply) => {
                let mut object = apply.request.manifest.as_ref().clone();
                if object["metadata"]["name"].is_null() {
                    let prefix = object.generate_name().to_owned();
                    object["metadata"]["name"] = format!("{prefix}x").into();
                }
                let key = ResourceKey::from_object(&object).unwrap();
                let Method { how, force, .. } = apply.request.method;
                let recreates = how == ApplyMethod::Replace && force;
                let existing = match recreates {
                    true => {
                        self.objects.remove(&key);
                        None
                    }
                    false => self.objects.get(&key).cloned(),
                };
                if let Action::CreateHook(_) = action
                    && let Some(existing) = &existing
                {
                    let same = existing.annotation(OPERATION_ANNOTATION);
                    if same != apply.request.stamp.as_deref() {
                        return ActionResult::Failed("already exists".into());
                    }
                    let view = existing;
                    let (uid, version) = (view.uid().into(), view.resource_version().into());
                    return done("exists".into(), (uid, version));
                }
                let fresh = existing.is_none();
                let stamp = object.annotation(OPERATION_ANNOTATION).map(str::to_owned);
                if let Some(stamp) = stamp.filter(|_| fresh) {
                    *self.created.entry((key.clone(), stamp)).or_default() += 1;
                    // A new object of this name starts over.
                    self.health.remove(&format!("{} ", key.name));
                }
                if let Some(old) = existing.filter(|old| old.is_deleting()) {
                    object["metadata"]["deletionTimestamp"] =
                        old["metadata"]["deletionTimestamp"].clone();
                }
                let word = match (recreates, fresh) {
                    (true, _) => "replaced",
                    (false, true) => "created",
                    (false, false) => "configured",
                };
                let stored = self.store(object);
                done(format!("{}/{name} {word}", kind.to_lowercase()), stored)
            }
            Action::RemoveFinalizer(object) => match self.objects.get_mut(&object.key) {
                Some(live) if live.uid() == object.uid => {
                    let list = live["metadata"]["finalizers"].as_array_mut().unwrap();
                    list.retain(|name| name != HOOK_FINALIZER);
                    done(String::new(), Default::default())
                }
                _ => ActionResult::Gone,
            },
            Action::DeleteHook(object, ..) | Action::Prune(object, _) => {
                let now = self.now.to_string();
                match self.objects.get_mut(&object.key) {
                    Some(live) if live.uid() == object.uid => {
                        live["metadata"]["deletionTimestamp"] = now.into();
                        done(String::new(), Default::default())
                    }
                    _ => ActionResult::Gone,
                }
            }
            Action::Read(task) => match self.objects.contains_key(&task.resource) {
                true => done(String::new(), Default::default()),
                false => ActionResult::Gone,
            },
        }
    }

    fn at_prune(&self) -> AtPrune {
        let seen = self.snapshot();
        let ready = |target: &&Arc<Value>| {
            let Some(key) = ResourceKey::from_object(target) else { return false };
            let Some(live) = seen.live.get(&key) else { return false };
            let applied = format!("Apply {}/{}/{}", key.group, key.kind, key.name);
            let applied = self.log.contains(&applied) || !live.out_of_sync;
            applied && self.health_of(&key).is_none_or(|health| health == Status::Healthy)
        };
        let stays = |(_, object): &(&ResourceKey, &Value)| !object.is_deleting();
        AtPrune {
            ready: seen.targets.iter().filter(ready).map(|t| t.name().to_owned()).collect(),
            present: self.objects.iter().filter(stays).map(|(key, _)| key.name.clone()).collect(),
        }
    }

    /// The applied changes, in order.
    pub fn changes(&self) -> Vec<&str> {
        let quiet = |line: &&str| !line.starts_with("DryRun") && !line.starts_with("Read");
        self.log.iter().map(String::as_str).filter(quiet).collect()
    }

    pub fn result(&self, name: &str) -> Option<&ResourceResult> {
        self.seen.results.iter().find(|result| result.name == name)
    }

    /// The state visible to users in the end, independent of interruptions.
    pub fn picture(&self) -> (OperationPhase, String, BTreeSet<String>, Vec<String>) {
        let results = self.seen.results.iter().map(|result| {
            // Whether it was created or configured depends on interruptions.
            let message = match result.status {
                ResultCode::Synced => "",
                _ => result.message.as_str(),
            };
            let phase = result.hook_phase;
            format!("{:?} {:?} {phase:?} {message}", TaskKey::of(result), result.status)
        });
        let mut objects = vec![];
        for object in self.objects.values() {
            let mut object = object.clone();
            let metadata = object["metadata"].as_object_mut().unwrap();
            for key in ["uid", "resourceVersion", "deletionTimestamp"] {
                metadata.remove(key);
            }
            objects.push(object.to_string());
        }
        (self.seen.phase, self.seen.message.clone(), results.collect(), objects)
    }
}

impl World {
    /// Starts the next attempt, as a retry does.
    pub fn retry(&mut self, attempt: u64) {
        let seen = &mut self.seen;
        (seen.attempt, seen.phase) = (attempt, OperationPhase::Running);
        (seen.results, seen.progress, seen.message) = Default::default();
        self.stored = (seen.phase, String::new(), vec![], SyncProgress::default());
        // Hooks are recreated and progress from the start.
        self.health.retain(|_, status| *status != Status::Healthy);
    }
}
