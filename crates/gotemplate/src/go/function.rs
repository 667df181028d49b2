//! Functions of the template language, and their lookup by name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::run::Run;
use super::value::Value;
use crate::funcs;
use crate::funcs::certificate::Certificate;

/// Why a function or method failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// An error of the function.
    Message(String),
    /// A limit of the run is exceeded; functions must not catch it.
    Limit(String),
}

impl<T: Into<String>> From<T> for Fail {
    fn from(message: T) -> Self {
        Self::Message(message.into())
    }
}

impl Fail {
    /// Adds context, unless it is a limit.
    #[cfg_attr(not(feature = "sprig-crypto"), allow(dead_code))]
    pub fn within(self, what: &str) -> Self {
        match self {
            Self::Message(message) => Self::Message(format!("{what}: {message}")),
            Self::Limit(message) => Self::Limit(message),
        }
    }
}

/// What a function returns.
pub(crate) type Outcome<T = Value> = Result<T, Fail>;

/// The implementation of a function. Its arguments are validated against its parameters.
pub(crate) type Body = fn(&mut Run<'_>, &[Value]) -> Outcome;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Param {
    /// `interface{}`: an absent value becomes nil.
    Any,
    /// A raw value: absent values are kept.
    Raw,
    Bool,
    Int,
    Uint32,
    Float,
    Str,
    List,
    Dict,
    Time,
    Duration,
    Version,
    Certificate,
}

impl Param {
    /// The type in error messages.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Raw => "reflect.Value",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::Str => "string",
            Self::List => "[]interface {}",
            Self::Dict => "map[string]interface {}",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Version => "*semver.Version",
            Self::Certificate => Certificate::TYPE,
        }
    }

    const fn of(letter: u8) -> Self {
        match letter {
            b'a' => Self::Any,
            b'b' => Self::Bool,
            b'i' => Self::Int,
            b'u' => Self::Uint32,
            b'f' => Self::Float,
            b's' => Self::Str,
            b'l' => Self::List,
            b'd' => Self::Dict,
            b't' => Self::Time,
            b'D' => Self::Duration,
            b'V' => Self::Version,
            b'C' => Self::Certificate,
            _ => Self::Raw,
        }
    }
}

/// A function with its parameters.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    /// One letter per parameter; a trailing `*` repeats the last parameter.
    pub params: &'static str,
    pub body: Body,
}

/// Whether the last parameter is variadic.
pub(super) fn is_variadic(params: &str) -> bool {
    params.ends_with('*')
}

/// Number of parameters that are not variadic.
pub(super) fn fixed(params: &str) -> usize {
    if is_variadic(params) { params.len() - 2 } else { params.len() }
}

/// The type of the parameter with this index.
pub(super) fn param(params: &str, index: usize) -> Param {
    let letters = params.trim_end_matches('*').as_bytes();
    letters.get(index).or(letters.last()).map_or(Param::Raw, |letter| Param::of(*letter))
}

/// Finds a function by its name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    static TABLE: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
        // Built-in functions come first, so that those of the library override them (`slice`).
        let all = super::builtins::FUNCTIONS.iter().chain(funcs::tables().flatten());
        all.map(|function| (function.name, function)).collect()
    });
    TABLE.get(name).copied()
}
