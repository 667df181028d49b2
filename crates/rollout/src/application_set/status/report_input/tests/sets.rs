//! What is read of a set, of its run, and of an Application that waits or goes back, as tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::application_set::status::report_input::{read_report, read_set};
use crate::requests::Run;
use crate::rollout::wait::WaitKind;
use wavegate_api::run::RunStart;

const AT: &str = "2026-01-01T00:00:00Z";

fn set(annotations: Value, steps: Value, status: Value) -> Value {
    json!({
        "metadata": {"name": "shop", "namespace": "argocd", "uid": "u", "annotations": annotations},
        "spec": {"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}}},
        "status": status,
    })
}

/// A problem of a set is a condition that is true; one that is over is none, nor is a progress.
#[test]
fn the_problems_of_a_set_are_its_conditions_that_are_true() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": kind});
    let kinds = ["ErrorOccurred", "InvalidRolloutConfig", "DeletionsHeld", "SettingsAbsent"];
    for kind in kinds {
        for (status, want) in [("True", 1), ("False", 0), ("Unknown", 0)] {
            let raw = json!({"conditions": [condition(kind, status)]});
            let found = read_set(&set(json!({}), json!([{}]), raw)).status;
            assert_eq!(found.problems.len(), want, "{kind} {status}");
            let is = |one: &str| kind == one && want == 1;
            assert_eq!(found.error.is_some(), is("ErrorOccurred"));
            assert_eq!(found.invalid_config.is_some(), is("InvalidRolloutConfig"));
            assert_eq!(found.holds_deletions, is("DeletionsHeld"));
        }
    }
    for kind in ["RolloutProgressing", "ResourcesUpToDate"] {
        let raw = json!({"conditions": [condition(kind, "True")]});
        assert!(read_set(&set(json!({}), json!([{}]), raw)).status.problems.is_empty(), "{kind}");
    }
    for (status, want) in [("True", true), ("False", false)] {
        let raw = json!({"conditions": [condition("ResourcesUpToDate", status)]});
        assert_eq!(read_set(&set(json!({}), json!([{}]), raw)).status.is_up_to_date, want);
    }
    for (raw, want) in [(Value::Null, false), (json!({}), false), (json!({"health": {}}), true)] {
        assert_eq!(read_set(&set(json!({}), json!([{}]), raw)).status.exists, want);
    }
}

/// ST-020: a pause holds steps; where there are none, it holds nothing.
#[test]
fn a_set_is_paused_only_with_steps_st_020() {
    let paused = json!({"wavegate.dev/paused": "x (ann)"});
    for (annotations, steps, want) in [
        (paused.clone(), json!([{}]), Some("x (ann)")),
        (paused, json!([]), None),
        (json!({}), json!([{}]), None),
    ] {
        assert_eq!(read_set(&set(annotations, steps, Value::Null)).paused.as_deref(), want);
    }
}

/// A rollout is complete when its condition says so, or all are; what its status says of its waits is
/// read as it is.
#[test]
fn a_rollout_is_read_from_its_summary() {
    let read = |progressing: &str, progress: &str, step: i64| {
        let status = json!({
            "conditions": [{"type": "RolloutProgressing", "status": progressing}],
            "rollout": {
                "step": step, "steps": 3, "progress": progress, "message": "m", "startedAt": AT,
                "waitingFor": [{"application": "a", "kind": "Health", "reason": "r",
                    "resource": "Pod p", "since": AT, "until": AT}],
                "stalled": [{"application": "a", "since": AT}],
            },
        });
        read_set(&set(json!({}), json!([{}]), status)).status.rollout.unwrap()
    };
    for (progressing, progress, want) in [
        ("True", "1/3", false),
        ("True", "3/3", true),
        ("True", "4/3", true),
        ("False", "1/3", true),
        ("True", "x", false),
    ] {
        let found = read(progressing, progress, 2);
        assert_eq!(found.is_complete, want, "{progressing} {progress}");
        assert_eq!(found.progress.is_some(), progress != "x", "{progress}");
        assert_eq!(found.step, Some(1));
    }
    assert_eq!((read("True", "1/3", 0).step, read("True", "1/3", -1).step), (Some(0), None));
    let found = read("True", "1/3", 1);
    let at: Timestamp = AT.parse().unwrap();
    let wait = &found.waiting[0];
    assert_eq!((wait.application.as_str(), wait.message.as_str()), ("a", "r"));
    assert_eq!((wait.resource.as_str(), wait.since, wait.until), ("Pod p", Some(at), Some(at)));
    assert_eq!((found.stalled, found.started_at), (BTreeSet::from(["a".to_owned()]), Some(at)));
}

/// ST-064: what a run goes on without is not waited for.
#[test]
fn a_report_leaves_out_what_its_run_goes_on_without_st_064() {
    let owner = json!({"kind": "ApplicationSet", "apiVersion": "argoproj.io/v1alpha1",
        "name": "shop", "uid": "u", "controller": true});
    let live = |name: &str, owner: &Value| {
        let mut live = application(&json!({}));
        live["metadata"]["name"] = name.into();
        live["metadata"]["ownerReferences"] = json!([owner]);
        (name.to_owned(), Arc::new(live))
    };
    let mut other = owner.clone();
    other["uid"] = "v".into();
    let all = BTreeMap::from([live("a", &owner), live("b", &owner), live("c", &other)]);
    let set = set(json!({}), json!([{}]), json!({}));
    let run = Run {
        name: "shop-1".to_owned(),
        is_known: true,
        status: serde_json::from_value(json!({"phase": "Progressing", "skipped": ["a"]})).unwrap(),
        ..Run::default()
    };
    let left_out = |run: Option<&Run>| -> Vec<(String, bool)> {
        let report = read_report(&set, &all, run);
        let members = report.members.iter();
        members
            .map(|(name, member)| (name.clone(), report.kind(member) == WaitKind::Skipped))
            .collect()
    };
    let of = |a: bool| vec![("a".to_owned(), a), ("b".to_owned(), false)];
    assert_eq!(left_out(Some(&run)), of(true), "only those of the set");
    assert_eq!(left_out(None), of(false));
    let ended = Run {
        status: serde_json::from_value(json!({"phase": "Complete", "skipped": ["a"]})).unwrap(),
        ..run
    };
    assert_eq!(left_out(Some(&ended)), of(false), "it has ended");
}

/// ST-061: an Application is held at its good revisions as long as it has the target that it went back
/// from.
#[test]
fn an_application_is_held_where_it_went_back_to_st_061() {
    let read = |goes_back: bool, good: &[&str], target: &[&str]| {
        let texts = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let start = RunStart {
            run: "shop-1".to_owned(),
            spec: "s".to_owned(),
            revisions: texts(target),
            at: AT.to_owned(),
            before: "Healthy".to_owned(),
            good: texts(good),
            base: String::new(),
            goes_back,
            uid: "u".to_owned(),
        };
        let mut live = application(&json!({"sync": {"revision": "bad"}}));
        live["metadata"]["uid"] = "u".into();
        live["metadata"]["annotations"] = json!({"wavegate.dev/run": start.text()});
        let read = super::super::read_application(&live);
        assert_eq!(read.started_spec.as_deref(), Some("s"));
        read.held_at
    };
    let good = Some(vec!["good".to_owned()]);
    for (name, goes_back, revisions, target, want) in [
        ("of this target", true, &["good"][..], &["bad"][..], good.clone()),
        ("the sync resolved it", true, &["good"], &[], good),
        ("of another target", true, &["good"], &["x"], None),
        ("it went forward", false, &["good"], &["bad"], None),
        ("no good ones are known", true, &[], &["bad"], None),
    ] {
        assert_eq!(read(goes_back, revisions, target), want, "{name}");
    }
}

/// What a person reads of a running operation: a wait in its own words, and a reason where there is one.
#[test]
fn a_running_operation_says_why_it_runs() {
    let state = |phase: &str, message: &str| {
        json!({"operationState": {"phase": phase, "message": message, "operation": {},
            "startedAt": AT}, "sync": {"status": "OutOfSync"}})
    };
    for (phase, message, is_reason, detail) in [
        (
            "Running",
            "waiting for completion of hook batch/Job/x",
            false,
            "completion of hook Job x",
        ),
        ("Running", "retrying attempt #1", true, ""),
        ("Succeeded", "done", false, ""),
        ("Failed", "no", false, "no"),
    ] {
        let doing = super::super::read_application(&application(&state(phase, message))).doing;
        assert_eq!(doing.is_reason, is_reason, "{message}");
        assert!(detail.is_empty() || doing.detail == detail, "{message}: {}", doing.detail);
        assert_eq!(doing.started_at, AT, "{message}");
        let awaited = doing.awaited.map(|one| (one.resource, one.is_hook));
        let want = (!detail.is_empty() && phase == "Running").then(|| ("Job x".to_owned(), true));
        assert_eq!(awaited, want, "{message}");
    }
    let healthy = "waiting for healthy state of apps/Deployment/web";
    let doing = super::super::read_application(&application(&state("Running", healthy))).doing;
    let awaited = doing.awaited.map(|one| (one.resource, one.is_hook));
    assert_eq!(awaited, Some(("Deployment web".to_owned(), false)));
}
