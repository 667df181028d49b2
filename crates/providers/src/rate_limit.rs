//! Limits on requests that servers announce.

use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::failure::{ProviderError, ProviderErrorKind};

/// The pause where a server says nothing about it, as GitHub asks for.
const PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// The longest pause: a server must not stop a set for good.
const LONGEST: SignedDuration = SignedDuration::from_hours(2);
/// Numbers below are seconds from now, others a time.
const FIRST_TIME: i64 = 1_000_000_000;

/// Errors of AWS because of too many requests, in several of its services. Their status is that
/// of any other error.
const THROTTLED: [&str; 7] = [
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Until when no request may be sent after this answer; `None` when it is about something
/// else.
pub(super) fn until(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Option<Timestamp> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<i64>().ok();
    let retry_after = || {
        let after = text("retry-after")?;
        match after.parse::<i64>() {
            Ok(seconds) => now.checked_add(SignedDuration::from_secs(seconds.max(0))).ok(),
            Err(_) => jiff::fmt::rfc2822::parse(after).ok().map(|at| at.timestamp()),
        }
    };
    let is_used_up = ["x-ratelimit-remaining", "ratelimit-remaining"]
        .into_iter()
        .any(|name| number(name) == Some(0));
    let is_limit = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => is_used_up || text("retry-after").is_some() || is_secondary(body),
        StatusCode::SERVICE_UNAVAILABLE => text("retry-after").is_some(),
        _ => false,
    };
    if !is_limit {
        return None;
    }
    let reset = || {
        let reset = number("x-ratelimit-reset").or_else(|| number("ratelimit-reset"))?;
        match reset < FIRST_TIME {
            true => now.checked_add(SignedDuration::from_secs(reset.max(0))).ok(),
            false => Timestamp::from_second(reset).ok(),
        }
    };
    let least = now.checked_add(SignedDuration::from_secs(1)).ok()?;
    let longest = now.checked_add(LONGEST).ok()?;
    let usual = now.checked_add(PAUSE).ok()?;
    let found = retry_after().or_else(|| reset().filter(|_| is_used_up)).unwrap_or(usual);
    Some(found.clamp(least, longest))
}

/// Whether GitHub refuses a request because too many come at once, though there are some left:
/// only the text says so.
fn is_secondary(body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let says = |field: &str, what: &str| {
        body[field].as_str().is_some_and(|text| text.to_ascii_lowercase().contains(what))
    };
    says("message", "rate limit")
        || says("message", "abuse detection")
        || says("documentation_url", "secondary-rate-limits")
}

/// Whether an error of AWS says that there were too many requests. Such a request is sent again
/// after a moment, as the libraries of AWS do.
pub(super) fn is_throttled(status: StatusCode, error: Option<&str>) -> bool {
    status == StatusCode::BAD_REQUEST && error.is_some_and(|error| THROTTLED.contains(&error))
}

/// The failure of a request to a server that says no time, from which on it may be sent again.
pub(super) fn failure_now(origin: &str, now: Timestamp) -> ProviderError {
    failure(origin, now.checked_add(PAUSE).unwrap_or(now))
}

/// The failure of a request before that time.
pub(super) fn failure(origin: &str, until: Timestamp) -> ProviderError {
    // In whole seconds, and not before it.
    let second = until.as_second() + i64::from(until.subsec_nanosecond() > 0);
    let shown = Timestamp::from_second(second).unwrap_or(until);
    let text = format!("the rate limit is exceeded: {origin} is asked again after {shown}");
    ProviderError { text, kind: ProviderErrorKind::Limited(shown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, headers, message, and the seconds of the pause.
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, Option<i64>);

    #[test]
    fn limits_are_read_from_answers() {
        const LEFT: (&str, &str) = ("x-ratelimit-remaining", "7");
        const SECONDARY: &str = "You have exceeded a secondary rate limit. Please wait";
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let cases: [Case; 16] = [
            (403, &[], "", None),
            (500, &[("retry-after", "5")], "", None),
            (429, &[], "", Some(60)),
            (429, &[("retry-after", "5")], "", Some(5)),
            (429, &[("retry-after", "99999999999999999999")], "", Some(60)),
            (429, &[("retry-after", "999999999")], "", Some(7200)),
            (503, &[("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT")], "", Some(30)),
            (
                403,
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000090")],
                "",
                Some(90),
            ),
            (403, &[LEFT, ("x-ratelimit-reset", "1800000090")], "", None),
            (429, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "40")], "", Some(40)),
            (429, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")], "", Some(1)),
            // Those of GitHub for many requests at once: the reset is that of the other limit.
            (403, &[LEFT, ("x-ratelimit-reset", "1800000090")], SECONDARY, Some(60)),
            (403, &[LEFT, ("retry-after", "30")], SECONDARY, Some(30)),
            (403, &[LEFT], "You have triggered an abuse detection mechanism.", Some(60)),
            (403, &[LEFT], "Resource not accessible by personal access token", None),
            (404, &[LEFT], SECONDARY, None),
        ];
        for (status, headers, message, want) in cases {
            let headers = headers.iter().map(|(name, value)| {
                (http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap())
            });
            let body = serde_json::json!({ "message": message }).to_string();
            let found = until(status.try_into().unwrap(), &headers.collect(), body.as_bytes(), now);
            let found = found.map(|until| until.as_second() - now.as_second());
            assert_eq!(found, want, "{status} {message}");
        }
        let documented = br#"{"documentation_url": "https://docs/#about-secondary-rate-limits"}"#;
        assert!(until(StatusCode::FORBIDDEN, &HeaderMap::new(), documented, now).is_some());
        for body in [&b"secondary rate limit"[..], b"[]", b"{\"message\": 1}", b"\xff"] {
            assert_eq!(until(StatusCode::FORBIDDEN, &HeaderMap::new(), body, now), None);
        }
    }
}
