//! Macros and helpers for reading and writing the API types.
//!
//! Go reads an absent field and `null` as the field's zero value and leaves
//! zero values out when printing. Users rely on both, so all types do the same.

use serde::{Deserialize, Deserializer};

/// A type that keeps the fields that it does not know.
pub trait UnknownFields {
    /// These fields.
    fn unknown(&self) -> &serde_json::Map<String, serde_json::Value>;

    /// The same, to be changed.
    fn unknown_mut(&mut self) -> &mut serde_json::Map<String, serde_json::Value>;
}

/// Reads a value, treating `null` as the default.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Whether a field can be omitted when writing.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Schema of a value of any type.
pub(super) fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a map whose values are of any type.
pub(super) fn any_map(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let values = anything(generator);
    schemars::json_schema!({"type": "object", "additionalProperties": values})
}

/// Schema of an object with any fields.
pub(super) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Schema of a list of such objects.
pub(super) fn any_objects(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let items = any_object(generator);
    schemars::json_schema!({"type": "array", "items": items})
}

/// Defines structs whose fields are all optional when read and omitted when empty.
/// `struct Name { … }` skips unknown fields; `struct Name { … } and extra` keeps them in
/// `extra`; the fields of `struct Name { … } and always { … }` are written even when empty, and
/// `… and always { … } and extra` is both.
macro_rules! lenient {
    () => {};
    (
        @struct {$(#[$meta:meta])*} $name:ident
        {$($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*} {$($more:tt)*}
    ) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$meta])*
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(deserialize_with = "crate::lenient::or_default")]
                #[serde(skip_serializing_if = "crate::lenient::is_default")]
                pub $field: $type,
            )*
            $($more)*
        }
    };
    (
        $(#[$meta:meta])* pub struct $name:ident {$($fields:tt)*} and extra $($rest:tt)*
    ) => {
        lenient! { $(#[$meta])* pub struct $name {$($fields)*} and always {} and extra $($rest)* }
    };
    (
        $(#[$meta:meta])* pub struct $name:ident {$($fields:tt)*} and always {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        } and extra $($rest:tt)*
    ) => {
        lenient! { @struct {$(#[$meta])*} $name {$($fields)*} {
            $(
                $(#[$field_meta])*
                #[serde(deserialize_with = "crate::lenient::or_default")]
                pub $field: $type,
            )*
            /// Fields without a typed counterpart, unchanged.
            #[serde(flatten)]
            #[schemars(skip)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        } }

        impl crate::UnknownFields for $name {
            fn unknown(&self) -> &serde_json::Map<String, serde_json::Value> {
                &self.extra
            }

            fn unknown_mut(&mut self) -> &mut serde_json::Map<String, serde_json::Value> {
                &mut self.extra
            }
        }

        lenient! { $($rest)* }
    };
    (
        $(#[$meta:meta])* pub struct $name:ident {$($fields:tt)*} and always {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        } $($rest:tt)*
    ) => {
        lenient! { @struct {$(#[$meta])*} $name {$($fields)*} {
            $(
                $(#[$field_meta])*
                #[serde(deserialize_with = "crate::lenient::or_default")]
                pub $field: $type,
            )*
        } }
        lenient! { $($rest)* }
    };
    ($(#[$meta:meta])* pub struct $name:ident {$($fields:tt)*} $($rest:tt)*) => {
        lenient! { @struct {$(#[$meta])*} $name {$($fields)*} {} }
        lenient! { $($rest)* }
    };
}

/// Defines an enum of string values. The last variant stands for an absent value and for
/// every unlisted one.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
            _ => $(#[$other_meta:meta])* $other:ident = $other_text:literal,
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)+
            $(#[$other_meta])*
            #[default]
            #[serde(rename = $other_text, other)]
            $other,
        }

        impl $name {
            /// All values as written in a resource.
            pub const WORDS: &[&str] = &[$($text,)+ $other_text];

            /// The value as written in a resource.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::$other => $other_text,
                }
            }

            /// The variant of a value; unlisted values give the last variant.
            pub fn from_word(word: &str) -> Self {
                match word {
                    $($text => Self::$variant,)+
                    _ => Self::$other,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<String>()
            }
        }
    };
}

/// Defines a namespaced resource of the group: metadata, spec, and its other top-level fields.
macro_rules! resource {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($plural:literal) {
            pub spec: $spec:ty,
            $($(#[$field_meta:meta])* pub $field:ident: Option<$type:ty>,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// Desired state.
            pub spec: $spec,
            $($(#[$field_meta])* #[serde(default)] pub $field: Option<$type>,)*
        }

        impl $name {
            /// The kind as written in objects.
            pub const KIND: &str = stringify!($name);
            /// The plural name as written in paths.
            pub const PLURAL: &str = $plural;
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", crate::API_VERSION)?;
                map.serialize_entry("kind", Self::KIND)?;
                map.serialize_entry("metadata", &self.metadata)?;
                map.serialize_entry("spec", &self.spec)?;
                $(
                    if let Some(value) = &self.$field {
                        map.serialize_entry(stringify!($field), value)?;
                    }
                )*
                map.end()
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                crate::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                crate::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                Self::PLURAL.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
