use serde_json::json;

use super::*;

#[test]
fn the_embedded_rules_parse() {
    let table = Table::parse(SOURCES).unwrap();
    let kinds: usize = table.blocks.iter().map(|block| block.kinds.len()).sum();
    assert!(kinds > 200, "{kinds} kinds");
    assert!(contains("karpenter.sh", "NodePool") && contains("ec2.aws.upbound.io", "VPC"));
    assert!(!contains("example.com", "Backup") && !contains("argoproj.io", "Application"));
}

/// The health of an object of `example.com/Thing` by some rules.
fn judged(rules: &str, object: Value) -> String {
    let text = format!("[example.com/Thing]\n{rules}\n-> Unknown else");
    let table = Table::parse(&[("test.rules", &text)]).unwrap();
    let health = table.block("example.com", "Thing").unwrap().assess(&object);
    format!("{:?} {}", health.status, health.message)
}

#[test]
fn tests_and_messages_of_the_language() {
    let object = || {
        json!({
            "kind": "Thing",
            "metadata": {"generation": 3, "name": "x", "annotations": {"a.b/c": "on"}},
            "spec": {"replicas": 2, "paused": false},
            "status": {
                "phase": "Running", "ready": "2", "sha": "0123456789", "none": null,
                "of": "12/12", "short": "1/12",
                "conditions": [
                    {"type": "Old", "status": "True", "observedGeneration": 2},
                    {"type": "Ready", "status": "False", "reason": "Broken", "message": "m"},
                ],
                "parts": [{"name": "a", "ok": true}, {"name": "b", "ok": false}],
                "map": {"one": {"state": "x"}},
                "counts": [{"count": 3}, {"count": "2"}, {"count": null}, 7],
                "parents": [{"ref": {"name": "p"}, "conditions": [
                    {"type": "Accepted", "status": "False", "message": "no"}]}],
            },
        })
    };
    let cases = [
        ("Ready=False -> Degraded {message} {reason}", "Degraded m Broken"),
        ("Ready|Other=False|Unknown/Br*|x -> Degraded {type}={status}", "Degraded Ready=False"),
        ("Ready=False/Else -> Degraded", "Unknown else"),
        ("Old=True -> Healthy", "Unknown else"),
        ("stale Old -> Progressing", "Progressing "),
        ("stale -> Progressing", "Unknown else"),
        ("unobserved -> Progressing", "Progressing "),
        ("unobserved Old -> Progressing", "Progressing "),
        ("unobserved Ready -> Progressing", "Unknown else"),
        (".status.ready+.spec.replicas>=4 -> Healthy", "Healthy "),
        (".status.ready+.spec.replicas>4 -> Healthy", "Unknown else"),
        ("sum .status.counts.count=5 -> Healthy", "Healthy "),
        (".status.ready<sum .status.counts.count -> Progressing", "Progressing "),
        ("deleting -> Progressing", "Unknown else"),
        ("!Missing & .status.phase -> Healthy {Ready.reason}", "Healthy Broken"),
        (".status.phase=Pen*|Run* -> Healthy {.status.phase}", "Healthy Running"),
        (".spec.paused=false -> Healthy", "Healthy "),
        (".status.none -> Healthy", "Unknown else"),
        (".metadata.annotations[\"a.b/c\"]=on -> Healthy", "Healthy "),
        (".status.ready>=.spec.replicas -> Healthy", "Healthy "),
        (".status.absent?5>.spec.replicas -> Healthy", "Healthy "),
        (".status.absent<1 -> Healthy", "Healthy "),
        (".spec.replicas<2 -> Healthy", "Unknown else"),
        (".spec.replicas<=2 -> Healthy", "Healthy "),
        (".spec.replicas>2 -> Healthy", "Unknown else"),
        ("!stale -> Healthy {Ready.reason}{.status.phase} on", "Healthy BrokenRunning on"),
        ("#.status.parts=2 & #.status.map<=1 -> Healthy {#.status.parts}", "Healthy 2"),
        (".status.phase!=$.status.sha -> Healthy", "Healthy "),
        ("full .status.of -> Healthy", "Healthy "),
        ("full .status.short -> Healthy", "Unknown else"),
        ("full .status.phase -> Healthy", "Unknown else"),
        ("any .status.parts (.ok=false) -> Degraded {@.name}", "Degraded b"),
        ("all .status.parts (.ok=true) -> Healthy", "Unknown else"),
        ("any .status.map (.state=x & $.spec.replicas=2) -> Healthy", "Healthy "),
        (
            "any .status.parents (Accepted=False) -> Degraded {@.ref.name}: {message}",
            "Degraded p: no",
        ),
        ("-> Healthy {each .status.parts (.ok=true) ', ' {#}{.name}}.", "Healthy 1a."),
        ("-> Healthy {each .status.parts '; ' {.name}}", "Healthy a; b"),
        ("-> Healthy {#.status.parts (.ok=true)} {?.status.parts (.ok=x) no}", "Healthy 1 "),
        (
            "-> Healthy {.status.nothing|'none'} {.status.sha:3} {.status.sha:+8}",
            "Healthy none 012 89",
        ),
        ("-> Healthy a\\nb", "Healthy a\nb"),
    ];
    for (rules, want) in cases {
        let last = rules.starts_with("->");
        let found = match last {
            true => {
                let text = format!("[example.com/Thing]\n{rules}");
                let table = Table::parse(&[("test.rules", &text)]).unwrap();
                let health = table.block("example.com", "Thing").unwrap().assess(&object());
                format!("{:?} {}", health.status, health.message)
            }
            false => judged(rules, object()),
        };
        assert_eq!(found, want, "{rules}");
    }
}

#[test]
fn a_status_of_an_older_generation_is_progressing_unless_a_rule_tests_it() {
    let object = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let ready = "Ready=True -> Healthy";
    assert_eq!(judged(ready, object.clone()), format!("Progressing {NOT_OBSERVED}"));
    assert_eq!(judged("stale -> Suspended own", object), "Suspended own");
}

#[test]
fn of_an_older_status_the_spec_and_what_is_of_this_generation_count() {
    let object = |spec: Value, condition: Value| {
        json!({"metadata": {"generation": 2}, "spec": spec,
            "status": {"observedGeneration": 1, "phase": "Failed", "conditions": [condition]}})
    };
    let ready = |observed: Value| json!({"type": "Ready", "status": "True", "observedGeneration": observed});
    let rules =
        ".status.phase=Failed -> Degraded\n.spec.hold=true -> Suspended\nReady=True -> Healthy";
    let cases = [
        (json!({}), ready(json!(2)), "Healthy ".to_owned()),
        (json!({}), ready(json!(1)), format!("Progressing {NOT_OBSERVED}")),
        (json!({}), ready(Value::Null), format!("Progressing {NOT_OBSERVED}")),
        (json!({"hold": true}), ready(json!(1)), "Suspended ".to_owned()),
        (json!({"paused": true}), ready(json!(2)), "Suspended Paused by spec.paused".to_owned()),
        (json!({"paused": "true"}), ready(json!(2)), "Healthy ".to_owned()),
    ];
    for (spec, condition, want) in cases {
        assert_eq!(judged(rules, object(spec.clone(), condition)), want, "{spec}");
    }
    // Numbers of an older status count as little as its words.
    for rule in [
        ".status.ready<.spec.want -> Degraded",
        ".spec.want>.status.ready -> Degraded",
        ".spec.more+.status.ready<1 -> Degraded",
        "#.status.list<1 -> Degraded",
        "sum .status.list.count<1 -> Degraded",
    ] {
        let rules = format!("{rule}\nReady=True -> Healthy");
        let found = judged(&rules, object(json!({"want": 1}), ready(json!(1))));
        assert_eq!(found, format!("Progressing {NOT_OBSERVED}"), "{rule}");
        let found = judged(&rules, object(json!({"want": 1}), ready(json!(2))));
        assert_eq!(found, "Healthy ", "{rule}");
    }
    // A kind whose rules know the field decides itself.
    let own = ".spec.paused=true & .status.phase=Failed -> Degraded";
    let paused = object(json!({"paused": true}), ready(json!(1)));
    assert_eq!(judged(own, paused), format!("Progressing {NOT_OBSERVED}"));
}

/// Only what people write pauses an object whose status is of an older generation.
#[test]
fn a_pause_of_the_spec_counts_and_a_pause_of_an_older_status_does_not() {
    let object = json!({
        "metadata": {"generation": 2},
        "spec": {"hold": true, "want": 1, "word": "a", "parts": [{"ok": true}]},
        "status": {"observedGeneration": 1, "phase": "Failed", "of": "2/2",
            "parts": [{"ok": true}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for test in [
        ".spec.hold=true",
        "!.spec.none",
        ".spec.none<.spec.want",
        ".spec.none+.spec.want=1",
        "#.spec.parts=1",
        "any .spec.parts (.ok=true)",
        "all .spec.parts (.ok=true)",
        ".spec.word!=.spec.other",
        "!deleting",
    ] {
        let found = judged(&format!("{test} -> Suspended own"), object.clone());
        assert_eq!(found, "Suspended own", "{test}");
        let found = judged(&format!("{test} -> Degraded own"), object.clone());
        assert_eq!(found, format!("Progressing {NOT_OBSERVED}"), "{test}, which is no pause");
    }
    for test in [
        ".status.phase=Failed",
        ".status.phase",
        "!.status.none",
        "full .status.of",
        ".status.ready<.spec.want",
        ".spec.want>.status.ready",
        ".spec.want+.status.ready=1",
        ".status.ready+.spec.want=1",
        "#.status.parts=1",
        "sum .status.parts.count<1",
        "any .status.parts (.ok=true)",
        "any .spec.parts ($.status.phase=Failed)",
        "all .spec.parts ($.status.phase=Failed)",
        ".status.phase!=.spec.word",
        ".spec.word!=.status.phase",
        "!Ready",
        ".spec.hold=true & .status.phase=Failed",
    ] {
        let found = judged(&format!("{test} -> Suspended own"), object.clone());
        assert_eq!(found, format!("Progressing {NOT_OBSERVED}"), "{test}");
    }
    // Nor is everything else a pause.
    let table = Table::parse(&[("test.rules", "[a.io/K]\n-> Suspended all")]).unwrap();
    let health = table.block("a.io", "K").unwrap().assess(&object);
    assert_eq!(health.message, NOT_OBSERVED);
}

/// Rules that test the generation, or the pause, decide themselves; also when they negate it.
#[test]
fn rules_that_test_a_generation_or_a_pause_decide_themselves() {
    let old = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "True"}]}});
    for (rules, want) in [
        ("!stale & Ready=True -> Healthy", "Unknown else"),
        ("stale & Ready=True -> Suspended own", "Suspended own"),
        ("!unobserved -> Healthy", "Unknown else"),
        ("unobserved & Ready -> Degraded own", "Degraded own"),
    ] {
        assert_eq!(judged(rules, old.clone()), want, "{rules}");
    }
    let paused = json!({"spec": {"paused": true}, "status": {"phase": "x"}});
    for (rules, want) in [
        ("!.spec.paused=true -> Healthy", "Unknown else"),
        (".spec.paused -> Degraded own", "Degraded own"),
        (".spec.other -> Healthy", "Suspended Paused by spec.paused"),
    ] {
        assert_eq!(judged(rules, paused.clone()), want, "{rules}");
    }
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(judged("deleting -> Progressing goes", deleted), "Progressing goes");
    assert_eq!(judged("deleting -> Progressing goes", json!({})), "Unknown else");
}

#[test]
fn a_definition_is_used_with_its_arguments() {
    let counts = "[define counts]\n{#%1} of %2\n";
    let ready = "[define ready]\nReady=True -> Healthy %1\n-> Progressing %2 {use counts(.l; x)}\n";
    let cases = [
        ("-> Progressing {use counts(.l; x)}", "1 of x"),
        ("use ready(yes; no)", "no 1 of x"),
        (".l & !.m -> Healthy a {use counts(.l; x)} b\n-> Unknown", "a 1 of x b"),
    ];
    for (rules, want) in cases {
        let text = format!("{counts}{ready}[a.io/K]\n{rules}");
        let table = Table::parse(&[("test.rules", &text)]).unwrap();
        let health = table.block("a.io", "K").unwrap().assess(&json!({"l": [1]}));
        assert_eq!(health.message, want, "{rules}");
    }
    let endless = "[define d]\n{use d()}\n[a.io/K]\n-> Healthy {use d()}";
    let error = Table::parse(&[("test.rules", endless)]).err().unwrap();
    assert_eq!(error.to_string(), "test.rules:4: too many uses of definitions");
}

#[test]
fn mistakes_name_the_line() {
    let cases = [
        ("-> Healthy", "test.rules:1: a rule without kinds"),
        ("[K]\n-> Healthy", "test.rules:1: a kind is written GROUP/KIND"),
        ("[a/K]\nReady=True -> Fine", "test.rules:2: Fine is no health status"),
        (
            "[a/K]\nReady=True -> Healthy",
            "test.rules:1: the last rule, and only it, is one without tests",
        ),
        ("[a/K]\n-> Healthy {message", "test.rules:2: a missing }"),
        ("[a/K]\n-> Healthy {word}", "test.rules:2: {word} is not known"),
        ("[a/K]\nany .x (Ready -> Healthy", "test.rules:2: a missing )"),
        ("[a/K]\nuse none(1)", "test.rules:2: none is not defined"),
        ("[a/K]\n(Ready=True -> Healthy", "test.rules:2: a missing )"),
        ("[a/K]\nReady=True) -> Healthy", "test.rules:2: a ) too many"),
        ("[a/K]\nReady=True & -> Healthy", "test.rules:2: an empty test"),
        ("[a/K]\nReady=True & & Other -> Healthy", "test.rules:2: an empty test"),
        ("[a/K]\nReady=True", "test.rules:2: a rule is written TESTS -> STATUS MESSAGE"),
        ("[a/K]\nfull status -> Healthy", "test.rules:2: status is no path"),
        ("[a/K]\n.a?x=1 -> Healthy", "test.rules:2: not a number behind ?"),
        ("[a/K]\nsum a=1 -> Healthy", "test.rules:2: sum needs LIST.FIELD"),
        ("[a/K]\nany .x Ready -> Healthy", "test.rules:2: any and all need (TESTS)"),
        ("[a/K]\n-> Healthy {.a:x}", "test.rules:2: not a number behind :"),
        (
            "[a/K]\n-> Healthy {each .x {.a}}",
            "test.rules:2: each needs a quoted separator and a text",
        ),
        ("[define d]\nx\n[define d]\ny", "test.rules:3: d is defined twice"),
        ("[define d]\nx\n[a/K]\nuse d(1", "test.rules:4: a missing )"),
        ("[a/K]\n-> Healthy\n[a/K]\n-> Healthy", "test.rules:3: a/K has rules already"),
        ("[define d]\nx %1 %2\n[a/K]\nuse d(1)", "test.rules:4: d needs more arguments"),
    ];
    for (text, want) in cases {
        let error = Table::parse(&[("test.rules", text)]).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(want), "{text}");
    }
}

#[test]
fn patterns_match_whole_texts() {
    let cases = [
        ("*", "", true),
        ("*.io", "a.b.io", true),
        ("a*b*c", "axxbyyc", true),
        ("a?c", "abc", true),
        ("a*b", "ab ", false),
        ("", "x", false),
        ("*x*x", "x", false),
        ("a?c", "a\u{e4}c", true),
        ("*?c", "\u{e4}c", true),
        ("*\u{e4}", "\u{e5}\u{e4}", true),
        ("??", "\u{e4}", false),
    ];
    for (pattern, text, want) in cases {
        assert_eq!(glob_matches(pattern, text), want, "{pattern} {text}");
    }
}
