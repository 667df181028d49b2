use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::path::{remove_all, to_pointer};
use super::*;

/// The object after `del(expression)`.
fn del(expression: &str, mut value: Value) -> Value {
    let paths = Expression::parse(expression).unwrap().paths(&value).unwrap();
    remove_all(&mut value, paths);
    value
}

#[test]
fn what_del_leaves() {
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
fn what_is_refused() {
    let deep = format!("{}.a{}", "(".repeat(100), ")".repeat(100));
    let cases = [
        ("", "the expression ends too early"),
        (".a |", "the expression ends too early"),
        (".a[", "'[' is not closed"),
        ("(.a", "expected ')' at the end"),
        (".a)", "unexpected ')'"),
        ("env.HOME", "'env' is not supported"),
        ("$ENV", "unexpected '$'"),
        ("input", "'input' is not supported"),
        ("halt", "'halt' is not supported"),
        ("def f: f; f", "'def' is not supported"),
        ("reduce .[] as $x (0; .)", "unexpected '$'"),
        (".a[1:]", "slices are not supported"),
        (".a // .b", "unexpected '//'"),
        (".a = 1", "unexpected '='"),
        ("del(.a)", "'del' is not supported"),
        ("recurse(.a)", "'recurse' is not supported"),
        ("1", "it gives a value and names no place to ignore"),
        (".a == 1", "it gives a value and names no place to ignore"),
        (".a | length", "it gives a value and names no place to ignore"),
        (".a[.b]", "'.b' is not supported inside [ ]"),
        (".a[1.5]", "'1.5' is no list index"),
        (r#""\(.a)""#, "string interpolation is not supported"),
        (r#".a | select(test("a" + "b"))"#, "unexpected '+'"),
        (r#".a | select(test(.b))"#, "'test' is supported with a literal only"),
        (deep.as_str(), "nested deeper than 64"),
    ];
    for (expression, want) in cases {
        assert_eq!(Expression::parse(expression).unwrap_err(), want, "{expression}");
    }
    assert!(Expression::parse(&format!(".{}", "a".repeat(MAX_LENGTH))).is_err(), "length");
    assert!(Expression::parse(&".a|".repeat(500)).is_err(), "a chain of pipes is nesting");
    assert!(Expression::parse(r#".a|select(test("("))"#).unwrap_err().starts_with("bad regular"));
}

#[test]
fn what_fails_on_an_object() {
    let paths =
        |expression: &str, value: Value| Expression::parse(expression).unwrap().paths(&value);
    let mismatch = |text: &str| Err(Error::Mismatch(text.to_owned()));
    assert_eq!(paths(".a.b", json!({"a": "s"})), mismatch("cannot look up a name in string"));
    assert_eq!(paths(".a[]", json!({})), mismatch("cannot iterate over null"));
    assert_eq!(paths(".a[0]", json!({"a": {}})), mismatch("cannot index object"));
    assert_eq!(
        paths(".a | select(test(\"x\"))", json!({"a": 1})),
        mismatch("cannot match a text against number")
    );
    let wide = json!({"a": vec![vec![0; 30]; 30]});
    assert_eq!(paths("..|..|..|..|..|..|..|..|..|..|..|..|..|..|..", wide), Err(Error::Exhausted));
    let found = paths(".a[] | .b?", json!({"a": [{"b": 1}, "x", {"b~/": 2}]})).unwrap();
    assert_eq!(found.iter().map(|p| to_pointer(p)).collect::<Vec<_>>(), ["/a/0/b", "/a/2/b"]);
}

proptest! {
    #[test]
    fn reading_never_panics(text in r#"[.\[\]()|,?"a-c0-3 =<!~;:-]{0,24}"#) {
        if let Ok(expression) = Expression::parse(&text) {
            let value = json!({"a": [{"b": 1}, "x"], "b": {"c": null}});
            let mut left = value.clone();
            if let Ok(paths) = expression.paths(&value) {
                remove_all(&mut left, paths);
            }
            prop_assert_eq!(expression.text(), text);
        }
    }
}
