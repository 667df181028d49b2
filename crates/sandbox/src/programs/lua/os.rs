//! The functions of `os` that a script may use: those about the time, in UTC.

use std::cell::Cell;
use std::rc::Rc;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use mlua::{Error, Lua, Table};

/// Longest format, and longest text that it gives.
const MAX_FORMAT: usize = 256;

/// `time` and `date`; with open libraries also `clock` and `difftime`. `asked` is set when a
/// script asks for the time.
pub(super) fn library(
    lua: &Lua,
    now: i64,
    open: bool,
    asked: &Rc<Cell<bool>>,
) -> mlua::Result<Table> {
    let os = lua.create_table()?;
    let by_time = Rc::clone(asked);
    let time = lua.create_function(move |_, parts: Option<Table>| match parts {
        Some(parts) => seconds(&parts),
        None => {
            by_time.set(true);
            Ok(now as f64)
        }
    })?;
    os.raw_set("time", time)?;
    let by_date = Rc::clone(asked);
    let date = lua.create_function(move |lua, (format, at): (Option<String>, Option<f64>)| {
        let at = match at {
            // Saturates; what is no time is an error below.
            Some(at) => at as i64,
            None => {
                by_date.set(true);
                now
            }
        };
        date(lua, format.as_deref().unwrap_or("%c"), at)
    })?;
    os.raw_set("date", date)?;
    if open {
        let by_clock = Rc::clone(asked);
        let clock = lua.create_function(move |_, ()| {
            by_clock.set(true);
            Ok(0)
        })?;
        os.raw_set("clock", clock)?;
        os.raw_set("difftime", lua.create_function(|_, (a, b): (f64, f64)| Ok(a - b))?)?;
    }
    Ok(os)
}

/// The seconds of a table with `year`, `month`, `day` and, if they are given, `hour`, `min`
/// and `sec`. Numbers out of their range carry over, such as the month 14.
fn seconds(parts: &Table) -> mlua::Result<f64> {
    let part = |name: &str, default: Option<i64>| {
        let number: Option<f64> = parts.raw_get(name)?;
        number.map(|number| number as i64).or(default).ok_or_else(|| {
            Error::runtime(format!("field '{name}' missing in the table of os.time"))
        })
    };
    let (year, month, day) = (part("year", None)?, part("month", None)?, part("day", None)?);
    let (hour, min, sec) = (part("hour", Some(12))?, part("min", Some(0))?, part("sec", Some(0))?);
    let months = year.saturating_mul(12).saturating_add(month).saturating_sub(1);
    let first = i16::try_from(months.div_euclid(12)).ok().and_then(|year| {
        let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
        Date::new(year, month, 1).ok()?.to_zoned(TimeZone::UTC).ok()
    });
    let first = first.ok_or_else(|| Error::runtime("os.time: the date is out of range"))?;
    let days = (day - 1).saturating_mul(86_400);
    let rest = hour.saturating_mul(3600).saturating_add(min.saturating_mul(60));
    let rest = rest.saturating_add(sec).saturating_add(days);
    Ok(first.timestamp().as_second().saturating_add(rest) as f64)
}

/// A date as text, or as a table for the format `*t`.
fn date(lua: &Lua, format: &str, at: i64) -> mlua::Result<mlua::Value> {
    let out_of_range = |_| Error::runtime("os.date: the time is out of range");
    let at = Timestamp::from_second(at).map_err(out_of_range)?;
    let at = at.to_zoned(TimeZone::UTC).datetime();
    // Local time is UTC.
    let format = format.strip_prefix('!').unwrap_or(format);
    if format.len() > MAX_FORMAT {
        return Err(Error::runtime(format!("os.date: a format has at most {MAX_FORMAT} bytes")));
    }
    if !format.starts_with("*t") {
        return Ok(mlua::Value::String(lua.create_string(formatted(format, at))?));
    }
    let table = lua.create_table()?;
    let weekday = i64::from(at.weekday().to_sunday_one_offset());
    let parts = [
        ("year", i64::from(at.year())),
        ("month", i64::from(at.month())),
        ("day", i64::from(at.day())),
        ("hour", i64::from(at.hour())),
        ("min", i64::from(at.minute())),
        ("sec", i64::from(at.second())),
        ("wday", weekday),
        ("yday", i64::from(at.day_of_year())),
    ];
    for (name, value) in parts {
        table.raw_set(name, value as f64)?;
    }
    table.raw_set("isdst", false)?;
    Ok(mlua::Value::Table(table))
}

/// The date by a format of `strftime`; what is not known stays as it is.
fn formatted(format: &str, at: DateTime) -> String {
    let year = format!("{:02}", at.year() % 100);
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let known = match rest.next() {
            Some('c') => format!("%d %b {year} %H:%M UTC"),
            Some('F') => format!("{:04}-%m-%d", at.year()),
            Some('T' | 'X') => "%H:%M:%S".to_owned(),
            Some('x') => format!("%m/%d/{year}"),
            Some('y') => year.clone(),
            Some('Y') => at.year().to_string(),
            Some('z') => "+0000".to_owned(),
            Some('Z') => "UTC".to_owned(),
            Some(known) if "aAbBdHIjmMpSw".contains(known) => format!("%{known}"),
            Some('%') | None => "%%".to_owned(),
            Some(other) => format!("%%{other}"),
        };
        text.push_str(&strtime::format(known, at).unwrap_or_default());
    }
    text
}
