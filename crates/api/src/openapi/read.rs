//! Parses published schemas, and keeps the part that validation needs.
//!
//! Parses the bytes without building a tree: the document of a server has some megabytes,
//! mostly descriptions.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Document, Fields, Schema, What};

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct File {
    /// Version 2.
    definitions: BTreeMap<String, Raw>,
    /// Version 3.
    components: Components,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Components {
    schemas: BTreeMap<String, Raw>,
}

/// The supported keywords of a schema.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Raw {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "type")]
    type_: Option<Value>,
    format: Option<String>,
    properties: Option<BTreeMap<String, Raw>>,
    #[serde(rename = "additionalProperties")]
    additional: Option<Additional>,
    items: Option<Box<Raw>>,
    required: Vec<String>,
    default: Option<Value>,
    nullable: bool,
    #[serde(rename = "allOf")]
    all_of: Vec<Raw>,
    #[serde(rename = "oneOf")]
    one_of: Vec<serde::de::IgnoredAny>,
    #[serde(rename = "anyOf")]
    any_of: Vec<serde::de::IgnoredAny>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    embedded: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<KindName>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct KindName {
    group: String,
    version: String,
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Additional {
    Allowed(bool),
    Like(Box<Raw>),
}

/// Types with several notations, whatever their schema.
const LOOSE: [&str; 4] = [
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

impl Document {
    /// Reads a document of the API server, version 2 or 3.
    ///
    /// # Errors
    ///
    /// The position of a syntax error.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut document = Self::default();
        for (name, mut raw) in file.definitions.into_iter().chain(file.components.schemas) {
            let name: Box<str> = name.into();
            for KindName { group, version, kind } in std::mem::take(&mut raw.kinds) {
                document.kinds.insert((group, version, kind), name.clone());
            }
            let schema = match LOOSE.contains(&name.as_ref()) {
                true => Schema::default(),
                false => schema(raw),
            };
            document.schemas.insert(name, schema);
        }
        Ok(document)
    }

    /// Reads the schemas of a CustomResourceDefinition (`v1`); without schemas,
    /// everything is valid.
    pub fn of_definition(definition: &Value) -> Self {
        let mut document = Self::default();
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let open = spec["preserveUnknownFields"] == true;
        for version in spec["versions"].as_array().into_iter().flatten().filter(|_| !open) {
            let Ok(mut raw) = Raw::deserialize(&version["schema"]["openAPIV3Schema"]) else {
                continue;
            };
            // The server validates these itself, and a schema need not contain them.
            raw.embedded = true;
            let version = text(&version["name"]);
            let parts: Vec<&str> = group.split('.').rev().collect();
            let name: Box<str> = format!("{}.{version}.{kind}", parts.join(".")).into();
            document.schemas.insert(name.clone(), schema(raw));
            document.kinds.insert((group.clone(), version, kind.clone()), name);
        }
        document
    }
}

fn schema(raw: Raw) -> Schema {
    let optional = raw.default.is_some() || raw.nullable;
    Schema { what: what(raw), optional }
}

fn what(mut raw: Raw) -> What {
    if let Some(reference) = raw.reference {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return What::Reference(name.into());
    }
    // Version 3 wraps a reference, so that it may have a default.
    if raw.all_of.len() == 1 && raw.type_.is_none() && raw.properties.is_none() {
        return raw.all_of.pop().map(what).unwrap_or_default();
    }
    let alternatives = !raw.one_of.is_empty() || !raw.any_of.is_empty();
    let loose = raw.int_or_string || raw.format.as_deref() == Some("int-or-string");
    let type_ = raw.type_.as_ref().and_then(Value::as_str).unwrap_or_default();
    match type_ {
        _ if loose => What::Any,
        "object" | "" if raw.properties.is_some() => object(raw),
        "object" => match raw.additional {
            Some(Additional::Like(like)) => What::Map(Box::new(schema(*like))),
            Some(Additional::Allowed(_)) | None => What::Any,
        },
        "array" => What::List(Box::new(raw.items.map(|items| schema(*items)).unwrap_or_default())),
        _ if alternatives => What::Any,
        "string" => What::String,
        "integer" => What::Integer,
        "number" => What::Number,
        "boolean" => What::Boolean,
        _ => What::Any,
    }
}

fn object(raw: Raw) -> What {
    let open = raw.preserve || matches!(raw.additional, Some(Additional::Allowed(true)));
    let extra = matches!(raw.additional, Some(Additional::Like(_)));
    let properties = raw.properties.unwrap_or_default();
    let mut known: Vec<(Box<str>, Schema)> =
        properties.into_iter().map(|(name, raw)| (name.into(), schema(raw))).collect();
    if raw.embedded {
        for name in ["apiVersion", "kind", "metadata"] {
            known.retain(|(known, _)| known.as_ref() != name);
            known.push((name.into(), Schema::default()));
        }
        known.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    let required = raw.required.into_iter().map(Into::into).collect();
    What::Object(Box::new(Fields { known, required, open: open || extra }))
}
