//! Go's `time.Time` and `time.Duration`.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use gotime::duration;

/// A point in time with its display zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoTime {
    pub stamp: Timestamp,
    pub zone: TimeZone,
    /// The abbreviation of the zone if the zone itself has none, as after parsing `MST`.
    pub abbreviation: Option<String>,
}

impl GoTime {
    pub fn utc(stamp: Timestamp) -> Self {
        Self { stamp, zone: TimeZone::UTC, abbreviation: None }
    }

    /// Go's zero time, the first of January of the year 1.
    pub fn zero() -> Self {
        Self::utc(Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    pub fn from_unix(seconds: i64) -> Self {
        let edge = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self::utc(Timestamp::from_second(seconds).unwrap_or(edge))
    }

    pub fn civil(&self) -> DateTime {
        self.zone.to_datetime(self.stamp)
    }

    /// The same point in time in another zone.
    pub fn within(&self, zone: TimeZone) -> Self {
        Self { stamp: self.stamp, zone, abbreviation: None }
    }

    /// Offset from UTC in seconds, and the abbreviation of the zone.
    pub fn offset(&self) -> (i32, String) {
        let info = self.zone.to_offset_info(self.stamp);
        let seconds = info.offset().seconds();
        let name = match &self.abbreviation {
            Some(name) => name.clone(),
            None if self.zone == TimeZone::UTC => "UTC".to_owned(),
            None if self.zone.iana_name().is_none() => String::new(),
            None => info.abbreviation().to_owned(),
        };
        (seconds, name)
    }

    /// Adds nanoseconds, clamped to jiff's range.
    pub fn add(&self, nanoseconds: i64) -> Self {
        let edge = if nanoseconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let stamp = self.stamp.checked_add(SignedDuration::from_nanos(nanoseconds)).unwrap_or(edge);
        Self { stamp, ..self.clone() }
    }

    /// Nanoseconds since another time, clamped to 64 bits.
    pub fn since(&self, other: &Self) -> i64 {
        let nanos = self.stamp.as_nanosecond() - other.stamp.as_nanosecond();
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// Adds years, months and days; days beyond the end of a month overflow into the next.
    pub fn add_date(&self, years: i64, months: i64, days: i64) -> Option<Self> {
        let t = self.civil();
        let month = i64::from(t.year()).checked_add(years)?.checked_mul(12)?;
        let month = month.checked_add(i64::from(t.month()) - 1)?.checked_add(months)?;
        let year = i16::try_from(month.div_euclid(12)).ok()?;
        let first =
            jiff::civil::Date::new(year, i8::try_from(month.rem_euclid(12)).ok()? + 1, 1).ok()?;
        let days = i64::from(t.day()).checked_sub(1)?.checked_add(days)?;
        let date = first.checked_add(SignedDuration::from_hours(days.checked_mul(24)?)).ok()?;
        let civil = date.to_datetime(t.time());
        let stamp = self.zone.to_ambiguous_timestamp(civil).compatible().ok()?;
        Some(Self { stamp, ..self.clone() })
    }
}

/// A fixed zone, UTC itself for no offset.
pub(super) fn fixed_zone(seconds: i32) -> Option<TimeZone> {
    if seconds == 0 {
        return Some(TimeZone::UTC);
    }
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Parses a duration such as `1h30m` or `-1.5s`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let parsed = duration::parse(text).ok()?;
    i64::try_from(parsed.as_nanos()).ok()
}

/// Prints a duration as Go does: `1h0m0s`, `1.5s`, `0s`.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    duration::print_duration(SignedDuration::from_nanos(nanoseconds))
}

/// Rounds a duration to a multiple, half away from zero.
pub(crate) fn round_duration(d: i64, multiple: i64) -> i64 {
    if multiple <= 0 {
        return d;
    }
    let (d, m) = (i128::from(d), i128::from(multiple));
    let rest = d % m;
    let rounded = if rest.abs() * 2 < m { d - rest } else { d - rest + m * d.signum() };
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}
