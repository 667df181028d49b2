//! Protobuf bodies of built-in kinds, which `kubectl create` and other typed clients send.
//!
//! Read only: answers are JSON, which these clients accept. What the fields of a
//! message are called is in `fields.txt`; a body of a kind that is not there, such
//! as a definition, is refused with 415.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map, Value, json};

/// What stands before each protobuf object of the Kubernetes API.
const MAGIC: &[u8] = b"k8s\0";

/// Messages in messages: the deepest of Kubernetes has half of it.
const MAX_DEPTH: usize = 32;

/// One field of a message, as in the table.
struct Field {
    name: &'static str,
    shape: Shape,
    kind: Type,
    /// Whether a zero says something: of a field that is always written, it does not.
    optional: bool,
}

#[derive(Clone, Copy)]
enum Shape {
    One,
    List,
    Map,
}

#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Integer,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON in a message.
    Raw,
    /// A list of texts in a message of its own.
    Texts,
    Message(&'static str),
}

/// Fields of a message by their numbers.
type Message = HashMap<u64, Field>;

struct Tables {
    /// Messages of kinds, by `APIVERSION/KIND`.
    kinds: HashMap<&'static str, &'static str>,
    messages: HashMap<&'static str, Message>,
}

/// Read when the first such body comes.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables { kinds: HashMap::new(), messages: HashMap::new() };
    let lines = include_str!("protobuf/fields.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        match (words.next(), words.clone().next()) {
            (Some("="), Some(kind)) => {
                tables.kinds.extend(words.nth(1).map(|message| (kind, message)));
            }
            (Some(name), _) => {
                drop(tables.messages.insert(name, words.filter_map(field).collect()))
            }
            (None, _) => {}
        }
    }
    tables
});

/// Reads `NUMBER:NAME:TYPE`.
fn field(word: &'static str) -> Option<(u64, Field)> {
    let mut parts = word.splitn(3, ':');
    let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (shape, kind) = match kind.as_bytes().first()? {
        b'*' => (Shape::List, &kind[1..]),
        b'%' => (Shape::Map, &kind[1..]),
        _ => (Shape::One, kind),
    };
    let (optional, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
    let kind = match kind {
        "s" => Type::Text,
        "b" => Type::Bool,
        "i" => Type::Integer,
        "f" => Type::Double,
        "y" => Type::Bytes,
        "time" => Type::Time,
        "micro" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "intstr" => Type::IntOrString,
        "raw" => Type::Raw,
        "strings" => Type::Texts,
        message => Type::Message(message),
    };
    Some((number, Field { name, shape, kind, optional }))
}

/// What is on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) | Self::Double(_) => None,
        }
    }

    /// Negative numbers are written as two's complement.
    fn integer(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number.cast_signed()),
            Self::Bytes(_) | Self::Double(_) => None,
        }
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message in their order: number and content.
fn wires(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => {
                let (double, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Wire::Double(f64::from_le_bytes(*double))
            }
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                let content = bytes.get(..len)?;
                bytes = &bytes[len..];
                Wire::Bytes(content)
            }
            5 => {
                // No field of Kubernetes has this type.
                bytes = bytes.get(4..)?;
                continue;
            }
            _ => return None,
        };
        out.push((tag >> 3, wire));
    }
    Some(out)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The content of one field of a message that has few.
fn part<'a>(wires: &[(u64, Wire<'a>)], number: u64) -> Option<Wire<'a>> {
    wires.iter().rev().find(|(n, _)| *n == number).map(|(_, wire)| *wire)
}

/// `Some(None)` is a value that says nothing: it is left out.
fn value(field: &Field, wire: Wire<'_>, depth: usize) -> Option<Option<Value>> {
    let kept = |value: Value, empty: bool| (field.optional || !empty).then_some(value);
    Some(match field.kind {
        Type::Text => {
            let text = text(wire.bytes()?)?;
            kept(json!(text), text.is_empty())
        }
        Type::Bool => {
            let set = wire.integer()? != 0;
            kept(json!(set), !set)
        }
        Type::Integer => {
            let number = wire.integer()?;
            kept(json!(number), number == 0)
        }
        Type::Double => match wire {
            Wire::Double(number) => Some(json!(number)),
            Wire::Number(_) | Wire::Bytes(_) => return None,
        },
        Type::Bytes => {
            let bytes = wire.bytes()?;
            let value = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
            kept(value, bytes.is_empty())
        }
        Type::Time => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
        Type::MicroTime => time(wire.bytes()?, "%Y-%m-%dT%H:%M:%S%.6fZ")?,
        Type::Quantity => match part(&wires(wire.bytes()?)?, 1) {
            None => Some(json!("0")),
            Some(wire) => Some(json!(text(wire.bytes()?)?)),
        },
        Type::IntOrString => {
            let wires = wires(wire.bytes()?)?;
            let number = |number| part(&wires, number).and_then(Wire::integer).unwrap_or(0);
            if number(1) == 0 {
                kept(json!(number(2)), number(2) == 0)
            } else {
                let text = text(part(&wires, 3)?.bytes()?)?;
                kept(json!(text), text.is_empty())
            }
        }
        Type::Raw => match part(&wires(wire.bytes()?)?, 1) {
            None => None,
            Some(wire) => Some(serde_json::from_slice(wire.bytes()?).ok()?),
        },
        Type::Texts => {
            let mut texts = Vec::new();
            for (_, wire) in wires(wire.bytes()?)? {
                texts.push(json!(text(wire.bytes()?)?));
            }
            Some(Value::Array(texts))
        }
        Type::Message(name) => Some(Value::Object(message(name, wire.bytes()?, depth + 1)?)),
    })
}

fn time(bytes: &[u8], format: &str) -> Option<Option<Value>> {
    let wires = wires(bytes)?;
    if wires.is_empty() {
        // The absent time.
        return Some(None);
    }
    let number = |number| part(&wires, number).and_then(Wire::integer).unwrap_or(0);
    let at = jiff::Timestamp::new(number(1), i32::try_from(number(2)).ok()?).ok()?;
    Some(Some(json!(at.strftime(format).to_string())))
}

/// Reads a message; fields that the table does not have are left out.
fn message(name: &str, bytes: &[u8], depth: usize) -> Option<Map<String, Value>> {
    let fields = TABLES.messages.get(name).filter(|_| depth < MAX_DEPTH)?;
    let mut out = Map::new();
    for (number, wire) in wires(bytes)? {
        let Some(field) = fields.get(&number) else { continue };
        match field.shape {
            Shape::One => match value(field, wire, depth)? {
                Some(Value::Object(inner)) if field.name == "-" => out.extend(inner),
                Some(value) => drop(out.insert(field.name.to_owned(), value)),
                None => {}
            },
            Shape::List => {
                let field = &Field { optional: true, ..*field };
                let list = out.entry(field.name).or_insert_with(|| json!([]));
                if let (Value::Array(list), Some(item)) = (list, value(field, wire, depth)?) {
                    list.push(item);
                }
            }
            Shape::Map => {
                let entry = wires(wire.bytes()?)?;
                let key = part(&entry, 1).map_or(Some(""), |wire| text(wire.bytes()?))?;
                let content = part(&entry, 2).unwrap_or(Wire::Bytes(&[]));
                let field = &Field { optional: true, ..*field };
                let map = out.entry(field.name).or_insert_with(|| json!({}));
                map[key] = value(field, content, depth)?.unwrap_or_default();
            }
        }
    }
    Some(out)
}

/// Whether a body is an object in protobuf, by its first bytes.
pub(crate) fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Reads a protobuf body; `None` for kinds that are not known here and for what is no protobuf.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let unknown = wires(body.strip_prefix(MAGIC)?)?;
    let types = wires(part(&unknown, 1)?.bytes()?)?;
    let (api_version, kind) = (text(part(&types, 1)?.bytes()?)?, text(part(&types, 2)?.bytes()?)?);
    // Options of a deletion have the version of what is deleted.
    let known = TABLES.kinds.get(format!("{api_version}/{kind}").as_str());
    let known =
        known.or_else(|| TABLES.kinds.get("v1/DeleteOptions").filter(|_| kind == "DeleteOptions"));
    let raw = part(&unknown, 2).map_or(Some(&[][..]), Wire::bytes)?;
    let mut object = message(known?, raw, 0)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Some(Value::Object(object))
}

#[cfg(test)]
mod tests;
