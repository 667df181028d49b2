//! Leader election with a [`Lease`]: of several replicas, one is active.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use wavegate_api::time::to_rfc3339;
use wavegate_cluster::act::control_plane::lease::{
    DURATION, Holder, Lease, LeaseAttempt, ObservedLease,
};
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::fence::MayWrite;
use wavegate_net::clock::Clock;

/// Name of the Lease, as in Argo CD (AS-501).
pub const LEASE: &str = "58ac56fa.applicationsets.argoproj.io";
/// The leader steps down when it could not renew for this time.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// Pause between attempts.
const RETRY: Duration = Duration::from_secs(2);
/// A replica that waits says so again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// A candidate for the Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    lease: Lease,
    /// When the request was sent that acquired or renewed the Lease last.
    renewed: Arc<Mutex<Option<Instant>>>,
}

/// Who holds the Lease since when, and what follows from it, for the log.
fn describe(holder: &Holder) -> String {
    let since = holder.since.map(|since| format!(" since {}", to_rfc3339(since)));
    let by = if holder.identity.is_empty() { "another replica" } else { &holder.identity };
    format!(
        "the lease is held by {by}{}; waiting until it is released, or not renewed for {} s",
        since.unwrap_or_default(),
        DURATION.as_secs()
    )
}

impl Candidate {
    /// A candidate in a namespace. The identity must be unique among the replicas.
    pub fn new(client: Client, namespace: &str, identity: String, clock: Clock) -> Self {
        let lease = Lease::new(client, namespace, LEASE.to_owned(), identity, clock);
        Self { lease, renewed: Arc::default() }
    }

    /// Whether the Lease is certainly held: it was renewed so recently that no other replica can
    /// have it. A process that was stopped for a while asks this before it finds out by
    /// [`Self::keep`].
    pub fn may_write(&self) -> MayWrite {
        let renewed = Arc::clone(&self.renewed);
        Arc::new(move || renewed.lock().is_some_and(|renewed| renewed.elapsed() < RENEW_WITHIN))
    }

    /// Waits until the Lease is acquired. `None` on `shutdown`.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Option<()> {
        let mut seen = ObservedLease::default();
        let mut said: Option<(String, Instant)> = None;
        loop {
            let requested = Instant::now();
            let attempt = self.lease.attempt(|holder| seen.has_expired(holder));
            let attempt = shutdown.run_until_cancelled(attempt).await?;
            match attempt {
                // After a slow response, the remaining time of the Lease is unknown:
                // renew once more, so that `keep` starts with the full duration.
                Ok(LeaseAttempt::Held) if requested.elapsed() < RETRY => {
                    *self.renewed.lock() = Some(requested);
                    return Some(());
                }
                Ok(LeaseAttempt::Held | LeaseAttempt::Conflict) => {}
                Ok(LeaseAttempt::By(holder)) => {
                    // The duration counts from when we observed the renewal.
                    seen.record(&holder);
                    let is_news = said.as_ref().is_none_or(|(said, at)| {
                        *said != holder.identity || at.elapsed() >= SAY_AGAIN
                    });
                    if is_news {
                        tracing::info!(lease = LEASE, "{}", describe(&holder));
                        said = Some((holder.identity, Instant::now()));
                    }
                }
                Err(error) => {
                    let error = error_reason(&error);
                    tracing::warn!(error, lease = LEASE, "cannot read the lease, retrying");
                }
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.cancelled() => return None,
            }
        }
    }

    /// Waits until the Lease is acquired, and then for what `prepares` the work under it, while it
    /// is renewed. What was prepared before the Lease was lost is prepared again. `None` on
    /// `shutdown`.
    pub async fn acquire_and<T>(
        &self,
        shutdown: &CancellationToken,
        mut prepares: impl AsyncFnMut() -> T,
    ) -> Option<T> {
        loop {
            self.acquire(shutdown).await?;
            let prepared = tokio::select! {
                biased;
                prepared = prepares() => prepared,
                () = self.keep(shutdown) => {
                    if shutdown.is_cancelled() {
                        return None;
                    }
                    continue;
                }
            };
            // The next `keep` starts with the full duration, as after `acquire`.
            let requested = Instant::now();
            let renewal = tokio::time::timeout(RETRY, self.lease.attempt(|_| false));
            if matches!(renewal.await, Ok(Ok(LeaseAttempt::Held))) {
                *self.renewed.lock() = Some(requested);
                return Some(prepared);
            }
        }
    }

    /// Frees the Lease if this replica holds it, so that another one can take it at once.
    pub async fn release(&self) {
        // A busy server must not hold up the end.
        match tokio::time::timeout(RETRY, self.lease.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = error_reason(&error);
                tracing::debug!(error, lease = LEASE, "the lease was not released");
            }
            Err(_) => tracing::warn!(lease = LEASE, "cannot release the lease in time"),
        }
    }

    /// Renews the Lease; ends when it is lost, or has been released on `release`. Nothing may be
    /// written after that.
    pub async fn keep(&self, release: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(RETRY) => {}
                () = release.cancelled() => return self.release().await,
            }
            // Other replicas count from the write of the Lease, which is not before the
            // request. So the timeout counts from the request, too.
            let requested = Instant::now();
            let left = RENEW_WITHIN.saturating_sub(renewed.elapsed());
            let attempt = tokio::time::timeout(left, self.lease.attempt(|_| false));
            // A renewal under way must not hold up the end either: what it writes late has an
            // outdated precondition.
            let Some(attempt) = release.run_until_cancelled(attempt).await else {
                return self.release().await;
            };
            match attempt {
                Ok(Ok(LeaseAttempt::Held)) => {
                    renewed = requested;
                    *self.renewed.lock() = Some(renewed);
                }
                Ok(Ok(LeaseAttempt::By(holder))) => {
                    tracing::warn!(lease = LEASE, "{}", describe(&holder));
                    return;
                }
                // Another replica has written it, perhaps as its holder.
                Ok(Ok(LeaseAttempt::Conflict)) => {
                    tracing::warn!(lease = LEASE, "{}", describe(&Holder::default()));
                    return;
                }
                Ok(Err(error)) => {
                    let error = error_reason(&error);
                    tracing::warn!(error, lease = LEASE, "cannot renew the lease");
                }
                Err(_) => tracing::warn!(lease = LEASE, "renewing the lease takes too long"),
            }
            if renewed.elapsed() >= RENEW_WITHIN {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_sim::{Effect, InjectedFault, Server};

    fn candidate(server: &Server) -> Candidate {
        let clock = Clock::system();
        Candidate::new(server.client_as("a"), "default", "a".to_owned(), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_without_a_response_steps_down_before_another_may_take_over() {
        let server = Server::new();
        let candidate = candidate(&server);
        let shutdown = CancellationToken::new();
        candidate.acquire(&shutdown).await.unwrap();
        let written = Instant::now();
        // It cannot be renewed for a while, and then a request hangs.
        let lease = |request: &kube_sim::RequestRecord| request.resource == "leases";
        server.inject(InjectedFault::new(Effect::Status(500), lease).times(3));
        server
            .inject(InjectedFault::new(Effect::Latency(Duration::from_secs(60)), move |request| {
                lease(request) && written.elapsed() > Duration::from_secs(7)
            }));
        candidate.keep(&shutdown).await;
        assert!(written.elapsed() < DURATION, "after {:?}", written.elapsed());
    }

    /// The time jumps while nothing of the process runs, as when it is stopped and continued.
    #[tokio::test(start_paused = true)]
    async fn what_was_not_renewed_in_time_permits_no_write() {
        let server = Server::new();
        let candidate = candidate(&server);
        let may_write = candidate.may_write();
        assert!(!may_write(), "it has no Lease");
        candidate.acquire(&CancellationToken::new()).await.unwrap();
        assert!(may_write());
        tokio::time::advance(RENEW_WITHIN).await;
        assert!(!may_write());
    }

    /// What takes longer than the Lease is valid leaves it to the replica, and it is fresh
    /// afterwards.
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_while_something_is_prepared() {
        let server = Server::new();
        let first = candidate(&server);
        let second =
            Candidate::new(server.client_as("b"), "default", "b".to_owned(), Clock::system());
        let (shutdown, other) = (CancellationToken::new(), CancellationToken::new());
        let mut times = 0;
        let prepares = async || {
            times += 1;
            tokio::time::sleep(DURATION * 3).await;
        };
        tokio::select! {
            held = first.acquire_and(&shutdown, prepares) => assert_eq!(held, Some(())),
            _ = async {
                tokio::time::sleep(RETRY).await;
                second.acquire(&other).await
            } => panic!("another replica has the Lease"),
        }
        assert_eq!(times, 1);
        // The last renewal is the newest request.
        let leases = |request: &kube_sim::RequestRecord| {
            request.resource == "leases" && request.client == "a"
        };
        let last = server.requests().into_iter().rfind(leases);
        assert_eq!(last.map(|request| request.verb).as_deref(), Some("update"));
    }

    /// Settings that were read before the Lease was lost are read again.
    #[tokio::test(start_paused = true)]
    async fn what_was_prepared_before_the_lease_was_lost_is_prepared_again() {
        let server = Server::new();
        let first = candidate(&server);
        let shutdown = CancellationToken::new();
        // Renewals fail for so long that the Lease is given up.
        let begun = Instant::now();
        let fails = move |request: &kube_sim::RequestRecord| {
            let since = begun.elapsed();
            request.resource == "leases" && since > RETRY / 2 && since < RENEW_WITHIN * 2
        };
        server.inject(InjectedFault::new(Effect::Status(500), fails).times(usize::MAX));
        let mut times = 0;
        let prepares = async || {
            times += 1;
            tokio::time::sleep(RENEW_WITHIN * 3 / 2).await;
            times
        };
        assert_eq!(first.acquire_and(&shutdown, prepares).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_response_does_not_extend_the_lease() {
        let server = Server::new();
        let candidate = candidate(&server);
        let shutdown = CancellationToken::new();
        candidate.acquire(&shutdown).await.unwrap();
        // One renewal is executed, with a response after eight seconds; all later ones fail.
        let begun = Instant::now();
        let write = |request: &kube_sim::RequestRecord| {
            request.resource == "leases" && request.verb == "update"
        };
        server.inject(InjectedFault::new(Effect::Latency(Duration::from_secs(8)), write));
        let late = move |request: &kube_sim::RequestRecord| {
            write(request) && begun.elapsed() > Duration::from_secs(9)
        };
        server.inject(InjectedFault::new(Effect::Status(500), late).times(100));
        candidate.keep(&shutdown).await;
        let renewed = begun + RETRY;
        assert!(renewed.elapsed() < DURATION, "after {:?}", renewed.elapsed());
    }
}
