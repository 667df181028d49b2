//! Workloads, Pods and Jobs.

use super::*;

#[test]
fn workloads() {
    let deployment = |parts| object("apps/v1", "Deployment", parts);
    let stateful_set = |parts| object("apps/v1", "StatefulSet", parts);
    let daemon_set = |parts| object("apps/v1", "DaemonSet", parts);
    let replica_set = |parts| object("apps/v1", "ReplicaSet", parts);
    check(&[
        (
            "V-115 generation not observed",
            deployment(json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}})),
            Some(Progressing),
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        ),
        (
            "SE-450 no status at all is not observed",
            deployment(json!({"spec": {"replicas": 1}})),
            Some(Progressing),
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        ),
        (
            "V-116 not all updated",
            deployment(json!({"spec": {"replicas": 3},
                "status": {"observedGeneration": 1, "updatedReplicas": 1}})),
            Some(Progressing),
            "Waiting for rollout to finish: 1 out of 3 new replicas have been updated...",
        ),
        (
            "V-117 old replicas left",
            deployment(json!({"spec": {"replicas": 3},
                "status": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": 3}})),
            Some(Progressing),
            "Waiting for rollout to finish: 1 old replicas are pending termination...",
        ),
        (
            "V-118 not all available",
            deployment(json!({"spec": {"replicas": 3}, "status": {"observedGeneration": 1,
                "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}})),
            Some(Progressing),
            "Waiting for rollout to finish: 2 of 3 updated replicas are available...",
        ),
        (
            "V-119 paused takes precedence over an exceeded deadline",
            deployment(json!({"spec": {"paused": true}, "status": {"conditions": [
                {"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}})),
            Some(Suspended),
            "Deployment is paused",
        ),
        (
            "SE-450 deadline exceeded",
            deployment(json!({"status": {"observedGeneration": 1, "conditions": [
                {"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}})),
            Some(Degraded),
            "Deployment \"x\" exceeded its progress deadline",
        ),
        (
            "SE-450 an exceeded deadline of an older generation is ignored",
            deployment(json!({"metadata": {"generation": 5}, "status": {"observedGeneration": 4,
                "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}})),
            Some(Progressing),
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        ),
        (
            "SE-450 complete",
            deployment(json!({"spec": {"replicas": 2}, "status": {"observedGeneration": 1,
                "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}})),
            Some(Healthy),
            "",
        ),
        (
            "V-120 no status",
            stateful_set(json!({"spec": {"replicas": 1}})),
            Some(Progressing),
            "Waiting for statefulset spec update to be observed...",
        ),
        (
            "V-121 not all ready",
            stateful_set(json!({"spec": {"replicas": 3},
                "status": {"observedGeneration": 1, "readyReplicas": 1}})),
            Some(Progressing),
            "Waiting for 2 pods to be ready...",
        ),
        (
            "V-122 partition reached",
            stateful_set(json!({"spec": {"replicas": 3, "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
                "status": {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 1}})),
            Some(Healthy),
            "partitioned roll out complete: 1 new pods have been updated...",
        ),
        (
            "SE-451 partition not reached",
            stateful_set(json!({"spec": {"replicas": 3, "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"partition": 1}}},
                "status": {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 1}})),
            Some(Progressing),
            "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...",
        ),
        (
            "V-123 rollingUpdate without partition",
            stateful_set(json!({"spec": {"replicas": 1, "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {}}},
                "status": {"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1,
                    "updateRevision": "b", "currentRevision": "a"}})),
            Some(Healthy),
            "partitioned roll out complete: 1 new pods have been updated...",
        ),
        (
            "SE-451 on delete",
            stateful_set(json!({"spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
                "status": {"observedGeneration": 1, "readyReplicas": 1}})),
            Some(Healthy),
            "statefulset has 1 ready pods",
        ),
        (
            "SE-451 revisions differ",
            stateful_set(json!({"status": {"observedGeneration": 1, "updatedReplicas": 2,
                "updateRevision": "b", "currentRevision": "a"}})),
            Some(Progressing),
            "waiting for statefulset rolling update to complete 2 pods at revision b...",
        ),
        (
            "SE-451 complete",
            stateful_set(json!({"status": {"observedGeneration": 1, "currentReplicas": 2,
                "updateRevision": "a", "currentRevision": "a"}})),
            Some(Healthy),
            "statefulset rolling update complete 2 pods at revision a...",
        ),
        (
            "SE-452 generation not observed",
            daemon_set(json!({})),
            Some(Progressing),
            "Waiting for rollout to finish: observed daemon set generation less than desired generation",
        ),
        (
            "V-124 not all updated",
            daemon_set(json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 3,
                "updatedNumberScheduled": 2}})),
            Some(Progressing),
            "Waiting for daemon set \"x\" rollout to finish: 2 out of 3 new pods have been updated...",
        ),
        (
            "SE-452 not all available",
            daemon_set(json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 3,
                "updatedNumberScheduled": 3, "numberAvailable": 1}})),
            Some(Progressing),
            "Waiting for daemon set \"x\" rollout to finish: 1 of 3 updated pods are available...",
        ),
        (
            "V-125 replica failure",
            replica_set(json!({"status": {"observedGeneration": 1, "conditions": [
                {"type": "ReplicaFailure", "status": "True", "message": "quota"}]}})),
            Some(Degraded),
            "quota",
        ),
        (
            "SE-453 not all available",
            replica_set(json!({"spec": {"replicas": 2},
                "status": {"observedGeneration": 1, "availableReplicas": 1}})),
            Some(Progressing),
            "Waiting for rollout to finish: 1 out of 2 new replicas are available...",
        ),
        (
            "SE-441 an unsupported version",
            object("apps/v1beta1", "Deployment", json!({})),
            Some(Unknown),
            "unsupported Deployment GVK: apps/v1beta1, Kind=Deployment",
        ),
    ]);
}

fn pod(restart_policy: &str, status: Value) -> Value {
    object("v1", "Pod", json!({"spec": {"restartPolicy": restart_policy}, "status": status}))
}

fn waiting(reason: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [
        {"name": "main", "state": {"waiting": {"reason": reason, "message": "why"}}}]})
}

fn ended(end: Value) -> Value {
    json!({"phase": "Failed",
        "containerStatuses": [{"name": "main", "state": {"terminated": end}}]})
}

#[test]
fn pods() {
    let annotated = |annotations: Value, status: Value| {
        let mut pod = pod("Never", status);
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let server = "argocd.argoproj.io/ignore-restart-policy";
    check(&[
        ("V-126", pod("Always", waiting("CrashLoopBackOff")), Some(Degraded), "why"),
        ("V-127", pod("Never", waiting("ImagePullBackOff")), Some(Progressing), ""),
        ("V-128", pod("Always", waiting("ContainerCreating")), Some(Progressing), ""),
        ("V-129 pull", pod("Always", waiting("ErrImagePull")), Some(Degraded), "why"),
        (
            "V-129 config",
            pod("Always", waiting("CreateContainerConfigError")),
            Some(Degraded),
            "why",
        ),
        (
            "V-130",
            pod("Never", ended(json!({"exitCode": 2}))),
            Some(Degraded),
            "container \"main\" failed with exit code 2",
        ),
        (
            "V-131",
            pod("Never", ended(json!({"reason": "OOMKilled", "exitCode": 137}))),
            Some(Degraded),
            "OOMKilled",
        ),
        (
            "SE-465.3 the container's message takes precedence",
            pod("Never", ended(json!({"message": "no disk", "exitCode": 1}))),
            Some(Degraded),
            "no disk",
        ),
        (
            "V-132",
            pod(
                "Always",
                json!({"phase": "Running", "containerStatuses": [
                {"name": "main", "lastState": {"terminated": {"exitCode": 1}}}]}),
            ),
            Some(Degraded),
            "",
        ),
        (
            "SE-465.4 an empty last state is not a restart",
            pod(
                "Always",
                json!({"phase": "Running", "containerStatuses": [
                {"name": "main", "lastState": {}}]}),
            ),
            Some(Progressing),
            "",
        ),
        (
            "V-133 a declared server",
            annotated(json!({server: "true"}), ready.clone()),
            Some(Healthy),
            "",
        ),
        (
            "V-133 a hook must end",
            annotated(
                json!({server: "true", "argocd.argoproj.io/hook": "PostSync"}),
                ready.clone(),
            ),
            Some(Progressing),
            "",
        ),
        (
            "V-133 a Helm hook must end",
            annotated(json!({server: "true", "helm.sh/hook": "post-install"}), ready.clone()),
            Some(Progressing),
            "",
        ),
        (
            "SE-182 skip alone is not a hook",
            annotated(json!({server: "true", "argocd.argoproj.io/hook": "Skip"}), ready),
            Some(Healthy),
            "",
        ),
        ("SE-465.2", pod("Never", json!({"phase": "Succeeded"})), Some(Healthy), ""),
        ("SE-465.5", pod("OnFailure", json!({"phase": "Running"})), Some(Progressing), ""),
        ("SE-465.6", pod("Always", json!({})), Some(Unknown), ""),
    ]);
}

#[test]
fn batch() {
    let job = |conditions: Value| {
        object("batch/v1", "Job", json!({"status": {"conditions": conditions}}))
    };
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
    let cron_job = |status: Value| object("batch/v1", "CronJob", json!({"status": status}));
    check(&[
        ("V-134", job(json!([])), Some(Progressing), ""),
        (
            "V-135",
            job(json!([condition("Failed", "True", "boom"), condition("Complete", "True", "")])),
            Some(Degraded),
            "boom",
        ),
        (
            "V-136",
            job(json!([condition("Suspended", "True", "Job suspended")])),
            Some(Suspended),
            "Job suspended",
        ),
        (
            "SE-582 a resumed job still runs",
            job(json!([condition("Suspended", "False", "Job resumed")])),
            Some(Progressing),
            "",
        ),
        (
            "SE-582 a failed condition with status False is ignored",
            job(json!([condition("Failed", "False", ""), condition("Complete", "True", "done")])),
            Some(Healthy),
            "done",
        ),
        (
            "V-154",
            cron_job(json!({"lastScheduleTime": "2024-01-01T10:00:00Z",
                "lastSuccessfulTime": "2024-01-01T09:00:00Z"})),
            Some(Degraded),
            "CronJob has not completed its last execution successfully",
        ),
        (
            "SE-471 running",
            cron_job(json!({"lastScheduleTime": "2024-01-01T10:00:00Z", "active": [{}],
                "lastSuccessfulTime": "2024-01-01T09:00:00Z"})),
            Some(Healthy),
            "The job is running. Its last execution may not have been successful",
        ),
        (
            "SE-471 complete, with another time zone",
            cron_job(json!({"lastScheduleTime": "2024-01-01T10:00:00Z",
                "lastSuccessfulTime": "2024-01-01T05:01:00-05:00"})),
            Some(Healthy),
            "CronJob has completed its last execution successfully",
        ),
        ("SE-471 new", cron_job(json!({})), Some(Healthy), "CronJob has not been scheduled yet"),
        (
            "SE-471 never",
            cron_job(json!({"lastScheduleTime": "2024-01-01T10:00:00Z"})),
            Some(Healthy),
            "The CronJob never completed successfully. It may not be healthy",
        ),
        (
            "SE-471 no status",
            object("batch/v1", "CronJob", json!({})),
            Some(Progressing),
            "Waiting for CronJob",
        ),
        (
            "SE-471 suspended",
            object("batch/v1", "CronJob", json!({"spec": {"suspend": true}})),
            Some(Healthy),
            "CronJob is Suspended",
        ),
    ]);
}

/// A strategy of a StatefulSet that rolls nothing out, and the times of a CronJob.
#[test]
fn what_is_not_rolled_out_is_not_waited_for() {
    let set = |strategy: &str, block: Value| {
        object(
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"replicas": 3, "updateStrategy": {"type": strategy, "rollingUpdate": block}},
                "status": {"readyReplicas": 3, "updatedReplicas": 1, "observedGeneration": 1,
                    "currentRevision": "a", "updateRevision": "a"}}),
        )
    };
    let status = |object: &Value| assess(object).0;
    assert_eq!(status(&set("RollingUpdate", json!({"partition": 0}))), Some(Progressing));
    assert_eq!(status(&set("RollingUpdate", json!({"partition": 2}))), Some(Healthy));
    assert_eq!(status(&set("OnDelete", json!({"partition": 0}))), Some(Healthy));
    let job = |scheduled: &str, succeeded: &str| {
        object(
            "batch/v1",
            "CronJob",
            json!({"status": {"lastScheduleTime": scheduled, "lastSuccessfulTime": succeeded}}),
        )
    };
    let at = "2026-01-02T03:04:05Z";
    assert_eq!(status(&job(at, at)), Some(Healthy), "at the same second");
    assert_eq!(status(&job(at, "2026-01-02T03:04:04Z")), Some(Degraded));
    assert_eq!(status(&job("later", "later")), Some(Healthy), "what is no time");
    assert_eq!(status(&job("later", "earlier")), Some(Degraded), "what is no time");
}
