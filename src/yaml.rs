//! YAML in and out, the way Kubernetes reads and prints it.
//!
//! This is the one place that knows which YAML library is used. What goes in
//! and out are [`serde_json::Value`]s, since that is what a Kubernetes object is.
//!
//! Reading follows what `kubectl` does with a manifest: YAML 1.1 booleans
//! (`yes`, `on`, …), octal numbers with a leading zero, keys that are no
//! strings become strings, and a float without a fraction becomes an integer.
//! Of a key that is repeated the last value counts, and [`Document::repeated`]
//! says so. Input is not trusted: depth, number of values, the memory that they
//! take and the expansion of aliases are bounded, for JSON as for YAML. Nothing
//! here reads a file, and no tag or include makes it do so.

mod node;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options, Spanned};

pub use node::weight;
use node::{Budget, Node, OVER_LIMIT};

/// How deep mappings and lists may be nested. Kubernetes objects stay below 40;
/// each level takes some 20 kB of stack in a debug build.
pub const MAX_DEPTH: usize = 64;
/// How many scalars, lists and mappings one document may hold, aliases expanded.
pub const MAX_NODES: usize = 500_000;
/// How much memory the values of one text may take, in bytes, as [`weight`]
/// counts: 10 MB of usual manifests take some 100 MB.
pub const MAX_MEMORY: u64 = 256 << 20;
/// How many parser events the aliases of one text may add.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// One document of a text, and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Line of its first content, 1 for the first line of the text.
    pub line: usize,
    /// Its content; never null, since empty documents are left out.
    pub value: Value,
    /// Keys that are there twice, the first ten; the last value counts.
    pub repeated: Vec<Repeated>,
}

/// A key that its mapping holds twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The key with those above it, such as `metadata.labels.app`.
    pub path: String,
    /// Line of the later one, counted from 1 in the whole text.
    pub line: usize,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: key {:?} is there twice, the last one counts; remove the other",
            self.line, self.path
        )
    }
}

/// Why a text could not be read or a value not be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML, or more than is allowed.
    #[error("line {line}, column {column}: {reason}")]
    At {
        /// Line, counted from 1 in the whole text.
        line: u64,
        /// Column, counted from 1.
        column: u64,
        /// What is wrong there.
        reason: String,
    },
    /// As [`Error::At`], where no place is known.
    #[error("{reason}")]
    Somewhere {
        /// What is wrong.
        reason: String,
    },
    /// The bytes are neither UTF-8 nor marked as UTF-16.
    #[error("byte {offset}: not UTF-8 text")]
    Encoding {
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// [`value`] was given no document or several.
    #[error("expected one document, found {found}")]
    Count {
        /// How many documents there are.
        found: usize,
    },
}

impl Error {
    /// Whether the text may be right, and is only more than is allowed.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::At { reason, .. } | Self::Somewhere { reason } if reason.starts_with(OVER_LIMIT))
    }
}

/// Bytes as text: UTF-8 with or without a byte order mark, or UTF-16 with one.
///
/// Fails with [`Error::Encoding`] on anything else.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let units = |pair: fn([u8; 2]) -> u16| bytes[2..].chunks(2).map(move |c| (c, pair));
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some(units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some(units(u16::from_be_bytes)),
        _ => None,
    };
    let Some(units) = utf16 else {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Error::Encoding { offset: error.valid_up_to() })?;
        return Ok(Cow::Borrowed(without_mark(text)));
    };
    let mut text = String::with_capacity(bytes.len());
    let whole = units.map(|(chunk, pair)| match chunk {
        [a, b] => pair([*a, *b]),
        // A lone surrogate: an odd last byte is as wrong as one.
        _ => 0xd800,
    });
    for (index, unit) in char::decode_utf16(whole).enumerate() {
        text.push(unit.map_err(|_| Error::Encoding { offset: 2 + 2 * index })?);
    }
    Ok(Cow::Owned(text))
}

/// All documents of a YAML or JSON text, in order.
///
/// Documents that are empty, `null` or only a comment are left out. The first
/// mistake fails the whole text: half a manifest is worse than none.
pub fn documents(text: &str) -> Result<Vec<Document>, Error> {
    documents_within(text, MAX_MEMORY)
}

/// As [`documents`], with another limit than [`MAX_MEMORY`].
pub fn documents_within(text: &str, memory: u64) -> Result<Vec<Document>, Error> {
    let text = without_mark(text);
    if text.trim_start().starts_with(['{', '[']) {
        match json_documents(text, memory) {
            Ok(documents) => return Ok(documents),
            // YAML in flow style starts like JSON too, and tells the place.
            Err(JsonError::Syntax) => {}
            Err(JsonError::Limit(error)) => return Err(error),
        }
    }
    yaml_documents(text, memory)
}

/// The one value of a JSON text, and the text behind it (SE-100).
///
/// # Errors
///
/// [`Error::At`] when it is no JSON, or more than [`MAX_NODES`] or
/// [`MAX_MEMORY`] allow; [`Error::Count`] when there is nothing.
pub fn json(text: &str, memory: u64) -> Result<(Document, &str), Error> {
    let text = without_mark(text);
    let _budget = Budget::new(memory, MAX_NODES);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node<false>>();
    let node = match stream.next() {
        None => return Err(Error::Count { found: 0 }),
        Some(Err(error)) => return Err(from_json(&error)),
        Some(Ok(node)) => node,
    };
    let (read, rest) = text.split_at(stream.byte_offset());
    let line = line_of(text, 0);
    let repeated = located(read, node.repeated, line);
    Ok((Document { line, value: node.value, repeated }, rest))
}

fn yaml_documents(text: &str, memory: u64) -> Result<Vec<Document>, Error> {
    match read::<false>(text, memory) {
        Err(Stop::Repeated) => {}
        Err(Stop::Error(error)) => return Err(error),
        Ok(documents) => return Ok(documents),
    }
    // Once more, with the place of every key: that takes twice the time.
    read::<true>(text, memory).map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Repeated => Error::Somewhere { reason: "a key is there twice".to_owned() },
    })
}

enum Stop {
    /// A key is there twice.
    Repeated,
    Error(Error),
}

/// Reads all documents; with places, a key may be repeated.
fn read<const PLACES: bool>(text: &str, memory: u64) -> Result<Vec<Document>, Stop> {
    let budget = Budget::new(memory, usize::MAX);
    let mut bytes = text.as_bytes();
    let mut documents = Vec::new();
    let mut options = options();
    if PLACES {
        options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    }
    for document in serde_saphyr::read_with_options::<_, Spanned<Node<PLACES>>>(&mut bytes, options)
    {
        let document = document.map_err(|error| match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { .. } if !PLACES => Stop::Repeated,
            _ => Stop::Error(from_saphyr(&error)),
        })?;
        let line = usize::try_from(document.referenced.line()).unwrap_or(usize::MAX);
        let Node { value, repeated } = document.value;
        if !PLACES && !repeated.is_empty() {
            return Err(Stop::Repeated);
        }
        if !value.is_null() {
            documents.push(Document { line, value, repeated });
        }
    }
    drop(budget);
    Ok(documents)
}

/// The only document of a text; [`Error::Count`] when there is none or more. A
/// repeated key is an error here, since the caller has no place for warnings.
pub fn value(text: &str) -> Result<Value, Error> {
    let mut documents = documents(text)?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => match document.repeated.first() {
            None => Ok(document.value),
            Some(Repeated { path, line }) => {
                let reason = format!("line {line}: key {path:?} is there twice; remove one");
                Err(Error::Somewhere { reason })
            }
        },
        (last, others) => Err(Error::Count { found: others + usize::from(last.is_some()) }),
    }
}

/// A value as YAML: keys sorted, block style, two spaces, lists not indented,
/// strings quoted where a YAML 1.1 reader would take them for something else.
///
/// Ends with a newline and has no `---`. Reading it gives the same value,
/// floats without a fraction apart. Fails only on what JSON cannot hold.
pub fn to_string(value: &Value) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay whole, as kubectl has them.
        min_fold_chars: usize::MAX,
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Error::Somewhere { reason: error.to_string() })
}

/// Several values as one YAML text, `---` between them.
pub fn to_string_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<String, Error> {
    let texts: Vec<String> = values.into_iter().map(to_string).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// The text without the byte order mark that some editors put first.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

enum JsonError {
    Syntax,
    Limit(Error),
}

fn from_json(error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    let tail = format!(" at line {line} column {column}");
    let reason = text.strip_suffix(&tail).unwrap_or(&text).to_owned();
    Error::At { line: line as u64, column: column as u64, reason }
}

/// The text read as a series of JSON values.
fn json_documents(text: &str, memory: u64) -> Result<Vec<Document>, JsonError> {
    let budget = Budget::new(memory, MAX_NODES);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node<false>>();
    let mut documents = Vec::new();
    loop {
        let from = stream.byte_offset();
        let Some(node) = stream.next() else { return Ok(documents) };
        let node = node.map_err(|error| match from_json(&error) {
            // What serde_json itself says never begins like this.
            Error::At { reason, line, column } if reason.starts_with(OVER_LIMIT) => {
                JsonError::Limit(Error::At { reason, line, column })
            }
            _ => JsonError::Syntax,
        })?;
        let line = line_of(text, from);
        if !node.value.is_null() {
            let repeated = located(&text[from..stream.byte_offset()], node.repeated, line);
            documents.push(Document { line, value: node.value, repeated });
        }
        // The memory is shared by all, the number of values is not.
        budget.renew(MAX_NODES);
    }
}

/// The line of the first content from an offset on.
fn line_of(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let start = text.len() - rest.trim_start().len();
    1 + text[..start].matches('\n').count()
}

/// Finds the lines of repeated keys of a JSON text that starts at `line`, by
/// reading it as YAML; where that fails they are at its first line.
fn located(text: &str, repeated: Vec<Repeated>, line: usize) -> Vec<Repeated> {
    if repeated.is_empty() {
        return repeated;
    }
    let text = text.trim_start();
    match read::<true>(text, MAX_MEMORY).ok().and_then(|mut documents| documents.pop()) {
        Some(document) if document.repeated.len() == repeated.len() => {
            let moved = |found: Repeated| Repeated { line: found.line + line - 1, ..found };
            document.repeated.into_iter().map(moved).collect()
        }
        _ => repeated.into_iter().map(|found| Repeated { line, ..found }).collect(),
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 100_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_EVENTS,
            max_replay_stack_depth: 32,
        },
        legacy_octal_numbers: true,
        merge_keys: MergeKeyPolicy::Merge,
        emit_comments: false,
        with_snippet: false,
    }
}

fn from_saphyr(error: &serde_saphyr::Error) -> Error {
    let error = error.without_snippet();
    let reason = error.to_string();
    let Some(place) = error.location() else { return Error::Somewhere { reason } };
    let (line, column) = (place.line(), place.column());
    let tail = format!(" at line {line}, column {column}");
    let reason = reason.strip_suffix(&tail).unwrap_or(&reason).to_owned();
    Error::At { line, column, reason }
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
