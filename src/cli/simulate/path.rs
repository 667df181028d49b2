//! What a simulated rollout took its time for, and what would shorten it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::causes::{self, Cause, Window};
use super::scale::exact;
use super::timeline::{ApplicationLine, SetLine, Timeline};
use crate::cli::rollout_view::text::count;
use wavegate_rollout::rollout::wait::WaitKind;
use wavegate_simulation::SpanKind;

#[cfg(test)]
mod tests;

/// A part of the way from the start to the end. No two parts of a set are of the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    /// The set.
    pub set: String,
    /// Its run.
    pub run: String,
    /// The step, counted from 1.
    pub step: usize,
    /// What the time was taken for.
    pub what: String,
    /// How long, in seconds.
    pub seconds: i64,
    /// The setting or the act that would shorten it; empty when nothing would, as it is part of a
    /// run that was superseded, or of a step that never ends.
    pub shorten: String,
    /// When its step ended.
    #[serde(skip)]
    until: Timestamp,
}

/// The critical path of each set: in each run, steps follow one another, so each step is on it,
/// divided into what held it and what its batches took.
pub(super) fn parts(timeline: &Timeline) -> Vec<Part> {
    timeline.sets.iter().flat_map(|set| of_set(timeline, set)).collect()
}

fn of_set(timeline: &Timeline, set: &SetLine) -> Vec<Part> {
    let mut parts = Vec::new();
    // Kubernetes stores whole seconds: what begins in the second in which another one ends may
    // seem to begin before that.
    let mut before = timeline.start;
    for run in &set.runs {
        for step in &set.steps {
            let Some(number) = step.number else { continue };
            let Some(opening) = step.openings().find(|opening| opening.run == *run) else {
                continue;
            };
            let from = opening.opened.max(before).min(timeline.end);
            let until = opening.until().unwrap_or(timeline.end).min(timeline.end).max(from);
            before = until;
            let window = Window { timeline, set, step, number, opening, from, until };
            parts.extend(window.parts());
        }
    }
    parts
}

/// What would shorten a rollout the most. The set that ends last counts, and what is repeated
/// counts as one.
pub(super) fn shortens(parts: &[Part]) -> Option<&str> {
    let end = parts.iter().map(|part| part.until).max()?;
    let sets: Vec<&str> =
        parts.iter().filter(|part| part.until == end).map(|part| part.set.as_str()).collect();
    let mut sums: Vec<(&str, &str, i64)> = Vec::new();
    let of_sets = parts.iter().filter(|part| sets.contains(&part.set.as_str()));
    for part in of_sets.filter(|part| !part.shorten.is_empty()) {
        let key = (part.set.as_str(), part.shorten.as_str());
        match sums.iter_mut().find(|(set, shorten, _)| (*set, *shorten) == key) {
            Some((_, _, seconds)) => *seconds += part.seconds,
            None => sums.push((key.0, key.1, part.seconds)),
        }
    }
    // The first of equal ones.
    let longest = sums.into_iter().rev().max_by_key(|(_, _, seconds)| *seconds);
    longest.map(|(_, shorten, _)| shorten)
}

impl Window<'_> {
    fn parts(&self) -> Vec<Part> {
        let mut sums: Vec<(Vec<Cause>, i64)> = Vec::new();
        let mut limits: BTreeMap<WaitKind, i64> = BTreeMap::new();
        for interval in causes::intervals(self) {
            let (from, until) = (self.second(interval.from), self.second(interval.until));
            let took = until - from;
            if interval.causes.is_empty() {
                for limit in interval.limits {
                    *limits.entry(limit).or_default() += took;
                }
            }
            match sums.iter_mut().find(|(causes, _)| *causes == interval.causes) {
                Some((_, seconds)) => *seconds += took,
                None => sums.push((interval.causes, took)),
            }
        }
        let limit = limits.into_iter().filter(|(_, seconds)| *seconds > 0);
        let limit = limit.max_by_key(|(_, seconds)| *seconds).map(|(kind, _)| kind);
        let is_last = self.set.runs.last() == Some(&self.opening.run);
        let ends = self.opening.completed.is_some() || self.timeline.is_complete;
        let part = |(causes, seconds): (Vec<Cause>, i64)| {
            let (what, shorten) = match causes.as_slice() {
                [] => self.batches(limit),
                causes => causes::words(causes),
            };
            Part {
                set: self.set.name.clone(),
                run: self.opening.run.clone(),
                step: self.number,
                what,
                seconds,
                shorten: if is_last && ends { shorten } else { String::new() },
                until: self.until,
            }
        };
        sums.into_iter().filter(|(_, seconds)| *seconds > 0).map(part).collect()
    }

    /// The whole second of a time: parts that follow one another add up.
    fn second(&self, time: Timestamp) -> i64 {
        time.duration_since(self.timeline.start).as_secs()
    }

    /// What its batches took, with the limit that others waited for.
    fn batches(&self, limit: Option<WaitKind>) -> (String, String) {
        let (step, number) = (self.step, self.number);
        let slowest = self.slowest();
        let total = step.total;
        let named = slowest.map_or_else(String::new, |(took, name)| match total {
            1 => format!(": {name} with {}", text(took)),
            _ => format!("; the slowest of them is {name} with {}", text(took)),
        });
        let all = count(usize::try_from(total).unwrap_or(usize::MAX), "Application");
        let of_policy = |what: &str, shorten: &str| {
            (format!("{all}, as many at a time as {what} permits{named}"), shorten.to_owned())
        };
        match (limit, step.limit.filter(|limit| *limit < total)) {
            (_, Some(0)) => (
                format!("step {number} is synced by hand"),
                format!("maxUpdate of step {number}, which is 0"),
            ),
            (Some(WaitKind::MaxInFlight), _) => {
                of_policy("maxInFlight of a policy", "maxInFlight of the policy")
            }
            (Some(WaitKind::Pace), _) => {
                of_policy("the pace of a policy", "the ramp or the spread of the policy")
            }
            (_, Some(limit)) => {
                let batches = total.div_ceil(limit);
                let what = format!("{all}, {limit} at a time, {batches} batches{named}");
                (what, format!("maxUpdate of step {number}"))
            }
            (_, None) => {
                let what = match total {
                    1 => format!("{all}{named}"),
                    _ => format!("{all} at once{named}"),
                };
                let shorten =
                    slowest.map_or_else(String::new, |(_, name)| format!("the time of {name}"));
                (what, shorten)
            }
        }
    }

    /// The Application that took the longest, and how long.
    fn slowest(&self) -> Option<(i64, &str)> {
        let all = self.step.applications.iter();
        let all = all.filter_map(|one| Some((self.took(one)?, one.name.as_str())));
        all.max_by_key(|(took, _)| *took)
    }

    /// How long an Application took since its last start in this time.
    fn took(&self, application: &ApplicationLine) -> Option<i64> {
        let (mut began, mut took, mut before) = (None, None, None);
        let spans = application.spans.iter();
        for span in spans.filter(|span| span.from < self.until && span.until > self.from) {
            let starts = match span.what {
                SpanKind::Pending => true,
                SpanKind::Syncing => before != Some(SpanKind::Pending),
                // States that last no time are left out: two in a row are of two syncs.
                SpanKind::BecomingHealthy => {
                    began.is_none() || before == Some(SpanKind::BecomingHealthy)
                }
                _ => false,
            };
            if starts {
                began = Some(self.second(span.from.max(self.from)));
                took = None;
            }
            match span.what {
                SpanKind::Healthy => {
                    took = began.take().map(|began| self.second(span.from) - began).or(took);
                }
                SpanKind::Waiting | SpanKind::Held | SpanKind::GoingBack => began = None,
                _ => {}
            }
            before = Some(span.what);
        }
        // It becomes Healthy at the end, or does not.
        began.map(|began| self.second(self.until) - began).or(took)
    }
}

/// A time in words.
pub(super) fn text(seconds: i64) -> String {
    exact(seconds.saturating_mul(1000))
}
