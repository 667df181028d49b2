//! The built-in functions of the language.

use super::fail::Outcome;
use super::function::{Function, f};
use super::run::{Args, Run};
use super::value::{Value, valid_text};
use super::{compare, escape, format, verbs};

pub(crate) const FUNCTIONS: &[Function] = &[
    // The executor evaluates the arguments of these two lazily.
    f("and", "vv*", last),
    f("or", "vv*", last),
    f("not", "v", |_, a| Ok(Value::Bool(!a[0].truth()))),
    f("eq", "vv*", compare::eq),
    f("ne", "vv", compare::ne),
    f("lt", "vv", compare::lt),
    f("le", "vv", compare::le),
    f("gt", "vv", compare::gt),
    f("ge", "vv", compare::ge),
    f("index", "vv*", index),
    f("len", "v", len),
    f("print", "a*", |run, a| Ok(Value::str(format::print(run, a)?))),
    f("println", "a*", |run, a| Ok(Value::str(format::println(run, a)?))),
    f("printf", "sa*", |run, a| Ok(Value::str(format::printf(run, a.bytes(0), &a[1..])?))),
    f("html", "a*", |run, a| Ok(Value::str(escape::html(&joined(run, a)?)))),
    f("js", "a*", |run, a| Ok(Value::str(escape::js(&valid_text(&joined(run, a)?))))),
    f("urlquery", "a*", |run, a| Ok(Value::str(escape::query(&joined(run, a)?)))),
    f("call", "vv*", call),
];

fn last(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(args.last().cloned().unwrap_or(Value::Absent))
}

/// The arguments as one text; a nil prints as `<no value>`.
fn joined(run: &mut Run<'_>, args: &[Value]) -> Outcome<Vec<u8>> {
    if let [Value::Str(text)] = args {
        return Ok(text.bytes().to_vec());
    }
    let args: Vec<Value> = args
        .iter()
        .map(|arg| if arg.is_nil() { Value::str("<no value>") } else { arg.clone() })
        .collect();
    format::print(run, &args)
}

fn len(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let len = match &args[0] {
        Value::Str(text) => text.bytes().len(),
        Value::List(list) => list.items().len(),
        Value::Dict(dict) => dict.len(),
        Value::Absent | Value::Nil => return Err("len of nil pointer".into()),
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::int(len as i64))
}

fn index(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut item = args[0].clone();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for key in &args[1..] {
        item = match &item {
            Value::Str(text) => verbs::byte(text.bytes()[position(key, text.bytes().len())?]),
            Value::List(list) => list.items()[position(key, list.items().len())?].clone(),
            Value::Dict(dict) => match key {
                Value::Str(key) => {
                    let none = || if dict.text { Value::str("") } else { Value::Nil };
                    dict.get(&key.text()).unwrap_or_else(none)
                }
                Value::Absent | Value::Nil => {
                    return Err("value is nil; should be of type string".into());
                }
                _ => {
                    return Err(
                        format!("value has type {}; should be string", key.type_name()).into()
                    );
                }
            },
            Value::Absent | Value::Nil => return Err("index of nil pointer".into()),
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}

fn position(index: &Value, len: usize) -> Outcome<usize> {
    let position = match index {
        Value::Int(_, n) => usize::try_from(*n).ok(),
        Value::Uint(_, n) => usize::try_from(*n).ok(),
        Value::Absent | Value::Nil => return Err("cannot index slice/array with nil".into()),
        _ => return Err(format!("cannot index slice/array with type {}", index.type_name()).into()),
    };
    position.filter(|n| *n < len).ok_or_else(|| "index out of range".into())
}

fn call(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    if args[0].is_nil() {
        return Err("call of nil".into());
    }
    Err(format!("non-function of type {}", args[0].type_name()).into())
}
