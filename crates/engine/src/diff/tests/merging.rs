//! How lists and objects merge (SE-152, SE-157, SE-162, SE-605, Appendix B.1).

use super::*;

fn widget(spec: Value) -> Value {
    object("example.com/v1", "Widget", json!({ "spec": spec }))
}

fn pods(spec: Value) -> Value {
    object("apps/v1", "Deployment", json!({"spec": {"template": {"spec": spec}}}))
}

fn ports(ports: Value) -> Value {
    pods(json!({"containers": [{"name": "main", "image": "i:1", "ports": ports}]}))
}

/// Live, with fields that our manager has applied.
fn ours(live: Value, fields: Value) -> Value {
    let entry = json!({"manager": DEFAULT_MANAGER, "operation": "Apply", "fieldsV1": fields});
    with(&live, json!({"metadata": {"managedFields": [entry]}}))
}

fn check(rows: Vec<(&str, Value, Value, bool)>) {
    for (name, target, live, want) in rows {
        let found = compare(Some(&target), Some(&live), &DiffConfig::default());
        assert_eq!(found.modified, want, "{name}: {:?}", found.changes);
    }
}

/// Two ports of one number differ by their protocols, and the order is that of the server.
#[test]
fn a_key_that_is_left_out_has_its_default() {
    let both = || json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]);
    let two = |first: Value| ports(json!([first, {"containerPort": 53, "protocol": "UDP"}]));
    check(vec![
        ("absent", two(json!({"containerPort": 53})), ports(both()), false),
        ("null", two(json!({"containerPort": 53, "protocol": null})), ports(both()), false),
        ("as it is", two(json!({"containerPort": 53, "protocol": "TCP"})), ports(both()), false),
        ("another one", two(json!({"containerPort": 53, "protocol": "SCTP"})), ports(both()), true),
        (
            "absent in live",
            ports(json!([{"containerPort": 53, "protocol": "TCP"}])),
            ports(json!([{"containerPort": 53}])),
            false,
        ),
        // The server has another default for it, which may be any.
        (
            "a key without a known default",
            pods(json!({"topologySpreadConstraints": [{"topologyKey": "a", "maxSkew": 1}]})),
            pods(json!({"topologySpreadConstraints": [
                {"topologyKey": "b", "whenUnsatisfiable": "DoNotSchedule"},
                {"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]})),
            false,
        ),
    ]);
}

/// Elements that have no keys, or the same ones, are merged by position: none is lost, and none doubled.
#[test]
fn elements_without_distinct_keys_merge_by_position() {
    let named = |name: &str| json!({"hostnames": [name]});
    let of = |ip: &str, name: &str| json!({"ip": ip, "hostnames": [name]});
    for (why, target, live, want) in [
        (
            "the target has no key",
            json!([named("a")]),
            json!([of("1", "b")]),
            json!([of("1", "a")]),
        ),
        ("neither has one", json!([named("a")]), json!([named("b")]), json!([named("a")])),
        (
            "live has one twice",
            json!([of("2", "a")]),
            json!([of("1", "b"), of("1", "c")]),
            json!([of("2", "a")]),
        ),
        (
            "the target has one twice",
            json!([of("2", "a"), of("2", "b")]),
            json!([of("1", "c")]),
            json!([of("2", "a"), of("2", "b")]),
        ),
        (
            "all have one",
            json!([of("2", "a")]),
            json!([of("1", "b")]),
            json!([of("1", "b"), of("2", "a")]),
        ),
    ] {
        let (target, live) =
            (pods(json!({"hostAliases": target})), pods(json!({"hostAliases": live})));
        let found = compare(Some(&target), Some(&live), &DiffConfig::default());
        assert_eq!(found.predicted["spec"]["template"]["spec"]["hostAliases"], want, "{why}");
    }
}

#[test]
fn what_was_applied_and_left_the_source_goes_also_from_lists_se_152() {
    let list = |names: &[&str]| {
        let all = names.iter().map(|name| json!({"name": name, "image": "i:1"}));
        pods(json!({"containers": Value::from_iter(all)}))
    };
    check(vec![
        (
            "an element",
            list(&["a"]),
            applied_by_kubectl(list(&["a", "b"]), &list(&["a", "b"])),
            true,
        ),
        (
            "one of others",
            list(&["a"]),
            applied_by_kubectl(list(&["a", "b"]), &list(&["a"])),
            false,
        ),
        (
            "a member of a set",
            object("v1", "Pod", json!({"metadata": {"finalizers": ["a"]}})),
            applied_by_kubectl(
                object("v1", "Pod", json!({"metadata": {"finalizers": ["a", "b"]}})),
                &object("v1", "Pod", json!({"metadata": {"finalizers": ["a", "b"]}})),
            ),
            true,
        ),
        (
            "a member of others",
            object("v1", "Pod", json!({"metadata": {"finalizers": ["a"]}})),
            object("v1", "Pod", json!({"metadata": {"finalizers": ["a", "b"]}})),
            false,
        ),
    ]);
}

/// SE-162: for a type of Kubernetes, and for the server, a null is a value that is taken away.
#[test]
fn a_null_takes_a_value_away_but_not_that_of_others_in_a_custom_resource_se_162() {
    let null = || widget(json!({"a": null}));
    let live = || widget(json!({"a": 1}));
    let deadline = |value: Value| {
        object("apps/v1", "Deployment", json!({"spec": {"progressDeadlineSeconds": value}}))
    };
    check(vec![
        ("a type of Kubernetes", deadline(Value::Null), deadline(json!(500)), true),
        ("the default", deadline(Value::Null), deadline(json!(600)), false),
        ("of others", null(), live(), false),
        ("ours by the server", null(), ours(live(), json!({"f:spec": {"f:a": {}}})), true),
        ("of others by the server", null(), ours(live(), json!({"f:spec": {"f:z": {}}})), true),
    ]);
}

/// SE-157: what the server says that we own as a whole is one value.
#[test]
fn what_we_own_as_a_whole_is_one_value_se_157() {
    let service = |ports: Value| object("v1", "Service", json!({"spec": {"ports": ports}}));
    let (http, https) = (json!({"port": 80}), json!({"port": 443}));
    let of_ports = |below: Value| json!({"f:spec": {"f:ports": below}});
    let element = json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}});
    let account = |names: Value| object("v1", "ServiceAccount", json!({ "secrets": names }));
    let token = || json!([{"name": "token"}]);
    let context = |context: Value| pods(json!({ "securityContext": context }));
    let of_context = || json!({"f:spec": {"f:template": {"f:spec": {"f:securityContext": {}}}}});
    let map = |value: Value| widget(json!({ "map": value }));
    let selector = |value: Value| widget(json!({ "selector": value }));
    let whole = |field: &str| json!({"f:spec": {field: {}}});
    check(vec![
        (
            "a list",
            service(json!([http])),
            ours(service(json!([http, https])), of_ports(json!({}))),
            true,
        ),
        (
            "its elements",
            service(json!([http])),
            ours(service(json!([http, https])), of_ports(element)),
            false,
        ),
        (
            "an empty list",
            account(json!([])),
            ours(account(token()), json!({"f:secrets": {}})),
            false,
        ),
        (
            "a map",
            map(json!({"a": "1"})),
            ours(map(json!({"a": "1", "b": "2"})), whole("f:map")),
            true,
        ),
        ("an empty map", map(json!({})), ours(map(json!({"b": "2"})), whole("f:map")), false),
        (
            "an empty selector of a custom resource",
            selector(json!({})),
            ours(selector(json!({"b": "2"})), whole("f:selector")),
            false,
        ),
        (
            "an empty object",
            context(json!({})),
            ours(context(json!({"runAsNonRoot": true})), of_context()),
            false,
        ),
    ]);
}

/// SE-605: elements are found by the keys of the definition, which may have defaults.
#[test]
fn keys_of_a_definition_have_their_defaults_se_605() {
    let mount = json!({"properties": {"path": {}, "mode": {"default": "rw"}, "size": {}}});
    let mounts = json!({"x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["path", "mode"], "items": mount});
    let inner = json!({"properties": {"mounts": mounts}});
    let spec = json!({"properties": {"mounts": mounts, "parts": {"items": inner}}});
    let kind = wavegate_api::kind::GroupVersionKind::new("example.com", "v1", "Widget");
    let schema = std::sync::Arc::new(json!({"properties": {"spec": spec}}));
    let schemas = Schemas::of_kinds([(kind.clone(), schema.clone())]);
    let digest = schemas.digest();
    let config = DiffConfig { schemas: std::sync::Arc::new(schemas), ..DiffConfig::default() };
    let list = |first: Value| json!([first, {"path": "/a", "mode": "ro", "size": 2}]);
    let stored = || json!([{"path": "/a", "mode": "ro", "size": 2}, {"path": "/a", "mode": "rw", "size": 1}]);
    for (name, first, want) in [
        ("the default", json!({"path": "/a", "size": 1}), false),
        ("as it is", json!({"path": "/a", "mode": "rw", "size": 1}), false),
        ("another size", json!({"path": "/a", "size": 5}), true),
        ("another mode", json!({"path": "/a", "mode": "wo", "size": 1}), true),
    ] {
        for nested in [false, true] {
            let of = |mounts: Value| match nested {
                true => widget(json!({"parts": [{"mounts": mounts}]})),
                false => widget(json!({ "mounts": mounts })),
            };
            let (target, live) = (of(list(first.clone())), of(stored()));
            let found = compare(Some(&target), Some(&live), &config);
            assert_eq!(found.modified, want, "{name}, nested {nested}: {:?}", found.changes);
        }
    }
    // A digest changes when a definition is read again, and with the kinds that have one.
    let again = Schemas::of_kinds([(kind.clone(), schema)]).digest();
    let other = Schemas::of_kinds([(kind, std::sync::Arc::new(json!({})))]).digest();
    let none = Schemas::default().digest();
    assert_eq!(digest, again);
    assert!(digest != other && digest != none && other != none);
}

/// What a comparison lists, of an object on both sides only.
#[test]
fn one_side_alone_has_no_changes_se_151() {
    let object = widget(json!({"a": 1}));
    let config = DiffConfig::default();
    for (target, live, modified) in
        [(Some(&object), None, true), (None, Some(&object), false), (None, None, false)]
    {
        let found = compare(target, live, &config);
        assert_eq!((found.modified, found.changes), (modified, vec![]));
    }
}

/// Rules of one kind do not reach kinds of its name elsewhere.
#[test]
fn kinds_of_other_groups_have_no_rules_of_kubernetes() {
    // SE-154: the claim templates of a StatefulSet are shown without defaults.
    let set = |group: &str, claim: Value| {
        object(group, "StatefulSet", json!({"spec": {"volumeClaimTemplates": [claim]}}))
    };
    let (own, stored) =
        (json!({"name": "d"}), json!({"name": "d", "status": {"phase": "Pending"}}));
    for (group, is_shown) in [("apps/v1", false), ("apps.kruise.io/v1", true)] {
        let (target, live) = (set(group, own.clone()), set(group, stored.clone()));
        let found = compare(Some(&target), Some(&live), &DiffConfig::default());
        let claim = &found.live["spec"]["volumeClaimTemplates"][0];
        assert_eq!(claim.get("status").is_some(), is_shown, "{group}");
    }
    // A Service that leaves its address to the server has that of live.
    let service = |group: &str, address: &str| {
        object(group, "Service", json!({"spec": {"clusterIP": address}}))
    };
    assert!(!modified(&service("v1", ""), &service("v1", "10.0.0.1")));
    let other = "serving.knative.dev/v1";
    assert!(modified(&service(other, ""), &service(other, "10.0.0.1")));
}
