//! Defaults, choices, and failing.

use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("default", "aa*", |_, a| {
        let given = a.get(1).filter(|given| given.truth());
        Ok(given.unwrap_or(&a[0]).clone())
    }),
    f("empty", "a", |_, a| Ok(Value::Bool(!a[0].truth()))),
    f("coalesce", "a*", |_, a| {
        Ok(a.iter().find(|value| value.truth()).cloned().unwrap_or(Value::Nil))
    }),
    f("all", "a*", |_, a| Ok(Value::Bool(a.iter().all(Value::truth)))),
    f("any", "a*", |_, a| Ok(Value::Bool(a.iter().any(Value::truth)))),
    f("ternary", "aab", |_, a| Ok(a[if a[2].truth() { 0 } else { 1 }].clone())),
    f("fail", "s", |_, a| Err(a.text(0).into_owned().into())),
];
