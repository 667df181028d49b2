//! Reads paths with selections.

use super::pattern::Pattern;
use super::{Condition, Field, Function, JqSelection, Literal, Name, Part};

/// Most parts of an expression, and levels of its parentheses.
pub(super) const MAX_PARTS: usize = 200;
pub(super) const MAX_NESTING: usize = 16;

/// The parts of a pattern, besides half of its length.
const PARTS_OF_PATTERN: usize = 8;

/// Most digits of a number: all numbers with so few are exact, and differ.
const MAX_DIGITS: usize = 15;

impl JqSelection {
    /// Reads an expression; `None` when it is not of this form, or no expression at all.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser =
            Parser { tokens: tokens(text)?, at: 0, parts: 0, nesting: 0, variable: None };
        let parts = parser.paths()?;
        (parser.at == parser.tokens.len()).then_some(Self(parts))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    /// `.name`
    Name(&'t str),
    /// A string without escapes.
    Text(&'t str),
    /// Digits, and maybe a fraction.
    Number(&'t str),
    Word(&'t str),
    /// `$name`
    Variable(&'t str),
    Symbol(&'t str),
}

/// The tokens of an expression; `None` when it has others.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_word = |c: char| c.is_ascii_alphabetic() || c == '_';
        let word = |text: &str| text.find(|c| !is_word(c)).unwrap_or(text.len());
        let (token, length) = match first {
            '.' if rest[1..].starts_with(starts_word) => {
                let end = 1 + word(&rest[1..]);
                (Token::Name(&rest[1..end]), end)
            }
            '.' if rest[1..].starts_with('.') => (Token::Symbol(&rest[..2]), 2),
            '"' => {
                let (inside, _) = rest[1..].split_once('"')?;
                if inside.contains('\\') {
                    return None;
                }
                (Token::Text(inside), inside.len() + 2)
            }
            '0'..='9' => {
                let number = |text: &str| text.find(|c: char| !c.is_ascii_digit());
                let whole = number(rest).unwrap_or(rest.len());
                let end = match rest[whole..].strip_prefix('.') {
                    Some(part) => whole + 1 + number(part).unwrap_or(part.len()),
                    None => whole,
                };
                // No digits after the point, too many, or an exponent.
                if rest[..end].ends_with('.')
                    || end > MAX_DIGITS
                    || rest[end..].starts_with(['e', 'E'])
                {
                    return None;
                }
                (Token::Number(&rest[..end]), end)
            }
            '$' if rest[1..].starts_with(starts_word) => {
                let end = 1 + word(&rest[1..]);
                (Token::Variable(&rest[1..end]), end)
            }
            c if starts_word(c) => (Token::Word(&rest[..word(rest)]), word(rest)),
            '.' | '[' | ']' | '(' | ')' | '?' | ',' => (Token::Symbol(&rest[..1]), 1),
            '|' | '=' | '!' | '-' => {
                let more = rest[1..].find(|c| !"|=!<>+*/%".contains(c));
                let end = more.map_or(rest.len(), |more| 1 + more);
                let symbol = &rest[..end];
                if !matches!(symbol, "|" | "==" | "!=" | "-") {
                    return None;
                }
                (Token::Symbol(symbol), end)
            }
            _ => return None,
        };
        tokens.push(token);
        rest = rest[length..].trim_ascii_start();
    }
    Some(tokens)
}

/// All methods give `None` for what is not of this form.
struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    parts: usize,
    nesting: usize,
    /// What conditions are about, if that has a name.
    variable: Option<&'t str>,
}

/// One side of a comparison.
enum Operand {
    Literal(Literal),
    Condition(Condition),
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// Whether this is the next token, which is skipped then.
    fn skips(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Option<()> {
        self.skips(Token::Symbol(symbol)).then_some(())
    }

    /// Counts a part.
    fn counted<T>(&mut self, part: T) -> Option<T> {
        self.parts += 1;
        (self.parts <= MAX_PARTS).then_some(part)
    }

    /// What is within parentheses.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.expect("(")?;
        self.nesting += 1;
        let inside = if self.nesting > MAX_NESTING { None } else { inside(self) };
        self.nesting -= 1;
        let inside = inside?;
        self.expect(")")?;
        Some(inside)
    }

    fn paths(&mut self) -> Option<Vec<Part>> {
        let mut all = self.union()?;
        while self.skips(Token::Symbol("|")) {
            all.extend(self.union()?);
        }
        Some(all)
    }

    fn union(&mut self) -> Option<Vec<Part>> {
        if self.peek() == Some(Token::Word("keys")) {
            return self.named_keys();
        }
        let mut all = vec![self.path()?];
        while self.skips(Token::Symbol(",")) {
            all.push(self.path()?);
        }
        match all.as_mut_slice() {
            [one] => Some(std::mem::take(one)),
            _ => Some(vec![self.counted(Part::Union(all))?]),
        }
    }

    /// `keys[]`
    fn keys(&mut self) -> Option<()> {
        self.skips(Token::Word("keys")).then_some(())?;
        self.expect("[")?;
        self.expect("]")
    }

    /// `| select(…)`, of names of fields.
    fn selected(&mut self) -> Option<Part> {
        self.expect("|")?;
        self.skips(Token::Word("select")).then_some(())?;
        let condition = self.nested(Self::condition)?;
        self.counted(Part::Keyed(condition))
    }

    /// `keys[] as $k | select(… $k …) | .[$k]`, and the fields after it.
    fn named_keys(&mut self) -> Option<Vec<Part>> {
        self.keys()?;
        self.skips(Token::Word("as")).then_some(())?;
        let Token::Variable(name) = self.next()? else { return None };
        // Within the condition of another one, which names something else.
        if self.variable.replace(name).is_some() {
            return None;
        }
        let keyed = self.selected()?;
        self.variable = None;
        for symbol in ["|", ".", "["] {
            self.expect(symbol)?;
        }
        self.skips(Token::Variable(name)).then_some(())?;
        self.expect("]")?;
        self.after(vec![keyed], false)
    }

    /// The name of fields of a path that has these parts, by the names themselves:
    /// `keys[] | select(…)`, maybe of the same path, and maybe in parentheses.
    fn keyed(&mut self, parts: &[Part]) -> Option<Part> {
        let part = self.keyed_by(parts)?;
        self.expect("]")?;
        // Without errors to be left out.
        (self.peek() != Some(Token::Symbol("?"))).then_some(part)
    }

    fn keyed_by(&mut self, parts: &[Part]) -> Option<Part> {
        if self.peek() == Some(Token::Symbol("(")) {
            return self.nested(|parser| parser.keyed_by(parts));
        }
        let from = match self.peek()? {
            Token::Word("keys") => Vec::new(),
            _ => {
                let from = self.path()?;
                self.expect("|")?;
                from
            }
        };
        let is_field = |part: &Part| matches!(part, Part::Field(_));
        (from == parts && from.iter().all(is_field)).then_some(())?;
        self.keys()?;
        self.selected()
    }

    fn path(&mut self) -> Option<Vec<Part>> {
        if self.skips(Token::Symbol("..")) {
            // Nothing may follow it directly: that differs between jq and jaq.
            return self.counted(Part::All).map(|part| vec![part]);
        }
        let starts_here = matches!(self.peek()?, Token::Name(_) | Token::Symbol("."));
        let parts = match self.peek()? {
            Token::Name(_) => Vec::new(),
            Token::Symbol(".") => self.start()?,
            Token::Symbol("(") => self.nested(Self::paths)?,
            Token::Word("select") => {
                self.at += 1;
                let condition = self.nested(Self::condition)?;
                vec![self.counted(Part::Where(condition))?]
            }
            _ => return None,
        };
        self.after(parts, starts_here)
    }

    /// The rest of a path after some parts; `starts_here` when these are all from the value that
    /// it is applied to, which names of fields are computed from.
    fn after(&mut self, mut parts: Vec<Part>, starts_here: bool) -> Option<Vec<Part>> {
        loop {
            let part = match self.peek() {
                Some(Token::Name(name)) => {
                    self.at += 1;
                    self.field(Name::Key(name.to_owned()))?
                }
                Some(Token::Symbol("[")) => self.bracket(&parts, starts_here)?,
                Some(Token::Symbol(".")) => {
                    self.at += 1;
                    match self.peek()? {
                        Token::Symbol("[") => self.bracket(&parts, starts_here)?,
                        _ => self.quoted()?,
                    }
                }
                _ => return Some(parts),
            };
            parts.push(part);
        }
    }

    /// A point that is no part of a name: the value itself, or what begins with a string.
    fn start(&mut self) -> Option<Vec<Part>> {
        self.expect(".")?;
        match self.peek() {
            Some(Token::Text(_)) => Some(vec![self.quoted()?]),
            _ => Some(Vec::new()),
        }
    }

    fn quoted(&mut self) -> Option<Part> {
        match self.next()? {
            Token::Text(name) => self.field(Name::Key(name.to_owned())),
            _ => None,
        }
    }

    fn bracket(&mut self, parts: &[Part], starts_here: bool) -> Option<Part> {
        self.expect("[")?;
        if let Some(Token::Name(_) | Token::Word("keys") | Token::Symbol("(" | ".")) = self.peek() {
            return if starts_here { self.keyed(parts) } else { None };
        }
        if self.skips(Token::Symbol("]")) {
            let optional = self.optional();
            return self.counted(Part::Each { optional });
        }
        let name = self.name()?;
        self.expect("]")?;
        self.field(name)
    }

    fn field(&mut self, name: Name) -> Option<Part> {
        let optional = self.optional();
        self.counted(Part::Field(Field { name, optional }))
    }

    fn optional(&mut self) -> bool {
        let before = self.at;
        while self.skips(Token::Symbol("?")) {}
        self.at > before
    }

    fn condition(&mut self) -> Option<Condition> {
        let mut condition = self.any()?;
        while self.skips(Token::Symbol("|")) {
            condition = if self.skips(Token::Word("not")) {
                self.counted(Condition::Not(Box::new(condition)))?
            } else {
                // It is about the value before it, which is one of a path.
                let Condition::Truthy(path) = condition else { return None };
                self.function(path)?
            };
        }
        Some(condition)
    }

    fn any(&mut self) -> Option<Condition> {
        let mut any = vec![self.all()?];
        while self.skips(Token::Word("or")) {
            any.push(self.all()?);
        }
        if any.len() == 1 { any.pop() } else { self.counted(Condition::Any(any)) }
    }

    fn all(&mut self) -> Option<Condition> {
        let mut all = vec![self.test()?];
        while self.skips(Token::Word("and")) {
            all.push(self.test()?);
        }
        if all.len() == 1 { all.pop() } else { self.counted(Condition::All(all)) }
    }

    fn test(&mut self) -> Option<Condition> {
        let left = self.operand()?;
        let is_equal = self.skips(Token::Symbol("=="));
        if !is_equal && !self.skips(Token::Symbol("!=")) {
            return match left {
                Operand::Condition(condition) => Some(condition),
                Operand::Literal(_) => None,
            };
        }
        match (left, self.operand()?) {
            (Operand::Condition(Condition::Truthy(path)), Operand::Literal(literal))
            | (Operand::Literal(literal), Operand::Condition(Condition::Truthy(path))) => {
                let equal = Condition::Equal(path, literal);
                Some(if is_equal { equal } else { Condition::Not(Box::new(equal)) })
            }
            _ => None,
        }
    }

    fn operand(&mut self) -> Option<Operand> {
        match self.peek()? {
            Token::Variable(name) if self.variable == Some(name) => {
                self.at += 1;
                Some(Operand::Condition(self.counted(Condition::Truthy(Vec::new()))?))
            }
            // Of another value than the variable.
            Token::Name(_)
            | Token::Symbol(".")
            | Token::Word("startswith" | "endswith" | "contains" | "has" | "test" | "IN")
                if self.variable.is_some() =>
            {
                None
            }
            Token::Name(_) | Token::Symbol(".") => {
                let field = |part| match part {
                    Part::Field(field) => Some(field),
                    _ => None,
                };
                let path = self.path()?.into_iter().map(field).collect::<Option<_>>()?;
                Some(Operand::Condition(self.counted(Condition::Truthy(path))?))
            }
            Token::Symbol("(") => self.nested(Self::condition).map(Operand::Condition),
            Token::Word("startswith" | "endswith" | "contains" | "has" | "test" | "IN") => {
                self.function(Vec::new()).map(Operand::Condition)
            }
            _ => self.literal().map(Operand::Literal),
        }
    }

    fn literal(&mut self) -> Option<Literal> {
        let literal = match self.peek()? {
            Token::Word("null") => Literal::Null,
            Token::Word("true") => Literal::Bool(true),
            Token::Word("false") => Literal::Bool(false),
            Token::Text(text) => Literal::Text(text.to_owned()),
            Token::Number(number) => Literal::Number(number.parse().ok()?),
            Token::Symbol("-") => {
                self.at += 1;
                let Token::Number(number) = self.peek()? else { return None };
                Literal::Number(-number.parse::<f64>().ok()?)
            }
            _ => return None,
        };
        self.at += 1;
        Some(literal)
    }

    /// A function of the value of a path, such as `startswith("…")`.
    fn function(&mut self, path: Vec<Field>) -> Option<Condition> {
        let Token::Word(word) = self.next()? else { return None };
        let function = self.nested(|parser| {
            if word == "has" {
                return parser.name().map(Function::Has);
            }
            if word == "IN" {
                let mut all = vec![parser.literal()?];
                while parser.skips(Token::Symbol(",")) {
                    let more = parser.literal()?;
                    all.push(parser.counted(more)?);
                }
                return Some(Function::OneOf(all));
            }
            let Token::Text(text) = parser.next()? else { return None };
            let text = text.to_owned();
            match word {
                "startswith" => Some(Function::StartsWith(text)),
                "endswith" => Some(Function::EndsWith(text)),
                "contains" => Some(Function::Contains(text)),
                "test" => {
                    // It takes memory, and time to compile.
                    parser.parts += PARTS_OF_PATTERN + text.len() / 2;
                    Pattern::new(&text).map(Function::Test)
                }
                _ => None,
            }
        })?;
        self.counted(Condition::Calls(path, function))
    }

    /// The name of a field, or the position of an element.
    fn name(&mut self) -> Option<Name> {
        match self.next()? {
            Token::Text(name) => Some(Name::Key(name.to_owned())),
            Token::Number(number) => Some(Name::Index(number.parse().ok()?)),
            Token::Symbol("-") => match self.next()? {
                Token::Number(number) => Some(Name::Index(-number.parse::<i64>().ok()?)),
                _ => None,
            },
            _ => None,
        }
    }
}
