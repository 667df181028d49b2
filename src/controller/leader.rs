//! Leader election with a Lease: of several replicas, one is active.
//!
//! Every write has the observed resource version as a precondition, so only one replica
//! can win. Expiry is measured with the local clock since the last observed change of the
//! Lease, as clocks of different machines may differ.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::time::to_rfc3339;
use crate::clock::Clock;
use crate::watch::failure::{has_code, reason};

/// Name of the Lease, as in Argo CD (AS-501).
pub const LEASE: &str = "58ac56fa.applicationsets.argoproj.io";
/// How long a Lease is valid without a renewal.
const DURATION: Duration = Duration::from_secs(15);
/// The leader steps down when it could not renew for this time.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// Pause between attempts.
const RETRY: Duration = Duration::from_secs(2);
/// A replica that waits says so again after this time.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// A candidate for the Lease.
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

/// The result of one attempt.
enum Attempt {
    Held,
    /// Held by another replica.
    Taken(Taken),
}

/// The Lease of another replica.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// The version of the Lease.
    version: String,
    /// Who holds it; empty when that is not known.
    holder: String,
    /// Since when.
    since: Option<Timestamp>,
}

impl Taken {
    /// Who holds the Lease since when, and what follows from it, for the log.
    fn describe(&self) -> String {
        let since = self.since.map(|since| format!(" since {}", to_rfc3339(since)));
        let holder = if self.holder.is_empty() { "another replica" } else { &self.holder };
        format!(
            "the lease is held by {holder}{}; waiting until it is released, or not renewed for {} s",
            since.unwrap_or_default(),
            DURATION.as_secs()
        )
    }
}

impl Candidate {
    /// A candidate in a namespace. The identity must be unique among the replicas.
    pub fn new(client: Client, namespace: &str, identity: String, clock: Clock) -> Self {
        Self { api: Api::namespaced(client, namespace), identity, clock }
    }

    /// Waits until the Lease is acquired. `None` on `shutdown`.
    pub async fn acquire(&self, shutdown: &CancellationToken) -> Option<()> {
        let mut seen: Option<(String, Instant)> = None;
        let mut said: Option<(String, Instant)> = None;
        loop {
            let requested = Instant::now();
            let attempt = shutdown.run_until_cancelled(self.attempt(seen.as_ref())).await?;
            match attempt {
                // After a slow response, the remaining time of the Lease is unknown:
                // renew once more, so that `keep` starts with the full duration.
                Ok(Attempt::Held) if requested.elapsed() < RETRY => return Some(()),
                Ok(Attempt::Held) => {}
                Ok(Attempt::Taken(taken)) => {
                    let is_news = said.as_ref().is_none_or(|(holder, at)| {
                        *holder != taken.holder || at.elapsed() >= SAY_AGAIN
                    });
                    if is_news {
                        tracing::info!(lease = LEASE, "{}", taken.describe());
                        said = Some((taken.holder.clone(), Instant::now()));
                    }
                    // The duration counts from when we observed the renewal.
                    if seen.as_ref().is_none_or(|(known, _)| *known != taken.version) {
                        seen = Some((taken.version, Instant::now()));
                    }
                }
                Err(error) => {
                    let error = reason(&error);
                    tracing::warn!(error, lease = LEASE, "cannot read the lease, retrying");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.cancelled() => return None,
            }
        }
    }

    /// Renews the Lease; ends when it is lost or on `shutdown`. Nothing may be written
    /// after that.
    pub async fn keep(&self, shutdown: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = shutdown.cancelled() => {
                    // A busy server must not hold up the end.
                    if tokio::time::timeout(RETRY, self.release()).await.is_err() {
                        tracing::warn!(lease = LEASE, "cannot release the lease in time");
                    }
                    return;
                }
            }
            // Other replicas count from the write of the Lease, which is not before the
            // request. So the timeout counts from the request, too.
            let requested = Instant::now();
            let left = RENEW_WITHIN.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt(None)).await {
                Ok(Ok(Attempt::Held)) => renewed = requested,
                Ok(Ok(Attempt::Taken(taken))) => {
                    tracing::warn!(lease = LEASE, "{}", taken.describe());
                    return;
                }
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

    /// Acquires or renews the Lease if that is allowed now. `seen` is the version of
    /// another holder and when it was first observed.
    async fn attempt(&self, seen: Option<&(String, Instant)>) -> Result<Attempt, kube::Error> {
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
            let spec = lease.spec.as_ref();
            let since = spec.and_then(|spec| spec.acquire_time.as_ref()).map(|MicroTime(at)| *at);
            return Ok(Attempt::Taken(Taken { version, holder, since }));
        }
        lease.spec = Some(self.spec(lease.spec.as_ref()));
        // The resource version makes this a compare-and-swap.
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

    /// Releases the Lease, so that another replica can acquire it at once.
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
            tracing::debug!(error, lease = LEASE, "the lease was not released");
        }
    }
}

fn settle(result: Result<Lease, kube::Error>) -> Result<Attempt, kube::Error> {
    match result {
        Ok(_) => Ok(Attempt::Held),
        // Another replica was faster.
        Err(error) if has_code(&error, 409) => Ok(Attempt::Taken(Taken::default())),
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
    async fn a_leader_without_a_response_steps_down_before_another_may_take_over() {
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
    async fn a_late_response_does_not_extend_the_lease() {
        let server = Server::new();
        let candidate = candidate(&server);
        let shutdown = CancellationToken::new();
        candidate.acquire(&shutdown).await.unwrap();
        // One renewal is executed, with a response after eight seconds; all later ones fail.
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
        let renewed = begun + RETRY;
        assert!(renewed.elapsed() < DURATION, "after {:?}", renewed.elapsed());
    }
}
