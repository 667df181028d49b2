//! Evaluates the health scripts of administrators, in confined processes (SE-480 … SE-485).
//!
//! A decision gets the results as facts ([`Checks::results`]). A result is kept for the
//! version of its object, so that a reconcile evaluates what has changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::confined::{Failure, Limits, Pool, Program};
use crate::decide::health::Checks;
use crate::decide::health::scripts::{EvaluationKey, Script, ScriptResult, ScriptResults};

/// The time of one run.
const TIME: Duration = Duration::from_secs(1);

/// The time after which its process is killed: the script ends by itself before, except
/// within one call of a library.
const KILLED_AFTER: Duration = Duration::from_millis(1500);

/// Memory of one run, its object included.
const MEMORY: u64 = 128 << 20;

/// Longest result: a status and a message.
const OUTPUT: usize = 64 << 10;

/// After how many runs at a limit a script is not run for other objects of an observation.
const ENDED_RUNS: usize = 3;

/// Runs scripts. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct HealthScripts {
    /// Scripts that were ended at a limit: each occupies one process at most.
    slow: Arc<Mutex<HashMap<Arc<str>, Arc<Mutex<()>>>>>,
}

/// One evaluation that is due.
struct Due {
    key: EvaluationKey,
    script: Arc<Script>,
    object: Arc<Value>,
}

impl HealthScripts {
    /// The checks with the results of the scripts of these objects. Results of `known` are
    /// taken over while they count.
    pub async fn checked<'a>(
        &self,
        checks: &Checks,
        objects: impl Iterator<Item = &'a Arc<Value>>,
        known: &ScriptResults,
        now: Timestamp,
    ) -> Checks {
        if checks.scripts.is_empty() {
            return checks.clone();
        }
        let (mut results, due) = sorted(checks, objects, known, now);
        if !due.is_empty() {
            let this = self.clone();
            // Waits for processes, and a clock that jumps does not move meanwhile.
            let run = tokio::task::spawn_blocking(move || this.run_all(due, now)).await;
            // Without results, these objects are Progressing.
            for (key, result) in run.unwrap_or_default() {
                results.insert(key, result);
            }
        }
        Checks { results: Arc::new(results), ..checks.clone() }
    }

    /// The same for those who may wait.
    pub fn checked_blocking<'a>(
        &self,
        checks: &Checks,
        objects: impl Iterator<Item = &'a Arc<Value>>,
        now: Timestamp,
    ) -> Checks {
        let (mut results, due) = sorted(checks, objects, &ScriptResults::default(), now);
        for (key, result) in self.run_all(due, now) {
            results.insert(key, result);
        }
        Checks { results: Arc::new(results), ..checks.clone() }
    }

    fn run_all(&self, due: Vec<Due>, now: Timestamp) -> Vec<(EvaluationKey, ScriptResult)> {
        let mut ended: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut results = Vec::new();
        for Due { key, script, object } in due {
            let text = &script.text;
            let result = match ended.get(text).copied().unwrap_or_default() {
                runs if runs < ENDED_RUNS => self.run(&script, &object, now),
                runs => ScriptResult::ended(
                    &format!("the script was stopped for {runs} other objects, and is not run"),
                    now,
                ),
            };
            if is_ended(&result, now) {
                *ended.entry(Arc::clone(text)).or_default() += 1;
            }
            results.push((key, result));
        }
        results
    }

    fn run(&self, script: &Script, object: &Value, now: Timestamp) -> ScriptResult {
        let input = json!({
            "script": &*script.text,
            "openLibs": script.open_libs,
            "now": now.as_second(),
            "milliseconds": TIME.as_millis() as u64,
            "object": object,
        });
        let limits = Limits { time: KILLED_AFTER, memory: MEMORY, output: OUTPUT };
        let one_at_a_time = self.slow.lock().get(&script.text).cloned();
        let alone = one_at_a_time.as_ref().map(|slow| slow.lock());
        let result = match Pool::shared().evaluate_blocking(Program::Lua, &input, limits) {
            Ok(returned) => ScriptResult::read(&returned, now),
            Err(Failure::Unavailable(why)) => ScriptResult::not_run(&why, now),
            Err(Failure::TimedOut(_)) => {
                let limit = TIME.as_millis();
                ScriptResult::ended(&format!("the script was stopped after {limit} ms"), now)
            }
            Err(failure) => ScriptResult::ended(&format!("the script: {failure}"), now),
        };
        drop(alone);
        let mut slow = self.slow.lock();
        match is_ended(&result, now) {
            true => drop(slow.entry(Arc::clone(&script.text)).or_default()),
            false => drop(slow.remove(&script.text)),
        }
        result
    }
}

/// Whether the script was ended at a limit: only such an error counts for a time.
fn is_ended(result: &ScriptResult, now: Timestamp) -> bool {
    result.error.is_some() && result.until.is_some_and(|until| until > now)
}

/// The results that still count, and what is due.
fn sorted<'a>(
    checks: &Checks,
    objects: impl Iterator<Item = &'a Arc<Value>>,
    known: &ScriptResults,
    now: Timestamp,
) -> (ScriptResults, Vec<Due>) {
    let (mut results, mut due) = (ScriptResults::default(), Vec::new());
    for object in objects {
        let Some(script) = checks.scripts.of_object(object) else { continue };
        let key = script.key(object);
        match known.get(&key).filter(|result| result.is_current(now)) {
            Some(result) => results.insert(key, result.clone()),
            None => {
                let (script, object) = (Arc::clone(script), Arc::clone(object));
                due.push(Due { key, script, object });
            }
        }
    }
    (results, due)
}
