//! What is known of the lists and maps inside an object: how they merge.
//!
//! Custom kinds say it in their schema. For built-in kinds the table below
//! names the lists that are not atomic; a list that is not in it is replaced
//! as a whole by server-side apply.

use serde_json::Value;

use super::super::kinds::Kind;
use super::super::schema::{Additional, ListType, Schema};

/// A place in an object of some kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    /// In a built-in object, or in the metadata of any: the way from the root.
    Builtin(Step<'a>),
    /// In a custom object.
    Custom(&'a Schema),
    /// Nothing is known: maps merge, lists are atomic.
    Unknown,
    /// The root of an object of a custom kind.
    CustomRoot(Option<&'a Schema>),
}

/// One step of the way to a place; list items add none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    kind: &'a str,
    /// Field names: the place, its parent, its grandparent.
    names: [&'a str; 3],
}

impl<'a> Shape<'a> {
    pub fn root(kind: &'a Kind) -> Self {
        if kind.is_builtin() {
            Self::Builtin(Step { kind: &kind.kind, names: [""; 3] })
        } else {
            Self::CustomRoot(kind.schema())
        }
    }

    /// Whether this is the object as a whole.
    pub fn is_root(self) -> bool {
        match self {
            Self::Builtin(step) => step.names[0].is_empty(),
            Self::CustomRoot(_) => true,
            Self::Custom(_) | Self::Unknown => false,
        }
    }

    pub fn field(self, name: &'a str) -> Self {
        match self {
            Self::Builtin(step) => {
                Self::Builtin(Step { kind: step.kind, names: [name, step.names[0], step.names[1]] })
            }
            Self::CustomRoot(_) if name == "metadata" => {
                Self::Builtin(Step { kind: "", names: ["metadata", "", ""] })
            }
            Self::CustomRoot(Some(schema)) | Self::Custom(schema) => {
                schema.field(name).map_or(Self::Unknown, Self::Custom)
            }
            Self::CustomRoot(None) | Self::Unknown => Self::Unknown,
        }
    }

    pub fn item(self) -> Self {
        match self {
            Self::Builtin(step) => Self::Builtin(step),
            Self::Custom(schema) => schema.items.as_deref().map_or(Self::Unknown, Self::Custom),
            Self::CustomRoot(_) | Self::Unknown => Self::Unknown,
        }
    }

    /// How server-side apply merges a list here.
    pub fn list_type(self) -> ListType {
        match self {
            Self::Builtin(step) => step.list_type(),
            Self::Custom(schema) => schema.list_type.clone(),
            Self::CustomRoot(_) | Self::Unknown => ListType::Atomic,
        }
    }

    /// Whether a map here has one owner only.
    pub fn atomic_map(self) -> bool {
        match self {
            Self::Builtin(step) => step.atomic_map(),
            Self::Custom(schema) => schema.atomic_map,
            Self::CustomRoot(_) | Self::Unknown => false,
        }
    }

    /// Whether a field of this map is a declared one, rather than a key of a free map.
    pub fn declares(self, name: &str) -> bool {
        match self {
            Self::Builtin(step) => !step.free_map(),
            Self::CustomRoot(schema) => {
                matches!(name, "apiVersion" | "kind" | "metadata")
                    || schema.is_some_and(|s| s.properties.contains_key(name))
            }
            Self::Custom(schema) => {
                schema.properties.contains_key(name)
                    && !matches!(schema.additional, Additional::Each(_))
            }
            Self::Unknown => false,
        }
    }

    /// Merge key of a list of objects in a strategic merge patch, when it has one.
    pub fn merge_key(self) -> Option<&'static str> {
        match self {
            Self::Builtin(step) => step.merge_key(),
            _ => None,
        }
    }

    /// Whether a list of plain values is merged by a strategic merge patch.
    pub fn merges_values(self) -> bool {
        matches!(self, Self::Builtin(step) if step.names[0] == "finalizers")
    }

    /// A default where the key is absent.
    pub fn key_default(self, key: &str) -> Option<Value> {
        match self {
            Self::Builtin(step) if key == "protocol" && step.names[0] == "ports" => {
                Some(Value::from("TCP"))
            }
            Self::Custom(schema) => schema.items.as_deref()?.properties.get(key)?.default.clone(),
            _ => None,
        }
    }
}

impl Step<'_> {
    /// The keys that distinguish the items of a list, where they are merged.
    fn keys(&self) -> &'static [&'static str] {
        match (self.names[0], self.names[1]) {
            ("ownerReferences", "metadata") => &["uid"],
            (
                "containers"
                | "initContainers"
                | "ephemeralContainers"
                | "volumes"
                | "resourceClaims"
                | "imagePullSecrets",
                "spec",
            ) => &["name"],
            ("env" | "schedulingGates" | "matchConditions", _) | ("webhooks", "") => &["name"],
            ("secrets", "") if self.kind == "ServiceAccount" => &["name"],
            ("hostAliases", "spec") | ("podIPs" | "hostIPs", "status") => &["ip"],
            ("topologySpreadConstraints", "spec") => &["topologyKey", "whenUnsatisfiable"],
            ("ports", "containers" | "initContainers" | "ephemeralContainers") => {
                &["containerPort", "protocol"]
            }
            ("ports", "spec") if self.kind == "Service" => &["port", "protocol"],
            ("volumeMounts", _) => &["mountPath"],
            ("volumeDevices", _) => &["devicePath"],
            ("conditions" | "addresses", "status") => &["type"],
            _ => &[],
        }
    }

    fn list_type(&self) -> ListType {
        match (self.names[0], self.keys()) {
            ("finalizers", _) if self.names[1] == "metadata" => ListType::Set,
            (_, []) => ListType::Atomic,
            (_, keys) => ListType::Map(keys.iter().map(|k| (*k).to_owned()).collect()),
        }
    }

    fn atomic_map(&self) -> bool {
        let [name, parent, _] = self.names;
        match name {
            // Label selectors and references to other objects.
            "selector" => true,
            "nodeSelector" => parent == "spec",
            "labelSelector" | "namespaceSelector" | "podSelector" | "objectSelector" => true,
            "fieldRef" | "resourceFieldRef" | "secretKeyRef" | "configMapKeyRef" | "secretRef" => {
                parent != "envFrom"
            }
            "roleRef" | "involvedObject" | "claimRef" | "targetRef" | "scaleTargetRef" => {
                name != "scaleTargetRef"
            }
            "ownerReferences" | "imagePullSecrets" => true,
            _ => false,
        }
    }

    /// Maps with keys of the user's choice.
    fn free_map(&self) -> bool {
        let [name, parent, _] = self.names;
        matches!(
            name,
            "labels" | "annotations" | "data" | "binaryData" | "stringData" | "matchLabels"
        ) || matches!(name, "limits" | "requests" | "capacity" | "allocatable" | "hard" | "used")
            || (name == "parameters" && parent.is_empty())
    }

    fn merge_key(&self) -> Option<&'static str> {
        match self.names[0] {
            // Atomic for server-side apply.
            "taints" => Some("key"),
            "imagePullSecrets" => Some("name"),
            _ => self.keys().first().copied(),
        }
    }
}

/// The keys of a list item as text, with defaults filled in; `None` when it has none of them.
pub(crate) fn item_keys(
    shape: Shape<'_>,
    keys: &[String],
    item: &Value,
) -> Option<Vec<(String, Value)>> {
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let value = match item.get(key) {
            Some(value) if !value.is_null() => Some(value.clone()),
            _ => shape.key_default(key),
        };
        if let Some(value) = value {
            found.push((key.clone(), value));
        }
    }
    (!found.is_empty()).then_some(found)
}
