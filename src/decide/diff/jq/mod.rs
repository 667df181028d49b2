//! The part of jq that names places: what `del(…)` may be given.
//!
//! `jqPathExpressions` come from whoever may write an Application, so they are
//! never handed to a full interpreter: those there are bound neither their
//! memory nor their stack, and some can end the process. Understood are
//!
//! - paths: `.`, `..`, `.a`, `."a b"`, `.["a"]`, `.[0]`, `.[-1]`, `.[1:3]`,
//!   `.[]`, an index that is computed (`.[$name]`), `?` after any of them,
//!   `(…)`, `,`, `|`, `//`, `if … then … elif … else … end`, `try … catch …`,
//!   `empty`, `first`, `last`, `nth`, `limit`, `recurse`, `getpath`, `select`,
//!   and what lets types through (`objects`, `strings`, `values`, …);
//! - values, within conditions and arguments: literals, `[…]`, variables
//!   (`… as $name | …`), comparisons, arithmetic, `and`, `or`, and the
//!   functions of `ast::BUILTINS`; `test` with a literal.
//!
//! Anything else is refused when it is read, with its name: definitions,
//! `reduce` and `foreach`, object literals, texts with expressions inside,
//! assignments, and whatever looks beyond the object. Length, nesting, steps
//! and memory of an evaluation are bounded.

mod ast;
mod builtins;
mod eval;
mod lex;
mod parse;
mod value;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::path::Path;
use ast::Expr;
pub use eval::Error;

/// The longest expression that is read, in bytes. Real ones have a few dozen.
pub const MAX_LENGTH: usize = 4096;

/// How deep parentheses, brackets and suffixes may nest.
pub const MAX_NESTING: usize = 64;

/// How many steps one evaluation may take. A walk over every value of an object
/// of a megabyte takes a few hundred thousand.
pub const MAX_STEPS: usize = 2_000_000;

/// How many bytes of lists, texts and paths one evaluation may build.
pub const MAX_BYTES: usize = 8 << 20;

/// How deep lists that are built, and places, may be nested.
pub const MAX_DEPTH: usize = 200;

/// What all evaluations of one comparison may use up together: many rules on
/// many objects are bounded, too. Clones of what holds it share it.
#[derive(Debug)]
pub struct Budget(AtomicUsize);

/// The steps of a [`Budget`]: some seconds.
pub const BUDGET_STEPS: usize = 200_000_000;

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(BUDGET_STEPS))
    }
}

impl Budget {
    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self, steps: usize) {
        self.0.store(self.left().saturating_sub(steps), Ordering::Relaxed);
    }
}

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    expr: Expr,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or which part of it is not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), expr: parse::parse(text)? })
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The places in `value` that the expression names, some of which may not
    /// exist.
    ///
    /// # Errors
    ///
    /// jq's own run-time errors (a name looked up in a text), and exhaustion of
    /// what one evaluation, or the budget, may use up.
    pub fn paths(&self, value: &Value, budget: &Budget) -> Result<Vec<Path>, Error> {
        let (paths, steps) = eval::paths(&self.expr, value, budget.left().min(MAX_STEPS));
        budget.take(steps);
        paths
    }
}
