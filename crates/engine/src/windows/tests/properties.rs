//! Compares the evaluation with a minute-by-minute implementation of the specification.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AUTO, project};
use crate::windows::{SyncAttempt, evaluate, project_windows};

/// A window as sets of numbers, from which its fields are generated.
#[derive(Clone, Debug)]
struct Simple {
    allow: bool,
    minutes: BTreeSet<i8>,
    /// Empty means every hour.
    hours: BTreeSet<i8>,
    /// Empty means every day.
    weekdays: BTreeSet<i8>,
    length: i64,
    manual_sync: bool,
    sync_overrun: bool,
}

fn listed(numbers: &BTreeSet<i8>) -> String {
    match numbers.len() {
        0 => "*".to_owned(),
        _ => numbers.iter().map(i8::to_string).collect::<Vec<_>>().join(","),
    }
}

impl Simple {
    fn entry(&self, zone: &str) -> Value {
        let (minutes, hours) = (listed(&self.minutes), listed(&self.hours));
        json!({
            "kind": if self.allow { "allow" } else { "deny" },
            "schedule": format!("{minutes} {hours} * * {}", listed(&self.weekdays)),
            "duration": format!("{}m", self.length),
            "timeZone": zone,
            "applications": ["*"],
            "manualSync": self.manual_sync,
            "syncOverrun": self.sync_overrun,
        })
    }

    fn shows(&self, clock: &Zoned) -> bool {
        let every = |set: &BTreeSet<i8>, value| set.is_empty() || set.contains(&value);
        every(&self.minutes, clock.minute())
            && every(&self.hours, clock.hour())
            && every(&self.weekdays, clock.weekday().to_sunday_zero_offset())
    }

    /// Whether it starts at this minute: by its schedule, or because its time was skipped
    /// by a clock change to this minute.
    fn starts(&self, minute: Timestamp, zone: &TimeZone) -> bool {
        let clock = minute.to_zoned(zone.clone());
        let before = (minute - SignedDuration::from_mins(1)).to_zoned(zone.clone());
        // The skipped local time, in UTC.
        let mut missed = before.datetime() + SignedDuration::from_mins(1);
        let mut hit = self.shows(&clock);
        while missed < clock.datetime() && !self.hours.is_empty() {
            hit |= self.shows(&missed.to_zoned(TimeZone::UTC).unwrap());
            missed += SignedDuration::from_mins(1);
        }
        hit
    }

    /// SE-405, for a whole minute or half of one.
    fn open(&self, starts: &BTreeSet<Timestamp>, now: Timestamp) -> bool {
        let length = SignedDuration::from_mins(self.length);
        starts.range(now - length..now).any(|start| *start < now && now < *start + length)
    }
}

/// SE-406 and SE-408.
fn allowed(all: &[(Simple, BTreeSet<Timestamp>)], attempt: &SyncAttempt, now: Timestamp) -> bool {
    let kind = |allow: bool, open: bool| -> Vec<&Simple> {
        let is = |(window, starts): &&(Simple, BTreeSet<Timestamp>)| {
            window.allow == allow && window.open(starts, now) == open
        };
        all.iter().filter(is).map(|(window, _)| window).collect()
    };
    let excused = |stopping: &[&Simple]| {
        let is_manual = attempt.manual && stopping.iter().all(|window| window.manual_sync);
        let overrun = attempt.started_at.is_some_and(|began| {
            stopping.iter().all(|window| window.sync_overrun)
                && allowed(all, &SyncAttempt { started_at: None, ..*attempt }, began)
        });
        is_manual || overrun
    };
    let denying = kind(false, true);
    if !denying.is_empty() {
        return excused(&denying);
    }
    if !kind(true, true).is_empty() {
        return true;
    }
    let shut = kind(true, false);
    shut.is_empty() || excused(&shut)
}

fn simple() -> impl Strategy<Value = Simple> {
    let set = |values: std::ops::Range<i8>, sizes: std::ops::Range<usize>| {
        prop::collection::btree_set(values, sizes)
    };
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let length = prop_oneof![1_i64..120, 120_i64..1500];
    (set(0..60, 1..4), set(0..24, 0..4), set(0..7, 0..3), length, flags).prop_map(
        |(minutes, hours, weekdays, length, (allow, manual_sync, sync_overrun))| Simple {
            allow,
            minutes,
            hours,
            weekdays,
            length,
            manual_sync,
            sync_overrun,
        },
    )
}

/// Days with clock changes, and one without.
const DAYS: [(&str, &str); 6] = [
    ("UTC", "2024-01-15T00:00:00Z"),
    ("Europe/Berlin", "2024-03-30T12:00:00Z"),
    ("Europe/Berlin", "2024-10-26T12:00:00Z"),
    ("America/New_York", "2024-03-10T00:00:00Z"),
    ("Australia/Lord_Howe", "2024-10-05T04:00:00Z"),
    ("Pacific/Apia", "2011-12-29T22:00:00Z"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_evaluation_equals_a_minute_by_minute_evaluation(
        simples in prop::collection::vec(simple(), 0..4),
        day in 0..DAYS.len(),
        manual: bool,
        began in prop::option::of(0_i64..1440),
    ) {
        let (name, from) = DAYS[day];
        let (zone, from) = (TimeZone::get(name).unwrap(), super::at(from));
        let minutes = |count: i64| SignedDuration::from_mins(count);
        let entries: Vec<Value> = simples.iter().map(|simple| simple.entry(name)).collect();
        let list = project_windows(&project(json!(entries)));
        let all: Vec<(Simple, BTreeSet<Timestamp>)> = simples
            .into_iter()
            .map(|simple| {
                // The longest window started a little more than a day before.
                let range = (-1501..1440).map(|count| from + minutes(count));
                let starts = range.filter(|minute| simple.starts(*minute, &zone)).collect();
                (simple, starts)
            })
            .collect();
        let attempt = SyncAttempt { manual, started_at: began.map(|count| from + minutes(count)), ..AUTO };

        let mut quiet: Option<(Timestamp, Vec<bool>)> = None;
        for half in 0..2 * 1440 {
            let now = from + SignedDuration::from_secs(30 * half);
            let evaluation = evaluate(&list, &attempt, now);
            prop_assert_eq!(evaluation.allowed, allowed(&all, &attempt, now), "at {}", now);
            prop_assert!(evaluation.next_change.is_none_or(|at| now < at), "at {}", now);
            // No window starts or ends before the returned time, except between two
            // adjacent windows.
            if half % 2 == 1 {
                let open: Vec<bool> = all.iter().map(|(window, starts)| window.open(starts, now)).collect();
                if let Some((until, before)) = quiet.take().filter(|(until, _)| now < *until) {
                    prop_assert_eq!(&open, &before, "before {}", until);
                }
                quiet = evaluation.next_change.map(|at| (at, open));
            }
        }
    }

    #[test]
    fn no_window_causes_a_panic(
        kind in "allow|deny|[a-z]{0,3}",
        schedule in "[-*?/,0-9a-z ]{0,20}|[*] [*] [*] [*] [*]",
        duration in "[0-9.]{0,12}[a-zµ]{0,2}|.{0,6}",
        zone in "UTC|Europe/Berlin|[A-Za-z/_+0-9-]{0,12}|.{0,6}",
        glob in "[-a-z*?{},!\\[\\]\\\\]{0,12}|.{0,6}",
        seconds in -377_705_023_201_i64..=253_402_207_200,
        manual: bool,
        started in prop::option::of(-377_705_023_201_i64..=253_402_207_200),
    ) {
        let project = project(json!([{
            "kind": kind, "schedule": schedule, "duration": duration, "timeZone": zone,
            "applications": [glob], "namespaces": ["prod"], "syncOverrun": true,
        }]));
        let time = |seconds| Timestamp::from_second(seconds).unwrap();
        let attempt = SyncAttempt { manual, started_at: started.map(time), ..AUTO };
        let list = project_windows(&project);
        let evaluation = evaluate(&list, &attempt, time(seconds));
        prop_assert!(!evaluation.reason.is_empty());
        prop_assert_eq!(evaluation.problem.is_some(), list[0].rule.is_err());
        // An invalid window is rejected on validation.
        prop_assert!(list[0].rule.is_ok() || !crate::windows::window_problems(&project).is_empty());
    }
}
