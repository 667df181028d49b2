//! What could not be done: a failure that does not happen proves nothing.

use super::path::text;
use crate::cli::console::error::{Error, fault};
use wavegate_simulation::History;

/// The most errors that are printed.
const ERRORS: usize = 20;

/// Whether all that shall happen was done.
///
/// # Errors
///
/// What was done in none of the simulations. In one of several, chance may have left nothing to do
/// for it.
pub(super) fn check(histories: &[History]) -> Result<(), Error> {
    let Some(first) = histories.first() else { return Ok(()) };
    // They are in the order of the events, which is the same in all simulations.
    let is_refused = |history: &History, number: usize| {
        history.happened.get(number).is_some_and(|happened| happened.refused.is_some())
    };
    let mut errors: Vec<Error> = first
        .happened
        .iter()
        .enumerate()
        .filter(|(number, _)| histories.iter().all(|history| is_refused(history, *number)))
        .map(|(_, happened)| {
            let at = happened.at.duration_since(first.start).as_secs();
            let why = happened.refused.as_deref().unwrap_or_default();
            Error::input("not done", format!("at {}: {}", text(at), happened.what), why)
        })
        .collect();
    errors.truncate(ERRORS);
    let last = errors.pop();
    errors.iter().for_each(fault);
    last.map_or(Ok(()), Err)
}
