//! Reads and writes YAML as Kubernetes does.
//!
//! The only module that uses the YAML library. Values are [`serde_json::Value`]s, since a
//! Kubernetes object is JSON.
//!
//! Reading follows `kubectl`: YAML 1.1 booleans (`yes`, `on`, …), octal numbers with a
//! leading zero, keys that are not strings become strings, and a float without a fraction
//! becomes an integer. Of a duplicate key the last value is used, which
//! [`Document::repeated`] reports. Input is not trusted: depth, number of values, memory
//! and the expansion of aliases are limited, for JSON as for YAML. No tag or include
//! reads a file. Quoted scalars may continue at any indentation (SE-099).

mod node;
mod quoted;
mod repeated;

use std::borrow::Cow;

use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options, Spanned};

use node::{Budget, Node};
pub use node::{MAX_NODES, map_weight, value_weight};
pub use repeated::Repeated;

/// Limit on nested mappings and lists. Kubernetes objects stay below 40; each level takes
/// about 20 kB of stack in a debug build.
pub const MAX_DEPTH: usize = 64;
/// Limit on the memory of the values of one text, in bytes, as counted by [`value_weight`]: 10
/// MB of typical manifests take about 100 MB.
pub const MAX_MEMORY: u64 = 256 << 20;
/// Limit on the parser events that the aliases of one text may add.
const MAX_ALIAS_EVENTS: usize = 100_000;
/// Limit on aliases within aliases.
const MAX_ALIAS_DEPTH: usize = 32;
/// What the parser says about flow collections beyond [`MAX_DEPTH`].
const NESTED: &str = "recursion limit exceeded";
/// Limit on the documents of one text.
const MAX_DOCUMENTS: usize = 100_000;
/// The memory of a [`Document`] beside its value, in a list of which half may be unused.
const DOCUMENT_WEIGHT: u64 = 2 * size_of::<Document>() as u64;

/// One document of a text, and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// First line of its content, counted from 1.
    pub line: usize,
    /// Its content; never null, since empty documents are skipped.
    pub value: Value,
    /// Duplicate keys, the first ten; the last value is used.
    pub repeated: Vec<Repeated>,
}

/// Why a text could not be parsed or a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The text is not valid YAML, or exceeds a limit.
    #[error("line {line}, column {column}: {reason}")]
    At {
        /// Line, counted from 1 in the whole text.
        line: u64,
        /// Column, counted from 1.
        column: u64,
        /// The problem.
        reason: String,
        /// Whether the text only exceeds a limit.
        limit: bool,
    },
    /// Like [`YamlError::At`], without a position.
    #[error("{reason}")]
    Somewhere {
        /// The problem.
        reason: String,
        /// Whether the text only exceeds a limit.
        limit: bool,
    },
    /// The bytes are neither UTF-8 nor UTF-16 with a byte order mark.
    #[error("byte {offset}: not UTF-8 text")]
    Encoding {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// [`parse_value`] expects exactly one document.
    #[error("expected one document, found {found}")]
    Count {
        /// Number of documents.
        found: usize,
    },
}

impl YamlError {
    /// Whether the text only exceeds a limit.
    pub const fn is_limit(&self) -> bool {
        matches!(self, Self::At { limit: true, .. } | Self::Somewhere { limit: true, .. })
    }
}

/// Bytes as text: UTF-8 with or without a byte order mark, or UTF-16 with one.
///
/// Fails with [`YamlError::Encoding`] otherwise.
pub fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    let units = |pair: fn([u8; 2]) -> u16| bytes[2..].chunks(2).map(move |c| (c, pair));
    let utf16 = match bytes {
        [0xff, 0xfe, ..] => Some(units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some(units(u16::from_be_bytes)),
        _ => None,
    };
    let Some(units) = utf16 else {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| YamlError::Encoding { offset: error.valid_up_to() })?;
        return Ok(Cow::Borrowed(without_mark(text)));
    };
    let mut text = String::with_capacity(bytes.len());
    let whole = units.map(|(chunk, pair)| match chunk {
        [a, b] => pair([*a, *b]),
        // An odd last byte is as invalid as a lone surrogate.
        _ => 0xd800,
    });
    for (index, unit) in char::decode_utf16(whole).enumerate() {
        text.push(unit.map_err(|_| YamlError::Encoding { offset: 2 + 2 * index })?);
    }
    Ok(Cow::Owned(text))
}

/// All documents of a YAML or JSON text, in order.
///
/// Empty documents, `null` and documents with only comments are skipped. The first error
/// fails the whole text.
pub fn parse_documents(text: &str) -> Result<Vec<Document>, YamlError> {
    documents_within(text, MAX_MEMORY)
}

/// Like [`parse_documents`], with another limit than [`MAX_MEMORY`].
pub fn documents_within(text: &str, memory: u64) -> Result<Vec<Document>, YamlError> {
    let text = &*without_marks(text);
    if text.trim_start().starts_with(['{', '[']) {
        match json_documents(text, memory) {
            Ok(documents) => return Ok(documents),
            // YAML in flow style starts like JSON, too, and reports the position.
            Err(JsonError::Syntax) => {}
            Err(JsonError::Limit(error)) => return Err(error),
        }
    }
    yaml_documents(text, memory)
}

/// The JSON value at the start of a text, and the rest of the text (SE-100).
///
/// # Errors
///
/// [`YamlError::At`] when it is not valid JSON, or exceeds [`MAX_NODES`] or the memory;
/// [`YamlError::Count`] when there is no value.
pub fn parse_json(text: &str, memory: u64) -> Result<(Document, &str), YamlError> {
    let text = without_mark(text);
    let budget = Budget::new(memory, MAX_NODES);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node<false>>();
    let node = match stream.next() {
        None => return Err(YamlError::Count { found: 0 }),
        Some(Err(error)) => return Err(from_json(&error, &budget)),
        Some(Ok(node)) => node,
    };
    let (read, rest) = text.split_at(stream.byte_offset());
    let line = line_of(text, 0);
    let repeated = located(read, node.repeated, line);
    Ok((Document { line, value: node.value, repeated }, rest))
}

fn yaml_documents(text: &str, memory: u64) -> Result<Vec<Document>, YamlError> {
    let mut fixed = String::new();
    let mut again = 0;
    loop {
        let current = if fixed.is_empty() { text } else { &fixed };
        match strict_documents(current, memory) {
            Err(error) => match with_quoted_scalars_indented(current, &error, memory) {
                Some(next) if again <= quoted::MAX_AGAIN => {
                    again += 2 * next.len();
                    fixed = next;
                }
                _ => return Err(error),
            },
            documents => return documents,
        }
    }
}

/// The text with the scalar indented that the error is about; `None` for another error.
fn with_quoted_scalars_indented(text: &str, error: &YamlError, memory: u64) -> Option<String> {
    let YamlError::At { line, reason, .. } = error else { return None };
    if !reason.contains(quoted::REASON) {
        return None;
    }
    // Where the scalar begins is known to the parser only: without the line in question, it
    // reports the quote that is not closed.
    let before = quoted::before(text, usize::try_from(*line).ok()?)?;
    match strict_documents(before.trim_end(), memory) {
        Err(YamlError::At { line, column, reason, .. }) if reason.contains(quoted::UNCLOSED) => {
            quoted::indented(text, usize::try_from(line).ok()?, usize::try_from(column).ok()?)
        }
        _ => None,
    }
}

fn strict_documents(text: &str, memory: u64) -> Result<Vec<Document>, YamlError> {
    match read::<false>(text, memory) {
        Err(Stop::Repeated) => {}
        Err(Stop::Error(error)) => return Err(error),
        Ok(documents) => return Ok(documents),
    }
    // Parsed again with the position of every key, which takes twice the time.
    read::<true>(text, memory).map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Repeated => YamlError::Somewhere { reason: "duplicate key".to_owned(), limit: false },
    })
}

enum Stop {
    /// A key is duplicated.
    Repeated,
    Error(YamlError),
}

/// Reads all documents; with positions, keys may be duplicated.
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
            _ => Stop::Error(from_saphyr(&error, &budget)),
        })?;
        let line = usize::try_from(document.referenced.line()).unwrap_or(usize::MAX);
        let Node { value, repeated } = document.value;
        if !PLACES && !repeated.is_empty() {
            return Err(Stop::Repeated);
        }
        budget
            .charge(DOCUMENT_WEIGHT)
            .map_err(|limit| Stop::Error(over_the_limit(line, &limit)))?;
        if !value.is_null() {
            documents.push(Document { line, value, repeated });
        }
    }
    drop(budget);
    Ok(documents)
}

/// The only document of a text; [`YamlError::Count`] otherwise. A duplicate key is an error
/// here, since the caller reports no warnings.
pub fn parse_value(text: &str) -> Result<Value, YamlError> {
    let mut documents = parse_documents(text)?;
    match (documents.pop(), documents.len()) {
        (Some(document), 0) => match document.repeated.first() {
            None => Ok(document.value),
            Some(Repeated { path, line }) => {
                let reason = format!("line {line}: key {path:?} is duplicated; remove one");
                Err(YamlError::Somewhere { reason, limit: false })
            }
        },
        (last, others) => Err(YamlError::Count { found: others + usize::from(last.is_some()) }),
    }
}

/// A value as YAML: sorted keys, block style, two spaces, lists not indented, strings
/// quoted where a YAML 1.1 parser would read another type.
///
/// Ends with a newline and has no `---`. Parsing it gives the same value, except for
/// floats without a fraction. Fails only for values that are not valid JSON.
pub fn to_string(value: &Value) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! {
        // Long lines are not folded, as in kubectl.
        min_fold_chars: usize::MAX,
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| YamlError::Somewhere { reason: error.to_string(), limit: false })
}

/// A value as JSON that every parser of YAML reads in the same way: what ends a line for some of
/// them, and what none prints, is escaped.
pub fn to_json(value: &Value) -> String {
    let text = value.to_string();
    let is_plain = |c: char| {
        !matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    if text.chars().all(is_plain) {
        return text;
    }
    // Outside of texts, JSON has none of them.
    let escaped = |c: char| match is_plain(c) {
        true => String::from(c),
        false => format!("\\u{:04x}", u32::from(c)),
    };
    text.chars().map(escaped).collect()
}

/// Several values as one YAML text, separated by `---`.
pub fn to_string_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<String, YamlError> {
    let texts: Vec<String> = values.into_iter().map(to_string).collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// The text without the byte order marks before its documents. `kubectl` splits a stream at its
/// `---` lines and parses each document by itself, so that each may begin with a mark, as in files
/// that were put together. Here they are parsed as one stream, which has one limit for all.
fn without_marks(text: &str) -> Cow<'_, str> {
    const MARK: char = '\u{feff}';
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let is_separator = |line: &str| {
        let rest = line.strip_prefix("---").map(str::trim_start);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let mut clean = String::with_capacity(text.len());
    let mut is_start = true;
    for line in text.split_inclusive('\n') {
        let unmarked = line.strip_prefix(MARK);
        let unmarked = unmarked.filter(|line| is_start || is_separator(line));
        let line = unmarked.unwrap_or(line);
        // A comment may come before the mark.
        is_start = is_separator(line)
            || is_start && (line.trim().is_empty() || line.trim_start().starts_with('#'));
        clean.push_str(line);
    }
    Cow::Owned(clean)
}

/// The text without a leading byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

enum JsonError {
    Syntax,
    Limit(YamlError),
}

fn from_json(error: &serde_json::Error, budget: &Budget) -> YamlError {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    let tail = format!(" at line {line} column {column}");
    let reason = text.strip_suffix(&tail).unwrap_or(&text).to_owned();
    let limit = budget.is_exceeded();
    YamlError::At { line: line as u64, column: column as u64, reason, limit }
}

/// The text parsed as a sequence of JSON values.
fn json_documents(text: &str, memory: u64) -> Result<Vec<Document>, JsonError> {
    let budget = Budget::new(memory, MAX_NODES);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Node<false>>();
    let mut documents = Vec::new();
    // Up to where lines are counted: each once, so that the time grows with the text and not
    // with its square.
    let (mut counted, mut line) = (0, 1);
    for number in 0.. {
        let from = stream.byte_offset();
        let Some(node) = stream.next() else { break };
        let node = node.map_err(|error| match from_json(&error, &budget) {
            error if error.is_limit() => JsonError::Limit(error),
            _ => JsonError::Syntax,
        })?;
        let start = content_after(text, from);
        line += text[counted..start].matches('\n').count();
        counted = start;
        let paid = match number {
            MAX_DOCUMENTS.. => Err(format!("more than {MAX_DOCUMENTS} documents; split the file")),
            _ => budget.charge(DOCUMENT_WEIGHT),
        };
        paid.map_err(|limit| JsonError::Limit(over_the_limit(line, &limit)))?;
        if !node.value.is_null() {
            let repeated = located(&text[from..stream.byte_offset()], node.repeated, line);
            documents.push(Document { line, value: node.value, repeated });
        }
        // The memory limit applies to all values together, the number of values to each.
        budget.renew(MAX_NODES);
    }
    Ok(documents)
}

fn over_the_limit(line: usize, limit: &str) -> YamlError {
    let reason = format!("over the limit: {limit}");
    YamlError::At { line: line as u64, column: 1, reason, limit: true }
}

/// The offset of the first content after an offset.
fn content_after(text: &str, from: usize) -> usize {
    text.len() - text[from..].trim_start().len()
}

/// The first line of content after an offset.
fn line_of(text: &str, from: usize) -> usize {
    1 + text[..content_after(text, from)].matches('\n').count()
}

/// Finds the lines of duplicate keys of a JSON text that starts at `line`, by parsing it
/// as YAML; otherwise they are at its first line.
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
            max_documents: MAX_DOCUMENTS,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_EVENTS,
            max_replay_stack_depth: MAX_ALIAS_DEPTH,
        },
        legacy_octal_numbers: true,
        merge_keys: MergeKeyPolicy::Merge,
        emit_comments: false,
        with_snippet: false,
    }
}

fn from_saphyr(error: &serde_saphyr::Error, budget: &Budget) -> YamlError {
    let error = error.without_snippet();
    let in_words = in_words(error);
    let reason = in_words.clone().unwrap_or_else(|| error.to_string());
    let limit = budget.is_exceeded();
    let Some(place) = error.location() else { return YamlError::Somewhere { reason, limit } };
    let (line, column) = (place.line(), place.column());
    if in_words.is_some() {
        return YamlError::At { line, column, reason, limit };
    }
    let tail = format!(" at line {line}, column {column}");
    let reason = reason.strip_suffix(&tail).unwrap_or(&reason).to_owned();
    YamlError::At { line, column, reason, limit }
}

/// The limits and what only this library knows, in plain words; `None` for errors that it has
/// words for.
fn in_words(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error as E;
    let breach = match error {
        E::AliasError { error, .. } => return in_words(error.without_snippet()),
        E::RecursiveReferencesRequireWeakTypes { .. } => {
            return Some("an alias refers to a value that contains it; remove it".to_owned());
        }
        // Without the value, which may be that of a Secret.
        E::NonFiniteFloat { .. } => {
            let what = "a number that is too large, or none; write it in quotes if it is a text";
            return Some(what.to_owned());
        }
        E::AliasReplayLimitExceeded { .. }
        | E::AliasReplayCounterOverflow { .. }
        | E::AliasExpansionLimitExceeded { .. } => {
            return Some(format!(
                "over the limit: aliases repeat more than {MAX_ALIAS_EVENTS} values; write fewer \
                 aliases of large values"
            ));
        }
        E::AliasReplayStackDepthExceeded { .. } => {
            return Some(format!(
                "over the limit: more than {MAX_ALIAS_DEPTH} aliases within each other; write the \
                 values out"
            ));
        }
        E::ExternalMessage { msg, .. } if msg == NESTED => {
            &BudgetBreach::Depth { depth: MAX_DEPTH }
        }
        E::Budget { breach, .. } => breach,
        _ => return None,
    };
    let limit = match breach {
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            format!("more than {MAX_NODES} values; split the file")
        }
        BudgetBreach::Depth { .. } => {
            format!("more than {MAX_DEPTH} levels of mappings and lists; nest fewer")
        }
        BudgetBreach::Documents { .. } => {
            format!("more than {MAX_DOCUMENTS} documents; split the file")
        }
        BudgetBreach::Aliases { .. } | BudgetBreach::AliasAnchorRatio { .. } => {
            "too many aliases; write the values out".to_owned()
        }
        BudgetBreach::Anchors { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. } => {
            "too many anchors, or too much text in them; write the values out".to_owned()
        }
        BudgetBreach::MergeKeys { .. } => "too many merge keys; write the values out".to_owned(),
        BudgetBreach::ScalarBytes { .. } | BudgetBreach::InputBytes { .. } => {
            "too much text; split the file".to_owned()
        }
        _ => "it is too large; split the file".to_owned(),
    };
    Some(format!("over the limit: {limit}"))
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
