//! What a message names in fields of its own, how long that is, and what identifies a sink.

use super::*;
use crate::notify::sink::sink_id;

/// A receiver filters by fields: each kind of transition says in one of them what it is about.
#[test]
fn the_subject_of_a_transition_is_a_field_of_its_kind_st_084() {
    for (what, subject, field, want) in [
        ("StepOpened", "2", "step", json!(2)),
        ("StepCompleted", "2", "step", json!(2)),
        ("StepOpened", "two", "step", json!("two")),
        ("GateApproved", "prod", "gate", json!("prod")),
        ("ApprovalVoid", "prod", "gate", json!("prod")),
        ("GateOpened", "prod", "gate", json!("prod")),
        ("SoakRestarted", "prod", "gate", json!("prod")),
        ("Failed", "shop-eu", "application", json!("shop-eu")),
        ("Skipped", "shop-eu", "application", json!("shop-eu")),
        ("Unskipped", "shop-eu", "application", json!("shop-eu")),
        ("Recovered", "shop-eu", "application", json!("shop-eu")),
        ("Retried", "a, b", "subject", json!("a, b")),
        ("Held", "", "subject", Value::Null),
    ] {
        let entry = json!({"what": what, "subject": subject, "by": "ann"});
        let data = message(&json!({}), &entry, Format::CloudEvents)["data"].clone();
        for known in ["step", "gate", "application", "subject"] {
            let want = if known == field { &want } else { &Value::Null };
            assert_eq!(&data[known], want, "{what}: {known}");
        }
        assert_eq!(data["by"], "ann", "{what}");
    }
    let without = message(&json!({}), &json!({"what": "Held"}), Format::CloudEvents);
    assert_eq!((without["data"].get("by"), without.get("time")), (None, None));
}

/// Words of these kinds are about more than the phase of the run.
#[test]
fn what_people_and_policies_did_is_said_in_words_st_084() {
    for (what, subject, by, text, want) in [
        ("QuarantineEnded", "", "ann", "run 3 is lifted", "run 3 is lifted"),
        ("BudgetExceeded", "", "", "3 failed, and 2 may", "3 failed, and 2 may"),
        ("Recovered", "shop-eu", "", "", "shop-eu has recovered"),
        ("SoakRestarted", "prod", "", "", "the soak of gate prod begins again"),
        ("WithoutEffect", "", "", "x", "something in its spec has no effect: x"),
    ] {
        let entry = json!({"what": what, "subject": subject, "by": by, "message": text});
        let event = message(&json!({}), &entry, Format::CloudEvents);
        assert_eq!(event["data"]["text"], want, "{what}");
    }
}

/// People read a commit by its first seven digits; another revision, such as a tag, is read whole.
#[test]
fn a_commit_is_shown_as_people_write_it() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    for (revisions, want) in [
        (vec![commit], " to 0123456 "),
        (vec!["v1.2.3"], " to v1.2.3 "),
        (vec![&commit[..39]], " to 0123456789abcdef0123456789abcdef0123456 "),
        (
            vec!["g123456789abcdef0123456789abcdef01234567"],
            "g123456789abcdef0123456789abcdef01234567",
        ),
        (vec!["a", "b", "c", "d"], " to a, b, c "),
        (vec![], "argocd/shop: "),
    ] {
        let to: Vec<Value> = revisions.iter().map(|one| json!({"revision": one})).collect();
        let slack = message(&json!({"to": to}), &json!({"what": "Complete"}), Format::Slack);
        let text = slack["text"].as_str().unwrap();
        let text = text.replace(": it is complete", " ");
        assert!(
            text.replace(" (0", ": (0").contains(want.trim_end_matches(": ")),
            "{text}: {want}"
        );
    }
    let failed = json!({"failed": 2, "done": 1, "total": 4});
    let slack = message(&failed, &json!({"what": "Complete"}), Format::Slack);
    assert!(slack["text"].as_str().unwrap().ends_with("(1 of 4 done, 2 failed)"), "{slack}");
}

/// Commands are for what the whole run waits for: a message about one Application is none to act on.
#[test]
fn only_a_message_about_the_run_has_commands_in_slack() {
    let state = json!({"phase": "Held"});
    for (what, want) in
        [("Held", true), ("Failed", false), ("StepOpened", false), ("GateOpened", false)]
    {
        let slack = message(&state, &json!({"what": what, "subject": "1"}), Format::Slack);
        assert_eq!(slack["text"].as_str().unwrap().contains("\n`wavegate"), want, "{what}");
    }
}

/// What is sent is of a size that sinks accept; only what exceeds it goes without its lists.
#[test]
fn lists_are_left_out_of_a_message_that_would_be_too_long() {
    let of = |length: usize| {
        let revision = json!({"revision": "\u{1}".repeat(length), "applications": 1});
        let gates = vec![json!({"name": "\u{1}".repeat(length), "policy": "p"}); 20];
        let state = json!({"to": vec![revision; 20], "gates": gates});
        message(&state, &json!({"what": "Held"}), Format::CloudEvents)["data"]["status"].clone()
    };
    let short = of(10);
    assert_eq!(short["to"].as_array().unwrap().len(), 10, "so many entries of a list");
    assert_eq!(short["gates"].as_array().unwrap().len(), 10);
    let cut = &of(299)["to"][0]["revision"];
    assert_eq!(cut.as_str().unwrap().chars().count(), 299);
}

/// ST-084: what was sent to a sink is known by what its policy says of it; with another address it is
/// another sink, which has got nothing yet.
#[test]
fn a_sink_is_known_by_what_its_policy_says_st_084() {
    let sink = |url: &str, secret: &str, format: &str| -> Sink {
        serde_json::from_value(json!({"url": url, "secretRef": {"name": secret}, "format": format}))
            .unwrap()
    };
    let one = sink("https://a/s3cr3t", "hook", "cloudevents");
    let id = sink_id("policy", &one);
    assert_eq!(id, sink_id("policy", &one.clone()));
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    for (policy, other) in [
        ("other", one.clone()),
        ("policy", sink("https://b/s3cr3t", "hook", "cloudevents")),
        ("policy", sink("https://a/s3cr3t", "other", "cloudevents")),
        ("policy", sink("https://a/s3cr3t", "hook", "slack")),
    ] {
        assert_ne!(id, sink_id(policy, &other), "{policy} {other:?}");
    }
    let without = Sink { secret_ref: None, ..one.clone() };
    assert_ne!(id, sink_id("policy", &without));
}

/// What is wrong with a sink is found before anything is sent: by its field, and without a credential.
#[test]
fn a_sink_is_checked_by_itself() {
    let sink = |url: &str, secret: Value| -> Sink {
        serde_json::from_value(json!({"url": url, "secretRef": secret})).unwrap()
    };
    assert_eq!(sink_problem(&sink("", json!({"name": "hook"}))), None, "its Secret has the URL");
    let (field, _) = sink_problem(&sink("", json!(null))).unwrap();
    assert_eq!(field, "");
    let (field, problem) = sink_problem(&sink("ftp://h/s3cr3t", json!(null))).unwrap();
    assert_eq!((field, problem.as_str()), (".url", "it is no http or https URL"));
    assert_eq!(sink_problem(&sink("https://h/", json!(null))), None);
}

/// A key of a Secret that is just long enough signs, and a header that is just short enough is sent.
#[test]
fn a_secret_is_accepted_up_to_its_limits() {
    for (length, want) in [(15, false), (16, true), (17, true)] {
        let key = "k".repeat(length);
        let found = secret(&[("hmac", &key)]);
        assert_eq!(found.is_ok(), want, "{length}");
    }
    for (length, want) in [(8192, true), (8193, false)] {
        let line = format!("A: {}", "b".repeat(length - 3));
        assert_eq!(secret(&[("header", &line)]).is_ok(), want, "{length}");
    }
    let certificate = secret(&[("ca.crt", " PEM \n")]).unwrap();
    assert_eq!(certificate.certificates.as_deref(), Some("PEM"));
    let shown = format!("{:?}", secret(&[("url", "https://h/s3cr3t")]).unwrap());
    assert!(shown.starts_with("Credentials") && !shown.contains("s3cr3t"), "{shown}");
    let target = Target::read("http://h:80/s3cr3t").unwrap();
    assert_eq!(format!("{target:?}"), "Target(\"http://h:80\")");
    assert_eq!(Target::read("http://h").unwrap().port, 80);
    assert_eq!(Target::read("http://h:/").unwrap().port, 80);
    assert_eq!(Target::read("https://h:/").unwrap().port, 443);
}
