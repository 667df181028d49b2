//! The actions of a sync: apply, delete, dry run; each returns an outcome.

mod applier;
pub mod apply;
pub mod delete;
pub mod execute;
pub mod meter;
pub mod outcome;
pub mod predict;
pub mod retry;
mod secrets;

#[cfg(test)]
mod tests;
