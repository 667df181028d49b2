//! The Lease of a run: two runs of one name at once would delete and replace the hooks of each
//! other.

use std::time::Duration;

use tokio::time::timeout;

use super::manifests::Manifests;
use super::request::request_id;
use crate::cli::console::error::{Error, note};
use wavegate_api::time::to_rfc3339;
use wavegate_cluster::act::control_plane::lease::{
    DURATION, Holder, Lease, LeaseAttempt, ObservedLease,
};
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_net::clock::Clock;

/// Pause between renewals.
const RENEW: Duration = Duration::from_secs(3);
/// Pause between attempts to take a Lease.
const RETRY: Duration = Duration::from_millis(500);
/// Longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The Lease of one run.
#[derive(Debug)]
pub(super) struct RunLease {
    lease: Lease,
    host: String,
    clock: Clock,
    /// The run and the Lease, for messages.
    run: String,
    place: String,
}

impl RunLease {
    /// The Lease of a run on a host, which is not taken yet. `id` is unique among the runs.
    pub fn new(client: kube::Client, manifests: &Manifests, (host, id): (&str, &str)) -> Self {
        let (namespace, name) = (&manifests.namespace, format!("wavegate-sync-{}", manifests.name));
        let host: String = host.chars().filter(|c| *c != '_' && !c.is_control()).collect();
        let place = format!("Lease {namespace}/{name}");
        let clock = Clock::system();
        let lease = Lease::new(client, namespace, name, format!("{host}_{id}"), clock.clone());
        Self { lease, host, clock, run: manifests.title(), place }
    }

    /// The Lease of a run of this process.
    pub fn of(client: &kube::Client, manifests: &Manifests) -> Self {
        Self::new(client.clone(), manifests, (&host(), &request_id()))
    }

    /// Takes the Lease, before the first decision of the run. While another run may be in
    /// progress, waits until it is clear: its Lease is renewed, or has expired. Returns whether
    /// the Lease is to be renewed; without the permission for it, the run goes on alone.
    ///
    /// # Errors
    ///
    /// Another run is in progress, or the Lease cannot be read or written.
    pub async fn take(&self) -> Result<bool, Error> {
        let failed = |why: String| Error::input("cannot take", &self.place, why);
        let (mut is_noted, mut seen) = (false, ObservedLease::default());
        loop {
            let attempt = self.lease.attempt(|by| seen.has_expired(by) || self.is_stale(by));
            let attempt = timeout(TIMEOUT * 4, attempt).await;
            match attempt.map_err(|_| failed("no response".to_owned()))? {
                Ok(LeaseAttempt::Held) => return Ok(true),
                Ok(LeaseAttempt::Conflict) => {}
                Ok(LeaseAttempt::By(holder)) if seen.record(&holder) => {
                    let why = format!("it is in progress {}; wait for its end", by(&holder));
                    return Err(Error::check("cannot sync", &self.run, why));
                }
                Ok(LeaseAttempt::By(holder)) if !is_noted => {
                    is_noted = true;
                    note(&format!(
                        "{}: it is in progress {}, or was killed: waits up to {} s until its \
                         Lease {} is renewed or expires",
                        self.run,
                        by(&holder),
                        DURATION.as_secs(),
                        self.lease.name()
                    ));
                }
                Ok(LeaseAttempt::By(_)) => {}
                Err(error) if has_code(&error, 403) => {
                    note(&format!(
                        "{}: no Lease can be taken, so do not run the same sync twice at the \
                         same time: {}",
                        self.run,
                        error_reason(&error)
                    ));
                    return Ok(false);
                }
                // Without the namespace, it is taken once the run has created it.
                Err(error) if has_code(&error, 404) => return Ok(true),
                Err(error) => return Err(failed(error_reason(&error))),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the Lease, or takes it once its namespace exists; ends only when another run has
    /// taken it: this one must write nothing more.
    pub async fn lost(&self) -> Error {
        let lease = self.lease.name();
        let holder = loop {
            tokio::time::sleep(RENEW).await;
            match timeout(TIMEOUT, self.lease.attempt(|by| self.is_stale(by))).await {
                Ok(Ok(LeaseAttempt::Held | LeaseAttempt::Conflict)) => {}
                Ok(Ok(LeaseAttempt::By(holder))) => break holder,
                Ok(Err(error)) => {
                    tracing::debug!(error = error_reason(&error), lease, "cannot renew the lease");
                }
                Err(_) => tracing::debug!(lease, "renewing the lease takes too long"),
            }
        };
        let by = by(&holder);
        let why =
            format!("it is in progress {by}, which has taken it over; this run ends as it is");
        Error::check("the sync was ended", &self.run, why)
    }

    /// Deletes the Lease, if this run holds it, so that the next run starts at once.
    pub async fn release(&self) {
        let why = match timeout(TIMEOUT, self.lease.delete()).await {
            Ok(Ok(())) => return,
            // It was not taken, and that was noted.
            Ok(Err(error)) if has_code(&error, 403) => return,
            Ok(Err(error)) => error_reason(&error),
            Err(_) => "no response".to_owned(),
        };
        let seconds = DURATION.as_secs();
        note(&format!("the Lease of the run cannot be released: {why}; it expires in {seconds} s"));
    }

    /// Whether a run of this machine has not renewed its Lease in time. The time of another
    /// machine does not count.
    fn is_stale(&self, holder: &Holder) -> bool {
        let Some(renewed) = holder.renewed else { return false };
        let age = Duration::try_from(self.clock.now().duration_since(renewed));
        host_of(holder) == self.host && age.is_ok_and(|age| age >= DURATION)
    }
}

fn by(holder: &Holder) -> String {
    let host = match host_of(holder) {
        "" => "another host",
        host => host,
    };
    match holder.since {
        Some(since) => format!("by {host}, since {}", to_rfc3339(since)),
        None => format!("by {host}"),
    }
}

/// The machine of a holder.
fn host_of(Holder { identity, .. }: &Holder) -> &str {
    identity.split_once('_').map_or(identity, |(host, _)| host)
}

/// The name of this machine.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Names that many machines have say nothing about the clock.
    match name.as_str() {
        "" | "localhost" | "(none)" => format!("localhost-{}", request_id()),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::coordination::v1::Lease as Object;
    use kube_sim::Server;
    use tokio::time::Instant;

    use super::*;

    fn lease(server: &Server, host: &str, id: &str) -> RunLease {
        RunLease::new(server.client_as("a"), &Manifests::none("default", "a"), (host, id))
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_alone_until_its_end_or_expiry() {
        let server = Server::new();
        let leases: kube::Api<Object> = kube::Api::namespaced(server.client_as("a"), "default");
        let exists = async || leases.get_opt("wavegate-sync-a").await.unwrap().is_some();
        let (first, other) = (Arc::new(lease(&server, "one", "1")), lease(&server, "two", "2"));
        assert!(first.take().await.unwrap(), "no run holds it");
        let keeper = Arc::clone(&first);
        let kept = tokio::spawn(async move { keeper.lost().await });
        let refused = other.take().await.unwrap_err().to_string();
        assert!(refused.contains("in progress by one, since "), "it is renewed: {refused}");
        // Killed: no renewal and no release.
        kept.abort();
        let since = Instant::now();
        assert!(other.take().await.unwrap());
        assert!(since.elapsed() >= DURATION);
        let lost = first.lost().await.to_string();
        assert!(lost.contains("in progress by two, since "), "{lost}");
        first.release().await;
        assert!(exists().await, "it is of the other run");
        other.release().await;
        assert!(!exists().await);
    }
}
