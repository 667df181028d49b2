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
use turns::Caller;

use wavegate_api::Raw;

use crate::evaluator::pool;
use wavegate_engine::health::Checks;
use wavegate_engine::health::scripts::{EvaluationKey, Script, ScriptResult, ScriptResults};
use wavegate_sandbox::{EvalError, EvalLimits, Program};

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

/// How long a run waits for others of a script that was stopped.
const BUSY: Duration = Duration::from_secs(10);

/// Runs scripts. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct HealthScripts {
    /// Scripts that were ended at a limit: each occupies one process at most.
    slow: Arc<Mutex<HashMap<Arc<str>, OneAtATime>>>,
}

/// Held by the only run of a script.
type OneAtATime = Arc<Mutex<()>>;

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
        // The results of scripts that are not run any more in this observation.
        let mut skipped: BTreeMap<Arc<str>, ScriptResult> = BTreeMap::new();
        let mut results = Vec::new();
        for Due { key, script, object } in due {
            let text = &script.text;
            if let Some(result) = skipped.get(text) {
                results.push((key, result.clone()));
                continue;
            }
            let Some(result) = self.run(&script, &object, now) else {
                let busy = ScriptResult::not_run("it is being stopped for other objects", now);
                skipped.insert(Arc::clone(text), busy.clone());
                results.push((key, busy));
                continue;
            };
            if is_ended(&result, now) {
                let runs = ended.entry(Arc::clone(text)).or_default();
                *runs += 1;
                if *runs == ENDED_RUNS {
                    let why =
                        format!("the script was stopped for {runs} other objects, and is not run");
                    skipped.insert(Arc::clone(text), ScriptResult::ended(&why, now));
                }
            }
            results.push((key, result));
        }
        results
    }

    /// One run; `None` when the process for slow scripts stays busy.
    fn run(&self, script: &Script, object: &Value, now: Timestamp) -> Option<ScriptResult> {
        let input = json!({
            "script": &*script.text,
            "openLibs": script.open_libs,
            "now": now.as_second(),
            "milliseconds": TIME.as_millis() as u64,
            "object": object,
        });
        let limits = EvalLimits { time: KILLED_AFTER, memory: MEMORY, output: OUTPUT };
        let one_at_a_time = self.slow.lock().get(&script.text).cloned();
        let alone = match &one_at_a_time {
            Some(slow) => Some(slow.try_lock_for(BUSY)?),
            None => None,
        };
        // Objects of one namespace are mostly those of one Application.
        let namespace = object.namespace();
        let caller = Caller::new(namespace, &script.setting);
        let asked = pool().evaluate_blocking(Program::Lua, &caller, &input, limits);
        let result = match asked {
            Ok(returned) => ScriptResult::read(&returned, now),
            Err(EvalError::Unavailable(why)) => ScriptResult::not_run(&why, now),
            Err(EvalError::TimedOut(_)) => {
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
        Some(result)
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

#[cfg(all(test, feature = "lua"))]
mod tests {
    use std::time::Instant;

    use super::*;
    use wavegate_engine::health::scripts::Scripts;
    use wavegate_engine::health::{Health, Status};

    fn checks(text: &str) -> Checks {
        let setting = "resource.customizations.health.Thing".to_owned();
        let script = Script { setting, text: text.into(), open_libs: true };
        let (scripts, _) = Scripts::new([("Thing".to_owned(), script)].into());
        Checks { scripts: Arc::new(scripts), ..Checks::default() }
    }

    fn thing(name: &str, version: &str) -> Arc<Value> {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version});
        Arc::new(json!({"apiVersion": "v1", "kind": "Thing", "metadata": metadata}))
    }

    fn shown(checks: &Checks, object: &Value) -> (Status, String) {
        let Health { status, message } = checks.of(object).expect("a health");
        (status, message)
    }

    /// SE-485: an object is evaluated again when it has changed, or when the time counts.
    #[tokio::test]
    async fn a_result_is_kept_for_the_version_of_its_object() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let (scripts, none) = (HealthScripts::default(), ScriptResults::default());
        let (one, newer, two) = (thing("one", "1"), thing("one", "2"), thing("two", "1"));
        let checks_of = checks(
            "if obj.metadata.name == 'two' then return {status='Healthy', message=os.time() .. ''} end \
             return {status='Healthy', message=obj.metadata.resourceVersion}",
        );
        let first = scripts.checked(&checks_of, [&one, &two].into_iter(), &none, at(5)).await;
        assert_eq!(shown(&first, &one).1, "1");
        assert_eq!(shown(&first, &two).1, "5");
        // What is known is not run: this one would fail.
        let (kept, due) =
            sorted(&checks_of, [&one, &newer, &two].into_iter(), &first.results, at(6));
        let due: Vec<&Value> = due.iter().map(|due| &*due.object).collect();
        assert_eq!(due, [&*newer, &*two]);
        assert_eq!(kept, {
            let script = checks_of.scripts.of("", "Thing").expect("the script");
            let mut want = ScriptResults::default();
            let key = script.key(&one);
            let result = first.results.get(&key).expect("the result").clone();
            want.insert(key, result);
            want
        });
        let later =
            scripts.checked(&checks_of, [&newer, &two].into_iter(), &first.results, at(6)).await;
        assert_eq!(shown(&later, &newer).1, "2");
        assert_eq!(shown(&later, &two).1, "6");
        assert_eq!(shown(&later, &one).0, Status::Progressing, "it is not observed any more");
    }

    /// Many objects of a script that runs away take a limited time, and one worker.
    #[tokio::test]
    async fn a_script_that_runs_away_is_not_run_for_all_objects() {
        let (scripts, none) = (HealthScripts::default(), ScriptResults::default());
        let away = checks("while true do end");
        let objects: Vec<Arc<Value>> = (0..50).map(|n| thing(&format!("{n}"), "1")).collect();
        let begin = Instant::now();
        let seen = scripts.checked(&away, objects.iter(), &none, Timestamp::UNIX_EPOCH).await;
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        let stopped = objects.iter().filter(|one| shown(&seen, one).1.contains("1000 ms")).count();
        assert_eq!(stopped, ENDED_RUNS);
        let last = objects.last().expect("an object");
        let want = "the script was stopped for 3 other objects, and is not run";
        assert_eq!(shown(&seen, last), (Status::Unknown, want.to_owned()));
        assert_eq!(scripts.slow.lock().len(), 1);
        // Another script is not held.
        let fine = checks("return {status='Healthy'}");
        let seen = scripts.checked(&fine, objects.iter(), &none, Timestamp::UNIX_EPOCH).await;
        assert!(objects.iter().all(|one| shown(&seen, one).0 == Status::Healthy));
    }
}
