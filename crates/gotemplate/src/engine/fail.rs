//! Why functions fail, and what they return.

use super::value::Value;

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
