//! What a function of the template language is, and how it is found by its name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::run::Run;
use super::value::Value;
use crate::template::funcs;
use crate::template::funcs::certificate::Certificate;

/// Why a function or method failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::template) enum Fail {
    /// The function itself says no.
    Message(String),
    /// A limit of the run is exceeded; no function may swallow this.
    Limit(String),
}

impl<T: Into<String>> From<T> for Fail {
    fn from(message: T) -> Self {
        Self::Message(message.into())
    }
}

impl Fail {
    /// Says what failed, unless it was a limit.
    pub fn within(self, what: &str) -> Self {
        match self {
            Self::Message(message) => Self::Message(format!("{what}: {message}")),
            Self::Limit(message) => Self::Limit(message),
        }
    }
}

/// What a function returns.
pub(in crate::template) type Outcome<T = Value> = Result<T, Fail>;

/// The code of a function. The arguments have been checked against its parameters.
pub(in crate::template) type Body = fn(&mut Run<'_>, &[Value]) -> Outcome;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::template) enum Param {
    /// `interface{}`: an absent value arrives as nil.
    Any,
    /// A raw value: absent stays absent.
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
    /// The type as error messages name it.
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
pub(in crate::template) struct Function {
    pub name: &'static str,
    /// One letter for each parameter; a last `*` says that the parameter before it may occur any number of times.
    pub params: &'static str,
    pub body: Body,
}

/// Whether the last parameter may occur any number of times.
pub(super) fn is_variadic(params: &str) -> bool {
    params.ends_with('*')
}

/// How many parameters occur exactly once.
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
        // The functions of the language come first, so that those of the library take their place (`slice`).
        let all = super::builtins::FUNCTIONS.iter().chain(funcs::tables().into_iter().flatten());
        all.map(|function| (function.name, function)).collect()
    });
    TABLE.get(name).copied()
}
