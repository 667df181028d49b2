use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::path::{remove_all, to_pointer};
use super::*;

/// The object after `del(expression)`.
fn del(expression: &str, mut value: Value) -> Value {
    let paths = Expression::parse(expression).unwrap().paths(&value, &Budget::default()).unwrap();
    remove_all(&mut value, paths);
    value
}

#[test]
fn del_removes_paths() {
    let pods = || {
        json!({"spec": {"template": {"spec": {"initContainers": [
            {"name": "injected", "image": "i"}, {"name": "own", "image": "o"}, {"name": "injected"}]}}}})
    };
    let cases: Vec<(&str, Value, Value)> = vec![
        (
            r#".spec.template.spec.initContainers[] | select(.name == "injected")"#,
            pods(),
            json!({"spec": {"template": {"spec": {"initContainers": [{"name": "own", "image": "o"}]}}}}),
        ),
        (
            ".webhooks[]?.clientConfig.caBundle",
            json!({"webhooks": [{"clientConfig": {"caBundle": "x", "url": "u"}}, {"name": "n"}]}),
            json!({"webhooks": [{"clientConfig": {"url": "u"}}, {"name": "n"}]}),
        ),
        (".webhooks[]?.clientConfig.caBundle", json!({"a": 1}), json!({"a": 1})),
        (
            r#".data."a.b""#,
            json!({"data": {"a.b": 1, "a": {"b": 2}}}),
            json!({"data": {"a": {"b": 2}}}),
        ),
        (r#".data["a.b"]"#, json!({"data": {"a.b": 1, "c": 2}}), json!({"data": {"c": 2}})),
        (r#"."a b".c"#, json!({"a b": {"c": 1}}), json!({"a b": {}})),
        (
            ".. | .foo?",
            json!({"foo": 1, "a": [{"foo": 2, "b": 3}], "c": "text"}),
            json!({"a": [{"b": 3}], "c": "text"}),
        ),
        ("..|.foo?", json!({"a": 1}), json!({"a": 1})),
        (
            ".. | select(type == \"object\" and has(\"x\")) | .x",
            json!({"a": {"x": 1, "y": 2}}),
            json!({"a": {"y": 2}}),
        ),
        (
            ".spec.containers[0].image",
            json!({"spec": {"containers": [{"image": "i", "name": "n"}]}}),
            json!({"spec": {"containers": [{"name": "n"}]}}),
        ),
        (".l[-1]", json!({"l": [1, 2, 3]}), json!({"l": [1, 2]})),
        (".l[-9]", json!({"l": [1, 2, 3]}), json!({"l": [1, 2, 3]})),
        (".l[0], .l[1]", json!({"l": [1, 2, 3]}), json!({"l": [3]})),
        (".l[9]", json!({"l": [1]}), json!({"l": [1]})),
        (".l.[0]", json!({"l": [1, 2]}), json!({"l": [2]})),
        (".x.y?", json!({"a": 1}), json!({"a": 1})),
        (".spec.nope.deep", json!({"spec": {}}), json!({"spec": {}})),
        (".a.b?", json!({"a": "text"}), json!({"a": "text"})),
        (
            "(.a, .b) | .c",
            json!({"a": {"c": 1}, "b": {"c": 2, "d": 3}}),
            json!({"a": {}, "b": {"d": 3}}),
        ),
        (
            r#".l[] | select(.name | test("^inj")) "#,
            json!({"l": [{"name": "injected"}, {"name": "own"}]}),
            json!({"l": [{"name": "own"}]}),
        ),
        (
            r#".l[] | select(.name | test("^INJ"; "i"))"#,
            json!({"l": [{"name": "injected"}, {"name": "own"}]}),
            json!({"l": [{"name": "own"}]}),
        ),
        (
            r#".l[] | select((.n | startswith("a")) or (.n | endswith("z")) or (.n | contains("mm")))"#,
            json!({"l": [{"n": "ab"}, {"n": "bz"}, {"n": "immo"}, {"n": "b"}]}),
            json!({"l": [{"n": "b"}]}),
        ),
        (
            ".l[] | select(.n > 1 and .n <= 3)",
            json!({"l": [{"n": 1}, {"n": 2.0}, {"n": 3}]}),
            json!({"l": [{"n": 1}]}),
        ),
        (".l[] | select(.n != null | not)", json!({"l": [{"n": 1}, {}]}), json!({"l": [{"n": 1}]})),
        (".l[] | select(length == 2)", json!({"l": ["ab", "c", [1, 2]]}), json!({"l": ["c"]})),
        (
            r#".l[] | select(any(.ports[]; .name == "x"))"#,
            json!({"l": [{"ports": [{"name": "x"}]}, {"ports": []}]}),
            json!({"l": [{"ports": []}]}),
        ),
        (".l[] | select(all(. < 3))", json!({"l": [[1, 2], [1, 5]]}), json!({"l": [[1, 5]]})),
        (
            ".l[] | select(.name == (\"a\", \"b\"))",
            json!({"l": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
            json!({"l": [{"name": "c"}]}),
        ),
        ("empty", json!({"a": 1}), json!({"a": 1})),
        (".", json!({"a": 1}), json!({"a": 1})),
        (
            ".metadata.labels[]",
            json!({"metadata": {"labels": {"a": 1, "b": 2}}}),
            json!({"metadata": {"labels": {}}}),
        ),
    ];
    for (expression, before, after) in cases {
        assert_eq!(del(expression, before), after, "{expression}");
    }
}

#[test]
fn del_removes_paths_of_more_expressions() {
    let list = || json!({"l": [{"n": "a", "v": 1}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]});
    let without = |at: usize| {
        let mut list = list();
        list["l"].as_array_mut().unwrap().remove(at);
        list
    };
    let cases: Vec<(&str, Value, Value)> = vec![
        (r#".l[] | select(.n | IN("a", "x"))"#, list(), without(0)),
        (r#".l[] | select(IN(.n; "c", "x"))"#, list(), without(2)),
        (r#".l[] | select(.n | ascii_downcase == "b")"#, list(), without(1)),
        (r#".l[] | select(.n | ascii_upcase == "C")"#, list(), without(2)),
        (r#".l[] | select((.v | tostring) == "2")"#, list(), without(1)),
        (r#".l[] | select(("1" | tonumber) == .v)"#, list(), without(0)),
        (r#".l[] | if .v == 1 then . elif .v == 9 then .n else empty end"#, list(), without(0)),
        (r#".l[] | if .v > 2 then . else empty end"#, list(), without(2)),
        (
            r#".l[] | if .v > 2 then .n else .v end"#,
            list(),
            json!({"l": [{"n": "a"}, {"n": "B"}, {"v": 3}]}),
        ),
        (r#".x // .l[0]"#, list(), without(0)),
        (r#".l[1] // .l[0]"#, list(), without(1)),
        (
            r#".l[0].nope // (.l[0] | .v)"#,
            list(),
            json!({"l": [{"n": "a"}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]}),
        ),
        (r#"first(.l[] | select(.v > 1))"#, list(), without(1)),
        (r#"last(.l[] | select(.v < 3))"#, list(), without(1)),
        (r#".l | first"#, list(), without(0)),
        (r#".l | last"#, list(), without(2)),
        (r#"limit(1; .l[])"#, list(), without(0)),
        (r#"nth(1; .l[])"#, list(), without(1)),
        (r#".l | nth(2)"#, list(), without(2)),
        (r#".l[0:1]"#, list(), without(0)),
        (r#".l[2:]"#, list(), without(2)),
        (r#".l[:-2]"#, list(), without(0)),
        (r#".l[1:][0]"#, list(), without(1)),
        (r#".l[1:][] | select(.v == 3)"#, list(), without(2)),
        (r#".l[5:]"#, list(), list()),
        (r#".nope[1:]"#, list(), list()),
        (
            r#".l[1:][1:] | .[0].n"#,
            list(),
            json!({"l": [{"n": "a", "v": 1}, {"n": "B", "v": 2}, {"v": 3}]}),
        ),
        (r#".l[] | select(.n[0:1] == "a")"#, list(), without(0)),
        (r#""a" as $wanted | .l[] | select(.n == $wanted)"#, list(), without(0)),
        (r#".l[0].n as $n | .l[] | select(.n == $n)"#, list(), without(0)),
        (r#"(.l | map(.v) | max) as $most | .l[] | select(.v == $most)"#, list(), without(2)),
        (r#"["B"] as $names | .l[] | select(.n | IN($names[]))"#, list(), without(1)),
        (r#".l[] | select([.n, .v] == ["a", 1])"#, list(), without(0)),
        (r#".l[] | select(.v + 1 == 3)"#, list(), without(1)),
        (r#".l[] | select(.v % 2 == 0)"#, list(), without(1)),
        (r#".l[] | select(-.v == -3)"#, list(), without(2)),
        (r#"getpath(["l", 1])"#, list(), without(1)),
        (r#"getpath(["nope", "deep"])"#, list(), list()),
        (r#".l[] | select(has("n") and (keys == ["n", "v"]) and .v == 1)"#, list(), without(0)),
        (
            r#".l[] | select(.n | inside("abc"))"#,
            json!({"l": [{"n": "bc"}, {"n": "x"}]}),
            json!({"l": [{"n": "x"}]}),
        ),
        (
            r#".l[] | select(contains({t: 1}))"#.replace("{t: 1}", "[\"a\"]").leak(),
            json!({"l": [["xay"], ["b"]]}),
            json!({"l": [["b"]]}),
        ),
        (
            r#".metadata.annotations | .[keys[] | select(startswith("x/"))]"#,
            json!({"metadata": {"annotations": {"x/a": "1", "x/b": "2", "y": "3"}}}),
            json!({"metadata": {"annotations": {"y": "3"}}}),
        ),
        (
            r#".l[] | select(.n | split("-") | .[0] == "a")"#,
            json!({"l": [{"n": "a-b"}, {"n": "c"}]}),
            json!({"l": [{"n": "c"}]}),
        ),
        (
            r#".l[] | select(.n | ltrimstr("a-") | rtrimstr("-c") == "b")"#,
            json!({"l": [{"n": "a-b-c"}, {"n": "c"}]}),
            json!({"l": [{"n": "c"}]}),
        ),
        (
            r#".l[] | select((.n | index("b")) == 2)"#,
            json!({"l": [{"n": "a-b"}, {"n": "b"}]}),
            json!({"l": [{"n": "b"}]}),
        ),
        (
            r#".l[] | select(any(.t[]?; . == 1) or all(.t[]?; . == 2))"#,
            json!({"l": [{"t": [1]}, {"t": [3]}, {"t": [2, 2]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".l[] | select([.t[] | . * 2] | add == 6)"#,
            json!({"l": [{"t": [1, 2]}, {"t": [3]}, {"t": [2]}]}),
            json!({"l": [{"t": [2]}]}),
        ),
        (
            r#".l[] | select(.t | sort | unique | reverse | join(",") == "3,1")"#,
            json!({"l": [{"t": [1, 3, 1]}, {"t": [3]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".l[] | select(isempty(.t[]))"#,
            json!({"l": [{"t": []}, {"t": [3]}]}),
            json!({"l": [{"t": [3]}]}),
        ),
        (
            r#".. | strings | select(test("^s3cr"))"#,
            json!({"a": "s3cret", "b": [{"c": "s3cr", "d": 1}]}),
            json!({"b": [{"d": 1}]}),
        ),
        (r#".l[] | numbers, nulls"#, json!({"l": [1, "a", null, {}]}), json!({"l": ["a", {}]})),
        (
            r#"recurse(.child; . != null) | .secret"#,
            json!({"secret": 1, "child": {"secret": 2, "child": {"x": 1}}}),
            json!({"child": {"child": {"x": 1}}}),
        ),
        (r#"try .l.x catch empty, .gone"#, json!({"l": [1], "gone": 1}), json!({"l": [1]})),
        (
            ".l[0] # the first\n| .n",
            list(),
            json!({"l": [{"v": 1}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]}),
        ),
        (r#".l[0]["n", "v"]"#, list(), json!({"l": [{}, {"n": "B", "v": 2}, {"n": "c", "v": 3}]})),
        (r#".[("l")][range(2)]"#, list(), json!({"l": [{"n": "c", "v": 3}]})),
        (r#".l[] | select(.n == ("a" , "c"))?"#, list(), json!({"l": [{"n": "B", "v": 2}]})),
        (r#".l[] | select(.v == 1 or .v == 2 and .n == "x")"#, list(), without(0)),
        (r#".a.b?.c?, .l[0]"#, list(), without(0)),
    ];
    for (expression, before, after) in cases {
        assert_eq!(del(expression, before), after, "{expression}");
    }
}

#[test]
fn errors_of_consumers_are_not_caught() {
    // `.a?` catches errors of `.a`, not of its consumers; neither does `//`.
    let fails = |expression: &str, value: Value| {
        let result = Expression::parse(expression).unwrap().paths(&value, &Budget::default());
        assert!(matches!(result, Err(Error::Mismatch(_))), "{expression}: {result:?}");
    };
    fails(".a? | .b", json!({"a": "text"}));
    fails("(.a // .c) | .b", json!({"a": "text"}));
    fails("first(.a) | .b", json!({"a": "text"}));
}

#[test]
fn expensive_expressions_are_limited_in_time_and_memory() {
    // Cloning the input for each branch would take 3.6 GB for an object of 100 KB.
    let wide: Value = (0..700).map(|i| json!({"k": i, "t": "x".repeat(1000)})).collect();
    let long = json!({"t": "x".repeat(700_000)});
    let eight = "(.,.,.,.,.,.,.,.)";
    let chain = |depth: usize| vec![eight; depth].join("|");
    let doubling = format!("(.t{}) as $x | .", " | . + .".repeat(40));
    let nested = format!("select({}true{})", "[".repeat(60), "]".repeat(60));
    let steps = "takes more than 2000000 steps";
    let bytes = "takes more than 8388608 bytes of memory";
    let cases = [
        (format!("select({})", chain(7)), &wide, bytes),
        (format!("select({} | tostring | test(\"y\"))", chain(2)), &wide, steps),
        (chain(7), &wide, bytes),
        (format!("select([{}] | length > 1)", chain(7)), &wide, bytes),
        (doubling, &long, bytes),
        ("select([range(1e12)] | length > 1)".to_owned(), &wide, bytes),
        ("select(range(1e12) < 0)".to_owned(), &wide, steps),
        ("recurse(.nope)".to_owned(), &long, "goes deeper than 200 levels"),
        ("select(recurse([.]) == 1)".to_owned(), &long, "goes deeper than 200 levels"),
        ("recurse(., .)".to_owned(), &long, bytes),
        (format!("select({} | .t | test(\"a.*b.*c.*d\"))", chain(5)), &long, steps),
        (format!("select({} | .t | split(\"\") | length > 1)", chain(5)), &long, bytes),
        (format!("select({} | .t | ascii_upcase == \"\")", chain(5)), &long, bytes),
        (format!("select(. == ({}))", chain(6)), &wide, steps),
        (format!("select(.[] | [.] | {} | sort == 1)", chain(5)), &wide, bytes),
    ];
    for (expression, value, limit) in cases {
        let began = crate::clock::thread_time();
        let result = Expression::parse(&expression).unwrap().paths(value, &Budget::default());
        let took = crate::clock::thread_time() - began;
        let Err(Error::Exhausted(why)) = result else { panic!("{expression}: not exhausted") };
        assert_eq!(why, limit, "{expression}");
        assert!(took < std::time::Duration::from_secs(20), "{expression}: took {took:?}");
    }
    assert!(Expression::parse(&nested).is_ok_and(|nested| {
        nested.paths(&wide, &Budget::default()).is_ok_and(|paths| paths.len() == 1)
    }));
}

#[test]
fn many_evaluations_share_a_budget() {
    let value: Value = (0..1000).map(|i| json!({"k": i})).collect();
    let expression = Expression::parse(".. | .x?").unwrap();
    let budget = Budget(AtomicUsize::new(20_000_000));
    let mut count = 0;
    let error = loop {
        match expression.paths(&value, &budget) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(count > 100, "{count}");
    assert!(error.to_string().contains("all rules together"), "{error}");
}

#[test]
fn maximum_nesting_fits_a_small_stack() {
    let deep = (0..120).fold(json!({"x": 1}), |inner, _| json!({ "a": inner, "l": [1, 2] }));
    let run = move || {
        for expression in [
            vec!["(..,..)"; 30].join("|"),
            format!("{}.{}", "select(".repeat(58), ")".repeat(58)),
            format!("{}.{}", "first(".repeat(58), ")".repeat(58)),
            format!("{}.{}", "(.?|".repeat(28), ")".repeat(28)),
        ] {
            let parsed = Expression::parse(&expression).unwrap();
            let _ = parsed.paths(&deep, &Budget::default());
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn unsupported_expressions_are_rejected() {
    let deep = format!("{}.a{}", "(".repeat(100), ")".repeat(100));
    let cases = [
        ("", "the expression ends too early"),
        (".a |", "the expression ends too early"),
        (".a[", "'[' is not closed"),
        ("(.a", "expected ')' at the end"),
        (".a)", "unexpected ')'"),
        ("env.HOME", "'env' is not supported"),
        ("$ENV", "variable '$ENV' is not defined"),
        ("$__prog_args", "variable '$__prog_args' is not defined"),
        (". as $x | $y", "variable '$y' is not defined"),
        ("(. as $x | .a) | $x", "variable '$x' is not defined"),
        (". as [$x] | .a", "'[' is not supported after 'as'"),
        ("input_line_number", "'input_line_number' is not supported"),
        ("debug", "'debug' is not supported"),
        ("now", "'now' is not supported"),
        ("@base64d", "unexpected '@'"),
        ("{a: .b}", "an object literal is not supported"),
        (".a |= 1", "unexpected '|='"),
        (".a //= 1", "unexpected '//='"),
        ("if .a then .b", "expected 'end' at the end"),
        ("if .a else .b end", "expected 'then' before 'else'"),
        ("select(.a; .b)", "'select' is not supported with 2 arguments"),
        ("if .a then .b else 1 end", "the expression returns a value, not a path to ignore"),
        (".a // \"x\"", "the expression returns a value, not a path to ignore"),
        ("first(1, 2)", "the expression returns a value, not a path to ignore"),
        ("map(.a)", "the expression returns a value, not a path to ignore"),
        (".a ?// .b", "unexpected '?//'"),
        ("input", "'input' is not supported"),
        ("halt", "'halt' is not supported"),
        ("def f: f; f", "'def' is not supported"),
        ("reduce .[] as $x (0; .)", "'reduce' is not supported"),
        ("until(.a; .b)", "'until' is not supported"),
        (".a = 1", "unexpected '='"),
        ("del(.a)", "'del' is not supported"),
        ("1", "the expression returns a value, not a path to ignore"),
        (".a == 1", "the expression returns a value, not a path to ignore"),
        (".a | length", "the expression returns a value, not a path to ignore"),
        (".a[1.5]", "'1.5' is not a list index"),
        (r#""\(.a)""#, "string interpolation is not supported"),
        (r#".a | select(test("a" + "b"))"#, "expected ')' before '+'"),
        (r#".a | select(test(.b))"#, "'test' is supported with a literal only"),
        (deep.as_str(), "nested deeper than 64"),
    ];
    for (expression, want) in cases {
        assert_eq!(Expression::parse(expression).unwrap_err(), want, "{expression}");
    }
    assert!(Expression::parse(&format!(".{}", "a".repeat(MAX_LENGTH))).is_err(), "length");
    assert!(Expression::parse(&".a|".repeat(500)).is_err(), "a chain of pipes counts as nesting");
    assert!(Expression::parse(r#".a|select(test("("))"#).unwrap_err().starts_with("bad regular"));
}

#[test]
fn errors_of_evaluation() {
    let paths = |expression: &str, value: Value| {
        Expression::parse(expression).unwrap().paths(&value, &Budget::default())
    };
    let mismatch = |text: &str| Err(Error::Mismatch(text.to_owned()));
    assert_eq!(paths(".a.b", json!({"a": "s"})), mismatch("cannot look up a name in string"));
    assert_eq!(paths(".a[]", json!({})), mismatch("cannot iterate over null"));
    assert_eq!(paths(".a[0]", json!({"a": {}})), mismatch("cannot index object"));
    assert_eq!(
        paths(".a | select(test(\"x\"))", json!({"a": 1})),
        mismatch("cannot match a text against number")
    );
    let wide = json!({"a": vec![vec![0; 30]; 30]});
    assert_eq!(
        paths("..|..|..|..|..|..|..|..|..|..|..|..|..|..|..", wide),
        Err(Error::Exhausted("takes more than 8388608 bytes of memory".to_owned()))
    );
    let found = paths(".a[] | .b?", json!({"a": [{"b": 1}, "x", {"b~/": 2}]})).unwrap();
    assert_eq!(found.iter().map(|p| to_pointer(p)).collect::<Vec<_>>(), ["/a/0/b", "/a/2/b"]);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in r#"[.\[\]()|,?"a-c0-3 =<!~;:-]{0,24}"#) {
        if let Ok(expression) = Expression::parse(&text) {
            let value = json!({"a": [{"b": 1}, "x"], "b": {"c": null}});
            let mut left = value.clone();
            if let Ok(paths) = expression.paths(&value, &Budget::default()) {
                remove_all(&mut left, paths);
            }
            prop_assert_eq!(expression.text(), text);
        }
    }
}
