//! An Application that a rollback holds at its last good revisions (ST-061): it is compared with
//! these, too, and a condition reports to its ApplicationSet when it differs.
//!
//! `status.sync` stays the comparison with its target, which is what its spec says.

use serde_json::Value;

use crate::app::App;
use crate::condition::NewCondition;
use crate::deployed::deployed_revisions;
use crate::differences::DiffCache;
use crate::errors::ObserveError;
use crate::observation::Observation;
use wavegate_api::conditions::application as types;
use wavegate_api::run::RunStart;
use wavegate_engine::diff::SyncStatus;
use wavegate_engine::names::some_of;

/// How many resources a message names.
const NAMED: usize = 3;

/// The revisions at which it is held, one for each of its sources; `None` when it is not, or is
/// not back yet. `targets` are the revisions that its sources resolve to: with others, and with
/// sources that differ in more than their revisions, it has another target.
pub fn held_revisions(application: &Value, targets: &[String]) -> Option<Vec<String>> {
    let start = RunStart::of(application)?;
    let is_of_target = start.revisions.is_empty() || start.revisions == targets;
    let is_back = || deployed_revisions(application).as_ref() == Some(&start.good);
    let is_held = start.goes_back && is_of_target && start.good.len() == targets.len();
    (is_held && is_back()).then_some(start.good)
}

/// The condition of an Application that is held; `None` when its resources are as these revisions
/// say.
pub(crate) fn condition(
    app: &App,
    held: Result<&Observation<'_>, &ObserveError>,
    revisions: &[String],
) -> Option<NewCondition> {
    let at = revisions.join(", ");
    let observation = match held {
        Ok(observation) => observation,
        Err(error) => {
            let message = format!("held at {at} after a rollback: {}", error.message());
            return Some(NewCondition::new(types::HELD_BACK_COMPARISON_WARNING, message));
        }
    };
    // The cache has one entry for each object: its differences from the target.
    let comparison = observation.compare(app, &DiffCache::default()).comparison;
    if comparison.sync != SyncStatus::OutOfSync {
        return None;
    }
    let differing = comparison
        .resources
        .iter()
        .filter(|one| !one.is_hook() && one.status().is_some_and(|of| of != SyncStatus::Synced));
    let named = some_of(differing.map(|one| &one.key), NAMED);
    let message = format!("held at {at} after a rollback; OutOfSync with it: {named}");
    Some(NewCondition::new(types::HELD_BACK_OUT_OF_SYNC_WARNING, message))
}
