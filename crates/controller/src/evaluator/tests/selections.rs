//! Paths with selections are followed in the controller: as jaq does.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use serde_json::Value;

use super::*;
use wavegate_engine::diff::jq::JqExpression as Rule;

/// Evaluates nothing.
#[derive(Debug)]
struct NoWorker;

impl Evaluate for NoWorker {
    fn check(&self, _: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        texts.iter().map(|_| Err("no worker checks it".to_owned())).collect()
    }

    fn paths(&self, _: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let none = || Err(JqError::Unavailable("no worker evaluates it".to_owned()));
        questions.iter().map(|one| one.expressions.iter().map(|_| none()).collect()).collect()
    }
}

/// Compares jaq and the controller; returns whether the controller followed the expression
/// itself, and whether something is selected.
fn agree(text: &str, object: &Value) -> Result<(bool, bool), TestCaseError> {
    let paths = |evaluate: Jq, rule: &Rule| -> Result<Vec<Path>, JqError> {
        let question = Question { object, expressions: vec![rule] };
        evaluate.paths("tests", &[question]).remove(0).remove(0)
    };
    let without = Jq::new(Arc::new(NoWorker));
    let Ok(rule) = without.parse("tests", &[text]).remove(0) else { return Ok((false, false)) };
    let here = paths(without, &rule);
    if matches!(here, Err(JqError::Unavailable(_))) {
        return Ok((false, false));
    }
    if let Err(why) = &workers().check("tests", &[text])[0] {
        return Err(TestCaseError::fail(format!("{text:?} is no expression for jaq: {why}")));
    }
    let jaq = paths(evaluator().clone(), &Rule::foreign(text));
    // Messages are similar only.
    let without_message = |found: &Result<Vec<Path>, JqError>| match found {
        Err(JqError::Mismatch(_)) => Err(JqError::Mismatch(String::new())),
        other => other.clone(),
    };
    prop_assert_eq!(
        without_message(&here),
        without_message(&jaq),
        "{:?} of {}: {:?}, and by jaq {:?}",
        text,
        object,
        here,
        jaq
    );
    Ok((true, here.is_ok_and(|paths| !paths.is_empty())))
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

/// Few names, so that they are found.
fn name() -> impl Strategy<Value = String> {
    word(&["a", "a", "b", "b", "c", "and", "a_1"])
}

fn optional() -> impl Strategy<Value = String> {
    word(&["", "", "", "?", "??"])
}

/// A field, after something else or not.
fn field(is_first: bool, has_lists: bool) -> impl Strategy<Value = String> {
    let dot = word(if is_first { &["."] } else { &["", ".", " "] });
    let bracket = prop_oneof![
        3 => word(if has_lists { &["[]", "[ ]"] } else { &["[0]"] }),
        2 => name().prop_map(|name| format!("[\"{name}\"]")),
        2 => (-3_i64..3).prop_map(|at| format!("[{at}]")),
    ];
    let bracket = (dot, bracket).prop_map(|(dot, bracket)| format!("{dot}{bracket}"));
    let named = prop_oneof![
        3 => name().prop_map(|name| format!(".{name}")),
        1 => name().prop_map(|name| format!(".\"{name}\"")),
    ];
    (prop_oneof![named, bracket], optional()).prop_map(|(field, optional)| field + &optional)
}

fn path(has_lists: bool) -> impl Strategy<Value = String> {
    let more = proptest::collection::vec(field(false, has_lists), 0..3);
    let some = (field(true, has_lists), more).prop_map(|(one, more)| one + &more.concat());
    prop_oneof![1 => Just(".".to_owned()), 8 => some]
}

fn literal() -> impl Strategy<Value = String> {
    word(&[
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "01",
        "0.5",
        "1.0",
        "-0",
        "-0.0",
        "123456789012345",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"é\"",
    ])
}

fn function() -> impl Strategy<Value = String> {
    let text = word(&["\"\"", "\"a\"", "\"b\"", "\"ab\""]);
    let names = word(&["startswith", "endswith", "contains", "has"]);
    let of_text = (names, text).prop_map(|(name, text)| format!("{name}({text})"));
    let literals = proptest::collection::vec(literal(), 1..4);
    prop_oneof![
        6 => of_text,
        1 => (-3_i64..3).prop_map(|at| format!("has({at})")),
        2 => pattern().prop_map(|pattern| format!("test(\"{pattern}\")")),
        1 => literals.prop_map(|all| format!("IN({})", all.join(", "))),
    ]
}

/// Regular expressions of the form that is followed.
fn pattern() -> impl Strategy<Value = String> {
    let some = || {
        let atom = word(&["a", "b", ".", "[ab]", "[^a]", "[a-c]", "0", "^", "$", ""]);
        proptest::collection::vec(atom, 1..4)
    };
    let group = (some(), word(&["", "|"]), word(&["", "*", "+", "?"]));
    let group = group.prop_map(|(all, between, often)| format!("({}){often}", all.join(&between)));
    let several = prop_oneof![2 => some().prop_map(|all| all.concat()), 1 => group];
    let several = proptest::collection::vec(several, 1..4);
    (several, word(&["", "", "|"])).prop_map(|(all, between)| all.join(&between))
}

fn condition() -> impl Strategy<Value = String> {
    let test = (path(false), word(&["==", " == ", "!=", " !=\n"]), literal(), any::<bool>());
    let test =
        test.prop_map(
            |(path, sign, literal, turned)| {
                if turned { literal + &sign + &path } else { path + &sign + &literal }
            },
        );
    let leaf = prop_oneof![
        6 => test,
        2 => path(false),
        1 => function(),
        1 => (path(false), function()).prop_map(|(path, of)| format!("({path} | {of})")),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let joined = (proptest::collection::vec(inner.clone(), 2..4), word(&[" and ", " or "]));
        prop_oneof![
            3 => joined.prop_map(|(all, word)| all.join(&word)),
            1 => inner.clone().prop_map(|one| format!("({one})")),
            1 => inner.prop_map(|one| format!("({one} | not)")),
        ]
    })
}

/// Fields by conditions on their names.
fn keyed() -> impl Strategy<Value = String> {
    let condition = (function(), word(&["", " | not"]));
    let condition = condition.prop_map(|(of, not)| format!("{of}{not}"));
    let fields = word(&["", ".a", ".b", ".a.b"]);
    (condition, fields, 0..4, word(&["", ".a?", "[]?"])).prop_map(|(condition, path, form, then)| {
        let start = if path.is_empty() { "." } else { &*path };
        let select = format!("keys[] | select({condition})");
        match form {
            0 => format!("{start}[{start} | {select}]{then}"),
            1 => format!("{start} | .[({select})]{then}"),
            2 => format!("{start}[(({start} | {select}))]{then}"),
            _ => format!(
                "({start} | keys[] as $k | select($k == \"a\" or ($k | {condition})) | .[$k]{then})"
            ),
        }
    })
}

fn expression() -> impl Strategy<Value = String> {
    let whole = prop_oneof![
        4 => Just(String::new()),
        1 => Just(" | not".to_owned()),
        1 => function().prop_map(|of| format!(" | {of}")),
    ];
    let selects = (condition(), whole).prop_map(|(one, whole)| match &*whole {
        // Of a path only.
        text if text.contains('(') => format!("select(.a{whole})"),
        whole => format!("select({one}{whole})"),
    });
    let leaf = prop_oneof![
        6 => path(true), 4 => selects, 1 => Just("..".to_owned()), 1 => keyed(),
    ];
    leaf.prop_recursive(4, 10, 3, |inner| {
        let some = || proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            4 => some().prop_map(|all| all.join(" | ")),
            2 => some().prop_map(|all| all.join(", ")),
            2 => (inner.clone(), field(false, true)).prop_map(|(one, field)| format!("({one}){field}")),
            1 => inner.clone().prop_map(|one| format!("\n( {one} )")),
        ]
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        select(&[0.0, -0.0, 1.0, 0.5, 1e300, 123456789012345.0][..]).prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        select(&["", "a", "b", "ab", "é", "0"][..]).prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        let names = select(&["a", "b", "c", "and", "a_1"][..]).prop_map(str::to_owned);
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            2 => proptest::collection::btree_map(names, inner, 0..5)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

/// An object in which paths lead somewhere.
fn object() -> impl Strategy<Value = Value> {
    let full = |[a, b, c]: [Value; 3]| json!({"a": a, "b": b, "c": c});
    let inner = leaf().prop_recursive(4, 100, 3, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
            3 => [inner.clone(), inner.clone(), inner].prop_map(full),
        ]
    });
    [inner.clone(), inner.clone(), inner].prop_map(full)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn selections_agree_with_jaq(
        text in expression(),
        objects in proptest::collection::vec(prop_oneof![object(), value()], 1..6),
    ) {
        for object in &objects {
            prop_assert!(agree(&text, object)?.0, "{:?} is not of the form", text);
        }
    }

    /// Whatever the controller takes for a selection means the same to jaq.
    #[test]
    fn what_is_almost_a_selection_agrees_or_is_left_to_jaq(
        text in expression(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0..3, word(&[
            ".", "|", ",", "?", "[", "]", "(", ")", "\"", "=", "==", "!=", "-", "a", ".a", "[0]",
            "[]", "1", "0.", "e1", " ", "\n", "#", "\\", ":", ";", "/", "//", "not", "and", "or",
            "null", "select", "startswith", "has", "..", "test(\"a\")", "[[", "keys[]", "keys", "as", "$k", ".[$k]", "(?", "^", "$", "*", "+",
            "$a", "@text", "{", "}", "é", "\u{a0}", "<", "|=",
        ])), 1..4),
        objects in proptest::collection::vec(prop_oneof![object(), value()], 1..3),
    ) {
        let mut text = text;
        for (at, action, new) in changes {
            let chars: Vec<(usize, char)> = text.char_indices().collect();
            let Some((at, old)) = chars.get(at.index(chars.len().max(1))).copied() else { break };
            match action {
                0 => text.insert_str(at, &new),
                1 => text.replace_range(at..at + old.len_utf8(), &new),
                _ => text.replace_range(at..at + old.len_utf8(), ""),
            }
        }
        for object in &objects {
            agree(&text, object)?;
        }
    }
}

/// The generated expressions are worth something: they select, and they fail.
#[test]
fn generated_expressions_select_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut selecting, mut all) = (0, 0);
    for _ in 0..300 {
        let text = expression().new_tree(&mut runner).unwrap().current();
        let object = object().new_tree(&mut runner).unwrap().current();
        let (is_followed, selects) = agree(&text, &object).unwrap();
        all += usize::from(is_followed);
        selecting += usize::from(selects);
    }
    println!("{selecting} of {all} select something");
    assert!(all == 300 && (50..250).contains(&selecting), "{selecting} of {all}");
}

/// Cases that are easily done in another way.
#[test]
fn odd_cases_agree_with_jaq() {
    let object = json!({
        "l": [{"n": 1, "t": "a"}, {"n": 1.0}, {"n": null}, {"n": "1"}, {"n": true, "t": null}],
        "big": [18446744073709551615_u64, 123456789012345_u64, 1e15, -9223372036854775808_i64],
        "n": null, "t": "text", "o": {"x": [], "y": {}, "": 1}, "e": [],
    });
    let texts = [
        ".l[] | select(.n == 1)",
        ".l[] | select(.n != 1)",
        ".l[] | select(.n == \"1\")",
        ".l[] | select(.t == null)",
        ".l[] | select(.n.deep? == null)",
        ".l[] | select(.n.deep? != null)",
        ".l[] | select((.n.deep? == null) | not)",
        ".l[] | select(.n.deep? or .n)",
        ".l[] | select(.n.deep? and .n)",
        ".l[] | select(.n == 1 or .n.deep)",
        ".l[] | select(.n == 2 and .n.deep)",
        ".l[] | select(.t == null or (.t | startswith(\"a\")))",
        ".l[] | select(.t | startswith(\"a\"))",
        ".l[] | select(.t | contains(\"a\"))",
        ".l[] | select(.n | contains(\"1\"))",
        ".l[] | select(has(\"t\"))",
        ".l[] | select(has(0))",
        ".l[] | select(.n | has(\"t\"))",
        "select(.e | has(0)), select(.big | has(-4)), select(.big | has(-5))",
        ".big[] | select(. == 123456789012345)",
        ".big[] | select(. != -0)",
        ".n[0].x.y",
        ".n[]",
        ".n[]?",
        ".t[0]",
        ".t.x?",
        ".o[0]",
        ".o[-1].a",
        ".o.\"\"",
        ".o[]",
        ".o[][]",
        ".o[][]?",
        ".o[]?[]",
        ".e[0].x[0]",
        ".e[0][]",
        ".e[-1]",
        ".e.x",
        ".l[-5]",
        ".l[-6]",
        ".l[5]",
        ".l[0], .l[0], .l[1]",
        ".",
        ". | .",
        "(., .l) | .",
        ".l | .[0], .[1] | .n",
        "(.l | .[0], .[1]).n",
        ".none | select(. == null)",
        ".none | select(.x) | .y",
        "select(.none == null).l[1]",
        ".o[.o | keys[] | select(. == \"x\")]",
        ".o | keys[] as $k | select($k != \"y\") | .[$k]",
        ".l | keys[] as $k | select($k == 1 or $k == 3) | .[$k]",
        ".l | .[keys[] | select(startswith(\"a\"))]",
        ".n | keys[] as $k | select($k) | .[$k]",
        ".t | .[keys[] | select(.)]",
        "keys[] as $k | select($k | IN(\"l\", \"t\")) | .[$k][0]?",
        "..",
        ".l | .. | select(.t? == null)",
        ".. | select(. == 1)",
        ".none | ..",
        ".t | (.., .)",
        ".t, (.. | .n?)",
        "select(.t | test(\"^te.t$\")).l",
        "select(.t | test(\"\")).l",
        "select(.t | test(\"T\")).l",
        "select(.n | test(\"a\"))",
        ".l[] | select(.n | IN(1, \"1\", null))",
        ".l[] | select(.n.deep? | IN(null))",
        ".l[] | select(.t | IN(\"a\") | not)",
    ];
    for text in texts {
        assert!(agree(text, &object).unwrap().0, "{text}");
    }
}
