use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Status::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
use super::*;

fn assess(object: &Value) -> (Option<Status>, String) {
    match of(object) {
        Some(health) => (Some(health.status), health.message),
        None => (None, String::new()),
    }
}

/// An object of a kind with the given parts merged in.
fn object(api_version: &str, kind: &str, parts: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "x", "namespace": "default", "generation": 1},
    });
    for (key, value) in parts.as_object().unwrap() {
        match object.get_mut(key).and_then(Value::as_object_mut) {
            Some(map) => map.extend(value.as_object().unwrap().clone()),
            None => object[key] = value.clone(),
        }
    }
    object
}

fn check(cases: &[(&str, Value, Option<Status>, &str)]) {
    for (name, object, status, message) in cases {
        let (found, said) = assess(object);
        assert_eq!(found, *status, "{name}: {said}");
        assert_eq!(said, *message, "{name}");
    }
}

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

#[test]
fn core_and_network() {
    let service = |ingress: Value| {
        object(
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": ingress}}}),
        )
    };
    let claim =
        |phase: &str| object("v1", "PersistentVolumeClaim", json!({"status": {"phase": phase}}));
    let budget = |conditions: Value| {
        object("policy/v1", "PodDisruptionBudget", json!({"status": {"conditions": conditions}}))
    };
    let gateway = |status: Value| {
        object("gateway.networking.k8s.io/v1", "Gateway", json!({"status": status}))
    };
    check(&[
        ("V-137 empty", service(json!([])), Some(Progressing), ""),
        ("V-137 assigned", service(json!([{}])), Some(Healthy), ""),
        ("V-138", claim(""), Some(Unknown), ""),
        ("SE-457", claim("Lost"), Some(Degraded), ""),
        (
            "SE-459",
            object(
                "apiregistration.k8s.io/v1beta1",
                "APIService",
                json!({"status": {"conditions": [
                {"type": "Available", "status": "False", "reason": "Gone", "message": "no service"}]}}),
            ),
            Some(Progressing),
            "Gone: no service",
        ),
        (
            "SE-459 no status",
            object("apiregistration.k8s.io/v1", "APIService", json!({})),
            Some(Progressing),
            "Waiting to be processed",
        ),
        (
            "SE-473",
            budget(
                json!([{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]),
            ),
            Some(Degraded),
            "PodDisruptionBudget has SyncFailed",
        ),
        (
            "SE-473 too few pods",
            budget(
                json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}]),
            ),
            Some(Healthy),
            "PodDisruptionBudget has InsufficientPods",
        ),
        ("SE-473 none", budget(json!([])), Some(Progressing), "Waiting for status"),
        (
            "SE-477 listener",
            gateway(
                json!({"conditions": [{"type": "Programmed", "status": "True"}], "listeners": [
                {"conditions": [{"type": "ResolvedRefs", "status": "False", "message": "no cert"}]}]}),
            ),
            Some(Degraded),
            "Listener: no cert",
        ),
        (
            "SE-477 programmed",
            gateway(json!({"conditions": [{"type": "Programmed", "status": "True"}]})),
            Some(Healthy),
            "Gateway is healthy",
        ),
        (
            "SE-477 programmed in an older generation",
            object(
                "gateway.networking.k8s.io/v1",
                "Gateway",
                json!({"metadata": {"generation": 2},
                "status": {"conditions": [
                    {"type": "Programmed", "status": "True", "observedGeneration": 1}]}}),
            ),
            Some(Progressing),
            "Waiting for the gateway to be programmed",
        ),
    ]);
}

#[test]
fn autoscaling() {
    let v2 = |conditions: Value| {
        object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"status": {"conditions": conditions}}),
        )
    };
    let v1 = |annotation: Option<&str>| {
        let mut object = object("autoscaling/v1", "HorizontalPodAutoscaler", json!({}));
        if let Some(text) = annotation {
            object["metadata"]["annotations"] =
                json!({"autoscaling.alpha.kubernetes.io/conditions": text});
        }
        object
    };
    check(&[
        ("V-139", v1(None), Some(Progressing), "Waiting to Autoscale"),
        ("SE-460 an empty list", v1(Some("[]")), Some(Progressing), "Waiting to Autoscale"),
        ("SE-460 null", v1(Some("null")), Some(Progressing), "Waiting to Autoscale"),
        (
            "V-140",
            v2(json!([{"type": "AbleToScale", "status": "True", "message": "fine"},
                {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "blind"}])),
            Some(Degraded),
            "blind",
        ),
        (
            "V-141",
            v2(json!([{"type": "ScalingActive", "status": "True"}])),
            Some(Progressing),
            "Waiting to Autoscale",
        ),
        (
            "SE-460 limited",
            v2(json!([{"type": "ScalingLimited", "status": "True", "message": "at most"}])),
            Some(Healthy),
            "at most",
        ),
        (
            "SE-460 a beta version",
            object("autoscaling/v2beta1", "HorizontalPodAutoscaler", json!({})),
            Some(Unknown),
            "unsupported HorizontalPodAutoscaler GVK: autoscaling/v2beta1, Kind=HorizontalPodAutoscaler",
        ),
    ]);
    assert_eq!(of(&v1(Some("{"))).unwrap().status, Unknown, "SE-460 invalid JSON");
}

#[test]
fn custom_kinds() {
    let workflow = |phase: &str| {
        object(
            "argoproj.io/v1alpha1",
            "Workflow",
            json!({"status": {"phase": phase, "message": "m"}}),
        )
    };
    let certificate = |generation: i64, conditions: Value| {
        object(
            "cert-manager.io/v1",
            "Certificate",
            json!({"metadata": {"generation": generation},
            "status": {"conditions": conditions}}),
        )
    };
    let crd = |conditions: Value| {
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"status": {"conditions": conditions}}),
        )
    };
    let rollout =
        |status: Value| object("argoproj.io/v1alpha1", "Rollout", json!({"status": status}));
    let set = |conditions: Value| {
        object(
            "argoproj.io/v1alpha1",
            "ApplicationSet",
            json!({"status": {"conditions": conditions}}),
        )
    };
    let is = |kind: &str, status: &str| json!({"type": kind, "status": status, "message": "m"});
    check(&[
        ("SE-461 new", workflow(""), Some(Progressing), "m"),
        ("SE-461 done", workflow("Succeeded"), Some(Healthy), "m"),
        ("SE-461 failed", workflow("Error"), Some(Degraded), "m"),
        ("SE-461 other", workflow("Odd"), Some(Unknown), "m"),
        ("SE-472 new", crd(json!([])), Some(Progressing), "Status conditions not found"),
        (
            "SE-472 established",
            crd(json!([is("Established", "True")])),
            Some(Healthy),
            "CRD is healthy",
        ),
        (
            "SE-472 names",
            crd(json!([is("NamesAccepted", "False"), is("Established", "True")])),
            Some(Degraded),
            "CRD names have not been accepted: m",
        ),
        (
            "SE-472 installing",
            crd(json!([{"type": "Established", "status": "False", "reason": "Installing"}])),
            Some(Progressing),
            "CRD is being installed",
        ),
        (
            "SE-472 not",
            crd(json!([is("Established", "False")])),
            Some(Degraded),
            "CRD is not established",
        ),
        (
            "SE-474 renewing",
            certificate(1, json!([is("Ready", "True"), is("Issuing", "True")])),
            Some(Progressing),
            "m",
        ),
        ("SE-474 ready", certificate(1, json!([is("Ready", "True")])), Some(Healthy), "m"),
        ("SE-474 not", certificate(1, json!([is("Ready", "False")])), Some(Degraded), "m"),
        ("SE-474 new", certificate(1, json!([])), Some(Progressing), "Waiting for certificate"),
        (
            "SE-474 ready in an older generation",
            certificate(3, json!([{"type": "Ready", "status": "True", "observedGeneration": 2}])),
            Some(Progressing),
            "Waiting for certificate",
        ),
        (
            "SE-475",
            object(
                "bitnami.com/v1alpha1",
                "SealedSecret",
                json!({"status": {"conditions": [is("Synced", "False")]}}),
            ),
            Some(Degraded),
            "m",
        ),
        (
            "SE-476 not observed",
            rollout(json!({"phase": "Healthy"})),
            Some(Progressing),
            "Waiting for rollout spec update to be observed",
        ),
        (
            "SE-476 observed as text",
            rollout(
                json!({"phase": "Paused", "message": "CanaryPauseStep", "observedGeneration": "1"}),
            ),
            Some(Suspended),
            "CanaryPauseStep",
        ),
        (
            "SE-476 legacy counts",
            rollout(
                json!({"observedGeneration": "5f78d4c9b6", "updatedReplicas": 1, "availableReplicas": 1}),
            ),
            Some(Healthy),
            "",
        ),
        ("SE-476 set failed", set(json!([is("ErrorOccurred", "True")])), Some(Degraded), "m"),
        (
            "SE-476 set rolling",
            set(json!([is("ResourcesUpToDate", "True"), is("RolloutProgressing", "True")])),
            Some(Progressing),
            "m",
        ),
        ("SE-476 set done", set(json!([is("ResourcesUpToDate", "True")])), Some(Healthy), "m"),
        ("V-143", object("v1", "ConfigMap", json!({})), None, ""),
        ("SE-468", object("argoproj.io/v1alpha1", "Application", json!({})), None, ""),
        (
            "SE-441 another group's kind of that name",
            object("example.com/v1", "Deployment", json!({})),
            None,
            "",
        ),
    ]);
}

#[test]
fn deletion_is_progressing_unless_a_hook_is_kept() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
    let mut config_map = object("v1", "ConfigMap", deleted);
    let want = (Some(Progressing), "Pending deletion".to_owned());
    assert_eq!(assess(&config_map), want, "V-142 any object");
    config_map["metadata"]["finalizers"] = json!([HOOK_FINALIZER]);
    assert_eq!(
        assess(&config_map),
        (None, String::new()),
        "V-142 hook finalizer, kind without health"
    );

    let mut job = object(
        "batch/v1",
        "Job",
        json!({"status": {"conditions": [
        {"type": "Complete", "status": "True", "message": "done"}]}}),
    );
    job["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    job["metadata"]["finalizers"] = json!(["other", HOOK_FINALIZER]);
    assert_eq!(assess(&job), (Some(Healthy), "done".to_owned()), "V-142 hook finalizer");
}

#[test]
fn statuses_are_ordered_from_best_to_worst() {
    let order = [Healthy, Suspended, Progressing, Missing, Degraded, Unknown];
    assert!(order.is_sorted(), "SE-440");
    assert!(Degraded.is_worse_than(Missing) && !Healthy.is_worse_than(Healthy));
    for status in order {
        assert_eq!(Status::parse(status.as_str()), Some(status));
        assert_eq!(serde_json::to_value(status).unwrap(), json!(status.as_str()));
    }
    assert_eq!(Status::parse("Great"), None, "V-150");
}

fn resource(kind: &'static str, name: &'static str, status: Option<Status>) -> Resource<'static> {
    static OBJECT: Value = Value::Null;
    Resource {
        group: "",
        kind,
        namespace: "default",
        name,
        live: Some(&OBJECT),
        health: status.map(|status| Health::new(status, "")),
        hook: false,
        skipped: false,
        self_referenced: true,
        is_the_application: false,
    }
}

fn missing(name: &'static str) -> Resource<'static> {
    Resource { live: None, ..resource("Pod", name, None) }
}

#[test]
fn an_application_has_the_health_of_its_worst_resource() {
    let of = |status| resource("Pod", "p", Some(status));
    let child =
        |status| Resource { group: "argoproj.io", ..resource("Application", "c", Some(status)) };
    let ignored =
        json!({"metadata": {"annotations": {"argocd.argoproj.io/ignore-healthcheck": "true"}}});
    let cases: Vec<(&str, Vec<Resource<'_>>, Status)> = vec![
        ("V-144 suspended", vec![of(Healthy), of(Suspended)], Suspended),
        ("V-144 progressing", vec![of(Healthy), of(Suspended), of(Progressing)], Progressing),
        ("V-144 degraded and missing", vec![of(Degraded), missing("m")], Degraded),
        ("V-145", vec![of(Healthy), missing("m")], Healthy),
        ("V-146", vec![missing("a"), missing("b")], Missing),
        ("V-147", vec![], Healthy),
        ("V-148", vec![Resource { live: Some(&ignored), ..of(Degraded) }], Healthy),
        ("V-153 degraded child", vec![child(Degraded)], Degraded),
        ("V-153 unknown child", vec![child(Unknown)], Healthy),
        ("SE-490 missing child", vec![child(Missing)], Healthy),
        ("SE-490 hook", vec![Resource { hook: true, ..of(Degraded) }], Healthy),
        ("SE-492 only a missing hook", vec![Resource { hook: true, ..missing("h") }], Healthy),
        ("SE-490 skip-only", vec![Resource { skipped: true, ..of(Degraded) }], Healthy),
        ("SE-490 itself", vec![Resource { is_the_application: true, ..of(Degraded) }], Healthy),
        ("SE-494 a copy", vec![Resource { self_referenced: false, ..of(Degraded) }], Healthy),
        ("SE-490 no health", vec![resource("ConfigMap", "c", None)], Healthy),
    ];
    for (name, resources, want) in cases {
        assert_eq!(combine(&resources).health.status, want, "{name}");
    }
    assert_eq!(combine(&[missing("a")]).health.message, "", "V-146");
}

#[test]
fn the_message_names_three_resources_and_counts_the_others() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pods: Vec<_> = names.map(|name| resource("Pod", name, Some(Degraded))).into();
    let combined = combine(&pods);
    assert_eq!(
        combined.health.message, "Caused by Pod:default/a, Pod:default/b, Pod:default/c and 5 more",
        "V-149"
    );
    assert_eq!(combined.worst.len(), 8);

    let cluster_scoped = Resource {
        group: "apiextensions.k8s.io",
        namespace: "",
        ..resource("CustomResourceDefinition", "x", Some(Progressing))
    };
    let combined = combine(&[resource("Pod", "fine", Some(Healthy)), cluster_scoped]);
    let named = "apiextensions.k8s.io/CustomResourceDefinition:x";
    assert_eq!(combined.health.message, format!("Caused by {named}"), "SE-493");
    assert_eq!(combined.worst, [named]);
}

/// Our own objects, complete ones, as a cluster holds them.
#[test]
fn objects_of_a_cluster_have_the_health_of_the_table() {
    let table: Value = crate::yaml::value(include_str!("../../../tests/data/health.yaml")).unwrap();
    let mut statuses: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for row in table.as_array().unwrap() {
        let (object, name) = (&row["object"], row["of"].as_str().unwrap());
        let (found, said) = assess(object);
        let found = found.map_or("none", Status::as_str);
        let kind = object["kind"].as_str().unwrap();
        assert_eq!(found, row["health"], "{kind}: {name}: {said}");
        assert_eq!(said, row["message"].as_str().unwrap_or_default(), "{kind}: {name}");
        let api_version = object["apiVersion"].as_str().unwrap();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let of_kind = statuses.entry((group.to_owned(), kind.to_owned())).or_default();
        of_kind.insert(found.to_owned());
    }
    for ((group, kind), statuses) in &statuses {
        // The old group of Ingress has the rule of the new one.
        let has_rule = rule(group, kind).is_some() && group != "extensions";
        let both = statuses.contains("Healthy") && statuses.len() > 1;
        assert!(!has_rule || both, "{group}/{kind} is only ever {statuses:?} in the table");
    }
    let covered = statuses.keys().filter(|(group, kind)| rule(group, kind).is_some()).count();
    assert_eq!(covered, RULES, "a kind with a rule is not in the table");
}

/// How many groups and kinds have a rule; those of one rule count each.
const RULES: usize = 24;

/// Where further objects lie; they are not part of the repository, and the table
/// above does without them.
fn vectors() -> PathBuf {
    let shared = std::env::var("WAVEGATE_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").to_owned());
    PathBuf::from(shared).join("vectors/health")
}

#[test]
fn shared_vectors() {
    let folder = vectors();
    let mut table = String::new();
    match File::open(folder.join("expected.tsv")) {
        Ok(mut file) => file.read_to_string(&mut table).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: no health vectors at {} (set WAVEGATE_SHARED)", folder.display());
            return;
        }
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    let rows: Vec<(&str, &str)> =
        table.lines().skip(1).filter_map(|line| line.split_once('\t')).collect();
    assert!(rows.len() > 30, "the table of vectors was not understood: {} rows", rows.len());
    for (file, want) in rows {
        let reader = File::open(folder.join(file)).unwrap();
        let object: Value = serde_saphyr::from_reader(reader).unwrap();
        let found = of(&object).map_or("none", |health| health.status.as_str());
        assert_eq!(found, want, "{file}");
    }
}

proptest! {
    #[test]
    fn no_object_causes_a_panic(object in odd_object()) {
        let found = of(&object);
        prop_assert!(found.is_some(), "every kind of the strategy has a rule");
    }
}

/// Objects of known kinds with arbitrary values in the fields of the rules.
fn odd_object() -> impl Strategy<Value = Value> {
    let kinds = prop_oneof![
        Just(("apps/v1", "Deployment")),
        Just(("apps/v1", "StatefulSet")),
        Just(("apps/v1", "DaemonSet")),
        Just(("apps/v1", "ReplicaSet")),
        Just(("v1", "Pod")),
        Just(("v1", "Service")),
        Just(("batch/v1", "Job")),
        Just(("batch/v1", "CronJob")),
        Just(("autoscaling/v2", "HorizontalPodAutoscaler")),
        Just(("argoproj.io/v1alpha1", "Rollout")),
        Just(("apiextensions.k8s.io/v1", "CustomResourceDefinition")),
        Just(("gateway.networking.k8s.io/v1", "Gateway")),
    ];
    let odd = || {
        prop_oneof![
            Just(Value::Null),
            Just(json!([])),
            Just(json!([null, 1, {"type": 7}])),
            Just(json!({"a": 1})),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from),
        ]
    };
    (kinds, odd(), odd(), odd(), odd()).prop_map(|((api_version, kind), a, b, c, d)| {
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": a, "generation": b, "annotations": c},
            "spec": {"replicas": a, "paused": b, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": c}}, "type": d},
            "status": {"replicas": c, "updatedReplicas": d, "observedGeneration": i64::MAX,
                "conditions": a, "containerStatuses": b, "loadBalancer": c},
        })
    })
}
