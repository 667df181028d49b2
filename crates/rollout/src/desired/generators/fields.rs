//! Reads the fields of a provider: a field that is misspelt or of another type is an error,
//! since one that is ignored may be the token or the filter.

use serde_json::Value;

use super::element::{Failure, join, list_of, object, switch, text, texts_of};
use crate::desired::queries::KeyRef;

/// The fields of an object.
pub(super) struct Fields<'a> {
    value: &'a Value,
    place: String,
}

impl<'a> Fields<'a> {
    /// The fields of an object at `place`, which has only these.
    pub fn of(value: &'a Value, place: &str, known: &[&str]) -> Result<Self, Failure> {
        let object = object(value, place)?;
        if let Some(unknown) = object.keys().find(|key| !known.contains(&key.as_str())) {
            let cause = format!("is not a field of it; its fields are {}", known.join(", "));
            return Err(Failure::new(join(place, unknown), cause));
        }
        Ok(Self { value, place: place.to_owned() })
    }

    fn read<T>(&self, read: Result<T, Failure>) -> Result<T, Failure> {
        read.map_err(|failure| failure.below(&self.place))
    }

    /// The failure of a field that must be there.
    pub fn missing(&self, key: &str) -> Failure {
        Failure::new(join(&self.place, key), "is missing")
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// A text; `None` when it is absent.
    pub fn optional(&self, key: &str) -> Result<Option<String>, Failure> {
        let text = self.text(key)?;
        Ok(self.get(key).map(|_| text))
    }

    /// A text; empty when it is absent.
    pub fn text(&self, key: &str) -> Result<String, Failure> {
        self.read(text(self.value, key)).map(str::to_owned)
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
        self.read(switch(self.value, key, default))
    }

    /// A list of texts; empty when it is absent.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Failure> {
        let texts = self.read(texts_of(self.value, key))?;
        Ok(texts.into_iter().map(str::to_owned).collect())
    }

    /// A list of objects, each with its place; empty when it is absent.
    pub fn objects(&self, key: &str) -> Result<Vec<(String, &'a Value)>, Failure> {
        let place = join(&self.place, key);
        let items = self.read(list_of(self.value, key))?.iter().enumerate();
        Ok(items.map(|(index, item)| (format!("{place}[{index}]"), item)).collect())
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
