//! The comparison of a rollout and the write agree (AS-165, invariant I13).

use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::subsequence;
use proptest::strategy::Strategy;

use super::*;

fn one_of(values: Vec<Value>) -> impl Strategy<Value = Value> {
    proptest::sample::select(values)
}

fn source() -> impl Strategy<Value = Value> {
    let parameter =
        (one_of(vec![json!("image"), json!("size")]), one_of(vec![json!("1"), json!("2")]))
            .prop_map(|(name, value)| json!({"name": name, "value": value}));
    let helm =
        proptest::option::of(proptest::collection::vec(parameter, 0..3)).prop_map(|parameters| {
            match parameters {
                Some(parameters) => json!({"parameters": parameters, "skipCrds": false}),
                None => json!({}),
            }
        });
    let repository = one_of(vec![json!("r1"), json!("r2")]);
    let revision = one_of(vec![json!("main"), json!("fix"), json!(""), Value::Null]);
    (repository, revision, proptest::option::of(helm)).prop_map(|(repository, revision, helm)| {
        let mut source = json!({"repoURL": repository});
        for (field, value) in [("targetRevision", Some(revision)), ("helm", helm)] {
            if let Some(value) = value {
                source[field] = value;
            }
        }
        source
    })
}

fn application() -> impl Strategy<Value = Value> {
    let automated = one_of(vec![
        Value::Null,
        json!({}),
        json!({"automated": {}}),
        json!({"automated": {"prune": false}}),
        json!({"automated": {"prune": true, "enabled": false}}),
        json!({"syncOptions": []}),
    ]);
    let label = one_of(vec![Value::Null, json!("yes"), json!("no")]);
    let sources = proptest::collection::vec(source(), 0..4);
    let project = one_of(vec![json!(""), json!("default"), json!("other")]);
    (proptest::option::of(source()), sources, automated, label, project).prop_map(
        |(source, sources, policy, label, project)| {
            let mut spec = json!({"project": project, "destination": {"name": "in-cluster"}});
            if let Some(source) = source {
                spec["source"] = source;
            }
            if !sources.is_empty() {
                spec["sources"] = sources.into();
            }
            if !policy.is_null() {
                spec["syncPolicy"] = policy;
            }
            let mut application = generated("a", spec);
            if !label.is_null() {
                application["metadata"]["labels"] = json!({"frozen": label});
            }
            application
        },
    )
}

fn rules() -> impl Strategy<Value = Value> {
    let pointers = vec![
        "/spec/source/targetRevision",
        "/spec/source",
        "/spec/sources/0/targetRevision",
        "/spec/sources/1",
        "/spec/syncPolicy/automated",
        "/spec/syncPolicy",
        "/spec/project",
        "/metadata/labels/frozen",
        "/metadata/name",
        "/operation",
    ];
    let expressions = vec![
        ".spec.sources[] | select(.repoURL == \"r1\").targetRevision",
        ".spec.sources[].helm.parameters[] | select(.name == \"image\")",
        ".spec.sources[] | select(.targetRevision == \"fix\")",
        ".spec.source.helm",
        ".spec.syncPolicy.automated.prune",
        "select(.metadata.labels.frozen == \"yes\") | .spec.source",
        "select(.kind == \"Application\") | .spec.sources[0]",
    ];
    let name = prop_oneof![Just(""), Just("a"), Just("b")];
    let most = (0..=2, 0..=2);
    let rule = (name, subsequence(pointers, most.0), subsequence(expressions, most.1)).prop_map(
        |(name, pointers, expressions)| {
            json!({"name": name, "jsonPointers": pointers, "jqPathExpressions": expressions})
        },
    );
    proptest::collection::vec(rule, 0..3).prop_map(Value::from)
}

proptest! {
    #[test]
    fn the_rollout_and_the_write_never_disagree_as_165(
        wanted in application(), have in application(), rules in rules(), operation in any::<bool>(),
    ) {
        let mut set = set();
        set["spec"]["ignoreApplicationDifferences"] = rules;
        let mut live = live(&have);
        if operation {
            live["operation"] = json!({"sync": {}});
        }
        let patch = patch_of(&set, &wanted, &live);
        let changes_spec = patch.as_ref().is_some_and(|patch| patch.get("spec").is_some());
        prop_assert_eq!(differs(&set, &wanted, &live), changes_spec, "I13: {:?}", patch);
        if let Some(patch) = patch {
            prop_assert!(patch.get("operation").is_none() && patch["metadata"].get("name").is_none());
            json_patch::merge(&mut live, &patch);
            prop_assert_eq!(patch_of(&set, &wanted, &live), None, "I4: written again: {}", live);
            prop_assert!(!differs(&set, &wanted, &live), "rolled out again");
        }
    }
}

/// AS-164: an invalid rule keeps those from being written that it is for: one of this name, or all.
#[test]
fn an_invalid_rule_concerns_its_applications_as_164() {
    let problems = |rules: Value| {
        let mut set = set();
        set["spec"]["ignoreApplicationDifferences"] = rules;
        Ignore::read(&set, &wavegate_engine::diff::Jq::default()).1
    };
    let broken = json!([".a ["]);
    let of_one = problems(json!([{"name": "a", "jqPathExpressions": broken}]));
    assert_eq!(of_one.len(), 1);
    assert!(of_one[0].concerns("a") && !of_one[0].concerns("b"));
    let of_all = problems(json!([{"jqPathExpressions": broken}]));
    assert!(of_all[0].concerns("a") && of_all[0].concerns("b"));
    // Those of all rules count together.
    let many = |count: usize| json!({"jqPathExpressions": vec![".spec.source"; count]});
    assert!(problems(json!([many(250), many(250)])).is_empty());
    let [one] = &problems(json!([many(250), many(251)]))[..] else { panic!("one is too many") };
    assert!(one.message.contains("more than 500 jq expressions"), "{}", one.message);
}
