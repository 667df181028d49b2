//! Escapes characters that must not be written to a terminal.
//!
//! Control characters move the cursor and change previous output, and bidirectional
//! characters reorder the text. Neither is printed unescaped: not in tables, JSON, YAML,
//! errors or log lines.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character must be escaped. Line breaks are handled by the caller.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A single-line text; hostile characters are escaped, such as `\u{9b}`.
pub fn printable_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Like [`printable_text`], for a text of several lines that may contain our own colours.
pub fn printable_lines(text: &str, colour: bool) -> String {
    let keep = |c: char| c == '\n' || (c == '\u{1b}' && colour) || !is_hostile(c);
    if text.chars().all(keep) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if keep(c) { c.to_string() } else { printable_text(&c.to_string()) })
        .collect()
}

/// Equivalent JSON text with hostile characters escaped as `\u009b`. Apart from line
/// breaks, JSON contains such characters only in strings.
pub fn escape_json(text: &str) -> Cow<'_, str> {
    let raw = |c: char| c != '\n' && is_hostile(c);
    if !text.contains(raw) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if raw(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}
