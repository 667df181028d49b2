//! The merge generator: sets of several generators, merged by keys (AS-080 to AS-083).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::combine::merge_over;
use super::scope::Scope;
use super::{Element, Failure, Generator, kind, list_of};

/// The merge generator.
pub struct Merge;

impl Generator for Merge {
    fn key(&self) -> &'static str {
        "merge"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["generators", "mergeKeys", "template"]
    }

    /// The sets of the first generator in their order, each with what those of the others
    /// with the same values of the keys contain, the last one first.
    fn generate(
        &self,
        generator: &Value,
        scope: &mut Scope<'_, '_>,
    ) -> Result<Vec<Element>, Failure> {
        let children = list_of(generator, "generators")?;
        let [first, others @ ..] = children else {
            return Err(Failure::new("generators", "is empty; merge at least two generators"));
        };
        if others.is_empty() {
            let cause = "has one element; merge at least two generators, or use it directly";
            return Err(Failure::new("generators", cause));
        }
        let keys = merge_keys(generator)?;
        let mut base = scope.child(first, "generators[0]")?;
        let places = identities(&base, &keys)?;
        for (index, other) in others.iter().enumerate() {
            let sets = scope.child(other, &format!("generators[{}]", index + 1))?;
            identities(&sets, &keys)?;
            for set in sets {
                let Some(place) = places.get(&identity(&set.values, &keys)) else { continue };
                let values = &mut base[*place].values;
                if scope.is_go() {
                    merge_over(values, set.values)
                } else {
                    values.extend(set.values)
                }
            }
        }
        for set in &base {
            scope.count(&set.values)?;
        }
        Ok(base)
    }
}

fn merge_keys(generator: &Value) -> Result<BTreeSet<&str>, Failure> {
    let mut keys = BTreeSet::new();
    for (index, key) in list_of(generator, "mergeKeys")?.iter().enumerate() {
        let Value::String(key) = key else {
            let cause = format!("must be a string, is {}", kind(key));
            return Err(Failure::new(format!("mergeKeys[{index}]"), cause));
        };
        keys.insert(key.as_str());
    }
    if keys.is_empty() {
        let cause = "is empty; name the parameters by which the sets are merged";
        return Err(Failure::new("mergeKeys", cause));
    }
    Ok(keys)
}

/// The position of each identity; two sets of one generator must differ.
fn identities(sets: &[Element], keys: &BTreeSet<&str>) -> Result<HashMap<String, usize>, Failure> {
    let mut places = HashMap::with_capacity(sets.len());
    for (index, set) in sets.iter().enumerate() {
        let identity = identity(&set.values, keys);
        if let Some(first) = places.insert(identity.clone(), index) {
            let cause = format!(
                "{} and {} have the same values of the merge keys: {identity}; add a key that \
                 distinguishes them to mergeKeys",
                sets[first].field, set.field
            );
            return Err(Failure::new("", cause));
        }
    }
    Ok(places)
}

/// The values of the merge keys as a JSON object, null for a missing one.
fn identity(values: &Map<String, Value>, keys: &BTreeSet<&str>) -> String {
    let value = |key: &&str| values.get(*key).or_else(|| nested(values, key)).cloned();
    let object: Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), value(key).unwrap_or_default())).collect();
    Value::from(object).to_string()
}

/// The value of a dotted key in nested objects (AS-082).
fn nested<'a>(values: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let (first, rest) = key.split_once('.')?;
    let inner = values.get(first)?.as_object()?;
    inner.get(rest).or_else(|| nested(inner, rest))
}
