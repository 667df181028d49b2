//! Every other kind with a rule.

use super::*;

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
    assert_eq!(health_of(&v1(Some("{"))).unwrap().status, Unknown, "SE-460 invalid JSON");
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

/// SE-476: Rollouts of versions without `status.phase`.
#[test]
fn an_old_rollout_that_was_aborted_is_degraded() {
    let rollout = |status: Value| {
        object(
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"spec": {"replicas": 5}, "status": status}),
        )
    };
    let aborted = json!({"observedGeneration": "1", "replicas": 5, "updatedReplicas": 1,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "RolloutAborted",
            "message": "Rollout is aborted"}]});
    let counts = json!({"observedGeneration": "1", "replicas": 6, "updatedReplicas": 5,
        "availableReplicas": 2});
    check(&[
        ("aborted", rollout(aborted), Some(Degraded), "Rollout is aborted"),
        (
            "updated replicas come before old ones",
            rollout(counts),
            Some(Progressing),
            "Waiting for roll out to finish: updated replicas are still becoming available",
        ),
    ]);
}
