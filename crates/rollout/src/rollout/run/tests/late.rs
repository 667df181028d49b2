//! Words of people to a run that has ended, or that a later one has followed (ST-073).

use super::super::without_effect::{found_late, recorded};
use super::*;
use wavegate_api::Time;
use wavegate_api::run::{Abort, Approval, Retry, RunGate, UserRequest};

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(1_700_000_000 + second).unwrap())
}

/// A word of each kind, each by another person.
fn all_words() -> RolloutRunSpec {
    let approval = |gate: &str, by: &str| Approval {
        gate: gate.to_owned(),
        by: by.to_owned(),
        at: None,
        covers: String::new(),
    };
    RolloutRunSpec {
        approvals: vec![approval("open", "ann"), approval("shut", "bob")],
        skip: vec!["web".to_owned()],
        abort: Some(Abort { by: "cas".to_owned(), at: Some(at(1)), terminate: false }),
        rollback: Some(UserRequest { by: "dan".to_owned(), at: Some(at(2)) }),
        retries: vec![Retry { by: "eve".to_owned(), at: Some(at(3)), applications: Vec::new() }],
        ..RolloutRunSpec::default()
    }
}

/// A run that is complete, with one gate that has opened and one that has not.
fn complete() -> RolloutRunStatus {
    let gate = |name: &str, opened: Option<Time>| RunGate {
        name: name.to_owned(),
        opened_at: opened,
        ..RunGate::default()
    };
    RolloutRunStatus {
        phase: RunPhase::Complete,
        started_at: Some(at(0)),
        gates: vec![gate("open", Some(at(0))), gate("shut", None)],
        ..RolloutRunStatus::default()
    }
}

const APPROVAL: &str = "the approval of gate shut by bob";
const SKIP: &str = "the skip of web";
const OTHERS: [&str; 3] = ["the abort by cas", "the rollback by dan", "the retry by eve"];

#[test]
fn words_that_come_too_late_are_named_as_st_073() {
    let (spec, status) = (all_words(), complete());
    let name = |begins: &[&str], why: &str| -> Vec<String> {
        begins.iter().map(|begin| format!("{begin}: {why}")).collect()
    };
    let ended = "the run has ended (Complete)";
    assert_eq!(found_late(&spec, &status, true), name(&[APPROVAL, SKIP], ended));
    let followed = "a later run has followed this one";
    let all = name(&[&[APPROVAL, SKIP][..], &OTHERS].concat(), followed);
    assert_eq!(found_late(&spec, &status, false), all);
    // What the run has acted on is not named, nor what is named already.
    type Case<'a> = (&'a str, &'a dyn Fn(&mut RolloutRunStatus));
    let acted: [Case<'_>; 6] = [
        (APPROVAL, &|status| status.gates[1].approved_by.push("bob".to_owned())),
        (APPROVAL, &|status| status.gates[1].void.push("bob".to_owned())),
        (SKIP, &|status| status.skipped.push("web".to_owned())),
        (OTHERS[0], &|status| status.aborted_at = Some(at(1))),
        (OTHERS[1], &|status| status.rollback_at = Some(at(2))),
        (SKIP, &|status| status.without_effect.push(format!("{SKIP}: {ended}"))),
    ];
    for (begin, act) in acted {
        let mut status = complete();
        act(&mut status);
        let rest: Vec<&String> = all.iter().filter(|text| !text.starts_with(begin)).collect();
        assert_eq!(found_late(&spec, &status, false).iter().collect::<Vec<_>>(), rest, "{begin}");
    }
}

/// The earliest ten, with those that the status names already.
#[test]
fn of_many_words_ten_are_named_as_st_073() {
    let mut spec = all_words();
    spec.skip = (0..20).map(|number| format!("app-{number:02}")).collect();
    for (known, want) in [(0, 10), (7, 3), (9, 1), (10, 0)] {
        let mut status = complete();
        status.without_effect = vec!["the approval of gate other by ann".to_owned(); known];
        let found = found_late(&spec, &status, false);
        assert_eq!(found.len(), want, "{known}");
    }
}

#[test]
fn what_is_found_late_is_in_the_timeline_as_st_073() {
    let found = ["one".to_owned(), "another".to_owned()];
    let mut before = complete();
    before.without_effect.push("known".to_owned());
    let (status, news) = recorded(&before, &found, at(9).0);
    assert_eq!(status.without_effect, ["known", "one", "another"]);
    assert_eq!((status.phase, &status.gates), (before.phase, &before.gates));
    let words = |entries: &[wavegate_api::run::TimelineEntry]| -> Vec<(String, String)> {
        entries.iter().map(|entry| (entry.what.clone(), entry.message.clone())).collect()
    };
    let want = found.map(|message| ("WithoutEffect".to_owned(), message));
    assert_eq!(words(&news), want);
    assert_eq!(words(&status.timeline), want);
}
