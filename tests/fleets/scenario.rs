//! A case as objects of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_sim::workloads::{DELAY_ANNOTATION, OUTCOME_ANNOTATION};
use serde_json::{Value, json};
use wavegate_api::{DEFAULT_PROJECT, permissive_project};
use wavegate_simulation::{
    Behavior, FleetAction, FleetBefore, Manifests, Scenario, ScheduledAction, WorkloadOutcome,
};

use crate::case::{App, Case, Event, MaxUpdate, Policy, What};

/// The namespace of the control plane.
pub const CONTROL_PLANE: &str = "argocd";
/// The namespace of all that is deployed.
pub const DESTINATION: &str = "fleet";
/// The annotation with the number of the commit that an object is of.
pub const COMMIT: &str = "example.com/commit";
/// The object that moves from Application to Application.
pub const MOVING: &str = "moving";
/// An object of somebody else, in each namespace.
pub const BYSTANDER: &str = "bystander";
/// The gate of the policy.
const GATE: &str = "gate";
/// After the last fault, people wait for this time, and see to what is left; several times.
const REMEDIES_EVERY: Duration = Duration::from_secs(15 * 60);
/// How often they do.
const ROUNDS: u32 = 4;

/// The names of the objects of an Application.
pub mod names {
    pub fn before(app: &str) -> String {
        format!("{app}-before")
    }
    pub fn after(app: &str) -> String {
        format!("{app}-after")
    }
    pub fn first(app: &str) -> String {
        format!("{app}-first")
    }
    pub fn last(app: &str) -> String {
        format!("{app}-last")
    }
    pub fn pruned(app: &str) -> String {
        format!("{app}-old")
    }
}

/// Everything that is simulated.
pub fn scenario(case: &Case) -> Scenario {
    let namespaces = [CONTROL_PLANE, DESTINATION];
    let mut objects: Vec<Value> = namespaces
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    objects.push(permissive_project(DEFAULT_PROJECT, CONTROL_PLANE));
    objects.extend(bystanders());
    objects.extend(policy(&case.policy));
    let late = late(case);
    objects.extend((0..case.sets.len()).map(|number| set(case, number, &late)));
    let behavior = |app: &App| {
        let (sync, health) = (app.sync, app.health);
        (app.name.clone(), Behavior { sync, health, outcome: WorkloadOutcome::Succeeds })
    };
    Scenario {
        namespace: CONTROL_PLANE.to_owned(),
        objects,
        behaviors: case
            .apps
            .iter()
            .filter(|app| !late.contains(&&*app.name))
            .map(behavior)
            .collect::<BTreeMap<_, _>>(),
        uncounted: BTreeSet::new(),
        start: "2026-01-05T09:00:00Z".parse().expect("a time"),
        before: if case.is_first { FleetBefore::Nothing } else { FleetBefore::RolledOut },
        actions: actions(case),
        remedies: remedies(case),
        limit: case.faults_end() + Duration::from_secs(8 * 3600),
        replicas: case.replicas,
        logs: false,
        seed: case.seed,
    }
}

/// What the Applications deploy.
pub fn manifests(case: &Case) -> Manifests {
    let apps: BTreeMap<String, App> =
        case.apps.iter().map(|app| (app.name.clone(), app.clone())).collect();
    Arc::new(move |name, commit| apps.get(name).map(|app| objects(app, commit)).unwrap_or_default())
}

/// What an Application deploys at a commit.
pub fn objects(app: &App, commit: u64) -> Vec<Value> {
    let name = &app.name;
    let image = format!("registry.invalid/{name}:{commit}");
    let metadata = |name: &str, more: &[(&str, String)]| {
        let mut annotations = json!({COMMIT: commit.to_string()});
        for (key, value) in more {
            annotations[*key] = value.as_str().into();
        }
        json!({"name": name, "annotations": annotations})
    };
    let labels = json!({"app": name});
    let pod = |restart: &str| {
        let containers = json!([{"name": "app", "image": image}]);
        let spec = json!({"restartPolicy": restart, "containers": containers});
        json!({"metadata": {"labels": labels}, "spec": spec})
    };
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let outcome = if app.fails_at == Some(commit) { "fail" } else { "succeed" };
    let workload =
        [(DELAY_ANNOTATION, milliseconds(app.health)), (OUTCOME_ANNOTATION, outcome.to_owned())];
    let mut objects = vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, &workload),
        "spec": {"selector": {"matchLabels": labels}, "template": pod("Always")},
    })];
    let config = |name: &str, more: &[(&str, String)]| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(name, more),
            "data": {"commit": commit.to_string()},
        })
    };
    let wave = |wave: &str| [("argocd.argoproj.io/sync-wave", wave.to_owned())];
    if app.has_waves {
        objects.push(config(&names::first(name), &wave("-1")));
        objects.push(config(&names::last(name), &wave("2")));
    }
    if app.turn.is_some_and(|(turn, count)| commit % count == turn) {
        objects.push(config(MOVING, &[]));
    }
    if app.prunes && commit.is_multiple_of(2) {
        objects.push(config(&names::pruned(name), &[]));
    }
    if app.has_hooks {
        for (job, phase) in [(names::before(name), "PreSync"), (names::after(name), "PostSync")] {
            let hook = [
                ("argocd.argoproj.io/hook", phase.to_owned()),
                (DELAY_ANNOTATION, milliseconds(app.sync)),
            ];
            objects.push(json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": metadata(&job, &hook),
                "spec": {"template": pod("Never")},
            }));
        }
    }
    objects
}

/// What must not be written.
fn bystanders() -> Vec<Value> {
    let config = |namespace: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": BYSTANDER, "namespace": namespace},
            "data": {"owner": "somebody else"},
        })
    };
    let labels = json!({"app": BYSTANDER});
    vec![
        config(CONTROL_PLANE),
        config(DESTINATION),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": BYSTANDER, "namespace": DESTINATION},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "app", "image": "registry.invalid/it:1"}]},
                },
            },
        }),
    ]
}

fn policy(policy: &Policy) -> Option<Value> {
    if *policy == Policy::default() {
        return None;
    }
    let mut spec = json!({"applicationSets": {}});
    if let Some(gate) = &policy.gate {
        spec["gates"] = json!([{
            "name": GATE,
            "steps": [gate.step + 1],
            "approvals": gate.approvals,
            "soak": format!("{}s", gate.soak.as_secs()),
        }]);
    }
    if let Some(max) = policy.failures {
        spec["failures"] = json!({"max": max, "onFailure": "Hold"});
    }
    if let Some(max) = policy.max_in_flight {
        spec["pace"] = json!({"maxInFlight": max});
    }
    Some(json!({
        "apiVersion": "wavegate.dev/v1alpha1",
        "kind": "RolloutPolicy",
        "metadata": {"name": "policy", "namespace": CONTROL_PLANE},
        "spec": spec,
    }))
}

/// A set without these Applications.
fn set(case: &Case, number: usize, without: &[&str]) -> Value {
    let set = &case.sets[number];
    let apps = case.apps.iter().filter(|app| app.set == number);
    let left = apps.filter(|app| !without.contains(&&*app.name));
    let elements: Vec<Value> =
        left.map(|app| json!({"name": app.name, "step": app.step.to_string()})).collect();
    let step = |(number, max): (usize, &MaxUpdate)| {
        let values = [number.to_string()];
        let mut step = json!({
            "matchExpressions": [{"key": "step", "operator": "In", "values": values}],
        });
        match max {
            MaxUpdate::Unlimited => {}
            MaxUpdate::Count(count) => step["maxUpdate"] = json!(count),
            MaxUpdate::Percent(percent) => step["maxUpdate"] = format!("{percent}%").into(),
        }
        step
    };
    let steps: Vec<Value> = set.steps.iter().enumerate().map(step).collect();
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": set.name, "namespace": CONTROL_PLANE},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}},
            "template": {
                "metadata": {
                    "name": "{{.name}}",
                    "labels": {"step": "{{.step}}"},
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": "https://example.com/fleet.git",
                        "path": "{{.name}}",
                        "targetRevision": "main",
                    },
                    "destination": {
                        "server": "https://kubernetes.default.svc",
                        "namespace": DESTINATION,
                    },
                    "syncPolicy": {"automated": {"prune": true}},
                },
            },
        },
    })
}

/// The Applications that a set does not have at first.
fn late(case: &Case) -> Vec<&str> {
    let name = |event: &Event| match &event.what {
        What::Add(name) => case.app(name).map(|app| &*app.name),
        _ => None,
    };
    case.events.iter().filter_map(name).collect()
}

fn actions(case: &Case) -> Vec<ScheduledAction> {
    let mut removed = late(case);
    let mut commit = 1;
    let mut all = Vec::new();
    for Event { at, what } in &case.events {
        let action = match what {
            What::Push => {
                commit += 1;
                FleetAction::Push(None)
            }
            What::Reset(commit) => FleetAction::Reset(*commit),
            What::Disown => FleetAction::Disown,
            What::DeleteSettings => FleetAction::DeleteSettings,
            What::CreateSettings => FleetAction::CreateSettings,
            What::Restart => FleetAction::Restart,
            What::Pause => FleetAction::Pause,
            What::Resume => FleetAction::Resume,
            What::Approve => FleetAction::Approve(GATE.to_owned()),
            What::Retry => FleetAction::Retry([].into()),
            What::Abort => FleetAction::Abort,
            What::Rollback => FleetAction::Rollback,
            What::Skip(name) => FleetAction::Skip([name.clone()].into()),
            What::Drift(name) => FleetAction::Apply(drifted(case, name, commit)),
            What::Remove(name) => {
                removed.push(name);
                let of = case.app(name).map(|app| app.set).unwrap_or_default();
                FleetAction::Apply(set(case, of, &removed))
            }
            What::Add(name) => {
                removed.retain(|one| one != name);
                let of = case.app(name).map(|app| app.set).unwrap_or_default();
                FleetAction::Apply(set(case, of, &removed))
            }
            What::Fault(fault) => FleetAction::Fault(fault.clone()),
        };
        all.push(ScheduledAction { at: *at, action });
    }
    all
}

/// When people see to what is left.
pub fn remedied(case: &Case) -> impl Iterator<Item = Duration> {
    let last = case.faults_end();
    (1..=ROUNDS).map(move |round| last + REMEDIES_EVERY * round)
}

/// What people do at last: a rollout must end by that.
fn remedies(case: &Case) -> Vec<ScheduledAction> {
    let mut all = Vec::new();
    for at in remedied(case) {
        all.push(ScheduledAction { at, action: FleetAction::Resume });
        all.push(ScheduledAction { at, action: FleetAction::Retry([].into()) });
        for Event { what, .. } in &case.events {
            if let What::Drift(name) = what {
                all.push(ScheduledAction { at, action: FleetAction::Retry([name.clone()].into()) });
            }
        }
        if case.policy.gate.is_some() {
            let at = at + Duration::from_secs(1);
            all.push(ScheduledAction { at, action: FleetAction::Approve(GATE.to_owned()) });
        }
    }
    all
}

/// The workload of an Application as somebody changes it.
fn drifted(case: &Case, name: &str, commit: u64) -> Value {
    let app = case.app(name).expect("events name Applications of the case");
    let mut object = objects(app, commit).swap_remove(0);
    object["metadata"]["namespace"] = DESTINATION.into();
    object["spec"]["template"]["spec"]["containers"][0]["image"] =
        "registry.invalid/drift:0".into();
    object
}
