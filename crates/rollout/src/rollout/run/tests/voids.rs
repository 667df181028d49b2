//! Words about what does not exist, which may have had their effect before it went, and what a retry
//! lifts.

use super::standings::{changed, entry, seen, started, with_row};
use super::*;
use crate::rollout::policy::{Policy, Rules};
use crate::rollout::run::quarantine::Quarantine;
use crate::rollout::run::without_effect::found;
use crate::rollout::snapshot::Row;
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus};

/// What is found without effect, with gate `known` of a policy and an Application `a`.
fn without_effect(spec: Value, timeline: Value, before: &[String], reads: bool) -> Vec<String> {
    let spec: RolloutRunSpec = serde_json::from_value(spec).unwrap();
    let status: RolloutRunStatus = serde_json::from_value(json!({"timeline": timeline})).unwrap();
    let gates = json!({"gates": [{"name": "known", "steps": [1], "approvals": 1}]});
    let policy = Policy { name: "p".to_owned(), spec: Ok(serde_json::from_value(gates).unwrap()) };
    let rules = Rules::of(&[policy], "shop", &BTreeMap::new(), &[], 2);
    with_row(&seen(), &entry(Phase::Waiting), None, |row| {
        found(&spec, &status, before, reads, &rules, std::slice::from_ref(row))
    })
}

/// ST-011: an approval of a gate that no policy has is without effect, unless that very approval had
/// opened the gate before it went.
#[test]
fn an_approval_of_no_gate_has_an_effect_only_in_the_past_st_011() {
    let of = |gate: &str| json!({"approvals": [{"gate": gate, "by": "ann", "covers": "c"}]});
    let event = |what: &str, gate: &str, by: &str| json!([{"what": what, "subject": gate, "by": by, "message": ""}]);
    for (name, gate, timeline, want) in [
        ("a gate of a policy", "known", json!([]), false),
        ("no gate", "other", json!([]), true),
        ("it was approved", "other", event("GateApproved", "other", "ann"), false),
        ("by another person", "other", event("GateApproved", "other", "bob"), true),
        ("another gate was", "other", event("GateApproved", "third", "ann"), true),
        ("another event", "other", event("GateOpened", "other", "ann"), true),
    ] {
        let found = without_effect(of(gate), timeline, &[], true);
        assert_eq!(found.len(), usize::from(want), "{name}: {found:?}");
        assert!(found.iter().all(|text| text.starts_with("the approval of gate other by ann")));
    }
}

/// ST-063: what a retry names counts as it was when the run read it, so that later reconciles neither
/// forget what was found then nor find it anew.
#[test]
fn a_retry_of_no_application_is_found_when_it_is_read_st_063() {
    let spec =
        |application: &str| json!({"retries": [{"by": "ann", "applications": [application]}]});
    let first = without_effect(spec("b"), json!([]), &[], true);
    let [text] = first.as_slice() else { panic!("{first:?}") };
    assert!(text.starts_with("the retry by ann: the set has no Application b"), "{text}");
    assert_eq!(without_effect(spec("b"), json!([]), &first, false), first, "it stays");
    assert_eq!(
        without_effect(spec("b"), json!([]), &[], false),
        Vec::<String>::new(),
        "it went later"
    );
    assert_eq!(without_effect(spec("a"), json!([]), &[], true), Vec::<String>::new());
    // A skip is read in each reconcile; one that had its effect was about something.
    let skip = || json!({"skip": ["b"]});
    assert_eq!(without_effect(skip(), json!([]), &[], false).len(), 1);
    let skipped = json!([{"what": "Skipped", "subject": "b", "message": ""}]);
    assert_eq!(without_effect(skip(), skipped, &[], false), Vec::<String>::new());
    let other = json!([{"what": "Skipped", "subject": "c", "message": ""}]);
    assert_eq!(without_effect(skip(), other, &[], false).len(), 1);
}

/// ST-060, ST-063: a retry of one Application lifts the quarantine of its present target, or else that
/// of the run that it is of, and of no other run.
#[test]
fn a_retry_of_one_lifts_what_holds_it_st_063() {
    let with_target = |revision: &str, call: &mut dyn FnMut(&Row<'_>)| {
        let revisions = vec![revision.to_owned()];
        let seen = changed(&|one| one.revisions = revisions.clone());
        let entry = Entry { target_revisions: revisions.clone(), ..entry(Phase::Pending) };
        with_row(&seen, &entry, Some(&started()), |row| call(row));
    };
    let held = |quarantine: &Quarantine, revision: &str| {
        let mut run = None;
        with_target(revision, &mut |row| run = quarantine.run_of(row));
        run
    };
    let of = |runs: &[(u64, &str)]| {
        let mut quarantine = Quarantine::default();
        for (number, revision) in runs {
            let add = &mut |row: &Row<'_>| quarantine.add_run(*number, std::slice::from_ref(row));
            with_target(revision, add);
        }
        quarantine
    };
    let lifted = |runs: &[(u64, &str)], number: u64, revision: &str| {
        let mut quarantine = of(runs);
        with_target(revision, &mut |row| quarantine.lift_one(number, row));
        [held(&quarantine, "r2"), held(&quarantine, "r9")]
    };
    for (name, runs, number, revision, want) in [
        ("its target", &[(3, "r2")][..], 7, "r2", [None, None]),
        ("its run", &[(3, "r2")], 3, "r8", [None, None]),
        ("another run", &[(3, "r2")], 4, "r8", [Some(3), None]),
        ("the other one stays", &[(3, "r2"), (4, "r9")], 4, "r2", [None, Some(4)]),
    ] {
        assert_eq!(lifted(runs, number, revision), want, "{name}");
    }
    // A run that is aborted, and taken back then, is one; what it held for new ones stays so.
    let twice = of(&[(3, "r2"), (3, "r9")]);
    assert_eq!([held(&twice, "r2"), held(&twice, "r9")], [Some(3); 2]);
    let mut again = of(&[(3, "r2")]);
    let text = again.text();
    assert!(text.ends_with(".new"), "{text}");
    again.add_run(3, &[]);
    assert_eq!(again.text(), text);
}
