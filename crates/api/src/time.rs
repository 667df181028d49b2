//! Timestamps as Kubernetes stores them: whole seconds, UTC.

use jiff::Timestamp;
use serde_json::Value;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The timestamp as the API server stores it: without fractions of a second. Compare
/// stored timestamps with this value.
pub fn stored_time(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(at)
}

/// The identity of what a person said, from its time: without fractions of a second, which people
/// may write and nothing stores again. What was said without a time has that of the epoch.
pub fn of_word(at: Option<&Time>) -> Time {
    Time(at.map_or(Timestamp::UNIX_EPOCH, |at| stored_time(at.0)))
}

/// RFC 3339 with whole seconds, such as `2026-01-01T00:00:00Z`.
pub fn to_rfc3339(at: Timestamp) -> String {
    stored_time(at).to_string()
}

/// Parses RFC 3339 with or without fractions; `None` for anything else.
pub fn from_rfc3339(text: &str) -> Option<Timestamp> {
    text.trim().parse().ok()
}

/// The time in a field of a raw object; `None` for anything else.
pub fn of_field(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
