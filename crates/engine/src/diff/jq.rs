//! jq expressions of ignore rules, as decisions see them: a text, and the paths that it
//! selects in an object.
//!
//! What an expression selects depends on nothing but the object. Most are paths, with
//! conditions on list elements, and are followed here (`selection`). Any other one is a
//! program of a user, and evaluated elsewhere, in a process that is confined: [`Evaluate`] is
//! given to the decision. All objects of a comparison are asked for at once.

mod error;
mod selection;

use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

use super::path::{Path, PathStep, from_end, get};
pub use error::JqError;
use selection::JqSelection;

/// Longest expression, in bytes. Typical ones have a few dozen.
pub const MAX_LENGTH: usize = 4096;

/// Most steps of the expressions that are followed here, for all objects of a question: half a
/// second, and some 100 MiB of paths. What is left then is asked for elsewhere.
const MAX_STEPS: usize = 20_000_000;

/// The same for an event of a watch, which must not wait.
pub(super) const MAX_STEPS_OF_EVENT: usize = 500_000;

/// An object, and the expressions whose paths in it are asked for.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The object.
    pub object: &'a Value,
    /// The expressions.
    pub expressions: Vec<&'a JqExpression>,
}

/// The paths of an expression in an object, as jq's `path(…)` gives them.
pub type Found = Result<Vec<Vec<Value>>, JqError>;

/// Evaluates expressions; the same question has the same answer.
pub trait Evaluate: fmt::Debug + Send + Sync {
    /// Whether each text is an expression; `Err` has the reason. `scope` is whose they are.
    fn check(&self, scope: &str, texts: &[&str]) -> Vec<Result<(), String>>;

    /// The paths of each expression of each question. `scope` is whose rules these are: one
    /// that exceeds a limit is not evaluated for the same scope for a while.
    fn paths(&self, scope: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>>;
}

/// Evaluates no expression.
#[derive(Debug)]
struct Nothing;

const NOTHING: &str = "there is nothing here that evaluates jq expressions";

impl Evaluate for Nothing {
    fn check(&self, _: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        texts.iter().map(|_| Err(NOTHING.to_owned())).collect()
    }

    fn paths(&self, _: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let none = || Err(JqError::Unavailable(NOTHING.to_owned()));
        questions.iter().map(|one| one.expressions.iter().map(|_| none()).collect()).collect()
    }
}

/// What evaluates jq expressions. Clones share it.
#[derive(Clone, Debug)]
pub struct Jq(Arc<dyn Evaluate>);

/// One that refuses every expression.
impl Default for Jq {
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
    pub fn parse(&self, scope: &str, texts: &[&str]) -> Vec<Result<JqExpression, String>> {
        let read = |text: &&str| {
            if text.len() > MAX_LENGTH {
                return Some(Err(format!("longer than {MAX_LENGTH} bytes")));
            }
            JqExpression::selection(text).map(Ok)
        };
        let read: Vec<Option<Result<JqExpression, String>>> = texts.iter().map(read).collect();
        let others = texts.iter().zip(&read).filter(|(_, read)| read.is_none());
        let others: Vec<&str> = others.map(|(text, _)| *text).collect();
        let checked = if others.is_empty() { Vec::new() } else { self.0.check(scope, &others) };
        let mut checked = checked.into_iter();
        let mut check = |text: &str| {
            let valid = checked.next().unwrap_or_else(|| Err("not checked".to_owned()));
            valid.map(|()| JqExpression { text: text.into(), selection: None })
        };
        let all = texts.iter().zip(read);
        all.map(|(text, read)| read.unwrap_or_else(|| check(text))).collect()
    }

    /// The paths of expressions in objects, one list for each question.
    pub fn paths<'a>(
        &self,
        scope: &str,
        questions: &[Question<'a>],
    ) -> Vec<Vec<Result<Vec<Path>, JqError>>> {
        let mut steps = MAX_STEPS;
        let mut here = |one: &Question<'_>| -> Vec<Option<Result<Vec<Path>, JqError>>> {
            one.expressions.iter().map(|all| all.paths(one.object, &mut steps)).collect()
        };
        let mut all: Vec<_> = questions.iter().map(&mut here).collect();
        let rest = |(one, found): (&Question<'a>, &Vec<Option<_>>)| {
            let open = one.expressions.iter().zip(found).filter(|(_, found)| found.is_none());
            Question { object: one.object, expressions: open.map(|(open, _)| *open).collect() }
        };
        let asked: Vec<Question<'a>> = (questions.iter().zip(&all).map(rest))
            .filter(|one| !one.expressions.is_empty())
            .collect();
        let answers = if asked.is_empty() { Vec::new() } else { self.0.paths(scope, &asked) };
        let open = all.iter_mut().filter(|found| found.iter().any(Option::is_none));
        for ((question, answers), found) in asked.iter().zip(answers).zip(open) {
            let answers = answers.into_iter();
            let mut answers =
                answers.map(|found| found.map(|paths| resolved(question.object, &paths)));
            for open in found.iter_mut().filter(|found| found.is_none()) {
                *open = answers.next();
            }
        }
        let missing = || Err(JqError::Unavailable("no answer".to_owned()));
        let of_one = |found: Vec<Option<_>>| {
            found.into_iter().map(|found| found.unwrap_or_else(missing)).collect()
        };
        all.into_iter().map(of_one).collect()
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct JqExpression {
    text: Arc<str>,
    /// What it is when it can be followed in this process.
    selection: Option<Arc<JqSelection>>,
}

impl JqExpression {
    /// The expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// One that is followed in this process, without being checked elsewhere.
    fn selection(text: &str) -> Option<Self> {
        let selection = Arc::new(JqSelection::parse(text)?);
        Some(Self { text: text.into(), selection: Some(selection) })
    }

    /// One that is evaluated elsewhere, whatever it is: for tests.
    pub fn foreign(text: &str) -> Self {
        Self { text: text.into(), selection: None }
    }

    /// The places that it selects in an object; `None` when this has to be asked for elsewhere.
    /// The steps that are left are reduced.
    pub(super) fn paths(
        &self,
        object: &Value,
        steps: &mut usize,
    ) -> Option<Result<Vec<Path>, JqError>> {
        self.selection.as_ref()?.paths(object, steps)
    }
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
    let mut into = |step: PathStep| {
        if let Some(next) = get(here, std::slice::from_ref(&step)) {
            path.push(step);
            follow(next, rest, path, all);
            path.pop();
        }
    };
    match step {
        Value::String(name) => into(PathStep::Key(name.clone())),
        Value::Number(number) => {
            let length = here.as_array().map_or(0, Vec::len);
            into(PathStep::Index(position(number, length)));
        }
        Value::Object(slice) => {
            let Some(list) = here.as_array() else { return };
            let bound = |name: &str, otherwise: usize| match slice.get(name) {
                Some(Value::Number(number)) => {
                    let at = number.as_i64().unwrap_or(i64::MAX);
                    let at = from_end(at.max(-(list.len() as i64)), list.len());
                    at.map_or(list.len(), |at| at.min(list.len()))
                }
                _ => otherwise,
            };
            let range = bound("start", 0)..bound("end", list.len());
            match rest {
                // The slice itself: all of its elements.
                [] => range.for_each(|at| into(PathStep::Index(at))),
                // An index within the slice.
                [Value::Number(number), deeper @ ..] => {
                    let at = position(number, range.len());
                    let at = at.checked_add(range.start).filter(|at| range.contains(at));
                    let next = at.and_then(|at| Some((at, list.get(at)?)));
                    if let Some((at, next)) = next {
                        path.push(PathStep::Index(at));
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
                        let PathStep::Index(at) = found.first_mut()? else { return None };
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
/// exist when it is before the beginning, or no whole number.
fn position(index: &Number, length: usize) -> usize {
    index.as_i64().and_then(|at| from_end(at, length)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Jq, JqError, JqExpression, NOTHING, Question, resolved};

    /// Paths as jq writes them: keys, positions from either end, and slices, also of slices.
    #[test]
    fn paths_of_jq_name_the_places_that_exist() {
        let object = json!({"list": ["a", "b", "c", "d"], "map": {"k": 1}, "deep": [[1, 2], [3]]});
        let slice = |start: Value, end: Value| json!({"start": start, "end": end});
        let none = Value::Null;
        let cases: [(Value, &[&str]); 23] = [
            (json!([]), &["[]"]),
            (json!(["map", "k"]), &["map.k"]),
            (json!(["map", "x"]), &[]),
            (json!(["list", 0]), &["list.0"]),
            (json!(["list", 3]), &["list.3"]),
            (json!(["list", 4]), &[]),
            (json!(["list", -1]), &["list.3"]),
            (json!(["list", -4]), &["list.0"]),
            (json!(["list", -5]), &[]),
            (json!(["list", 0.5]), &[]),
            (json!(["map", 0]), &[]),
            (json!(["list", true]), &[]),
            (json!(["list", slice(json!(1), json!(3))]), &["list.1", "list.2"]),
            (json!(["list", slice(json!(-2), none.clone())]), &["list.2", "list.3"]),
            (json!(["list", slice(none.clone(), json!(-3))]), &["list.0"]),
            (
                json!(["list", slice(json!(-9), json!(9))]),
                &["list.0", "list.1", "list.2", "list.3"],
            ),
            (json!(["list", slice(json!(3), json!(1))]), &[]),
            (json!(["map", slice(json!(0), json!(1))]), &[]),
            (json!(["list", slice(json!(1), json!(3)), 0]), &["list.1"]),
            (json!(["list", slice(json!(1), json!(3)), -1]), &["list.2"]),
            (json!(["list", slice(json!(1), json!(3)), 2]), &[]),
            (json!(["deep", slice(json!(1), none.clone()), 0, 0]), &["deep.1.0"]),
            (
                json!(["list", slice(json!(1), none.clone()), slice(json!(1), none)]),
                &["list.2", "list.3"],
            ),
        ];
        for (path, want) in cases {
            let steps: Vec<Value> = path.as_array().unwrap().clone();
            let shown: Vec<String> = resolved(&object, &[steps])
                .iter()
                .map(|found| {
                    let steps: Vec<String> = found
                        .iter()
                        .map(|step| match step {
                            super::PathStep::Key(key) => key.clone(),
                            super::PathStep::Index(at) => at.to_string(),
                        })
                        .collect();
                    if steps.is_empty() { "[]".to_owned() } else { steps.join(".") }
                })
                .collect();
            assert_eq!(shown, want, "{path}");
        }
    }

    /// Without anything that evaluates, an expression that is not followed here has no answer.
    #[test]
    fn nothing_evaluates_by_default() {
        let jq = Jq::default();
        let read = jq.parse("s", &[".a", "input"]);
        assert!(read[0].is_ok());
        assert_eq!(read[1].as_ref().unwrap_err(), NOTHING);
        let (here, foreign) = (read[0].clone().unwrap(), JqExpression::foreign(".a"));
        let object = json!({"a": 1});
        let asked = Question { object: &object, expressions: vec![&foreign, &here, &foreign] };
        let found = jq.paths("s", &[asked]);
        assert_eq!(found.len(), 1);
        let unavailable = |found: &Result<_, JqError>| matches!(found, Err(JqError::Unavailable(why)) if why == NOTHING);
        assert!(unavailable(&found[0][0]) && unavailable(&found[0][2]), "{found:?}");
        assert_eq!(found[0][1].as_ref().unwrap().len(), 1);
    }
}
