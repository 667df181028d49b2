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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{GeneratorHistory, outermost};

    fn history(of: &[&str], found: &[&str]) -> GeneratorHistory {
        GeneratorHistory {
            of: of.iter().map(|&one| one.to_owned()).collect(),
            generators: found.iter().map(|&one| one.to_owned()).collect(),
        }
    }

    fn digests(of: &[&str]) -> Vec<String> {
        of.iter().map(|&one| one.to_owned()).collect()
    }

    /// An element that moves within the list keeps what it found.
    #[test]
    fn what_generators_found_moves_with_them() {
        let before = history(
            &["a", "b", "b"],
            &["spec.generators[0].git", "spec.generators[1].matrix.generators[0].list", "other"],
        );
        for (of, found, lost) in [
            (
                &["a", "b", "b"][..],
                &[
                    "spec.generators[0].git",
                    "spec.generators[1].matrix.generators[0].list",
                    "spec.generators[2].matrix.generators[0].list",
                ][..],
                &[][..],
            ),
            (
                &["b", "a"],
                &["spec.generators[0].matrix.generators[0].list", "spec.generators[1].git"],
                &[],
            ),
            (
                &["c", "a"],
                &["spec.generators[1].git"],
                &["spec.generators[1].matrix.generators[0].list"],
            ),
            (&[], &[], &["spec.generators[0].git", "spec.generators[1].matrix.generators[0].list"]),
        ] {
            assert_eq!(before.moved_to(&digests(of)), history(of, found), "{of:?}");
            assert_eq!(before.not_in(&digests(of)), lost, "{of:?}");
        }
    }

    #[test]
    fn an_element_is_known_by_its_digest() {
        let (before, later) = (history(&["a", "b"], &[]), history(&["c", "b"], &[]));
        for (path, want) in [
            ("spec.generators[1].git", true),
            ("spec.generators[0].git", false),
            ("spec.generators[2].git", false),
            ("spec.generators[x].git", false),
            ("spec.template", false),
        ] {
            assert_eq!(before.has_element(path, &later), want, "{path}");
        }
    }

    #[test]
    fn a_path_is_in_the_outermost_generator() {
        for (path, want) in [
            ("spec.generators[3].git", Some("spec.generators[3].git")),
            ("spec.generators[0].matrix.generators[1].git", Some("spec.generators[0].matrix")),
            ("spec.generators[0].merge[1]", Some("spec.generators[0].merge")),
            ("spec.generators[0].clusters (cluster Secrets)", Some("spec.generators[0].clusters")),
            ("spec.generators[0]", None),
            ("spec.generators", None),
            ("spec.template.spec", None),
        ] {
            assert_eq!(outermost(path), want, "{path}");
        }
    }

    /// What is stored is read again; anything else is no history.
    #[test]
    fn the_annotation_is_read_as_it_was_written() {
        let own = history(&["a", "b"], &["spec.generators[0].git"]);
        let set = |text: &str| json!({"metadata": {"annotations": {"wavegate.dev/found": text}}});
        assert_eq!(GeneratorHistory::read(&set(&own.text())), Some(own));
        for text in ["", "{}", "[]", r#"{"generators": []}"#, r#"{"found": []}"#] {
            assert_eq!(GeneratorHistory::read(&set(text)), None, "{text}");
        }
        assert_eq!(GeneratorHistory::read(&json!({})), None);
    }
}
