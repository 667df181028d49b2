//! What must hold at every instant of a rollout, checked on the recorded
//! versions alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::manifests::VERSION;
use super::recorder::{Change, Kind, Log};

/// Who initiates the operations of a rollout.
const ROLLOUT: &str = "applicationset-controller";

/// The steps of a set: which Applications, and how many of them at once.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    steps: Vec<(BTreeSet<String>, Option<usize>)>,
}

impl Steps {
    /// Adds a step; `None` is no limit.
    pub fn step<S: Into<String>>(
        mut self,
        applications: impl IntoIterator<Item = S>,
        limit: Option<usize>,
    ) -> Self {
        self.steps.push((applications.into_iter().map(Into::into).collect(), limit));
        self
    }

    fn of(&self, application: &str) -> Option<usize> {
        self.steps.iter().position(|(names, _)| names.contains(application))
    }

    /// All Applications of all steps.
    pub fn applications(&self) -> impl Iterator<Item = &String> {
        self.steps.iter().flat_map(|(names, _)| names)
    }
}

/// Whether an operation is requested or under way.
pub fn is_in_flight(application: &Value) -> bool {
    let phase = application["status"]["operationState"]["phase"].as_str();
    application["operation"].is_object() || matches!(phase, Some("Running" | "Terminating"))
}

/// The operation that is requested or under way.
fn operation(application: &Value) -> &Value {
    match &application["operation"] {
        Value::Null => &application["status"]["operationState"]["operation"],
        operation => operation,
    }
}

/// Whether a rollout asked for the operation.
fn is_by_rollout(application: &Value) -> bool {
    operation(application)["initiatedBy"]["username"] == ROLLOUT
}

/// Whether an Application is Synced and Healthy at `revision`, by an operation
/// that succeeded for it.
pub fn is_done(application: &Value, revision: &str) -> bool {
    let status = &application["status"];
    !is_in_flight(application)
        && status["sync"]["status"] == "Synced"
        && status["sync"]["revision"] == revision
        && status["health"]["status"] == "Healthy"
        && status["operationState"]["phase"] == "Succeeded"
        && status["operationState"]["syncResult"]["revision"] == revision
}

/// Whether all Applications of the steps are done.
pub fn all_done(log: &Log, steps: &Steps, revision: &str) -> bool {
    steps.applications().all(|name| {
        log.get(Kind::Application, name).is_some_and(|application| is_done(application, revision))
    })
}

/// Checks the whole record of a rollout; panics with everything that broke.
pub fn check(log: &Log, steps: &Steps) {
    let mut broken = rollout_violations(log, steps);
    broken.extend(hook_violations(log));
    assert!(broken.is_empty(), "invariants broken:\n{}\n{}", broken.join("\n"), log.state());
}

/// One sync per revision; steps in order; never more at once than allowed.
pub fn rollout_violations(log: &Log, steps: &Steps) -> Vec<String> {
    let mut broken = Vec::new();
    let mut latest: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
    let mut done: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut begun: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let mut started: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for record in log.of(Kind::Application) {
        let (name, now) = (record.name(), &record.object);
        let Some(step) = steps.of(name) else { continue };
        let before = latest.get(name).copied();
        if record.change == Change::Deleted {
            latest.remove(name);
            continue;
        }
        latest.insert(name, now);

        let state = &now["status"]["operationState"];
        if let (Some(revision), Some(at)) =
            (state["syncResult"]["revision"].as_str(), state["startedAt"].as_str())
        {
            started.entry((name, revision)).or_default().insert(at);
        }
        if let Some(revision) = now["status"]["sync"]["revision"].as_str()
            && is_done(now, revision)
        {
            done.insert((name, revision));
        }

        let begins = is_in_flight(now) && !before.is_some_and(|before| is_in_flight(before));
        if begins {
            let revision = target(now);
            if let Some(first) = begun.insert((name, revision.clone()), record.version()) {
                broken.push(format!(
                    "{name} is synced twice for revision {revision}: at versions {first} and {}",
                    record.version()
                ));
            }
            if is_by_rollout(now) {
                let earlier = steps.steps[..step].iter().flat_map(|(names, _)| names);
                let missing: Vec<&str> = earlier
                    .map(String::as_str)
                    .filter(|earlier| !done.contains(&(*earlier, revision.as_str())))
                    .collect();
                if !missing.is_empty() {
                    broken.push(format!(
                        "{name} of step {} begins revision {revision} at version {} before {} of earlier steps are done with it",
                        step + 1,
                        record.version(),
                        missing.join(", ")
                    ));
                }
            }
        }
        let (names, limit) = &steps.steps[step];
        if let (true, Some(limit)) = (begins && is_by_rollout(now), limit) {
            let in_flight: Vec<&str> = names
                .iter()
                .filter_map(|name| {
                    let application = latest.get(name.as_str())?;
                    (is_in_flight(application) && is_by_rollout(application))
                        .then_some(name.as_str())
                })
                .collect();
            if in_flight.len() > *limit {
                broken.push(format!(
                    "step {} allows {limit} at once; at version {} in flight are {}",
                    step + 1,
                    record.version(),
                    in_flight.join(", ")
                ));
            }
        }
    }
    for ((name, revision), times) in started {
        if times.len() > 1 {
            broken.push(format!("{name} was started for revision {revision} at {times:?}"));
        }
    }
    broken
}

/// The revision that an operation is for: the one it names, or else the one
/// that the Application was compared with when it was asked for.
fn target(application: &Value) -> String {
    let named = &operation(application)["sync"]["revision"];
    let compared = &application["status"]["sync"]["revision"];
    named.as_str().or(compared.as_str()).unwrap_or_default().to_owned()
}

/// No hook runs twice for one commit.
pub fn hook_violations(log: &Log) -> Vec<String> {
    let mut runs: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for record in log.of(Kind::Job) {
        let metadata = &record.object["metadata"];
        let version = metadata["annotations"][VERSION].as_str().unwrap_or_default();
        let uid = metadata["uid"].as_str().unwrap_or_default();
        runs.entry((record.name(), version)).or_default().insert(uid);
    }
    runs.into_iter()
        .filter(|(_, uids)| uids.len() > 1)
        .map(|((name, version), uids)| {
            format!("hook {name} ran {} times for commit {version}", uids.len())
        })
        .collect()
}
