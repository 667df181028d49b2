//! Timestamps as Kubernetes stores them: whole seconds, UTC.

use jiff::{Timestamp, Unit};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The timestamp as the API server stores it: without fractions of a second. Compare
/// stored timestamps with this value.
pub fn stored(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(at)
}

/// [`stored`] as a status field.
pub fn stored_time(at: Timestamp) -> Time {
    Time(stored(at))
}

/// RFC 3339 with whole seconds, such as `2026-01-01T00:00:00Z`.
pub fn to_rfc3339(at: Timestamp) -> String {
    stored(at).to_string()
}

/// RFC 3339 with nine fractional digits, for values that must differ although they were
/// created in the same second (AS-361).
pub fn to_rfc3339_nanos(at: Timestamp) -> String {
    format!("{at:.9}")
}

/// Parses RFC 3339 with or without fractions; `None` for anything else.
pub fn from_rfc3339(text: &str) -> Option<Timestamp> {
    text.trim().parse().ok()
}

/// Whole seconds between two timestamps, never negative.
pub fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    let seconds = to.since((Unit::Second, from)).map_or(0, |span| span.get_seconds());
    u64::try_from(seconds).unwrap_or(0)
}
