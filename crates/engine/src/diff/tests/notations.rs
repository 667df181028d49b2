//! Notations that mean the same (SE-155, SE-156, SE-160 … SE-168).

use std::sync::Arc;

use super::*;

fn widget(body: Value) -> Value {
    object("example.com/v1", "Widget", body)
}

fn check(rows: Vec<(&str, Value, Value, bool)>) {
    for (name, target, live, want) in rows {
        assert_eq!(modified(&target, &live), want, "{name}");
    }
}

#[test]
fn metadata_that_is_empty_is_omitted_in_all_kinds() {
    let metadata = |metadata: Value| widget(json!({ "metadata": metadata }));
    check(vec![
        ("annotations", metadata(json!({"annotations": {}})), metadata(json!({})), false),
        ("labels in live", metadata(json!({})), metadata(json!({"labels": {}})), false),
        ("finalizers", metadata(json!({"finalizers": []})), metadata(json!({})), false),
        ("owners", metadata(json!({"ownerReferences": []})), metadata(json!({})), false),
        ("labels", metadata(json!({"labels": {"a": "1"}})), metadata(json!({})), true),
        ("a label", metadata(json!({"labels": {"a": ""}})), metadata(json!({})), true),
        ("another field", metadata(json!({"other": {}})), metadata(json!({})), true),
        ("not in the spec", widget(json!({"labels": {}})), widget(json!({})), true),
    ]);
}

#[test]
fn whole_numbers_are_equal_as_far_as_they_are_exact_se_156() {
    let spec = |spec: Value| widget(json!({ "spec": spec }));
    check(vec![
        ("in a list", spec(json!([1.0, {"n": 2.0}])), spec(json!([1, {"n": 2}])), false),
        ("negative", spec(json!({"n": -3.0})), spec(json!({"n": -3})), false),
        (
            "the last exact one",
            spec(json!({"n": 9_007_199_254_740_991.0})),
            spec(json!({"n": 9_007_199_254_740_991_i64})),
            false,
        ),
        // Other numbers are written with the same digits.
        (
            "beyond",
            spec(json!({"n": 9_007_199_254_740_992.0})),
            spec(json!({"n": 9_007_199_254_740_992_i64})),
            true,
        ),
        ("large", spec(json!({"n": u64::MAX})), spec(json!({"n": u64::MAX})), false),
        ("other large ones", spec(json!({"n": u64::MAX})), spec(json!({"n": u64::MAX - 1})), true),
    ]);
}

/// Texts of users, where empty is a value and no unit is one.
#[test]
fn texts_of_users_are_what_they_are_se_155() {
    let map = |data: Value| object("v1", "ConfigMap", json!({ "data": data }));
    let labels = |labels: Value| object("v1", "ConfigMap", json!({"metadata": {"labels": labels}}));
    let definition = |schema: Value| {
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"spec": {"versions": [version]}}),
        )
    };
    let default = |default: Value| {
        definition(json!({"properties": {"spec": {"type": "object", "default": default}}}))
    };
    let items = |items: Value| definition(json!({"properties": {"list": {"items": items}}}));
    let any = |all: Value| definition(json!({ "anyOf": all }));
    check(vec![
        ("an empty value", map(json!({"a": ""})), map(json!({})), true),
        ("a quantity", labels(json!({"divisor": "1000m"})), labels(json!({"divisor": "1"})), true),
        ("of data", map(json!({"sizeLimit": "1000m"})), map(json!({"sizeLimit": "1"})), true),
        (
            "a default of a definition",
            default(json!({"sizeLimit": "1000m", "text": ""})),
            default(json!({"sizeLimit": "1", "text": ""})),
            true,
        ),
        (
            "its lines",
            default(json!({"caBundle": "a\nb"})),
            default(json!({"caBundle": "ab"})),
            true,
        ),
        (
            "what a part of a schema omits",
            items(json!({"description": ""})),
            items(json!({})),
            false,
        ),
        ("an alternative", any(json!([{"nullable": false}])), any(json!([{}])), false),
        ("what it does not omit", items(json!({"nullable": true})), items(json!({})), true),
    ]);
}

#[test]
fn zeros_and_empties_are_omitted_where_the_type_omits_them_se_155() {
    let pod = |spec: Value| {
        object("apps/v1", "Deployment", json!({"spec": {"template": {"spec": spec}}}))
    };
    let service = |spec: Value| object("v1", "Service", json!({ "spec": spec }));
    let deployment = |spec: Value| object("apps/v1", "Deployment", json!({ "spec": spec }));
    let scaler = |target: Value| {
        let metric =
            json!({"type": "Object", "object": {"metric": {"name": "m"}, "target": target}});
        let group = "autoscaling/v2";
        object(group, "HorizontalPodAutoscaler", json!({"spec": {"metrics": [metric]}}))
    };
    let env = |value: &str| {
        pod(json!({"containers": [{"name": "main", "env": [{"name": "target", "value": value}]}]}))
    };
    check(vec![
        ("false", pod(json!({"hostNetwork": false})), pod(json!({})), false),
        ("true", pod(json!({"hostNetwork": true})), pod(json!({})), true),
        ("a pointer", pod(json!({"shareProcessNamespace": false})), pod(json!({})), true),
        ("zero", deployment(json!({"minReadySeconds": 0})), deployment(json!({})), false),
        ("one", deployment(json!({"minReadySeconds": 1})), deployment(json!({})), true),
        ("zero of a pointer", deployment(json!({"replicas": 0})), deployment(json!({})), true),
        ("a text", service(json!({"externalName": ""})), service(json!({})), false),
        (
            "a metric",
            scaler(json!({"type": "Value", "value": "1000m"})),
            scaler(json!({"type": "Value", "value": "1"})),
            false,
        ),
        ("a variable", env("1000m"), env("1"), true),
    ]);
}

/// Nulls are removed at any depth, but not as elements of a list.
#[test]
fn nulls_are_no_values_se_162() {
    let spec = |spec: Value| widget(json!({ "spec": spec }));
    let config = DiffConfig::default();
    for (nulls, want) in [
        (json!({"a": null, "b": 1}), json!({"b": 1})),
        (json!({"in": {"a": null}}), json!({"in": {}})),
        (json!({"in": {"a": {"b": null}, "c": 1}}), json!({"in": {"a": {}, "c": 1}})),
        (json!({"list": [{"a": null}, null]}), json!({"list": [{}, null]})),
        (json!({"list": [{"a": null}, {"b": null}]}), json!({"list": [{}, {}]})),
    ] {
        let found = normalized_object(&spec(nulls.clone()), &config);
        assert_eq!(found, spec(want), "{nulls}");
    }
    // Without its nulls, an object of a type that omits it is empty.
    let pod = |metadata: Value| object("v1", "Pod", json!({ "metadata": metadata }));
    assert!(!modified(&pod(json!({"labels": {"a": null}})), &pod(json!({}))));
}

/// SE-164: the server says of `data` who owns what in it.
#[test]
fn a_secret_is_stored_with_its_texts_in_data_se_164() {
    let secret = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "stringData": {"a": "b"}});
    let stored = |object: &Value| as_stored(object).into_owned();
    let own = secret("v1", "Secret");
    assert_eq!(stored(&own), json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}}));
    for other in [secret("example.com/v1", "Secret"), secret("v1", "ConfigMap")] {
        assert_eq!(stored(&other), other);
    }
}

/// SE-165: by a setting, another controller writes the rules of an aggregated role.
#[test]
fn rules_of_an_aggregated_role_are_ignored_by_a_setting_se_165() {
    let role = |aggregates: bool, verb: &str| {
        let mut role = object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            json!({"rules": [{"verbs": [verb]}]}),
        );
        if aggregates {
            role["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {"a": "1"}}]});
        }
        role
    };
    for (is_set, aggregates, want) in
        [(true, true, false), (true, false, true), (false, true, true), (false, false, true)]
    {
        let system = SystemSettings { ignores_aggregated_roles: is_set, ..Default::default() };
        let config = DiffConfig { system: Arc::new(system), ..DiffConfig::default() };
        let (target, live) = (role(aggregates, "get"), role(aggregates, "list"));
        let found = compare(Some(&target), Some(&live), &config).modified;
        assert_eq!(found, want, "set {is_set}, aggregates {aggregates}");
    }
}

/// SE-168: fields of custom resources that have the type of a field of Kubernetes.
#[test]
fn fields_of_a_known_type_have_its_notations_se_168() {
    let known = |path: &[&str], of: KnownType| KnownField {
        group: "*.com".to_owned(),
        kind: "Widget".to_owned(),
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        of,
    };
    let system = SystemSettings {
        known_fields: vec![
            known(&["spec", "pod"], KnownType::Core),
            known(&["spec", "parts", "size"], KnownType::Quantity),
            known(&["spec", "limits"], KnownType::Quantities),
            known(&["spec", "wait"], KnownType::Duration),
        ],
        ..SystemSettings::default()
    };
    let config = DiffConfig { system: Arc::new(system), ..DiffConfig::default() };
    let cpu = |cpu: &str| json!({"pod": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}});
    let size = |size: &str| json!({"parts": [{"size": size}, {"size": [size]}]});
    let rows = [
        ("of a Pod", cpu("1000m"), cpu("1"), false),
        ("of another Pod", cpu("1000m"), cpu("2"), true),
        ("omitted", json!({"pod": {"hostPID": false}}), json!({"pod": {}}), false),
        ("a quantity in lists", size("1024Mi"), size("1Gi"), false),
        ("another quantity", size("1024Mi"), size("2Gi"), true),
        ("a map", json!({"limits": {"a": "1000m"}}), json!({"limits": {"a": "1"}}), false),
        ("a duration", json!({"wait": "90m"}), json!({"wait": "1h30m0s"}), false),
        ("another duration", json!({"wait": "90m"}), json!({"wait": "1h31m0s"}), true),
        ("no duration", json!({"wait": "soon"}), json!({"wait": "later"}), true),
    ];
    for (name, target, live, want) in rows {
        for (api_version, kind, knows) in [
            ("example.com/v1", "Widget", true),
            ("example.org/v1", "Widget", false),
            ("example.com/v1", "Gadget", false),
        ] {
            let of = |spec: &Value| object(api_version, kind, json!({ "spec": spec }));
            let found = compare(Some(&of(&target)), Some(&of(&live)), &config).modified;
            assert_eq!(found, want || !knows, "{name} of {api_version} {kind}");
        }
    }
}
