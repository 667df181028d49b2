//! From a value to the values inside it: fields, indices, slices, children.

use std::borrow::Cow;

use serde_json::Value;

use super::eval::{Eval, Flow, Out, Stop, mismatch};
use super::value::{At, Shape, To, Val};

static NULL: Value = Value::Null;

impl Eval {
    /// `.name`
    pub fn field<'v>(&self, at: &At<'v>, name: Cow<'v, str>) -> Result<At<'v>, Stop> {
        let value = match at.value.shape() {
            Shape::Object(map) => Val::Json(map.get(&*name).unwrap_or(&NULL)),
            Shape::Null => Val::Null,
            _ => return Err(mismatch("look up a name in", &at.value)),
        };
        Ok(At { value, trail: self.join(&at.trail, To::Key(name))? })
    }

    /// `.[index]`; `None` when a negative index is out of range.
    pub fn index<'v>(&self, at: &At<'v>, index: Val<'v>) -> Result<Option<At<'v>>, Stop> {
        match (at.value.shape(), index.shape()) {
            (_, Shape::Text(name)) => {
                self.build(name.len())?;
                self.field(at, Cow::Owned(name.to_owned())).map(Some)
            }
            (Shape::List(items), Shape::Number(index)) => {
                let Some(index) = place(index, items.len()) else { return Ok(None) };
                let first = if let Val::Part(_, first) = at.value { first } else { 0 };
                // An index of a slice is relative to the slice.
                let beyond = matches!(at.value, Val::Part(..)) && index >= items.len();
                if beyond {
                    return Ok(None);
                }
                let value = items.get(index).unwrap_or(Val::Null);
                let trail = self.join(&at.trail, To::Index(first + index))?;
                Ok(Some(At { value, trail }))
            }
            (Shape::Null, Shape::Number(_) | Shape::Null) => Ok(None),
            (Shape::List(_), _) => Err(mismatch("index a list with", &index)),
            (Shape::Object(_), _) => Err(mismatch("index", &at.value)),
            _ => Err(mismatch("index", &at.value)),
        }
    }

    /// `.[from:to]`
    pub fn slice<'v>(
        &self,
        at: &At<'v>,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<At<'v>, Stop> {
        let range = |len: usize| {
            let clamp = |bound: f64, round: fn(f64) -> f64| {
                let bound = if bound < 0.0 { bound + len as f64 } else { bound };
                round(bound).clamp(0.0, len as f64) as usize
            };
            let from = from.map_or(0, |from| clamp(from, f64::floor));
            let to = to.map_or(len, |to| clamp(to, f64::ceil));
            (from, to.max(from))
        };
        let json = match &at.value {
            Val::Json(Value::Array(items)) => Some((items.as_slice(), 0)),
            Val::Part(items, first) => Some((*items, *first)),
            _ => None,
        };
        if let Some((items, first)) = json {
            let (from, to) = range(items.len());
            let part = items.get(from..to).unwrap_or_default();
            return Ok(At { value: Val::Part(part, first + from), trail: at.trail.clone() });
        }
        match at.value.shape() {
            Shape::Null => Ok(At { value: Val::Part(&[], 0), trail: at.trail.clone() }),
            Shape::List(items) => {
                let (from, to) = range(items.len());
                let part = (from..to).filter_map(|index| items.get(index)).collect();
                Ok(At::value(self.list(part)?))
            }
            Shape::Text(text) => {
                self.read(text)?;
                let (from, to) = range(text.chars().count());
                let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(i, _)| i);
                let (from, to) = (byte(from), byte(to));
                self.build(to - from)?;
                Ok(At::value(at.value.cut(from, to).unwrap_or(Val::Null)))
            }
            _ => Err(mismatch("slice", &at.value)),
        }
    }

    /// `.[]`
    pub fn children<'v>(&self, at: &At<'v>, out: Out<'_, 'v>) -> Flow {
        match at.value.shape() {
            Shape::Object(map) => {
                for (key, child) in map {
                    self.step(1)?;
                    let trail = self.join(&at.trail, To::Key(Cow::Borrowed(key)))?;
                    out(At { value: Val::Json(child), trail })?;
                }
            }
            Shape::List(items) => {
                let first = if let Val::Part(_, first) = at.value { first } else { 0 };
                for (index, child) in items.iter().enumerate() {
                    self.step(1)?;
                    let trail = self.join(&at.trail, To::Index(first + index))?;
                    out(At { value: child, trail })?;
                }
            }
            _ => return Err(mismatch("iterate over", &at.value)),
        }
        Ok(())
    }

    /// The value and everything below it, parents first. Recursion depth is that of the object.
    pub fn recurse<'v>(&self, at: At<'v>, out: Out<'_, 'v>) -> Flow {
        self.step(1)?;
        out(at.clone())?;
        match at.value.shape() {
            Shape::Object(_) | Shape::List(_) => {
                self.children(&at, &mut |child| self.recurse(child, &mut *out))
            }
            _ => Ok(()),
        }
    }
}

/// The position of an index in a list; a negative one counts from the end.
fn place(index: f64, len: usize) -> Option<usize> {
    let index = index.floor();
    let index = if index < 0.0 { index + len as f64 } else { index };
    (0.0..9e15).contains(&index).then_some(index as usize)
}
