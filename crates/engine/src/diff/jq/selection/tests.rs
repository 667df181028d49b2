mod paths;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::super::{Evaluate, Found, Jq, JqExpression, MAX_LENGTH, Question};
use super::parse::{MAX_NESTING, MAX_PARTS};
use super::*;

const FORMS: &[&str] = &[
    ".spec.replicas",
    ".metadata.annotations.\"control-plane.alpha.kubernetes.io/leader\"",
    ".metadata.annotations[\"a/b\"]",
    ".metadata.annotations.[\"a/b\"]?",
    ".metadata?.annotations?",
    ".webhooks[]?.clientConfig.caBundle",
    ".spec.template.spec.containers[].resources.limits.cpu",
    ".spec.template.spec.containers[0].image",
    ".spec.template.spec.containers[-1]",
    ".spec.template.spec.initContainers[] | select(.name == \"injected\")",
    ".spec.template.spec.containers[] | select(.name == \"a\").env[] | select(.name == \"b\") | .value",
    ".spec.template.spec.volumes[]? | select(.name != \"a\" and .emptyDir != null)",
    "\n  .spec.ports[]\n  | select(.port == 80 or (.port == 443 and .protocol == \"TCP\"))\n  | .nodePort\n",
    ".spec.ports[] | select(.nodePort) | .nodePort",
    ".spec.ports[] | select(.nodePort | not)",
    ".spec.ports[] | select((.name == \"a\") | not)",
    "select(.kind == \"Service\") | .spec.clusterIP, .spec.clusterIPs",
    "(.spec, .status) | .a",
    "(.a | .b)[0].c",
    ".metadata.finalizers[]? | select(startswith(\"a/\"))",
    ".spec.tolerations[] | select(.key | startswith(\"a\"))",
    ".spec.template.spec.containers[] | select(.image | contains(\"/a:\")) | .image",
    ".spec.ports[] | select(has(\"nodePort\") and (.l | has(-1) | not))",
    ".l[] | select(\"x\" == .name or -1.5 == .n or endswith(\"b\") or .flag == true)",
    ".spec.template.spec.containers[].env[] | select(.name | test(\"^(A|B)_.*\")) | .value",
    ".l[] | select(.name | IN(\"a\", \"b\"))",
    ".. | .image?",
    ".metadata.annotations | keys[] as $k | select($k | startswith(\"x/\")) | .[$k]",
    ".data[(.data | keys[] | select(startswith(\"x\") or . == \"y\"))]",
    ".data | .[keys[] | select(test(\"x\") | not)].y",
    ".a | (.., .b)",
    ".",
    ".a.\"b\"?[\"c\"][]",
    ".\"a\".b",
    "select(.a == false)",
    "select(.a == -1)",
    ".a[.a | keys[] | select(. == \"x\")]",
];

#[test]
fn forms_that_are_followed_in_this_process() {
    for text in FORMS {
        assert!(JqSelection::parse(text).is_some(), "{text}");
    }
    let nested = |count: usize| format!("{}.a{}", "(".repeat(count), ")".repeat(count));
    assert!(JqSelection::parse(&nested(MAX_NESTING)).is_some());
    let long = [".a"; MAX_PARTS].concat();
    assert!(JqSelection::parse(&long).is_some());
    let others = [
        "",
        " ",
        "...",
        "..a",
        "..[0]",
        "..?",
        ".a..b",
        "a",
        ".a.",
        ".a[",
        ".a[]]",
        ".a |",
        "| .a",
        ".a,",
        ",.a",
        "()",
        ".a[1:2]",
        ".a[.b]",
        ".a[1.5]",
        ".a[\"x\", \"y\"]",
        ".a[\"x\\n\"]",
        ".a[\"\\(.b)\"]",
        ".a[\"x]",
        ".a-b",
        ".a::b",
        ".1",
        ".a.1",
        ".a # a comment",
        "(.a)?",
        "select(.a)?",
        ".?",
        ".a // .b",
        ".a as $x | .b",
        "[.a]",
        "{a}",
        "del(.a)",
        ".a = 1",
        ".a |= 1",
        "if .a then .b else .c end",
        "empty",
        "map(.a)",
        "first(.a)",
        "1",
        "\"a\"",
        "null",
        "select",
        "select()",
        "select(.a; .b)",
        "select(true)",
        "select(1 == 1)",
        "select(.a == .b)",
        "select(.a[] == 1)",
        "select(.a, .b)",
        "select(.a == 1, .b)",
        "select(.a | .b == 1)",
        "select(.a == 1 == true)",
        "select((.a == 1) == true)",
        "select(.a < 1)",
        "select(.a == 1e3)",
        "select(.a == 1.)",
        "select(.a == 1234567890123456)",
        "select(.a == - -1)",
        "select(.a == -\"x\")",
        "select(.a == [])",
        "select(.a == {})",
        "select(not)",
        "select(not .a)",
        "select(.a | startswith(\"x\") and .b)",
        "select(.a == 1 | startswith(\"x\"))",
        "select(.a | startswith(.b))",
        "select(.a | test(\"(?i)x\"))",
        "select(.a | test(\"x{2}\"))",
        "select(.a | test(\"[[:alpha:]]\"))",
        "select(.a | test(\"x**\"))",
        "select(.a | test(\"[a--b]\"))",
        "select(.a | test(\"[a[b]]\"))",
        "select(.a | test(\"((a)|(b))*\"))",
        "select(.a | test(\"(*a)\"))",
        "select(.a | test(\"a]\"))",
        "select(.a | test(\"[]a]\"))",
        "select(.a | test(\"12345678901234567890123456789012345678901234567890123456789012345\"))",
        "select(.a | test(\"é\"))",
        "select(.a | test(\"(\"))",
        "select(.a | test(\"x\"; \"i\"))",
        "select(.a | test(.b))",
        "keys",
        "keys[]",
        "keys[] as $k | .[$k]",
        "keys[] as $k | select(startswith(\"x\")) | .[$k]",
        "keys[] as $k | select(.a) | .[$k]",
        "keys[] as $k | select($j) | .[$k]",
        "keys[] as $k | select($k) | .[$j]",
        "keys[] as $k | select($k) | .[$k]?",
        "keys[] as [$k] | select($k) | .[$k]",
        "keys[] as $1 | select($1) | .[$1]",
        "..)",
        "... | .a",
        ".a[..]",
        ".a[.b | keys[] | select(.)]",
        ".a[keys[] | select(.)]",
        ".a[].b[.a[].b | keys[] | select(.)]",
        ".a[.a | keys[]]",
        ".[keys[] | select(.)]?",
        "(.a)[.a | keys[] | select(.)]",
        ".a | .[.a | keys[] | select(.)]",
        "select($k)",
        "select(.a == $k)",
        "select(.a | IN(.b))",
        "select(.a | IN())",
        "select(.a | IN(1; 2))",
        "select(.a | type == \"x\")",
        "select(.a | contains([\"x\"]))",
        "select(.a | contains(.b))",
        "select(.a | contains(1))",
        "select(contains)",
        "select(has(.a))",
        "select(has(1.5))",
        "select(has(\"a\"; \"b\"))",
        "select(.a | ltrimstr(\"x\"))",
        "select(.a or)",
        "select(.a and and .b)",
        "select(.a == 'x')",
        "$ENV.a",
        "@base64d",
        ".a\u{a0}",
        ".ä",
        "é",
    ];
    for text in others {
        assert_eq!(JqSelection::parse(text), None, "{text}");
    }
    assert_eq!(JqSelection::parse(&nested(MAX_NESTING + 1)), None);
    assert_eq!(JqSelection::parse(&format!("{long}.a")), None);
    assert_eq!(JqSelection::parse(&"(".repeat(MAX_LENGTH)), None);
    let select = "select(".repeat(MAX_LENGTH / 8);
    assert_eq!(JqSelection::parse(&select), None);
}

/// Counts what is asked for, and answers nothing.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<String>>);

impl Evaluate for Asked {
    fn check(&self, _: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        self.0.lock().extend(texts.iter().map(|text| (*text).to_owned()));
        texts.iter().map(|_| Ok(())).collect()
    }

    fn paths(&self, _: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let mut asked = self.0.lock();
        let mut answer = |one: &&JqExpression| {
            asked.push(one.text().to_owned());
            Ok(vec![vec![json!("answered")]])
        };
        questions.iter().map(|one| one.expressions.iter().map(&mut answer).collect()).collect()
    }
}

/// Nobody is asked about a selection, and the answers about others get to their places.
#[test]
fn only_other_expressions_are_asked_for() {
    let asked = Arc::new(Asked::default());
    let jq = Jq::new(asked.clone());
    let parse = |texts: &[&str]| -> Vec<JqExpression> {
        jq.parse("tests", texts).into_iter().map(Result::unwrap).collect()
    };
    let expressions = parse(&[".a", "first(.b)", ".c[]", "last(.d)"]);
    assert_eq!(std::mem::take(&mut *asked.0.lock()), ["first(.b)", "last(.d)"]);
    let objects = [json!({"a": 1, "c": {"x": 1}, "answered": 1}), json!({"a": 2, "c": 3})];
    let question = |object| Question { object, expressions: expressions.iter().collect() };
    let plain = |object| Question { object, expressions: vec![&expressions[0], &expressions[2]] };
    let questions = [question(&objects[0]), plain(&objects[1]), question(&objects[1])];
    let answers = jq.paths("tests", &questions);
    assert_eq!(*asked.0.lock(), ["first(.b)", "last(.d)", "first(.b)", "last(.d)"]);
    let key = |key: &str| PathStep::Key(key.to_owned());
    let failed = || Err(JqError::Mismatch("cannot iterate over 3".to_owned()));
    let (a, c) = (Ok(vec![vec![key("a")]]), Ok(vec![vec![key("c"), key("x")]]));
    let answered = || Ok(vec![vec![key("answered")]]);
    assert_eq!(answers[0], [a.clone(), answered(), c, answered()]);
    assert_eq!(answers[1], [a.clone(), failed()]);
    // What is answered does not exist in the other object.
    assert_eq!(answers[2], [a, Ok(vec![]), failed(), Ok(vec![])]);

    asked.0.lock().clear();
    let long = vec![".a"; MAX_LENGTH / 2 + 1].concat();
    let refused = jq.parse("tests", &[&long, ".a", "map(.b)", &"a".repeat(MAX_LENGTH)]);
    assert!(refused[0].as_ref().is_err_and(|why| why == "longer than 4096 bytes"));
    assert!(refused[1..].iter().all(Result::is_ok), "{refused:?}");
    assert_eq!(asked.0.lock().len(), 2);
}

/// What multiplies takes so many steps, and is asked for elsewhere.
#[test]
fn steps_are_limited() {
    let asked = Arc::new(Asked::default());
    let jq = Jq::new(asked.clone());
    let list: Vec<Value> = (0..100).map(|n| json!({"n": n})).collect();
    let object = json!({"a": list, "long": {"x".repeat(100_000): {"a": 1, "b": 2, "c": 3}}});
    let many = format!("{}.a", "(., .) | ".repeat(60));
    let none = format!("{}.none | ({}.)", "(., .) | ".repeat(60), "., ".repeat(1000));
    let select = format!("{}select(.none)", "(., .) | ".repeat(60));
    let fails = format!("{}.a.b", "(.a[] | ., .) , ".repeat(10));
    let cases: [&str; 4] = [&many, &none, &select, ".long[][]"];
    for text in cases {
        let selection = JqSelection::parse(text).unwrap();
        let mut left = 10 * MAX_STEPS;
        assert!(selection.paths(&object, &mut left).is_none(), "{text}");
        assert!(left >= 9 * MAX_STEPS, "{text}");
        let mut left = 5;
        assert!(selection.paths(&object, &mut left).is_none(), "{text}");
        let expression = &jq.parse("tests", &[text])[0].clone().unwrap();
        let found =
            jq.paths("tests", &[Question { object: &object, expressions: vec![expression] }]);
        assert_eq!(found, [[Ok(vec![])]], "as it was answered");
        assert_eq!(asked.0.lock().pop().as_deref(), Some(text));
    }
    // An error is one, whatever else is selected.
    let found = JqSelection::parse(&fails).unwrap().paths(&object, &mut MAX_STEPS.clone());
    assert!(matches!(found, Some(Err(JqError::Mismatch(_)))), "{found:?}");
    // All together.
    let expressions = jq.parse("tests", &vec![".a[].n"; 30_000]);
    let expressions: Vec<&JqExpression> =
        expressions.iter().map(|one| one.as_ref().unwrap()).collect();
    let found = jq.paths("tests", &[Question { object: &object, expressions }]).remove(0);
    assert_eq!(found[0].as_ref().map(Vec::len), Ok(100));
    let selected = found.iter().filter(|found| found.as_ref().is_ok_and(|all| all.len() == 100));
    let answered = asked.0.lock().len();
    assert_eq!(selected.count() + answered, found.len());
    assert!((1..30_000).contains(&answered), "{answered}");
}

/// Patterns are compiled at each comparison, and are compared, as literals are, with each text.
#[test]
fn patterns_and_literals_are_limited() {
    let patterns = |count| format!("select({})", vec!["test(\".\")"; count].join(" or "));
    assert!(JqSelection::parse(&patterns(20)).is_some());
    assert!(JqSelection::parse(&patterns(25)).is_none());
    let taken = |text: &str, object: &Value| {
        let mut left = MAX_STEPS;
        let _ = JqSelection::parse(text).unwrap().paths(object, &mut left);
        MAX_STEPS - left
    };
    let names: Vec<String> = (0..150).map(|n| format!("\"{}{n:03}\"", "a".repeat(9))).collect();
    let one_of = format!(".[] | select(IN({}))", names.join(", "));
    let list = |text: &str| Value::from(vec![text; 1000]);
    let (short, long) = ("a", "a".repeat(12));
    assert!(taken(&one_of, &list(short)) >= 15 * 1000);
    assert!(taken(&one_of, &list(&long)) >= 20 * 1000);
}

/// What a message shows of an object.
#[test]
fn messages_do_not_show_texts_of_the_object() {
    let object = json!({"n": 3, "t": "secret", "l": ["secret"], "o": {"secret": 1}, "b": true});
    let key = "k".repeat(500);
    let cases = [
        (".n.deep", "cannot index 3 with \"deep\""),
        (".t[-1]", "cannot index a string with -1"),
        (".l.a", "cannot index an array with \"a\""),
        (".b[]", "cannot iterate over true"),
        (".t[]", "cannot iterate over a string"),
        (".none[]", "cannot iterate over null"),
        ("select(.l | startswith(\"a\"))", "cannot use an array as string"),
        ("select(.t | has(\"a\"))", "cannot index a string with \"a\""),
        ("select(.o | endswith(\"a\"))", "cannot use an object as string"),
    ];
    for (text, want) in cases {
        let found = JqSelection::parse(text).unwrap().paths(&object, &mut MAX_STEPS.clone());
        assert_eq!(found, Some(Err(JqError::Mismatch(want.to_owned()))), "{text}");
    }
    let found = JqSelection::parse(&format!(".n.{key}")).unwrap();
    let Some(Err(JqError::Mismatch(why))) = found.paths(&object, &mut MAX_STEPS.clone()) else {
        panic!("no error");
    };
    assert!(why.len() < 200, "{why}");
}

/// A pattern means the same as in jq, or is left to jq.
#[test]
fn patterns_of_another_form_and_long_numbers_are_left_to_jq() {
    let is_read = |text: &str| JqSelection::parse(text).is_some();
    for (pattern, want) in [
        ("^(A|B)_.*", true),
        ("a[b-d]", true),
        ("(a)(b)", true),
        ("[(a)]", true),
        ("[*+?]", true),
        ("a*", true),
        ("a**", false),
        ("(*a)", false),
        ("((a))", false),
        ("[[a]]", false),
        ("a]", false),
        ("a)", false),
        ("(a", false),
        ("[a", false),
        ("[a--b]", false),
        ("a{2}", false),
        ("a\u{e4}", false),
        ("[(]", true),
        ("[-.]", true),
        ("(a|[)])", true),
        ("([(])", true),
        ("(a)+", true),
        ("a|*", false),
        ("a--b", true),
        ("[a-]", true),
        ("[-a-]", true),
        ("()", true),
        (&*"a".repeat(64), true),
        (&*"a".repeat(65), false),
    ] {
        let text = format!(".a[] | select(.b | test({pattern:?}))");
        assert_eq!(is_read(&text), want, "{pattern}");
    }
    assert!(is_read(&format!(".a[{}]", "1".repeat(15))));
    assert!(!is_read(&format!(".a[{}]", "1".repeat(16))));
}

/// Where values are, with the keys and positions on the way.
#[test]
fn lists_are_selected_by_position_and_values_by_null() {
    let object = json!({
        "l": ["a", "b", "c"],
        "o": [{"b": null, "n": 1}, {"b": 1, "n": 2}, {"n": 3}],
    });
    for (text, want) in [
        (".l | .[keys[] | select(. == 1)]", vec!["l/1"]),
        (".l | .[keys[] | select(. != 1)]", vec!["l/0", "l/2"]),
        (".o[] | select(.b == null) | .n", vec!["o/0/n", "o/2/n"]),
        (".o[] | select(.b != null) | .n", vec!["o/1/n"]),
    ] {
        let selection = JqSelection::parse(text).unwrap_or_else(|| panic!("{text}"));
        let found = selection.paths(&object, &mut MAX_STEPS.clone()).unwrap().unwrap();
        let shown = |path: &Path| -> String {
            let step = |step: &PathStep| match step {
                PathStep::Key(key) => key.clone(),
                PathStep::Index(at) => at.to_string(),
            };
            path.iter().map(step).collect::<Vec<_>>().join("/")
        };
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), want, "{text}");
    }
}

/// A comparison takes as many steps as the text is long.
#[test]
fn comparisons_of_long_texts_are_limited() {
    let selection = JqSelection::parse(".[] | select(startswith(\"b\"))").unwrap();
    let mut taken = Vec::new();
    for length in [0, 2_560, 5_120] {
        let list = Value::from(vec!["a".repeat(length); 100]);
        let mut left = MAX_STEPS;
        assert_eq!(selection.paths(&list, &mut left), Some(Ok(vec![])));
        taken.push(MAX_STEPS - left);
    }
    assert_eq!((taken[1] - taken[0], taken[2] - taken[0]), (1_000, 2_000));
}
