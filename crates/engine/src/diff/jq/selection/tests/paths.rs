//! What expressions select, as jq does (SE-173), and what that takes.

use super::*;

fn object() -> Value {
    json!({
        "a": {"b": 1, "c": null, "f": false, "s": "x/y"},
        "l": [
            {"name": "a", "n": 1, "on": true, "tags": ["p", "q"]},
            {"name": "b", "n": 2, "on": false},
            {"name": null, "n": 3.5},
        ],
        "m": {"x/1": 1, "x/2": {"k": 1}, "y": 2},
        "t": ["(", ":", "-", "a"],
    })
}

/// The places with points between their steps, or the error.
fn selected(text: &str, object: &Value) -> Result<Vec<String>, String> {
    let selection = JqSelection::parse(text).unwrap_or_else(|| panic!("{text}"));
    let found = selection.paths(object, &mut MAX_STEPS.clone()).unwrap();
    let step = |step: &PathStep| match step {
        PathStep::Key(key) => key.clone(),
        PathStep::Index(at) => at.to_string(),
    };
    let shown = |path: &Path| path.iter().map(step).collect::<Vec<_>>().join(".");
    match found {
        Ok(paths) => Ok(paths.iter().map(shown).collect()),
        Err(JqError::Mismatch(why)) => Err(why),
        Err(other) => panic!("{text}: {other}"),
    }
}

#[test]
fn expressions_select_what_jq_selects_se_173() {
    let cases: Vec<(&str, Vec<&str>)> = vec![
        (".", vec![""]),
        (".a.b", vec!["a.b"]),
        (".a.c", vec!["a.c"]),
        (".a.none", vec![]),
        (".a.none.deeper", vec![]),
        (".\"a\".\"b\"", vec!["a.b"]),
        (".a[\"b\"]", vec!["a.b"]),
        (".a.b.deep?", vec![]),
        (".a[]?", vec!["a.b", "a.c", "a.f", "a.s"]),
        (".a.b[]?", vec![]),
        (".l[].name", vec!["l.0.name", "l.1.name", "l.2.name"]),
        (".l[0].n", vec!["l.0.n"]),
        (".l[-1].n", vec!["l.2.n"]),
        (".l[3]", vec![]),
        (".l[-4]", vec![]),
        (".a.b, .l[1].n", vec!["a.b", "l.1.n"]),
        (".a | .b, .c", vec!["a.b", "a.c"]),
        ("(.l[0], .l[1]) | .n", vec!["l.0.n", "l.1.n"]),
        (".. | .n?", vec!["l.0.n", "l.1.n", "l.2.n"]),
        (".l | .. | .name?", vec!["l.0.name", "l.1.name", "l.2.name"]),
        (".l[0].tags | ..", vec!["l.0.tags", "l.0.tags.0", "l.0.tags.1"]),
        (".none | ..", vec![]),
        (".l[] | select(.on) | .n", vec!["l.0.n"]),
        (".l[] | select(.on | not) | .n", vec!["l.1.n", "l.2.n"]),
        (".l[] | select(.on == true) | .n", vec!["l.0.n"]),
        (".l[] | select(.on == false) | .n", vec!["l.1.n"]),
        (".l[] | select(.on != true) | .n", vec!["l.1.n", "l.2.n"]),
        (".l[] | select(.n == 3.5) | .n", vec!["l.2.n"]),
        (".l[] | select(.n == -3.5) | .n", vec![]),
        (".l[] | select(.name == \"b\") | .n", vec!["l.1.n"]),
        (".l[] | select(.name == null) | .n", vec!["l.2.n"]),
        (".l[] | select(.n == \"1\") | .n", vec![]),
        (".l[] | select(.on and .n == 1) | .n", vec!["l.0.n"]),
        (".l[] | select(.on and .n == 2) | .n", vec![]),
        (".l[] | select(.n == 1 and .on == false) | .n", vec![]),
        (".l[] | select(.on or .n == 2) | .n", vec!["l.0.n", "l.1.n"]),
        (".l[] | select(.n == 9 or .n == 8) | .n", vec![]),
        (".l[] | select(.n == 1 or .name == \"b\" and .on) | .n", vec!["l.0.n"]),
        (".l[] | select(.n.deep? == 1) | .n", vec![]),
        (".l[] | select(.n.deep? == 1 | not) | .n", vec![]),
        (".l[] | select(.n.deep? or .on) | .n", vec![]),
        (".l[] | select(has(\"on\")) | .n", vec!["l.0.n", "l.1.n"]),
        (".l[] | select(.tags | has(1)) | .n", vec!["l.0.n"]),
        (".l[] | select(.tags | has(-3)) | .n", vec![]),
        (".l[] | select(.name | contains(\"a\")) | .n", vec!["l.0.n"]),
        (".l[0], .l[1] | select(.name | startswith(\"a\")) | .n", vec!["l.0.n"]),
        (".l[0], .l[1] | select(.name | endswith(\"b\")) | .n", vec!["l.1.n"]),
        (".l[0], .l[1] | select(.name | test(\"^[b-z]$\")) | .n", vec!["l.1.n"]),
        (".l[0], .l[1] | select(.name | test(\"^[b-z]$\") | not) | .n", vec!["l.0.n"]),
        (".t[] | select(test(\"[(]\"))", vec!["t.0"]),
        (".t[] | select(test(\"^(:|-)$\"))", vec!["t.1", "t.2"]),
        (".t[] | select(test(\"[-.]\"))", vec!["t.2"]),
        (".l[] | select(.name | IN(\"b\", null, 7)) | .n", vec!["l.1.n", "l.2.n"]),
        (".l[] | select(.on | IN(false)) | .n", vec!["l.1.n"]),
        (".m | keys[] as $k | select($k | startswith(\"x/\")) | .[$k]", vec!["m.x/1", "m.x/2"]),
        (".m | keys[] as $k | select($k | endswith(\"2\")) | .[$k].k", vec!["m.x/2.k"]),
        (".m[.m | keys[] | select(. == \"y\")]", vec!["m.y"]),
        (".l[.l | keys[] | select(. == 1)].n", vec!["l.1.n"]),
    ];
    let object = object();
    for (text, want) in cases {
        let want = want.into_iter().map(str::to_owned).collect();
        assert_eq!(selected(text, &object), Ok(want), "{text}");
    }
}

#[test]
fn what_has_another_shape_is_an_error_as_in_jq_se_173() {
    let cases = [
        (".a.b.deep", "cannot index 1 with \"deep\""),
        (".a.s[0]", "cannot index a string with 0"),
        (".a.b[]", "cannot iterate over 1"),
        (".a.c[]", "cannot iterate over null"),
        (".l[] | select(.n.deep == 1)", "cannot index 1 with \"deep\""),
        (".l[] | select(.name | startswith(\"a\"))", "cannot use null as string"),
        (".a.b | keys[] as $k | select($k) | .[$k]", "1 has no keys"),
        (".l[] | select(.n | has(\"x\"))", "cannot index 1 with \"x\""),
    ];
    let object = object();
    for (text, want) in cases {
        assert_eq!(selected(text, &object), Err(want.to_owned()), "{text}");
    }
}

/// Equal expressions are equal: settings are compared by what they were read from.
#[test]
fn expressions_are_equal_by_their_form() {
    let of = |text: &str| JqSelection::parse(text).unwrap();
    let test = |pattern: &str| of(&format!("select(.a | test(\"{pattern}\"))"));
    assert_eq!(test("a+"), test("a+"));
    assert_ne!(test("a+"), test("a*"));
    assert_eq!(of(".a[\"b\"]"), of(".a.b"));
    assert_ne!(of(".a.b?"), of(".a.b"));
}

/// Steps that an expression takes for an object.
fn taken(text: &str, object: &Value) -> usize {
    let mut left = MAX_STEPS;
    let _ = JqSelection::parse(text).unwrap().paths(object, &mut left);
    MAX_STEPS - left
}

/// Paths take memory, and what is compared with a text takes time: both are counted.
#[test]
fn steps_are_counted_by_what_is_kept_and_compared() {
    let named = |length: usize| json!({"k".repeat(length): 1});
    assert_eq!(taken(".[]", &named(900)) - taken(".[]", &named(100)), 800, "names of places");

    // Names that are compared, and are not selected.
    let none = "keys[] as $k | select($k == \"none\") | .[$k]";
    let many = |count: usize| -> Value {
        (0..count)
            .map(|at| (format!("{at:04}"), json!(1)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    assert_eq!(taken(none, &many(200)) - taken(none, &many(100)), 200, "each name");
    let long = taken(none, &named(20 * BYTES_OF_STEP)) - taken(none, &named(10 * BYTES_OF_STEP));
    assert_eq!(long, 10, "their bytes");

    let list = |length: usize| Value::from(vec!["a".repeat(length); 10]);
    let compare =
        |function: &str, length: usize| taken(&format!(".[] | select({function})"), &list(length));
    let each = |function: &str| (compare(function, 10 * BYTES_OF_STEP) - compare(function, 0)) / 10;
    assert_eq!(each("startswith(\"b\")"), 10);
    assert_eq!(each("IN(\"b\", \"c\", \"d\")"), 30, "each literal may be compared");
    // A pattern looks at each byte more often, the longer it is.
    assert!(each("test(\"b\")") >= 2000, "{}", each("test(\"b\")"));
    assert!(each("test(\"bcd\")") > each("test(\"b\")"));
    let literals = |count: usize| {
        let all: Vec<String> = (0..count).map(|at| at.to_string()).collect();
        format!("IN({})", all.join(", "))
    };
    let (few, more) = (compare(&literals(8), 0), compare(&literals(80), 0));
    assert_eq!(more - few, 9 * 10, "some literals in a step");
}
