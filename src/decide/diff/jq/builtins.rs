//! Built-in functions.

use std::cmp::Ordering;

use serde_json::Value;

use super::ast::{Arith, Builtin, Expr, Op};
use super::eval::{Error, Eval, Flow, In, Out, Stop, mismatch, text};
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
            (Builtin::Last, [of]) => {
                let mut last = None;
                self.eval(of, scope, at, &mut |at| {
                    last = Some(at);
                    Ok(())
                })?;
                last.map_or(Ok(()), out)
            }
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
                let Shape::List(keys) = path.shape() else {
                    return Err(mismatch("follow", &path));
                };
                let mut here = at.clone();
                for key in keys.iter() {
                    self.step(1)?;
                    match self.index(&here, key)? {
                        Some(next) => here = next,
                        None => return Ok(()),
                    }
                }
                out(here)
            }),
            (Builtin::Any, _) => self.quantify(arguments, scope, &at, true, out),
            (Builtin::All, _) => self.quantify(arguments, scope, &at, false, out),
            (Builtin::IsEmpty, [of]) => {
                let mut empty = true;
                self.until_enough(|label| {
                    self.values(of, scope, &at.value, &mut |_| {
                        empty = false;
                        Err(Stop::Enough(label))
                    })
                })?;
                out(At::value(Val::Bool(empty)))
            }
            (Builtin::In, [source]) => {
                let found = self.contains_equal(source, scope, &at.value, &at.value)?;
                out(At::value(Val::Bool(found)))
            }
            (Builtin::In, [of, source]) => {
                let mut found = false;
                self.until_enough(|label| {
                    self.values(of, scope, &at.value, &mut |value| {
                        found = self.contains_equal(source, scope, &at.value, &value)?;
                        if found { Err(Stop::Enough(label)) } else { Ok(()) }
                    })
                })?;
                out(At::value(Val::Bool(found)))
            }
            (Builtin::Map, [of]) => {
                let mut list = Vec::new();
                self.children(&At::value(at.value), &mut |child| {
                    self.values(of, scope, &child.value, &mut |value| {
                        self.build(size_of::<Val<'v>>())?;
                        list.push(value);
                        Ok(())
                    })
                })?;
                out(At::value(self.list(list)?))
            }
            (Builtin::Range, [to]) => {
                self.counted(to, scope, &at, &mut |to| self.range(0.0, to, out))
            }
            (Builtin::Range, [from, to]) => self.counted(from, scope, &at, &mut |from| {
                self.counted(to, scope, &at, &mut |to| self.range(from, to, out))
            }),
            (_, [argument]) => self.values(argument, scope, &at.value, &mut |argument| {
                out(At::value(self.with(builtin, &at.value, &argument)?))
            }),
            _ => out(At::value(self.of(builtin, &at.value)?)),
        }
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

    /// A function of its input and one argument.
    fn with<'v>(
        &self,
        builtin: Builtin,
        input: &Val<'v>,
        argument: &Val<'v>,
    ) -> Result<Val<'v>, Stop> {
        let both = || Ok::<_, Stop>((text(input)?, text(argument)?));
        for value in [input, argument] {
            self.read(value.text().unwrap_or_default())?;
        }
        Ok(match builtin {
            Builtin::Has => match (input.shape(), argument.shape()) {
                (Shape::Object(map), Shape::Text(key)) => Val::Bool(map.contains_key(key)),
                (Shape::List(items), Shape::Number(index)) => {
                    Val::Bool((0.0..items.len() as f64).contains(&index))
                }
                _ => return Err(mismatch("check a key of", input)),
            },
            Builtin::Contains => Val::Bool(self.contains(input, argument)?),
            Builtin::Inside => Val::Bool(self.contains(argument, input)?),
            Builtin::StartsWith => both().map(|(text, part)| Val::Bool(text.starts_with(part)))?,
            Builtin::EndsWith => both().map(|(text, part)| Val::Bool(text.ends_with(part)))?,
            Builtin::TrimStart | Builtin::TrimEnd => match (input.text(), argument.text()) {
                (Some(text), Some(part)) => {
                    let (from, to) = match builtin {
                        Builtin::TrimStart if text.starts_with(part) => (part.len(), text.len()),
                        Builtin::TrimEnd if text.ends_with(part) => (0, text.len() - part.len()),
                        _ => return Ok(input.clone()),
                    };
                    self.build(to - from)?;
                    input.cut(from, to).unwrap_or(Val::Null)
                }
                _ => input.clone(),
            },
            Builtin::Position => self.position(input, argument)?,
            Builtin::Split => {
                let (text, separator) = both()?;
                let mut parts = Vec::new();
                let mut from = 0;
                while from <= text.len() && !text.is_empty() {
                    let rest = &text[from..];
                    let end = if separator.is_empty() {
                        rest.chars().next().map_or(rest.len(), char::len_utf8)
                    } else {
                        rest.find(separator).unwrap_or(rest.len())
                    };
                    self.step(1)?;
                    self.build(size_of::<Val<'v>>() + end)?;
                    parts.extend(input.cut(from, from + end));
                    let last = from + end == text.len();
                    from += end + separator.len();
                    if last {
                        break;
                    }
                }
                self.list(parts)?
            }
            Builtin::Join => {
                let Shape::List(items) = input.shape() else {
                    return Err(mismatch("join", input));
                };
                let separator = text(argument)?;
                let mut out = String::new();
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(separator);
                    }
                    let part = match item.shape() {
                        Shape::Null => String::new(),
                        Shape::List(_) | Shape::Object(_) => return Err(mismatch("join", &item)),
                        _ => self.plain_text(&item)?,
                    };
                    self.build(part.len() + separator.len())?;
                    self.step(1)?;
                    out.push_str(&part);
                }
                self.text(out)?
            }
            _ => return Err(unknown()),
        })
    }

    /// A function of its input.
    fn of<'v>(&self, builtin: Builtin, input: &Val<'v>) -> Result<Val<'v>, Stop> {
        self.read(input.text().unwrap_or_default())?;
        let list = |what: &str| match input.shape() {
            Shape::List(items) => Ok(items),
            _ => Err(mismatch(what, input)),
        };
        Ok(match builtin {
            Builtin::Not => Val::Bool(!input.truthy()),
            Builtin::Type => Val::Str(input.type_name()),
            Builtin::Length => Val::Number(match input.shape() {
                Shape::Null => 0.0,
                Shape::Text(text) => text.chars().count() as f64,
                Shape::List(items) => items.len() as f64,
                Shape::Object(map) => map.len() as f64,
                Shape::Number(number) => number.abs(),
                Shape::Bool(_) => return Err(mismatch("take the length of", input)),
            }),
            Builtin::Keys => {
                let keys: Vec<Val<'v>> = match input.shape() {
                    Shape::Object(map) => {
                        self.step(map.len())?;
                        map.keys().map(|key| Val::Str(key)).collect()
                    }
                    Shape::List(items) => {
                        self.step(items.len())?;
                        (0..items.len()).map(|index| Val::Number(index as f64)).collect()
                    }
                    _ => return Err(mismatch("take the keys of", input)),
                };
                self.list(keys)?
            }
            Builtin::ToText if input.text().is_some() => input.clone(),
            Builtin::ToText => self.text(self.plain_text(input)?)?,
            Builtin::ToJson => self.text(self.json_text(input)?)?,
            Builtin::ToNumber => match input.shape() {
                Shape::Number(_) => input.clone(),
                Shape::Text(text) => match text.trim().parse::<f64>() {
                    Ok(number) if number.is_finite() => Val::Number(number),
                    _ => return Err(mismatch("read a number from", input)),
                },
                _ => return Err(mismatch("read a number from", input)),
            },
            Builtin::Downcase => self.text(text(input)?.to_ascii_lowercase())?,
            Builtin::Upcase => self.text(text(input)?.to_ascii_uppercase())?,
            Builtin::Trim => {
                let whole = text(input)?;
                let from = whole.len() - whole.trim_start().len();
                let to = from + whole.trim().len();
                self.build(to - from)?;
                input.cut(from, to).unwrap_or(Val::Null)
            }
            Builtin::Floor => match input.shape() {
                Shape::Number(number) => Val::Number(number.floor()),
                _ => return Err(mismatch("round", input)),
            },
            Builtin::Add => {
                let mut sum = Val::Null;
                for item in list("add")?.iter() {
                    sum = self.arith(Arith::Add, &sum, &item)?;
                }
                sum
            }
            Builtin::Min | Builtin::Max => {
                let mut best: Option<Val<'v>> = None;
                for item in list("compare")?.iter() {
                    let better = match &best {
                        None => true,
                        Some(best) if builtin == Builtin::Min => self.order(&item, best)?.is_lt(),
                        Some(best) => self.order(&item, best)?.is_ge(),
                    };
                    if better {
                        best = Some(item);
                    }
                }
                best.unwrap_or(Val::Null)
            }
            Builtin::Sort | Builtin::Unique => {
                let sorted = self.sort(list("sort")?.iter().collect())?;
                if builtin == Builtin::Sort {
                    return self.list(sorted);
                }
                let mut unique: Vec<Val<'v>> = Vec::new();
                for item in sorted {
                    let same = match unique.last() {
                        Some(last) => self.order(last, &item)?.is_eq(),
                        None => false,
                    };
                    if !same {
                        unique.push(item);
                    }
                }
                self.list(unique)?
            }
            Builtin::Reverse => match input.shape() {
                Shape::Null => self.list(Vec::new())?,
                Shape::Text(text) => self.text(text.chars().rev().collect())?,
                _ => {
                    let mut items: Vec<Val<'v>> = list("reverse")?.iter().collect();
                    self.step(items.len())?;
                    items.reverse();
                    self.list(items)?
                }
            },
            Builtin::Flatten => {
                let mut flat = Vec::new();
                let mut open: Vec<Val<'v>> = list("flatten")?.iter().collect();
                open.reverse();
                while let Some(item) = open.pop() {
                    self.step(1)?;
                    self.build(size_of::<Val<'v>>())?;
                    match item.shape() {
                        Shape::List(items) => {
                            let inner: Vec<Val<'v>> = items.iter().collect();
                            open.extend(inner.into_iter().rev());
                        }
                        _ => flat.push(item),
                    }
                }
                self.list(flat)?
            }
            _ => return Err(unknown()),
        })
    }

    /// A merge sort: a comparison can fail, which the standard library does not support.
    fn sort<'v>(&self, mut items: Vec<Val<'v>>) -> Result<Vec<Val<'v>>, Stop> {
        if items.len() < 2 {
            return Ok(items);
        }
        self.build(items.len() * size_of::<Val<'v>>())?;
        let right = items.split_off(items.len() / 2);
        let mut left = self.sort(items)?.into_iter().peekable();
        let mut right = self.sort(right)?.into_iter().peekable();
        let mut sorted = Vec::new();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let first = if self.order(b, a)?.is_lt() { right.next() } else { left.next() };
            sorted.extend(first);
        }
        sorted.extend(left);
        sorted.extend(right);
        Ok(sorted)
    }

    /// The first position of a string, or of an element of a list.
    fn position<'v>(&self, input: &Val<'v>, wanted: &Val<'v>) -> Result<Val<'v>, Stop> {
        match (input.shape(), wanted.shape()) {
            (Shape::Null, _) => Ok(Val::Null),
            (Shape::Text(text), Shape::Text(part)) => {
                let at = text.find(part).filter(|_| !part.is_empty());
                let count = |at: usize| Val::Number(text[..at].chars().count() as f64);
                Ok(at.map_or(Val::Null, count))
            }
            (Shape::List(items), _) => {
                for (index, item) in items.iter().enumerate() {
                    if self.order(&item, wanted)?.is_eq() {
                        return Ok(Val::Number(index as f64));
                    }
                }
                Ok(Val::Null)
            }
            _ => Err(mismatch("search in", input)),
        }
    }

    /// `contains`: a substring; a list whose elements are each contained in one; an
    /// object whose values are.
    fn contains(&self, whole: &Val<'_>, part: &Val<'_>) -> Result<bool, Stop> {
        self.step(1)?;
        match (whole.shape(), part.shape()) {
            (Shape::Text(text), Shape::Text(part)) => {
                self.read(text)?;
                Ok(text.contains(part))
            }
            (Shape::List(whole), Shape::List(parts)) => {
                for part in parts.iter() {
                    let mut found = false;
                    for item in whole.iter() {
                        let alike = item.type_name() == part.type_name();
                        if alike && self.contains(&item, &part)? {
                            found = true;
                            break;
                        }
                        self.step(1)?;
                    }
                    if !found {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Shape::Object(whole), Shape::Object(parts)) => {
                for (key, part) in parts {
                    let Some(item) = whole.get(key) else { return Ok(false) };
                    let (item, part) = (Val::Json(item), Val::Json(part));
                    if item.type_name() != part.type_name() || !self.contains(&item, &part)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ if whole.type_name() == part.type_name() => Ok(self.order(whole, part)?.is_eq()),
            _ => Err(mismatch("check what is contained in", whole)),
        }
    }

    fn plain_text(&self, value: &Val<'_>) -> Result<String, Stop> {
        match value.shape() {
            Shape::Text(text) => Ok(text.to_owned()),
            _ => self.json_text(value),
        }
    }

    /// A value as JSON; its cost is counted first.
    fn json_text(&self, value: &Val<'_>) -> Result<String, Stop> {
        let mut out = String::new();
        self.write(value, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Val<'_>, out: &mut String) -> Flow {
        self.step(1)?;
        let before = out.len();
        match value.shape() {
            Shape::Null => out.push_str("null"),
            Shape::Bool(flag) => out.push_str(if flag { "true" } else { "false" }),
            Shape::Number(_) => out.push_str(&value.number_text()),
            Shape::Text(text) => {
                self.build(text.len())?;
                out.push_str(&Value::from(text).to_string());
            }
            Shape::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    self.write(&item, out)?;
                }
                out.push(']');
                return self.build(2);
            }
            Shape::Object(map) => {
                out.push('{');
                for (index, (key, item)) in map.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    self.build(key.len() + 4)?;
                    self.write(&Val::Json(item), out)?;
                }
                out.push('}');
                return self.build(2);
            }
        }
        self.step((out.len() - before) / 64)?;
        self.build(out.len() - before)
    }

    /// Arithmetic; `null` is the identity of addition.
    pub fn arith<'v>(
        &self,
        arith: Arith,
        left: &Val<'v>,
        right: &Val<'v>,
    ) -> Result<Val<'v>, Stop> {
        match (arith, left.shape(), right.shape()) {
            (Arith::Add, Shape::Null, _) => Ok(right.clone()),
            (Arith::Add, _, Shape::Null) => Ok(left.clone()),
            (Arith::Add, Shape::Text(a), Shape::Text(b)) => {
                self.build(a.len() + b.len())?;
                self.step((a.len() + b.len()) / 64)?;
                self.text([a, b].concat())
            }
            (Arith::Add, Shape::List(a), Shape::List(b)) => {
                self.step(a.len() + b.len())?;
                self.build((a.len() + b.len()) * size_of::<Val<'v>>())?;
                self.list(a.iter().chain(b.iter()).collect())
            }
            (Arith::Subtract, Shape::List(a), Shape::List(b)) => {
                let mut left = Vec::new();
                for item in a.iter() {
                    let mut found = false;
                    for other in b.iter() {
                        found = found || self.order(&item, &other)?.is_eq();
                    }
                    if !found {
                        left.push(item);
                    }
                }
                self.list(left)
            }
            (_, Shape::Number(a), Shape::Number(b)) => {
                let zero = || Err(mismatch("divide by zero a", left));
                Ok(Val::Number(match arith {
                    Arith::Add => a + b,
                    Arith::Subtract => a - b,
                    Arith::Multiply => a * b,
                    Arith::Divide if b == 0.0 => return zero(),
                    Arith::Divide => a / b,
                    Arith::Modulo if b.trunc() == 0.0 => return zero(),
                    Arith::Modulo => a.trunc() % b.trunc(),
                }))
            }
            _ => {
                let (left, right) = (left.type_name(), right.type_name());
                let sign = arith.sign();
                Err(Error::Mismatch(format!("cannot calculate {left} {sign} {right}")).into())
            }
        }
    }

    /// Whether a comparison is true.
    pub fn holds(&self, op: Op, left: &Val<'_>, right: &Val<'_>) -> Result<bool, Stop> {
        let order = self.order(left, right)?;
        Ok(match op {
            Op::Equal => order.is_eq(),
            Op::NotEqual => order.is_ne(),
            Op::Less => order.is_lt(),
            Op::LessOrEqual => order.is_le(),
            Op::Greater => order.is_gt(),
            Op::GreaterOrEqual => order.is_ge(),
        })
    }

    /// jq's order of all values: by type, then by value.
    fn order(&self, left: &Val<'_>, right: &Val<'_>) -> Result<Ordering, Stop> {
        fn rank(value: &Val<'_>) -> u8 {
            match value.shape() {
                Shape::Null => 0,
                Shape::Bool(false) => 1,
                Shape::Bool(true) => 2,
                Shape::Number(_) => 3,
                Shape::Text(_) => 4,
                Shape::List(_) => 5,
                Shape::Object(_) => 6,
            }
        }
        self.step(1)?;
        Ok(match (left.shape(), right.shape()) {
            (Shape::Number(l), Shape::Number(r)) => l.partial_cmp(&r).unwrap_or(Ordering::Less),
            (Shape::Text(l), Shape::Text(r)) => {
                self.step(l.len().min(r.len()) / 64)?;
                l.cmp(r)
            }
            (Shape::List(l), Shape::List(r)) => {
                for (l, r) in l.iter().zip(r.iter()) {
                    let order = self.order(&l, &r)?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                l.len().cmp(&r.len())
            }
            (Shape::Object(l), Shape::Object(r)) => {
                self.step(l.len().min(r.len()))?;
                let order = l.keys().cmp(r.keys());
                if order.is_ne() {
                    return Ok(order);
                }
                for (l, r) in l.values().zip(r.values()) {
                    let order = self.order(&Val::Json(l), &Val::Json(r))?;
                    if order.is_ne() {
                        return Ok(order);
                    }
                }
                Ordering::Equal
            }
            _ => rank(left).cmp(&rank(right)),
        })
    }
}

/// The table and the evaluator disagree: impossible for a parsed expression.
fn unknown() -> Stop {
    Error::Mismatch("the function is not supported".to_owned()).into()
}
