//! Controllers that are broken on purpose, one way for each judge: the proof that it judges.
//!
//! The controllers are the real ones. What they read, write or send is changed between them and
//! the API server, so that together they do what a broken controller would do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wavegate_controller::config::CONFIG_MAPS;
use wavegate_simulation::Wrap;

use crate::case::{App, Case, Size, What};
use crate::intercept::{Break, Target, intercept};
use crate::scenario::{BYSTANDER, CONTROL_PLANE, DESTINATION, MOVING};

/// A way to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// More Applications of a step at a time than permitted.
    IgnoresMaxUpdate,
    /// More Applications of all sets at a time than a policy permits.
    IgnoresMaxInFlight,
    /// All steps at once.
    IgnoresSteps,
    /// It goes on after any number of failures.
    IgnoresBudget,
    IgnoresGates,
    IgnoresPause,
    /// What was aborted is known to this process only.
    ForgetsAborted,
    /// The same of a run whose owner reference is gone, which nobody restores.
    ForgetsDisowned,
    /// What was deployed just now counts as Healthy.
    TrustsOldHealth,
    /// A sync that has succeeded is done again.
    SyncsTwice,
    RunsHooksTwice,
    /// The object of somebody else is changed.
    TouchesForeign,
    DeletesUnasked,
    /// What an Application has handed over is deleted.
    DeletesMoved,
    /// Settings that vanish have their defaults.
    ForgetsSettings,
    /// It does not say what it waits for.
    SaysNothing,
    /// What a rollout goes on without counts as done.
    CountsAll,
    /// It does not say what an approval of a gate would be for, so that none can be given.
    ForgetsTargets,
    /// It asks again and again.
    RunsHot,
    ListsHot,
    /// It asks for the Lease again and again.
    RenewsHot,
    /// It changes what it deployed again and again.
    WritesHot,
    /// One Application is left out.
    ForgetsOne,
    Panics,
}

impl Mutation {
    /// All, with the judge that finds each.
    pub const ALL: [(Self, &'static str); 24] = [
        (Self::IgnoresMaxUpdate, "limits"),
        (Self::IgnoresMaxInFlight, "limits"),
        (Self::IgnoresSteps, "order"),
        (Self::IgnoresBudget, "order"),
        (Self::IgnoresGates, "gates"),
        (Self::IgnoresPause, "gates"),
        (Self::ForgetsAborted, "quarantine"),
        (Self::ForgetsDisowned, "quarantine"),
        (Self::TrustsOldHealth, "freshness"),
        (Self::SyncsTwice, "exactly once"),
        (Self::RunsHooksTwice, "hooks"),
        (Self::TouchesForeign, "foreign"),
        (Self::DeletesUnasked, "deletion"),
        (Self::DeletesMoved, "deletion"),
        (Self::ForgetsSettings, "hooks"),
        (Self::SaysNothing, "waits"),
        (Self::CountsAll, "waits"),
        (Self::ForgetsTargets, "advice"),
        (Self::RunsHot, "pace"),
        (Self::ListsHot, "pace"),
        (Self::RenewsHot, "pace"),
        (Self::WritesHot, "pace"),
        (Self::ForgetsOne, "end"),
        (Self::Panics, "panics"),
    ];

    /// Whether a case has what it breaks.
    pub fn is_of(self, case: &Case) -> bool {
        match self {
            Self::IgnoresMaxInFlight => case.policy.max_in_flight.is_some(),
            Self::IgnoresBudget => {
                case.policy.failures.is_some() && case.apps.iter().any(|app| app.fails_at.is_some())
            }
            Self::IgnoresGates => case.policy.gate.is_some(),
            Self::CountsAll => {
                let last = case.last_commit();
                let fails = |app: &&App| app.fails_at == Some(last);
                let is_skipped = |app: &App| case.has(|what| *what == What::Skip(app.name.clone()));
                let mut failing = case.apps.iter().filter(fails);
                failing.any(|app| case.policy.failures.is_some() || is_skipped(app))
            }
            Self::ForgetsTargets => {
                case.policy.gate.as_ref().is_some_and(|gate| gate.approvals > 0)
            }
            Self::IgnoresPause => case.has(|what| *what == What::Pause),
            Self::ForgetsAborted => case.returns_after(&What::Abort),
            Self::ForgetsDisowned => case.returns_after(&What::Disown),
            Self::DeletesMoved => {
                case.has(|what| *what == What::Push)
                    && case.apps.iter().any(|app| app.turn.is_some())
            }
            Self::ForgetsSettings => case.has(|what| *what == What::DeleteSettings),
            Self::RunsHooksTwice => case.apps.iter().any(|app| app.has_hooks),
            _ => true,
        }
    }

    /// Where it is looked for.
    pub fn size(self) -> Size {
        match self {
            Self::ForgetsAborted | Self::ForgetsDisowned => Size::Aborted,
            _ => Size::Small,
        }
    }

    /// How often it sends one more request, in milliseconds, if it does.
    fn is_hot_every(self) -> Option<u64> {
        match self {
            Self::RunsHot => Some(50),
            Self::ListsHot => Some(1000),
            Self::RenewsHot => Some(200),
            Self::WritesHot => Some(500),
            _ => None,
        }
    }

    /// What breaks the client of the controllers.
    pub fn wrap(self, case: &Case) -> Wrap {
        let last = case.apps.last().map(|app| app.name.clone()).unwrap_or_default();
        // What was done once is done once, also by the next process.
        let done: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        Box::new(move |client: Client| {
            if let Some(milliseconds) = self.is_hot_every() {
                let every = Duration::from_millis(milliseconds);
                tokio::spawn(again_and_again(client.clone(), self, every, last.clone()));
            }
            let broken = Broken { mutation: self, last: last.clone(), done: Arc::clone(&done) };
            intercept(client, Arc::new(broken))
        })
    }
}

struct Broken {
    mutation: Mutation,
    /// The last Application of the case.
    last: String,
    done: Arc<Mutex<BTreeSet<String>>>,
}

impl Break for Broken {
    fn reads(&self, target: &Target) -> bool {
        match self.mutation {
            Mutation::IgnoresMaxUpdate
            | Mutation::IgnoresSteps
            | Mutation::IgnoresPause
            | Mutation::ForgetsOne => target.resource == "applicationsets",
            Mutation::IgnoresMaxInFlight | Mutation::IgnoresBudget | Mutation::IgnoresGates => {
                target.resource == "rolloutpolicies"
            }
            Mutation::ForgetsDisowned => target.resource == "rolloutruns",
            Mutation::TrustsOldHealth => target.resource == "deployments",
            _ => false,
        }
    }

    fn missing(&self, target: &Target) -> Option<Value> {
        let is_forgotten = self.mutation == Mutation::ForgetsSettings
            && target.resource == "configmaps"
            && CONFIG_MAPS.contains(&&*target.name);
        is_forgotten.then(|| {
            let metadata = json!({"name": target.name, "namespace": CONTROL_PLANE});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        })
    }

    fn read(&self, object: &mut Value) {
        let steps =
            object.pointer_mut("/spec/strategy/rollingSync/steps").and_then(Value::as_array_mut);
        match self.mutation {
            Mutation::IgnoresMaxUpdate => {
                for step in steps.into_iter().flatten().filter_map(Value::as_object_mut) {
                    step.remove("maxUpdate");
                }
            }
            Mutation::IgnoresMaxInFlight => {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove("pace");
                }
            }
            Mutation::IgnoresBudget => {
                if let Some(max) = object.pointer_mut("/spec/failures/max") {
                    *max = json!(1000);
                }
            }
            Mutation::IgnoresPause => {
                let annotations = object.pointer_mut("/metadata/annotations");
                if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                    annotations.remove("wavegate.dev/paused");
                }
            }
            Mutation::IgnoresSteps => {
                if let Some(steps) = steps {
                    steps.truncate(1);
                    steps[0]["matchExpressions"][0]["values"] = json!(["0", "1", "2"]);
                }
            }
            Mutation::ForgetsOne => {
                let elements = object.pointer_mut("/spec/generators/0/list/elements");
                if let Some(elements) = elements.and_then(Value::as_array_mut) {
                    elements.retain(|element| element["name"] != *self.last);
                }
            }
            Mutation::IgnoresGates => {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove("gates");
                }
            }
            Mutation::ForgetsDisowned if object.pointer("/metadata/ownerReferences").is_none() => {
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("abort");
                }
                if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                    status.remove("quarantine");
                    status.insert("phase".to_owned(), "Complete".into());
                }
            }
            Mutation::TrustsOldHealth if object["spec"].is_object() => {
                object["status"] = json!({
                    "observedGeneration": object["metadata"]["generation"],
                    "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
                });
            }
            _ => {}
        }
    }

    fn write(&self, target: &Target, body: &mut Value) {
        if self.mutation == Mutation::Panics && target.resource == "deployments" {
            panic!("a mutation");
        }
        if self.mutation == Mutation::ForgetsAborted && target.resource == "rolloutruns" {
            forget(body, "quarantine");
        }
        if self.mutation == Mutation::ForgetsTargets && target.resource == "rolloutruns" {
            forget_targets(body);
        }
        if self.mutation == Mutation::ForgetsDisowned
            && target.resource == "rolloutruns"
            && target.method == Method::PATCH
            && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("ownerReferences");
        }
        if self.mutation == Mutation::CountsAll
            && target.resource == "applicationsets"
            && target.subresource == "status"
            && let Some(operations) = body.as_array_mut()
        {
            for operation in operations {
                let progress = match operation["path"].as_str().unwrap_or_default() {
                    "/status/rollout/progress" => operation.get_mut("value"),
                    "/status/rollout" => operation.pointer_mut("/value/progress"),
                    "/status" => operation.pointer_mut("/value/rollout/progress"),
                    _ => None,
                };
                if let Some(progress) = progress
                    && let Some((_, all)) = progress.as_str().and_then(|text| text.split_once('/'))
                {
                    *progress = format!("{all}/{all}").into();
                }
            }
        }
        if self.mutation == Mutation::SaysNothing
            && target.resource == "applicationsets"
            && target.subresource == "status"
            && let Some(operations) = body.as_array_mut()
        {
            // A JSON patch.
            let path =
                |operation: &Value| operation["path"].as_str().unwrap_or_default().to_owned();
            operations.retain(|operation| !path(operation).contains("/waitingFor"));
            for operation in operations {
                let rollout = match &*path(operation) {
                    "/status/rollout" => operation.get_mut("value"),
                    "/status" => operation.pointer_mut("/value/rollout"),
                    _ => None,
                };
                if let Some(rollout) = rollout.and_then(Value::as_object_mut) {
                    rollout.remove("waitingFor");
                }
            }
        }
    }

    fn after(&self, target: &Target, body: &Value, answer: &Value) -> Vec<Request<Vec<u8>>> {
        let once = |what: String| self.done.lock().insert(what);
        let name = answer["metadata"]["name"].as_str().unwrap_or_default();
        let (resource, is_created) = (&*target.resource, target.method == Method::POST);
        match self.mutation {
            Mutation::SyncsTwice if resource == "applications" => {
                let state = &answer["status"]["operationState"];
                let is_over = state["phase"] == "Succeeded" && !answer["operation"].is_object();
                let revision = state["syncResult"]["revision"].as_str().unwrap_or_default();
                if !is_over || !once(format!("{name} {revision}")) {
                    return Vec::new();
                }
                let path =
                    format!("/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/{name}");
                vec![request(Method::PATCH, &path, &json!({"operation": state["operation"]}))]
            }
            Mutation::RunsHooksTwice if resource == "jobs" && is_created => {
                let path = format!("/apis/batch/v1/namespaces/{DESTINATION}/jobs");
                let of_job = format!("{path}/{name}");
                vec![
                    request(Method::DELETE, &of_job, &Value::Null),
                    request(Method::PATCH, &of_job, &json!({"metadata": {"finalizers": null}})),
                    request(Method::POST, &path, body),
                ]
            }
            Mutation::TouchesForeign if resource == "deployments" && is_created => {
                let path = format!("/api/v1/namespaces/{DESTINATION}/configmaps/{BYSTANDER}");
                vec![request(Method::PATCH, &path, &json!({"data": {"by": name}}))]
            }
            // As the prune of the one that had it before.
            Mutation::DeletesMoved if resource == "configmaps" && !is_created && name == MOVING => {
                let id = &answer["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"];
                if !once(id.to_string()) {
                    return Vec::new();
                }
                let path = format!("/api/v1/namespaces/{DESTINATION}/configmaps/{MOVING}");
                vec![request(Method::DELETE, &path, &Value::Null)]
            }
            Mutation::DeletesUnasked if resource == "deployments" && is_created => {
                if !once(name.to_owned()) {
                    return Vec::new();
                }
                let path = format!("/apis/apps/v1/namespaces/{DESTINATION}/deployments/{name}");
                vec![request(Method::DELETE, &path, &Value::Null)]
            }
            _ => Vec::new(),
        }
    }
}

/// Leaves a field out of a status that is written, whole or in parts.
fn forget(body: &mut Value, field: &str) {
    if let Some(operations) = body.as_array_mut() {
        operations.retain(|operation| operation["path"] != format!("/status/{field}"));
        for operation in operations.iter_mut().filter(|operation| operation["path"] == "/status") {
            let value = operation.get_mut("value").and_then(Value::as_object_mut);
            value.map(|status| status.remove(field));
        }
    }
    let status = body.get_mut("status").and_then(Value::as_object_mut);
    status.map(|status| status.remove(field));
}

/// Leaves out of gates, wherever they are, what is behind them.
fn forget_targets(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("covers");
            fields.values_mut().for_each(forget_targets);
        }
        Value::Array(all) => all.iter_mut().for_each(forget_targets),
        _ => {}
    }
}

async fn again_and_again(client: Client, mutation: Mutation, every: Duration, app: String) {
    for count in 0_u64.. {
        let request = match mutation {
            Mutation::ListsHot => request(Method::GET, "/api/v1/namespaces", &Value::Null),
            Mutation::RenewsHot => {
                let path = "/apis/coordination.k8s.io/v1/namespaces/argocd/leases/other";
                request(Method::GET, path, &Value::Null)
            }
            Mutation::WritesHot => {
                let path = format!("/apis/apps/v1/namespaces/{DESTINATION}/deployments/{app}");
                let annotations = json!({"example.com/count": count.to_string()});
                request(Method::PATCH, &path, &json!({"metadata": {"annotations": annotations}}))
            }
            _ => request(Method::GET, "/api/v1/namespaces/default", &Value::Null),
        };
        let _ = client.request::<Value>(request).await;
        tokio::time::sleep(every).await;
    }
}

fn request(method: Method, path: &str, body: &Value) -> Request<Vec<u8>> {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    request.body(body).expect("a request")
}
