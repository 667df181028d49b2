//! Results of requests to repositories, which several callers share.

use std::time::{Duration, Instant};

use crate::error::SourceError;

/// Maximum age of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness(pub Duration);

impl Freshness {
    /// Only results of requests that start after this call; concurrent calls still share
    /// one result.
    pub const NOW: Self = Self(Duration::ZERO);
}

/// The least time between two requests for the references of a repository, as a multiple of
/// what the last one took, and its maximum, which nobody notices.
const SPACING: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// A result and its time.
#[derive(Debug, Clone)]
pub(super) struct Answer<T> {
    pub began: Instant,
    pub ended: Instant,
    pub outcome: Result<T, SourceError>,
}

impl<T> Answer<T> {
    /// Whether a caller that arrived at `arrived` may use this result.
    pub(super) fn serves(
        &self,
        arrived: Instant,
        freshness: Freshness,
        failure_kept: Duration,
    ) -> bool {
        match &self.outcome {
            Ok(_) => self.began >= arrived || self.began.elapsed() < freshness.0,
            Err(_) => self.ended >= arrived || self.ended.elapsed() < failure_kept.min(freshness.0),
        }
    }

    /// How long the next request waits, so that callers who arrive one after the other, such
    /// as the Applications of a fleet that is created, share one.
    pub(super) fn pause(&self) -> Duration {
        let pause = (self.ended - self.began).saturating_mul(SPACING).min(LONGEST_PAUSE);
        pause.saturating_sub(self.ended.elapsed())
    }
}

/// The most failures of one repository that are kept.
const MAX_FAILURES: usize = 16;

/// How long it is known that a version is too large. It does not become smaller, and to find that
/// out takes as much as the limits permit.
const TOO_LARGE_KEPT: Duration = Duration::from_secs(600);

/// Recent failures of a repository, by what was requested.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(String, Answer<()>)>);

impl Failures {
    /// The failure of a request that a caller who arrived at `arrived` shares; those that are too
    /// old are dropped. What a version is too large for is known for longer, unless it is asked
    /// for `again`.
    pub fn known(
        &mut self,
        what: &str,
        arrived: Instant,
        kept: Duration,
        again: bool,
    ) -> Option<SourceError> {
        let forever = Freshness(Duration::MAX);
        let serves = |failure: &Answer<()>, again: bool| {
            let too_large = matches!(failure.outcome, Err(SourceError::TooLarge { .. }));
            let kept = if too_large && !again { kept.max(TOO_LARGE_KEPT) } else { kept };
            failure.serves(arrived, forever, kept)
        };
        self.0.retain(|(_, failure)| serves(failure, false));
        let (_, failure) = self.0.iter().find(|(known, _)| known == what)?;
        if !serves(failure, again) {
            return None;
        }
        failure.outcome.clone().err()
    }

    /// Keeps a failure.
    pub fn add(&mut self, what: &str, began: Instant, error: SourceError) {
        self.0.retain(|(known, _)| known != what);
        if self.0.len() >= MAX_FAILURES {
            self.0.remove(0);
        }
        let answer = Answer { began, ended: Instant::now(), outcome: Err(error) };
        self.0.push((what.to_owned(), answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An artifact over a limit was downloaded and unpacked with each comparison.
    #[test]
    fn what_is_too_large_is_known_for_longer_unless_it_is_asked_for_again() {
        let repo = || "oci://registry.invalid/app".to_owned();
        let too_large =
            SourceError::TooLarge { repo: repo(), what: "a".into(), limit: "1 MiB".into() };
        let unreachable = SourceError::Unreachable { repo: repo(), detail: "no route".into() };
        for (error, again, want) in [
            (&too_large, false, true),
            (&too_large, true, false),
            (&unreachable, false, false),
            (&unreachable, true, false),
        ] {
            let mut failures = Failures::default();
            failures.add("sha256:1", Instant::now(), error.clone());
            // Whoever arrives later, when other failures are forgotten.
            let arrived = Instant::now() + Duration::from_secs(1);
            let known = failures.known("sha256:1", arrived, Duration::ZERO, again);
            assert_eq!(known.is_some(), want, "{error} {again}");
            assert!(failures.known("sha256:2", arrived, Duration::ZERO, again).is_none());
        }
    }

    #[test]
    fn the_oldest_failures_make_room() {
        let mut failures = Failures::default();
        let error = SourceError::Unreachable { repo: "repo".into(), detail: "no route".into() };
        let arrived = Instant::now();
        for number in 0..=MAX_FAILURES {
            failures.add(&number.to_string(), arrived, error.clone());
            failures.add(&number.to_string(), arrived, error.clone());
        }
        let mut known = |what: usize| {
            failures.known(&what.to_string(), arrived, Duration::from_secs(60), false).is_some()
        };
        assert!(!known(0) && (1..=MAX_FAILURES).all(known));
    }
}
