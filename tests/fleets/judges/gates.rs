//! Nothing behind a gate is started before its approvals are given and it has soaked, and nothing
//! while its set is paused (ST-010 to ST-012, ST-020).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::{App, What};
use crate::track::Moment;
use crate::world::{Changed, Kind};

#[derive(Default)]
pub struct Gates {
    /// Since when each set is paused.
    paused: BTreeMap<String, Timestamp>,
    /// When each Application was Healthy with a commit for the first time.
    done: BTreeMap<(String, u64), Timestamp>,
}

/// Times of controllers and of the API server may differ by this, by rounding.
const ROUNDING: Duration = Duration::from_secs(2);

impl Judge for Gates {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        if let (Kind::Set, Some(set)) = (changed.key.kind, &changed.after) {
            let name = changed.key.name.to_string();
            match set["metadata"]["annotations"]["wavegate.dev/paused"].is_string() {
                true => drop(self.paused.entry(name).or_insert(changed.at)),
                false => drop(self.paused.remove(&name)),
            }
        }
        for moment in moments {
            match moment {
                Moment::Done(commit) => {
                    let key = (changed.key.name.to_string(), *commit);
                    self.done.entry(key).or_insert(changed.at);
                }
                Moment::Begins(begun) if begun.is_by_rollout && !begun.goes_back => {
                    self.begins(known, &changed.key.name, begun.commit, changed)?;
                }
                Moment::Begins(_) | Moment::Gone => {}
            }
        }
        Ok(())
    }
}

impl Gates {
    fn begins(&self, known: &Known<'_>, name: &str, commit: u64, changed: &Changed) -> Verdict {
        let Some(app) = known.case.app(name) else { return Ok(()) };
        let set = known.case.sets[app.set].name;
        let paused = self.paused.get(set);
        if let Some(since) = paused.filter(|since| !known.is_unaware_of("applicationsets", **since))
        {
            return Err(format!("{name} is started while {set} is paused, since {since}"));
        }
        let Some(gate) = known.case.policy.gate.as_ref().filter(|gate| gate.step == app.step)
        else {
            return Ok(());
        };
        // Before the policy exists, everything was deployed once.
        if known.world.all(Kind::Policy).next().is_none() {
            return Ok(());
        }
        let start = changed.after.as_deref().and_then(app::start).unwrap_or_default();
        let run = start["run"].as_str().unwrap_or_default();
        let run = known.world.named(Kind::Run, run);
        // What a run had started for the same target has passed then, and is healed by one that
        // has ended.
        let earlier = changed.before.as_deref().and_then(app::start).unwrap_or_default();
        let ended = ["Complete", "CompleteWithFailures", "Aborted"];
        let is_healed = !start["target"].is_null()
            && earlier["target"] == start["target"]
            && run.is_some_and(|run| ended.iter().any(|phase| run["status"]["phase"] == *phase));
        if is_healed {
            return Ok(());
        }
        let approvals: BTreeSet<&str> = run
            .and_then(|run| run["spec"]["approvals"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|approval: &Value| approval["by"].as_str())
            .collect();
        if approvals.len() < gate.approvals {
            return Err(format!("{name} is started behind a gate without approvals: {start}"));
        }
        // One that is taken out of the set does not count, nor one that is left out of the run
        // (AS-344, ST-064).
        let counts = |earlier: &&App| {
            !known.case.is_removed(&earlier.name)
                && !known.case.has(|what| *what == What::Skip(earlier.name.clone()))
        };
        let earlier = (0..app.step).flat_map(|step| known.case.step(app.set, step)).filter(counts);
        let newest =
            earlier.filter_map(|earlier| self.done.get(&(earlier.name.clone(), commit))).max();
        let Some(newest) = newest else { return Ok(()) };
        let soaked = Duration::try_from(known.now.duration_since(*newest)).unwrap_or_default();
        if soaked + ROUNDING < gate.soak {
            return Err(format!("{name} is started after a soak of {soaked:?} of {:?}", gate.soak));
        }
        Ok(())
    }
}
