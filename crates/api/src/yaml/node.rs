//! One document as a value, within limits.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::repeated::Repeated;

/// Limit on the scalars, lists and mappings of one document, with aliases expanded.
pub const MAX_NODES: usize = 500_000;

/// Most duplicate keys that are listed per document.
const MAX_REPEATED: usize = 10;

/// What is said of texts whose values take too much memory.
const MEMORY: &str =
    "the values exceed the memory limit; split the source or raise --manifest-memory";

thread_local! {
    /// What the text being parsed on this thread may still take.
    static LEFT: Cell<Left> =
        const { Cell::new(Left { memory: u64::MAX, nodes: usize::MAX, exceeded: false }) };
}

#[derive(Clone, Copy)]
struct Left {
    memory: u64,
    nodes: usize,
    /// Whether it was not enough. An error of a parser carries nothing but a text.
    exceeded: bool,
}

/// The limits of one text, active until dropped.
pub(super) struct Budget(Left);

impl Budget {
    /// Activates limits on this thread, until dropped.
    pub(super) fn new(memory: u64, nodes: usize) -> Self {
        Self(LEFT.replace(Left { memory, nodes, exceeded: false }))
    }

    /// Resets the number of values.
    pub(super) fn renew(&self, nodes: usize) {
        LEFT.set(Left { nodes, ..LEFT.get() });
    }

    /// Whether a limit was exceeded, so that parsing ended with an error.
    pub(super) fn is_exceeded(&self) -> bool {
        LEFT.get().exceeded
    }

    /// Counts one value and its own bytes.
    fn take<E: de::Error>(bytes: u64) -> Result<(), E> {
        let left = LEFT.get();
        let Some(nodes) = left.nodes.checked_sub(1) else {
            return exceeded(format_args!("more than {MAX_NODES} values; split the file"));
        };
        LEFT.set(Left { nodes, ..left });
        Self::pay(bytes)
    }

    /// Counts bytes.
    fn pay<E: de::Error>(bytes: u64) -> Result<(), E> {
        let left = LEFT.get();
        let Some(memory) = left.memory.checked_sub(bytes) else {
            return exceeded(format_args!("{MEMORY}"));
        };
        LEFT.set(Left { memory, ..left });
        Ok(())
    }

    /// Counts bytes that are kept beside the values; the limit that they exceed.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), String> {
        let left = LEFT.get();
        let memory = left.memory.checked_sub(bytes).ok_or_else(|| MEMORY.to_owned())?;
        LEFT.set(Left { memory, ..left });
        Ok(())
    }
}

fn exceeded<E: de::Error>(limit: fmt::Arguments<'_>) -> Result<(), E> {
    LEFT.set(Left { exceeded: true, ..LEFT.get() });
    Err(E::custom(format_args!("over the limit: {limit}")))
}

impl Drop for Budget {
    fn drop(&mut self) {
        LEFT.set(self.0);
    }
}

/// Memory of a mapping: serde_json stores up to eleven entries per node, with 24 bytes
/// for the key and 32 for the value, and nodes may be half full.
fn mapping_weight(entries: usize) -> u64 {
    if entries == 0 { 0 } else { 640 * entries.div_ceil(6) as u64 }
}

/// The memory of a value in addition to its own 32 bytes: an upper estimate that does not
/// depend on how it was created.
pub fn value_weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(|item| 32 + value_weight(item)).sum(),
        Value::Object(map) => map_weight(map),
    }
}

/// The same of a map, with all its memory.
pub fn map_weight(map: &serde_json::Map<String, Value>) -> u64 {
    let inside = map.iter().map(|(key, value)| key.len() as u64 + value_weight(value));
    mapping_weight(map.len()) + inside.sum::<u64>()
}

/// A value as Kubernetes reads it: string keys, the last of duplicate keys, whole floats
/// as integers. With `PLACES`, duplicate keys have lines.
pub(super) struct Node<const PLACES: bool> {
    pub(super) value: Value,
    pub(super) repeated: Vec<Repeated>,
}

impl<const PLACES: bool> Node<PLACES> {
    fn plain(value: Value) -> Self {
        Self { value, repeated: Vec::new() }
    }

    /// Takes over the duplicate keys below a key or an index.
    fn adopt(&mut self, below: Vec<Repeated>, at: &dyn fmt::Display) {
        for found in below {
            let dot = if found.path.starts_with('[') { "" } else { "." };
            let path = format!("{at}{dot}{}", found.path);
            self.note(Repeated { path, line: found.line });
        }
    }

    fn note(&mut self, found: Repeated) {
        if self.repeated.len() < MAX_REPEATED {
            self.repeated.push(found);
        }
    }
}

impl<'de, const PLACES: bool> Deserialize<'de> for Node<PLACES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor::<PLACES>)
    }
}

struct NodeVisitor<const PLACES: bool>;

impl<const PLACES: bool> NodeVisitor<PLACES> {
    /// The next key of a mapping, and its line.
    fn key<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<Option<(Value, usize)>, A::Error> {
        if !PLACES {
            return Ok(entries.next_key::<Node<false>>()?.map(|key| (key.value, 0)));
        }
        let key = entries.next_key::<Spanned<Node<true>>>()?;
        Ok(key.map(|key| {
            let line = usize::try_from(key.referenced.line()).unwrap_or(usize::MAX);
            (key.value.value, line)
        }))
    }
}

impl<'de, const PLACES: bool> Visitor<'de> for NodeVisitor<PLACES> {
    type Value = Node<PLACES>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, a list or a scalar")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Budget::take(0).map(|()| Node::plain(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Budget::take(0).map(|()| Node::plain(Value::Bool(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Budget::take(0).map(|()| Node::plain(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Budget::take(0).map(|()| Node::plain(value.into()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Self::Value, E> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.visit_i64(value),
            (_, Ok(value)) => self.visit_u64(value),
            _ => self.visit_f64(value as f64),
        }
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Self::Value, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Budget::take(0)?;
        number(value)
            .map(|number| Node::plain(Value::Number(number)))
            .ok_or_else(|| E::custom(format_args!("{value} is not a valid JSON number")))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Self::Value, E> {
        Budget::take(value.len() as u64)?;
        Ok(Node::plain(Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut node = Node::plain(Value::Null);
        let mut list = Vec::new();
        Budget::take(0)?;
        while let Some(item) = items.next_element::<Node<PLACES>>()? {
            // Half of a growing list may be unused.
            Budget::pay(64)?;
            node.adopt(item.repeated, &format_args!("[{}]", list.len()));
            list.push(item.value);
        }
        list.shrink_to_fit();
        node.value = Value::Array(list);
        Ok(node)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut node = Node::plain(Value::Null);
        let mut map = Map::new();
        Budget::take(0)?;
        while let Some((key, line)) = Self::key(&mut entries)? {
            let key = match key {
                Value::String(text) => text,
                // Go's encoding of keys such as `on:` or `8080:`.
                Value::Bool(_) | Value::Number(_) | Value::Null => key.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(de::Error::custom("a list or a mapping cannot be a key"));
                }
            };
            if map.len().is_multiple_of(6) {
                Budget::pay(mapping_weight(1))?;
            }
            let value = entries.next_value::<Node<PLACES>>()?;
            node.adopt(value.repeated, &key);
            if map.insert(key.clone(), value.value).is_some() {
                node.note(Repeated { path: key, line });
            }
        }
        node.value = Value::Object(map);
        Ok(node)
    }
}

/// A float as JSON in Kubernetes: an integer if it has no fraction and is in range.
/// `None` for infinity and NaN.
fn number(value: f64) -> Option<Number> {
    // 2^63 and 2^64: the first floats out of range.
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    const U64_END: f64 = 18_446_744_073_709_551_616.0;
    match value {
        v if v.fract() != 0.0 => Number::from_f64(v),
        v if (-I64_END..I64_END).contains(&v) => Some((v as i64).into()),
        v if (0.0..U64_END).contains(&v) => Some((v as u64).into()),
        v => Number::from_f64(v),
    }
}
