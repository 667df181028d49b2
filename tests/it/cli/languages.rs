//! The two template languages, lists and patches, as `wavegate render` shows them.

use super::generators::{LOCAL, render, run, simple, template, with_template};
use super::*;

/// A set in the mode of Go templates with one element and one path, without options.
fn go(element: &Value, path: &str) -> Value {
    let mut set =
        with_template(json!([{"list": {"elements": [element]}}]), template("x", path, LOCAL));
    set["spec"].as_object_mut().unwrap().remove("goTemplateOptions");
    set
}

fn path(app: &Value) -> &str {
    app["spec"]["source"]["path"].as_str().unwrap()
}

/// Rendering fails with these texts, and prints nothing.
fn fails(set: &Value, texts: &[&str]) {
    run(&["render", "-f", "-"], set, &[]).fails(1, texts);
}

#[test]
fn elements_of_a_list_are_parameters_as_050_051_053() {
    let element = json!({"deep": {"list": [1.5, true, "z"]}, "n": 3});
    let got = render(&go(&element, "{{index .deep.list 0}}-{{.deep.list}}-{{.n}}"), &[]);
    assert_eq!(path(&got[0]), "1.5-[1.5 true z]-3", "AS-050: any type, and nested");
    fails(&go(&json!("text"), "p"), &["list.elements[0]: must be an object, is a string"]);

    let element = json!({"n": "a", "values": {"v": "b"}});
    let got = render(&simple(go(&element, "{{n}}-{{values.v}}")), &[]);
    assert_eq!(path(&got[0]), "a-b", "AS-051");
    for (element, place) in [
        (json!({"n": 3}), "list.elements[0].n: must be a string, is a number"),
        (json!({"n": ["a"]}), "list.elements[0].n: must be a string, is a list"),
        (json!({"values": "v"}), "list.elements[0].values: must be an object of strings"),
        (json!({"values": {"v": true}}), "list.elements[0].values.v: must be a string"),
    ] {
        fails(&simple(go(&element, "p")), &[place]);
    }

    // Without parameters nothing is rendered, and the finalizer is there (AS-121).
    for set in [go(&json!({}), "{{.n}}"), simple(go(&json!({}), "{{n}}"))] {
        let got = render(&set, &[]);
        assert_eq!(
            got[0]["spec"]["source"]["path"], set["spec"]["template"]["spec"]["source"]["path"],
            "AS-053"
        );
        let finalizer = json!(["resources-finalizer.argocd.argoproj.io"]);
        assert_eq!(got[0]["metadata"]["finalizers"], finalizer, "AS-121");
    }
}

#[test]
fn generators_of_one_element_run_in_their_order_as_040() {
    let both = json!([
        {"clusters": {}, "list": {"elements": [{"name": "listed", "server": LOCAL}]}},
        {"list": {"elements": [{"name": "last", "server": LOCAL}]}},
    ]);
    let set = with_template(both.clone(), template("{{.name}}", "p", "{{.server}}"));
    let names: Vec<Value> =
        render(&set, &[]).iter().map(|app| app["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["in-cluster", "last", "listed"]);
    // The first error is that of the list, which runs before the clusters, whatever their
    // order in the file.
    let mut wrong = set;
    wrong["spec"]["generators"][0]["clusters"] =
        json!({"selector": {"matchLabels": {"no key!": "x"}}});
    wrong["spec"]["generators"][0]["list"] = json!({"elementsYaml": "none"});
    fails(&wrong, &["spec.generators[0].list.elementsYaml: must be a list"]);
}

#[test]
fn go_templates_have_the_constructs_of_the_language_as_120_122() {
    let element = json!({
        "n": "a", "l": ["x", "y"], "m": {"k2": "2", "k1": "1"}, "zero": 0, "no": false, "empty": "",
        "none": [], "three": 3, "user": {"name": "u"},
    });
    let cases = [
        ("plain", "plain"),
        ("{{- range $i, $e := .l }}{{ if $i }},{{ end }}{{ $e }}{{ end -}}", "x,y"),
        ("{{ with .user }}{{ .name }}-{{ $.n }}{{ end }}", "u-a"),
        ("{{ with .none }}x{{ else }}y{{ end }}", "y"),
        ("{{ define \"t\" }}[{{ . }}]{{ end }}{{ template \"t\" .n }}", "[a]"),
        ("{{ block \"b\" .n }}<{{ . }}>{{ end }}{{/* a comment */}}", "<a>"),
        ("{{ range .l }}{{ if eq . \"y\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "x"),
        ("{{ (index .l 0) | upper | printf \"%s!\" }}", "X!"),
        (
            "{{ if .zero }}t{{ else if .no }}t{{ else if .empty }}t{{ else if .none }}t{{ else }}f{{ end }}",
            "f",
        ),
        ("{{ if .absent }}t{{ else }}f{{ end }}", "f"),
        ("{{ range $k, $v := .m }}{{ $k }}={{ $v }};{{ end }}", "k1=1;k2=2;"),
        ("{{ range int .three }}{{ . }}{{ end }}", "012"),
        ("{{ range .absent }}x{{ else }}none{{ end }}", "none"),
    ];
    for (text, want) in cases {
        assert_eq!(path(&render(&go(&element, text), &[])[0]), want, "{text}");
    }
    for text in ["{{ range .three }}x{{ end }}", "{{ range .n }}x{{ end }}"] {
        fails(&go(&element, text), &["spec.template.spec.source.path", "range"]);
    }
    // A construct cannot span two strings.
    let mut set = go(&element, "{{ if .n }}");
    set["spec"]["template"]["spec"]["source"]["targetRevision"] = "{{ end }}".into();
    fails(&set, &["spec.template.spec.source.path"]);
}

#[test]
fn missing_keys_follow_the_option_as_132() {
    let element = json!({"s": "text"});
    let with = |option: &str, text: &str| {
        let mut set = go(&element, text);
        set["spec"]["goTemplateOptions"] = json!([format!("missingkey={option}")]);
        set
    };
    for option in ["default", "invalid"] {
        for text in ["{{.x}}", "{{.x.y}}"] {
            assert_eq!(path(&render(&with(option, text), &[])[0]), "<no value>", "{option} {text}");
        }
    }
    assert_eq!(path(&render(&with("zero", "{{.x}}"), &[])[0]), "<no value>");
    fails(&with("error", "{{.x}}"), &["map has no entry for key \"x\"; the keys are s (param"]);
    let mut boolean = with("error", "{{.n}}");
    boolean["spec"]["generators"][0]["list"]["elements"][0] = json!({"s": "text", "false": "a"});
    fails(&boolean, &["YAML reads the key n as the boolean false: write it in quotes"]);
    for option in ["default", "invalid", "zero", "error"] {
        fails(&with(option, "{{.s.y}}"), &["can't evaluate field y"]);
    }
}

#[test]
fn templates_that_cannot_be_parsed_name_their_place_as_131() {
    for (text, why) in [("{{ nosuch }}", "nosuch"), ("{{ if }}", "if"), ("{{ .a", "unclosed")] {
        fails(&go(&json!({"a": "b"}), text), &["spec.template.spec.source.path", why]);
    }
}

#[test]
fn templates_are_merged_before_they_are_rendered_as_143_and_patched_as_145() {
    let mut set = go(&json!({"n": "a", "p": "deploy"}), "base/{{.p}}");
    set["spec"]["generators"][0]["list"]["template"] =
        json!({"metadata": {"name": "own-{{.n}}"}, "spec": {"project": "", "destination": {}}});
    let got = render(&set, &[]);
    assert_eq!(
        (got[0]["metadata"]["name"].as_str(), path(&got[0])),
        (Some("own-a"), "base/deploy")
    );

    set["spec"]["template"]["spec"]["source"]["helm"] =
        json!({"valueFiles": ["x", "y"], "skipCrds": true});
    set["spec"]["templatePatch"] = json!(
        "spec:\n  source:\n    path: '{{.p}}/patched'\n    helm: {valueFiles: ['{{.n}}'], skipCrds: null}\n"
    );
    let got = render(&set, &[]);
    assert_eq!(path(&got[0]), "deploy/patched", "AS-145: objects merge");
    assert_eq!(
        got[0]["spec"]["source"]["helm"],
        json!({"valueFiles": ["a"]}),
        "AS-145: lists are replaced, null deletes"
    );
}
