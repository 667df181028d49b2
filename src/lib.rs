//! Wavegate rolls a change out over a fleet of Argo CD Applications, step by
//! step, and syncs each of them itself.
//!
//! This package is the program: [`cli`] has a file for each command. What it commands are the
//! crates under `crates/`; ARCHITECTURE.md is the map.

pub mod cli;
