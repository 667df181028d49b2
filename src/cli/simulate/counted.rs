//! Which Applications a rollout counts: those that something syncs.

use serde_json::Value;

use super::args::{NAMES, WRONG};
use crate::cli::console::error::{Error, note};
use crate::cli::files::generate;
use wavegate_api::Raw;
use wavegate_api::live::LiveSpec;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::reconcile::NO_STEPS;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::desired::Generation;
use wavegate_rollout::rollout::steps::strategy_problems;

/// The Applications of a set that no step selects: its rollout is complete without them. Says so
/// of them.
///
/// # Errors
///
/// What is wrong with the strategy, as `plan` says; and when nothing syncs any of them, or one of a
/// set without steps.
pub(super) fn uncounted(set: &Value, generation: &Generation) -> Result<Vec<String>, Error> {
    let place = || format!("ApplicationSet {}", set.name());
    let wrong = |why: String| Error::input(WRONG, place(), why);
    let (strategy, _) = generate::strategy_of(set);
    if let Some(problem) = strategy_problems(set).into_iter().next() {
        return Err(Error::check(WRONG, place(), problem.message));
    }
    if strategy.is_empty_rolling_sync() {
        return Err(Error::check(WRONG, place(), NO_STEPS));
    }
    let steps = report_input::generated_steps(set, generation);
    let has_step =
        |application: &&Value| steps.get(application.name()).is_some_and(Option::is_some);
    let without = generation.applications.iter().filter(|application| !has_step(application));
    // With steps, a rollout switches automated syncs off.
    if strategy.steps().is_empty() {
        let unsynced: Vec<&str> =
            without.filter(|one| !LiveSpec::of(one).is_automated()).map(|one| one.name()).collect();
        return match unsynced.as_slice() {
            [] => Ok(Vec::new()),
            [one] => Err(wrong(format!(
                "no step selects {one}, and its syncs are not automated: nothing syncs it"
            ))),
            several => Err(wrong(format!(
                "no step selects {}, and their syncs are not automated: nothing syncs them",
                some_of(several, NAMES)
            ))),
        };
    }
    let without: Vec<String> = without.map(|one| one.name().to_owned()).collect();
    let names = some_of(&without, NAMES);
    if without.len() == generation.applications.len() && !without.is_empty() {
        return Err(wrong(format!("no step selects any of its Applications: {names}")));
    }
    if !without.is_empty() {
        let set = set.name();
        note(&format!("ApplicationSet {set}: not counted, since no step selects it: {names}"));
    }
    Ok(without)
}
