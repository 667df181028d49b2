//! The values of a template, with Go's types.
//!
//! A number in the parameters is a float64, a literal `3` is an int, and `eq` does not
//! compare them, so types are kept. An absent value and a nil differ in field access and
//! function calls, so both exist. Text is bytes, as in Go, since functions such as
//! `trunc` may split a character.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::gotime::GoTime;
use super::version::Version;

/// A value; cloning is cheap and shares lists and dicts.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// No value, such as a missing key.
    Absent,
    /// A nil value, such as a JSON null.
    Nil,
    Bool(bool),
    Int(IntKind, i64),
    Uint(UintKind, u64),
    Float(f64),
    Complex(f64, f64),
    Str(Str),
    List(List),
    Dict(Dict),
    Time(Rc<GoTime>),
    Version(Rc<Version>),
    #[cfg_attr(not(feature = "sprig-crypto"), allow(dead_code))]
    Certificate(Rc<Certificate>),
}

/// The signed integer types in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntKind {
    Int,
    Int64,
    Duration,
    Month,
    Weekday,
}

/// The unsigned integer types in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UintKind {
    Uint8,
    Uint64,
}

/// Text: bytes, almost always UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Str(Rc<[u8]>);

impl Str {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with U+FFFD for invalid UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        valid_text(&self.0)
    }
}

/// Bytes as text. As in Go, U+FFFD stands for each byte of what is not UTF-8, such as of a
/// character that was cut.
pub(crate) fn valid_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 2);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

impl std::fmt::Debug for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// A certificate with its private key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub cert: Str,
    pub key: Str,
}

impl Certificate {
    /// The name of the Go type.
    pub const TYPE: &str = "sprig.certificate";

    /// A field of the Go type.
    pub fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The fields of the Go type in their order.
    pub fn fields(&self) -> [(&'static str, Value); 2] {
        [("Cert", Value::Str(self.cert.clone())), ("Key", Value::Str(self.key.clone()))]
    }
}

/// The element type of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elem {
    Any,
    Str,
    Int,
    /// Lists of any type, as returned by `chunk`.
    List,
}

/// A list; immutable.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub elem: Elem,
    /// A Go nil slice, which prints as `[]` but is `null` in JSON.
    pub nil: bool,
    items: Rc<Items>,
}

#[derive(Debug)]
struct Items(Vec<Value>);

impl List {
    pub fn new(elem: Elem, items: Vec<Value>) -> Self {
        Self { elem, nil: false, items: Rc::new(Items(items)) }
    }

    pub fn nil(elem: Elem) -> Self {
        Self { elem, nil: true, items: Rc::new(Items(Vec::new())) }
    }

    pub fn items(&self) -> &[Value] {
        &self.items.0
    }
}

/// A map with string keys; functions such as `set` change it for all references.
#[derive(Clone, Debug)]
pub(crate) struct Dict {
    /// Whether its values are strings (`split`) instead of any type.
    pub text: bool,
    /// A Go nil map.
    pub nil: bool,
    entries: Rc<Entries>,
}

#[derive(Debug)]
struct Entries(RefCell<BTreeMap<String, Value>>);

impl Dict {
    pub fn new(entries: BTreeMap<String, Value>) -> Self {
        Self { text: false, nil: false, entries: Rc::new(Entries(RefCell::new(entries))) }
    }

    pub fn of_text(entries: BTreeMap<String, Value>) -> Self {
        Self { text: true, ..Self::new(entries) }
    }

    pub fn nil() -> Self {
        Self { nil: true, ..Self::new(BTreeMap::new()) }
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        self.entries.0.borrow().get(key).cloned()
    }

    pub fn has(&self, key: &str) -> bool {
        self.entries.0.borrow().contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.entries.0.borrow().len()
    }

    /// At most so many keys, in order.
    pub fn first_keys(&self, most: usize) -> Vec<String> {
        self.entries.0.borrow().keys().take(most).cloned().collect()
    }

    /// Sets a key. The caller registers the dict with the run first, since this can
    /// create a cycle.
    pub fn insert(&self, key: String, value: Value) {
        let old = self.entries.0.borrow_mut().insert(key, value);
        drop(old);
    }

    pub fn remove(&self, key: &str) {
        let old = self.entries.0.borrow_mut().remove(key);
        drop(old);
    }

    /// Removes all entries, which breaks cycles through this dict.
    pub fn clear(&self) {
        let old = std::mem::take(&mut *self.entries.0.borrow_mut());
        drop(Entries(RefCell::new(old)));
    }

    /// The current entries, in key order. See [`Run::entries`](super::run::Run::entries),
    /// which charges for it.
    pub(super) fn copy(&self) -> Vec<(String, Value)> {
        self.entries.0.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The total length of all keys, in bytes.
    pub(super) fn key_bytes(&self) -> usize {
        self.entries.0.borrow().keys().map(String::len).sum()
    }

    /// Where it is: the same for all references to it, and for no other dict while it lives.
    pub fn address(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }

    /// Whether both are the same dict, not only equal.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
    }
}

// Values can be nested deeply, so dropping must not recurse: unshared values are moved to
// a list of values to drop.
impl Drop for Items {
    fn drop(&mut self) {
        drop_flat(std::mem::take(&mut self.0));
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        drop_flat(std::mem::take(self.0.get_mut()).into_values().collect());
    }
}

fn drop_flat(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(mut list) => {
                if let Some(items) = Rc::get_mut(&mut list.items) {
                    pending.append(&mut items.0);
                }
            }
            Value::Dict(mut dict) => {
                if let Some(entries) = Rc::get_mut(&mut dict.entries) {
                    pending.extend(std::mem::take(entries.0.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

impl Value {
    pub fn str(text: impl AsRef<[u8]>) -> Self {
        Self::Str(Str(text.as_ref().into()))
    }

    pub const fn int(n: i64) -> Self {
        Self::Int(IntKind::Int, n)
    }

    pub const fn int64(n: i64) -> Self {
        Self::Int(IntKind::Int64, n)
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(Elem::Any, items))
    }

    /// A list of text (`[]string`).
    pub fn strings<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(List::new(Elem::Str, items.into_iter().map(Self::str).collect()))
    }

    pub fn dict(entries: BTreeMap<String, Self>) -> Self {
        Self::Dict(Dict::new(entries))
    }

    /// Takes over JSON: every number becomes a float64, as in Go.
    pub fn from_json(json: &serde_json::Value) -> Self {
        Self::from_typed(json, &[])
    }

    /// As [`Self::from_json`]; the objects at the paths `texts` are maps of strings.
    pub fn from_object(
        map: &serde_json::Map<String, serde_json::Value>,
        texts: &[&[&str]],
    ) -> Self {
        let is_text = texts.iter().any(|path| path.is_empty());
        let entries = map
            .iter()
            .map(|(key, value)| (key.clone(), Self::from_typed(value, &below(texts, key))));
        if is_text && map.values().all(serde_json::Value::is_string) {
            return Self::Dict(Dict::of_text(entries.collect()));
        }
        Self::dict(entries.collect())
    }

    fn from_typed(json: &serde_json::Value, texts: &[&[&str]]) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Self::Nil,
            Json::Bool(b) => Self::Bool(*b),
            Json::Number(n) => Self::Float(n.as_f64().unwrap_or(f64::NAN)),
            Json::String(s) => Self::str(s),
            Json::Array(items) => {
                let texts = below(texts, "*");
                Self::list(items.iter().map(|item| Self::from_typed(item, &texts)).collect())
            }
            Json::Object(map) => Self::from_object(map, texts),
        }
    }

    /// How many bytes of text it is, 0 for what is no text.
    pub fn text_len(&self) -> usize {
        if let Self::Str(text) = self { text.bytes().len() } else { 0 }
    }

    /// Go's truth: zero, empty and nil are false (AS-122).
    pub fn truth(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(_, n) => *n != 0,
            Self::Uint(_, n) => *n != 0,
            Self::Float(f) => *f != 0.0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::Str(s) => !s.bytes().is_empty(),
            Self::List(list) => !list.items().is_empty(),
            Self::Dict(dict) => dict.len() > 0,
            Self::Time(_) | Self::Version(_) | Self::Certificate(_) => true,
        }
    }

    /// Whether it is nil once passed as an argument.
    pub const fn is_nil(&self) -> bool {
        matches!(self, Self::Absent | Self::Nil)
    }

    /// What a Go `interface{}` argument holds: an absent value is nil.
    pub fn or_nil(self) -> Self {
        if matches!(self, Self::Absent) { Self::Nil } else { self }
    }

    /// The name of the Go type, as `%T` and `typeOf` print it.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(IntKind::Int, _) => "int",
            Self::Int(IntKind::Int64, _) => "int64",
            Self::Int(IntKind::Duration, _) => "time.Duration",
            Self::Int(IntKind::Month, _) => "time.Month",
            Self::Int(IntKind::Weekday, _) => "time.Weekday",
            Self::Uint(UintKind::Uint8, _) => "uint8",
            Self::Uint(UintKind::Uint64, _) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Str(_) => "string",
            Self::List(list) => list.elem.list_type(),
            Self::Dict(dict) if dict.text => "map[string]string",
            Self::Dict(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
            Self::Certificate(_) => Certificate::TYPE,
        }
    }

    /// The name of the Go kind, as `kindOf` prints it.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Absent | Self::Nil => "invalid",
            Self::Int(IntKind::Int | IntKind::Month | IntKind::Weekday, _) => "int",
            Self::Int(IntKind::Int64 | IntKind::Duration, _) => "int64",
            Self::List(_) => "slice",
            Self::Dict(_) => "map",
            Self::Time(_) | Self::Certificate(_) => "struct",
            Self::Version(_) => "ptr",
            _ => self.type_name(),
        }
    }
}

impl Elem {
    /// The Go type of a list of these.
    pub const fn list_type(self) -> &'static str {
        match self {
            Self::Any => "[]interface {}",
            Self::Str => "[]string",
            Self::Int => "[]int",
            Self::List => "[][]interface {}",
        }
    }
}

/// What follows the first name of the paths that begin with it.
fn below<'a>(paths: &[&'a [&'a str]], name: &str) -> Vec<&'a [&'a str]> {
    paths
        .iter()
        .filter_map(|path| path.split_first().filter(|(first, _)| **first == name))
        .map(|(_, rest)| rest)
        .collect()
}
