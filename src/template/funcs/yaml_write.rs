//! `toYaml`, `fromYaml` and `fromYamlArray` (AS-130), and the YAML text that Kubernetes tools write.

use std::cmp::Ordering;

use super::f;
use super::json;
use super::yaml_read::{Plain, read, resolve};
use crate::template::go::function::{Function, Outcome};
use crate::template::go::value::{Dict, Value};
use crate::template::go::{Args, Run, shortest, strconv};

pub(super) const FUNCTIONS: &[Function] = &[
    f("toYaml", "a", |run, a| Ok(Value::str(to_yaml(run, &a[0])?))),
    f("fromYaml", "s", |run, a| match read(run, &a.text(0))? {
        Value::Nil => Ok(Value::dict(std::collections::BTreeMap::new())),
        value @ Value::Dict(_) => Ok(value),
        other => Err(format!("the YAML is no object but {}", other.kind_name()).into()),
    }),
    f("fromYamlArray", "s", |run, a| match read(run, &a.text(0))? {
        Value::Nil => Ok(Value::list(Vec::new())),
        value @ Value::List(_) => Ok(value),
        other => Err(format!("the YAML is no list but {}", other.kind_name()).into()),
    }),
];

/// Writes YAML without the final newline.
fn to_yaml(run: &mut Run<'_>, value: &Value) -> Outcome<String> {
    let mut writer = Writer { run, out: String::new() };
    writer.node(value, None, Place::Root, 0)?;
    let mut out = writer.out;
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out.pop();
    Ok(out)
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// After `- `.
    Item,
    /// After `key:`.
    Value,
}

struct Writer<'w, 'e> {
    run: &'w mut Run<'e>,
    out: String,
}

impl Writer<'_, '_> {
    /// Writes a node; `indent` is that of the collection around it.
    fn node(
        &mut self,
        value: &Value,
        indent: Option<usize>,
        place: Place,
        depth: usize,
    ) -> Outcome<()> {
        Run::check_depth(depth)?;
        self.run.charge(1)?;
        self.run.check_len(self.out.len())?;
        let inner = indent.map_or(0, |indent| indent + 2);
        let text = match value {
            Value::List(list) if !list.items().is_empty() => {
                // A list in a mapping is not indented further.
                let here = if place == Place::Value { indent.unwrap_or(0) } else { inner };
                for (i, item) in list.items().iter().enumerate() {
                    self.start(here, place, i)?;
                    self.out.push('-');
                    self.node(item, Some(here), Place::Item, depth + 1)?;
                }
                return Ok(());
            }
            Value::Dict(dict) if dict.len() > 0 => return self.mapping(dict, inner, place, depth),
            Value::Certificate(certificate) => {
                let fields = certificate.fields().map(|(name, value)| (name.to_owned(), value));
                let dict = Dict::new(fields.into());
                return self.mapping(&dict, inner, place, depth);
            }
            Value::List(list) if !list.nil => "[]".to_owned(),
            Value::Dict(dict) if !dict.nil => "{}".to_owned(),
            Value::Str(text) => self.scalar(&text.text(), inner.max(2), false),
            Value::Time(_) | Value::Version(_) => {
                let json = json::to_json(self.run, value, false, None)?;
                let text = strconv::unquote(&json).unwrap_or_default();
                self.scalar(&String::from_utf8_lossy(&text), inner.max(2), false)
            }
            _ => {
                let text = json::to_json(self.run, value, false, None)?;
                match resolve(&text) {
                    Plain::Int(n) => n.to_string(),
                    Plain::Float(x) => shortest(x),
                    _ => text,
                }
            }
        };
        if place != Place::Root {
            self.out.push(' ');
        }
        self.out.push_str(&text);
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        Ok(())
    }

    /// Goes to where an entry of a block begins.
    fn start(&mut self, indent: usize, place: Place, index: usize) -> Outcome<()> {
        match place {
            _ if index > 0 => {}
            Place::Item => {
                self.out.push(' ');
                return Ok(());
            }
            Place::Value => self.out.push('\n'),
            Place::Root => {}
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
        Ok(())
    }

    fn mapping(&mut self, dict: &Dict, indent: usize, place: Place, depth: usize) -> Outcome<()> {
        let entries = sorted(self.run, dict.entries())?;
        for (i, (key, value)) in entries.iter().enumerate() {
            self.start(indent, place, i)?;
            let text = self.scalar(key, indent + 2, true);
            // A key that is long or spans lines is written with a question mark.
            let simple =
                key.len() <= 128 && !key.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
            if simple {
                self.out.push_str(&text);
            } else {
                self.out.push_str("? ");
                self.out.push_str(&text);
                if !text.ends_with('\n') {
                    self.out.push('\n');
                }
                self.out.extend(std::iter::repeat_n(' ', indent));
            }
            self.out.push(':');
            self.node(value, Some(indent), Place::Value, depth + 1)?;
        }
        Ok(())
    }

    /// Chooses how text is written: plain, in quotes or as a block.
    fn scalar(&mut self, text: &str, indent: usize, key: bool) -> String {
        let looks = Looks::of(text);
        let simple_key = key && text.len() <= 128;
        if text.contains('\n') && looks.block && !simple_key {
            return literal(text, indent);
        }
        let plain = matches!(resolve(text), Plain::Text) && !is_base60(text);
        if plain && !text.contains('\n') {
            if looks.plain {
                return text.to_owned();
            }
            if looks.single {
                return single_quoted(text, indent);
            }
        }
        double_quoted(text)
    }
}

/// Which ways of writing a text keep it as it is.
struct Looks {
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

impl Looks {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) =
            (false, false, false, false);
        let mut previous: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            if previous.is_none() {
                indicators |= matches!(
                    c,
                    '#' | ','
                        | '['
                        | ']'
                        | '{'
                        | '}'
                        | '&'
                        | '*'
                        | '!'
                        | '|'
                        | '>'
                        | '\''
                        | '"'
                        | '%'
                        | '@'
                        | '`'
                ) || (matches!(c, '?' | ':' | '-') && is_blank(next));
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
    // The newline that ends the last line of a block without one is not part of the text.
    if !text.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn single_quoted(text: &str, indent: usize) -> String {
    let mut out = String::from("'");
    let mut at_break = false;
    for c in text.chars() {
        if is_break(c) {
            at_break = true;
        } else if std::mem::take(&mut at_break) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        if c == '\'' {
            out.push('\'');
        }
        out.push(c);
    }
    out.push('\'');
    out
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\x1b' => out.push_str("\\e"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            _ if is_printable(c) => out.push(c),
            '\0'..='\u{ff}' => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            '\u{100}'..='\u{ffff}' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            _ => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Numbers with base 60, such as `12:30:45`, which old readers take for numbers.
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

/// Sorts keys so that numbers in them count as numbers: `a2` before `a10`.
///
/// The order is no strict one for every set of keys, which the standard sort may punish with a panic: hence a merge
/// sort of its own.
fn sorted(run: &mut Run<'_>, mut entries: Vec<(String, Value)>) -> Outcome<Vec<(String, Value)>> {
    if entries.len() < 2 {
        return Ok(entries);
    }
    run.charge(entries.len())?;
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
