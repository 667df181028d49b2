//! JSON lines without credentials.

use std::borrow::Cow;

/// The line with credentials removed from each text in it. A text is redacted as it was before it
/// was escaped: a quote that belongs to a password would end it otherwise, and the line would be
/// no JSON.
pub(crate) fn redacted(line: &str) -> Cow<'_, str> {
    let as_a_whole = crate::redact::redact_text(line);
    let is_plain = matches!(as_a_whole, Cow::Borrowed(_)) && !line.contains('\\');
    if is_plain || !line.starts_with('{') {
        return as_a_whole;
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('"') {
        let length = length_of_string(&rest[start..]);
        let (before, string) = (&rest[..start], &rest[start..start + length]);
        out.push_str(before);
        out.push_str(&redacted_string(string));
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The length of the string that a text begins with, with its quotes; that of the whole text
/// when it does not end.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    let mut bytes = text.bytes().enumerate().skip(1);
    let end = bytes.find(|(_, byte)| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

fn redacted_string(string: &str) -> Cow<'_, str> {
    let Ok(text) = serde_json::from_str::<String>(string) else {
        return crate::redact::redact_text(string);
    };
    match crate::redact::redact_text(&text) {
        Cow::Borrowed(_) => Cow::Borrowed(string),
        Cow::Owned(shown) => Cow::Owned(serde_json::Value::from(shown).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_line_is_json_whatever_is_removed_from_it() {
        for (text, want) in [
            ("plain", "plain"),
            ("see \"http://foo:bar\" x", "see \"http://***\" x"),
            ("\"http://foo:bar\"", "\"http://***\""),
            ("x \"https://u:p@h/\" y", "x \"https://***@h/\" y"),
            ("\\\"https://u:p@h\\", "\\\"https://***@h\\"),
            ("https://u:p\"q@h/x", "https://***@h/x"),
        ] {
            let line = json!({"message": text, "next": "git@h", "span": {"u": "https://a:b@h"}});
            let line = format!("{line}\n");
            let shown = redacted(&line);
            let read: Value = serde_json::from_str(&shown).unwrap_or_else(|error| {
                panic!("{error}: {shown}");
            });
            assert_eq!(read["message"], want);
            assert_eq!(
                (&read["next"], &read["span"]["u"]),
                (&json!("git@h"), &json!("https://***@h"))
            );
            assert!(shown.ends_with("}\n"));
        }
        assert_eq!(redacted("\"unterminated"), "\"unterminated");
        assert_eq!(redacted("no json https://u:p@h"), "no json https://***@h");
    }
}
