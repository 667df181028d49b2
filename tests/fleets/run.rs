//! One case, judged.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::OnceLock;

use jiff::Timestamp;
use parking_lot::Mutex;
use wavegate_simulation::{self as simulation, History, Setup};

use crate::case::Case;
use crate::judges::{Court, Violation};
use crate::mutations::Mutation;
use crate::panics;
use crate::scenario::{manifests, scenario};

/// What came of a case.
#[derive(Debug)]
pub struct Ruling {
    pub violations: Vec<Violation>,
    pub history: Option<History>,
    /// Requests of the controllers.
    pub requests: u64,
    /// The kinds of its faults that were noticed, each with their number.
    pub strikes: BTreeMap<String, u64>,
}

impl Ruling {
    /// The rollouts that began: those of each set and commit.
    pub fn rollouts(&self) -> u64 {
        let runs = self.history.iter().flat_map(|history| history.runs.values());
        runs.map(|runs| runs.len() as u64).sum()
    }

    /// The first violation, of a judge if one is named.
    pub fn first(&self, judge: Option<&str>) -> Option<&Violation> {
        self.violations.iter().find(|one| judge.is_none_or(|judge| one.judge == judge))
    }
}

/// Simulates a case. `watch` gets the record, too.
pub fn run(
    case: &Case,
    mutation: Option<Mutation>,
    mut watch: impl FnMut(&kube_sim::RecordedRequest) + Send + 'static,
) -> Ruling {
    let scenario = scenario(case);
    let court = Arc::new(Mutex::new(Court::new(case, scenario.start)));
    let started: Arc<OnceLock<Timestamp>> = Arc::default();
    let (seen, begun) = (Arc::clone(&court), Arc::clone(&started));
    let setup = Setup {
        record: Some(Box::new(move |entry| {
            watch(&entry);
            seen.lock().see(begun.get().copied(), &entry);
        })),
        client: mutation.map(|mutation| mutation.wrap(case)),
        manifests: Some(manifests(case)),
        is_settled: Some(Box::new({
            let court = Arc::clone(&court);
            move || court.lock().is_settled()
        })),
        started: Some(started),
        ..Setup::default()
    };
    panics::forget();
    let ended =
        std::panic::catch_unwind(AssertUnwindSafe(|| simulation::run_with(&scenario, setup)));
    let mut court = court.lock();
    let history = match ended {
        Ok(Ok(history)) => {
            court.end(&history);
            Some(history)
        }
        Ok(Err(error)) => {
            court.add("end", format!("it cannot be simulated: {error:#}"));
            None
        }
        Err(_) => None,
    };
    for panic in panics::all() {
        court.add("panics", panic);
    }
    let (violations, strikes) = (court.violations.clone(), court.strikes.kinds());
    Ruling { violations, history, requests: court.requests, strikes }
}
