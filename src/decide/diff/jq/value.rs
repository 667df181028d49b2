//! Values of an evaluation: mostly references into the object.

use std::borrow::Cow;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::super::path::{Path, Step};

/// A value; cloning is cheap.
#[derive(Clone, Debug)]
pub enum Val<'v> {
    /// A part of the object, or a literal of the expression.
    Json(&'v Value),
    /// A slice of a list, with the index of its first element.
    Part(&'v [Value], usize),
    /// A slice of a string.
    Str(&'v str),
    Null,
    Bool(bool),
    Number(f64),
    /// A created string.
    Text(Rc<str>),
    /// A created list.
    List(Rc<Built<'v>>),
}

/// A created list.
#[derive(Debug)]
pub struct Built<'v> {
    pub items: Vec<Val<'v>>,
    /// Nesting of created lists, including this one.
    pub depth: usize,
}

/// A value by its type.
pub enum Shape<'a, 'v> {
    Null,
    Bool(bool),
    Number(f64),
    Text(&'a str),
    List(Items<'a, 'v>),
    Object(&'v Map<String, Value>),
}

/// The elements of a list.
#[derive(Clone, Copy)]
pub enum Items<'a, 'v> {
    Json(&'v [Value]),
    Built(&'a [Val<'v>]),
}

impl<'v> Items<'_, 'v> {
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Built(items) => items.len(),
        }
    }

    pub fn get(&self, index: usize) -> Option<Val<'v>> {
        match self {
            Self::Json(items) => items.get(index).map(Val::Json),
            Self::Built(items) => items.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Val<'v>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'v> Val<'v> {
    pub fn shape(&self) -> Shape<'_, 'v> {
        match self {
            Self::Json(value) => match value {
                Value::Null => Shape::Null,
                Value::Bool(flag) => Shape::Bool(*flag),
                Value::Number(number) => Shape::Number(number.as_f64().unwrap_or_default()),
                Value::String(text) => Shape::Text(text),
                Value::Array(items) => Shape::List(Items::Json(items)),
                Value::Object(map) => Shape::Object(map),
            },
            Self::Part(items, _) => Shape::List(Items::Json(items)),
            Self::Str(text) => Shape::Text(text),
            Self::Null => Shape::Null,
            Self::Bool(flag) => Shape::Bool(*flag),
            Self::Number(number) => Shape::Number(*number),
            Self::Text(text) => Shape::Text(text),
            Self::List(built) => Shape::List(Items::Built(&built.items)),
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self.shape() {
            Shape::Null => "null",
            Shape::Bool(_) => "boolean",
            Shape::Number(_) => "number",
            Shape::Text(_) => "string",
            Shape::List(_) => "array",
            Shape::Object(_) => "object",
        }
    }

    /// Nesting of created lists.
    pub fn depth(&self) -> usize {
        if let Self::List(built) = self { built.depth } else { 0 }
    }

    pub fn truthy(&self) -> bool {
        !matches!(self.shape(), Shape::Null | Shape::Bool(false))
    }

    pub fn text(&self) -> Option<&str> {
        if let Shape::Text(text) = self.shape() { Some(text) } else { None }
    }

    /// A number as `tostring` writes it.
    pub fn number_text(&self) -> String {
        match self {
            Self::Json(Value::Number(number)) => number.to_string(),
            _ => match self.shape() {
                Shape::Number(number) if number.fract() == 0.0 && number.abs() < 1e17 => {
                    format!("{number:.0}")
                }
                Shape::Number(number) => number.to_string(),
                _ => String::new(),
            },
        }
    }

    /// A slice of a string, by bytes.
    pub fn cut(&self, from: usize, to: usize) -> Option<Self> {
        let text = self.text()?.get(from..to)?;
        Some(match self {
            Self::Json(Value::String(whole)) => Self::Str(whole.get(from..to)?),
            Self::Str(whole) => Self::Str(whole.get(from..to)?),
            _ => Self::Text(text.into()),
        })
    }
}

/// The path to a value: the elements are shared with other paths.
#[derive(Clone, Debug)]
pub enum Trail<'v> {
    /// Not requested, or the value was computed.
    Off,
    /// The root itself.
    Root,
    /// A path element.
    Step(Rc<Link<'v>>),
}

/// The last element of a path.
#[derive(Debug)]
pub struct Link<'v> {
    before: Trail<'v>,
    to: To<'v>,
    /// Number of elements, including this one.
    depth: usize,
}

/// A step.
#[derive(Clone, Debug)]
pub enum To<'v> {
    Key(Cow<'v, str>),
    Index(usize),
}

impl<'v> Trail<'v> {
    /// Number of elements.
    pub fn depth(&self) -> usize {
        if let Self::Step(link) = self { link.depth } else { 0 }
    }

    /// The path with another element.
    pub fn then(&self, to: To<'v>) -> Self {
        match self {
            Self::Off => Self::Off,
            _ => Self::Step(Rc::new(Link { before: self.clone(), to, depth: self.depth() + 1 })),
        }
    }

    /// The complete path, and its size in bytes.
    pub fn path(&self) -> (Path, usize) {
        let mut path = Path::with_capacity(self.depth());
        let mut bytes = 32;
        let mut here = self;
        while let Self::Step(link) = here {
            path.push(match &link.to {
                To::Key(key) => {
                    bytes += key.len();
                    Step::Key(key.clone().into_owned())
                }
                To::Index(index) => Step::Index(*index),
            });
            bytes += 48;
            here = &link.before;
        }
        path.reverse();
        (path, bytes)
    }
}

/// A value, and its path if requested.
#[derive(Clone, Debug)]
pub struct At<'v> {
    pub value: Val<'v>,
    pub trail: Trail<'v>,
}

impl<'v> At<'v> {
    /// A value without a path.
    pub const fn value(value: Val<'v>) -> Self {
        Self { value, trail: Trail::Off }
    }
}
