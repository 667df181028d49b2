//! The persons who are signed in: not more than some, each checked again and again, and forgotten when
//! not seen for a while (PG-003).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::visitor::{PageOptions, Visitor};
use crate::people::{
    PagePeople, PeopleLimits, PersonCredentials, PersonKey, PersonSession, SessionCheck,
    SignInError,
};

/// Persons who are signed in at the same time; others wait.
const SIGNING_IN: usize = 8;
/// The longest time of a sign-in.
const SIGN_IN: Duration = Duration::from_secs(20);
/// The longest time of a check.
const CHECK: Duration = Duration::from_secs(10);
/// Without an answer of the API server, a person stays for this time.
const UNCHECKED: Duration = Duration::from_secs(300);
/// A person who is not seen for this time is forgotten.
const UNUSED: Duration = Duration::from_secs(300);
/// One who was seen in this time makes no room for others.
const SEEN: Duration = Duration::from_secs(10);
/// Credentials that were refused are not asked about again for this time.
const REFUSED: Duration = Duration::from_secs(5);
/// The most of them that are remembered.
const REMEMBERED: usize = 1000;
/// Open streams of one person.
const STREAMS: usize = 20;
/// Views of one person whose parts are kept for the next stream.
const KEPT: usize = 16;

/// All of them.
pub(super) struct People {
    source: Arc<dyn PagePeople>,
    limits: PeopleLimits,
    signed_in: Mutex<BTreeMap<PersonKey, SignedIn>>,
    refused: Mutex<BTreeMap<PersonKey, Instant>>,
    turns: Semaphore,
    stop: CancellationToken,
}

#[derive(Clone)]
struct SignedIn {
    visitor: Arc<Visitor>,
    session: Arc<dyn PersonSession>,
    checked: Instant,
}

/// Why a person is not served.
#[derive(Clone, Debug)]
pub(super) struct Unwelcome {
    pub status: StatusCode,
    pub why: String,
}

impl From<SignInError> for Unwelcome {
    fn from(error: SignInError) -> Self {
        let status = match error.is_refused {
            true => StatusCode::UNAUTHORIZED,
            false => StatusCode::BAD_GATEWAY,
        };
        Self { status, why: error.message }
    }
}

impl People {
    pub fn new(
        source: Arc<dyn PagePeople>,
        limits: PeopleLimits,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            source,
            limits,
            signed_in: Mutex::default(),
            refused: Mutex::default(),
            turns: Semaphore::new(SIGNING_IN),
            stop,
        })
    }

    /// The person with these credentials.
    pub async fn visit(&self, person: &PersonCredentials) -> Result<Arc<Visitor>, Unwelcome> {
        let key = person.key();
        if let Some(visitor) = self.known(&key)? {
            return Ok(visitor);
        }
        let _turn = self.turns.acquire().await;
        // Another request of the same person may have been first.
        if let Some(visitor) = self.known(&key)? {
            return Ok(visitor);
        }
        self.make_room(&mut self.signed_in.lock())?;
        let signed_in = timeout(SIGN_IN, self.source.sign_in(person)).await.unwrap_or_else(|_| {
            let message = format!("the API server has not answered within {} s", SIGN_IN.as_secs());
            Err(SignInError { is_refused: false, message })
        });
        let found = signed_in.inspect_err(|error| {
            if error.is_refused {
                self.remember(key);
            }
        })?;
        tracing::info!(user = found.name, "signed in");
        let visitor = Arc::new(Visitor::new(
            key,
            found.reports,
            PageOptions { allows_actions: true },
            (STREAMS, KEPT),
            self.stop.child_token(),
        ));
        let mut signed_in = self.signed_in.lock();
        if let Some(first) = signed_in.get(&key) {
            found.session.end();
            return Ok(Arc::clone(&first.visitor));
        }
        // Others have come meanwhile.
        self.make_room(&mut signed_in).inspect_err(|_| found.session.end())?;
        let one = SignedIn {
            visitor: Arc::clone(&visitor),
            session: found.session,
            checked: Instant::now(),
        };
        signed_in.insert(key, one);
        Ok(visitor)
    }

    fn known(&self, key: &PersonKey) -> Result<Option<Arc<Visitor>>, Unwelcome> {
        if let Some(found) = self.signed_in.lock().get(key) {
            found.visitor.touch();
            return Ok(Some(Arc::clone(&found.visitor)));
        }
        if self.refused.lock().get(key).is_some_and(|at| at.elapsed() < REFUSED) {
            let why = "the API server does not accept the credentials: sign in again".to_owned();
            return Err(Unwelcome { status: StatusCode::UNAUTHORIZED, why });
        }
        Ok(None)
    }

    fn remember(&self, key: PersonKey) {
        let mut refused = self.refused.lock();
        if refused.len() >= REMEMBERED {
            refused.clear();
        }
        refused.insert(key, Instant::now());
    }

    /// Makes room for one more, by forgetting who was not seen for the longest time.
    fn make_room(&self, signed_in: &mut BTreeMap<PersonKey, SignedIn>) -> Result<(), Unwelcome> {
        if signed_in.len() < self.limits.people {
            return Ok(());
        }
        let unused = signed_in.iter().map(|(key, one)| (one.visitor.unused(), *key)).max();
        match unused.filter(|(unused, _)| *unused > SEEN) {
            Some((_, key)) => {
                signed_in.remove(&key).inspect(SignedIn::end);
                Ok(())
            }
            None => {
                let people = self.limits.people;
                let why = format!(
                    "{people} persons have this page open, which is its limit (--people); close a page, or come back later"
                );
                Err(Unwelcome { status: StatusCode::SERVICE_UNAVAILABLE, why })
            }
        }
    }

    /// Checks all of them again and again, until stopped.
    pub async fn keep(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(self.limits.check_every) => {}
            }
            let all: Vec<SignedIn> = self.signed_in.lock().values().cloned().collect();
            stream::iter(all).for_each_concurrent(SIGNING_IN, |one| self.check(one)).await;
        }
        self.signed_in.lock().values().for_each(SignedIn::end);
    }

    async fn check(&self, one: SignedIn) {
        let key = one.visitor.key;
        let stays = match one.visitor.unused() > UNUSED {
            true => false,
            false => match timeout(CHECK, one.session.check()).await {
                Ok(SessionCheck::Same) => {
                    if let Some(known) = self.signed_in.lock().get_mut(&key) {
                        known.checked = Instant::now();
                    }
                    true
                }
                Ok(SessionCheck::Changed | SessionCheck::Refused) => false,
                Ok(SessionCheck::Unknown) | Err(_) => one.checked.elapsed() < UNCHECKED,
            },
        };
        if !stays {
            let mut signed_in = self.signed_in.lock();
            // It may have been signed in again meanwhile.
            if signed_in.get(&key).is_some_and(|known| Arc::ptr_eq(&known.visitor, &one.visitor)) {
                signed_in.remove(&key);
            }
            one.end();
        }
    }
}

impl SignedIn {
    fn end(&self) {
        self.visitor.ended.cancel();
        self.session.end();
    }
}

#[cfg(test)]
mod tests;
