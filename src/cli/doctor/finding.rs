//! What goes wrong.

use serde::Serialize;

use crate::cli::console::error::Error;

/// How grave a finding is, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Something does not work, or is not safe.
    Error,
    /// Something may not do what who wrote it expects.
    Warning,
    /// Worth knowing.
    Hint,
}

impl Severity {
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Hint];

    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }

    pub fn counted(self, count: usize) -> String {
        format!("{count} {}{}", self.word(), if count == 1 { "" } else { "s" })
    }
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    pub severity: Severity,
    /// The object or setting.
    pub about: String,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl Finding {
    pub fn error(about: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { severity: Severity::Error, about: about.into(), problem: problem.into() }
    }

    pub fn warning(about: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, about: about.into(), problem: problem.into() }
    }

    pub fn hint(about: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { severity: Severity::Hint, about: about.into(), problem: problem.into() }
    }

    /// Of something that cannot be read, so that it is not known whether it is in order.
    pub fn unread(error: &Error) -> Self {
        Self::warning("not checked", error.to_string())
    }
}

/// The findings of a part, or that it cannot be read.
pub(super) fn or_unread(found: Result<Vec<Finding>, Error>) -> Vec<Finding> {
    found.unwrap_or_else(|error| vec![Finding::unread(&error)])
}
