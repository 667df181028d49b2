//! Times as offsets from the start, and the ticks of a time axis.

use jiff::Timestamp;

use super::timeline::Timeline;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Distances of ticks that are easy to count in, each in milliseconds and a number of them.
const DISTANCES: [(i64, &[i64]); 5] = [
    (1, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (SECOND, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1]),
];

/// The simulated time. Offsets from its start are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    start: i64,
    /// The length of the simulated time; 0 when the end is not after the start.
    pub length: i64,
}

impl TimeAxis {
    /// The clock of a timeline.
    pub fn of(timeline: &Timeline) -> Self {
        let (start, end) = (timeline.start.as_millisecond(), timeline.end.as_millisecond());
        Self { start, length: end.saturating_sub(start).max(0) }
    }

    /// The offset of a time; the start or the end for times outside.
    pub fn offset(self, time: Timestamp) -> i64 {
        time.as_millisecond().saturating_sub(self.start).clamp(0, self.length)
    }

    /// The offsets of a time that lasts until another one, or the end.
    pub fn span(self, from: Timestamp, until: Option<Timestamp>) -> (i64, i64) {
        let from = self.offset(from);
        (from, until.map_or(self.length, |until| self.offset(until)).max(from))
    }

    /// How long after the start a time is, also when that is after the end.
    pub fn since_start(self, time: Timestamp) -> i64 {
        time.as_millisecond().saturating_sub(self.start).max(0)
    }

    /// Which part of the simulated time an offset is, from 0 to 1.
    pub fn part(self, offset: i64) -> f64 {
        match self.length {
            0 => 0.0,
            length => offset as f64 / length as f64,
        }
    }
}

/// The offsets of at most `most` ticks, the first one at 0, all at a round distance.
pub fn ticks(length: i64, most: usize) -> Vec<i64> {
    let most = i64::try_from(most).unwrap_or(i64::MAX).max(1);
    let fits = |distance: &i64| length / distance < most;
    let round = DISTANCES.iter().flat_map(|(unit, numbers)| numbers.iter().map(move |n| n * unit));
    // Whole days, doubled, for weeks and more.
    let days = std::iter::successors(Some(DAY), |distance| distance.checked_mul(2));
    let distance = round.chain(days).find(fits);
    let Some(distance) = distance else { return vec![0] };
    (0..=length / distance).map(|tick| tick * distance).collect()
}

/// A duration with all its units, such as `1h2m3s` or `1.5s`; `0s` for none.
pub fn exact(duration: i64) -> String {
    units(duration, usize::MAX)
}

/// A duration in at most two units, such as `1h2m`; what is less is cut off.
pub fn short(duration: i64) -> String {
    units(duration, 2)
}

fn units(duration: i64, most: usize) -> String {
    let mut left = duration.max(0);
    let mut out = String::new();
    let mut used = 0;
    for (unit, size) in [("d", DAY), ("h", HOUR), ("m", MINUTE)] {
        let number = left / size;
        // Units follow each other: after `2d`, minutes alone would read as hours.
        if used > 0 && used < most || number > 0 && used == 0 {
            used += 1;
            left %= size;
            if number > 0 {
                out.push_str(&format!("{number}{unit}"));
            }
        }
    }
    let (seconds, rest) = (left / SECOND, left % SECOND);
    // Beside hours, parts of a second are noise.
    let shows_rest = rest > 0 && (most > 2 || used == 0 && seconds < 10);
    match (used < most, shows_rest) {
        (true, true) => {
            let digits = format!("{rest:03}");
            out.push_str(&format!("{seconds}.{}s", digits.trim_end_matches('0')));
        }
        (true, false) if seconds > 0 || out.is_empty() => out.push_str(&format!("{seconds}s")),
        _ => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_or_exact() {
        let cases = [
            (-5, "0s", "0s"),
            (0, "0s", "0s"),
            (1, "0.001s", "0.001s"),
            (1500, "1.5s", "1.5s"),
            (30_000, "30s", "30s"),
            (30_100, "30.1s", "30s"),
            (60_000, "1m", "1m"),
            (90_000, "1m30s", "1m30s"),
            (90_500, "1m30.5s", "1m30s"),
            (HOUR, "1h", "1h"),
            (HOUR + 3_000, "1h3s", "1h"),
            (HOUR + 2 * MINUTE + 3_000, "1h2m3s", "1h2m"),
            (7 * DAY, "7d", "7d"),
            (DAY + 5 * MINUTE, "1d5m", "1d"),
            (DAY + 6 * HOUR + MINUTE, "1d6h1m", "1d6h"),
        ];
        for (duration, want_exact, want_short) in cases {
            assert_eq!(exact(duration), want_exact, "{duration}");
            assert_eq!(short(duration), want_short, "{duration}");
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let labels =
            |length, most| -> Vec<String> { ticks(length, most).into_iter().map(exact).collect() };
        assert_eq!(labels(0, 8), ["0s"]);
        assert_eq!(labels(100_000, 1), ["0s"]);
        assert_eq!(labels(100_000, 0), ["0s"]);
        assert_eq!(labels(700, 8), ["0s", "0.1s", "0.2s", "0.3s", "0.4s", "0.5s", "0.6s", "0.7s"]);
        assert_eq!(labels(100_000, 5), ["0s", "30s", "1m", "1m30s"]);
        assert_eq!(labels(HOUR, 8), ["0s", "10m", "20m", "30m", "40m", "50m", "1h"]);
        assert_eq!(labels(7 * DAY, 8), ["0s", "1d", "2d", "3d", "4d", "5d", "6d", "7d"]);
        assert_eq!(labels(21 * DAY, 8), ["0s", "4d", "8d", "12d", "16d", "20d"]);
        for length in [1, 999, 60_001, 7 * HOUR, 400 * DAY, i64::MAX] {
            for most in [1, 2, 7, 20] {
                let ticks = ticks(length, most);
                assert!(!ticks.is_empty() && ticks.len() <= most.max(1), "{length} {most}");
            }
        }
    }

    #[test]
    fn times_outside_are_the_start_or_the_end() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let clock = TimeAxis { start: 10_000, length: 5_000 };
        assert_eq!(clock.offset(second(3)), 0);
        assert_eq!(clock.offset(second(12)), 2_000);
        assert_eq!(clock.offset(second(99)), 5_000);
        assert_eq!(TimeAxis { start: 0, length: 0 }.part(0), 0.0);
    }
}
