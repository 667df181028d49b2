//! Schedules of sync windows: five fields on the wall clock of a time zone.
//!
//! The fields are minute, hour, day of month, month and day of week, as in Argo CD's
//! parser (SE-402). Seconds, descriptors such as `@daily`, and `L`, `W` or `#` are not
//! supported.
//!
//! A schedule starts at each instant whose local time matches (SE-404). When clocks are
//! set back, a repeated minute starts twice. When they are set forward, a schedule with
//! given hours that would have started in the skipped time starts at the change: a window
//! that denies syncs from 02:30 must not be skipped once a year. A schedule for every
//! hour skips that hour.
//!
//! Searches are limited to nine years.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// How far to search for a start. The rarest date is 29 February, which is missing for
/// eight years around 2100; the ninth year is for time zone changes.
const HORIZON: SignedDuration = SignedDuration::from_hours(9 * 366 * 24);

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// Why a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// The number of fields is not five.
    #[error(
        "expected 5 fields (minute, hour, day of month, month, day of week), found {found}{hint}"
    )]
    Fields {
        /// The number of fields.
        found: usize,
        /// What may have been intended; may be empty.
        hint: &'static str,
    },
    /// A field is invalid.
    #[error("{field} field {text:?}: {reason}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Text of the field.
        text: String,
        /// Why it is invalid, and the allowed values.
        reason: String,
    },
}

/// Allowed values of a field.
struct Bounds {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values, starting at `min`.
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Bounds = Bounds { name: "hour", min: 0, max: 23, names: &[] };
const DAY_OF_MONTH: Bounds = Bounds { name: "day of month", min: 1, max: 31, names: &[] };
const MONTH: Bounds = Bounds {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Bounds = Bounds {
    name: "day of week",
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The values of a field, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether it contains `*` or `?` without a step: the field is not restricted.
    unrestricted: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits.checked_shr(value).unwrap_or(0) & 1 == 1)
    }

    /// The smallest value not less than the given one.
    fn from(self, value: u32) -> Option<u32> {
        let rest = self.bits & u64::MAX.checked_shl(value).unwrap_or(0);
        (rest != 0).then(|| rest.trailing_zeros())
    }

    /// The largest value not greater than the given one.
    fn to(self, value: u32) -> Option<u32> {
        let rest = self.bits & (u64::MAX >> 63_u32.saturating_sub(value));
        (rest != 0).then(|| 63 - rest.leading_zeros())
    }
}

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
}

impl Schedule {
    /// Parses five fields separated by spaces (SE-402).
    ///
    /// # Errors
    ///
    /// [`BadSchedule`] names the field. An empty list (`,`) and an end after a star
    /// (`*-5`) are errors here; Argo CD reads the first as never and the second as `*`.
    pub fn parse(text: &str) -> Result<Self, BadSchedule> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            let hint = match fields.first() {
                Some(first) if first.starts_with('@') => "; descriptors are not supported",
                Some(first) if first.starts_with("TZ=") || first.starts_with("CRON_TZ=") => {
                    "; set timeZone instead"
                }
                _ => "",
            };
            return Err(BadSchedule::Fields { found: fields.len(), hint });
        };
        Ok(Self {
            minute: field(minute, &MINUTE)?,
            hour: field(hour, &HOUR)?,
            day_of_month: field(day_of_month, &DAY_OF_MONTH)?,
            month: field(month, &MONTH)?,
            day_of_week: field(day_of_week, &DAY_OF_WEEK)?,
        })
    }

    /// The first start at or after `from`; `None` when there is none within nine years,
    /// which means never.
    pub fn next(&self, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
        let horizon = from.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
        let mut at = from;
        loop {
            // Between two changes of the zone, local time and UTC differ by a constant.
            let offset = zone.to_offset(at);
            let before = at.checked_sub(NANOSECOND).unwrap_or(Timestamp::MIN);
            if self.fires_in_gap(zone.to_offset(before), offset, at) {
                return Some(at);
            }
            let change = zone.following(at).next().map(|change| change.timestamp());
            let end = change.unwrap_or(Timestamp::MAX).min(horizon);
            let first = whole_minute_from(offset.to_datetime(at))?;
            if let Some(found) = self.first_in(first, offset.to_datetime(end)) {
                return offset.to_timestamp(found).ok();
            }
            if end >= horizon {
                return None;
            }
            at = end;
        }
    }

    /// The last start at or before `until`; `None` when there is none within nine years.
    pub fn previous(&self, zone: &TimeZone, until: Timestamp) -> Option<Timestamp> {
        let horizon = until.checked_sub(HORIZON).unwrap_or(Timestamp::MIN);
        let mut at = until;
        loop {
            let offset = zone.to_offset(at);
            // A change at this instant has already happened.
            let after = at.checked_add(NANOSECOND).unwrap_or(Timestamp::MAX);
            let change = zone.preceding(after).next().map(|change| change.timestamp());
            let begin = change.unwrap_or(Timestamp::MIN).max(horizon);
            if let Some(found) = self.last_in(offset.to_datetime(begin), offset.to_datetime(at)) {
                return offset.to_timestamp(found).ok();
            }
            if begin <= horizon {
                return None;
            }
            let before = begin.checked_sub(NANOSECOND).ok()?;
            if self.fires_in_gap(zone.to_offset(before), offset, begin) {
                return Some(begin);
            }
            at = before;
        }
    }

    /// Whether a start is in the local time that is skipped by the zone change at `change`: none
    /// is when clocks are set back, or when it is no change.
    fn fires_in_gap(&self, before: Offset, after: Offset, change: Timestamp) -> bool {
        !self.hour.unrestricted
            && whole_minute_from(before.to_datetime(change))
                .and_then(|first| self.first_in(first, after.to_datetime(change)))
                .is_some()
    }

    /// The first matching minute from `first`, a whole minute, until `end`, exclusive.
    fn first_in(&self, first: DateTime, end: DateTime) -> Option<DateTime> {
        let mut date = first.date();
        let (mut hour, mut minute) = (number(first.hour()), number(first.minute()));
        while date <= end.date() {
            let next = if !self.month.has(date.month()) {
                date.last_of_month().tomorrow()
            } else {
                let time = self.has_day(date).then(|| self.time_from(hour, minute)).flatten();
                if let Some(time) = time {
                    let found = date.to_datetime(time);
                    return (found < end).then_some(found);
                }
                date.tomorrow()
            };
            date = next.ok()?;
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The last matching minute from `begin` to `last`, inclusive.
    fn last_in(&self, begin: DateTime, last: DateTime) -> Option<DateTime> {
        let mut date = last.date();
        let (mut hour, mut minute) = (number(last.hour()), number(last.minute()));
        while date >= begin.date() {
            let next = if !self.month.has(date.month()) {
                date.first_of_month().yesterday()
            } else {
                let time = self.has_day(date).then(|| self.time_to(hour, minute)).flatten();
                if let Some(time) = time {
                    let found = date.to_datetime(time);
                    return (found >= begin).then_some(found);
                }
                date.yesterday()
            };
            date = next.ok()?;
            (hour, minute) = (23, 59);
        }
        None
    }

    /// When both day fields are restricted, one match is sufficient; otherwise both must
    /// match (SE-402).
    fn has_day(&self, date: Date) -> bool {
        let by_month = self.day_of_month.has(date.day());
        let by_week = self.day_of_week.has(date.weekday().to_sunday_zero_offset());
        if self.day_of_month.unrestricted || self.day_of_week.unrestricted {
            by_month && by_week
        } else {
            by_month || by_week
        }
    }

    fn time_from(&self, hour: u32, minute: u32) -> Option<Time> {
        let found = self.hour.from(hour)?;
        let in_hour = (found == hour).then(|| self.minute.from(minute)).flatten();
        match in_hour {
            Some(minute) => time(hour, minute),
            None => time(self.hour.from(hour + 1)?, self.minute.from(0)?),
        }
    }

    fn time_to(&self, hour: u32, minute: u32) -> Option<Time> {
        let found = self.hour.to(hour)?;
        let in_hour = (found == hour).then(|| self.minute.to(minute)).flatten();
        match in_hour {
            Some(minute) => time(hour, minute),
            None => time(self.hour.to(hour.checked_sub(1)?)?, self.minute.to(59)?),
        }
    }
}

fn number(value: i8) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn time(hour: u32, minute: u32) -> Option<Time> {
    Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok()
}

/// The same minute if it has just started, else the next.
fn whole_minute_from(at: DateTime) -> Option<DateTime> {
    let begun = at.date().to_datetime(time(number(at.hour()), number(at.minute()))?);
    if begun == at { Some(begun) } else { begun.checked_add(SignedDuration::from_mins(1)).ok() }
}

/// Parses one field: ranges separated by commas.
fn field(text: &str, bounds: &Bounds) -> Result<Field, BadSchedule> {
    let bad = |reason| BadSchedule::Field { field: bounds.name, text: text.to_owned(), reason };
    let mut field = Field { bits: 0, unrestricted: false };
    // As in Argo CD, extra commas are ignored.
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, star) = range(part, bounds).map_err(bad)?;
        field.bits |= bits;
        field.unrestricted |= star;
    }
    if field.bits == 0 {
        return Err(bad("contains no value".to_owned()));
    }
    Ok(field)
}

/// Parses `*`, `a`, `a-b`, each with an optional `/step`; `a/step` extends to the largest
/// value.
fn range(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (values, step) = match text.split_once('/') {
        Some((values, step)) => (values, Some(step)),
        None => (text, None),
    };
    let star = matches!(values, "*" | "?");
    let (first, last) = if star {
        (bounds.min, bounds.max)
    } else {
        match values.split_once('-') {
            Some((first, last)) => (value(first, bounds)?, value(last, bounds)?),
            None => {
                let first = value(values, bounds)?;
                (first, if step.is_some() { bounds.max } else { first })
            }
        }
    };
    if first > last {
        return Err(format!("the range {values} ends before it starts"));
    }
    let step =
        match step {
            None => 1,
            Some(step) => step.parse::<usize>().ok().filter(|step| *step > 0).ok_or_else(|| {
                format!("{step:?} is not a step; a step is a whole number from 1")
            })?,
        };
    let bits = (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Ok((bits, star && step == 1))
}

/// Parses a number or a name, case-insensitively.
fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let Bounds { min, max, names, .. } = *bounds;
    let named = names.iter().zip(min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, value)) = named {
        return Ok(value);
    }
    let allowed = match (names.first(), names.last()) {
        (Some(first), Some(last)) => format!("{min}-{max} and {first}-{last} are allowed"),
        _ => format!("{min}-{max} is allowed"),
    };
    match text.parse::<u32>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is out of range; {allowed}")),
        Err(_) => Err(format!("{text:?} is not a value; {allowed}")),
    }
}

#[cfg(test)]
mod tests;
