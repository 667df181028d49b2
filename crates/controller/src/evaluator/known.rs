//! What is remembered of expressions: whether they are valid, their answers, and which exceeded a
//! limit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use wavegate_engine::diff::jq::{Found, JqError};

/// How long an expression that exceeded a limit is not evaluated again for its scope.
const PENALTY: Duration = Duration::from_secs(60);

/// Most entries of each memory but that of answers.
const REMEMBERED: usize = 4096;

/// Most memory of a remembered answer, and of all of a half, in bytes.
const REMEMBERED_SIZE: usize = 4 << 10;
pub(super) const ALL_REMEMBERED_SIZE: usize = 15 << 20;

/// What an answer takes besides its paths, a path besides its steps, and a step besides its name,
/// in bytes.
const ANSWER_SIZE: usize = 160;
const PATH_SIZE: usize = 32;
const STEP_SIZE: usize = 48;

/// The digests of an expression and of what it sees of an object.
pub(super) type Key = (u64, u64);

/// The places of an object that an expression sees; `None` is all of it.
pub(super) type Sees = Option<Arc<Vec<Vec<String>>>>;

/// What is remembered, within limits.
#[derive(Debug, Default)]
pub(super) struct KnownResults {
    /// Whether texts are expressions.
    checked: HashMap<String, Result<Sees, String>>,
    /// Answers: the newer half, and the older one.
    pub(super) answers: [HashMap<Key, Found>; 2],
    /// The size of the newer half, in bytes.
    size: usize,
    /// Expressions of a scope that exceeded a limit, with the limit and the end of that.
    exceeding: HashMap<(String, String), (String, Instant)>,
}

impl KnownResults {
    /// Whether a text is an expression, and what it sees; `None` if it was not checked.
    pub(super) fn checked(&self, text: &str) -> Option<&Result<Sees, String>> {
        self.checked.get(text)
    }

    pub(super) fn remember_checked(&mut self, text: &str, result: Result<Sees, String>) {
        if self.checked.len() >= REMEMBERED {
            self.checked.clear();
        }
        self.checked.insert(text.to_owned(), result);
    }

    pub(super) fn sees(&self, text: &str) -> Sees {
        self.checked.get(text)?.as_ref().ok()?.clone()
    }

    pub(super) fn answer(&self, key: &Key) -> Option<&Found> {
        self.answers.iter().find_map(|half| half.get(key))
    }

    pub(super) fn remember(&mut self, key: Key, found: &Found) {
        if !matches!(found, Ok(_) | Err(JqError::Mismatch(_))) {
            return;
        }
        let size = size(found);
        if size > REMEMBERED_SIZE {
            return;
        }
        if self.size + size > ALL_REMEMBERED_SIZE {
            self.answers.swap(0, 1);
            self.answers[0].clear();
            self.size = 0;
        }
        if self.answers[0].insert(key, found.clone()).is_none() {
            self.size += size;
        }
    }

    /// What this expression exceeded less than a minute ago.
    pub(super) fn exceeded(&self, scope: &str, text: &str, now: Instant) -> Option<String> {
        let key = (scope.to_owned(), text.to_owned());
        let (why, until) = self.exceeding.get(&key)?;
        (now < *until).then(|| why.clone())
    }

    pub(super) fn exceeds(&mut self, scope: &str, text: &str, why: &str, now: Instant) {
        self.exceeding.retain(|_, (_, until)| now < *until);
        if self.exceeding.len() < REMEMBERED {
            let key = (scope.to_owned(), text.to_owned());
            self.exceeding.insert(key, (why.to_owned(), now + PENALTY));
        }
    }
}

/// The memory of an answer, in bytes, about.
pub(super) fn size(found: &Found) -> usize {
    let of_step = |step: &Value| match step {
        Value::String(name) => STEP_SIZE + name.len(),
        // A slice.
        Value::Object(_) => 8 * STEP_SIZE,
        _ => STEP_SIZE,
    };
    let of_path = |path: &Vec<Value>| PATH_SIZE + path.iter().map(of_step).sum::<usize>();
    let inside = match found {
        Ok(paths) => paths.iter().map(of_path).sum(),
        Err(error) => error.to_string().len(),
    };
    ANSWER_SIZE + inside
}
