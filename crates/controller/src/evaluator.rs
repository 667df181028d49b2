//! Evaluates expressions of users for decisions, in confined workers.
//!
//! Decisions are functions of what was observed; what an expression selects in an object is
//! such a function, too, but one that needs a process of its own. This module asks the pool
//! for all objects of a decision at once, finds out which expression is to blame when a
//! request fails, and remembers it for a while, so that one that runs away costs its time
//! once a minute, and nobody else's rules.

mod known;
mod part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use turns::{Caller, current_caller};

use self::known::{Key, KnownResults, Sees, size};
use self::part::part;
use wavegate_engine::diff::jq::{Evaluate, Found, Jq, JqError, Question};
use wavegate_sandbox::{EvalError, EvalLimits, Program, WorkerPool};

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

/// The time of one request after which it leaves its worker to others and asks for the rest
/// again.
const TURN: Duration = Duration::from_secs(1);

/// How much longer than one evaluation all of a question may take.
const ALL_TOGETHER: u32 = 30;

/// How many expressions may exceed a limit before the others of a question are skipped.
const MAX_EXCEEDING: usize = 5;

/// Most memory of all answers to a question, in bytes.
const ANSWERS_SIZE: usize = 64 << 20;

/// How often a worker is tried that cannot be started.
const ATTEMPTS: u32 = 3;

/// The pool of workers; in tests, with this program as their program.
pub(crate) fn pool() -> &'static WorkerPool {
    #[cfg(test)]
    wavegate_sandbox::start_workers_by_test("tests::serve_as_a_worker");
    WorkerPool::shared()
}

/// Evaluates jq expressions, each for this time at most on one object.
pub fn limited_jq(limit: Duration) -> Jq {
    by_turns(limit, TURN)
}

fn by_turns(limit: Duration, turn: Duration) -> Jq {
    let (hasher, known) = (RandomState::new(), Mutex::default());
    Jq::new(Arc::new(Workers { limit, turn, hasher, known }))
}

#[derive(Debug)]
struct Workers {
    limit: Duration,
    turn: Duration,
    /// Unknown to those who write objects.
    hasher: RandomState,
    known: Mutex<KnownResults>,
}

/// What a worker is asked, as `crates/sandbox/src/programs/jq.rs` reads it.
#[derive(Serialize)]
struct Input<'a> {
    limit: Duration,
    turn: Duration,
    expressions: &'a [&'a str],
    objects: Vec<&'a RawValue>,
    work: Vec<(Option<usize>, usize)>,
}

/// One evaluation, with its number.
#[derive(Clone, Copy, Debug)]
struct Item {
    at: usize,
    object: usize,
    expression: usize,
}

/// What became of a batch.
struct Done {
    batch: Vec<Item>,
    result: Result<(Vec<Value>, bool), EvalError>,
}

impl Workers {
    fn digest(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    /// The results, and whether the rest was left for another turn.
    async fn ask(
        &self,
        scope: &str,
        input: &Input<'_>,
        time: Duration,
    ) -> Result<(Vec<Value>, bool), EvalError> {
        let limits = EvalLimits { time, memory: MEMORY, output: OUTPUT };
        let caller = Caller { name: scope.into(), ..current_caller() };
        let mut attempt = 0;
        loop {
            match pool().evaluate(Program::Jq, &caller, input, limits).await {
                Ok(Value::Array(mut results)) => {
                    let is_paused = results.last().is_some_and(|last| last["paused"] == true);
                    if is_paused {
                        results.pop();
                    }
                    return Ok((results, is_paused));
                }
                Ok(_) => return Err(EvalError::Died("an answer that is no list".to_owned())),
                Err(EvalError::Unavailable(_)) if attempt < ATTEMPTS => {
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
    ) -> BTreeMap<usize, Found> {
        let began = Instant::now();
        let total = self.limit.saturating_mul(ALL_TOGETHER);
        let mut answers = BTreeMap::new();
        let mut taken = 0;
        let mut exceeding: HashMap<usize, String> = HashMap::new();
        let mut waiting: VecDeque<Vec<Item>> = batches(items, objects).into();
        while !waiting.is_empty() {
            let left = total.saturating_sub(began.elapsed());
            let stop = if left.is_zero() {
                // The same would happen again.
                let why = format!("all rules together take longer than {total:?}");
                Some(JqError::Exhausted(why))
            } else if taken > ANSWERS_SIZE {
                Some(too_many())
            } else if exceeding.len() >= MAX_EXCEEDING {
                let why = format!("{MAX_EXCEEDING} other rules do, so it is not evaluated");
                Some(JqError::Deferred(why))
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
                let result = self.run(scope, &batch, (texts, objects), left).await;
                Done { batch, result }
            };
            let done: Vec<Done> =
                futures::stream::iter(some.into_iter().map(run)).buffered(PARALLEL).collect().await;
            for Done { batch, result } in done {
                let again = match result {
                    Ok((results, is_paused)) => {
                        let mut count = results.len();
                        for (item, result) in batch.iter().zip(results) {
                            let found = found(result);
                            taken += size(&found);
                            if let Err(JqError::Exhausted(why)) = &found {
                                exceeding.insert(item.expression, why.clone());
                            }
                            answers.insert(item.at, found);
                        }
                        // It stopped at one that took too long.
                        if let Some(item) = batch.get(count).filter(|_| !is_paused) {
                            count += 1;
                            let why = format!("it takes longer than {:?}", self.limit);
                            exceeding.insert(item.expression, why.clone());
                            answers.insert(item.at, Err(JqError::Exhausted(why)));
                        }
                        let rest = batch.get(count..).filter(|rest| !rest.is_empty());
                        rest.map(|rest| vec![rest.to_vec()])
                    }
                    Err(EvalError::Refused(why) | EvalError::Unavailable(why)) => {
                        for item in &batch {
                            answers.insert(item.at, Err(JqError::Unavailable(why.clone())));
                        }
                        None
                    }
                    Err(failure) => match batch.as_slice() {
                        [item] => {
                            let why = failure.to_string();
                            exceeding.insert(item.expression, why.clone());
                            answers.insert(item.at, Err(JqError::Exhausted(why)));
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
                        answers.insert(item.at, Err(JqError::Deferred(why.clone())));
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
        scope: &str,
        batch: &[Item],
        (texts, objects): (&[&str], &[Box<RawValue>]),
        time: Duration,
    ) -> Result<(Vec<Value>, bool), EvalError> {
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
        let (limit, turn) = (self.limit, self.turn);
        let input = Input { limit, turn, expressions: texts, objects: sent, work };
        self.ask(scope, &input, time).await
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
        return Err(JqError::Unavailable("an answer that is no object".to_owned()));
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
        return Err(JqError::Exhausted(why));
    }
    // What is no expression was refused when the rule was read.
    let why = text(result.remove("mismatch")).or_else(|| text(result.remove("invalid")));
    Err(why.map_or_else(|| JqError::Unavailable("an unknown answer".to_owned()), JqError::Mismatch))
}

impl Evaluate for Workers {
    fn check(&self, scope: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        let unknown: Vec<&str> = {
            let known = self.known.lock();
            let new: HashSet<&str> =
                texts.iter().copied().filter(|text| known.checked(text).is_none()).collect();
            new.into_iter().collect()
        };
        let mut failed = HashMap::new();
        if !unknown.is_empty() {
            for (text, result) in futures::executor::block_on(self.checked(scope, &unknown)) {
                match result {
                    Ok(valid) => {
                        self.known.lock().remember_checked(text, valid.clone());
                        failed.insert(text, valid);
                    }
                    Err(why) => drop(failed.insert(text, Err(why))),
                }
            }
        }
        let known = self.known.lock();
        let of = |text: &&str| {
            let now = failed.get(*text).or_else(|| known.checked(text));
            let now = now.map(|known| known.as_ref().map(drop).map_err(String::clone));
            now.unwrap_or_else(|| Err("cannot be checked; try again".to_owned()))
        };
        texts.iter().map(of).collect()
    }

    fn paths(&self, scope: &str, questions: &[Question<'_>]) -> Vec<Vec<Found>> {
        let mut batch = Batch::default();
        let mut answers = Answers::default();
        let now = Instant::now();
        for (at, question) in questions.iter().enumerate() {
            let mut sent: Vec<(Sees, usize, u64)> = Vec::new();
            for (of, text) in question.expressions.iter().map(|one| one.text()).enumerate() {
                let sees = self.known.lock().sees(text);
                let before = sent.iter().find(|(other, ..)| *other == sees);
                let (object, digest) = match before {
                    Some((_, object, digest)) => (*object, *digest),
                    None => match to_raw_value(&part(question.object, &sees)) {
                        Ok(object) => {
                            let digest = self.digest(object.get());
                            let object = batch.object(object, digest);
                            sent.push((sees, object, digest));
                            (object, digest)
                        }
                        Err(error) => {
                            answers.give((at, of), &Err(JqError::Mismatch(error.to_string())));
                            continue;
                        }
                    },
                };
                let expression = batch.expression(text);
                let key = (self.digest(text), digest);
                let known = self.known.lock();
                if let Some(found) = known.answer(&key) {
                    answers.give((at, of), found);
                } else if let Some(why) = known.exceeded(scope, text, now) {
                    answers.give((at, of), &Err(JqError::Deferred(why)));
                } else {
                    batch.ask(key, (object, expression), (at, of));
                }
            }
        }
        if !batch.items.is_empty() {
            let items = std::mem::take(&mut batch.items);
            let evaluated = self.evaluate(scope, (&batch.texts, &batch.objects), items);
            let evaluated = futures::executor::block_on(evaluated);
            let mut known = self.known.lock();
            for (item, found) in evaluated {
                let (key, places) = &batch.asked[item];
                known.remember(*key, &found);
                places.iter().for_each(|place| answers.give(*place, &found));
            }
        }
        let missing = || Err(JqError::Unavailable("no answer".to_owned()));
        let of_question = |(at, question): (usize, &Question<'_>)| {
            let count = question.expressions.len();
            (0..count).map(|of| answers.all.remove(&(at, of)).unwrap_or_else(missing)).collect()
        };
        questions.iter().enumerate().map(of_question).collect()
    }
}

/// The answers to some questions, by question and expression: no more than fit in memory.
#[derive(Default)]
struct Answers {
    all: BTreeMap<(usize, usize), Found>,
    /// Their size in bytes.
    size: usize,
}

impl Answers {
    /// A copy of an answer that does not fit is not made.
    fn give(&mut self, place: (usize, usize), found: &Found) {
        let with_it = self.size.saturating_add(size(found));
        let found = match with_it > ANSWERS_SIZE {
            true => Err(too_many()),
            false => {
                self.size = with_it;
                found.clone()
            }
        };
        self.all.insert(place, found);
    }
}

fn too_many() -> JqError {
    let most = ANSWERS_SIZE >> 20;
    JqError::Exhausted(format!("all rules together select {most} MiB of paths"))
}

/// What has to be evaluated for some questions: equal ones once.
#[derive(Default)]
struct Batch<'q> {
    objects: Vec<Box<RawValue>>,
    by_digest: HashMap<u64, usize>,
    texts: Vec<&'q str>,
    by_text: HashMap<&'q str, usize>,
    items: Vec<Item>,
    /// Of each item, its key and the questions and expressions that ask for it.
    asked: Vec<(Key, Vec<(usize, usize)>)>,
    by_key: HashMap<Key, usize>,
}

impl<'q> Batch<'q> {
    fn object(&mut self, object: Box<RawValue>, digest: u64) -> usize {
        *self.by_digest.entry(digest).or_insert_with(|| {
            self.objects.push(object);
            self.objects.len() - 1
        })
    }

    fn expression(&mut self, text: &'q str) -> usize {
        *self.by_text.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() - 1
        })
    }

    fn ask(&mut self, key: Key, (object, expression): (usize, usize), place: (usize, usize)) {
        let at = *self.by_key.entry(key).or_insert_with(|| {
            self.items.push(Item { at: self.asked.len(), object, expression });
            self.asked.push((key, Vec::new()));
            self.asked.len() - 1
        });
        self.asked[at].1.push(place);
    }
}

impl Workers {
    /// Whether texts are expressions; `Err` when that cannot be found out.
    async fn checked<'t>(
        &self,
        scope: &str,
        texts: &[&'t str],
    ) -> Vec<(&'t str, Result<Result<Sees, String>, String>)> {
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
            let (limit, turn) = (self.limit, self.turn);
            let input = Input { limit, turn, expressions: &batch, objects: Vec::new(), work };
            match self.ask(scope, &input, left).await {
                Ok((results, is_paused)) => {
                    let mut count = results.len();
                    for (text, result) in batch.iter().zip(results) {
                        let invalid = result.get("invalid").and_then(Value::as_str);
                        let sees = result.get("sees");
                        let sees = sees.and_then(|sees| Vec::deserialize(sees).ok());
                        let valid = Ok(sees.map(Arc::new));
                        all.push((*text, Ok(invalid.map_or(valid, |why| Err(why.to_owned())))));
                    }
                    if let Some(text) = batch.get(count).filter(|_| !is_paused) {
                        count += 1;
                        let why = format!("it takes longer than {:?} to read it", self.limit);
                        all.push((*text, Ok(Err(why))));
                    }
                    if let Some(rest) = batch.get(count..).filter(|rest| !rest.is_empty()) {
                        waiting.push_front(rest.to_vec());
                    }
                }
                Err(EvalError::Refused(why) | EvalError::Unavailable(why)) => {
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
