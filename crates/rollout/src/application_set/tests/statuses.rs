//! What a status holds, how large that is, and what is read of it again.

use super::*;
use crate::application_set::status::error_status;
use crate::application_set::status::report_input::generated_steps;
use crate::application_set::status::stored::{
    Status, StoredApplicationSet, StoredResource, failing_since, truncated_note,
};

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// AS-191: the list must never be larger than its limit, so the size of an element is known before
/// it is written; and as many are listed as fit, so that it is not estimated too high.
#[test]
fn what_a_resource_takes_is_known_before_it_is_written_as_191() {
    let texts = ["", "a", "an-application-of-some-length", "with \"quotes\" and \\ and \n", "ü"];
    for text in texts {
        let health = [
            None,
            Some((text.into(), None)),
            Some(("Healthy".into(), Some(text.into()))),
            Some((text.into(), Some("x".repeat(200).into()))),
        ];
        for health in health {
            for sync in [None, Some(text.into()), Some("OutOfSync".into())] {
                let one = StoredResource {
                    namespace: "argocd".into(),
                    name: text.into(),
                    sync: sync.clone(),
                    health: health.clone(),
                };
                // With the comma after it.
                let written = one.to_json().to_string().len() + 1;
                // Fields that are absent are counted all the same.
                let spare = match (&one.sync, &one.health) {
                    (Some(_), Some((_, Some(_)))) => 0,
                    _ => r#""health":{"message":"","status":""},"status":"","#.len(),
                };
                let found = one.bytes();
                assert!(
                    (written..=written + spare).contains(&found),
                    "{found} for {written}: {}",
                    one.to_json()
                );
            }
        }
    }
    assert_eq!(truncated_note(2, 2), None);
    assert_eq!(truncated_note(3, 2), None, "a count of another time");
    assert!(truncated_note(1, 2).unwrap().contains("all 2 Applications"));
}

/// Another set may be meant to take Applications over while it has an error: the time of that error
/// decides whether both belong to one change.
#[test]
fn a_set_has_failed_since_its_error_is_true() {
    let since = "2026-01-02T03:04:05Z";
    let error = |status: &str| json!({"type": "ErrorOccurred", "status": status, "lastTransitionTime": since});
    let other =
        json!({"type": "RolloutProgressing", "status": "True", "lastTransitionTime": since});
    for (name, conditions, want) in [
        ("an error", json!([other, error("True")]), true),
        ("none any more", json!([error("False")]), false),
        ("another condition", json!([other]), false),
        ("no condition", json!([]), false),
        ("without a time", json!([{"type": "ErrorOccurred", "status": "True"}]), false),
    ] {
        let found = failing_since(&json!({"status": {"conditions": conditions}}));
        assert_eq!(found, want.then(|| since.parse().unwrap()), "{name}");
    }
    assert_eq!(failing_since(&json!({})), None);
}

/// A preview says of each Application which step starts it, before anything is applied.
#[test]
fn each_generated_application_is_of_the_first_step_that_selects_it() {
    let step = |value: &str| {
        let expression = json!({"key": "env", "operator": "In", "values": [value]});
        json!({"matchExpressions": [expression]})
    };
    let mut set = set();
    set["spec"]["strategy"] = json!({
        "type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod"), step("prod")]},
    });
    let application = |name: &str, env: &str| {
        let mut application = generated(name, spec());
        application["metadata"]["labels"] = json!({"env": env});
        application
    };
    let all = [application("a", "prod"), application("b", "dev"), application("c", "test")];
    let found = generated_steps(&set, &Generation::of(all));
    let want = [("a", Some(1)), ("b", Some(0)), ("c", None)];
    assert_eq!(found, want.map(|(name, step)| (name.to_owned(), step)).into());
}

/// What a later version has added to an element stays with that element, and only with it.
#[test]
fn fields_of_a_later_version_stay_with_what_is_still_listed() {
    let entry = |name: &str| {
        json!({
            "application": name, "status": "Healthy", "step": "1", "message": "m",
            "targetRevisions": ["r"], "lastTransitionTime": "2026-01-02T03:04:05Z", "later": name,
        })
    };
    let resource = |name: &str| {
        json!({
            "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
            "namespace": "ns", "name": name, "later": name,
        })
    };
    let stored = json!({
        "applicationStatus": [entry("a"), entry("b")],
        "resources": [resource("a"), resource("b")],
    });
    let old = Status::read(&stored);
    assert!(old.entries_are_exact && old.resources_are_exact, "all of it is known to be there");
    assert_eq!(
        old.to_json(),
        json!({
            "conditions": [], "applicationStatus": stored["applicationStatus"],
            "resources": stored["resources"],
        })
    );
    let mut new = Status {
        entries_unknown: BTreeMap::new(),
        resources_unknown: BTreeMap::new(),
        ..old.clone()
    };
    new.entries.as_mut().unwrap().remove(0);
    new.resources.remove(1);
    new.keep_unknown_of_lists(&old);
    let written = new.to_json();
    assert_eq!(written["applicationStatus"], json!([entry("b")]));
    assert_eq!(written["resources"], json!([resource("a")]));
    // Of those that are gone nothing is kept for one that is created with that name later.
    assert_eq!(new.entries_unknown.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(new.resources_unknown.keys().collect::<Vec<_>>(), ["a"]);
}

/// A list that is not what would be written is replaced as a whole: nothing of it may be patched by
/// its place in the list.
#[test]
fn a_list_is_exact_when_each_element_is_in_its_place() {
    let entry = |name: &str| {
        json!({
            "application": name, "status": "Healthy", "step": "1", "message": "m",
            "targetRevisions": ["r"], "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let resource = |name: &str| {
        json!({
            "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
            "namespace": "ns", "name": name, "status": "Synced",
        })
    };
    let changed = |mut one: Value, field: &str, value: Value| {
        one[field] = value;
        one
    };
    for (name, entries, resources, want) in [
        ("as written", json!([entry("a"), entry("b")]), json!([resource("a")]), (true, true)),
        ("in another order", json!([entry("b"), entry("a")]), json!([]), (false, true)),
        (
            "with what cannot be read",
            json!([entry("a"), {"application": "b"}]),
            json!([resource("a"), {"name": "b"}]),
            (false, false),
        ),
        (
            "with another value",
            json!([changed(entry("a"), "step", json!(1))]),
            json!([changed(resource("a"), "kind", json!("Other"))]),
            (false, false),
        ),
        (
            "with a known field that is not written",
            json!([entry("a")]),
            json!([changed(resource("a"), "syncWave", json!(1))]),
            (true, false),
        ),
        ("no list", json!(null), json!({}), (false, false)),
    ] {
        let found = Status::read(&json!({"applicationStatus": entries, "resources": resources}));
        assert_eq!((found.entries_are_exact, found.resources_are_exact), want, "{name}");
    }
    let none = Status::read(&json!({}));
    assert!(none.entries_are_exact, "there is nothing to replace");
    assert!(none.entries.is_none() && !none.resources_are_exact);
    assert!(!Status::read(&Value::Null).exists && none.exists);
}

/// The step that is open is the one of the summary, while the rollout goes on.
#[test]
fn the_open_step_and_its_start_are_read_from_the_summary() {
    let status = |progressing: &str, rollout: Value| {
        let condition = json!({"type": "RolloutProgressing", "status": progressing});
        Status::read(&json!({"conditions": [condition], "rollout": rollout}))
    };
    let at = "2026-01-02T03:04:05Z";
    let rollout =
        |step: i64| json!({"step": step, "steps": 3, "stepOpenedAt": at, "startedAt": at});
    for (progressing, step, want) in [
        ("True", 2, Some(1)),
        ("True", 1, Some(0)),
        ("True", 0, Some(0)),
        ("True", -1, None),
        ("False", 2, None),
    ] {
        let found = status(progressing, rollout(step));
        assert_eq!(found.open_step(), want, "{progressing} {step}");
        assert_eq!(found.step_opened_at(), Some(at.parse().unwrap()));
        assert_eq!(found.started_at(), Some(at.parse().unwrap()));
    }
    let none = status("True", Value::Null);
    assert_eq!((none.open_step(), none.step_opened_at(), none.started_at()), (None, None, None));
    let stalled = json!([{"application": "a", "since": at}, {"application": "b"}]);
    let found = status("True", json!({"step": 1, "stalled": stalled}));
    assert_eq!(found.stalled().collect::<Vec<_>>(), [("a", at.parse().unwrap())]);
    // As many are listed as the summary names: the others are implied by their records.
    let entry = json!({
        "application": "a", "status": "Healthy", "step": "1", "message": "m",
        "targetRevisions": ["r"], "lastTransitionTime": at,
    });
    for (listed, want) in
        [(json!(1), true), (json!(2), false), (json!(0), false), (json!(null), false)]
    {
        let found = Status::read(&json!({
            "applicationStatus": [entry], "rollout": {"step": 1, "listed": listed},
        }));
        assert_eq!(found.is_compact(), want, "{listed}");
    }
}

/// A set waits for this controller while it has the finalizer; a refresh ends when it is done.
#[test]
fn what_a_person_and_the_controller_wrote_to_a_set_is_read_from_it() {
    let set = json!({
        "metadata": {
            "namespace": "ns", "name": "s", "uid": "u", "resourceVersion": "7", "generation": 3,
            "deletionTimestamp": "2026-01-02T03:04:05Z", "labels": {"team": "a", "n": 1},
            "finalizers": ["other", "resources-finalizer.argocd.argoproj.io"],
            "annotations": {
                "argocd.argoproj.io/application-set-refresh": "true",
                "wavegate.dev/paused": "incident (ann)", "wavegate.dev/paused-by": "ann",
                "wavegate.dev/resumed-by": "bob", "wavegate.dev/nonsense": "x",
            },
        },
    });
    let read = StoredApplicationSet::read(&set);
    assert_eq!((read.version.as_str(), read.generation), ("7", 3));
    assert!(read.is_deleting && read.is_refreshing && read.has_finalizer());
    assert_eq!(read.paused.as_deref(), Some("incident (ann)"));
    assert_eq!((read.paused_by.as_deref(), read.resumed_by.as_deref()), (Some("ann"), Some("bob")));
    assert_eq!(read.labels, BTreeMap::from([("team".to_owned(), "a".to_owned())]));
    assert_eq!(read.unknown_annotations.len(), 1, "{:?}", read.unknown_annotations);
    let bare = StoredApplicationSet::read(&json!({"metadata": {"finalizers": ["other"]}}));
    assert!(!bare.is_deleting && !bare.is_refreshing && !bare.has_finalizer());
    assert_eq!((bare.paused, bare.existed), (None, None));
}

/// AS-144: whatever keeps a set from being decided, its condition says so and that nothing is
/// written meanwhile; the rest of its status stays.
#[test]
fn an_error_is_the_only_change_of_a_set_that_cannot_be_decided() {
    let mut set = super::set();
    set["status"] = json!({"conditions": [
        {"type": "RolloutProgressing", "status": "True", "message": "step 1"},
        {"type": "ErrorOccurred", "status": "False", "message": "fine"},
    ], "applicationStatus": [], "resources": []});
    let set = StoredApplicationSet::read(&set);
    let long = "x".repeat(600);
    let of = |status: &Status| {
        let error = status.condition("ErrorOccurred").unwrap().clone();
        assert!(status.has("ErrorOccurred", "True") && status.has("ResourcesUpToDate", "False"));
        assert!(status.has("RolloutProgressing", "True"), "the rollout keeps its state");
        assert_eq!(status.health.as_ref().unwrap().status.as_str(), "Degraded");
        assert!(status.exists);
        (error.reason, error.message)
    };
    let redact = |text: &str| text.replace("secret", "***");
    let unread = error_status::unread_status(&set, &format!("secret {long}"), redact, at(0));
    let (reason, message) = of(&unread);
    assert_eq!(reason, "ControlPlaneError");
    assert!(message.starts_with("*** xxx") && message.contains("no Application is created"));
    assert!(message.matches('x').count() < 510, "{message}");
    let (failed, event) = error_status::failed_status(&set, "a panic", redact, at(0));
    let (reason, message) = of(&failed);
    assert_eq!(reason, "InternalError");
    assert!(message.contains("a panic; this is a bug in wavegate"), "{message}");
    assert!(event.is_some_and(|event| event.warning && event.text == message));
    // The same error is no new event.
    let again = StoredApplicationSet { status: failed.clone(), ..set };
    let (same, event) = error_status::failed_status(&again, "a panic", redact, at(60));
    assert_eq!((same, event), (failed, None));
}
