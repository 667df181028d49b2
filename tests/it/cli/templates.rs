//! Templates: limits, error positions, and output as in Argo CD.

use std::time::{Duration, Instant};

use super::*;

/// A set whose Application has this annotation, with some parameters.
fn annotated(annotation: &str, go: bool) -> String {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": go,
            "generators": [{"list": {"elements": [{"n": "app"}]}}],
            "template": {
                "metadata": {"name": if go { "{{.n}}" } else { "{{n}}" }, "annotations": {"a": annotation}},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://example.com/repo", "path": "p"},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": "x"},
                },
            },
        },
    })
    .to_string()
}

/// Runs the program with a limit on its address space in KiB.
fn within(kib: u64, args: &[&str], input: &str) -> Run {
    let program = program(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]);
    command.arg(program.get_program()).args(program.get_args());
    for (key, value) in program.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    finish(command, input.as_bytes())
}

#[test]
fn hostile_templates_are_bounded_and_name_position_and_limit_as_135() {
    let many = |item: &str, count: usize| item.repeat(count);
    let cases = [
        r#"{{regexFindAll ".*[^A-Z]|[A-Z]" (repeat 1048500 "A") -1 | len}}"#.to_owned(),
        r#"{{$s := repeat 1048000 "a"}}{{range until 100000}}{{$_ := contains "b" $s}}{{end}}"#.to_owned(),
        format!(r#"{{{{$s := repeat 1048000 "a"}}}}{{{{quote {}}}}}"#, many("$s ", 5000)),
        format!(r#"{{{{$l := list}}}}{{{{range until 100000}}}}{{{{$l = list $l {}}}}}{{{{end}}}}"#, many(". ", 500)),
        format!(r#"{{{{$d := dict}}}}{{{{range until 100000}}}}{{{{$_ := set $d (toString .) (dict {})}}}}{{{{end}}}}"#, many("\"k\" . ", 50)),
        r#"{{$l := list}}{{$s := repeat 1000000 "s"}}{{range until 1000}}{{$l = append $l $s}}{{end}}{{$_ := sortAlpha $l}}"#.to_owned(),
        r#"{{$s := repeat 1048000 "a"}}{{$_ := splitList "" $s}}"#.to_owned(),
        r#"{{$y := printf "[%s]" (repeat 1000000 "a,")}}{{range until 50}}{{$_ := fromYamlArray $y}}{{end}}"#.to_owned(),
        r#"{{$d := dict}}{{range until 20}}{{$_ := set $d (print . (repeat 1000000 "k")) 1}}{{end}}{{range until 100000}}{{$_ := keys $d}}{{end}}"#.to_owned(),
        r#"{{range until 9999}}{{$_ := regexMatch (printf "\\pL{40}%d" .) "x"}}{{end}}"#.to_owned(),
        r#"{{printf (repeat 100000 "%1000000d") 1}}"#.to_owned(),
    ];
    let began = Instant::now();
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let run = |text: &String| within(600_000, &["render", "-f", "-"], &annotated(text, true));
        let runs: Vec<_> = cases.iter().map(|text| scope.spawn(move || run(text))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for (run, text) in runs.iter().zip(&cases) {
        println!("{:.80}: {:.300}", text, run.err);
        run.fails(1, &["spec.template.metadata.annotations.a: template: :1:", "limit exceeded: "]);
    }
    // Each has ten seconds of CPU time, also on a busy machine.
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
}

#[test]
fn the_simple_engine_is_bounded_as_135() {
    let mut set: Value = serde_json::from_str(&annotated(&"{{n}}".repeat(200_000), false)).unwrap();
    set["spec"]["generators"] = json!([{"list": {"elements": [{"n": "x".repeat(100_000)}]}}]);
    set["spec"]["template"]["metadata"]["name"] = "app".into();
    within(600_000, &["render", "-f", "-"], &set.to_string()).fails(
        1,
        &[
            "spec.template.metadata.annotations.a",
            "limit exceeded: output longer than 1048576 bytes",
        ],
    );
}

#[test]
fn a_set_and_its_applications_have_a_total_limit_as_135() {
    // Each string is within its limit.
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let all: serde_json::Map<String, Value> =
        (0..20).map(|i| (format!("a{i}"), r#"{{repeat 1000000 "x"}}"#.into())).collect();
    set["spec"]["template"]["metadata"]["annotations"] = all.into();
    within(600_000, &["render", "-f", "-"], &set.to_string())
        .fails(1, &["limit exceeded: one Application takes more than 4194304 bytes"]);

    let elements: Vec<Value> = (0..5000).map(|i| json!({"n": format!("app-{i}")})).collect();
    set["spec"]["generators"] = json!([{"list": {"elements": elements}}]);
    set["spec"]["template"]["metadata"]["annotations"] = json!({"a": r#"{{repeat 1000000 "x"}}"#});
    within(900_000, &["render", "-f", "-"], &set.to_string())
        .fails(1, &["limit exceeded: the set takes more than 268435456 bytes"]);
}

/// A map of one value takes ten times its text: 120 MB as counted took a gigabyte.
#[test]
fn applications_are_counted_by_the_memory_that_they_take_as_135() {
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let elements: Vec<Value> = (0..8000).map(|i| json!({"n": format!("app-{i}")})).collect();
    set["spec"]["generators"] = json!([{"list": {"elements": elements}}]);
    let maps: Vec<Value> = (0..120).map(|_| json!({"a": "{{.n}}"})).collect();
    set["spec"]["template"]["spec"]["info"] = maps.into();
    let run = within(1_000_000, &["render", "-f", "-"], &set.to_string());
    run.fails(1, &["limit exceeded: the set takes more than 536870912 bytes of memory"]);
}

/// What one object of an API server can hold.
#[test]
fn fifty_thousand_small_applications_are_generated_as_135() {
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let elements: Vec<Value> = (0..50_000).map(|i| json!({"n": format!("a{i}")})).collect();
    set["spec"]["generators"] = json!([{"list": {"elements": elements}}]);
    set["spec"]["template"]["metadata"]["labels"] = json!({"env": "prod"});
    let automated = json!({"automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"]});
    set["spec"]["template"]["spec"]["syncPolicy"] = automated;
    let run = within(1_500_000, &["render", "-f", "-", "-o", "table"], &set.to_string());
    // With a header.
    assert_eq!((run.code, run.out.lines().count()), (0, 50_001), "{}", run.err);
}

#[test]
fn aliases_of_a_patch_do_not_multiply_its_text() {
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let patch = format!(
        "{{{{/* */}}}}metadata:\n  annotations:\n    a: &a {}\n    b: [{}]\n",
        "x".repeat(400_000),
        "*a,".repeat(50_000)
    );
    set["spec"]["templatePatch"] = patch.into();
    let run = within(900_000, &["render", "-f", "-"], &set.to_string());
    run.fails(1, &["spec.templatePatch"]);
}

#[test]
fn a_patch_removes_finalizers_as_145() {
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let metadata = &mut set["spec"]["template"]["metadata"];
    metadata["finalizers"] = json!(["example.com/a", "example.com/b"]);
    set["spec"]["templatePatch"] = json!(
        "metadata: {$deleteFromPrimitiveList/finalizers: [example.com/a], finalizers: [example.com/c]}"
    );
    let run = with_input(&["render", "-f", "-", "-o", "json"], set.to_string());
    assert_eq!(run.code, 0, "{}", run.err);
    let finalizers = &run.json()["items"][0]["metadata"]["finalizers"];
    assert_eq!(finalizers, &json!(["example.com/b", "example.com/c"]));

    // Lists that are replaced have nothing to remove from.
    set["spec"]["templatePatch"] =
        json!("spec: {syncPolicy: {$deleteFromPrimitiveList/syncOptions: [A=true]}}");
    let run = with_input(&["render", "-f", "-"], set.to_string());
    run.fails(1, &["$deleteFromPrimitiveList/spec.syncPolicy.syncOptions", "write the whole list"]);

    // Of several documents none is guessed.
    set["spec"]["templatePatch"] = json!("metadata: {}\n---\nspec: {}\n");
    let run = with_input(&["render", "-f", "-"], set.to_string());
    run.fails(1, &["spec.templatePatch", "expected one document, found 2"]);
}

#[test]
fn numbers_keep_all_digits_as_111() {
    let mut set: Value =
        serde_json::from_str(&annotated("{{.x}} {{.y}} {{toJson .z}}", true)).unwrap();
    set["spec"]["generators"] = Value::Null;
    let text = set.to_string().replace(
        r#""generators":null"#,
        r#""generators":[{"list":{"elements":[{"n":"app","x":9.223372036854775e+18,"y":0.30000000000000004,"z":2.2250738585072011e-308}]}}]"#,
    );
    let run = with_input(&["render", "-f", "-", "-o", "json"], &text);
    assert_eq!(run.code, 0, "{}", run.err);
    let annotation = &run.json()["items"][0]["metadata"]["annotations"]["a"];
    assert_eq!(annotation, "9.223372036854775e+18 0.30000000000000004 2.225073858507201e-308");
}

#[test]
fn text_functions_work_on_bytes_and_long_lines_are_folded_as_in_argo_cd_as_130() {
    let words = |count: usize| "abcdefghi ".repeat(count);
    let nine = words(9);
    let cases = [
        (r#"{{nospace "héllo wörld"}}"#.to_owned(), "hÃ©llowÃ¶rld".to_owned()),
        (r#"{{nospace "héllo"}}"#.to_owned(), "héllo".to_owned()),
        (r#"{{nospace "à b"}}"#.to_owned(), "Ãb".to_owned()),
        // A trailing space requires quotes; the first space after column 80 breaks the line.
        (
            format!("{{{{toYaml \"{nine}\"}}}}"),
            format!("'{}\n  '", words(9).trim_end()).replace("\n  '", " '"),
        ),
        (
            format!("{{{{toYaml \"{}\"}}}}", words(10)),
            format!("'{}\n  abcdefghi '", words(9).trim_end()),
        ),
        (
            format!("{{{{toYaml (dict \"key\" \"{}\")}}}}", words(10)),
            format!("key: '{}\n  abcdefghi abcdefghi '", words(8).trim_end()),
        ),
        (
            format!("{{{{toYaml \"{}\"}}}}", words(10).trim_end()),
            format!("{}\n  abcdefghi", words(9).trim_end()),
        ),
        (
            format!("{{{{toYaml (list \"{}\")}}}}", words(10).trim_end()),
            format!("- {}\n  abcdefghi abcdefghi", words(8).trim_end()),
        ),
        // Characters are counted, not bytes.
        (
            format!("{{{{toYaml \"{}\"}}}}", "ääääääääi ".repeat(10).trim_end()),
            format!("{}\n  ääääääääi", "ääääääääi ".repeat(9).trim_end()),
        ),
        (
            format!("{{{{toYaml \"{}\\t\"}}}}", words(10)),
            format!("\"{}\n  abcdefghi \\t\"", words(9).trim_end()),
        ),
        // A space at the start of a quoted line is escaped.
        (
            format!("{{{{toYaml \"{}  x\\t\"}}}}", words(9).trim_end()),
            format!("\"{}\n  \\ x\\t\"", words(9).trim_end()),
        ),
        // A short key stays on its line.
        (format!("{{{{toYaml (dict \"{}\" 1)}}}}", words(10)), format!("'{}': 1", words(10))),
    ];
    for (template, want) in cases {
        let run = with_input(&["render", "-f", "-", "-o", "json"], annotated(&template, true));
        assert_eq!(run.code, 0, "{template}: {}", run.err);
        let got = &run.json()["items"][0]["metadata"]["annotations"]["a"];
        assert_eq!(got, &Value::from(want), "{template}");
    }
}

/// The one map of parameters goes through name, labels, annotations, spec and patch: what `set`
/// changes in one string is there in those after it. It stays in its Application.
#[test]
fn functions_that_change_a_dict_change_the_parameters_of_an_application_as_110() {
    let mut set: Value = serde_json::from_str(&annotated("{{ .full }}", true)).unwrap();
    let elements = json!([
        {"env": "dev", "cfg": {"a": 1, "drop": 1}, "over": {"a": 7, "c": 3}},
        {"env": "prod", "cfg": {"a": 2}, "over": {}},
    ]);
    set["spec"]["generators"] = json!([{"list": {"elements": elements}}]);
    set["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    set["spec"]["templatePatch"] = "{{- $_ := set .cfg \"patched\" \"yes\" }}\n\
         metadata: {annotations: {patch: '{{ .cfg | toJson }}'}}"
        .into();
    let name = r#"{{ $_ := set . "full" (printf "web-%s" .env) }}{{ $_ := unset .cfg "drop" }}{{ .full }}"#;
    set["spec"]["template"]["metadata"] = json!({
        "name": name, "annotations": {"where": "{{ .full }}", "seen": "{{ .cfg | toJson }}"},
        "labels": {"l": "{{ $_ := mergeOverwrite .cfg .over }}{{ .cfg.a }}"},
    });
    let spec = &mut set["spec"]["template"]["spec"];
    spec["source"]["path"] = "{{ .full }}".into();
    spec["source"]["repoURL"] =
        r#"https://example.com/{{ $_ := set . "repo" "r" }}{{ .repo }}"#.into();
    spec["destination"]["namespace"] = "ns-{{ .full }}-{{ .repo }}".into();
    let run = with_input(&["render", "-f", "-", "-o", "json"], set.to_string());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let items = run.json()["items"].clone();
    let seen = |app: &Value| {
        json!([
            app["metadata"]["name"],
            app["metadata"]["labels"]["l"],
            app["metadata"]["annotations"],
            app["spec"]["source"]["path"],
            app["spec"]["destination"]["namespace"]
        ])
    };
    let seen: Vec<Value> = items.as_array().unwrap().iter().map(seen).collect();
    let annotations =
        |of: &str, seen: &str, patch: &str| json!({"where": of, "seen": seen, "patch": patch});
    let first = annotations("web-dev", r#"{"a":7,"c":3}"#, r#"{"a":7,"c":3,"patched":"yes"}"#);
    let second = annotations("web-prod", r#"{"a":2}"#, r#"{"a":2,"patched":"yes"}"#);
    assert_eq!(seen[0], json!(["web-dev", "7", first, "web-dev", "ns-web-dev-r"]));
    assert_eq!(seen[1], json!(["web-prod", "2", second, "web-prod", "ns-web-prod-r"]));
}

/// The same for `values` and for the second generator of a matrix, whose strings come before the
/// parameters are put together.
#[test]
fn functions_that_change_a_dict_change_the_parameters_of_generators_as_071() {
    let mut set: Value = serde_json::from_str(&annotated("x", true)).unwrap();
    let elements = json!([{"env": "dev", "cfg": {"a": 1}}, {"env": "prod", "cfg": {"a": 2}}]);
    let values = json!({"k": r#"{{ $_ := set .cfg "b" .env }}{{ .cfg.b }}"#});
    set["spec"]["generators"] = json!([{"matrix": {"generators": [
        {"list": {"elements": elements}}, {"clusters": {"values": values}},
    ]}}]);
    set["spec"]["template"]["metadata"] =
        json!({"name": "{{ .values.k }}", "annotations": {"a": "{{ .cfg | toJson }}"}});
    let run = with_input(&["render", "-f", "-", "-o", "json"], set.to_string());
    assert_eq!(run.code, 0, "{}", run.err);
    let items = run.json()["items"].clone();
    let annotations: Vec<&Value> =
        items.as_array().unwrap().iter().map(|app| &app["metadata"]["annotations"]["a"]).collect();
    assert_eq!(annotations, [r#"{"a":1,"b":"dev"}"#, r#"{"a":2,"b":"prod"}"#]);

    // A map that contains itself is no parameter set any more.
    let values = json!({"k": r#"{{ $_ := set .cfg "self" .cfg }}x"#});
    set["spec"]["generators"][0]["matrix"]["generators"][1]["clusters"]["values"] = values;
    let run = with_input(&["render", "-f", "-"], set.to_string());
    run.fails(
        1,
        &["spec.generators[0].matrix.generators[1]", "changes its parameters to what is no JSON"],
    );
}

/// Text that is cut inside a character is as in Go: U+FFFD for each byte that is left of it.
#[test]
fn text_that_is_cut_inside_a_character_is_as_in_go_as_130() {
    let run = with_input(
        &["render", "-f", "-", "-o", "json"],
        annotated(r#"{{ trunc 3 "a漢漢" }} {{ trunc 2 "漢" | toJson }}"#, true),
    );
    assert_eq!(run.code, 0, "{}", run.err);
    let got = &run.json()["items"][0]["metadata"]["annotations"]["a"];
    assert_eq!(got, "a\u{fffd}\u{fffd} \"\\ufffd\\ufffd\"");
}

/// Without goTemplate, a patch of Go templates says what to set.
#[test]
fn a_go_template_without_go_template_says_what_to_set_as_144() {
    let mut set: Value = serde_json::from_str(&annotated("x", false)).unwrap();
    set["spec"]["templatePatch"] =
        "{{- if eq .n \"app\" }}\nmetadata: {annotations: {a: b}}\n{{- end }}\n".into();
    let run = with_input(&["render", "-f", "-"], set.to_string());
    run.fails(1, &["spec.templatePatch", "which need spec.goTemplate: true"]);
    set["spec"]["templatePatch"] = "metadata: {annotations: {b: '{{ .n }}', c: '{{n}}'}}".into();
    set["spec"]["template"]["spec"]["source"]["path"] = "{{.n}}/x".into();
    let run = with_input(&["render", "-f", "-", "-o", "json"], set.to_string());
    assert_eq!(run.code, 0, "{}", run.err);
    let annotations = &run.json()["items"][0]["metadata"]["annotations"];
    assert_eq!(annotations["b"], "{{ .n }}");
    assert_eq!(annotations["c"], "app");
    for place in ["spec.template.spec.source.path: {{ .n }} is", "spec.templatePatch: {{ .n }} is"]
    {
        assert!(run.err.contains(place), "{}", run.err);
    }
}

/// YAML of parameters is read by the rules of Argo CD's reader (AS-130): words that YAML 1.1 takes for
/// booleans, also as keys, octal numbers, the last of a key that is there twice, the first document.
#[test]
fn yaml_in_parameters_is_read_as_argo_cd_reads_it_as_130() {
    for (template, want) in [
        (
            r#"{{ fromYaml "{a: y, b: Yes, c: on, d: TRUE}" | toJson }}"#,
            r#"{"a":true,"b":true,"c":true,"d":true}"#,
        ),
        (
            r#"{{ fromYaml "{a: n, b: No, c: OFF, d: false}" | toJson }}"#,
            r#"{"a":false,"b":false,"c":false,"d":false}"#,
        ),
        (
            r#"{{ fromYaml "{a: 'yes', b: \"on\", c: yess}" | toJson }}"#,
            r#"{"a":"yes","b":"on","c":"yess"}"#,
        ),
        (r#"{{ fromYaml "{y: 1, off: 2}" | toJson }}"#, r#"{"false":2,"true":1}"#),
        (r#"{{ fromYaml "{a: 010, b: 0x10, c: '010'}" | toJson }}"#, r#"{"a":8,"b":16,"c":"010"}"#),
        (r#"{{ fromYaml "a: 1\nb: 2\na: 3" | toJson }}"#, r#"{"a":3,"b":2}"#),
        (r#"{{ fromYaml "a: 1\n---\na: 2" | toJson }}"#, r#"{"a":1}"#),
        (
            r##"{{ fromYaml "" | toJson }}{{ fromYaml "# a" | toJson }}{{ fromYaml "null" | toJson }}"##,
            "{}{}{}",
        ),
        (r#"{{ fromYamlArray "[y, 010, {no: on}]" | toJson }}"#, r#"[true,8,{"false":true}]"#),
        (r#"{{ fromYamlArray "- 1\n---\n- 2" | toJson }}"#, "[1]"),
        (
            r##"{{ fromYamlArray "" | toJson }}{{ fromYamlArray "# a" | toJson }}{{ fromYamlArray "null" | toJson }}"##,
            "[][][]",
        ),
    ] {
        let run = with_input(&["render", "-f", "-", "-o", "json"], annotated(template, true));
        assert_eq!(run.code, 0, "{template}: {}", run.err);
        let got = &run.json()["items"][0]["metadata"]["annotations"]["a"];
        assert_eq!(got, want, "{template}");
    }
    for (template, name) in [
        (r#"{{ fromYaml "- a" }}"#, "fromYaml"),
        (r#"{{ fromYaml "a" }}"#, "fromYaml"),
        (r#"{{ fromYaml "3" }}"#, "fromYaml"),
        (r#"{{ fromYaml "a: [" }}"#, "fromYaml"),
        (r#"{{ fromYaml "a: .inf" }}"#, "fromYaml"),
        (r#"{{ fromYaml "null: 1" }}"#, "fromYaml"),
        (r#"{{ fromYamlArray "a: 1" }}"#, "fromYamlArray"),
        (r#"{{ fromYamlArray "a" }}"#, "fromYamlArray"),
        (r#"{{ fromYamlArray "[.nan]" }}"#, "fromYamlArray"),
    ] {
        let run = with_input(&["render", "-f", "-"], annotated(template, true));
        run.fails(1, &["spec.template.metadata.annotations.a", name]);
    }
}

/// A patch can change neither the project nor the namespace of an Application (AS-144): who may write
/// the parameters of a set would choose its permissions.
#[test]
fn a_patch_changes_neither_project_nor_namespace_as_144() {
    let whole = json!({
        "$patch": "replace", "project": "other", "source": {"repoURL": "https://r", "path": "q"},
        "destination": {"name": "in-cluster"},
    });
    let patches = [
        "metadata: {namespace: other}\nspec: {project: other, source: {path: q}}".to_owned(),
        "metadata: {namespace: null}\nspec: {project: null, source: {path: q}}".to_owned(),
        "metadata: {namespace: ''}\nspec: {project: '', source: {path: q}}".to_owned(),
        json!({"metadata": {"namespace": "other"}, "spec": {"project": "other", "source": {"path": "q"}}})
            .to_string(),
        json!({"metadata": {"$patch": "replace", "name": "app", "namespace": "other"}, "spec": whole})
            .to_string(),
        json!({"spec": {"$retainKeys": ["source", "destination"], "source": {"path": "q"}}})
            .to_string(),
    ];
    for go in [true, false] {
        for patch in &patches {
            let mut set: Value = serde_json::from_str(&annotated("x", go)).unwrap();
            set["spec"]["template"]["spec"]["project"] =
                if go { "team-{{.n}}" } else { "team-{{n}}" }.into();
            set["spec"]["templatePatch"] = patch.as_str().into();
            let run = with_input(&["render", "-f", "-", "-o", "json"], set.to_string());
            assert_eq!(run.code, 0, "{patch}: {}", run.err);
            let app = &run.json()["items"][0];
            let got = [&app["metadata"]["namespace"], &app["spec"]["project"]];
            assert_eq!(got, ["argocd", "team-app"], "{patch}: {app}");
            // It is taken over apart from that.
            let path = &app["spec"]["source"]["path"];
            assert!(path == "q" || patch.contains("retainKeys"), "{patch}: {app}");
        }
    }
}
