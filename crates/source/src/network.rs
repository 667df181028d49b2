//! What a rendering waits for: servers, within the limits that checkouts have, programs, and
//! workers. Others may use the place of the caller meanwhile, and all of them take turns.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use turns::Turns;

use crate::error::SourceError;
use crate::git::address::Address;
use crate::hosts::{Availability, Hosts};
use crate::process::run::{Failure, Output, Run};
use crate::process::slots::ProgramSlots;
use crate::process::tools::Programs;

/// Most programs and plugins at a time whose servers are not known.
const OTHERS: usize = 16;

/// Most sources at a time whose evaluations wait for workers, each on a thread.
const EVALUATIONS: usize = 64;

/// Most groups of servers whose availability is kept.
const MAX_KNOWN: usize = 1_024;

/// Gives the place of a caller to others while it waits.
pub trait Lend: fmt::Debug + Send + Sync {
    /// Waits for `work`; others may go on meanwhile.
    fn lend<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, ()>;
}

/// How rendering waits for what others use, too. Cheap to clone; the default has no limits.
#[derive(Debug, Clone, Default)]
pub struct Network {
    shared: Option<Arc<Shared>>,
    lend: Option<Arc<dyn Lend>>,
}

/// What all renderings share.
#[derive(Debug)]
pub(super) struct Shared {
    hosts: Arc<Hosts>,
    /// By what identifies some servers, with the credentials for them.
    known: Mutex<HashMap<String, Arc<Mutex<Availability>>>>,
    others: Turns,
    programs: ProgramSlots,
    evaluations: Turns,
}

impl Shared {
    pub(super) fn new(hosts: Arc<Hosts>, programs: &Programs) -> Self {
        Self {
            hosts,
            known: Mutex::default(),
            others: Turns::new(OTHERS),
            programs: ProgramSlots::new(programs),
            evaluations: Turns::new(EVALUATIONS),
        }
    }

    fn availability(&self, id: &str) -> Arc<Mutex<Availability>> {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN && !known.contains_key(id) {
            // Those in use stay.
            known.retain(|_, entry| Arc::strong_count(entry) > 1);
        }
        known.entry(id.to_owned()).or_default().clone()
    }

    fn record<T>(
        &self,
        servers: &[Address],
        availability: &Mutex<Availability>,
        result: &Result<T, SourceError>,
    ) {
        match result {
            Err(error @ SourceError::Unreachable { repo, .. }) => {
                match servers.iter().find(|server| server.shown == *repo) {
                    Some(server) => self.hosts.record_listing(server, availability, result),
                    None => self.hosts.record_group(availability, error),
                }
            }
            // Which of the servers did not answer is not known.
            Err(error @ SourceError::TimedOut { .. }) => {
                self.hosts.record_group(availability, error)
            }
            _ => servers
                .iter()
                .for_each(|server| self.hosts.record_listing(server, availability, result)),
        }
    }
}

impl Network {
    /// What `shared` permits, with the place of one caller.
    pub(super) fn new(shared: Arc<Shared>, lend: Arc<dyn Lend>) -> Self {
        Self { shared: Some(shared), lend: Some(lend) }
    }

    /// Fetches from some servers, which `id` identifies, with the credentials for them. While one
    /// of them is paused, the last failure is returned without a request.
    pub(super) async fn fetch<T: Send>(
        &self,
        servers: &[Address],
        id: &str,
        work: impl Future<Output = Result<T, SourceError>> + Send,
    ) -> Result<T, SourceError> {
        self.lent(async {
            let Some(shared) = &self.shared else { return work.await };
            let availability = shared.availability(id);
            for server in servers {
                shared.hosts.check(server, &availability)?;
            }
            // One turn is enough: a call that waited for several could wait for another one.
            let _turn = match servers.first() {
                Some(server) => Some(shared.hosts.acquire(server, &availability).await?),
                None => None,
            };
            let result = work.await;
            shared.record(servers, &availability, &result);
            result
        })
        .await
    }

    /// Does what may use servers that are not known.
    pub(super) async fn other<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        self.lent(async {
            let _turn = match &self.shared {
                Some(shared) => Some(shared.others.take_mine().await),
                None => None,
            };
            work.await
        })
        .await
    }

    /// Runs a program that works, and waits for no server.
    pub(super) async fn program(&self, run: Run<'_>) -> Result<Output, Failure> {
        self.lent(async {
            match &self.shared {
                Some(shared) => shared.programs.run(run).await,
                None => run.wait().await,
            }
        })
        .await
    }

    /// Does what keeps a thread while it waits for workers.
    pub(super) async fn evaluation<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        self.lent(async {
            let _turn = match &self.shared {
                Some(shared) => Some(shared.evaluations.take_mine().await),
                None => None,
            };
            work.await
        })
        .await
    }

    async fn lent<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        let Some(lend) = &self.lend else { return Box::pin(work).await };
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        let work = Box::pin(async {
            let result = work.await;
            drop(done);
            result
        });
        // The place is back before the caller goes on.
        let lent = lend.lend(Box::pin(async { drop(ended.await) }));
        let (result, ()) = tokio::join!(work, lent);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::address::Allow;
    use crate::limits::SourceLimits;

    /// A failure is that of all who need the server, until it may be asked again.
    #[tokio::test]
    async fn a_server_that_does_not_answer_is_asked_once() {
        let shared =
            Shared::new(Arc::new(Hosts::new(&SourceLimits::default())), &Programs::default());
        let network = Network { shared: Some(Arc::new(shared)), lend: None };
        let server = |url: &str| Address::parse(url, Allow::default()).unwrap();
        let [away, well] = ["https://away.example.com/c", "https://well.example.com/c"].map(server);
        let error = SourceError::Unreachable { repo: away.shown.clone(), detail: "no".into() };
        let both = [well.clone(), away.clone()];
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let ask = async |fails: bool| {
            asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if fails { Err(error.clone()) } else { Ok(()) }
        };
        for _ in 0..3 {
            assert_eq!(network.fetch(&both, "both", ask(true)).await, Err(error.clone()));
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
        assert_eq!(network.fetch(&[well], "well", ask(false)).await, Ok(()));
        // One failure is not one of the whole server.
        assert_eq!(network.fetch(&[away], "away", ask(false)).await, Ok(()));
    }
}
