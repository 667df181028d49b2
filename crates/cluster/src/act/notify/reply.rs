//! What an answer of a sink means.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::failure::{DeliveryFailure, Failed};

/// The longest pause that a sink may ask for.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whether a message was delivered.
///
/// # Errors
///
/// When it was not. Redirects are not followed: they could lead to an address that is refused.
pub(super) fn judge(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Result<(), Failed> {
    if status.is_success() {
        return Ok(());
    }
    let is_passing = status.is_server_error()
        || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS]
            .contains(&status);
    let code = status.as_u16();
    if is_passing {
        let text = format!("it answers with code {code}");
        let not_before = retry_after(headers, now).unwrap_or_default();
        return Err(Failed { not_before, ..Failed::new(DeliveryFailure::Status, text) });
    }
    let text = match status.is_redirection() {
        true => format!("it answers with code {code}, and redirects are not followed"),
        false => format!("it refuses the message with code {code}"),
    };
    Err(Failed::new(DeliveryFailure::Refused, text))
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = DateTimeParser::new().parse_timestamp(text).ok()?;
            Duration::try_from(at.duration_since(now)).unwrap_or_default()
        }
    };
    Some(pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_as_st_084() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let cases = [
            (200, "", None),
            (202, "9", None),
            (204, "", None),
            (302, "", Some((DeliveryFailure::Refused, 0))),
            (307, "5", Some((DeliveryFailure::Refused, 0))),
            (400, "", Some((DeliveryFailure::Refused, 0))),
            (404, "", Some((DeliveryFailure::Refused, 0))),
            (410, "", Some((DeliveryFailure::Refused, 0))),
            (408, "", Some((DeliveryFailure::Status, 0))),
            (425, "", Some((DeliveryFailure::Status, 0))),
            (429, "30", Some((DeliveryFailure::Status, 30))),
            (429, "Thu, 01 Jan 2026 00:02:00 GMT", Some((DeliveryFailure::Status, 120))),
            (429, "Wed, 31 Dec 2025 00:02:00 GMT", Some((DeliveryFailure::Status, 0))),
            (500, "soon", Some((DeliveryFailure::Status, 0))),
            (503, "99999999999", Some((DeliveryFailure::Status, 3600))),
        ];
        for (code, retry_after, want) in cases {
            let mut headers = HeaderMap::new();
            if !retry_after.is_empty() {
                headers.insert(header::RETRY_AFTER, retry_after.parse().unwrap());
            }
            let found = judge(StatusCode::from_u16(code).unwrap(), &headers, now).err();
            let found = found.map(|failed| (failed.why, failed.not_before.as_secs()));
            assert_eq!(found, want, "{code} {retry_after}");
        }
    }
}
