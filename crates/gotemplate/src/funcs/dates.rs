//! Dates and durations. The local time zone is UTC; zones come from the time zone database.

use std::rc::Rc;

use super::prelude::*;
use crate::engine::gotime::{GoTime, duration_text, parse_duration, round_duration};
use crate::engine::layout;
use crate::engine::parse_time::parse_time;
use jiff::tz::TimeZone;

pub(super) const FUNCTIONS: &[Function] = &[
    f("now", "", |run, _| Ok(time(GoTime::utc(run.now()?)))),
    f("date", "sa", |run, a| in_zone(run, &a.text(0), &a[1], "UTC")),
    f("dateInZone", "sas", |run, a| in_zone(run, &a.text(0), &a[1], &a.text(2))),
    f("date_in_zone", "sas", |run, a| in_zone(run, &a.text(0), &a[1], &a.text(2))),
    f("htmlDate", "a", |run, a| in_zone(run, "2006-01-02", &a[0], "UTC")),
    f("htmlDateInZone", "as", |run, a| in_zone(run, "2006-01-02", &a[0], &a.text(1))),
    f("dateModify", "st", modify),
    f("date_modify", "st", modify),
    f("mustDateModify", "st", must_modify),
    f("must_date_modify", "st", must_modify),
    f("toDate", "ss", |_, a| {
        Ok(time(parse_time(&a.text(0), &a.text(1)).unwrap_or_else(|_| GoTime::zero())))
    }),
    f("mustToDate", "ss", |_, a| Ok(time(parse_time(&a.text(0), &a.text(1))?))),
    f("unixEpoch", "t", |_, a| match &a[0] {
        Value::Time(time) => Ok(Value::str(time.stamp.as_second().to_string())),
        _ => Err("not a time".into()),
    }),
    f("ago", "a", |run, a| {
        let now = GoTime::utc(run.now()?);
        let past = point(run, &a[0])?;
        Ok(Value::str(duration_text(round_duration(now.since(&past), 1_000_000_000))))
    }),
    f("duration", "a", |_, a| {
        let seconds = match &a[0] {
            Value::Str(text) => super::convert::parse_decimal(&text.text()),
            Value::Int(IntKind::Int64, n) => *n,
            _ => 0,
        };
        Ok(Value::str(duration_text(1_000_000_000_i64.wrapping_mul(seconds))))
    }),
    f("durationRound", "a", duration_round),
];

fn time(time: GoTime) -> Value {
    Value::Time(Rc::new(time))
}

/// The time of a value; the current time for values of other types.
fn point(run: &mut Run<'_>, value: &Value) -> Outcome<GoTime> {
    match value {
        Value::Time(time) => Ok((**time).clone()),
        Value::Int(IntKind::Int | IntKind::Int64, n) => Ok(GoTime::from_unix(*n)),
        _ => Ok(GoTime::utc(run.now()?)),
    }
}

fn in_zone(run: &mut Run<'_>, form: &str, value: &Value, zone: &str) -> Outcome {
    let time = point(run, value)?;
    let zone = match zone {
        "" | "UTC" | "Local" => TimeZone::UTC,
        // An unknown zone is treated as UTC.
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    };
    run.charge_bytes(form.len())?;
    Ok(Value::str(layout::format(&time.within(zone), form)))
}

fn modify(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    Ok(must_modify(run, a).unwrap_or_else(|_| a[1].clone()))
}

fn must_modify(_: &mut Run<'_>, a: &[Value]) -> Outcome {
    let text = a.text(0);
    let duration =
        parse_duration(&text).ok_or_else(|| format!("time: invalid duration {text:?}"))?;
    match &a[1] {
        Value::Time(past) => Ok(time(past.add(duration))),
        _ => Err("not a time".into()),
    }
}

/// The largest unit of a duration only: `2h`, `3mo`.
fn duration_round(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let nanoseconds = match &a[0] {
        Value::Str(text) => parse_duration(&text.text()).unwrap_or(0),
        Value::Int(IntKind::Int64, n) => *n,
        Value::Time(time) => GoTime::utc(run.now()?).since(time),
        _ => 0,
    };
    const HOUR: u64 = 3_600_000_000_000;
    const UNITS: [(u64, &str); 6] = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (HOUR / 60, "m"),
        (HOUR / 3600, "s"),
    ];
    let n = nanoseconds.unsigned_abs();
    let unit = UNITS.iter().find(|(unit, _)| n > *unit);
    Ok(Value::str(
        unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", n / unit)),
    ))
}
