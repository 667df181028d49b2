//! What the generators of a set found last, as an annotation of the set stores it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::application_set::generate::generated::Generated;
use crate::desired::inputs::Finding;
use wavegate_api::annotations::{FOUND, annotation_of};

/// What the generators of a spec found last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratorHistory {
    /// A digest of each element of `spec.generators`.
    pub of: Vec<String>,
    /// The paths of those that found something.
    pub generators: BTreeSet<String>,
}

impl GeneratorHistory {
    /// The annotation of a set; `None` when it is absent or unreadable.
    pub fn read(set: &Value) -> Option<Self> {
        let stored: Value = serde_json::from_str(annotation_of(set, FOUND)?).ok()?;
        let texts = |field: &str| -> Option<Vec<String>> {
            let list = stored[field].as_array()?.iter();
            Some(list.filter_map(|one| one.as_str().map(str::to_owned)).collect())
        };
        let generators = texts("found")?.into_iter().collect();
        Some(Self { of: texts("generators")?, generators })
    }

    pub(in crate::application_set) fn of(generated: &Generated) -> Self {
        let found = generated.reads.found.iter().filter(|(_, found)| **found == Finding::Something);
        Self {
            of: generated.generators.iter().map(ToString::to_string).collect(),
            generators: found.map(|(place, _)| place.clone()).collect(),
        }
    }

    /// The same of the elements that are in this list, too, with their paths in it: others were
    /// changed or removed.
    pub(in crate::application_set) fn moved_to(&self, of: &[String]) -> Self {
        let is_same = |at: usize, new: &String| self.of.get(at) == Some(new);
        let paths = |path: &String| -> Vec<String> {
            let Some((at, rest)) = element_of(path) else { return Vec::new() };
            let places = of.iter().enumerate().filter(|(_, new)| is_same(at, new));
            places.map(|(place, _)| format!("{ELEMENT}{place}{rest}")).collect()
        };
        Self { of: of.to_vec(), generators: self.generators.iter().flat_map(paths).collect() }
    }

    /// What the elements found that are not in this list any more, by their paths.
    pub(in crate::application_set) fn not_in(&self, of: &[String]) -> Vec<&str> {
        let is_lost = |path: &&str| {
            let old = element_of(path).and_then(|(at, _)| self.of.get(at));
            old.is_some_and(|old| !of.contains(old))
        };
        self.generators.iter().map(String::as_str).filter(is_lost).collect()
    }

    /// Whether the element that a path of a later list is in was there, too, as it is now.
    pub(in crate::application_set) fn has_element(&self, path: &str, later: &Self) -> bool {
        let new = element_of(path).and_then(|(at, _)| later.of.get(at));
        new.is_some_and(|new| self.of.contains(new))
    }

    pub(in crate::application_set) fn text(&self) -> String {
        json!({ "generators": self.of, "found": self.generators }).to_string()
    }
}

/// The start of the path of an element.
const ELEMENT: &str = "spec.generators[";

/// The path of the generator in `spec.generators` that a path is in: that of the matrix around it.
pub(in crate::application_set) fn outermost(path: &str) -> Option<&str> {
    let (_, rest) = element_of(path)?;
    let key = rest.strip_prefix("].")?;
    let end = key.find(['.', '[', ' ']).unwrap_or(key.len());
    Some(&path[..path.len() - key.len() + end])
}

/// The index of the element that a path is in, and what follows it.
fn element_of(path: &str) -> Option<(usize, &str)> {
    let path = path.strip_prefix(ELEMENT)?;
    let (at, rest) = path.split_at(path.find(']')?);
    Some((at.parse().ok()?, rest))
}
