//! Splits a template into tokens, as Go's `text/template` does.
//!
//! Types, boundaries and line numbers of the tokens determine where errors are reported,
//! so they follow the Go lexer closely. It never fails: an error is a token, which the
//! parser reports.

use std::sync::LazyLock;

use regex::Regex;

use super::token::{Item, Kind};

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
const TRIM_MARKER_LEN: usize = 2;

/// Splits the whole text. The last token is `Eof`; only `Eof` follows an `Error`.
pub(super) fn lex(text: &str) -> Vec<Item> {
    let mut lexer = Lexer {
        input: text,
        pos: 0,
        start: 0,
        line: 1,
        start_line: 1,
        paren_depth: 0,
        items: Vec::new(),
    };
    let mut state = Some(State::Text);
    while let Some(current) = state {
        state = match current {
            State::Text => lexer.text(),
            State::LeftDelim => lexer.left_delim(),
            State::Comment => lexer.comment(),
            State::RightDelim => lexer.right_delim(),
            State::Action => lexer.action(),
        };
    }
    let end = Item { kind: Kind::Eof, pos: lexer.pos, text: String::new(), line: lexer.start_line };
    lexer.items.push(end);
    lexer.items
}

/// Letters, digits and the underscore, as in Go.
pub(super) fn is_alphanumeric(c: char) -> bool {
    static LETTER_OR_DIGIT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[\p{L}\p{Nd}]$").expect("the pattern is fixed and valid"));
    if c.is_ascii() {
        return c == '_' || c.is_ascii_alphanumeric();
    }
    LETTER_OR_DIGIT.is_match(c.encode_utf8(&mut [0; 4]))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn has_left_trim_marker(s: &str) -> bool {
    let b = s.as_bytes();
    b.len() >= 2 && b[0] == b'-' && is_space(char::from(b[1]))
}

fn has_right_trim_marker(s: &str) -> bool {
    let b = s.as_bytes();
    b.len() >= 2 && is_space(char::from(b[0])) && b[1] == b'-'
}

/// Next state of the lexer; `None` ends it.
enum State {
    Text,
    LeftDelim,
    Comment,
    RightDelim,
    Action,
}

struct Lexer<'t> {
    input: &'t str,
    pos: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    items: Vec<Item>,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.input[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    /// Steps back over the character just read.
    fn backup(&mut self, c: char) {
        self.pos -= c.len_utf8();
        if c == '\n' {
            self.line -= 1;
        }
    }

    fn emit(&mut self, kind: Kind) -> Option<State> {
        self.push(kind);
        Some(State::Action)
    }

    fn push(&mut self, kind: Kind) {
        let text = self.input[self.start..self.pos].to_owned();
        self.items.push(Item { kind, pos: self.start, text, line: self.start_line });
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn ignore(&mut self) {
        self.line += self.input[self.start..self.pos].matches('\n').count();
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn error(&mut self, message: impl Into<String>) -> Option<State> {
        self.items.push(Item {
            kind: Kind::Error,
            pos: self.start,
            text: message.into(),
            line: self.start_line,
        });
        None
    }

    fn text(&mut self) -> Option<State> {
        let Some(at) = self.rest().find(LEFT) else {
            self.pos = self.input.len();
            if self.pos > self.start {
                self.line += self.input[self.start..self.pos].matches('\n').count();
                self.push(Kind::Text);
            }
            return None;
        };
        if at > 0 {
            self.pos += at;
            let before = &self.input[self.start..self.pos];
            let mut trimmed = 0;
            if has_left_trim_marker(&self.input[self.pos + LEFT.len()..]) {
                trimmed = before.len() - before.trim_end_matches(is_space).len();
            }
            self.pos -= trimmed;
            self.line += self.input[self.start..self.pos].matches('\n').count();
            if self.pos > self.start {
                self.push(Kind::Text);
            }
            self.pos += trimmed;
            self.ignore();
        }
        Some(State::LeftDelim)
    }

    fn left_delim(&mut self) -> Option<State> {
        self.pos += LEFT.len();
        let marker = if has_left_trim_marker(self.rest()) { TRIM_MARKER_LEN } else { 0 };
        if self.rest()[marker..].starts_with("/*") {
            self.pos += marker;
            self.ignore();
            return Some(State::Comment);
        }
        self.push(Kind::LeftDelim);
        self.pos += marker;
        self.ignore();
        self.paren_depth = 0;
        Some(State::Action)
    }

    fn comment(&mut self) -> Option<State> {
        self.pos += 2;
        let Some(end) = self.rest().find("*/") else { return self.error("unclosed comment") };
        self.pos += end + 2;
        let Some(trim) = self.at_right_delim() else {
            return self.error("comment ends before closing delimiter");
        };
        if trim {
            self.pos += TRIM_MARKER_LEN;
        }
        self.pos += RIGHT.len();
        if trim {
            self.skip_space_after_delim();
        }
        self.ignore();
        Some(State::Text)
    }

    fn skip_space_after_delim(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start_matches(is_space).len();
    }

    /// Whether `}}` is next, and whether it has a trim marker.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[TRIM_MARKER_LEN..].starts_with(RIGHT) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn right_delim(&mut self) -> Option<State> {
        let trim = self.at_right_delim() == Some(true);
        if trim {
            self.pos += TRIM_MARKER_LEN;
            self.ignore();
        }
        self.pos += RIGHT.len();
        self.push(Kind::RightDelim);
        if trim {
            self.skip_space_after_delim();
            self.ignore();
        }
        Some(State::Text)
    }

    fn action(&mut self) -> Option<State> {
        if self.at_right_delim().is_some() {
            if self.paren_depth == 0 {
                return Some(State::RightDelim);
            }
            return self.error("unclosed left paren");
        }
        let Some(c) = self.next() else { return self.error("unclosed action") };
        match c {
            _ if is_space(c) => {
                self.backup(c);
                self.space()
            }
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.next() != Some('=') {
                    return self.error("expected :=");
                }
                self.emit(Kind::Declare)
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::Str, "unterminated quoted string"),
            '`' => {
                loop {
                    match self.next() {
                        None => return self.error("unterminated raw quoted string"),
                        Some('`') => break,
                        Some(_) => {}
                    }
                }
                self.emit(Kind::RawString)
            }
            '$' => self.field_or_variable(Kind::Variable),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '.' if self.rest().bytes().next().is_some_and(|b| !b.is_ascii_digit()) => {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.backup(c);
                self.number()
            }
            _ if is_alphanumeric(c) => self.identifier(),
            '(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => {
                if self.paren_depth == 0 {
                    return self.error("unexpected right paren");
                }
                self.paren_depth -= 1;
                self.emit(Kind::RightParen)
            }
            '!'..='~' => self.emit(Kind::Char),
            _ => self.error(format!("unrecognized character in action: {}", unicode_name(c))),
        }
    }

    fn space(&mut self) -> Option<State> {
        let mut count = 0;
        while self.peek().is_some_and(is_space) {
            self.next();
            count += 1;
        }
        // A minus after a space may belong to a closing delimiter, which includes that space.
        let last = self.pos - 1;
        let tail = &self.input[last..];
        if has_right_trim_marker(tail) && tail[TRIM_MARKER_LEN..].starts_with(RIGHT) {
            let c = char::from(self.input.as_bytes()[last]);
            self.backup(c);
            if count == 1 {
                return Some(State::RightDelim);
            }
        }
        self.emit(Kind::Space)
    }

    fn quoted(&mut self, end: char, kind: Kind, unterminated: &str) -> Option<State> {
        loop {
            match self.next() {
                Some('\\') if self.peek().is_some_and(|c| c != '\n') => {
                    self.next();
                }
                None | Some('\n' | '\\') => return self.error(unterminated),
                Some(c) if c == end => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn identifier(&mut self) -> Option<State> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.input[self.start..self.pos] {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            "block" => Kind::Block,
            "break" => Kind::Break,
            "continue" => Kind::Continue,
            "define" => Kind::Define,
            "else" => Kind::Else,
            "end" => Kind::End,
            "if" => Kind::If,
            "range" => Kind::Range,
            "template" => Kind::Template,
            "with" => Kind::With,
            _ => Kind::Identifier,
        };
        self.emit(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Option<State> {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable { kind } else { Kind::Dot });
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    fn bad_character(&mut self) -> Option<State> {
        let c = self.peek().unwrap_or('\u{fffd}');
        self.error(format!("bad character {}", unicode_name(c)))
    }

    /// Whether a word may end here.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) if is_space(c) => true,
            _ => self.rest().starts_with(RIGHT),
        }
    }

    fn number(&mut self) -> Option<State> {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            // A complex constant such as 1+2i: no spaces, and it must end in i.
            if !self.scan_number() || self.input.as_bytes()[self.pos - 1] != b'i' {
                return self.bad_number();
            }
            return self.emit(Kind::Complex);
        }
        self.emit(Kind::Number)
    }

    fn bad_number(&mut self) -> Option<State> {
        let text = format!("bad number syntax: {:?}", &self.input[self.start..self.pos]);
        self.error(text)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let yes = self.peek().is_some_and(|c| valid.contains(c));
        if yes {
            self.next();
        }
        yes
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if (digits == DECIMAL && self.accept("eE")) || (digits == HEX && self.accept("pP")) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return false;
        }
        true
    }
}

/// A character in the form `U+007D '}'`.
fn unicode_name(c: char) -> String {
    format!("U+{:04X} '{c}'", u32::from(c))
}
