//! The syntax tree of a template. Nodes print like those of Go, since error messages
//! quote them.

use std::fmt;

use super::function::Function;

/// A byte offset in the text of the template.
pub(super) type Pos = usize;

/// A sequence of nodes.
#[derive(Debug, Default)]
pub(super) struct List {
    pub pos: Pos,
    pub nodes: Vec<Node>,
}

/// A node of the template.
#[derive(Debug)]
pub(super) enum Node {
    Text(Pos, String),
    Action(Pos, Pipe),
    If(Branch),
    Range(Branch),
    With(Branch),
    Template { pos: Pos, name: Vec<u8>, pipe: Option<Pipe> },
    Break(Pos),
    Continue(Pos),
}

/// The parts of `if`, `range` and `with`.
#[derive(Debug)]
pub(super) struct Branch {
    pub pipe: Pipe,
    pub list: List,
    pub otherwise: Option<List>,
}

/// A pipeline with the variables that it declares or sets.
#[derive(Debug)]
pub(super) struct Pipe {
    pub pos: Pos,
    /// `=` instead of `:=`.
    pub assign: bool,
    pub decl: Vec<String>,
    pub cmds: Vec<Cmd>,
}

/// A command: an operand, or a function or method with its arguments.
#[derive(Debug)]
pub(super) struct Cmd {
    pub pos: Pos,
    pub args: Vec<Arg>,
}

/// An operand.
#[derive(Debug)]
pub(super) enum Arg {
    Dot(Pos),
    Nil(Pos),
    Bool(Pos, bool),
    Number(Pos, Number),
    /// The text as written, and its value.
    Str(Pos, String, Vec<u8>),
    Field(Pos, Vec<String>),
    /// The variable's name with its `$`, then the fields.
    Variable(Pos, Vec<String>),
    Chain(Pos, Box<Arg>, Vec<String>),
    Func(Pos, &'static Function),
    Pipe(Pipe),
}

/// A number, with all types that its text can have.
#[derive(Clone, Debug, Default)]
pub(super) struct Number {
    pub text: String,
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
    pub complex: Option<(f64, f64)>,
}

impl Node {
    pub fn pos(&self) -> Pos {
        match self {
            Self::Text(pos, _) | Self::Action(pos, _) | Self::Break(pos) | Self::Continue(pos) => {
                *pos
            }
            Self::Template { pos, .. } => *pos,
            Self::If(branch) | Self::Range(branch) | Self::With(branch) => branch.pipe.pos,
        }
    }

    /// Whether it contains white space only, so that another definition can replace it.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(_, text) if text.trim().is_empty())
    }
}

impl Arg {
    pub fn pos(&self) -> Pos {
        match self {
            Self::Dot(pos)
            | Self::Nil(pos)
            | Self::Bool(pos, _)
            | Self::Number(pos, _)
            | Self::Str(pos, ..)
            | Self::Field(pos, _)
            | Self::Variable(pos, _)
            | Self::Chain(pos, ..)
            | Self::Func(pos, _) => *pos,
            Self::Pipe(pipe) => pipe.pos,
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().try_for_each(|node| node.fmt(f))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_, text) => f.write_str(text),
            Self::Action(_, pipe) => write!(f, "{{{{{pipe}}}}}"),
            Self::If(branch) => branch.write("if", f),
            Self::Range(branch) => branch.write("range", f),
            Self::With(branch) => branch.write("with", f),
            Self::Template { name, pipe, .. } => {
                write!(f, "{{{{template {:?}", String::from_utf8_lossy(name))?;
                if let Some(pipe) = pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
            Self::Break(_) => f.write_str("{{break}}"),
            Self::Continue(_) => f.write_str("{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{name} {}}}}}{}", self.pipe, self.list)?;
        if let Some(list) = &self.otherwise {
            write!(f, "{{{{else}}}}{list}")?;
        }
        f.write_str("{{end}}")
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.decl.is_empty() {
            write!(f, "{} {} ", self.decl.join(", "), if self.assign { "=" } else { ":=" })?;
        }
        for (i, cmd) in self.cmds.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            cmd.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            if matches!(arg, Arg::Pipe(_)) { write!(f, "({arg})")? } else { arg.fmt(f)? }
        }
        Ok(())
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot(_) => f.write_str("."),
            Self::Nil(_) => f.write_str("nil"),
            Self::Bool(_, yes) => yes.fmt(f),
            Self::Number(_, number) => f.write_str(&number.text),
            Self::Str(_, quoted, _) => f.write_str(quoted),
            Self::Field(_, names) => names.iter().try_for_each(|name| write!(f, ".{name}")),
            Self::Variable(_, names) => f.write_str(&names.join(".")),
            Self::Chain(_, inner, names) => {
                if matches!(**inner, Self::Pipe(_)) {
                    write!(f, "({inner})")?;
                } else {
                    inner.fmt(f)?;
                }
                names.iter().try_for_each(|name| write!(f, ".{name}"))
            }
            Self::Func(_, function) => f.write_str(function.name),
            Self::Pipe(pipe) => pipe.fmt(f),
        }
    }
}
