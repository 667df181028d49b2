mod application;
mod choices;
mod edges;
mod generations;
mod generic;
mod kinds;
mod messages;
mod operators;
mod vectors;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Status::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
use super::rules::rule;
use super::*;
use wavegate_api::Raw;
use wavegate_api::annotations::HOOK_FINALIZER;

fn assess(object: &Value) -> (Option<Status>, String) {
    match health_of(object) {
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

/// Our own objects, complete ones, as a cluster holds them.
#[test]
fn objects_of_a_cluster_have_the_health_of_the_table() {
    let table: Value =
        wavegate_api::yaml::parse_value(include_str!("../../../../tests/data/health.yaml"))
            .unwrap();
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

/// How many groups and kinds have a rule in code; those of one rule count each.
const RULES: usize = 17;

proptest! {
    #[test]
    fn no_object_causes_a_panic(object in odd_object()) {
        let found = health_of(&object);
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
