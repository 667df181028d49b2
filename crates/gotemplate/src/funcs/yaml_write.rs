//! `toYaml`, `fromYaml` and `fromYamlArray` (AS-130), and YAML in the format of
//! Kubernetes tools.

use std::cmp::Ordering;

use super::json;
use super::prelude::*;
use super::yaml_read::{Plain, read, resolve};
use crate::engine::float::shortest;
use crate::engine::strconv;
use crate::engine::value::valid_text;

pub(super) const FUNCTIONS: &[Function] = &[
    f("toYaml", "a", |run, a| Ok(Value::str(to_yaml(run, &a[0])?))),
    f("fromYaml", "s", |run, a| match read(run, &a.text(0))? {
        Value::Nil => Ok(Value::dict(std::collections::BTreeMap::new())),
        value @ Value::Dict(_) => Ok(value),
        other => Err(format!("the YAML is not an object but {}", other.kind_name()).into()),
    }),
    f("fromYamlArray", "s", |run, a| match read(run, &a.text(0))? {
        Value::Nil => Ok(Value::list(Vec::new())),
        value @ Value::List(_) => Ok(value),
        other => Err(format!("the YAML is not a list but {}", other.kind_name()).into()),
    }),
];

/// Writes YAML without the final newline.
fn to_yaml(run: &mut Run<'_>, value: &Value) -> Outcome<String> {
    let mut writer = Writer { run, out: String::new() };
    writer.node(value, None, Position::Root, 0)?;
    let mut out = writer.out;
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out.pop();
    Ok(out)
}

/// Position of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// After `- `.
    Item,
    /// After `key:`.
    Value,
    /// Before `:`.
    Key,
}

struct Writer<'w, 'e> {
    run: &'w mut Run<'e>,
    out: String,
}

impl Writer<'_, '_> {
    /// Writes a node; `indent` is that of the enclosing collection.
    fn node(
        &mut self,
        value: &Value,
        indent: Option<usize>,
        position: Position,
        depth: usize,
    ) -> Outcome<()> {
        Run::check_depth(depth)?;
        self.run.charge(1)?;
        self.run.check_len(self.out.len())?;
        let inner = indent.map_or(0, |indent| indent + 2);
        let text = match value {
            Value::List(list) if !list.items().is_empty() => {
                // A list in a mapping is not indented further.
                let here = if position == Position::Value { indent.unwrap_or(0) } else { inner };
                for (i, item) in list.items().iter().enumerate() {
                    self.start(here, position, i)?;
                    self.out.push('-');
                    self.node(item, Some(here), Position::Item, depth + 1)?;
                }
                return Ok(());
            }
            Value::Dict(dict) if dict.len() > 0 => {
                return self.mapping(dict, inner, position, depth);
            }
            Value::Certificate(certificate) => {
                let fields = certificate.fields().map(|(name, value)| (name.to_owned(), value));
                let dict = Dict::new(fields.into());
                return self.mapping(&dict, inner, position, depth);
            }
            Value::List(list) if !list.nil => "[]".to_owned(),
            Value::Dict(dict) if !dict.nil => "{}".to_owned(),
            Value::Str(text) => self.scalar(&text.text(), inner.max(2), position),
            Value::Time(_) | Value::Version(_) => {
                let json = json::to_json(self.run, value, false, false)?;
                let text = strconv::unquote(&json).unwrap_or_default();
                self.scalar(&valid_text(&text), inner.max(2), position)
            }
            _ => {
                let text = json::to_json(self.run, value, false, false)?;
                match resolve(&text) {
                    Plain::Int(n) => n.to_string(),
                    Plain::Float(x) => shortest(x),
                    _ => text,
                }
            }
        };
        if position != Position::Root {
            self.out.push(' ');
        }
        self.out.push_str(&text);
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        Ok(())
    }

    /// Moves to the start of an entry of a block.
    fn start(&mut self, indent: usize, position: Position, index: usize) -> Outcome<()> {
        match position {
            _ if index > 0 => {}
            Position::Item => {
                self.out.push(' ');
                return Ok(());
            }
            Position::Value => self.out.push('\n'),
            Position::Root | Position::Key => {}
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
        Ok(())
    }

    fn mapping(
        &mut self,
        dict: &Dict,
        indent: usize,
        position: Position,
        depth: usize,
    ) -> Outcome<()> {
        let entries = self.run.entries(dict)?;
        let entries = sorted(self.run, entries)?;
        for (i, (key, value)) in entries.iter().enumerate() {
            self.start(indent, position, i)?;
            // A long or multi-line key is written with a question mark.
            if is_simple_key(key) {
                let text = self.scalar(key, indent + 2, Position::Key);
                self.out.push_str(&text);
            } else {
                self.out.push_str("? ");
                let text = self.scalar(key, indent + 2, Position::Key);
                self.out.push_str(&text);
                if !text.ends_with('\n') {
                    self.out.push('\n');
                }
                self.out.extend(std::iter::repeat_n(' ', indent));
            }
            self.out.push(':');
            self.node(value, Some(indent), Position::Value, depth + 1)?;
        }
        Ok(())
    }

    /// Chooses the style of a scalar: plain, quoted or block.
    fn scalar(&self, text: &str, indent: usize, position: Position) -> String {
        let looks = Styles::of(text);
        let short_key = position == Position::Key && text.len() <= LONGEST_KEY;
        if text.contains('\n') && looks.block && !short_key {
            return literal(text, indent);
        }
        let line = self.out.chars().rev().take_while(|c| !is_break(*c)).count();
        let blank = usize::from(matches!(position, Position::Item | Position::Value));
        let width =
            if position == Position::Key && is_simple_key(text) { usize::MAX } else { WIDTH };
        let fold = Fold { column: line + blank, indent, width, out: String::new() };
        let plain = matches!(resolve(text), Plain::Text) && !is_base60(text);
        if plain && !text.contains('\n') {
            if looks.plain {
                return fold.plain(text);
            }
            if looks.single {
                return fold.single_quoted(text);
            }
        }
        fold.double_quoted(text)
    }
}

/// Lines are folded at the first space after this column.
const WIDTH: usize = 80;

/// Longest key without a question mark, in bytes.
const LONGEST_KEY: usize = 128;

fn is_simple_key(key: &str) -> bool {
    key.len() <= LONGEST_KEY && !key.contains(is_break)
}

/// The styles that preserve a text.
struct Styles {
    plain: bool,
    single: bool,
    block: bool,
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: Option<char>) -> bool {
    c.is_none_or(|c| matches!(c, ' ' | '\t' | '\0') || is_break(c))
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

impl Styles {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) =
            (false, false, false, false);
        let mut previous: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            if previous.is_none() {
                indicators |= "#,[]{}&*!|>'\"%@`".contains(c)
                    || (matches!(c, '?' | ':' | '-') && is_blank(next));
            } else {
                indicators |= (c == ':' && is_blank(next)) || (c == '#' && is_blank(previous));
            }
            special |= !is_printable(c);
            if c == ' ' {
                break_space |= previous.is_some_and(is_break);
            } else if is_break(c) {
                breaks = true;
                space_break |= previous == Some(' ');
            }
            previous = Some(c);
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let edges = edge(text.chars().next()) || edge(previous);
        Self {
            plain: !(indicators || special || breaks || edges || break_space || space_break),
            single: !(special || break_space || space_break),
            block: !(special || space_break || previous == Some(' ') || text.is_empty()),
        }
    }
}

fn literal(text: &str, indent: usize) -> String {
    let mut out = String::from("|");
    if text.starts_with(|c| c == ' ' || is_break(c)) {
        out.push('2');
    }
    let mut from_end = text.chars().rev();
    match (from_end.next(), from_end.next()) {
        (Some(last), _) if !is_break(last) => out.push('-'),
        (Some(_), None) => out.push('+'),
        (Some(_), Some(before)) if is_break(before) => out.push('+'),
        _ => {}
    }
    out.push('\n');
    let mut at_break = true;
    for c in text.chars() {
        if !is_break(c) && std::mem::take(&mut at_break) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        at_break |= is_break(c);
        out.push(c);
    }
    // A final newline of the last line is not part of a block without one.
    if !text.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Text output that folds long lines at spaces.
struct Fold {
    /// Current column, in characters.
    column: usize,
    /// Indentation of continued lines.
    indent: usize,
    /// The column from which lines are folded.
    width: usize,
    out: String,
}

impl Fold {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_all(&mut self, text: &str) {
        self.out.push_str(text);
        // The argument is ASCII.
        self.column += text.len();
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.pad();
    }

    fn pad(&mut self) {
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        self.column = self.indent;
    }

    const fn is_full(&self) -> bool {
        self.column > self.width
    }

    fn plain(mut self, text: &str) -> String {
        let mut chars = text.chars().peekable();
        let mut after_blank = false;
        while let Some(c) = chars.next() {
            if c == ' ' && !after_blank && self.is_full() && chars.peek() != Some(&' ') {
                self.line();
            } else {
                self.put(c);
            }
            after_blank = c == ' ';
        }
        self.out
    }

    fn single_quoted(mut self, text: &str) -> String {
        self.put('\'');
        let mut chars = text.chars().enumerate().peekable();
        let (mut after_blank, mut after_break) = (false, false);
        while let Some((i, c)) = chars.next() {
            if is_break(c) {
                self.out.push(c);
                self.column = 0;
                after_break = true;
                continue;
            }
            let inside = i > 0 && chars.peek().is_some_and(|(_, next)| *next != ' ');
            if c == ' ' && !after_blank && self.is_full() && inside {
                self.line();
            } else {
                if std::mem::take(&mut after_break) {
                    self.pad();
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
            }
            after_blank = c == ' ';
        }
        self.put('\'');
        self.out
    }

    fn double_quoted(mut self, text: &str) -> String {
        self.put('"');
        let mut chars = text.chars().enumerate().peekable();
        let mut after_blank = false;
        while let Some((i, c)) = chars.next() {
            match c {
                ' ' if !after_blank && self.is_full() && i > 0 && chars.peek().is_some() => {
                    self.line();
                    // A space at the start of a line would be read as indentation.
                    if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.put('\\');
                    }
                }
                '"' => self.put_all("\\\""),
                '\\' => self.put_all("\\\\"),
                '\0' => self.put_all("\\0"),
                '\x07' => self.put_all("\\a"),
                '\x08' => self.put_all("\\b"),
                '\t' => self.put_all("\\t"),
                '\n' => self.put_all("\\n"),
                '\x0b' => self.put_all("\\v"),
                '\x0c' => self.put_all("\\f"),
                '\r' => self.put_all("\\r"),
                '\x1b' => self.put_all("\\e"),
                '\u{85}' => self.put_all("\\N"),
                '\u{2028}' => self.put_all("\\L"),
                '\u{2029}' => self.put_all("\\P"),
                _ if is_printable(c) => self.put(c),
                '\0'..='\u{ff}' => self.put_all(&format!("\\x{:02X}", u32::from(c))),
                '\u{100}'..='\u{ffff}' => self.put_all(&format!("\\u{:04X}", u32::from(c))),
                _ => self.put_all(&format!("\\U{:08X}", u32::from(c))),
            }
            after_blank = c == ' ';
        }
        self.put('"');
        self.out
    }
}

/// Numbers in base 60, such as `12:30:45`, which old parsers read as numbers.
fn is_base60(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or("");
    if !body.contains(':') || !first.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && parts.iter().enumerate().all(|(i, part)| {
            let last = i + 1 == parts.len();
            let (whole, fraction) = part.split_once('.').unwrap_or((part, ""));
            let fits = match whole.as_bytes() {
                [a] => a.is_ascii_digit(),
                [a, b] => (b'0'..=b'5').contains(a) && b.is_ascii_digit(),
                _ => false,
            };
            fits && (last || !part.contains('.'))
                && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        })
}

/// Sorts keys in natural order: `a2` before `a10`.
///
/// The order is not total for all sets of keys, for which the standard sort may panic:
/// hence a separate merge sort.
fn sorted(run: &mut Run<'_>, mut entries: Vec<(String, Value)>) -> Outcome<Vec<(String, Value)>> {
    if entries.len() < 2 {
        return Ok(entries);
    }
    run.charge(entries.iter().map(|(key, _)| 1 + key.len() / 16).sum())?;
    let right = entries.split_off(entries.len() / 2);
    let mut left = sorted(run, entries)?.into_iter().peekable();
    let mut right = sorted(run, right)?.into_iter().peekable();
    let mut out = Vec::new();
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let first = if natural(&b.0, &a.0) == Ordering::Less { right.next() } else { left.next() };
        out.extend(first);
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(i) = a.iter().zip(&b).position(|(x, y)| x != y) else { return a.len().cmp(&b.len()) };
    let (x, y) = (a[i], b[i]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let mut start = 0_i64;
    if x == '0' || y == '0' {
        let digits = a[..i].iter().rev().take_while(|c| c.is_ascii_digit());
        start = i64::from(digits.into_iter().any(|c| *c != '0'));
    }
    let number = |chars: &[char]| {
        let digits: Vec<u32> = chars[i..].iter().map_while(|c| c.to_digit(10)).collect();
        let value =
            digits.iter().fold(start, |n, d| n.wrapping_mul(10).wrapping_add(i64::from(*d)));
        (value, digits.len())
    };
    number(&a).cmp(&number(&b)).then(x.cmp(&y))
}
