//! The built-in functions of the language.

use super::function::{Function, Outcome};
use super::run::{Args, Run};
use super::value::Value;
use super::{compare, escape, format, verbs};

pub(super) const FUNCTIONS: &[Function] = &[
    // The executor evaluates the arguments of these two lazily.
    Function { name: "and", params: "vv*", body: last },
    Function { name: "or", params: "vv*", body: last },
    Function { name: "not", params: "v", body: |_, a| Ok(Value::Bool(!a[0].truth())) },
    Function { name: "eq", params: "vv*", body: compare::eq },
    Function { name: "ne", params: "vv", body: compare::ne },
    Function { name: "lt", params: "vv", body: compare::lt },
    Function { name: "le", params: "vv", body: compare::le },
    Function { name: "gt", params: "vv", body: compare::gt },
    Function { name: "ge", params: "vv", body: compare::ge },
    Function { name: "index", params: "vv*", body: index },
    Function { name: "len", params: "v", body: len },
    Function { name: "print", params: "a*", body: |run, a| Ok(Value::str(format::print(run, a)?)) },
    Function {
        name: "println",
        params: "a*",
        body: |run, a| Ok(Value::str(format::println(run, a)?)),
    },
    Function {
        name: "printf",
        params: "sa*",
        body: |run, a| Ok(Value::str(format::printf(run, a.bytes(0), &a[1..])?)),
    },
    Function {
        name: "html",
        params: "a*",
        body: |run, a| Ok(Value::str(escape::html(&joined(run, a)?))),
    },
    Function {
        name: "js",
        params: "a*",
        body: |run, a| Ok(Value::str(escape::js(&String::from_utf8_lossy(&joined(run, a)?)))),
    },
    Function {
        name: "urlquery",
        params: "a*",
        body: |run, a| Ok(Value::str(escape::query(&joined(run, a)?))),
    },
    Function { name: "call", params: "vv*", body: call },
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
