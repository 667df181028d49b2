//! The Applications that cannot be written: why, and which of them get an Event (AS-611).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::application_set::plan::outcome::WriteFailure;
use crate::application_set::status::events::{self, SetEvent};

/// An Application gets at most one Event in this time, unless its failure has a new cause.
const INTERVAL: SignedDuration = SignedDuration::from_mins(10);
/// The most causes in a row that are new within this time.
const CAUSES: u32 = 3;
/// The most Events of one reconcile; one more has the number of the others.
const AT_ONCE: usize = 20;

/// The Applications that could not be written. If it is lost, the same Events are sent once
/// more.
#[derive(Clone, Debug, Default)]
pub struct Failing {
    known: BTreeMap<String, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Why it failed last. Of failures that are the same, the first text, so that a
    /// status does not change with every try.
    last: WriteFailure,
    /// The cause of the last Event.
    cause: WriteFailure,
    /// When an Event was sent last.
    at: Timestamp,
    /// How many were sent since the last pause.
    sent: u32,
    /// Whether it failed in the last reconcile.
    fails: bool,
}

impl Failing {
    /// None.
    pub const NONE: Self = Self { known: BTreeMap::new() };

    /// Why the last write of an Application failed; `None` if it did not.
    pub fn why(&self, application: &str) -> Option<&WriteFailure> {
        let known = self.known.get(application).filter(|known| known.fails)?;
        Some(&known.last)
    }

    /// The Events of these failures: for each Application that fails for a new reason, or
    /// again after a while.
    pub fn report(
        &mut self,
        failing: &BTreeMap<String, WriteFailure>,
        now: Timestamp,
    ) -> Vec<SetEvent> {
        self.known.retain(|name, known| {
            known.fails = failing.contains_key(name);
            known.fails || now.duration_since(known.at) < INTERVAL
        });
        let mut new = Vec::new();
        for (name, cause) in failing {
            if self.is_due(name, cause, now) {
                new.push((name, cause));
            }
        }
        let mut events: Vec<SetEvent> = new
            .iter()
            .take(AT_ONCE)
            .map(|(name, cause)| events::application_error(name, &cause.text))
            .collect();
        if new.len() > AT_ONCE {
            events.push(events::more_application_errors(new.len() - AT_ONCE));
        }
        events
    }

    fn is_due(&mut self, name: &str, cause: &WriteFailure, now: Timestamp) -> bool {
        let Some(known) = self.known.get_mut(name) else {
            let (last, cause) = (cause.clone(), cause.clone());
            self.known
                .insert(name.to_owned(), Known { last, cause, at: now, sent: 1, fails: true });
            return true;
        };
        if !known.last.is_same(cause) {
            known.last = cause.clone();
        }
        let is_same = known.cause.is_same(cause);
        // A failure that lasts is reported once.
        if is_same && (known.fails && known.sent > 0) {
            return false;
        }
        let recently = now.duration_since(known.at) < INTERVAL;
        if recently && (is_same || known.sent >= CAUSES) {
            return false;
        }
        known.sent = if recently { known.sent + 1 } else { 1 };
        (known.cause, known.at, known.fails) = (cause.clone(), now, true);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failures: &[(&str, &str)]) -> BTreeMap<String, WriteFailure> {
        let cause = |text: &str| WriteFailure { code: Some(422), text: text.to_owned() };
        failures.iter().map(|(name, text)| ((*name).to_owned(), cause(text))).collect()
    }

    #[test]
    fn application_errors_are_rate_limited_as_611() {
        let mut failing = Failing::default();
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut report = |seconds: i64, failures: &[(&str, &str)]| {
            let now = start + SignedDuration::from_secs(seconds);
            failing.report(&of(failures), now).len()
        };
        assert_eq!(report(0, &[("a", "x"), ("b", "x")]), 2);
        assert_eq!(report(1, &[("a", "x"), ("b", "x")]), 0, "unchanged");
        assert_eq!(report(5000, &[("a", "x"), ("b", "x")]), 0, "it lasts");
        assert_eq!(report(5001, &[("a", "y")]), 1, "a new cause");
        assert_eq!(report(5002, &[]), 0);
        assert_eq!(report(5003, &[("a", "y")]), 0, "again, within a short time");
        // Alternating causes are no flood.
        let sent: usize =
            (0..50).map(|at| report(5004 + at, &[("a", ["x", "y"][at as usize % 2])])).sum();
        assert_eq!(sent, 2, "three causes within ten minutes");
        assert_eq!(report(7000, &[]), 0);
        assert_eq!(report(7001, &[("a", "y")]), 1, "again after a while");
    }

    #[test]
    fn many_application_errors_of_one_reconcile_are_summarized_as_611() {
        let names: Vec<String> = (0..500).map(|number| format!("app-{number:03}")).collect();
        let failures: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "no")).collect();
        let events = Failing::default().report(&of(&failures), Timestamp::UNIX_EPOCH);
        assert_eq!(events.len(), AT_ONCE + 1);
        let last = events.last().unwrap();
        assert!(last.warning && last.reason == "ApplicationError", "{last:?}");
        assert!(last.text.contains("480 more applications"), "{}", last.text);
    }
}
