//! Properties of all comparisons.

use proptest::prelude::*;

use proptest::strategy::Strategy;

use super::*;

/// Any JSON, with names that are relevant for the comparison.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(""), Just("a"), Just("TCP"), Just("1000m"), Just("1Gi"), Just("latest")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn field() -> impl Strategy<Value = String> {
    let names = [
        "a",
        "name",
        "metadata",
        "spec",
        "template",
        "containers",
        "initContainers",
        "ports",
        "containerPort",
        "protocol",
        "env",
        "value",
        "volumes",
        "labels",
        "annotations",
        "finalizers",
        "data",
        "stringData",
        "rules",
        "resources",
        "limits",
        "cpu",
        "strategy",
        "updateStrategy",
        "volumeClaimTemplates",
        "selector",
        "subsets",
        "addresses",
        "status",
        "aggregationRule",
        "image",
        "webhooks",
        "names",
        "kind",
        "policyTypes",
        "egress",
        "ingress",
        "creationTimestamp",
        "roleRef",
        "subjects",
        "max",
        "default",
        "type",
    ];
    prop::sample::select(names.map(str::to_owned).to_vec())
}

/// An object of a kind with special rules.
fn any_object() -> impl Strategy<Value = Value> {
    let kinds = vec![
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "Endpoints"),
        ("v1", "LimitRange"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("argoproj.io/v1alpha1", "Rollout"),
        ("example.com/v1", "Widget"),
    ];
    let pod = json_value().prop_map(|spec| json!({"spec": {"template": {"spec": spec}}}));
    let body = prop_oneof![json_value(), json_value().prop_map(|spec| json!({"spec": spec})), pod];
    let past = prop_oneof![
        Just(json!({})),
        json_value().prop_map(|last| json!({"annotations": {LAST_APPLIED: last.to_string()}})),
        (fields(), fields()).prop_map(|(mine, others)| json!({"managedFields": [
            {"manager": DEFAULT_MANAGER, "operation": "Apply", "fieldsV1": mine},
            {"manager": "other", "operation": "Update", "fieldsV1": others}]})),
    ];
    (prop::sample::select(kinds), body, past).prop_map(|((api_version, kind), body, past)| {
        let mut object = if body.is_object() { body } else { json!({"spec": body}) };
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        if let (Some(metadata), Some(past)) =
            (object.get_mut("metadata").and_then(Value::as_object_mut), past.as_object())
        {
            metadata.extend(past.clone());
        } else {
            object["metadata"] = past;
        }
        object
    })
}

/// A tree of owned fields.
fn fields() -> impl Strategy<Value = Value> {
    Just(json!({})).prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            field().prop_map(|name| format!("f:{name}")),
            Just(".".to_owned()),
            Just("k:{\"name\":\"a\"}".to_owned()),
            Just("k:{\"containerPort\":1,\"protocol\":\"TCP\"}".to_owned()),
            Just("v:\"a\"".to_owned()),
            Just("i:0".to_owned()),
            Just("k:nonsense".to_owned()),
        ];
        prop::collection::btree_map(key, inner, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    })
}

fn config() -> DiffConfig {
    ignoring(json!([
        {"group": "*", "kind": "*", "jsonPointers": ["/spec/replicas", "/metadata/labels/a"],
         "jqPathExpressions": [".. | .image?"], "managedFieldsManagers": ["other"]},
    ]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_never_differs_from_itself(object in any_object()) {
        let comparison = compare(Some(&object), Some(&object), &DiffConfig::default());
        prop_assert!(!comparison.modified, "{:?}", comparison.changes);
        prop_assert_eq!(comparison.predicted, comparison.live);
    }

    #[test]
    fn normalising_twice_changes_nothing(object in any_object()) {
        let once = normalized_object(&object, &DiffConfig::default());
        prop_assert_eq!(&normalized_object(&once, &DiffConfig::default()), &once);
    }

    #[test]
    fn no_object_causes_a_panic(target in any_object(), live in any_object(), odd in json_value()) {
        let config = config();
        for (target, live) in [(&target, &live), (&target, &odd), (&odd, &live)] {
            let comparison = compare(Some(target), Some(live), &config);
            prop_assert_eq!(comparison.modified, comparison.predicted != comparison.live);
            prop_assert_eq!(unified_diff(&comparison, true).is_empty(), !comparison.modified);
            respect(target, live, &config);
        }
    }

    #[test]
    fn the_predicted_object_is_in_sync(target in any_object(), live in any_object()) {
        if target["kind"] == "Secret" {
            // Masked in the predicted object, so it cannot be used as live.
            return Ok(());
        }
        // Of one kind, never applied before: nothing is removed.
        let mut live = live;
        live["apiVersion"] = target["apiVersion"].clone();
        live["kind"] = target["kind"].clone();
        let config = DiffConfig::default();
        let first = compare(Some(&target), Some(&live), &config);
        let second = compare(Some(&target), Some(&first.predicted), &config);
        prop_assert!(!second.modified, "{:?}", second.changes);
    }
}
