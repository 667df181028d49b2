//! Published schemas, and the validation of objects against them.
//!
//! [`Document`] keeps the part of a published schema that validation needs: an OpenAPI
//! document of the server (version 2 or 3), or the schemas of a CustomResourceDefinition.
//! [`Document::check`] reports the errors of an object with kubectl's messages, without a
//! write request (SE-250).
//!
//! What a schema does not define is allowed: the server decides.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod check;
mod read;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use check::in_words;

/// Schemas by name, and the kinds they describe.
#[derive(Clone, Debug, Default)]
pub struct Document {
    schemas: BTreeMap<Box<str>, Schema>,
    /// Names of schemas by group, version and kind.
    kinds: BTreeMap<(String, String, String), Box<str>>,
}

/// The schema of a value.
#[derive(Clone, Debug, Default, PartialEq)]
struct Schema {
    what: What,
    /// An absent value is valid: the server sets a default, or accepts null.
    optional: bool,
}

/// Types of values that are distinguished.
#[derive(Clone, Debug, Default, PartialEq)]
enum What {
    /// Not defined, or not supported here.
    #[default]
    Any,
    /// A reference to another schema.
    Reference(Box<str>),
    /// An object with known fields.
    Object(Box<Fields>),
    /// A map of values of one type.
    Map(Box<Schema>),
    /// A list.
    List(Box<Schema>),
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Fields {
    /// Sorted by name.
    known: Vec<(Box<str>, Schema)>,
    required: Vec<Box<str>>,
    /// Whether unknown fields are allowed.
    open: bool,
}

impl Fields {
    fn get(&self, name: &str) -> Option<&Schema> {
        let at = self.known.binary_search_by(|(known, _)| known.as_ref().cmp(name));
        at.ok().map(|at| &self.known[at].1)
    }
}

impl Document {
    /// Whether it describes any kind.
    pub fn is_any(&self) -> bool {
        !self.kinds.is_empty()
    }

    fn schema_of(&self, group: &str, version: &str, kind: &str) -> Option<(&str, &Schema)> {
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        let name = self.kinds.get(&key)?;
        Some((name, self.schemas.get(name)?))
    }

    /// Resolves references, with the name of the last one; `None` for a broken reference.
    fn resolve<'a>(&'a self, schema: &'a Schema) -> Option<(Option<&'a str>, &'a What)> {
        let (mut name, mut what) = (None, &schema.what);
        // A longer chain is circular.
        for _ in 0..16 {
            let What::Reference(to) = what else { return Some((name, what)) };
            name = Some(to.as_ref());
            what = &self.schemas.get(to)?.what;
        }
        None
    }
}
