//! Dicts. `set`, `unset` and the merges change the dict itself, and all references to it.

use std::collections::BTreeMap;

use super::convert::strval;
use super::prelude::*;
use crate::engine::compare::deep_equal;
use crate::engine::value::valid_text;

pub(super) const FUNCTIONS: &[Function] = &[
    f("dict", "a*", dict),
    f("get", "ds", |_, a| Ok(a.dict(0)?.get(&a.text(1)).unwrap_or_else(|| Value::str("")))),
    f("set", "dsa", |run, a| {
        run.changing(a.dict(0)?)?;
        run.build_entry(&a.text(1))?;
        a.dict(0)?.insert(a.text(1).into_owned(), a[2].clone());
        Ok(a[0].clone())
    }),
    f("unset", "ds", |run, a| {
        run.register(a.dict(0)?)?;
        a.dict(0)?.remove(&a.text(1));
        Ok(a[0].clone())
    }),
    f("hasKey", "ds", |_, a| Ok(Value::Bool(a.dict(0)?.has(&a.text(1))))),
    f("pluck", "sd*", |run, a| {
        let key = a.text(0);
        let mut values = Vec::new();
        for i in 1..a.len() {
            values.extend(a.dict(i)?.get(&key));
        }
        run.list(values)
    }),
    f("keys", "d*", |run, a| {
        let mut keys = Vec::new();
        for i in 0..a.len() {
            keys.extend(run.keys(a.dict(i)?)?);
        }
        run.strings(keys)
    }),
    f("values", "d", |run, a| {
        let values = run.entries(a.dict(0)?)?.into_iter().map(|(_, value)| value).collect();
        run.list(values)
    }),
    f("pick", "ds*", |run, a| {
        let dict = a.dict(0)?;
        let keys = (1..a.len()).map(|i| a.text(i).into_owned());
        run.dict(keys.filter_map(|key| dict.get(&key).map(|value| (key, value))).collect())
    }),
    f("omit", "ds*", |run, a| {
        let mut entries: BTreeMap<String, Value> = run.entries(a.dict(0)?)?.into_iter().collect();
        for i in 1..a.len() {
            entries.remove(&*a.text(i));
        }
        run.dict(entries)
    }),
    f("merge", "dd*", |run, a| merge_all(run, a, false)),
    f("mustMerge", "dd*", |run, a| merge_all(run, a, false)),
    f("mergeOverwrite", "dd*", |run, a| merge_all(run, a, true)),
    f("mustMergeOverwrite", "dd*", |run, a| merge_all(run, a, true)),
    f("dig", "a*", dig),
    f("deepCopy", "a", deep_copy),
    f("mustDeepCopy", "a", deep_copy),
    f("deepEqual", "aa", |run, a| Ok(Value::Bool(deep_equal(run, &a[0], &a[1], 0)?))),
];

fn dict(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut entries = BTreeMap::new();
    for pair in a.chunks(2) {
        let key = valid_text(&strval(run, &pair[0])?).into_owned();
        run.build_entry(&key)?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::str("")));
    }
    Ok(Value::dict(entries))
}

fn merge_all(run: &mut Run<'_>, a: &[Value], overwrite: bool) -> Outcome {
    let target = if a.dict(0)?.nil { Dict::new(BTreeMap::new()) } else { a.dict(0)?.clone() };
    for i in 1..a.len() {
        merge(run, &target, a.dict(i)?, overwrite, 0)?;
    }
    Ok(Value::Dict(target))
}

/// Merges `source` into `target`; an existing value is replaced when it is empty or
/// `overwrite` is set, and dicts are merged.
fn merge(
    run: &mut Run<'_>,
    target: &Dict,
    source: &Dict,
    overwrite: bool,
    depth: usize,
) -> Outcome<()> {
    Run::check_depth(depth)?;
    run.charge(source.len())?;
    if target.is(source) {
        return Ok(());
    }
    run.changing(target)?;
    for (key, theirs) in run.entries(source)? {
        let ours = target.get(&key);
        if let (Some(Value::Dict(ours)), Value::Dict(theirs)) = (&ours, &theirs)
            && !ours.nil
        {
            merge(run, ours, theirs, overwrite, depth + 1)?;
            if ours.len() > 0 {
                continue;
            }
        }
        let replace = match &ours {
            None => true,
            // A nil replaces a value only with `overwrite`.
            Some(ours) => overwrite || (!theirs.is_nil() && !ours.truth()),
        };
        if replace && (ours.is_some() || !theirs.is_nil() || overwrite) {
            run.build_entry(&key)?;
            target.insert(key, theirs);
        }
    }
    Ok(())
}

fn dig(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let [keys @ .., default, dict] = a else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut here = dict.clone();
    for key in keys {
        run.charge(1)?;
        let Value::Str(key) = key else { return Err("a key of dig must be a string".into()) };
        let step = match &here {
            Value::Dict(dict) if !dict.text => dict.get(&key.text()),
            other => {
                return Err(format!("dig found {} instead of a dict", other.type_name()).into());
            }
        };
        match step {
            Some(step) => here = step,
            None => return Ok(default.clone()),
        }
    }
    Ok(here)
}

fn deep_copy(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    if a[0].is_nil() {
        return Err("cannot copy nil".into());
    }
    copy(run, &a[0], 0)
}

fn copy(run: &mut Run<'_>, value: &Value, depth: usize) -> Outcome {
    Run::check_depth(depth)?;
    run.charge(1)?;
    match value {
        Value::List(list) if !list.nil => {
            let items: Outcome<Vec<Value>> =
                list.items().iter().map(|item| copy(run, item, depth + 1)).collect();
            run.list_of(list.elem, items?)
        }
        Value::Dict(dict) if !dict.nil => {
            let mut entries = BTreeMap::new();
            for (key, item) in run.entries(dict)? {
                run.build_entry(&key)?;
                entries.insert(key, copy(run, &item, depth + 1)?);
            }
            Ok(Value::Dict(if dict.text { Dict::of_text(entries) } else { Dict::new(entries) }))
        }
        _ => Ok(value.clone()),
    }
}
