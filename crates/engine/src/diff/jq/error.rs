//! Why an expression gives no paths.

/// Why an expression could not be evaluated for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The object does not have the shape that the expression needs, or the expression
    /// selects no paths.
    #[error("{0}")]
    Mismatch(String),
    /// The expression exceeded a limit on this object.
    #[error("limit exceeded: {0}")]
    Exhausted(String),
    /// It exceeded a limit on another object, so that it was not evaluated on this one.
    #[error("limit exceeded: {0}")]
    Deferred(String),
    /// It could not be evaluated for a reason that has nothing to do with it.
    #[error("cannot be evaluated: {0}")]
    Unavailable(String),
}
