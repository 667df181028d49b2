//! Limits parallel requests per server, so that unavailable servers do not block available ones,
//! nor a slow one the others.
//!
//! - Each host has a fixed number of slots, whatever the number of its repositories.
//! - Hosts and repositories that have not answered yet, or no longer answer, share
//!   separate slots. A request that takes long mostly waits, too, and goes on in one of these.
//! - Projects take turns, and the Applications of each.
//! - After failures, requests pause for a time that doubles each time; during the pause,
//!   the last error is returned at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use turns::{Turn, Turns, WorkLength, current_caller};

use crate::error::SourceError;
use crate::git::address::{Address, Transport};
use crate::limits::SourceLimits;

/// The first pause after a failure; it doubles up to `SourceLimits::backoff`.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// Failures in a row before a whole host is paused: one failing repository does not mean
/// that the host is unavailable.
const HOST_FAILURES: u32 = 3;

/// How long a request holds a slot of those that answer: a server that sends little, for longer
/// and longer, would have those of all others.
const WAITS_AFTER: Duration = Duration::from_millis(500);

/// Most hosts that are kept; beyond that, unused ones are removed.
const MAX_HOSTS: usize = 4096;

/// Availability of a server or a repository, from its last responses.
#[derive(Debug, Default)]
pub(super) struct Availability {
    failures: u32,
    until: Option<Instant>,
    /// The last failure; `None` once a request succeeded.
    last: Option<SourceError>,
    answered: bool,
}

impl Availability {
    /// The error to return without a request, during a pause.
    fn pause_error(&self, now: Instant) -> Option<&SourceError> {
        self.until.filter(|until| now < *until).and(self.last.as_ref())
    }

    fn answered(&mut self) {
        *self = Self { answered: true, ..Self::default() };
    }

    fn failed(&mut self, error: SourceError, now: Instant, from: u32, longest: Duration) {
        self.answered = false;
        self.failures = self.failures.saturating_add(1);
        self.last = Some(error);
        let Some(times) = (self.failures + 1).checked_sub(from).filter(|times| *times > 0) else {
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << (times - 1).min(10)).min(longest);
        // Between 80 and 120 percent, so that requests of many repositories spread out.
        let chance = getrandom::u32().unwrap_or(u32::MAX / 2);
        self.until = Some(now + pause.mul_f64(0.8 + 0.4 * f64::from(chance) / f64::from(u32::MAX)));
    }
}

#[derive(Debug)]
struct Host {
    turns: Turns,
    availability: Mutex<Availability>,
}

/// All hosts, and the slots that they share.
#[derive(Debug)]
pub(super) struct Hosts {
    known: Mutex<HashMap<String, Arc<Host>>>,
    /// Slots of available hosts.
    available: Turns,
    /// Slots of hosts that have not answered yet, or no longer answer, and of what takes long.
    unconfirmed: Turns,
    per_host: usize,
    backoff: Duration,
}

/// Permission to ask a server, such as by one `git` process, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _of_host: Option<Turn>,
    /// Of those that answer, or after a while of those that wait.
    _shared: Arc<Mutex<Turn>>,
    /// What takes the other slot.
    moves: Option<AbortHandle>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(moves) = &self.moves {
            moves.abort();
        }
    }
}

impl Hosts {
    pub(super) fn new(limits: &SourceLimits) -> Self {
        Self {
            known: Mutex::default(),
            available: Turns::new(limits.parallel),
            unconfirmed: Turns::new(limits.unconfirmed),
            per_host: limits.per_host.max(1),
            backoff: limits.backoff,
        }
    }

    /// Waits for a slot of a repository with this availability.
    ///
    /// # Errors
    ///
    /// [`SourceError::Unreachable`] at once, or after waiting, when the host or the repository
    /// did not answer others and is paused.
    pub(super) async fn acquire(
        &self,
        address: &Address,
        repository: &Mutex<Availability>,
    ) -> Result<Permit, SourceError> {
        let Some(name) = host_of(address) else {
            // A local directory is always available.
            let shared = Arc::new(Mutex::new(self.available.take_mine().await));
            return Ok(Permit { _of_host: None, _shared: shared, moves: None });
        };
        let host = self.host(&name);
        self.check_paused(address, &name, &host, repository)?;
        let of_host = host.turns.take_mine().await;
        self.check_paused(address, &name, &host, repository)?;
        let answers = host.availability.lock().answered && repository.lock().failures == 0;
        let shared = if answers { &self.available } else { &self.unconfirmed };
        let shared = Arc::new(Mutex::new(shared.take_mine().await));
        // Another request may have failed in the meantime.
        self.check_paused(address, &name, &host, repository)?;
        let moves = answers.then(|| self.moved(&shared));
        Ok(Permit { _of_host: Some(of_host), _shared: shared, moves })
    }

    /// Moves a request that takes long to the slots of those that wait.
    fn moved(&self, shared: &Arc<Mutex<Turn>>) -> AbortHandle {
        let (caller, waiting) = (current_caller(), self.unconfirmed.clone());
        let held = Arc::downgrade(shared);
        let moves = tokio::spawn(async move {
            tokio::time::sleep(WAITS_AFTER).await;
            let turn = waiting.take(&caller, WorkLength::Short).await;
            let Some(held) = held.upgrade() else { return };
            let former = std::mem::replace(&mut *held.lock(), turn);
            former.took(true);
        });
        moves.abort_handle()
    }

    /// Whether a request may be sent, without waiting for a slot.
    ///
    /// # Errors
    ///
    /// As of [`Self::acquire`].
    pub(super) fn check(
        &self,
        address: &Address,
        repository: &Mutex<Availability>,
    ) -> Result<(), SourceError> {
        let Some(name) = host_of(address) else { return Ok(()) };
        self.check_paused(address, &name, &self.host(&name), repository)
    }

    /// Records that one of several servers did not answer.
    pub(super) fn record_group(&self, group: &Mutex<Availability>, error: &SourceError) {
        group.lock().failed(error.clone(), Instant::now(), 1, self.backoff);
    }

    /// The error to return instead of sending a request.
    fn check_paused(
        &self,
        address: &Address,
        name: &str,
        host: &Host,
        repository: &Mutex<Availability>,
    ) -> Result<(), SourceError> {
        let now = Instant::now();
        // The previous message unchanged, so that the same text is reported once.
        let repository = repository.lock();
        if let Some(error) = repository.pause_error(now) {
            return Err(error.clone());
        }
        if host.availability.lock().pause_error(now).is_none() {
            return Ok(());
        }
        // The last failure of the host may concern another repository.
        Err(repository.last.clone().unwrap_or_else(|| SourceError::unreachable(&address.shown, format!(
                "the server {name} does not answer; requests to it are paused with increasing delays"
            ))))
    }

    /// Records the result of a call that lists references.
    pub(super) fn record_listing<T>(
        &self,
        address: &Address,
        repository: &Mutex<Availability>,
        result: &Result<T, SourceError>,
    ) {
        self.record(address, repository, result, true);
    }

    /// Records the result of a fetch. A timeout does not mean that the server is
    /// unavailable: the repository may be large.
    pub(super) fn record_fetch<T>(
        &self,
        address: &Address,
        repository: &Mutex<Availability>,
        result: &Result<T, SourceError>,
    ) {
        let counts = !matches!(result, Err(SourceError::TimedOut { .. }));
        self.record(address, repository, result, counts);
    }

    fn record<T>(
        &self,
        address: &Address,
        repository: &Mutex<Availability>,
        result: &Result<T, SourceError>,
        counts_for_host: bool,
    ) {
        let Some(name) = host_of(address) else { return };
        let host = self.host(&name);
        let error = match result {
            Err(error @ (SourceError::Unreachable { .. } | SourceError::TimedOut { .. })) => error,
            // Any other error is a response of the server.
            Ok(_) | Err(_) => {
                repository.lock().answered();
                host.availability.lock().answered();
                return;
            }
        };
        let now = Instant::now();
        repository.lock().failed(error.clone(), now, 1, self.backoff);
        if counts_for_host {
            host.availability.lock().failed(error.clone(), now, HOST_FAILURES, self.backoff);
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut known = self.known.lock();
        if known.len() >= MAX_HOSTS && !known.contains_key(name) {
            known.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let new = || {
            let turns = Turns::new(self.per_host);
            Arc::new(Host { turns, availability: Mutex::default() })
        };
        known.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

/// Host of a repository with its port; `None` for a local directory.
fn host_of(address: &Address) -> Option<String> {
    match &address.transport {
        Transport::Local(_) => None,
        Transport::Http { host, .. } => Some(host.to_ascii_lowercase()),
        Transport::Ssh => {
            let rest = address.url.strip_prefix("ssh://");
            let end: &[char] = if rest.is_some() { &['/'] } else { &[':'] };
            let authority = rest.unwrap_or(&address.url).split(end).next().unwrap_or_default();
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            Some(host.to_ascii_lowercase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut availability = Availability::default();
        let error = || SourceError::Unreachable { repo: "r".into(), detail: "no answer".into() };
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            availability.failed(error(), now, 1, Duration::from_secs(60));
            pauses.push(availability.until.unwrap().duration_since(now).as_secs_f64());
        }
        for (pause, want) in pauses.iter().zip([5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]) {
            assert!((want * 0.79..=want * 1.21).contains(pause), "{pauses:?}");
        }
        assert!(availability.pause_error(now).is_some());
        availability.answered();
        assert!(availability.pause_error(now).is_none());
        availability.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        availability.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        assert!(
            availability.pause_error(now).is_none(),
            "a host is paused after the third failure"
        );
        availability.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        assert!(availability.pause_error(now).is_some());
    }
}
