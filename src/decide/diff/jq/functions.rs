//! Built-in functions of values: of the input alone, or of the input and one argument.

use std::cmp::Ordering;

use super::ast::{Arith, Builtin};
use super::eval::{Error, Eval, Stop, mismatch, text};
use super::value::{Shape, Val};

impl Eval {
    /// A function of its input and one argument.
    pub fn with_argument<'v>(
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
            Builtin::TrimStart | Builtin::TrimEnd => self.trim_part(builtin, input, argument)?,
            Builtin::Position => self.position(input, argument)?,
            Builtin::Split => self.split(input, argument)?,
            Builtin::Join => self.join_texts(input, argument)?,
            _ => return Err(unknown()),
        })
    }

    /// A function of its input.
    pub fn without_argument<'v>(&self, builtin: Builtin, input: &Val<'v>) -> Result<Val<'v>, Stop> {
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
            Builtin::Keys => self.keys(input)?,
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
            Builtin::Min => self.extreme(list("compare")?.iter(), Ordering::is_lt)?,
            Builtin::Max => self.extreme(list("compare")?.iter(), Ordering::is_ge)?,
            Builtin::Sort => self.list(self.sort(list("sort")?.iter().collect())?)?,
            Builtin::Unique => self.unique(self.sort(list("sort")?.iter().collect())?)?,
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
            Builtin::Flatten => self.flatten(list("flatten")?.iter().collect())?,
            _ => return Err(unknown()),
        })
    }

    /// `ltrimstr` and `rtrimstr`: anything but two strings is left alone.
    fn trim_part<'v>(
        &self,
        builtin: Builtin,
        input: &Val<'v>,
        part: &Val<'v>,
    ) -> Result<Val<'v>, Stop> {
        let (Some(text), Some(part)) = (input.text(), part.text()) else {
            return Ok(input.clone());
        };
        let (from, to) = match builtin {
            Builtin::TrimStart if text.starts_with(part) => (part.len(), text.len()),
            Builtin::TrimEnd if text.ends_with(part) => (0, text.len() - part.len()),
            _ => return Ok(input.clone()),
        };
        self.build(to - from)?;
        Ok(input.cut(from, to).unwrap_or(Val::Null))
    }

    fn split<'v>(&self, input: &Val<'v>, separator: &Val<'v>) -> Result<Val<'v>, Stop> {
        let (whole, separator) = (text(input)?, text(separator)?);
        let mut parts = Vec::new();
        let mut from = 0;
        while from <= whole.len() && !whole.is_empty() {
            let rest = &whole[from..];
            let end = if separator.is_empty() {
                rest.chars().next().map_or(rest.len(), char::len_utf8)
            } else {
                rest.find(separator).unwrap_or(rest.len())
            };
            self.step(1)?;
            self.build(size_of::<Val<'v>>() + end)?;
            parts.extend(input.cut(from, from + end));
            let last = from + end == whole.len();
            from += end + separator.len();
            if last {
                break;
            }
        }
        self.list(parts)
    }

    fn join_texts<'v>(&self, input: &Val<'v>, separator: &Val<'v>) -> Result<Val<'v>, Stop> {
        let Shape::List(items) = input.shape() else {
            return Err(mismatch("join", input));
        };
        let separator = text(separator)?;
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
        self.text(out)
    }

    fn keys<'v>(&self, input: &Val<'v>) -> Result<Val<'v>, Stop> {
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
        self.list(keys)
    }

    /// The value that is `better` than each other one.
    fn extreme<'v>(
        &self,
        items: impl Iterator<Item = Val<'v>>,
        better: fn(Ordering) -> bool,
    ) -> Result<Val<'v>, Stop> {
        let mut best: Option<Val<'v>> = None;
        for item in items {
            let is_better = match &best {
                None => true,
                Some(best) => better(self.order(&item, best)?),
            };
            if is_better {
                best = Some(item);
            }
        }
        Ok(best.unwrap_or(Val::Null))
    }

    /// Sorted values without repetitions.
    fn unique<'v>(&self, sorted: Vec<Val<'v>>) -> Result<Val<'v>, Stop> {
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
        self.list(unique)
    }

    fn flatten<'v>(&self, mut open: Vec<Val<'v>>) -> Result<Val<'v>, Stop> {
        let mut flat = Vec::new();
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
        self.list(flat)
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
}

/// The table and the evaluator disagree: impossible for a parsed expression.
fn unknown() -> Stop {
    Error::Mismatch("the function is not supported".to_owned()).into()
}
