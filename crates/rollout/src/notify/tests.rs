//! What is said about transitions, and to whom (ST-084).

mod details;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::address::{AddressClass, address_refusal, class};
use super::sink::{SinkCredentials, Target, sink_problem, sink_target};
use super::*;
use wavegate_api::ObjectKey;
use wavegate_api::policy::Sink;

fn status(fields: Value) -> RolloutRunStatus {
    serde_json::from_value(fields).unwrap()
}

fn messages(status: &RolloutRunStatus, format: Format) -> Vec<Value> {
    let key = ObjectKey::new("argocd", "shop-7");
    let run = Run { key: &key, uid: "u1", set: "shop", status };
    transitions_since(run, 0).map(|transition| transition.message(format)).collect()
}

/// The only message of a run with one transition.
fn message(fields: &Value, entry: &Value, format: Format) -> Value {
    let mut fields = fields.clone();
    fields["timeline"] = json!([entry]);
    let mut all = messages(&status(fields), format);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn each_kind_of_transition_is_one_message_in_words() {
    let cases = [
        ("StepOpened", "2", "", "", "step 2 has opened"),
        ("StepCompleted", "2", "", "", "step 2 is complete"),
        ("GateApproved", "prod", "ann", "", "ann has approved gate prod"),
        (
            "ApprovalVoid",
            "prod",
            "ann",
            "the approval was for other targets",
            "the approval of gate prod by ann does not count: the approval was for other targets",
        ),
        ("GateOpened", "prod", "", "", "gate prod has opened"),
        ("Failed", "shop-eu", "", "image not found", "shop-eu has failed: image not found"),
        ("Skipped", "shop-eu", "", "", "shop-eu is skipped"),
        ("Skipped", "shop-eu", "ann", "", "ann skips shop-eu"),
        ("Unskipped", "shop-eu", "ann", "", "ann takes shop-eu in again"),
        ("Unskipped", "shop-eu", "", "", "shop-eu is not skipped any more"),
        ("Resumed", "", "ann", "", "ann has resumed it"),
        ("Resumed", "", "", "", "it is resumed"),
        ("Retried", "", "ann", "", "ann retries what has failed"),
        ("Retried", "shop-eu, shop-us", "ann", "", "ann retries shop-eu, shop-us"),
        ("Progressing", "", "", "", "it goes on"),
        ("Paused", "", "", "", "it is paused"),
        ("Paused", "", "", "paused: incident 42", "paused: incident 42"),
        ("Superseded", "", "", "run shop-8 has taken its place", "run shop-8 has taken its place"),
        ("Aborted", "", "ann", "aborted by ann", "aborted by ann"),
        ("AwaitingApproval", "", "", "", "it waits for an approval"),
        ("Soaking", "", "", "", "it waits for the soak of a gate"),
        ("Held", "", "", "3 have failed", "it is held: 3 have failed"),
        ("Complete", "", "", "", "it is complete"),
        ("CompleteWithFailures", "", "", "", "it is complete, with failures"),
        ("Superseded", "", "", "", "it is superseded"),
        ("Aborted", "", "ann", "", "it was aborted"),
        ("RollingBack", "", "", "", "it is being rolled back"),
        ("RolledBack", "", "", "", "it was rolled back"),
        ("Later", "", "", "a kind of a later version", "Later: a kind of a later version"),
    ];
    for (what, subject, by, message_text, want) in cases {
        let at = "2026-01-02T03:04:05Z";
        let entry =
            json!({"at": at, "what": what, "subject": subject, "by": by, "message": message_text});
        let state = json!({"phase": "Progressing", "done": 12, "total": 30});
        let event = message(&state, &entry, Format::CloudEvents);
        assert_eq!(event["data"]["text"], want, "{what}");
        assert_eq!(event["type"], format!("dev.wavegate.run.{what}"));
        assert_eq!((&event["time"], &event["data"]["transition"]), (&json!(at), &json!(what)));
        let slack = message(&state, &entry, Format::Slack);
        let keys: Vec<&String> = slack.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["text"], "{what}");
        let text = slack["text"].as_str().unwrap();
        assert!(text.starts_with("*shop-7* of argocd/shop") && text.contains(want), "{text}");
        assert!(text.ends_with("(12 of 30 done)"), "{text}");
    }
    let told: BTreeSet<&str> = cases.iter().map(|case| case.0).collect();
    let phases = RunPhase::WORDS.iter();
    assert!(phases.into_iter().all(|phase| told.contains(phase)), "every phase is told");
}

#[test]
fn a_message_is_a_cloud_event_with_the_state_of_the_run() {
    let state = json!({
        "phase": "AwaitingApproval", "message": "gate prod waits", "step": 2, "done": 12,
        "failed": 1, "total": 30, "transitions": 7, "steps": [{}, {}],
        "from": [{"revision": "aaa", "applications": 30}],
        "to": [{"revision": "bbb", "applications": 30}],
        "gates": [
            {"name": "prod", "policy": "p", "applications": 18, "approvals": 2, "approvedBy": ["ann"]},
            {"name": "qa", "policy": "p", "approvals": 1, "openedAt": "2026-01-01T00:00:00Z",
             "covers": "c", "openedFor": "c"},
            {"name": "soak", "policy": "p"},
        ],
    });
    let entry = json!({"at": "2026-01-02T03:04:05Z", "what": "GateApproved", "subject": "prod", "by": "ann"});
    let want = json!({
        "specversion": "1.0",
        "id": "u1.7",
        "source": "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets/shop",
        "type": "dev.wavegate.run.GateApproved",
        "subject": "shop-7",
        "time": "2026-01-02T03:04:05Z",
        "datacontenttype": "application/json",
        "data": {
            "namespace": "argocd", "applicationSet": "shop", "run": "shop-7",
            "transition": "GateApproved", "gate": "prod", "by": "ann",
            "text": "ann has approved gate prod", "message": "",
            "status": {
                "phase": "AwaitingApproval", "message": "gate prod waits",
                "step": 2, "steps": 2, "done": 12, "failed": 1, "total": 30,
                "from": [{"revision": "aaa", "applications": 30}],
                "to": [{"revision": "bbb", "applications": 30}],
                "gates": [
                    {"name": "prod", "policy": "p", "applications": 18, "approvals": 2,
                     "approvedBy": ["ann"], "open": false},
                    {"name": "qa", "policy": "p", "applications": 0, "approvals": 1,
                     "approvedBy": [], "open": true},
                    {"name": "soak", "policy": "p", "applications": 0, "approvals": 0,
                     "approvedBy": [], "open": false},
                ],
            },
            "commands": ["wavegate approve -n argocd shop --gate prod"],
        },
    });
    assert_eq!(message(&state, &entry, Format::CloudEvents), want);
}

/// A sink that was dead for a while got what had happened before with what was to be done by then.
#[test]
fn an_old_transition_has_no_commands_of_today() {
    let state = json!({
        "phase": "AwaitingApproval", "total": 3,
        "gates": [{"name": "prod", "policy": "p", "applications": 2, "approvals": 1,
            "waitingSince": "2026-01-02T03:00:00Z"}],
        "timeline": [
            {"at": "2026-01-02T02:00:00Z", "what": "Paused", "message": "paused: x"},
            {"at": "2026-01-02T03:00:00Z", "what": "Resumed", "by": "ann"},
            {"at": "2026-01-02T03:00:00Z", "what": "AwaitingApproval"},
        ],
    });
    let all = messages(&status(state.clone()), Format::CloudEvents);
    let commands: Vec<&Value> = all.iter().map(|one| &one["data"]["commands"]).collect();
    let approve = json!(["wavegate approve -n argocd shop --gate prod"]);
    // What happened in the same moment is of today as well.
    assert_eq!(commands, [&json!([]), &approve, &approve]);
    let slack = messages(&status(state), Format::Slack);
    let has = |at: usize| slack[at]["text"].as_str().unwrap().contains("wavegate approve");
    assert_eq!([has(0), has(2)], [false, true], "{slack:?}");
}

#[test]
fn ids_are_those_of_the_stored_transitions_whenever_they_are_made() {
    let entry = |what: &str| json!({"what": what, "at": "2026-01-02T03:04:05Z"});
    let ids = |fields: Value, after: i64| -> Vec<String> {
        let (key, status) = (ObjectKey::new("argocd", "shop-7"), status(fields));
        let run = Run { key: &key, uid: "u1", set: "shop", status: &status };
        transitions_since(run, after).map(|transition| transition.id()).collect()
    };
    let three = [entry("Progressing"), entry("Paused"), entry("Progressing")];
    // Not counted by an earlier version.
    assert_eq!(ids(json!({"timeline": three}), 0), ["u1.1", "u1.2", "u1.3"]);
    // The first ones are not in the timeline any more.
    let last = &three[1..];
    assert_eq!(ids(json!({"timeline": last, "transitions": 60}), 0), ["u1.59", "u1.60"]);
    assert_eq!(ids(json!({"timeline": last, "transitions": 60}), 59), ["u1.60"]);
    assert!(ids(json!({"timeline": last, "transitions": 60}), 60).is_empty());
    assert!(ids(json!({}), 0).is_empty());
}

#[test]
fn commands_are_those_of_explain_and_safe_to_copy() {
    let commands = |state: Value| -> Vec<String> {
        let event = message(&state, &json!({"what": "Held"}), Format::CloudEvents);
        serde_json::from_value(event["data"]["commands"].clone()).unwrap()
    };
    let gate = |name: &str| json!({"phase": "AwaitingApproval", "gates": [{"name": name, "approvals": 1}]});
    assert_eq!(commands(gate("prod")), ["wavegate approve -n argocd shop --gate prod"]);
    assert_eq!(
        commands(gate("it's $(rm -r ~)")),
        [r"wavegate approve -n argocd shop --gate 'it'\''s $(rm -r ~)'"]
    );
    let since = "2026-01-02T03:04:05Z";
    let gates = json!([{"name": "prod", "approvals": 1},
        {"name": "staging", "approvals": 1, "waitingSince": since}]);
    assert_eq!(
        commands(json!({"phase": "AwaitingApproval", "gates": gates})),
        ["wavegate approve -n argocd shop --gate staging"],
        "not one of a later step"
    );
    assert_eq!(commands(json!({"phase": "Paused"})), ["wavegate resume -n argocd shop"]);
    assert_eq!(commands(json!({"phase": "Held"})).len(), 3);
    let some_ways_back = commands(json!({"phase": "RollingBack", "failed": 1}));
    let want = ["wavegate explain -n argocd shop", "wavegate retry -n argocd shop"];
    assert_eq!(some_ways_back, want, "some ways back have failed");
    for phase in
        ["Progressing", "Soaking", "Complete", "Superseded", "Aborted", "RollingBack", "RolledBack"]
    {
        assert!(commands(json!({"phase": phase})).is_empty(), "{phase}");
    }
}

/// What others wrote must not notify everyone in a channel, or be shown as a link.
#[test]
fn texts_do_not_become_markup_of_slack() {
    let entry = json!({"what": "Held", "message": "<!channel> & <https://evil|ok>"});
    let state = json!({"phase": "Held", "to": [{"revision": "<b>"}]});
    let slack = message(&state, &entry, Format::Slack);
    let text = slack["text"].as_str().unwrap();
    assert!(!text.contains('<') && !text.contains('>'), "{text}");
    assert!(text.contains("&lt;!channel&gt; &amp; "), "{text}");
    assert!(text.ends_with("\n`wavegate abort -n argocd shop`"), "{text}");
}

#[test]
fn a_message_has_at_most_64_kib() {
    let long = "\u{1}".repeat(300_000);
    let revision = json!({"revision": long, "applications": 1});
    let gate = json!({
        "name": long, "policy": long, "approvals": 9, "approvedBy": vec![long.clone(); 20],
    });
    let state = json!({
        "phase": "AwaitingApproval", "message": long, "from": vec![revision.clone(); 10],
        "to": vec![revision; 10], "gates": vec![gate; 100],
    });
    for what in ["Retried", "GateApproved", "Failed", "StepOpened", "Held"] {
        let entry = json!({"what": what, "subject": long, "by": long, "message": long});
        for format in [Format::CloudEvents, Format::Slack] {
            let length = message(&state, &entry, format).to_string().len();
            assert!(length <= MAX_BYTES, "{what}: {length}");
        }
    }
}

#[test]
fn addresses_are_public_private_or_never_those_of_a_receiver() {
    let cases = [
        ("8.8.8.8", AddressClass::Public),
        ("172.15.0.1", AddressClass::Public),
        ("172.32.0.1", AddressClass::Public),
        ("100.128.0.1", AddressClass::Public),
        ("2606:4700::1111", AddressClass::Public),
        ("::ffff:8.8.8.8", AddressClass::Public),
        ("64:ff9b::808:808", AddressClass::Public),
        ("10.1.2.3", AddressClass::Private),
        ("172.16.0.1", AddressClass::Private),
        ("172.31.255.255", AddressClass::Private),
        ("192.168.0.1", AddressClass::Private),
        ("100.64.0.1", AddressClass::Private),
        ("127.0.0.1", AddressClass::Private),
        ("127.255.0.1", AddressClass::Private),
        ("::1", AddressClass::Private),
        ("fc00::1", AddressClass::Private),
        ("fdff::1", AddressClass::Private),
        ("::ffff:10.0.0.1", AddressClass::Private),
        ("::ffff:127.0.0.1", AddressClass::Private),
        ("::127.0.0.1", AddressClass::Private),
        ("64:ff9b::a00:1", AddressClass::Private),
        ("2002:a00:1::1", AddressClass::Private),
        ("0.0.0.0", AddressClass::Never),
        ("::", AddressClass::Never),
        ("169.254.169.254", AddressClass::Never),
        ("::ffff:169.254.169.254", AddressClass::Never),
        ("2002:a9fe:a9fe::1", AddressClass::Never),
        ("168.63.129.16", AddressClass::Never),
        ("100.100.100.200", AddressClass::Never),
        ("fd00:ec2::254", AddressClass::Never),
        ("192.0.0.192", AddressClass::Never),
        ("224.0.0.1", AddressClass::Never),
        ("255.255.255.255", AddressClass::Never),
        ("198.19.0.1", AddressClass::Never),
        ("fe80::1", AddressClass::Never),
        ("fec0::1", AddressClass::Never),
        ("ff02::1", AddressClass::Never),
        ("2001:0:1::1", AddressClass::Never),
        ("2001:db8::1", AddressClass::Never),
        ("64:ff9b:1::1", AddressClass::Never),
        ("100::1", AddressClass::Never),
    ];
    for (address, want) in cases {
        assert_eq!(class(address.parse().unwrap()), want, "{address}");
    }
    let is_refused = |address: &str, is_encrypted, allow_private| {
        address_refusal(address.parse().unwrap(), is_encrypted, allow_private).is_some()
    };
    assert!(!is_refused("8.8.8.8", true, false) && !is_refused("8.8.8.8", true, true));
    assert!(is_refused("8.8.8.8", false, true), "credentials stay encrypted on the internet");
    assert!(is_refused("10.0.0.1", true, false) && !is_refused("10.0.0.1", false, true));
    assert!(is_refused("169.254.169.254", true, true));
}

fn secret(data: &[(&str, &str)]) -> Result<SinkCredentials, String> {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    SinkCredentials::read(&data.collect::<BTreeMap<_, _>>())
}

#[test]
fn urls_are_read_without_showing_what_may_be_a_credential() {
    let good = [
        (
            "https://hooks.example.com/services/T0/B0/x?y=z",
            "hooks.example.com",
            443,
            "/services/T0/B0/x?y=z",
        ),
        ("https://hooks.example.com", "hooks.example.com", 443, "/"),
        (" http://10.0.0.1:8080/a\n", "10.0.0.1", 8080, "/a"),
        ("https://[fd00::1]:9/", "fd00::1", 9, "/"),
        ("HTTPS://h/", "h", 443, "/"),
    ];
    for (url, host, port, path) in good {
        let found = Target::read(url).unwrap();
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), (host, port, path));
        assert!(!format!("{found:?}").contains("services"), "{found:?}");
    }
    let bad = [
        "",
        "x",
        "hooks.example.com/s3cr3t",
        "ftp://h/s3cr3t",
        "https:///s3cr3t",
        "https://me:s3cr3t@h/",
        "https://h:port/s3cr3t",
        "https://h:99999/s3cr3t",
        "https://h/s3cr3t\r\nX: y",
        "https://h/s3 cr3t s3cr3t",
        "file:///s3cr3t",
    ];
    for url in bad {
        let error = Target::read(url).unwrap_err();
        assert!(!error.contains("s3cr3t"), "{url}: {error}");
    }
}

#[test]
fn a_secret_is_read_and_its_values_cannot_change_the_request() {
    let hmac = "0123456789abcdef";
    assert!(secret(&[("url", "https://h/x"), ("hmac", hmac), ("header", "A: b")]).is_ok());
    let (name, value) =
        secret(&[("header", "Authorization: Bearer s3cr3t\n")]).unwrap().header.unwrap();
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Bearer s3cr3t"));
    assert!(!format!("{value:?}").contains("s3cr3t"));
    let bad = [
        vec![("token", "s3cr3t")],
        vec![],
        vec![("header", "Bearer s3cr3t")],
        vec![("header", "A: s3cr3t\r\nHost: evil")],
        vec![("header", "A\r\nB: s3cr3t")],
        vec![("header", ": s3cr3t")],
        vec![("header", "Host: s3cr3t")],
        vec![("header", "content-length: s3cr3t")],
        vec![("header", "Transfer-Encoding: s3cr3t")],
        vec![("header", "X-Wavegate-Signature: s3cr3t")],
        vec![("hmac", "s3cr3t\n")],
        vec![("hmac", "")],
    ];
    for data in bad {
        let error = secret(&data).unwrap_err();
        assert!(!error.contains("s3cr3t"), "{data:?}: {error}");
    }
    // The line break at the end of a file is no part of the key.
    let signature = |key: &str| secret(&[("hmac", key)]).unwrap().signature(b"body");
    assert_eq!(signature(hmac), signature(&format!("{hmac}\n")));
    let want = "sha256=c34c3195f4d0282ae2dee7ddba19f07877594896ece7578eed7044843650c708";
    assert_eq!(signature(hmac).as_deref(), Some(want));
    assert_eq!(secret(&[("header", "A: b")]).unwrap().signature(b"body"), None);
}

#[test]
fn a_target_is_the_url_of_the_policy_or_of_its_secret() {
    let sink = |url: &str| Sink { url: url.to_owned(), ..Sink::default() };
    let (one, other) = ("https://one/s3cr3t", "https://other/s3cr3t");
    let with = |url: &str| secret(&[("url", url)]).unwrap();
    let none = SinkCredentials::default();
    let host = |sink: &Sink, credentials: &SinkCredentials| {
        sink_target(sink, credentials, false).map(|target| target.host)
    };
    assert_eq!(host(&sink(one), &none).as_deref(), Ok("one"));
    assert_eq!(host(&sink(""), &with(one)).as_deref(), Ok("one"));
    assert_eq!(host(&sink(one), &with(one)).as_deref(), Ok("one"));
    let refused = [
        (sink(one), with(other), false),
        (sink(""), none.clone(), false),
        (sink("http://one/s3cr3t"), none.clone(), false),
        (sink("https://127.0.0.1/s3cr3t"), none.clone(), false),
        (sink("https://[::1]/s3cr3t"), none.clone(), false),
        (sink("https://169.254.169.254/s3cr3t"), none.clone(), true),
        (sink("http://8.8.8.8/s3cr3t"), none.clone(), true),
    ];
    for (sink, credentials, allow_private) in refused {
        let error = sink_target(&sink, &credentials, allow_private).unwrap_err();
        assert!(error.starts_with("url: ") && !error.contains("s3cr3t"), "{error}");
    }
    assert!(sink_target(&sink("http://127.0.0.1/"), &none, true).is_ok());
    let of_secret = |url: &str, name: &str| -> Sink {
        serde_json::from_value(json!({"url": url, "secretRef": {"name": name}})).unwrap()
    };
    assert_eq!(sink_problem(&of_secret("", "hook")), None);
    assert!(sink_problem(&of_secret("", "")).is_some());
    assert_eq!(sink_problem(&of_secret(one, "")), None);
}
