//! The patterns of `directory.include` and `directory.exclude` (SE-095).
//!
//! `*` and `?` cross `/`, unlike in a shell. A pattern becomes a regular
//! expression that is matched in linear time, so a hostile one cannot stall.

use regex::{Regex, RegexBuilder};

/// Longest accepted pattern, in bytes.
const MAX_PATTERN: usize = 4096;

/// Most memory of one compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// A pattern over relative paths with `/` between their parts.
#[derive(Debug, Clone)]
pub struct Glob(Regex);

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?}: {reason}")]
pub struct InvalidGlob {
    /// The pattern, its beginning when it is long.
    pub pattern: String,
    /// What is wrong.
    pub reason: &'static str,
}

impl Glob {
    /// Reads a pattern: `*` and `**` any text, `?` any character, `[a-z]`,
    /// `[!a-z]`, `{one,other}` (also nested), `\` before a character that
    /// stands for itself. Everything else stands for itself, and the whole
    /// path has to match.
    ///
    /// # Errors
    ///
    /// [`InvalidGlob`] when a bracket or brace is left open, or it is too long.
    pub fn new(pattern: &str) -> Result<Self, InvalidGlob> {
        let invalid = |reason| InvalidGlob { pattern: pattern.chars().take(80).collect(), reason };
        if pattern.len() > MAX_PATTERN {
            return Err(invalid("longer than 4096 bytes"));
        }
        let expression = expression(pattern).map_err(invalid)?;
        RegexBuilder::new(&expression)
            .size_limit(MAX_COMPILED)
            .dot_matches_new_line(true)
            .build()
            .map(Self)
            .map_err(|_| invalid("too complex, or an empty or reversed range"))
    }

    /// Whether the whole path matches.
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

fn expression(pattern: &str) -> Result<String, &'static str> {
    let mut out = String::from("^");
    let mut open = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                out.push_str(".*");
            }
            '?' => out.push('.'),
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            '}' if open > 0 => {
                open -= 1;
                out.push(')');
            }
            ',' if open > 0 => out.push('|'),
            '[' => class(&mut chars, &mut out)?,
            '\\' => match chars.next() {
                Some(c) => literal(c, &mut out),
                None => return Err("ends with a backslash"),
            },
            c => literal(c, &mut out),
        }
    }
    if open > 0 {
        return Err("a '{' is not closed");
    }
    out.push('$');
    Ok(out)
}

fn class(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Result<(), &'static str> {
    out.push('[');
    if chars.next_if(|c| matches!(c, '!' | '^')).is_some() {
        out.push('^');
    }
    let mut empty = true;
    loop {
        match chars.next() {
            None => return Err("a '[' is not closed"),
            Some(']') if !empty => break,
            Some(']') => return Err("'[]' names no character"),
            // A range keeps its meaning, at the ends it is a plain character.
            Some('-') if !empty && chars.peek().is_some_and(|c| *c != ']') => out.push('-'),
            Some('\\') => match chars.next() {
                Some(c) => literal(c, out),
                None => return Err("ends with a backslash"),
            },
            Some(c) => literal(c, out),
        }
        empty = false;
    }
    out.push(']');
    Ok(())
}

/// One character that stands for itself, in or out of a class.
fn literal(c: char, out: &mut String) {
    // The crate rejects a backslash before letters and digits, so only marks.
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(c);
}
