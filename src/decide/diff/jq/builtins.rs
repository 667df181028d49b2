//! Built-in functions whose arguments are expressions, evaluated as they go; those of
//! values are in [`super::functions`].

use super::ast::{Builtin, Expr};
use super::eval::{Eval, Flow, In, Out, Stop, mismatch};
use super::value::{At, Shape, Val};

impl Eval {
    /// Calls a function.
    pub fn call<'v>(
        &self,
        builtin: Builtin,
        arguments: &'v [Expr],
        scope: In<'_, 'v>,
        at: At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        match (builtin, arguments) {
            (Builtin::Select, [condition]) => {
                self.values(condition, scope, &at.value, &mut |value| {
                    if value.truthy() { out(at.clone()) } else { Ok(()) }
                })
            }
            (Builtin::OfType, [Expr::Literal(types)]) => {
                let mut types = types.as_str().unwrap_or_default().split(' ');
                if types.any(|name| name == at.value.type_name()) { out(at) } else { Ok(()) }
            }
            (Builtin::First, [of]) => self.until_enough(|label| {
                self.eval(of, scope, at, &mut |at| {
                    out(at)?;
                    Err(Stop::Enough(label))
                })
            }),
            (Builtin::Last, [of]) => self.last(of, scope, at)?.map_or(Ok(()), out),
            (Builtin::Nth, [index]) => {
                self.values(index, scope, &at.value, &mut |index| match self.index(&at, index)? {
                    Some(at) => out(at),
                    None => Ok(()),
                })
            }
            (Builtin::Nth, [count, of]) => self.counted(count, scope, &at, &mut |count| {
                self.some(of, scope, &at, (count, count + 1.0), out)
            }),
            (Builtin::Limit, [count, of]) => self.counted(count, scope, &at, &mut |count| {
                self.some(of, scope, &at, (0.0, count), out)
            }),
            (Builtin::RecurseBy, [next, rest @ ..]) => {
                self.recurse_by(next, rest.first(), scope, at, out)
            }
            (Builtin::GetPath, [path]) => self.values(path, scope, &at.value, &mut |path| {
                self.follow(&at, &path)?.map_or(Ok(()), &mut *out)
            }),
            (Builtin::Any, _) => self.quantify(arguments, scope, &at, true, out),
            (Builtin::All, _) => self.quantify(arguments, scope, &at, false, out),
            (Builtin::IsEmpty, [of]) => {
                let empty = self.is_empty(of, scope, &at.value)?;
                out(At::value(Val::Bool(empty)))
            }
            (Builtin::In, [source]) => {
                let found = self.contains_equal(source, scope, &at.value, &at.value)?;
                out(At::value(Val::Bool(found)))
            }
            (Builtin::In, [of, source]) => {
                let found = self.any_contained(of, source, scope, &at.value)?;
                out(At::value(Val::Bool(found)))
            }
            (Builtin::Map, [of]) => out(At::value(self.map(of, scope, at.value)?)),
            (Builtin::Range, [to]) => {
                self.counted(to, scope, &at, &mut |to| self.range(0.0, to, out))
            }
            (Builtin::Range, [from, to]) => self.counted(from, scope, &at, &mut |from| {
                self.counted(to, scope, &at, &mut |to| self.range(from, to, out))
            }),
            (_, [argument]) => self.values(argument, scope, &at.value, &mut |argument| {
                out(At::value(self.with_argument(builtin, &at.value, &argument)?))
            }),
            _ => out(At::value(self.without_argument(builtin, &at.value)?)),
        }
    }

    fn last<'v>(
        &self,
        of: &'v Expr,
        scope: In<'_, 'v>,
        at: At<'v>,
    ) -> Result<Option<At<'v>>, Stop> {
        let mut last = None;
        self.eval(of, scope, at, &mut |at| {
            last = Some(at);
            Ok(())
        })?;
        Ok(last)
    }

    /// What a path, as a list of keys and indices, leads to.
    fn follow<'v>(&self, at: &At<'v>, path: &Val<'v>) -> Result<Option<At<'v>>, Stop> {
        let Shape::List(keys) = path.shape() else {
            return Err(mismatch("follow", path));
        };
        let mut here = at.clone();
        for key in keys.iter() {
            self.step(1)?;
            match self.index(&here, key)? {
                Some(next) => here = next,
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    fn is_empty<'v>(&self, of: &'v Expr, scope: In<'_, 'v>, input: &Val<'v>) -> Result<bool, Stop> {
        let mut empty = true;
        self.until_enough(|label| {
            self.values(of, scope, input, &mut |_| {
                empty = false;
                Err(Stop::Enough(label))
            })
        })?;
        Ok(empty)
    }

    fn map<'v>(&self, of: &'v Expr, scope: In<'_, 'v>, input: Val<'v>) -> Result<Val<'v>, Stop> {
        let mut list = Vec::new();
        self.children(&At::value(input), &mut |child| {
            self.values(of, scope, &child.value, &mut |value| {
                self.build(size_of::<Val<'v>>())?;
                list.push(value);
                Ok(())
            })
        })?;
        self.list(list)
    }

    /// An argument that is a number.
    fn counted<'v>(
        &self,
        argument: &'v Expr,
        scope: In<'_, 'v>,
        at: &At<'v>,
        out: &mut dyn FnMut(f64) -> Flow,
    ) -> Flow {
        self.values(argument, scope, &at.value, &mut |value| match value.shape() {
            Shape::Number(number) => out(number),
            _ => Err(mismatch("count to", &value)),
        })
    }

    fn range<'v>(&self, from: f64, to: f64, out: Out<'_, 'v>) -> Flow {
        let mut number = from;
        while number < to {
            self.step(1)?;
            out(At::value(Val::Number(number)))?;
            number += 1.0;
        }
        Ok(())
    }

    /// The results from one, counted from 0, up to another.
    fn some<'v>(
        &self,
        of: &'v Expr,
        scope: In<'_, 'v>,
        at: &At<'v>,
        (from, to): (f64, f64),
        out: Out<'_, 'v>,
    ) -> Flow {
        if to <= 0.0 {
            return Ok(());
        }
        let mut count = 0.0;
        self.until_enough(|label| {
            self.eval(of, scope, at.clone(), &mut |at| {
                if count >= from {
                    out(at)?;
                }
                count += 1.0;
                if count >= to { Err(Stop::Enough(label)) } else { Ok(()) }
            })
        })
    }

    fn recurse_by<'v>(
        &self,
        next: &'v Expr,
        condition: Option<&'v Expr>,
        scope: In<'_, 'v>,
        at: At<'v>,
        out: Out<'_, 'v>,
    ) -> Flow {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            self.step(1)?;
            out(at.clone())?;
            let mut found = Vec::new();
            self.eval(next, scope, at, &mut |child| {
                let Some(condition) = condition else {
                    self.build(size_of::<At<'v>>())?;
                    found.push(child);
                    return Ok(());
                };
                let value = child.value.clone();
                self.values(condition, scope, &value, &mut |value| {
                    self.build(size_of::<At<'v>>())?;
                    found.extend(value.truthy().then(|| child.clone()));
                    Ok(())
                })
            })?;
            open.extend(found.into_iter().rev());
        }
        Ok(())
    }

    /// `any` for `wanted` true, `all` for false: with no argument, a condition, or a
    /// source and a condition.
    fn quantify<'v>(
        &self,
        arguments: &'v [Expr],
        scope: In<'_, 'v>,
        at: &At<'v>,
        wanted: bool,
        out: Out<'_, 'v>,
    ) -> Flow {
        let mut found = false;
        self.until_enough(|label| {
            let mut check = |value: Val<'v>| {
                if value.truthy() != wanted {
                    return Ok(());
                }
                found = true;
                Err(Stop::Enough(label))
            };
            let input = At::value(at.value.clone());
            match arguments {
                [source, condition] => self.values(source, scope, &at.value, &mut |value| {
                    self.values(condition, scope, &value, &mut check)
                }),
                [condition] => self.children(&input, &mut |child| {
                    self.values(condition, scope, &child.value, &mut check)
                }),
                _ => self.children(&input, &mut |child| check(child.value)),
            }
        })?;
        out(At::value(Val::Bool(found == wanted)))
    }

    /// Whether one of the values of `of` is among those of `source`.
    fn any_contained<'v>(
        &self,
        of: &'v Expr,
        source: &'v Expr,
        scope: In<'_, 'v>,
        input: &Val<'v>,
    ) -> Result<bool, Stop> {
        let mut found = false;
        self.until_enough(|label| {
            self.values(of, scope, input, &mut |value| {
                found = self.contains_equal(source, scope, input, &value)?;
                if found { Err(Stop::Enough(label)) } else { Ok(()) }
            })
        })?;
        Ok(found)
    }

    fn contains_equal<'v>(
        &self,
        source: &'v Expr,
        scope: In<'_, 'v>,
        input: &Val<'v>,
        value: &Val<'v>,
    ) -> Result<bool, Stop> {
        let mut found = false;
        self.until_enough(|label| {
            self.values(source, scope, input, &mut |other| {
                if self.order(value, &other)?.is_eq() {
                    found = true;
                    return Err(Stop::Enough(label));
                }
                Ok(())
            })
        })?;
        Ok(found)
    }
}
