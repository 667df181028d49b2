use serde_json::{Value, json};

use super::super::unknown::*;

fn texts(unknown: Vec<Unknown>) -> Vec<String> {
    unknown.iter().map(ToString::to_string).collect()
}

fn set(spec: Value) -> Value {
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "a", "labels": {"anything": "goes"}}, "spec": spec,
        "status": {"whatever": 1}})
}

#[test]
fn unknown_fields_are_found_at_every_path() {
    let unknown = in_application_set(&json!({
        "metadata": {"name": "a", "label": {}},
        "specs": {},
        "spec": {
            "strategyX": {},
            "generators": [
                {"list": {"elements": [{"anything": {"goes": 1}}], "elementsYml": ""}},
                {"lists": {}},
                {"matrix": {"generators": [{"merge": {"generators": [{"gitt": {}}], "mergeKey": []}}]}},
                {"plugin": {"input": {"parameters": {"any": {"thing": 1}}}}},
            ],
            "template": {"spec": {
                "sources": [{}, {"helm": {"valuesObject": {"any": 1}, "valuefiles": []}}],
                "completelyDifferent": 1,
            }},
        },
    }));
    assert_eq!(
        texts(unknown),
        [
            "metadata.label: unknown field; did you mean labels?",
            "spec.generators[0].list.elementsYml: unknown field; did you mean elementsYaml?",
            "spec.generators[1].lists: unknown field; did you mean list?",
            "spec.generators[2].matrix.generators[0].merge.generators[0].gitt: unknown field; did you mean git?",
            "spec.generators[2].matrix.generators[0].merge.mergeKey: unknown field; did you mean mergeKeys?",
            "spec.strategyX: unknown field; did you mean strategy?",
            "spec.template.spec.completelyDifferent: unknown field",
            "spec.template.spec.sources[1].helm.valuefiles: unknown field; did you mean valueFiles?",
            "specs: unknown field; did you mean spec?",
        ]
    );
}

#[test]
fn unknown_fields_of_policies_are_found() {
    let unknown = in_policy(&json!({
        "apiVersion": "wavegate.dev/v1alpha1",
        "kind": "RolloutPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "gats": [],
            "applicationSets": {"matchLabels": {"any": "label"}, "name": ["shop"]},
            "gates": [{"name": "g", "step": [1], "applications": {"matchLabel": {}}}],
            "failures": {"max": "10%"},
            "pace": {"maxInflight": 1},
        },
    }));
    assert_eq!(
        texts(unknown),
        [
            "spec.applicationSets.name: unknown field; did you mean names?",
            "spec.gates[0].applications.matchLabel: unknown field; did you mean matchLabels?",
            "spec.gates[0].step: unknown field; did you mean steps?",
            "spec.gats: unknown field; did you mean gates?",
            "spec.pace.maxInflight: unknown field; did you mean maxInFlight?",
        ]
    );
}

#[test]
fn a_generator_template_has_the_fields_of_the_template() {
    let template = json!({"metadata": {}, "spec": {"project": "", "destination": {}, "sorce": {}}});
    let generators = json!([
        {"git": {"template": template}},
        {"merge": {"generators": [{"list": {"template": template}}], "template": template}},
    ]);
    let paths: Vec<String> = in_application_set(&set(json!({ "generators": generators })))
        .into_iter()
        .map(|unknown| unknown.path)
        .collect();
    assert_eq!(
        paths,
        [
            "spec.generators[0].git.template.spec.sorce",
            "spec.generators[1].merge.generators[0].list.template.spec.sorce",
            "spec.generators[1].merge.template.spec.sorce",
        ]
    );
}

#[test]
fn only_unknown_fields_of_the_strategy_block_a_rollout() {
    let cases = [
        (json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": []}}}), vec![]),
        (json!({"strategy": null, "templates": {}}), vec![]),
        (json!({"strategyX": {}}), vec!["spec.strategyX"]),
        (json!({"Strategy": {}}), vec!["spec.Strategy"]),
        (json!({"strategy": {"rollingsync": {}}}), vec!["spec.strategy.rollingsync"]),
        (
            json!({"strategy": {"rollingSync": {"step": [], "steps": [{}, {
                "maxUpdates": 0,
                "matchExpressions": [{"keys": "a", "operator": "In", "values": []}],
            }]}}}),
            vec![
                "spec.strategy.rollingSync.step",
                "spec.strategy.rollingSync.steps[1].matchExpressions[0].keys",
                "spec.strategy.rollingSync.steps[1].maxUpdates",
            ],
        ),
    ];
    for (spec, want) in cases {
        let found = in_strategy(&set(spec.clone()));
        let paths: Vec<String> = found.into_iter().map(|unknown| unknown.path).collect();
        assert_eq!(paths, want, "{spec}");
    }
}

#[test]
fn an_application_is_checked_except_its_status() {
    let unknown = in_application(&json!({
        "metadata": {"name": "a", "annotation": {}},
        "spec": {"syncPolicy": {"automated": {"prun": true}}},
        "operation": {"sync": {"revison": "x"}},
        "status": {"any": 1},
    }));
    assert_eq!(
        texts(unknown),
        [
            "metadata.annotation: unknown field; did you mean annotations?",
            "operation.sync.revison: unknown field; did you mean revision?",
            "spec.syncPolicy.automated.prun: unknown field; did you mean prune?",
        ]
    );
}

#[test]
fn dropped_fields_are_found_in_the_last_applied_configuration() {
    let steps = |step: Value| json!({"type": "RollingSync", "rollingSync": {"steps": [step]}});
    let applied = set(json!({"strategy": steps(json!({"maxUpdates": 0}))}));
    let stored = |strategy: Value| {
        let mut stored = set(json!({ "strategy": strategy }));
        let text = applied.to_string();
        stored["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": text});
        in_strategy(&stored).len()
    };
    assert_eq!(stored(steps(json!({}))), 1, "equal to the pruned configuration");
    assert_eq!(stored(steps(json!({"maxUpdate": 0}))), 0, "changed by an edit");
}
