//! What could not be done: a failure that does not happen proves nothing.

use std::collections::BTreeSet;

use super::path::text;
use crate::cli::error::{Error, fault};
use crate::simulation::{History, PerformedAction};

/// The most errors that are printed.
const ERRORS: usize = 20;

/// Whether all that shall happen was done.
///
/// # Errors
///
/// What was done in none of the simulations. In one of several, chance may have left nothing to do
/// for it.
pub(super) fn check(histories: &[History]) -> Result<(), Error> {
    let Some((first, others)) = histories.split_first() else { return Ok(()) };
    let refused = |happened: &PerformedAction| happened.refused.is_some();
    let mut all: BTreeSet<usize> = numbered(first, refused);
    for history in others {
        let more = numbered(history, refused);
        all.retain(|number| more.contains(number));
    }
    let mut errors: Vec<Error> = all
        .into_iter()
        .filter_map(|number| first.happened.get(number))
        .map(|happened| {
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

/// The numbers of those in the order of the events, which is the same in all simulations.
fn numbered(history: &History, is_meant: impl Fn(&PerformedAction) -> bool) -> BTreeSet<usize> {
    let all = history.happened.iter().enumerate();
    all.filter(|(_, happened)| is_meant(happened)).map(|(number, _)| number).collect()
}
