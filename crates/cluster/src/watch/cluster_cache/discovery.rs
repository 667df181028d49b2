//! API discovery: the kinds of a cluster. Repeated when a kind is missing or a definition
//! has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kube::core::discovery::ApiResource;
use kube::core::gvk::GroupVersionKind as KubeKind;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use tokio::time::Instant;

use crate::watch::failure::{self, error_reason, has_code, is_transient};
use wavegate_api::kind::{Capabilities, GroupVersionKind, Served};

/// A missing kind does not cause another discovery within this time, unless a definition
/// has changed: a typo must not cause one per reconcile.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// A failed discovery is not repeated within this time.
const AFTER_FAILURE: Duration = Duration::from_secs(3);

/// The version of a cluster is read again after this time: no event reports an upgrade.
const VERSION_KEPT: Duration = Duration::from_secs(600);

/// Maximum number of attempts before groups that fail are left out.
const TRIES: u32 = 5;
/// Pause before the second attempt; it grows with each attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// The last discovery of one cluster.
#[derive(Default)]
pub(super) struct KnownKinds {
    found: Option<(Discovery, Instant)>,
    /// Kinds that were resolved from it, with path and scope: searching all kinds for
    /// each object is too slow.
    exact: HashMap<GroupVersionKind, (ApiResource, bool)>,
    /// Why the last discovery failed, and when: a server that does not answer must not be
    /// asked by one Application after the other, each for the whole timeout.
    failed: Option<(String, Instant)>,
    /// Groups that failed, and why: an unavailable aggregated API must not make all other
    /// kinds unknown.
    silent: BTreeMap<String, String>,
    /// The versions of these groups, which the server lists nevertheless.
    silent_versions: BTreeSet<String>,
    /// The version of the cluster, and when it was read.
    version: Option<(String, Instant)>,
    /// Version and kinds of the last discovery, and those of the one before, which are
    /// still true of groups that failed since.
    capabilities: Option<Capabilities>,
    before: Option<Capabilities>,
}

impl std::fmt::Debug for KnownKinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("asked", &self.found.is_some()).finish()
    }
}

impl KnownKinds {
    /// Makes the next call run a discovery.
    pub fn forget(&mut self) {
        self.found = None;
        self.exact.clear();
        if let Some(capabilities) = self.capabilities.take() {
            self.before = Some(capabilities);
        }
    }

    /// Version and kinds of the cluster.
    pub async fn capabilities(
        &mut self,
        client: &kube::Client,
    ) -> Result<Capabilities, kube::Error> {
        if self.version.as_ref().is_none_or(|(_, at)| at.elapsed() >= VERSION_KEPT) {
            let version = match (client.apiserver_version().await, &self.version) {
                (Ok(info), _) => plain_version(&info.git_version),
                // A read that failed changes nothing.
                (Err(_), Some((known, _))) => known.clone(),
                (Err(error), None) => return Err(error),
            };
            if self.version.as_ref().is_some_and(|(known, _)| *known != version) {
                self.forget();
            }
            self.version = Some((version, Instant::now()));
        }
        if let Some(kept) = &self.capabilities {
            return Ok(kept.clone());
        }
        let mut all = BTreeSet::new();
        for group in self.fresh(client).await?.groups() {
            for version in group.versions() {
                let prefix = match group.name() {
                    "" => version.to_owned(),
                    name => format!("{name}/{version}"),
                };
                // Reviews and bindings are requests, and not objects: as in Argo CD, they are none
                // of the kinds that a chart may look for.
                let kinds = group.versioned_resources(version);
                for (resource, _) in kinds.iter().filter(|(_, of)| is_watchable(of)) {
                    all.insert(format!("{prefix}/{}", resource.kind));
                    all.insert(prefix.clone());
                }
            }
        }
        // A group that does not answer is not gone: charts would leave its objects out.
        all.extend(self.silent_versions.iter().cloned());
        let before = self.before.iter().flat_map(|before| before.api_versions.iter());
        let is_silent = |name: &&String| {
            let versions = self.silent_versions.iter();
            versions.into_iter().any(|version| {
                name.strip_prefix(version.as_str()).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        all.extend(before.filter(is_silent).cloned());
        let version = self.version.as_ref().map(|(version, _)| version.clone());
        let capabilities = Capabilities {
            version: version.unwrap_or_default(),
            api_versions: all.into_iter().collect(),
        };
        self.capabilities = Some(capabilities.clone());
        Ok(capabilities)
    }

    /// Why a very recent discovery failed.
    pub fn recent_failure(&self) -> Option<String> {
        let recent = self.failed.as_ref().filter(|(_, at)| at.elapsed() < AFTER_FAILURE);
        recent.map(|(reason, _)| reason.clone())
    }

    /// Records that a discovery failed.
    pub fn fail(&mut self, reason: &str) {
        self.failed = Some((reason.to_owned(), Instant::now()));
    }

    /// A kind in exactly this version.
    async fn exact(
        &mut self,
        client: &kube::Client,
        kind: &GroupVersionKind,
    ) -> Result<Option<(ApiResource, bool)>, kube::Error> {
        if let Some(found) = self.exact.get(kind) {
            return Ok(Some(found.clone()));
        }
        let found = readable(self.fresh(client).await?, kind);
        let found = found
            .map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced));
        if let Some(found) = &found {
            self.exact.insert(kind.clone(), found.clone());
        }
        Ok(found)
    }

    async fn fresh(&mut self, client: &kube::Client) -> Result<&Discovery, kube::Error> {
        if self.found.is_none() {
            self.silent.clear();
            self.silent_versions.clear();
            let found = match discover(client).await {
                Ok(found) => found,
                Err(error) => self.without_silent(client, error).await?,
            };
            self.found = Some((found, Instant::now()));
            self.failed = None;
        }
        match &self.found {
            Some((found, _)) => Ok(found),
            None => unreachable!("it was set above"),
        }
    }

    /// Runs the discovery group by group after some of them failed.
    async fn without_silent(
        &mut self,
        client: &kube::Client,
        error: kube::Error,
    ) -> Result<Discovery, kube::Error> {
        for group in client.list_api_groups().await?.groups {
            match kube::discovery::group(client, &group.name).await {
                Ok(_) => {}
                Err(error) if has_code(&error, 404) => {}
                Err(error) => {
                    let versions = group.versions.into_iter();
                    self.silent_versions.extend(versions.map(|version| version.group_version));
                    self.silent.insert(group.name, error_reason(&error));
                }
            }
        }
        if self.silent.is_empty() {
            return Err(error);
        }
        let silent: Vec<&str> = self.silent.keys().map(String::as_str).collect();
        Discovery::new(client.clone()).exclude(&silent).run().await
    }

    /// Lets the next use repeat the discovery if groups failed, unless the last one is very
    /// recent.
    pub fn forget_silent(&mut self) {
        let is_recent = self.found.as_ref().is_some_and(|(_, at)| at.elapsed() < MIN_INTERVAL);
        if !self.silent.is_empty() && !is_recent {
            self.forget();
        }
    }

    /// Repeats the discovery unless the last one is very recent.
    async fn repeat(&mut self, client: &kube::Client) -> Result<bool, kube::Error> {
        if self.found.as_ref().is_some_and(|(_, at)| at.elapsed() < MIN_INTERVAL) {
            return Ok(false);
        }
        self.forget();
        self.fresh(client).await?;
        Ok(true)
    }

    /// All kinds that can be listed and watched, each in its preferred version and with
    /// whether it is namespaced, and the groups that failed.
    pub async fn listable(
        &mut self,
        client: &kube::Client,
    ) -> Result<(Vec<(ApiResource, bool)>, BTreeMap<String, String>), kube::Error> {
        let groups = self.fresh(client).await?.groups();
        let kinds = groups.flat_map(kube::discovery::ApiGroup::resources_by_stability);
        let kinds = kinds.filter(|(_, capabilities)| is_watchable(capabilities));
        let namespaced = |capabilities: &ApiCapabilities| capabilities.scope == Scope::Namespaced;
        let mut kinds: Vec<(ApiResource, bool)> =
            kinds.map(|(resource, of)| (resource, namespaced(&of))).collect();
        // Groups are in no order.
        kinds.sort_by(|(one, _), (other, _)| {
            (&one.group, &one.version, &one.kind).cmp(&(&other.group, &other.version, &other.kind))
        });
        Ok((kinds, self.silent.clone()))
    }

    pub async fn resolve(
        &mut self,
        client: &kube::Client,
        kind: &GroupVersionKind,
    ) -> Result<Served, kube::Error> {
        if let Some((_, namespaced)) = self.exact(client, kind).await? {
            return Ok(if namespaced { Served::Namespaced } else { Served::ClusterScoped });
        }
        let found = lookup(self.fresh(client).await?, kind);
        if let Some(reason) = self.silent.get(&kind.group).cloned() {
            let again = self.repeat(client).await?;
            return match again && !self.silent.contains_key(&kind.group) {
                true => Ok(lookup(self.fresh(client).await?, kind)),
                false => Ok(Served::Failed(format!("the API group is not available: {reason}"))),
            };
        }
        if matches!(found, Served::Missing { .. }) && self.repeat(client).await? {
            return Ok(lookup(self.fresh(client).await?, kind));
        }
        Ok(found)
    }

    pub async fn resource(
        &mut self,
        client: &kube::Client,
        kind: &GroupVersionKind,
        any_version: bool,
    ) -> Result<Option<(ApiResource, bool)>, kube::Error> {
        if let Some(found) = self.exact(client, kind).await? {
            return Ok(Some(found));
        }
        let found = path(self.fresh(client).await?, kind, any_version);
        if found.is_none() && self.repeat(client).await? {
            return Ok(path(self.fresh(client).await?, kind, any_version));
        }
        Ok(found)
    }
}

/// Discovers all groups, with retries on transient errors: a group that counts as
/// unavailable fails all its users. A group that was removed after the server had named
/// it is 404.
async fn discover(client: &kube::Client) -> Result<Discovery, kube::Error> {
    let pause = |error: &kube::Error, tries| {
        // 401: credentials that are being replaced (SE-205).
        (is_transient(error) || has_code(error, 404) || has_code(error, 401)).then(|| PAUSE * tries)
    };
    failure::retry_request(TRIES, pause, || Discovery::new(client.clone()).run()).await
}

/// A version without `v`, pre-release and build: charts compare with plain versions.
pub(super) fn plain_version(version: &str) -> String {
    let version = version.trim_start_matches('v');
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    version[..end].trim_end_matches('.').to_owned()
}

/// Whether objects of a kind can be listed and watched.
fn is_watchable(of: &ApiCapabilities) -> bool {
    of.supports_operation(verbs::LIST) && of.supports_operation(verbs::WATCH)
}

/// A kind whose objects can be read (SE-205): not that of a review, which is only created.
fn readable(
    discovery: &Discovery,
    kind: &GroupVersionKind,
) -> Option<(ApiResource, ApiCapabilities)> {
    let found = discovery.resolve_gvk(&kube_kind(kind));
    found.filter(|(_, capabilities)| capabilities.supports_operation(verbs::GET))
}

fn lookup(discovery: &Discovery, kind: &GroupVersionKind) -> Served {
    match readable(discovery, kind) {
        Some((_, capabilities)) if capabilities.scope == Scope::Namespaced => Served::Namespaced,
        Some(_) => Served::ClusterScoped,
        None => {
            let own = discovery.get(&kind.group).into_iter();
            // Of another group, the same one each time.
            let mut others: Vec<_> = discovery.groups().collect();
            others.sort_by_key(|group| group.name());
            let kinds = own.chain(others).flat_map(|group| group.resources_by_stability());
            let mut kinds = kinds.filter(|(_, of)| of.supports_operation(verbs::GET));
            let found = kinds.find(|(found, _)| found.kind == kind.kind).map(|(found, _)| found);
            let installed = found.map(|found| (found.group, found.version));
            Served::Missing { installed }
        }
    }
}

fn path(
    discovery: &Discovery,
    kind: &GroupVersionKind,
    any_version: bool,
) -> Option<(ApiResource, bool)> {
    let exact = readable(discovery, kind);
    let preferred = || discovery.get(&kind.group)?.recommended_kind(&kind.kind);
    let found = exact.or_else(|| if any_version { preferred() } else { None });
    found.map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced))
}

fn kube_kind(kind: &GroupVersionKind) -> KubeKind {
    KubeKind::gvk(&kind.group, &kind.version, &kind.kind)
}
