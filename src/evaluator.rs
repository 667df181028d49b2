//! Evaluates expressions of users for decisions, in confined workers.
//!
//! Decisions are functions of what was observed; what an expression selects in an object is
//! such a function, too, but one that needs a process of its own. This module asks the pool
//! for all objects of a decision at once, finds out which expression is to blame when a
//! request fails, and remembers it for a while, so that one that runs away costs its time
//! once a minute, and nobody else's rules.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::confined::{Failure, Limits, Pool, Program};
use crate::decide::diff::jq::{Error, Evaluate, Found, Jq, Question};

/// The time limit of an expression on an object, as in Argo CD (SE-173).
pub const JQ_TIME: Duration = Duration::from_secs(1);

/// Memory of one request, in bytes, besides its objects.
const MEMORY: u64 = 256 << 20;

/// Longest answer of one request, in bytes.
const OUTPUT: usize = 16 << 20;

/// Most evaluations, and bytes of objects, of one request.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// Requests of one question that are evaluated at the same time.
const PARALLEL: usize = 2;

/// How much longer than one evaluation all of a question may take.
const ALL_TOGETHER: u32 = 30;

/// How many expressions may exceed a limit before the others of a question are skipped.
const MAX_EXCEEDING: usize = 5;

/// How long an expression that exceeded a limit is not evaluated again for its scope.
const PENALTY: Duration = Duration::from_secs(60);

/// Most entries of each memory.
const REMEMBERED: usize = 4096;

/// Most steps of the paths of a remembered answer.
const REMEMBERED_STEPS: usize = 64;

/// How often a worker is tried that cannot be started.
const ATTEMPTS: u32 = 3;

/// Evaluates jq expressions, each for this time at most on one object.
pub fn jq(limit: Duration) -> Jq {
    Jq::new(Arc::new(Workers {
        limit,
        hashers: [RandomState::new(), RandomState::new()],
        known: Mutex::default(),
    }))
}

/// The text of an expression, and the digest of an object.
type Key = (u128, u128);

#[derive(Debug)]
struct Workers {
    limit: Duration,
    /// Unknown to those who write objects.
    hashers: [RandomState; 2],
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Whether texts are expressions.
    checked: HashMap<String, Result<(), String>>,
    /// Answers: the newer half, and the older one.
    answers: [HashMap<Key, Found>; 2],
    /// Expressions of a scope that exceeded a limit, with the limit and the end of that.
    exceeding: HashMap<(String, String), (String, Instant)>,
}

impl Known {
    fn answer(&self, key: &Key) -> Option<Found> {
        self.answers.iter().find_map(|half| half.get(key)).cloned()
    }

    fn remember(&mut self, key: Key, found: &Found) {
        let steps = match found {
            Ok(paths) => paths.iter().map(|path| path.len() + 1).sum(),
            Err(Error::Mismatch(_)) => 0,
            Err(_) => return,
        };
        if steps > REMEMBERED_STEPS {
            return;
        }
        if self.answers[0].len() >= REMEMBERED {
            self.answers.swap(0, 1);
            self.answers[0].clear();
        }
        self.answers[0].insert(key, found.clone());
    }

    /// What this expression exceeded less than a minute ago.
    fn exceeded(&self, scope: &str, text: &str, now: Instant) -> Option<String> {
        let key = (scope.to_owned(), text.to_owned());
        let (why, until) = self.exceeding.get(&key)?;
        (now < *until).then(|| why.clone())
    }

    fn exceeds(&mut self, scope: &str, text: &str, why: &str, now: Instant) {
        self.exceeding.retain(|_, (_, until)| now < *until);
        if self.exceeding.len() < REMEMBERED {
            let key = (scope.to_owned(), text.to_owned());
            self.exceeding.insert(key, (why.to_owned(), now + PENALTY));
        }
    }
}

/// What a worker is asked, as `confined/programs/jq.rs` reads it.
#[derive(Serialize)]
struct Input<'a> {
    limit: Duration,
    expressions: &'a [&'a str],
    objects: Vec<&'a RawValue>,
    work: Vec<(Option<usize>, usize)>,
}

/// One evaluation: positions of its question and its expression there, and what is evaluated.
#[derive(Clone, Copy, Debug)]
struct Item {
    at: (usize, usize),
    object: usize,
    expression: usize,
}

/// What became of a batch.
struct Done {
    batch: Vec<Item>,
    result: Result<Vec<Value>, Failure>,
}

impl Workers {
    fn digest(&self, text: &str) -> u128 {
        let [one, other] = &self.hashers;
        (u128::from(one.hash_one(text)) << 64) | u128::from(other.hash_one(text))
    }

    async fn ask(&self, input: &Input<'_>, time: Duration) -> Result<Vec<Value>, Failure> {
        let limits = Limits { time, memory: MEMORY, output: OUTPUT };
        let mut attempt = 0;
        loop {
            match Pool::shared().evaluate(Program::Jq, input, limits).await {
                Ok(Value::Array(results)) => return Ok(results),
                Ok(_) => return Err(Failure::Died("an answer that is no list".to_owned())),
                Err(Failure::Unavailable(_)) if attempt < ATTEMPTS => {
                    attempt += 1;
                    // On a thread that may block; a simulated clock must not advance.
                    std::thread::sleep(Duration::from_millis(100 << attempt));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Evaluates batches until all is answered or has failed.
    async fn evaluate(
        &self,
        scope: &str,
        (texts, objects): (&[&str], &[Box<RawValue>]),
        items: Vec<Item>,
    ) -> BTreeMap<(usize, usize), Found> {
        let began = Instant::now();
        let total = self.limit.saturating_mul(ALL_TOGETHER);
        let mut answers = BTreeMap::new();
        let mut exceeding: HashMap<usize, String> = HashMap::new();
        let mut waiting: VecDeque<Vec<Item>> = batches(items, objects).into();
        while !waiting.is_empty() {
            let left = total.saturating_sub(began.elapsed());
            let stop = if left.is_zero() {
                // The same would happen again.
                let why = format!("all rules together take longer than {total:?}");
                Some(Error::Exhausted(why))
            } else if exceeding.len() >= MAX_EXCEEDING {
                let why = format!("{MAX_EXCEEDING} other rules do, so it is not evaluated");
                Some(Error::Deferred(why))
            } else {
                None
            };
            if let Some(error) = stop {
                let left = waiting.drain(..).flatten();
                answers.extend(left.map(|item| (item.at, Err(error.clone()))));
                break;
            }
            let some: Vec<Vec<Item>> = waiting.drain(..PARALLEL.min(waiting.len())).collect();
            let run = |batch: Vec<Item>| async move {
                let result = self.run(&batch, (texts, objects), left).await;
                Done { batch, result }
            };
            let done: Vec<Done> =
                futures::stream::iter(some.into_iter().map(run)).buffered(PARALLEL).collect().await;
            for Done { batch, result } in done {
                let again = match result {
                    Ok(results) => {
                        let count = results.len();
                        for (item, result) in batch.iter().zip(results) {
                            let found = found(result);
                            if let Err(Error::Exhausted(why)) = &found {
                                exceeding.insert(item.expression, why.clone());
                            }
                            answers.insert(item.at, found);
                        }
                        // It stopped at one that took too long.
                        if let Some(item) = batch.get(count) {
                            let why = format!("it takes longer than {:?}", self.limit);
                            exceeding.insert(item.expression, why.clone());
                            answers.insert(item.at, Err(Error::Exhausted(why)));
                        }
                        batch.get(count + 1..).map(|rest| vec![rest.to_vec()])
                    }
                    Err(Failure::Refused(why) | Failure::Unavailable(why)) => {
                        for item in &batch {
                            answers.insert(item.at, Err(Error::Unavailable(why.clone())));
                        }
                        None
                    }
                    Err(failure) => match batch.as_slice() {
                        [item] => {
                            let why = failure.to_string();
                            exceeding.insert(item.expression, why.clone());
                            answers.insert(item.at, Err(Error::Exhausted(why)));
                            None
                        }
                        // One of them is to blame.
                        more => {
                            let (one, other) = more.split_at(more.len() / 2);
                            Some(vec![one.to_vec(), other.to_vec()])
                        }
                    },
                };
                for rest in again.into_iter().flatten().rev() {
                    waiting.push_front(rest);
                }
            }
            for batch in &mut waiting {
                batch.retain(|item| match exceeding.get(&item.expression) {
                    None => true,
                    Some(why) => {
                        answers.insert(item.at, Err(Error::Deferred(why.clone())));
                        false
                    }
                });
            }
            waiting.retain(|batch| !batch.is_empty());
        }
        let now = Instant::now();
        let mut known = self.known.lock();
        for (expression, why) in &exceeding {
            known.exceeds(scope, texts[*expression], why, now);
        }
        answers
    }

    async fn run(
        &self,
        batch: &[Item],
        (texts, objects): (&[&str], &[Box<RawValue>]),
        time: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let mut places = HashMap::new();
        let mut sent = Vec::new();
        let work = batch.iter().map(|item| {
            let place = *places.entry(item.object).or_insert_with(|| {
                sent.push(&*objects[item.object]);
                sent.len() - 1
            });
            (Some(place), item.expression)
        });
        let work = work.collect();
        let input = Input { limit: self.limit, expressions: texts, objects: sent, work };
        self.ask(&input, time).await
    }
}

/// Evaluations of about the same size.
fn batches(items: Vec<Item>, objects: &[Box<RawValue>]) -> Vec<Vec<Item>> {
    let mut all: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    for item in items {
        let more = if last == Some(item.object) { 0 } else { objects[item.object].get().len() };
        last = Some(item.object);
        match all.last_mut().filter(|batch| batch.len() < BATCH && bytes + more <= BATCH_BYTES) {
            Some(batch) => {
                bytes += more;
                batch.push(item);
            }
            None => {
                bytes = objects[item.object].get().len();
                all.push(vec![item]);
            }
        }
    }
    all
}

/// A result of the worker.
fn found(result: Value) -> Found {
    let Value::Object(mut result) = result else {
        return Err(Error::Unavailable("an answer that is no object".to_owned()));
    };
    if let Some(Value::Array(paths)) = result.remove("paths") {
        let steps = |path| match path {
            Value::Array(steps) => Some(steps),
            _ => None,
        };
        return Ok(paths.into_iter().filter_map(steps).collect());
    }
    let text = |value: Option<Value>| value?.as_str().map(str::to_owned);
    if let Some(why) = text(result.remove("exhausted")) {
        return Err(Error::Exhausted(why));
    }
    // What is no expression was refused when the rule was read.
    let why = text(result.remove("mismatch")).or_else(|| text(result.remove("invalid")));
    Err(why.map_or_else(|| Error::Unavailable("an unknown answer".to_owned()), Error::Mismatch))
}

impl Evaluate for Workers {
    fn check(&self, texts: &[&str]) -> Vec<Result<(), String>> {
        let unknown: Vec<&str> = {
            let known = self.known.lock();
            let new: HashSet<&str> =
                texts.iter().copied().filter(|text| !known.checked.contains_key(*text)).collect();
            new.into_iter().collect()
        };
        let mut failed = HashMap::new();
        if !unknown.is_empty() {
            for (text, result) in futures::executor::block_on(self.checked(&unknown)) {
                match result {
                    Ok(valid) => {
                        let mut known = self.known.lock();
                        if known.checked.len() >= REMEMBERED {
                            known.checked.clear();
                        }
                        known.checked.insert(text.to_owned(), valid.clone());
                        failed.insert(text, valid);
                    }
                    Err(why) => drop(failed.insert(text, Err(why))),
                }
            }
        }
        let known = self.known.lock();
        let of = |text: &&str| {
            let now = failed.get(*text).or_else(|| known.checked.get(*text));
            now.cloned().unwrap_or_else(|| Err("cannot be checked; try again".to_owned()))
        };
        texts.iter().map(of).collect()
    }

    fn paths(&self, scope: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let now = Instant::now();
        let mut answers: BTreeMap<(usize, usize), Found> = BTreeMap::new();
        let mut objects: Vec<Box<RawValue>> = Vec::new();
        let mut texts: Vec<&str> = Vec::new();
        let mut places: HashMap<&str, (usize, u128)> = HashMap::new();
        let mut items = Vec::new();
        let mut keys: HashMap<(usize, usize), Key> = HashMap::new();
        for (at, question) in questions.iter().enumerate() {
            let object = match to_raw_value(question.object) {
                Ok(object) => object,
                Err(error) => {
                    for of in 0..question.expressions.len() {
                        answers.insert((at, of), Err(Error::Mismatch(error.to_string())));
                    }
                    continue;
                }
            };
            let digest = self.digest(object.get());
            let known = self.known.lock();
            let before = items.len();
            for (of, text) in question.expressions.iter().enumerate() {
                let (expression, text_digest) = *places.entry(text).or_insert_with(|| {
                    texts.push(text);
                    (texts.len() - 1, self.digest(text))
                });
                let key = (text_digest, digest);
                if let Some(found) = known.answer(&key) {
                    answers.insert((at, of), found);
                } else if let Some(why) = known.exceeded(scope, text, now) {
                    answers.insert((at, of), Err(Error::Deferred(why)));
                } else {
                    items.push(Item { at: (at, of), object: objects.len(), expression });
                    keys.insert((at, of), key);
                }
            }
            if items.len() > before {
                objects.push(object);
            }
        }
        if !items.is_empty() {
            let evaluated = self.evaluate(scope, (&texts, &objects), items);
            let evaluated = futures::executor::block_on(evaluated);
            let mut known = self.known.lock();
            for (at, found) in evaluated {
                if let Some(key) = keys.get(&at) {
                    known.remember(*key, &found);
                }
                answers.insert(at, found);
            }
        }
        let missing = || Err(Error::Unavailable("no answer".to_owned()));
        let of_question = |(at, question): (usize, &Question<'_>)| {
            let count = question.expressions.len();
            (0..count).map(|of| answers.remove(&(at, of)).unwrap_or_else(missing)).collect()
        };
        questions.iter().enumerate().map(of_question).collect()
    }
}

impl Workers {
    /// Whether texts are expressions; `Err` when that cannot be found out.
    async fn checked<'t>(
        &self,
        texts: &[&'t str],
    ) -> Vec<(&'t str, Result<Result<(), String>, String>)> {
        let mut all = Vec::new();
        let mut waiting: VecDeque<Vec<&str>> = texts.chunks(BATCH).map(<[&str]>::to_vec).collect();
        let began = Instant::now();
        let total = self.limit.saturating_mul(ALL_TOGETHER);
        while let Some(batch) = waiting.pop_front() {
            let left = total.saturating_sub(began.elapsed());
            if left.is_zero() {
                let why = "cannot be checked in time; try again";
                all.extend(batch.iter().map(|text| (*text, Err(why.to_owned()))));
                continue;
            }
            let work = (0..batch.len()).map(|at| (None, at)).collect();
            let input = Input { limit: self.limit, expressions: &batch, objects: Vec::new(), work };
            match self.ask(&input, left).await {
                Ok(results) => {
                    let count = results.len();
                    for (text, result) in batch.iter().zip(results) {
                        let invalid = result.get("invalid").and_then(Value::as_str);
                        all.push((*text, Ok(invalid.map_or(Ok(()), |why| Err(why.to_owned())))));
                    }
                    if let Some(text) = batch.get(count) {
                        let why = format!("it takes longer than {:?} to read it", self.limit);
                        all.push((*text, Ok(Err(why))));
                    }
                    if let Some(rest) = batch.get(count + 1..).filter(|rest| !rest.is_empty()) {
                        waiting.push_front(rest.to_vec());
                    }
                }
                Err(Failure::Refused(why) | Failure::Unavailable(why)) => {
                    let why = format!("cannot be evaluated: {why}");
                    all.extend(batch.iter().map(|text| (*text, Err(why.clone()))));
                }
                Err(failure) => match batch.as_slice() {
                    [text] => all.push((*text, Ok(Err(failure.to_string())))),
                    more => {
                        let (one, other) = more.split_at(more.len() / 2);
                        waiting.push_front(other.to_vec());
                        waiting.push_front(one.to_vec());
                    }
                },
            }
        }
        all
    }
}
