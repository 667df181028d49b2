use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Vec<(usize, Value)> {
    parse_documents(text).unwrap().into_iter().map(|d| (d.line, d.value)).collect()
}

#[test]
fn documents_and_their_positions() {
    let cases = [
        ("", vec![]),
        ("# nothing\n", vec![]),
        ("---\n---\n# a\n---\n", vec![]),
        ("null\n---\n~\n---\n", vec![]),
        ("a: 1\n", vec![(1, json!({"a": 1}))]),
        ("\u{feff}a: 1\n", vec![(1, json!({"a": 1}))]),
        ("# c\n---\n# d\na: 1\n---\nb: 2\n...\n", vec![(4, json!({"a": 1})), (6, json!({"b": 2}))]),
        ("---\na: 1\n---\n---\n# x\n---\nb: 2", vec![(2, json!({"a": 1})), (7, json!({"b": 2}))]),
        ("a: 1\r\n---\r\nb: 2\r\n", vec![(1, json!({"a": 1})), (3, json!({"b": 2}))]),
        ("--- {}\n", vec![(1, json!({}))]),
        ("- 1\n- 2\n", vec![(1, json!([1, 2]))]),
        ("%YAML 1.1\n---\na: 1\n", vec![(3, json!({"a": 1}))]),
        ("a: |\n  ---\n  b\n", vec![(1, json!({"a": "---\nb\n"}))]),
        // A byte order mark before each document, as in files that were put together.
        (
            "\u{feff}a: 1\r\n--- # x\r\n\u{feff}b: 2\r\n",
            vec![(1, json!({"a": 1})), (3, json!({"b": 2}))],
        ),
        (
            "a: 1\n\u{feff}---\nb: 2\n---\n# c\n\n\u{feff}{\"c\": 3}\n---\n\u{feff}",
            vec![(1, json!({"a": 1})), (3, json!({"b": 2})), (7, json!({"c": 3}))],
        ),
        ("\u{feff}---\n\u{feff}a: 1\n", vec![(2, json!({"a": 1}))]),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn json_is_parsed() {
    let cases = [
        ("{\"a\": 1.0}", vec![(1, json!({"a": 1}))]),
        ("\n\n{\n\t\"a\": \"\\ud83d\\ude00\\/\"\n}\n", vec![(3, json!({"a": "😀/"}))]),
        ("{\"a\":1}\n{\"b\":2}\n", vec![(1, json!({"a": 1})), (2, json!({"b": 2}))]),
        ("[{\"a\": null}]", vec![(1, json!([{"a": null}]))]),
        ("{a: b, c: [yes]}", vec![(1, json!({"a": "b", "c": [true]}))]),
        ("{\"a\": 1}\n---\n{\"b\": 2}\n", vec![(1, json!({"a": 1})), (3, json!({"b": 2}))]),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn scalars_are_read_as_in_kubectl() {
    let cases = [
        ("yes", json!(true)),
        ("NO", json!(false)),
        ("on", json!(true)),
        ("Off", json!(false)),
        ("\"yes\"", json!("yes")),
        ("0777", json!(511)),
        ("08", json!(8)),
        ("00", json!(0)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("+1", json!(1)),
        (".5", json!(0.5)),
        ("-0.0", json!(0)),
        ("1:30", json!("1:30")),
        ("99999999999999999999999", json!(1e23)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("-2.0", json!(-2)),
        ("1.5", json!(1.5)),
        ("1e30", json!(1e30)),
        ("9223372036854775807", json!(9223372036854775807_i64)),
        ("18446744073709551615", json!(18446744073709551615_u64)),
        ("2024-01-01", json!("2024-01-01")),
        ("2024-01-01T00:00:00Z", json!("2024-01-01T00:00:00Z")),
        ("1.2.3", json!("1.2.3")),
        ("10%", json!("10%")),
        ("'10'", json!("10")),
        ("", Value::Null),
        ("~", Value::Null),
        ("null", Value::Null),
        ("\"\"", json!("")),
        ("!!str 1", json!("1")),
        ("a b", json!("a b")),
        ("v=1", json!("v=1")),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&format!("k: {text}")), [(1, json!({"k": expected}))], "{text:?}");
    }
}

#[test]
fn keys_become_strings() {
    let text = "on: a\n8080: b\n1.5: c\n~: d\n\"on\\t\": e\n";
    let expected = json!({"true": "a", "8080": "b", "1.5": "c", "null": "d", "on\t": "e"});
    assert_eq!(read(text), [(1, expected)]);
}

#[test]
fn anchors_and_merge_keys() {
    let text = "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\nc: *x\n";
    let expected = json!({"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}, "c": {"k": 1, "l": 2}});
    assert_eq!(read(text), [(1, expected)]);
}

#[test]
fn duplicate_keys_use_the_last_value_and_are_reported() {
    let cases = [
        ("a: 1\na: 2\n", json!({"a": 2}), vec![("a", 2)]),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", json!({"a": {"b": 3, "c": 2}}), vec![("a.b", 4)]),
        ("a: [{x: 1, x: 2}]\n", json!({"a": [{"x": 2}]}), vec![("a[0].x", 1)]),
        ("1: a\n\"1\": b\n", json!({"1": "b"}), vec![("1", 2)]),
        ("a: 1\nb: 1\na: 2\nb: 2\n", json!({"a": 2, "b": 2}), vec![("a", 3), ("b", 4)]),
        ("{\"a\": 1,\n \"a\": 2}", json!({"a": 2}), vec![("a", 2)]),
        ("\n{\"a\": {\"b\": 1,\n \"b\": 2}}", json!({"a": {"b": 2}}), vec![("a.b", 3)]),
        (
            "x: &x {k: 1, l: 2}\nz:\n  <<: *x\n  k: 3\n",
            json!({"x": {"k": 1, "l": 2}, "z": {"k": 3, "l": 2}}),
            vec![],
        ),
        (
            "x: &x {k: 1}\nk: 1\nk: 2\nz:\n  k: 3\n  <<: *x\n",
            json!({"x": {"k": 1}, "k": 2, "z": {"k": 3}}),
            vec![("k", 3)],
        ),
    ];
    for (text, value, repeated) in cases {
        let read = parse_documents(text).unwrap();
        assert_eq!(read[0].value, value, "{text}");
        let found: Vec<(&str, usize)> =
            read[0].repeated.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(found, repeated, "{text}");
        assert_eq!(super::parse_value(text).is_err(), !repeated.is_empty(), "{text}");
    }
}

#[test]
fn memory_is_limited_for_yaml_and_json() {
    let many = |open: &str, item: &str, close: &str, times: usize| {
        format!("{open}{}{close}", vec![item; times].join(","))
    };
    for item in ["{\"\":0}", "[]", "\"abcdefgh\"", "[[[]]]"] {
        let text = many("[", item, "]", 5_000);
        let whole = parse_documents(&text).unwrap().remove(0).value;
        assert!(
            documents_within(&text, super::value_weight(&whole) / 4).unwrap_err().is_limit(),
            "{item}"
        );
        let yaml = format!("x: {text}");
        assert!(documents_within(&yaml, super::value_weight(&whole) / 4).is_err(), "{item}");
        assert!(
            super::parse_json(&text, super::value_weight(&whole) / 4).unwrap_err().is_limit(),
            "{item}"
        );
    }
    let error = parse_documents(&many("[", "0", "]", 500_001)).unwrap_err();
    assert!(error.to_string().contains("more than 500000 values"), "{error}");
    assert!(super::parse_json(&many("[", "{}", "]", 500_001), u64::MAX).is_err());
    // The limit applies to each text separately.
    assert!(parse_documents(&many("[", "0", "]", 400_000)).is_ok());
    assert!(
        parse_documents(&format!(
            "{}\n{}",
            many("[", "0", "]", 400_000),
            many("[", "0", "]", 400_000)
        ))
        .is_ok()
    );
}

#[test]
fn errors_have_a_position() {
    let cases = [
        (
            "a: {b: 1\nc: 2",
            "line 2, column 2: while parsing a flow mapping, did not find expected ',' or '}'",
        ),
        ("? [a]\n: b", "a list or a mapping cannot be a key"),
        ("a: *nope", "line 1, column 4: alias references unknown anchor"),
        ("a: 'x", "line 1, column 4: unclosed quote"),
        ("a: 1\n---\nb: [\n", "line 3, column 4: unclosed bracket '['"),
        ("a: &a [*a]", "line 1, column 8: an alias refers to a value that contains it; remove it"),
        (
            "tag: 12e4567",
            "line 1, column 6: a number that is too large, or none; write it in quotes if it is a \
             text",
        ),
        (
            "a:\n  - b\n c: d",
            "line 3, column 2: while parsing a block mapping, did not find expected key",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_documents(text).unwrap_err().to_string(), expected, "{text:?}");
    }
}

#[test]
fn hostile_input_is_rejected() {
    // The stack size of a tokio worker in a debug build, with a margin.
    let worker = std::thread::Builder::new().stack_size(1_700_000);
    worker.spawn(refuse_hostile_input).unwrap().join().unwrap();
}

fn refuse_hostile_input() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let block = |depth| (0..depth).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>();
    assert!(parse_documents(&nested(MAX_DEPTH - 1)).is_ok());
    assert!(parse_documents(&format!("a: {}", nested(MAX_DEPTH + 1))).is_err());
    for (text, want) in [
        (format!("a: {}", nested(MAX_DEPTH + 1)), "more than 64 levels of mappings and lists"),
        ("- x\n".repeat(MAX_NODES), "more than 500000 values; split the file"),
        (block(300), "more than 64 levels of mappings and lists"),
    ] {
        let error = parse_documents(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("over the limit: {want}")), "{error}");
    }
    assert!(parse_documents(&"[".repeat(100_000)).is_err());
    assert!(parse_documents(&"{\"a\":".repeat(100_000)).is_err());
    assert!(parse_documents(&block(MAX_DEPTH)).is_ok());
    assert!(parse_documents(&block(300)).is_err());

    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for pair in ["ab", "bc", "cd", "de", "ef", "fg", "gh"] {
        let (from, to) = pair.split_at(1);
        bomb += &format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 9].join(","));
    }
    let error = parse_documents(&bomb).unwrap_err().to_string();
    assert!(error.contains("over the limit: aliases repeat more than 100000 values;"), "{error}");
}

#[test]
fn one_document_only() {
    assert_eq!(parse_value("# c\n---\na: 1\n---\n"), Ok(json!({"a": 1})));
    assert_eq!(parse_value("# c\n"), Err(YamlError::Count { found: 0 }));
    assert_eq!(parse_value("a: 1\n---\nb: 1\n---\nc: 1"), Err(YamlError::Count { found: 3 }));
}

#[test]
fn bytes_become_text() {
    let cases: [(&[u8], Result<&str, YamlError>); 7] = [
        (b"a: 1", Ok("a: 1")),
        (b"\xef\xbb\xbfa", Ok("a")),
        (b"\xff\xfea\0\xe4\0", Ok("aä")),
        (b"\xfe\xff\0a\0\xe4", Ok("aä")),
        (b"ab\xff", Err(YamlError::Encoding { offset: 2 })),
        (b"\xff\xfea\0\x00\xd8", Err(YamlError::Encoding { offset: 4 })),
        (b"\xff\xfea", Err(YamlError::Encoding { offset: 2 })),
    ];
    for (bytes, expected) in cases {
        assert_eq!(decode_text(bytes), expected.map(Cow::Borrowed), "{bytes:?}");
    }
}

#[test]
fn output_is_as_in_kubectl() {
    let object = json!({
        "metadata": {"name": "a", "labels": {}, "finalizers": []},
        "spec": {
            "on": "yes", "n": "1", "f": 1.5, "none": null, "colon": "a: b", "octal": "0777",
            "date": "2024-01-01", "text": "x\n  y\n", "empty": "", "percent": "10%",
            "long": "word ".repeat(40) + "end", "template": "{{ .x }}", "exp": "1e3",
            "list": [{"a": 1, "b": [1, [2, 3]]}, "c"],
        },
    });
    let expected = format!(
        r#"metadata:
  finalizers: []
  labels: {{}}
  name: a
spec:
  colon: "a: b"
  date: "2024-01-01"
  empty: ""
  exp: "1e3"
  f: 1.5
  list:
  - a: 1
    b:
    - 1
    - - 2
      - 3
  - c
  long: {}end
  "n": "1"
  none: null
  octal: "0777"
  "on": "yes"
  percent: 10%
  template: "{{{{ .x }}}}"
  text: |
    x
      y
"#,
        "word ".repeat(40)
    );
    assert_eq!(to_string(&object).unwrap(), expected);
    let two = to_string_all([&json!({"a": 1}), &json!({"b": 2})]).unwrap();
    assert_eq!(two, "a: 1\n---\nb: 2\n");
}

/// Texts as in manifests: words that YAML may read as another type, leading and trailing
/// spaces, several lines.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n"),
        Just(" "),
        Just("  "),
        Just("\t"),
        Just("\r\n"),
        Just("#"),
        Just(": "),
        Just(":"),
        Just("- "),
        Just("-"),
        Just("'"),
        Just("\""),
        Just("\\"),
        Just("{{ .x }}"),
        Just("yes"),
        Just("Null"),
        Just("~"),
        Just("0777"),
        Just("1e3"),
        Just("1_0"),
        Just(".inf"),
        Just("0x1f"),
        Just("1.10"),
        Just("2024-01-01"),
        Just("a"),
        Just("é😀"),
        Just("%"),
        Just("*a"),
        Just("&a"),
        Just("!a"),
        Just("@"),
        Just("`"),
        Just("---"),
        Just("..."),
        Just("? "),
        Just("|"),
        Just(">"),
        Just("\u{85}"),
        Just("\u{feff}"),
        Just("\u{0}"),
        Just("<<"),
        Just("="),
        Just("["),
        Just("}"),
        Just(","),
        Just("\u{2028}"),
        Just("a rather long word, so that lines get folded where they are folded"),
    ];
    proptest::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Few digits: serde_json is not exact in the last digit.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) + 0.125)),
        text().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn output_can_be_parsed(content in any_value()) {
        let object = json!({"content": content});
        let printed = to_string(&object).unwrap();
        prop_assert_eq!(parse_value(&printed), Ok(object.clone()), "{}", printed);
        let json = serde_json::to_string_pretty(&object).unwrap();
        prop_assert_eq!(parse_value(&json), Ok(object));
    }

    #[test]
    fn no_text_causes_a_panic(text in "[-a:{}\\[\\],&*!|>'\"%@#?<~ \n\t0-9é]{0,60}") {
        if let Ok(documents) = parse_documents(&text) {
            prop_assert!(documents.iter().all(|d| d.line >= 1 && !d.value.is_null()));
        }
    }
}

/// A manifest that Argo CD deploys was refused with `invalid indentation`.
#[test]
fn quoted_scalars_continue_at_any_indentation_se_099() {
    let cases = [
        ("a: \"one\n two\"\nb: 1\n", json!({"a": "one two", "b": 1})),
        ("a: \"one\ntwo\"\nb: 1\n", json!({"a": "one two", "b": 1})),
        ("a: 'one\ntwo\n\nthree'\nb: 'x\ny'\n", json!({"a": "one two\nthree", "b": "x y"})),
        ("m:\n  k: 'it''s\n  here'\n  l: 2\n", json!({"m": {"k": "it's here", "l": 2}})),
        ("m:\n  k: \"left\nof it\"\n  l: 2\n", json!({"m": {"k": "left of it", "l": 2}})),
        (
            "m:\n- k: \"a \\\"q\\\"\n  b \\\n  c\"\n  l: '#'\n",
            json!({"m": [{"k": "a \"q\" b c", "l": "#"}]}),
        ),
        ("l:\n- 'x\n  y: z'\n- \"w\n- v\"\n", json!({"l": ["x y: z", "w - v"]})),
        ("a: \"ü\nß\"\nb: \"\"\n", json!({"a": "ü ß", "b": ""})),
        ("a: \"one\r\ntwo\"\r\n", json!({"a": "one two"})),
        ("\"k\": \"1\n2\"\n'l': '3\n4'\n", json!({"k": "1 2", "l": "3 4"})),
    ];
    for (text, want) in cases {
        assert_eq!(parse_value(text), Ok(want), "{text:?}");
    }
    let text = "a: 1\n---\nb: 'one\n\ntwo'\nc: 3\nc: 4\n";
    let documents = parse_documents(text).unwrap();
    assert_eq!(documents[1].value, json!({"b": "one\ntwo", "c": 4}));
    assert_eq!((documents[1].line, documents[1].repeated[0].line), (3, 7), "lines stay the same");

    // Still errors, at their place.
    for (text, place) in [("a: 'one\ntwo\n", "line 2"), ("a: \"x\ny\"\nb: [\n", "line ")] {
        let error = parse_value(text).unwrap_err().to_string();
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
    // A text with very many of them is refused in time, as before.
    let many: String = (0..5_000).map(|n| format!("k{n}: 'a\nb'\n")).collect();
    #[expect(clippy::disallowed_methods, reason = "a test may measure its time")]
    let began = std::time::Instant::now();
    assert!(parse_value(&many).is_err());
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}

#[path = "../../../../tests/it/support/growth.rs"]
mod growth;

#[test]
fn squares_are_found_and_slow_machines_are_not() {
    // For once the size, for sixteen times, in milliseconds.
    let cases = [
        ("in proportion", 10, 160, true),
        ("slowed down during the second", 10, 600, true),
        ("slowed down during the first", 40, 160, true),
        ("too short to be measured", 0, 15, true),
        ("a square", 10, 2_560, false),
        ("a square, slowed down during the first", 30, 2_560, false),
        ("a square, and as much in proportion", 10, 1_360, false),
        ("a square, too short to be measured at once the size", 0, 50, false),
    ];
    for (case, small, large, want) in cases {
        assert_eq!(growth::is_linear(small * 1_000_000, large * 1_000_000), want, "{case}");
    }
}

/// A file of half a megabyte that is a stream of small JSON values was read for minutes: for
/// each value, the lines before it were counted anew.
#[test]
fn time_grows_with_the_text_and_not_with_its_square() {
    let shapes: [(&str, &str, &str, &str); 12] = [
        ("a stream of JSON values", "{}", "\n0", ""),
        ("a stream of JSON values, each a mapping", "{}", "\n{\"a\":[1]}", ""),
        ("a stream with duplicate keys", "{}", "\n{\"a\":1,\n\"a\":2}", ""),
        ("one line of JSON values", "{}", " 0", ""),
        ("JSON that is not whole", "[", "{\"a\":1},\n", ""),
        ("YAML documents", "", "a: 1\n---\n", ""),
        ("a list", "", "- a\n", ""),
        ("a flow list", "[", "a,\n", "]"),
        ("comments", "a: 1\n", "# a\n", ""),
        ("a literal text", "a: |\n", "  b\n", ""),
        ("a quoted text", "a: \"", "b\\n\\\n  ", "\""),
        ("anchors and aliases", "", "- &a b\n- *a\n", ""),
    ];
    for (what, head, part, tail) in shapes {
        let make = |parts: usize| format!("{head}{}{tail}", part.repeat(parts));
        growth::assert_linear(what, 10_000, make, |text| drop(parse_documents(text)));
    }
}

/// Each value of a stream is kept as a document, and takes memory also when it is a number.
#[test]
fn the_values_of_a_stream_are_limited() {
    let stream = |values: usize| format!("{{}}{}", "\n0".repeat(values - 1));
    assert_eq!(parse_documents(&stream(1_000)).unwrap().last().unwrap().line, 1_000);
    for text in [stream(MAX_DOCUMENTS + 1), format!("{{}}{}", "\nnull".repeat(MAX_DOCUMENTS))] {
        let error = parse_documents(&text).unwrap_err();
        assert!(error.is_limit());
        assert_eq!(
            error.to_string(),
            "line 100001, column 1: over the limit: more than 100000 documents; split the file"
        );
    }
    assert!(documents_within(&stream(100), 64 << 10).is_ok());
    let error = documents_within(&stream(1_000), 64 << 10).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("memory limit"), "{error}");
    let documents = "a: 1\n---\n".repeat(1_000);
    assert!(documents_within(&documents, 700_000).unwrap_err().is_limit());
}

/// Go's parser ends lines at characters that no JSON text needs to contain.
#[test]
fn json_is_read_by_every_parser_of_yaml_in_the_same_way() {
    let value = json!({"a\u{85}": "b\u{2028}\u{2029}\u{feff}\u{7f}\u{9f}c é 😀 \" \\ \n"});
    let text = to_json(&value);
    assert_eq!(text, r#"{"a\u0085":"b\u2028\u2029\ufeff\u007f\u009fc é 😀 \" \\ \n"}"#);
    assert_eq!(parse_value(&text), Ok(value));
}
