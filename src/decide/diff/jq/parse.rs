//! Parses and validates an expression.

use serde_json::{Number, Value};

use super::ast::{Arith, BUILTINS, Builtin, Expr, OF_TYPE};
use super::lex::{Token, lex};
use super::{MAX_LENGTH, MAX_NESTING};

/// Limit on the compiled size of a regular expression, and on the cache of a search, in bytes.
const MAX_REGEX_BYTES: usize = 128 << 10;

/// Parses and validates an expression.
pub fn parse(text: &str) -> Result<Expr, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("longer than {MAX_LENGTH} bytes"));
    }
    let mut parser = Parser { tokens: lex(text)?, at: 0, depth: 0, variables: Vec::new() };
    let expr = parser.pipe()?;
    if let Some(token) = parser.peek() {
        return Err(format!("unexpected {token}"));
    }
    if !expr.is_path() {
        return Err("the expression returns a value, not a path to ignore".to_owned());
    }
    Ok(expr)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The defined variables.
    variables: Vec<String>,
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

    fn missing(&self, what: &str) -> String {
        match self.peek() {
            Some(token) => format!("expected '{what}' before {token}"),
            None => format!("expected '{what}' at the end"),
        }
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.missing(sign)) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), String> {
        if self.take_word(word) { Ok(()) } else { Err(self.missing(word)) }
    }

    /// Pipes and commas nest with the length of the text and count as nesting: evaluation
    /// recurses into them.
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

    /// A chain of operands, parsed by `operand`.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Expr, String>,
        operator: fn(&Token) -> Option<Join>,
    ) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = operand(self)?;
        while let Some(join) = self.peek().and_then(operator) {
            self.at += 1;
            self.deeper()?;
            expr = join(Box::new(expr), Box::new(operand(self)?));
        }
        self.depth = before;
        Ok(expr)
    }

    fn comma(&mut self) -> Result<Expr, String> {
        self.chain(Self::alternative, |token| {
            (*token == Token::Sign(",")).then_some(Expr::Comma as Join)
        })
    }

    /// `//` is right-associative.
    fn alternative(&mut self) -> Result<Expr, String> {
        let expr = self.or()?;
        if !self.take("//") {
            return Ok(expr);
        }
        let before = self.depth;
        self.deeper()?;
        let otherwise = self.alternative()?;
        self.depth = before;
        Ok(Expr::Alternative(Box::new(expr), Box::new(otherwise)))
    }

    fn or(&mut self) -> Result<Expr, String> {
        self.chain(Self::and, |token| {
            matches!(token, Token::Word(word) if word == "or").then_some(Expr::Or as Join)
        })
    }

    fn and(&mut self) -> Result<Expr, String> {
        self.chain(Self::compare, |token| {
            matches!(token, Token::Word(word) if word == "and").then_some(Expr::And as Join)
        })
    }

    fn compare(&mut self) -> Result<Expr, String> {
        let left = self.sum()?;
        let Some(Token::Op(op)) = self.peek() else { return Ok(left) };
        let op = *op;
        self.at += 1;
        let right = self.sum()?;
        Ok(Expr::Compare(op, Box::new(left), Box::new(right)))
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.chain(Self::product, |token| match token {
            Token::Arith(Arith::Add) => Some(|a, b| Expr::Arith(Arith::Add, a, b)),
            Token::Arith(Arith::Subtract) => Some(|a, b| Expr::Arith(Arith::Subtract, a, b)),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Expr, String> {
        self.chain(Self::postfix, |token| match token {
            Token::Arith(Arith::Multiply) => Some(|a, b| Expr::Arith(Arith::Multiply, a, b)),
            Token::Arith(Arith::Divide) => Some(|a, b| Expr::Arith(Arith::Divide, a, b)),
            Token::Arith(Arith::Modulo) => Some(|a, b| Expr::Arith(Arith::Modulo, a, b)),
            _ => None,
        })
    }

    fn postfix(&mut self) -> Result<Expr, String> {
        let before = self.depth;
        let mut expr = self.term()?;
        loop {
            let base = Box::new(expr);
            expr = match self.peek() {
                Some(Token::Field(name)) => Expr::Field(base, name.clone()),
                Some(Token::Sign("?")) => Expr::Try(base, None),
                Some(Token::Sign("[")) => {
                    self.at += 1;
                    self.bracket(base)?
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
                        self.bracket(base)?
                    }
                    _ => return Err("expected a name after '.'".to_owned()),
                },
                Some(Token::Word(word)) if word == "as" => {
                    self.at += 1;
                    let bound = self.bind(base)?;
                    self.depth = before;
                    return Ok(bound);
                }
                _ => {
                    self.depth = before;
                    return Ok(*base);
                }
            };
            // `bracket` leaves its last token for this place, like the others.
            self.at += 1;
            self.deeper()?;
        }
    }

    /// The part after `as`: a variable and its scope.
    fn bind(&mut self, source: Box<Expr>) -> Result<Expr, String> {
        let name = match self.next() {
            Some(Token::Variable(name)) => name,
            Some(token) => return Err(format!("{token} is not supported after 'as'")),
            None => return Err("expected a variable after 'as'".to_owned()),
        };
        self.expect("|")?;
        self.variables.push(name.clone());
        self.deeper()?;
        let body = self.pipe()?;
        self.variables.pop();
        Ok(Expr::Bind(source, name, Box::new(body)))
    }

    /// The part after `[`, up to `]`, exclusive.
    fn bracket(&mut self, base: Box<Expr>) -> Result<Expr, String> {
        let closed = |parser: &Self, expr: Expr| match parser.peek() {
            Some(Token::Sign("]")) => Ok(expr),
            Some(token) => Err(format!("{token} is not supported inside [ ]")),
            None => Err("'[' is not closed".to_owned()),
        };
        match self.peek() {
            Some(Token::Sign("]")) => return Ok(Expr::Iterate(base)),
            Some(Token::Sign(":")) => {
                self.at += 1;
                let to = Box::new(self.pipe()?);
                return closed(self, Expr::Slice(base, None, Some(to)));
            }
            Some(_) => {}
            None => return Err("'[' is not closed".to_owned()),
        }
        let index = self.pipe()?;
        if self.take(":") {
            let open = self.peek() == Some(&Token::Sign("]"));
            let to = if open { None } else { Some(Box::new(self.pipe()?)) };
            return closed(self, Expr::Slice(base, Some(Box::new(index)), to));
        }
        let expr = match index {
            Expr::Literal(Value::String(name)) => Expr::Field(base, name),
            Expr::Literal(Value::Number(number)) if number.as_i64().is_none() => {
                return Err(format!("'{number}' is not a list index"));
            }
            index => Expr::Index(base, Box::new(index)),
        };
        closed(self, expr)
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
            Some(Token::Sign("[")) => {
                if self.take("]") {
                    return Ok(Expr::List(None));
                }
                let expr = self.pipe()?;
                self.expect("]")?;
                Ok(Expr::List(Some(Box::new(expr))))
            }
            Some(Token::Arith(Arith::Subtract)) => {
                self.deeper()?;
                let zero = Expr::Literal(Value::from(0));
                Ok(match self.postfix()? {
                    Expr::Literal(Value::Number(number)) => Expr::Literal(negative(&number)),
                    other => Expr::Arith(Arith::Subtract, Box::new(zero), Box::new(other)),
                })
            }
            Some(Token::Text(text)) => Ok(Expr::Literal(Value::String(text))),
            Some(Token::Number(number)) => Ok(Expr::Literal(Value::Number(number))),
            Some(Token::Variable(name)) if self.variables.contains(&name) => {
                Ok(Expr::Variable(name))
            }
            Some(Token::Variable(name)) => Err(format!("variable '${name}' is not defined")),
            Some(Token::Word(word)) => self.word(&word),
            Some(Token::Sign("{")) => Err("an object literal is not supported".to_owned()),
            Some(token) => Err(format!("unexpected {token}")),
            None => Err("the expression ends too early".to_owned()),
        }
    }

    fn word(&mut self, word: &str) -> Result<Expr, String> {
        let at = |index: i64| {
            Expr::Index(Box::new(Expr::Identity), Box::new(Expr::Literal(index.into())))
        };
        let bare = self.peek() != Some(&Token::Sign("("));
        Ok(match word {
            "null" => Expr::Literal(Value::Null),
            "true" => Expr::Literal(Value::Bool(true)),
            "false" => Expr::Literal(Value::Bool(false)),
            "empty" => Expr::Empty,
            "recurse" if bare => Expr::Recurse,
            "first" if bare => at(0),
            "last" if bare => at(-1),
            "if" => self.condition()?,
            "try" => {
                self.deeper()?;
                let body = Box::new(self.postfix()?);
                let caught = self.take_word("catch");
                let handler = if caught { Some(Box::new(self.postfix()?)) } else { None };
                Expr::Try(body, handler)
            }
            "test" => Expr::Test(self.regex()?),
            _ => self.call(word)?,
        })
    }

    /// The part after `if` or `elif`.
    fn condition(&mut self) -> Result<Expr, String> {
        let mut branches = Vec::new();
        loop {
            let condition = self.pipe()?;
            self.expect_word("then")?;
            branches.push((condition, self.pipe()?));
            if self.take_word("elif") {
                self.deeper()?;
                continue;
            }
            let otherwise = if self.take_word("else") { self.pipe()? } else { Expr::Identity };
            self.expect_word("end")?;
            return Ok(Expr::If(branches, Box::new(otherwise)));
        }
    }

    fn call(&mut self, word: &str) -> Result<Expr, String> {
        if let Some((_, types)) = OF_TYPE.iter().find(|(name, _)| *name == word) {
            let types = Expr::Literal(Value::from(*types));
            return Ok(Expr::Call(Builtin::OfType, vec![types]));
        }
        if !BUILTINS.iter().any(|(name, ..)| *name == word) {
            return Err(format!("'{word}' is not supported"));
        }
        let mut arguments = Vec::new();
        if self.take("(") {
            arguments.push(self.pipe()?);
            while self.take(";") {
                arguments.push(self.pipe()?);
            }
            self.expect(")")?;
        }
        let count = arguments.len();
        let found = BUILTINS.iter().find(|(name, takes, _)| *name == word && *takes == count);
        match found {
            Some((_, _, builtin)) => Ok(Expr::Call(*builtin, arguments)),
            None => Err(format!("'{word}' is not supported with {count} arguments")),
        }
    }

    fn regex(&mut self) -> Result<regex::Regex, String> {
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
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|error| format!("bad regular expression {pattern:?}: {error}"))
    }
}

/// Combines two operands.
type Join = fn(Box<Expr>, Box<Expr>) -> Expr;

fn negative(number: &Number) -> Value {
    match number.as_i64().and_then(i64::checked_neg) {
        Some(number) => number.into(),
        None => number.as_f64().map_or(Value::Null, |number| (-number).into()),
    }
}
