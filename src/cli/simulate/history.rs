//! How long Applications of a cluster took before.
//!
//! Each Application counts for itself: its sync by its history, and its health by the time at
//! which the rollout found it Healthy. Kubernetes keeps whole seconds, which are much of a short
//! sync. What a step took as a whole is the sum of many of them and known as exactly as one, so
//! the times of its Applications are the most equal ones that agree with both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::creation::Created;
use crate::cli::files::generate::strategy_of;
use wavegate_api::Raw;
use wavegate_api::run::{RolloutRunStatus, RunPhase};
use wavegate_rollout::requests::{Run, number_of};
use wavegate_rollout::rollout::budget::Limit;

/// A time that is stored differs from the real one by less than this.
const PRECISION: Duration = Duration::from_secs(1);
/// How exactly the times of a step are found.
const FINE: Duration = Duration::from_millis(5);

/// How long an Application took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Its sync.
    pub sync: Duration,
    /// Its health after that.
    pub health: Duration,
}

impl Times {
    fn total(self) -> Duration {
        self.sync + self.health
    }

    /// The same in so much time.
    fn within(self, total: Duration) -> Self {
        let sync = self.sync.min(total);
        Self { sync, health: total - sync }
    }
}

/// A time of the cluster: from, and until.
type Window = (Timestamp, Timestamp);

/// The times of the Applications of a set, as far as they are known.
pub(super) fn behaviors(
    set: &Value,
    steps: &BTreeMap<String, Option<usize>>,
    live: &BTreeMap<String, Arc<Value>>,
    runs: &[Arc<Value>],
    created: &Created,
) -> BTreeMap<String, Times> {
    let is_complete = |run: &Run| {
        run.spec.application_set == set.name() && run.status.phase == RunPhase::Complete
    };
    let complete = runs.iter().map(|run| Run::read(run)).filter(is_complete);
    let last = complete.max_by_key(|run| number_of(&run.name)).map(|run| run.status);
    let (strategy, _) = strategy_of(set);
    let healthy: BTreeMap<&str, Timestamp> = (set.items("/status/applicationStatus").iter())
        .filter(|entry| entry.field("status") == "Healthy")
        .filter_map(|entry| Some((entry.field("application"), entry.time("/lastTransitionTime")?)))
        .collect();
    let mut of_step: BTreeMap<Option<usize>, Vec<&String>> = BTreeMap::new();
    for (name, step) in steps {
        of_step.entry(*step).or_default().push(name);
    }
    let (mut all, mut once) = (BTreeMap::new(), BTreeMap::new());
    for (step, names) in of_step {
        let open = step.and_then(|step| open(last.as_ref()?, step));
        let mut began = None;
        let mut known = Vec::new();
        for name in &names {
            let since = healthy.get(name.as_str()).copied();
            let found = live.get(*name).and_then(|live| Some((live, times(live, since, open)?)));
            let Some((live, (start, times))) = found else { continue };
            began = [began, Some(start)].into_iter().flatten().min();
            once.extend(
                created.waited(live, start, times.total()).map(|time| ((*name).clone(), time)),
            );
            known.push(((*name).clone(), times));
        }
        // A step that creates its Applications begins when they exist.
        let open = open.map(|(from, until)| (began.map_or(from, |began| began.max(from)), until));
        let limit = step.and_then(|step| strategy.steps().get(step));
        let total = u64::try_from(names.len()).unwrap_or(u64::MAX);
        let limit = limit.map_or(Limit::Unlimited, |step| step.max_update.limit(total));
        let slots = usize::try_from(limit.capped(total)).unwrap_or(usize::MAX).max(1);
        if known.len() == names.len()
            && let Some(took) = open.and_then(length)
        {
            agree(&mut known, slots, took);
        } else if let Some(took) = open.and_then(length) {
            // Those without a history: what the step took for each of its batches.
            let batches = u32::try_from(names.len().div_ceil(slots)).unwrap_or(u32::MAX).max(1);
            let other = Times { sync: Duration::ZERO, health: took / batches };
            let is_known = |name: &String| known.iter().any(|(known, _)| known == name);
            let others: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
            all.extend(others.into_iter().map(|name| ((*name).clone(), other)));
        }
        all.extend(known);
    }
    for (name, time) in most_equal(once) {
        all.entry(name).and_modify(|times: &mut Times| {
            *times = times.within(times.total().saturating_sub(time));
        });
    }
    all
}

/// Times that are stored in seconds: the most equal ones within their precision.
fn most_equal(all: BTreeMap<String, Duration>) -> BTreeMap<String, Duration> {
    let average = average(all.values());
    all.into_iter().map(|(name, time)| (name, towards(average, time))).collect()
}

fn average<'a>(times: impl ExactSizeIterator<Item = &'a Duration>) -> Duration {
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    times.sum::<Duration>() / count
}

/// What is nearest to a common time, of those that are stored as `stored`.
fn towards(common: Duration, stored: Duration) -> Duration {
    common.clamp(stored.saturating_sub(PRECISION), stored + PRECISION)
}

/// When a run had a step open, without what its gates held.
fn open(run: &RolloutRunStatus, step: usize) -> Option<Window> {
    let step = run.steps.get(step)?;
    let gates = run.gates.iter().filter(|gate| step.gates.contains(&gate.name));
    let opened = gates.filter_map(|gate| gate.opened_at.as_ref()).chain(&step.opened_at);
    Some((opened.map(|at| at.0).max()?, step.completed_at.as_ref()?.0))
}

fn length((from, until): Window) -> Option<Duration> {
    Duration::try_from(until.duration_since(from)).ok()
}

/// The last sync of an Application that began in this time: when, and its times.
fn times(
    application: &Value,
    healthy: Option<Timestamp>,
    open: Option<Window>,
) -> Option<(Timestamp, Times)> {
    let is_of_run = |at: &Timestamp| open.is_none_or(|(from, until)| (from..=until).contains(at));
    let (began, ended) = application.items("/status/history").iter().rev().find_map(|sync| {
        let (began, ended) = (sync.time("/deployStartedAt")?, sync.time("/deployedAt")?);
        is_of_run(&began).then_some((began, ended))
    })?;
    let since = [healthy, application.time("/status/health/lastTransitionTime")];
    // It may have been Healthy before, and may have become so again since.
    let healthy = since.into_iter().flatten().find(|at| *at >= ended && is_of_run(at));
    let sync = length((began, ended))?;
    Some((began, Times { sync, health: length((ended, healthy.unwrap_or(ended)))? }))
}

/// Gives the Applications of a step, with so many of them at a time, the most equal times with
/// which the step takes as long as it took, each within the precision of what is stored.
fn agree(known: &mut [(String, Times)], slots: usize, took: Duration) {
    let stored: Vec<Duration> = known.iter().map(|(_, times)| times.total()).collect();
    let at = |common: Duration| stored.iter().map(move |stored| towards(common, *stored));
    let most = stored.iter().max().copied().unwrap_or_default() + PRECISION;
    let (mut low, mut high) = (Duration::ZERO, most);
    // Where it took longer, something else held it: a pause, a retry.
    let common = if makespan(at(most), slots) < took {
        average(stored.iter())
    } else {
        while high - low > FINE {
            let middle = (low + high) / 2;
            match makespan(at(middle), slots) < took {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    };
    let all: Vec<Duration> = at(common).collect();
    for ((_, times), total) in known.iter_mut().zip(all) {
        *times = times.within(total);
    }
}

/// How long it takes, when as one ends the next one begins.
fn makespan(times: impl Iterator<Item = Duration>, slots: usize) -> Duration {
    let mut ends: BinaryHeap<Reverse<Duration>> = BinaryHeap::new();
    let mut last = Duration::ZERO;
    for time in times {
        let begins = match ends.len() < slots {
            true => Duration::ZERO,
            false => ends.pop().map_or(Duration::ZERO, |Reverse(end)| end),
        };
        ends.push(Reverse(begins + time));
        last = last.max(begins + time);
    }
    last
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: u64) -> String {
        format!("2026-01-05T09:{:02}:{:02}Z", second / 60, second % 60)
    }

    fn application(name: &str, syncs: &[(u64, u64)], healthy: u64) -> (String, Arc<Value>) {
        let sync = |(began, ended): &(u64, u64)| json!({"deployStartedAt": at(*began), "deployedAt": at(*ended)});
        let history: Vec<Value> = syncs.iter().map(sync).collect();
        let health = json!({"status": "Healthy", "lastTransitionTime": at(healthy)});
        (name.to_owned(), Arc::new(json!({"status": {"history": history, "health": health}})))
    }

    fn run(number: u64, steps: &[(u64, u64)]) -> Arc<Value> {
        let step = |(opened, completed): &(u64, u64)| json!({"openedAt": at(*opened), "completedAt": at(*completed)});
        let steps: Vec<Value> = steps.iter().map(step).collect();
        Arc::new(json!({
            "metadata": {"name": format!("shop-{number}")},
            "spec": {"applicationSet": "shop"},
            "status": {"phase": "Complete", "steps": steps},
        }))
    }

    fn set(max_update: &[u64], healthy: &[(&str, u64)]) -> Value {
        let step = |limit: &u64| json!({"matchExpressions": [], "maxUpdate": limit});
        let steps: Vec<Value> = max_update.iter().map(step).collect();
        let entry = |(name, second): &(&str, u64)| json!({"application": name, "status": "Healthy", "lastTransitionTime": at(*second)});
        let entries: Vec<Value> = healthy.iter().map(entry).collect();
        json!({
            "metadata": {"name": "shop"},
            "spec": {"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}}},
            "status": {"applicationStatus": entries},
        })
    }

    fn seconds(times: &BTreeMap<String, Times>, name: &str) -> (f64, f64) {
        (times[name].sync.as_secs_f64(), times[name].health.as_secs_f64())
    }

    fn steps(of: &[(&str, Option<usize>)]) -> BTreeMap<String, Option<usize>> {
        of.iter().map(|(name, step)| ((*name).to_owned(), *step)).collect()
    }

    #[test]
    fn each_application_has_its_own_times_of_the_last_run() {
        let live = BTreeMap::from([
            application("a", &[(10, 20)], 50),
            // Synced again by a person, after the run, and Degraded for a while.
            application("b", &[(50, 51), (300, 302)], 400),
        ]);
        let runs = [run(1, &[(0, 0)]), run(2, &[(10, 171)])];
        let set = set(&[1], &[("a", 50), ("b", 171)]);
        let times = behaviors(
            &set,
            &steps(&[("a", Some(0)), ("b", Some(0))]),
            &live,
            &runs,
            &Created::default(),
        );
        let (a, b) = (seconds(&times, "a"), seconds(&times, "b"));
        assert!((a.0 - 10.0).abs() < 0.1 && (a.1 - 30.0).abs() < 1.1, "{a:?}");
        assert!((b.0 - 1.0).abs() < 0.1 && (b.1 - 120.0).abs() < 1.1, "{b:?}");
        assert!((a.0 + a.1 + b.0 + b.1 - 161.0).abs() < 0.1, "as long as the step: {a:?} {b:?}");
    }

    #[test]
    fn times_within_a_second_of_each_other_are_one_and_add_up_to_the_step() {
        // Six of 2.5 s, one after the other: 15 s.
        let names = ["a", "b", "c", "d", "e", "f"];
        let began = [0, 2, 5, 7, 10, 12];
        let live = names.iter().zip(began).map(|(name, began)| {
            let ended = if began % 5 == 0 { began + 2 } else { began + 3 };
            application(name, &[(began, ended)], ended)
        });
        let live: BTreeMap<String, Arc<Value>> = live.collect();
        let of = names.map(|name| (name, Some(0)));
        let times = behaviors(
            &set(&[1], &[]),
            &steps(&of),
            &live,
            &[run(1, &[(0, 15)])],
            &Created::default(),
        );
        for name in names {
            let time = times[name].total().as_secs_f64();
            assert!((time - 2.5).abs() < 0.01, "{name}: {time}");
        }
    }

    #[test]
    fn what_held_a_step_is_no_time_of_its_applications() {
        let live = BTreeMap::from([
            application("a", &[(10, 12)], 40),
            application("b", &[(1010, 1012)], 1040),
        ]);
        let of = steps(&[("a", Some(0)), ("b", Some(0))]);
        let held =
            behaviors(&set(&[1], &[]), &of, &live, &[run(1, &[(10, 1040)])], &Created::default());
        assert_eq!((seconds(&held, "a"), seconds(&held, "b")), ((2.0, 28.0), (2.0, 28.0)));
    }

    #[test]
    fn without_a_run_the_last_sync_counts_and_without_a_history_the_step() {
        let live = BTreeMap::from([
            application("a", &[(10, 12)], 40),
            ("b".to_owned(), Arc::new(json!({}))),
        ]);
        let of = steps(&[("a", Some(0)), ("b", Some(0))]);
        let times = behaviors(&set(&[1], &[]), &of, &live, &[], &Created::default());
        assert_eq!((times.len(), seconds(&times, "a")), (1, (2.0, 28.0)));
        let times =
            behaviors(&set(&[1], &[]), &of, &live, &[run(1, &[(10, 70)])], &Created::default());
        assert_eq!((seconds(&times, "a"), seconds(&times, "b")), ((2.0, 28.0), (0.0, 30.0)));
    }
}
