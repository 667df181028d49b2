//! Leader election on a Lease: several copies may run, one acts.
//!
//! Every write carries the resource version it was decided on, so two copies
//! can never both win. Expiry is measured by this process's own clock from when
//! it saw the lease change, as clocks of different machines may differ.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::watch::failure::{has_code, reason};

/// The lease's name, the peer's own (AS-501).
pub const LEASE: &str = "58ac56fa.applicationsets.argoproj.io";
/// How long a lease holds without being renewed.
const DURATION: Duration = Duration::from_secs(15);
/// After this time without a renewal the leader steps down by itself.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries.
const RETRY: Duration = Duration::from_secs(2);

/// A candidate for the lease.
#[derive(Clone)]
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    clock: Clock,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What one try came to.
enum Turn {
    Held,
    /// Somebody else's, as of this version.
    Taken(String),
}

impl Candidate {
    /// A candidate in a namespace. The identity must differ between copies.
    pub fn new(client: Client, namespace: &str, identity: String, clock: Clock) -> Self {
        Self { api: Api::namespaced(client, namespace), identity, clock }
    }

    /// Waits until the lease is held. `None` when `shutdown` came first.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Option<()> {
        let mut seen: Option<(String, Instant)> = None;
        loop {
            let trigger = Instant::now();
            match self.turn(seen.as_ref()).await {
                // After a slow answer nobody knows how much of it is left:
                // renew once more, so that `keep` counts from about now.
                Ok(Turn::Held) if trigger.elapsed() < RETRY => return Some(()),
                Ok(Turn::Held) => {}
                Ok(Turn::Taken(version)) => {
                    // The holder's time runs from when we saw it renew.
                    if seen.as_ref().is_none_or(|(known, _)| *known != version) {
                        tracing::debug!(
                            lease = LEASE,
                            "the lease is held by another copy, waiting"
                        );
                        seen = Some((version, Instant::now()));
                    }
                }
                Err(error) => {
                    let error = reason(&error);
                    tracing::warn!(error, lease = LEASE, "cannot read the lease, trying again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.cancelled() => return None,
            }
        }
    }

    /// Keeps the lease; ends when it is lost or `shutdown` comes. Nothing may
    /// be written after that.
    pub async fn keep(&self, shutdown: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.cancelled() => {
                    self.release().await;
                    return;
                }
            }
            // Others count from when the lease was written, which is after the
            // question at the earliest. So do we, and never wait for an answer
            // beyond the time that is ours.
            let trigger = Instant::now();
            let left = RENEW_WITHIN.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.turn(None)).await {
                Ok(Ok(Turn::Held)) => renewed = trigger,
                Ok(Ok(Turn::Taken(_))) => return,
                Ok(Err(error)) => {
                    let error = reason(&error);
                    tracing::warn!(error, lease = LEASE, "cannot renew the lease");
                }
                Err(_) => tracing::warn!(lease = LEASE, "renewing the lease takes too long"),
            }
            if renewed.elapsed() >= RENEW_WITHIN {
                return;
            }
        }
    }

    /// Takes or renews the lease if that is allowed now. `seen` is the version
    /// of another holder and when it was first seen.
    async fn turn(&self, seen: Option<&(String, Instant)>) -> Result<Turn, kube::Error> {
        let Some(mut lease) = self.api.get_opt(LEASE).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
                spec: Some(self.spec(None)),
            };
            return settle(self.api.create(&PostParams::default(), &lease).await);
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let holder =
            lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        let expired =
            seen.is_some_and(|(known, since)| *known == version && since.elapsed() >= DURATION);
        if holder != self.identity && !holder.is_empty() && !expired {
            return Ok(Turn::Taken(version));
        }
        lease.spec = Some(self.spec(lease.spec.as_ref()));
        // The version inside makes this a compare-and-swap.
        settle(self.api.replace(LEASE, &PostParams::default(), &lease).await)
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let same = old.is_some_and(|old| old.holder_identity.as_deref() == Some(&self.identity));
        let transitions = old.and_then(|old| old.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: old
                .and_then(|old| old.acquire_time.clone())
                .filter(|_| same)
                .or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if same || old.is_none() {
                transitions
            } else {
                transitions + 1
            }),
            ..LeaseSpec::default()
        }
    }

    /// Gives the lease back, so that another copy need not wait for its end.
    async fn release(&self) {
        let released = async {
            let Some(mut lease) = self.api.get_opt(LEASE).await? else { return Ok(()) };
            let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                self.api.replace(LEASE, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        if let Err(error) = released.await {
            let error = reason(&error);
            tracing::debug!(error, lease = LEASE, "the lease was not given back");
        }
    }
}

fn settle(result: Result<Lease, kube::Error>) -> Result<Turn, kube::Error> {
    match result {
        Ok(_) => Ok(Turn::Held),
        // Another copy was faster.
        Err(error) if has_code(&error, 409) => Ok(Turn::Taken(String::new())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{Effect, Fault, Server};

    fn candidate(server: &Server) -> Candidate {
        let clock = Clock::system();
        Candidate::new(server.client_as("a"), "default", "a".to_owned(), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_gets_no_answer_steps_down_before_another_may_take_over() {
        let server = Server::new();
        let candidate = candidate(&server);
        let shutdown = CancellationToken::new();
        candidate.acquire(&shutdown).await.unwrap();
        let written = Instant::now();
        // It cannot be renewed for a while, and then a request hangs.
        let lease = |request: &crate::embedded::RequestRecord| request.resource == "leases";
        server.inject(Fault::new(Effect::Status(500), lease).times(3));
        server.inject(Fault::new(Effect::Latency(Duration::from_secs(60)), move |request| {
            lease(request) && written.elapsed() > Duration::from_secs(7)
        }));
        candidate.keep(&shutdown).await;
        assert!(written.elapsed() < DURATION, "after {:?}", written.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_does_not_lengthen_the_lease() {
        let server = Server::new();
        let candidate = candidate(&server);
        let shutdown = CancellationToken::new();
        candidate.acquire(&shutdown).await.unwrap();
        // One renewal is carried out and told eight seconds late; after that
        // nothing is.
        let begun = Instant::now();
        let write = |request: &crate::embedded::RequestRecord| {
            request.resource == "leases" && request.verb == "get"
        };
        server.inject(Fault::new(Effect::Latency(Duration::from_secs(8)), write));
        let late = move |request: &crate::embedded::RequestRecord| {
            write(request) && begun.elapsed() > Duration::from_secs(9)
        };
        server.inject(Fault::new(Effect::Status(500), late).times(100));
        candidate.keep(&shutdown).await;
        let trigger = begun + RETRY;
        assert!(trigger.elapsed() < DURATION, "after {:?}", trigger.elapsed());
    }
}
