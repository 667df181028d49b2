//! Evaluates an expression on a value, which gives paths.
//!
//! Each result is passed on as soon as it is found and by reference, so memory
//! grows with the nesting of the expression, not with the number of results.
//! Lists, strings and paths that are created are counted, as is each step.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use serde_json::Value;

use super::super::path::Path;
use super::ast::Expr;
use super::value::{At, Built, Shape, To, Trail, Val};
use super::{MAX_BYTES, MAX_DEPTH, MAX_STEPS};

/// Why an expression could not be evaluated for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object does not have the shape that the expression needs.
    #[error("{0}")]
    Mismatch(String),
    /// The expression exceeded a limit on this object.
    #[error("limit exceeded: {0}")]
    Exhausted(String),
}

/// Why an evaluation stops.
pub(super) enum Stop {
    Error(Error),
    /// Enough results for the consumer with this label.
    Enough(usize),
    /// The consumer of a result failed, which is not caught by the producer.
    Passed,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

pub(super) type Flow = Result<(), Stop>;

/// Consumer of results.
pub(super) type Out<'o, 'v> = &'o mut dyn FnMut(At<'v>) -> Flow;

/// The defined variables, innermost first.
pub(super) struct Scope<'s, 'v> {
    name: &'v str,
    value: Val<'v>,
    outer: Option<&'s Scope<'s, 'v>>,
}

/// The scope of an expression, if any.
pub(super) type In<'s, 'v> = Option<&'s Scope<'s, 'v>>;

/// The paths in `value` that `expr` selects, and the number of steps, at most `steps`.
pub fn paths(expr: &Expr, value: &Value, steps: usize) -> (Result<Vec<Path>, Error>, usize) {
    let eval = Eval { most: steps, steps: Cell::new(0), bytes: Cell::new(0), labels: Cell::new(0) };
    let mut paths = Vec::new();
    let root = At { value: Val::Json(value), trail: Trail::Root };
    let flow = eval.eval(expr, None, root, &mut |at| {
        if let (Val::Part(items, first), before) = (&at.value, &at.trail) {
            // Each element of a slice has its own path.
            for index in 0..items.len() {
                eval.step(1)?;
                let (path, bytes) = eval.join(before, To::Index(first + index))?.path();
                eval.build(bytes)?;
                paths.push(path);
            }
            return Ok(());
        }
        if matches!(at.trail, Trail::Off) {
            return Err(Error::Mismatch("not a path".to_owned()).into());
        }
        let (path, bytes) = at.trail.path();
        eval.build(bytes)?;
        paths.push(path);
        Ok(())
    });
    let result = match flow {
        Ok(()) | Err(Stop::Enough(_) | Stop::Passed) => Ok(paths),
        Err(Stop::Error(error)) => Err(error),
    };
    (result, eval.steps.get())
}

pub(super) struct Eval {
    most: usize,
    steps: Cell<usize>,
    bytes: Cell<usize>,
    labels: Cell<usize>,
}

impl Eval {
    /// Counts steps: a call, an element, 64 bytes of a string.
    pub fn step(&self, cost: usize) -> Flow {
        let steps = self.steps.get().saturating_add(cost.max(1));
        self.steps.set(steps);
        if steps <= self.most {
            return Ok(());
        }
        let why = if self.most < MAX_STEPS {
            "all rules together take more steps than one comparison may".to_owned()
        } else {
            format!("takes more than {MAX_STEPS} steps")
        };
        Err(Error::Exhausted(why).into())
    }

    /// Counts reading a string.
    pub fn read(&self, text: &str) -> Flow {
        self.step(text.len() / 64)
    }

    /// Counts memory.
    pub fn build(&self, bytes: usize) -> Flow {
        let bytes = self.bytes.get().saturating_add(bytes);
        self.bytes.set(bytes);
        if bytes > MAX_BYTES {
            let why = format!("takes more than {MAX_BYTES} bytes of memory");
            return Err(Error::Exhausted(why).into());
        }
        Ok(())
    }

    /// A created string.
    pub fn text(&self, text: String) -> Result<Val<'static>, Stop> {
        self.build(text.len() + 32)?;
        Ok(Val::Text(text.into()))
    }

    /// A created list.
    pub fn list<'v>(&self, items: Vec<Val<'v>>) -> Result<Val<'v>, Stop> {
        let depth = 1 + items.iter().map(Val::depth).max().unwrap_or_default();
        self.check_depth(depth)?;
        self.build(64 + items.len() * size_of::<Val<'v>>())?;
        Ok(Val::List(Rc::new(Built { items, depth })))
    }

    /// Rejects deep nesting that could exhaust the stack.
    pub fn check_depth(&self, depth: usize) -> Flow {
        if depth > MAX_DEPTH {
            let why = format!("goes deeper than {MAX_DEPTH} levels");
            return Err(Error::Exhausted(why).into());
        }
        Ok(())
    }

    /// The path one step further.
    pub fn join<'v>(&self, trail: &Trail<'v>, to: To<'v>) -> Result<Trail<'v>, Stop> {
        self.check_depth(trail.depth())?;
        Ok(trail.then(to))
    }

    /// Evaluates `expr` on a value; `out` consumes the results, in jq's order.
    pub fn eval<'v>(
        &self,
        expr: &'v Expr,
        scope: In<'_, 'v>,
        at: At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        self.step(1)?;
        match expr {
            Expr::Identity => out(at),
            Expr::Recurse => self.recurse(at, out),
            Expr::Empty => Ok(()),
            Expr::Field(base, name) => self.eval(base, scope, at, &mut |at| {
                out(self.field(&at, Cow::Borrowed(name.as_str()))?)
            }),
            Expr::Index(base, index) => {
                let input = at.value.clone();
                self.eval(base, scope, at, &mut |at| {
                    self.values(index, scope, &input, &mut |index| {
                        self.index(&at, index)?.map_or(Ok(()), &mut *out)
                    })
                })
            }
            Expr::Slice(base, from, to) => {
                let input = at.value.clone();
                self.eval(base, scope, at, &mut |at| {
                    self.bound(from.as_deref(), scope, &input, &mut |from| {
                        self.bound(to.as_deref(), scope, &input, &mut |to| {
                            out(self.slice(&at, from, to)?)
                        })
                    })
                })
            }
            Expr::Iterate(base) => {
                self.eval(base, scope, at, &mut |at| self.children(&at, &mut *out))
            }
            Expr::Try(base, handler) => self.attempt(base, handler.as_deref(), scope, &at, out),
            Expr::Pipe(left, right) => {
                self.eval(left, scope, at, &mut |at| self.eval(right, scope, at, &mut *out))
            }
            Expr::Comma(left, right) => {
                self.eval(left, scope, at.clone(), out)?;
                self.eval(right, scope, at, out)
            }
            Expr::Alternative(left, right) => self.alternative(left, right, scope, at, out),
            Expr::Bind(source, name, body) => {
                let input = at.value.clone();
                self.values(source, scope, &input, &mut |value| {
                    let inner = Scope { name, value, outer: scope };
                    self.eval(body, Some(&inner), at.clone(), out)
                })
            }
            Expr::If(branches, otherwise) => self.branch(branches, otherwise, scope, &at, out),
            Expr::Variable(name) => out(At::value(variable(name, scope)?)),
            Expr::Literal(value) => out(At::value(Val::Json(value))),
            Expr::List(items) => {
                out(At::value(self.collect(items.as_deref(), scope, &at.value)?))
            }
            Expr::Compare(op, left, right) => self.values(right, scope, &at.value, &mut |right| {
                self.values(left, scope, &at.value, &mut |left| {
                    let holds = self.holds(*op, &left, &right)?;
                    out(At::value(Val::Bool(holds)))
                })
            }),
            Expr::Arith(arith, left, right) => self.values(right, scope, &at.value, &mut |right| {
                self.values(left, scope, &at.value, &mut |left| {
                    out(At::value(self.arith(*arith, &left, &right)?))
                })
            }),
            Expr::And(left, right) => self.logic(left, right, scope, &at.value, false, out),
            Expr::Or(left, right) => self.logic(left, right, scope, &at.value, true, out),
            Expr::Test(regex) => {
                let text = text(&at.value)?;
                // In the worst case a search visits the whole pattern for each byte.
                self.step(text.len())?;
                out(At::value(Val::Bool(regex.is_match(text))))
            }
            Expr::Call(builtin, arguments) => self.call(*builtin, arguments, scope, at, out),
        }
    }

    /// `try` and `catch`, and `?`.
    fn attempt<'v>(
        &self,
        base: &'v Expr,
        handler: Option<&'v Expr>,
        scope: In<'_, 'v>,
        at: &At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        let outcome = self.guard(out, &mut |out| self.eval(base, scope, at.clone(), out))?;
        match (outcome, handler) {
            (Err(Stop::Error(Error::Mismatch(why))), Some(handler)) => {
                self.eval(handler, scope, At::value(self.text(why)?), out)
            }
            (Err(Stop::Error(Error::Mismatch(_))), None) => Ok(()),
            (other, _) => other,
        }
    }

    /// `left // right`
    fn alternative<'v>(
        &self,
        left: &'v Expr,
        right: &'v Expr,
        scope: In<'_, 'v>,
        at: At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        let mut found = false;
        let outcome = self.guard(out, &mut |out| {
            self.eval(left, scope, at.clone(), &mut |at| {
                if !at.value.truthy() {
                    return Ok(());
                }
                found = true;
                out(at)
            })
        })?;
        match outcome {
            Ok(()) | Err(Stop::Error(Error::Mismatch(_))) if !found => {
                self.eval(right, scope, at, out)
            }
            Err(Stop::Error(Error::Mismatch(_))) => Ok(()),
            other => other,
        }
    }

    /// `[items]`
    fn collect<'v>(
        &self,
        items: Option<&'v Expr>,
        scope: In<'_, 'v>,
        input: &Val<'v>,
    ) -> Result<Val<'v>, Stop> {
        let mut list = Vec::new();
        if let Some(items) = items {
            self.values(items, scope, input, &mut |item| {
                self.build(size_of::<Val<'v>>())?;
                list.push(item);
                Ok(())
            })?;
        }
        self.list(list)
    }

    /// The values that an expression gives.
    pub fn values<'v>(
        &self,
        expr: &'v Expr,
        scope: In<'_, 'v>,
        input: &Val<'v>,
        out: &mut dyn FnMut(Val<'v>) -> Flow,
    ) -> Flow {
        self.eval(expr, scope, At::value(input.clone()), &mut |at| out(at.value))
    }

    /// Runs an evaluation and returns its result. An error of the consumer is not caught
    /// but returned as the error.
    fn guard<'v>(
        &self,
        out: Out<'_, 'v>,
        run: &mut dyn FnMut(Out<'_, 'v>) -> Flow,
    ) -> Result<Flow, Stop> {
        let mut passed = None;
        let outcome = run(&mut |at| {
            out(at).map_err(|stop| {
                passed = Some(stop);
                Stop::Passed
            })
        });
        passed.map_or(Ok(outcome), Err)
    }

    /// Runs an evaluation until it has enough results.
    pub fn until_enough(&self, run: impl FnOnce(usize) -> Flow) -> Flow {
        let label = self.labels.get();
        self.labels.set(label + 1);
        match run(label) {
            Err(Stop::Enough(enough)) if enough == label => Ok(()),
            other => other,
        }
    }

    fn branch<'v>(
        &self,
        branches: &'v [(Expr, Expr)],
        otherwise: &'v Expr,
        scope: In<'_, 'v>,
        at: &At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        let Some(((condition, then), rest)) = branches.split_first() else {
            return self.eval(otherwise, scope, at.clone(), out);
        };
        self.values(condition, scope, &at.value, &mut |value| {
            if value.truthy() {
                self.eval(then, scope, at.clone(), out)
            } else {
                self.branch(rest, otherwise, scope, at, out)
            }
        })
    }

    /// `and` for `end` false, `or` for `end` true: a left operand equal to `end` is the result.
    fn logic<'v>(
        &self,
        left: &'v Expr,
        right: &'v Expr,
        scope: In<'_, 'v>,
        input: &Val<'v>,
        end: bool,
        out: Out<'_, 'v>,
    ) -> Flow {
        self.values(left, scope, input, &mut |value| {
            if value.truthy() == end {
                return out(At::value(Val::Bool(end)));
            }
            self.values(right, scope, input, &mut |value| out(At::value(Val::Bool(value.truthy()))))
        })
    }

    /// A bound of a slice; `None` when omitted.
    fn bound<'v>(
        &self,
        expr: Option<&'v Expr>,
        scope: In<'_, 'v>,
        input: &Val<'v>,
        out: &mut dyn FnMut(Option<f64>) -> Flow,
    ) -> Flow {
        let Some(expr) = expr else { return out(None) };
        self.values(expr, scope, input, &mut |value| match value.shape() {
            Shape::Null => out(None),
            Shape::Number(number) => out(Some(number)),
            _ => Err(mismatch("slice with", &value)),
        })
    }
}

/// The value of a variable.
fn variable<'v>(name: &str, scope: In<'_, 'v>) -> Result<Val<'v>, Stop> {
    let mut here = scope;
    while let Some(scope) = here {
        if scope.name == name {
            return Ok(scope.value.clone());
        }
        here = scope.outer;
    }
    Err(Error::Mismatch(format!("variable '${name}' is not defined")).into())
}

/// Names the type only, since the value may be secret.
pub(super) fn mismatch(what: &str, value: &Val<'_>) -> Stop {
    Error::Mismatch(format!("cannot {what} {}", value.type_name())).into()
}

/// The string of a value.
pub(super) fn text<'a>(value: &'a Val<'_>) -> Result<&'a str, Stop> {
    value.text().ok_or_else(|| mismatch("match a text against", value))
}
