//! How the Applications of a simulation behave.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::args::{NAMES, SimulateArgs};
use super::events::{Event, Start};
use super::history::Times;
use super::when::Pattern;
use crate::cli::console::error::{Error, note};
use crate::cli::files::input;
use crate::cli::watch::args::timeout;
use wavegate_engine::names::some_of;
use wavegate_simulation::{Behavior, WorkloadOutcome};

/// How long an Application takes to become Healthy, where nothing is known of it.
const HEALTH: Duration = Duration::from_secs(30);

/// A line of a table of durations.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pattern: Pattern,
    health: Duration,
    sync: Duration,
}

/// Reads a table of durations, for these Applications with their steps.
///
/// # Errors
///
/// What cannot be read, and a table for none of them.
pub(super) fn table(
    file: &Path,
    applications: &BTreeMap<String, Option<usize>>,
) -> Result<Vec<Line>, Error> {
    let (place, text) = input::text(file)?;
    let mut unused = Vec::new();
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let mut line = |(number, line): (usize, &str)| {
        let wrong =
            |why: String| Error::input("cannot read", format!("{place}: line {}", number + 1), why);
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pattern, health, sync) = match words.as_slice() {
            [pattern, health] => (pattern, health, None),
            [pattern, health, sync] => (pattern, health, Some(sync)),
            _ => {
                return Err(wrong(
                    "write a pattern, a duration, and perhaps that of the sync, such as: web-* 90s 5s"
                        .to_owned(),
                ));
            }
        };
        let pattern: Pattern = pattern.parse().map_err(wrong)?;
        if !applications.iter().any(|(name, step)| pattern.is_for(name, *step)) {
            unused.push(format!(
                "{place}: line {}: {} is no Application",
                number + 1,
                pattern.text
            ));
        }
        Ok(Line {
            pattern,
            health: timeout(health).map_err(wrong)?,
            sync: match sync {
                Some(sync) => timeout(sync).map_err(wrong)?,
                None => Duration::ZERO,
            },
        })
    };
    let lines = lines.map(&mut line).collect::<Result<Vec<Line>, Error>>()?;
    if unused.len() == lines.len() {
        let names = some_of(applications.keys(), NAMES);
        let why = format!("none of its patterns is for an Application; they are {names}");
        return Err(Error::input("cannot use", place, why));
    }
    // The table may be that of several sets.
    unused.iter().for_each(|unused| note(unused));
    Ok(lines)
}

/// The behaviors of all Applications, given with their steps and with the times that are known of
/// them. What the user says goes before those.
pub(super) fn behaviors(
    args: &SimulateArgs,
    table: &[Line],
    events: &[Event],
    applications: &BTreeMap<String, Option<usize>>,
    known: impl Fn(&str) -> Option<Times>,
) -> BTreeMap<String, Behavior> {
    let at_start: Vec<Start<'_>> = events.iter().filter_map(Event::at_start).collect();
    let behavior = |(name, step): (&String, &Option<usize>)| {
        let has = |wanted: WorkloadOutcome| {
            at_start.iter().any(|event| {
                matches!(event, Start::Outcome(pattern, outcome)
                    if *outcome == wanted && pattern.is_for(name, *step))
            })
        };
        let slow = at_start.iter().find_map(|event| match event {
            Start::Slow(slow) if slow.pattern.is_for(name, *step) => Some(slow.time),
            _ => None,
        });
        let line = table.iter().find(|line| line.pattern.is_for(name, *step));
        let known = known(name);
        let health = slow.or(line.map(|line| line.health)).or(args.health);
        let sync = args.sync.or(line.map(|line| line.sync));
        let behavior = Behavior {
            sync: sync.or(known.map(|known| known.sync)).unwrap_or_default(),
            health: health.or(known.map(|known| known.health)).unwrap_or(HEALTH),
            outcome: match () {
                () if has(WorkloadOutcome::Fails) => WorkloadOutcome::Fails,
                () if has(WorkloadOutcome::Hangs) => WorkloadOutcome::Hangs,
                () => WorkloadOutcome::Succeeds,
            },
        };
        (name.clone(), behavior)
    };
    applications.iter().map(behavior).collect()
}
