//! Regular expressions in the syntax of Go's RE2.
//!
//! The `regex` crate matches in the same way, but its syntax differs slightly: patterns
//! are translated.

use regex::bytes::{Regex, RegexBuilder};

use super::fail::{Fail, Outcome};

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
    pub regex: Regex,
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

    /// The steps of a search that may read the whole text.
    pub fn search_steps(&self, text: &[u8]) -> usize {
        text.len().saturating_mul(self.weight) / 2
    }

    /// The steps of a match, and of looking ahead in the rest of the text: its length is unknown.
    pub fn match_steps(&self, left: usize) -> usize {
        1 + left.saturating_mul(self.weight) / 256
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
            out.push_str(&regex::escape(literal));
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
