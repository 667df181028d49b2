//! How the template of a set, and that of a generator, are rendered.

use super::generators::{LOCAL, render, run, simple, template, with_template};
use super::*;

#[test]
fn strings_of_the_template_are_rendered_and_other_values_kept_as_110() {
    let cases = [
        (
            json!({"one": "\"hello\" world", "three": "four"}),
            "{{one}} {{three}}",
            "\"hello\" world four",
            10,
        ),
        (
            json!({"path[0]": "apps", "path.basename": "web"}),
            "{{path[0]}}/{{path.basename}}",
            "apps/web",
            16,
        ),
    ];
    for (element, text, want, row) in cases {
        let set = simple(with_template(
            json!([{"list": {"elements": [element]}}]),
            template("x", text, LOCAL),
        ));
        assert_eq!(render(&set, &[])[0]["spec"]["source"]["path"], want, "row {row}");
    }
    let yaml = json!([{"list": {"elementsYaml": "- {k: a, count: 3}"}}]);
    let set = simple(with_template(yaml, template("{{k}}", "{{count}}", LOCAL)));
    assert_eq!(render(&set, &[])[0]["spec"]["source"]["path"], "{{count}}", "row 12, AS-114");
    let mut annotated = simple(with_template(
        json!([{"list": {"elements": [{"key": "some-key", "value": "some-value"}]}}]),
        template("x", "p", LOCAL),
    ));
    annotated["spec"]["template"]["metadata"]["annotations"] = json!({"k-{{key}}": "v-{{value}}"});
    assert_eq!(
        render(&annotated, &[])[0]["metadata"]["annotations"],
        json!({"k-some-key": "v-some-value"}),
        "row 15"
    );

    let object = json!({"some": {"string": "{{.test}}", "{{.test}}": ["{{.test}}", null]}, "n": 3, "z": null});
    let want =
        json!({"some": {"string": "Hello world", "Hello world": ["Hello world", null]}, "n": 3});
    let cases = [
        (object.clone(), want.clone(), 51),
        (object.to_string().into(), want, 52),
        ("some:\n  string: \"{{.test}}\"".into(), json!({"some": {"string": "Hello world"}}), 52),
    ];
    for (values, want, row) in cases {
        let mut set = with_template(
            json!([{"list": {"elements": [{"test": "Hello world"}]}}]),
            template("x", "p", LOCAL),
        );
        set["spec"]["template"]["spec"]["source"]["helm"] = json!({ "valuesObject": values });
        set["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
        let app = &render(&set, &[])[0];
        assert_eq!(app["spec"]["source"]["helm"]["valuesObject"], want, "row {row}");
        assert_eq!(app["spec"]["syncPolicy"], json!({"automated": {"prune": true}}), "row 53");
        let source =
            set["spec"]["template"]["spec"].as_object_mut().unwrap().remove("source").unwrap();
        set["spec"]["template"]["spec"]["sources"] = json!([source]);
        assert_eq!(
            render(&set, &[])[0]["spec"]["sources"][0]["helm"]["valuesObject"],
            want,
            "row {row}"
        );
        set["spec"]["template"]["spec"]["sources"][0]["helm"]["valuesObject"] = "just text".into();
        run(&["render", "-f", "-"], &set, &[])
            .fails(1, &["spec.template.spec.sources[0].helm.valuesObject: must be an object"]);
    }
}

#[test]
fn a_generator_overrides_the_template_field_by_field_as_142() {
    let own = json!({
        "metadata": {"labels": {"a": "1"}},
        "spec": {
            "project": "", "destination": {},
            "source": {"repoURL": "", "helm": {"valueFiles": ["x"]}},
            "syncPolicy": {"automated": {"prune": false}},
        },
    });
    let mut set = with_template(
        json!([{"list": {"elements": [{"k": "v"}], "template": own}}]),
        template("x", "p", LOCAL),
    );
    let base = &mut set["spec"]["template"];
    base["metadata"]["labels"] = json!({"a": "2", "b": "3"});
    base["spec"]["source"]["helm"] = json!({"valueFiles": ["y", "z"]});
    base["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    let app = &render(&set, &[])[0];
    assert_eq!(app["metadata"]["labels"], json!({"a": "1", "b": "3"}), "row 283");
    assert_eq!(app["spec"]["syncPolicy"], json!({"automated": {"prune": true}}), "row 284");
    assert_eq!(app["spec"]["source"]["helm"]["valueFiles"], json!(["x"]), "row 285");
    assert_eq!(app["spec"]["project"], "default", "row 286");
    // Free-form JSON is one value, in every source.
    let helm = |values: Value| json!({"helm": {"valuesObject": values}});
    set["spec"]["template"]["spec"]["source"]["helm"] =
        json!({"valuesObject": {"a": {"y": 2}, "b": 3}, "releaseName": "r"});
    let own = &mut set["spec"]["generators"][0]["list"]["template"]["spec"]["source"];
    own["helm"] = helm(json!({"a": {"x": "{{.k}}"}}))["helm"].clone();
    let source = &render(&set, &[])[0]["spec"]["source"];
    assert_eq!(
        source["helm"],
        json!({"valuesObject": {"a": {"x": "v"}}, "releaseName": "r"}),
        "taken whole"
    );
}
