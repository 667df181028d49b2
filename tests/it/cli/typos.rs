//! Unknown fields: `plan` and `render` list all of them, and `simulate` and `demo` before they begin;
//! the same of policies, whose values are checked, too.

use super::*;

const TYPOS: [&str; 5] = [
    "spec.generators[0].list.elementYaml: unknown field; did you mean elementsYaml?",
    "spec.strategy.rollingSync.steps[0].maxUpdates: unknown field; did you mean maxUpdate?",
    "spec.strategy.rollingSync.steps[1].matchExpressions[0].value: unknown field; did you mean values?",
    "spec.strategyX: unknown field; did you mean strategy?",
    "spec.template.spec.syncPolicy.automated.prun: unknown field; did you mean prune?",
];

fn misspelt() -> Value {
    let mut steps = json!([selects(&["a"], Value::Null), selects(&["b"], Value::Null)]);
    steps[0]["maxUpdates"] = json!(0);
    steps[1]["matchExpressions"][0]["value"] = json!(["b"]);
    let mut set: Value = serde_json::from_str(&set(&["a", "b"], steps)).unwrap();
    set["spec"]["generators"][0]["list"]["elementYaml"] = json!("[]");
    set["spec"]["strategyX"] = json!({"type": "RollingSync"});
    set["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {"prun": true}});
    set
}

#[test]
fn plan_lists_every_unknown_field_and_exits_1() {
    let run = with_input(&["plan", "-f", "-", "-o", "json"], misspelt().to_string());
    let problems = run.json()["problems"].as_array().unwrap().clone();
    let unknown: Vec<(&str, &Value)> = problems
        .iter()
        .filter(|problem| problem["code"] == "UnknownField")
        .map(|problem| (problem["message"].as_str().unwrap(), &problem["step"]))
        .collect();
    let steps = [Value::Null, json!(1), json!(2), Value::Null, Value::Null];
    let want: Vec<(&str, &Value)> = TYPOS.into_iter().zip(&steps).collect();
    assert_eq!((run.code, unknown), (1, want), "{}", run.err);
}

#[test]
fn plan_shows_unknown_fields_in_its_table() {
    let mut set = misspelt();
    set["spec"]["generators"][0]["list"].as_object_mut().unwrap().remove("elementYaml");
    let run = with_input(&["plan", "-f", "-"], set.to_string());
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    for typo in &TYPOS[1..] {
        assert!(run.out.contains(typo), "no {typo:?} in {}", run.out);
    }
}

#[test]
fn render_lists_every_unknown_field_and_exits_1() {
    let run = with_input(&["render", "-f", "-"], misspelt().to_string());
    run.fails(1, &TYPOS);
}

#[test]
fn a_misspelled_required_field_is_listed_with_the_others() {
    let mut set = misspelt();
    let spec = set["spec"].as_object_mut().unwrap();
    let template = spec.remove("template").unwrap();
    spec.insert("templates".to_owned(), template);
    for command in ["plan", "render"] {
        let run = with_input(&[command, "-f", "-"], set.to_string());
        let reported = run.out.clone() + &run.err;
        run.fails(1, &["cannot read", "template"]);
        let template = "spec.templates: unknown field; did you mean template?";
        for typo in TYPOS[1..4].iter().chain([&template]) {
            assert!(reported.contains(typo), "no {typo:?} in {reported}");
        }
    }
}

#[test]
fn a_template_patch_that_adds_an_unknown_field_is_an_error() {
    let mut set: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    set["spec"]["templatePatch"] = json!("spec: {syncPolicy: {automatd: {}}, source: {patch: x}}");
    for command in ["plan", "render"] {
        let run = with_input(&[command, "-f", "-"], set.to_string());
        run.fails(
            1,
            &[
                "spec.templatePatch",
                "spec.source.patch: unknown field; did you mean path?",
                "spec.syncPolicy.automatd: unknown field; did you mean automated?",
            ],
        );
    }
}

#[test]
fn open_fields_of_argo_cd_are_open() {
    let mut set: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    set["spec"]["generators"][0]["list"]["elements"][0]["deep"] = json!("anything");
    set["spec"]["template"]["spec"]["source"]["helm"] =
        json!({"valuesObject": {"any": {"thing": [1]}}});
    let run = with_input(&["plan", "-f", "-", "-o", "json"], set.to_string());
    assert_eq!((run.code, &run.json()["problems"]), (0, &json!([])), "{}", run.err);
}

/// A policy in the namespace of the set, or in another one.
fn policy(namespace: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
         metadata: {{name: p, namespace: '{namespace}'}}\nspec: {spec}\n"
    )
}

#[test]
fn simulate_and_demo_list_every_unknown_field_before_they_begin() {
    for command in [&["simulate", "-f", "-"][..], &["demo", "--plain", "-f", "-"]] {
        let run = with_input(command, misspelt().to_string());
        run.fails(
            1,
            &["error: invalid ApplicationSet: standard input: line 1: ApplicationSet set: "],
        );
        run.fails(1, &TYPOS);
        assert_eq!((run.out.as_str(), run.err.lines().count()), ("", TYPOS.len()), "{}", run.err);
        let fine = set(&["a"], json!([{}]));
        let policies = policy("argocd", "{pace: {maxInFlight: 0}, paus: true}");
        let run = with_input(command, format!("{fine}\n{policies}"));
        run.fails(
            1,
            &[
                "error: invalid RolloutPolicy: standard input: line 3: RolloutPolicy p: spec.paus: \
                 unknown field",
                "RolloutPolicy p: spec.pace.maxInFlight: Invalid value: 0: ",
            ],
        );
        assert_eq!(run.out, "");
    }
}
