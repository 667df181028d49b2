//! Limits and state of one execution: steps, memory, output, depth, time and random values.
//!
//! The sizes of what functions read and build are charged in two places:
//! [`Exec::call`](super::exec::Exec) charges for text in arguments and results, and
//! [`Run::list`], [`Run::strings`] and [`Run::dict`] charge for lists and dicts. A
//! function that reads or builds more than that (by multiplying, or by descending into
//! values) charges in advance.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::fail::{Fail, Outcome};
use super::pattern::Pattern;
use super::value::{Dict, Elem, List, Value, valid_text};

/// Limits of one execution (AS-135). Exceeding one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateLimits {
    /// Longest output, and longest text that a function may return, in bytes.
    pub output_bytes: usize,
    /// Number of steps: a node, a call, an argument, an element of a loop, and every 64
    /// bytes that a function reads or builds.
    pub steps: u64,
    /// Bytes of text, lists and dicts that may be built, whether they are still used or not.
    pub memory_bytes: usize,
    /// Time limit, measured by the clock of the [`Env`]. Steps limit almost everything;
    /// this limits what they cannot, such as the look-ahead of a regular expression.
    pub time: Duration,
    /// Nesting of `template` calls and the structures within them.
    pub depth: usize,
}

impl Default for TemplateLimits {
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

/// The environment of a template besides its parameters: time and random values.
pub struct Env {
    /// The result of `now`.
    pub now: jiff::Timestamp,
    /// Random bytes of `rand…`, `uuidv4`, `shuffle`, `gen…` and others.
    pub random: Box<dyn Random>,
    /// Elapsed time from any origin: preferably the CPU time of the thread, which does
    /// not depend on the load of the machine.
    pub used: fn() -> Duration,
    /// Whether an execution was long enough to check the time. Reset by the caller.
    pub looked: bool,
    /// Whether an execution read the time or random bytes, so that the next one may render
    /// another text. Reset by the caller.
    pub varied: bool,
}

impl Env {
    /// An environment; see the fields for the parameters.
    pub fn new(now: jiff::Timestamp, random: Box<dyn Random>, used: fn() -> Duration) -> Self {
        Self { now, random, used, looked: false, varied: false }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The state of an execution, available to functions.
pub(crate) struct Run<'e> {
    pub limits: TemplateLimits,
    steps: u64,
    memory: usize,
    /// Steps since the clock was last read.
    unwatched: usize,
    /// The first reading of the clock.
    began: Option<Duration>,
    env: Option<&'e mut Env>,
    patterns: HashMap<String, Rc<Pattern>>,
    /// The patterns in the order of compilation.
    compiled: VecDeque<String>,
    changed: Changed,
}

/// Dicts that were changed, by their address.
pub(crate) type Changed = HashMap<usize, Dict>;

/// What executions have used of their limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub steps: u64,
    pub memory: usize,
}

/// Memory of a list element.
const ITEM: usize = 32;

/// Memory of a text in addition to its bytes.
const TEXT: usize = 96;

/// Memory of a dict entry in addition to the bytes of its key.
const ENTRY: usize = 160;

/// Steps between two readings of the clock.
const WATCH: usize = 2048;

/// Number of cached patterns: each can use megabytes while it searches.
const PATTERNS: usize = 16;

/// Limit on nested values for functions that descend into them.
const MAX_VALUE_DEPTH: usize = 200;

impl<'e> Run<'e> {
    pub fn new(limits: TemplateLimits, env: Option<&'e mut Env>) -> Self {
        Self {
            limits,
            steps: limits.steps,
            memory: limits.memory_bytes,
            unwatched: 0,
            began: None,
            env,
            patterns: HashMap::new(),
            compiled: VecDeque::new(),
            changed: Changed::new(),
        }
    }

    /// The same after others with the same limits have used some of them.
    pub fn after(mut self, used: Used) -> Self {
        self.steps = self.steps.saturating_sub(used.steps);
        self.memory = self.memory.saturating_sub(used.memory);
        self
    }

    /// The dicts that were changed, and what was used up to now, with what was used before.
    pub fn into_changes(mut self) -> (Changed, Used) {
        let used = Used {
            steps: self.limits.steps - self.steps,
            memory: self.limits.memory_bytes - self.memory,
        };
        (std::mem::take(&mut self.changed), used)
    }

    /// Charges steps.
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

    /// Fails when the time limit is exceeded.
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

    /// Charges for reading bytes.
    pub fn read(&mut self, bytes: usize) -> Outcome<()> {
        self.charge(bytes / 64)
    }

    /// Charges for memory.
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

    /// Charges for a text of the given size.
    pub fn charge_bytes(&mut self, bytes: usize) -> Outcome<()> {
        self.check_len(bytes)?;
        self.build(bytes)
    }

    /// Charges for a number of texts with a total size.
    pub fn build_texts(&mut self, count: usize, bytes: usize) -> Outcome<()> {
        self.build(count.saturating_mul(TEXT).saturating_add(bytes))
    }

    /// Charges for an entry of a dict.
    pub fn build_entry(&mut self, key: &str) -> Outcome<()> {
        self.build(ENTRY + key.len())
    }

    /// Creates a list of any values.
    pub fn list(&mut self, items: Vec<Value>) -> Outcome {
        self.list_of(Elem::Any, items)
    }

    /// Creates a list.
    pub fn list_of(&mut self, elem: Elem, items: Vec<Value>) -> Outcome {
        self.build(TEXT + items.len() * ITEM)?;
        Ok(Value::List(List::new(elem, items)))
    }

    /// Creates a list of strings.
    pub fn strings<T: AsRef<[u8]>>(&mut self, items: Vec<T>) -> Outcome {
        self.build_texts(items.len() + 1, items.iter().map(|item| item.as_ref().len()).sum())?;
        Ok(Value::strings(items))
    }

    /// Creates a dict of any values.
    pub fn dict(&mut self, entries: BTreeMap<String, Value>) -> Outcome {
        self.build(TEXT)?;
        for key in entries.keys() {
            self.build_entry(key)?;
        }
        Ok(Value::dict(entries))
    }

    /// The current entries of a dict, in key order.
    pub fn entries(&mut self, dict: &Dict) -> Outcome<Vec<(String, Value)>> {
        self.build((dict.len() * TEXT).saturating_add(dict.key_bytes()))?;
        Ok(dict.copy())
    }

    /// The keys of a dict, in order.
    pub fn keys(&mut self, dict: &Dict) -> Outcome<Vec<String>> {
        Ok(self.entries(dict)?.into_iter().map(|(key, _)| key).collect())
    }

    /// Rejects text that is too long, without charging for it.
    pub fn check_len(&self, bytes: usize) -> Outcome<()> {
        if bytes > self.limits.output_bytes {
            let limit = self.limits.output_bytes;
            return Err(Fail::Limit(format!("text longer than {limit} bytes")));
        }
        Ok(())
    }

    /// Rejects values that are nested too deeply.
    pub fn check_depth(depth: usize) -> Outcome<()> {
        if depth > MAX_VALUE_DEPTH {
            return Err(Fail::Limit(format!(
                "a value nested deeper than {MAX_VALUE_DEPTH} levels"
            )));
        }
        Ok(())
    }

    /// Registers a dict before it gets an entry, so that cycles are broken at the end of the
    /// run.
    pub fn changing(&mut self, dict: &Dict) -> Outcome<()> {
        if dict.nil {
            return Err("assignment to entry in nil map".into());
        }
        self.register(dict)
    }

    /// Registers a dict before it is changed.
    pub fn register(&mut self, dict: &Dict) -> Outcome<()> {
        let address = dict.address();
        if !self.changed.contains_key(&address) {
            self.build(ENTRY)?;
            self.changed.insert(address, dict.clone());
        }
        Ok(())
    }

    /// The current time.
    pub fn now(&mut self) -> Outcome<jiff::Timestamp> {
        let Some(env) = &mut self.env else {
            return Err("the current time is not available here".into());
        };
        env.varied = true;
        Ok(env.now)
    }

    /// Fills a buffer with random bytes.
    pub fn random(&mut self, buffer: &mut [u8]) -> Outcome<()> {
        self.random_source()?.fill(buffer);
        Ok(())
    }

    /// The random source.
    pub fn random_source(&mut self) -> Outcome<&mut dyn Random> {
        match &mut self.env {
            Some(env) => {
                env.varied = true;
                Ok(&mut *env.random)
            }
            None => Err("random values are not available here".into()),
        }
    }

    /// A uniformly distributed random number below `bound`.
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

    /// A compiled regular expression; each is compiled once per run.
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
        break_cycles(&mut self.changed);
    }
}

/// Empties dicts that were changed: one can contain itself.
pub(crate) fn break_cycles(changed: &mut Changed) {
    for (_, dict) in changed.drain() {
        dict.clear();
    }
}

/// Access to validated arguments.
pub(crate) trait Args {
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
        valid_text(self.bytes(index))
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
