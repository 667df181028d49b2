//! JSON, written as Go's `encoding/json` does.

use super::prelude::*;
use crate::engine::float::format_float;
use crate::engine::layout;

pub(super) const FUNCTIONS: &[Function] = &[
    f("fromJson", "s", |run, a| match from_json(run, a) {
        Err(Fail::Message(_)) => Ok(Value::Nil),
        other => other,
    }),
    f("mustFromJson", "s", from_json),
    f("toJson", "a", |run, a| or_empty(to_json(run, &a[0], true, false))),
    f("mustToJson", "a", |run, a| Ok(Value::str(to_json(run, &a[0], true, false)?))),
    f("toPrettyJson", "a", |run, a| or_empty(to_json(run, &a[0], true, true))),
    f("mustToPrettyJson", "a", |run, a| Ok(Value::str(to_json(run, &a[0], true, true)?))),
    f("toRawJson", "a", |run, a| Ok(Value::str(to_json(run, &a[0], false, false)?))),
    f("mustToRawJson", "a", |run, a| Ok(Value::str(to_json(run, &a[0], false, false)?))),
];

fn from_json(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    // Each byte can be a value, and two forms exist at the same time.
    run.build(a.bytes(0).len().saturating_mul(16))?;
    let json: serde_json::Value =
        serde_json::from_slice(a.bytes(0)).map_err(|error| error.to_string())?;
    Ok(Value::from_json(&json))
}

fn or_empty(text: Outcome<String>) -> Outcome {
    match text {
        Ok(text) => Ok(Value::str(text)),
        Err(Fail::Message(_)) => Ok(Value::str("")),
        Err(limit) => Err(limit),
    }
}

/// Writes JSON; with `pretty` over several lines.
pub(super) fn to_json(
    run: &mut Run<'_>,
    value: &Value,
    html: bool,
    pretty: bool,
) -> Outcome<String> {
    let mut out = String::new();
    Writer { run, html, pretty }.write(&mut out, value, 0)?;
    Ok(out)
}

struct Writer<'w, 'e> {
    run: &'w mut Run<'e>,
    html: bool,
    pretty: bool,
}

impl Writer<'_, '_> {
    fn line(&self, out: &mut String, depth: usize) {
        if self.pretty {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    }

    fn write(&mut self, out: &mut String, value: &Value, depth: usize) -> Outcome<()> {
        Run::check_depth(depth)?;
        self.run.charge(1)?;
        self.run.check_len(out.len())?;
        match value {
            Value::Absent | Value::Nil => out.push_str("null"),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Value::Int(
                IntKind::Int
                | IntKind::Int64
                | IntKind::Duration
                | IntKind::Month
                | IntKind::Weekday,
                n,
            ) => {
                out.push_str(&n.to_string());
            }
            Value::Uint(_, n) => out.push_str(&n.to_string()),
            Value::Float(x) => out.push_str(&float(*x)?),
            Value::Complex(..) => return Err("json: unsupported type: complex128".into()),
            Value::Str(text) => self.text(out, text.bytes())?,
            Value::List(list) if list.nil => out.push_str("null"),
            Value::Dict(dict) if dict.nil => out.push_str("null"),
            Value::List(list) => {
                let items = list.items().iter().map(|item| (None, item));
                self.items(out, ['[', ']'], items, depth)?;
            }
            Value::Dict(dict) => {
                let entries = self.run.entries(dict)?;
                let items = entries.iter().map(|(key, item)| (Some(key.as_str()), item));
                self.items(out, ['{', '}'], items, depth)?;
            }
            Value::Time(time) => {
                let text = layout::format(time, "2006-01-02T15:04:05.999999999Z07:00");
                self.text(out, text.as_bytes())?
            }
            Value::Version(version) => self.text(out, version.to_string().as_bytes())?,
            Value::Certificate(certificate) => {
                let fields = certificate.fields();
                let items = fields.iter().map(|(name, value)| (Some(*name), value));
                self.items(out, ['{', '}'], items, depth)?;
            }
        }
        Ok(())
    }

    /// Writes the items of a list, or those of an object with their keys.
    fn items<'v>(
        &mut self,
        out: &mut String,
        [open, close]: [char; 2],
        items: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
        depth: usize,
    ) -> Outcome<()> {
        out.push(open);
        let start = out.len();
        for (key, item) in items {
            if out.len() > start {
                out.push(',');
            }
            self.line(out, depth + 1);
            if let Some(key) = key {
                self.text(out, key.as_bytes())?;
                out.push_str(if self.pretty { ": " } else { ":" });
            }
            self.write(out, item, depth + 1)?;
        }
        if out.len() > start {
            self.line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn text(&mut self, out: &mut String, text: &[u8]) -> Outcome<()> {
        self.run.charge(text.len() / 64)?;
        out.push('"');
        for chunk in text.utf8_chunks() {
            self.characters(out, chunk.valid());
            out.extend(chunk.invalid().iter().map(|_| "\\ufffd"));
        }
        out.push('"');
        Ok(())
    }

    fn characters(&self, out: &mut String, text: &str) {
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                '<' | '>' | '&' if self.html => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                    out.push_str(&format!("\\u{:04x}", u32::from(c)))
                }
                _ => out.push(c),
            }
        }
    }
}

/// A number as JSON: an exponent only for the very small and the very large.
pub(super) fn float(x: f64) -> Outcome<String> {
    if !x.is_finite() {
        return Err("json: unsupported value".into());
    }
    let size = x.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Go writes 1e-7 here, not 1e-07.
        return Ok(format_float(x, 'e', None).replace("e-0", "e-"));
    }
    Ok(format_float(x, 'f', None))
}
