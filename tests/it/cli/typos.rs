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

/// A gate that nothing opens had no words for what it waits for.
#[test]
fn plan_says_that_a_gate_without_needs_holds_nothing() {
    let policy = policy("", "{gates: [{name: g, steps: [1]}]}");
    let input = format!("{}\n{policy}", set(&["a"], json!([{}])));
    let run = with_input(&["plan", "-f", "-"], input);
    let want =
        "gate g (policy p) holds none of 1, since it needs neither approvals nor a soak: a\n";
    assert!(run.out.contains(want), "{}{}", run.out, run.err);
}

#[test]
fn plan_lists_what_is_wrong_with_policies_and_exits_1_as_st_001() {
    // The spec, and the beginnings of the problems.
    const CASES: &str = r#"
        {gats: [{name: g, steps: [1], approvals: 1}]} => UnknownField gats: unknown field; did you mean gates?
        {pace: {maxInflight: 1}} => UnknownField pace.maxInflight: unknown field; did you mean maxInFlight?
        {pace: {maxInFlight: 0}} => InvalidPolicy pace.maxInFlight: Invalid value: 0: 
        {failures: {max: 200%}} => InvalidPolicy failures.max: Invalid value: "200%": 
        {failures: {deadline: soon}} => InvalidPolicy failures.deadline: Invalid value: "soon"
        {gates: [{name: g, steps: [9], approvals: 1}]} => InvalidPolicy gates[0].steps: gate g: there is no step 9 of 1 | InvalidPolicy gates[0].steps: gate g: it selects no Application
        {gates: [{name: g, steps: [1], soak: soon}], failures: {max: many}, deletions: {max: [1]}} => InvalidPolicy deletions.max: Invalid value | InvalidPolicy failures.max: Invalid value: "many" | InvalidPolicy gates[0].soak: Invalid value: "soon"
        {gates: [{name: g, steps: [1], approvals: "1"}]} => InvalidPolicy gates[0].approvals: Invalid value
        {applicationSets: {matchExpressions: [{key: a, operator: Near}]}, paused: true} => InvalidPolicy applicationSets.matchExpressions[0].operator: Unsupported
        {gates: [{name: g, steps: [1]}]} => InvalidPolicy gates[0]: a gate needs approvals or soak: what opens it
        {notify: [{format: slack}]} => InvalidPolicy notify[0]: a sink needs url, or secretRef to a Secret
    "#;
    let set = set(&["a"], json!([{}]))
        .replace("\"name\":\"set\"", "\"name\":\"set\",\"namespace\":\"argocd\"");
    let check = |policies: &str, want: &[&str], note: &str| {
        let run = with_input(&["plan", "-f", "-", "-o", "json"], format!("{set}\n{policies}"));
        assert_eq!((run.code, run.err.as_str()), (i32::from(!want.is_empty()), note), "{policies}");
        let problems = run.json()["problems"].as_array().unwrap().clone();
        assert_eq!(problems.len(), want.len(), "{policies}: {problems:?}");
        for (problem, want) in problems.iter().zip(want) {
            let (code, message) = want.split_once(' ').unwrap();
            assert_eq!(problem["code"], code, "{policies}");
            let (name, field) =
                message.strip_prefix("q: ").map_or(("p", message), |of_q| ("q", of_q));
            let text = problem["message"].as_str().unwrap();
            let begins = text.starts_with(&format!("RolloutPolicy {name}: spec.{field}"));
            assert!(begins, "{policies}: {text}");
        }
    };
    for (spec, want) in rows(CASES) {
        check(&policy("", spec), &want.split(" | ").collect::<Vec<_>>(), "");
    }
    let fine = "{gates: [{name: g, steps: [1], approvals: 1}]}";
    check(&policy("", fine), &[], "");
    let none = "note: RolloutPolicy p selects none of the ApplicationSets\n";
    check(&policy("", "{applicationSets: {names: [sett]}}"), &[], none);
    let other = policy("", "{applicationSets: {names: [sett]}, pase: {}}");
    check(&other, &["UnknownField pase: unknown field; did you mean pace?"], none);
    let elsewhere = "note: RolloutPolicy team/p is not used: it is for ApplicationSets of its \
                     namespace, and these are in argocd\n";
    check(&policy("team", fine), &[], elsewhere);
    let two = policy("", fine) + &policy("", "{paused: 1}").replace("p,", "q,");
    check(&two, &["InvalidPolicy q: paused: Invalid value: "], "");
    let nothing = policy("", "{gates: [{name: g, steps: [9], approvals: 1}]}");
    let run = with_input(&["plan", "-f", "-"], format!("{set}\n{nothing}"));
    assert!(run.out.contains("gate g (policy p) holds no Application\n"), "{}", run.out);
    // A misspelt label holds the whole set to the limit of one value.
    let absent = policy("", "{pace: {spread: {label: regoin, max: 1}}}");
    let run = with_input(&["plan", "-f", "-"], format!("{set}\n{absent}"));
    let line = "1 in flight for each value of regoin, which no Application has (policy p)\n";
    assert!(run.out.contains(line), "{}", run.out);
    // Of a named set, policies of other sets say nothing.
    let named = with_input(&["plan", "-f", "-", "set"], format!("{set}\n{other}"));
    assert_eq!((named.code, named.err.as_str()), (0, ""));
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
