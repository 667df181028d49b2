//! Version 2: one document for all kinds, in JSON and in protobuf.
//!
//! kubectl up to 1.26 explains from it, and reads it in protobuf only. It has no
//! paths: they would say which patches are accepted, and kubectl would look for merge
//! keys that these schemas lack.

use std::sync::Arc;

use serde_json::{Value, json};

use super::schemas::{Version, definitions};
use crate::kinds::Kind;

/// The document as JSON.
pub(super) fn document(kinds: &[Arc<Kind>]) -> Value {
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.33.0"}, "paths": {},
        "definitions": definitions(kinds, Version::V2),
    })
}

/// The same in protobuf, in the messages of `gnostic`'s OpenAPI version 2.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Out::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |_| {});
    out.message(9, |all| all.named_schemas(&document["definitions"], 0));
    out.0
}

/// Deeper schemas are cut off.
const MAX_DEPTH: usize = 64;

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(&mut self, mut value: usize) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: usize, content: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(content.len());
        self.0.extend_from_slice(content);
    }

    /// A text; nothing for what is none.
    fn text(&mut self, number: usize, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    fn message(&mut self, number: usize, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(number, &inner.0);
    }

    /// `Definitions` and `Properties`: a list of names with their schemas.
    fn named_schemas(&mut self, schemas: &Value, depth: usize) {
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            self.message(1, |entry| {
                entry.bytes(1, name.as_bytes());
                entry.message(2, |out| out.schema(schema, depth + 1));
            });
        }
    }

    /// `Schema`, as far as clients read it.
    fn schema(&mut self, schema: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for (number, field) in [(1, "$ref"), (2, "format"), (4, "description")] {
            self.text(number, &schema[field]);
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            self.text(19, required);
        }
        if schema["additionalProperties"].is_object() {
            self.message(21, |item| {
                item.message(1, |out| out.schema(&schema["additionalProperties"], depth + 1));
            });
        }
        let free = schema["x-kubernetes-int-or-string"] == true;
        match &schema["type"] {
            Value::String(_) => self.message(22, |out| out.text(1, &schema["type"])),
            _ if free => self.message(22, |out| out.bytes(1, b"string")),
            _ => {}
        }
        if schema["items"].is_object() {
            self.message(23, |item| {
                item.message(1, |out| out.schema(&schema["items"], depth + 1));
            });
        }
        if schema["properties"].is_object() {
            self.message(25, |out| out.named_schemas(&schema["properties"], depth + 1));
        }
        let extensions = schema.as_object().into_iter().flatten();
        for (name, value) in extensions.filter(|(name, _)| name.starts_with("x-kubernetes-")) {
            self.message(31, |extension| {
                extension.bytes(1, name.as_bytes());
                // JSON is YAML, too.
                extension.message(2, |any| any.bytes(2, value.to_string().as_bytes()));
            });
        }
    }
}
