//! Regular expressions in the syntax of Go's RE2.
//!
//! The `regex` crate matches in the same way, but its syntax differs slightly: patterns
//! are translated.

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::f;
use super::text_lists::strings_or_nil;
use crate::go::function::{Fail, Function, Outcome};
use crate::go::value::Value;
use crate::go::{Args, Run};

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

/// Maximum sizes of a compiled pattern, in bytes, with the steps per byte of text; larger
/// patterns are rejected. In the worst case a search visits the whole pattern for each
/// byte of the text.
const SIZES: [(usize, usize); 3] = [(16 << 10, 1), (256 << 10, 16), (1 << 20, 64)];

/// Cache of a search, in bytes. With a full cache, a search continues more slowly.
const CACHE: usize = 512 << 10;

/// Go's limit on repetitions.
const MAX_REPEAT: u32 = 1000;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// Half steps per searched byte.
    weight: usize,
}

impl Pattern {
    /// Compiles a Go pattern.
    pub fn compile(pattern: &str) -> Outcome<Self> {
        let translated =
            translate(pattern).map_err(|why| format!("error parsing regexp {pattern:?}: {why}"))?;
        for (size, weight) in SIZES {
            let mut builder = RegexBuilder::new(&translated);
            builder.size_limit(size).dfa_size_limit(CACHE).nest_limit(200);
            match builder.build() {
                Ok(regex) => return Ok(Self { regex, weight }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => {
                    return Err(Fail::Message(format!("error parsing regexp {pattern:?}")));
                }
            }
        }
        let [.., (largest, _)] = SIZES;
        Err(Fail::Limit(format!("a regular expression of more than {largest} bytes, compiled")))
    }

    /// The steps of compiling it.
    pub fn compile_steps(&self) -> usize {
        1000 * (self.weight - 1)
    }

    /// Charges for a search that may read the whole text.
    fn charge_whole(&self, run: &mut Run<'_>, text: &[u8]) -> Outcome<()> {
        run.charge(text.len().saturating_mul(self.weight) / 2)
    }

    /// Charges for a match, and for looking ahead in the rest of the text: its length is
    /// unknown.
    fn charge_match(&self, run: &mut Run<'_>, left: usize) -> Outcome<()> {
        run.charge(1 + left.saturating_mul(self.weight) / 256)
    }
}

/// Translates a Go pattern for the `regex` crate.
fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    // Whether the previous element is a repetition, which Go does not allow to repeat.
    let mut repeated = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let was_repeated = std::mem::take(&mut repeated);
        match c {
            '\\' => rest = escape(&mut out, after, false)?,
            '[' => rest = class(&mut out, after)?,
            '(' => {
                out.push('(');
                rest = match after.strip_prefix('?') {
                    Some(group) => group_start(&mut out, group)?,
                    None => after,
                };
            }
            '*' | '+' | '?' => {
                if was_repeated {
                    return Err("invalid nested repetition operator");
                }
                out.push(c);
                rest = after.strip_prefix('?').inspect(|_| out.push('?')).unwrap_or(after);
                repeated = true;
            }
            '{' => match repetition(after) {
                Some((text, tail)) => {
                    if was_repeated {
                        return Err("invalid nested repetition operator");
                    }
                    let bounds = text.split(',').filter(|n| !n.is_empty());
                    if bounds
                        .clone()
                        .any(|n| n.parse::<u32>().is_ok_and(|n| n > MAX_REPEAT) || n.len() > 4)
                    {
                        return Err("invalid repeat count");
                    }
                    out.push_str(&format!("{{{text}}}"));
                    rest = tail.strip_prefix('?').inspect(|_| out.push('?')).unwrap_or(tail);
                    repeated = true;
                }
                None => {
                    out.push_str(r"\{");
                    rest = after;
                }
            },
            '}' | ']' => {
                out.push('\\');
                out.push(c);
                rest = after;
            }
            _ => {
                out.push(c);
                rest = after;
            }
        }
    }
    Ok(out)
}

/// The bounds of a repetition, if it is one: `{2}`, `{2,}` or `{2,3}`.
fn repetition(rest: &str) -> Option<(&str, &str)> {
    let (text, tail) = rest.split_once('}')?;
    let (low, high) = text.split_once(',').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    (!low.is_empty() && digits(low) && digits(high)).then_some((text, tail))
}

/// The part after `(?`: flags or a name.
fn group_start<'p>(out: &mut String, group: &'p str) -> Result<&'p str, &'static str> {
    out.push('?');
    if group.starts_with("P<") || group.starts_with('<') {
        return Ok(group);
    }
    let end = group.find([':', ')']).ok_or("missing closing )")?;
    if !group[..end].chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')) {
        return Err("invalid or unsupported Perl syntax");
    }
    out.push_str(&group[..end]);
    Ok(&group[end..])
}

/// Translates the part after a backslash; Perl classes are ASCII in Go.
fn escape<'p>(out: &mut String, rest: &'p str, class: bool) -> Result<&'p str, &'static str> {
    let c = rest.chars().next().ok_or("trailing backslash at end of expression")?;
    let after = &rest[c.len_utf8()..];
    let set = match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\x0c\r ]",
        'S' => r"[^\t\n\x0c\r ]",
        'b' if !class => r"(?-u:\b)",
        'B' if !class => r"(?-u:\B)",
        'A' | 'z' if !class => return passed(out, c, after),
        'Q' if !class => {
            let (literal, tail) = after.split_once("\\E").unwrap_or((after, ""));
            out.push_str(&::regex::escape(literal));
            return Ok(tail);
        }
        'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'p' | 'P' => return passed(out, c, after),
        '0'..='7' => {
            let digits = rest.bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            if c != '0' && digits < 2 {
                return Err("invalid escape sequence");
            }
            let code = u32::from_str_radix(&rest[..digits], 8).unwrap_or(0);
            out.push_str(&format!("\\x{{{code:X}}}"));
            return Ok(&rest[digits..]);
        }
        _ if c.is_ascii_punctuation() => return passed(out, c, after),
        _ => return Err("invalid escape sequence"),
    };
    out.push_str(set);
    Ok(after)
}

fn passed<'p>(out: &mut String, c: char, after: &'p str) -> Result<&'p str, &'static str> {
    out.push('\\');
    out.push(c);
    Ok(after)
}

/// Translates a class after its `[`. Go has no nested classes and no operations on classes.
fn class<'p>(out: &mut String, mut rest: &'p str) -> Result<&'p str, &'static str> {
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    loop {
        let c = rest.chars().next().ok_or("missing closing ]")?;
        let after = &rest[c.len_utf8()..];
        match c {
            ']' if !first => {
                out.push(']');
                return Ok(after);
            }
            '\\' => rest = escape(out, after, true)?,
            '[' if after.starts_with(':') && after.contains(":]") => {
                let end = after.find(":]").map_or(after.len(), |at| at + 2);
                out.push('[');
                out.push_str(&after[..end]);
                rest = &after[end..];
            }
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                rest = after;
            }
            // A dash at either end is literal.
            '-' if first || after.starts_with(']') => {
                out.push_str(r"\-");
                rest = after;
            }
            _ => {
                out.push(c);
                rest = after;
            }
        }
        first = false;
    }
}

fn find(run: &mut Run<'_>, a: &[Value]) -> Outcome<Option<Vec<u8>>> {
    let pattern = run.pattern(&a.text(0))?;
    pattern.charge_whole(run, a.bytes(1))?;
    Ok(pattern.regex.find(a.bytes(1)).map(|found| found.as_bytes().to_vec()))
}

/// The number of matches; all for a negative count.
fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn find_all(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let pattern = run.pattern(&a.text(0))?;
    let text = a.bytes(1);
    pattern.charge_whole(run, text)?;
    let mut parts = Vec::new();
    for found in pattern.regex.find_iter(text).take(count(a.int(2))) {
        pattern.charge_match(run, text.len() - found.end())?;
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
    pattern.charge_whole(run, text)?;
    let (mut parts, mut start, mut end) = (Vec::new(), 0, 0);
    for found in pattern.regex.find_iter(text).take(limit) {
        pattern.charge_match(run, text.len() - found.end())?;
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
    pattern.charge_whole(run, text)?;
    let mut out = Vec::with_capacity(text.len());
    let mut last = 0;
    for captures in pattern.regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        out.extend_from_slice(&text[last..whole.start()]);
        let before = out.len();
        put(&mut out, &captures, a.bytes(2));
        last = whole.end();
        pattern.charge_match(run, text.len() - last)?;
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
