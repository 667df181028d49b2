//! Methods of times, durations and versions, and printing of values with a `String` method.

use super::function::{Body, Outcome};
use super::gotime::{GoTime, duration_text, round_duration};
use super::layout;
use super::run::{Args, Run};
use super::value::{IntKind, UintKind, Value};
use std::rc::Rc;

use crate::funcs::semver::Version;

/// A method; its first argument is the receiver, the others are those of `params`.
pub(super) struct Method {
    pub name: &'static str,
    pub params: &'static str,
    pub body: Body,
}

const fn method(name: &'static str, params: &'static str, body: Body) -> Method {
    Method { name, params, body }
}

/// Finds a method of a value.
pub(super) fn find(receiver: &Value, name: &str) -> Option<&'static Method> {
    let methods: &[Method] = match receiver {
        Value::Time(_) => TIME,
        Value::Int(IntKind::Duration, _) => DURATION,
        Value::Int(IntKind::Month | IntKind::Weekday, _) => NAMED,
        Value::Version(_) => VERSION,
        _ => &[],
    };
    methods.iter().find(|method| method.name == name)
}

/// The text of a value whose type defines its printing.
pub(crate) fn display(value: &Value) -> Option<String> {
    match value {
        Value::Time(time) => Some(time.display()),
        Value::Version(version) => Some(version.to_string()),
        Value::Int(IntKind::Duration, n) => Some(duration_text(*n)),
        Value::Int(IntKind::Month, n) => Some(named(&layout::MONTHS, *n - 1, "Month")),
        Value::Int(IntKind::Weekday, n) => Some(named(&layout::DAYS, *n, "Weekday")),
        _ => None,
    }
}

fn named(names: &[&str], index: i64, kind: &str) -> String {
    let name = usize::try_from(index).ok().and_then(|i| names.get(i));
    name.map_or_else(|| format!("%!{kind}({index})"), |name| (*name).to_owned())
}

fn time(args: &[Value], index: usize) -> Outcome<&GoTime> {
    match args.get(index) {
        Some(Value::Time(time)) => Ok(time),
        _ => Err("not a time".into()),
    }
}

fn version(args: &[Value], index: usize) -> Outcome<&Version> {
    match args.get(index) {
        Some(Value::Version(version)) => Ok(version),
        _ => Err("nil pointer dereference".into()),
    }
}

fn wrap(time: GoTime) -> Outcome {
    Ok(Value::Time(Rc::new(time)))
}

fn text(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::str(display(&args[0]).unwrap_or_default()))
}

const NAMED: &[Method] = &[method("String", "", text)];

const TIME: &[Method] = &[
    method("Format", "s", |_, a| Ok(Value::str(time(a, 0)?.format(&a.text(1))))),
    method("String", "", text),
    method("GoString", "", |_, a| Ok(Value::str(time(a, 0)?.go_syntax()))),
    method("Unix", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_second()))),
    method("UnixMilli", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_millisecond()))),
    method("UnixMicro", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_microsecond()))),
    method("UnixNano", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_nanosecond() as i64))),
    method("UTC", "", |_, a| wrap(time(a, 0)?.within(jiff::tz::TimeZone::UTC))),
    // The local zone is UTC: the machine's zone is not used.
    method("Local", "", |_, a| wrap(time(a, 0)?.within(jiff::tz::TimeZone::UTC))),
    method("Year", "", |_, a| Ok(Value::int(time(a, 0)?.civil().year().into()))),
    method("Month", "", |_, a| Ok(Value::Int(IntKind::Month, time(a, 0)?.civil().month().into()))),
    method("Day", "", |_, a| Ok(Value::int(time(a, 0)?.civil().day().into()))),
    method("Hour", "", |_, a| Ok(Value::int(time(a, 0)?.civil().hour().into()))),
    method("Minute", "", |_, a| Ok(Value::int(time(a, 0)?.civil().minute().into()))),
    method("Second", "", |_, a| Ok(Value::int(time(a, 0)?.civil().second().into()))),
    method("Nanosecond", "", |_, a| Ok(Value::int(time(a, 0)?.civil().subsec_nanosecond().into()))),
    method("Weekday", "", |_, a| {
        let day = time(a, 0)?.civil().date().weekday();
        Ok(Value::Int(IntKind::Weekday, day.to_sunday_zero_offset().into()))
    }),
    method("YearDay", "", |_, a| Ok(Value::int(time(a, 0)?.civil().date().day_of_year().into()))),
    method("IsZero", "", |_, a| Ok(Value::Bool(time(a, 0)?.stamp == GoTime::zero().stamp))),
    method("Add", "D", |_, a| wrap(time(a, 0)?.add(a.int(1)))),
    method("AddDate", "iii", |_, a| {
        let date = time(a, 0)?.add_date(a.int(1), a.int(2), a.int(3));
        wrap(date.ok_or("the date is out of range")?)
    }),
    method("Sub", "t", |_, a| Ok(Value::Int(IntKind::Duration, time(a, 0)?.since(time(a, 1)?)))),
    method("Before", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp < time(a, 1)?.stamp))),
    method("After", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp > time(a, 1)?.stamp))),
    method("Equal", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp == time(a, 1)?.stamp))),
    method("Compare", "t", |_, a| Ok(Value::int(time(a, 0)?.stamp.cmp(&time(a, 1)?.stamp) as i64))),
    method("Truncate", "D", |_, a| {
        let past = time(a, 0)?.since(&GoTime::zero());
        wrap(time(a, 0)?.add(if a.int(1) > 0 { -past.rem_euclid(a.int(1)) } else { 0 }))
    }),
];

const DURATION: &[Method] = &[
    method("String", "", text),
    method("Hours", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 3.6e12))),
    method("Minutes", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 6e10))),
    method("Seconds", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 1e9))),
    method("Milliseconds", "", |_, a| Ok(Value::int64(a.int(0) / 1_000_000))),
    method("Microseconds", "", |_, a| Ok(Value::int64(a.int(0) / 1_000))),
    method("Nanoseconds", "", |_, a| Ok(Value::int64(a.int(0)))),
    method("Abs", "", |_, a| Ok(Value::Int(IntKind::Duration, a.int(0).saturating_abs()))),
    method("Round", "D", |_, a| {
        Ok(Value::Int(IntKind::Duration, round_duration(a.int(0), a.int(1))))
    }),
    method("Truncate", "D", |_, a| {
        let rest = if a.int(1) > 0 { a.int(0) % a.int(1) } else { 0 };
        Ok(Value::Int(IntKind::Duration, a.int(0) - rest))
    }),
];

fn uint(n: u64) -> Outcome {
    Ok(Value::Uint(UintKind::Uint64, n))
}

fn made(version: Version) -> Outcome {
    Ok(Value::Version(Rc::new(version)))
}

const VERSION: &[Method] = &[
    method("Major", "", |_, a| uint(version(a, 0)?.major)),
    method("Minor", "", |_, a| uint(version(a, 0)?.minor)),
    method("Patch", "", |_, a| uint(version(a, 0)?.patch)),
    method("Prerelease", "", |_, a| Ok(Value::str(&version(a, 0)?.pre))),
    method("Metadata", "", |_, a| Ok(Value::str(&version(a, 0)?.metadata))),
    method("Original", "", |_, a| Ok(Value::str(&version(a, 0)?.original))),
    method("String", "", text),
    method("Compare", "V", |_, a| Ok(Value::int(version(a, 0)?.compare(version(a, 1)?) as i64))),
    method("Equal", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_eq()))),
    method("LessThan", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_lt()))),
    method("LessThanEqual", "V", |_, a| {
        Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_le()))
    }),
    method("GreaterThan", "V", |_, a| {
        Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_gt()))
    }),
    method("GreaterThanEqual", "V", |_, a| {
        Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_ge()))
    }),
    method("IncMajor", "", |_, a| made(version(a, 0)?.next(0))),
    method("IncMinor", "", |_, a| made(version(a, 0)?.next(1))),
    method("IncPatch", "", |_, a| made(version(a, 0)?.next(2))),
    method("SetPrerelease", "s", |_, a| made(version(a, 0)?.with_pre(&a.text(1))?)),
    method("SetMetadata", "s", |_, a| made(version(a, 0)?.with_metadata(&a.text(1))?)),
];
