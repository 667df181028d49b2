//! The tokens of a template.

/// Type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Eof,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    Str,
    Text,
    Variable,
    Dot,
    Nil,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A token with its position.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its type.
    pub kind: Kind,
    /// Byte offset of its start.
    pub pos: usize,
    /// Its text, or an error message.
    pub text: String,
    /// Line of its start, counted from 1.
    pub line: usize,
}

impl Item {
    /// The token in error messages.
    pub fn describe(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.text.clone(),
            Kind::Dot
            | Kind::Nil
            | Kind::Block
            | Kind::Break
            | Kind::Continue
            | Kind::Define
            | Kind::Else
            | Kind::End
            | Kind::If
            | Kind::Range
            | Kind::Template
            | Kind::With => format!("<{}>", self.text),
            _ if self.text.chars().count() > 10 => {
                format!("{:?}...", self.text.chars().take(10).collect::<String>())
            }
            _ => format!("{:?}", self.text),
        }
    }
}
