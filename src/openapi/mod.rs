//! What the API server says about the fields of objects, and whether an object
//! is like that.
//!
//! [`Document`] keeps the little of a published schema that a check needs: an
//! OpenAPI document of the server (version 2 or 3), or the schemas of a
//! CustomResourceDefinition. [`Document::check`] tells in kubectl's words what is
//! wrong with an object, without a request to write (SE-250).
//!
//! What a schema does not say is allowed: the server has the last word.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod check;
mod read;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use check::in_words;

/// Schemas by their name, and which of them is whose.
#[derive(Clone, Debug, Default)]
pub struct Document {
    schemas: BTreeMap<Box<str>, Schema>,
    /// Names of schemas by group, version and kind.
    kinds: BTreeMap<(String, String, String), Box<str>>,
}

/// What a value may be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Schema {
    what: What,
    /// An absent value is no mistake: the server fills it in, or takes null.
    optional: bool,
}

/// The kinds of values that are told apart.
#[derive(Clone, Debug, Default, PartialEq)]
enum What {
    /// Nothing is said, or more than is understood here.
    #[default]
    Any,
    /// What another schema says.
    Reference(Box<str>),
    /// An object with known fields.
    Object(Box<Fields>),
    /// An object whose values are all alike.
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
    /// In order of their names.
    known: Vec<(Box<str>, Schema)>,
    required: Vec<Box<str>>,
    /// Whether fields that are not known may be there.
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

    /// Follows references; `None` when one leads nowhere. With the name of the
    /// last one.
    fn resolve<'a>(&'a self, schema: &'a Schema) -> Option<(Option<&'a str>, &'a What)> {
        let (mut name, mut what) = (None, &schema.what);
        // A chain that is longer goes in a circle.
        for _ in 0..16 {
            let What::Reference(to) = what else { return Some((name, what)) };
            name = Some(to.as_ref());
            what = &self.schemas.get(to)?.what;
        }
        None
    }
}
