//! Protobuf bodies of the few simple kinds that `kubectl create` sends so.
//!
//! `kubectl create namespace` and its like know no JSON. Only their flat kinds
//! are read here; any other protobuf body is refused with 415, which clients
//! of other kinds do not run into, since they speak JSON.

use serde_json::{Map, Value, json};

/// What stands before each protobuf object of the Kubernetes API.
const MAGIC: &[u8] = b"k8s\0";

/// One field: number and content; numbers that are no bytes are left out.
type Field<'a> = (u64, &'a [u8]);

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

fn fields(mut bytes: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        match tag & 7 {
            0 => {
                varint(&mut bytes)?;
            }
            1 => bytes = bytes.get(8..)?,
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                out.push((tag >> 3, bytes.get(..len)?));
                bytes = &bytes[len..];
            }
            5 => bytes = bytes.get(4..)?,
            _ => return None,
        }
    }
    Some(out)
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(|t| json!(t))
}

/// Map entries: key is field 1, value is field 2.
fn entry(bytes: &[u8], binary: bool) -> Option<(String, Value)> {
    use base64::Engine as _;
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    for (number, content) in fields(bytes)? {
        match number {
            1 => key = content,
            2 => value = content,
            _ => {}
        }
    }
    let value = if binary {
        json!(base64::engine::general_purpose::STANDARD.encode(value))
    } else {
        text(value)?
    };
    Some((std::str::from_utf8(key).ok()?.to_owned(), value))
}

fn metadata(bytes: &[u8]) -> Option<Value> {
    let mut meta = Map::new();
    for (number, content) in fields(bytes)? {
        let name = match number {
            1 => "name",
            2 => "generateName",
            3 => "namespace",
            11 | 12 => {
                let (key, value) = entry(content, false)?;
                let map = if number == 11 { "labels" } else { "annotations" };
                meta.entry(map).or_insert_with(|| json!({}))[key] = value;
                continue;
            }
            _ => continue,
        };
        if !content.is_empty() {
            meta.insert(name.to_owned(), text(content)?);
        }
    }
    Some(Value::Object(meta))
}

/// Whether a body is an object in protobuf, as its first bytes tell.
pub(crate) fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Reads a protobuf body; `None` for kinds that are not known here and for what is no protobuf.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for (number, content) in fields(body.strip_prefix(MAGIC)?)? {
        match number {
            1 => type_meta = content,
            2 => raw = content,
            _ => {}
        }
    }
    let mut object = Map::new();
    for (number, content) in fields(type_meta)? {
        let name = if number == 1 { "apiVersion" } else { "kind" };
        object.insert(name.to_owned(), text(content)?);
    }
    let kind = object.get("kind")?.as_str()?.to_owned();
    // Fields of each kind: number, name, whether values are bytes.
    let maps: &[(u64, &str, bool)] = match (object.get("apiVersion")?.as_str()?, kind.as_str()) {
        ("v1", "Namespace" | "ServiceAccount") => &[],
        ("v1", "ConfigMap") => &[(2, "data", false), (3, "binaryData", true)],
        ("v1", "Secret") => &[(2, "data", true), (4, "stringData", false)],
        ("v1" | "meta.k8s.io/v1", "DeleteOptions") => return delete_options(raw, object),
        _ => return None,
    };
    for (number, content) in fields(raw)? {
        if number == 1 {
            object.insert("metadata".to_owned(), metadata(content)?);
        } else if kind == "Secret" && number == 3 {
            object.insert("type".to_owned(), text(content)?);
        } else if let Some((_, name, binary)) = maps.iter().find(|(n, ..)| *n == number) {
            let (key, value) = entry(content, *binary)?;
            object.entry(*name).or_insert_with(|| json!({}))[key] = value;
        }
    }
    Some(Value::Object(object))
}

fn delete_options(raw: &[u8], mut object: Map<String, Value>) -> Option<Value> {
    for (number, content) in fields(raw)? {
        match number {
            2 => {
                let mut preconditions = Map::new();
                for (number, content) in fields(content)? {
                    let name = if number == 1 { "uid" } else { "resourceVersion" };
                    preconditions.insert(name.to_owned(), text(content)?);
                }
                object.insert("preconditions".to_owned(), Value::Object(preconditions));
            }
            4 => {
                object.insert("propagationPolicy".to_owned(), text(content)?);
            }
            5 => {
                object.insert("dryRun".to_owned(), json!([text(content)?]));
            }
            _ => {}
        }
    }
    Some(Value::Object(object))
}
