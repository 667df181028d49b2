//! The paths that jq expressions select in objects, by jaq.
//!
//! Input: `{"limit": {"secs","nanos"}, "turn": {"secs","nanos"}, "expressions": [text…],
//! "objects": [value…], "work": [[object or null, expression]…]}`, numbers being positions.
//! Output: a list with one result for each element of `work`, or fewer when one took longer
//! than the limit; or fewer and then `{"paused": true}` when they took longer than the turn
//! together, so that others are served in between:
//!
//! - `{"paths": [[step…]…]}`, as jq's `path(EXPRESSION)` gives them;
//! - `{"invalid": message}` for an expression that is none, and `{"valid": true}` for one
//!   without an object, with `"sees": [[name…]…]` if it sees these places of an object only;
//! - `{"mismatch": message}` when it fails for this object, as one does that selects no paths;
//! - `{"exhausted": message}` when it selects too much.
//!
//! Only paths are evaluated: jaq's own `del` adds fields where jq's removes nothing. Left out
//! is what reads something else than the object, writes, or ends the process. `env` and
//! `$ENV` are empty, as in Argo CD.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use jaq_core::data::JustLut;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::load::{Arena, File, Loader, lex, parse};
use jaq_core::{Compiler, Ctx, Filter, Vars, load, path};
use jaq_json::{Num, Val};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::worker::Steps;

/// Functions of jaq that are not part of expressions here.
const REMOVED: [&str; 14] = [
    "debug",
    "debug_empty",
    "env",
    "halt",
    "halt_error",
    "input",
    "input_filename",
    "input_line_number",
    "inputs",
    "localtime",
    "now",
    "stderr",
    "stderr_empty",
    "strflocaltime",
];

/// Functions of jq that jaq does not have.
const ADDED: &str = r#"
def env: {};
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] = $row);
def INDEX(f): INDEX(.[]; f);
def ascii: [.] | implode;
def leaf_paths: paths(scalars);
def toarray: if isarray then . else [.] end;
def trimstr($x): ltrimstr($x) | rtrimstr($x);
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p)
  | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def have_decnum: false;
def have_literal_numbers: true;
"#;

/// Most paths of one evaluation.
const MAX_PATHS: usize = 100_000;

/// Longest message of an error: values are part of them.
const MAX_MESSAGE: usize = 300;

/// Most expressions that are kept compiled.
const KEPT: usize = 1000;

#[derive(Deserialize)]
pub(crate) struct Input {
    limit: Duration,
    turn: Duration,
    expressions: Vec<String>,
    objects: Vec<Val>,
    work: Vec<(Option<usize>, usize)>,
}

/// An expression, and the places that it sees.
struct Expression {
    filter: Filter<JustLut<Val>>,
    sees: Option<Vec<Vec<String>>>,
}

type Compiled = Result<Expression, String>;

thread_local! {
    /// Depends on the text alone, so that it may serve everyone.
    static COMPILED: RefCell<HashMap<String, std::rc::Rc<Compiled>>> = RefCell::default();
}

pub(crate) fn run(input: Input) -> Result<Value, String> {
    Steps::begin(input.limit);
    let began = Instant::now();
    for (done, (object, expression)) in input.work.iter().enumerate() {
        if done > 0 && began.elapsed() >= input.turn {
            Steps::next(json!({"paused": true}));
            break;
        }
        let text = input.expressions.get(*expression).ok_or("no such expression")?;
        let compiled = compiled(text);
        let result = match (&*compiled, object) {
            (Err(message), _) => json!({"invalid": message}),
            (Ok(expression), None) => json!({"valid": true, "sees": expression.sees}),
            (Ok(Expression { filter, .. }), Some(object)) => {
                let object = input.objects.get(*object).ok_or("no such object")?;
                paths(filter, object)
            }
        };
        Steps::next(result);
    }
    Ok(Value::Array(Steps::end()))
}

fn compiled(text: &str) -> std::rc::Rc<Compiled> {
    COMPILED.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(text) {
            return known.clone();
        }
        if kept.len() >= KEPT {
            kept.clear();
        }
        let new = std::rc::Rc::new(compile(text));
        kept.insert(text.to_owned(), new.clone());
        new
    })
}

fn compile(text: &str) -> Compiled {
    // By itself first: what is no expression may become one within parentheses.
    let arena = Arena::default();
    load(&arena, text)?;
    // A comment ends with its line.
    let wrapped = format!("path({text}\n)");
    let modules = load(&arena, &wrapped)?;
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let functions = functions.filter(|(name, ..)| !REMOVED.contains(name));
    let unknown = |errors: jaq_core::compile::Errors<&str, ()>| {
        let all = errors.into_iter().flat_map(|(_, errors)| errors);
        joined(all.map(|(name, kind)| format!("{} '{name}' is not supported", kind.as_str())))
    };
    let filter = Compiler::default()
        .with_funs(functions)
        .with_global_vars(["$ENV"])
        .compile(modules)
        .map_err(unknown)?;
    let term = load::parse(text, |parser| parser.term());
    Ok(Expression { filter, sees: term.as_ref().and_then(seen) })
}

/// The places of an object that an expression sees, by the names that lead there from the
/// root; `None` when it may see all of it.
///
/// What is not among these simple forms may see all of it: functions, and definitions.
fn seen(term: &Term<&str>) -> Option<Vec<Vec<String>>> {
    let both = |one: &Term<&str>, other: &Term<&str>| Some([seen(one)?, seen(other)?].concat());
    match term {
        Term::Num(_) | Term::Var(_) => Some(Vec::new()),
        Term::Str(None, _) => constant(term).map(|_| Vec::new()),
        Term::Path(head, path::Path(parts)) => {
            let mut all = match &**head {
                Term::Id => {
                    let names = parts.iter().map_while(|(part, _)| match part {
                        path::Part::Index(name) => constant(name),
                        path::Part::Range(..) => None,
                    });
                    let names: Vec<String> = names.collect();
                    if names.is_empty() {
                        return None;
                    }
                    vec![names]
                }
                head => seen(head)?,
            };
            // An index is computed from the same input as the head.
            let terms = parts.iter().flat_map(|(part, _)| match part {
                path::Part::Index(index) => [Some(index), None],
                path::Part::Range(from, to) => [from.as_ref(), to.as_ref()],
            });
            for index in terms.flatten() {
                all.extend(seen(index)?);
            }
            Some(all)
        }
        // What follows sees the results of what is before it only.
        Term::BinOp(first, BinaryOp::Pipe(None), _) => seen(first),
        Term::BinOp(first, BinaryOp::Pipe(Some(Pattern::Var(_))), rest) => both(first, rest),
        Term::BinOp(
            one,
            BinaryOp::Comma
            | BinaryOp::Alt
            | BinaryOp::Or
            | BinaryOp::And
            | BinaryOp::Math(_)
            | BinaryOp::Cmp(_),
            other,
        ) => both(one, other),
        Term::IfThenElse(cases, Some(otherwise)) => {
            let mut all = seen(otherwise)?;
            for (condition, then) in cases {
                all.extend(both(condition, then)?);
            }
            Some(all)
        }
        // Nothing defines them anew, since definitions are not among these forms.
        Term::Call("empty" | "null" | "true" | "false", arguments) if arguments.is_empty() => {
            Some(Vec::new())
        }
        _ => None,
    }
}

/// The text of a string without interpolation.
fn constant(term: &Term<&str>) -> Option<String> {
    let Term::Str(None, parts) = term else { return None };
    let text = |part: &lex::StrPart<&str, Term<&str>>| match part {
        lex::StrPart::Str(text) => Some((*text).to_owned()),
        lex::StrPart::Char(char) => Some(char.to_string()),
        lex::StrPart::Term(_) => None,
    };
    parts.iter().map(text).collect()
}

fn load<'s>(arena: &'s Arena, code: &'s str) -> Result<load::Modules<&'s str, ()>, String> {
    let added = load::parse(ADDED, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let definitions = definitions.filter(|definition| !REMOVED.contains(&definition.name));
    let definitions: Vec<Def<&'static str, Term<&'static str>>> =
        definitions.chain(added).collect();
    let file = File { code, path: () };
    Loader::new(definitions).load(arena, file).map_err(|errors| {
        joined(errors.into_iter().flat_map(|(_, error)| match error {
            load::Error::Io(errors) => {
                errors.into_iter().map(|(path, error)| format!("{path}: {error}")).collect()
            }
            load::Error::Lex(errors) => errors.into_iter().map(lexical).collect::<Vec<_>>(),
            load::Error::Parse(errors) => errors.into_iter().map(syntactic).collect(),
        }))
    })
}

fn lexical((expected, found): lex::Error<&str>) -> String {
    misplaced(expected.as_str(), found)
}

fn syntactic((expected, found): parse::Error<&str>) -> String {
    misplaced(expected.as_str(), found)
}

fn misplaced(expected: &str, found: &str) -> String {
    let found = found.trim();
    if found.is_empty() {
        format!("expected {expected} at the end")
    } else {
        format!("expected {expected} at '{}'", short(found, 40))
    }
}

fn joined(messages: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = messages.take(3).collect();
    short(&all.join("; "), MAX_MESSAGE)
}

fn short(text: &str, limit: usize) -> String {
    let cut = text.floor_char_boundary(limit);
    if cut == text.len() { text.to_owned() } else { format!("{}…", &text[..cut]) }
}

fn paths(filter: &Filter<JustLut<Val>>, object: &Val) -> Value {
    let environment = Val::obj(jaq_json::Map::default());
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([environment]));
    let mut found = Vec::new();
    for result in filter.id.run((context, object.clone())) {
        let path = match result {
            Ok(path) => path,
            Err(exception) => {
                let message = match exception.get_err() {
                    Ok(error) => error.to_string(),
                    Err(_) => "it leaves its expression".to_owned(),
                };
                return json!({"mismatch": short(&message, MAX_MESSAGE)});
            }
        };
        match steps(&path) {
            Some(steps) => found.push(steps),
            None => return json!({"mismatch": "it selects no path"}),
        }
        if found.len() > MAX_PATHS {
            return json!({"exhausted": format!("selects more than {MAX_PATHS} fields")});
        }
    }
    json!({"paths": found})
}

/// The steps of a path: names, numbers, and `{"start","end"}` of slices.
fn steps(path: &Val) -> Option<Value> {
    let Val::Arr(steps) = path else { return None };
    steps.iter().map(step).collect::<Option<Vec<_>>>().map(Value::Array)
}

fn step(step: &Val) -> Option<Value> {
    match step {
        Val::TStr(text) => std::str::from_utf8(text).ok().map(Value::from),
        Val::Num(Num::Int(number)) => Some(Value::from(*number as i64)),
        // As an index, jq rounds it down.
        Val::Num(Num::Float(number)) => Some(Value::from(number.floor() as i64)),
        Val::Obj(range) => {
            let end = |name: &str| match range.get(&Val::utf8_str(name.as_bytes().to_vec())) {
                None | Some(Val::Null) => Some(Value::Null),
                Some(number) => step_number(number),
            };
            Some(json!({"start": end("start")?, "end": end("end")?}))
        }
        _ => None,
    }
}

fn step_number(value: &Val) -> Option<Value> {
    matches!(value, Val::Num(_)).then(|| step(value)).flatten()
}
