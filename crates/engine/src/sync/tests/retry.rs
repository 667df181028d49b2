//! Retry (A.6).

use jiff::{SignedDuration, Timestamp};

use super::super::*;
use super::world::START;
use wavegate_api::app_spec::{Backoff, RetryStrategy};
use wavegate_api::operation::OperationPhase;

fn backoff(duration: &str, factor: i64, max_duration: &str) -> Backoff {
    let [duration, max_duration] = [duration, max_duration].map(str::to_owned);
    Backoff { duration, factor: Some(factor), max_duration, ..Backoff::default() }
}

#[test]
fn delays() {
    let cases: Vec<(&str, Option<Backoff>, Vec<i64>)> = vec![
        ("V-160, SE-393", None, vec![5, 10, 20, 40, 80, 160, 180, 180]),
        ("SE-393", Some(backoff("10s", 2, "5m")), vec![10, 20, 40, 80, 160, 300, 300]),
        ("SE-393", Some(backoff("2s", 3, "1m")), vec![2, 6, 18, 54, 60, 60, 60]),
        ("SE-393", Some(backoff("7", 1, "3m")), vec![7, 7, 7, 7]),
        ("SE-393", Some(backoff("5s", 0, "3m")), vec![5, 0, 0, 0]),
        ("SE-393", Some(backoff("1m", 10, "0")), vec![60, 600, 6000, 60000]),
        ("V-164", Some(backoff("2m", 2, "3m")), vec![120, 180, 180]),
        ("no wait into the past", Some(backoff("5s", -2, "")), vec![5, 0, 0]),
    ];
    for (row, backoff, want) in cases {
        for (n, want) in (1..).zip(want) {
            assert_eq!(retry_delay(backoff.as_ref(), n).unwrap().as_secs(), want, "{row} n={n}");
        }
    }
    assert_eq!(retry_delay(None, 80).unwrap().as_secs(), 180, "V-166");
    assert_eq!(retry_delay(None, u64::MAX).unwrap().as_secs(), 180, "V-166");
    let endless = backoff("1m", 10, "0");
    assert_eq!(
        retry_delay(Some(&endless), u64::MAX).unwrap().as_nanos(),
        i64::MAX.into(),
        "SE-394"
    );
    let still = backoff("5s", 1, "");
    assert_eq!(retry_delay(Some(&still), u64::MAX).unwrap().as_secs(), 5);
}

#[test]
fn durations() {
    let first = |text: &str| retry_delay(Some(&backoff(text, 2, "0")), 1);
    let cases = [
        ("90", 90_000),
        ("1m30s", 90_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        (".5s", 500),
        ("1h", 3_600_000),
        ("-3s", 0),
    ];
    for (text, want) in cases {
        assert_eq!(first(text).unwrap().as_millis(), want, "{text}");
    }
    for text in ["abc", "1", "s", "-", "1x", "1..5s", "5 s", "1m30", "99999999999999999999s"] {
        assert_eq!(first(text).is_ok(), text == "1", "{text}");
    }
}

fn attempts(limit: i64) -> (usize, String) {
    let strategy = RetryStrategy { limit, ..RetryStrategy::default() };
    let now = Timestamp::from_second(START).unwrap();
    let (mut count, mut runs) = (0, 1);
    loop {
        match decide_retry(Some(&strategy), count, OperationPhase::Failed, "no luck", false, now) {
            RetryDecision::Again { attempt, .. } => (count, runs) = (attempt, runs + 1),
            RetryDecision::Over { message, .. } => return (runs, message),
        }
        if runs > 50 {
            return (runs, String::new());
        }
    }
}

#[test]
fn limits() {
    assert_eq!(attempts(3), (4, "no luck (retried 3 times).".into()), "V-161");
    assert_eq!(attempts(0), (1, "no luck".into()), "V-162");
    assert_eq!(attempts(-1).0, 51, "V-163");
}

#[test]
fn ends_and_messages() {
    let now = Timestamp::from_second(START).unwrap();
    let once = RetryStrategy { limit: 1, ..RetryStrategy::default() };
    let over = |strategy, phase, terminated| {
        matches!(decide_retry(strategy, 0, phase, "m", terminated, now), RetryDecision::Over { .. })
    };
    assert!(over(None, OperationPhase::Failed, false));
    assert!(over(Some(&once), OperationPhase::Succeeded, false));
    assert!(over(Some(&once), OperationPhase::Failed, true), "SE-285: not after termination");
    assert!(!over(Some(&once), OperationPhase::Error, false));

    let bad = RetryStrategy { backoff: Some(backoff("abc", 2, "")), ..once.clone() };
    assert_eq!(
        decide_retry(Some(&bad), 0, OperationPhase::Failed, "m", false, now),
        RetryDecision::Over {
            phase: OperationPhase::Error,
            message: "m (failed to retry: unable to parse abc as a duration)".into()
        },
        "V-165"
    );
    let RetryDecision::Again { at, attempt, message } =
        decide_retry(Some(&once), 0, OperationPhase::Failed, "m", false, now)
    else {
        panic!("a retry is left");
    };
    assert_eq!((at, attempt), (now + SignedDuration::from_secs(5), 1), "announced is real");
    assert_eq!(message, "m. Retrying attempt #1 at 10:13PM.", "SE-390");
    assert_eq!(retry_message(2, false), "Retrying operation. Attempt #2");
    assert_eq!(retry_message(2, true), "Retrying operation with latest revisions. Attempt #2");
}

#[test]
fn wave_delay_setting() {
    let cases = [(None, 2), (Some("0"), 0), (Some("x"), 2), (Some("10"), 10), (Some("-1"), 0)];
    for (text, want) in cases {
        assert_eq!(wave_delay(text).as_secs(), want, "V-102 {text:?}");
    }
}
