//! The rules as tables. Row numbers (V-…) refer to appendix A.7 of the specification;
//! 2024-01-15 is a Monday.

mod properties;
mod reading;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn project(list: Value) -> Value {
    json!({"spec": {"syncWindows": list}})
}

/// A window for all Applications with additional fields; later fields override.
fn window(kind: &str, schedule: &str, duration: &str, more: Value) -> Value {
    let mut window = json!({
        "kind": kind, "schedule": schedule, "duration": duration, "applications": ["*"],
    });
    for (field, value) in more.as_object().unwrap() {
        window[field] = value.clone();
    }
    window
}

fn allow(schedule: &str, duration: &str, more: Value) -> Value {
    window("allow", schedule, duration, more)
}

fn deny(schedule: &str, duration: &str, more: Value) -> Value {
    window("deny", schedule, duration, more)
}

/// Active all day, and only on New Year's Day.
fn open(kind: &str, more: Value) -> Value {
    window(kind, "* * * * *", "1h", more)
}

fn shut(kind: &str, more: Value) -> Value {
    window(kind, "0 0 1 1 *", "1h", more)
}

/// An automated sync of `web` that has not started.
const AUTO: SyncAttempt = SyncAttempt {
    application: "web",
    server: "",
    cluster: "in-cluster",
    namespace: "prod",
    manual: false,
    started_at: None,
};
const MANUAL: SyncAttempt = SyncAttempt { manual: true, ..AUTO };
const NOON: &str = "2024-01-15T12:00:00Z";

fn ask(list: &Value, attempt: &SyncAttempt, now: &str) -> Evaluation {
    evaluate(&project_windows(&project(list.clone())), attempt, at(now))
}

fn allowed(list: &Value, attempt: &SyncAttempt, now: &str) -> bool {
    ask(list, attempt, now).allowed
}

#[test]
fn windows_are_active_and_inactive() {
    let amsterdam = json!({"timeZone": "Europe/Amsterdam"});
    let cases = [
        ("V-181", allow("* 10 * * *", "2h", json!({})), "2024-01-15T11:00:00Z", true),
        ("V-181", allow("* 10 * * *", "2h", json!({})), "2024-01-15T12:30:00Z", true),
        ("V-181", allow("* 10 * * *", "2h", json!({})), "2024-01-15T13:00:00Z", false),
        ("V-182", allow("0 9 * * 1-5", "9h", json!({})), "2024-01-15T09:00:00Z", false),
        ("V-182", allow("0 9 * * 1-5", "9h", json!({})), "2024-01-15T09:00:01Z", true),
        ("V-182", allow("0 9 * * 1-5", "9h", json!({})), "2024-01-15T17:59:59Z", true),
        ("V-182", allow("0 9 * * 1-5", "9h", json!({})), "2024-01-15T18:00:00Z", false),
        ("V-183", deny("0 0 * * 0,6", "24h", json!({})), "2024-01-13T12:00:00Z", false),
        ("V-183", deny("0 0 * * 0,6", "24h", json!({})), "2024-01-14T23:59:59Z", false),
        ("V-183", deny("0 0 * * 0,6", "24h", json!({})), "2024-01-15T00:00:00Z", true),
        ("V-184", allow("0 18 * * 1-5", "15h", json!({})), "2024-01-20T08:00:00Z", true),
        ("V-197", deny("0 22 * * *", "1h", amsterdam.clone()), "2024-01-15T21:30:00Z", false),
        ("V-197", deny("0 22 * * *", "1h", amsterdam.clone()), "2024-01-15T22:30:00Z", true),
        ("V-197", deny("0 22 * * *", "1h", amsterdam), "2024-07-15T20:30:00Z", false),
        ("V-198", allow("0 0 1 * 1", "1h", json!({})), "2024-02-01T00:30:00Z", true),
        ("V-198", allow("0 0 1 * 1", "1h", json!({})), "2024-01-15T00:30:00Z", true),
        ("V-198", allow("0 0 1 * 1", "1h", json!({})), "2024-01-16T00:30:00Z", false),
        ("V-199", allow("0 0 30 2 *", "9999h", json!({})), "2024-03-01T00:30:00Z", false),
        ("V-199", deny("0 0 30 2 *", "9999h", json!({})), "2024-03-01T00:30:00Z", true),
        ("SE-405: always", allow("* * * * *", "1h", json!({})), "2024-01-15T11:00:00Z", true),
        ("SE-405: no length", deny("* * * * *", "0", json!({})), "2024-01-15T11:00:30Z", true),
        ("SE-405: below zero", deny("* * * * *", "-1h", json!({})), "2024-01-15T11:00:30Z", true),
        (
            "SE-404: unknown is UTC",
            deny("0 22 * * *", "1h", json!({"timeZone": "Mars/Olympus"})),
            "2024-01-15T22:30:00Z",
            false,
        ),
        // The day without 02:30.
        (
            "SE-404: the freeze is not lost",
            deny("30 2 * * *", "3h", json!({"timeZone": "Europe/Berlin"})),
            "2024-03-31T03:59:59Z",
            false,
        ),
        // Active since 23:00 in winter time; ends in summer time.
        (
            "SE-404: real length across the change",
            deny("0 23 * * *", "4h", json!({"timeZone": "Europe/Berlin"})),
            "2024-03-31T01:59:59Z",
            false,
        ),
    ];
    for (name, entry, now, want) in cases {
        assert_eq!(allowed(&json!([entry]), &AUTO, now), want, "{name}: {entry} at {now}");
    }
}

#[test]
fn kinds_and_manual_sync_decide() {
    let hand = || json!({"manualSync": true});
    let no = || json!({});
    // Manual, and automated.
    let cases = [
        ("V-180", json!([]), true, true),
        ("V-185", json!([shut("deny", no())]), true, true),
        ("V-186", json!([open("deny", no())]), false, false),
        ("V-187", json!([open("deny", hand())]), true, false),
        ("V-188", json!([open("deny", hand()), open("deny", no())]), false, false),
        ("V-189", json!([open("deny", hand()), open("allow", no())]), true, false),
        ("V-190", json!([shut("allow", hand())]), true, false),
        ("V-191", json!([shut("allow", hand()), shut("allow", no())]), false, false),
        ("V-192", json!([open("allow", no()), shut("allow", no())]), true, true),
        ("V-193", json!([shut("allow", no()), shut("deny", no())]), false, false),
        ("V-194", json!([open("allow", hand())]), true, true),
        ("SE-406: deny wins", json!([open("allow", no()), open("deny", no())]), false, false),
    ];
    for (name, list, manual, automated) in cases {
        assert_eq!(allowed(&list, &MANUAL, NOON), manual, "{name} manual");
        assert_eq!(allowed(&list, &AUTO, NOON), automated, "{name} automated");
    }
}

#[test]
fn rollouts_count_as_manual() {
    // SE-409, AS-366.
    assert!(is_manual("admin", false) && is_manual("", false));
    assert!(!is_manual("", true) && !is_manual("admin", true));
    assert!(is_manual("applicationset-controller", true));
}

#[test]
fn a_running_sync_may_continue() {
    let over = || json!({"syncOverrun": true});
    let noon = |kind, more| window(kind, "0 12 * * *", "1h", more);
    let morning = |more| allow("0 9 * * *", "3h", more);
    let (before, inside) = ("2024-01-15T11:30:00Z", "2024-01-15T12:10:00Z");
    let (during, after) = ("2024-01-15T12:20:00Z", "2024-01-15T13:30:00Z");
    let cases = [
        ("V-200", json!([noon("deny", over())]), Some(before), during, true),
        ("V-200: a new one", json!([noon("deny", over())]), None, during, false),
        ("V-201", json!([noon("deny", over())]), Some(inside), during, false),
        ("V-201: ended", json!([noon("deny", over())]), Some(inside), after, true),
        ("SE-408: no overrun", json!([noon("deny", json!({}))]), Some(before), during, false),
        (
            "SE-408: each deny",
            json!([noon("deny", over()), open("deny", json!({}))]),
            Some(before),
            during,
            false,
        ),
        ("V-202", json!([noon("allow", over())]), Some(inside), after, true),
        ("V-202: without", json!([noon("allow", json!({}))]), Some(inside), after, false),
        ("V-202: began outside", json!([noon("allow", over())]), Some(before), after, false),
        (
            "V-202: each allow",
            json!([noon("allow", over()), shut("allow", json!({}))]),
            Some(inside),
            after,
            false,
        ),
        ("V-203", json!([morning(over()), noon("deny", json!({}))]), Some(before), during, false),
        (
            "SE-408: from an allow into a deny",
            json!([morning(json!({})), noon("deny", over())]),
            Some(before),
            during,
            true,
        ),
    ];
    for (name, list, started, now, want) in cases {
        let attempt = SyncAttempt { started_at: started.map(at), ..AUTO };
        assert_eq!(allowed(&list, &attempt, now), want, "{name}");
    }
}

#[test]
fn selectors_match() {
    let y = SyncAttempt { application: "y", ..AUTO };
    let cases = [
        ("V-204: or", json!({"applications": ["x"], "namespaces": ["prod"]}), y, true),
        (
            "V-204: and",
            json!({"applications": ["x"], "namespaces": ["prod"], "andOperator": true}),
            y,
            false,
        ),
        (
            "SE-401: and, all match",
            json!({"applications": ["y"], "namespaces": ["p*"], "andOperator": true}),
            y,
            true,
        ),
        (
            "V-205",
            json!({"applications": ["*-prod"]}),
            SyncAttempt { application: "web-prod", ..AUTO },
            true,
        ),
        ("V-206", json!({"applications": [], "clusters": ["in-cluster"]}), AUTO, true),
        (
            "SE-401: by server",
            json!({"applications": [], "clusters": ["https://*.example"]}),
            SyncAttempt { cluster: "", server: "https://a/b.example", ..AUTO },
            true,
        ),
        (
            "SE-401: no cluster at all",
            json!({"applications": [], "clusters": ["*"]}),
            SyncAttempt { cluster: "", ..AUTO },
            false,
        ),
        ("V-207", json!({"applications": []}), AUTO, false),
        ("V-207: and", json!({"applications": [], "andOperator": true}), AUTO, false),
        ("V-207: null", json!({"applications": null}), AUTO, false),
        ("SE-401: another", json!({"applications": ["api"]}), AUTO, false),
    ];
    for (name, selectors, attempt, want) in cases {
        let list = json!([open("deny", selectors)]);
        assert_eq!(!allowed(&list, &attempt, NOON), want, "{name}");
    }
}

#[test]
fn the_more_specific_window_takes_priority_where_a_project_says_so_se_407() {
    let only = |field: &str, text: &str| {
        let mut selectors = json!({"applications": []});
        selectors[field] = json!([text]);
        selectors
    };
    let (name, pattern) = (only("applications", "web"), only("applications", "w*"));
    let (namespace, namespaces) = (only("namespaces", "prod"), only("namespaces", "p*"));
    let (cluster, clusters) = (only("clusters", "in-cluster"), only("clusters", "*"));
    let order = [&name, &pattern, &namespace, &namespaces, &cluster, &clusters];
    let seed = |list: &Value, attempt: &SyncAttempt| {
        let mut project = project(list.clone());
        project["metadata"]["annotations"]["wavegate.dev/window-semantics"] = "seed".into();
        assert_eq!(window_warnings(&project), [""; 0]);
        evaluate(&project_windows(&project), attempt, at(NOON))
    };
    for pair in order.windows(2) {
        let [more, less] = pair else { unreachable!() };
        let list = json!([open("deny", (*less).clone()), shut("deny", (*more).clone())]);
        assert!(seed(&list, &AUTO).allowed, "{list}");
        assert!(!allowed(&list, &AUTO, NOON), "{list}");
        let list = json!([open("allow", (*less).clone()), shut("allow", (*more).clone())]);
        assert!(!seed(&list, &AUTO).allowed, "{list}");
        assert!(allowed(&list, &AUTO, NOON), "{list}");
    }
    let both = json!({"applications": ["web", "w*"], "namespaces": ["p*"], "andOperator": true});
    let manual = json!({"manualSync": true});
    let (auto, by_person) = (AUTO, MANUAL);
    for (why, list, attempt, want) in [
        (
            "the same rank",
            json!([open("deny", name.clone()), shut("deny", name.clone())]),
            auto,
            false,
        ),
        (
            "by its most specific selector",
            json!([open("deny", pattern.clone()), shut("deny", both)]),
            auto,
            true,
        ),
        (
            "of another kind",
            json!([shut("allow", name.clone()), open("deny", clusters.clone())]),
            auto,
            false,
        ),
        (
            "only a window that matches",
            json!([open("deny", clusters), shut("deny", only("applications", "api"))]),
            auto,
            false,
        ),
        ("only manual syncs", json!([open("allow", manual.clone())]), auto, false),
        ("manual syncs", json!([open("allow", manual.clone())]), by_person, true),
        (
            "another one is active",
            json!([open("allow", manual.clone()), open("allow", json!({}))]),
            auto,
            true,
        ),
        (
            "the other one is not",
            json!([open("allow", manual), shut("allow", json!({}))]),
            auto,
            false,
        ),
    ] {
        assert_eq!(seed(&list, &attempt).allowed, want, "{why}: {list}");
    }
    let mut typo = project(json!([]));
    typo["metadata"]["annotations"]["wavegate.dev/window-semantics"] = "Seed".into();
    assert_eq!(
        window_warnings(&typo),
        [
            "metadata.annotations: wavegate.dev/window-semantics is \"Seed\"; it has to be argocd or \
          seed, and argocd is assumed"
        ]
    );
}

#[test]
fn an_invalid_window_blocks_matching_applications() {
    let cases = [
        ("V-195", allow("* 10 * * 7", "1h", json!({})), "cannot parse schedule '* 10 * * 7': day"),
        ("V-196", allow("* 10 * * *", "2d", json!({})), "cannot parse duration '2d'"),
        ("SE-410: kind", window("permit", "* * * * *", "1h", json!({})), "kind 'permit' mismatch"),
        ("SE-410: type", open("allow", json!({"manualSync": "yes"})), "manualSync must be true"),
        ("SE-410: list", open("allow", json!({"applications": "web"})), "applications must be a"),
    ];
    for (name, entry, want) in cases {
        let list = json!([open("allow", json!({})), entry]);
        for attempt in [AUTO, MANUAL] {
            let evaluation = ask(&list, &attempt, NOON);
            assert!(!evaluation.allowed, "{name}");
            assert_eq!(evaluation.next_change, None, "{name}");
            assert!(
                evaluation.reason.starts_with("spec.syncWindows[1] ("),
                "{name}: {evaluation:?}"
            );
            let message = evaluation.blocked_message().unwrap();
            let message = message.strip_prefix("Sync operation blocked by sync window: ").unwrap();
            assert!(message.starts_with(want), "{name}: {message}");
        }
        // Has no effect on another Application.
        let mut other = list.clone();
        other[1]["applications"] = match &list[1]["applications"] {
            Value::Array(_) => json!(["other"]),
            _ => json!("other"),
        };
        assert!(allowed(&other, &AUTO, NOON), "{name}");
    }
    // An active deny window does not hide the error.
    let both = json!([open("deny", json!({})), open("bad", json!({}))]);
    assert!(ask(&both, &AUTO, NOON).problem.is_some());
}

#[test]
fn next_change_is_the_next_start_or_end() {
    let office = || allow("0 9 * * 1-5", "9h", json!({}));
    let cases = [
        ("no window", json!([]), NOON, None),
        ("open until its end", json!([office()]), NOON, Some("2024-01-15T18:00:00Z")),
        (
            "shut until just open",
            json!([office()]),
            "2024-01-12T18:00:00Z",
            Some("2024-01-15T09:00:01Z"),
        ),
        ("at its start", json!([office()]), "2024-01-15T09:00:00Z", Some("2024-01-15T09:00:01Z")),
        (
            "the earliest of several",
            json!([office(), deny("30 12 * * *", "10m", json!({}))]),
            NOON,
            Some("2024-01-15T12:30:01Z"),
        ),
        (
            "V-183: Saturday goes over into Sunday",
            json!([deny("0 0 * * 0,6", "24h", json!({}))]),
            "2024-01-13T12:00:00Z",
            Some("2024-01-15T00:00:00Z"),
        ),
        (
            "V-181: overlapping starts",
            json!([allow("* 10 * * *", "2h", json!({}))]),
            "2024-01-15T10:30:00Z",
            Some("2024-01-15T12:59:00Z"),
        ),
        ("V-199: never", json!([allow("0 0 30 2 *", "1h", json!({}))]), NOON, None),
        ("no length", json!([allow("0 0 * * *", "0s", json!({}))]), NOON, None),
        (
            "another's window",
            json!([deny("0 9 * * *", "9h", json!({"applications": ["api"]}))]),
            NOON,
            None,
        ),
    ];
    for (name, list, now, want) in cases {
        let evaluation = ask(&list, &AUTO, now);
        assert_eq!(evaluation.next_change, want.map(at), "{name}");
    }
}

#[test]
fn reasons_name_the_window() {
    let zone = json!({"timeZone": "Europe/Amsterdam"});
    let cases = [
        (json!([]), AUTO, "no sync window matches"),
        (
            json!([deny("0 12 * * *", "4h", zone)]),
            AUTO,
            "spec.syncWindows[0] (deny \"0 12 * * *\" for \"4h\", Europe/Amsterdam) is active until 2024-01-15T15:00:00Z",
        ),
        (
            json!([open("deny", json!({"manualSync": true})), deny("0 11 * * *", "2h", json!({}))]),
            MANUAL,
            "spec.syncWindows[1] (deny \"0 11 * * *\" for \"2h\", UTC) is active until 2024-01-15T13:00:00Z",
        ),
        (
            json!([deny("0 11 * * *", "2h", json!({"manualSync": true}))]),
            MANUAL,
            "spec.syncWindows[0] (deny \"0 11 * * *\" for \"2h\", UTC) is active, and allows manual syncs",
        ),
        (
            json!([shut("allow", json!({})), allow("0 18 * * *", "2h", json!({}))]),
            AUTO,
            "spec.syncWindows[1] (allow \"0 18 * * *\" for \"2h\", UTC) is inactive until 2024-01-15T18:00:00Z",
        ),
        (
            json!([allow("0 0 31 2 *", "2h", json!({}))]),
            AUTO,
            "spec.syncWindows[0] (allow \"0 0 31 2 *\" for \"2h\", UTC) never starts",
        ),
        (json!([shut("deny", json!({}))]), AUTO, "no deny window is active"),
    ];
    for (list, attempt, want) in cases {
        let evaluation = ask(&list, &attempt, NOON);
        assert_eq!(evaluation.reason, want);
        let message =
            (!evaluation.allowed).then(|| "Sync operation blocked by sync window".to_owned());
        assert_eq!(evaluation.blocked_message(), message, "{want}");
    }
}

/// SE-411: a message about a window of a global project names that.
#[test]
fn a_window_is_named_with_the_project_that_it_is_inherited_from() {
    let windows = project_windows(&project(json!([allow("* * * * *", "1h", json!({}))])));
    let own = windows[0].name();
    assert!(own.starts_with("spec.syncWindows[0] ("), "{own}");
    let inherited = windows[0].clone().of_global("base", &project(json!([]))).name();
    assert_eq!(inherited, own.replace("[0] ", "[0] of global project base "));
}

/// SE-407: a window of a global project decides like those of the project that inherits it.
#[test]
fn an_inherited_window_has_the_semantics_of_its_heir_se_407() {
    let list = json!([open("allow", json!({"manualSync": true}))]);
    let global = project_windows(&project(list));
    let mut seed = project(json!([]));
    seed["metadata"]["annotations"]["wavegate.dev/window-semantics"] = "seed".into();
    for (heir, want) in [(project(json!([])), true), (seed, false)] {
        let windows: Vec<Window> =
            global.iter().map(|window| window.clone().of_global("base", &heir)).collect();
        assert_eq!(evaluate(&windows, &AUTO, at(NOON)).allowed, want, "{heir}");
        assert!(evaluate(&windows, &MANUAL, at(NOON)).allowed);
    }
}

/// SE-410: when windows cannot be read, no sync of any Application begins.
#[test]
fn a_closed_window_permits_no_sync_se_410() {
    let windows = [Window::closed("the project base cannot be read".to_owned())];
    for attempt in [AUTO, MANUAL, SyncAttempt { application: "other", ..AUTO }] {
        let found = evaluate(&windows, &attempt, at(NOON));
        assert!(!found.allowed);
        assert_eq!(found.problem.as_deref(), Some("the project base cannot be read"));
        let reason = "spec.syncWindows[0] (unknown) is invalid: the project base cannot be read";
        assert_eq!(found.reason, reason);
    }
}
