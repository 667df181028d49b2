//! What Applications deploy: one workload each, which changes with every commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_sim::workloads::{DELAY_ANNOTATION, OUTCOME_ANNOTATION};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Behavior, Outcome};
use crate::source::InMemory;

/// What an Application deploys at the commit of a number, 0 being that of the beginning.
pub type Manifests = Arc<dyn Fn(&str, u64) -> Vec<Value> + Send + Sync>;

/// The repositories: all of them have the same commits.
pub(super) struct Sources {
    manifests: Manifests,
    /// The number of the newest commit; that of the beginning is 0.
    newest: Mutex<u64>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl Sources {
    /// A workload for each Application.
    pub fn new(behaviors: BTreeMap<String, Behavior>) -> Self {
        let of = move |application: &str, number: u64| {
            // What was there before is deployed at once.
            let behavior = behaviors.get(application).filter(|_| number > 0);
            workload(application, number, behavior)
        };
        Self::of(Arc::new(of))
    }

    /// These objects.
    pub fn of(manifests: Manifests) -> Self {
        Self { manifests, newest: Mutex::new(0) }
    }

    /// Adds a commit to each repository, and returns its hash.
    pub fn push(&self) -> String {
        let mut newest = self.newest.lock();
        *newest += 1;
        commit(*newest)
    }
}

/// The hash of a commit: recognizable in what is printed.
fn commit(number: u64) -> String {
    format!("{number:08x}{:032x}", 0)
}

fn number(commit: &str) -> u64 {
    commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

impl InMemory for Sources {
    fn head(&self, _: &str) -> String {
        commit(*self.newest.lock())
    }

    fn objects(&self, application: &str, source: &Value, commit: &str) -> Vec<Value> {
        // The other sources of an Application hold values only.
        if source["ref"].is_string() && source["path"].is_null() {
            return Vec::new();
        }
        (self.manifests)(application, number(commit))
    }
}

/// The workload of an Application, and what makes its sync take its time.
fn workload(application: &str, number: u64, behavior: Option<&Behavior>) -> Vec<Value> {
    let (sync, health, outcome) = match behavior {
        None => (Duration::ZERO, Duration::ZERO, Outcome::Succeeds),
        Some(Behavior { sync, health, outcome }) => (*sync, *health, *outcome),
    };
    let outcome = match outcome {
        Outcome::Succeeds => "succeed",
        Outcome::Fails => "fail",
        Outcome::Hangs => "hang",
    };
    let image = format!("registry.invalid/{application}:{number}");
    let pod = |labels: Value, restart: &str| {
        json!({
            "metadata": {"labels": labels},
            "spec": {"restartPolicy": restart, "containers": [{"name": "app", "image": image}]},
        })
    };
    let delay = |time: Duration| format!("{}ms", time.as_millis());
    let labels = json!({"app": application});
    let mut objects = vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": application,
            "annotations": {DELAY_ANNOTATION: delay(health), OUTCOME_ANNOTATION: outcome},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": pod(labels.clone(), "Always"),
        },
    })];
    if !sync.is_zero() {
        objects.push(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": format!("{application}-sync"),
                "annotations": {
                    "argocd.argoproj.io/hook": "PreSync",
                    DELAY_ANNOTATION: delay(sync),
                },
            },
            "spec": {"template": pod(labels, "Never")},
        }));
    }
    objects
}
