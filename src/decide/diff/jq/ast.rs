//! The syntax tree of an expression.

use regex::Regex;
use serde_json::Value;

/// An expression. Whether it is a path or a value depends on its variant: see
/// [`Expr::is_path`].
#[derive(Clone, Debug)]
pub enum Expr {
    /// `.`
    Identity,
    /// `..`
    Recurse,
    /// `empty`
    Empty,
    /// `.name`
    Field(Box<Expr>, String),
    /// `.[index]`; the index is evaluated on the input of the whole expression.
    Index(Box<Expr>, Box<Expr>),
    /// `.[from:to]`
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `.[]`
    Iterate(Box<Expr>),
    /// `…?` and `try … catch …`
    Try(Box<Expr>, Option<Box<Expr>>),
    /// `a | b`
    Pipe(Box<Expr>, Box<Expr>),
    /// `a, b`
    Comma(Box<Expr>, Box<Expr>),
    /// `a // b`
    Alternative(Box<Expr>, Box<Expr>),
    /// `a as $name | b`
    Bind(Box<Expr>, String, Box<Expr>),
    /// `if … then … elif … then … else … end`
    If(Vec<(Expr, Expr)>, Box<Expr>),
    /// `$name`
    Variable(String),
    /// A text, a number, `true`, `false` or `null`.
    Literal(Value),
    /// `[…]`
    List(Option<Box<Expr>>),
    /// `a == b` and the like.
    Compare(Op, Box<Expr>, Box<Expr>),
    /// `a + b` and the like.
    Arith(Arith, Box<Expr>, Box<Expr>),
    /// `a and b`
    And(Box<Expr>, Box<Expr>),
    /// `a or b`
    Or(Box<Expr>, Box<Expr>),
    /// `test` with a literal, compiled when it is read.
    Test(Regex),
    /// A function with its arguments.
    Call(Builtin, Vec<Expr>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// An arithmetic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arith {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arith {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Add, Self::Subtract, Self::Multiply, Self::Divide, Self::Modulo];

    /// How it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    Select,
    First,
    Last,
    Nth,
    Limit,
    RecurseBy,
    GetPath,
    OfType,
    Not,
    Type,
    Length,
    Keys,
    ToText,
    ToNumber,
    Downcase,
    Upcase,
    Any,
    All,
    IsEmpty,
    In,
    Map,
    Has,
    Contains,
    Inside,
    StartsWith,
    EndsWith,
    TrimStart,
    TrimEnd,
    Trim,
    Position,
    Split,
    Join,
    Add,
    Min,
    Max,
    Sort,
    Unique,
    Reverse,
    Flatten,
    Floor,
    Range,
    ToJson,
}

/// Functions by name and number of arguments.
pub const BUILTINS: &[(&str, usize, Builtin)] = &[
    ("select", 1, Builtin::Select),
    ("first", 1, Builtin::First),
    ("last", 1, Builtin::Last),
    ("nth", 1, Builtin::Nth),
    ("nth", 2, Builtin::Nth),
    ("limit", 2, Builtin::Limit),
    ("recurse", 1, Builtin::RecurseBy),
    ("recurse", 2, Builtin::RecurseBy),
    ("getpath", 1, Builtin::GetPath),
    ("not", 0, Builtin::Not),
    ("type", 0, Builtin::Type),
    ("length", 0, Builtin::Length),
    ("keys", 0, Builtin::Keys),
    ("keys_unsorted", 0, Builtin::Keys),
    ("tostring", 0, Builtin::ToText),
    ("tojson", 0, Builtin::ToJson),
    ("tonumber", 0, Builtin::ToNumber),
    ("ascii_downcase", 0, Builtin::Downcase),
    ("ascii_upcase", 0, Builtin::Upcase),
    ("any", 0, Builtin::Any),
    ("any", 1, Builtin::Any),
    ("any", 2, Builtin::Any),
    ("all", 0, Builtin::All),
    ("all", 1, Builtin::All),
    ("all", 2, Builtin::All),
    ("isempty", 1, Builtin::IsEmpty),
    ("IN", 1, Builtin::In),
    ("IN", 2, Builtin::In),
    ("map", 1, Builtin::Map),
    ("has", 1, Builtin::Has),
    ("contains", 1, Builtin::Contains),
    ("inside", 1, Builtin::Inside),
    ("startswith", 1, Builtin::StartsWith),
    ("endswith", 1, Builtin::EndsWith),
    ("ltrimstr", 1, Builtin::TrimStart),
    ("rtrimstr", 1, Builtin::TrimEnd),
    ("trim", 0, Builtin::Trim),
    ("index", 1, Builtin::Position),
    ("split", 1, Builtin::Split),
    ("join", 1, Builtin::Join),
    ("add", 0, Builtin::Add),
    ("min", 0, Builtin::Min),
    ("max", 0, Builtin::Max),
    ("sort", 0, Builtin::Sort),
    ("unique", 0, Builtin::Unique),
    ("reverse", 0, Builtin::Reverse),
    ("flatten", 0, Builtin::Flatten),
    ("floor", 0, Builtin::Floor),
    ("range", 1, Builtin::Range),
    ("range", 2, Builtin::Range),
];

/// Functions that select by type, with the types.
pub const OF_TYPE: &[(&str, &str)] = &[
    ("objects", "object"),
    ("arrays", "array"),
    ("strings", "string"),
    ("numbers", "number"),
    ("booleans", "boolean"),
    ("nulls", "null"),
    ("values", "object array string number boolean"),
    ("iterables", "object array"),
    ("scalars", "string number boolean null"),
];

impl Expr {
    /// Whether it is a path, and so may be deleted.
    pub fn is_path(&self) -> bool {
        match self {
            Self::Identity | Self::Recurse | Self::Empty => true,
            Self::Field(base, _)
            | Self::Index(base, _)
            | Self::Slice(base, _, _)
            | Self::Iterate(base)
            | Self::Try(base, None) => base.is_path(),
            Self::Try(one, Some(other))
            | Self::Pipe(one, other)
            | Self::Comma(one, other)
            | Self::Alternative(one, other) => one.is_path() && other.is_path(),
            Self::Bind(_, _, body) => body.is_path(),
            Self::If(branches, otherwise) => {
                branches.iter().all(|(_, then)| then.is_path()) && otherwise.is_path()
            }
            Self::Call(Builtin::First | Builtin::Last, arguments) => {
                arguments.iter().all(Self::is_path)
            }
            Self::Call(Builtin::Nth | Builtin::Limit, arguments) => {
                arguments.get(1).is_none_or(Self::is_path)
            }
            Self::Call(Builtin::RecurseBy, arguments) => {
                arguments.first().is_some_and(Self::is_path)
            }
            Self::Call(Builtin::Select | Builtin::GetPath | Builtin::OfType, _) => true,
            Self::Variable(_)
            | Self::Literal(_)
            | Self::List(_)
            | Self::Compare(..)
            | Self::Arith(..)
            | Self::And(..)
            | Self::Or(..)
            | Self::Test(_)
            | Self::Call(..) => false,
        }
    }
}
