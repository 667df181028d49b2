//! Text: upper and lower case, and the styles of compound words.

use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("upper", "s", |_, a| Ok(Value::str(a.text(0).chars().map(upper).collect::<String>()))),
    f("lower", "s", |_, a| Ok(Value::str(a.text(0).chars().map(lower).collect::<String>()))),
    f("title", "s", |_, a| Ok(Value::str(title(&a.text(0))))),
    f("untitle", "s", |_, a| Ok(Value::str(untitle(&a.text(0))))),
    f("swapcase", "s", |_, a| Ok(Value::str(swap_case(&a.text(0))))),
    f("initials", "s", |_, a| Ok(Value::str(initials(a.bytes(0))))),
    f("snakecase", "s", |_, a| Ok(Value::str(joined_lower(&a.text(0), '_')))),
    f("kebabcase", "s", |_, a| Ok(Value::str(joined_lower(&a.text(0), '-')))),
    f("camelcase", "s", |_, a| Ok(Value::str(pascal_case(&a.text(0))))),
];

/// Go maps one character to one character; where Unicode maps to several, the character
/// is kept.
fn upper(c: char) -> char {
    // Greek letters with a small iota beneath have a capital of their own.
    if let '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' = c {
        return char::from_u32(u32::from(c) + 8).unwrap_or(c);
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn lower(c: char) -> char {
    if c == 'İ' {
        return 'i';
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// The title case of a letter; only digraphs have one that differs from upper case.
fn title_case(c: char) -> char {
    match c {
        'Ǆ' | 'ǆ' => 'ǅ',
        'Ǉ' | 'ǉ' => 'ǈ',
        'Ǌ' | 'ǌ' => 'ǋ',
        'Ǳ' | 'ǳ' => 'ǲ',
        'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' => c,
        _ => upper(c),
    }
}

fn title(text: &str) -> String {
    let mut after_separator = true;
    text.chars()
        .map(|c| {
            let here = if after_separator { title_case(c) } else { c };
            after_separator = if c.is_ascii() {
                !(c.is_ascii_alphanumeric() || c == '_')
            } else {
                !c.is_alphanumeric() && c.is_whitespace()
            };
            here
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut after_space = true;
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                after_space = true;
                return c;
            }
            if std::mem::take(&mut after_space) { lower(c) } else { c }
        })
        .collect()
}

fn swap_case(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_uppercase() {
                lower(c)
            } else if c.is_lowercase() {
                upper(c)
            } else {
                c
            }
        })
        .collect()
}

/// The first byte of every word, as a character of Latin-1.
fn initials(text: &[u8]) -> String {
    let mut gap = true;
    let mut out = String::new();
    for c in text.iter().map(|b| char::from(*b)) {
        if c.is_whitespace() {
            gap = true;
        } else if std::mem::take(&mut gap) {
            out.push(c);
        }
    }
    out
}

fn is_connector(c: char) -> bool {
    matches!(c, '-' | '_') || c.is_whitespace()
}

fn pascal_case(text: &str) -> String {
    let start = text.find(|c| !is_connector(c)).unwrap_or(text.len());
    let (leading, rest) = text.split_at(start);
    let mut out = leading.to_owned();
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return out };
    // Consecutive capitals count as one: "FOOBar" becomes "Foobar".
    let mut capitals = first.is_uppercase();
    let mut held = upper(first);
    for c in chars {
        let mut next = c;
        if is_connector(held) && is_connector(c) {
            out.push(held);
        } else if is_connector(held) {
            capitals = c.is_uppercase();
            next = upper(c);
        } else {
            out.push(held);
            capitals &= c.is_uppercase();
            if capitals {
                next = lower(c);
            }
        }
        held = next;
    }
    out.push(held);
    out
}

/// Type of a part of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    /// Capitals, or a capital with what follows in lower case.
    Upper,
    Lower,
    Connector,
    Punctuation,
    Other,
}

fn is_punctuation(c: char) -> bool {
    use std::sync::LazyLock;
    static PUNCTUATION: LazyLock<::regex::Regex> =
        LazyLock::new(|| ::regex::Regex::new(r"^\p{P}$").expect("the pattern is fixed and valid"));
    PUNCTUATION.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Letters of alphabetic scripts.
fn is_letter(c: char) -> bool {
    c.is_alphabetic()
        && !matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..)
}

/// Splits the first word from the text.
fn next_word(text: &str) -> (Word, &str, &str) {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return (Word::None, "", "") };
    let run = |start: usize, yes: &dyn Fn(char) -> bool| {
        start + text[start..].find(|c| !yes(c)).unwrap_or(text.len() - start)
    };
    let small = |c: char| is_letter(c) && !c.is_uppercase();
    let one = first.len_utf8();
    let (word, end) = if is_connector(first) {
        (Word::Connector, run(0, &is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(0, &is_punctuation))
    } else if first.is_uppercase() {
        match chars.next() {
            Some(second) if second.is_uppercase() => {
                let end = run(0, &char::is_uppercase);
                // The last capital starts the next word when small letters follow: HTTP,
                // Status.
                let next_is_letter = text[end..].starts_with(is_letter);
                let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
                (Word::Upper, if next_is_letter { end - last } else { end })
            }
            _ => (Word::Upper, run(one, &small)),
        }
    } else if is_letter(first) {
        (Word::Lower, run(0, &small))
    } else if first.is_numeric() {
        (Word::Number, run(0, &char::is_numeric))
    } else {
        let other =
            |c: char| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c));
        (Word::Other, run(one, &other))
    };
    (word, &text[..end], &text[end..])
}

fn push_lower(out: &mut String, kind: Word, word: &str, connector: char) {
    match kind {
        Word::Connector => out.extend(word.chars().map(|_| connector)),
        Word::Upper => out.extend(word.chars().map(lower)),
        _ => out.push_str(word),
    }
}

/// Lower-case words joined by a connector, as `snakecase` and `kebabcase` want them.
fn joined_lower(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_lower(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Connector => push_lower(&mut out, before, last, connector),
            Word::Punctuation => {}
            Word::Number => {
                while matches!(kind, Word::Lower | Word::Number) {
                    push_lower(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::None | Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                // A number belongs to the word before it, unless small letters follow: bld4_floor, http_2xx.
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind == Word::Lower {
                    out.push(connector);
                    push_lower(&mut out, Word::Number, number, connector);
                    while matches!(kind, Word::Lower | Word::Number) {
                        push_lower(&mut out, kind, word, connector);
                        (kind, word, rest) = next_word(rest);
                    }
                    if !matches!(kind, Word::None | Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                } else {
                    push_lower(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                }
            }
        }
    }
    push_lower(&mut out, kind, word, connector);
    out
}
