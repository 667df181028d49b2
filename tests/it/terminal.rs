//! The program on a terminal, as a person sees it; see `support/terminal.rs`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod demo;
mod emulator;
mod first_hour;
mod picture;
