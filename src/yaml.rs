//! YAML in and out, the way Kubernetes reads and prints it.
//!
//! This is the one place that knows which YAML library is used. What goes in
//! and out are [`serde_json::Value`]s, since that is what a Kubernetes object is.
//!
//! Reading follows what `kubectl` does with a manifest: YAML 1.1 booleans
//! (`yes`, `on`, …), octal numbers with a leading zero, keys that are no
//! strings become strings, and a float without a fraction becomes an integer.
//! Input is not trusted: a repeated key is an error, and depth, size and the
//! expansion of aliases are bounded. Nothing here reads a file, and no tag or
//! include makes it do so.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{MergeKeyPolicy, Options, Spanned};

/// How deep mappings and lists may be nested. Kubernetes objects stay below 40;
/// each level takes some 20 kB of stack in a debug build.
pub const MAX_DEPTH: usize = 64;
/// How many scalars, lists and mappings one document may hold, aliases expanded.
pub const MAX_NODES: usize = 500_000;
/// How many parser events the aliases of one text may add.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// One document of a text, and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Line of its first content, 1 for the first line of the text.
    pub line: usize,
    /// Its content; never null, since empty documents are left out.
    pub value: Value,
}

/// Why a text could not be read or a value not be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML, or more than is allowed.
    #[error("line {line}, column {column}: {reason}")]
    At {
        /// Line, counted from 1 in the whole text.
        line: u64,
        /// Column, counted from 1.
        column: u64,
        /// What is wrong there.
        reason: String,
    },
    /// As [`Error::At`], where no place is known.
    #[error("{reason}")]
    Somewhere {
        /// What is wrong.
        reason: String,
    },
    /// The bytes are neither UTF-8 nor marked as UTF-16.
    #[error("byte {offset}: not UTF-8 text")]
    Encoding {
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// [`value`] was given no document or several.
    #[error("expected one document, found {found}")]
    Count {
        /// How many documents there are.
        found: usize,
    },
}

/// Bytes as text: UTF-8 with or without a byte order mark, or UTF-16 with one.
///
/// Fails with [`Error::Encoding`] on anything else.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let units = |pair: fn([u8; 2]) -> u16| bytes[2..].chunks(2).map(move |c| (c, pair));
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some(units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some(units(u16::from_be_bytes)),
        _ => None,
    };
    let Some(units) = utf16 else {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Error::Encoding { offset: error.valid_up_to() })?;
        return Ok(Cow::Borrowed(without_mark(text)));
    };
    let mut text = String::with_capacity(bytes.len());
    let whole = units.map(|(chunk, pair)| match chunk {
        [a, b] => pair([*a, *b]),
        // A lone surrogate: an odd last byte is as wrong as one.
        _ => 0xd800,
    });
    for (index, unit) in char::decode_utf16(whole).enumerate() {
        text.push(unit.map_err(|_| Error::Encoding { offset: 2 + 2 * index })?);
    }
    Ok(Cow::Owned(text))
}

/// All documents of a YAML or JSON text, in order.
///
/// Documents that are empty, `null` or only a comment are left out. The first
/// mistake fails the whole text: half a manifest is worse than none.
pub fn documents(text: &str) -> Result<Vec<Document>, Error> {
    let text = without_mark(text);
    if text.trim_start().starts_with(['{', '['])
        && let Some(documents) = json_documents(text)
    {
        return Ok(documents);
    }
    let mut bytes = text.as_bytes();
    let mut documents = Vec::new();
    for document in serde_saphyr::read_with_options::<_, Spanned<Node>>(&mut bytes, options()) {
        let document = document.map_err(|error| from_saphyr(&error))?;
        let line = usize::try_from(document.referenced.line()).unwrap_or(usize::MAX);
        if !document.value.0.is_null() {
            documents.push(Document { line, value: document.value.0 });
        }
    }
    Ok(documents)
}

/// The only document of a text; [`Error::Count`] when there is none or more.
pub fn value(text: &str) -> Result<Value, Error> {
    let mut documents = documents(text)?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => Ok(document.value),
        (last, others) => Err(Error::Count { found: others + usize::from(last.is_some()) }),
    }
}

/// A value as YAML: keys sorted, block style, two spaces, lists not indented,
/// strings quoted where a YAML 1.1 reader would take them for something else.
///
/// Ends with a newline and has no `---`. Reading it gives the same value,
/// floats without a fraction apart. Fails only on what JSON cannot hold.
pub fn to_string(value: &Value) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay whole, as kubectl has them.
        min_fold_chars: usize::MAX,
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Error::Somewhere { reason: error.to_string() })
}

/// Several values as one YAML text, `---` between them.
pub fn to_string_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<String, Error> {
    let texts: Vec<String> = values.into_iter().map(to_string).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// The text without the byte order mark that some editors put first.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The text read as a series of JSON values, or `None` when it is not that:
/// YAML in flow style starts like JSON too.
fn json_documents(text: &str) -> Option<Vec<Document>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node>();
    let mut documents = Vec::new();
    loop {
        let rest = &text[stream.byte_offset()..];
        let start = text.len() - rest.trim_start().len();
        let Some(node) = stream.next() else { return Some(documents) };
        let value = node.ok()?.0;
        if !value.is_null() {
            let line = 1 + text[..start].matches('\n').count();
            documents.push(Document { line, value });
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 100_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_EVENTS,
            max_replay_stack_depth: 32,
        },
        legacy_octal_numbers: true,
        merge_keys: MergeKeyPolicy::Merge,
        emit_comments: false,
        with_snippet: false,
    }
}

fn from_saphyr(error: &serde_saphyr::Error) -> Error {
    let error = error.without_snippet();
    let reason = match error {
        // Its own text advises on an option that users do not have.
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("key {key:?} is there twice")
        }
        other => other.to_string(),
    };
    let Some(place) = error.location() else { return Error::Somewhere { reason } };
    let (line, column) = (place.line(), place.column());
    let tail = format!(" at line {line}, column {column}");
    let reason = reason.strip_suffix(&tail).unwrap_or(&reason).to_owned();
    Error::At { line, column, reason }
}

/// A value as Kubernetes wants it: string keys, none twice, whole floats as
/// integers.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, a list or a scalar")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node(value.into()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Node, E> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.visit_i64(value),
            (_, Ok(value)) => self.visit_u64(value),
            _ => self.visit_f64(value as f64),
        }
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Node, E> {
        u64::try_from(value)
            .map_or_else(|_| NodeVisitor.visit_f64(value as f64), |v| NodeVisitor.visit_u64(v))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        number(value)
            .map(|number| Node(Value::Number(number)))
            .ok_or_else(|| E::custom(format_args!("{value} is no number that an object can hold")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node(Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Node(Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Map::new();
        while let Some(Node(key)) = entries.next_key()? {
            let key = match key {
                Value::String(text) => text,
                // What Go's encoder makes of keys such as `on:` or `8080:`.
                Value::Bool(_) | Value::Number(_) | Value::Null => key.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(de::Error::custom("a list or a mapping cannot be a key"));
                }
            };
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!("key {key:?} is there twice")));
            }
            let Node(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Node(Value::Object(map)))
    }
}

/// A float as JSON has it in Kubernetes: an integer when it has no fraction
/// and fits one. `None` for infinities and not-a-number.
fn number(value: f64) -> Option<Number> {
    // 2^63 and 2^64: the first floats that no longer fit.
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    const U64_END: f64 = 18_446_744_073_709_551_616.0;
    match value {
        v if v.fract() != 0.0 => Number::from_f64(v),
        v if (-I64_END..I64_END).contains(&v) => Some((v as i64).into()),
        v if (0.0..U64_END).contains(&v) => Some((v as u64).into()),
        v => Number::from_f64(v),
    }
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
