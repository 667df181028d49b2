//! Fields of a source that are refused when they have another type, by a message that names them:
//! what the definition does not check, or a file of the repository sets.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A field as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub(crate) enum Given<T> {
    /// It has the right type.
    Right(T),
    /// It is absent or null.
    #[default]
    Absent,
    /// It has another type.
    Wrong(IgnoredAny),
}

impl<T> Given<T> {
    /// The value, when it has the right type.
    pub(crate) fn right(self) -> Option<T> {
        match self {
            Self::Right(value) => Some(value),
            Self::Absent | Self::Wrong(_) => None,
        }
    }

    /// The value; `None` when it is absent.
    pub(crate) fn or_wrong<E>(self, wrong: impl FnOnce() -> E) -> Result<Option<T>, E> {
        match self {
            Self::Right(value) => Ok(Some(value)),
            Self::Absent => Ok(None),
            Self::Wrong(_) => Err(wrong()),
        }
    }
}

/// A variable of a plugin or of Jsonnet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    name: Given<String>,
    value: Given<String>,
    pub code: Given<bool>,
}

impl Variable {
    /// Name and value; `wrong` makes an error of what is wrong.
    pub(crate) fn parts<E>(&mut self, wrong: impl Fn(&str) -> E) -> Result<(String, String), E> {
        let name = std::mem::take(&mut self.name).right().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong("name is missing"))?;
        let value = std::mem::take(&mut self.value).or_wrong(|| wrong("value is not a string"))?;
        Ok((name, value.unwrap_or_default()))
    }
}
