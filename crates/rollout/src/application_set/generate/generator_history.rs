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

    pub(in crate::application_set) fn text(&self) -> String {
        json!({ "generators": self.of, "found": self.generators }).to_string()
    }
}

/// The start of the path of an element.
const ELEMENT: &str = "spec.generators[";

/// The index of the element that a path is in, and what follows it.
fn element_of(path: &str) -> Option<(usize, &str)> {
    let path = path.strip_prefix(ELEMENT)?;
    let (at, rest) = path.split_at(path.find(']')?);
    Some((at.parse().ok()?, rest))
}
