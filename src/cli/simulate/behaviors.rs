//! How the Applications of a simulation behave.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::Args;
use super::when::Pattern;
use crate::cli::error::Error;
use crate::cli::watch_args::timeout;
use crate::decide::names::some_of;
use crate::simulation::{Behavior, Outcome};

/// The most names in a message.
const NAMES: usize = 5;

/// A line of a table of durations.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pattern: Pattern,
    health: Duration,
    sync: Duration,
}

/// Reads a table of durations.
pub(super) fn table(file: &Path) -> Result<Vec<Line>, Error> {
    let place = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::input("cannot read", &place, error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let line = |(number, line): (usize, &str)| {
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
        Ok(Line {
            pattern: pattern.parse().map_err(wrong)?,
            health: timeout(health).map_err(wrong)?,
            sync: match sync {
                Some(sync) => timeout(sync).map_err(wrong)?,
                None => Duration::ZERO,
            },
        })
    };
    lines.map(line).collect()
}

/// The behaviors of all Applications, given with their steps.
///
/// # Errors
///
/// A pattern that is for none of them: a failure that does not happen proves nothing.
pub(super) fn behaviors(
    args: &Args,
    table: &[Line],
    applications: &BTreeMap<String, Option<usize>>,
) -> Result<BTreeMap<String, Behavior>, Error> {
    let options = args.fail.iter().map(|one| ("--fail", one));
    let options = options.chain(args.hang.iter().map(|one| ("--hang", one)));
    let options = options.chain(args.slow.iter().map(|one| ("--slow", &one.pattern)));
    for (option, pattern) in options {
        if !applications.iter().any(|(name, step)| pattern.is_for(name, *step)) {
            return Err(unknown(option, &pattern.text, applications));
        }
    }
    for at in args.degrade.iter().chain(&args.skip) {
        if !applications.contains_key(&at.name) {
            return Err(unknown("--degrade, --skip", &at.name, applications));
        }
    }
    let behavior = |(name, step): (&String, &Option<usize>)| {
        let is_one = |patterns: &[Pattern]| patterns.iter().any(|one| one.is_for(name, *step));
        let line = table.iter().find(|line| line.pattern.is_for(name, *step));
        let slow = args.slow.iter().find(|slow| slow.pattern.is_for(name, *step));
        let outcome = match () {
            () if is_one(&args.fail) => Outcome::Fails,
            () if is_one(&args.hang) => Outcome::Hangs,
            () => Outcome::Succeeds,
        };
        let health = slow.map(|slow| slow.time).or(line.map(|line| line.health));
        let behavior = Behavior {
            sync: args.sync.or(line.map(|line| line.sync)).unwrap_or_default(),
            health: health.unwrap_or(args.health),
            outcome,
        };
        (name.clone(), behavior)
    };
    Ok(applications.iter().map(behavior).collect())
}

fn unknown(
    option: &'static str,
    name: &str,
    applications: &BTreeMap<String, Option<usize>>,
) -> Error {
    let known = some_of(applications.keys(), NAMES);
    let why = format!("it is for none of the Applications: {known}");
    Error::input("invalid option", format!("{option} {name}"), why)
}
