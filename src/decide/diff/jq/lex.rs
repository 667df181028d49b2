//! Splits an expression into tokens.

use serde_json::Number;

use super::ast::{Arith, Op};

/// A token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// `.name`
    Field(String),
    /// A string literal.
    Text(String),
    /// A number.
    Number(Number),
    /// A function or a keyword.
    Word(String),
    /// `$name`
    Variable(String),
    /// A comparison.
    Op(Op),
    /// Arithmetic; a minus may also be a sign of its operand.
    Arith(Arith),
    /// Anything else.
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => write!(f, "'.{name}'"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(number) => write!(f, "'{number}'"),
            Self::Word(word) => write!(f, "'{word}'"),
            Self::Variable(name) => write!(f, "'${name}'"),
            Self::Op(_) => f.write_str("comparison"),
            Self::Arith(arith) => write!(f, "'{}'", arith.sign()),
            Self::Sign(sign) => write!(f, "'{sign}'"),
        }
    }
}

/// Splits an expression into tokens.
pub fn lex(text: &str) -> Result<Vec<Token>, String> {
    // Longer operators come before their prefixes.
    const SIGNS: [&str; 15] =
        ["?//", "..", "//", "[", "]", "(", ")", "|", ",", "?", ":", ";", ".", "{", "}"];
    const OPS: [(&str, Op); 6] = [
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
        ("<=", Op::LessOrEqual),
        (">=", Op::GreaterOrEqual),
        ("<", Op::Less),
        (">", Op::Greater),
    ];
    // Assignments are not supported.
    const CHANGES: [&str; 8] = ["|=", "//=", "+=", "-=", "*=", "/=", "%=", "="];
    let mut tokens = Vec::new();
    let mut rest = skip_blank(text);
    while let Some(c) = rest.chars().next() {
        let name = rest.strip_prefix('.').map(word).filter(|name| !name.is_empty());
        let variable = rest.strip_prefix('$').map(word).filter(|name| !name.is_empty());
        let (token, width) = if let Some(name) = name {
            (Token::Field(name.to_owned()), name.len() + 1)
        } else if let Some(name) = variable {
            (Token::Variable(name.to_owned()), name.len() + 1)
        } else if c == '"' {
            let (text, width) = string(rest)?;
            (Token::Text(text), width)
        } else if !word(rest).is_empty() {
            let word = word(rest);
            (Token::Word(word.to_owned()), word.len())
        } else if c.is_ascii_digit() {
            let width = number_width(rest);
            let number = serde_json::from_str(&rest[..width])
                .map_err(|_| format!("unexpected '{}'", &rest[..width]))?;
            (Token::Number(number), width)
        } else if let Some((sign, op)) = OPS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            (Token::Op(*op), sign.len())
        } else if let Some(sign) = CHANGES.iter().find(|sign| rest.starts_with(**sign)) {
            return Err(format!("unexpected '{sign}'"));
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else if let Some(arith) = Arith::ALL.iter().find(|arith| rest.starts_with(arith.sign())) {
            (Token::Arith(*arith), 1)
        } else {
            return Err(format!("unexpected '{c}'"));
        };
        tokens.push(token);
        rest = skip_blank(&rest[width..]);
    }
    Ok(tokens)
}

/// The text after white space and comments.
fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start();
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after.trim_start());
    }
    rest
}

/// The leading identifier, empty when there is none.
fn word(text: &str) -> &str {
    let is_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_start { &text[..end] } else { "" }
}

fn number_width(text: &str) -> usize {
    let mantissa = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let exponent = &text[mantissa..];
    let Some(digits) = exponent.strip_prefix(['e', 'E']) else { return mantissa };
    let sign = usize::from(digits.starts_with(['+', '-']));
    let digits = &digits[sign..];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 { mantissa } else { mantissa + 1 + sign + end }
}

/// A leading string literal and its width. Interpolation is not supported.
fn string(text: &str) -> Result<(String, usize), String> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '(' if escaped => return Err("string interpolation is not supported".to_owned()),
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let width = at + 1;
                let text = serde_json::from_str(&text[..width])
                    .map_err(|error| format!("bad string literal: {error}"))?;
                return Ok((text, width));
            }
            _ => {}
        }
    }
    Err("a string literal does not end".to_owned())
}
