//! The Lease of a run: two runs of one name at once would delete and replace the hooks of each
//! other.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::super::error::{Error, note};
use super::manifests::Manifests;
use super::request_id;
use crate::act::lease::{Attempt, DURATION, Holder, Lease, Observed};
use crate::api::time::to_rfc3339;
use crate::clock::Clock;
use crate::watch::failure::{has_code, reason};

/// Pause between renewals.
const RENEW: Duration = Duration::from_secs(3);
/// Pause between attempts to take a Lease.
const RETRY: Duration = Duration::from_millis(500);
/// Longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The result of [`RunLease::take`].
#[derive(Debug)]
enum Taken {
    /// This run may go on.
    Held,
    /// Another run is in progress.
    By(Holder),
    /// There can be no Lease, with the reason of the server: it is forbidden.
    Forbidden(String),
    /// The namespace does not exist yet.
    NoNamespace,
}

/// The Lease of one run.
#[derive(Clone, Debug)]
struct RunLease {
    lease: Lease,
    host: String,
    clock: Clock,
}

impl RunLease {
    /// The Lease `name` in a namespace, for the run `id` on this host.
    fn new(
        client: kube::Client,
        namespace: &str,
        name: String,
        (host, id): (&str, &str),
        clock: Clock,
    ) -> Self {
        let host: String = host.chars().filter(|c| *c != '_' && !c.is_control()).collect();
        let identity = format!("{host}_{id}");
        let lease = Lease::new(client, namespace, name, identity, clock.clone());
        Self { lease, host, clock }
    }

    /// Takes the Lease. While another run may be in progress, waits until it is clear: its
    /// Lease is renewed, or has expired. `waits` is called once before that.
    async fn take(&self, waits: impl FnOnce(&Holder)) -> Result<Taken, String> {
        let (mut waits, mut seen) = (Some(waits), Observed::default());
        loop {
            let attempt = self.lease.attempt(|by| seen.has_expired(by) || self.is_stale(by));
            let attempt = timeout(TIMEOUT * 4, attempt).await;
            match attempt.map_err(|_| "no response".to_owned())? {
                Ok(Attempt::Held) => return Ok(Taken::Held),
                Ok(Attempt::Conflict) => {}
                Ok(Attempt::By(holder)) if seen.record(&holder) => return Ok(Taken::By(holder)),
                Ok(Attempt::By(holder)) => {
                    if let Some(waits) = waits.take() {
                        waits(&holder);
                    }
                }
                Err(error) if has_code(&error, 403) => return Ok(Taken::Forbidden(reason(&error))),
                Err(error) if has_code(&error, 404) => return Ok(Taken::NoNamespace),
                Err(error) => return Err(reason(&error)),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the Lease, or takes it once its namespace exists. Returns the holder when another
    /// run has it: this one must write nothing more.
    async fn keep(&self) -> Holder {
        let lease = self.lease.name();
        loop {
            tokio::time::sleep(RENEW).await;
            match timeout(TIMEOUT, self.lease.attempt(|by| self.is_stale(by))).await {
                Ok(Ok(Attempt::Held | Attempt::Conflict)) => {}
                Ok(Ok(Attempt::By(holder))) => return holder,
                Ok(Err(error)) => {
                    tracing::debug!(error = reason(&error), lease, "cannot renew the lease");
                }
                Err(_) => tracing::debug!(lease, "renewing the lease takes too long"),
            }
        }
    }

    /// Deletes the Lease, if this run holds it, so that the next run starts at once.
    async fn release(&self) -> Result<(), String> {
        match timeout(TIMEOUT, self.lease.delete()).await {
            Ok(released) => released.map_err(|error| reason(&error)),
            Err(_) => Err("no response".to_owned()),
        }
    }

    /// Whether a run of this machine has not renewed its Lease in time. The time of another
    /// machine does not count.
    fn is_stale(&self, holder: &Holder) -> bool {
        let Some(renewed) = holder.renewed else { return false };
        let age = Duration::try_from(self.clock.now().duration_since(renewed));
        host_of(holder) == self.host && age.is_ok_and(|age| age >= DURATION)
    }
}

/// The Lease that this process holds, if any.
#[derive(Debug, Default)]
pub(super) struct HeldLease {
    lease: Mutex<Option<RunLease>>,
}

impl HeldLease {
    /// Renews the Lease; ends only when another run has taken it.
    pub async fn lost(&self, manifests: &Manifests) -> Error {
        let lease = self.lease.lock().clone();
        let Some(lease) = lease else { return std::future::pending().await };
        let by = by(&lease.keep().await);
        let why =
            format!("it is in progress {by}, which has taken it over; this run ends as it is");
        Error::check("the sync was ended", manifests.title(), why)
    }

    /// Releases it, so that the next run starts at once.
    pub async fn release(&self) {
        let lease = self.lease.lock().take();
        let Some(lease) = lease else { return };
        if let Err(why) = lease.release().await {
            let seconds = DURATION.as_secs();
            note(&format!(
                "the Lease of the run cannot be released: {why}; it expires in {seconds} s"
            ));
        }
    }
}

/// Takes the Lease of a run, before its first decision.
pub(super) async fn take(
    client: &kube::Client,
    manifests: &Manifests,
    held: &HeldLease,
) -> Result<(), Error> {
    let name = format!("wavegate-sync-{}", manifests.name);
    let (place, seconds) = (manifests.title(), DURATION.as_secs());
    let (host, id) = (host(), request_id());
    let namespace = &manifests.namespace;
    let lease =
        RunLease::new(client.clone(), namespace, name.clone(), (&host, &id), Clock::system());
    // Before the request: a response may be lost, or the run be interrupted.
    *held.lease.lock() = Some(lease.clone());
    let taken = lease.take(|holder| {
        note(&format!(
            "{place}: it is in progress {}, or was killed: waits up to {seconds} s until its \
             Lease {name} is renewed or expires",
            by(holder)
        ));
    });
    let refused = match taken.await {
        // Without the namespace, it is taken once the run has created it.
        Ok(Taken::Held | Taken::NoNamespace) => return Ok(()),
        Ok(Taken::Forbidden(why)) => {
            note(&format!(
                "{place}: no Lease can be taken, so do not run the same sync twice at the same \
                 time: {why}"
            ));
            None
        }
        Ok(Taken::By(holder)) => {
            let why = format!("it is in progress {}; wait for its end", by(&holder));
            Some(Error::check("cannot sync", &place, why))
        }
        Err(why) => Some(Error::input("cannot take", format!("Lease {namespace}/{name}"), why)),
    };
    *held.lease.lock() = None;
    refused.map_or(Ok(()), Err)
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
    use k8s_openapi::api::coordination::v1::Lease as Object;
    use kube_sim::Server;
    use tokio::time::Instant;

    use super::*;

    fn lease(server: &Server, host: &str, id: &str) -> RunLease {
        let client = server.client_as("a");
        RunLease::new(client, "default", "wavegate-sync-a".into(), (host, id), Clock::system())
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_alone_until_its_end_or_expiry() {
        let server = Server::new();
        let leases: kube::Api<Object> = kube::Api::namespaced(server.client_as("a"), "default");
        let exists = async || leases.get_opt("wavegate-sync-a").await.unwrap().is_some();
        let (first, other) = (lease(&server, "one", "1"), lease(&server, "two", "2"));
        let taken = first.take(|_| panic!("no run holds it")).await.unwrap();
        assert!(matches!(taken, Taken::Held));
        let keeper = first.clone();
        let kept = tokio::spawn(async move { keeper.keep().await });
        let Taken::By(holder) = other.take(|_| {}).await.unwrap() else { panic!("it is renewed") };
        assert_eq!(host_of(&holder), "one");
        // Killed: no renewal and no release.
        kept.abort();
        let since = Instant::now();
        assert!(matches!(other.take(|_| {}).await.unwrap(), Taken::Held));
        assert!(since.elapsed() >= DURATION);
        assert_eq!(host_of(&first.keep().await), "two");
        first.release().await.unwrap();
        assert!(exists().await, "it is of the other run");
        other.release().await.unwrap();
        assert!(!exists().await);
    }
}
