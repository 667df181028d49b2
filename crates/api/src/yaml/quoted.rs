//! Quoted scalars that continue at the indentation of their key, or left of it.
//!
//! YAML requires continuation lines to be indented further; the parser of Kubernetes and
//! Argo CD accepts them anyway (SE-099). White space at the start of a continuation line is
//! no part of the value, so these lines are indented before the text is parsed again.

/// The reason of the parser for such a line.
pub(super) const REASON: &str = "invalid indentation in multiline quoted scalar";

/// The reason of the parser for a scalar without an end.
pub(super) const UNCLOSED: &str = "unclosed quote";

/// Most bytes that are parsed again to find all scalars of one text.
pub(super) const MAX_AGAIN: usize = 4 << 20;

/// The largest indentation that is added to a line.
const MAX_INDENT: usize = 512;

/// The text with the continuation lines of the scalar whose quote stands at `line` and
/// `column`, both counted from 1, indented beyond the quote; lines and values stay the
/// same. `None` when there is no such scalar.
pub(super) fn indented(text: &str, line: usize, column: usize) -> Option<String> {
    let start = offset(text, line)?;
    let before = text[start..].chars().take(column.checked_sub(1)?);
    let quote = start + before.map(char::len_utf8).sum::<usize>();
    let end = end_of(text, quote)?;
    let indent = " ".repeat(column.min(MAX_INDENT));
    let mut out = String::with_capacity(text.len() + 64);
    out.push_str(&text[..quote]);
    for (index, part) in text[quote..end].split_inclusive('\n').enumerate() {
        let is_blank = part.trim_matches([' ', '\t', '\r', '\n']).is_empty();
        if index > 0 && !is_blank {
            out.push_str(&indent);
        }
        out.push_str(part);
    }
    out.push_str(&text[end..]);
    Some(out)
}

/// The text before a line, which is counted from 1.
pub(super) fn before(text: &str, line: usize) -> Option<&str> {
    offset(text, line).map(|offset| &text[..offset])
}

/// The offset of the start of a line, which is counted from 1.
fn offset(text: &str, line: usize) -> Option<usize> {
    match line.checked_sub(2) {
        None => Some(0),
        Some(skipped) => text.match_indices('\n').nth(skipped).map(|(at, _)| at + 1),
    }
}

/// The offset behind the quote that ends the scalar which begins with the quote at `start`.
fn end_of(text: &str, start: usize) -> Option<usize> {
    let mut rest = text.get(start..)?.char_indices().peekable();
    let (_, quote) = rest.next().filter(|(_, c)| matches!(c, '"' | '\''))?;
    while let Some((at, c)) = rest.next() {
        match (quote, c) {
            ('"', '\\') => {
                rest.next();
            }
            ('\'', '\'') if rest.peek().is_some_and(|(_, next)| *next == '\'') => {
                rest.next();
            }
            _ if c == quote => return Some(start + at + c.len_utf8()),
            _ => {}
        }
    }
    None
}
