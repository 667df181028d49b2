//! Whose turn it is to ask a server, so that one that does not answer keeps
//! nobody from one that does.
//!
//! - Each host has a few places, whatever the number of its repositories.
//! - Hosts and repositories that have not answered yet, or no longer do, share
//!   places of their own: they wait for each other and for nobody else.
//! - Who did not answer is left alone for a while that doubles each time; until
//!   then everybody who asks gets the last error at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address::{Address, Place};
use super::error::Error;
use super::limits::Limits;

/// The first pause after a failure; it doubles up to `Limits::backoff`.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// Failures in a row until a whole host is left alone: one repository that
/// hangs does not speak for the others.
const HOST_FAILURES: u32 = 3;

/// Hosts that are remembered; beyond that, those at rest are forgotten.
const MAX_HOSTS: usize = 4096;

/// How a server or a repository has answered lately.
#[derive(Debug, Default)]
pub(super) struct Standing {
    failures: u32,
    until: Option<Instant>,
    /// The failure that was met last; none once it has answered.
    last: Option<Error>,
    answered: bool,
}

impl Standing {
    /// What to tell instead of asking, while it is left alone.
    fn silent(&self, now: Instant) -> Option<&Error> {
        self.until.filter(|until| now < *until).and(self.last.as_ref())
    }

    fn answered(&mut self) {
        *self = Self { answered: true, ..Self::default() };
    }

    fn failed(&mut self, error: Error, now: Instant, from: u32, longest: Duration) {
        self.answered = false;
        self.failures = self.failures.saturating_add(1);
        self.last = Some(error);
        let Some(times) = (self.failures + 1).checked_sub(from).filter(|times| *times > 0) else {
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << (times - 1).min(10)).min(longest);
        // Between 80 and 120 percent, so that a fleet does not ask in step.
        let chance = getrandom::u32().unwrap_or(u32::MAX / 2);
        self.until = Some(now + pause.mul_f64(0.8 + 0.4 * f64::from(chance) / f64::from(u32::MAX)));
    }
}

#[derive(Debug)]
struct Host {
    places: Arc<Semaphore>,
    standing: Mutex<Standing>,
}

/// All hosts, and the places that they share.
#[derive(Debug)]
pub(super) struct Hosts {
    known: Mutex<HashMap<String, Arc<Host>>>,
    /// Of those that answer.
    answering: Arc<Semaphore>,
    /// Of those that have not answered yet, or no longer do.
    doubtful: Arc<Semaphore>,
    per_host: usize,
    backoff: Duration,
}

/// The right to run one `git` program, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _places: [Option<OwnedSemaphorePermit>; 2],
}

impl Hosts {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            known: Mutex::default(),
            answering: Arc::new(Semaphore::new(limits.parallel.max(1))),
            doubtful: Arc::new(Semaphore::new(limits.doubtful.max(1))),
            per_host: limits.per_host.max(1),
            backoff: limits.backoff,
        }
    }

    /// Waits for the turn of a repository that stands like this.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] at once, or after waiting, when the host or the
    /// repository has not answered others and is left alone.
    pub(super) async fn turn(
        &self,
        address: &Address,
        repository: &Mutex<Standing>,
    ) -> Result<Turn, Error> {
        let Some(name) = host_of(address) else {
            // A directory of this machine answers.
            let place = self.answering.clone().acquire_owned().await.ok();
            return Ok(Turn { _places: [None, place] });
        };
        let host = self.host(&name);
        self.asked(address, &name, &host, repository)?;
        let own = host.places.clone().acquire_owned().await.ok();
        self.asked(address, &name, &host, repository)?;
        let answers = host.standing.lock().answered && repository.lock().failures == 0;
        let shared = if answers { &self.answering } else { &self.doubtful };
        let shared = shared.clone().acquire_owned().await.ok();
        // Somebody may have asked in vain meanwhile.
        self.asked(address, &name, &host, repository)?;
        Ok(Turn { _places: [own, shared] })
    }

    /// The error to give instead of asking.
    fn asked(
        &self,
        address: &Address,
        name: &str,
        host: &Host,
        repository: &Mutex<Standing>,
    ) -> Result<(), Error> {
        let now = Instant::now();
        // What was told of it before, in the same words, so that it is told once.
        let repository = repository.lock();
        if let Some(said) = repository.silent(now) {
            return Err(said.clone());
        }
        if host.standing.lock().silent(now).is_none() {
            return Ok(());
        }
        // The words of the host's last failure may be about another repository.
        Err(repository.last.clone().unwrap_or_else(|| Error::Unreachable {
            repo: address.shown.clone(),
            detail: format!(
                "the server {name} does not answer, and is asked less often until it does"
            ),
        }))
    }

    /// Takes over how a call went that only asks what there is.
    pub(super) fn listed<T>(
        &self,
        address: &Address,
        repository: &Mutex<Standing>,
        outcome: &Result<T, Error>,
    ) {
        self.ended(address, repository, outcome, true);
    }

    /// Takes over how a fetch went. One that takes too long says nothing about
    /// the server: the repository may be large.
    pub(super) fn fetched<T>(
        &self,
        address: &Address,
        repository: &Mutex<Standing>,
        outcome: &Result<T, Error>,
    ) {
        let speaks = !matches!(outcome, Err(Error::TimedOut { .. }));
        self.ended(address, repository, outcome, speaks);
    }

    fn ended<T>(
        &self,
        address: &Address,
        repository: &Mutex<Standing>,
        outcome: &Result<T, Error>,
        speaks_for_host: bool,
    ) {
        let Some(name) = host_of(address) else { return };
        let host = self.host(&name);
        let error = match outcome {
            Err(error @ (Error::Unreachable { .. } | Error::TimedOut { .. })) => error,
            // Whatever it said, it answered.
            Ok(_) | Err(_) => {
                repository.lock().answered();
                host.standing.lock().answered();
                return;
            }
        };
        let now = Instant::now();
        repository.lock().failed(error.clone(), now, 1, self.backoff);
        if speaks_for_host {
            host.standing.lock().failed(error.clone(), now, HOST_FAILURES, self.backoff);
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut known = self.known.lock();
        if known.len() >= MAX_HOSTS && !known.contains_key(name) {
            known.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let new = || {
            let places = Arc::new(Semaphore::new(self.per_host));
            Arc::new(Host { places, standing: Mutex::default() })
        };
        known.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

/// The server of a repository with its port; `None` for this machine.
fn host_of(address: &Address) -> Option<String> {
    match &address.place {
        Place::Local(_) => None,
        Place::Http { host, .. } => Some(host.to_ascii_lowercase()),
        Place::Ssh => {
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
    fn pauses_double_up_to_the_longest() {
        let mut standing = Standing::default();
        let error = || Error::Unreachable { repo: "r".into(), detail: "no answer".into() };
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            standing.failed(error(), now, 1, Duration::from_secs(60));
            pauses.push(standing.until.unwrap().duration_since(now).as_secs_f64());
        }
        for (pause, want) in pauses.iter().zip([5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]) {
            assert!((want * 0.79..=want * 1.21).contains(pause), "{pauses:?}");
        }
        assert!(standing.silent(now).is_some());
        standing.answered();
        assert!(standing.silent(now).is_none());
        standing.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        standing.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        assert!(standing.silent(now).is_none(), "a host is left alone from the third on");
        standing.failed(error(), now, HOST_FAILURES, Duration::from_secs(60));
        assert!(standing.silent(now).is_some());
    }
}
