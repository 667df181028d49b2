//! Parsing and evaluating schedules (SE-402, SE-404).

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::Schedule;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

#[test]
fn fields_are_read() {
    // Schedules in the same row are equal.
    let cases = [
        ("* * * * *", "? ? ? ? ?"),
        ("*/15 * * * *", "0,15,30,45 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("50/15 * * * *", "50 * * * *"),
        ("10-30/10 * * * *", "10,20,30 * * * *"),
        ("0 0 * JAN-mar *", "0 0 * 1-3 *"),
        ("0 0 * * SUN,Tue-sat", "0 0 * * 0,2,3,4,5,6"),
        ("0 0 * * fri/1", "0 0 * * 5-6"),
        ("  0\t0 1 1 ? ", "0 0 1 1 *"),
        ("0 007 +1 * *", "0 7 1 * *"),
        ("0,,5 * * * *", "0,5 * * * *"),
        ("*/1 0 */1 * *", "* 0 * * *"),
        ("0 0 */99 * *", "0 0 1-1/2 * *"),
    ];
    for (text, same) in cases {
        assert_eq!(Schedule::parse(text), Schedule::parse(same), "{text}");
        assert!(Schedule::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn errors_name_the_field() {
    let cases = [
        ("60 * * * *", "minute field \"60\": 60 is out of range; 0-59 is allowed"),
        ("* 24 * * *", "hour field \"24\": 24 is out of range; 0-23 is allowed"),
        ("* * 0 * *", "day of month field \"0\": 0 is out of range; 1-31 is allowed"),
        ("* * 32 * *", "day of month field \"32\": 32 is out of range; 1-31 is allowed"),
        ("* * * 13 *", "month field \"13\": 13 is out of range; 1-12 and jan-dec are allowed"),
        ("* 10 * * 7", "day of week field \"7\": 7 is out of range; 0-6 and sun-sat are allowed"),
        ("* * * * monday", "day of week field \"monday\": \"monday\" is not a value"),
        ("jan * * * *", "minute field \"jan\": \"jan\" is not a value"),
        ("-5 * * * *", "minute field \"-5\": \"\" is not a value"),
        ("5-1 * * * *", "minute field \"5-1\": the range 5-1 ends before it starts"),
        ("1-2-3 * * * *", "minute field \"1-2-3\": \"2-3\" is not a value"),
        ("*-5 * * * *", "minute field \"*-5\": \"*\" is not a value"),
        ("*/0 * * * *", "minute field \"*/0\": \"0\" is not a step"),
        ("*/ * * * *", "minute field \"*/\": \"\" is not a step"),
        ("*/5/5 * * * *", "minute field \"*/5/5\": \"5/5\" is not a step"),
        ("* * L * *", "day of month field \"L\": \"L\" is not a value"),
        ("* * * * 1#2", "day of week field \"1#2\": \"1#2\" is not a value"),
        (", * * * *", "minute field \",\": contains no value"),
        ("* * * *", "expected 5 fields (minute, hour, day of month, month, day of week), found 4"),
        ("", "expected 5 fields (minute, hour, day of month, month, day of week), found 0"),
        ("@daily", "found 1; descriptors are not supported"),
        ("CRON_TZ=UTC 0 0 * * *", "found 6; set timeZone instead"),
        ("0 0 0 * * *", "found 6"),
    ];
    for (text, want) in cases {
        let error = Schedule::parse(text).unwrap_err().to_string();
        assert!(error.contains(want), "{text}: {error}");
        assert_eq!(error.contains("timeZone"), text.contains("TZ="), "{text}: {error}");
    }
}

#[test]
fn starts_are_found_in_both_directions() {
    // Two consecutive starts; 2024-01-15 is a Monday.
    let cases = [
        ("0 9 * * 1-5", "UTC", "2024-01-12T09:00:00Z", "2024-01-15T09:00:00Z"),
        ("*/20 * * * *", "UTC", "2024-01-15T23:40:00Z", "2024-01-16T00:00:00Z"),
        ("59 23 31 12 *", "UTC", "2023-12-31T23:59:00Z", "2024-12-31T23:59:00Z"),
        ("0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("eight years without 29 February", "UTC", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("V-198: the 1st", "UTC", "2024-01-29T00:00:00Z", "2024-02-01T00:00:00Z"),
        ("V-198: or a Monday", "UTC", "2024-02-01T00:00:00Z", "2024-02-05T00:00:00Z"),
        ("0 0 */2 * 1", "UTC", "2024-01-13T00:00:00Z", "2024-01-15T00:00:00Z"),
        ("0 0 * * */2", "UTC", "2024-01-13T00:00:00Z", "2024-01-14T00:00:00Z"),
        ("0 0 1,* * 1", "UTC", "2024-01-15T00:00:00Z", "2024-01-22T00:00:00Z"),
        ("0 22 * * *", "Europe/Amsterdam", "2024-01-14T21:00:00Z", "2024-01-15T21:00:00Z"),
        // Clocks go forward on 2024-03-31 at 01:00Z and back on 2024-10-27.
        ("0 22 * * *", "Europe/Amsterdam", "2024-03-30T21:00:00Z", "2024-03-31T20:00:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"),
        ("0 3 * * *", "Europe/Berlin", "2024-03-31T01:00:00Z", "2024-04-01T01:00:00Z"),
        ("30 * * * *", "Europe/Berlin", "2024-03-31T00:30:00Z", "2024-03-31T01:30:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"),
        ("59 2 * * *", "Europe/Berlin", "2024-10-27T01:59:00Z", "2024-10-28T01:59:00Z"),
        // Half an hour forward at 02:00 on 2024-10-06.
        ("10 2 * * *", "Australia/Lord_Howe", "2024-10-04T15:40:00Z", "2024-10-05T15:30:00Z"),
        // A whole day was skipped: 2011-12-30.
        // At 03:00 the clock goes back to 02:00, and it is 03:00 an hour later.
        ("0 3 * * *", "Europe/Berlin", "2024-10-26T01:00:00Z", "2024-10-27T02:00:00Z"),
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z"),
        ("0 9 * * *", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z"),
    ];
    for (text, name, first, second) in cases {
        let schedule = match text {
            _ if text.starts_with("V-198") => "0 0 1 * 1",
            _ if text.starts_with("eight") => "0 0 29 2 *",
            text => text,
        };
        let (schedule, zone) = (Schedule::parse(schedule).unwrap(), zone(name));
        let (first, second) = (at(first), at(second));
        let moment = SignedDuration::from_nanos(1);
        assert_eq!(schedule.next(&zone, first), Some(first), "{text}: at {first}");
        assert_eq!(schedule.next(&zone, first + moment), Some(second), "{text}: after {first}");
        assert_eq!(schedule.previous(&zone, second), Some(second), "{text}: at {second}");
        assert_eq!(
            schedule.previous(&zone, second - moment),
            Some(first),
            "{text}: before {second}"
        );
    }
}

/// An unbounded search, or one minute by minute through nine years (4.7 million of them),
/// would exceed the limit of this test (SE-405, SE-585).
#[test]
fn schedules_that_never_start_are_detected_quickly() {
    // Other processes do not count.
    let began = wavegate_net::clock::thread_time();
    let mut searches = 0;
    for text in ["0 0 31 2 *", "* * 30 2 ?", "0 0 31 2,4,6,9,11 *"] {
        let schedule = Schedule::parse(text).unwrap();
        for name in ["UTC", "Europe/Berlin", "Africa/Casablanca"] {
            for from in ["2024-01-15T00:00:00Z", "1900-01-01T00:00:00Z", "9990-01-01T00:00:00Z"] {
                assert_eq!(schedule.next(&zone(name), at(from)), None, "{text}");
                assert_eq!(schedule.previous(&zone(name), at(from)), None, "{text}");
                searches += 2;
            }
        }
    }
    let each = (wavegate_net::clock::thread_time() - began) / searches;
    assert!(each < std::time::Duration::from_millis(50), "{each:?} for one search");
}

#[test]
fn minimum_and_maximum_timestamps_are_supported() {
    for text in ["* * * * *", "0 0 29 2 *", "30 2 * 3 *"] {
        let schedule = Schedule::parse(text).unwrap();
        for name in ["UTC", "Europe/Amsterdam", "Pacific/Kiritimati"] {
            let zone = zone(name);
            assert!(schedule.next(&zone, Timestamp::MIN).is_some(), "{text} in {name}");
            assert!(schedule.previous(&zone, Timestamp::MAX).is_some(), "{text} in {name}");
            // There is no start, and no overflow.
            assert_eq!(schedule.next(&zone, Timestamp::MAX), None, "{text} in {name}");
            let before = schedule.previous(&zone, Timestamp::MIN);
            assert!(before.is_none_or(|start| start <= Timestamp::MIN), "{text} in {name}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_rejected(text in "[-*?/,0-9a-zA-Z+@ #]{0,40}|.{0,20}") {
        if let Ok(schedule) = Schedule::parse(&text) {
            let now = at("2024-03-30T12:34:56.7Z");
            let berlin = zone("Europe/Berlin");
            prop_assert!(schedule.next(&berlin, now).is_none_or(|start| start >= now));
            prop_assert!(schedule.previous(&berlin, now).is_none_or(|start| start <= now));
        }
    }

    #[test]
    fn next_and_previous_agree(
        minute in "\\*/[1-9][0-9]?|[1-5]?[0-9]|\\*",
        hour in "\\*/[1-9]|1?[0-9]|\\*",
        day in "\\*|[12]?[1-9]",
        week in "\\*|[0-6]",
        seconds in 1_577_836_800_i64..1_893_456_000,
        name in prop::sample::select(vec!["UTC", "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe"]),
    ) {
        let schedule = Schedule::parse(&format!("{minute} {hour} {day} * {week}")).unwrap();
        let zone = zone(name);
        let now = Timestamp::from_second(seconds).unwrap();
        let next = schedule.next(&zone, now).unwrap();
        prop_assert_eq!(schedule.previous(&zone, next), Some(next));
        let before = schedule.previous(&zone, next - SignedDuration::from_nanos(1)).unwrap();
        prop_assert!(before < now);
        prop_assert_eq!(schedule.next(&zone, before + SignedDuration::from_nanos(1)), Some(next));
    }
}
