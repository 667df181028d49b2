//! Functions and methods with the types of their parameters.

use super::fail::Outcome;
use super::run::Run;
use super::value::{Certificate, Value};

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

/// A function, or a method, whose receiver comes before its parameters.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    /// One letter per parameter; a trailing `*` repeats the last parameter.
    pub params: &'static str,
    pub body: Body,
}

/// Finds a function by its name.
pub(crate) type Find = fn(&str) -> Option<&'static Function>;

/// A row of a table of functions.
pub(crate) const fn f(name: &'static str, params: &'static str, body: Body) -> Function {
    Function { name, params, body }
}

impl Function {
    /// Whether the last parameter is variadic.
    pub fn is_variadic(&self) -> bool {
        self.params.ends_with('*')
    }

    /// Number of parameters that are not variadic.
    pub fn fixed(&self) -> usize {
        if self.is_variadic() { self.params.len() - 2 } else { self.params.len() }
    }

    /// The type of the parameter with this index.
    pub fn param(&self, index: usize) -> Param {
        let letters = self.params.trim_end_matches('*').as_bytes();
        letters.get(index).or(letters.last()).map_or(Param::Raw, |letter| Param::of(*letter))
    }
}
