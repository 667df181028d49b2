//! Why a service gave no answer.

use jiff::Timestamp;

/// Why a service gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The reason, for users, without credentials.
    pub text: String,
    /// What follows from it.
    pub kind: ProviderErrorKind,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// What was asked for does not exist, or must not be seen.
    NotFound,
    /// No request may be sent before this time.
    Limited(Timestamp),
    /// There were too many requests: it may be sent again after a moment.
    Throttled,
    /// Anything else.
    Other,
}

impl ProviderError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: ProviderErrorKind::Other }
    }

    /// The same failure of something larger.
    pub(super) fn of(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.kind == ProviderErrorKind::NotFound
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.kind == ProviderErrorKind::Throttled
    }

    /// When a request may be sent again; `None` at any time.
    pub fn until(&self) -> Option<Timestamp> {
        match self.kind {
            ProviderErrorKind::Limited(until) => Some(until),
            ProviderErrorKind::NotFound
            | ProviderErrorKind::Throttled
            | ProviderErrorKind::Other => None,
        }
    }
}

/// `None` for something that does not exist.
pub(super) fn existing<T>(read: Result<T, ProviderError>) -> Result<Option<T>, ProviderError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}
