//! jq expressions of ignore rules, as decisions see them: a text, and the paths that it
//! selects in an object.
//!
//! What an expression selects depends on nothing but the object. It is nevertheless
//! evaluated elsewhere, in a process that is confined, since users write it: [`Evaluate`]
//! is given to the decision. All objects of a comparison are asked for at once.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::path::{Path, Step, get};

/// Longest expression, in bytes. Typical ones have a few dozen.
pub const MAX_LENGTH: usize = 4096;

/// Why an expression could not be evaluated for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object does not have the shape that the expression needs, or the expression
    /// selects no paths.
    #[error("{0}")]
    Mismatch(String),
    /// The expression exceeded a limit on this object.
    #[error("limit exceeded: {0}")]
    Exhausted(String),
    /// It exceeded a limit on another object, so that it was not evaluated on this one.
    #[error("limit exceeded: {0}")]
    Deferred(String),
    /// It could not be evaluated for a reason that has nothing to do with it.
    #[error("cannot be evaluated: {0}")]
    Unavailable(String),
}

/// An object, and the expressions whose paths in it are asked for.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The object.
    pub object: &'a Value,
    /// The expressions.
    pub expressions: Vec<&'a str>,
}

/// The paths of an expression in an object, as jq's `path(…)` gives them.
pub type Found = Result<Vec<Vec<Value>>, Error>;

/// Evaluates expressions; the same question has the same answer.
pub trait Evaluate: fmt::Debug + Send + Sync {
    /// Whether each text is an expression; `Err` has the reason. `scope` is whose they are.
    fn check(&self, scope: &str, texts: &[&str]) -> Vec<Result<(), String>>;

    /// The paths of each expression of each question. `scope` is whose rules these are: one
    /// that exceeds a limit is not evaluated for the same scope for a while.
    fn paths(&self, scope: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>>;
}

/// Evaluates no expression.
#[cfg(not(test))]
#[derive(Debug)]
struct Nothing;

#[cfg(not(test))]
const NOTHING: &str = "there is nothing here that evaluates jq expressions";

#[cfg(not(test))]
impl Evaluate for Nothing {
    fn check(&self, _: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        texts.iter().map(|_| Err(NOTHING.to_owned())).collect()
    }

    fn paths(&self, _: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let none = || Err(Error::Unavailable(NOTHING.to_owned()));
        questions.iter().map(|one| one.expressions.iter().map(|_| none()).collect()).collect()
    }
}

/// What evaluates jq expressions. Clones share it.
#[derive(Clone, Debug)]
pub struct Jq(Arc<dyn Evaluate>);

/// In tests the real one; otherwise one that refuses every expression.
impl Default for Jq {
    #[cfg(test)]
    fn default() -> Self {
        static SHARED: std::sync::OnceLock<Jq> = std::sync::OnceLock::new();
        SHARED.get_or_init(|| crate::evaluator::jq(crate::evaluator::JQ_TIME)).clone()
    }

    #[cfg(not(test))]
    fn default() -> Self {
        Self(Arc::new(Nothing))
    }
}

/// All answer alike; the limits are settings of their own.
impl PartialEq for Jq {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Jq {
    /// Evaluates by this.
    pub fn new(evaluate: Arc<dyn Evaluate>) -> Self {
        Self(evaluate)
    }

    /// The expressions of some texts; `scope` is whose they are.
    ///
    /// # Errors
    ///
    /// Per text, why it is no expression.
    pub fn parse(&self, scope: &str, texts: &[&str]) -> Vec<Result<Expression, String>> {
        let long = |text: &str| text.len() > MAX_LENGTH;
        let short: Vec<&str> = texts.iter().copied().filter(|text| !long(text)).collect();
        let checked = if short.is_empty() { Vec::new() } else { self.0.check(scope, &short) };
        let mut checked = checked.into_iter();
        let parse = |text: &&str| {
            if long(text) {
                return Err(format!("longer than {MAX_LENGTH} bytes"));
            }
            let valid = checked.next().unwrap_or_else(|| Err("not checked".to_owned()));
            valid.map(|()| Expression { text: (*text).into() })
        };
        texts.iter().map(parse).collect()
    }

    /// The paths of expressions in objects, one list for each question.
    pub fn paths(
        &self,
        scope: &str,
        questions: &[Question<'_>],
    ) -> Vec<Vec<Result<Vec<Path>, Error>>> {
        if questions.is_empty() {
            return Vec::new();
        }
        let answers = self.0.paths(scope, questions);
        let of_one = |question: &Question<'_>, answers: Vec<Found>| {
            let resolve = |found: Found| found.map(|paths| resolved(question.object, &paths));
            answers.into_iter().map(resolve).collect()
        };
        questions.iter().zip(answers).map(|(one, answers)| of_one(one, answers)).collect()
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Arc<str>,
}

impl Expression {
    /// The expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fields of an expression that is nothing but a path of them, such as
    /// `.metadata.annotations."a.b/c"`; `None` for another one. None of them is a number, which
    /// would be an element of a list in a pointer, and is none in jq.
    pub fn simple(&self) -> Option<Vec<String>> {
        let mut rest = self.text.trim();
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let next = match rest.strip_prefix('.') {
                Some(next) => next,
                // `.a["b"]`, where jq needs no dot.
                None if rest.starts_with('[') && !fields.is_empty() => rest,
                None => return None,
            };
            let (field, after) = match next.strip_prefix('[') {
                Some(inside) => {
                    let (field, after) = quoted(inside)?;
                    (field, after.strip_prefix(']')?)
                }
                None if next.starts_with('"') => quoted(next)?,
                None => {
                    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let end = next.find(|c| !is_part(c)).unwrap_or(next.len());
                    let (name, after) = next.split_at(end);
                    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                    (is_name.then(|| name.to_owned())?, after)
                }
            };
            if field.parse::<usize>().is_ok() {
                return None;
            }
            fields.push(field);
            rest = after;
        }
        (!fields.is_empty()).then_some(fields)
    }
}

/// A string without escapes and interpolation, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (inside, after) = text.strip_prefix('"')?.split_once('"')?;
    (!inside.contains('\\')).then(|| (inside.to_owned(), after))
}

/// The places in an object that paths of jq name; those that do not exist are left out.
fn resolved(object: &Value, paths: &[Vec<Value>]) -> Vec<Path> {
    let mut all = Vec::new();
    for path in paths {
        follow(object, path, &mut Path::new(), &mut all);
    }
    all
}

fn follow(here: &Value, rest: &[Value], path: &mut Path, all: &mut Vec<Path>) {
    let Some((step, rest)) = rest.split_first() else {
        all.push(path.clone());
        return;
    };
    let mut into = |step: Step| {
        if let Some(next) = get(here, std::slice::from_ref(&step)) {
            path.push(step);
            follow(next, rest, path, all);
            path.pop();
        }
    };
    match step {
        Value::String(name) => into(Step::Key(name.clone())),
        Value::Number(number) => {
            let length = here.as_array().map_or(0, Vec::len);
            into(Step::Index(number.as_i64().map_or(usize::MAX, |at| from_end(at, length))));
        }
        Value::Object(slice) => {
            let Some(list) = here.as_array() else { return };
            let bound = |name: &str, otherwise: usize| match slice.get(name) {
                Some(Value::Number(number)) => {
                    let at = number.as_i64().unwrap_or(i64::MAX);
                    from_end(at.max(-(list.len() as i64)), list.len()).min(list.len())
                }
                _ => otherwise,
            };
            let range = bound("start", 0)..bound("end", list.len());
            match rest {
                // The slice itself: all of its elements.
                [] => range.for_each(|at| into(Step::Index(at))),
                // An index within the slice.
                [Value::Number(number), deeper @ ..] => {
                    let at = number.as_i64().map_or(usize::MAX, |at| from_end(at, range.len()));
                    let at = at.checked_add(range.start).filter(|at| range.contains(at));
                    let next = at.and_then(|at| Some((at, list.get(at)?)));
                    if let Some((at, next)) = next {
                        path.push(Step::Index(at));
                        follow(next, deeper, path, all);
                        path.pop();
                    }
                }
                // A slice of the slice.
                [Value::Object(_), ..] => {
                    let part = Value::Array(list.get(range.clone()).unwrap_or_default().to_vec());
                    let mut within = Vec::new();
                    follow(&part, rest, &mut Path::new(), &mut within);
                    all.extend(within.into_iter().filter_map(|mut found| {
                        let Step::Index(at) = found.first_mut()? else { return None };
                        *at += range.start;
                        Some(path.iter().cloned().chain(found).collect())
                    }));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// The position of an index, which counts from the end when it is negative; one that cannot
/// exist when it is before the beginning.
fn from_end(at: i64, length: usize) -> usize {
    match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => usize::try_from(at.unsigned_abs())
            .ok()
            .and_then(|back| length.checked_sub(back))
            .unwrap_or(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_simple() {
        let simple = |text: &str| Expression { text: text.into() }.simple();
        let leader = ".metadata.annotations.\"control-plane.alpha.kubernetes.io/leader\"";
        let of = |fields: &[&str]| Some(fields.iter().map(|field| (*field).to_owned()).collect());
        for (text, want) in [
            (".a", of(&["a"])),
            (" .a.b_1 ", of(&["a", "b_1"])),
            (leader, of(&["metadata", "annotations", "control-plane.alpha.kubernetes.io/leader"])),
            (".a[\"b c\"].d", of(&["a", "b c", "d"])),
            (".[\"a\"]", of(&["a"])),
            (".", None),
            ("", None),
            (".a[]", None),
            (".a[0]", None),
            (".a?", None),
            (".a | .b", None),
            ("..", None),
            (".\"a\\u0062\"", None),
            (".\"a", None),
            ("[\"a\"]", None),
            ("a", None),
            (".1", None),
            (".a.\"0\"", None),
            (".a[\"+1\"]", None),
        ] {
            assert_eq!(simple(text), want, "{text}");
        }
    }
}
