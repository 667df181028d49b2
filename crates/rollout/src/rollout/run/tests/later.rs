//! A status that a later version wrote: what this one does not know of an entry stays with it.

use super::*;

/// Puts a field of a later version into each entry of the lists of a status, and returns the
/// number of entries by list.
fn add_fields(status: &mut RolloutRunStatus, size: usize) {
    let mut raw = serde_json::to_value(&*status).unwrap();
    for list in ["from", "to", "steps", "gates", "waitingFor", "timeline"] {
        for (index, entry) in raw[list].as_array_mut().into_iter().flatten().enumerate() {
            entry["fromLater"] = json!({"index": index, "text": "x".repeat(size)});
        }
    }
    *status = serde_json::from_value(raw).unwrap();
}

fn kept(status: &RolloutRunStatus) -> Vec<usize> {
    let raw = serde_json::to_value(status).unwrap();
    let count = |list: &str| {
        let entries = raw[list].as_array().into_iter().flatten().enumerate();
        entries.filter(|(at, entry)| entry["fromLater"]["index"] == json!(at)).count()
    };
    ["from", "to", "steps", "gates", "waitingFor", "timeline"].map(count).to_vec()
}

#[test]
fn unknown_fields_of_entries_that_stay_are_written_back() {
    let mut fleet = Fleet::new(&[2, 2], json!(null)).policy(gate(1, "0s"));
    fleet.push("r2");
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::AwaitingApproval);
    add_fields(&mut fleet.runs[0].2, 0);
    let before = kept(fleet.status());
    let timeline = before[5];
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    fleet.run(2);
    assert_eq!(kept(fleet.status()), before, "nothing changes");
    let covers = fleet.status().gates[0].covers.clone();
    fleet.said(|spec| {
        let approval = json!([{"gate": "production", "by": "ann", "covers": covers}]);
        spec.approvals = serde_json::from_value(approval).unwrap();
    });
    fleet.run(20);
    assert_eq!(fleet.status().phase, RunPhase::Complete);
    assert!(fleet.status().timeline.len() > timeline, "it went on");
    assert_eq!(kept(fleet.status()), [before[0], before[1], 2, 1, 0, timeline]);
}

#[test]
fn unknown_fields_do_not_make_a_status_too_large() {
    let mut fleet = Fleet::new(&[1, 1], json!(null)).policy(gate(1, "0s"));
    fleet.push("r2");
    fleet.run(10);
    add_fields(&mut fleet.runs[0].2, 12 << 10);
    fleet.push("r3");
    let decided = fleet.decide().run.unwrap();
    let stored = serde_json::to_string(&decided.status).unwrap();
    assert!(stored.contains("fromLater") && stored.len() < 6 * (33 << 10), "{}", stored.len());
}

/// The command refuses it; written with kubectl, it was recorded as acted on.
#[test]
fn a_skip_while_a_run_goes_back_has_no_effect_and_is_told_as_st_073() {
    let mut fleet = Fleet::new(&[1, 2], json!(null));
    fleet.push("r2");
    fleet.run(1);
    fleet.said(|spec| spec.skip.push("s2-1".to_owned()));
    fleet.run(20);
    assert_eq!(fleet.status().skipped, ["s2-1"]);
    fleet.roll_back();
    fleet.apps.get_mut("s2-0").unwrap().fails_at = Some("r1".to_owned());
    fleet.run(8);
    assert_eq!(fleet.status().phase, RunPhase::RollingBack);
    for name in ["s2-0", "s1-0", "typo"] {
        fleet.said(|spec| spec.skip.push(name.to_owned()));
    }
    fleet.run(2);
    let why = "the run goes back, and a skip keeps nothing from its way back";
    let want = [
        "skip: the set has no Application typo".to_owned(),
        format!("the skip of s2-0: {why}"),
        format!("the skip of s1-0: {why}"),
    ];
    assert_eq!(fleet.status().without_effect, want);
    assert_eq!(fleet.status().skipped, ["s2-1"]);
    fleet.apps.get_mut("s2-0").unwrap().fails_at = None;
    fleet.retry();
    fleet.run(30);
    assert_eq!((fleet.status().phase, fleet.deployed("r1")), (RunPhase::RolledBack, 3));
    assert_eq!(fleet.status().without_effect, want, "it is told once");
    let timeline = fleet.status().timeline.iter();
    let told = |what: &str| timeline.clone().filter(|entry| entry.what == what).count();
    assert_eq!((told("Skipped"), told("WithoutEffect")), (1, 3));
}
