//! A stand-in for Argo CD's application controller: writes the status of Applications,
//! and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::World;
use super::cluster::patch_object;
use super::recorder::{Kind, Recorder};

/// Runs until it is dropped.
pub struct StandIn {
    revision: Arc<Mutex<String>>,
    changed: Arc<tokio::sync::Notify>,
    _stop: DropGuard,
}

impl StandIn {
    /// Starts it at a revision. Operations of the Applications in `deaf` are never started.
    pub fn start(world: &World, revision: &str, deaf: &[&str]) -> Self {
        let stop = CancellationToken::new();
        let shared = Arc::new(Mutex::new(revision.to_owned()));
        let changed = Arc::new(tokio::sync::Notify::new());
        let worker = Worker {
            client: world.client.clone(),
            namespace: world.namespace.clone(),
            recorder: Arc::clone(&world.recorder),
            revision: Arc::clone(&shared),
            changed: Arc::clone(&changed),
            deaf: deaf.iter().map(|name| (*name).to_owned()).collect(),
        };
        let token = stop.clone();
        tokio::spawn(async move { token.run_until_cancelled(worker.run()).await });
        Self { revision: shared, changed, _stop: stop.drop_guard() }
    }

    /// Adds a new commit.
    pub fn commit(&self, revision: &str) {
        revision.clone_into(&mut self.revision.lock());
        self.changed.notify_one();
    }
}

struct Worker {
    client: kube::Client,
    namespace: String,
    recorder: Arc<Recorder>,
    revision: Arc<Mutex<String>>,
    changed: Arc<tokio::sync::Notify>,
    deaf: BTreeSet<String>,
}

impl Worker {
    async fn run(self) {
        let mut changes = self.recorder.changes();
        loop {
            changes.mark_unchanged();
            let now = self.revision.lock().clone();
            let wanted: Vec<(String, Value)> = self.recorder.read(|log| {
                let applications = log.all(Kind::Application);
                let patch = |(name, application): (&str, &Arc<Value>)| {
                    let patch = next(application, &now, self.deaf.contains(name))?;
                    let name = application["metadata"]["name"].as_str()?;
                    Some((name.to_owned(), patch))
                };
                applications.filter_map(patch).collect()
            });
            let (client, namespace) = (&self.client, &self.namespace);
            let patches = wanted.into_iter().map(|(name, patch)| async move {
                // A conflict, or a deleted Application: its event starts the next round.
                let _ = patch_object(client, Kind::Application, namespace, &name, &patch).await;
            });
            futures::stream::iter(patches).buffer_unordered(8).collect::<()>().await;
            tokio::select! {
                _ = changes.changed() => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

/// The next patch of an Application, if there is one; it carries the version
/// that it was decided on.
pub fn next(application: &Value, newest: &str, deaf: bool) -> Option<Value> {
    let status = &application["status"];
    let state = &status["operationState"];
    let now = Timestamp::now().round(jiff::Unit::Second).unwrap_or_default();
    let at = now.to_string();
    let mut patch = if state["phase"] == "Running" {
        let synced = state["syncResult"]["revision"].as_str().unwrap_or(newest);
        json!({
            "operation": null,
            "status": {
                "operationState": { "phase": "Succeeded", "finishedAt": at, "message": "successfully synced (all tasks run)" },
                "sync": compared(application, if synced == newest { "Synced" } else { "OutOfSync" }, newest),
                "health": { "status": "Healthy" },
                "reconciledAt": at,
            },
        })
    } else if application["operation"].is_object() && !deaf {
        let named = application["operation"]["sync"]["revision"].as_str().unwrap_or(newest);
        json!({ "status": { "operationState": {
            "phase": "Running",
            "startedAt": at,
            "finishedAt": null,
            "message": "waiting for completion",
            "operation": replacing(&state["operation"], &application["operation"]),
            "syncResult": { "revision": named, "source": source(&application["spec"]) },
        } } })
    } else if status["sync"]["revision"] != newest || is_stale(application) {
        let synced = state["syncResult"]["revision"] == newest;
        let health = if state.is_null() { "Missing" } else { "Healthy" };
        // A comparison is never older than the previous operation.
        let after = now.checked_add(SignedDuration::from_secs(1)).ok()?;
        json!({ "status": {
            "sync": compared(application, if synced { "Synced" } else { "OutOfSync" }, newest),
            "health": { "status": health },
            "reconciledAt": after.to_string(),
        } })
    } else if !application["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null() {
        json!({ "metadata": { "annotations": { "argocd.argoproj.io/refresh": null } }, "status": { "reconciledAt": at } })
    } else {
        return None;
    };
    patch["metadata"]["resourceVersion"] = application["metadata"]["resourceVersion"].clone();
    Some(patch)
}

/// The merge patch that makes `new` of `old`.
fn replacing(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: serde_json::Map<String, Value> =
        gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after {
        patch.insert(key.clone(), replacing(&old[key], value));
    }
    patch.into()
}

fn compared(application: &Value, status: &str, revision: &str) -> Value {
    let spec = &application["spec"];
    json!({
        "status": status,
        "revision": revision,
        "comparedTo": { "source": source(spec), "destination": spec["destination"] },
    })
}

/// What Argo CD compares: of hydrated manifests the branch that they are synced from.
fn source(spec: &Value) -> Value {
    let hydrator = &spec["sourceHydrator"];
    if hydrator.is_null() {
        return spec["source"].clone();
    }
    let (dry, sync) = (&hydrator["drySource"], &hydrator["syncSource"]);
    json!({ "repoURL": dry["repoURL"], "path": sync["path"], "targetRevision": sync["targetBranch"] })
}

fn is_stale(application: &Value) -> bool {
    let (spec, to) = (&application["spec"], &application["status"]["sync"]["comparedTo"]);
    to["source"] != source(spec) || to["destination"] != spec["destination"]
}
