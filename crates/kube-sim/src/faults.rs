//! Faults on demand, for requests that match.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::effect::Effect;
use super::request_record::RequestRecord;

/// Decides whether a fault is for a request; `code` is not known yet.
pub type Matcher = Box<dyn FnMut(&RequestRecord) -> bool + Send>;

/// A fault to inject with [`Server::inject`](super::Server::inject).
pub struct InjectedFault {
    matcher: Matcher,
    effect: Effect,
    /// How often it still happens: by default once, or without a limit when it has an end.
    times: Option<usize>,
    until: Option<Instant>,
}

impl InjectedFault {
    /// A fault for requests that match, once.
    pub fn new(
        effect: Effect,
        matcher: impl FnMut(&RequestRecord) -> bool + Send + 'static,
    ) -> Self {
        Self { matcher: Box::new(matcher), effect, times: None, until: None }
    }

    /// The same fault, this many times.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// The same fault for all requests until this time, or so many as [`Self::times`] says.
    #[must_use]
    pub fn until(self, time: Instant) -> Self {
        Self { until: Some(time), ..self }
    }

    /// As [`Self::until`], for this time from now.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        let until = Instant::now().checked_add(time);
        let times = if until.is_none() { self.times.or(Some(usize::MAX)) } else { self.times };
        Self { times, until, ..self }
    }

    /// What it does to a request, if it is for it.
    pub(super) fn strike(&mut self, request: &RequestRecord, now: Instant) -> Option<Effect> {
        if self.is_over(now) || !(self.matcher)(request) {
            return None;
        }
        self.times = Some(self.left().saturating_sub(1));
        Some(self.effect.clone())
    }

    /// Whether it never happens again.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.left() == 0 || self.until.is_some_and(|end| now >= end)
    }

    fn left(&self) -> usize {
        self.times.unwrap_or(if self.until.is_some() { usize::MAX } else { 1 })
    }
}

impl fmt::Debug for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("effect", &self.effect)
            .field("times", &self.times)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
