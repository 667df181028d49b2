//! Evaluation: an expression and a value give paths.

use std::cmp::Ordering;

use serde_json::Value;

use super::super::path::{Path, Step};
use super::MAX_STEPS;
use super::parse::{Expr, Op};

/// Why an expression gave nothing for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object does not have the shape that the expression needs.
    #[error("{0}")]
    Mismatch(String),
    /// The expression takes too many steps on this object.
    #[error("takes more than {MAX_STEPS} steps")]
    Exhausted,
}

static NULL: Value = Value::Null;

/// A place and what lies there; `null` for a place that does not exist.
type Place<'v> = (Path, &'v Value);

/// The places in `value` that `expr` names.
pub fn paths(expr: &Expr, value: &Value) -> Result<Vec<Path>, Error> {
    let mut eval = Eval { steps: 0 };
    let mut places = Vec::new();
    eval.places(expr, (Path::new(), value), &mut places)?;
    Ok(places.into_iter().map(|(path, _)| path).collect())
}

struct Eval {
    steps: usize,
}

impl Eval {
    fn step(&mut self, cost: usize) -> Result<(), Error> {
        self.steps = self.steps.saturating_add(cost.max(1));
        if self.steps > MAX_STEPS { Err(Error::Exhausted) } else { Ok(()) }
    }

    /// Adds the named places to `out`, in jq's order. What was found before an
    /// error stays in `out`: `?` keeps it.
    fn places<'v>(
        &mut self,
        expr: &Expr,
        from: Place<'v>,
        out: &mut Vec<Place<'v>>,
    ) -> Result<(), Error> {
        self.step(from.0.len())?;
        match expr {
            Expr::Identity => out.push(from),
            Expr::Empty => {}
            Expr::Recurse => self.recurse(from, out)?,
            Expr::Field(base, name) => {
                for (path, value) in self.collect(base, from)? {
                    let child = match value {
                        Value::Object(map) => map.get(name).unwrap_or(&NULL),
                        Value::Null => &NULL,
                        other => return Err(mismatch("look up a name in", other)),
                    };
                    out.push((join(path, Step::Key(name.clone())), child));
                }
            }
            Expr::Index(base, index) => {
                for (path, value) in self.collect(base, from)? {
                    match value {
                        Value::Array(list) => {
                            // A negative index counts from the end.
                            let at = usize::try_from(*index).ok().or_else(|| {
                                list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
                            });
                            if let Some(at) = at {
                                let child = list.get(at).unwrap_or(&NULL);
                                out.push((join(path, Step::Index(at)), child));
                            }
                        }
                        Value::Null => {}
                        other => return Err(mismatch("index", other)),
                    }
                }
            }
            Expr::Iterate(base) => {
                for (path, value) in self.collect(base, from)? {
                    self.children(&path, value, out)?;
                }
            }
            Expr::Try(base) => match self.places(base, from, out) {
                Err(Error::Mismatch(_)) => {}
                other => other?,
            },
            Expr::Pipe(left, right) => {
                let mut middle = Vec::new();
                let ended = self.places(left, from, &mut middle);
                for place in middle {
                    self.places(right, place, out)?;
                }
                ended?;
            }
            Expr::Comma(left, right) => {
                self.places(left, from.clone(), out)?;
                self.places(right, from, out)?;
            }
            Expr::Select(condition) => {
                for value in self.values(condition, from.1)? {
                    if truthy(&value) {
                        out.push(from.clone());
                    }
                }
            }
            // The parser lets none of these through as a path.
            Expr::Literal(_)
            | Expr::Compare(..)
            | Expr::And(..)
            | Expr::Or(..)
            | Expr::Any(..)
            | Expr::All(..)
            | Expr::Not
            | Expr::Type
            | Expr::Length
            | Expr::Has(_)
            | Expr::Contains(_)
            | Expr::StartsWith(_)
            | Expr::EndsWith(_)
            | Expr::Test(_) => return Err(Error::Mismatch("not a path".to_owned())),
        }
        Ok(())
    }

    fn collect<'v>(&mut self, expr: &Expr, from: Place<'v>) -> Result<Vec<Place<'v>>, Error> {
        let mut out = Vec::new();
        self.places(expr, from, &mut out)?;
        Ok(out)
    }

    fn children<'v>(
        &mut self,
        path: &Path,
        value: &'v Value,
        out: &mut Vec<Place<'v>>,
    ) -> Result<(), Error> {
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    self.step(path.len())?;
                    out.push((join(path.clone(), Step::Key(key.clone())), child));
                }
            }
            Value::Array(list) => {
                for (index, child) in list.iter().enumerate() {
                    self.step(path.len())?;
                    out.push((join(path.clone(), Step::Index(index)), child));
                }
            }
            other => return Err(mismatch("iterate over", other)),
        }
        Ok(())
    }

    /// The value and everything below it, parents first.
    fn recurse<'v>(&mut self, from: Place<'v>, out: &mut Vec<Place<'v>>) -> Result<(), Error> {
        let mut open = vec![from];
        while let Some((path, value)) = open.pop() {
            let mut children = Vec::new();
            if value.is_object() || value.is_array() {
                self.children(&path, value, &mut children)?;
            }
            out.push((path, value));
            open.extend(children.into_iter().rev());
        }
        Ok(())
    }

    /// The values that an expression gives, for conditions.
    fn values(&mut self, expr: &Expr, input: &Value) -> Result<Vec<Value>, Error> {
        self.step(1)?;
        Ok(match expr {
            Expr::Literal(value) => vec![value.clone()],
            Expr::Compare(op, left, right) => {
                let (left, right) = (self.values(left, input)?, self.values(right, input)?);
                self.step(left.len().saturating_mul(right.len()))?;
                let pairs = right.iter().flat_map(|r| left.iter().map(move |l| (l, r)));
                pairs.map(|(l, r)| Value::Bool(holds(*op, l, r))).collect()
            }
            Expr::And(left, right) => self.logic(left, right, input, false)?,
            Expr::Or(left, right) => self.logic(left, right, input, true)?,
            Expr::Any(over, condition) => {
                vec![Value::Bool(self.count(over, condition, input, true)? > 0)]
            }
            Expr::All(over, condition) => {
                vec![Value::Bool(self.count(over, condition, input, false)? == 0)]
            }
            Expr::Not => vec![Value::Bool(!truthy(input))],
            Expr::Type => vec![Value::from(type_name(input))],
            Expr::Length => vec![length(input)?],
            Expr::Has(key) => vec![Value::Bool(has(input, key)?)],
            Expr::Contains(part) => vec![Value::Bool(contains(input, part)?)],
            Expr::StartsWith(start) => vec![Value::Bool(text(input)?.starts_with(start.as_str()))],
            Expr::EndsWith(end) => vec![Value::Bool(text(input)?.ends_with(end.as_str()))],
            Expr::Test(regex) => vec![Value::Bool(regex.is_match(text(input)?))],
            Expr::Pipe(left, right) => {
                let mut out = Vec::new();
                for value in self.values(left, input)? {
                    out.extend(self.values(right, &value)?);
                }
                out
            }
            Expr::Comma(left, right) => {
                let mut out = self.values(left, input)?;
                out.extend(self.values(right, input)?);
                out
            }
            Expr::Field(base, _) | Expr::Index(base, _) | Expr::Iterate(base)
                if !matches!(**base, Expr::Identity) =>
            {
                let last = match expr {
                    Expr::Field(_, name) => Expr::Field(Box::new(Expr::Identity), name.clone()),
                    Expr::Index(_, index) => Expr::Index(Box::new(Expr::Identity), *index),
                    _ => Expr::Iterate(Box::new(Expr::Identity)),
                };
                let mut out = Vec::new();
                for value in self.values(base, input)? {
                    out.extend(self.values(&last, &value)?);
                }
                out
            }
            Expr::Try(base) => match self.values(base, input) {
                Err(Error::Mismatch(_)) => Vec::new(),
                other => other?,
            },
            Expr::Identity
            | Expr::Recurse
            | Expr::Empty
            | Expr::Select(_)
            | Expr::Field(..)
            | Expr::Index(..)
            | Expr::Iterate(_) => {
                let places = self.collect(expr, (Path::new(), input))?;
                places.into_iter().map(|(_, value)| value.clone()).collect()
            }
        })
    }

    /// `and` for `end` false, `or` for `end` true: a left side that is `end`
    /// decides alone.
    fn logic(
        &mut self,
        left: &Expr,
        right: &Expr,
        input: &Value,
        end: bool,
    ) -> Result<Vec<Value>, Error> {
        let mut out = Vec::new();
        for value in self.values(left, input)? {
            if truthy(&value) == end {
                out.push(Value::Bool(end));
            } else {
                let right = self.values(right, input)?;
                out.extend(right.iter().map(|value| Value::Bool(truthy(value))));
            }
        }
        Ok(out)
    }

    /// How many results of the condition, over all values, are as `wanted`.
    fn count(
        &mut self,
        over: &Expr,
        condition: &Expr,
        input: &Value,
        wanted: bool,
    ) -> Result<usize, Error> {
        let mut found = 0;
        for value in self.values(over, input)? {
            let results = self.values(condition, &value)?;
            found += results.iter().filter(|value| truthy(value) == wanted).count();
        }
        Ok(found)
    }
}

fn join(mut path: Path, step: Step) -> Path {
    path.push(step);
    path
}

fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Names the type only: the value may be a secret.
fn mismatch(what: &str, value: &Value) -> Error {
    Error::Mismatch(format!("cannot {what} {}", type_name(value)))
}

fn text(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| mismatch("match a text against", value))
}

fn length(value: &Value) -> Result<Value, Error> {
    Ok(match value {
        Value::Null => Value::from(0),
        Value::String(text) => Value::from(text.chars().count()),
        Value::Array(list) => Value::from(list.len()),
        Value::Object(map) => Value::from(map.len()),
        Value::Number(number) => Value::from(number.as_f64().unwrap_or_default().abs()),
        Value::Bool(_) => return Err(mismatch("take the length of", value)),
    })
}

fn has(value: &Value, key: &Value) -> Result<bool, Error> {
    match (value, key) {
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        (Value::Array(list), Value::Number(index)) => {
            Ok(index.as_u64().is_some_and(|index| index < list.len() as u64))
        }
        _ => Err(mismatch("check a key of", value)),
    }
}

/// `contains` with a literal: a part of a text, a list that holds such a part
/// cannot be spelled without an array literal, and anything else is equality.
fn contains(value: &Value, part: &Value) -> Result<bool, Error> {
    match (value, part) {
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        (Value::Number(_), Value::Number(_)) => Ok(order(value, part).is_eq()),
        _ => Err(mismatch("check what is contained in", value)),
    }
}

fn holds(op: Op, left: &Value, right: &Value) -> bool {
    let order = order(left, right);
    match op {
        Op::Equal => order.is_eq(),
        Op::NotEqual => order.is_ne(),
        Op::Less => order.is_lt(),
        Op::LessOrEqual => order.is_le(),
        Op::Greater => order.is_gt(),
        Op::GreaterOrEqual => order.is_ge(),
    }
}

/// jq's order of all values: by type, then by value.
fn order(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Null => 0,
            Value::Bool(false) => 1,
            Value::Bool(true) => 2,
            Value::Number(_) => 3,
            Value::String(_) => 4,
            Value::Array(_) => 5,
            Value::Object(_) => 6,
        }
    }
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => {
            let (l, r) = (l.as_f64().unwrap_or_default(), r.as_f64().unwrap_or_default());
            l.total_cmp(&r)
        }
        (Value::String(l), Value::String(r)) => l.cmp(r),
        (Value::Array(l), Value::Array(r)) => {
            let pairs = l.iter().zip(r).map(|(l, r)| order(l, r));
            pairs.fold(Ordering::Equal, Ordering::then).then(l.len().cmp(&r.len()))
        }
        (Value::Object(l), Value::Object(r)) => {
            let pairs = l.values().zip(r.values()).map(|(l, r)| order(l, r));
            l.keys().cmp(r.keys()).then(pairs.fold(Ordering::Equal, Ordering::then))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}
