//! Where one health ends and the next begins.

use super::*;

#[test]
fn workloads_that_are_not_observed_or_declare_nothing() {
    let set = |generation: i64, status: Value| {
        object(
            "apps/v1",
            "StatefulSet",
            json!({"metadata": {"generation": generation}, "status": status}),
        )
    };
    let not_observed = "Waiting for statefulset spec update to be observed...";
    let done = "statefulset rolling update complete 0 pods at revision ...";
    let pod = |policy: &str, status: Value| {
        object("v1", "Pod", json!({"spec": {"restartPolicy": policy}, "status": status}))
    };
    let runs = || json!({"phase": "Running", "message": "m"});
    check(&[
        (
            "SE-451 an older one",
            set(2, json!({"observedGeneration": 1})),
            Some(Progressing),
            not_observed,
        ),
        ("SE-451 this one", set(2, json!({"observedGeneration": 2})), Some(Healthy), done),
        ("SE-451 a later one", set(1, json!({"observedGeneration": 2})), Some(Healthy), done),
        ("SE-451 none", set(0, json!({})), Some(Progressing), not_observed),
        ("SE-465.5 a task", pod("Never", runs()), Some(Progressing), "m"),
        ("SE-465.6 neither server nor task", pod("", runs()), Some(Unknown), "m"),
    ]);
}

/// SE-476: a Rollout that has its template from a workload, and one of an older version.
#[test]
fn a_rollout_follows_its_workload_and_its_stable_set_se_476() {
    let following = |spec: Value, observed: Value| {
        let mut rollout = object(
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"spec": spec, "status": {"observedGeneration": "1", "phase": "Healthy",
                "workloadObservedGeneration": observed}}),
        );
        rollout["metadata"]["annotations"] =
            json!({"rollout.argoproj.io/workload-generation": "5"});
        rollout
    };
    let waits = "Waiting for rollout spec update to be observed";
    let of_workload = || json!({"workloadRef": {"name": "web"}});
    let by_counts = |status: Value| {
        let mut all = json!({"observedGeneration": "1", "replicas": 1, "updatedReplicas": 1,
            "availableReplicas": 1, "currentPodHash": "new"});
        all.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        object("argoproj.io/v1alpha1", "Rollout", json!({ "status": all }))
    };
    let steps = "Waiting for roll out to finish: not all steps are complete";
    check(&[
        ("no workload", following(json!({}), Value::Null), Some(Healthy), ""),
        (
            "one that is not observed",
            following(of_workload(), json!("4")),
            Some(Progressing),
            waits,
        ),
        (
            "of an unknown generation",
            following(of_workload(), Value::Null),
            Some(Progressing),
            waits,
        ),
        ("one that is", following(of_workload(), json!("5")), Some(Healthy), ""),
        ("a later one is", following(of_workload(), json!(6)), Some(Healthy), ""),
        ("the new set is stable", by_counts(json!({"stableRS": "new"})), Some(Healthy), ""),
        ("the old one is", by_counts(json!({"stableRS": "old"})), Some(Progressing), steps),
        (
            "as older versions write it",
            by_counts(json!({"stableRS": "", "canary": {"stableRS": "old"}})),
            Some(Progressing),
            steps,
        ),
        ("none is", by_counts(json!({"stableRS": ""})), Some(Healthy), ""),
    ]);
}

/// SE-477: conditions of listeners that are no faults.
#[test]
fn a_listener_faults_by_two_conditions_se_477() {
    let gateway = |conditions: Value| {
        object(
            "gateway.networking.k8s.io/v1",
            "Gateway",
            json!({"status": {"conditions": [{"type": "Programmed", "status": "True"}],
                "listeners": [{"conditions": conditions}]}}),
        )
    };
    let of = |kind: &str, status: &str| json!([{"type": kind, "status": status, "message": "m"}]);
    let fine = "Gateway is healthy";
    check(&[
        ("resolved", gateway(of("ResolvedRefs", "True")), Some(Healthy), fine),
        ("another", gateway(of("Programmed", "False")), Some(Healthy), fine),
        ("not accepted", gateway(of("Accepted", "False")), Some(Degraded), "Listener: m"),
        ("not resolved", gateway(of("ResolvedRefs", "False")), Some(Degraded), "Listener: m"),
    ]);
    let plain = |conditions: Value| {
        let status = json!({"status": {"conditions": conditions}});
        object("gateway.networking.k8s.io/v1", "Gateway", status)
    };
    let waits = "Waiting for the gateway to be programmed";
    let mut old = of("Programmed", "False");
    old[0]["observedGeneration"] = 0.into();
    check(&[
        ("not programmed", plain(of("Programmed", "False")), Some(Progressing), "m"),
        ("not this generation", plain(old), Some(Progressing), waits),
        ("no condition", plain(json!([])), Some(Progressing), waits),
    ]);
}

/// SE-478: what kinds without a rule report, word by word.
#[test]
fn words_that_report_a_state_se_478() {
    let of = |status: Value| object("example.com/v1", "Thing", json!({ "status": status }));
    let phase = |phase: &str| of(json!({ "phase": phase }));
    let ready = |more: Value| {
        let mut status = json!({"ready": false});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of(status)
    };
    let waits = "Waiting for status.ready";
    check(&[
        ("ends with a wait", phase("ApprovalPending"), Some(Progressing), "ApprovalPending"),
        ("with progress", phase("RolloutInProgress"), Some(Progressing), "RolloutInProgress"),
        ("not ready", phase("ClusterNotReady"), Some(Progressing), "ClusterNotReady"),
        ("none of them", phase("Waltzing"), Some(Healthy), ""),
        (
            "a pause weighs more than work",
            of(json!({"phase": "Paused", "state": "Updating"})),
            Some(Suspended),
            "Paused",
        ),
        (
            "a failure more than a pause",
            of(json!({"phase": "Failed", "state": "Paused"})),
            Some(Degraded),
            "Failed",
        ),
        (
            "a word that is empty",
            of(json!({"phase": "", "state": {"phase": ""}})),
            Some(Healthy),
            "",
        ),
        (
            "a success that is not ready",
            ready(json!({"phase": "Running"})),
            Some(Progressing),
            waits,
        ),
        (
            "a failure that is not ready",
            ready(json!({"phase": "Failed"})),
            Some(Degraded),
            "Failed",
        ),
        ("not ready yet", ready(json!({"message": "starts"})), Some(Progressing), waits),
        (
            "not ready for a fault",
            ready(json!({"message": "cannot connect"})),
            Some(Degraded),
            "cannot connect",
        ),
        (
            "refused",
            of(json!({"applied": false, "message": "it waits"})),
            Some(Degraded),
            "it waits",
        ),
        (
            "not tried yet",
            of(json!({"applied": false, "message": ""})),
            Some(Progressing),
            "Waiting for status.applied",
        ),
    ]);
}

/// SE-478: a controller that works on what failed, and names that negate what they end with.
#[test]
fn conditions_that_are_read_together_se_478() {
    let of = |conditions: Value| {
        object("example.com/v1", "Thing", json!({"status": {"conditions": conditions}}))
    };
    let busy = || json!({"type": "Reconciling", "status": "True", "message": "again"});
    let is = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m"});
    check(&[
        (
            "it is tried again",
            of(json!([busy(), is("Ready", "False", "UpgradeFailed")])),
            Some(Degraded),
            "m",
        ),
        (
            "it goes on",
            of(json!([busy(), is("Ready", "False", "RetryAfterFailure")])),
            Some(Progressing),
            "again",
        ),
        (
            "it is not Ready that failed",
            of(json!([busy(), is("Healthy", "False", "ProbeFailed")])),
            Some(Progressing),
            "again",
        ),
        ("a part pauses", of(json!([is("WritesSuspended", "True", "")])), Some(Suspended), "m"),
        ("it does not pause", of(json!([is("NotSuspended", "True", "")])), Some(Healthy), ""),
        ("nor this one", of(json!([is("UnSuspended", "True", "")])), Some(Healthy), ""),
    ]);
}
