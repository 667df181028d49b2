mod costs;
mod selections;

use serde_json::json;

use super::known::ALL_REMEMBERED_SIZE;
use super::*;
use wavegate_engine::diff::jq::JqExpression;
use wavegate_engine::diff::path::{Path, remove_all};

/// One evaluator for all tests of a process, as in the controller.
fn evaluator() -> &'static Jq {
    static SHARED: std::sync::OnceLock<Jq> = std::sync::OnceLock::new();
    SHARED.get_or_init(|| limited_jq(JQ_TIME))
}

/// What asks workers about every expression, also those that are followed here.
fn workers() -> Workers {
    Workers { limit: JQ_TIME, turn: TURN, hasher: RandomState::new(), known: Mutex::default() }
}

fn paths(expression: &str, value: &Value) -> Result<Vec<Path>, JqError> {
    paths_by(&evaluator().parse("tests", &[expression]).remove(0).unwrap(), value)
}

fn paths_by(expression: &JqExpression, value: &Value) -> Result<Vec<Path>, JqError> {
    let question = Question { object: value, expressions: vec![expression] };
    evaluator().paths("tests", &[question]).remove(0).remove(0)
}

/// Why a text is no expression.
fn invalid(expression: &str) -> Option<String> {
    evaluator().parse("tests", &[expression]).remove(0).err()
}

/// The object after `del(expression)`.
fn del(expression: &str, mut value: Value) -> Value {
    assert_eq!(invalid(expression), None, "{expression}");
    let paths = paths(expression, &value).unwrap_or_else(|error| panic!("{expression}: {error}"));
    // By a worker, also what needs none.
    assert_eq!(paths_by(&JqExpression::foreign(expression), &value), Ok(paths.clone()));
    remove_all(&mut value, paths);
    value
}

#[test]
fn del_removes_paths() {
    let pods = || {
        json!({"spec": {"template": {"spec": {"initContainers": [
            {"name": "injected", "image": "i"}, {"name": "own", "image": "o"}, {"name": "injected"}]}}}})
    };
    let cases: Vec<(&str, Value, Value)> = vec![
        (
            r#".spec.template.spec.initContainers[] | select(.name == "injected")"#,
            pods(),
            json!({"spec": {"template": {"spec": {"initContainers": [{"name": "own", "image": "o"}]}}}}),
        ),
        (
            ".webhooks[]?.clientConfig.caBundle",
            json!({"webhooks": [{"clientConfig": {"caBundle": "x", "url": "u"}}, {"name": "n"}]}),
            json!({"webhooks": [{"clientConfig": {"url": "u"}}, {"name": "n"}]}),
        ),
        (".webhooks[]?.clientConfig.caBundle", json!({"a": 1}), json!({"a": 1})),
        (
            r#".data."a.b""#,
            json!({"data": {"a.b": 1, "a": {"b": 2}}}),
            json!({"data": {"a": {"b": 2}}}),
        ),
        (r#".data["a.b"]"#, json!({"data": {"a.b": 1, "c": 2}}), json!({"data": {"c": 2}})),
        (r#"."a b".c"#, json!({"a b": {"c": 1}}), json!({"a b": {}})),
        (
            ".. | .foo?",
            json!({"foo": 1, "a": [{"foo": 2, "b": 3}], "c": "text"}),
            json!({"a": [{"b": 3}], "c": "text"}),
        ),
        ("..|.foo?", json!({"a": 1}), json!({"a": 1})),
        (
            ".. | select(type == \"object\" and has(\"x\")) | .x",
            json!({"a": {"x": 1, "y": 2}}),
            json!({"a": {"y": 2}}),
        ),
        (
            ".spec.containers[0].image",
            json!({"spec": {"containers": [{"image": "i", "name": "n"}]}}),
            json!({"spec": {"containers": [{"name": "n"}]}}),
        ),
        (".l[-1]", json!({"l": [1, 2, 3]}), json!({"l": [1, 2]})),
        (".l[-9]", json!({"l": [1, 2, 3]}), json!({"l": [1, 2, 3]})),
        (".l[0], .l[1]", json!({"l": [1, 2, 3]}), json!({"l": [3]})),
        (".l[9]", json!({"l": [1]}), json!({"l": [1]})),
        (".l.[0]", json!({"l": [1, 2]}), json!({"l": [2]})),
        (".x.y?", json!({"a": 1}), json!({"a": 1})),
        (".spec.nope.deep", json!({"spec": {}}), json!({"spec": {}})),
        (".a.b?", json!({"a": "text"}), json!({"a": "text"})),
        (
            "(.a, .b) | .c",
            json!({"a": {"c": 1}, "b": {"c": 2, "d": 3}}),
            json!({"a": {}, "b": {"d": 3}}),
        ),
        (
            r#".l[] | select(.name | test("^inj")) "#,
            json!({"l": [{"name": "injected"}, {"name": "own"}]}),
            json!({"l": [{"name": "own"}]}),
        ),
        (
            r#".l[] | select(.name | test("^INJ"; "i"))"#,
            json!({"l": [{"name": "injected"}, {"name": "own"}]}),
            json!({"l": [{"name": "own"}]}),
        ),
        (
            r#".l[] | select((.n | startswith("a")) or (.n | endswith("z")) or (.n | contains("mm")))"#,
            json!({"l": [{"n": "ab"}, {"n": "bz"}, {"n": "immo"}, {"n": "b"}]}),
            json!({"l": [{"n": "b"}]}),
        ),
        (
            ".l[] | select(.n > 1 and .n <= 3)",
            json!({"l": [{"n": 1}, {"n": 2.0}, {"n": 3}]}),
            json!({"l": [{"n": 1}]}),
        ),
        (".l[] | select(.n != null | not)", json!({"l": [{"n": 1}, {}]}), json!({"l": [{"n": 1}]})),
        (".l[] | select(length == 2)", json!({"l": ["ab", "c", [1, 2]]}), json!({"l": ["c"]})),
        (
            r#".l[] | select(any(.ports[]; .name == "x"))"#,
            json!({"l": [{"ports": [{"name": "x"}]}, {"ports": []}]}),
            json!({"l": [{"ports": []}]}),
        ),
        (".l[] | select(all(. < 3))", json!({"l": [[1, 2], [1, 5]]}), json!({"l": [[1, 5]]})),
        (
            ".l[] | select(.name == (\"a\", \"b\"))",
            json!({"l": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"l": [{"name": "c"}]}),
        ),
        ("empty", json!({"a": 1}), json!({"a": 1})),
        (".", json!({"a": 1}), json!({"a": 1})),
        (
            ".metadata.labels[]",
            json!({"metadata": {"labels": {"a": 1, "b": 2}}}),
            json!({"metadata": {"labels": {}}}),
        ),
    ];
    for (expression, before, after) in cases {
        assert_eq!(del(expression, before), after, "{expression}");
    }
}

#[test]
fn del_removes_paths_of_more_expressions() {
    let list = || json!({"l": [{"n": "a", "v": 1}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]});
    let without = |at: usize| {
        let mut list = list();
        list["l"].as_array_mut().unwrap().remove(at);
        list
    };
    let cases: Vec<(&str, Value, Value)> = vec![
        (r#".l[] | select(.n | IN("a", "x"))"#, list(), without(0)),
        (r#".l[] | select(IN(.n; "c", "x"))"#, list(), without(2)),
        (r#".l[] | select(.n | ascii_downcase == "b")"#, list(), without(1)),
        (r#".l[] | select(.n | ascii_upcase == "C")"#, list(), without(2)),
        (r#".l[] | select((.v | tostring) == "2")"#, list(), without(1)),
        (r#".l[] | select(("1" | tonumber) == .v)"#, list(), without(0)),
        (r#".l[] | if .v == 1 then . elif .v == 9 then .n else empty end"#, list(), without(0)),
        (r#".l[] | if .v > 2 then . else empty end"#, list(), without(2)),
        (
            r#".l[] | if .v > 2 then .n else .v end"#,
            list(),
            json!({"l": [{"n": "a"}, {"n": "B"}, {"v": 3}]}),
        ),
        (r#".x // .l[0]"#, list(), without(0)),
        (r#".l[1] // .l[0]"#, list(), without(1)),
        (
            r#".l[0].nope // (.l[0] | .v)"#,
            list(),
            json!({"l": [{"n": "a"}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]}),
        ),
        (r#"first(.l[] | select(.v > 1))"#, list(), without(1)),
        (r#"last(.l[] | select(.v < 3))"#, list(), without(1)),
        (r#".l | first"#, list(), without(0)),
        (r#".l | last"#, list(), without(2)),
        (r#"limit(1; .l[])"#, list(), without(0)),
        (r#"nth(1; .l[])"#, list(), without(1)),
        (r#".l | nth(2)"#, list(), without(2)),
        (r#".l[0:1]"#, list(), without(0)),
        (r#".l[2:]"#, list(), without(2)),
        (r#".l[:-2]"#, list(), without(0)),
        (r#".l[1:][0]"#, list(), without(1)),
        (r#".l[1:][] | select(.v == 3)"#, list(), without(2)),
        (r#".l[5:]"#, list(), list()),
        (
            r#".l[1:][1:] | .[0].n"#,
            list(),
            json!({"l": [{"n": "a", "v": 1}, {"n": "B", "v": 2}, {"v": 3}]}),
        ),
        (r#".l[] | select(.n[0:1] == "a")"#, list(), without(0)),
        (r#""a" as $wanted | .l[] | select(.n == $wanted)"#, list(), without(0)),
        (r#".l[0].n as $n | .l[] | select(.n == $n)"#, list(), without(0)),
        (r#"(.l | map(.v) | max) as $most | .l[] | select(.v == $most)"#, list(), without(2)),
        (r#"["B"] as $names | .l[] | select(.n | IN($names[]))"#, list(), without(1)),
        (r#".l[] | select([.n, .v] == ["a", 1])"#, list(), without(0)),
        (r#".l[] | select(.v + 1 == 3)"#, list(), without(1)),
        (r#".l[] | select(.v % 2 == 0)"#, list(), without(1)),
        (r#".l[] | select(-.v == -3)"#, list(), without(2)),
        (r#"getpath(["l", 1])"#, list(), without(1)),
        (r#"getpath(["nope", "deep"])"#, list(), list()),
        (r#".l[] | select(has("n") and (keys == ["n", "v"]) and .v == 1)"#, list(), without(0)),
        (
            r#".l[] | select(.n | inside("abc"))"#,
            json!({"l": [{"n": "bc"}, {"n": "x"}]}),
            json!({"l": [{"n": "x"}]}),
        ),
        (
            r#".l[] | select(contains({t: 1}))"#.replace("{t: 1}", "[\"a\"]").leak(),
            json!({"l": [["xay"], ["b"]]}),
            json!({"l": [["b"]]}),
        ),
        (
            r#".metadata.annotations | .[keys[] | select(startswith("x/"))]"#,
            json!({"metadata": {"annotations": {"x/a": "1", "x/b": "2", "y": "3"}}}),
            json!({"metadata": {"annotations": {"y": "3"}}}),
        ),
        (
            r#".l[] | select(.n | split("-") | .[0] == "a")"#,
            json!({"l": [{"n": "a-b"}, {"n": "c"}]}),
            json!({"l": [{"n": "c"}]}),
        ),
        (
            r#".l[] | select(.n | ltrimstr("a-") | rtrimstr("-c") == "b")"#,
            json!({"l": [{"n": "a-b-c"}, {"n": "c"}]}),
            json!({"l": [{"n": "c"}]}),
        ),
        (
            r#".l[] | select((.n | index("b")) == 2)"#,
            json!({"l": [{"n": "a-b"}, {"n": "b"}]}),
            json!({"l": [{"n": "b"}]}),
        ),
        (
            r#".l[] | select(any(.t[]?; . == 1) or all(.t[]?; . == 2))"#,
            json!({"l": [{"t": [1]}, {"t": [3]}, {"t": [2, 2]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".l[] | select([.t[] | . * 2] | add == 6)"#,
            json!({"l": [{"t": [1, 2]}, {"t": [3]}, {"t": [2]}]}),
            json!({"l": [{"t": [2]}]}),
        ),
        (
            r#".l[] | select(.t | sort | unique | reverse | join(",") == "3,1")"#,
            json!({"l": [{"t": [1, 3, 1]}, {"t": [3]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".l[] | select(isempty(.t[]))"#,
            json!({"l": [{"t": []}, {"t": [3]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".. | strings | select(test("^s3cr"))"#,
            json!({"a": "s3cret", "b": [{"c": "s3cr", "d": 1}]}),
            json!({"b": [{"d": 1}]}),
        ),
        (r#".l[] | numbers, nulls"#, json!({"l": [1, "a", null, {}]}), json!({"l": ["a", {}]})),
        (
            r#"recurse(.child; . != null) | .secret"#,
            json!({"secret": 1, "child": {"secret": 2, "child": {"x": 1}}}),
            json!({"child": {"child": {"x": 1}}}),
        ),
        (r#"try .l.x catch empty, .gone"#, json!({"l": [1], "gone": 1}), json!({"l": [1]})),
        (
            ".l[0] # the first\n| .n",
            list(),
            json!({"l": [{"v": 1}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]}),
        ),
        (r#".l[0]["n", "v"]"#, list(), json!({"l": [{}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]})),
        (r#".[("l")][range(2)]"#, list(), json!({"l": [{"n": "c", "v": 3}]})),
        (r#".l[] | select(.n == ("a" , "c"))?"#, list(), json!({"l": [{"n": "B", "v": 2}]})),
        (r#".l[] | select(.v == 1 or .v == 2 and .n == "x")"#, list(), without(0)),
        (r#".a.b?.c?, .l[0]"#, list(), without(0)),
    ];
    for (expression, before, after) in cases {
        assert_eq!(del(expression, before), after, "{expression}");
    }
}

#[test]
fn errors_of_consumers_are_not_caught() {
    // `.a?` catches errors of `.a`, not of its consumers; neither does `//`.
    let fails = |expression: &str, value: Value| {
        let result = paths(expression, &value);
        assert!(matches!(result, Err(JqError::Mismatch(_))), "{expression}: {result:?}");
    };
    fails(".a? | .b", json!({"a": "text"}));
    fails("(.a // .c) | .b", json!({"a": "text"}));
    fails("first(.a) | .b", json!({"a": "text"}));
}

#[test]
fn errors_of_evaluation_are_mismatches_and_invalid_texts_are_refused() {
    let mismatches = [
        (".a.b", json!({"a": "s"})),
        (".a[]", json!({})),
        (".a | select(test(\"x\"))", json!({"a": 1})),
        // No paths: Argo CD skips such a rule, too.
        ("1", json!({"a": 1})),
        (".a == 1", json!({"a": 1})),
        (".a | length", json!({"a": [1]})),
        ("map(.a)", json!([{"a": 1}])),
        (".a // \"x\"", json!({})),
        ("if .a then .b else 1 end", json!({})),
        ("{a: .b}", json!({})),
        ("del(.a)", json!({"a": 1})),
        ("to_entries", json!({"a": 1})),
        ("to_entries[] | select(.key == \"a\")", json!({"a": 1})),
        (".a = 1", json!({"a": 1})),
        ("error(\"as asked\")", json!({"a": 1})),
        (".a | label $out | (.b, break $out)", json!({"a": 1})),
    ];
    for (expression, value) in mismatches {
        assert_eq!(invalid(expression), None, "{expression}");
        let found = paths(expression, &value);
        assert!(matches!(found, Err(JqError::Mismatch(_))), "{expression}: {found:?}");
    }
    let long = format!(".{}", "a".repeat(5000));
    let refused = [
        "",
        ".a |",
        ".a[",
        "(.a",
        ".a)",
        ".a), (.b",
        "$x",
        "(. as $x | .a) | $x",
        "nope",
        "halt",
        "halt_error",
        "input",
        "inputs",
        "debug",
        "stderr",
        "now",
        "input_filename",
        "input_line_number",
        "localtime",
        "import \"a\" as a; .b",
        "include \"a\"; .b",
        "$__prog_args",
        "get_search_list",
        "$__loc__",
        "if .a then",
        &long,
    ];
    for expression in refused {
        assert!(invalid(expression).is_some(), "{expression}");
    }
    assert_eq!(invalid(".b[").as_deref(), Some("expected closing bracket at the end"));
    assert_eq!(invalid("halt").as_deref(), Some("filter 'halt' is not supported"));
    // As in Argo CD, there is no environment.
    assert_eq!(del(".a | select($ENV.HOME == null and env == {})", json!({"a": 1})), json!({}));
}

/// Rules as they are written in public repositories, on objects that they are written for.
#[test]
fn rules_that_people_write_select_what_they_mean_se_173() {
    let pods = || {
        json!({"spec": {"template": {
            "metadata": {"annotations": {"linkerd.io/proxy-version": "2", "a": "1"}},
            "spec": {
                "initContainers": [{"name": "istio-init", "image": "i"}, {"name": "own", "image": "o:latest"}],
                "containers": [
                    {"name": "istio-proxy", "image": "p"},
                    {"name": "app", "image": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}],
                     "resources": {"limits": {"cpu": "1"}}},
                ],
                "volumes": [{"name": "vault-secrets"}, {"name": "data"}],
            },
        }}})
    };
    let without = |change: &dyn Fn(&mut Value)| {
        let mut pods = pods();
        change(&mut pods);
        pods
    };
    let drop = |pointer: &'static str, at: usize| {
        without(&move |pods: &mut Value| {
            pods.pointer_mut(pointer).unwrap().as_array_mut().unwrap().remove(at);
        })
    };
    let in_pod = "/spec/template/spec";
    let key = |parent: &'static str, name: &'static str| {
        without(&move |pods: &mut Value| {
            pods.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        })
    };
    let containers = "/spec/template/spec/containers";
    let inits = "/spec/template/spec/initContainers";
    let annotations = || json!({"metadata": {"annotations": {"x/a": "1", "x/b": "2", "y": "3"}}});
    let hooks = || {
        json!({"webhooks": [
            {"name": "a", "clientConfig": {"caBundle": "x", "url": "u"}, "namespaceSelector": {}},
            {"name": "b", "clientConfig": {"url": "u"}}]})
    };
    let cases: Vec<(&str, Value, Value)> = vec![
        (
            r#".spec.template.spec.containers[] | select(.name == "istio-proxy")"#,
            pods(),
            drop(containers, 0),
        ),
        (
            r#".spec.template.spec.initContainers[] | select(.name|startswith("istio"))"#,
            pods(),
            drop(inits, 0),
        ),
        (
            r#".spec.template.spec.initContainers[]? | select(.image | endswith(":latest"))"#,
            pods(),
            drop(inits, 1),
        ),
        (
            r#".spec.template.spec.containers[].env[]?|select(.name=="X")"#,
            pods(),
            drop("/spec/template/spec/containers/1/env", 0),
        ),
        (
            r#".spec.template.spec.containers[]?.resources.limits.cpu"#,
            pods(),
            key("/spec/template/spec/containers/1/resources/limits", "cpu"),
        ),
        (
            r#".spec.template.spec.volumes[] | select(.name | test("^VAULT-"; "i"))"#,
            pods(),
            drop("/spec/template/spec/volumes", 0),
        ),
        (
            r#".spec.template.metadata.annotations["linkerd.io/proxy-version"]"#,
            pods(),
            key("/spec/template/metadata/annotations", "linkerd.io/proxy-version"),
        ),
        (
            r#".spec.template.metadata.annotations."linkerd.io/proxy-version""#,
            pods(),
            key("/spec/template/metadata/annotations", "linkerd.io/proxy-version"),
        ),
        (".spec.template.spec.initContainers", pods(), key(in_pod, "initContainers")),
        (".spec.template?.spec?.volumes?", pods(), key(in_pod, "volumes")),
        (
            r#".spec.template.spec | (.volumes[] | select(.name == "data")), (.initContainers[] | select(.name == "own"))"#,
            pods(),
            without(&|pods: &mut Value| {
                for list in ["volumes", "initContainers"] {
                    pods["spec"]["template"]["spec"][list].as_array_mut().unwrap().remove(1);
                }
            }),
        ),
        (
            ".webhooks[]?.clientConfig.caBundle",
            hooks(),
            without_field(hooks(), "/webhooks/0/clientConfig", "caBundle"),
        ),
        (
            ".webhooks[].clientConfig.caBundle",
            hooks(),
            without_field(hooks(), "/webhooks/0/clientConfig", "caBundle"),
        ),
        (
            r#".webhooks[] | select(.name == "a") | .namespaceSelector"#,
            hooks(),
            without_field(hooks(), "/webhooks/0", "namespaceSelector"),
        ),
        (".status", json!({"spec": 1, "status": {"a": 1}}), json!({"spec": 1})),
        (
            ".spec.ports[] | select(.nodePort != null) | .nodePort",
            json!({"spec": {"ports": [{"nodePort": 1, "port": 2}, {"port": 3}]}}),
            json!({"spec": {"ports": [{"port": 2}, {"port": 3}]}}),
        ),
        (".spec.alternateBackends[]?.weight", json!({"spec": {}}), json!({"spec": {}})),
        (
            ".spec.rules[].backendRefs[].weight",
            json!({"spec": {"rules": [{"backendRefs": [{"weight": 1, "name": "a"}, {"name": "b"}]}]}}),
            json!({"spec": {"rules": [{"backendRefs": [{"name": "a"}, {"name": "b"}]}]}}),
        ),
        (
            ".spec.volumeClaimTemplates[]?.metadata.creationTimestamp",
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"creationTimestamp": null, "name": "d"}}]}}),
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]}}),
        ),
        (
            r#".data["SECRET_KEY"], .data["ACCESS_KEY"], .stringData["SECRET_KEY"]"#,
            json!({"data": {"SECRET_KEY": "a", "ACCESS_KEY": "b", "c": "d"}}),
            json!({"data": {"c": "d"}}),
        ),
        (
            r#"select(.metadata.labels.controlledByLeader == "true").spec.suspend"#,
            json!({"metadata": {"labels": {"controlledByLeader": "true"}}, "spec": {"suspend": true, "b": 1}}),
            json!({"metadata": {"labels": {"controlledByLeader": "true"}}, "spec": {"b": 1}}),
        ),
        (
            r#"select((.metadata.annotations // {}) | has("x/a")) | .metadata.annotations.y"#,
            annotations(),
            without_field(annotations(), "/metadata/annotations", "y"),
        ),
        (
            r#"select ((.metadata.labels // {}) | has("x")) | .data"#,
            json!({"data": 1}),
            json!({"data": 1}),
        ),
        (
            r#".metadata?.annotations?["x/a"] as $flag | if $flag == "1" then .spec.replicas else null end"#,
            json!({"metadata": {"annotations": {"x/a": "1"}}, "spec": {"replicas": 3, "a": 1}}),
            json!({"metadata": {"annotations": {"x/a": "1"}}, "spec": {"a": 1}}),
        ),
        (
            r#"if .kind == "Rollout" then .spec.replicas else empty end"#,
            json!({"kind": "Rollout", "spec": {"replicas": 1}}),
            json!({"kind": "Rollout", "spec": {}}),
        ),
        (
            r#"if .kind == "Rollout" then .spec.replicas else empty end"#,
            json!({"kind": "X", "spec": {"replicas": 1}}),
            json!({"kind": "X", "spec": {"replicas": 1}}),
        ),
        (
            r#".metadata.finalizers[]? | select(startswith("post-delete-finalizer.argocd.argoproj.io"))"#,
            json!({"metadata": {"finalizers": ["post-delete-finalizer.argocd.argoproj.io/cleanup", "other"]}}),
            json!({"metadata": {"finalizers": ["other"]}}),
        ),
        (
            r#".metadata.annotations | with_entries(select(.key | startswith("x/"))) as $own | .[$own | keys[]]"#,
            annotations(),
            json!({"metadata": {"annotations": {"y": "3"}}}),
        ),
        (
            r#".metadata.annotations | keys[] as $k | select($k | test("^x/")) | .[$k]"#,
            annotations(),
            json!({"metadata": {"annotations": {"y": "3"}}}),
        ),
        (
            r#"paths(type == "string" and startswith("s3:")) as $p | getpath($p)"#,
            json!({"a": {"b": "s3://x", "c": 1}, "d": ["s3:"]}),
            json!({"a": {"c": 1}, "d": []}),
        ),
        (
            r#".data | .[("a" + "b")]"#,
            json!({"data": {"ab": 1, "c": 2}}),
            json!({"data": {"c": 2}}),
        ),
        (
            r#".data[] | select(@base64d == "secret")"#,
            json!({"data": {"a": "c2VjcmV0", "b": "b3RoZXI="}}),
            json!({"data": {"b": "b3RoZXI="}}),
        ),
        (
            r#".l[] | select("\(.a)-\(.b)" == "1-2")"#,
            json!({"l": [{"a": 1, "b": 2}, {"a": 2}]}),
            json!({"l": [{"a": 2}]}),
        ),
        (
            r#".l[] | select(. as {a: $x} | $x == 1)"#,
            json!({"l": [{"a": 1}, {"a": 2}]}),
            json!({"l": [{"a": 2}]}),
        ),
        (
            r#".l[] | select(reduce .[] as $n (0; . + $n) == 3)"#,
            json!({"l": [[1, 2], [1]]}),
            json!({"l": [[1]]}),
        ),
        (
            r#".l[] | select([foreach .[] as $n (0; . + $n)] == [1, 3])"#,
            json!({"l": [[1, 2], [1]]}),
            json!({"l": [[1]]}),
        ),
        (
            r#"def named($n): select(.name == $n); .l[] | named("a")"#,
            json!({"l": [{"name": "a"}, {"name": "b"}]}),
            json!({"l": [{"name": "b"}]}),
        ),
        (
            r#".l[] | select(.name | sub("-[0-9]+$"; "") == "a")"#,
            json!({"l": [{"name": "a-12"}, {"name": "b"}]}),
            json!({"l": [{"name": "b"}]}),
        ),
        (
            r#".l[] | select(.name | ascii_downcase | IN("a", "c"))"#,
            json!({"l": [{"name": "A"}, {"name": "b"}]}),
            json!({"l": [{"name": "b"}]}),
        ),
        (
            r#".l[] | select(.name | capture("(?<n>[0-9]+)").n == "12")"#,
            json!({"l": [{"name": "a-12"}, {"name": "b-1"}]}),
            json!({"l": [{"name": "b-1"}]}),
        ),
        (
            r#".l[] | select((.n | tostring | length) > 1)"#,
            json!({"l": [{"n": 12}, {"n": 1}]}),
            json!({"l": [{"n": 1}]}),
        ),
        (
            r#".l | map(.n) as $all | .[$all | index(2)]"#,
            json!({"l": [{"n": 1}, {"n": 2}]}),
            json!({"l": [{"n": 1}]}),
        ),
        (r#".l | .[length - 1]"#, json!({"l": [1, 2]}), json!({"l": [1]})),
        (
            r#".l[] | select(.t | fromjson | .a == 1)"#,
            json!({"l": [{"t": "{\"a\":1}"}, {"t": "{}"}]}),
            json!({"l": [{"t": "{}"}]}),
        ),
        (
            r#".l[] | select(any(.ports[]?; .port == 80))"#,
            json!({"l": [{"ports": [{"port": 80}]}, {}]}),
            json!({"l": [{}]}),
        ),
        (
            r#".. | objects | select(has("secret")) | .secret"#,
            json!({"a": [{"secret": 1, "b": 2}], "secret": 3}),
            json!({"a": [{"b": 2}]}),
        ),
        (
            r#".. | .image? // empty"#,
            json!({"a": [{"image": "x", "b": 2}]}),
            json!({"a": [{"b": 2}]}),
        ),
        (r#"limit(1; .l[] | select(. > 1))"#, json!({"l": [1, 2, 3]}), json!({"l": [1, 3]})),
        (
            r#"(.a, .b)[]? | .c?"#,
            json!({"a": [{"c": 1}], "b": {"x": {"c": 2}}}),
            json!({"a": [{}], "b": {"x": {}}}),
        ),
        (r#".a.["b c"]"#, json!({"a": {"b c": 1}}), json!({"a": {}})),
    ];
    let mut wrong = Vec::new();
    for (expression, before, after) in cases {
        if let Some(why) = invalid(expression) {
            wrong.push(format!("{expression}: {why}"));
            continue;
        }
        match paths(expression, &before) {
            Ok(found) => {
                let mut left = before.clone();
                remove_all(&mut left, found);
                if left != after {
                    wrong.push(format!("{expression}: {left} instead of {after}"));
                }
            }
            Err(error) => wrong.push(format!("{expression}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn without_field(mut object: Value, parent: &str, field: &str) -> Value {
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    object
}

/// What costs time, memory or stack fails alone, with a reason.
#[test]
fn expressions_that_run_away_are_stopped() {
    let evaluator = limited_jq(Duration::from_millis(300));
    let value: Value = json!({"a": (0..200).collect::<Vec<_>>(), "t": "x".repeat(50_000)});
    let ask = |expression: &str| {
        let rules = ["first(.a[0])", expression, "first(.a[1])"].map(JqExpression::foreign);
        let question = Question { object: &value, expressions: rules.iter().collect() };
        let mut answers = evaluator.paths(expression, &[question]).remove(0);
        let (last, found, first) = (answers.remove(2), answers.remove(1), answers.remove(0));
        assert!(first.is_ok() && last.is_ok(), "{expression}: {first:?} {last:?}");
        found
    };
    let time = "takes longer than 300ms";
    let cases = [
        ("def f: f; f", time),
        ("select([range(1000000000000)] | length > 1)", ""),
        ("select(range(1000000000000) < 0)", time),
        ("def f: [f]; select(f)", "too deeply"),
        ("recurse(.)", ""),
        ("select([limit(1000000000; def r: 1, r; r)] | length > 1)", ""),
        ("(.t) as $x | select(reduce range(40) as $i ($x; . + .) | length > 1)", ""),
        ("until(false; .)", time),
    ];
    for (expression, why) in cases {
        match ask(expression) {
            Err(JqError::Exhausted(text)) => assert!(text.contains(why), "{expression}: {text}"),
            other => panic!("{expression}: {other:?}"),
        }
    }
    // Matching takes linear time: it ends, or is stopped as all others.
    let found = ask(r#"select(.t | test("(x+x+)+y"))"#);
    assert!(matches!(found, Ok(_) | Err(JqError::Exhausted(_))), "{found:?}");
    let nested = format!("{}.a{}", "(".repeat(2000), ")".repeat(2000));
    // Read or refused, but not the end of this process.
    let _ = evaluator.parse("tests", &[nested.as_str(), ".a"]);
    assert!(evaluator.parse("tests", &[".a"])[0].is_ok());
}

/// One rule that runs away costs its time once, and does not hide the others.
#[test]
fn an_expression_that_exceeds_a_limit_is_not_tried_again_for_a_while() {
    let evaluator = limited_jq(Duration::from_millis(300));
    let objects: Vec<Value> = (0..300).map(|n| json!({"n": n, "a": 1})).collect();
    let rules = ["def f: f; f", "first(.a)"].map(JqExpression::foreign);
    let questions = || -> Vec<Question<'_>> {
        let ask = |object| Question { object, expressions: rules.iter().collect() };
        objects.iter().map(ask).collect()
    };
    for round in 0..2 {
        let began = Instant::now();
        let answers = evaluator.paths("an application", &questions());
        for answer in &answers {
            let stopped = matches!(answer[0], Err(JqError::Exhausted(_) | JqError::Deferred(_)));
            assert!(stopped, "{round}: {answer:?}");
            assert_eq!(answer[1].as_ref().map(Vec::len), Ok(1), "{round}");
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{round}: {:?}", began.elapsed());
    }
    let other = evaluator.paths("another one", &questions()[..1]);
    assert_eq!(other[0][1].as_ref().map(Vec::len), Ok(1));
}

/// What a request leaves for another turn is asked for again, and is not to blame.
#[test]
fn a_request_that_leaves_its_worker_is_continued() {
    let evaluator = by_turns(JQ_TIME, Duration::ZERO);
    let texts: Vec<String> = (0..10).map(|n| format!("first(.a[{n}])")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let rules: Vec<JqExpression> =
        evaluator.parse("turns", &texts).into_iter().map(Result::unwrap).collect();
    let objects: Vec<Value> = (0..10).map(|n| json!({"n": n, "a": vec![n; 10]})).collect();
    let ask = |object| Question { object, expressions: rules.iter().collect() };
    let questions: Vec<Question<'_>> = objects.iter().map(ask).collect();
    for answers in evaluator.paths("turns", &questions) {
        let found: Vec<usize> = answers.iter().map(|found| found.as_ref().unwrap().len()).collect();
        assert_eq!(found, [1; 10]);
    }
}

#[test]
fn a_text_that_is_no_json_of_jq_is_still_an_answer() {
    let value =
        json!({"a\u{0}b": 1, "é": {"😀": [1.5, 1e300, -0.0, 12345678901234567890_u64]}, "n": null});
    assert_eq!(
        del(r#".["é"]["😀"][1:3]"#, value.clone())["é"]["😀"],
        json!([1.5, 12345678901234567890_u64])
    );
    assert_eq!(del(r#"."a\u0000b""#, value.clone()).as_object().unwrap().len(), 2);
    assert_eq!(del(".n", value).as_object().unwrap().len(), 2);
}

/// A rule sees what it names, and no more is sent; what it selects is the same.
#[test]
fn places_that_an_expression_sees() {
    let (hasher, known) = (RandomState::new(), Mutex::default());
    let evaluator = Workers { limit: JQ_TIME, turn: TURN, hasher, known };
    let cases = [
        (".spec.replicas", Some(json!([["spec", "replicas"]]))),
        (".a[].b", Some(json!([["a"]]))),
        (r#".spec["x y"]?.z | .. | select(.q)"#, Some(json!([["spec", "x y", "z"]]))),
        (".a.b, .c", Some(json!([["a", "b"], ["c"]]))),
        (
            r#"if .kind == "X" then .spec.replicas else empty end"#,
            Some(json!([["kind"], ["spec", "replicas"]])),
        ),
        (".a as $x | .b[$x]", Some(json!([["a"], ["b"]]))),
        (".a[.b].c", Some(json!([["a"], ["b"]]))),
        (".a[.b:.c]", Some(json!([["a"], ["b"], ["c"]]))),
        (".a[..]", None),
        (".a[length]", None),
        (".[\"a\\(.b)\"]", None),
        ("..", None),
        (".", None),
        (". | .a", None),
        ("select(.a) | .b", None),
        (".a, select(.b)", None),
        (". as {a: $x} | .b", None),
        ("def empty: .c; .a, empty", None),
        ("first(.a[])", None),
        ("if .a then .b end", None),
        ("try .a catch .", None),
    ];
    for (text, want) in &cases {
        let found = futures::executor::block_on(evaluator.checked("tests", &[*text])).remove(0).1;
        let sees = found.unwrap().unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(sees.as_ref().map(|sees| json!(**sees)), *want, "{text}");
    }
    let object = json!({"a": {"b": 1, "c": 2}, "d": "text", "e": null, "f": [{"g": 1}]});
    let cases = [
        (json!([["a", "b"]]), json!({"a": {"b": 1}})),
        (json!([["a", "b"], ["a"]]), json!({"a": {"b": 1, "c": 2}})),
        (json!([["a"], ["a", "b"]]), json!({"a": {"b": 1, "c": 2}})),
        (json!([["d", "x"], ["e", "x"]]), json!({"d": "text", "e": null})),
        (json!([["f", "g"], ["no", "x"], ["a", "no"]]), json!({"f": [{"g": 1}], "a": {}})),
    ];
    for (places, want) in cases {
        let sees = Some(Arc::new(Vec::deserialize(&places).unwrap()));
        assert_eq!(serde_json::to_value(part(&object, &sees)).unwrap(), want, "{places}");
    }
}

/// Equal questions are asked once, and each of their answers takes memory.
#[test]
fn all_answers_of_a_comparison_are_bounded() {
    let mut answers = Answers::default();
    let large: Found = Ok(vec![vec![json!("a".repeat(1 << 20))]]);
    for at in 0..1000 {
        answers.give((at, 0), &large);
    }
    let given = answers.all.values().filter(|found| found.is_ok()).count();
    assert!((40..=ANSWERS_SIZE >> 20).contains(&given), "{given}");
    assert_eq!(answers.all[&(999, 0)], Err(too_many()));
    let object = json!({"data": (0..2000).map(|n| (n.to_string(), n)).collect::<BTreeMap<_, _>>()});
    let texts = vec![".data[] | select(. * 1 == .)"; 500];
    let evaluate = limited_jq(JQ_TIME);
    let expressions: Vec<JqExpression> =
        texts.iter().map(|text| JqExpression::foreign(text)).collect();
    let question = Question { object: &object, expressions: expressions.iter().collect() };
    let found = evaluate.paths("tests", &[question]).remove(0);
    assert!(found.first().is_some_and(|found| found.as_ref().is_ok_and(|all| all.len() == 2000)));
    let exceeds = |found: &Result<_, JqError>| matches!(found, Err(JqError::Exhausted(_)));
    assert!(found.last().is_some_and(exceeds), "{:?}", found.last().map(Result::is_ok));
}

/// A fleet of ten thousand objects is remembered, and the memory of all answers is bounded.
#[test]
fn remembered_answers_are_bounded_by_their_size() {
    let mut known = KnownResults::default();
    let found: Found = Ok(vec![vec![json!("a"); 9]]);
    for number in 0..10_000 {
        known.remember((1, number), &found);
    }
    assert_eq!(known.answer(&(1, 0)), Some(&found));
    for number in 0..100_000 {
        known.remember((1, number), &found);
        // One that is known takes nothing more.
        known.remember((1, number), &found);
    }
    let kept: usize = known.answers.iter().map(HashMap::len).sum();
    assert!((10_000..=2 * ALL_REMEMBERED_SIZE / size(&found)).contains(&kept), "{kept}");
    assert_eq!((known.answer(&(1, 99_999)), known.answer(&(1, 0))), (Some(&found), None));
    for (number, large) in
        [vec![vec![json!("a"); 9]; 9], vec![vec![json!("a".repeat(5_000))]]].into_iter().enumerate()
    {
        let key = (2, number as u64);
        known.remember(key, &Ok(large));
        assert_eq!(known.answer(&key), None, "too large");
    }
    // A long name counts by its length.
    let long: Found = Ok(vec![vec![json!("a".repeat(3_000))]]);
    for number in 0..20_000 {
        known.remember((3, number), &long);
    }
    let kept = known.answers.iter().flat_map(HashMap::values).filter(|one| **one == long).count();
    assert!(kept <= 2 * ALL_REMEMBERED_SIZE / 3_000, "{kept}");
}
