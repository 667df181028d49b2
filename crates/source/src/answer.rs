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

/// Recent failures of a repository, by what was requested.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(String, Answer<()>)>);

impl Failures {
    /// The failure of a request that a caller who arrived at `arrived` shares; those that are too
    /// old are dropped.
    pub fn known(&mut self, what: &str, arrived: Instant, kept: Duration) -> Option<SourceError> {
        let forever = Freshness(Duration::MAX);
        self.0.retain(|(_, failure)| failure.serves(arrived, forever, kept));
        let (_, failure) = self.0.iter().find(|(known, _)| known == what)?;
        failure.outcome.clone().err()
    }

    /// Keeps a failure.
    pub fn add(&mut self, what: &str, began: Instant, error: SourceError) {
        self.0.truncate(MAX_FAILURES - 1);
        let answer = Answer { began, ended: Instant::now(), outcome: Err(error) };
        self.0.push((what.to_owned(), answer));
    }
}
