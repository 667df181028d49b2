//! Reads the fields of a provider: a field that is misspelt or of another type is an error,
//! since one that is ignored may be the token or the filter.

use serde_json::{Map, Value};

use super::element::{Failure, join, kind};
use crate::desired::queries::KeyRef;

/// The fields of an object.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: String,
}

impl<'a> Fields<'a> {
    /// The fields of an object at `place`, which has only these.
    pub fn of(value: &'a Value, place: &str, known: &[&str]) -> Result<Self, Failure> {
        let Value::Object(object) = value else {
            return Err(Failure::new(place, format!("must be an object, is {}", kind(value))));
        };
        if let Some(unknown) = object.keys().find(|key| !known.contains(&key.as_str())) {
            let cause = format!("is not a field of it; its fields are {}", known.join(", "));
            return Err(Failure::new(join(place, unknown), cause));
        }
        Ok(Self { object, place: place.to_owned() })
    }

    fn failure(&self, key: &str, cause: impl Into<String>) -> Failure {
        Failure::new(join(&self.place, key), cause)
    }

    /// The failure of a field that must be there.
    pub fn missing(&self, key: &str) -> Failure {
        self.failure(key, "is missing")
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A text; `None` when it is absent.
    pub fn optional(&self, key: &str) -> Result<Option<String>, Failure> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.failure(key, format!("must be a string, is {}", kind(other)))),
        }
    }

    /// A text; empty when it is absent.
    pub fn text(&self, key: &str) -> Result<String, Failure> {
        self.optional(key).map(Option::unwrap_or_default)
    }

    /// A text that must be there.
    pub fn required(&self, key: &str) -> Result<String, Failure> {
        let text = self.text(key)?;
        match text.trim().is_empty() {
            true => Err(self.missing(key)),
            false => Ok(text),
        }
    }

    /// A switch; `default` when it is absent.
    pub fn switch(&self, key: &str, default: bool) -> Result<bool, Failure> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.failure(key, format!("must be a boolean, is {}", kind(other)))),
        }
    }

    /// A list of texts; empty when it is absent.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Failure> {
        let list = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => {
                return Err(self.failure(key, format!("must be a list, is {}", kind(other))));
            }
        };
        let text = |(index, item): (usize, &Value)| match item {
            Value::String(text) => Ok(text.clone()),
            other => {
                let key = format!("{key}[{index}]");
                Err(self.failure(&key, format!("must be a string, is {}", kind(other))))
            }
        };
        list.iter().enumerate().map(text).collect()
    }

    /// A list of objects, each with its place; empty when it is absent.
    pub fn objects(&self, key: &str) -> Result<Vec<(String, &'a Value)>, Failure> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let place = join(&self.place, key);
                let items = list.iter().enumerate();
                Ok(items.map(|(index, item)| (format!("{place}[{index}]"), item)).collect())
            }
            Some(other) => Err(self.failure(key, format!("must be a list, is {}", kind(other)))),
        }
    }

    /// The fields of an object within it, which has only these; `None` when it is absent.
    pub fn inner(&self, key: &str, known: &[&str]) -> Result<Option<Self>, Failure> {
        let place = join(&self.place, key);
        self.get(key).map(|value| Self::of(value, &place, known)).transpose()
    }

    /// A key of a Secret.
    pub fn secret(&self, key: &str) -> Result<Option<KeyRef>, Failure> {
        self.key_ref(key, "secretName")
    }

    /// A key of a ConfigMap.
    pub fn config_map(&self, key: &str) -> Result<Option<KeyRef>, Failure> {
        self.key_ref(key, "configMapName")
    }

    fn key_ref(&self, key: &str, name: &str) -> Result<Option<KeyRef>, Failure> {
        let Some(fields) = self.inner(key, &[name, "key"])? else { return Ok(None) };
        Ok(Some(KeyRef { name: fields.required(name)?, key: fields.required("key")? }))
    }
}
