//! Errors of templates, with their position.

/// The kind of a failed execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// A key or a field does not exist.
    Missing,
    /// A limit was exceeded.
    Limit,
    /// Anything else.
    Other,
}

/// A key that a map does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEntry {
    /// The key.
    pub key: String,
    /// The first keys that it has, in order, at most [`NoEntry::MOST`].
    pub known: Vec<String>,
    /// How many it has.
    pub count: usize,
}

impl NoEntry {
    /// The most keys that are named.
    pub const MOST: usize = 20;
}

/// Why a template could not be parsed or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template has a syntax error; parse errors have a line only.
    #[error("template: {name}:{line}: {message}")]
    Parse {
        /// Name of the template, mostly empty.
        name: String,
        /// Line, from 1.
        line: usize,
        /// The problem.
        message: String,
    },
    /// The template failed for these parameters.
    #[error("template: {name}:{line}:{column}: executing {name:?} at <{context}>: {message}")]
    Execute {
        /// Name of the template, mostly empty.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 0.
        column: usize,
        /// The part of the template that failed.
        context: String,
        /// The problem.
        message: String,
        /// What kind of failure it is.
        fault: TemplateFault,
        /// The key that a map does not have, if that is the problem.
        missing: Option<Box<NoEntry>>,
    },
    /// An unknown option.
    #[error(
        "unrecognized template option {option:?}: use missingkey=default, missingkey=zero or missingkey=error"
    )]
    Option {
        /// The given option.
        option: String,
    },
    /// A `{{` without `}}` in a template of the simple engine.
    #[error("template: line {line}: {{{{ without closing }}}}")]
    Unclosed {
        /// Line of the `{{`, from 1.
        line: usize,
    },
    /// The output of a template of the simple engine exceeds the limit.
    #[error("template: limit exceeded: output longer than {max_bytes} bytes")]
    TooLong {
        /// The limit.
        max_bytes: usize,
    },
}

impl TemplateError {
    /// The line of the error, counted from 1, if known.
    pub const fn line(&self) -> Option<usize> {
        match self {
            Self::Parse { line, .. } | Self::Execute { line, .. } | Self::Unclosed { line } => {
                Some(*line)
            }
            Self::Option { .. } | Self::TooLong { .. } => None,
        }
    }

    /// Whether a limit was exceeded: the same template fails in the same way for nearly all parameters.
    pub const fn is_limit(&self) -> bool {
        match self {
            Self::Execute { fault, .. } => matches!(fault, TemplateFault::Limit),
            Self::TooLong { .. } => true,
            Self::Parse { .. } | Self::Option { .. } | Self::Unclosed { .. } => false,
        }
    }

    /// Whether a key or a field does not exist: other parameters may have it.
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Execute { fault: TemplateFault::Missing, .. })
    }

    /// The key that a map does not have, if that is the problem.
    pub fn no_entry(&self) -> Option<&NoEntry> {
        match self {
            Self::Execute { missing, .. } => missing.as_deref(),
            _ => None,
        }
    }

    /// The column of the error in bytes, counted from 0, if known.
    pub const fn column(&self) -> Option<usize> {
        match self {
            Self::Execute { column, .. } => Some(*column),
            _ => None,
        }
    }
}
