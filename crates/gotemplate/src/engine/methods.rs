//! Methods of times, durations and versions, and printing of values with a `String` method.

use std::rc::Rc;

use super::fail::Outcome;
use super::function::{Function, f};
use super::gotime::{GoTime, duration_text, round_duration};
use super::layout;
use super::run::{Args, Run};
use super::value::{IntKind, UintKind, Value};
use super::version::Version;

/// Finds a method of a value.
pub(super) fn find(receiver: &Value, name: &str) -> Option<&'static Function> {
    let methods: &[Function] = match receiver {
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
        Value::Time(time) => Some(layout::display(time)),
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

const NAMED: &[Function] = &[f("String", "", text)];

const TIME: &[Function] = &[
    f("Format", "s", |_, a| Ok(Value::str(layout::format(time(a, 0)?, &a.text(1))))),
    f("String", "", text),
    f("GoString", "", |_, a| Ok(Value::str(layout::go_syntax(time(a, 0)?)))),
    f("Unix", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_second()))),
    f("UnixMilli", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_millisecond()))),
    f("UnixMicro", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_microsecond()))),
    f("UnixNano", "", |_, a| Ok(Value::int64(time(a, 0)?.stamp.as_nanosecond() as i64))),
    f("UTC", "", |_, a| wrap(time(a, 0)?.within(jiff::tz::TimeZone::UTC))),
    // The local zone is UTC: the machine's zone is not used.
    f("Local", "", |_, a| wrap(time(a, 0)?.within(jiff::tz::TimeZone::UTC))),
    f("Year", "", |_, a| Ok(Value::int(time(a, 0)?.civil().year().into()))),
    f("Month", "", |_, a| Ok(Value::Int(IntKind::Month, time(a, 0)?.civil().month().into()))),
    f("Day", "", |_, a| Ok(Value::int(time(a, 0)?.civil().day().into()))),
    f("Hour", "", |_, a| Ok(Value::int(time(a, 0)?.civil().hour().into()))),
    f("Minute", "", |_, a| Ok(Value::int(time(a, 0)?.civil().minute().into()))),
    f("Second", "", |_, a| Ok(Value::int(time(a, 0)?.civil().second().into()))),
    f("Nanosecond", "", |_, a| Ok(Value::int(time(a, 0)?.civil().subsec_nanosecond().into()))),
    f("Weekday", "", |_, a| {
        let day = time(a, 0)?.civil().date().weekday();
        Ok(Value::Int(IntKind::Weekday, day.to_sunday_zero_offset().into()))
    }),
    f("YearDay", "", |_, a| Ok(Value::int(time(a, 0)?.civil().date().day_of_year().into()))),
    f("IsZero", "", |_, a| Ok(Value::Bool(time(a, 0)?.stamp == GoTime::zero().stamp))),
    f("Add", "D", |_, a| wrap(time(a, 0)?.add(a.int(1)))),
    f("AddDate", "iii", |_, a| {
        let date = time(a, 0)?.add_date(a.int(1), a.int(2), a.int(3));
        wrap(date.ok_or("the date is out of range")?)
    }),
    f("Sub", "t", |_, a| Ok(Value::Int(IntKind::Duration, time(a, 0)?.since(time(a, 1)?)))),
    f("Before", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp < time(a, 1)?.stamp))),
    f("After", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp > time(a, 1)?.stamp))),
    f("Equal", "t", |_, a| Ok(Value::Bool(time(a, 0)?.stamp == time(a, 1)?.stamp))),
    f("Compare", "t", |_, a| Ok(Value::int(time(a, 0)?.stamp.cmp(&time(a, 1)?.stamp) as i64))),
    f("Truncate", "D", |_, a| {
        let past = time(a, 0)?.since(&GoTime::zero());
        wrap(time(a, 0)?.add(if a.int(1) > 0 { -past.rem_euclid(a.int(1)) } else { 0 }))
    }),
];

const DURATION: &[Function] = &[
    f("String", "", text),
    f("Hours", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 3.6e12))),
    f("Minutes", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 6e10))),
    f("Seconds", "", |_, a| Ok(Value::Float(a.int(0) as f64 / 1e9))),
    f("Milliseconds", "", |_, a| Ok(Value::int64(a.int(0) / 1_000_000))),
    f("Microseconds", "", |_, a| Ok(Value::int64(a.int(0) / 1_000))),
    f("Nanoseconds", "", |_, a| Ok(Value::int64(a.int(0)))),
    f("Abs", "", |_, a| Ok(Value::Int(IntKind::Duration, a.int(0).saturating_abs()))),
    f("Round", "D", |_, a| Ok(Value::Int(IntKind::Duration, round_duration(a.int(0), a.int(1))))),
    f("Truncate", "D", |_, a| {
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

const VERSION: &[Function] = &[
    f("Major", "", |_, a| uint(version(a, 0)?.major)),
    f("Minor", "", |_, a| uint(version(a, 0)?.minor)),
    f("Patch", "", |_, a| uint(version(a, 0)?.patch)),
    f("Prerelease", "", |_, a| Ok(Value::str(&version(a, 0)?.pre))),
    f("Metadata", "", |_, a| Ok(Value::str(&version(a, 0)?.metadata))),
    f("Original", "", |_, a| Ok(Value::str(&version(a, 0)?.original))),
    f("String", "", text),
    f("Compare", "V", |_, a| Ok(Value::int(version(a, 0)?.compare(version(a, 1)?) as i64))),
    f("Equal", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_eq()))),
    f("LessThan", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_lt()))),
    f("LessThanEqual", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_le()))),
    f("GreaterThan", "V", |_, a| Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_gt()))),
    f("GreaterThanEqual", "V", |_, a| {
        Ok(Value::Bool(version(a, 0)?.compare(version(a, 1)?).is_ge()))
    }),
    f("IncMajor", "", |_, a| made(version(a, 0)?.next(0))),
    f("IncMinor", "", |_, a| made(version(a, 0)?.next(1))),
    f("IncPatch", "", |_, a| made(version(a, 0)?.next(2))),
    f("SetPrerelease", "s", |_, a| made(version(a, 0)?.with_pre(&a.text(1))?)),
    f("SetMetadata", "s", |_, a| made(version(a, 0)?.with_metadata(&a.text(1))?)),
];
