//! Writes of the command line.

pub mod manifests;
pub mod operation;
pub mod refresh;
pub mod requests;
pub mod reviews;
