//! Each Application is synced once for each commit, unless somebody asks for it again (AS-361).

use super::{Judge, Known};
use crate::case::What;
use crate::scenario::ROUNDS;
use crate::track::{Begun, Moment, begun};
use crate::world::Changed;

pub struct ExactlyOnce;

impl Judge for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly once"
    }

    fn change(
        &mut self,
        known: &Known<'_>,
        changed: &Changed,
        moments: &[Moment],
    ) -> Result<(), String> {
        let begun = begun(moments).filter(|begun| !begun.goes_back);
        let name = &*changed.key.name;
        let (Some(begun), Some(tracked)) = (begun, known.track.apps.get(name)) else {
            return Ok(());
        };
        let is_touched = known.case.has(|what| match what {
            What::Drift(app) | What::Remove(app) => app == name,
            What::Rollback => true,
            _ => false,
        });
        if is_touched {
            return Ok(());
        }
        let is_same = |one: &&Begun| one.commit == begun.commit && !one.goes_back;
        let all: Vec<&Begun> = tracked.begun.iter().filter(is_same).collect();
        // A failed one is started again when people ask for it.
        let retries = known.case.events.iter().filter(|event| event.what == What::Retry).count();
        let asked = known.passed() > known.case.faults_end();
        let permitted = 1 + retries + if asked { ROUNDS as usize } else { 0 };
        if all.len() > permitted {
            return Err(format!("{name} is synced {} times for one commit: {all:?}", all.len()));
        }
        Ok(())
    }
}
