//! Parses times in Go's layouts.

use jiff::civil::{Date, Time};

use super::gotime::{GoTime, fixed_zone};
use super::layout::{DAYS, MONTHS, Part, next_part};

/// Parses a time in the given layout; the error describes the mismatch.
pub(crate) fn parse_time(layout: &str, text: &str) -> Result<GoTime, String> {
    let fail = |why: &str| format!("parsing time {text:?} as {layout:?}: {why}");
    let mut found = Fields::default();
    let mut value = text;
    let mut rest = layout;
    while let Some((before, part, after)) = next_part(rest) {
        value = skip(value, before)
            .ok_or_else(|| fail(&format!("cannot parse {value:?} as {before:?}")))?;
        let held = value;
        value = found
            .take(part, value, after)
            .ok_or_else(|| fail(&format!("cannot parse {held:?}")))?;
        rest = after;
    }
    value =
        skip(value, rest).ok_or_else(|| fail(&format!("cannot parse {value:?} as {rest:?}")))?;
    if !value.is_empty() {
        return Err(fail(&format!("extra text: {value:?}")));
    }
    found.time().ok_or_else(|| fail("out of range"))
}

/// Skips the literal part of a layout; a run of spaces matches any run of spaces.
fn skip<'v>(mut value: &'v str, prefix: &str) -> Option<&'v str> {
    let mut prefix = prefix;
    while !prefix.is_empty() {
        if prefix.starts_with(' ') {
            if !value.is_empty() && !value.starts_with(' ') {
                return None;
            }
            prefix = prefix.trim_start_matches(' ');
            value = value.trim_start_matches(' ');
            continue;
        }
        let c = prefix.chars().next()?;
        value = value.strip_prefix(c)?;
        prefix = &prefix[c.len_utf8()..];
    }
    Some(value)
}

#[derive(Default)]
struct Fields {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    pm: bool,
    am: bool,
    offset: Option<i32>,
    zone: Option<String>,
}

/// Reads one or two digits.
fn digits(value: &str, two: bool) -> Option<(i8, &str)> {
    let bytes = value.as_bytes();
    let count = if bytes.get(1).is_some_and(u8::is_ascii_digit) { 2 } else { 1 };
    if (two && count == 1) || !bytes.first()?.is_ascii_digit() {
        return None;
    }
    Some((value[..count].parse().ok()?, &value[count..]))
}

/// Finds a name, case-insensitively.
fn lookup<'v>(names: &[&str], len: Option<usize>, value: &'v str) -> Option<(usize, &'v str)> {
    names.iter().enumerate().find_map(|(i, name)| {
        let name = &name[..len.unwrap_or(name.len())];
        let head = value.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then(|| (i, &value[name.len()..]))
    })
}

fn in_range(n: i8, low: i8, high: i8) -> Option<i8> {
    (low..=high).contains(&n).then_some(n)
}

/// Parses an exact number of digits.
fn exactly(value: &str, count: usize) -> Option<(i16, &str)> {
    let head = value.get(..count).filter(|head| head.bytes().all(|b| b.is_ascii_digit()))?;
    Some((head.parse().ok()?, &value[count..]))
}

impl Fields {
    /// Parses one part of the value; returns the rest.
    fn take<'v>(&mut self, part: Part, value: &'v str, after: &str) -> Option<&'v str> {
        let rest;
        match part {
            Part::LongYear => {
                let (year, tail) = exactly(value, 4)?;
                (self.year, rest) = (Some(year), tail);
            }
            Part::Year => {
                let (year, tail) = exactly(value, 2)?;
                (self.year, rest) =
                    (Some(if year >= 69 { 1900 + year } else { 2000 + year }), tail);
            }
            Part::LongMonth | Part::Month => {
                let (index, tail) = lookup(&MONTHS, (part == Part::Month).then_some(3), value)?;
                (self.month, rest) = (i8::try_from(index + 1).ok(), tail);
            }
            Part::NumMonth | Part::ZeroMonth => {
                let (month, tail) = digits(value, part == Part::ZeroMonth)?;
                (self.month, rest) = (Some(in_range(month, 1, 12)?), tail);
            }
            Part::LongWeekday | Part::Weekday => {
                rest = lookup(&DAYS, (part == Part::Weekday).then_some(3), value)?.1;
            }
            Part::Day | Part::UnderDay | Part::ZeroDay => {
                let value = if part == Part::UnderDay {
                    value.strip_prefix(' ').unwrap_or(value)
                } else {
                    value
                };
                let (day, tail) = digits(value, part == Part::ZeroDay)?;
                (self.day, rest) = (Some(day), tail);
            }
            Part::UnderYearDay | Part::ZeroYearDay => {
                let trimmed = value.trim_start_matches(' ');
                let spaces = value.len() - trimmed.len();
                let (day, tail) = exactly(trimmed, 3_usize.checked_sub(spaces)?)?;
                (self.year_day, rest) = (Some(day), tail);
            }
            Part::Hour => {
                let (hour, tail) = digits(value, false)?;
                (self.hour, rest) = (in_range(hour, 0, 23)?, tail);
            }
            Part::Hour12 | Part::ZeroHour12 => {
                let (hour, tail) = digits(value, part == Part::ZeroHour12)?;
                (self.hour, rest) = (in_range(hour, 0, 12)?, tail);
            }
            Part::Minute | Part::ZeroMinute => {
                let (minute, tail) = digits(value, part == Part::ZeroMinute)?;
                (self.minute, rest) = (in_range(minute, 0, 59)?, tail);
            }
            Part::Second | Part::ZeroSecond => rest = self.take_second(part, value, after)?,
            Part::UpperPm | Part::LowerPm => rest = self.take_half_of_day(part, value)?,
            Part::Offset { zulu, colon, fields } => {
                rest = self.take_offset(zulu, colon, fields, value)?;
            }
            Part::ZoneName => rest = self.take_zone_name(value)?,
            Part::Fraction { digits, cut, .. } => rest = self.take_fraction(digits, cut, value)?,
        }
        Some(rest)
    }

    fn take_second<'v>(&mut self, part: Part, value: &'v str, after: &str) -> Option<&'v str> {
        let (second, tail) = digits(value, part == Part::ZeroSecond)?;
        self.second = in_range(second, 0, 59)?;
        // A fraction may follow the seconds even if the layout has none.
        let shown = next_part(after).is_some_and(|(before, part, _)| {
            before.is_empty() && matches!(part, Part::Fraction { .. })
        });
        let fraction = tail.strip_prefix(['.', ',']).unwrap_or("");
        let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if shown || count == 0 {
            return Some(tail);
        }
        self.nanosecond = nanoseconds(&fraction[..count])?;
        Some(&fraction[count..])
    }

    fn take_half_of_day<'v>(&mut self, part: Part, value: &'v str) -> Option<&'v str> {
        let (head, tail) = value.split_at_checked(2)?;
        let head = if part == Part::LowerPm {
            head.replace("pm", "PM").replace("am", "AM")
        } else {
            head.to_owned()
        };
        match head.as_str() {
            "PM" => self.pm = true,
            "AM" => self.am = true,
            _ => return None,
        }
        Some(tail)
    }

    fn take_offset<'v>(
        &mut self,
        zulu: bool,
        colon: bool,
        fields: u8,
        value: &'v str,
    ) -> Option<&'v str> {
        if zulu && let Some(tail) = value.strip_prefix('Z') {
            self.offset = Some(0);
            return Some(tail);
        }
        let sign = if value.starts_with('-') { -1 } else { 1 };
        let mut tail = value.strip_prefix(['+', '-'])?;
        let mut seconds = 0;
        for (i, (scale, high)) in
            [(3600, 24), (60, 60), (1, 60)].iter().enumerate().take(fields.into())
        {
            if i > 0 && colon {
                tail = tail.strip_prefix(':')?;
            }
            let (n, next) = digits(tail, true)?;
            seconds += i32::from(in_range(n, 0, *high)?) * scale;
            tail = next;
        }
        self.offset = Some(sign * seconds);
        Some(tail)
    }

    fn take_zone_name<'v>(&mut self, value: &'v str) -> Option<&'v str> {
        let upper = value.bytes().take_while(u8::is_ascii_uppercase).count();
        let len = match upper {
            _ if value.starts_with("ChST") || value.starts_with("MeST") => 4,
            3 | 4 => upper,
            5 if value.as_bytes()[4] == b'T' => 5,
            _ if value.starts_with(['+', '-']) => {
                1 + value[1..].bytes().take(2).take_while(u8::is_ascii_digit).count()
            }
            _ => return None,
        };
        self.zone = Some(value[..len].to_owned());
        Some(&value[len..])
    }

    /// Parses a fraction of a second; one that is `cut` has any number of digits, or is
    /// absent.
    fn take_fraction<'v>(&mut self, digits: usize, cut: bool, value: &'v str) -> Option<&'v str> {
        if !cut {
            let fraction = value.strip_prefix(['.', ','])?;
            let head =
                fraction.get(..digits).filter(|head| head.bytes().all(|b| b.is_ascii_digit()))?;
            self.nanosecond = nanoseconds(head)?;
            return Some(&fraction[digits..]);
        }
        let fraction = value.strip_prefix(['.', ',']).unwrap_or("");
        let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Some(value);
        }
        self.nanosecond = nanoseconds(&fraction[..count])?;
        Some(&fraction[count..])
    }

    fn time(self) -> Option<GoTime> {
        let hour = match self.hour {
            12 if self.am => 0,
            hour if self.pm && hour < 12 => hour + 12,
            hour => hour,
        };
        let year = self.year.unwrap_or(0);
        let date = match self.year_day {
            Some(day) => {
                let date = Date::new(year, 1, 1).ok()?.with().day_of_year(day).build().ok()?;
                let agrees = self.month.is_none_or(|m| m == date.month())
                    && self.day.is_none_or(|d| d == date.day());
                if agrees { date } else { return None }
            }
            None => Date::new(year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok()?,
        };
        let civil =
            date.to_datetime(Time::new(hour, self.minute, self.second, self.nanosecond).ok()?);
        let mut abbreviation = self.zone.filter(|zone| zone != "UTC");
        let mut offset = self.offset.unwrap_or(0);
        if self.offset.is_none()
            && let Some(hours) = abbreviation.as_deref().and_then(|zone| zone.strip_prefix("GMT"))
            && !hours.is_empty()
        {
            offset = hours.parse::<i32>().ok()? * 3600;
        }
        if self.offset.is_some() && offset == 0 {
            abbreviation = None;
        }
        let zone = fixed_zone(offset)?;
        Some(GoTime { stamp: zone.to_timestamp(civil).ok()?, zone, abbreviation })
    }
}

fn nanoseconds(fraction: &str) -> Option<i32> {
    let head = &fraction[..fraction.len().min(9)];
    let value: i32 = head.parse().ok()?;
    Some(value * 10_i32.pow(u32::try_from(9 - head.len()).ok()?))
}
