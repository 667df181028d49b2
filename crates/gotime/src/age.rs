//! Ages in the short form of `kubectl get`.

use std::time::Duration;

use jiff::Timestamp;

/// How long before `now` the RFC 3339 time `then` was, such as `5d3h` or `17s`; `0s` for a
/// time in the future, `<unknown>` for a text that is no time.
pub fn age_since(then: &str, now: Timestamp) -> String {
    let Ok(then) = then.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    let passed =
        Duration::from_secs(u64::try_from(now.as_second() - then.as_second()).unwrap_or(0));
    human_duration(passed)
}

/// A duration with two units at most, as `kubectl` prints it.
pub fn human_duration(passed: Duration) -> String {
    let s = passed.as_secs();
    let (minutes, hours, days, years) = (s / 60, s / 3600, s / 86_400, s / (86_400 * 365));
    let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{big}{big_unit}")
        } else {
            format!("{big}{big_unit}{small}{small_unit}")
        }
    };
    match s {
        0..120 => format!("{s}s"),
        120..600 => two(minutes, "m", s % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}
