//! An Application with typed fields that its controller writes. What is written is the
//! difference of these fields: what they do not model stays as it is stored.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::spec::normalized_spec;
use wavegate_api::annotations::Refresh;
use wavegate_api::app_view::SpecView;
use wavegate_api::operation::{Operation, OperationState, Requested};
use wavegate_api::raw::object_at;
use wavegate_api::{ApplicationStatus, Raw, read_leniently};
use wavegate_engine::merge_patch::apply_change;

/// The typed fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fields {
    /// Fields of the metadata.
    pub metadata: Metadata,
    /// The requested operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Requested>,
    /// The status.
    pub status: ApplicationStatus,
}

/// The typed fields of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The finalizers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The request for a refresh; the controller removes it.
    pub annotations: RefreshRequest,
}

/// The annotations of a request for a refresh (SE-377).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefreshRequest {
    #[serde(rename = "argocd.argoproj.io/refresh", skip_serializing_if = "Option::is_none")]
    kind: Option<Value>,
    #[serde(
        rename = "argocd.argoproj.io/refresh-timestamp",
        skip_serializing_if = "Option::is_none"
    )]
    at: Option<Value>,
}

impl RefreshRequest {
    /// The requested refresh; `None` for none.
    pub fn kind(&self) -> Option<Refresh> {
        self.kind.as_ref().and_then(Value::as_str).map(Refresh::of)
    }
}

impl Fields {
    /// The fields of an Application. Those of a wrong type read as absent.
    pub fn of(application: &Value) -> Self {
        let operation = Operation::raw(application).cloned().map(Requested::of);
        // Apart from each other: nothing in a status is a reason not to see the finalizers.
        let metadata = read_leniently(&application["metadata"]);
        Self { metadata, operation, status: read_leniently(&application["status"]) }
    }
}

/// An Application in a reconcile: as it is stored, with the fields that were decided since.
/// Cheap to clone: what did not change is shared.
#[derive(Clone, Debug)]
pub struct App {
    stored: Arc<Value>,
    /// The same, with the normal spec.
    raw: Arc<Value>,
    before: Arc<Fields>,
    fields: Arc<Fields>,
    spec: OnceLock<SpecView>,
    /// Whether a comparison has decided its sync status and its health.
    is_judged: bool,
    /// Whether the stored state of the operation goes, with all that is not known of it.
    forgets_operation: bool,
}

impl App {
    /// An Application as it is stored.
    pub fn of(stored: impl Into<Arc<Value>>) -> Self {
        let stored = stored.into();
        let before = Arc::new(Fields::of(&stored));
        let (raw, fields) = (Arc::clone(&stored), Arc::clone(&before));
        let spec = OnceLock::new();
        Self { stored, raw, before, fields, spec, is_judged: false, forgets_operation: false }
    }

    /// The Application as it is stored.
    pub fn stored(&self) -> &Value {
        &self.stored
    }

    /// The fields as they are stored.
    pub fn before(&self) -> &Fields {
        &self.before
    }

    /// The Application without what was decided, for what this controller does not write, and
    /// for its spec, which is the normal one.
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// The spec as it is written, or the normal one.
    pub fn spec(&self) -> &Value {
        self.raw.spec()
    }

    /// Parts of the spec, each read alone.
    pub fn spec_view(&self) -> &SpecView {
        self.spec.get_or_init(|| SpecView::of(&self.raw))
    }

    /// Writes the normal spec (SE-030).
    pub fn normalize(&mut self) {
        let Some(spec) = normalized_spec(self.spec()) else { return };
        if let Some(fields) = Arc::make_mut(&mut self.raw).as_object_mut() {
            fields.insert("spec".to_owned(), spec);
            self.spec = OnceLock::new();
        }
    }

    /// Replaces the state of the last operation, with all that is not known of it.
    pub fn replace_operation_state(&mut self, state: OperationState) {
        self.forgets_operation = true;
        self.status.operation_state = state;
    }

    /// A comparison decides its sync status and its health. Where the stored status has none yet,
    /// or an empty text, as when Argo CD's API server creates an Application, both are written:
    /// they read as `Unknown`, and that alone would be no change.
    pub fn judge(&mut self) {
        self.is_judged = true;
        let is_first = self.stored.text("/status/health/status").is_empty();
        if is_first && self.status.health.is_some() {
            self.status.health = None;
        }
    }

    /// The words of a comparison that are not stored yet, each with its place in the status.
    fn unwritten_words(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let status = &self.fields.status;
        let health = status.health.as_ref().map(|health| health.status.as_str());
        let words = [("sync", Some(status.sync.status.as_str())), ("health", health)];
        let is_judged = self.is_judged;
        let is_stored = words
            .map(|(place, _)| !self.stored.text(&format!("/status/{place}/status")).is_empty());
        words.into_iter().zip(is_stored).filter_map(move |((place, word), is_stored)| {
            word.filter(|_| is_judged && !is_stored).map(|word| (place, word))
        })
    }

    /// The Application with what was decided; `None` when that changes nothing.
    pub fn written(&self) -> Option<Value> {
        let is_same = Arc::ptr_eq(&self.before, &self.fields) || self.before == self.fields;
        let is_same = is_same && self.unwritten_words().next().is_none();
        if is_same && !self.forgets_operation && Arc::ptr_eq(&self.raw, &self.stored) {
            return None;
        }
        let mut raw = self.raw.as_ref().clone();
        let (mut before, mut fields) = (self.before.as_ref().clone(), self.fields.as_ref().clone());
        if self.forgets_operation {
            before.status.operation_state = OperationState::default();
            if let Some(status) = raw.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("operationState");
            }
        }
        drop_equal(&mut before.status, &mut fields.status);
        apply_change(&mut raw, &json!(before), &json!(fields));
        for (place, word) in self.unwritten_words() {
            let status = raw.as_object_mut().and_then(|raw| object_at(raw, "status"));
            if let Some(part) = status.and_then(|status| object_at(status, place)) {
                part.insert("status".to_owned(), word.into());
            }
        }
        Some(raw)
    }
}

/// Leaves out what is equal in both: it is long, and most writes change little.
fn drop_equal(before: &mut ApplicationStatus, after: &mut ApplicationStatus) {
    fn drop_equal<T: Default + PartialEq>(before: &mut T, after: &mut T) {
        if before == after {
            (*before, *after) = (T::default(), T::default());
        }
    }
    drop_equal(&mut before.sync, &mut after.sync);
    drop_equal(&mut before.operation_state, &mut after.operation_state);
    drop_equal(&mut before.resources, &mut after.resources);
    drop_equal(&mut before.history, &mut after.history);
    drop_equal(&mut before.conditions, &mut after.conditions);
    drop_equal(&mut before.summary, &mut after.summary);
}

impl Deref for App {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl DerefMut for App {
    fn deref_mut(&mut self) -> &mut Fields {
        Arc::make_mut(&mut self.fields)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{NewCondition, operation, status};
    use wavegate_api::OperationPhase;
    use wavegate_engine::sync::{SyncPlan, SyncProgress};

    /// Values of all types under the names of the fields of an Application.
    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(true)),
            Just(json!(3)),
            Just(json!("")),
            Just(json!("Running")),
            Just(json!("2026-01-02T03:04:05.5+02:00")),
            Just(json!({})),
            Just(json!([])),
        ];
        let name = proptest::sample::select(vec![
            "status",
            "operation",
            "operationState",
            "syncResult",
            "resources",
            "history",
            "conditions",
            "sync",
            "health",
            "phase",
            "message",
            "startedAt",
            "finishedAt",
            "retryCount",
            "revision",
            "revisions",
            "source",
            "sources",
            "progress",
            "kind",
            "name",
            "syncPhase",
            "hookPhase",
            "id",
            "initiatedBy",
            "retry",
            "unknown",
        ]);
        leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                3 => proptest::collection::btree_map(name.clone(), inner.clone(), 0..6)
                    .prop_map(|map| json!(map)),
                1 => proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
            ]
        })
    }

    /// Places where a status may have what this version does not know.
    const PLACES: [&str; 9] = [
        "/status",
        "/status/sync",
        "/status/health",
        "/status/resources/0",
        "/status/history/0",
        "/status/conditions/0",
        "/status/operationState",
        "/status/operationState/syncResult",
        "/status/operationState/syncResult/resources/0",
    ];

    /// Fields that are known, with another type, at places that the change does not concern.
    const MISTYPED: [(&str, &str); 5] = [
        ("/status", "observedAt"),
        ("/status/health", "message"),
        ("/status/history/0", "initiatedBy"),
        ("/status/conditions/0", "lastTransitionTime"),
        ("/status/operationState/syncResult/resources/0", "images"),
    ];

    fn running() -> Value {
        let row = json!({
            "group": "", "version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "one",
            "status": "Synced", "hookPhase": "Running", "syncPhase": "Sync",
        });
        json!({
            "spec": {"source": {"repoURL": "r", "path": "p"}},
            "operation": {"sync": {"prune": false}},
            "status": {
                "sync": {"status": "OutOfSync"},
                "health": {"status": "Healthy"},
                "resources": [{"kind": "ConfigMap", "name": "one"}],
                "history": [{"id": 0, "deployedAt": "2026-01-01T00:00:00Z", "revision": "old"}],
                "conditions": [{"type": "AnotherWarning", "message": "m"}],
                "operationState": {
                    "phase": "Running", "startedAt": "2026-01-02T00:00:00Z",
                    "operation": {"sync": {"prune": false}},
                    "syncResult": {"revision": "new", "resources": [row]},
                },
            },
        })
    }

    /// A round of the wave engine with a result, the end, and a comparison that failed.
    fn deploy(raw: &Value) -> Value {
        let mut app = App::of(raw.clone());
        let (mut results, progress) = operation::stored_results(&app.status.operation_state);
        results[0].message = "configmap/one created".to_owned();
        let plan = SyncPlan {
            results,
            progress: SyncProgress { dry_run_done: true, ..progress },
            phase: OperationPhase::Running,
            message: "waiting".to_owned(),
            actions: Vec::new(),
            waiting_for: Vec::new(),
            wake_at: None,
            needs_persist_before_actions: false,
            warnings: Vec::new(),
            terminated: false,
        };
        operation::store(&mut app.status.operation_state, &plan);
        let now = "2026-01-02T00:00:09Z".parse().unwrap();
        operation::finish(&mut app, OperationPhase::Succeeded, "done", now);
        status::write_failure(&mut app, &[NewCondition::comparison("m")], None, true, now);
        app.written().unwrap()
    }

    proptest! {
        #[test]
        fn what_was_only_read_is_written_without_a_change(tree in tree()) {
            prop_assert_eq!(App::of(tree).written(), None);
        }

        #[test]
        fn what_is_not_known_or_mistyped_survives_an_operation(
            places in proptest::sample::subsequence(PLACES.to_vec(), 0..=PLACES.len()),
            mistyped in proptest::sample::subsequence(MISTYPED.to_vec(), 0..=MISTYPED.len()),
            value in tree(),
        ) {
            let plain = deploy(&running());
            let mut wanted = plain.clone();
            let mut app = running();
            let odd = json!([{"odd": 7}]);
            let unknown = places.iter().map(|place| (*place, "unknown", &value));
            let all = unknown.chain(mistyped.iter().map(|(place, field)| (*place, *field, &odd)));
            for (place, field, value) in all {
                for object in [&mut app, &mut wanted] {
                    object.pointer_mut(place).unwrap()[field] = value.clone();
                }
            }
            prop_assert_eq!(deploy(&app), wanted);
        }
    }

    #[test]
    fn a_change_names_only_what_changed() {
        let done = deploy(&running());
        let state = &done["status"]["operationState"];
        assert_eq!(done.get("operation"), None);
        assert_eq!(state["syncResult"]["resources"][0]["message"], "configmap/one created");
        assert_eq!(state["syncResult"]["resources"][0]["group"], "", "required");
        assert_eq!(state["operation"], json!({"sync": {"prune": false}}), "as it was requested");
        assert_eq!(state.get("progress"), None);
        let history = done["status"]["history"].as_array().unwrap();
        assert_eq!(history[0], running()["status"]["history"][0]);
        assert_eq!((&history[1]["id"], &history[1]["revision"]), (&json!(1), &json!("new")));
    }
}
