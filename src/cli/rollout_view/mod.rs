//! Shows rollouts while they happen, for `demo`, `status --watch` and `explain --watch`:
//! on a screen that is redrawn, or as lines.
//!
//! [`fleet`] holds what watches of the API server reported; everything that is shown and
//! every outcome follows from it, and not from the controllers of this process.

pub(in crate::cli) mod events;
pub(in crate::cli) mod fleet;
pub(in crate::cli) mod live;
pub(in crate::cli) mod newest;
pub(in crate::cli) mod plain;
pub(in crate::cli) mod run;
pub(in crate::cli) mod screen;
pub(in crate::cli) mod sentence;
pub(in crate::cli) mod set;
pub(in crate::cli) mod signals;
pub(in crate::cli) mod state;
pub(in crate::cli) mod steps;
pub(in crate::cli) mod terminal;
pub(in crate::cli) mod text;
pub(in crate::cli) mod transition;
pub(in crate::cli) mod ui;

#[cfg(test)]
mod tests;
