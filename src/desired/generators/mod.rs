//! Generators: each makes parameter sets out of what the user listed.
//!
//! One file per generator. A generator that Wavegate does not have is an
//! error, never an empty result: no Applications would mean to delete those
//! that exist (AS-098).

mod list;

use serde_json::{Map, Value};

use super::Error;
use super::selector::Selector;

/// All generators there are, in the order in which one element's are run
/// (AS-040).
const KNOWN: [&str; 9] = [
    "list",
    "clusters",
    "git",
    "scmProvider",
    "clusterDecisionResource",
    "pullRequest",
    "matrix",
    "merge",
    "plugin",
];

/// What one generator made.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Which generator, as a path.
    pub place: String,
    /// Its own template, null when it has none.
    pub template: Value,
    /// The parameter sets, in order.
    pub sets: Vec<Map<String, Value>>,
}

/// Runs all generators of one element of `spec.generators` and keeps the sets
/// that its selector matches.
///
/// `place` is the element's path. No output means that the element has no
/// generator that is known (AS-043).
///
/// # Errors
///
/// [`Error::Generator`] naming the field.
pub fn parameter_sets(element: &Value, place: &str, go: bool) -> Result<Vec<Output>, Error> {
    let failed = |place: String, cause: String| Error::Generator { place, cause };
    let selector = Selector::read(&element["selector"])
        .map_err(|cause| failed(format!("{place}.selector"), cause))?;
    let mut outputs = Vec::new();
    for name in KNOWN {
        let generator = &element[name];
        if generator.is_null() {
            continue;
        }
        let place = format!("{place}.{name}");
        if name != "list" {
            return Err(failed(
                place,
                format!(
                    "the {name} generator is not available in this version; use a list generator"
                ),
            ));
        }
        let mut sets = list::generate(generator, go)
            .map_err(|(field, cause)| failed(format!("{place}.{field}"), cause))?;
        sets.retain(|set| selector.matches(set));
        outputs.push(Output { place, template: generator["template"].clone(), sets });
    }
    Ok(outputs)
}
