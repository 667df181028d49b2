//! Operators and what functions share with them: arithmetic, the order of values, and
//! their texts.

use std::cmp::Ordering;

use serde_json::Value;

use super::ast::{Arith, Op};
use super::eval::{Error, Eval, Flow, Stop, mismatch};
use super::value::{Shape, Val};

impl Eval {
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
    pub fn order(&self, left: &Val<'_>, right: &Val<'_>) -> Result<Ordering, Stop> {
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

    /// A string as it is, anything else as JSON.
    pub fn plain_text(&self, value: &Val<'_>) -> Result<String, Stop> {
        match value.shape() {
            Shape::Text(text) => Ok(text.to_owned()),
            _ => self.json_text(value),
        }
    }

    /// A value as JSON; its cost is counted first.
    pub fn json_text(&self, value: &Val<'_>) -> Result<String, Stop> {
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
}
