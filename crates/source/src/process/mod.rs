//! How programs run: confined, and within which limits.

pub mod exec_plugin;
pub(crate) mod run;
pub(crate) mod slots;
pub(crate) mod tools;
