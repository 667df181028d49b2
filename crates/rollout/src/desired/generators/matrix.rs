//! The matrix generator: all combinations of two generators (AS-070 to AS-074).

use serde_json::Value;

use super::combine::{merge_over, union};
use super::element::{Element, Failure, list_of};
use super::scope::{Generator, GeneratorScope, ParameterOrigin, ParameterSets};
use crate::desired::texts::Texts;

const FIRST: &str = "generators[0]";
const SECOND: &str = "generators[1]";

/// The matrix generator.
pub(super) static MATRIX: Generator = Generator {
    declare,
    origin: ParameterOrigin::Elements,
    ..Generator::new("matrix", &["generators", "template"], generate)
};

fn declare<'a>(generator: &'a Value, _: &GeneratorScope<'_, '_>) -> Result<&'a [Value], Failure> {
    children(generator).map(<[Value; 2]>::as_slice)
}

/// For each set of the first generator, all sets of the second one, which is
/// interpolated with the former.
fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let [first, second] = children(generator)?;
    let outer = scope.child(first, FIRST)?;
    // Without a placeholder it is the same for each outer set. Without an outer set it
    // is not needed, unless these are not known yet.
    let is_fixed = !has_placeholder(second);
    let is_needed = is_fixed && (!outer.is_empty() || scope.has_unread());
    let fixed = if is_needed { Some(scope.child(second, SECOND)?) } else { None };
    let mut combined = Vec::new();
    for mut a in outer {
        let evaluated;
        let inner = match &fixed {
            Some(fixed) => fixed,
            None if a.values.is_empty() => {
                evaluated = scope.child(second, SECOND)?;
                &evaluated
            }
            None => {
                let with = |failure: Failure| Failure {
                    cause: format!("{} (parameters of {})", failure.cause, a.field),
                    ..failure
                };
                let mut given = a.given();
                let element = scope.interpolate(second, SECOND, &mut given).map_err(with)?;
                evaluated = scope.interpolated_child(&element, SECOND).map_err(with)?;
                let changed = scope.changed_values(&given).transpose();
                let changed = changed.map_err(|f| with(f.below(SECOND)))?;
                drop(given);
                if let Some(changed) = changed {
                    a.values = changed;
                }
                &evaluated
            }
        };
        for b in inner {
            let values = if scope.is_go() {
                let mut values = b.values.clone();
                merge_over(&mut values, a.values.clone());
                values
            } else {
                union(&a.values, &b.values).map_err(|cause| {
                    Failure::new("", format!("{cause} ({} and {})", a.field, b.field))
                })?
            };
            scope.count(&values)?;
            let texts = Texts::of_union((b.texts, &b.values), (a.texts, &a.values));
            let field = format!("[{}, {}]", a.field, b.field);
            combined.push(Element { field, values, texts });
        }
    }
    Ok(combined)
}

fn children(generator: &Value) -> Result<&[Value; 2], Failure> {
    let children = list_of(generator, "generators")?;
    children.try_into().map_err(|_| {
        let cause = format!("has {} elements; a matrix combines two generators", children.len());
        Failure::new("generators", cause)
    })
}

/// Whether interpolating an element may change it.
fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(list) => list.iter().any(has_placeholder),
        Value::Object(object) => {
            object.iter().any(|(key, value)| key.contains("{{") || has_placeholder(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
