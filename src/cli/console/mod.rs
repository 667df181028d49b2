//! What a shell sees: results and errors, help and completions, and commands that can be pasted.

pub(in crate::cli) mod commands;
pub(in crate::cli) mod completions;
pub(in crate::cli) mod error;
pub(in crate::cli) mod help;
pub(in crate::cli) mod output;
