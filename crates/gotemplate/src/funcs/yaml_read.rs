//! Parses YAML 1.1 as Kubernetes tools do: `yes` is a boolean, `010` is 8, keys are strings.

use std::collections::BTreeMap;

use super::prelude::*;
use crate::engine::float::shortest;
use crate::engine::parse_time::parse_time;
use crate::engine::strconv;
use granit_parser::{Event, Parser, ScalarStyle};

/// Type of a scalar without quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Timestamp,
    Text,
}

/// Determines the type of a scalar without quotes.
pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Plain::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Plain::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Plain::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Plain::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if text.starts_with('.') {
        return strconv::parse_float(text).map_or(Plain::Text, Plain::Float);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        return Plain::Text;
    }
    if is_timestamp(text) {
        return Plain::Timestamp;
    }
    let plain = text.replace('_', "");
    if let Some(n) = strconv::parse_int_any_base(&plain) {
        return Plain::Int(n);
    }
    if let Some(n) = strconv::parse_uint_any_base(&plain) {
        return Plain::Uint(n);
    }
    if is_decimal_float(&plain)
        && let Some(x) = strconv::parse_float(&plain)
    {
        return Plain::Float(x);
    }
    Plain::Text
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal_float(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) =
        body.split_once(['e', 'E']).map_or((body, None), |(m, e)| (m, Some(e)));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    exponent_fits && mantissa_fits
}

fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    [
        "2006-1-2T15:4:5.999999999Z07:00",
        "2006-1-2t15:4:5.999999999Z07:00",
        "2006-1-2 15:4:5.999999999",
        "2006-1-2",
    ]
    .iter()
    .any(|layout| parse_time(layout, text).is_ok())
}

/// Reads the first document of a text.
pub(super) fn read(run: &mut Run<'_>, text: &str) -> Outcome {
    let mut reader = Reader { parser: Parser::new_from_str(text), run, anchors: BTreeMap::new() };
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(Value::Nil),
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::DocumentEnd => return Ok(Value::Nil),
            event => return reader.node(event, 0),
        }
    }
}

struct Reader<'r, 'e, 't> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    run: &'r mut Run<'e>,
    anchors: BTreeMap<usize, Value>,
}

impl<'t> Reader<'_, '_, 't> {
    fn next(&mut self) -> Outcome<Event<'t>> {
        loop {
            self.run.charge(1)?;
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, _))) => return Ok(event),
                Some(Err(error)) => {
                    return Err(format!("error converting YAML to JSON: yaml: {error}").into());
                }
                None => return Ok(Event::StreamEnd),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, depth: usize) -> Outcome {
        Run::check_depth(depth)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.run.build_texts(1, text.len())?;
                let tag = tag.as_ref().map(|tag| tag.suffix().to_owned());
                (anchor, scalar(&text, style, tag.as_deref())?)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, depth + 1)?),
                    }
                }
                (anchor, self.run.list(items)?)
            }
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(depth)?),
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned();
                return value
                    .ok_or_else(|| "error converting YAML to JSON: yaml: unknown anchor".into());
            }
            _ => return Err("error converting YAML to JSON: yaml: unexpected end".into()),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Outcome {
        let mut entries = BTreeMap::new();
        // Values of the mapping itself take precedence over merged ones, wherever the
        // merge key is.
        let mut merged: Vec<Dict> = Vec::new();
        loop {
            let event = self.next()?;
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(ref text, ScalarStyle::Plain, _, _) if &**text == "<<" => None,
                event => Some(key_text(&self.node(event, depth + 1)?)?),
            };
            let event = self.next()?;
            let value = self.node(event, depth + 1)?;
            match (key, value) {
                (Some(key), value) => {
                    entries.insert(key, value);
                }
                (None, Value::Dict(dict)) => merged.push(dict),
                (None, Value::List(list)) => {
                    for item in list.items() {
                        let Value::Dict(dict) = item else {
                            return Err("error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value".into());
                        };
                        merged.push(dict.clone());
                    }
                }
                (None, _) => {
                    return Err("error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value".into());
                }
            }
        }
        for dict in merged {
            self.run.charge(1)?;
            for (key, value) in self.run.entries(&dict)? {
                entries.entry(key).or_insert(value);
            }
        }
        self.run.dict(entries)
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&str>) -> Outcome {
    match tag {
        Some("str") => return Ok(Value::str(text)),
        Some("binary") => {
            let compact: String = text.split_ascii_whitespace().collect();
            let bytes = super::encoding::decode64(compact.as_bytes())
                .map_err(|_| "yaml: !!binary value contains invalid base64 data")?;
            return Ok(Value::str(bytes));
        }
        _ => {}
    }
    if style != ScalarStyle::Plain && !matches!(tag, Some("int" | "float" | "bool" | "null")) {
        return Ok(Value::str(text));
    }
    Ok(match resolve(text) {
        Plain::Null => Value::Nil,
        Plain::Bool(b) => Value::Bool(b),
        Plain::Int(n) => Value::Float(n as f64),
        Plain::Uint(n) => Value::Float(n as f64),
        Plain::Float(x) if x.is_finite() => Value::Float(x),
        Plain::Float(_) => {
            return Err("error converting YAML to JSON: json: unsupported value".into());
        }
        Plain::Timestamp | Plain::Text => Value::str(text),
    })
}

fn key_text(key: &Value) -> Outcome<String> {
    match key {
        Value::Str(text) => Ok(text.text().into_owned()),
        Value::Bool(b) => Ok(b.to_string()),
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e18 => Ok(format!("{x:.0}")),
        Value::Float(x) => Ok(shortest(*x)),
        other => Err(format!(
            "error converting YAML to JSON: yaml: invalid map key: {}",
            other.type_name()
        )
        .into()),
    }
}
