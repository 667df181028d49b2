//! Conversions, and types of values.

use super::prelude::*;
use crate::engine::{format, strconv};

pub(super) const FUNCTIONS: &[Function] = &[
    f("atoi", "s", |_, a| Ok(Value::int(parse_decimal(&a.text(0))))),
    f("int", "a", |_, a| Ok(Value::int(to_int(&a[0])))),
    f("int64", "a", |_, a| Ok(Value::int64(to_int(&a[0])))),
    f("float64", "a", |_, a| Ok(Value::Float(to_float(&a[0])))),
    f("toDecimal", "a", |run, a| {
        let text = format::text(run, &a[0])?;
        Ok(Value::int64(i64::from_str_radix(&String::from_utf8_lossy(&text), 8).unwrap_or(0)))
    }),
    f("toString", "a", |run, a| Ok(Value::str(strval(run, &a[0])?))),
    f("typeOf", "a", |_, a| Ok(Value::str(a[0].type_name()))),
    f("typeIs", "sa", |_, a| Ok(Value::Bool(a.text(0) == a[1].type_name()))),
    f("typeIsLike", "sa", |_, a| {
        let name = a[1].type_name();
        Ok(Value::Bool(a.text(0) == name || name.strip_prefix('*') == Some(&*a.text(0))))
    }),
    f("kindOf", "a", |_, a| Ok(Value::str(a[0].kind_name()))),
    f("kindIs", "sa", |_, a| Ok(Value::Bool(a.text(0) == a[1].kind_name()))),
];

/// An integer in decimal; 0 for invalid text, clamped to the range.
pub(super) fn parse_decimal(text: &str) -> i64 {
    text.parse().unwrap_or_else(|error: std::num::ParseIntError| match error.kind() {
        std::num::IntErrorKind::PosOverflow => i64::MAX,
        std::num::IntErrorKind::NegOverflow => i64::MIN,
        _ => 0,
    })
}

/// The text of a value.
pub(super) fn strval(run: &mut Run<'_>, value: &Value) -> Outcome<Vec<u8>> {
    match value {
        Value::Str(text) => Ok(text.bytes().to_vec()),
        _ => format::text(run, value),
    }
}

/// An integer from any value; 0 if there is none.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Str(text) => {
            // "5.00" is an integer, "1.9" is not.
            let text = text.text();
            let whole = match text.split_once('.') {
                Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => {
                    whole
                }
                _ => &text,
            };
            strconv::parse_int_any_base(whole).unwrap_or(0)
        }
        Value::Bool(yes) => i64::from(*yes),
        Value::Int(IntKind::Duration, _) => 0,
        Value::Int(_, n) => *n,
        Value::Uint(_, n) => *n as i64,
        // Go's conversion of an out-of-range float gives the smallest number.
        Value::Float(x) if (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(x) => {
            *x as i64
        }
        Value::Float(_) => i64::MIN,
        _ => 0,
    }
}

/// A float from any value; 0 if there is none.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Str(text) => strconv::parse_float(&text.text()).unwrap_or(0.0),
        Value::Bool(yes) => f64::from(u8::from(*yes)),
        Value::Int(IntKind::Int | IntKind::Int64, n) => *n as f64,
        Value::Uint(UintKind::Uint8 | UintKind::Uint64, n) => *n as f64,
        Value::Float(x) => *x,
        _ => 0.0,
    }
}
