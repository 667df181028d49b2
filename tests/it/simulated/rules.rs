//! What is written at each stage, judged by the health rules that will read it.

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use kube_sim::workloads::{View, WorkloadKind, WorkloadOptions, WorkloadStage};
use wavegate_engine::health::{self, Status};

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T03:05:05Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// An object of `kind` as an API server holds it after its creation.
fn object(kind: WorkloadKind, spec: Value) -> DynamicObject {
    let resource = kind.resource();
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": "web", "namespace": "shop", "uid": "6e0f", "generation": 1 },
        "spec": spec,
    });
    match kind {
        WorkloadKind::Pod | WorkloadKind::PersistentVolumeClaim => {
            object["status"] = json!({ "phase": "Pending" })
        }
        WorkloadKind::Service | WorkloadKind::Ingress => {
            object["status"] = json!({ "loadBalancer": {} })
        }
        _ => {}
    }
    serde_json::from_value(object).unwrap()
}

/// Writes the status of `stage` as the API server would; false when there is nothing to write.
fn advance(
    kind: WorkloadKind,
    object: &mut DynamicObject,
    stage: WorkloadStage,
    now: &str,
) -> bool {
    let view = View::new(object);
    let Some(patch) = kind.status(&view, stage, &WorkloadOptions::default(), at(now)) else {
        return false;
    };
    let before = object.data.clone();
    json_patch::merge(&mut object.data, &json!({ "status": patch }));
    object.data != before
}

fn health(object: &DynamicObject) -> Option<Status> {
    health::health_of(&serde_json::to_value(object).unwrap()).map(|health| health.status)
}

/// Every kind with a spec, and its health while progressing, in the end, and when failed.
fn cases() -> Vec<(WorkloadKind, Value, [Option<Status>; 3])> {
    let verdicts = |all: [Status; 3]| all.map(Some);
    let (progressing, healthy, degraded) = (Status::Progressing, Status::Healthy, Status::Degraded);
    let fails = verdicts([progressing, healthy, degraded]);
    let (goes_on, stays) = (verdicts([progressing, healthy, progressing]), [Some(healthy); 3]);
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "a", "image": "b" }] } });
    let all = json!([{ "name": "a", "image": "b" }, { "name": "c", "image": "d" }]);
    let update = json!({ "type": "RollingUpdate" });
    let claim = json!({ "requests": { "storage": "1Gi" } });
    vec![
        // SE-450: the only workload that can miss a deadline.
        (WorkloadKind::Deployment, json!({ "replicas": 3, "template": template }), fails),
        (WorkloadKind::Deployment, json!({ "template": template }), fails),
        (WorkloadKind::Deployment, json!({ "replicas": 0, "template": template }), stays),
        // SE-451, SE-466: a StatefulSet is never Degraded.
        (
            WorkloadKind::StatefulSet,
            json!({ "replicas": 3, "template": template, "updateStrategy": update }),
            goes_on,
        ),
        (WorkloadKind::DaemonSet, json!({ "template": template }), goes_on), // SE-452
        (WorkloadKind::ReplicaSet, json!({ "replicas": 2, "template": template }), goes_on), // SE-453
        // SE-454, SE-465: which failure a Pod shows depends on its restart policy.
        (WorkloadKind::Pod, json!({ "restartPolicy": "Always", "containers": all }), fails),
        (
            WorkloadKind::Pod,
            json!({ "restartPolicy": "Never", "containers": all, "initContainers": all }),
            fails,
        ),
        (WorkloadKind::Pod, json!({ "restartPolicy": "OnFailure", "containers": all }), fails),
        // SE-455
        (
            WorkloadKind::Job,
            json!({ "completions": 4, "parallelism": 2, "template": template }),
            fails,
        ),
        (WorkloadKind::Job, json!({ "backoffLimit": 0, "template": template }), fails),
        (
            WorkloadKind::Job,
            json!({ "suspend": true, "template": template }),
            [Some(Status::Suspended); 3],
        ),
        // SE-456
        (WorkloadKind::Service, json!({ "type": "LoadBalancer" }), goes_on),
        (WorkloadKind::Service, json!({ "type": "ClusterIP" }), stays),
        // SE-457
        (
            WorkloadKind::PersistentVolumeClaim,
            json!({ "accessModes": ["ReadWriteOnce"], "resources": claim }),
            fails,
        ),
        (WorkloadKind::Ingress, json!({}), goes_on), // SE-458
        // SE-460
        (
            WorkloadKind::HorizontalPodAutoscaler,
            json!({ "minReplicas": 2, "scaleTargetRef": { "name": "web" } }),
            fails,
        ),
        (WorkloadKind::CronJob, json!({ "schedule": "@daily" }), stays), // SE-471
        (WorkloadKind::PodDisruptionBudget, json!({ "minAvailable": 2 }), stays), // SE-473
    ]
}

#[test]
fn each_stage_has_the_health_that_it_stands_for() {
    for (kind, spec, want) in cases() {
        let stages = [
            &[WorkloadStage::Progressing][..],
            &[WorkloadStage::Progressing, WorkloadStage::Succeeded],
            &[WorkloadStage::Progressing, WorkloadStage::Failed],
        ];
        for (stages, want) in stages.into_iter().zip(want) {
            let mut object = object(kind, spec.clone());
            for stage in stages {
                advance(kind, &mut object, *stage, NOW);
            }
            assert_eq!(
                health(&object),
                want,
                "{kind:?} {spec} after {stages:?}: {}",
                object.data["status"]
            );
        }
    }
}

#[test]
fn a_stage_that_is_reached_is_not_written_again() {
    for (kind, spec, _) in cases() {
        for stage in [WorkloadStage::Progressing, WorkloadStage::Succeeded, WorkloadStage::Failed] {
            let mut object = object(kind, spec.clone());
            advance(kind, &mut object, WorkloadStage::Progressing, NOW);
            advance(kind, &mut object, stage, NOW);
            let before = object.data["status"].clone();
            assert!(
                !advance(kind, &mut object, stage, LATER),
                "{kind:?} {spec} {stage:?}: {before}"
            );
            assert_eq!(object.data["status"], before, "{kind:?} {spec} {stage:?}");
        }
    }
}

#[test]
fn a_newer_generation_progresses_anew_and_never_under_the_old_number() {
    for kind in [
        WorkloadKind::Deployment,
        WorkloadKind::StatefulSet,
        WorkloadKind::DaemonSet,
        WorkloadKind::ReplicaSet,
    ] {
        let mut object = object(kind, json!({ "replicas": 3, "template": { "v": 1 } }));
        advance(kind, &mut object, WorkloadStage::Progressing, NOW);
        advance(kind, &mut object, WorkloadStage::Succeeded, NOW);
        assert_eq!(health(&object), Some(Status::Healthy), "{kind:?}");

        object.data["spec"]["template"]["v"] = json!(2);
        object.metadata.generation = Some(2);
        assert_eq!(
            health(&object),
            Some(Status::Progressing),
            "{kind:?}: the new generation is not observed"
        );
        assert!(advance(kind, &mut object, WorkloadStage::Progressing, LATER), "{kind:?}");
        assert_eq!(object.data["status"]["observedGeneration"], 2, "{kind:?}");
        assert_eq!(
            health(&object),
            Some(Status::Progressing),
            "{kind:?}: {}",
            object.data["status"]
        );
        let before = object.data["status"].clone();
        assert!(
            !advance(kind, &mut object, WorkloadStage::Progressing, LATER),
            "{kind:?}: {before}"
        );
        assert!(advance(kind, &mut object, WorkloadStage::Succeeded, LATER), "{kind:?}");
        assert_eq!(health(&object), Some(Status::Healthy), "{kind:?}: {}", object.data["status"]);
    }
}

#[test]
fn a_rolling_update_of_a_deployment_keeps_it_available() {
    let mut web =
        object(WorkloadKind::Deployment, json!({ "replicas": 2, "template": { "v": 1 } }));
    advance(WorkloadKind::Deployment, &mut web, WorkloadStage::Progressing, NOW);
    assert_eq!(View::new(&web).condition("Available")["status"], "False");
    assert_eq!(web.data["status"]["unavailableReplicas"], 2);
    advance(WorkloadKind::Deployment, &mut web, WorkloadStage::Succeeded, NOW);
    assert_eq!(web.data["status"]["unavailableReplicas"], Value::Null);

    web.data["spec"]["template"]["v"] = json!(2);
    web.metadata.generation = Some(2);
    advance(WorkloadKind::Deployment, &mut web, WorkloadStage::Failed, LATER);
    let (status, view) = (&web.data["status"], View::new(&web));
    assert_eq!(status["availableReplicas"], 2);
    assert_eq!(view.condition("Available")["status"], "True");
    assert_eq!(
        view.condition("Available")["lastTransitionTime"],
        NOW,
        "it was available all the time"
    );
    assert_eq!(view.condition("Progressing")["reason"], "ProgressDeadlineExceeded");
    assert_eq!(view.condition("Progressing")["lastTransitionTime"], LATER);
}

#[test]
fn a_paused_deployment_does_not_progress() {
    let mut web =
        object(WorkloadKind::Deployment, json!({ "replicas": 2, "paused": true, "template": {} }));
    advance(WorkloadKind::Deployment, &mut web, WorkloadStage::Succeeded, NOW);
    assert_eq!(View::new(&web).condition("Progressing")["reason"], "DeploymentPaused");
    assert_eq!(health(&web), Some(Status::Suspended));
}

#[test]
fn a_partitioned_stateful_set_keeps_its_old_revision_below_the_partition() {
    let mut web = object(
        WorkloadKind::StatefulSet,
        json!({ "replicas": 3, "template": { "v": 1 }, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }),
    );
    advance(WorkloadKind::StatefulSet, &mut web, WorkloadStage::Succeeded, NOW);
    let first = web.data["status"]["currentRevision"].clone();
    web.data["spec"]["template"]["v"] = json!(2);
    web.metadata.generation = Some(2);
    advance(WorkloadKind::StatefulSet, &mut web, WorkloadStage::Progressing, NOW);
    assert_eq!(health(&web), Some(Status::Progressing));
    advance(WorkloadKind::StatefulSet, &mut web, WorkloadStage::Succeeded, NOW);
    let status = &web.data["status"];
    assert_eq!((&status["updatedReplicas"], &status["currentReplicas"]), (&json!(1), &json!(2)));
    assert_eq!(status["currentRevision"], first);
    assert_ne!(status["updateRevision"], first);
    assert_eq!(health(&web), Some(Status::Healthy)); // V-122
}

#[test]
fn what_has_ended_never_changes_again() {
    let spec = json!({ "restartPolicy": "Never", "containers": [{ "name": "a", "image": "b" }] });
    for (kind, spec) in
        [(WorkloadKind::Job, json!({ "completions": 2 })), (WorkloadKind::Pod, spec)]
    {
        for end in [WorkloadStage::Succeeded, WorkloadStage::Failed] {
            let mut ended = object(kind, spec.clone());
            assert!(advance(kind, &mut ended, end, NOW), "{kind:?}");
            ended.metadata.generation = Some(2);
            for stage in
                [WorkloadStage::Progressing, WorkloadStage::Succeeded, WorkloadStage::Failed]
            {
                let status =
                    kind.status(&View::new(&ended), stage, &WorkloadOptions::default(), at(LATER));
                assert_eq!(status, None, "{kind:?} {end:?} {stage:?}");
            }
        }
    }
}

#[test]
fn a_failed_container_of_a_long_running_pod_crashes_again_and_again() {
    let mut pod =
        object(WorkloadKind::Pod, json!({ "containers": [{ "name": "a", "image": "b" }] }));
    advance(WorkloadKind::Pod, &mut pod, WorkloadStage::Failed, NOW);
    let container = &pod.data["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(View::new(&pod).condition("Ready")["status"], "False");
}
