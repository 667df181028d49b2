//! Splitting and joining text.

use std::collections::BTreeMap;

use super::convert::strval;
use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("split", "ss", |run, a| {
        let parts = split(run, &a.text(0), &a.text(1), -1)?;
        numbered(run, parts)
    }),
    f("splitn", "sis", |run, a| {
        let parts = split(run, &a.text(0), &a.text(2), a.int(1))?;
        numbered(run, parts)
    }),
    f("splitList", "ss", |run, a| Ok(Value::strings(split(run, &a.text(0), &a.text(1), -1)?))),
    f("join", "sa", |run, a| {
        let parts = str_slice(run, &a[1])?;
        let size: usize = parts.iter().map(|part| part.len() + a.bytes(0).len()).sum();
        run.charge_bytes(size)?;
        Ok(Value::str(parts.join(a.bytes(0))))
    }),
    f("sortAlpha", "a", |run, a| {
        if !matches!(a[0], Value::List(_)) {
            let one = strval(run, &a[0])?;
            return run.strings(vec![one]);
        }
        let mut parts = str_slice(run, &a[0])?;
        parts.sort();
        Ok(Value::strings(parts))
    }),
    f("toStrings", "a", |run, a| Ok(Value::strings(str_slice(run, &a[0])?))),
];

/// Splits into at most `limit` parts, any number if it is negative; an empty separator splits between characters.
fn split(run: &mut Run<'_>, separator: &str, text: &str, limit: i64) -> Outcome<Vec<String>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Vec::new());
    }
    if !separator.is_empty() {
        let count = text.matches(separator).count().saturating_add(1).min(limit);
        run.build_texts(count, text.len())?;
        return Ok(text.splitn(limit, separator).map(str::to_owned).collect());
    }
    run.build_texts(text.len().min(limit), text.len())?;
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest.to_owned());
            break;
        }
        parts.push(c.to_string());
        rest = &rest[c.len_utf8()..];
    }
    Ok(parts)
}

/// A dict with the keys `_0`, `_1` and so on.
fn numbered(run: &mut Run<'_>, parts: Vec<String>) -> Outcome {
    run.build_texts(2 * parts.len(), 0)?;
    let entries: BTreeMap<String, Value> = parts
        .into_iter()
        .enumerate()
        .map(|(i, part)| (format!("_{i}"), Value::str(part)))
        .collect();
    Ok(Value::Dict(Dict::of_text(entries)))
}

/// The elements of a list as text, without nils; anything else is a list of one.
pub(super) fn str_slice(run: &mut Run<'_>, value: &Value) -> Outcome<Vec<Vec<u8>>> {
    match value {
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.items().len());
            for item in list.items().iter().filter(|item| !item.is_nil()) {
                run.build_texts(1, item.text_len())?;
                parts.push(strval(run, item)?);
            }
            Ok(parts)
        }
        Value::Absent | Value::Nil => Ok(Vec::new()),
        _ => Ok(vec![strval(run, value)?]),
    }
}

/// A list of text, nil where there is none.
pub(super) fn strings_or_nil(parts: Vec<Vec<u8>>) -> Value {
    if parts.is_empty() { Value::List(List::nil(Elem::Str)) } else { Value::strings(parts) }
}
