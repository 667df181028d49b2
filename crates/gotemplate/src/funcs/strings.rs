//! Strings: trimming, cutting, padding, wrapping, quoting. Positions and lengths are in
//! bytes, as in Go.

use std::collections::HashSet;

use super::convert::strval;
use super::prelude::*;
use crate::engine::{format, strconv};
use crate::sanitize;

pub(super) const FUNCTIONS: &[Function] = &[
    f("hello", "", |_, _| Ok(Value::str("Hello!"))),
    f("trim", "s", |_, a| Ok(Value::str(a.text(0).trim()))),
    f("trimAll", "ss", trim_all),
    f("trimall", "ss", trim_all),
    f("trimSuffix", "ss", |_, a| {
        Ok(Value::str(a.bytes(1).strip_suffix(a.bytes(0)).unwrap_or(a.bytes(1))))
    }),
    f("trimPrefix", "ss", |_, a| {
        Ok(Value::str(a.bytes(1).strip_prefix(a.bytes(0)).unwrap_or(a.bytes(1))))
    }),
    f("nospace", "s", |_, a| Ok(Value::str(without_blanks(a.bytes(0))))),
    f("trunc", "is", |_, a| Ok(Value::str(trunc(a.int(0), a.bytes(1))))),
    f("substr", "iis", |_, a| substr(a.int(0), a.int(1), a.bytes(2))),
    f("abbrev", "is", |_, a| {
        let (width, text) = (a.int(0), a.bytes(1));
        Ok(Value::str(if width < 4 {
            text.to_vec()
        } else {
            abbreviate(text, 0, width).unwrap_or_default()
        }))
    }),
    f("abbrevboth", "iis", |_, a| {
        let (left, right, text) = (a.int(0), a.int(1), a.bytes(2));
        if right < 4 || (left > 0 && right < 7) {
            return Ok(Value::str(text));
        }
        Ok(Value::str(abbreviate(text, left, right).unwrap_or_default()))
    }),
    f("repeat", "is", |run, a| repeat(run, a.int(0), a.bytes(1))),
    f("wrap", "is", |run, a| wrap(run, a.int(0), "", a.bytes(1), false)),
    f("wrapWith", "iss", |run, a| wrap(run, a.int(0), &a.text(1), a.bytes(2), true)),
    f("indent", "is", |run, a| indent(run, "", a.int(0), &a.text(1))),
    f("nindent", "is", |run, a| indent(run, "\n", a.int(0), &a.text(1))),
    f("contains", "ss", |_, a| Ok(Value::Bool(a.text(1).contains(&*a.text(0))))),
    f("hasPrefix", "ss", |_, a| Ok(Value::Bool(a.bytes(1).starts_with(a.bytes(0))))),
    f("hasSuffix", "ss", |_, a| Ok(Value::Bool(a.bytes(1).ends_with(a.bytes(0))))),
    f("replace", "sss", replace),
    f("plural", "ssi", |_, a| Ok(Value::str(a.bytes(if a.int(2) == 1 { 0 } else { 1 })))),
    f("quote", "a*", |run, a| {
        spaced(run, a, |run, value| Ok(strconv::quote(&strval(run, value)?, false)))
    }),
    f("squote", "a*", |run, a| {
        spaced(run, a, |run, value| Ok([b"'", &*format::text(run, value)?, b"'"].concat()))
    }),
    f("cat", "a*", |run, a| spaced(run, a, format::text)),
    f("shuffle", "s", |run, a| {
        let mut chars: Vec<char> = a.text(0).chars().collect();
        for i in (1..chars.len()).rev() {
            let j = run.random_below(i as u64 + 1)?;
            chars.swap(i, j as usize);
        }
        Ok(Value::str(chars.into_iter().collect::<String>()))
    }),
    f("normalize", "s", |_, a| Ok(Value::str(sanitize::normalize_name(&a.text(0))))),
    f("slugify", "a*", slugify),
];

/// The text without white space; if there is any, each byte is treated as a Latin-1
/// character, as in Go's library.
fn without_blanks(text: &[u8]) -> Vec<u8> {
    let is_blank = |b: &u8| char::from(*b).is_whitespace();
    if !text.iter().any(is_blank) {
        return text.to_vec();
    }
    let kept = text.iter().filter(|b| !is_blank(b)).map(|b| char::from(*b));
    kept.collect::<String>().into_bytes()
}

/// All values except nils as text, separated by spaces.
fn spaced(
    run: &mut Run<'_>,
    values: &[Value],
    text: fn(&mut Run<'_>, &Value) -> Outcome<Vec<u8>>,
) -> Outcome {
    let mut out = Vec::new();
    for (i, value) in values.iter().filter(|value| !value.is_nil()).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend(text(run, value)?);
        run.check_len(out.len())?;
    }
    Ok(Value::str(out))
}

fn trim_all(_: &mut Run<'_>, a: &[Value]) -> Outcome {
    let cut: HashSet<char> = a.text(0).chars().collect();
    Ok(Value::str(a.text(1).trim_matches(|c| cut.contains(&c))))
}

fn trunc(n: i64, text: &[u8]) -> &[u8] {
    let size = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= text.len() {
        return text;
    }
    if n < 0 { &text[text.len() - size..] } else { &text[..size] }
}

fn substr(start: i64, end: i64, text: &[u8]) -> Outcome {
    let part = if start < 0 {
        usize::try_from(end).ok().and_then(|end| text.get(..end))
    } else {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        match usize::try_from(end) {
            Ok(end) if end <= text.len() => text.get(start..end),
            _ => text.get(start..),
        }
    };
    Ok(Value::str(part.ok_or("slice bounds out of range")?))
}

/// Truncates text to a width, with dots; `None` if the width is too short for the dots.
fn abbreviate(text: &[u8], offset: i64, width: i64) -> Option<Vec<u8>> {
    let len = text.len() as i64;
    if text.is_empty() || width < 4 {
        return None;
    }
    if len <= width {
        return Some(text.to_vec());
    }
    let mut offset = offset.min(len);
    if len - offset < width - 3 {
        offset = len - (width - 3);
    }
    let part =
        |from: i64, to: i64| text.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
    if offset <= 4 {
        return Some([part(0, width - 3)?, b"..."].concat());
    }
    if width < 7 {
        return None;
    }
    if offset + width - 3 < len {
        let rest = abbreviate(part(offset, len)?, 0, width - 3).unwrap_or_default();
        return Some([b"...", rest.as_slice()].concat());
    }
    Some([b"...", part(len - (width - 3), len)?].concat())
}

fn repeat(run: &mut Run<'_>, count: i64, text: &[u8]) -> Outcome {
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count")?;
    run.charge_bytes(count.saturating_mul(text.len()))?;
    Ok(Value::str(if text.is_empty() { Vec::new() } else { text.repeat(count) }))
}

fn indent(run: &mut Run<'_>, first: &str, spaces: i64, text: &str) -> Outcome {
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count")?;
    let lines = text.matches('\n').count() + 1;
    run.charge_bytes(spaces.saturating_mul(lines).saturating_add(text.len()))?;
    let pad = " ".repeat(spaces);
    Ok(Value::str(format!("{first}{pad}{}", text.replace('\n', &format!("\n{pad}")))))
}

fn replace(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let (old, new, text) = (a.text(0), a.text(1), a.text(2));
    let count = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
    // The worst case: every part of the text is replaced.
    let size =
        if new.len() > old.len() { text.matches(&*old).count().min(count) * new.len() } else { 0 };
    run.charge_bytes(size.saturating_add(text.len()))?;
    Ok(Value::str(text.replace(&*old, &new)))
}

/// Breaks lines at spaces; long words are cut only with `cut_words`.
fn wrap(run: &mut Run<'_>, width: i64, newline: &str, text: &[u8], cut_words: bool) -> Outcome {
    let newline = if newline.is_empty() { "\n" } else { newline };
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    run.charge_bytes(
        (text.len() / width).saturating_mul(newline.len()).saturating_add(text.len()),
    )?;
    let mut out = Vec::with_capacity(text.len());
    let mut offset = 0;
    while text.len() - offset > width {
        if text[offset] == b' ' {
            offset += 1;
            continue;
        }
        let end = offset + width;
        let line = &text[offset..=end];
        let space = match line.iter().rposition(|b| *b == b' ') {
            Some(at) => Some(offset + at),
            None if cut_words => None,
            None => match text[end..].iter().position(|b| *b == b' ') {
                Some(at) => Some(end + at),
                None => {
                    out.extend_from_slice(&text[offset..]);
                    offset = text.len();
                    break;
                }
            },
        };
        let (stop, next) = space.map_or((end, end), |at| (at, at + 1));
        out.extend_from_slice(&text[offset..stop]);
        out.extend_from_slice(newline.as_bytes());
        offset = next;
    }
    out.extend_from_slice(&text[offset..]);
    Ok(Value::str(out))
}

/// `slugify [max [smart]] text` (AS-171).
fn slugify(_: &mut Run<'_>, a: &[Value]) -> Outcome {
    if a.is_empty() {
        return Ok(Value::str(""));
    }
    let Some((Value::Str(text), options)) = a.split_last() else {
        return Err("slugify: the last argument must be a string".into());
    };
    let max = match options.first() {
        None => 50,
        Some(Value::Int(crate::engine::value::IntKind::Int, n)) => *n,
        Some(_) => return Err("slugify: the maximum length must be an int".into()),
    };
    let smart = match options.get(1) {
        None => true,
        Some(Value::Bool(smart)) => *smart,
        Some(_) => return Err("slugify: smart truncation must be a bool".into()),
    };
    let max = match usize::try_from(max) {
        Ok(max) => max,
        Err(_) if smart => 0,
        Err(_) => return Err("slugify: the maximum length must not be negative".into()),
    };
    Ok(Value::str(sanitize::slugify_name(max, smart, &text.text())))
}
