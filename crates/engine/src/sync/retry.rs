//! What follows a failed attempt: another one after a backoff, or the end.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use wavegate_api::app_spec::{Backoff, RetryStrategy};
use wavegate_api::operation::OperationPhase;

/// An invalid duration; retries are pointless until it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse {0} as a duration")]
pub struct BadDuration(pub String);

/// What follows the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// The operation has ended, with this phase and message.
    Over {
        /// A completed phase.
        phase: OperationPhase,
        /// The attempt's message, with the number of retries.
        message: String,
    },
    /// Another attempt follows. The operation stays `Running`; meanwhile
    /// `finishedAt` is set. At `at`, results and progress are dropped.
    Again {
        /// When.
        at: Timestamp,
        /// Its number, from 1: the new `retryCount`.
        attempt: u64,
        /// The message until then.
        message: String,
    },
}

/// Decides what follows an attempt that ended at `now` (SE-390..SE-396).
///
/// `terminated` means that a user or the sync timeout stopped it: no retry. A
/// dry-run operation is retried like any other.
pub fn decide_retry(
    strategy: Option<&RetryStrategy>,
    retry_count: u64,
    phase: OperationPhase,
    message: &str,
    terminated: bool,
    now: Timestamp,
) -> RetryDecision {
    let message = message.to_owned();
    let Some(strategy) = strategy.filter(|_| phase.has_failed() && !terminated) else {
        return RetryDecision::Over { phase, message };
    };
    if u64::try_from(strategy.limit).is_ok_and(|limit| retry_count >= limit) {
        let message = match retry_count {
            0 => message,
            times => format!("{message} (retried {times} times)."),
        };
        return RetryDecision::Over { phase, message };
    }
    let attempt = retry_count.saturating_add(1);
    let wait = match retry_delay(strategy.backoff.as_ref(), attempt) {
        Ok(wait) => wait,
        Err(error) => {
            let message = format!("{message} (failed to retry: {error})");
            return RetryDecision::Over { phase: OperationPhase::Error, message };
        }
    };
    let at = now.checked_add(wait).unwrap_or(Timestamp::MAX);
    let clock = at.to_zoned(TimeZone::UTC);
    let (hour, half) = match clock.hour() {
        hour @ 0..12 => (hour, "AM"),
        hour => (hour - 12, "PM"),
    };
    let hour = if hour == 0 { 12 } else { hour };
    let time = format!("{hour}:{:02}{half}", clock.minute());
    let message = format!("{message}. Retrying attempt #{attempt} at {time}.");
    RetryDecision::Again { at, attempt, message }
}

/// The message with which a retry begins (SE-390).
pub fn retry_message(attempt: u64, refresh: bool) -> String {
    match refresh {
        true => format!("Retrying operation with latest revisions. Attempt #{attempt}"),
        false => format!("Retrying operation. Attempt #{attempt}"),
    }
}

/// The delay before retry `n`, counted from 1 (SE-392..SE-394).
///
/// Never negative. Limited to the maximum backoff, or else to the longest
/// duration.
///
/// # Errors
///
/// [`BadDuration`] when one of the texts is not a duration.
pub fn retry_delay(backoff: Option<&Backoff>, n: u64) -> Result<SignedDuration, BadDuration> {
    let backoff = backoff.cloned().unwrap_or_default();
    let or = |text: &str, default: &str| match text {
        "" => duration(default),
        text => duration(text),
    };
    let first = or(&backoff.duration, "5s")?;
    let longest = or(&backoff.max_duration, "3m")?;
    let cap = if longest > 0 { longest } else { i128::from(i64::MAX) };
    let factor = i128::from(backoff.factor.unwrap_or(2).max(0));

    let mut wait = first.max(0);
    for _ in 1..n {
        let next = wait.saturating_mul(factor).min(cap);
        // From here on the delay is constant, however large n is.
        if next == wait {
            break;
        }
        wait = next;
    }
    let nanoseconds = wait.min(cap);
    Ok(SignedDuration::from_nanos(i64::try_from(nanoseconds).unwrap_or(i64::MAX)))
}

/// Nanoseconds of a duration: whole seconds, or Go's notation.
fn duration(text: &str) -> Result<i128, BadDuration> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(i128::from(seconds) * 1_000_000_000);
    }
    match gotime::duration::parse(text) {
        Ok(duration) => Ok(duration.as_nanos()),
        Err(_) => Err(BadDuration(text.to_owned())),
    }
}
