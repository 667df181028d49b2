//! Removes the values of a Secret from the messages of an API server.
//!
//! Servers quote what they reject: `invalid type: string "hunter2"`, `Invalid value:
//! 12345`, or the bytes around a parse error. Their messages are copied to statuses,
//! Events and logs, which more people can read than the Secret. The field and the problem
//! stay in the message; quoted text is removed unless it is a name.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use wavegate_api::resource_key::ResourceKey;
use wavegate_engine::sync::ActionResult;
use wavegate_net::redact::HIDDEN;

/// Fields without confidential values.
const PLAIN: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];
/// The rejected value follows these words, with or without quotes, up to a colon.
const BEFORE_VALUES: [&str; 5] =
    ["Invalid value: ", "Unsupported value: ", "Duplicate value: ", "Not found: ", "symbol "];
/// After these words, a server shows the text that it was parsing.
const BEFORE_CONTEXT: [&str; 3] = ["error found in #", "bigger context", "...|"];
/// Names that may be quoted.
const NAMES: [&str; 10] = [
    "v1",
    "Secret",
    "secret",
    "secrets",
    "data",
    "stringData",
    "type",
    "immutable",
    "metadata",
    "string",
];
/// Shorter values are hidden only as whole words.
const SHORT: usize = 4;
/// Maximum number of bytes of a message that are processed.
const MAX_WORDS: usize = 16 << 10;

/// Whether this is a Secret.
pub fn is_secret(key: &ResourceKey) -> bool {
    key.kind.eq_ignore_ascii_case("Secret")
}

/// Removes confidential values from an outcome if it is about a Secret; `object` is the
/// object that was sent.
pub(crate) fn redacted(happened: ActionResult, key: &ResourceKey, object: &Value) -> ActionResult {
    match happened {
        ActionResult::Failed(words) if is_secret(key) => {
            ActionResult::Failed(scrub(&words, key, object))
        }
        ActionResult::Unknown(words) if is_secret(key) => {
            ActionResult::Unknown(scrub(&words, key, object))
        }
        other => other,
    }
}

/// Removes confidential values from an error if it is about a Secret; `object` is the
/// object that was sent.
pub fn redacted_error(mut error: kube::Error, key: &ResourceKey, object: &Value) -> kube::Error {
    if let kube::Error::Api(status) = &mut error
        && is_secret(key)
    {
        status.message = scrub(&status.message, key, object);
        // The field names stay; the message contains the causes.
        let causes = status.details.iter_mut().flat_map(|details| &mut details.causes);
        causes.for_each(|cause| HIDDEN.clone_into(&mut cause.message));
    }
    error
}

/// Removes confidential values from a message about a Secret. `object` is the Secret or a
/// part of it. Values of a wrong type or encoding are reported by field name.
pub(crate) fn scrub(words: &str, key: &ResourceKey, object: &Value) -> String {
    let words = beginning(words);
    let mut found = Found::default();
    found.names.extend(NAMES.map(str::to_owned));
    found.names.extend([key.name.clone(), key.namespace.clone()]);
    for (field, value) in object.as_object().into_iter().flatten() {
        found.names.insert(field.clone());
        match field.as_str() {
            "metadata" => ["annotations", "labels"].iter().for_each(|map| found.add(&value[*map])),
            "type" => found.names.extend(value.as_str().map(str::to_owned)),
            field if PLAIN.contains(&field) => {}
            field => {
                found.add(value);
                found.validate(field, value);
            }
        }
    }
    let mut text = words.to_owned();
    if let Some(at) = BEFORE_CONTEXT.iter().filter_map(|mark| text.find(mark)).min() {
        text.truncate(at);
        text.push_str(HIDDEN);
    }
    let text = found.without_values(&without_quotes(&text, &found.names));
    let mut text = BEFORE_VALUES.iter().fold(text, |text, mark| without_what_follows(&text, mark));
    for problem in found.problems.iter().filter(|problem| !words.contains(problem.as_str())) {
        text.push_str("; ");
        text.push_str(problem);
    }
    text
}

/// The first part of a message. Each value of the Secret is searched in it, and both can
/// be megabytes.
fn beginning(words: &str) -> &str {
    let end = (0..=MAX_WORDS.min(words.len())).rev().find(|end| words.is_char_boundary(*end));
    &words[..end.unwrap_or_default()]
}

/// The content of a Secret.
#[derive(Default)]
struct Found {
    /// Names of fields and keys.
    names: BTreeSet<String>,
    /// Values in each notation that a server may print.
    values: BTreeSet<String>,
    /// Invalid fields, as far as they can be detected here.
    problems: Vec<String>,
}

impl Found {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.names.insert(key.clone());
                    self.add(value);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.add(value)),
            Value::String(text) => {
                if let Ok(bytes) = STANDARD.decode(text.trim())
                    && let Ok(plain) = String::from_utf8(bytes)
                {
                    self.add_text(&plain);
                }
                self.add_text(text);
            }
            Value::Number(number) => self.add_text(&number.to_string()),
            Value::Bool(_) | Value::Null => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        let escaped = format!("{text:?}");
        let escaped = escaped[1..escaped.len() - 1].to_owned();
        let all = [text.to_owned(), text.trim().to_owned(), STANDARD.encode(text), escaped];
        self.values.extend(all.into_iter().filter(|text| !text.is_empty()));
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORT);
        self.values.extend(lines.map(str::to_owned));
    }

    fn validate(&mut self, field: &str, value: &Value) {
        let Some(map) = value.as_object() else { return };
        for (key, value) in map {
            let is = match value {
                Value::String(text) if field == "data" && STANDARD.decode(text).is_err() => {
                    "is not base64"
                }
                Value::String(_) | Value::Null => continue,
                Value::Number(_) => "is a number, but must be a string",
                Value::Bool(_) => "is a boolean, but must be a string",
                Value::Object(_) | Value::Array(_) => "is nested, but must be a string",
            };
            self.problems.push(format!("{field}.{key} {is}"));
        }
    }

    /// Removes the values from a text, the longest first, since one may contain another.
    fn without_values(&self, text: &str) -> String {
        let mut values: Vec<&String> =
            self.values.iter().filter(|value| !self.names.contains(*value)).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let mut text = text.to_owned();
        for value in values {
            text = match value.chars().count() >= SHORT {
                true => text.replace(value.as_str(), HIDDEN),
                false => without_word(&text, value),
            };
        }
        text
    }
}

/// Hides a short value where it is a whole word.
fn without_word(text: &str, value: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let before = rest[..at].chars().next_back().or_else(|| shown.chars().next_back());
        let after = rest[at + value.len()..].chars().next();
        let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        shown.push_str(&rest[..at]);
        shown.push_str(if alone(before) && alone(after) { HIDDEN } else { value });
        rest = &rest[at + value.len()..];
    }
    shown + rest
}

/// Hides quoted text that is not a name. An unclosed quote hides the rest of the text.
fn without_quotes(text: &str, names: &BTreeSet<String>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.char_indices().peekable();
    let mut last = ' ';
    while let Some((at, c)) = characters.next() {
        // An apostrophe inside a word, as in "isn't", is not a quote.
        let quotes = matches!(c, '"' | '`') || (c == '\'' && !last.is_alphanumeric());
        last = c;
        shown.push(c);
        if !quotes {
            continue;
        }
        let (mut escaped, mut end) = (false, text.len());
        for (place, inner) in characters.by_ref() {
            match inner {
                '\\' if !escaped && c == '"' => escaped = true,
                inner if inner == c && !escaped => {
                    end = place;
                    break;
                }
                _ => escaped = false,
            }
        }
        let quoted = &text[at + c.len_utf8()..end];
        shown.push_str(if names.contains(quoted) || quoted.is_empty() { quoted } else { HIDDEN });
        if end < text.len() {
            shown.push(c);
        }
    }
    shown
}

/// Hides the text after a mark, up to the next colon, comma or end.
fn without_what_follows(text: &str, mark: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (before, after) = rest.split_at(at + mark.len());
        shown.push_str(before);
        shown.push_str(HIDDEN);
        let end = [": ", ", "].iter().filter_map(|end| after.find(end)).min();
        rest = &after[end.unwrap_or(after.len())..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_server_quotes_of_a_secret_is_removed() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"},
            "data": {"password": "aHVudGVyMg==", "raw": "not base64!"},
            "stringData": {"pin": 12345, "n": 7, "pw": "it's a \"secret\""},
            "dta": {"x": "misspelt-value"},
        });
        let key = ResourceKey::new("", "Secret", "web", "db");
        let cases = [
            (
                "json: cannot unmarshal number into Go struct field Secret.stringData of type string",
                "json: cannot unmarshal number into Go struct field Secret.stringData of type string; ",
            ),
            (
                "invalid type: string \"hunter2\", expected u8",
                "invalid type: string \"***\", expected u8; ",
            ),
            ("invalid type: integer `12345`, expected a string", "invalid type: integer `***`, "),
            (
                "Secret \"db\" is invalid: data[password]: Invalid value: 12345: must be short",
                "Secret \"db\" is invalid: data[password]: Invalid value: ***: must be short; ",
            ),
            (
                "Secret in version \"v1\" cannot be handled as a Secret: illegal base64, error found in #10 byte of ...|:\"hunter2\"}|...",
                "Secret in version \"v1\" cannot be handled as a Secret: illegal base64, ***; ",
            ),
            ("Invalid symbol 33, offset 3.", "Invalid symbol ***, offset 3.; "),
            ("unknown field \"dta\", misspelt-value", "unknown field \"dta\", ***; "),
            ("it is 7 of 70", "it is *** of 70; "),
            ("said: \"it's a \\\"secret\\\"\" twice", "said: \"***\" twice; "),
            ("an open \"quote hides", "an open \"***; "),
        ];
        for (words, want) in cases {
            let got = scrub(words, &key, &object);
            assert!(got.starts_with(want), "{words}: {got}");
            let problems = "data.raw is not base64; stringData.n is a number, but must be a string; \
                            stringData.pin is a number, but must be a string";
            assert!(got.ends_with(problems), "{words}: {got}");
            for value in ["hunter2", "aHVudGVyMg", "12345", "misspelt-value", "not base64!"] {
                assert!(!got.contains(value), "{words}: {got}");
            }
        }
    }
}
