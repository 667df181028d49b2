//! What is written at each stage, judged by the health rules that will read it.

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use kube_sim::workloads::{Kind, Options, Stage, View};
use wavegate_engine::health::{self, Status};

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T03:05:05Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// An object of `kind` as an API server holds it after its creation.
fn object(kind: Kind, spec: Value) -> DynamicObject {
    let resource = kind.resource();
    let mut object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": "web", "namespace": "shop", "uid": "6e0f", "generation": 1 },
        "spec": spec,
    });
    match kind {
        Kind::Pod | Kind::PersistentVolumeClaim => object["status"] = json!({ "phase": "Pending" }),
        Kind::Service | Kind::Ingress => object["status"] = json!({ "loadBalancer": {} }),
        _ => {}
    }
    serde_json::from_value(object).unwrap()
}

/// Writes the status of `stage` as the API server would; false when there is nothing to write.
fn advance(kind: Kind, object: &mut DynamicObject, stage: Stage, now: &str) -> bool {
    let view = View::new(object);
    let Some(patch) = kind.status(&view, stage, &Options::default(), at(now)) else { return false };
    let before = object.data.clone();
    json_patch::merge(&mut object.data, &json!({ "status": patch }));
    object.data != before
}

fn health(object: &DynamicObject) -> Option<Status> {
    health::of(&serde_json::to_value(object).unwrap()).map(|health| health.status)
}

/// Every kind with a spec, and its health while progressing, in the end, and when failed.
fn cases() -> Vec<(Kind, Value, [Option<Status>; 3])> {
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
        (Kind::Deployment, json!({ "replicas": 3, "template": template }), fails),
        (Kind::Deployment, json!({ "template": template }), fails),
        (Kind::Deployment, json!({ "replicas": 0, "template": template }), stays),
        // SE-451, SE-466: a StatefulSet is never Degraded.
        (
            Kind::StatefulSet,
            json!({ "replicas": 3, "template": template, "updateStrategy": update }),
            goes_on,
        ),
        (Kind::DaemonSet, json!({ "template": template }), goes_on), // SE-452
        (Kind::ReplicaSet, json!({ "replicas": 2, "template": template }), goes_on), // SE-453
        // SE-454, SE-465: which failure a Pod shows depends on its restart policy.
        (Kind::Pod, json!({ "restartPolicy": "Always", "containers": all }), fails),
        (
            Kind::Pod,
            json!({ "restartPolicy": "Never", "containers": all, "initContainers": all }),
            fails,
        ),
        (Kind::Pod, json!({ "restartPolicy": "OnFailure", "containers": all }), fails),
        // SE-455
        (Kind::Job, json!({ "completions": 4, "parallelism": 2, "template": template }), fails),
        (Kind::Job, json!({ "backoffLimit": 0, "template": template }), fails),
        (Kind::Job, json!({ "suspend": true, "template": template }), [Some(Status::Suspended); 3]),
        // SE-456
        (Kind::Service, json!({ "type": "LoadBalancer" }), goes_on),
        (Kind::Service, json!({ "type": "ClusterIP" }), stays),
        // SE-457
        (
            Kind::PersistentVolumeClaim,
            json!({ "accessModes": ["ReadWriteOnce"], "resources": claim }),
            fails,
        ),
        (Kind::Ingress, json!({}), goes_on), // SE-458
        // SE-460
        (
            Kind::HorizontalPodAutoscaler,
            json!({ "minReplicas": 2, "scaleTargetRef": { "name": "web" } }),
            fails,
        ),
        (Kind::CronJob, json!({ "schedule": "@daily" }), stays), // SE-471
        (Kind::PodDisruptionBudget, json!({ "minAvailable": 2 }), stays), // SE-473
    ]
}

#[test]
fn each_stage_has_the_health_that_it_stands_for() {
    for (kind, spec, want) in cases() {
        let stages = [
            &[Stage::Progressing][..],
            &[Stage::Progressing, Stage::Succeeded],
            &[Stage::Progressing, Stage::Failed],
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
        for stage in [Stage::Progressing, Stage::Succeeded, Stage::Failed] {
            let mut object = object(kind, spec.clone());
            advance(kind, &mut object, Stage::Progressing, NOW);
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
    for kind in [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet, Kind::ReplicaSet] {
        let mut object = object(kind, json!({ "replicas": 3, "template": { "v": 1 } }));
        advance(kind, &mut object, Stage::Progressing, NOW);
        advance(kind, &mut object, Stage::Succeeded, NOW);
        assert_eq!(health(&object), Some(Status::Healthy), "{kind:?}");

        object.data["spec"]["template"]["v"] = json!(2);
        object.metadata.generation = Some(2);
        assert_eq!(
            health(&object),
            Some(Status::Progressing),
            "{kind:?}: the new generation is not observed"
        );
        assert!(advance(kind, &mut object, Stage::Progressing, LATER), "{kind:?}");
        assert_eq!(object.data["status"]["observedGeneration"], 2, "{kind:?}");
        assert_eq!(
            health(&object),
            Some(Status::Progressing),
            "{kind:?}: {}",
            object.data["status"]
        );
        let before = object.data["status"].clone();
        assert!(!advance(kind, &mut object, Stage::Progressing, LATER), "{kind:?}: {before}");
        assert!(advance(kind, &mut object, Stage::Succeeded, LATER), "{kind:?}");
        assert_eq!(health(&object), Some(Status::Healthy), "{kind:?}: {}", object.data["status"]);
    }
}

#[test]
fn a_rolling_update_of_a_deployment_keeps_it_available() {
    let mut web = object(Kind::Deployment, json!({ "replicas": 2, "template": { "v": 1 } }));
    advance(Kind::Deployment, &mut web, Stage::Progressing, NOW);
    assert_eq!(View::new(&web).condition("Available")["status"], "False");
    assert_eq!(web.data["status"]["unavailableReplicas"], 2);
    advance(Kind::Deployment, &mut web, Stage::Succeeded, NOW);
    assert_eq!(web.data["status"]["unavailableReplicas"], Value::Null);

    web.data["spec"]["template"]["v"] = json!(2);
    web.metadata.generation = Some(2);
    advance(Kind::Deployment, &mut web, Stage::Failed, LATER);
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
        object(Kind::Deployment, json!({ "replicas": 2, "paused": true, "template": {} }));
    advance(Kind::Deployment, &mut web, Stage::Succeeded, NOW);
    assert_eq!(View::new(&web).condition("Progressing")["reason"], "DeploymentPaused");
    assert_eq!(health(&web), Some(Status::Suspended));
}

#[test]
fn a_partitioned_stateful_set_keeps_its_old_revision_below_the_partition() {
    let mut web = object(
        Kind::StatefulSet,
        json!({ "replicas": 3, "template": { "v": 1 }, "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } }),
    );
    advance(Kind::StatefulSet, &mut web, Stage::Succeeded, NOW);
    let first = web.data["status"]["currentRevision"].clone();
    web.data["spec"]["template"]["v"] = json!(2);
    web.metadata.generation = Some(2);
    advance(Kind::StatefulSet, &mut web, Stage::Progressing, NOW);
    assert_eq!(health(&web), Some(Status::Progressing));
    advance(Kind::StatefulSet, &mut web, Stage::Succeeded, NOW);
    let status = &web.data["status"];
    assert_eq!((&status["updatedReplicas"], &status["currentReplicas"]), (&json!(1), &json!(2)));
    assert_eq!(status["currentRevision"], first);
    assert_ne!(status["updateRevision"], first);
    assert_eq!(health(&web), Some(Status::Healthy)); // V-122
}

#[test]
fn what_has_ended_never_changes_again() {
    let spec = json!({ "restartPolicy": "Never", "containers": [{ "name": "a", "image": "b" }] });
    for (kind, spec) in [(Kind::Job, json!({ "completions": 2 })), (Kind::Pod, spec)] {
        for end in [Stage::Succeeded, Stage::Failed] {
            let mut ended = object(kind, spec.clone());
            assert!(advance(kind, &mut ended, end, NOW), "{kind:?}");
            ended.metadata.generation = Some(2);
            for stage in [Stage::Progressing, Stage::Succeeded, Stage::Failed] {
                let status = kind.status(&View::new(&ended), stage, &Options::default(), at(LATER));
                assert_eq!(status, None, "{kind:?} {end:?} {stage:?}");
            }
        }
    }
}

#[test]
fn a_failed_container_of_a_long_running_pod_crashes_again_and_again() {
    let mut pod = object(Kind::Pod, json!({ "containers": [{ "name": "a", "image": "b" }] }));
    advance(Kind::Pod, &mut pod, Stage::Failed, NOW);
    let container = &pod.data["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(View::new(&pod).condition("Ready")["status"], "False");
}
