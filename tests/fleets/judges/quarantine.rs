//! What a run had started when it was aborted is started by no later one, in whatever order
//! Applications are compared and whoever changes the run, before a person retries it (ST-060).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Judge, Known, Verdict};
use crate::app;
use crate::case::What;
use crate::scenario::remedied;
use crate::track::{Moment, begun};
use crate::world::{Changed, Kind};

/// What was decided before an abort arrives within this time; a request of a process that is killed
/// does so late.
const LATE: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct Quarantine {
    /// The commits that each run has started.
    started: BTreeMap<String, BTreeSet<u64>>,
    /// When each run was aborted.
    aborted: BTreeMap<String, Timestamp>,
}

impl Judge for Quarantine {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        let is_aborted = |run: &serde_json::Value| run["status"]["phase"] == "Aborted";
        if changed.key.kind == Kind::Run
            && changed.after.as_deref().is_some_and(is_aborted)
            && !changed.before.as_deref().is_some_and(is_aborted)
        {
            self.aborted.entry(changed.key.name.to_string()).or_insert(changed.at);
        }
        let begun = begun(moments).filter(|begun| begun.is_by_rollout && !begun.goes_back);
        let (Some(begun), Some(object)) = (begun, changed.after.as_deref()) else {
            return Ok(());
        };
        let start = app::start(object).unwrap_or_default();
        let run = start["run"].as_str().unwrap_or_default();
        self.started.entry(run.to_owned()).or_default().insert(begun.commit);
        let retries = known.case.events.iter().filter(|event| event.what == What::Retry);
        let mut retries = retries.map(|event| event.at).chain(remedied(known.case));
        if retries.any(|at| at <= known.passed()) {
            return Ok(());
        }
        let of_aborted = self.aborted.iter().find(|(run, at)| {
            let is_in_time = known.since(**at) > LATE && !known.is_unaware_of("rolloutruns", **at);
            is_in_time && self.started.get(*run).is_some_and(|all| all.contains(&begun.commit))
        });
        match of_aborted {
            None => Ok(()),
            Some((aborted, at)) => Err(format!(
                "{} is started by {run} with commit {}, which {aborted} had started when it was \
                 aborted at {at}",
                changed.key.name, begun.commit
            )),
        }
    }
}
