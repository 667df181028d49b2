//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`, and deep equality.

use std::cmp::Ordering;

use super::fail::Outcome;
use super::run::Run;
use super::value::Value;

const INCOMPATIBLE: &str = "incompatible types for comparison";

/// Whether the first argument equals any of the others.
pub(super) fn eq(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let Some((first, rest)) = args.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Err("missing argument for comparison".into());
    };
    for other in rest {
        if equal(first, other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

pub(super) fn ne(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(!equal(&args[0], &args[1])?))
}

pub(super) fn lt(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(order(&args[0], &args[1])? == Some(Ordering::Less)))
}

pub(super) fn le(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(at_most(&args[0], &args[1])?))
}

pub(super) fn gt(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    // As Go does it: with a NaN on either side this is true.
    Ok(Value::Bool(!at_most(&args[0], &args[1])?))
}

pub(super) fn ge(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(order(&args[0], &args[1])? != Some(Ordering::Less)))
}

fn at_most(a: &Value, b: &Value) -> Outcome<bool> {
    Ok(matches!(order(a, b)?, Some(Ordering::Less | Ordering::Equal)))
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::List(list) => list.nil,
        Value::Dict(dict) => dict.nil,
        _ => value.is_nil(),
    }
}

fn equal(a: &Value, b: &Value) -> Outcome<bool> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(_, a), Value::Int(_, b)) => a == b,
        (Value::Uint(_, a), Value::Uint(_, b)) => a == b,
        (Value::Int(_, a), Value::Uint(_, b)) | (Value::Uint(_, b), Value::Int(_, a)) => {
            u64::try_from(*a).is_ok_and(|a| a == *b)
        }
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, x), Value::Complex(b, y)) => a == b && x == y,
        (Value::Str(a), Value::Str(b)) => a == b,
        _ if a.is_nil() || b.is_nil() => is_nil(a) && is_nil(b),
        (Value::List(_), Value::List(_)) | (Value::Dict(_), Value::Dict(_)) => {
            if !is_nil(a) && !is_nil(b) {
                return Err(format!("non-comparable type {}", b.type_name()).into());
            }
            is_nil(a) == is_nil(b)
        }
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => std::rc::Rc::ptr_eq(a, b),
        (Value::Certificate(a), Value::Certificate(b)) => a == b,
        _ => return Err(INCOMPATIBLE.into()),
    })
}

/// The order of two values; none with a NaN.
fn order(a: &Value, b: &Value) -> Outcome<Option<Ordering>> {
    Ok(match (a, b) {
        (Value::Int(_, a), Value::Int(_, b)) => Some(a.cmp(b)),
        (Value::Uint(_, a), Value::Uint(_, b)) => Some(a.cmp(b)),
        (Value::Int(_, a), Value::Uint(_, b)) => {
            Some(u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b)))
        }
        (Value::Uint(_, a), Value::Int(_, b)) => {
            Some(u64::try_from(*b).map_or(Ordering::Greater, |b| a.cmp(&b)))
        }
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bool(_) | Value::Complex(..), Value::Bool(_) | Value::Complex(..)) => {
            return Err("invalid type for comparison".into());
        }
        _ => return Err(INCOMPATIBLE.into()),
    })
}

/// Go's `reflect.DeepEqual`: types must agree too.
pub(crate) fn deep_equal(run: &mut Run<'_>, a: &Value, b: &Value, depth: usize) -> Outcome<bool> {
    Run::check_depth(depth)?;
    run.charge(1)?;
    Ok(match (a, b) {
        (Value::Absent | Value::Nil, Value::Absent | Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(x, a), Value::Int(y, b)) => x == y && a == b,
        (Value::Uint(x, a), Value::Uint(y, b)) => x == y && a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, x), Value::Complex(b, y)) => a == b && x == y,
        (Value::Str(a), Value::Str(b)) => {
            run.read(a.bytes().len().min(b.bytes().len()))?;
            a == b
        }
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => a == b,
        (Value::Certificate(a), Value::Certificate(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.elem != b.elem || a.nil != b.nil || a.items().len() != b.items().len() {
                return Ok(false);
            }
            for (a, b) in a.items().iter().zip(b.items()) {
                if !deep_equal(run, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Dict(a), Value::Dict(b)) => {
            if a.text != b.text || a.nil != b.nil || a.len() != b.len() {
                return Ok(false);
            }
            for ((k, a), (l, b)) in run.entries(a)?.iter().zip(&run.entries(b)?) {
                if k != l || !deep_equal(run, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => false,
    })
}
