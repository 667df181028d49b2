//! ignoreDifferences: SE-170 … SE-175, V-255 … V-263, V-269.

use super::*;

fn deployment(spec: Value) -> Value {
    object("apps/v1", "Deployment", json!({"spec": spec}))
}

#[test]
fn rules_remove_differences() {
    let node = |value: Value| {
        let labels = json!({"node-role.kubernetes.io/worker": value, "a": "1"});
        object("v1", "Node", json!({"metadata": {"labels": labels}}))
    };
    let inits = |names: &[&str]| {
        let list: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        deployment(json!({"template": {"spec": {"initContainers": list}}}))
    };
    let injected = r#".spec.template.spec.initContainers[] | select(.name == "injected")"#;
    let named = |name: &str, n: i64| {
        with(&deployment(json!({"replicas": n})), json!({"metadata": {"name": name}}))
    };
    let pointer =
        |pointer: &str| json!([{"group": "apps", "kind": "Deployment", "jsonPointers": [pointer]}]);
    let jq = |jq: &str| json!([{"group": "apps", "kind": "Deployment", "jqPathExpressions": [jq]}]);
    let anywhere =
        json!([{"group": "*", "kind": "*", "name": "x", "jsonPointers": ["/spec/replicas"]}]);
    let elsewhere = json!([{"group": "apps", "kind": "*", "namespace": "other", "jsonPointers": ["/spec/replicas"]}]);

    let rows: Vec<(&str, Value, Value, Value, bool)> = vec![
        ("V-255", pointer("/spec/replicas"), named("x", 3), named("x", 7), false),
        (
            "V-255 the core group is not apps",
            json!([{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]),
            named("x", 3),
            named("x", 7),
            true,
        ),
        ("V-256", pointer("/spec/no/such/0/place"), named("x", 3), named("x", 3), false),
        ("V-257", jq(injected), inits(&["own"]), inits(&["injected", "own"]), false),
        (
            "V-257 and something else",
            jq(injected),
            inits(&["own", "new"]),
            inits(&["injected", "own"]),
            true,
        ),
        (
            "V-257 in a list that is one value",
            jq(r#".spec.template.spec.tolerations[] | select(.key | startswith("injected"))"#),
            deployment(json!({"template": {"spec": {"tolerations": [{"key": "own"}]}}})),
            deployment(
                json!({"template": {"spec": {"tolerations": [{"key": "injected-1"}, {"key": "own"}]}}}),
            ),
            false,
        ),
        ("V-259", jq(".spec.replicas.deep"), named("x", 3), named("x", 7), true),
        ("V-262 x", anywhere.clone(), named("x", 3), named("x", 7), false),
        ("V-262 y", anywhere, named("y", 3), named("y", 7), true),
        ("SE-171 namespace", elsewhere, named("x", 3), named("x", 7), true),
        (
            "V-263",
            json!([{"kind": "Node", "jsonPointers": ["/metadata/labels/node-role.kubernetes.io~1worker"]}]),
            node(json!("a")),
            node(json!("b")),
            false,
        ),
        (
            "SE-172 an index",
            pointer("/spec/template/spec/tolerations/0"),
            deployment(
                json!({"template": {"spec": {"tolerations": [{"key": "a"}, {"key": "c"}]}}}),
            ),
            deployment(
                json!({"template": {"spec": {"tolerations": [{"key": "b"}, {"key": "c"}]}}}),
            ),
            false,
        ),
        (
            "SE-173 two elements of one list",
            jq(".spec.template.spec | .tolerations[0], .tolerations[1]"),
            deployment(
                json!({"template": {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}}}),
            ),
            deployment(
                json!({"template": {"spec": {"tolerations": [{"key": "x"}, {"key": "y"}, {"key": "c"}]}}}),
            ),
            false,
        ),
    ];
    for (row, rules, target, live, want) in rows {
        let comparison = compare(Some(&target), Some(&live), &ignoring(rules));
        assert_eq!(comparison.modified, want, "{row}: {:?}", comparison.changes);
    }
    let skipped =
        compare(Some(&named("x", 3)), Some(&named("x", 3)), &ignoring(jq(".spec.replicas.deep")));
    assert_eq!(
        skipped.skipped_rules,
        [r#"".spec.replicas.deep": cannot index 3 with "deep""#],
        "V-259 is reported once"
    );
}

#[test]
fn invalid_rules_are_problems_with_a_path() {
    let application = json!({"spec": {"ignoreDifferences": [
        {"kind": "A", "jqPathExpressions": [".a", ".b["]},
        {"group": "apps"},
        {"kind": "B", "jsonPointers": ["no/slash", 7, "/a~2", ""], "jqPathExpressions": ["halt"]},
    ]}});
    let (config, problems) = DiffConfig::from_application(&application, &Jq::default());
    let line = |problem: &RuleProblem| match problem.is_error {
        true => problem.to_string(),
        false => format!("warning: {problem}"),
    };
    let lines: Vec<String> = problems.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "spec.ignoreDifferences[0].jqPathExpressions[1]: \".b[\": there is nothing here that evaluates jq expressions",
            "warning: spec.ignoreDifferences[1]: kind is required, such as Deployment, or '*' for all; the rule has no effect",
            "warning: spec.ignoreDifferences[2].jsonPointers[0]: \"no/slash\": a JSON pointer starts with '/', such as /spec/replicas; what is before the first '/' is left out",
            "spec.ignoreDifferences[2].jsonPointers[1]: not a string",
            "warning: spec.ignoreDifferences[2].jsonPointers[2]: \"/a~2\": '~' must be written '~0', and '/' inside a name '~1'; any other '~' is read as itself",
            "warning: spec.ignoreDifferences[2].jsonPointers[3]: \"\": a JSON pointer starts with '/', such as /spec/replicas; this one names nothing and has no effect",
            "spec.ignoreDifferences[2].jqPathExpressions[0]: \"halt\": there is nothing here that evaluates jq expressions",
        ],
        "V-258"
    );
    assert_eq!(config.rules.len(), 2, "the valid rules are kept");
    assert_eq!(config.rules[1].pointers, [["slash"], ["a~2"]], "as Argo CD reads them");
    let (_, problems) =
        DiffConfig::from_application(&json!({"spec": {"ignoreDifferences": {}}}), &Jq::default());
    assert_eq!(problems.len(), 1, "not a list");
    // A status holds no more.
    let many = json!([{"kind": "A", "jsonPointers": vec!["a"; 9_000], "jqPathExpressions": ["["]}]);
    let application = json!({"spec": {"ignoreDifferences": many}});
    let (_, problems) = DiffConfig::from_application(&application, &Jq::default());
    assert_eq!(problems.len(), 51);
    assert!(problems[0].is_error && !problems[50].is_error, "errors come first");
    assert_eq!(
        problems[50].to_string(),
        "spec.ignoreDifferences: 8951 more parts are not understood"
    );
}

#[test]
fn settings_of_an_application() {
    let application = json!({
        "metadata": {"annotations": {"argocd.argoproj.io/compare-options":
            "ServerSideDiff=true, IncludeMutationWebhook=true"}},
        "spec": {"syncPolicy": {"syncOptions": ["Prune=false", "ServerSideApply=true"]}},
    });
    let (config, problems) = DiffConfig::from_application(&application, &Jq::default());
    assert_eq!(problems, []);
    assert!(config.server_side_apply && config.migrates);
    let (config, _) = DiffConfig::from_application(&json!({}), &Jq::default());
    assert!(!config.server_side_apply);
}

#[test]
fn rules_apply_to_the_kinds_that_they_match() {
    let config_map = |n: &str| object("v1", "ConfigMap", json!({"data": {"a": n}}));
    for (group, kind, applies) in [
        ("", "ConfigMap", true),
        ("*", "*", true),
        ("*", "ConfigMap", true),
        ("apps", "ConfigMap", false),
        ("", "Secret", false),
    ] {
        let rule = json!([{"group": group, "kind": kind, "jsonPointers": ["/data/a"]}]);
        let comparison = compare(Some(&config_map("1")), Some(&config_map("2")), &ignoring(rule));
        assert_eq!(comparison.modified, !applies, "SE-171 {group}/{kind}");
    }
    let config = ignoring(json!([{"kind": "ConfigMap", "managedFieldsManagers": ["tool"]}]));
    let live = with(
        &config_map("2"),
        json!({"metadata": {"managedFields": [
        {"manager": "tool", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}]}}),
    );
    let comparison = compare(Some(&config_map("1")), Some(&live), &config);
    assert!(!comparison.modified, "SE-175 core kinds too");
}

#[test]
fn changes_of_ignored_managers_are_ignored() {
    let target = deployment(json!({"replicas": 3, "template": {"spec": {"containers": [
        {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}}));
    let owned_by = |manager: &str| {
        let fields = json!({"f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"main\"}": {".": {}, "f:resources": {"f:limits": {"f:cpu": {}}}},
                "k:{\"name\":\"side\"}": {".": {}, "f:name": {}},
            }}},
        }});
        with(
            &target,
            json!({
                "metadata": {"managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": fields}]},
                "spec": {"replicas": 5, "template": {"spec": {"containers": [
                    {"name": "side", "image": "s"},
                    {"name": "main", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}}},
            }),
        )
    };
    let config = ignoring(json!([{"group": "apps", "kind": "Deployment",
        "managedFieldsManagers": ["kube-controller-manager"]}]));
    let of = |manager: &str| compare(Some(&target), Some(&owned_by(manager)), &config);
    assert_eq!(of("kube-controller-manager").changes, [], "V-260");
    let others = of("kubectl").changes;
    let paths: Vec<&str> = others.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/spec/replicas", "/spec/template/spec/containers/1/resources/limits/cpu"],
        "V-261"
    );
}

#[test]
fn respected_differences_keep_the_live_value() {
    let budget = |labels: Value| {
        object(
            "policy/v1",
            "PodDisruptionBudget",
            json!({"spec": {"selector": {"matchLabels": labels}}}),
        )
    };
    let config = ignoring(json!([{"group": "policy", "kind": "*",
        "jsonPointers": ["/spec/selector/matchLabels/a", "/status", "/spec/minAvailable"]}]));
    let target = budget(json!({"a": "1", "b": "2"}));
    let live = with(&budget(json!({"a": "9", "b": "3", "c": "4"})), json!({"status": {"x": 1}}));
    let applied = respect(&target, &live, &config);
    assert_eq!(applied["spec"]["selector"]["matchLabels"], json!({"a": "9", "b": "2"}), "V-269");
    assert_eq!(applied.get("status"), None, "SE-332");
    let without = respect(&target, &budget(json!({"b": "3"})), &config);
    assert_eq!(
        without["spec"]["selector"]["matchLabels"],
        json!({"b": "2"}),
        "absent in live stays absent"
    );
    let scaled = with(&live, json!({"spec": {"minAvailable": 2}}));
    assert_eq!(respect(&target, &scaled, &config)["spec"]["minAvailable"], 2);

    // In lists, elements are found by their keys.
    let config = ignoring(json!([{"group": "apps", "kind": "Deployment",
        "jqPathExpressions": [".spec.template.spec.containers[].image",
            ".spec.template.spec.initContainers[] | select(.name == \"injected\")"]}]));
    let target = deployment(json!({"template": {"spec": {"containers": [
        {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}}));
    let live = deployment(json!({"template": {"spec": {
        "initContainers": [{"name": "injected", "image": "i"}],
        "containers": [{"name": "b", "image": "b:2"}, {"name": "other", "image": "o"}, {"name": "a", "image": "a:2"}]}}}));
    let applied = respect(&target, &live, &config);
    assert_eq!(
        applied["spec"]["template"]["spec"],
        json!({"initContainers": [{"name": "injected", "image": "i"}],
            "containers": [{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:2"}]}),
        "SE-333"
    );
}

/// An element that live does not have, such as a new container, keeps all that the target says.
#[test]
fn a_new_element_of_a_list_keeps_what_is_ignored_in_others() {
    let of = |spec: Value| deployment(json!({"template": {"spec": spec}}));
    let config = ignoring(json!([{"group": "apps", "kind": "Deployment", "jqPathExpressions": [
        ".spec.template.spec.containers[].image",
        ".spec.template.spec.initContainers[].image",
        ".spec.template.spec.containers[].env[]?.value",
        ".spec.template.spec.containers[].resources"]}]));
    let new = |name: &str| json!({"name": name, "image": "n:1", "resources": {"limits": {}}});
    let env = |value: &str, more: Value| json!([{"name": "K", "value": value}, more]);
    let known = |image: &str, env: Value| json!({"name": "a", "image": image, "env": env});
    let added = json!({"name": "N", "value": "2"});
    let target = of(json!({
        "initContainers": [new("first")],
        "containers": [known("a:1", env("1", added.clone())), new("new")],
    }));
    let target = with(&target, json!({}));
    let live = of(json!({"containers": [
        {"name": "gone", "image": "g:1"},
        known("a:2", json!([{"name": "K", "value": "9"}])),
    ]}));
    let applied = respect(&target, &live, &config);
    assert_eq!(
        applied["spec"]["template"]["spec"],
        json!({
            "initContainers": [new("first")],
            "containers": [known("a:2", env("9", added)), new("new")],
        }),
        "SE-331"
    );
    // Of a known element, what live does not have stays absent.
    let target = of(json!({"containers": [new("a")]}));
    let applied = respect(&target, &live, &config);
    assert_eq!(
        applied["spec"]["template"]["spec"]["containers"][0].get("resources"),
        None,
        "SE-331"
    );
}

/// Each Application may show them: what stops nothing is named up to a number, errors always.
#[test]
fn problems_of_the_settings_are_bounded() {
    let mut settings = SystemSettings::default();
    for index in 0..200 {
        settings.problem(("*", "*"), format!("field {index}"), false);
    }
    settings.problem(("*", "*"), "an error".to_owned(), true);
    let messages: Vec<&str> = settings.problems.iter().map(|one| one.message.as_str()).collect();
    assert_eq!((messages.len(), messages[49]), (52, "field 49"));
    assert_eq!(messages[50..], ["argocd-cm has more problems than these", "an error"]);
    // An error in between takes no place of theirs.
    let mut settings = SystemSettings::default();
    for index in 0..60 {
        settings.problem(("*", "*"), format!("field {index}"), index == 50);
    }
    let last = &settings.problems[50..];
    let messages: Vec<&str> = last.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(messages, ["field 50", "argocd-cm has more problems than these"]);
}
