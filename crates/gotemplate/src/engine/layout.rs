//! Go's time layouts: a text such as `2006-01-02` shows the format of the reference time.

use super::gotime::GoTime;

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
pub(super) enum Part {
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
pub(super) fn next_part(layout: &str) -> Option<(&str, Part, &str)> {
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
pub(crate) fn format(time: &GoTime, layout: &str) -> String {
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

/// How Go prints a time.
pub(super) fn display(time: &GoTime) -> String {
    format(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// How Go prints a time under `%#v`.
pub(super) fn go_syntax(time: &GoTime) -> String {
    let t = time.civil();
    format!(
        "time.Date({}, time.{}, {}, {}, {}, {}, {}, time.UTC)",
        t.year(),
        MONTHS[usize::from(t.month().unsigned_abs()) - 1],
        t.day(),
        t.hour(),
        t.minute(),
        t.second(),
        t.subsec_nanosecond()
    )
}
