//! What several simulations come to: how long they take, how many end, and what holds the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{course, path};
use crate::cli::console::output;
use wavegate_api::run::{RunPhase, RunWait};
use wavegate_engine::names::some_of;
use wavegate_rollout::rollout::wait::{EndedBy, WaitKind};
use wavegate_simulation::{History, SpanEnd};

/// The most names in a line.
const NAMES: usize = 4;
/// The most lines about what holds others.
const LINES: usize = 20;

/// Several simulations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Distribution {
    runs: usize,
    complete: usize,
    /// Seconds of the complete ones.
    seconds: Option<Seconds>,
    /// What held the others, the most frequent first.
    others: Vec<Other>,
}

#[derive(Debug, Serialize)]
struct Seconds {
    min: i64,
    median: i64,
    p90: i64,
    max: i64,
}

/// Simulations that do not complete for the same reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Other {
    runs: usize,
    #[serde(flatten)]
    hold: Hold,
    /// How often it was which Application.
    applications: BTreeMap<String, usize>,
    /// How one of them ends.
    example: String,
}

/// What holds a simulation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hold {
    /// The set; empty when none has begun.
    set: String,
    /// The open step, counted from 1; absent when the run has none.
    step: Option<i64>,
    /// The phase of the run that ended, or the kind of what it waits for.
    reason: String,
}

impl Distribution {
    /// Of these histories.
    pub fn of(histories: &[History]) -> Self {
        let (complete, incomplete): (Vec<&History>, Vec<&History>) =
            histories.iter().partition(|history| history.outcome == SpanEnd::Complete);
        let seconds = |history: &&History| history.end.duration_since(history.start).as_secs();
        let mut times: Vec<i64> = complete.iter().map(seconds).collect();
        times.sort_unstable();
        // At least so many of them take at most this time.
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).saturating_sub(1)];
        let seconds = (!times.is_empty()).then(|| Seconds {
            min: at(0),
            median: at(50),
            p90: at(90),
            max: at(100),
        });
        let mut others: BTreeMap<Hold, Other> = BTreeMap::new();
        for history in incomplete {
            let (hold, names) = hold(history);
            let other = others.entry(hold.clone()).or_insert_with(|| Other {
                runs: 0,
                hold,
                applications: BTreeMap::new(),
                example: course::outcome(&history.outcome),
            });
            other.runs += 1;
            for name in names {
                *other.applications.entry(name).or_default() += 1;
            }
        }
        let mut others: Vec<Other> = others.into_values().collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.runs));
        Self { runs: histories.len(), complete: times.len(), seconds, others }
    }

    /// Whether each of them was complete.
    pub fn is_complete(&self) -> bool {
        self.complete == self.runs
    }

    /// The text.
    pub fn table(&self) -> String {
        let share = self.complete * 100 / self.runs.max(1);
        let mut text =
            format!("{} of {} simulations complete ({share} %)\n", self.complete, self.runs);
        if let Some(Seconds { min, median, p90, max }) = &self.seconds {
            let [min, median, p90, max] = [min, median, p90, max].map(|time| path::text(*time));
            let _ = writeln!(
                text,
                "They take {min} to {max}: half of them at most {median}, 90 % at most {p90}"
            );
        }
        if self.others.is_empty() {
            return text;
        }
        let _ = writeln!(text, "\nWhat holds the other {}:", self.runs - self.complete);
        for other in self.others.iter().take(LINES) {
            let mut names: Vec<(&String, &usize)> = other.applications.iter().collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let names = names.into_iter().map(|(name, count)| format!("{name} ({count})"));
            let names = some_of(names, NAMES);
            let colon = if names.is_empty() { "" } else { ": " };
            let line = format!("{:>6}  {}{colon}{names}", other.runs, other.hold.text());
            text.push_str(&output::line(&line));
        }
        if let Some(more) = self.others.len().checked_sub(LINES).filter(|more| *more > 0) {
            let _ = writeln!(text, "        and {more} other reasons");
        }
        if let Some(first) = self.others.first() {
            text.push_str(&output::line(&format!("For example: {}", first.example)));
        }
        text
    }
}

impl Hold {
    fn text(&self) -> String {
        match (self.set.as_str(), self.step) {
            ("", _) => self.reason.clone(),
            (set, None) => format!("{set}: {}", self.reason),
            (set, Some(step)) => format!("{set} step {step}: {}", self.reason),
        }
    }
}

/// What held a simulation, and which Applications it was.
fn hold(history: &History) -> (Hold, Vec<String>) {
    let last = history.runs.iter().filter_map(|(set, runs)| Some((set, &runs.last()?.1)));
    let mut incomplete = last.filter(|(_, run)| run.phase != RunPhase::Complete);
    let Some((place, run)) = incomplete.next() else {
        let reason = course::outcome(&history.outcome);
        return (Hold { set: String::new(), step: None, reason }, Vec::new());
    };
    let set = place.split_once('/').map_or(place.as_str(), |(_, name)| name).to_owned();
    if run.phase.has_ended() {
        return (Hold { set, step: None, reason: run.phase.to_string() }, Vec::new());
    }
    // Those behind a limit wait for the others.
    let blocks = |wait: &&RunWait| {
        let kind = WaitKind::from_name(&wait.kind);
        kind.is_some_and(|kind| !matches!(kind.ended_by(), EndedBy::Turn))
    };
    let blocking: Vec<&RunWait> = run.waiting_for.iter().filter(blocks).collect();
    let mut kinds: Vec<&str> = blocking.iter().map(|wait| wait.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let reason = match kinds.as_slice() {
        [] => run.phase.to_string(),
        kinds => kinds.join(" and "),
    };
    let names = blocking.iter().map(|wait| wait.application.clone());
    (Hold { set, step: run.step, reason }, names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use wavegate_api::run::RolloutRunStatus;

    fn history(seconds: i64, held: Option<(&str, i64)>) -> History {
        let start = Timestamp::from_second(1_767_607_200).unwrap();
        let wait = |kind: &str, name: &str| RunWait {
            application: name.to_owned(),
            kind: kind.to_owned(),
            ..RunWait::default()
        };
        let run = held.map(|(name, step)| RolloutRunStatus {
            phase: RunPhase::Progressing,
            step: Some(step),
            waiting_for: vec![wait("Degraded", name), wait("MaxUpdate", "z")],
            ..RolloutRunStatus::default()
        });
        History {
            start,
            end: start + jiff::SignedDuration::from_secs(seconds),
            outcome: match held {
                None => SpanEnd::Complete,
                Some((name, _)) => SpanEnd::Stuck { message: format!("{name} is Degraded") },
            },
            applications: BTreeMap::new(),
            waits: BTreeMap::new(),
            runs: run
                .map(|run| ("argocd/shop".to_owned(), vec![("shop-1".to_owned(), run)]))
                .into_iter()
                .collect(),
            happened: Vec::new(),
            writes: 0,
            log: String::new(),
        }
    }

    #[test]
    fn what_holds_simulations_is_counted_by_step_and_reason() {
        let mut all: Vec<History> = (1..=10).map(|minute| history(minute * 60, None)).collect();
        all.extend([
            history(9, Some(("a", 1))),
            history(9, Some(("b", 2))),
            history(9, Some(("a", 1))),
        ]);
        all.extend([history(9, Some(("c", 1)))]);
        let want = "\
10 of 14 simulations complete (71 %)
They take 1m to 10m: half of them at most 5m, 90 % at most 9m

What holds the other 4:
     3  shop step 1: Degraded: a (2), c (1)
     1  shop step 2: Degraded: b (1)
For example: does not end: a is Degraded
";
        assert_eq!(Distribution::of(&all).table(), want);
        let two = Distribution::of(&all[..2]).table();
        assert!(two.contains("half of them at most 1m, 90 % at most 2m"), "{two}");
        assert_eq!(
            Distribution::of(&all[..1]).table(),
            "1 of 1 simulations complete (100 %)\nThey take 1m to 1m: half of them at most 1m, 90 % at most 1m\n"
        );
    }
}
