//! Paths with selections, the form of most expressions of ignore rules, such as
//! `.spec.template.spec.containers[] | select(.name == "a").image`.
//!
//! ```text
//! paths      = union *( "|" union )
//! union      = path *( "," path ) | "keys[] as" $name "| select(" condition ") | .[" $name "]" rest
//! path       = ".." | ( "." | field | "(" paths ")" | "select(" condition ")" ) rest
//! rest       = *( field | "[]" ["?"] | keyed )
//! keyed      = "[" [ path "|" ] "keys[] | select(" condition ")" "]" | the same in parentheses
//! field      = ( .name | ."name" | ["name"] | [-1] ) ["?"]
//! condition  = any *( "|" ( "not" | function ) )
//! any        = all *( "or" all )
//! all        = test *( "and" test )
//! test       = operand | operand ( "==" | "!=" ) operand
//! operand    = literal | "." *field | function | "(" condition ")"
//! function   = ( "startswith" | "endswith" | "contains" ) "(" string ")"
//!            | "has" "(" ( string | number ) ")" | "test" "(" pattern ")"
//!            | "IN" "(" literal *( "," literal ) ")"
//! ```
//!
//! This is data, and no interpreter: there are no variables, definitions, computed names or
//! created values. The length of a parsed expression is limited, following it takes one step
//! for each of its parts and value that it meets, and these are counted. What is not of this
//! form, or takes too many steps, is for jaq, with which this module agrees in all it accepts:
//! `crates/controller/src/evaluator/tests/selections.rs` compares the two.

mod parse;
mod pattern;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::super::path::{Path, PathStep, from_end};
use super::error::JqError;
use pattern::Pattern;

/// Most steps for one object.
const MAX_STEPS: usize = 200_000;

/// The steps of an element of a path that is selected, besides the length of its name: paths
/// take memory.
const STEPS_OF_PLACE: usize = 8;

/// The bytes of a string that a function looks at in one step.
const BYTES_OF_STEP: usize = 256;

/// The literals with which a value is compared in one step.
const LITERALS_OF_STEP: usize = 8;

/// Longest name in a message.
const MAX_NAME: usize = 100;

static NULL: Value = Value::Null;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct JqSelection(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Field(Field),
    /// `[]`
    Each {
        optional: bool,
    },
    /// `..`
    All,
    /// The fields whose names have a property: `keys[] as $k | select(… $k …) | .[$k]`
    Keyed(Condition),
    /// `select(…)`
    Where(Condition),
    /// `…, …`
    Union(Vec<Vec<Self>>),
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: Name,
    /// With `?`: nothing instead of an error.
    optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Name {
    Key(String),
    /// From the end when it is negative.
    Index(i64),
}

/// What gives one boolean, or nothing.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// Neither `false` nor `null`.
    Truthy(Vec<Field>),
    Equal(Vec<Field>, Literal),
    Calls(Vec<Field>, Function),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// A function of jq with one argument that gives one boolean.
#[derive(Clone, Debug, PartialEq)]
enum Function {
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Has(Name),
    Test(Pattern),
    OneOf(Vec<Literal>),
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
}

impl JqSelection {
    /// The places in an object that it selects, as jq's `path(…)` gives them, without those
    /// that do not exist; an error when the object does not have the shape that it needs.
    /// `None` when it takes too many steps, or more than are left, which are reduced.
    pub fn paths(&self, object: &Value, left: &mut usize) -> Option<Result<Vec<Path>, JqError>> {
        let steps = MAX_STEPS.min(*left);
        let mut walk = Walk { path: Vec::new(), found: Vec::new(), left: steps };
        let result = walk.follow(Some(object), Rest { parts: &self.0, then: None });
        *left -= steps - walk.left;
        match result {
            Ok(()) => Some(Ok(walk.found)),
            Err(Stop::Mismatch(why)) => Some(Err(JqError::Mismatch(why))),
            Err(Stop::Exhausted) => None,
        }
    }
}

/// Why an evaluation ends.
enum Stop {
    Mismatch(String),
    Exhausted,
}

/// An element of the path to the current value.
#[derive(Clone, Copy)]
enum Place<'a> {
    Key(&'a str),
    Index(usize),
}

/// The parts that are still to be followed.
#[derive(Clone, Copy)]
struct Rest<'p> {
    parts: &'p [Part],
    then: Option<&'p Self>,
}

impl<'p> Rest<'p> {
    fn next(self) -> Option<(&'p Part, Self)> {
        let mut rest = self;
        loop {
            if let Some((part, parts)) = rest.parts.split_first() {
                return Some((part, Self { parts, ..rest }));
            }
            rest = *rest.then?;
        }
    }
}

struct Walk<'a> {
    path: Vec<Place<'a>>,
    found: Vec<Path>,
    left: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, steps: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(steps).ok_or(Stop::Exhausted)?;
        Ok(())
    }

    /// Follows the rest from a value, which may not exist: then it is `null`.
    fn follow(&mut self, value: Option<&'a Value>, rest: Rest<'_>) -> Result<(), Stop> {
        let length = self.path.len();
        let result = self.follow_on(value, rest);
        self.path.truncate(length);
        result
    }

    fn follow_on(&mut self, mut value: Option<&'a Value>, mut rest: Rest<'_>) -> Result<(), Stop> {
        while let Some((part, after)) = rest.next() {
            self.take(1)?;
            rest = after;
            let here = value.unwrap_or(&NULL);
            match part {
                Part::Field(field) => match field.of(here) {
                    Ok(next) => {
                        self.path.extend(next.map(|(place, _)| place));
                        value = next.map(|(_, value)| value);
                    }
                    Err(_) if field.optional => return Ok(()),
                    Err(why) => return Err(Stop::Mismatch(why)),
                },
                Part::Each { optional } => return self.each(here, *optional, rest),
                Part::All => return self.all(value, rest),
                Part::Keyed(condition) => return self.keyed(here, condition, rest),
                Part::Where(condition) => {
                    if self.holds(condition, here)? != Some(true) {
                        return Ok(());
                    }
                }
                Part::Union(all) => {
                    for parts in all {
                        self.take(1)?;
                        self.follow(value, Rest { parts, then: Some(&rest) })?;
                    }
                    return Ok(());
                }
            }
        }
        if value.is_none() {
            return Ok(());
        }
        for at in 0..self.path.len() {
            let length = match self.path[at] {
                Place::Key(key) => key.len(),
                Place::Index(_) => 0,
            };
            self.take(STEPS_OF_PLACE + length)?;
        }
        self.take(STEPS_OF_PLACE)?;
        let step = |place: &Place<'_>| match place {
            Place::Key(key) => PathStep::Key((*key).to_owned()),
            Place::Index(at) => PathStep::Index(*at),
        };
        self.found.push(self.path.iter().map(step).collect());
        Ok(())
    }

    fn each(&mut self, here: &'a Value, optional: bool, rest: Rest<'_>) -> Result<(), Stop> {
        let mut enter = |place: Place<'a>, value: &'a Value| -> Result<(), Stop> {
            self.take(1)?;
            self.path.push(place);
            self.follow(Some(value), rest)?;
            self.path.pop();
            Ok(())
        };
        match here {
            Value::Array(list) => {
                list.iter().enumerate().try_for_each(|(at, value)| enter(Place::Index(at), value))
            }
            Value::Object(map) => {
                map.iter().try_for_each(|(key, value)| enter(Place::Key(key), value))
            }
            _ if optional => Ok(()),
            _ => Err(Stop::Mismatch(format!("cannot iterate over {}", shown(here)))),
        }
    }

    /// Follows the rest from a value and from all that it contains, at any depth.
    fn all(&mut self, value: Option<&'a Value>, rest: Rest<'_>) -> Result<(), Stop> {
        self.follow(value, rest)?;
        // Without a link for each level.
        let then = if rest.parts.is_empty() { rest.then } else { Some(&rest) };
        let all = Rest { parts: &[Part::All], then };
        match value {
            Some(here @ (Value::Array(_) | Value::Object(_))) => self.each(here, false, all),
            _ => Ok(()),
        }
    }

    /// Follows the rest from the fields of an object whose names meet a condition, in the order of
    /// their names; and from such elements of a list, by their positions.
    fn keyed(
        &mut self,
        here: &'a Value,
        condition: &Condition,
        rest: Rest<'_>,
    ) -> Result<(), Stop> {
        let mut fields: Vec<(Value, Place<'a>, &'a Value)> = match here {
            Value::Object(map) => {
                self.take(map.keys().map(|name| 1 + name.len() / BYTES_OF_STEP).sum())?;
                let field = |(name, value): (&'a String, &'a Value)| {
                    (Value::from(name.as_str()), Place::Key(name), value)
                };
                map.iter().map(field).collect()
            }
            Value::Array(list) => {
                self.take(list.len())?;
                let element =
                    |(at, value): (usize, &'a Value)| (Value::from(at), Place::Index(at), value);
                list.iter().enumerate().map(element).collect()
            }
            _ => return Err(Stop::Mismatch(format!("{} has no keys", shown(here)))),
        };
        fields.sort_by(|(one, ..), (other, ..)| one.as_str().cmp(&other.as_str()));
        for (name, place, value) in fields {
            if self.holds(condition, &name)? == Some(true) {
                self.path.push(place);
                self.follow(Some(value), rest)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    /// The result of a condition; `None` when it has none, since a `?` left out an error.
    fn holds(&mut self, condition: &Condition, here: &Value) -> Result<Option<bool>, Stop> {
        self.take(1)?;
        match condition {
            Condition::Truthy(path) => {
                let value = self.value(path, here)?;
                Ok(value.map(|value| !matches!(value, Value::Null | Value::Bool(false))))
            }
            Condition::Equal(path, literal) => {
                Ok(self.value(path, here)?.map(|value| literal.equals(value)))
            }
            Condition::Calls(path, function) => {
                let Some(value) = self.value(path, here)? else { return Ok(None) };
                let bytes = value.as_str().map_or(0, str::len).saturating_mul(function.cost());
                self.take(bytes / BYTES_OF_STEP + function.steps())?;
                function.of(value).map(Some)
            }
            Condition::Not(condition) => Ok(self.holds(condition, here)?.map(|holds| !holds)),
            Condition::All(all) => self.until(false, all, here),
            Condition::Any(all) => self.until(true, all, here),
        }
    }

    /// Evaluates conditions until one has this result.
    fn until(&mut self, end: bool, all: &[Condition], here: &Value) -> Result<Option<bool>, Stop> {
        for condition in all {
            match self.holds(condition, here)? {
                Some(holds) if holds != end => {}
                other => return Ok(other),
            }
        }
        Ok(Some(!end))
    }

    fn value<'v>(&mut self, path: &[Field], from: &'v Value) -> Result<Option<&'v Value>, Stop> {
        let mut here = from;
        for field in path {
            self.take(1)?;
            match field.of(here) {
                Ok(next) => here = next.map_or(&NULL, |(_, value)| value),
                Err(_) if field.optional => return Ok(None),
                Err(why) => return Err(Stop::Mismatch(why)),
            }
        }
        Ok(Some(here))
    }
}

impl Field {
    /// The field of a value; `None` when it does not exist, and thus is `null`.
    fn of<'v>(&self, value: &'v Value) -> Result<Option<(Place<'v>, &'v Value)>, String> {
        self.name.of(value)
    }
}

impl Function {
    /// How often it looks at each byte of a string, at most.
    fn cost(&self) -> usize {
        match self {
            Self::Test(pattern) => pattern.cost(),
            Self::OneOf(all) => all.len(),
            _ => 1,
        }
    }

    /// The steps that it takes for a value of any length.
    fn steps(&self) -> usize {
        match self {
            Self::OneOf(all) => all.len() / LITERALS_OF_STEP,
            _ => 0,
        }
    }

    fn of(&self, value: &Value) -> Result<bool, Stop> {
        match self {
            Self::StartsWith(start) => Ok(text(value)?.starts_with(start)),
            Self::EndsWith(end) => Ok(text(value)?.ends_with(end)),
            // jq fails for what is no string, jaq does not.
            Self::Contains(part) => Ok(value.as_str().is_some_and(|text| text.contains(part))),
            Self::Test(pattern) => Ok(pattern.matches(text(value)?)),
            Self::OneOf(all) => Ok(all.iter().any(|one| one.equals(value))),
            Self::Has(name) => match name.of(value) {
                Ok(found) => Ok(found.is_some()),
                Err(why) => Err(Stop::Mismatch(why)),
            },
        }
    }
}

impl Name {
    /// What has this name in a value, if it exists.
    fn of<'v>(&self, value: &'v Value) -> Result<Option<(Place<'v>, &'v Value)>, String> {
        match (value, self) {
            (Value::Object(map), Self::Key(key)) => {
                let found = map.get_key_value(key);
                Ok(found.map(|(key, value)| (Place::Key(key), value)))
            }
            (Value::Array(list), Self::Index(at)) => {
                let at = from_end(*at, list.len());
                Ok(at.and_then(|at| Some((Place::Index(at), list.get(at)?))))
            }
            // jq fails for an index of an object, jaq does not.
            (Value::Null, _) | (Value::Object(_), Self::Index(_)) => Ok(None),
            (_, Self::Key(key)) => {
                let key = &key[..key.floor_char_boundary(MAX_NAME)];
                Err(format!("cannot index {} with {key:?}", shown(value)))
            }
            (_, Self::Index(at)) => Err(format!("cannot index {} with {at}", shown(value))),
        }
    }
}

impl Literal {
    fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(one), Value::Bool(other)) => one == other,
            // All with so few digits differ, also from those with more.
            (Self::Number(one), Value::Number(other)) => other.as_f64() == Some(*one),
            (Self::Text(one), Value::String(other)) => one == other,
            _ => false,
        }
    }
}

fn text(value: &Value) -> Result<&str, Stop> {
    let why = || Stop::Mismatch(format!("cannot use {} as string", shown(value)));
    value.as_str().ok_or_else(why)
}

/// A value in a message. What is long, or may be secret, is not shown.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
