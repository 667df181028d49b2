//! Parses the tokens of a template into a tree.
//!
//! A recursive descent parser with the same look-ahead as Go's, because the line of an
//! error is that of the last token. Nesting is limited, so that a template cannot exhaust
//! the stack.

mod pipeline;

use std::collections::HashMap;

use super::ast::{Branch, List, Node};
use super::function::Find;
use super::lex::lex;
use super::strconv;
use super::token::{Item, Kind};
use crate::error::TemplateError;

/// Limit on the variables in scope: each use searches all of them.
const MAX_VARIABLES: usize = 1000;

/// Limit on nested parentheses and control structures.
const MAX_NESTING: usize = 100;

/// The trees of a template by name; the template itself has its own name.
pub(super) type Trees = HashMap<Vec<u8>, List>;

type Parsed<T> = Result<T, TemplateError>;

/// Parses the text of the template of the given name.
pub(super) fn parse(name: &str, text: &str, find: Find) -> Parsed<Trees> {
    let eof = Item { kind: Kind::Eof, pos: text.len(), text: String::new(), line: 0 };
    let mut parser = Parser {
        name: name.to_owned(),
        find,
        items: lex(text).into_iter(),
        token: [eof.clone(), eof.clone(), eof],
        peek_count: 0,
        vars: vec!["$".to_owned()],
        action_line: 0,
        range_depth: 0,
        nesting: 0,
        trees: Trees::new(),
    };
    let root = parser.root()?;
    parser.add(name.as_bytes().to_vec(), root)?;
    Ok(parser.trees)
}

struct Parser {
    name: String,
    find: Find,
    items: std::vec::IntoIter<Item>,
    token: [Item; 3],
    peek_count: usize,
    vars: Vec<String>,
    action_line: usize,
    range_depth: usize,
    nesting: usize,
    trees: Trees,
}

/// A node of a list, or what ended it.
enum Step {
    Node(Node),
    End,
    Else,
}

impl Parser {
    fn read(&mut self) -> Item {
        // Only the end of the text follows the last token.
        self.items.next().unwrap_or(Item {
            kind: Kind::Eof,
            text: String::new(),
            ..self.token[0].clone()
        })
    }

    fn next(&mut self) -> Item {
        if self.peek_count > 0 {
            self.peek_count -= 1;
        } else {
            self.token[0] = self.read();
        }
        self.token[self.peek_count].clone()
    }

    fn backup(&mut self) {
        self.peek_count += 1;
    }

    fn backup2(&mut self, first: Item) {
        self.token[1] = first;
        self.peek_count = 2;
    }

    fn backup3(&mut self, second: Item, first: Item) {
        self.token[1] = first;
        self.token[2] = second;
        self.peek_count = 3;
    }

    fn peek(&mut self) -> Item {
        if self.peek_count == 0 {
            self.peek_count = 1;
            self.token[0] = self.read();
        }
        self.token[self.peek_count - 1].clone()
    }

    fn next_non_space(&mut self) -> Item {
        loop {
            let item = self.next();
            if item.kind != Kind::Space {
                return item;
            }
        }
    }

    fn peek_non_space(&mut self) -> Item {
        let item = self.next_non_space();
        self.backup();
        item
    }

    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let (name, line) = (self.name.clone(), self.token[0].line);
        Err(TemplateError::Parse { name, line, message: message.into() })
    }

    fn unexpected<T>(&self, item: &Item, context: &str) -> Parsed<T> {
        if item.kind == Kind::Error {
            let started = if self.action_line != 0 && self.action_line != item.line {
                format!(" in action started at line {}", self.action_line)
            } else {
                String::new()
            };
            return self.error(format!("{}{started}", item.text));
        }
        self.error(format!("unexpected {} in {context}", item.describe()))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Item> {
        let item = self.next_non_space();
        if item.kind == kind { Ok(item) } else { self.unexpected(&item, context) }
    }

    fn enter(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.error(format!("nested deeper than {MAX_NESTING} levels"));
        }
        Ok(())
    }

    /// Declares a variable until the end of its scope. One of an outer scope is kept.
    fn declare(&mut self, name: String) -> Parsed<()> {
        if self.vars.contains(&name) {
            return Ok(());
        }
        if self.vars.len() > MAX_VARIABLES {
            return self.error(format!("more than {MAX_VARIABLES} variables in one scope"));
        }
        self.vars.push(name);
        Ok(())
    }

    fn leave(&mut self) {
        self.nesting -= 1;
    }

    /// Adds a tree by name; a second definition may only replace an empty one.
    fn add(&mut self, name: Vec<u8>, tree: List) -> Parsed<()> {
        let is_empty = |list: &List| list.nodes.iter().all(Node::is_empty);
        match self.trees.get(&name) {
            Some(old) if !is_empty(old) => {
                if is_empty(&tree) {
                    return Ok(());
                }
                self.error(format!(
                    "multiple definition of template {:?}",
                    String::from_utf8_lossy(&name)
                ))
            }
            _ => {
                self.trees.insert(name, tree);
                Ok(())
            }
        }
    }

    fn root(&mut self) -> Parsed<List> {
        let mut list = List { pos: self.peek().pos, nodes: Vec::new() };
        loop {
            let item = self.peek();
            if item.kind == Kind::Eof {
                return Ok(list);
            }
            if item.kind == Kind::LeftDelim {
                let delim = self.next();
                if self.next_non_space().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.backup2(delim);
            }
            match self.text_or_action()? {
                Step::Node(node) => list.nodes.push(node),
                Step::End => return self.error("unexpected {{end}}"),
                Step::Else => return self.error("unexpected {{else}}"),
            }
        }
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        self.own_tree(name, CONTEXT)
    }

    /// Parses the body of a definition or a block as a separate tree, without the
    /// surrounding variables.
    fn own_tree(&mut self, name: Vec<u8>, context: &str) -> Parsed<()> {
        let vars = std::mem::replace(&mut self.vars, vec!["$".to_owned()]);
        let range_depth = std::mem::take(&mut self.range_depth);
        let (list, has_else) = self.item_list()?;
        if has_else {
            return self.error(format!("unexpected {{{{else}}}} in {context}"));
        }
        self.add(name, list)?;
        self.vars = vars;
        self.range_depth = range_depth;
        Ok(())
    }

    fn template_name(&mut self, item: &Item, context: &str) -> Parsed<Vec<u8>> {
        match item.kind {
            Kind::Str | Kind::RawString => self.unquote(&item.text),
            _ => self.unexpected(item, context),
        }
    }

    fn unquote(&self, text: &str) -> Parsed<Vec<u8>> {
        strconv::unquote(text).map_or_else(|| self.error("invalid syntax"), Ok)
    }

    /// Parses a list up to its end, or up to an `else`.
    fn item_list(&mut self) -> Parsed<(List, bool)> {
        self.enter()?;
        let mut list = List { pos: self.peek_non_space().pos, nodes: Vec::new() };
        while self.peek_non_space().kind != Kind::Eof {
            let step = self.text_or_action()?;
            let Step::Node(node) = step else {
                self.leave();
                return Ok((list, matches!(step, Step::Else)));
            };
            list.nodes.push(node);
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Parsed<Step> {
        let item = self.next_non_space();
        match item.kind {
            Kind::Text => Ok(Step::Node(Node::Text(item.pos, item.text))),
            Kind::LeftDelim => {
                self.action_line = item.line;
                let step = self.action()?;
                self.action_line = 0;
                Ok(step)
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Step> {
        let item = self.next_non_space();
        let node = match item.kind {
            Kind::Else => {
                let peek = self.peek_non_space();
                if !matches!(peek.kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Step::Else);
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Step::End);
            }
            Kind::Block => self.block()?,
            Kind::Break => {
                self.jump("{{break}}")?;
                Node::Break(item.pos)
            }
            Kind::Continue => {
                self.jump("{{continue}}")?;
                Node::Continue(item.pos)
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::With => Node::With(self.control("with")?),
            Kind::Template => self.template()?,
            _ => {
                self.backup();
                let pos = self.peek().pos;
                Node::Action(pos, self.pipeline("command", Kind::RightDelim)?)
            }
        };
        Ok(Step::Node(node))
    }

    fn jump(&mut self, name: &str) -> Parsed<()> {
        let item = self.next_non_space();
        if item.kind != Kind::RightDelim {
            return self.unexpected(&item, name);
        }
        if self.range_depth == 0 {
            return self.error(format!("{name} outside {{{{range}}}}"));
        }
        Ok(())
    }

    fn control(&mut self, context: &str) -> Parsed<Branch> {
        let mark = self.vars.len();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        if context == "range" {
            self.range_depth += 1;
        }
        let (list, has_else) = self.item_list()?;
        if context == "range" {
            self.range_depth -= 1;
        }
        let mut otherwise = None;
        if has_else {
            // "else if" and "else with" are an "if" or "with" inside the "else", with one
            // "end" for both.
            let next = self.peek();
            let chained = matches!((context, next.kind), ("if", Kind::If) | ("with", Kind::With));
            if chained {
                self.next();
                self.enter()?;
                let branch = self.control(context)?;
                self.leave();
                let node = if context == "if" { Node::If(branch) } else { Node::With(branch) };
                otherwise = Some(List { pos: next.pos, nodes: vec![node] });
            } else {
                let (list, has_else) = self.item_list()?;
                if has_else {
                    return self.error("expected end; found {{else}}");
                }
                otherwise = Some(list);
            }
        }
        self.vars.truncate(mark);
        Ok(Branch { pipe, list, otherwise })
    }

    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        self.own_tree(name.clone(), CONTEXT)?;
        Ok(Node::Template { pos: item.pos, name, pipe: Some(pipe) })
    }

    fn template(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Node::Template { pos: item.pos, name, pipe })
    }
}
