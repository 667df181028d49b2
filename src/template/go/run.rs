//! What one execution may use up: steps, output, depth, time and chance.

use std::collections::HashMap;
use std::rc::Rc;

use super::function::{Fail, Outcome};
use super::value::{Dict, Value};
use crate::template::funcs::regex::Pattern;

/// Bounds of one execution (AS-135). Exceeding one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest output, and the longest text that any function may return, in bytes.
    pub output_bytes: usize,
    /// How many steps may be taken: a node, a call, an element of a loop, and every 64 bytes made by a function count.
    pub steps: u64,
    /// How deep `template` calls and the structures within them may nest.
    pub depth: usize,
}

impl Default for Limits {
    /// 1 MiB of output, a million steps, 150 levels.
    fn default() -> Self {
        Self { output_bytes: 1 << 20, steps: 1_000_000, depth: 150 }
    }
}

/// A source of random bytes.
pub trait Random {
    /// Fills the buffer.
    fn fill(&mut self, buffer: &mut [u8]);
}

/// What a template may know of the world outside its parameters: the time and chance.
pub struct Env {
    /// The time that `now` gives.
    pub now: jiff::Timestamp,
    /// Where `rand…`, `uuidv4`, `shuffle`, `gen…` and the like take their bytes.
    pub random: Box<dyn Random>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The state of an execution that functions can reach.
pub(in crate::template) struct Run<'e> {
    pub limits: Limits,
    steps: u64,
    env: Option<&'e mut Env>,
    patterns: HashMap<String, Rc<Pattern>>,
    changed: Vec<Dict>,
}

/// How deep a value may be nested for a function that walks it.
const MAX_VALUE_DEPTH: usize = 200;

impl<'e> Run<'e> {
    pub fn new(limits: Limits, env: Option<&'e mut Env>) -> Self {
        Self { limits, steps: limits.steps, env, patterns: HashMap::new(), changed: Vec::new() }
    }

    /// Uses up steps.
    pub fn charge(&mut self, steps: usize) -> Outcome<()> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Fail::Limit(format!("more than {} steps", self.limits.steps))),
        }
    }

    /// Accounts for text of the given size before or after it is made.
    pub fn charge_bytes(&mut self, bytes: usize) -> Outcome<()> {
        self.check_len(bytes)?;
        self.charge(bytes / 64)
    }

    /// Refuses text that has become too long, without accounting for it.
    pub fn check_len(&self, bytes: usize) -> Outcome<()> {
        if bytes > self.limits.output_bytes {
            let limit = self.limits.output_bytes;
            return Err(Fail::Limit(format!("text longer than {limit} bytes")));
        }
        Ok(())
    }

    /// Refuses a walk that has come too deep.
    pub fn check_depth(depth: usize) -> Outcome<()> {
        if depth > MAX_VALUE_DEPTH {
            return Err(Fail::Limit(format!(
                "a value nested deeper than {MAX_VALUE_DEPTH} levels"
            )));
        }
        Ok(())
    }

    /// Remembers a dict that is about to change, so that no cycle outlives the run.
    pub fn changing(&mut self, dict: &Dict) -> Outcome<()> {
        if dict.nil {
            return Err("assignment to entry in nil map".into());
        }
        if !self.changed.last().is_some_and(|last| last.is(dict)) {
            self.changed.push(dict.clone());
        }
        Ok(())
    }

    /// The time.
    pub fn now(&self) -> Outcome<jiff::Timestamp> {
        self.env.as_ref().map(|env| env.now).ok_or_else(|| "the time is not known here".into())
    }

    /// Fills a buffer by chance.
    pub fn random(&mut self, buffer: &mut [u8]) -> Outcome<()> {
        self.chance()?.fill(buffer);
        Ok(())
    }

    /// The source of chance itself, for those who know what to do with it.
    pub fn chance(&mut self) -> Outcome<&mut dyn Random> {
        match &mut self.env {
            Some(env) => Ok(&mut *env.random),
            None => Err("random values are not available here".into()),
        }
    }

    /// A random number below `bound`, each as likely as the others.
    pub fn random_below(&mut self, bound: u64) -> Outcome<u64> {
        let zone = u64::MAX - u64::MAX % bound.max(1);
        loop {
            let mut buffer = [0; 8];
            self.random(&mut buffer)?;
            let value = u64::from_le_bytes(buffer);
            if value < zone {
                return Ok(value % bound.max(1));
            }
        }
    }

    /// A compiled regular expression; each is compiled once in a run.
    pub fn pattern(&mut self, text: &str) -> Outcome<Rc<Pattern>> {
        if let Some(pattern) = self.patterns.get(text) {
            return Ok(Rc::clone(pattern));
        }
        self.charge(100 + text.len())?;
        let pattern = Rc::new(Pattern::compile(text)?);
        self.patterns.insert(text.to_owned(), Rc::clone(&pattern));
        Ok(pattern)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        for dict in self.changed.drain(..) {
            dict.clear();
        }
    }
}

/// Access to checked arguments.
pub(in crate::template) trait Args {
    /// The text of an argument of type `string`.
    fn text(&self, index: usize) -> std::borrow::Cow<'_, str>;
    /// The bytes of an argument of type `string`.
    fn bytes(&self, index: usize) -> &[u8];
    /// An argument of type `int`.
    fn int(&self, index: usize) -> i64;
    /// An argument of type `map[string]interface{}`.
    fn dict(&self, index: usize) -> Outcome<&Dict>;
}

impl Args for [Value] {
    fn text(&self, index: usize) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(index))
    }

    fn bytes(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(Value::Str(s)) => s.bytes(),
            _ => b"",
        }
    }

    fn int(&self, index: usize) -> i64 {
        match self.get(index) {
            Some(Value::Int(_, n)) => *n,
            _ => 0,
        }
    }

    fn dict(&self, index: usize) -> Outcome<&Dict> {
        match self.get(index) {
            Some(Value::Dict(dict)) => Ok(dict),
            _ => Err("not a dict".into()),
        }
    }
}
