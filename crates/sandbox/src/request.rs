//! What a request of a worker may use, and what it comes to when there is no answer.

use std::time::Duration;

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalLimits {
    /// Time from the moment that a worker takes the request until its answer was read.
    pub time: Duration,
    /// Memory that the evaluation may use, in bytes, in addition to the request itself.
    pub memory: u64,
    /// Length of the answer, in bytes of JSON.
    pub output: usize,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The error message of the program.
    #[error("{0}")]
    Refused(String),
    /// It took longer than its limit.
    #[error("it takes longer than {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
    /// Its process died, mostly for lack of memory.
    #[error("its process ended: {0}")]
    Died(String),
    /// The request or the answer is longer than this many bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    /// There is no worker.
    #[error("no process is available for it: {0}")]
    Unavailable(String),
}
