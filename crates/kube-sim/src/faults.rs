//! Faults on demand: what happens to requests that match.

use std::fmt;
use std::time::Duration;

use http::Response;
use tokio::time::Instant;

use super::answer::{ResponseBody, error_response, injected};
use super::effect::{Dropped, Effect};
use super::errors::ApiError;
use super::request_record::RequestRecord;

/// Decides whether a fault is for a request; `code` is not known yet.
pub type Matcher = Box<dyn FnMut(&RequestRecord) -> bool + Send>;

/// A fault to inject with [`Server::inject`](super::Server::inject).
pub struct Fault {
    matcher: Matcher,
    effect: Effect,
    /// How often it still happens: by default once, or without a limit when it has an end.
    times: Option<usize>,
    until: Option<Instant>,
}

impl Fault {
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

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("effect", &self.effect)
            .field("times", &self.times)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// Lets those effects happen that come before a request is carried out, until one
/// refuses it.
///
/// # Errors
///
/// When the connection is to fail.
pub(super) async fn before(
    effects: &[Effect],
    request: &RequestRecord,
) -> Result<Option<ApiError>, Dropped> {
    for effect in effects {
        match effect {
            Effect::Latency(time) => tokio::time::sleep(*time).await,
            Effect::Status(code) => return Ok(Some(injected(*code, None))),
            Effect::StatusRetryAfter(code, time) => return Ok(Some(injected(*code, Some(*time)))),
            Effect::Forbidden => return Ok(Some(ApiError::no_permission(request))),
            Effect::Absent => return Ok(Some(ApiError::absent(request))),
            Effect::Drop => return Err(Dropped),
            Effect::Hang => std::future::pending().await,
            _ => {}
        }
    }
    Ok(None)
}

/// Lets those effects happen that come after a request was carried out.
///
/// # Errors
///
/// When the connection is to fail.
pub(super) async fn after(
    effects: &[Effect],
    mut response: Response<ResponseBody>,
) -> Result<Response<ResponseBody>, Dropped> {
    for effect in effects {
        match effect {
            Effect::LatencyAfterApplying(time) => tokio::time::sleep(*time).await,
            Effect::StatusAfterApplying(code) => response = error_response(&injected(*code, None)),
            Effect::DropAfterApplying => return Err(Dropped),
            Effect::HangAfterApplying => std::future::pending().await,
            _ => {}
        }
    }
    Ok(response)
}
