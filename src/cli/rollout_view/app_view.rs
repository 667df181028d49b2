//! The facts of an Application that are shown, from a watch.

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::app_status::{ApplicationCondition, HealthStatus, ResourceStatus, SyncStatusCode};
use crate::api::operation::{OperationPhase, OperationState, SyncPhase};
use crate::api::{self, Application};
use crate::decide::application_set::operation::{self, PROMOTION, USERNAME};
use crate::decide::blocking_resource::{self, Blocking, WAITS_FOR_CONFIRMATION};
use crate::decide::sync::TASKS_RUNNING;
use crate::watch::object::Object;

/// View of one version of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct AppView {
    /// Sync status.
    pub sync: SyncStatusCode,
    /// Health status.
    pub health: HealthStatus,
    /// An operation was requested and has not ended.
    pub requested: bool,
    /// Phase of the last operation; Unknown when there was none.
    pub operation: OperationPhase,
    /// The last operation is a dry run, or syncs only some resources: it says nothing about
    /// the sync that a rollout waits for.
    pub is_partial: bool,
    /// The operation was started by a user, and not by a rollout or automated sync.
    pub by_hand: bool,
    /// Start time of the operation as text, which identifies it.
    pub started_at: String,
    /// The status was computed after the operation ended.
    pub judged_since: bool,
    /// It was computed in the second in which the operation ended, so maybe before.
    pub judged_at_once: bool,
    /// Whether the Application was ever compared.
    pub compared: bool,
    /// Whether automated sync is enabled.
    pub automated: bool,
    /// Has an error condition, for example because its source cannot be read.
    pub has_error: bool,
    /// Phase and wave of the running operation, such as `Sync wave 0`.
    pub stage: String,
    /// What it is waiting for, or why it failed; may be empty.
    pub detail: String,
    /// The detail is a whole reason, which is shown as it is.
    pub is_reason: bool,
    /// The start of this wait, if known.
    pub since: Option<Timestamp>,
    /// Start of the last operation, when a rollout requested it.
    pub rollout_started: Option<Timestamp>,
    /// The promotion that this operation was written for.
    pub promotion: Option<Timestamp>,
    /// It is being deleted.
    pub is_deleting: bool,
    /// Hooks of the last operation that ended, as `PreSync Job/migrate`.
    pub hooks: Vec<String>,
}

impl AppView {
    /// Reads an Application. What cannot be read counts as not known.
    pub fn read(object: &Object) -> Self {
        let Ok(application) = object.read::<Application>() else { return Self::default() };
        let status = application.status.unwrap_or_default();
        let mut view = Self {
            sync: status.sync.status,
            health: status.health.status,
            requested: application.operation.is_some(),
            compared: status.reconciled_at.is_some(),
            automated: application.spec.is_automated(),
            has_error: status.conditions.iter().any(is_error),
            is_deleting: object.read::<Deletion>().is_ok_and(|read| read.is_deleting()),
            ..Self::default()
        };
        let state = status.operation_state.as_ref();
        let operation = application.operation.as_ref();
        if let Some(operation) = operation.or(state.map(|state| &state.operation)) {
            let rollout = operation.info.iter().any(|info| info.name == operation::PROMOTION);
            let by = operation.initiated_by.as_ref();
            view.by_hand = !rollout && !by.is_some_and(|by| by.automated);
        }
        if let Some(state) = &status.operation_state {
            view.operation = state.phase;
            view.is_partial = !state.operation.is_full();
            view.started_at =
                state.started_at.as_ref().map(|at| at.0.to_string()).unwrap_or_default();
            if let (Some(finished), Some(at)) = (&state.finished_at, &status.reconciled_at) {
                let (finished, at) = (finished.0.as_second(), at.0.as_second());
                // Timestamps have whole seconds, so an equal one may be later.
                (view.judged_since, view.judged_at_once) = (at >= finished, at == finished);
            }
            view.hooks = ended_hooks(state);
            let initiator = state.operation.initiated_by.as_ref();
            if initiator.is_some_and(|initiator| initiator.username == USERNAME) {
                view.rollout_started = state.started_at.as_ref().map(|at| at.0);
                let info = &state.operation.info;
                let item = info.iter().find(|item| item.name == PROMOTION);
                view.promotion = item.and_then(|item| item.value.parse().ok());
            }
            if state.phase.is_running() {
                view.stage = stage(state, &status.resources);
            }
        }
        let (detail, since) = detail(&view, &status, &|| blocking_resource::of(&object.parse()));
        // Before anything is cut, which could hide that it is a credential.
        view.is_reason = view.operation.is_running()
            && (status.operation_state.as_ref().is_some_and(|state| !is_wait(&state.message))
                || blocking_resource::requires_confirmation(&detail));
        (view.detail, view.since) = (crate::redact::text(&detail).into_owned(), since);
        view
    }

    /// Whether the operation of the promotion at this time has started.
    pub fn has_started(&self, promotion: Option<Timestamp>) -> bool {
        match (promotion, self.promotion, self.rollout_started) {
            (Some(at), Some(of), Some(_)) => of == at,
            // Argo CD's own controller does not name the promotion.
            (Some(at), None, Some(started)) => started >= at,
            _ => false,
        }
    }

    /// A sync is requested or running.
    pub fn is_operating(&self) -> bool {
        self.requested || self.operation.is_running()
    }

    /// Synced and Healthy, and the last operation, if any, succeeded.
    pub fn is_done(&self) -> bool {
        !self.is_operating()
            && self.sync == SyncStatusCode::Synced
            && self.health == HealthStatus::Healthy
            && matches!(self.operation, OperationPhase::Succeeded | OperationPhase::Unknown)
    }

    /// The operation ended without a Synced and Healthy Application, and no change is in
    /// progress.
    pub fn has_failed(&self) -> bool {
        let badly = self.operation.has_failed();
        let degraded = self.operation == OperationPhase::Succeeded
            && self.judged_since
            && self.health == HealthStatus::Degraded;
        !self.is_operating() && !self.is_deleting && (badly || degraded)
    }

    /// The Application failed, or cannot be compared.
    pub fn is_stuck(&self) -> bool {
        let rests = !self.is_operating() && !self.is_deleting && !self.is_done();
        self.has_failed() || self.has_error && rests
    }
}

/// The part of an Application that the type does not have.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Deletion {
    metadata: DeletionTime,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeletionTime {
    deletion_timestamp: Option<String>,
}

impl Deletion {
    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

fn is_error(condition: &ApplicationCondition) -> bool {
    condition.type_.ends_with("Error")
}

/// Phase and wave of a running operation: `PreSync`, `Sync wave 0`, `PostSync`.
fn stage(state: &OperationState, resources: &[ResourceStatus]) -> String {
    let results = state.sync_result.as_ref().map_or(&[][..], |result| &result.resources);
    let running = results.iter().rev().find(|result| result.hook_phase.is_running());
    let Some(at) = running.or(results.last()) else { return String::new() };
    match at.sync_phase {
        SyncPhase::Sync => {
            let same = |resource: &&ResourceStatus| {
                (&resource.group, &resource.kind, &resource.namespace, &resource.name)
                    == (&at.group, &at.kind, &at.namespace, &at.name)
            };
            let wave = resources.iter().find(same).map_or(0, |resource| resource.sync_wave);
            format!("Sync wave {wave}")
        }
        phase => phase.as_str().to_owned(),
    }
}

fn ended_hooks(state: &OperationState) -> Vec<String> {
    let results = state.sync_result.iter().flat_map(|result| &result.resources);
    results
        .filter(|result| !result.hook_type.is_empty() && result.hook_phase.is_completed())
        .map(|hook| format!("{} {}/{}", hook.sync_phase, hook.kind, hook.name))
        .collect()
}

/// What it waits for, or why it failed, in the few words that there is room for, and the
/// start of the wait.
fn detail(
    view: &AppView,
    status: &api::ApplicationStatus,
    blocking: &dyn Fn() -> Blocking,
) -> (String, Option<Timestamp>) {
    let state = status.operation_state.as_ref();
    if view.is_deleting {
        return ("its deletion".to_owned(), None);
    }
    if let Some(state) = state.filter(|state| state.phase.is_running()) {
        let (message, since) = without_start(&state.message);
        // Only then is the whole object parsed for a message that names what it waits for.
        let to_confirm = message.starts_with(WAITS_FOR_CONFIRMATION).then(|| blocking().reason);
        let detail = match waited_for(&message) {
            Some(what) => to_confirm
                .filter(|reason| blocking_resource::requires_confirmation(reason))
                .unwrap_or(what),
            None if message.is_empty() || message == TASKS_RUNNING => String::new(),
            None if state.phase != OperationPhase::Running => message,
            None => blocking().reason,
        };
        return (detail, since.or(state.started_at.as_ref().map(|at| at.0)));
    }
    if view.requested {
        return ("the sync to begin".to_owned(), None);
    }
    if view.is_done() {
        return (String::new(), None);
    }
    let Blocking { resource, since, .. } = blocking();
    let at_fault = resource.as_ref().filter(|resource| !resource.is_terminated());
    if let Some(resource) = at_fault.filter(|_| view.has_failed()) {
        return (resource.to_string(), None);
    }
    if let Some(state) = state.filter(|_| view.has_failed()) {
        return (without_start(&state.message).0, None);
    }
    let condition = status.conditions.iter().find(|condition| is_error(condition));
    // A warning may explain why an Application is not in sync after its sync.
    let condition = condition.or(status.conditions.first().filter(|_| state.is_some()));
    match (condition, &resource) {
        (Some(condition), _) => {
            (condition.message.clone(), condition.last_transition_time.as_ref().map(|at| at.0))
        }
        (None, Some(resource)) if state.is_some() => (resource.to_string(), since),
        _ => (String::new(), None),
    }
}

/// The start of the message of an operation that waits for a resource.
const WAITING: &str = "waiting for ";

fn is_wait(message: &str) -> bool {
    message.starts_with(WAITING)
}

/// The resource that a running operation waits for, for the screen: Argo CD has no field for
/// it but the message. Resources are named as elsewhere: `Deployment web`, not
/// `apps/Deployment/web`. `None` for any other message.
fn waited_for(message: &str) -> Option<String> {
    let what = message.strip_prefix(WAITING)?;
    let name = |word: &str| {
        let (group, rest) = word.split_once('/')?;
        let (kind, name) = rest.split_once('/').filter(|_| !group.contains(':'))?;
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase());
        (is_kind && !name.contains('/')).then(|| format!("{kind} {name}"))
    };
    let (resources, state) = what.find(" (").map_or((what, ""), |at| what.split_at(at));
    let words = resources.split(' ').map(|word| name(word).unwrap_or_else(|| word.to_owned()));
    Some(words.collect::<Vec<_>>().join(" ") + state)
}

/// A message without its last words, the start of a wait: `(Progressing, since …)`
/// becomes `(Progressing)`, since its age is shown instead.
fn without_start(message: &str) -> (String, Option<Timestamp>) {
    let found = message.strip_suffix(')').and_then(|rest| rest.rsplit_once(", since "));
    match found.and_then(|(before, at)| Some((before, at.parse().ok()?))) {
        Some((before, at)) => (format!("{before})"), Some(at)),
        None => (message.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn application(status: &Value) -> Value {
        json!({
            "metadata": {"name": "dev-eu", "namespace": "argocd"},
            "spec": {"project": "default", "destination": {}},
            "status": status,
        })
    }

    #[test]
    fn a_running_operation_has_phase_wave_and_wait() {
        let operation = |result: Value, message: &str| {
            json!({
                "resources": [{"group": "networking.k8s.io", "kind": "Ingress", "namespace": "n", "name": "web", "syncWave": 1}],
                "operationState": {
                    "phase": "Running", "message": message, "operation": {},
                    "startedAt": "2026-01-01T00:00:00Z",
                    "syncResult": {"revision": "a", "resources": [result]},
                },
            })
        };
        let cases = [
            (
                json!({"group": "batch", "kind": "Job", "namespace": "n", "name": "migrate", "version": "v1",
                       "syncPhase": "PreSync", "hookPhase": "Running", "hookType": "PreSync"}),
                "waiting for completion of hook batch/Job/migrate",
                ("PreSync", "completion of hook Job migrate"),
            ),
            (
                json!({"group": "networking.k8s.io", "kind": "Ingress", "namespace": "n", "name": "web",
                       "version": "v1", "syncPhase": "Sync", "hookPhase": "Running"}),
                "waiting for healthy state of networking.k8s.io/Ingress/web",
                ("Sync wave 1", "healthy state of Ingress web"),
            ),
        ];
        for (result, message, (stage, detail)) in cases {
            let view = AppView::read(&application(&operation(result, message)).into());
            assert_eq!((view.stage.as_str(), view.detail.as_str()), (stage, detail));
            assert!(view.is_operating() && !view.is_done() && !view.has_failed());
        }
    }

    #[test]
    fn resources_that_are_waited_for_are_named_as_elsewhere() {
        for (message, want) in [
            (
                "waiting for healthy state of /Pod/web (Progressing: 0/1 a/B/c)",
                "healthy state of Pod web (Progressing: 0/1 a/B/c)",
            ),
            (
                "waiting for healthy state of apps/Deployment/web and 2 more resources",
                "healthy state of Deployment web and 2 more resources",
            ),
            ("waiting for deletion of 3 resources", "deletion of 3 resources"),
            ("waiting for https://example.com/Path/x", "https://example.com/Path/x"),
        ] {
            assert_eq!(waited_for(message).as_deref(), Some(want));
        }
        assert_eq!(waited_for("one task failed"), None);
    }

    #[test]
    fn the_start_of_a_wait_is_not_part_of_its_text() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (message, want) in [
            ("a (Progressing, since 2026-01-01T00:00:00Z)", ("a (Progressing)", Some(at))),
            ("a (Progressing, since yesterday)", ("a (Progressing, since yesterday)", None)),
            ("a", ("a", None)),
            ("", ("", None)),
        ] {
            let (text, since) = without_start(message);
            assert_eq!((text.as_str(), since), want);
        }
    }

    #[test]
    fn a_failure_names_the_degraded_resource_before_the_missing_one() {
        let status = json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
            "reconciledAt": "2026-01-01T00:00:05Z",
            "resources": [
                {"group": "a", "kind": "Thing", "name": "first", "health": {"status": "Missing"}},
                {"group": "apps", "kind": "Deployment", "namespace": "n", "name": "web",
                 "health": {"status": "Degraded", "message": "it exceeded its progress deadline"}},
            ],
            "operationState": {"phase": "Failed", "operation": {}, "message": "no",
                "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"},
        });
        let view = AppView::read(&application(&status).into());
        assert!(view.has_failed());
        assert_eq!(view.detail, "Deployment n/web is Degraded: it exceeded its progress deadline");
    }

    #[test]
    fn health_counts_only_after_a_successful_operation() {
        let status = |phase: &str| {
            json!({
                "sync": {"status": "Synced"}, "health": {"status": "Healthy"},
                "operationState": {"phase": phase, "operation": {}, "startedAt": "2026-01-01T00:00:00Z"},
            })
        };
        for (phase, done) in [("Succeeded", true), ("Running", false), ("Failed", false)] {
            assert_eq!(
                AppView::read(&application(&status(phase)).into()).is_done(),
                done,
                "{phase}"
            );
        }
        let mut requested = application(&status("Succeeded"));
        requested["operation"] = json!({"sync": {}});
        assert!(!AppView::read(&requested.into()).is_done());
    }
}
