//! The part of jq that names places: what `del(…)` may be given.
//!
//! `jqPathExpressions` come from whoever may write an Application, so they are
//! never handed to a full interpreter. Understood are
//!
//! - paths: `.`, `..`, `.a`, `."a b"`, `.["a"]`, `[0]`, `[-1]`, `[]`, and `?`
//!   after any of them, `(…)`, `,`, `|`, `empty`;
//! - `select(…)` over conditions made of paths, literals, `== != < <= > >=`,
//!   `and`, `or`, `not`, `type`, `length`, `has`, `contains`, `startswith`,
//!   `endswith`, `test` (with literal arguments), `any` and `all`.
//!
//! Anything else is refused when it is read, with its name. Length, nesting
//! and the number of evaluation steps are bounded.

mod eval;
mod parse;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::path::Path;
pub use eval::Error;
use parse::Expr;

/// The longest expression that is read, in bytes. Real ones have a few dozen.
pub const MAX_LENGTH: usize = 4096;

/// How deep parentheses, brackets and suffixes may nest.
pub const MAX_NESTING: usize = 64;

/// How many steps one evaluation may take before its rule is skipped for the
/// object. A walk over every value of a large object takes a few thousand.
pub const MAX_STEPS: usize = 200_000;

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
    /// jq's own run-time errors (a name looked up in a text), and exhaustion.
    pub fn paths(&self, value: &Value) -> Result<Vec<Path>, Error> {
        eval::paths(&self.expr, value)
    }
}
