//! A hook runs once in each operation, and once more each time the operation is tried again
//! (SE-…: hooks belong to an attempt).

use std::collections::BTreeMap;

use kube_sim::EventType;

use super::{Judge, Known, Verdict};
use crate::scenario::{COMMIT, names};
use crate::track::Moment;
use crate::world::{Changed, Kind};

#[derive(Default)]
pub struct Hooks {
    created: BTreeMap<(String, u64), usize>,
}

impl Judge for Hooks {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, _: &[Moment]) -> Verdict {
        if changed.key.kind != Kind::Job || changed.event != EventType::Added {
            return Ok(());
        }
        let job = &*changed.key.name;
        let annotation =
            changed.after.as_ref().and_then(|job| job["metadata"]["annotations"][COMMIT].as_str());
        let commit = annotation.and_then(|text| text.parse().ok()).unwrap_or_default();
        let count = self.created.entry((job.to_owned(), commit)).or_default();
        *count += 1;
        let owner = known.case.apps.iter().find(|app| {
            [names::before(&app.name), names::after(&app.name)].iter().any(|name| name == job)
        });
        let Some(tracked) = owner.and_then(|app| known.track.apps.get(&app.name)) else {
            return Err(format!("hook {job} runs without an Application"));
        };
        let operations = tracked.begun.iter().filter(|begun| begun.commit == commit).count();
        let retried = tracked.retries(commit) as usize;
        if *count > operations + retried {
            return Err(format!(
                "hook {job} ran {count} times for commit {commit} in {operations} operations, tried again {retried} times"
            ));
        }
        Ok(())
    }
}
