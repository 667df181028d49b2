//! Durations as Go writes them (`1h30m0s`), and ages as `kubectl get` writes them (`5d3h`).

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod age;
pub mod duration;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
