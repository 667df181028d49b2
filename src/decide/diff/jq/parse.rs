//! From text to a checked expression.

use regex::Regex;
use serde_json::{Number, Value};

use super::{MAX_LENGTH, MAX_NESTING};

/// A regular expression may not compile to more than this many bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// An expression. Whether it names places or gives values is known from its
/// variant: see [`Expr::is_path`].
#[derive(Clone, Debug)]
pub enum Expr {
    Identity,
    Recurse,
    Empty,
    Field(Box<Expr>, String),
    Index(Box<Expr>, i64),
    Iterate(Box<Expr>),
    Try(Box<Expr>),
    Pipe(Box<Expr>, Box<Expr>),
    Comma(Box<Expr>, Box<Expr>),
    Select(Box<Expr>),
    Literal(Value),
    Compare(Op, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Any(Box<Expr>, Box<Expr>),
    All(Box<Expr>, Box<Expr>),
    Not,
    Type,
    Length,
    Has(Value),
    Contains(Value),
    StartsWith(String),
    EndsWith(String),
    Test(Regex),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expr {
    /// Whether it names places, and so may be deleted.
    fn is_path(&self) -> bool {
        match self {
            Self::Identity | Self::Recurse | Self::Empty | Self::Select(_) => true,
            Self::Field(base, _) | Self::Index(base, _) | Self::Iterate(base) | Self::Try(base) => {
                base.is_path()
            }
            Self::Pipe(one, other) | Self::Comma(one, other) => one.is_path() && other.is_path(),
            Self::Literal(_)
            | Self::Compare(..)
            | Self::And(..)
            | Self::Or(..)
            | Self::Any(..)
            | Self::All(..)
            | Self::Not
            | Self::Type
            | Self::Length
            | Self::Has(_)
            | Self::Contains(_)
            | Self::StartsWith(_)
            | Self::EndsWith(_)
            | Self::Test(_) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Field(String),
    Text(String),
    Number(Number),
    Word(String),
    Op(Op),
    Sign(&'static str),
}

/// Reads and checks an expression.
pub fn parse(text: &str) -> Result<Expr, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("longer than {MAX_LENGTH} bytes"));
    }
    let mut parser = Parser { tokens: lex(text)?, at: 0, depth: 0 };
    let expr = parser.pipe()?;
    if let Some(token) = parser.peek() {
        return Err(format!("unexpected {}", show(token)));
    }
    if !expr.is_path() {
        return Err("it gives a value and names no place to ignore".to_owned());
    }
    Ok(expr)
}

fn show(token: &Token) -> String {
    match token {
        Token::Field(name) => format!("'.{name}'"),
        Token::Text(text) => format!("{text:?}"),
        Token::Number(number) => format!("'{number}'"),
        Token::Word(word) => format!("'{word}'"),
        Token::Op(_) => "comparison".to_owned(),
        Token::Sign(sign) => format!("'{sign}'"),
    }
}

fn lex(text: &str) -> Result<Vec<Token>, String> {
    const SIGNS: [&str; 12] = ["..", "//", "[", "]", "(", ")", "|", ",", "?", ":", ";", "."];
    const OPS: [(&str, Op); 6] = [
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
        ("<=", Op::LessOrEqual),
        (">=", Op::GreaterOrEqual),
        ("<", Op::Less),
        (">", Op::Greater),
    ];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let name = rest.strip_prefix('.').map(word).filter(|name| !name.is_empty());
        let (token, width) = if let Some(name) = name {
            (Token::Field(name.to_owned()), name.len() + 1)
        } else if c == '"' {
            let (text, width) = string(rest)?;
            (Token::Text(text), width)
        } else if !word(rest).is_empty() {
            let word = word(rest);
            (Token::Word(word.to_owned()), word.len())
        } else if c.is_ascii_digit() || c == '-' {
            let width = number_width(rest);
            let number = serde_json::from_str(&rest[..width])
                .map_err(|_| format!("unexpected '{}'", &rest[..width.max(1)]))?;
            (Token::Number(number), width)
        } else if let Some((sign, op)) = OPS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            (Token::Op(*op), sign.len())
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(format!("unexpected '{c}'"));
        };
        tokens.push(token);
        rest = rest[width..].trim_start();
    }
    Ok(tokens)
}

/// The leading identifier, empty when there is none.
fn word(text: &str) -> &str {
    let is_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_start { &text[..end] } else { "" }
}

fn number_width(text: &str) -> usize {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let sign = text.len() - digits.len();
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    sign + end
}

/// A leading string literal and its width. Interpolation is an expression
/// inside a text, which nothing here needs.
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

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn take(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.take(sign) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(token) => format!("expected '{sign}' before {}", show(token)),
            None => format!("expected '{sign}' at the end"),
        })
    }

    /// Pipes and commas grow to the right and left with the length of the
    /// text, so they count as nesting too: evaluation recurses into them.
    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(format!("nested deeper than {MAX_NESTING}"));
        }
        Ok(())
    }

    fn pipe(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        self.deeper()?;
        let mut expr = self.comma()?;
        while self.take("|") {
            self.deeper()?;
            expr = Expr::Pipe(Box::new(expr), Box::new(self.comma()?));
        }
        self.depth = before;
        Ok(expr)
    }

    fn comma(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = self.or()?;
        while self.take(",") {
            self.deeper()?;
            expr = Expr::Comma(Box::new(expr), Box::new(self.or()?));
        }
        self.depth = before;
        Ok(expr)
    }

    fn or(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = self.and()?;
        while self.take_word("or") {
            self.deeper()?;
            expr = Expr::Or(Box::new(expr), Box::new(self.and()?));
        }
        self.depth = before;
        Ok(expr)
    }

    fn and(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = self.compare()?;
        while self.take_word("and") {
            self.deeper()?;
            expr = Expr::And(Box::new(expr), Box::new(self.compare()?));
        }
        self.depth = before;
        Ok(expr)
    }

    fn compare(&mut self) -> Result<Expr, String> {
        let left = self.postfix()?;
        let Some(Token::Op(op)) = self.peek() else { return Ok(left) };
        let op = *op;
        self.at += 1;
        let right = self.postfix()?;
        Ok(Expr::Compare(op, Box::new(left), Box::new(right)))
    }

    fn postfix(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = self.term()?;
        loop {
            let base = Box::new(expr);
            expr = match self.peek() {
                Some(Token::Field(name)) => Expr::Field(base, name.clone()),
                Some(Token::Sign("?")) => Expr::Try(base),
                Some(Token::Sign("[")) => {
                    self.at += 1;
                    self.bracket(*base)?
                }
                Some(Token::Sign(".")) => match self.tokens.get(self.at + 1) {
                    Some(Token::Text(name)) => {
                        let name = name.clone();
                        self.at += 1;
                        Expr::Field(base, name)
                    }
                    // `.a.[0]` means `.a[0]`.
                    Some(Token::Sign("[")) => {
                        self.at += 2;
                        self.bracket(*base)?
                    }
                    _ => return Err("expected a name after '.'".to_owned()),
                },
                _ => {
                    self.depth = before;
                    return Ok(*base);
                }
            };
            // `bracket` leaves its last token for here, like the others.
            self.at += 1;
            self.deeper()?;
        }
    }

    /// What follows `[` up to, not including, `]`.
    fn bracket(&mut self, base: Expr) -> Result<Expr, String> {
        let base = Box::new(base);
        let expr = match self.peek().cloned() {
            Some(Token::Sign("]")) => return Ok(Expr::Iterate(base)),
            Some(Token::Text(name)) => Expr::Field(base, name),
            Some(Token::Number(number)) => match number.as_i64() {
                Some(index) => Expr::Index(base, index),
                None => return Err(format!("'{number}' is no list index")),
            },
            Some(token) => return Err(format!("{} is not supported inside [ ]", show(&token))),
            None => return Err("'[' is not closed".to_owned()),
        };
        self.at += 1;
        match self.peek() {
            Some(Token::Sign("]")) => Ok(expr),
            Some(Token::Sign(":")) => Err("slices are not supported".to_owned()),
            Some(token) => Err(format!("{} is not supported inside [ ]", show(token))),
            None => Err("'[' is not closed".to_owned()),
        }
    }

    fn term(&mut self) -> Result<Expr, String> {
        match self.next() {
            Some(Token::Sign("..")) => Ok(Expr::Recurse),
            Some(Token::Sign(".")) => match self.peek().cloned() {
                Some(Token::Text(name)) => {
                    self.at += 1;
                    Ok(Expr::Field(Box::new(Expr::Identity), name))
                }
                _ => Ok(Expr::Identity),
            },
            Some(Token::Field(name)) => Ok(Expr::Field(Box::new(Expr::Identity), name)),
            Some(Token::Sign("(")) => {
                let expr = self.pipe()?;
                self.expect(")")?;
                Ok(expr)
            }
            Some(Token::Text(text)) => Ok(Expr::Literal(Value::String(text))),
            Some(Token::Number(number)) => Ok(Expr::Literal(Value::Number(number))),
            Some(Token::Word(word)) => self.call(&word),
            Some(token) => Err(format!("unexpected {}", show(&token))),
            None => Err("the expression ends too early".to_owned()),
        }
    }

    fn call(&mut self, word: &str) -> Result<Expr, String> {
        Ok(match word {
            "null" => Expr::Literal(Value::Null),
            "true" => Expr::Literal(Value::Bool(true)),
            "false" => Expr::Literal(Value::Bool(false)),
            "empty" => Expr::Empty,
            "recurse" if self.peek() != Some(&Token::Sign("(")) => Expr::Recurse,
            "not" => Expr::Not,
            "type" => Expr::Type,
            "length" => Expr::Length,
            "select" => {
                self.expect("(")?;
                let condition = self.pipe()?;
                self.expect(")")?;
                Expr::Select(Box::new(condition))
            }
            "any" | "all" => {
                let (over, condition) = self.quantifier()?;
                let (over, condition) = (Box::new(over), Box::new(condition));
                if word == "any" { Expr::Any(over, condition) } else { Expr::All(over, condition) }
            }
            "has" => Expr::Has(self.literal(word)?),
            "contains" => Expr::Contains(self.literal(word)?),
            "startswith" => Expr::StartsWith(self.text(word)?),
            "endswith" => Expr::EndsWith(self.text(word)?),
            "test" => Expr::Test(self.regex()?),
            other => return Err(format!("'{other}' is not supported")),
        })
    }

    /// The arguments of `any` and `all`: none, a condition, or a source and a
    /// condition.
    fn quantifier(&mut self) -> Result<(Expr, Expr), String> {
        let each = || Expr::Iterate(Box::new(Expr::Identity));
        if !self.take("(") {
            return Ok((each(), Expr::Identity));
        }
        let first = self.pipe()?;
        let arguments = if self.take(";") { (first, self.pipe()?) } else { (each(), first) };
        self.expect(")")?;
        Ok(arguments)
    }

    fn literal(&mut self, function: &str) -> Result<Value, String> {
        self.expect("(")?;
        let value = match self.next() {
            Some(Token::Text(text)) => Value::String(text),
            Some(Token::Number(number)) => Value::Number(number),
            _ => return Err(format!("'{function}' is supported with a literal only")),
        };
        self.expect(")")?;
        Ok(value)
    }

    fn text(&mut self, function: &str) -> Result<String, String> {
        match self.literal(function)? {
            Value::String(text) => Ok(text),
            other => Err(format!("'{function}' needs a string, not {other}")),
        }
    }

    fn regex(&mut self) -> Result<Regex, String> {
        self.expect("(")?;
        let Some(Token::Text(pattern)) = self.next() else {
            return Err("'test' is supported with a literal only".to_owned());
        };
        let insensitive = if self.take(";") {
            match self.next() {
                Some(Token::Text(flags)) if flags.is_empty() => false,
                Some(Token::Text(flags)) if flags == "i" => true,
                _ => return Err("'test' is supported with the flag \"i\" only".to_owned()),
            }
        } else {
            false
        };
        self.expect(")")?;
        regex::RegexBuilder::new(&pattern)
            .case_insensitive(insensitive)
            .size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|error| format!("bad regular expression {pattern:?}: {error}"))
    }
}
