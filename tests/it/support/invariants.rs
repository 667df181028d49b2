//! Invariants of a rollout, checked on the recorded versions only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::manifests::VERSION;
use super::recorder::{Change, Kind, Log};

/// Initiator of the operations of a rollout.
const ROLLOUT: &str = "applicationset-controller";

/// The steps of a set: Applications, and their limit.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    steps: Vec<(BTreeSet<String>, Option<usize>)>,
}

impl Steps {
    /// Adds a step; `None` means no limit.
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

/// Whether an operation is requested or running.
pub fn is_in_flight(application: &Value) -> bool {
    let phase = application["status"]["operationState"]["phase"].as_str();
    application["operation"].is_object() || matches!(phase, Some("Running" | "Terminating"))
}

/// The requested or running operation.
fn operation(application: &Value) -> &Value {
    match &application["operation"] {
        Value::Null => &application["status"]["operationState"]["operation"],
        operation => operation,
    }
}

/// Whether the operation was started by a rollout.
fn is_by_rollout(application: &Value) -> bool {
    operation(application)["initiatedBy"]["username"] == ROLLOUT
}

/// The revision in an operation, a result or a sync status: that of the first source. The
/// sources of the cases are in one repository.
pub fn revision(of: &Value) -> Option<&str> {
    let one = of["revision"].as_str().filter(|revision| !revision.is_empty());
    one.or_else(|| of["revisions"][0].as_str())
}

/// Whether an Application is Synced and Healthy at `revision`, after a successful operation.
pub fn is_done(application: &Value, revision: &str) -> bool {
    let status = &application["status"];
    !is_in_flight(application)
        && status["sync"]["status"] == "Synced"
        && self::revision(&status["sync"]) == Some(revision)
        && status["health"]["status"] == "Healthy"
        && status["operationState"]["phase"] == "Succeeded"
        && self::revision(&status["operationState"]["syncResult"]) == Some(revision)
}

/// Whether all Applications of the steps are done.
pub fn all_done(log: &Log, steps: &Steps, revision: &str) -> bool {
    steps.applications().all(|name| {
        log.get(Kind::Application, name).is_some_and(|application| is_done(application, revision))
    })
}

/// Checks the whole record of a rollout; panics with all violations.
pub fn check(log: &Log, steps: &Steps) {
    let mut broken = rollout_violations(log, steps);
    broken.extend(hook_violations(log));
    assert!(broken.is_empty(), "invariants broken:\n{}\n{}", broken.join("\n"), log.state());
}

/// One sync per revision; steps in order; limits are not exceeded.
pub fn rollout_violations(log: &Log, steps: &Steps) -> Vec<String> {
    let mut broken = Vec::new();
    let mut latest: BTreeMap<&str, &Arc<Value>> = BTreeMap::new();
    let mut done: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut begun: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let mut started: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    // Started and not complete: the operation may have ended without the Application
    // being healthy yet.
    let mut running: BTreeMap<&str, String> = BTreeMap::new();
    for record in log.of(Kind::Application) {
        let (name, now) = (record.name(), &record.object);
        let Some(step) = steps.of(name) else { continue };
        let before = latest.get(name).copied();
        if record.change == Change::Deleted {
            latest.remove(name);
            running.remove(name);
            continue;
        }
        latest.insert(name, now);

        let state = &now["status"]["operationState"];
        if let (Some(revision), Some(at)) =
            (revision(&state["syncResult"]), state["startedAt"].as_str())
        {
            started.entry((name, revision)).or_default().insert(at);
        }
        if let Some(revision) = revision(&now["status"]["sync"])
            && is_done(now, revision)
        {
            done.insert((name, revision));
        }

        if running.get(name).is_some_and(|revision| is_over(now, revision)) {
            running.remove(name);
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
        if begins && is_by_rollout(now) {
            running.insert(name, target(now));
            let (names, limit) = &steps.steps[step];
            let of_step: Vec<&str> =
                running.keys().copied().filter(|name| names.contains(*name)).collect();
            if limit.is_some_and(|limit| of_step.len() > limit) {
                broken.push(format!(
                    "step {} allows {limit:?} at once; at version {} it runs {}",
                    step + 1,
                    record.version(),
                    of_step.join(", ")
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

/// Whether a rollout of `revision` is over for an Application: it is complete, or was
/// compared with another revision and must start again.
fn is_over(application: &Value, revision: &str) -> bool {
    is_done(application, revision)
        || (!is_in_flight(application)
            && self::revision(&application["status"]["sync"]) != Some(revision))
}

/// The revision of an operation: the one it contains, or the one that the Application was
/// compared with when it was requested.
fn target(application: &Value) -> String {
    let named = revision(&operation(application)["sync"]);
    let compared = revision(&application["status"]["sync"]);
    named.or(compared).unwrap_or_default().to_owned()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Builds a log: one line per version of an Application.
    #[derive(Default)]
    struct Story(Log, u64);

    impl Story {
        fn app(mut self, name: &str, operation: Value, status: Value) -> Self {
            self.1 += 1;
            let version = self.1.to_string();
            let object = json!({
                "metadata": { "name": name, "resourceVersion": version },
                "operation": operation,
                "status": status,
            });
            self.0.add(Kind::Application, Change::Modified, object);
            self
        }

        /// The rollout requests a sync.
        fn asks(self, name: &str, revision: &str) -> Self {
            let operation = json!({
                "initiatedBy": { "username": ROLLOUT }, "sync": { "revision": revision },
            });
            self.app(name, operation, json!({ "sync": { "revision": revision } }))
        }

        /// The operation succeeded, with the given health.
        fn ends(self, name: &str, revision: &str, health: &str) -> Self {
            let status = json!({
                "sync": { "status": "Synced", "revision": revision },
                "health": { "status": health },
                "operationState": {
                    "phase": "Succeeded",
                    "startedAt": revision,
                    "syncResult": { "revision": revision },
                },
            });
            self.app(name, Value::Null, status)
        }

        fn job(mut self, uid: &str, commit: &str) -> Self {
            let object = json!({
                "metadata": { "name": "hook", "uid": uid, "annotations": { VERSION: commit } },
            });
            self.0.add(Kind::Job, Change::Added, object);
            self
        }

        fn breaks(self, steps: &Steps, want: &[&str]) {
            let mut broken = rollout_violations(&self.0, steps);
            broken.extend(hook_violations(&self.0));
            assert_eq!(broken.len(), want.len(), "{broken:#?}");
            for (broken, want) in broken.iter().zip(want) {
                assert!(broken.contains(want), "{broken:?} does not say {want:?}");
            }
        }
    }

    #[test]
    fn violations_of_a_rollout_are_detected() {
        let steps = Steps::default().step(["a", "b", "c"], Some(2)).step(["d"], None);
        let story = || Story::default().asks("a", "r1").asks("b", "r1");
        let done =
            || ["a", "b"].iter().fold(story(), |story, name| story.ends(name, "r1", "Healthy"));
        let all = || done().asks("c", "r1").ends("c", "r1", "Healthy");
        all().asks("d", "r1").ends("d", "r1", "Healthy").breaks(&steps, &[]);
        // One too many, while operations run, and while waiting for health.
        story().asks("c", "r1").breaks(&steps, &["it runs a, b, c"]);
        let unwell = story().ends("a", "r1", "Progressing").ends("b", "r1", "Healthy");
        unwell.asks("c", "r1").breaks(&steps, &[]);
        let unwell = story().ends("a", "r1", "Progressing").ends("b", "r1", "Degraded");
        unwell.asks("c", "r1").breaks(&steps, &["it runs a, b, c"]);
        // A step too early: before the previous one is complete, and at an old revision.
        done().asks("c", "r1").asks("d", "r1").breaks(&steps, &["before c of earlier steps"]);
        all().asks("d", "r2").breaks(&steps, &["before a, b, c of earlier steps"]);
        // Again for the same revision.
        all().asks("a", "r1").breaks(&steps, &["a is synced twice for revision r1"]);
        // A newer revision replaces the running one.
        let newer = json!({
            "sync": { "status": "OutOfSync", "revision": "r2" },
            "health": { "status": "Progressing" },
        });
        story()
            .app("a", Value::Null, newer.clone())
            .app("b", Value::Null, newer)
            .asks("c", "r2")
            .breaks(&steps, &[]);
    }

    #[test]
    fn a_hook_that_ran_twice_is_detected() {
        let steps = Steps::default();
        let story = || Story::default().job("1", "v1").job("1", "v1").job("2", "v2");
        story().breaks(&steps, &[]);
        story().job("3", "v2").breaks(&steps, &["hook hook ran 2 times for commit v2"]);
    }
}
