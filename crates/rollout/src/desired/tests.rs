//! Tables A.1 to A.4 and A.11 of the ApplicationSet specification, through the
//! whole of [`generate`].

mod bounds;

use serde_json::json;

use super::*;
use crate::growth::assert_linear;
use gotemplate::go::Random;

/// Returns the same bytes forever.
struct NoChance;

impl Random for NoChance {
    fn fill(&mut self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

fn env() -> Env {
    Env::new(
        "2026-01-02T12:00:00Z".parse().unwrap(),
        Box::new(NoChance),
        wavegate_net::clock::thread_time,
    )
}

fn generate(set: &Value) -> Result<Generation, GenerateError> {
    super::generate(set, &Inputs::default(), &mut env())
}

/// The results of the generators of one element, at the path `g`.
fn outputs(element: &Value, go: bool) -> Result<Vec<Output>, GenerateError> {
    let (mut env, inputs) = (env(), Inputs::default());
    let mut engine = Engine::of(&json!({ "goTemplate": go }), Limits::default(), &env)?;
    let (spec, mut reads) = (Value::Null, Reads::default());
    let mut evaluation =
        GeneratorEvaluation::new(&spec, &mut engine, &mut env, &inputs, &mut reads);
    evaluation.parameter_sets(element, "g")
}

/// A set with one list generator and a template that prints `text` as an
/// annotation.
fn set(go: bool, elements: Value, text: &str) -> Value {
    json!({
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": go,
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": "app", "annotations": {"text": text}},
                "spec": {"project": "default", "destination": {}},
            },
        },
    })
}

fn rendered(set: &Value) -> Result<Vec<String>, GenerateError> {
    let text = |app: &Value| {
        app["metadata"]["annotations"]["text"].as_str().unwrap_or_default().to_owned()
    };
    Ok(generate(set)?.applications.iter().map(text).collect())
}

#[test]
fn the_simple_engine_gives_table_a_1() {
    let cases = [
        (1, "{{one}}", json!({"one": "two"}), Some("two")),
        (2, "{{ one }}", json!({"one": "two"}), Some("two")),
        (3, "}} {{", json!({"one": "two"}), Some("}} {{")),
        (4, "{{ }}", json!({"one": "{{ }}"}), Some("{{ }}")),
        (5, "{{ }}", json!({" ": "two", "": "three"}), Some("{{ }}")),
        (6, "{{one}}", json!({"{{one}}": "{{two}}"}), Some("{{one}}")),
        (7, "{{ONE}}", json!({"one": "two"}), Some("{{ONE}}")),
        (8, "{{one}}{{one}}", json!({"one": "two"}), Some("twotwo")),
        (9, "{{one}}{{three}}", json!({"one": "two", "three": "four"}), Some("twofour")),
        (11, "{{a}}", json!({"a": "{{b}}", "b": "x"}), Some("{{b}}")),
        (13, "{{a}} {{b}", json!({"a": "x"}), None),
        (14, "x-{{ missing }}-y", json!({"one": "two"}), Some("x-{{ missing }}-y")),
        (17, "{{one}}", json!({}), Some("{{one}}")),
    ];
    for (row, template, parameters, want) in cases {
        let got = rendered(&set(false, json!([parameters]), template));
        assert_eq!(got.ok().map(|texts| texts[0].clone()), want.map(str::to_owned), "row {row}");
    }
}

#[test]
fn keys_are_rendered_too_and_an_error_names_the_string_and_the_set() {
    let mut keys = set(true, json!([{"key": "some-key", "value": "some-value"}]), "");
    keys["spec"]["template"]["metadata"]["annotations"] = json!({"k-{{.key}}": "v-{{.value}}"});
    let got = generate(&keys).unwrap();
    assert_eq!(
        got.applications[0]["metadata"]["annotations"],
        json!({"k-some-key": "v-some-value"}),
        "row 15"
    );

    let mut broken = set(true, json!([{"a": "1"}, {"b": "2"}]), "{{.a}}");
    broken["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    let error = generate(&broken).unwrap_err();
    assert_eq!(error.reason(), "RenderTemplateParamsError");
    let message = error.to_string();
    assert!(
        message.contains("spec.template.metadata.annotations.text")
            && message.contains("list.elements[1]"),
        "{message}"
    );

    broken["spec"]["goTemplateOptions"] = json!(["missingkey=oops"]);
    let error = generate(&broken).unwrap_err();
    assert!(
        matches!(&error, GenerateError::Options(text) if text.contains("oops")),
        "AS-133: {error}"
    );
}

#[test]
fn the_list_generator_gives_table_a_4() {
    let sets = |list: Value, go| -> Result<Vec<Value>, String> {
        let outputs = outputs(&json!({"list": list}), go);
        let outputs = outputs.map_err(|error| error.to_string())?;
        Ok(outputs
            .into_iter()
            .flat_map(|output| output.sets)
            .map(|set| set.values.into())
            .collect())
    };
    let one = |element: Value, go| sets(json!({"elements": [element]}), go);
    let with_values = json!({"cluster": "c", "url": "u", "values": {"foo": "bar"}});
    let flat = json!({"cluster": "c", "url": "u", "values.foo": "bar"});
    let fails = |result: Result<Vec<Value>, String>, naming: &str, row| {
        let error = result.expect_err(&format!("row {row}"));
        assert!(error.contains(naming), "row {row}: {error}");
    };

    assert_eq!(
        one(json!({"cluster": "cluster"}), false),
        Ok(vec![json!({"cluster": "cluster"})]),
        "row 71"
    );
    assert_eq!(one(with_values.clone(), false), Ok(vec![flat]), "row 72");
    assert_eq!(one(with_values.clone(), true), Ok(vec![with_values]), "row 73");
    fails(one(json!({"a": 1}), false), "elements[0].a: must be a string, is a number", 74);
    fails(one(json!({"values": "x"}), false), "values", 75);
    fails(one(json!({"values": {"k": 1}}), false), "values.k", 76);
    let nested = json!({"a": 1, "b": [1, 2], "c": {"d": true}});
    assert_eq!(one(nested.clone(), true), Ok(vec![nested]), "row 77");
    fails(one(json!("x"), true), "elements[0]", 78);
    assert_eq!(sets(json!({"elements": []}), true), Ok(vec![]), "row 79");
    fails(sets(json!({}), true), "g.list: has neither elements nor elementsYaml", 0);
    fails(sets(json!({"elemnts": []}), true), "g.list.elemnts: is not a field", 0);
    for go in [true, false] {
        let both = json!({"elements": [{"a": "1"}], "elementsYaml": "- a: \"2\"\n- a: \"3\""});
        let want = vec![json!({"a": "1"}), json!({"a": "2"}), json!({"a": "3"})];
        assert_eq!(sets(both, go), Ok(want), "row 80");
        fails(sets(json!({"elementsYaml": "a: b"}), go), "elementsYaml", 82);
    }
    let loose = sets(json!({"elementsYaml": "- {values: {k: v}, count: 3}"}), false).unwrap();
    assert_eq!(loose, [json!({"values": {"k": "v"}, "count": 3})], "row 81");
    for text in ["", " ", "# - name: a\n# - name: b\n", "null"] {
        let neither = "g.list: has neither elements nor elementsYaml";
        fails(sets(json!({"elementsYaml": text}), true), neither, 0);
        fails(sets(json!({"elements": null, "elementsYaml": text}), true), neither, 0);
        assert_eq!(sets(json!({"elements": [], "elementsYaml": text}), true), Ok(vec![]), "{text}");
    }
    assert_eq!(sets(json!({"elementsYaml": "[]"}), true), Ok(vec![]));
}

#[test]
fn selectors_keep_sets_as_in_table_a_4() {
    let url = "https://some-really-long-url-that-will-exceed-63-characters.com/and/more";
    let element =
        json!({"cluster": "c", "server": url, "values": {"foo": "bar"}, "env": "staging"});
    let listed = json!({"values": ["bar"], "n": 3});
    let labels = |labels: Value| json!({"matchLabels": labels});
    let by = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let cases = [
        (83, &element, json!({}), Some(true)),
        (83, &element, json!(null), Some(true)),
        (84, &element, labels(json!({"values.foo": "bar"})), Some(true)),
        (85, &element, labels(json!({"values.foo": "foo"})), Some(false)),
        (86, &listed, labels(json!({"values.0": "bar"})), Some(true)),
        (86, &listed, labels(json!({"n": "3"})), Some(true)),
        (87, &element, labels(json!({"server": url})), Some(true)),
        (88, &element, by("env", "In", json!(["staging"])), Some(true)),
        (88, &element, by("env", "In", json!(["prod"])), Some(false)),
        (89, &listed, by("env", "NotIn", json!(["prod"])), Some(true)),
        (90, &element, by("env", "Exists", json!(["x"])), None),
        (90, &element, by("env", "In", json!([])), None),
        (90, &element, by("env", "Like", json!(["x"])), None),
        (90, &element, by("no key!", "Exists", json!([])), None),
        (0, &element, by("nope", "DoesNotExist", json!([])), Some(true)),
    ];
    for (row, element, selector, want) in cases {
        let generator = json!({"list": {"elements": [element]}, "selector": selector});
        let got = outputs(&generator, true);
        assert_eq!(
            got.ok().map(|outputs| !outputs[0].sets.is_empty()),
            want,
            "row {row}: {selector}"
        );
    }
}

#[test]
fn an_unknown_generator_is_an_error_with_its_key_as_098() {
    let written = json!({"spec": {"generators": [{"lists": {"elements": []}}]}}).to_string();
    let list_written = json!({"spec": {"generators": [{"list": {"elemnts": []}}]}}).to_string();
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let cases = [
        (
            json!([{"lists": {"elements": []}}]),
            None,
            "spec.generators[0].lists: is not a generator",
        ),
        (
            json!([{"list": {"elements": []}, "selectr": {}}]),
            None,
            "spec.generators[0].selectr: is not a generator",
        ),
        (json!([{}]), None, "spec.generators[0]: has no generator"),
        (json!([{"list": null}]), None, "spec.generators[0]: has no generator"),
        (json!([{"selector": {}}]), None, "spec.generators[0]: has no generator"),
        (json!([{"list": "x"}]), None, "spec.generators[0].list: must be an object"),
        (json!(["list"]), None, "spec.generators[0]: must be an object, is a string"),
        (json!("list"), None, "spec.generators: must be a list, is a string"),
        (json!(null), None, "spec.generators: is missing"),
        // The fields that the API server has dropped.
        (json!([{}]), Some(&written), "spec.generators[0].lists: is not a generator"),
        (
            json!([{"list": {}}]),
            Some(&list_written),
            "spec.generators[0].list.elemnts: is not a field",
        ),
        (json!([{"list": {}}]), Some(&written), "spec.generators[0].list: has neither elements"),
        (json!([{}]), Some(&"{".to_owned()), "spec.generators[0]: has no generator"),
    ];
    for (generators, annotation, want) in cases {
        let mut set = set(true, json!([]), "");
        set["spec"]["generators"] = generators;
        if let Some(text) = annotation {
            set["metadata"]["annotations"] = json!({ key: text });
        }
        let error = generate(&set).unwrap_err();
        assert_eq!(error.reason(), "ApplicationGenerationFromParamsError");
        assert!(error.to_string().starts_with(want), "{want}: {error}");
    }
    let mut none = set(true, json!([]), "");
    none["spec"]["generators"] = json!([]);
    assert_eq!(
        generate(&none).unwrap(),
        Generation::default(),
        "an empty list means no Applications"
    );
}

#[test]
fn only_fields_of_an_application_are_used_as_144() {
    let mut set = set(true, json!([{"id": "1"}]), "");
    set["spec"]["templatePatch"] = json!(
        "kind: AppProject\ndata: {}\nmetadata: {name: {{.id}}, generateName: x, uid: u, ownerReferences: []}"
    );
    let got = generate(&set).unwrap();
    let (called, application) = got.called().next().unwrap();
    assert_eq!(called, "spec.generators[0].list.elements[0]", "a number is not a name");
    let want = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {
            "name": 1, "namespace": "argocd", "annotations": {"text": ""},
            "finalizers": [RESOURCES_FINALIZER],
        },
        "spec": {"project": "default", "destination": {}},
    });
    assert_eq!(*application, want, "validation rejects the kind");
    set["spec"]["templatePatch"] = json!({"metadata": {}});
    let error = generate(&set).unwrap_err().to_string();
    assert!(error.starts_with("spec.templatePatch: must be a string"), "{error}");
}

#[test]
fn a_generator_that_asks_for_nothing_fails_as_098() {
    for name in ["plugin", "scmProvider", "pullRequest", "clusterDecisionResource"] {
        let mut other = set(true, json!([]), "");
        other["spec"]["generators"] = json!([{name: {}}]);
        let error = generate(&other).unwrap_err();
        assert_eq!(error.reason(), "ApplicationGenerationFromParamsError");
        assert!(error.to_string().starts_with(&format!("spec.generators[0].{name}")), "{error}");
    }
}

#[test]
fn finalizers_are_those_of_table_a_11() {
    let cases = [
        (200, json!(null), json!(null), json!([RESOURCES_FINALIZER])),
        (200, json!({}), json!([]), json!([RESOURCES_FINALIZER])),
        (201, json!({}), json!(["other/background"]), json!(["other/background"])),
        (202, json!({"preserveResourcesOnDeletion": true}), json!(null), json!(null)),
        (203, json!({"preserveResourcesOnDeletion": true}), json!(["x"]), json!(["x"])),
    ];
    for (row, policy, finalizers, want) in cases {
        for parameters in [json!({"a": "b"}), json!({})] {
            let mut set = set(true, json!([parameters]), "");
            set["spec"]["syncPolicy"] = policy.clone();
            set["spec"]["template"]["metadata"]["finalizers"] = finalizers.clone();
            let got = generate(&set).unwrap();
            assert_eq!(got.applications[0]["metadata"]["finalizers"], want, "row {row}");
        }
    }
}

#[test]
fn a_patch_is_applied_as_in_table_a_11() {
    let patched = |patch: &str| {
        let mut set = set(true, json!([{"cluster": "dev"}]), "text");
        set["spec"]["template"]["spec"]["source"] =
            json!({"helm": {"valueFiles": ["x", "y"]}, "path": "p"});
        set["spec"]["templatePatch"] = json!(patch);
        generate(&set).map(|got| got.applications[0].clone())
    };
    let project = patched("spec: {project: other}").unwrap();
    assert_eq!(project["spec"]["project"], "default", "row 216");
    let merged = patched(
        "metadata: {annotations: {new: '{{.cluster}}'}, finalizers: [f]}\nspec:\n  source: {helm: {valueFiles: [a, b]}}\n  syncPolicy: {automated: {prune: true}}",
    )
    .unwrap();
    assert_eq!(merged["metadata"]["annotations"], json!({"new": "dev", "text": "text"}), "row 217");
    assert_eq!(merged["metadata"]["finalizers"], json!([RESOURCES_FINALIZER, "f"]), "row 217");
    assert_eq!(
        merged["spec"]["source"],
        json!({"helm": {"valueFiles": ["a", "b"]}, "path": "p"}),
        "row 217"
    );
    assert!(patched("hello world").is_err(), "row 218");
    assert!(patched("metadata: x").is_err());
    assert!(patched("metadata: {labels: {a: 1}}").is_err());
    assert_eq!(patched("spec:").unwrap()["spec"], json!({"project": "default"}), "row 219");
    let plain = patched("{}").unwrap();
    for text in ["", "  \n", "null", "{}"] {
        assert_eq!(patched(text).unwrap(), plain, "AS-147");
    }
    let sneaky = patched("{\"operation\": {\"sync\": {}}, \"status\": {\"x\": 1}, \"metadata\": {\"namespace\": \"evil\"}}").unwrap();
    assert_eq!((&sneaky["operation"], &sneaky["status"]), (&Value::Null, &Value::Null), "AS-146");
    assert_eq!(sneaky["metadata"]["namespace"], "argocd", "AS-006");
    let retained = patched("spec: {source: {$retainKeys: [path], path: q}}").unwrap();
    assert_eq!(retained["spec"]["source"], json!({"path": "q"}));
    let deleted = patched("spec: {source: {$patch: delete}}").unwrap();
    assert_eq!(deleted["spec"]["source"], json!({}));
}

#[test]
fn the_seeds_example_gives_its_applications_by_name() {
    let mut seed = set(
        true,
        json!([
            {"cluster": "engineering-dev", "url": "https://1.2.3.4", "env": "env-dev"},
            {"cluster": "engineering-qa", "url": "https://2.4.6.8", "env": "env-qa"},
            {"cluster": "engineering-prod", "url": "https://9.8.7.6/", "env": "env-prod"},
        ]),
        "",
    );
    seed["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    seed["spec"]["template"] = json!({
        "metadata": {"name": "{{.cluster}}-guestbook", "labels": {"envLabel": "{{.env}}"}},
        "spec": {
            "project": "my-project",
            "source": {"repoURL": "https://example.com/x.git", "targetRevision": "HEAD", "path": "guestbook/{{.cluster}}"},
            "destination": {"server": "{{.url}}", "namespace": "guestbook"},
            "anythingNew": {"keep": [1, true, null]},
        },
    });
    let got = generate(&seed).unwrap().applications;
    let names: Vec<&str> = got.iter().map(name_of).collect();
    assert_eq!(
        names,
        ["engineering-dev-guestbook", "engineering-prod-guestbook", "engineering-qa-guestbook"]
    );
    assert_eq!(got[0]["spec"]["source"]["path"], "guestbook/engineering-dev");
    assert_eq!(got[1]["metadata"]["labels"]["envLabel"], "env-prod");
    assert_eq!(
        got[1]["spec"]["anythingNew"],
        json!({"keep": [1, true, null]}),
        "what is not modelled survives"
    );
}

#[test]
fn a_generators_own_template_goes_first() {
    let mut own = set(true, json!([{"path": "P"}]), "base");
    own["spec"]["generators"][0]["list"]["template"] = json!({"metadata": {"annotations": {"text": "own {{.path}}"}}, "spec": {"project": "", "destination": {}}});
    assert_eq!(rendered(&own).unwrap(), ["own P"]);
}

#[test]
fn each_text_is_compiled_once_as_134() {
    let compiled = |count: usize| {
        let numbers = |key: &str| -> Vec<Value> {
            (0..count).map(|n| json!({ key: n, "of": "{{.a}}" })).collect()
        };
        let mut set = set(true, json!([]), "{{.a}}-{{.b}}");
        let first =
            json!({"list": {"elements": (0..count).map(|n| json!({"a": n})).collect::<Vec<_>>()}});
        let second = json!({"list": {"elements": numbers("b")}});
        set["spec"]["generators"] = json!([
            {"matrix": {"generators": [first, second]}},
            {"clusters": {"values": {"a": "{{.name}}"}}},
        ]);
        set["spec"]["template"]["metadata"]["name"] = "app-{{.a}}-{{.b}}".into();
        set["spec"]["templatePatch"] = "{{/* nothing */}}".into();
        template::COMPILED.with(|compiled| compiled.set(0));
        assert_eq!(generate(&set).unwrap().applications.len(), count * count + 1);
        template::COMPILED.with(std::cell::Cell::get)
    };
    // Of the second list, of the values, and three of the template.
    assert_eq!((compiled(2), compiled(12)), (5, 5));
}

/// Generators of JSON and YAML, and the texts of templates in both languages.
#[test]
fn time_grows_with_a_set_and_not_with_its_square_as_135() {
    let generated = |set: &Value| drop(generate(set));
    let names = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({"n": format!("a{n}"), "m": {"k": [n]}})).collect()
    };
    let named = |mut set: Value, go: bool| {
        set["spec"]["template"]["metadata"]["name"] = if go { "{{.n}}" } else { "{{n}}" }.into();
        set
    };
    for go in [true, false] {
        let text = if go { "{{.n}}" } else { "{{n}}" };
        let list = |count: usize| named(set(go, names(count).into(), text), go);
        assert_linear("elements", 500, list, generated);
        let yaml = |count: usize| {
            let mut set = list(0);
            let yaml = Value::from(names(count)).to_string();
            set["spec"]["generators"] = json!([{"list": {"elementsYaml": yaml}}]);
            set
        };
        assert_linear("elementsYaml", 500, yaml, generated);
        let merge = |count: usize| {
            let mut set = list(0);
            let list = |elements| json!({"list": {"elements": elements}});
            let generators = [list(names(count)), list(names(count))];
            set["spec"]["generators"] =
                json!([{"merge": {"mergeKeys": ["n"], "generators": generators}}]);
            set
        };
        assert_linear("merge", 500, merge, generated);
        let wide = |count: usize| {
            let element: Map<String, Value> =
                (0..count).map(|n| (format!("k{n}"), json!({"a": "b"}))).collect();
            set(go, json!([element]), "{{k1}}")
        };
        assert_linear("one wide element", 5_000, wide, generated);
    }
    for part in [
        "a",
        "{{.n}}",
        "{{/* a */}}",
        "{{- .n -}} ",
        "{{$a := .n}}",
        "{{if .n}}{{end}}",
        "{{ printf \"%s\" .n | upper }}",
        "{{",
        "\\{{",
        "}}",
    ] {
        let one = |count: usize| set(true, json!([{"n": "a"}]), &part.repeat(count));
        assert_linear(part, 1_000, one, generated);
        let one = |count: usize| {
            set(false, json!([{"n": "a"}]), &part.replace("{{.n}}", "{{n}}").repeat(count))
        };
        assert_linear(part, 1_000, one, generated);
    }
}
