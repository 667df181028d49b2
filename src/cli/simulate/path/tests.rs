use super::*;
use crate::cli::simulate::fixtures::{RUN, application, at, empty, gate, set, step};
use crate::cli::simulate::timeline::{GateKind, GateLine, Opening, StepLine};
use wavegate_simulation::Waits;

/// The parts of a rollout with one set, as step, seconds, what took them, and what shortens them.
fn parts_of(timeline: &Timeline) -> Vec<(usize, i64, String, String)> {
    let parts = parts(timeline).into_iter();
    parts.map(|part| (part.step, part.seconds, part.what, part.shorten)).collect()
}

fn of(seconds: i64, steps: Vec<StepLine>) -> Timeline {
    let mut timeline = empty(seconds);
    timeline.sets.push(set("shop", steps));
    timeline
}

/// What a set waits for from some seconds on.
fn waits(timeline: &mut Timeline, all: &[(i64, &[WaitKind])]) {
    let line = |(from, kinds): &(i64, &[WaitKind])| Waits {
        from: at(*from),
        kinds: kinds.iter().copied().collect(),
    };
    timeline.sets[0].waits = all.iter().map(line).collect();
}

#[test]
fn runs_that_were_superseded_have_parts_of_their_own() {
    let spans = "0 b 30 h 300 w 301 b 331 h 700";
    let mut first = step(1, None, (300, 330), vec![application("a", spans)]);
    let opening = |opened: i64, completed: Option<i64>, ended: Option<i64>| Opening {
        run: "shop-1".into(),
        opened: at(opened),
        completed: completed.map(at),
        ended: ended.map(at),
    };
    first.earlier = vec![opening(0, Some(30), None)];
    let held = "0 w 30 l 300 w 330 l 600 b 630 h 700";
    let mut second = step(2, None, (330, 630), vec![application("b", held)]);
    second.earlier = vec![opening(30, None, Some(300))];
    let before = gate("production", GateKind::Approval, 30, None);
    second.gates = vec![
        GateLine { run: "shop-1".into(), ended: Some(at(300)), ..before },
        gate("production", GateKind::Approval, 330, Some(600)),
    ];
    let mut timeline = of(700, vec![first, second]);
    timeline.sets[0].runs.insert(0, "shop-1".into());
    let parts = parts(&timeline);
    let found: Vec<(&str, usize, i64)> =
        parts.iter().map(|part| (part.run.as_str(), part.step, part.seconds)).collect();
    let want = [("shop-1", 1, 30), ("shop-1", 2, 270), (RUN, 1, 30), (RUN, 2, 270), (RUN, 2, 30)];
    assert_eq!(found, want);
    assert!(parts[2].what.ends_with("1 Application: a with 29s"), "{}", parts[2].what);
    // What was superseded is not to be shortened: the commit came when it came.
    assert_eq!((parts[0].shorten.as_str(), parts[1].shorten.as_str()), ("", ""));
    assert_eq!(shortens(&parts), Some("an earlier approval of gate production"));
}

#[test]
fn of_several_gates_each_counts_for_what_it_alone_holds() {
    let held = "0 l 3660 b 3690 h 3700";
    let mut line = step(1, None, (0, 3690), vec![application("a", held)]);
    let soak = gate("quiet", GateKind::Soak, 0, Some(3600));
    line.gates = vec![
        GateLine { soaks_until: Some(at(3600)), ..soak },
        gate("people", GateKind::Approval, 0, Some(3660)),
    ];
    let parts = parts_of(&of(3700, vec![line]));
    let texts: Vec<(i64, &str)> =
        parts.iter().map(|(_, seconds, what, _)| (*seconds, what.as_str())).collect();
    let want = [
        (3600, "gate quiet soaks, gate people waits for approvals"),
        (60, "gate people waits for approvals"),
        (30, "1 Application: a with 30s"),
    ];
    assert_eq!(texts, want);
    assert_eq!(
        parts[0].3,
        "the soak of gate quiet, together with an earlier approval of gate people"
    );
    assert_eq!(parts[1].3, "an earlier approval of gate people");
}

#[test]
fn a_gate_with_a_soak_and_approvals_waits_for_what_comes_last() {
    for (opened, want) in [
        (600, vec![(600, "the soak of gate qa")]),
        (
            900,
            vec![
                (600, "the soak of gate qa together with an earlier approval of it"),
                (300, "an earlier approval of gate qa"),
            ],
        ),
    ] {
        let held = format!("0 l {opened} b 930 h 940");
        let mut line = step(1, None, (0, 930), vec![application("a", &held)]);
        let gate = gate("qa", GateKind::Both, 0, Some(opened));
        line.gates = vec![GateLine { soaks_until: Some(at(600)), ..gate }];
        let parts = parts_of(&of(940, vec![line]));
        let found: Vec<(i64, &str)> =
            parts.iter().map(|(_, seconds, _, shorten)| (*seconds, shorten.as_str())).collect();
        assert_eq!(found[..want.len()], want, "{opened}");
    }
}

#[test]
fn what_holds_a_step_between_its_batches_is_named() {
    for (kind, want) in [
        (WaitKind::Paused, "the pause"),
        (WaitKind::SyncWindow, "the sync window"),
        (WaitKind::FailureBudget, "an earlier retry"),
    ] {
        let spans = ["0 b 30 h 700", "0 w 10 l 600 b 630 h 700"];
        let applications = spans.map(|spans| application("a", spans)).into();
        let mut timeline = of(700, vec![step(1, Some(1), (0, 630), applications)]);
        waits(&mut timeline, &[(0, &[WaitKind::MaxUpdate]), (10, &[kind]), (600, &[])]);
        let parts = parts(&timeline);
        let found: Vec<(i64, &str)> =
            parts.iter().map(|part| (part.seconds, part.shorten.as_str())).collect();
        // While one is in flight, it is not held.
        assert_eq!(found, [(60, "maxUpdate of step 1"), (570, want)]);
        assert_eq!(shortens(&parts), Some(want));
    }
}

#[test]
fn the_limit_that_others_wait_for_is_the_one_that_would_shorten() {
    for (kind, want) in [
        (WaitKind::MaxInFlight, "maxInFlight of the policy"),
        (WaitKind::Pace, "the ramp or the spread of the policy"),
        (WaitKind::MaxUpdate, "maxUpdate of step 1"),
    ] {
        let spans = ["0 b 30 h 90", "0 w 30 b 60 h 90", "0 w 60 b 90 h 90"];
        let applications = spans.map(|spans| application("a", spans)).into();
        let mut timeline = of(90, vec![step(1, Some(2), (0, 90), applications)]);
        waits(&mut timeline, &[(0, &[WaitKind::Health, kind]), (60, &[WaitKind::Health])]);
        assert_eq!(shortens(&parts(&timeline)), Some(want));
    }
}

#[test]
fn what_never_ends_is_not_to_be_shortened() {
    let line = step(1, None, (0, 0), vec![application("a", "0 b 100")]);
    let line = StepLine { completed: None, ..line };
    let mut timeline = of(100, vec![line]);
    timeline.is_complete = false;
    let parts = parts(&timeline);
    assert_eq!((parts[0].seconds, parts[0].shorten.as_str()), (100, ""));
    assert_eq!(shortens(&parts), None);
}

#[test]
fn of_several_sets_the_one_that_ends_last_counts() {
    let mut timeline = of(90, vec![step(1, None, (0, 60), vec![application("a", "0 b 60 h 90")])]);
    let limited = ["0 b 30 h 90", "30 b 60 h 90", "60 b 90 h 90"];
    let last = limited.map(|spans| application("b", spans)).into();
    timeline.sets.push(set("last", vec![step(1, Some(2), (0, 90), last)]));
    assert_eq!(shortens(&parts(&timeline)), Some("maxUpdate of step 1"));
}
