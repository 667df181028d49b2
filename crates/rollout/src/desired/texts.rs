//! Which maps of a parameter set are maps of strings (AS-132).
//!
//! JSON does not distinguish them from other maps, but Go templates do: an absent key of
//! them is the empty string, and functions for maps of any values refuse them.

use serde_json::{Map, Value};

/// The paths of maps that generators create as maps of strings; `*` is any element of a
/// list. One bit of [`Texts`] each.
const PATHS: [&[&str]; 6] = [
    &["values"],
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["clusters", "*", "values"],
    &["clusters", "*", "metadata", "labels"],
    &["clusters", "*", "metadata", "annotations"],
];

/// The paths of a parameter set that are maps of strings; none by default, as for the
/// elements of a list, whose maps may have any values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts(u8);

impl Texts {
    /// The `values` of a generator.
    pub const VALUES: Self = Self(1);
    /// The labels and annotations of a cluster Secret.
    pub const METADATA: Self = Self(1 << 1 | 1 << 2);

    /// Both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of a list `clusters` of sets with these ones.
    pub const fn in_clusters(self) -> Self {
        Self(self.0 << 3)
    }

    /// Those of the union of two sets: a map keeps the type that it has in `first`, if it is
    /// there, since the entries of the other one are added to it.
    pub fn of_union(
        (first, values): (Self, &Map<String, Value>),
        (second, _): (Self, &Map<String, Value>),
    ) -> Self {
        let mut union = 0;
        for (index, path) in PATHS.iter().enumerate() {
            let from = if exists(values, path) { first } else { second };
            union |= from.0 & (1 << index);
        }
        Self(union)
    }

    /// The paths.
    pub fn paths(self) -> impl Iterator<Item = &'static [&'static str]> {
        PATHS
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & (1 << index) != 0)
            .map(|(_, path)| path)
    }
}

/// Whether a set has something at a path, up to a list.
fn exists(values: &Map<String, Value>, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match values.get(*first) {
        Some(Value::Object(inner)) => exists(inner, rest),
        Some(_) => true,
        None => false,
    }
}

/// The parameters of a template.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The values by name.
    pub values: &'a Map<String, Value>,
    /// Which of them are maps of strings.
    pub texts: Texts,
}
