//! The shared cache of the control plane: ApplicationSets, Applications, AppProjects, the
//! Secrets of clusters and repositories, RolloutPolicies and RolloutRuns.
//!
//! ```text
//! API server ── one watch per kind ──> cache ──> changes ──> both controllers
//! own writes ─────────────────────────^
//! ```
//!
//! There is one watch per kind and one copy of each object. The response to an own write
//! is used at once, by both controllers, until the watch has a newer version.
//!
//! RolloutPolicies and RolloutRuns are optional: where their definitions are not installed, or
//! an older role does not permit to read them, there are none, and they are asked for again.

mod cache;
mod clusters;
mod kind;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::failure::{error_reason, existing_object, has_code};
use super::follow::{follow_listings, with_log_except};
use super::object::{StoredObject, kind_api};
use super::trust::Trust;
use wavegate_api::Raw;
use wavegate_api::annotations::{SECRET_TYPE_CLUSTER, SECRET_TYPE_LABEL};
use wavegate_api::cluster::ClusterSecret;

pub use cache::{Cache, ObjectChange, Origin, OwnWrite, SetOwner, set_owner};
pub use clusters::{cluster_secret, clusters_of};
pub use kind::Kind;

/// Objects per page of a listing.
const PAGE: u32 = 500;
/// Pause before an absent kind is asked for again: two small requests, for as long as the
/// process runs where it is never installed.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// Pause before a kind is listed anew whose watch was refused: where only the verb `watch` is
/// missing in a role, it is listed this often.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Kinds that the server refuses to list, and why.
pub type UnreadKind = BTreeMap<Kind, String>;

/// A kind of the control plane must not be watched any more: what is known of it would go
/// stale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot watch {what}: {reason}")]
pub struct Forbidden {
    /// The kind.
    pub what: &'static str,
    /// The message of the server.
    pub reason: String,
}

/// What is watched.
#[derive(Clone, Debug)]
pub struct WatchedScope {
    /// The namespace of projects and Secrets.
    pub namespace: String,
    /// Whether ApplicationSets, and with them RolloutPolicies and RolloutRuns, are watched in
    /// all namespaces, or only in that one.
    pub sets_everywhere: bool,
    /// The same for Applications.
    pub applications_everywhere: bool,
    /// Whether Applications are synced by this process. Then the credentials of clusters
    /// are needed, and a forbidden kind is an error; otherwise the Secrets of clusters are
    /// kept without credentials.
    pub syncs: bool,
}

/// The caches.
#[derive(Debug)]
pub struct ControlPlane {
    scope: WatchedScope,
    /// ApplicationSets.
    pub sets: Arc<Cache>,
    /// Applications.
    pub applications: Arc<Cache>,
    /// AppProjects.
    pub projects: Arc<Cache>,
    /// Secrets of clusters and repositories.
    pub secrets: Arc<Cache>,
    /// RolloutPolicies.
    pub policies: Arc<Cache>,
    /// RolloutRuns.
    pub runs: Arc<Cache>,
    /// Whether the log says that they are not available.
    said_absent: AtomicBool,
    unread: tokio::sync::watch::Sender<UnreadKind>,
    /// Keys and certificates of Git servers.
    pub trust: Arc<Trust>,
}

impl ControlPlane {
    /// Empty caches; [`Self::run`] starts the watches.
    pub fn new(scope: WatchedScope) -> Self {
        Self::trusting(scope, Arc::default())
    }

    /// The same with what is known already about whom to trust.
    pub fn trusting(scope: WatchedScope, trust: Arc<Trust>) -> Self {
        Self {
            scope,
            sets: Arc::new(Cache::new(Kind::ApplicationSet)),
            applications: Arc::new(Cache::new(Kind::Application)),
            projects: Arc::new(Cache::new(Kind::Project)),
            secrets: Arc::new(Cache::new(Kind::Secret)),
            policies: Arc::new(Cache::new(Kind::Policy)),
            runs: Arc::new(Cache::new(Kind::Run)),
            said_absent: AtomicBool::new(false),
            unread: tokio::sync::watch::Sender::default(),
            trust,
        }
    }

    /// The kinds that must not be listed, for those who wait for them. They are listed again
    /// until they can be.
    pub fn unread(&self) -> tokio::sync::watch::Receiver<UnreadKind> {
        self.unread.subscribe()
    }

    /// Waits until every kind was listed once; an optional one may be known to be absent.
    pub async fn listed(&self) {
        self.sets.listed().await;
        self.policies.listed().await;
        self.runs.listed().await;
        self.listed_for_applications().await;
    }

    /// The same without ApplicationSets, which the Application controller does not need.
    pub async fn listed_for_applications(&self) {
        self.applications.listed().await;
        self.projects.listed().await;
        self.secrets.listed().await;
        self.trust.listed().await;
    }

    /// Whether RolloutPolicies can be read.
    pub fn has_policies(&self) -> bool {
        self.policies.is_available()
    }

    /// Whether RolloutRuns can be read.
    pub fn has_runs(&self) -> bool {
        self.runs.is_available()
    }

    /// Whether there may be RolloutPolicies although none can be read.
    pub fn hides_policies(&self) -> bool {
        self.policies.is_hidden()
    }

    /// Whether there may be RolloutRuns although none can be read.
    pub fn hides_runs(&self) -> bool {
        self.runs.is_hidden()
    }

    /// The cluster Secrets, without their credentials, by name.
    pub fn clusters(&self) -> Vec<ClusterSecret> {
        let secrets = self.secrets.all();
        let read = |object: &StoredObject| cluster_secret(&object.read::<Secret>().ok()?);
        let mut clusters: Vec<ClusterSecret> = secrets.iter().filter_map(read).collect();
        clusters.sort();
        clusters
    }

    /// Watches until `stop`.
    ///
    /// # Errors
    ///
    /// [`Forbidden`] when Applications are synced by this process and a kind that is
    /// needed for it must not be listed any more: after a restart, nothing is decided before
    /// it can be. All other errors are logged and retried.
    pub async fn run(&self, client: &Client, stop: &CancellationToken) -> Result<(), Forbidden> {
        // On the heap, as each of them is large, and all of them are part of one task.
        let watches = async {
            let [sets, applications, projects, secrets, policies, runs] = [
                &self.sets,
                &self.applications,
                &self.projects,
                &self.secrets,
                &self.policies,
                &self.runs,
            ]
            .map(|cache| Box::pin(self.follow_again(client, cache)));
            let trust = async {
                self.trust.follow(client, &self.scope.namespace).await;
                Ok(())
            };
            tokio::try_join!(sets, applications, projects, secrets, policies, runs, trust).map(drop)
        };
        stop.run_until_cancelled(watches).await.unwrap_or(Ok(()))
    }

    /// Watches a kind while that is possible, and again after a pause.
    async fn follow_again(&self, client: &Client, cache: &Arc<Cache>) -> Result<(), Forbidden> {
        loop {
            let pause = self.follow(client, cache).await?;
            tokio::time::sleep(pause).await;
        }
    }

    /// Watches a kind until an optional one is absent, or until the watch is refused: the library
    /// would ask for the same watch again, and never list what has changed. Returns the pause until
    /// the next attempt.
    async fn follow(&self, client: &Client, cache: &Arc<Cache>) -> Result<Duration, Forbidden> {
        let kind = cache.kind();
        let everywhere = match kind {
            Kind::ApplicationSet | Kind::Policy | Kind::Run => self.scope.sets_everywhere,
            Kind::Application => self.scope.applications_everywhere,
            Kind::Project | Kind::Secret => false,
        };
        let namespace = (!everywhere).then_some(self.scope.namespace.as_str());
        let api = kind_api(client, namespace, &kind.resource());
        let mut config = watcher::Config::default().page_size(PAGE);
        if kind == Kind::Secret {
            config = config.labels(SECRET_TYPE_LABEL);
        }
        let asked = Arc::clone(cache);
        let events = follow_listings(api, config, move || asked.begin());
        // That a kind is absent is logged once, for all of them.
        let known = Arc::clone(cache);
        let is_quiet = move |error: &watcher::Error| {
            kind.is_optional() && !known.is_available() && absence(error).is_some()
        };
        let mut events = with_log_except(events, kind.plural().to_owned(), is_quiet);
        let mut seen = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(object)) => {
                    seen.insert(object.key());
                    cache.put(self.kept(kind, object), Origin::Watch);
                }
                Ok(Event::Apply(object)) => cache.put(self.kept(kind, object), Origin::Watch),
                Ok(Event::Delete(object)) => cache.deleted(&object),
                Ok(Event::InitDone) => {
                    self.unread.send_if_modified(|all| all.remove(&kind).is_some());
                    let unsure = cache.end(&std::mem::take(&mut seen));
                    self.read_unsure(client, cache, unsure).await;
                    if kind.is_optional() && self.has_policies() && self.has_runs() {
                        self.said_absent.store(false, Ordering::Relaxed);
                    }
                }
                // Whether it may be read at all, the next listing shows.
                Err(watcher::Error::WatchStartFailed(cause)) if is_refusal(&cause) => {
                    return Ok(REFUSED_PAUSE);
                }
                Err(error) if kind.is_optional() => {
                    if let Some(absence) = absence(&error)
                        && self.is_absent(client, cache, absence).await
                    {
                        return Ok(ABSENT_PAUSE);
                    }
                }
                Err(error) => self.check(cache, &error)?,
            }
        }
        Ok(REFUSED_PAUSE)
    }

    /// The part of an object that is kept.
    fn kept(&self, kind: Kind, object: StoredObject) -> StoredObject {
        if kind != Kind::Secret || self.scope.syncs {
            return object;
        }
        let mut secret = object.parse();
        if secret.label(SECRET_TYPE_LABEL) == Some(SECRET_TYPE_CLUSTER)
            && let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut)
        {
            data.retain(|key, _| matches!(key.as_str(), "name" | "server" | "project"));
        }
        secret.into()
    }

    /// Records a kind that must not be listed, or returns an error when it could be listed
    /// before.
    fn check(&self, cache: &Cache, error: &watcher::Error) -> Result<(), Forbidden> {
        let watcher::Error::InitialListFailed(cause) = error else { return Ok(()) };
        if !is_refusal(cause) {
            return Ok(());
        }
        let (kind, is_refused) = (cache.kind(), has_code(cause, 403));
        let why = error_reason(cause);
        if is_refused && self.scope.syncs && kind != Kind::ApplicationSet && cache.is_listed() {
            return Err(Forbidden { what: kind.plural(), reason: why });
        }
        self.unread.send_if_modified(|all| all.insert(kind, why.clone()).as_ref() != Some(&why));
        Ok(())
    }

    /// Whether an optional kind is absent, which is recorded. One that could be read before
    /// must not disappear by mistake, since its objects hold rollouts: what is known of it
    /// stays while the server only refuses to list it, and while its definition exists.
    async fn is_absent(&self, client: &Client, cache: &Cache, absence: Absence) -> bool {
        let (why, remedy, is_hidden) = match absence {
            Absence::Refused(_) if cache.is_available() => return false,
            Absence::Refused(why) => (
                why,
                "to use them, permit to get, list and watch them, as deploy/rbac.yaml does",
                true,
            ),
            Absence::Missing(why) => {
                let definitions = Api::<StoredObject>::all_with(
                    client.clone(),
                    &ApiResource::erase::<CustomResourceDefinition>(&()),
                );
                let resource = cache.kind().resource();
                let name = format!("{}.{}", resource.plural, resource.group);
                let is_hidden = match definitions.get_opt(&name).await {
                    // Not served yet, or not by this server.
                    Ok(Some(_)) => {
                        tracing::debug!(kind = cache.kind().plural(), error = why, "not served");
                        return false;
                    }
                    // Without the permission to read definitions, the first answer counts.
                    Err(error) if !has_code(&error, 403) || cache.is_available() => return false,
                    Ok(None) => false,
                    Err(_) => true,
                };
                (why, "to install the definitions, apply the output of wavegate crds", is_hidden)
            }
        };
        cache.absent(is_hidden);
        if !self.said_absent.swap(true, Ordering::Relaxed) {
            let plural = cache.kind().plural();
            let what = "rollouts are not recorded, and no RolloutPolicy applies: cannot watch";
            match is_hidden {
                // There may be policies that hold rollouts, and they do not.
                true => tracing::warn!("{what} {plural}: {why}; {remedy}"),
                false => tracing::info!("{what} {plural}: {why}; {remedy}"),
            }
        }
        true
    }

    /// Reads objects whose existence the listing does not show.
    async fn read_unsure(&self, client: &Client, cache: &Cache, unsure: Vec<StoredObject>) {
        for object in unsure {
            let namespace = Some(object.namespace());
            let api: Api<StoredObject> = kind_api(client, namespace, &cache.kind().resource());
            match existing_object(api.get(object.name()).await) {
                Ok(Some(found)) if found.uid() == object.uid() => {}
                Ok(_) => cache.deleted(&object),
                // The next listing shows it.
                Err(error) => {
                    tracing::debug!(key = %object.key(), error = error_reason(&error), "cannot read the object");
                }
            }
        }
    }
}

/// Whether the server refuses this user, whatever is asked for.
fn is_refusal(error: &kube::Error) -> bool {
    has_code(error, 401) || has_code(error, 403)
}

/// Why an optional kind cannot be read, with the message of the server.
enum Absence {
    /// It is not served.
    Missing(String),
    /// It must not be listed.
    Refused(String),
}

/// Whether an error is about the kind as a whole.
fn absence(error: &watcher::Error) -> Option<Absence> {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)
            if has_code(error, 404) =>
        {
            Some(Absence::Missing(error_reason(error)))
        }
        watcher::Error::InitialListFailed(error) if has_code(error, 403) => {
            Some(Absence::Refused(error_reason(error)))
        }
        _ => None,
    }
}
