//! ST-005: what a status forgets when it would be too large, in this order.

use std::collections::BTreeSet;

use super::super::admitted;
use super::super::quarantine::Quarantine;
use super::super::status_size::bound_size;
use super::super::target_set::{Short, digests_text};
use super::*;
use wavegate_api::run::{RunFailure, RunGate, TimelineEntry};

/// A status with so many transitions and failures, whose messages have this length, and with gates
/// that have let through so many targets.
fn status(transitions: usize, failures: usize, length: usize, admits: &[u32]) -> RolloutRunStatus {
    let message = |number: usize| format!("{number:03}{}", "m".repeat(length - 3));
    let spread = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let admitted = |(gate, count): (usize, &u32)| {
        let first = u32::try_from(gate).unwrap() * 100_000;
        let digests: BTreeSet<Short> = (first..first + count).map(spread).collect();
        RunGate {
            name: format!("gate-{gate}"),
            admits: digests_text(&digests, 10_000),
            ..RunGate::default()
        }
    };
    RolloutRunStatus {
        timeline: (0..transitions)
            .map(|number| TimelineEntry { message: message(number), ..TimelineEntry::default() })
            .collect(),
        failures: (0..failures)
            .map(|number| RunFailure { message: message(number), ..RunFailure::default() })
            .collect(),
        gates: admits.iter().enumerate().map(admitted).collect(),
        ..RolloutRunStatus::default()
    }
}

fn bounded(before: &RolloutRunStatus) -> RolloutRunStatus {
    let mut status = before.clone();
    bound_size(&mut status, &BTreeSet::new());
    let mut packed = status.clone();
    admitted::pack(&mut packed, &BTreeSet::new());
    let length = serde_json::to_string(&packed).unwrap().len();
    assert!(length <= 64 << 10, "{length}");
    status
}

#[test]
fn words_go_first_and_then_what_saves_an_approval_as_st_005() {
    let fits = status(100, 30, 400, &[]);
    assert_eq!(bounded(&fits), fits);
    // Long words are shortened, but for the last transitions.
    let long = status(30, 5, 3_000, &[]);
    let short = bounded(&long);
    let lengths = |status: &RolloutRunStatus| -> Vec<usize> {
        status.timeline.iter().map(|entry| entry.message.len()).collect()
    };
    assert_eq!(lengths(&short), [[100; 10], [100; 10], [3_000; 10]].concat());
    assert!(short.failures.iter().all(|failure| failure.message.len() == 100));
    assert_eq!(short.failures.len(), 5);
    // Many are forgotten, the earliest transitions and the last failures.
    let many = status(700, 30, 90, &[]);
    let few = bounded(&many);
    assert_eq!(few.timeline, many.timeline[680..]);
    assert_eq!(few.failures, many.failures[..10]);
    // What the gate with most targets has let through.
    let admitting = status(30, 12, 90, &[6_000, 10_000, 7_000]);
    let shut = bounded(&admitting);
    let admits = |status: &RolloutRunStatus| -> Vec<bool> {
        status.gates.iter().map(|gate| !gate.admits.is_empty()).collect()
    };
    assert_eq!(admits(&admitting), [true; 3]);
    assert_eq!(admits(&shut), [true, false, true]);
    assert_eq!((shut.timeline.len(), shut.failures.len()), (20, 10));
}

/// A run that was about nothing is not remembered.
#[test]
fn a_quarantine_has_only_what_was_about_something_as_st_060() {
    let mut quarantine = Quarantine::default();
    quarantine.add_run(1, &[]);
    assert_eq!(quarantine.text(), "");
}
