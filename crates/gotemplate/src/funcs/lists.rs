//! Lists. A function that changes a list returns a new one.

use super::convert::to_int;
use super::prelude::*;
use crate::engine::compare::deep_equal;

pub(super) const FUNCTIONS: &[Function] = &[
    f("list", "a*", |run, a| run.list(a.to_vec())),
    f("tuple", "a*", |run, a| run.list(a.to_vec())),
    f("first", "a", first),
    f("mustFirst", "a", first),
    f("last", "a", last),
    f("mustLast", "a", last),
    f("rest", "a", rest),
    f("mustRest", "a", rest),
    f("initial", "a", initial),
    f("mustInitial", "a", initial),
    f("append", "aa", append),
    f("mustAppend", "aa", append),
    f("push", "aa", append),
    f("mustPush", "aa", append),
    f("prepend", "aa", prepend),
    f("mustPrepend", "aa", prepend),
    f("concat", "a*", concat),
    f("reverse", "a", reverse),
    f("mustReverse", "a", reverse),
    f("uniq", "a", uniq),
    f("mustUniq", "a", uniq),
    f("without", "aa*", without),
    f("mustWithout", "aa*", without),
    f("has", "aa", has),
    f("mustHas", "aa", has),
    f("compact", "a", compact),
    f("mustCompact", "a", compact),
    f("slice", "aa*", slice),
    f("mustSlice", "aa*", slice),
    f("chunk", "ia", chunk),
    f("mustChunk", "ia", chunk),
];

/// The elements; copying them costs steps, so that loops cannot exhaust memory.
fn items<'v>(run: &mut Run<'_>, value: &'v Value) -> Outcome<&'v [Value]> {
    match value {
        Value::List(list) => {
            run.charge(list.items().len() / 4)?;
            Ok(list.items())
        }
        other => Err(Fail::Message(format!("cannot find a list in type {}", other.type_name()))),
    }
}

fn first(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    Ok(items(run, &a[0])?.first().cloned().unwrap_or(Value::Nil))
}

fn last(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    Ok(items(run, &a[0])?.last().cloned().unwrap_or(Value::Nil))
}

fn rest(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    match items(run, &a[0])?.split_first() {
        Some((_, rest)) => run.list(rest.to_vec()),
        None => Ok(Value::List(List::nil(Elem::Any))),
    }
}

fn initial(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    match items(run, &a[0])?.split_last() {
        Some((_, initial)) => run.list(initial.to_vec()),
        None => Ok(Value::List(List::nil(Elem::Any))),
    }
}

fn append(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut list = items(run, &a[0])?.to_vec();
    list.push(a[1].clone());
    run.list(list)
}

fn prepend(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut list = vec![a[1].clone()];
    list.extend_from_slice(items(run, &a[0])?);
    run.list(list)
}

fn concat(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut list = Vec::new();
    for value in a {
        list.extend_from_slice(items(run, value)?);
    }
    if list.is_empty() { Ok(Value::List(List::nil(Elem::Any))) } else { run.list(list) }
}

fn reverse(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let reversed = items(run, &a[0])?.iter().rev().cloned().collect();
    run.list(reversed)
}

fn contains(run: &mut Run<'_>, list: &[Value], value: &Value) -> Outcome<bool> {
    for item in list {
        if deep_equal(run, item, value, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut list: Vec<Value> = Vec::new();
    for item in items(run, &a[0])? {
        if !contains(run, &list, item)? {
            list.push(item.clone());
        }
    }
    run.list(list)
}

fn without(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut list = Vec::new();
    for item in items(run, &a[0])? {
        if !contains(run, &a[1..], item)? {
            list.push(item.clone());
        }
    }
    run.list(list)
}

fn has(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    if a[1].is_nil() {
        return Ok(Value::Bool(false));
    }
    let list = items(run, &a[1])?;
    Ok(Value::Bool(contains(run, list, &a[0])?))
}

fn compact(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let kept = items(run, &a[0])?.iter().filter(|item| item.truth()).cloned().collect();
    run.list(kept)
}

fn slice(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let list = items(run, &a[0])?;
    if list.is_empty() {
        return Ok(Value::Nil);
    }
    let start = a.get(1).map_or(0, to_int);
    let end = a.get(2).map_or(list.len() as i64, to_int);
    let part = usize::try_from(start)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| list.get(start..end));
    let part = part.ok_or("slice bounds out of range")?.to_vec();
    let elem = if let Value::List(list) = &a[0] { list.elem } else { Elem::Any };
    run.list_of(elem, part)
}

fn chunk(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let list = items(run, &a[1])?;
    let size = a.int(0);
    if size < 1 && size > -(list.len() as i64).max(1) {
        return Err("the size of a chunk must be positive".into());
    }
    let chunks = match usize::try_from(size) {
        Ok(size) => {
            let chunks = list.chunks(size).map(|chunk| run.list(chunk.to_vec()));
            chunks.collect::<Outcome<Vec<Value>>>()?
        }
        Err(_) => Vec::new(),
    };
    run.list_of(Elem::List, chunks)
}
