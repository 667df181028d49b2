//! Go's time layouts: a text such as `2006-01-02` shows the format of the reference time.

use jiff::civil::{Date, Time};

use super::gotime::{GoTime, fixed_zone};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// An offset: whether UTC is `Z`, whether it has colons, and the number of hours,
    /// minutes, seconds.
    Offset {
        zulu: bool,
        colon: bool,
        fields: u8,
    },
    /// A fraction of a second: number of digits, whether trailing zeros are removed, and
    /// the separator.
    Fraction {
        digits: usize,
        cut: bool,
        comma: bool,
    },
}

/// Texts of a layout and their parts; longer texts come before their prefixes.
const PARTS: &[(&str, Part)] = &[
    ("January", Part::LongMonth),
    ("Jan", Part::Month),
    ("Monday", Part::LongWeekday),
    ("Mon", Part::Weekday),
    ("MST", Part::ZoneName),
    ("002", Part::ZeroYearDay),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::Year),
    ("15", Part::Hour),
    ("1", Part::NumMonth),
    ("2006", Part::LongYear),
    ("2", Part::Day),
    // The year may follow an underscore: "_2006" is a literal underscore and a year.
    ("__2", Part::UnderYearDay),
    ("_2", Part::UnderDay),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
    ("PM", Part::UpperPm),
    ("pm", Part::LowerPm),
    ("-07:00:00", Part::Offset { zulu: false, colon: true, fields: 3 }),
    ("-070000", Part::Offset { zulu: false, colon: false, fields: 3 }),
    ("-07:00", Part::Offset { zulu: false, colon: true, fields: 2 }),
    ("-0700", Part::Offset { zulu: false, colon: false, fields: 2 }),
    ("-07", Part::Offset { zulu: false, colon: false, fields: 1 }),
    ("Z07:00:00", Part::Offset { zulu: true, colon: true, fields: 3 }),
    ("Z070000", Part::Offset { zulu: true, colon: false, fields: 3 }),
    ("Z07:00", Part::Offset { zulu: true, colon: true, fields: 2 }),
    ("Z0700", Part::Offset { zulu: true, colon: false, fields: 2 }),
    ("Z07", Part::Offset { zulu: true, colon: false, fields: 1 }),
];

/// Finds the first part of a layout: the text before it, the part, the layout after it.
fn next_part(layout: &str) -> Option<(&str, Part, &str)> {
    for (i, c) in layout.char_indices() {
        let rest = &layout[i..];
        if matches!(c, '.' | ',') {
            let after = &rest[1..];
            let digit = after.chars().next().unwrap_or(' ');
            if matches!(digit, '0' | '9') {
                let run = after.len() - after.trim_start_matches(digit).len();
                if !after[run..].starts_with(|c: char| c.is_ascii_digit()) {
                    let part = Part::Fraction { digits: run, cut: digit == '9', comma: c == ',' };
                    return Some((&layout[..i], part, &after[run..]));
                }
            }
            continue;
        }
        if let Some(tail) = rest.strip_prefix("_2006") {
            return Some((&layout[..=i], Part::LongYear, tail));
        }
        for (text, part) in PARTS {
            let Some(tail) = rest.strip_prefix(text) else { continue };
            // "January" is a month; "Janet" is not.
            if *part == Part::Month && tail.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            if *part == Part::Weekday && tail.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            return Some((&layout[..i], *part, tail));
        }
    }
    None
}

/// Writes a time in the given layout.
pub(super) fn format(time: &GoTime, layout: &str) -> String {
    let t = time.civil();
    let (offset, zone) = time.offset();
    let mut out = String::new();
    let mut rest = layout;
    let month = MONTHS[usize::from(t.month().unsigned_abs()).clamp(1, 12) - 1];
    let weekday = DAYS[usize::from(t.date().weekday().to_sunday_zero_offset().unsigned_abs()) % 7];
    let hour12 = if t.hour() % 12 == 0 { 12 } else { t.hour() % 12 };
    while let Some((before, part, after)) = next_part(rest) {
        out.push_str(before);
        out.push_str(&match part {
            Part::LongMonth => month.to_owned(),
            Part::Month => month[..3].to_owned(),
            Part::NumMonth => t.month().to_string(),
            Part::ZeroMonth => format!("{:02}", t.month()),
            Part::LongWeekday => weekday.to_owned(),
            Part::Weekday => weekday[..3].to_owned(),
            Part::Day => t.day().to_string(),
            Part::UnderDay => format!("{:2}", t.day()),
            Part::ZeroDay => format!("{:02}", t.day()),
            Part::UnderYearDay => format!("{:3}", t.date().day_of_year()),
            Part::ZeroYearDay => format!("{:03}", t.date().day_of_year()),
            Part::Hour => format!("{:02}", t.hour()),
            Part::Hour12 => hour12.to_string(),
            Part::ZeroHour12 => format!("{hour12:02}"),
            Part::Minute => t.minute().to_string(),
            Part::ZeroMinute => format!("{:02}", t.minute()),
            Part::Second => t.second().to_string(),
            Part::ZeroSecond => format!("{:02}", t.second()),
            Part::LongYear => format!("{:04}", t.year()),
            Part::Year => format!("{:02}", t.year().rem_euclid(100)),
            Part::UpperPm => if t.hour() >= 12 { "PM" } else { "AM" }.to_owned(),
            Part::LowerPm => if t.hour() >= 12 { "pm" } else { "am" }.to_owned(),
            Part::ZoneName if !zone.is_empty() => zone.clone(),
            Part::ZoneName => {
                let minutes = offset / 60;
                let sign = if minutes < 0 { '-' } else { '+' };
                let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
                if minutes == 0 {
                    format!("{sign}{hours:02}")
                } else {
                    format!("{sign}{hours:02}{minutes:02}")
                }
            }
            Part::Offset { zulu: true, .. } if offset == 0 => "Z".to_owned(),
            Part::Offset { colon, fields, .. } => offset_text(offset, colon, fields),
            Part::Fraction { digits, cut, comma } => {
                let all = format!("{:09}", t.subsec_nanosecond());
                let mut text = &all[..digits.min(9)];
                if cut {
                    text = text.trim_end_matches('0');
                }
                if text.is_empty() {
                    String::new()
                } else {
                    format!("{}{text}", if comma { ',' } else { '.' })
                }
            }
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn offset_text(offset: i32, colon: bool, fields: u8) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.abs();
    let colon = if colon { ":" } else { "" };
    let mut text = format!("{sign}{:02}", seconds / 3600);
    if fields > 1 {
        text.push_str(&format!("{colon}{:02}", seconds / 60 % 60));
    }
    if fields > 2 {
        text.push_str(&format!("{colon}{:02}", seconds % 60));
    }
    text
}

/// Parses a time in the given layout; the error describes the mismatch.
pub(crate) fn parse(layout: &str, text: &str) -> Result<GoTime, String> {
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
