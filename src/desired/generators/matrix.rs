//! The matrix generator: all combinations of two generators (AS-070 to AS-074).

use serde_json::Value;

use super::combine::{merge_over, union};
use super::scope::Scope;
use super::{Element, Failure, Generator, list_of};

/// The matrix generator.
pub struct Matrix;

const FIRST: &str = "generators[0]";
const SECOND: &str = "generators[1]";

impl Generator for Matrix {
    fn key(&self) -> &'static str {
        "matrix"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["generators", "template"]
    }

    /// For each set of the first generator, all sets of the second one, which is
    /// interpolated with the former.
    fn generate(
        &self,
        generator: &Value,
        scope: &mut Scope<'_, '_>,
    ) -> Result<Vec<Element>, Failure> {
        let children = list_of(generator, "generators")?;
        let [first, second] = children else {
            let cause =
                format!("has {} elements; a matrix combines two generators", children.len());
            return Err(Failure::new("generators", cause));
        };
        scope.check(second, SECOND)?;
        let outer = scope.child(first, FIRST)?;
        // Without a placeholder it is the same for each outer set.
        let is_fixed = !has_placeholder(second);
        let fixed = if is_fixed { Some(scope.child(second, SECOND)?) } else { None };
        let mut combined = Vec::new();
        for a in outer {
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
                    let element = scope.interpolate(second, SECOND, &a.values).map_err(with)?;
                    evaluated = scope.child(&element, SECOND).map_err(with)?;
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
                combined.push(Element { field: format!("[{}, {}]", a.field, b.field), values });
            }
        }
        Ok(combined)
    }
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
