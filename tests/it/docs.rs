//! The documentation holds: its commands run as written, its output is what the program
//! prints, its YAML is valid, its links lead somewhere, and its options exist.
//!
//! Each page is one session of a shell in a fresh copy of the repository, with `wavegate`
//! on the PATH and an empty cluster. Comments directly above a block say what a reader
//! does that a script cannot know; see [`markdown::Mark`]. What is claimed in words has a test, too:
//! see [`claims`].

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod chart;
mod claims;
mod environment;
mod examples;
mod image;
mod k9s;
mod links;
mod markdown;
mod objects;
mod options;
mod output;
mod pages;
mod session;
mod settings;
