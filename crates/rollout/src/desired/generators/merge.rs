//! The merge generator: sets of several generators, merged by keys (AS-080 to AS-083).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::combine::merge_over;
use super::element::{Element, Failure, list_of, texts_of};
use super::scope::{Generator, GeneratorScope, ParameterOrigin, ParameterSets};
use crate::desired::texts::Texts;

/// The merge generator.
pub(super) static MERGE: Generator = Generator {
    declare,
    origin: ParameterOrigin::Elements,
    ..Generator::new("merge", &["generators", "mergeKeys", "template"], generate)
};

fn declare<'a>(generator: &'a Value, _: &GeneratorScope<'_, '_>) -> Result<&'a [Value], Failure> {
    merge_keys(generator)?;
    children(generator)
}

/// The sets of the first generator in their order, each with what those of the others
/// with the same values of the keys contain, the last one first.
fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let keys = Keys { names: merge_keys(generator)?, dotted: scope.is_go() };
    let mut base = Vec::new();
    let mut places = HashMap::new();
    for (index, child) in children(generator)?.iter().enumerate() {
        let sets = scope.child(child, &format!("generators[{index}]"))?;
        let identities = keys.identities(&sets)?;
        if index == 0 {
            places = identities.into_iter().enumerate().map(|(at, id)| (id, at)).collect();
            base = sets;
            continue;
        }
        for (set, identity) in sets.into_iter().zip(identities) {
            let Some(place) = places.get(&identity) else { continue };
            let texts = Texts::of_union(
                (base[*place].texts, &base[*place].values),
                (set.texts, &set.values),
            );
            base[*place].texts = texts;
            let values = &mut base[*place].values;
            if scope.is_go() {
                merge_over(values, set.values);
            } else {
                // No value becomes text: a placeholder of one that is none stays (AS-114).
                values.extend(set.values);
            }
        }
    }
    for set in &base {
        scope.count(&set.values)?;
    }
    Ok(base)
}

fn children(generator: &Value) -> Result<&[Value], Failure> {
    let children = list_of(generator, "generators")?;
    if children.len() < 2 {
        let cause = format!(
            "has {} elements; merge at least two generators, or use one of them directly",
            children.len()
        );
        return Err(Failure::new("generators", cause));
    }
    Ok(children)
}

fn merge_keys(generator: &Value) -> Result<BTreeSet<&str>, Failure> {
    let keys: BTreeSet<&str> = texts_of(generator, "mergeKeys")?.into_iter().collect();
    if keys.is_empty() {
        let cause = "is empty; name the parameters by which the sets are merged";
        return Err(Failure::new("mergeKeys", cause));
    }
    Ok(keys)
}

/// The merge keys.
struct Keys<'a> {
    names: BTreeSet<&'a str>,
    /// Whether a dotted key is also looked up in nested objects (AS-082).
    dotted: bool,
}

impl Keys<'_> {
    /// The identities of the sets of one generator; two of them must differ.
    fn identities(&self, sets: &[Element]) -> Result<Vec<String>, Failure> {
        let identities: Vec<String> = sets.iter().map(|set| self.identity(&set.values)).collect();
        let mut places = HashMap::with_capacity(sets.len());
        for (index, identity) in identities.iter().enumerate() {
            if let Some(first) = places.insert(identity, index) {
                let first: usize = first;
                let cause = format!(
                    "{} and {} have the same values of the merge keys: {identity}; add a key \
                     that distinguishes them to mergeKeys",
                    sets[first].field, sets[index].field
                );
                return Err(Failure::new("", cause));
            }
        }
        Ok(identities)
    }

    /// The values of the merge keys as a JSON object, null for a missing one.
    fn identity(&self, values: &Map<String, Value>) -> String {
        let value = |key: &&str| {
            let nested = || nested(values, key).filter(|_| self.dotted);
            values.get(*key).or_else(nested).map(canonical).unwrap_or_default()
        };
        let object: Map<String, Value> =
            self.names.iter().map(|key| ((*key).to_owned(), value(key))).collect();
        Value::from(object).to_string()
    }
}

/// A value whose numbers are equal as text when they are equal: 3.0 is 3.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            #[allow(clippy::cast_possible_truncation, reason = "it is a small integer")]
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => (float as i64).into(),
            Some(float) => float.into(),
            None => value.clone(),
        },
        Value::Array(list) => list.iter().map(canonical).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), canonical(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// The value of a dotted key in nested objects.
fn nested<'a>(values: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let (first, rest) = key.split_once('.')?;
    let inner = values.get(first)?.as_object()?;
    inner.get(rest).or_else(|| nested(inner, rest))
}
