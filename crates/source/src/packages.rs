//! What reading charts and artifacts has in common: concurrent callers share one request, and a
//! failure is returned again for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use crate::answer::{Answer, Failures, Freshness};
use crate::cache::Cache;
use crate::error::SourceError;
use crate::git::address::Address;
use crate::git::checkout::{Checkout, CheckoutCache, CheckoutKey};
use crate::hosts::{Availability, Hosts};
use crate::limits::SourceSettings;

/// Most packages whose answers are kept.
const MAX_KNOWN: usize = 1_024;

/// Most versions of one package whose last fetch is remembered.
const MAX_FETCHED: usize = 256;

/// What reading packages shares with reading commits.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub settings: &'a SourceSettings,
    pub hosts: &'a Hosts,
    pub kept: &'a CheckoutCache,
    pub cache: &'a Arc<Cache>,
}

/// The packages of one kind that this process reads. `T` is an answer about their versions.
///
/// What is requested is on the heap: it would make the future of each reconcile larger.
#[derive(Debug)]
pub(super) struct Packages<T>(Mutex<HashMap<String, Arc<Known<T>>>>);

/// One package, as seen with certain credentials.
#[derive(Debug)]
struct Known<T> {
    /// By what was asked.
    answers: AsyncMutex<HashMap<String, Answer<T>>>,
    files: AsyncMutex<Files>,
    availability: Mutex<Availability>,
}

/// What is known about fetching files.
#[derive(Debug, Default)]
struct Files {
    failures: Failures,
    /// When the kept files of a version were asked for.
    fetched: HashMap<String, Instant>,
}

/// Who asks for which package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// When the caller arrived.
    pub arrived: Instant,
    /// Identifies the package and the credentials.
    pub id: &'a str,
    /// The server that it is on.
    pub server: &'a Address,
    /// Whether files are fetched again that are kept since before the caller arrived.
    pub again: bool,
}

/// How a result counts for the availability of a server.
type Record = fn(&Hosts, &Address, &Mutex<Availability>, &Result<Checkout, SourceError>);

impl<T> Default for Packages<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        let (answers, files, availability) = Default::default();
        Self { answers, files, availability }
    }
}

impl<T: Clone> Packages<T> {
    /// The answer to `what`: a kept one that is fresh enough, or that of `ask`.
    pub(super) async fn answer(
        &self,
        surroundings: &Surroundings<'_>,
        request: Request<'_>,
        (what, freshness): (&str, Freshness),
        ask: BoxFuture<'_, Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let limits = &surroundings.settings.limits;
        let known = self.known(request.id);
        let mut answers = known.answers.lock().await;
        let kept = answers.get(what);
        if let Some(answer) =
            kept.filter(|a| a.serves(request.arrived, freshness, limits.failure_kept))
        {
            return answer.outcome.clone();
        }
        let _turn = surroundings.hosts.acquire(request.server, &known.availability).await?;
        let began = Instant::now();
        let outcome = ask.await;
        surroundings.hosts.record_listing(request.server, &known.availability, &outcome);
        answers.retain(|_, answer| answer.ended.elapsed() < limits.backoff.max(freshness.0));
        let answer = Answer { began, ended: Instant::now(), outcome: outcome.clone() };
        answers.insert(what.to_owned(), answer);
        outcome
    }

    /// The files of a version: those that are kept, or what `pull` fetches. Callers who arrive
    /// before a fetch begins share it.
    pub(super) async fn checkout(
        &self,
        surroundings: &Surroundings<'_>,
        request: Request<'_>,
        version: &str,
        pull: BoxFuture<'_, Result<Checkout, SourceError>>,
        record: Record,
    ) -> Result<Arc<Checkout>, SourceError> {
        let key: CheckoutKey = (request.id.to_owned(), version.to_owned());
        if !request.again
            && let Some(found) = surroundings.kept.get(&key)
        {
            return Ok(found);
        }
        let known = self.known(request.id);
        let mut files = known.files.lock().await;
        let Files { failures, fetched } = &mut *files;
        let is_new = fetched.get(version).is_some_and(|began| *began >= request.arrived);
        if (!request.again || is_new)
            && let Some(found) = surroundings.kept.get(&key)
        {
            return Ok(found);
        }
        let limits = &surroundings.settings.limits;
        let (arrived, again) = (request.arrived, request.again);
        if let Some(error) = failures.known(version, arrived, limits.failure_kept, again) {
            return Err(error);
        }
        let _turn = surroundings.hosts.acquire(request.server, &known.availability).await?;
        let began = Instant::now();
        let pulled = pull.await;
        record(surroundings.hosts, request.server, &known.availability, &pulled);
        match pulled {
            Ok(checkout) => {
                let checkout = Arc::new(checkout);
                if fetched.len() >= MAX_FETCHED {
                    fetched.clear();
                }
                fetched.insert(version.to_owned(), began);
                surroundings.kept.insert(key, &checkout);
                Ok(checkout)
            }
            Err(error) => {
                failures.add(version, began, error.clone());
                Err(error)
            }
        }
    }

    fn known(&self, id: &str) -> Arc<Known<T>> {
        let mut known = self.0.lock();
        if known.len() >= MAX_KNOWN && !known.contains_key(id) {
            // Those in use stay.
            known.retain(|_, entry| Arc::strong_count(entry) > 1);
        }
        known.entry(id.to_owned()).or_default().clone()
    }
}
