//! Of what generation a status is, and what counts although it is of an older one.

use super::*;

/// An object of generation 5.
fn of(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    let parts = json!({"metadata": {"generation": 5}, "spec": spec, "status": status});
    object(api_version, kind, parts)
}

const FLUX: &str = "kustomize.toolkit.fluxcd.io/v1";
const CLUSTERS: &str = "cluster.x-k8s.io/v1beta1";

/// A controller that its object tells to stop does not observe: the status stays as it was.
#[test]
fn what_its_spec_pauses_is_suspended_whatever_its_status_is_of() {
    let old = || {
        json!({"observedGeneration": 4, "phase": "Provisioned", "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 4}]})
    };
    let kinds = [
        (FLUX, "Kustomization", "suspend"),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "suspend"),
        ("source.toolkit.fluxcd.io/v1", "GitRepository", "suspend"),
        (CLUSTERS, "Cluster", "paused"),
        (CLUSTERS, "MachineDeployment", "paused"),
        ("postgresql.cnpg.io/v1", "ScheduledBackup", "suspend"),
        ("psmdb.percona.com/v1", "PerconaServerMongoDB", "pause"),
        ("monitoring.coreos.com/v1", "Alertmanager", "paused"),
        ("example.com/v1", "Thing", "suspended"),
    ];
    for (version, kind, field) in kinds {
        let found = |pauses: bool, status: Value| {
            assess(&of(version, kind, json!({field: pauses}), status)).0
        };
        assert_eq!(found(true, old()), Some(Suspended), "{kind}");
        assert_eq!(found(true, Value::Null), Some(Suspended), "{kind} that is new");
        assert_ne!(found(false, old()), Some(Suspended), "{kind} that is not");
        assert_ne!(found(false, old()), Some(Healthy), "{kind} of an older generation");
    }
    // Where a pause is another field, or no boolean.
    let text = of("example.com/v1", "Thing", json!({"paused": "true"}), old());
    assert_eq!(assess(&text).0, Some(Progressing));
    let mut kafka = of("kafka.strimzi.io/v1beta2", "Kafka", json!({}), old());
    kafka["metadata"]["annotations"] = json!({"strimzi.io/pause-reconciliation": "true"});
    assert_eq!(assess(&kafka).0, Some(Suspended));
}

#[test]
fn a_condition_of_this_generation_decides_whatever_the_status_is_of() {
    let ready = |status: &str, observed: Value| {
        json!({"type": "Ready", "status": status, "reason": "ArtifactFailure", "message": "m",
            "observedGeneration": observed})
    };
    let flux = |observed: i64, condition: Value| {
        let status = json!({"observedGeneration": observed, "conditions": [condition]});
        of("helm.toolkit.fluxcd.io/v2", "HelmRelease", json!({}), status)
    };
    let generic = |observed: i64, condition: Value| {
        let status = json!({"observedGeneration": observed, "phase": "Running",
            "conditions": [condition]});
        of("example.com/v1", "Thing", json!({}), status)
    };
    for kind in [&flux as &dyn Fn(i64, Value) -> Value, &generic] {
        for old in [-1, 0, 4] {
            assert_eq!(assess(&kind(old, ready("False", json!(5)))).0, Some(Degraded), "{old}");
            assert_eq!(assess(&kind(old, ready("True", json!(5)))).0, Some(Healthy), "{old}");
            let undated = ready("False", Value::Null);
            assert_eq!(assess(&kind(old, undated)).0, Some(Progressing), "{old}");
        }
        // And the other way round.
        assert_eq!(assess(&kind(5, ready("True", json!(4)))).0, Some(Progressing));
        assert_eq!(assess(&kind(5, ready("False", json!(-1)))).0, Some(Progressing));
    }
    // A rule that goes through the elements of the list.
    let cluster = |condition: Value| {
        let status = json!({"observedGeneration": 4, "phase": "Provisioned",
            "conditions": [condition]});
        assess(&of(CLUSTERS, "Cluster", json!({}), status)).0
    };
    assert_eq!(cluster(ready("False", json!(5))), Some(Degraded));
    assert_eq!(cluster(ready("False", json!(4))), Some(Progressing));
    assert_eq!(cluster(ready("True", json!(5))), Some(Progressing), "the phase is an old one");
}

#[test]
fn a_condition_of_an_older_generation_counts_by_no_way() {
    let old = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "severity": "Error", "reason": "Failed",
            "message": "m", "observedGeneration": 4})
    };
    // Each rule goes through the elements of the list.
    let cases = [
        (
            CLUSTERS,
            "Cluster",
            json!({"phase": "Provisioned", "conditions": [old("Ready", "False")]}),
            Healthy,
        ),
        (
            "serving.knative.dev/v1",
            "Service",
            json!({"conditions": [old("RoutesReady", "False"), {"type": "Ready", "status": "True"}]}),
            Healthy,
        ),
        (
            "operator.knative.dev/v1beta1",
            "KnativeEventing",
            json!({"conditions": [old("InstallSucceeded", "True"), {"type": "Ready", "status": "True"}]}),
            Degraded,
        ),
        (
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            json!({"parents": [{"parentRef": {"name": "g"}, "conditions": [old("Accepted", "True")]}]}),
            Progressing,
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"conditions": [old("DisruptionAllowed", "False")]}),
            Progressing,
        ),
    ];
    for (version, kind, status, want) in cases {
        let (found, said) = assess(&of(version, kind, json!({}), status));
        assert_eq!(found, Some(want), "{kind}: {said}");
    }
}

/// A controller may leave it empty: an address of a load balancer, a time, a counter of zero.
#[test]
fn a_rule_demands_no_field_that_may_stay_empty() {
    let valid = json!([{"type": "Valid", "status": "True", "observedGeneration": 5}]);
    let cases = [
        (
            "projectcontour.io/v1",
            "HTTPProxy",
            json!({"currentStatus": "valid", "conditions": valid, "loadBalancer": {}}),
        ),
        (
            "kafka.strimzi.io/v1beta2",
            "KafkaConnect",
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        ),
        (
            "elasticsearch.k8s.elastic.co/v1",
            "Elasticsearch",
            json!({"phase": "Ready", "health": "green"}),
        ),
        (
            "keda.sh/v1alpha1",
            "ScaledObject",
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        ),
    ];
    for (version, kind, status) in cases {
        let (found, said) = assess(&of(version, kind, json!({}), status));
        assert_eq!(found, Some(Healthy), "{kind}: {said}");
    }
}
