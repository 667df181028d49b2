//! The template languages: text with placeholders in, text out.
//!
//! Two engines, as an ApplicationSet has them: [`simple`] replaces `{{name}}`, [`go`] is the Go `text/template` language
//! with its library of functions. Also the sanitisers [`normalize_name`] and [`slugify_name`].
//! Nothing here knows of Kubernetes, reads a clock, a file or the environment, or fails otherwise than by a [`TemplateError`].

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod engine;
mod error;
mod funcs;
pub mod go;
mod sanitize;
pub mod simple;
#[cfg(test)]
mod tests;

pub use error::{NoEntry, TemplateError, TemplateFault};
pub use sanitize::{normalize_name, slugify_name};

/// Prints a number as Go's `fmt.Sprint` prints a float64 (AS-111): `3`, `1.5`, `1e+06`.
pub fn float_text(value: f64) -> String {
    engine::float::shortest(value)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
