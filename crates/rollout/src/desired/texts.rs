//! Which maps of a parameter set are maps of strings (AS-132).
//!
//! JSON does not distinguish them from other maps, but Go templates do: an absent key of
//! them is the empty string, and functions for maps of any values refuse them.

use gotemplate::go::{SharedParameters, TemplateLimits};
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

/// The parameters of the templates of one Application, or of one generator.
#[derive(Debug)]
pub struct Given<'a> {
    /// The values by name.
    pub values: &'a Map<String, Value>,
    /// Which of them are maps of strings.
    texts: Texts,
    /// The same for Go templates, as those before have left them.
    shared: Option<SharedParameters>,
}

impl<'a> Given<'a> {
    /// Values, and which of them are maps of strings.
    pub const fn new(values: &'a Map<String, Value>, texts: Texts) -> Self {
        Self { values, texts, shared: None }
    }

    /// For Go templates, each of which sees what those before it changed.
    pub fn shared(&mut self) -> &mut SharedParameters {
        self.shared.get_or_insert_with(|| {
            let texts: Vec<&[&str]> = self.texts.paths().collect();
            SharedParameters::new(self.values, &texts)
        })
    }

    /// The values as templates have changed them, if one has.
    ///
    /// # Errors
    ///
    /// Why they are no parameters any more.
    pub fn changed_values(
        &self,
        limits: &TemplateLimits,
    ) -> Option<Result<Map<String, Value>, String>> {
        let changed = self.shared.as_ref()?.changed_values(limits)?;
        Some(changed.map_err(|cause| format!("changes its parameters to what is no JSON: {cause}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The entries of the second set are added to the maps of the first one.
    #[test]
    fn a_union_has_maps_of_strings_as_the_first_set_has_them_as_132() {
        let values = || json!({"values": {"a": "1"}});
        let labels = || json!({"metadata": {"labels": {}}});
        let none = Texts::default();
        let both = Texts::VALUES.and(Texts::METADATA);
        for (first, held, second, want) in [
            (Texts::VALUES, values(), none, vec!["values"]),
            (Texts::VALUES, values(), Texts::VALUES, vec!["values"]),
            (none, values(), Texts::VALUES, vec![]),
            (none, json!({}), Texts::VALUES, vec!["values"]),
            (none, labels(), both, vec!["values", "metadata.annotations"]),
            (Texts::METADATA, labels(), Texts::VALUES, vec!["values", "metadata.labels"]),
            (none, json!({}), Texts::VALUES.in_clusters(), vec!["clusters.*.values"]),
            (none, json!({"clusters": []}), Texts::VALUES.in_clusters(), vec![]),
        ] {
            let held = held.as_object().unwrap();
            let union = Texts::of_union((first, held), (second, held));
            let paths: Vec<String> = union.paths().map(|path| path.join(".")).collect();
            assert_eq!(paths, want, "{held:?}");
        }
    }
}
