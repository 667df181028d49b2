//! Field managers: what an apply takes over (SE-346), and what of others is ignored (SE-174).

use super::*;

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "fieldsV1": fields})
}

fn owned_by(object: &Value, entries: &[Value]) -> Value {
    with(object, json!({"metadata": {"managedFields": entries}}))
}

fn widget(spec: Value) -> Value {
    object("example.com/v1", "Widget", json!({ "spec": spec }))
}

#[test]
fn an_apply_takes_over_the_fields_of_former_updates_se_346() {
    let former = || entry("kubectl", "Update", json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}));
    let again = || entry("kubectl-old", "Update", json!({"f:spec": {"f:b": {"f:d": {}}}}));
    let ours = |fields: Value| entry("us", "Apply", fields);
    let other = || entry("other", "Update", json!({"f:status": {}}));
    let of_status = |mut entry: Value| {
        entry["subresource"] = "status".into();
        entry
    };
    let of_former = || json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}});
    let of_both = || json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}});
    let of_status_only = || of_status(ours(json!({"f:status": {}})));
    type Case = (&'static str, Vec<Value>, Option<Vec<Value>>);
    let cases: Vec<Case> = vec![
        ("no managers", vec![], None),
        ("only others", vec![other(), ours(json!({}))], None),
        ("its update of the status", vec![of_status(former()), ours(json!({}))], None),
        ("its apply", vec![entry("kubectl", "Apply", of_former())], None),
        (
            "beside ours",
            vec![other(), ours(json!({"f:spec": {"f:z": {}}})), former()],
            Some(vec![other(), ours(with(&of_former(), json!({"f:spec": {"f:z": {}}})))]),
        ),
        ("of two managers", vec![former(), ours(json!({})), again()], Some(vec![ours(of_both())])),
        (
            "nothing is applied yet",
            vec![former(), other(), again()],
            Some(vec![other(), ours(of_both())]),
        ),
        (
            "what is applied to the status is not that of the object",
            vec![of_status_only(), former()],
            Some(vec![of_status_only(), ours(of_former())]),
        ),
        (
            "what has no fields gets them",
            vec![ours(Value::Null), former()],
            Some(vec![ours(of_former())]),
        ),
    ];
    for (name, entries, want) in cases {
        let live = owned_by(&json!({}), &entries);
        assert_eq!(taken_over(&live, &["kubectl", "kubectl-old"], "us"), want, "{name}");
    }
}

/// SE-346: what was applied client-side is removed by the first server-side apply without it.
#[test]
fn fields_that_are_migrated_count_as_ours_se_346() {
    let fields = json!({"f:spec": {"f:a": {}, "f:b": {}}});
    let live = |manager: &str| {
        owned_by(&widget(json!({"a": 1, "b": 2})), &[entry(manager, "Update", fields.clone())])
    };
    let structured = DiffConfig { server_side_apply: true, ..DiffConfig::default() };
    let without = DiffConfig { migrates: false, ..structured.clone() };
    let renamed = DiffConfig { former_manager: "tool".to_owned(), ..structured.clone() };
    let target = widget(json!({"a": 1}));
    let client_side = json!({"metadata": {"annotations": {"argocd.argoproj.io/sync-options": "ServerSideApply=false"}}});
    for (name, target, manager, config, want) in [
        ("kubectl", target.clone(), DEFAULT_FORMER_MANAGER, &structured, true),
        ("our own updates", target.clone(), DEFAULT_MANAGER, &structured, true),
        ("another manager", target.clone(), "tool", &structured, false),
        ("the one of the setting", target.clone(), "tool", &renamed, true),
        ("not migrated", target.clone(), DEFAULT_FORMER_MANAGER, &without, false),
        ("our own, not migrated", target.clone(), DEFAULT_MANAGER, &without, false),
        ("nothing left out", widget(json!({"a": 1, "b": 2})), DEFAULT_MANAGER, &structured, false),
    ] {
        let comparison = compare(Some(&target), Some(&live(manager)), config);
        assert_eq!(comparison.strategy, DiffStrategy::Structured, "{name}");
        assert_eq!(comparison.modified, want, "{name}: {:?}", comparison.changes);
    }
    // An object that says so is applied client-side (SE-321).
    let own = with(&target, client_side);
    let comparison = compare(Some(&own), Some(&live(DEFAULT_FORMER_MANAGER)), &structured);
    assert_eq!(comparison.strategy, DiffStrategy::TwoWay);
}

/// What becomes empty by the removal of our fields goes, what was empty stays.
#[test]
fn what_is_empty_without_our_fields_is_removed_se_157() {
    let fields = json!({"f:spec": {
        "f:map": {"f:a": {}}, "f:tags": {"v:\"x\"": {}}, "f:none": {"f:a": {}},
        "f:nothing": {"v:\"x\"": {}},
    }});
    let live = widget(json!({"map": {"a": 1}, "tags": ["x"], "none": {}, "nothing": [], "own": 1}));
    let live = owned_by(&live, &[entry(DEFAULT_MANAGER, "Apply", fields)]);
    let target = widget(json!({}));
    let comparison = compare(Some(&target), Some(&live), &DiffConfig::default());
    assert_eq!(comparison.predicted["spec"], json!({"none": {}, "nothing": [], "own": 1}));
    let paths: Vec<&str> = comparison.changes.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/spec/map", "/spec/tags"]);
}

/// SE-174: by fields, by elements of lists by their keys, of sets and by positions.
#[test]
fn what_a_listed_manager_owns_is_ignored_se_174() {
    let config = ignoring(json!([{"group": "*", "kind": "*", "managedFieldsManagers": ["tool"]}]));
    let of = |target: &Value, live: &Value, fields: &Value| {
        let live = owned_by(live, &[entry("tool", "Update", fields.clone())]);
        compare(Some(target), Some(&live), &config).modified
    };
    let spec = |below: Value| json!({ "f:spec": below });
    let list = |below: Value| spec(json!({ "f:list": below }));
    let ports = |port: Value| object("v1", "Service", json!({"spec": {"ports": [port]}}));
    let (one, other) = (json!({"list": ["a", "b"]}), json!({"list": ["a", "c"]}));
    let extra = || json!({"extra": {"a": 1, "b": 1}});
    let both = |a: i64, b: i64| json!({"extra": {"a": a, "b": b}});
    let rows = [
        ("a position", one.clone(), other.clone(), list(json!({"i:1": {}})), false),
        ("another position", one.clone(), other.clone(), list(json!({"i:0": {}})), true),
        ("no such position", one.clone(), other, list(json!({"i:2": {}, "i:x": {}})), true),
        (
            "a member",
            json!({"list": ["a"]}),
            json!({"list": ["a", "x"]}),
            list(json!({"v:\"x\"": {}})),
            false,
        ),
        (
            "another member",
            json!({"list": ["a"]}),
            json!({"list": ["a", "x"]}),
            list(json!({"v:\"y\"": {}, "v:": {}})),
            true,
        ),
        (
            "a value as a whole",
            extra(),
            json!({}),
            spec(json!({"f:extra": {".": {}, "f:a": {}}})),
            false,
        ),
        ("a part of it", extra(), json!({}), spec(json!({"f:extra": {"f:a": {}}})), true),
        (
            "its own field of a value that both have",
            both(1, 1),
            both(2, 1),
            spec(json!({"f:extra": {".": {}, "f:a": {}}})),
            false,
        ),
        (
            "the field of another one",
            both(1, 1),
            both(2, 2),
            spec(json!({"f:extra": {".": {}, "f:a": {}}})),
            true,
        ),
        (
            "two fields",
            both(1, 1),
            both(2, 2),
            spec(json!({"f:extra": {"f:a": {}, "f:b": {}}})),
            false,
        ),
    ];
    for (name, target, live, fields, want) in rows {
        assert_eq!(of(&widget(target), &widget(live), &fields), want, "{name}");
    }
    // A port without a protocol is one of TCP.
    let key = |protocol: &str| format!("k:{{\"port\":80,\"protocol\":\"{protocol}\"}}");
    for (protocol, want) in [("TCP", false), ("UDP", true)] {
        let fields = spec(json!({"f:ports": {key(protocol): {"f:nodePort": {}}}}));
        let (target, live) =
            (ports(json!({"port": 80, "nodePort": 1})), ports(json!({"port": 80, "nodePort": 2})));
        assert_eq!(of(&target, &live, &fields), want, "{protocol}");
    }
}

/// SE-178: a change of an object is looked at without what the rules for it ignore.
#[test]
fn objects_of_a_watch_are_seen_without_what_is_ignored_se_178() {
    let rules = |entries: Value| ignoring(entries).rules;
    let object =
        with(&widget(json!({"a": 1, "b": {"c": 2}})), json!({"metadata": {"namespace": "n"}}));
    let rest = |spec: Value| {
        let mut rest = object.clone();
        rest["spec"] = spec;
        Some(rest)
    };
    let about = |more: Value| with(&json!({"group": "example.com", "kind": "Widget"}), more);
    let (pointer, jq) =
        (json!({"jsonPointers": ["/spec/a"]}), json!({"jqPathExpressions": [".spec.b.c"]}));
    let cases = [
        ("no rule", json!([]), None),
        ("a rule of others", json!([{"kind": "Widget", "jsonPointers": ["/spec/a"]}]), None),
        ("a pointer", json!([about(pointer.clone())]), rest(json!({"b": {"c": 2}}))),
        ("an expression", json!([about(jq.clone())]), rest(json!({"a": 1, "b": {}}))),
        ("both", json!([about(pointer.clone()), about(jq)]), rest(json!({"b": {}}))),
        (
            "an expression that fails is skipped",
            json!([about(json!({"jqPathExpressions": [".spec.a.deep"]})), about(pointer)]),
            rest(json!({"b": {"c": 2}})),
        ),
        (
            "nothing of it is there",
            json!([about(json!({"jsonPointers": ["/spec/none"]}))]),
            rest(json!({"a": 1, "b": {"c": 2}})),
        ),
    ];
    for (name, entries, want) in cases {
        assert_eq!(without_ignored(&rules(entries), &object), want, "{name}");
    }
    // What only a worker can evaluate is not asked for: all of the object counts.
    let mut foreign = rules(json!([about(json!({"jsonPointers": ["/spec/a"]}))]));
    foreign[0].expressions.push(jq::JqExpression::foreign("input"));
    assert_eq!(without_ignored(&foreign, &object), None);
}

/// SE-331: what is ignored has the value of live, of the element that is the same one.
#[test]
fn elements_of_lists_are_the_same_by_their_keys_se_331() {
    let group = |kind: &str, expression: &str| {
        ignoring(json!([{"group": "*", "kind": kind, "jqPathExpressions": [expression]}]))
    };
    let service = |ports: Value| object("v1", "Service", json!({"spec": {"ports": ports}}));
    let port = |port: i64, node: i64| json!({"port": port, "nodePort": node});
    let applied = respect(
        &service(json!([port(80, 1), port(443, 2)])),
        &service(json!([port(443, 20), port(80, 10)])),
        &group("Service", ".spec.ports[].nodePort"),
    );
    assert_eq!(applied["spec"]["ports"], json!([port(80, 10), port(443, 20)]), "by port");

    let steps = group("Widget", ".spec.steps[].image");
    let named = |name: &str, image: &str| json!({"name": name, "image": image});
    let applied = respect(
        &widget(json!({"steps": [named("a", "a:1"), named("new", "n:1")]})),
        &widget(json!({"steps": [named("b", "b:2"), named("a", "a:2")]})),
        &steps,
    );
    assert_eq!(
        applied["spec"]["steps"],
        json!([named("a", "a:2"), named("new", "n:1")]),
        "by name"
    );

    let image = |image: &str| json!({ "image": image });
    let applied = respect(
        &widget(json!({"steps": [image("a:1"), image("b:1"), image("c:1")]})),
        &widget(json!({"steps": [image("a:2"), image("b:2")]})),
        &steps,
    );
    let want = json!([image("a:2"), image("b:2"), image("c:1")]);
    assert_eq!(applied["spec"]["steps"], want, "by position without a name");
}

/// SE-173: both sides mostly fail alike, and what may pass is compared again.
#[test]
fn what_cannot_be_evaluated_now_is_provisional_se_173() {
    let target = widget(json!({"a": 1}));
    let of = |expressions: &[jq::JqExpression]| {
        let mut config = ignoring(json!([{"group": "example.com", "kind": "Widget"}]));
        config.rules[0].expressions = expressions.to_vec();
        let compared = compare(Some(&target), Some(&target), &config);
        (compared.is_provisional, compared.exhausted_rules.len(), compared.skipped_rules.len())
    };
    let here = |text: &str| Jq::default().parse("s", &[text]).remove(0).unwrap();
    let foreign = jq::JqExpression::foreign("input");
    assert_eq!(of(&[here(".spec.a")]), (false, 0, 0));
    assert_eq!(of(&[here(".spec.a.b")]), (false, 0, 1));
    assert_eq!(of(std::slice::from_ref(&foreign)), (true, 1, 0));
    assert_eq!(of(&[foreign, here(".spec.a.b")]), (true, 1, 1), "whatever follows");
}
