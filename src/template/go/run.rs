//! What one execution may use up: steps, memory, output, depth, time and chance.
//!
//! What functions read and build is charged by its size, at two places: [`Exec::call`](super::exec::Exec) charges for
//! the text among the arguments and for text that comes back, and lists and dicts are made by [`Run::list`],
//! [`Run::strings`] and [`Run::dict`], which charge for them. Only a function that reads or builds more than that (by
//! multiplying, or by walking into values) charges on its own, before it does so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::function::{Fail, Outcome};
use super::value::{Dict, Elem, List, Value};
use crate::template::funcs::regex::Pattern;

/// Bounds of one execution (AS-135). Exceeding one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest output, and the longest text that any function may return, in bytes.
    pub output_bytes: usize,
    /// How many steps may be taken: a node, a call, an argument, an element of a loop, and every 64 bytes that a function
    /// reads or builds count.
    pub steps: u64,
    /// How many bytes of text, lists and dicts may be built, whether they are still needed or not.
    pub memory_bytes: usize,
    /// How long it may take, by the clock of the [`Env`]. Steps bound nearly everything; this is for what they cannot
    /// foresee, such as how far a regular expression looks ahead.
    pub time: Duration,
    /// How deep `template` calls and the structures within them may nest.
    pub depth: usize,
}

impl Default for Limits {
    /// 1 MiB of output, a million steps, 32 MiB, 10 seconds, 150 levels.
    fn default() -> Self {
        Self {
            output_bytes: 1 << 20,
            steps: 1_000_000,
            memory_bytes: 32 << 20,
            time: Duration::from_secs(10),
            depth: 150,
        }
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
    /// How much time has been used up, from any beginning: best the processor time of the thread, so that the load of
    /// the machine decides nothing.
    pub used: fn() -> Duration,
    /// Whether an execution was long enough to look at that time. Whoever watches over several takes it back.
    pub looked: bool,
}

impl Env {
    /// What the parameters are, see the fields.
    pub fn new(now: jiff::Timestamp, random: Box<dyn Random>, used: fn() -> Duration) -> Self {
        Self { now, random, used, looked: false }
    }
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
    memory: usize,
    /// Steps since the clock was last read.
    unwatched: usize,
    /// What the clock said when it was first read.
    began: Option<Duration>,
    env: Option<&'e mut Env>,
    patterns: HashMap<String, Rc<Pattern>>,
    /// The patterns in the order in which they were compiled.
    compiled: VecDeque<String>,
    changed: Vec<Dict>,
}

/// Memory that an element of a list takes.
const ITEM: usize = 32;

/// Memory that a text takes besides its bytes.
const TEXT: usize = 96;

/// Memory that an entry of a dict takes besides the bytes of its key.
const ENTRY: usize = 160;

/// Steps between two looks at the clock.
const WATCH: usize = 2048;

/// How many compiled patterns are kept: each can take megabytes while it searches.
const PATTERNS: usize = 16;

/// How deep a value may be nested for a function that walks it.
const MAX_VALUE_DEPTH: usize = 200;

impl<'e> Run<'e> {
    pub fn new(limits: Limits, env: Option<&'e mut Env>) -> Self {
        Self {
            limits,
            steps: limits.steps,
            memory: limits.memory_bytes,
            unwatched: 0,
            began: None,
            env,
            patterns: HashMap::new(),
            compiled: VecDeque::new(),
            changed: Vec::new(),
        }
    }

    /// Uses up steps.
    pub fn charge(&mut self, steps: usize) -> Outcome<()> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => self.steps = left,
            None => return Err(Fail::Limit(format!("more than {} steps", self.limits.steps))),
        }
        self.unwatched = self.unwatched.saturating_add(steps.max(1));
        if self.unwatched < WATCH {
            return Ok(());
        }
        self.unwatched = 0;
        self.check_time()
    }

    /// Refuses to go on when the time is over.
    pub fn check_time(&mut self) -> Outcome<()> {
        let Some(env) = &mut self.env else { return Ok(()) };
        env.looked = true;
        let used = (env.used)();
        let began = *self.began.get_or_insert(used);
        if used.saturating_sub(began) > self.limits.time {
            return Err(Fail::Limit(format!("more than {} s", self.limits.time.as_secs_f64())));
        }
        Ok(())
    }

    /// Accounts for reading so many bytes.
    pub fn read(&mut self, bytes: usize) -> Outcome<()> {
        self.charge(bytes / 64)
    }

    /// Accounts for memory before or after it is taken.
    pub fn build(&mut self, bytes: usize) -> Outcome<()> {
        match self.memory.checked_sub(bytes) {
            Some(left) => self.memory = left,
            None => {
                let limit = self.limits.memory_bytes;
                return Err(Fail::Limit(format!("more than {limit} bytes of memory")));
            }
        }
        self.charge(bytes / 64)
    }

    /// Accounts for text of the given size before or after it is made.
    pub fn charge_bytes(&mut self, bytes: usize) -> Outcome<()> {
        self.check_len(bytes)?;
        self.build(bytes)
    }

    /// Accounts for so many texts with so many bytes together, before or after they are made.
    pub fn build_texts(&mut self, count: usize, bytes: usize) -> Outcome<()> {
        self.build(count.saturating_mul(TEXT).saturating_add(bytes))
    }

    /// Accounts for an entry of a dict.
    pub fn build_entry(&mut self, key: &str) -> Outcome<()> {
        self.build(ENTRY + key.len())
    }

    /// Makes a list of anything.
    pub fn list(&mut self, items: Vec<Value>) -> Outcome {
        self.list_of(Elem::Any, items)
    }

    /// Makes a list.
    pub fn list_of(&mut self, elem: Elem, items: Vec<Value>) -> Outcome {
        self.build(TEXT + items.len() * ITEM)?;
        Ok(Value::List(List::new(elem, items)))
    }

    /// Makes a list of text.
    pub fn strings<T: AsRef<[u8]>>(&mut self, items: Vec<T>) -> Outcome {
        self.build_texts(items.len() + 1, items.iter().map(|item| item.as_ref().len()).sum())?;
        Ok(Value::strings(items))
    }

    /// Makes a dict of anything.
    pub fn dict(&mut self, entries: BTreeMap<String, Value>) -> Outcome {
        self.build(TEXT)?;
        for key in entries.keys() {
            self.build_entry(key)?;
        }
        Ok(Value::dict(entries))
    }

    /// The entries of a dict as they are now, in key order.
    pub fn entries(&mut self, dict: &Dict) -> Outcome<Vec<(String, Value)>> {
        self.build((dict.len() * TEXT).saturating_add(dict.key_bytes()))?;
        Ok(dict.copy())
    }

    /// The keys of a dict in order.
    pub fn keys(&mut self, dict: &Dict) -> Outcome<Vec<String>> {
        Ok(self.entries(dict)?.into_iter().map(|(key, _)| key).collect())
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
        self.charge(pattern.compile_steps())?;
        if self.compiled.len() == PATTERNS
            && let Some(oldest) = self.compiled.pop_front()
        {
            self.patterns.remove(&oldest);
        }
        self.compiled.push_back(text.to_owned());
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
