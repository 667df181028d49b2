//! How long a window stays open: Go's notation, such as `1h30m` (SE-403).

use jiff::SignedDuration;

/// Reads numbers with units from `ns` to `h`. There is no unit for days, and
/// a number without a unit is none, except `0`. May be negative.
///
/// # Errors
///
/// What is wrong, in words.
pub(super) fn parse(text: &str) -> Result<SignedDuration, String> {
    let (negative, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err("it is empty; write 90m or 1h30m".to_owned());
    }
    let too_long = || "it is longer than 292 years".to_owned();
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => {
                return Err(format!("a unit is missing behind {digits:?}; h, m and s are allowed"));
            }
            unit => return Err(format!("unknown unit {unit:?}; h, m and s are allowed")),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(format!("{digits:?} is not a number"));
        }
        let whole: i64 = match whole {
            "" => 0,
            whole => whole.parse().map_err(|_| too_long())?,
        };
        let mut part = whole.checked_mul(unit).ok_or_else(too_long)?;
        let mut place = unit;
        for digit in fraction.bytes() {
            // Parts of a nanosecond are dropped.
            place /= 10;
            part = part.checked_add(i64::from(digit - b'0') * place).ok_or_else(too_long)?;
        }
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = tail;
    }
    Ok(SignedDuration::from_nanos(if negative { -total } else { total }))
}
