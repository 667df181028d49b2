//! What is known of the other sets (C16), in times that no test of the controller can wait for.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::application_set::plan::ownership_transfer::{
    self, LONGEST_PAUSE, Other, PAUSE, Releases, SAME_CHANGE,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + seconds)
}

fn other(applications: &[&str], error: bool, is_current: bool) -> Other {
    let all: Vec<Value> = applications.iter().map(|name| generated(name, json!({}))).collect();
    let mut generated = generated_by(&set(), &DecisionSettings::default(), &all);
    generated.error = error.then(|| crate::desired::GenerateError::Options("line 3".into()));
    let generated = Some(Arc::new(generated));
    Other { name: "other".into(), uid: "u".into(), generated, is_current, failing_since: None }
}

fn existing(name: &str) -> Existing {
    let mut live = live(&generated(name, json!({})));
    live["metadata"]["uid"] = name.into();
    let set = set();
    let generated = generated_by(&set, &DecisionSettings::default(), &[]);
    let id = Identity::of(&set);
    Existing::read(&live, None, &Rules::of(&id, &generated))
}

fn deletes() -> Vec<Delete> {
    vec![Delete { name: "x".to_owned(), uid: "x".to_owned(), version: None, release: None }]
}

/// Released at second 0.
fn releases() -> Releases {
    let mut releases = Releases::default();
    releases.update(1, [existing("x")].iter(), at(0));
    releases
}

#[test]
fn what_another_set_generated_last_counts_until_it_is_read_again() {
    for is_current in [true, false] {
        let others = [other(&["x"], false, is_current)];
        assert_eq!(
            ownership_transfer::taker(&others, &existing("x")),
            Some("other"),
            "{is_current}"
        );
        // It is read for as long as it takes, and then the other set counts as not generating it.
        let others = [other(&[], false, is_current)];
        let pause = if is_current { PAUSE } else { LONGEST_PAUSE };
        let until = ownership_transfer::wait(&others, &releases(), &deletes(), at(0)).unwrap();
        assert_eq!(until.at, at(0) + pause, "{is_current}");
        assert_eq!(until.until.contains("ApplicationSet other is read"), !is_current);
        assert!(
            ownership_transfer::wait(&others, &releases(), &deletes(), at(0) + pause).is_none()
        );
    }
}

#[test]
fn a_set_that_failed_last_is_in_doubt_also_while_it_is_read_again() {
    let minutes = |count: i64| 60 * count;
    for is_current in [true, false] {
        // (failing since, held since, now, in doubt)
        for (failing, held, now, in_doubt) in [
            (None, None, 0, true),
            (Some(5), None, 10, true),
            (Some(-minutes(9)), None, 10, true),
            (Some(-minutes(11)), None, 10, false),
            // It stays so for as long as it fails.
            (Some(5), None, minutes(600), true),
        ] {
            let mut one = other(&[], true, is_current);
            one.failing_since = failing.map(at);
            let held = held.map(at);
            let failed = |releases: &Releases| {
                ownership_transfer::failed(&[one.clone()], releases, &deletes(), held, at(now))
                    .len()
            };
            assert_eq!(failed(&releases()) == 1, in_doubt, "{failing:?} {now} {is_current}");
        }
        // After a restart, the condition says since when they are held.
        let mut one = other(&[], true, is_current);
        one.failing_since = Some(at(5));
        let mut fresh = Releases::default();
        let now = at(5) + SAME_CHANGE + SAME_CHANGE;
        fresh.update(1, [existing("x")].iter(), now);
        let failed = |held: Option<Timestamp>| {
            ownership_transfer::failed(&[one.clone()], &fresh, &deletes(), held, now).len()
        };
        assert_eq!((failed(None), failed(Some(at(6)))), (0, 1));
    }
}

#[test]
fn a_release_is_that_of_one_spec() {
    let mut releases = releases();
    releases.update(1, [existing("x")].iter(), at(50));
    let until =
        |releases: &Releases, now| ownership_transfer::wait(&[], releases, &deletes(), at(now));
    assert!(until(&releases, 50).is_none());
    releases.update(2, [existing("x")].iter(), at(60));
    assert_eq!(until(&releases, 60).unwrap().at, at(60) + PAUSE);
}
