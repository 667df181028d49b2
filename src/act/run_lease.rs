//! The Lease of a run without an Application: of several runs with one name, one is in
//! progress.
//!
//! Every write has the observed resource version as its precondition, so only one run can
//! win. A holder that has been killed is recognised by a Lease that is not renewed. Clocks
//! of different machines may differ: the time in the Lease counts only on the machine that
//! wrote it; otherwise the time since the last change that was observed counts.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::watch::failure::{has_code, reason};

/// How long a Lease is valid without a renewal.
pub const DURATION: Duration = Duration::from_secs(15);
/// Pause between renewals.
const RENEW: Duration = Duration::from_secs(3);
/// Pause between attempts to take a Lease.
const RETRY: Duration = Duration::from_millis(500);
/// Longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Who holds a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// The result of [`RunLease::take`].
#[derive(Debug)]
pub enum Taken {
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
pub struct RunLease {
    api: Api<Lease>,
    name: String,
    host: String,
    identity: String,
    clock: Clock,
}

/// The result of one attempt.
enum Attempt {
    Held,
    Other(Box<Lease>),
    /// Another process was faster.
    Again,
}

impl RunLease {
    /// The Lease `name` in a namespace, for the run `id` on this host.
    pub fn new(
        client: Client,
        namespace: &str,
        name: String,
        (host, id): (&str, &str),
        clock: Clock,
    ) -> Self {
        let host: String = host.chars().filter(|c| *c != '_' && !c.is_control()).collect();
        let identity = format!("{host}_{id}");
        Self { api: Api::namespaced(client, namespace), name, host, identity, clock }
    }

    /// Takes the Lease. While another run may be in progress, waits until it is clear: its
    /// Lease is renewed, or has expired. `waits` is called once before that.
    ///
    /// # Errors
    ///
    /// The message of the server.
    pub async fn take(&self, waits: impl FnOnce(&Holder)) -> Result<Taken, String> {
        let mut waits = Some(waits);
        let mut seen: Option<(String, Instant)> = None;
        loop {
            let attempt = tokio::time::timeout(TIMEOUT * 4, self.attempt(seen.as_ref())).await;
            let attempt = attempt.map_err(|_| "no response".to_owned())?;
            match attempt {
                Ok(Attempt::Held) => return Ok(Taken::Held),
                Ok(Attempt::Again) => {}
                Ok(Attempt::Other(lease)) => {
                    let holder = holder(&lease);
                    let version = lease.metadata.resource_version.unwrap_or_default();
                    match &seen {
                        // It was renewed.
                        Some((known, _)) if *known != version => return Ok(Taken::By(holder)),
                        Some(_) => {}
                        None => seen = Some((version, Instant::now())),
                    }
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

    /// Renews the Lease, or takes it once its namespace exists, until `stop`. Returns the
    /// holder when another run has it: this one must write nothing more.
    pub async fn keep(&self, stop: &CancellationToken) -> Option<Holder> {
        loop {
            tokio::select! {
                () = tokio::time::sleep(RENEW) => {}
                () = stop.cancelled() => return None,
            }
            match tokio::time::timeout(TIMEOUT, self.attempt(None)).await {
                Ok(Ok(Attempt::Held | Attempt::Again)) => {}
                Ok(Ok(Attempt::Other(lease))) => return Some(holder(&lease)),
                Ok(Err(error)) => {
                    let error = reason(&error);
                    tracing::debug!(error, lease = self.name, "cannot renew the lease");
                }
                Err(_) => tracing::debug!(lease = self.name, "renewing the lease takes too long"),
            }
        }
    }

    /// Deletes the Lease, if this run holds it, so that the next run starts at once.
    ///
    /// # Errors
    ///
    /// The message of the server.
    pub async fn release(&self) -> Result<(), String> {
        let released = async {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            let preconditions = Some(Preconditions {
                uid: lease.metadata.uid.clone(),
                resource_version: lease.metadata.resource_version.clone(),
            });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match self.api.delete(&self.name, &params).await {
                // Without the permission to delete, it is free at least.
                Err(error) if has_code(&error, 403) => {
                    spec.holder_identity = None;
                    self.api.replace(&self.name, &PostParams::default(), &lease).await?;
                    Ok(())
                }
                Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
                other => other.map(drop),
            }
        };
        match tokio::time::timeout(TIMEOUT, released).await {
            Ok(released) => released.map_err(|error: kube::Error| reason(&error)),
            Err(_) => Err("no response".to_owned()),
        }
    }

    /// Takes or renews the Lease if that is allowed now. `seen` is a version of another
    /// holder, and when it was first observed.
    async fn attempt(&self, seen: Option<&(String, Instant)>) -> Result<Attempt, kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let name = Some(self.name.clone());
            let metadata = ObjectMeta { name, ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return settle(self.api.create(&PostParams::default(), &lease).await);
        };
        let own = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        let own = own.unwrap_or_default();
        let version = lease.metadata.resource_version.as_deref().unwrap_or_default();
        let unchanged =
            seen.is_some_and(|(known, since)| known == version && since.elapsed() >= DURATION);
        if !own.is_empty() && own != self.identity && !unchanged && !self.is_stale(&lease) {
            return Ok(Attempt::Other(Box::new(lease)));
        }
        lease.spec = Some(self.spec(lease.spec.as_ref()));
        settle(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }

    /// Whether a run of this machine has not renewed its Lease in time.
    fn is_stale(&self, lease: &Lease) -> bool {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let Some(MicroTime(renewed)) = renewed else { return false };
        let age = self.clock.now().duration_since(*renewed);
        holder(lease).host == self.host && Duration::try_from(age).is_ok_and(|age| age >= DURATION)
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let same = old.filter(|old| old.holder_identity.as_deref() == Some(&self.identity));
        let since = same.and_then(|old| old.acquire_time.clone());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: since.or(Some(now.clone())),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

fn holder(lease: &Lease) -> Holder {
    let spec = lease.spec.as_ref();
    let identity = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let host = identity.split_once('_').map_or(identity, |(host, _)| host).to_owned();
    let since = spec.and_then(|spec| spec.acquire_time.as_ref()).map(|MicroTime(at)| *at);
    Holder { host, since }
}

fn settle(result: Result<Lease, kube::Error>) -> Result<Attempt, kube::Error> {
    match result {
        Ok(_) => Ok(Attempt::Held),
        Err(error) if has_code(&error, 409) => Ok(Attempt::Again),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Server;

    fn lease(server: &Server, host: &str, id: &str) -> RunLease {
        let client = server.client_as("a");
        RunLease::new(client, "default", "wavegate-sync-a".into(), (host, id), Clock::system())
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_alone_until_its_end_or_expiry() {
        let server = Server::new();
        let (first, other) = (lease(&server, "one", "1"), lease(&server, "two", "2"));
        let taken = first.take(|_| panic!("no run holds it")).await.unwrap();
        assert!(matches!(taken, Taken::Held));
        let stop = CancellationToken::new();
        let (keeper, stopped) = (first.clone(), stop.clone());
        let kept = tokio::spawn(async move { keeper.keep(&stopped).await });
        let Taken::By(holder) = other.take(|_| {}).await.unwrap() else { panic!("it is renewed") };
        assert_eq!(holder.host, "one");
        // Killed: no renewal and no release.
        stop.cancel();
        assert_eq!(kept.await.unwrap(), None);
        let since = Instant::now();
        assert!(matches!(other.take(|_| {}).await.unwrap(), Taken::Held));
        assert!(since.elapsed() >= DURATION);
        assert_eq!(first.keep(&CancellationToken::new()).await.unwrap().host, "two");
        first.release().await.unwrap();
        assert!(first.api.get_opt(&first.name).await.unwrap().is_some(), "it is of the other run");
        other.release().await.unwrap();
        assert!(first.api.get_opt(&first.name).await.unwrap().is_none());
    }
}
