//! Arguments that name Applications and times.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;

use crate::cli::watch::args::timeout;
use wavegate_api::glob::Glob;

/// Applications: a pattern of names, perhaps of one step.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Pattern {
    pub text: String,
    glob: Glob,
    /// Counted from 1.
    pub step: Option<usize>,
}

impl Pattern {
    /// The pattern of the name alone.
    pub fn name(&self) -> &str {
        self.text.rsplit_once('@').map_or(&self.text, |(name, _)| name)
    }

    /// Whether it is for Applications of this name, of whatever step.
    pub fn is_named(&self, name: &str) -> bool {
        self.glob.matches(name)
    }

    /// Whether it is for this Application, of the step that is counted from 0.
    pub fn is_for(&self, name: &str, step: Option<usize>) -> bool {
        self.is_named(name) && self.step.is_none_or(|wanted| step == wanted.checked_sub(1))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, step) = match text.rsplit_once('@') {
            None => (text, None),
            Some((name, step)) => {
                let wrong = || format!("{step} is not the number of a step, such as web-*@2");
                let number: usize = step.parse().map_err(|_| wrong())?;
                (name, Some(number).filter(|number| *number > 0).ok_or_else(wrong).map(Some)?)
            }
        };
        if name.is_empty() {
            return Err("it names no Application".to_owned());
        }
        let glob = Glob::new(name).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), glob, step })
    }
}

/// Applications that become Healthy after a time.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Slow {
    pub pattern: Pattern,
    pub time: Duration,
}

impl FromStr for Slow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, time) = text.split_once('=').ok_or("write it as APP=5m")?;
        Ok(Self { pattern: pattern.parse()?, time: timeout(time)? })
    }
}

/// A share in whole numbers: `5` or `5%`.
pub(super) fn percent(text: &str) -> Result<u8, String> {
    let number = text.trim_end_matches('%').parse::<u8>().ok().filter(|share| *share <= 100);
    number.ok_or_else(|| "write it as a whole number from 0 to 100, such as 5%".to_owned())
}

/// The time at which it begins. The time before and after it must have a place in the calendar.
pub(super) fn start(text: &str) -> Result<Timestamp, String> {
    let example = "write it such as 2026-01-05T09:00:00Z";
    let pieces = Pieces::parse(text).ok();
    let is_time = pieces.is_some_and(|one| one.time().is_some() && one.offset().is_some());
    let time = text.parse::<Timestamp>().ok();
    let year = |time: Timestamp| time.to_string().get(..4)?.parse::<u16>().ok();
    match time.filter(|time| matches!(year(*time), Some(1970..=2999))) {
        Some(time) => Ok(time),
        // Some of the last are beyond what a timestamp can be.
        None if is_time => Err(format!("its year must be from 1970 to 2999; {example}")),
        None => Err(format!("it is no time; {example}")),
    }
}
