//! When `--watch` ends: only a user can continue.

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::cli::rollout_view::fleet::Fleet;
use wavegate_rollout::rollout::report::RolloutOutcome;

const AT: &str = "2026-01-02T03:04:05Z";

/// A set whose first step waits for `dev`, which has this status.
fn fleet_of(wait: Value, dev: Value, spec: &Value) -> Fleet {
    let mut set = set(json!({
        "rollout": {"step": 1, "steps": 2, "waitingFor": [wait]},
        "applicationStatus": [entry("dev", "1", "Progressing"), entry("prod", "2", "Waiting")],
    }));
    set["spec"]["generators"] =
        json!([{"list": {"elements": [{"name": "dev"}, {"name": "prod"}]}}]);
    set["spec"]["template"] = json!({"metadata": {"name": "{{name}}", "labels": {"env": "{{name}}"}},
        "spec": {"project": "default"}});
    if spec["steps"] == false {
        set["spec"]["generators"] = json!([{"list": {"elements": [{"name": "dev"}]}}]);
        set["spec"]["strategy"] = Value::Null;
        set["status"] = json!({"conditions": []});
    }
    let mut fleet = Fleet::default();
    fleet.set(&set.into(), Timestamp::UNIX_EPOCH, Duration::ZERO);
    for (name, status) in [("dev", dev), ("prod", json!({}))] {
        let (_, mut live) = application(name, status);
        let live = Arc::make_mut(&mut live);
        live["metadata"]["labels"] = json!({"env": name});
        live["spec"] = json!({"project": "default", "destination": {}});
        live["spec"]["syncPolicy"] = spec["syncPolicy"].clone();
        if name == "dev" || spec["steps"] != false {
            fleet.application(&live.clone().into(), Duration::ZERO);
        }
    }
    fleet
}

/// The outcome of the set of [`fleet_of`].
fn outcome_of(wait: Value, dev: Value, spec: &Value) -> RolloutOutcome {
    fleet_of(wait, dev, spec).outcomes().remove(0).1
}

/// The Application that only a person continues, and why.
fn stopped(reason: &str, dev: Value, spec: &Value) -> Option<(String, String)> {
    stopped_by(wait("Health", reason), dev, spec)
}

/// What the status of the set says about `dev`.
fn wait(kind: &str, reason: &str) -> Value {
    json!({"application": "dev", "kind": kind, "reason": reason})
}

/// The same by what the status of the set says.
fn stopped_by(wait: Value, dev: Value, spec: &Value) -> Option<(String, String)> {
    match outcome_of(wait, dev, spec) {
        RolloutOutcome::Blocked { application, why, .. } => Some((application, why.message)),
        _ => None,
    }
}

/// An Application that is OutOfSync after its last operation.
fn out_of_sync(operation: Value, resource: Value) -> Value {
    let mut state =
        json!({"phase": "Succeeded", "startedAt": AT, "finishedAt": AT, "operation": operation});
    state["message"] = "m".into();
    json!({"sync": {"status": "OutOfSync"}, "health": {"status": "Healthy"}, "reconciledAt": AT,
        "operationState": state, "resources": [resource]})
}

#[test]
fn an_application_that_no_controller_syncs_again_is_stopped() {
    let drifted =
        || json!({"kind": "ConfigMap", "namespace": "shop", "name": "a", "status": "OutOfSync"});
    let mut extra = drifted();
    extra["requiresPruning"] = true.into();
    let whole = || json!({"sync": {}});
    let of = |why: &str| Some(("dev".to_owned(), why.to_owned()));
    let (waits, kept) = (
        "ConfigMap shop/a is OutOfSync",
        "ConfigMap shop/a is not in the source any more, and pruning is not enabled",
    );
    let none = Value::Null;
    assert_eq!(stopped(waits, out_of_sync(whole(), drifted()), &none), of(waits));
    assert_eq!(stopped(kept, out_of_sync(whole(), extra.clone()), &none), of(kept));
    // The comparison is older than the end of the sync.
    let mut older = out_of_sync(whole(), drifted());
    older["reconciledAt"] = "2026-01-02T03:04:00Z".into();
    assert_eq!(stopped(waits, older, &none), None);
    let mut running = out_of_sync(whole(), drifted());
    running["operationState"]["phase"] = "Running".into();
    assert_eq!(stopped(waits, running, &none), None);

    // Without steps, an automated sync follows, but does not prune.
    let automated = json!({"steps": false, "syncPolicy": {"automated": {}}});
    assert_eq!(stopped("", out_of_sync(whole(), drifted()), &automated), None);
    assert_eq!(stopped("", out_of_sync(whole(), extra), &automated), of(kept));
}

#[test]
fn a_dry_run_does_not_continue_what_a_failed_sync_has_stopped() {
    let drifted =
        json!({"kind": "ConfigMap", "namespace": "shop", "name": "a", "status": "OutOfSync"});
    let dry_run = out_of_sync(json!({"sync": {"dryRun": true}}), drifted);
    let known = "Sync failed, waiting for one that succeeds: Deployment shop/web is Degraded: no";
    let want = Some(("dev".to_owned(), known.to_owned()));
    let failed = wait("FailedOperation", known);
    assert_eq!(stopped_by(failed.clone(), dry_run.clone(), &Value::Null), want);
    let (name, live) = application("dev", dry_run);
    let status = json!({
        "rollout": {"step": 1, "steps": 2, "waitingFor": [failed]},
        "applicationStatus": [entry("dev", "1", "Progressing")],
    });
    assert_eq!(explained(status, &[(name, live)]).waits[0].reason, known, "explain says the same");
}

/// A comparison of the second in which the sync ended may be older than its end.
#[test]
fn a_comparison_that_may_be_outdated_is_waited_for() {
    let may_be_outdated = |compared: &str| {
        let resource = json!({"kind": "ConfigMap", "name": "a", "status": "OutOfSync"});
        let mut status = out_of_sync(json!({"sync": {}}), resource);
        status["reconciledAt"] = compared.into();
        let fleet = fleet_of(wait("Health", "r"), status, &Value::Null);
        fleet.sets.values().any(|set| set.report.may_be_outdated())
    };
    assert!(may_be_outdated(AT));
    assert!(!may_be_outdated("2026-01-02T03:04:06Z"), "it is newer");
    assert!(!may_be_outdated("2026-01-02T03:04:04Z"), "it is older, and counts for nothing");
}

#[test]
fn what_a_person_confirms_is_waited_for_and_a_deletion_is_no_failure() {
    let extra = || {
        json!({"kind": "ConfigMap", "namespace": "shop", "name": "a", "status": "OutOfSync",
            "requiresPruning": true})
    };
    let confirm = "ConfigMap shop/a is not in the source any more, and its deletion has to be \
                   confirmed";
    let mut waits = out_of_sync(json!({"sync": {"prune": true}}), extra());
    waits["operationState"]["phase"] = "Running".into();
    waits["operationState"]["message"] = "waiting for pruning confirmation of /ConfigMap/a".into();
    let none = Value::Null;
    assert_eq!(stopped(confirm, waits, &none), Some(("dev".to_owned(), confirm.to_owned())));
    let mut terminated = out_of_sync(json!({"sync": {}}), extra());
    terminated["operationState"]["phase"] = "Failed".into();
    terminated["operationState"]["message"] = "Operation terminated".into();
    terminated["operationState"]["syncResult"] = json!({"revision": "r", "resources": [{
        "kind": "Job", "namespace": "shop", "name": "migrate", "version": "v1", "group": "batch",
        "hookType": "PreSync", "hookPhase": "Failed", "syncPhase": "PreSync",
        "message": "Terminated",
    }]});
    let reason = "its sync failed: Operation terminated";
    let found = stopped(reason, terminated, &none);
    assert_eq!(found, Some(("dev".to_owned(), "Operation terminated".to_owned())));
}

/// A step whose label was misspelt counted as done, and only a condition said so.
#[test]
fn status_has_a_row_for_a_step_that_matches_no_application() {
    let labelled = |name: &str, env: &str| {
        let done = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
        let (name, mut live) = application(name, done);
        Arc::make_mut(&mut live)["metadata"]["labels"] = json!({ "env": env });
        (name, live)
    };
    let read = |status: Value, applications: &[(String, Arc<Value>)]| {
        let applications: Applications = applications.iter().cloned().collect();
        SetSummary::read(&set(status), &applications, None, &[])
    };
    let complete = json!({"rollout": {"step": 2, "steps": 2, "progress": "1/1", "message": "m"},
        "conditions": [{"type": "RolloutProgressing", "status": "False", "reason": "x", "message": "y"}],
        "applicationStatus": [entry("dev", "1", "Healthy")]});
    let summary = read(complete.clone(), &[labelled("dev", "dev")]);
    assert_eq!(summary.empty_steps, [2]);
    let text = status::one(&summary);
    let rows: Vec<Vec<&str>> =
        text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..2], ["dev", "1"], "{text}");
    assert!(rows[1].join(" ").starts_with("- 2 - - - - - matches no Application"), "{text}");

    // Each step matches one, of which the second is in step 1 as the controller says.
    let both = [labelled("dev", "dev"), labelled("other", "prod")];
    assert_eq!(read(complete.clone(), &both).empty_steps, [] as [usize; 0]);
    // One that cannot be created may be of the step.
    let mut failing = complete.clone();
    failing["conditions"].as_array_mut().unwrap().push(
        json!({"type": "ResourcesUpToDate", "status": "False", "reason": "x", "message": "y"}),
    );
    assert_eq!(read(failing, &[labelled("dev", "dev")]).empty_steps, [] as [usize; 0]);
    // Nothing is generated: that is not said of each step.
    let mut nothing = complete;
    nothing["applicationStatus"] = json!([]);
    assert_eq!(read(nothing, &[]).empty_steps, [] as [usize; 0]);
}
