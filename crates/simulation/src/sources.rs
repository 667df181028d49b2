//! What Applications deploy: one workload each, which changes with every commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_sim::SplitMix64;
use kube_sim::workloads::{DELAY_ANNOTATION, OUTCOME_ANNOTATION};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::action::FleetChange;
use super::behavior::{Behavior, WorkloadOutcome};
use wavegate_api::{ApplicationSource, read_leniently};
use wavegate_source::InMemory;

/// What an Application deploys at the commit of a number, 0 being what was there before.
pub type Manifests = Arc<dyn Fn(&str, u64) -> Vec<Value> + Send + Sync>;

/// The repositories: all of them have the same commits.
pub(super) struct Sources {
    content: Mutex<Content>,
    /// In place of the workloads.
    manifests: Option<Manifests>,
    /// What chance comes from.
    seed: u64,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("content", &self.content).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Content {
    behaviors: BTreeMap<String, Behavior>,
    /// The Applications that each commit after the one with number 0 changes; all without names.
    commits: Vec<Option<BTreeSet<String>>>,
    /// The number of the commit that the branch was set to since the last one.
    reset: Option<u64>,
    /// The last commit before which an Application is not annotated to succeed: it became Degraded by
    /// itself, and stays so until the next one.
    degraded: BTreeMap<String, u64>,
}

impl Sources {
    /// The first commit is what was there before, unless its rollout is simulated, too.
    pub fn new(
        behaviors: BTreeMap<String, Behavior>,
        manifests: Option<Manifests>,
        is_first: bool,
        seed: u64,
    ) -> Self {
        let commits = if is_first { vec![None] } else { Vec::new() };
        let content =
            Mutex::new(Content { behaviors, commits, reset: None, degraded: BTreeMap::new() });
        Self { content, manifests, seed }
    }

    /// The workload of an Application fails until the next deployment: that of the newest commit,
    /// when it still waits for it, else that of a later one.
    pub fn degrade(&self, application: &str, waits: bool) {
        let mut content = self.content.lock();
        let newest = content.commits.len() as u64;
        content.degraded.insert(application.to_owned(), newest - u64::from(waits && newest > 0));
    }

    /// Adds a commit to each repository, which changes these Applications; all without names.
    pub fn push(&self, changed: Option<BTreeSet<String>>) {
        let mut content = self.content.lock();
        content.commits.push(changed);
        content.reset = None;
    }

    /// Sets the branch of each repository to a commit that it has had before.
    pub fn reset(&self, commit: u64) {
        self.content.lock().reset = Some(commit);
    }

    /// Changes what is rendered from now on.
    pub fn change(&self, application: &str, change: &FleetChange) {
        if let Some(behavior) = self.content.lock().behaviors.get_mut(application) {
            match change {
                FleetChange::Outcome(outcome) => behavior.outcome = *outcome,
                FleetChange::Health(time) => behavior.health = *time,
            }
        }
    }
}

impl Content {
    /// The last commit, up to one, that changes an Application.
    fn changed(&self, application: &str, commit: u64) -> u64 {
        let count = usize::try_from(commit).unwrap_or(usize::MAX).min(self.commits.len());
        let changes = |names: &Option<BTreeSet<String>>| {
            names.as_ref().is_none_or(|names| names.contains(application))
        };
        let last = self.commits[..count].iter().rposition(changes);
        last.map_or(0, |index| index as u64 + 1)
    }
}

/// Whether a case of so many in 100 is that of an Application at a commit: the same each time it
/// is asked for, as a deployment that fails does so again when it is repeated.
fn is_drawn(share: u8, application: &str, commit: u64, seed: u64) -> bool {
    // FNV-1a: the same in each process.
    let bytes = application.bytes().chain(commit.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    SplitMix64::new(seed ^ hash).next() % 100 < u64::from(share)
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
        let content = self.content.lock();
        commit(content.reset.unwrap_or(content.commits.len() as u64))
    }

    fn objects(&self, application: &str, source: &Value, commit: &str) -> Vec<Value> {
        // The other sources of an Application hold values only.
        let read: ApplicationSource = read_leniently(source);
        if !read.reference.is_empty() && read.path.is_empty() {
            return Vec::new();
        }
        let content = self.content.lock();
        let number = content.changed(application, number(commit));
        if let Some(manifests) = &self.manifests {
            return manifests(application, number);
        }
        let delay = |time: Duration| format!("{}ms", time.as_millis());
        let (sync, health, outcome) = match content.behaviors.get(application) {
            None => (Duration::ZERO, Duration::ZERO, WorkloadOutcome::Succeeds),
            // What was there before was Healthy, and is so again after a way back to it.
            Some(Behavior { sync, health, .. }) if number == 0 => {
                (*sync, *health, WorkloadOutcome::Succeeds)
            }
            Some(Behavior { sync, health, outcome }) => (*sync, *health, *outcome),
        };
        let degraded = content.degraded.get(application);
        let outcome = match outcome {
            WorkloadOutcome::Flaky(share) if is_drawn(share, application, number, self.seed) => {
                WorkloadOutcome::Fails
            }
            WorkloadOutcome::Flaky(_) => WorkloadOutcome::Succeeds,
            certain => certain,
        };
        let outcome = match outcome {
            WorkloadOutcome::Succeeds | WorkloadOutcome::Flaky(_) => {
                degraded.filter(|last| number > **last).map(|_| "succeed")
            }
            WorkloadOutcome::Fails => Some("fail"),
            WorkloadOutcome::Hangs => Some("hang"),
        };
        let mut annotations = json!({DELAY_ANNOTATION: delay(health)});
        if let Some(outcome) = outcome {
            annotations[OUTCOME_ANNOTATION] = outcome.into();
        }
        let image = format!("registry.invalid/{application}:{number}");
        let pod = |labels: Value, restart: &str| {
            json!({
                "metadata": {"labels": labels},
                "spec": {"restartPolicy": restart, "containers": [{"name": "app", "image": image}]},
            })
        };
        let labels = json!({"app": application});
        let mut objects = vec![json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": application,
                "annotations": annotations,
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
}
