//! Schedules of sync windows: five fields on the wall clock of a time zone.
//!
//! The fields are minute, hour, day of month, month and day of week, read as
//! Argo CD's parser reads them (SE-402). There are no seconds, no `@daily`
//! forms and no `L`, `W` or `#`.
//!
//! A schedule fires at each instant whose wall clock shows a matching minute
//! (SE-404). When clocks are put back, a minute that passes twice fires
//! twice. When they are put forward, a schedule that names its hours and
//! would have fired in the part that is left out fires at the change: a
//! window that forbids syncs from 02:30 must not vanish once a year. A
//! schedule for every hour leaves that hour out.
//!
//! No search looks further than nine years.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// How far to look for a start. The rarest date is 29 February, which is
/// missing for eight years around 2100; the ninth is for the change of zones.
const HORIZON: SignedDuration = SignedDuration::from_hours(9 * 366 * 24);

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// Not five fields.
    #[error(
        "expected 5 fields (minute, hour, day of month, month, day of week), found {found}{hint}"
    )]
    Fields {
        /// How many there are.
        found: usize,
        /// What may have been meant; empty when nobody can tell.
        hint: &'static str,
    },
    /// One field is wrong.
    #[error("{field} field {text:?}: {reason}")]
    Field {
        /// Which of the five.
        field: &'static str,
        /// What is written there.
        text: String,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
}

/// What a field may hold.
struct Bounds {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values from `min` on.
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

/// The values a field allows, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Whether `*` or `?` without a step is among them: the field says nothing.
    unrestricted: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits.checked_shr(value).unwrap_or(0) & 1 == 1)
    }

    /// The smallest allowed value that is not less.
    fn from(self, value: u32) -> Option<u32> {
        let rest = self.bits & u64::MAX.checked_shl(value).unwrap_or(0);
        (rest != 0).then(|| rest.trailing_zeros())
    }

    /// The largest allowed value that is not more.
    fn to(self, value: u32) -> Option<u32> {
        let rest = self.bits & (u64::MAX >> 63_u32.saturating_sub(value));
        (rest != 0).then(|| 63 - rest.leading_zeros())
    }
}

/// A schedule that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
}

impl Schedule {
    /// Reads five fields between blanks (SE-402).
    ///
    /// # Errors
    ///
    /// [`BadSchedule`] names the field. An empty list (`,`) and an end behind
    /// a star (`*-5`) are errors here; the peer takes the first for never and
    /// the second for `*`.
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

    /// The first start that is not before `from`; `None` when there is none
    /// within nine years, which is to say never.
    pub fn next(&self, zone: &TimeZone, from: Timestamp) -> Option<Timestamp> {
        let horizon = from.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
        let mut at = from;
        loop {
            // Between two changes of the zone, wall clock and time differ by
            // a constant.
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

    /// The last start that is not after `until`; `None` when there is none
    /// within nine years.
    pub fn previous(&self, zone: &TimeZone, until: Timestamp) -> Option<Timestamp> {
        let horizon = until.checked_sub(HORIZON).unwrap_or(Timestamp::MIN);
        let mut at = until;
        loop {
            let offset = zone.to_offset(at);
            // A change at this very instant has happened already.
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

    /// Whether a start falls into the wall clock that is left out when the
    /// zone changes at `change`.
    fn fires_in_gap(&self, before: Offset, after: Offset, change: Timestamp) -> bool {
        !self.hour.unrestricted
            && before < after
            && whole_minute_from(before.to_datetime(change))
                .and_then(|first| self.first_in(first, after.to_datetime(change)))
                .is_some()
    }

    /// The first matching minute from `first`, a whole minute, to before `end`.
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

    /// The last matching minute from `begin` to `last`, both included.
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

    /// With both day fields restricted one of them is enough, or else both
    /// must match (SE-402).
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
            None if found == hour => time(self.hour.from(hour + 1)?, self.minute.from(0)?),
            None => time(found, self.minute.from(0)?),
        }
    }

    fn time_to(&self, hour: u32, minute: u32) -> Option<Time> {
        let found = self.hour.to(hour)?;
        let in_hour = (found == hour).then(|| self.minute.to(minute)).flatten();
        match in_hour {
            Some(minute) => time(hour, minute),
            None if found == hour => time(self.hour.to(hour.checked_sub(1)?)?, self.minute.to(59)?),
            None => time(found, self.minute.to(59)?),
        }
    }
}

fn number(value: i8) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn time(hour: u32, minute: u32) -> Option<Time> {
    Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok()
}

/// The same minute if it has just begun, else the next.
fn whole_minute_from(at: DateTime) -> Option<DateTime> {
    let begun = at.date().to_datetime(time(number(at.hour()), number(at.minute()))?);
    if begun == at { Some(begun) } else { begun.checked_add(SignedDuration::from_mins(1)).ok() }
}

/// Reads one field: ranges between commas.
fn field(text: &str, bounds: &Bounds) -> Result<Field, BadSchedule> {
    let bad = |reason| BadSchedule::Field { field: bounds.name, text: text.to_owned(), reason };
    let mut field = Field { bits: 0, unrestricted: false };
    // As in the peer, a comma too many does no harm.
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, star) = range(part, bounds).map_err(bad)?;
        field.bits |= bits;
        field.unrestricted |= star;
    }
    if field.bits == 0 {
        return Err(bad("names no value".to_owned()));
    }
    Ok(field)
}

/// Reads `*`, `a`, `a-b`, each also with `/step`; `a/step` goes on to the
/// largest value.
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
        return Err(format!("the range {values} ends before it begins"));
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

/// Reads a number or a name, in any case.
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
