//! How long Applications of a cluster took before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::api::Raw;
use crate::api::steering::RunPhase;
use crate::decide::rollout::budget::Limit;
use crate::decide::rollout::steps::Strategy;
use crate::decide::steering::{Run, number_of};

/// How long an Application took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Its sync, by its history.
    pub sync: Duration,
    /// Its health, by the steps of the last run that was complete.
    pub health: Duration,
}

/// The times of the Applications of a set of which both are known.
pub(super) fn behaviors(
    set: &Value,
    steps: &BTreeMap<String, Option<usize>>,
    live: &BTreeMap<String, Arc<Value>>,
    runs: &[Arc<Value>],
) -> BTreeMap<String, Times> {
    let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
    let owned = runs.iter().filter(|run| run["spec"]["applicationSet"] == *set.name());
    let complete = owned.filter(|run| Run::read(run).status.phase == RunPhase::Complete);
    let Some(last) = complete.max_by_key(|run| number_of(run.name())) else {
        return BTreeMap::new();
    };
    let status = Run::read(last).status;
    // What a step took for each of its batches.
    let of_step = |step: usize| {
        let (run, config) = (status.steps.get(step)?, strategy.steps().get(step)?);
        let total = u64::try_from(run.total).ok().filter(|total| *total > 0)?;
        let batches = match config.max_update.limit(total) {
            Limit::Unlimited => 1,
            Limit::AtMost(limit) => total.div_ceil(limit.max(1)),
        };
        let took = run.completed_at.as_ref()?.0.duration_since(run.opened_at.as_ref()?.0);
        let took = Duration::try_from(took).ok()?;
        Some(took / u32::try_from(batches).unwrap_or(u32::MAX))
    };
    let of = |(name, step): (&String, &Option<usize>)| {
        let took = of_step((*step)?)?;
        let sync = sync(live.get(name)?).unwrap_or_default().min(took);
        Some((name.clone(), Times { sync, health: took - sync }))
    };
    steps.iter().filter_map(of).collect()
}

/// The last sync, as far as the history tells.
fn sync(application: &Value) -> Option<Duration> {
    let last = application.items("/status/history").last()?;
    let time = |field: &str| last[field].as_str()?.parse::<Timestamp>().ok();
    Duration::try_from(time("deployedAt")?.duration_since(time("deployStartedAt")?)).ok()
}
