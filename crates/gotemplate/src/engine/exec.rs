//! Executes a template: writes text, evaluates control structures, and manages variables.
//!
//! `at` is the node of a possible error. It changes exactly as in Go, so that line and
//! column are equal.

use std::fmt;

use super::ast::{Arg, Branch, Cmd, List, Node, Pipe, Pos};
use super::fail::{Fail, Outcome};
use super::format;
use super::function::Find;
use super::parse::{Trees, parse};
use super::run::Run;
use super::value::{Dict, Value};
use crate::error::{NoEntry, TemplateError, TemplateFault};

/// Meaning of `{{.x}}` when the parameters have no `x` (AS-132).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, which prints as `<no value>`.
    #[default]
    Default,
    /// The zero value of the map's type.
    Zero,
    /// The execution fails.
    Error,
}

/// The node of an error.
#[derive(Clone, Copy)]
pub(super) enum At<'t> {
    List(&'t List),
    Node(&'t Node),
    Pipe(&'t Pipe),
    Cmd(&'t Cmd),
    Arg(&'t Arg),
}

impl At<'_> {
    fn pos(self) -> Pos {
        match self {
            Self::List(list) => list.pos,
            Self::Node(node) => node.pos(),
            Self::Pipe(pipe) => pipe.pos,
            Self::Cmd(cmd) => cmd.pos,
            Self::Arg(arg) => arg.pos(),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(list) => list.fmt(f),
            Self::Node(node) => node.fmt(f),
            Self::Pipe(pipe) => pipe.fmt(f),
            Self::Cmd(cmd) => cmd.fmt(f),
            Self::Arg(arg) => arg.fmt(f),
        }
    }
}

/// How a walk ended.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Source {
    pub(super) name: String,
    text: String,
    trees: Trees,
    pub(super) missing_key: MissingKey,
}

impl Source {
    /// Parses the text of a template; `find` knows the functions.
    pub fn parse(
        name: &str,
        text: &str,
        missing_key: MissingKey,
        find: Find,
    ) -> Result<Self, TemplateError> {
        let trees = parse(name, text, find)?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), trees, missing_key })
    }
}

/// One execution of a template.
pub(super) struct Exec<'t, 'e> {
    pub source: &'t Source,
    pub run: Run<'e>,
    pub at: At<'t>,
    vars: Vec<(&'t str, Value)>,
    out: Vec<u8>,
    depth: usize,
}

/// Executes a template with the given data and returns the output, and the run as it is then.
pub(crate) fn execute<'e>(
    source: &Source,
    data: Value,
    run: Run<'e>,
) -> (Result<Vec<u8>, TemplateError>, Run<'e>) {
    let Some(root) = source.trees.get(source.name.as_bytes()) else { return (Ok(Vec::new()), run) };
    let vars = vec![("$", data.clone())];
    let mut exec = Exec { source, run, at: At::List(root), vars, out: Vec::new(), depth: 0 };
    let walked = exec.walk_list(&data, root);
    (walked.map(|_| exec.out), exec.run)
}

impl<'t> Exec<'t, '_> {
    /// An error at the current node.
    pub fn fail<T>(&self, message: impl fmt::Display) -> Result<T, TemplateError> {
        Err(self.error(message.to_string(), TemplateFault::Other))
    }

    /// A missing key or field at the current node.
    pub fn fail_missing<T>(&self, message: impl fmt::Display) -> Result<T, TemplateError> {
        Err(self.error(message.to_string(), TemplateFault::Missing))
    }

    /// A key that a map does not have, at the current node.
    pub fn fail_missing_key<T>(&self, key: &str, dict: &Dict) -> Result<T, TemplateError> {
        let mut error =
            self.error(format!("map has no entry for key {key:?}"), TemplateFault::Missing);
        if let TemplateError::Execute { missing, .. } = &mut error {
            let (known, count) = (dict.first_keys(NoEntry::MOST), dict.len());
            *missing = Some(Box::new(NoEntry { key: key.to_owned(), known, count }));
        }
        Err(error)
    }

    /// An exceeded limit at the current node; `context` comes before it.
    pub fn fail_limit<T>(
        &self,
        context: &str,
        limit: impl fmt::Display,
    ) -> Result<T, TemplateError> {
        Err(self.error(format!("{context}limit exceeded: {limit}"), TemplateFault::Limit))
    }

    fn error(&self, message: String, fault: TemplateFault) -> TemplateError {
        let (line, column) = position(&self.source.text, self.at.pos());
        let mut context = self.at.to_string();
        if context.chars().count() > 200 {
            context = context.chars().take(200).chain("...".chars()).collect();
        }
        let (name, missing) = (self.source.name.clone(), None);
        TemplateError::Execute { name, line, column, context, message, fault, missing }
    }

    /// Converts an outcome without position into an error at the current node.
    pub fn check<T>(&self, outcome: Outcome<T>) -> Result<T, TemplateError> {
        match outcome {
            Ok(value) => Ok(value),
            Err(Fail::Message(message)) => self.fail(message),
            Err(Fail::Limit(message)) => self.fail_limit("", message),
        }
    }

    pub fn enter(&mut self) -> Result<(), TemplateError> {
        self.depth += 1;
        if self.depth > self.run.limits.depth {
            let limit = self.run.limits.depth;
            return self.fail_limit("", format_args!("nested deeper than {limit} levels"));
        }
        Ok(())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TemplateError> {
        if self.out.len() + bytes.len() > self.run.limits.output_bytes {
            let limit = self.run.limits.output_bytes;
            return self.fail_limit("", format_args!("output longer than {limit} bytes"));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    pub fn step(&mut self) -> Result<(), TemplateError> {
        let outcome = self.run.charge(1);
        self.check(outcome)
    }

    fn walk_list(&mut self, dot: &Value, list: &'t List) -> Result<Flow, TemplateError> {
        self.enter()?;
        self.at = At::List(list);
        for node in &list.nodes {
            let flow = self.walk(dot, node)?;
            if flow != Flow::On {
                self.leave();
                return Ok(flow);
            }
        }
        self.leave();
        Ok(Flow::On)
    }

    fn walk(&mut self, dot: &Value, node: &'t Node) -> Result<Flow, TemplateError> {
        self.at = At::Node(node);
        self.step()?;
        match node {
            Node::Text(_, text) => self.write(text.as_bytes())?,
            Node::Action(_, pipe) => {
                let value = self.pipeline(dot, pipe)?;
                if pipe.decl.is_empty() {
                    self.at = At::Node(node);
                    self.print(&value)?;
                }
            }
            Node::If(branch) => return self.walk_if(dot, branch, false),
            Node::With(branch) => return self.walk_if(dot, branch, true),
            Node::Range(branch) => self.walk_range(dot, branch)?,
            Node::Template { name, pipe, .. } => self.walk_template(dot, name, pipe.as_ref())?,
            Node::Break(_) => return Ok(Flow::Break),
            Node::Continue(_) => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn print(&mut self, value: &Value) -> Result<(), TemplateError> {
        match value {
            // A missing value is printed as such; as an argument of a function it is a nil.
            Value::Absent => self.write(b"<no value>"),
            Value::Str(text) => self.write(text.bytes()),
            _ => {
                let text = format::print(&mut self.run, std::slice::from_ref(value));
                let text = self.check(text)?;
                self.write(&text)
            }
        }
    }

    fn walk_if(
        &mut self,
        dot: &Value,
        branch: &'t Branch,
        with: bool,
    ) -> Result<Flow, TemplateError> {
        let mark = self.vars.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.truth() {
            self.walk_list(if with { &value } else { dot }, &branch.list)?
        } else if let Some(list) = &branch.otherwise {
            self.walk_list(dot, list)?
        } else {
            Flow::On
        };
        self.vars.truncate(mark);
        Ok(flow)
    }

    fn walk_range(&mut self, dot: &Value, branch: &'t Branch) -> Result<(), TemplateError> {
        let mark = self.vars.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let body = self.vars.len();
        let mut any = false;
        match &value {
            Value::List(list) => {
                for (i, item) in list.items().iter().enumerate() {
                    any = true;
                    if self.iteration(branch, body, Value::int(i as i64), item.clone())?
                        == Flow::Break
                    {
                        break;
                    }
                }
            }
            Value::Dict(dict) => {
                let keys = self.run.keys(dict);
                for key in self.check(keys)? {
                    any = true;
                    // Changes of the dict by the body are visible: a removed key has no value.
                    let item = dict.get(&key).unwrap_or(Value::Absent);
                    if self.iteration(branch, body, Value::str(key), item)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Int(..) | Value::Uint(..) => {
                if branch.pipe.decl.len() > 1 {
                    return self.fail("can't use a number to iterate over more than one variable");
                }
                any = self.count(branch, body, &value)?;
            }
            Value::Absent => {}
            _ => {
                return self.fail(format_args!(
                    "range can't iterate over a value of type {}",
                    value.type_name()
                ));
            }
        }
        if !any && let Some(list) = &branch.otherwise {
            // A break applies to this range, too, since Go ends the innermost enclosing range.
            self.walk_list(dot, list)?;
        }
        self.vars.truncate(mark);
        Ok(())
    }

    fn count(
        &mut self,
        branch: &'t Branch,
        body: usize,
        value: &Value,
    ) -> Result<bool, TemplateError> {
        let (end, make): (u64, Box<dyn Fn(u64) -> Value>) = match *value {
            Value::Int(kind, n) => {
                (u64::try_from(n).unwrap_or(0), Box::new(move |i| Value::Int(kind, i as i64)))
            }
            Value::Uint(kind, n) => (n, Box::new(move |i| Value::Uint(kind, i))),
            _ => return Ok(false),
        };
        for i in 0..end {
            if self.iteration(branch, body, Value::Absent, make(i))? == Flow::Break {
                break;
            }
        }
        Ok(end > 0)
    }

    fn iteration(
        &mut self,
        branch: &'t Branch,
        body: usize,
        index: Value,
        item: Value,
    ) -> Result<Flow, TemplateError> {
        self.step()?;
        let decl = &branch.pipe.decl;
        if branch.pipe.assign {
            match decl.as_slice() {
                [one] => self.set_var(one, item.clone())?,
                [first, second, ..] => {
                    self.set_var(first, index)?;
                    self.set_var(second, item.clone())?;
                }
                [] => {}
            }
        } else {
            if !decl.is_empty() {
                self.vars[body - 1].1 = item.clone();
            }
            if decl.len() > 1 {
                self.vars[body - 2].1 = index;
            }
        }
        let flow = self.walk_list(&item, &branch.list)?;
        self.vars.truncate(body);
        Ok(flow)
    }

    fn walk_template(
        &mut self,
        dot: &Value,
        name: &[u8],
        pipe: Option<&'t Pipe>,
    ) -> Result<(), TemplateError> {
        let Some(tree) = self.source.trees.get(name) else {
            return self
                .fail(format_args!("template {:?} not defined", String::from_utf8_lossy(name)));
        };
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Absent,
        };
        let vars = std::mem::replace(&mut self.vars, vec![("$", dot.clone())]);
        let at = self.at;
        self.walk_list(&dot, tree)?;
        self.at = at;
        self.vars = vars;
        Ok(())
    }

    /// Evaluates a pipeline and sets its variables.
    pub fn pipeline(&mut self, dot: &Value, pipe: &'t Pipe) -> Result<Value, TemplateError> {
        self.enter()?;
        self.at = At::Pipe(pipe);
        self.step()?;
        let mut value = None;
        for cmd in &pipe.cmds {
            let result = self.command(dot, cmd, value)?;
            // The result of a command that is nil becomes no value.
            value = Some(if matches!(result, Value::Nil) { Value::Absent } else { result });
        }
        let value = value.unwrap_or(Value::Absent);
        for name in &pipe.decl {
            if pipe.assign {
                self.set_var(name, value.clone())?;
            } else {
                self.vars.push((name, value.clone()));
            }
        }
        self.leave();
        Ok(value)
    }

    fn set_var(&mut self, name: &str, value: Value) -> Result<(), TemplateError> {
        let outcome = self.run.charge(self.vars.len() / 64);
        self.check(outcome)?;
        match self.vars.iter_mut().rev().find(|(known, _)| *known == name) {
            Some(var) => {
                var.1 = value;
                Ok(())
            }
            None => self.fail(format_args!("undefined variable: {name}")),
        }
    }

    /// The value of a variable.
    pub fn var(&mut self, name: &str) -> Result<Value, TemplateError> {
        let outcome = self.run.charge(self.vars.len() / 64);
        self.check(outcome)?;
        match self.vars.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.fail(format_args!("undefined variable: {name}")),
        }
    }
}

/// The line (from 1) and the column (in bytes, from 0) of a byte offset, as Go counts them.
fn position(text: &str, pos: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..pos.min(text.len())];
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    let column = before.iter().rev().take_while(|b| **b != b'\n').count();
    (line, column)
}
