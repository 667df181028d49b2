//! Functions of regular expressions.

use regex::bytes::Captures;

use super::prelude::*;
use super::text_lists::strings_or_nil;

pub(super) const FUNCTIONS: &[Function] = &[
    f("regexMatch", "ss", |run, a| match find(run, a) {
        Err(Fail::Message(_)) => Ok(Value::Bool(false)),
        found => Ok(Value::Bool(found?.is_some())),
    }),
    f("mustRegexMatch", "ss", |run, a| Ok(Value::Bool(find(run, a)?.is_some()))),
    f("regexFind", "ss", |run, a| Ok(Value::str(find(run, a)?.unwrap_or_default()))),
    f("mustRegexFind", "ss", |run, a| Ok(Value::str(find(run, a)?.unwrap_or_default()))),
    f("regexFindAll", "ssi", find_all),
    f("mustRegexFindAll", "ssi", find_all),
    f("regexReplaceAll", "sss", replace),
    f("mustRegexReplaceAll", "sss", replace),
    f("regexReplaceAllLiteral", "sss", replace_literal),
    f("mustRegexReplaceAllLiteral", "sss", replace_literal),
    f("regexSplit", "ssi", split),
    f("mustRegexSplit", "ssi", split),
    f("regexQuoteMeta", "s", |_, a| {
        let mut out = String::new();
        for c in a.text(0).chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Ok(Value::str(out))
    }),
];

fn find(run: &mut Run<'_>, a: &[Value]) -> Outcome<Option<Vec<u8>>> {
    let pattern = run.pattern(&a.text(0))?;
    run.charge(pattern.search_steps(a.bytes(1)))?;
    Ok(pattern.regex.find(a.bytes(1)).map(|found| found.as_bytes().to_vec()))
}

/// The number of matches; all for a negative count.
fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn find_all(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let pattern = run.pattern(&a.text(0))?;
    let text = a.bytes(1);
    run.charge(pattern.search_steps(text))?;
    let mut parts = Vec::new();
    for found in pattern.regex.find_iter(text).take(count(a.int(2))) {
        run.charge(pattern.match_steps(text.len() - found.end()))?;
        run.build_texts(1, found.len())?;
        parts.push(found.as_bytes().to_vec());
    }
    Ok(strings_or_nil(parts))
}

fn split(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let pattern = run.pattern(&a.text(0))?;
    let (text, limit) = (a.bytes(1), count(a.int(2)));
    if limit == 0 {
        return Ok(strings_or_nil(Vec::new()));
    }
    if text.is_empty() && !a.bytes(0).is_empty() {
        return run.strings(vec![""]);
    }
    run.charge(pattern.search_steps(text))?;
    let (mut parts, mut start, mut end) = (Vec::new(), 0, 0);
    for found in pattern.regex.find_iter(text).take(limit) {
        run.charge(pattern.match_steps(text.len() - found.end()))?;
        run.build_texts(1, 0)?;
        if parts.len() + 1 == limit {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(text[start..end].to_vec());
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(text[start..].to_vec());
    }
    Ok(Value::strings(parts))
}

fn replace(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    replace_with(run, a, expand)
}

fn replace_literal(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    replace_with(run, a, |out, _, template| out.extend_from_slice(template))
}

fn replace_with(
    run: &mut Run<'_>,
    a: &[Value],
    put: fn(&mut Vec<u8>, &Captures<'_>, &[u8]),
) -> Outcome {
    let pattern = run.pattern(&a.text(0))?;
    let text = a.bytes(1);
    run.charge(pattern.search_steps(text))?;
    let mut out = Vec::with_capacity(text.len());
    let mut last = 0;
    for captures in pattern.regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        out.extend_from_slice(&text[last..whole.start()]);
        let before = out.len();
        put(&mut out, &captures, a.bytes(2));
        last = whole.end();
        run.charge(pattern.match_steps(text.len() - last))?;
        run.build(out.len() - before)?;
        run.check_len(out.len())?;
    }
    out.extend_from_slice(&text[last..]);
    Ok(Value::str(out))
}

/// Inserts a replacement with its `$1`, `$name` and `${name}`; names are as long as possible.
fn expand(out: &mut Vec<u8>, captures: &Captures<'_>, template: &[u8]) {
    let mut rest = template;
    while let Some(at) = rest.iter().position(|b| *b == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"$") {
            out.push(b'$');
            rest = after;
            continue;
        }
        let (name, after) = match rest.strip_prefix(b"{") {
            Some(inner) => {
                let len = word(inner);
                match inner[len..].strip_prefix(b"}") {
                    Some(after) if len > 0 => (&inner[..len], after),
                    _ => (&b""[..], rest),
                }
            }
            None => rest.split_at(word(rest)),
        };
        if name.is_empty() {
            // Not a name: a literal dollar.
            out.push(b'$');
            continue;
        }
        let name = String::from_utf8_lossy(name);
        let found = match name.parse::<usize>() {
            Ok(n)
                if name.bytes().all(|b| b.is_ascii_digit())
                    && !(name.len() > 1 && name.starts_with('0')) =>
            {
                captures.get(n)
            }
            _ => captures.name(&name),
        };
        if let Some(found) = found {
            out.extend_from_slice(found.as_bytes());
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// The length of the letters, digits and underscores that a text starts with.
fn word(text: &[u8]) -> usize {
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}
