//! What of a run is stored at once, and which number the next one has.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::rollout::Member;
use crate::rollout::entry::{Earlier, Entry};
use crate::rollout::run::started::Target;
use crate::rollout::run_input::RowRun;

fn status(value: Value) -> RolloutRunStatus {
    serde_json::from_value(value).unwrap()
}

fn whole() -> Value {
    let at = "2026-01-02T03:04:05Z";
    json!({
        "phase": "Progressing", "failed": 1, "quarantine": "q", "policies": ["p"],
        "retried": [at], "abortedAt": at, "rollbackAt": at, "message": "m", "done": 1,
        "timeline": [{"at": at, "what": "Held"}],
        "gates": [{"name": "g", "policy": "p"}],
        "steps": [{"openedAt": at, "completedAt": at, "batch": 1, "beforeBatch": 1, "done": 1}],
    })
}

/// ST-005: what people or the next decision depend on is stored at once; the rest waits for a while.
#[test]
fn what_others_depend_on_is_stored_at_once_st_005() {
    let later = "2026-01-02T03:04:06Z";
    for (pointer, value, want) in [
        ("/phase", json!("Held"), true),
        ("/failed", json!(2), true),
        ("/quarantine", json!("r"), true),
        ("/policies", json!(["p", "q"]), true),
        ("/retried/0", json!(later), true),
        ("/abortedAt", json!(later), true),
        ("/rollbackAt", json!(later), true),
        ("/timeline/0/what", json!("Paused"), true),
        ("/gates/0/name", json!("h"), true),
        ("/steps/0/openedAt", json!(later), true),
        ("/steps/0/completedAt", json!(later), true),
        ("/steps/0/batch", json!(2), true),
        ("/steps/0/beforeBatch", json!(2), true),
        ("/steps/0/done", json!(2), false),
        ("/message", json!("n"), false),
        ("/done", json!(2), false),
    ] {
        let mut other = whole();
        *other.pointer_mut(pointer).unwrap() = value;
        assert_eq!(differs(&status(whole()), &status(other)), want, "{pointer}");
    }
    assert!(!differs(&status(whole()), &status(whole())));
}

/// ST-011: a gate was open before only for the targets for which it opened.
#[test]
fn a_gate_was_open_for_its_targets_st_011() {
    let gate = |name: &str, policy: &str, open: bool, of: &str| {
        let mut gate = json!({"name": name, "policy": policy, "openedFor": of, "covers": of});
        if open {
            gate["openedAt"] = "2026-01-02T03:04:05Z".into();
        }
        gate
    };
    let is: RunGate = serde_json::from_value(gate("g", "p", true, "c")).unwrap();
    for (name, before, want) in [
        ("the same", gate("g", "p", true, "c"), true),
        ("of other targets", gate("g", "p", true, "d"), false),
        ("it was shut", gate("g", "p", false, "c"), false),
        ("of another policy", gate("g", "q", true, "c"), false),
        ("another gate", gate("h", "p", true, "c"), false),
    ] {
        assert_eq!(was_open(&is, &status(json!({"gates": [before]}))), want, "{name}");
    }
    assert!(!was_open(&is, &status(json!({}))));
}

/// ST-006: a number is not given twice; only the name of a run that was deleted while it was under way
/// is taken again, since what it has started counts for it.
#[test]
fn a_run_has_a_number_of_its_own_st_006() {
    let at: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
    let number = |last: u64, started: &[(&str, Phase, &str)]| {
        let all: Vec<(Started, Entry)> = started
            .iter()
            .map(|(run, phase, revision)| {
                let target =
                    Target { spec: "spec".to_owned(), revisions: vec![(*revision).to_owned()] };
                let started = Started {
                    run: (*run).to_owned(),
                    target,
                    at: at - SignedDuration::from_secs(9),
                    before: HealthStatus::Healthy,
                    good: Vec::new(),
                    base: String::new(),
                    goes_back: false,
                };
                let entry = Entry {
                    application: "a".to_owned(),
                    phase: *phase,
                    step: Some(0),
                    message: String::new(),
                    mark: None,
                    target_revisions: vec!["now".to_owned()],
                    since: at,
                    earlier: Earlier::None,
                };
                (started, entry)
            })
            .collect();
        let members: Vec<Member<'_>> = all
            .iter()
            .map(|(started, entry)| Member {
                name: "a",
                steps: None,
                invalid: None,
                unwritten: None,
                denied: None,
                excluded: None,
                is_going: false,
                resource: None,
                observed: None,
                entry: Some(entry),
                is_listed: true,
                record: None,
                spec: Some("spec"),
                started: Some(started),
            })
            .collect();
        let rows: Vec<Row<'_>> = members
            .iter()
            .map(|member| Row {
                member,
                entry: member.entry.cloned(),
                behind: None,
                is_beyond_capacity: false,
                run: RowRun::default(),
            })
            .collect();
        next_number("shop", last, &rows)
    };
    use Phase::{Healthy, Progressing};
    for (name, last, started, want) in [
        ("the first one", 0, &[][..], 1),
        ("the next one", 4, &[], 5),
        ("one that was deleted is under way", 4, &[("shop-7", Progressing, "now")], 7),
        ("it is over", 4, &[("shop-7", Healthy, "now")], 8),
        ("of another target", 4, &[("shop-7", Progressing, "old")], 8),
        ("the last one itself", 7, &[("shop-7", Progressing, "now")], 8),
        ("an earlier one", 7, &[("shop-3", Progressing, "now")], 8),
        ("of another set", 4, &[("other-9", Progressing, "now")], 5),
        ("of no run", 4, &[("shop", Progressing, "now")], 5),
        ("several", 4, &[("shop-7", Progressing, "now"), ("shop-8", Healthy, "now")], 9),
    ] {
        assert_eq!(number(last, started), want, "{name}");
    }
}
