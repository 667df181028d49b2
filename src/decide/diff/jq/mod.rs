//! The part of jq that selects paths: the possible arguments of `del(…)`.
//!
//! `jqPathExpressions` are written by anyone who may edit an Application, so they are not
//! run by a full interpreter: the existing ones limit neither memory nor stack, and some
//! can end the process. Supported are
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
//! Anything else is rejected by the parser, with its name: definitions, `reduce` and
//! `foreach`, object literals, string interpolation, assignments, and access to anything
//! but the object. Length, nesting, steps and memory of an evaluation are limited.

mod ast;
mod builtins;
mod eval;
mod functions;
mod lex;
mod navigate;
mod operators;
mod parse;
mod value;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::path::Path;
use ast::Expr;
pub use eval::Error;

/// Longest expression, in bytes. Typical ones have a few dozen.
pub const MAX_LENGTH: usize = 4096;

/// Limit on nested parentheses, brackets and suffixes.
pub const MAX_NESTING: usize = 64;

/// Limit on the steps of one evaluation. Visiting all values of an object of a megabyte
/// takes a few hundred thousand.
pub const MAX_STEPS: usize = 2_000_000;

/// Limit on the bytes of lists, strings and paths that one evaluation creates.
pub const MAX_BYTES: usize = 8 << 20;

/// Limit on the nesting of created lists, and of paths.
pub const MAX_DEPTH: usize = 200;

/// The limit of all evaluations of one comparison, for many rules on many objects. Clones
/// share it.
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

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    expr: Expr,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// Why it is invalid, or which part is not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), expr: parse::parse(text)? })
    }

    /// The expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The paths in `value` that the expression selects; some may not exist.
    ///
    /// # Errors
    ///
    /// jq's run-time errors (a field of a string), and exceeded limits of the evaluation
    /// or the budget.
    pub fn paths(&self, value: &Value, budget: &Budget) -> Result<Vec<Path>, Error> {
        let (paths, steps) = eval::paths(&self.expr, value, budget.left().min(MAX_STEPS));
        budget.take(steps);
        paths
    }
}
