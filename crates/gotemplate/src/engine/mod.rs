//! The template language: values, functions by name and their budget, parser and executor.
//!
//! Which functions there are is a parameter: see [`function::Find`].

mod ast;
pub(crate) mod builtins;
mod call;
pub(crate) mod compare;
pub(crate) mod escape;
pub(crate) mod exec;
pub(crate) mod fail;
pub(crate) mod float;
pub(crate) mod format;
pub(crate) mod function;
pub(crate) mod gotime;
pub(crate) mod layout;
mod lex;
mod methods;
mod parse;
pub(crate) mod parse_time;
pub(crate) mod pattern;
pub(crate) mod run;
pub(crate) mod strconv;
mod token;
pub(crate) mod value;
mod verbs;
pub(crate) mod version;
