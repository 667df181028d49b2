//! What is read of an Application, as tables.

mod sets;

use serde_json::{Value, json};

use super::{Timestamp, waited_for, without_start};

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
        let view = super::read_application(&application(&operation(result, message)));
        assert_eq!((view.doing.stage.as_str(), view.doing.detail.as_str()), (stage, detail));
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
    let view = super::read_application(&application(&status));
    assert!(view.has_failed());
    assert_eq!(
        view.doing.detail,
        "Deployment n/web is Degraded: it exceeded its progress deadline"
    );
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
            super::read_application(&application(&status(phase))).is_done(),
            done,
            "{phase}"
        );
    }
    let mut requested = application(&status("Succeeded"));
    requested["operation"] = json!({"sync": {}});
    assert!(!super::read_application(&requested).is_done());
}

/// What an Application waits for or why it failed, the first that holds, and since when.
#[test]
fn what_an_application_waits_for_is_the_first_that_holds() {
    const AT: &str = "2026-01-01T00:00:00Z";
    let since = Some(AT.parse::<Timestamp>().unwrap());
    let state = |phase: &str, message: &str| {
        json!({"operationState": {"phase": phase, "message": message, "operation": {},
            "startedAt": AT}, "sync": {"status": "OutOfSync"}})
    };
    let with = |mut status: Value, changes: Value| {
        json_patch::merge(&mut status, &changes);
        status
    };
    let conditions = |types: &[&str]| {
        let one = |kind: &&str| json!({"type": kind, "message": kind, "lastTransitionTime": AT});
        json!({"conditions": types.iter().map(one).collect::<Vec<_>>()})
    };
    let out = json!({"sync": {"status": "OutOfSync"}});
    let well = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    let bad = json!({"resources": [{"kind": "Pod", "namespace": "n", "name": "p",
        "health": {"status": "Degraded", "message": "crash"}}]});
    let degraded = "Pod n/p is Degraded: crash";
    for (name, status, want) in [
        ("nothing is known", json!({}), ("", None)),
        ("runs", state("Running", ""), ("", since)),
        ("runs its tasks", state("Running", super::TASKS_RUNNING), ("", since)),
        ("terminates", state("Terminating", "stops"), ("stops", since)),
        ("runs, and another message", state("Running", "busy"), ("busy", since)),
        (
            "waits since",
            state("Running", "waiting for x (Progressing, since 2026-01-01T00:00:00Z)"),
            ("x (Progressing)", since),
        ),
        ("failed", state("Failed", "broken"), ("broken", None)),
        ("failed with a resource", with(state("Failed", "broken"), bad.clone()), (degraded, None)),
        ("well", with(state("Succeeded", "done"), well), ("", None)),
        (
            "an error",
            with(out.clone(), conditions(&["ComparisonError"])),
            ("ComparisonError", since),
        ),
        (
            "an error before a warning",
            with(state("Succeeded", ""), conditions(&["SharedResourceWarning", "SyncError"])),
            ("SyncError", since),
        ),
        (
            "a warning after a sync",
            with(state("Succeeded", ""), conditions(&["SharedResourceWarning"])),
            ("SharedResourceWarning", since),
        ),
        ("a warning before", with(out.clone(), conditions(&["SharedResourceWarning"])), ("", None)),
        (
            "a warning about something else",
            with(state("Succeeded", ""), conditions(&["OrphanedResourceWarning"])),
            ("", None),
        ),
        ("a resource after a sync", with(state("Succeeded", ""), bad.clone()), (degraded, None)),
        ("a resource before", with(out.clone(), bad), ("", None)),
    ] {
        let doing = super::read_application(&application(&status)).doing;
        assert_eq!((doing.detail.as_str(), doing.since), want, "{name}");
    }
    let mut requested = application(&out);
    requested["operation"] = json!({"sync": {}});
    assert_eq!(super::read_application(&requested).doing.detail, "the sync to begin");
    requested["metadata"]["deletionTimestamp"] = AT.into();
    assert_eq!(super::read_application(&requested).doing.detail, "its deletion");
}

/// The operation that is requested comes before the last one.
#[test]
fn the_initiator_is_that_of_the_next_operation() {
    use super::{Initiator, PROMOTION, USERNAME};
    let rollout = json!({"info": [{"name": PROMOTION, "value": "x"}]});
    let user = json!({"initiatedBy": {"username": USERNAME}});
    let automated = json!({"initiatedBy": {"automated": true}});
    let person = json!({"initiatedBy": {"username": "ann"}, "info": [{"name": "a", "value": "b"}]});
    for (name, next, last, want) in [
        ("none", None, None, Initiator::Person),
        ("a rollout", Some(&rollout), None, Initiator::Rollout),
        ("its name", Some(&user), None, Initiator::Rollout),
        ("automation", Some(&automated), None, Initiator::Automation),
        ("a person", Some(&person), None, Initiator::Person),
        ("the last one", None, Some(&automated), Initiator::Automation),
        ("the next one", Some(&rollout), Some(&automated), Initiator::Rollout),
    ] {
        let state = last.map(|last| json!({"phase": "Succeeded", "operation": last}));
        let mut live = application(&json!({"operationState": state}));
        if let Some(next) = next {
            live["operation"] = next.clone();
        }
        assert!(super::read_application(&live).initiator == want, "{name}");
    }
}

/// Hooks that have ended; and whether all that differs is to be deleted.
#[test]
fn hooks_and_prunes_are_read_from_the_status() {
    let hook = |name: &str, phase: &str, kind: &str| json!({"kind": "Job", "name": name, "syncPhase": "PreSync", "hookPhase": phase, "hookType": kind});
    let hooks = [
        hook("done", "Succeeded", "PreSync"),
        hook("failed", "Failed", "PreSync"),
        hook("runs", "Running", "PreSync"),
        hook("none", "Succeeded", ""),
    ];
    let status = json!({"operationState": {"phase": "Running", "operation": {},
        "syncResult": {"resources": hooks}}});
    let doing = super::read_application(&application(&status)).doing;
    assert_eq!(doing.hooks, ["PreSync Job/done", "PreSync Job/failed"]);
    assert_eq!(doing.stage, "PreSync");
    let row = |status: &str, prune: bool| json!({"kind": "Pod", "name": "p", "status": status, "requiresPruning": prune});
    for (name, rows, want) in [
        ("none", json!([]), false),
        ("in sync", json!([row("Synced", false)]), false),
        ("to be deleted", json!([row("OutOfSync", true), row("Synced", false)]), true),
        ("and others", json!([row("OutOfSync", true), row("OutOfSync", false)]), false),
    ] {
        let found = super::read_application(&application(&json!({"resources": rows})));
        assert_eq!(found.only_prunes, want, "{name}");
    }
}
