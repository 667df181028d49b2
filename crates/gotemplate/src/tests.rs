//! Template engines: recorded results, tables of the specification, and hostile input.

mod hostile;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::go::{Env, GoTemplate, Random, SharedParameters, TemplateLimits, TemplateOptions};
use super::{TemplateError, float_text, normalize_name, simple, slugify_name};

/// One recorded result of the Go engine.
#[derive(Deserialize)]
struct Vector {
    id: String,
    template: String,
    params: Map<String, Value>,
    #[serde(default)]
    options: Vec<String>,
    output: Option<String>,
    error: Option<String>,
}

fn render(
    template: &str,
    params: &Map<String, Value>,
    options: &[String],
) -> Result<String, TemplateError> {
    let options = TemplateOptions::parse(options)?;
    GoTemplate::parse(template, &options)?.execute(params, &TemplateLimits::default())
}

/// Line and column of a Go error text, where it has them.
fn place(error: &str) -> (Option<usize>, Option<usize>) {
    let Some(rest) = error.strip_prefix("template: :") else { return (None, None) };
    let mut parts = rest.split(':');
    let line = parts.next().and_then(|part| part.parse().ok());
    (line, parts.next().and_then(|part| part.parse().ok()))
}

/// The difference from the recorded result, if any.
fn differs(vector: &Vector) -> Option<String> {
    let got = render(&vector.template, &vector.params, &vector.options);
    match (&vector.output, &vector.error, &got) {
        (Some(want), None, Ok(text)) if text == want => None,
        (None, Some(want), Err(error)) => {
            let want_place = place(want);
            let got_place = (error.line(), error.column());
            (want_place != got_place).then(|| format!("want {want}\n   got  {error}"))
        }
        _ => {
            let want = vector.output.as_ref().map_or_else(
                || format!("error {}", vector.error.as_deref().unwrap_or_default()),
                |text| format!("{text:?}"),
            );
            Some(format!("want {want}\n   got  {got:?}"))
        }
    }
}

#[test]
fn results_are_those_of_the_go_engine() {
    let path = std::env::var("WAVEGATE_TEMPLATE_VECTORS").unwrap_or_else(|_| {
        format!("{}/../../tests/data/templates.jsonl", env!("CARGO_MANIFEST_DIR"))
    });
    // The file is test data beside the code, not an input of the module.
    #[expect(clippy::disallowed_methods, reason = "a test may read its data")]
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Vec<Vector> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut failures = Vec::new();
    for vector in &vectors {
        if let Some(difference) = differs(vector) {
            failures.push(format!(
                "{}: {:?} {}\n   {difference}",
                vector.id,
                vector.template,
                json!(vector.params)
            ));
        }
    }
    println!("template vectors: {} of {} hold", vectors.len() - failures.len(), vectors.len());
    assert!(!vectors.is_empty(), "no vectors in {path}");
    assert!(
        failures.is_empty(),
        "{} differ, the first:\n{}",
        failures.len(),
        failures[..failures.len().min(60)].join("\n")
    );
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

#[test]
fn simple_templates_replace_known_strings_only() {
    // AS-113 to AS-115, appendix A.1 rows 1 to 16.
    let cases = [
        ("{{one}}", json!({"one": "two"}), Some("two")),
        ("{{ one }}", json!({"one": "two"}), Some("two")),
        ("}} {{", json!({"one": "two"}), Some("}} {{")),
        ("{{ }}", json!({"one": "{{ }}"}), Some("{{ }}")),
        ("{{ }}", json!({" ": "two", "": "three"}), Some("{{ }}")),
        ("{{one}}", json!({"{{one}}": "{{two}}"}), Some("{{one}}")),
        ("{{ONE}}", json!({"one": "two"}), Some("{{ONE}}")),
        ("{{one}}{{one}}", json!({"one": "two"}), Some("twotwo")),
        ("{{one}}{{three}}", json!({"one": "two", "three": "four"}), Some("twofour")),
        (
            "{{one}} {{three}}",
            json!({"one": "\"hello\" world", "three": "four"}),
            Some("\"hello\" world four"),
        ),
        ("{{a}}", json!({"a": "{{b}}", "b": "x"}), Some("{{b}}")),
        ("{{n}}", json!({"n": 3}), Some("{{n}}")),
        ("{{a}} {{b}", json!({"a": "x"}), None),
        ("x-{{ missing }}-y", json!({"one": "two"}), Some("x-{{ missing }}-y")),
        (
            "{{path[0]}}/{{path.basename}}",
            json!({"path[0]": "apps", "path.basename": "web"}),
            Some("apps/web"),
        ),
        ("{{a\n}}", json!({"a": "x"}), Some("{{a\n}}")),
        ("{{a}}\n{{a\n}}", json!({"a": "x"}), Some("x\nx")),
    ];
    for (text, params, want) in cases {
        assert_eq!(simple::render(text, &object(params), 1000).ok().as_deref(), want, "{text:?}");
    }
    assert_eq!(simple::render("{{a}}\n{{b", &Map::new(), 1000).unwrap_err().line(), Some(2));
}

#[test]
fn names_are_sanitized() {
    // AS-170, appendix A.3 rows 54 to 60.
    for (text, want) in [
        ("production_01/west", "production-01-west"),
        ("My App/Name.v1.2", "my-app-name.v1.2"),
        ("-.Foo_Bar.-", "foo-bar"),
        ("Café", "caf"),
        ("___", ""),
    ] {
        assert_eq!(normalize_name(text), want);
    }
    assert_eq!(normalize_name(&"a".repeat(300)), "a".repeat(253));
    assert_eq!(normalize_name(&format!("{}-y", "x".repeat(252))), "x".repeat(252));
    // AS-171, rows 61 to 70.
    let long = "feat/a_really+long_pull_request_name_to_test_argo_slugification_and_branch_name_shortening_feature";
    let solid =
        "feat/areallylongpullrequestnametotestargoslugificationandbranchnameshorteningfeature";
    for (max, smart, text, want) in [
        (50, false, long, "feat-a-really-long-pull-request-name-to-test-argo"),
        (53, true, long, "feat-a-really-long-pull-request-name-to-test-argo"),
        (23, true, long, "feat-a-really-long-pull"),
        (50, true, solid, "feat"),
        (50, false, solid, "feat-areallylongpullrequestnametotestargoslugifica"),
        (50, true, "Feature/ABC.123_fix", "feature-abc-123-fix"),
        (50, true, "fix..double--dash", "fix-double-dash"),
        (5, true, "abcdefghij", "abcde"),
        (5, true, "ab-cd-ef", "ab-cd"),
        (6, false, "ab-cd-ef", "ab-cd"),
        (0, true, "ab", "ab"),
        (0, false, "ab", ""),
    ] {
        assert_eq!(slugify_name(max, smart, text), want, "{max} {smart} {text}");
    }
}

#[test]
fn floats_print_as_in_go() {
    // AS-111
    for (value, want) in [
        (3.0, "3"),
        (1.5, "1.5"),
        (100_000.0, "100000"),
        (1_000_000.0, "1e+06"),
        (0.00001, "1e-05"),
        (-0.0, "-0"),
        (1e21, "1e+21"),
        (f64::INFINITY, "+Inf"),
    ] {
        assert_eq!(float_text(value), want);
    }
}

#[test]
fn an_unknown_option_is_rejected() {
    // AS-133
    let error = TemplateOptions::parse(&["missingkey=bogus".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("missingkey=bogus"), "{error}");
}

#[test]
fn errors_have_template_line_and_column() {
    let template =
        GoTemplate::parse_named("patch", "a\n  {{ .x.y }}", &TemplateOptions::default()).unwrap();
    let error =
        template.execute(&object(json!({"x": "text"})), &TemplateLimits::default()).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(2), Some(7)));
    assert!(
        error.to_string().starts_with("template: patch:2:7: executing \"patch\" at <.x.y>: "),
        "{error}"
    );
}

/// CPU time of this thread, which does not depend on the load of the machine.
fn thread_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap()
}

/// A fixed time and a constant random source.
fn fixed_env() -> Env {
    struct Counter(u8);
    impl Random for Counter {
        fn fill(&mut self, buffer: &mut [u8]) {
            for byte in buffer {
                self.0 = self.0.wrapping_mul(5).wrapping_add(1);
                *byte = self.0;
            }
        }
    }
    Env::new("2024-05-06T07:08:09Z".parse().unwrap(), Box::new(Counter(7)), thread_time)
}

#[test]
fn time_and_random_values_come_from_the_environment() {
    for (text, want) in [
        (r#"{{ now | date "2006-01-02 15:04" }}"#, r"^2024-05-06 07:08$"),
        (r#"{{ ago (toDate "2006-01-02" "2024-05-06") }}"#, r"^7h8m9s$"),
        ("{{ randAlphaNum 12 }}", r"^[0-9A-Za-z]{12}$"),
        ("{{ randNumeric 5 }}", r"^[0-9]{5}$"),
        ("{{ randInt 3 5 }}", r"^[34]$"),
        ("{{ randBytes 3 }}", r"^[0-9A-Za-z+/]{4}$"),
        ("{{ uuidv4 }}", r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        (r#"{{ shuffle "aaaa" }}"#, r"^aaaa$"),
        (r#"{{ htpasswd "me" "secret" }}"#, r"^me:\$2a\$10\$[./A-Za-z0-9]{53}$"),
        (r#"{{ encryptAES "key" "some text" | decryptAES "key" }}"#, r"^some text$"),
    ] {
        let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
        let out = template
            .execute_in(&object(json!({"a": 1})), &TemplateLimits::default(), &mut fixed_env())
            .unwrap();
        assert!(regex::Regex::new(want).unwrap().is_match(&out), "{text} gave {out}");
        assert!(
            template.execute(&Map::new(), &TemplateLimits::default()).is_err(),
            "{text} needs an environment"
        );
    }
}

#[test]
fn hostile_templates_fail_within_their_limits() {
    // AS-135
    let deep_parens = format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000));
    let deep_ifs = format!("{}{}", "{{if .a}}".repeat(50_000), "{{end}}".repeat(50_000));
    let long_chain = format!("{{{{ if .b }}}}{}{{{{ end }}}}", "{{ else if .b }}".repeat(50_000));
    for text in [
        deep_parens.as_str(),
        &deep_ifs,
        &long_chain,
        r#"{{ repeat 1000000000 "x" }}"#,
        r#"{{ repeat 1000000000000000000 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" }}"#,
        "{{ until 1000000000 }}",
        "{{ until -9223372036854775808 }}",
        "{{ seq 1 1000000000 }}",
        "{{ untilStep 0 9223372036854775807 1 }}",
        r#"{{ indent 1000000000 "x" }}"#,
        r#"{{ printf "%1000000d" 1 | printf "%s%[1]s%[1]s" }}"#,
        r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
        r#"{{ range int64 1000000000000 }}{{ end }}"#,
        r#"{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"#,
        r#"{{ range until 100000 }}0123456789012345678901234567890123456789{{ end }}"#,
        r#"{{ regexMatch "((a{900}){900}){900}" "a" | fail }}"#,
        r#"{{ $s := "x" }}{{ range until 64 }}{{ $s = print $s $s }}{{ end }}{{ len $s }}"#,
        r#"{{ $l := list }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}"#,
        r#"{{ $l := list }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ $l }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ mustToJson $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toYaml $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ deepCopy $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ deepEqual $d (dict "d" $d) }}"#,
        r#"{{ replace "" (repeat 10000 "y") (repeat 10000 "x") }}"#,
        r#"{{ regexReplaceAll "" (repeat 10000 "y") (repeat 10000 "x") }}"#,
        r#"{{ join (repeat 10000 "y") (until 10000) }}"#,
        r#"{{ wrapWith 1 (repeat 10000 "y") (repeat 10000 "x") }}"#,
        r#"{{ fromYaml (repeat 100000 "[") }}"#,
        r#"{{ mustFromJson (repeat 100000 "[") }}"#,
        r#"{{ range until 50 }}{{ derivePassword 1 "long" "p" "u" "s" | trunc 0 }}{{ end }}"#,
        "{{ 1 }}{{ nosuch }}",
    ] {
        let result = render(text, &object(json!({"a": true, "b": false})), &[]);
        assert!(
            result.is_err(),
            "{} gave {:?}",
            &text[..text.len().min(80)],
            result.map(|out| out.len())
        );
    }
}

#[test]
fn large_values_are_within_the_limits() {
    let items: Vec<Value> =
        (0..5000).map(|i| json!({"name": format!("app-{i}"), "value": "x".repeat(40)})).collect();
    let params = object(json!({"items": items}));
    for text in
        ["{{ toJson .items }}", "{{ toYaml .items }}", "{{ .items }}", "{{ toPrettyJson .items }}"]
    {
        assert!(render(text, &params, &[]).unwrap().len() > 300_000, "{text}");
    }
    let text = "{{ range .items }}{{ .name }}: {{ .value | quote }}\n{{ end }}";
    assert_eq!(render(text, &params, &[]).unwrap().lines().count(), 5000);
}

#[test]
fn deeply_nested_values_are_dropped_without_recursion() {
    let lists = r#"{{ $l := list }}{{ range until 100000 }}{{ $l = list $l }}{{ end }}done"#;
    let dicts = r#"{{ $d := dict }}{{ range until 50000 }}{{ $d = dict "d" $d }}{{ end }}done"#;
    for text in [lists, dicts] {
        assert_eq!(render(text, &object(json!({"a": 1})), &[]).unwrap(), "done");
    }
}

#[test]
fn maximum_nesting_fits_a_small_stack() {
    // Half the stack of a runtime thread; debug builds need the most.
    let parens = format!("{{{{ {}1{} }}}}", "print (".repeat(98), ")".repeat(98));
    let body = format!("{{{{ {}1{} }}}}", "print (".repeat(60), ")".repeat(60));
    let recursion = format!(
        r#"{{{{ define "a" }}}}{body}{{{{ if true }}}}{{{{ template "a" . }}}}{{{{ end }}}}{{{{ end }}}}{{{{ template "a" . }}}}"#
    );
    let run = move || {
        assert!(render(&parens, &object(json!({"a": 1})), &[]).is_ok());
        let error = render(&recursion, &object(json!({"a": 1})), &[]).unwrap_err();
        assert!(error.to_string().contains("nested deeper"), "{error}");
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn templates_are_compiled_once_and_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    let template = GoTemplate::parse("{{ .a }}", &TemplateOptions::default()).unwrap();
    shared(&template);
    for a in ["x", "y"] {
        assert_eq!(
            template.execute(&object(json!({"a": a})), &TemplateLimits::default()).unwrap(),
            a
        );
    }
}

fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = proptest::sample::select(vec![
        "{{",
        "}}",
        "{{-",
        "-}}",
        " ",
        "\n",
        ".",
        ".a",
        "$",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        "\"s\"",
        "`r`",
        "'c'",
        "1",
        "-2.5",
        "0x1p4",
        "1i",
        "nil",
        "true",
        "if",
        "else",
        "end",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "continue",
        "\"t\"",
        ",",
        "/*",
        "*/",
        "print",
        "printf",
        "\"%[2]*.3x %#v %q\"",
        "index",
        "slice",
        "len",
        "eq",
        "dict",
        "list",
        "set",
        "merge",
        "toYaml",
        "fromYaml",
        "toJson",
        "regexReplaceAll",
        "substr",
        "trunc",
        "wrap",
        "chunk",
        "abbrevboth",
        "until",
        "semverCompare",
        "urlParse",
        "toDate",
        "dateInZone",
        "camelcase",
        "snakecase",
        "round",
        "divf",
        "é",
        "\u{2028}",
        "😀",
    ]);
    proptest::collection::vec(
        prop_oneof![9 => pieces.prop_map(str::to_owned), 1 => any::<String>()],
        0..24,
    )
    .prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in hostile_text(), inside in any::<bool>()) {
        let text = if inside { format!("{{{{ {text} }}}}") } else { text };
        let params = object(json!({"a": {"b": [1, "x", null]}, "s": "é\n"}));
        let limits = TemplateLimits { output_bytes: 10_000, steps: 10_000, ..TemplateLimits::default() };
        if let Ok(template) = GoTemplate::parse(&text, &TemplateOptions::default()) {
            let first = template.execute_in(&params, &limits, &mut fixed_env());
            prop_assert_eq!(first, template.execute_in(&params, &limits, &mut fixed_env()));
        }
        let _ = simple::render(&text, &params, 1000);
    }

    #[test]
    fn no_argument_causes_a_panic(text in any::<String>(), n in any::<i64>(), m in -9_i64..40, f in any::<f64>()) {
        let params = object(json!({"s": text, "f": f}));
        let limits = TemplateLimits { output_bytes: 10_000, steps: 20_000, ..TemplateLimits::default() };
        for call in [
            "trunc N .s", "substr M N .s", "substr M 5 .s", "abbrev M .s", "abbrevboth M 9 .s", "wrap M .s", "wrapWith M .s .s",
            "snakecase .s", "camelcase .s", "title .s", "initials .s", "normalize .s", "slugify M .s", "slugify M false .s",
            "printf .s N .f .s", "round .f M", "divf .f N", "mulf .f .f .f", "addf .f N", "div N M", "mod N M", "int .f", "until M",
            "untilStep N M M", "seq N M", "fromYaml .s", "fromYamlArray .s", "toYaml .s", "toYaml (dict .s .s)", "fromJson .s", "toJson .f",
            "regexMatch .s .s", "regexFindAll .s .s M", "regexReplaceAll .s .s .s", "regexSplit .s .s M", "semver .s",
            "semverCompare .s \"1.2.3\"", "urlParse .s", "clean .s", "b64dec .s", "b32dec .s", "decryptAES .s .s", "toDate .s .s",
            "date .s (int64 N)", "duration .s", "durationRound .s", "dateModify .s (toDate \"2006\" \"2020\")", "chunk M (list 1 2 3)",
            "slice (list 1 2 3) M N", "index .s M", "splitn .s M .s", "html .s", "js .s", "urlquery .s", "float64 .s", "toDecimal .s",
            "(toDate \"2006\" \"2020\").AddDate N M N",
            "buildCustomCert .s .s", "genCAWithKey .s N .s", "genCAWithKey .s N (genPrivateKey \"ed25519\")",
            "genSelfSignedCertWithKey .s (list .s) (list .s) M (genPrivateKey \"ed25519\")", "genPrivateKey .s",
        ] {
            let call = call.replace('N', &n.to_string()).replace('M', &m.to_string());
            if let Ok(template) = GoTemplate::parse(&format!("{{{{ {call} }}}}"), &TemplateOptions::default()) {
                let _ = template.execute_in(&params, &limits, &mut fixed_env());
            }
        }
    }
}

/// What functions change is there for the templates after it, also when one fails.
#[test]
fn parameters_are_shared_by_templates() {
    let data =
        object(json!({"n": "a", "cfg": {"x": 1, "gone": 1}, "over": {"x": 7, "y": {"z": 3}}}));
    let mut shared = SharedParameters::new(&data, &[]);
    let limits = TemplateLimits::default();
    let mut run = |text: &str| {
        let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
        template.execute_shared(&mut shared, &limits, &mut fixed_env())
    };
    let cases = [
        (r#"{{ $_ := set . "full" (printf "web-%s" .n) }}{{ .full }}"#, "web-a"),
        ("{{ .full }}", "web-a"),
        (r#"{{ $_ := unset .cfg "gone" }}{{ .cfg | toJson }}"#, r#"{"x":1}"#),
        ("{{ $_ := mergeOverwrite .cfg .over }}{{ .cfg.x }}", "7"),
        // The nested map is the one of the other parameter.
        (r#"{{ $_ := set .over.y "z" 4 }}{{ .cfg.y.z }}"#, "4"),
        // A copy is another map.
        (r#"{{ $_ := set (deepCopy .cfg) "x" 0 }}{{ .cfg.x }}"#, "7"),
        // Types stay, as in Go.
        ("{{ eq .cfg.y.z 4 }}", "true"),
        // A map that contains itself.
        (r#"{{ $_ := set .cfg "self" .cfg }}{{ .cfg.self.self.x }}"#, "7"),
        ("{{ .cfg.self.x }}", "7"),
        (r#"{{ $_ := unset .cfg "self" }}{{ len .cfg }}"#, "2"),
    ];
    for (text, want) in cases {
        assert_eq!(run(text).as_deref(), Ok(want), "{text}");
    }
    let failed = r#"{{ $_ := set . "kept" 1 }}{{ fail "no" }}"#;
    assert!(run(failed).is_err());
    assert_eq!(run("{{ .kept }}").as_deref(), Ok("1"));
    let changed = shared.changed_values(&limits).unwrap().unwrap();
    let want = json!({"n": "a", "full": "web-a", "kept": 1, "cfg": {"x": 7, "y": {"z": 4}},
        "over": {"x": 7, "y": {"z": 4}}});
    assert_eq!(Value::Object(changed), want);
    assert!(SharedParameters::new(&data, &[]).changed_values(&limits).is_none());
}

/// All templates that change something have one budget; those that only read have one each.
#[test]
fn templates_with_shared_parameters_keep_no_more_than_one_may() {
    let mut shared = SharedParameters::new(&object(json!({"a": {}})), &[]);
    let limits = TemplateLimits { memory_bytes: 1 << 20, ..TemplateLimits::default() };
    let mut run = |text: &str| {
        let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
        template.execute_shared(&mut shared, &limits, &mut fixed_env())
    };
    for _ in 0..100 {
        assert!(run(r#"{{ len (repeat 300000 "x") }}"#).is_ok());
    }
    let mut kept = 0;
    let last = loop {
        match run(&format!(r#"{{{{ $_ := set .a "k{kept}" (repeat 300000 "x") }}}}"#)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    // A text counts where it is made and where it is put.
    assert!((1..4).contains(&kept), "{kept}");
    assert!(last.is_limit(), "{last}");
    let mut shared = SharedParameters::new(&object(json!({"a": {}})), &[]);
    let text = r#"{{ $_ := set .a "self" .a }}"#;
    let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
    template.execute_shared(&mut shared, &limits, &mut fixed_env()).unwrap();
    assert!(shared.changed_values(&limits).unwrap().is_err(), "a map that contains itself");
}

/// Go has one U+FFFD for each byte of a character that was cut.
#[test]
fn text_that_is_cut_inside_a_character_is_as_in_go() {
    let cases = [
        ("{{ trunc 2 \"\u{6f22}x\" }}", "\u{fffd}\u{fffd}"),
        ("{{ trunc 3 \"a\u{6f22}\" }}", "a\u{fffd}\u{fffd}"),
        ("{{ trunc -3 \"\u{1f600}b\" }}", "\u{fffd}\u{fffd}b"),
        ("{{ trunc 2 \"\u{6f22}\" | toJson }}", r#""\ufffd\ufffd""#),
        ("{{ trunc 2 \"\u{6f22}\" | quote }}", r#""\xe6\xbc""#),
        ("{{ trunc 2 \"\u{6f22}\" | upper }}", "\u{fffd}\u{fffd}"),
        ("{{ trunc 4 \"\u{6f22}\u{e9}\" }}", "\u{6f22}\u{fffd}"),
    ];
    for (text, want) in cases {
        let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
        let got = template.execute(&object(json!({})), &TemplateLimits::default());
        assert_eq!(got.as_deref(), Ok(want), "{text}");
    }
}
