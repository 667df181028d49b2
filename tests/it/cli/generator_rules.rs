//! What generators give, rule by rule (AS-003 to AS-171): `render` prints the parameters.

use super::generators::{LOCAL, clusters, render, run, secret, simple, template, with_template};
use super::*;
use crate::support::repository::Repository;

/// A set whose Applications carry their parameters in an annotation.
fn showing(generators: Value) -> Value {
    let mut template = template("x-{{sha1sum (toJson .)}}", "p", LOCAL);
    template["metadata"]["annotations"] = json!({"parameters": "{{toJson .}}"});
    let mut set = with_template(generators, template);
    set["spec"].as_object_mut().unwrap().remove("goTemplateOptions");
    set
}

/// The parameter sets of these generators, in some order.
fn parameters(generators: Value, secrets: &[Value]) -> Vec<Value> {
    let applications = render(&showing(generators), secrets);
    let text =
        |app: &Value| app["metadata"]["annotations"]["parameters"].as_str().unwrap().to_owned();
    let mut all: Vec<String> = applications.iter().map(text).collect();
    all.sort();
    all.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[track_caller]
fn gives(number: &str, generator: Value, want: Value) {
    let want = want.as_array().unwrap();
    let got = parameters(json!([generator]), &[]);
    assert_eq!(got.len(), want.len(), "{number}: {got:?} {generator}");
    for one in want {
        assert!(got.contains(one), "{number}: {one} is not in {got:?}: {generator}");
    }
}

/// Nothing is rendered, and this is why.
#[track_caller]
fn fails(number: &str, generator: Value, part: &str) {
    let run = run(&["render", "-f", "-", "-o", "json"], &showing(json!([generator])), &[]);
    assert_ne!(run.code, 0, "{number}: {}", run.out);
    assert!(run.err.contains(part), "{number}: no {part:?} in {}", run.err);
}

fn list(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

fn matrix(first: Value, second: Value) -> Value {
    json!({"matrix": {"generators": [first, second]}})
}

fn merge(keys: Value, generators: Value) -> Value {
    json!({"merge": {"mergeKeys": keys, "generators": generators}})
}

fn selected(elements: Value, selector: Value) -> Value {
    json!({"list": {"elements": elements}, "selector": selector})
}

/// AS-003, AS-041: several fields in one element give all of theirs. AS-004: combinations are
/// nested once. AS-044, AS-045, AS-046: what a selector selects. AS-054: nothing gives nothing.
#[test]
fn elements_are_read_and_selected_as_003_as_004_as_044_to_as_046_as_054() {
    let both = json!({"list": {"elements": [{"a": "1"}]}, "merge": {"mergeKeys": ["k"],
        "generators": [list(json!([{"k": "1"}])), list(json!([{"k": "1", "v": "2"}]))]}});
    gives("AS-003", both, json!([{"a": "1"}, {"k": "1", "v": "2"}]));
    let one = || list(json!([{"a": "1"}]));
    let two = || matrix(one(), one());
    gives("AS-004", matrix(two(), one()), json!([{"a": "1"}]));
    gives("AS-004", merge(json!(["a"]), json!([two(), one()])), json!([{"a": "1"}]));
    fails("AS-004", matrix(matrix(two(), one()), one()), "can be nested once only");

    let long = format!("https://example.com/{}", "x".repeat(80));
    let elements = json!([{"a": "1", "u": long}, {"a": "2"}, {"b": {"c": ["x", "y"]}}]);
    let by =
        |expressions: Value| selected(elements.clone(), json!({"matchExpressions": expressions}));
    let (first, second, third) = (elements[0].clone(), elements[1].clone(), elements[2].clone());
    let expression = |key: &str, operator: &str, values: Value| {
        let mut expression = json!({"key": key, "operator": operator});
        if !values.is_null() {
            expression["values"] = values;
        }
        json!([expression])
    };
    gives(
        "AS-044",
        selected(elements.clone(), json!({"matchLabels": {"u": long}})),
        json!([first]),
    );
    gives("AS-044", selected(elements.clone(), json!({})), elements.clone());
    gives("AS-044", by(expression("a", "In", json!(["2", "3"]))), json!([second]));
    gives("AS-044", by(expression("a", "NotIn", json!(["1"]))), json!([second, third]));
    gives("AS-044", by(expression("a", "Exists", Value::Null)), json!([first, second]));
    gives("AS-044", by(expression("a", "DoesNotExist", Value::Null)), json!([third]));
    fails("AS-044", by(expression("a", "In", json!([]))), "selector");
    fails("AS-044", by(expression("a", "Exists", json!(["1"]))), "selector");
    fails("AS-044", by(expression("-a", "Exists", Value::Null)), "selector");
    gives(
        "AS-045",
        selected(elements.clone(), json!({"matchLabels": {"b.c.1": "y"}})),
        json!([third]),
    );
    let inner = json!({"list": {"elements": [{"env": "1"}]}, "selector": {"matchLabels": {"env": "{{.a}}"}}});
    gives("AS-046", matrix(one(), inner), json!([]));
    for empty in [list(json!([])), json!({"list": {"elementsYaml": "[]"}})] {
        gives("AS-054", empty, json!([]));
    }
    // Nothing is deleted because a field is missing: see docs/differences.md.
    fails("AS-054", json!({"list": {}}), "has neither elements nor elementsYaml");
    fails("AS-054", json!({"list": {"elementsYaml": ""}}), "elementsYaml");
}

/// AS-061: the local cluster is there unless it is selected away. AS-063: all clusters at once.
#[test]
fn clusters_are_local_and_flat_as_061_as_063() {
    let names = |fields: Value, secrets: &[Value]| -> Vec<String> {
        let sets = parameters(json!([{ "clusters": fields }]), secrets);
        let mut names: Vec<String> =
            sets.iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let all = clusters();
    assert_eq!(names(json!({}), &all), ["east", "in-cluster", "west_1"], "AS-061");
    assert_eq!(names(json!({"selector": {"matchLabels": {}}}), &all).len(), 3, "AS-061");
    assert_eq!(
        names(json!({"selector": {"matchLabels": {"env": "dev"}}}), &all),
        ["east"],
        "AS-061"
    );
    let own = [secret("here", LOCAL, json!({}))];
    assert_eq!(names(json!({}), &own), ["here"], "AS-061: its Secret is the local cluster");
    let local = parameters(json!([{"clusters": {}}]), &[]);
    let want = json!({"name": "in-cluster", "nameNormalized": "in-cluster", "server": LOCAL, "project": ""});
    assert_eq!(local, [want], "AS-061");

    let flat = parameters(json!([{"clusters": {"flatList": true}}]), &all);
    assert_eq!(flat.len(), 1, "AS-063");
    let listed = flat[0]["clusters"].as_array().unwrap();
    let mut listed: Vec<&str> =
        listed.iter().map(|cluster| cluster["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["east", "in-cluster", "west_1"], "AS-063");
    let none =
        json!([{"clusters": {"flatList": true, "selector": {"matchLabels": {"env": "none"}}}}]);
    assert_eq!(parameters(none, &all), [json!({"clusters": []})], "AS-063: even when it is empty");
}

/// AS-072, AS-073, AS-074, AS-080, AS-082, AS-083: how a matrix and a merge combine.
#[test]
fn generators_combine_as_072_to_as_083() {
    let first = list(json!([{"f": false, "s": "x", "l": [], "z": 0, "m": {"a": 1}}]));
    let second = list(json!([{"f": true, "s": "y", "l": [1], "z": 2, "m": {"a": 2, "b": 3}}]));
    let want = json!([{"f": false, "l": [], "m": {"a": 1, "b": 3}, "s": "x", "z": 0}]);
    gives("AS-072", matrix(first, second), want);
    let clash = matrix(list(json!([{"a": "one"}])), list(json!([{"a": "two"}])));
    let mut set = simple(with_template(json!([clash]), template("x", "p", LOCAL)));
    let render_it = |set: &Value| run(&["render", "-f", "-", "-o", "json"], set, &[]);
    let refused = render_it(&set);
    assert_ne!(refused.code, 0, "AS-072");
    assert!(
        refused.err.contains("spec.generators[0].matrix: parameter a is \"one\"")
            && refused.err.contains("\"two\""),
        "AS-072: {}",
        refused.err
    );
    set["spec"]["generators"][0]["matrix"]["generators"][1] = list(json!([{"a": "one", "c": "d"}]));
    assert_eq!(render_it(&set).code, 0, "AS-072: equal texts are no conflict");

    let outer = || list(json!([{"env": "blue"}]));
    let with = |value: &str| json!({"clusters": {"values": {"env": "{{.env}}", "x": value}}});
    let values =
        |value: &str| parameters(json!([matrix(outer(), with(value))]), &[])[0]["values"].clone();
    assert_eq!(values("{{.name}}"), json!({"env": "blue", "x": "in-cluster"}), "AS-073");
    fails("AS-073", matrix(outer(), with("{{.env")), "clusters.values.x");
    fails("AS-073", matrix(outer(), with("{{mustFromJson \"no\"}}")), "clusters.values.x");
    let ignored = json!({"list": {"elements": [{"x": "{{.env}}"}],
        "template": {"metadata": {"name": "other"}, "spec": {"project": "", "destination": {}}}}});
    gives("AS-074", matrix(outer(), ignored), json!([{"env": "blue", "x": "blue"}]));

    let lists = |lists: &[Value]| -> Value { lists.iter().cloned().map(list).collect() };
    fails("AS-080", merge(json!(["a"]), lists(&[json!([])])), "merge at least two generators");
    let keys = "spec.generators[0].merge.mergeKeys: is empty";
    fails("AS-080", merge(json!([]), lists(&[json!([]), json!([])])), keys);
    let pair = || lists(&[json!([{"k": "1"}]), json!([{"k": "1", "v": "2"}])]);
    gives("AS-080", merge(json!(["k", "k"]), pair()), json!([{"k": "1", "v": "2"}]));
    gives(
        "AS-082",
        merge(json!(["b"]), lists(&[json!([{"a": "1"}]), json!([{"a": "2"}])])),
        json!([{"a": "2"}]),
    );
    let nested = lists(&[
        json!([{"values": {"id": "x"}}]),
        json!([{"values": {"id": "x", "v": 1}}, {"values": {"id": "y"}}]),
    ]);
    gives("AS-082", merge(json!(["values.id"]), nested), json!([{"values": {"id": "x", "v": 1}}]));
    let base = selected(json!([{"k": "1"}, {"k": "2"}]), json!({"matchLabels": {"k": "2"}}));
    let more = list(json!([{"k": "1", "v": "a"}, {"k": "2", "v": "b"}]));
    gives("AS-083", merge(json!(["k"]), json!([base, more])), json!([{"k": "2", "v": "b"}]));
}

/// AS-090, AS-093, AS-095: which files and folders of a repository, and as which parameters.
/// AS-112: values see the parameters of their generator, and not each other.
#[test]
fn folders_of_a_repository_have_parameters_as_090_as_093_as_095_as_112() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::new(folder.path().join("fleet"));
    repository.commit("first", &[("apps/My_App/values.yaml".to_owned(), "size: 3".to_owned())]);
    let git = |fields: Value| {
        let mut git = json!({"repoURL": repository.url(), "revision": "HEAD"});
        git.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "git": git })
    };
    let folders = json!([{"path": "apps/*"}]);
    let path = json!({"basename": "My_App", "basenameNormalized": "my-app", "path": "apps/My_App", "segments": ["apps", "My_App"]});
    gives("AS-093", git(json!({"directories": folders})), json!([{ "path": path }]));
    let prefixed = git(json!({"directories": folders, "pathParamPrefix": "p"}));
    gives("AS-093", prefixed, json!([{"p": {"path": path}}]));
    let both = git(json!({"directories": folders, "files": [{"path": "apps/*/values.yaml"}]}));
    gives("AS-090", both, json!([{ "path": path }]));
    fails("AS-090", git(json!({})), "spec.generators[0].git: has neither directories nor files");
    let values = json!({"a": "{{.path.basename}}", "b": "{{if .values}}sees{{else}}blind{{end}}"});
    let sets = parameters(json!([git(json!({"directories": folders, "values": values}))]), &[]);
    assert_eq!(sets[0]["values"], json!({"a": "My_App", "b": "blind"}), "AS-095, AS-112");

    let element = git(json!({"directories": folders, "values": {"v": "{{path[0]}}"}}));
    let text = "{{path}} {{path.basename}} {{path.basenameNormalized}} {{path[0]}} {{path[1]}} {{values.v}}";
    let mut template = template("x", "p", LOCAL);
    template["metadata"]["annotations"] = json!({ "text": text });
    let simple_set = simple(with_template(json!([element]), template));
    let got = render(&simple_set, &[]);
    let want = "apps/My_App My_App my-app apps My_App apps";
    assert_eq!(got[0]["metadata"]["annotations"]["text"], want, "AS-093, AS-095");
}

/// AS-113: what simple templates replace. AS-133: an option that there is none of. AS-146, AS-147:
/// what a patch changes. AS-170, AS-171: names.
#[test]
fn templates_render_as_113_as_133_as_146_as_147_as_170_as_171() {
    for (text, want) in [
        ("{{one}}", Some("two")),
        ("{{ one }}-{{one}}", Some("two-two")),
        ("}} {{", Some("}} {{")),
        ("{{ }}", Some("{{ }}")),
        ("{{ONE}} {{missing}}", Some("{{ONE}} {{missing}}")),
        ("{{one\n}}", Some("{{one\n}}")),
        ("{{again}}", Some("{{one}}")),
        ("{{one}} {{one}", None),
    ] {
        let mut template = template("x", "p", LOCAL);
        template["metadata"]["annotations"] = json!({ "text": text });
        let elements = list(json!([{"one": "two", "again": "{{one}}"}]));
        let set = simple(with_template(json!([elements]), template));
        let run = run(&["render", "-f", "-", "-o", "json"], &set, &[]);
        match want {
            Some(want) => {
                let app = &run.json()["items"][0];
                assert_eq!(app["metadata"]["annotations"]["text"], want, "AS-113: {text:?}");
            }
            None => assert_ne!(run.code, 0, "AS-113: {text:?} {}", run.out),
        }
    }

    let go = |text: &str| {
        let mut template = template("x", "p", LOCAL);
        template["metadata"]["annotations"] = json!({ "text": text });
        with_template(json!([list(json!([{"a": "1"}]))]), template)
    };
    let mut odd = go("plain");
    odd["spec"]["goTemplateOptions"] = json!(["missingkey=oops"]);
    let refused = run(&["render", "-f", "-"], &odd, &[]);
    assert_ne!(refused.code, 0, "AS-133");
    assert!(refused.err.contains("missingkey=oops"), "AS-133: {}", refused.err);

    let patched = |patch: &str| {
        let mut set = go("plain");
        set["spec"]["templatePatch"] = patch.into();
        render(&set, &[])[0].clone()
    };
    let plain = render(&go("plain"), &[])[0].clone();
    for nothing in ["", "  \n", "null", "{}", "{{if eq .a \"2\"}}x{{end}}"] {
        assert_eq!(patched(nothing), plain, "AS-147: {nothing:?}");
    }
    let changed = patched(
        r#"{"operation": {"sync": {}}, "status": {"x": 1}, "metadata": {"name": "new", "labels": {"l": "m"}, "finalizers": ["f"]}}"#,
    );
    assert_eq!((&changed["operation"], &changed["status"]), (&Value::Null, &Value::Null), "AS-146");
    assert_eq!(changed["metadata"]["name"], "new", "AS-146");
    assert_eq!(changed["metadata"]["labels"]["l"], "m", "AS-146");
    assert!(changed["metadata"]["finalizers"].as_array().unwrap().contains(&json!("f")), "AS-146");

    let long = "feat/a_really+long_pull_request_name_to_test_argo_slugification_and_branch_name_shortening_feature";
    for (text, want) in [
        ("{{normalize \"production_01/west\"}}".to_owned(), "production-01-west"),
        ("{{normalize \"-.Foo_Bar.-\"}}".to_owned(), "foo-bar"),
        ("{{normalize \"My App/Name.v1.2\"}}".to_owned(), "my-app-name.v1.2"),
        ("x{{normalize \"___\"}}".to_owned(), "x"),
        (format!("{{{{slugify 23 true \"{long}\"}}}}"), "feat-a-really-long-pull"),
        (
            format!("{{{{slugify 50 false \"{long}\"}}}}"),
            "feat-a-really-long-pull-request-name-to-test-argo",
        ),
        ("{{slugify \"Feature/ABC.123_fix\"}}".to_owned(), "feature-abc-123-fix"),
        ("{{slugify 5 \"abcdefghij\"}}".to_owned(), "abcde"),
        ("x{{slugify 0 false \"ab\"}}".to_owned(), "x"),
    ] {
        let app = &render(&go(&text), &[])[0];
        assert_eq!(app["metadata"]["annotations"]["text"], want, "AS-170, AS-171: {text}");
    }
    let refused = run(&["render", "-f", "-"], &go("{{slugify -1 false \"ab\"}}"), &[]);
    assert_ne!(refused.code, 0, "AS-171: {}", refused.out);
}

/// AS-340, AS-342, AS-343: how many Applications of a step may run at once. AS-007: a type that
/// there is none of. AS-317: a step of nothing is told.
#[test]
fn steps_have_limits_as_340_as_342_as_343_as_007() {
    let names: Vec<String> = (0..15).map(|number| format!("a{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (max_update, limit, is_valid) in [
        (Value::Null, 15, true),
        (json!(0), 0, true),
        (json!(3), 3, true),
        (json!(99), 15, true),
        (json!(-1), 0, true),
        (json!("0%"), 0, true),
        (json!("00%"), 0, true),
        (json!("1%"), 1, true),
        (json!("10%"), 1, true),
        (json!("50%"), 7, true),
        (json!("100%"), 15, true),
        (json!("-5%"), 0, false),
        (json!("3"), 3, false),
        (json!("0"), 0, false),
        (json!("abc"), 1, false),
        (json!("1.5%"), 1, false),
    ] {
        let set = set(&names, json!([selects(&names, max_update.clone())]));
        let run = with_input(&["plan", "-f", "-", "-o", "json"], set);
        let plan = run.json();
        let step = &plan["steps"][0];
        assert_eq!(step["limit"], limit, "AS-340, AS-342, AS-343: {max_update}: {plan}");
        let told = plan["problems"].to_string().contains("InvalidMaxUpdate");
        assert_eq!(told, !is_valid, "AS-342: {max_update}: {plan}");
        if limit == 0 {
            assert_eq!(step["batches"], json!([]), "AS-343: {max_update}");
        }
    }
    let unknown = set(&["a"], json!([selects(&["a"], Value::Null)]))
        .replace("RollingSync\"", "RollingSink\"");
    let run = with_input(&["plan", "-f", "-", "-o", "json"], unknown);
    assert_eq!(run.code, 1, "AS-007: {}", run.out);
    assert!(run.out.contains("RollingSink"), "AS-007: {}", run.out);
}

/// AS-005: what a template may set. AS-008: the step of an entry is a text, and its revisions a
/// list.
#[test]
fn the_definition_of_sets_says_what_is_required_as_005_as_008() {
    let run = wavegate(&["crds"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let documents =
        run.out.split("\n---\n").map(|text| wavegate_api::yaml::parse_value(text).unwrap());
    let set = documents.into_iter().find(|one| one["spec"]["names"]["kind"] == "ApplicationSet");
    let set = set.unwrap();
    let schema = &set["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let spec = &schema["spec"]["properties"];
    let generators = &spec["generators"]["items"]["properties"];
    for template in [&spec["template"], &generators["list"]["properties"]["template"]] {
        assert_eq!(template["required"], json!(["metadata", "spec"]), "AS-005");
        let keys = |value: &Value| -> Vec<String> {
            let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&template["properties"]), ["metadata", "spec"], "AS-005");
        let fields = ["annotations", "finalizers", "labels", "name", "namespace"];
        let metadata = &template["properties"]["metadata"]["properties"];
        assert_eq!(keys(metadata), fields, "AS-005: no generateName");
        let required = &template["properties"]["spec"]["required"];
        assert_eq!(*required, json!(["destination", "project"]), "AS-005");
    }
    let open = &generators["list"]["properties"]["elements"]["items"];
    assert_eq!(open["x-kubernetes-preserve-unknown-fields"], true, "AS-005");
    let entry = &schema["status"]["properties"]["applicationStatus"]["items"];
    assert_eq!(entry["properties"]["step"]["type"], "string", "AS-008");
    assert_eq!(entry["properties"]["targetRevisions"]["type"], "array", "AS-008");
    let required = entry["required"].as_array().unwrap();
    assert!(required.contains(&json!("targetRevisions")), "AS-008: {required:?}");
}
