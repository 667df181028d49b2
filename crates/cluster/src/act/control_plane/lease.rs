//! A Lease that one process holds at a time: the leader of several replicas, or the only one of
//! several runs of one name.
//!
//! Every write has the observed resource version as its precondition, so only one process can
//! win. Clocks of different machines may differ, so a Lease expires when no renewal of it was
//! observed for [`DURATION`], by the clock of the observer.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::watch::failure::has_code;
use wavegate_net::clock::Clock;

/// How long a Lease is valid without a renewal.
pub const DURATION: Duration = Duration::from_secs(15);

/// Who holds a Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its identity; empty when that is not known.
    pub identity: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The last renewal, by the clock of the holder.
    pub renewed: Option<Timestamp>,
    /// The version of the Lease.
    version: String,
}

/// When the version of another holder was first observed.
#[derive(Debug, Default)]
pub struct ObservedLease(Option<(String, Instant)>);

impl ObservedLease {
    /// Records an observation. Returns whether the Lease has been renewed since the last one.
    pub fn record(&mut self, holder: &Holder) -> bool {
        let known = self.0.as_ref().map(|(version, _)| *version == holder.version);
        if known != Some(true) {
            self.0 = Some((holder.version.clone(), Instant::now()));
        }
        known == Some(false)
    }

    /// Whether this version was observed for longer than it is valid.
    pub fn has_expired(&self, holder: &Holder) -> bool {
        (self.0.as_ref())
            .is_some_and(|(known, at)| *known == holder.version && at.elapsed() >= DURATION)
    }
}

/// The result of one attempt.
#[derive(Debug)]
pub enum LeaseAttempt {
    /// This process holds the Lease.
    Held,
    /// Another one does.
    By(Holder),
    /// Another process was faster.
    Conflict,
}

/// A Lease, for one process.
#[derive(Clone)]
pub struct Lease {
    api: Api<Object>,
    name: String,
    identity: String,
    clock: Clock,
    /// As this process wrote it last. Clones share it.
    written: Arc<Mutex<Option<Object>>>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, identity, .. } = self;
        f.debug_struct("Lease").field("name", name).field("identity", identity).finish()
    }
}

impl Lease {
    /// The Lease of this name. The identity must be unique among the processes.
    pub fn new(
        client: Client,
        namespace: &str,
        name: String,
        identity: String,
        clock: Clock,
    ) -> Self {
        let written = Arc::default();
        Self { api: Api::namespaced(client, namespace), name, identity, clock, written }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes or renews the Lease if it is free or of this process, or if that of another one
    /// `has_expired`.
    ///
    /// # Errors
    ///
    /// The error of the request.
    pub async fn attempt(
        &self,
        has_expired: impl Fn(&Holder) -> bool,
    ) -> Result<LeaseAttempt, kube::Error> {
        if self.renew().await? {
            return Ok(LeaseAttempt::Held);
        }
        let written = match self.api.get_opt(&self.name).await? {
            None => {
                let name = Some(self.name.clone());
                let metadata = ObjectMeta { name, ..ObjectMeta::default() };
                let lease = Object { metadata, spec: Some(self.spec(None)) };
                self.api.create(&PostParams::default(), &lease).await
            }
            Some(mut lease) => {
                let holder = holder(&lease);
                let free = holder.identity.is_empty() || holder.identity == self.identity;
                if !free && !has_expired(&holder) {
                    return Ok(LeaseAttempt::By(holder));
                }
                lease.spec = Some(self.spec(lease.spec.as_ref()));
                self.api.replace(&self.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                *self.written.lock() = Some(lease);
                Ok(LeaseAttempt::Held)
            }
            Err(error) if has_code(&error, 409) => Ok(LeaseAttempt::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Renews the Lease without reading it, if it is as this process wrote it last. Returns
    /// whether it was.
    async fn renew(&self) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.written.lock().take() else { return Ok(false) };
        lease.spec = Some(self.spec(lease.spec.as_ref()));
        match self.api.replace(&self.name, &PostParams::default(), &lease).await {
            Ok(lease) => {
                *self.written.lock() = Some(lease);
                Ok(true)
            }
            Err(error) if has_code(&error, 409) || has_code(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Frees the Lease if this process holds it, so that another one can take it at once.
    ///
    /// # Errors
    ///
    /// The error of the request.
    pub async fn release(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.held().await? else { return Ok(()) };
        lease.spec.get_or_insert_default().holder_identity = None;
        self.api.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
    }

    /// Deletes the Lease if this process holds it.
    ///
    /// # Errors
    ///
    /// The error of the request.
    pub async fn delete(&self) -> Result<(), kube::Error> {
        let Some(lease) = self.held().await? else { return Ok(()) };
        let ObjectMeta { uid, resource_version, .. } = lease.metadata;
        let preconditions = Some(Preconditions { uid, resource_version });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.api.delete(&self.name, &params).await {
            // Without the permission to delete, it is free at least.
            Err(error) if has_code(&error, 403) => self.release().await,
            Err(error) if has_code(&error, 404) || has_code(&error, 409) => Ok(()),
            other => other.map(drop),
        }
    }

    /// The Lease, if this process holds it.
    async fn held(&self) -> Result<Option<Object>, kube::Error> {
        *self.written.lock() = None;
        let lease = self.api.get_opt(&self.name).await?;
        Ok(lease.filter(|lease| holder(lease).identity == self.identity))
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let same = old.filter(|old| old.holder_identity.as_deref() == Some(&self.identity));
        let transitions = old.and_then(|old| old.lease_transitions).unwrap_or_default();
        let changed = old.is_some() && same.is_none();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: same.and_then(|old| old.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(changed)),
            ..LeaseSpec::default()
        }
    }
}

fn holder(lease: &Object) -> Holder {
    let spec = lease.spec.clone().unwrap_or_default();
    Holder {
        identity: spec.holder_identity.unwrap_or_default(),
        since: spec.acquire_time.map(|MicroTime(at)| at),
        renewed: spec.renew_time.map(|MicroTime(at)| at),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::api::{Patch, PatchParams};
    use kube_sim::{Effect, InjectedFault, Server};
    use serde_json::json;

    fn lease(server: &Server, identity: &str) -> Lease {
        let client = server.client_as(identity);
        Lease::new(client, "default", "one".to_owned(), identity.to_owned(), Clock::system())
    }

    fn verbs(server: &Server, client: &str) -> Vec<String> {
        let requests = server.requests().into_iter();
        requests.filter(|request| request.client == client).map(|request| request.verb).collect()
    }

    #[tokio::test]
    async fn a_renewal_is_one_request_and_overwrites_no_change_of_others() {
        let server = Server::new();
        let first = lease(&server, "a");
        for _ in 0..3 {
            assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        }
        assert_eq!(verbs(&server, "a"), ["get", "create", "update", "update"]);

        let others: Api<Object> = Api::namespaced(server.client_as("b"), "default");
        let note = json!({"metadata": {"annotations": {"example.com/note": "mine"}}});
        others.patch("one", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        assert_eq!(verbs(&server, "a")[4..], ["update", "get", "update"]);
        let stored = others.get("one").await.unwrap();
        assert!(stored.metadata.annotations.unwrap().contains_key("example.com/note"));
        assert_eq!(stored.spec.unwrap().holder_identity.as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn a_lease_that_another_one_has_taken_is_not_renewed() {
        let server = Server::new();
        let (first, second) = (lease(&server, "a"), lease(&server, "b"));
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        assert!(matches!(second.attempt(|_| true).await.unwrap(), LeaseAttempt::Held));
        let LeaseAttempt::By(holder) = first.attempt(|_| false).await.unwrap() else {
            panic!("two hold the Lease");
        };
        assert_eq!(holder.identity, "b");
        second.release().await.unwrap();
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        assert!(matches!(second.attempt(|_| false).await.unwrap(), LeaseAttempt::By(_)));
    }

    #[tokio::test]
    async fn a_deleted_lease_and_a_lost_answer_are_no_obstacles() {
        let server = Server::new();
        let first = lease(&server, "a");
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        first.api.delete("one", &DeleteParams::default()).await.unwrap();
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
        let update = |request: &kube_sim::RequestRecord| request.verb == "update";
        server.inject(InjectedFault::new(Effect::StatusAfterApplying(504), update));
        first.attempt(|_| false).await.unwrap_err();
        assert!(matches!(first.attempt(|_| false).await.unwrap(), LeaseAttempt::Held));
    }
}
