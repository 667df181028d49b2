//! The simple engine (`goTemplate: false`): replaces `{{name}}` only (AS-113 to AS-115).

use serde_json::{Map, Value};

use crate::error::TemplateError;

/// Replaces each `{{name}}` by the parameter of that name if it is a string; other
/// placeholders are kept.
///
/// White space around the name is ignored. A text without both braces on one line is not
/// processed. Replacements are not processed again.
///
/// # Errors
///
/// An unclosed `{{`, and a result of more than `max_bytes`.
pub fn render(
    text: &str,
    params: &Map<String, Value>,
    max_bytes: usize,
) -> Result<String, TemplateError> {
    if !has_placeholder(text) {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((tag, tail)) = after.split_once("}}") else {
            let line = 1 + text[..text.len() - after.len()].matches('\n').count();
            return Err(TemplateError::Unclosed { line });
        };
        match params.get(tag.trim()) {
            Some(Value::String(value)) if !tag.trim().is_empty() => out.push_str(value),
            _ => {
                out.push_str("{{");
                out.push_str(tag);
                out.push_str("}}");
            }
        }
        rest = tail;
        if out.len() + rest.len() > max_bytes {
            return Err(TemplateError::TooLong { max_bytes });
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn has_placeholder(text: &str) -> bool {
    text.split('\n')
        .any(|line| line.split_once("{{").is_some_and(|(_, after)| after.contains("}}")))
}
