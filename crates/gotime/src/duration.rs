//! Durations in Go's notation, such as `90m` or `1h30m0s`.

use jiff::SignedDuration;

/// Units from the shortest to the longest, in nanoseconds. There is none for
/// days. Both letters that stand for "micro" are known.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("µs", MICROSECOND),
    ("μs", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];
const MICROSECOND: i128 = 1_000;
const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// Digits of a fraction that are read; further ones are below a
/// nanosecond in every unit.
const FRACTION: usize = 18;

/// What is wrong with a text that should be a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing, or only a sign.
    #[error("it is empty; write 90m or 1h30m")]
    Empty,
    /// A number, and nothing behind it.
    #[error("a unit is missing behind {0:?}; h, m and s are allowed")]
    NoUnit(String),
    /// Letters behind a number that mean nothing, `d` among them.
    #[error("unknown unit {0:?}; h, m and s are allowed")]
    UnknownUnit(String),
    /// No digit before a unit, or more than one point.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// More nanoseconds than 64 bits hold.
    #[error("it is longer than 292 years")]
    TooLong,
}

/// Reads numbers with units from `ns` to `h`, behind an optional sign. A number
/// without a unit is none, except `0`. Parts of a nanosecond are dropped.
///
/// # Errors
///
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    match rest {
        "0" => return Ok(SignedDuration::ZERO),
        "" => return Err(DurationError::Empty),
        _ => {}
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        let Some((_, unit)) = UNITS.iter().find(|(known, _)| *known == name) else {
            return Err(match name {
                "" => DurationError::NoUnit(number.to_owned()),
                name => DurationError::UnknownUnit(name.to_owned()),
            });
        };
        total = total.saturating_add(nanoseconds(number, *unit)?);
        rest = tail;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map(SignedDuration::from_nanos).map_err(|_| DurationError::TooLong)
}

/// A number with an optional fraction, counted in a unit.
fn nanoseconds(number: &str, unit: i128) -> Result<i128, DurationError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::NotANumber(number.to_owned()));
    }
    let digits = |text: &str| match text {
        "" => Ok(0),
        text => text.parse::<i128>().map_err(|_| DurationError::TooLong),
    };
    let fraction = &fraction[..fraction.len().min(FRACTION)];
    let scale = fraction.bytes().fold(1_i128, |scale, _| scale * 10);
    let part = digits(fraction)? * unit / scale;
    Ok(digits(whole)?.saturating_mul(unit).saturating_add(part))
}

/// The one form that Go prints: `1h30m0s`, `1.5s`, `20ms`, `0s`.
pub fn print_duration(duration: SignedDuration) -> String {
    let nanoseconds = duration.as_nanos();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let nanoseconds = nanoseconds.abs();
    let count = |nanoseconds: i128, unit: i128| {
        let width = unit.to_string().len() - 1;
        let rest = format!("{:0width$}", nanoseconds % unit);
        let rest = rest.trim_end_matches('0');
        let point = if rest.is_empty() { "" } else { "." };
        format!("{}{point}{rest}", nanoseconds / unit)
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..MICROSECOND => format!("{sign}{nanoseconds}ns"),
        MICROSECOND..MILLISECOND => format!("{sign}{}µs", count(nanoseconds, MICROSECOND)),
        MILLISECOND..SECOND => format!("{sign}{}ms", count(nanoseconds, MILLISECOND)),
        _ => {
            let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
            let seconds = count(nanoseconds % MINUTE, SECOND);
            match (hours, minutes) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, _) => format!("{sign}{minutes}m{seconds}s"),
                _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_how_it_is_printed() {
        let rows = [
            ("90m", 90 * MINUTE, "1h30m0s"),
            ("1h30m", 90 * MINUTE, "1h30m0s"),
            ("45s", 45 * SECOND, "45s"),
            ("1m0.5s", 60_500 * MILLISECOND, "1m0.5s"),
            ("1.5h", 90 * MINUTE, "1h30m0s"),
            (".5s", 500 * MILLISECOND, "500ms"),
            ("1.s", SECOND, "1s"),
            ("1500us", 1_500 * MICROSECOND, "1.5ms"),
            ("2µs", 2 * MICROSECOND, "2µs"),
            ("2μs", 2 * MICROSECOND, "2µs"),
            ("7ns", 7, "7ns"),
            ("1.9ns", 1, "1ns"),
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0h", 0, "0s"),
            ("+1s", SECOND, "1s"),
            ("-1h1s", -HOUR - SECOND, "-1h0m1s"),
            ("0.123456789123456789123h", 444_444_440_844, "7m24.444440844s"),
            ("9223372036854775807ns", i64::MAX.into(), "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", i64::MIN.into(), "-2562047h47m16.854775808s"),
        ];
        for (text, want, printed) in rows {
            let got = parse(text).unwrap();
            assert_eq!(got.as_nanos(), want, "{text}");
            assert_eq!(print_duration(got), printed, "{text}");
            assert_eq!(parse(printed), Ok(got), "{printed} is a fixed point");
        }
    }

    #[test]
    fn what_is_refused() {
        let no_unit = |text: &str| DurationError::NoUnit(text.to_owned());
        let unknown = |text: &str| DurationError::UnknownUnit(text.to_owned());
        let no_number = |text: &str| DurationError::NotANumber(text.to_owned());
        let rows = [
            ("", DurationError::Empty),
            ("-", DurationError::Empty),
            ("5", no_unit("5")),
            ("1h5", no_unit("5")),
            ("00", no_unit("00")),
            ("1d", unknown("d")),
            ("soon", unknown("soon")),
            ("1 h", unknown(" h")),
            ("1h ", unknown("h ")),
            ("--1s", unknown("-")),
            ("s", no_number("")),
            (".s", no_number(".")),
            ("1.2.3s", no_number("1.2.3")),
            ("9223372036854775808ns", DurationError::TooLong),
            ("2562048h", DurationError::TooLong),
            ("99999999999999999999s", DurationError::TooLong),
            (&format!("{}h", "9".repeat(38)), DurationError::TooLong),
            (&format!("{}h", "9".repeat(99)), DurationError::TooLong),
        ];
        for (text, want) in rows {
            assert_eq!(parse(text), Err(want), "{text:?}");
        }
    }
}
