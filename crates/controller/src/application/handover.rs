//! What other Applications have of the objects that an Application does not have any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::comparisons::{ComparisonEnd, repository_place};
use super::destination::ResolvedDestination;
use super::observe::{ObservedApplication, Purpose};
use super::reconciliation::Reconciliation;
use wavegate_api::listed::ListedApplication;
use wavegate_api::tracking::from_instance_name;
use wavegate_api::{
    ApplicationSpec, ApplicationStatus, ObjectKey, Raw, ResourceKey, SyncStatusCode,
};
use wavegate_application::access;
use wavegate_application::errors::ObserveError;
use wavegate_application::handover::{HeldObjects, claimed_rows, claimed_targets};
use wavegate_application::observation::Live;
use wavegate_application::project::Permits;
use wavegate_application::request::{ComparisonRequest, Level};
use wavegate_application::status::compared_to;
use wavegate_application::{Placed, PlacedTarget};
use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_engine::names::some_of;
use wavegate_engine::sync::Handover;

/// How many Applications a message names.
const NAMED: usize = 5;

impl Reconciliation<'_> {
    /// Says what the Application has in its source. What is being deleted has nothing.
    pub(super) fn claim(
        &mut self,
        destination: &ResolvedDestination,
        targets: &[PlacedTarget],
        purpose: &Purpose,
    ) {
        let (cluster, instance) = (&destination.destination.cluster, &self.tracking.instance);
        let claimed = || claimed_targets(&destination.access(), targets);
        match purpose {
            Purpose::HeldBack(_) => self.parsed.held = claimed(),
            Purpose::Comparison(revisions) if !self.app.raw().is_deleting() => {
                let (claimed, held) = (claimed(), &self.parsed.held);
                cluster.claim(instance, claimed.union(held), revisions);
            }
            Purpose::Comparison(_) | Purpose::Deletion => cluster.claim(instance, [], &[]),
            Purpose::Operation(_) => {}
        }
    }

    /// Says to those who wait for it that it is known what the Application has in its source.
    pub(super) fn announce(
        &self,
        observed: &Result<ObservedApplication, ObserveError>,
        level: Level,
    ) {
        let end = match observed {
            Ok(seen) => {
                let sources = seen.destination.spec.sources();
                // Of a commit that was known before, there may be a newer one.
                let is_newest = level >= Level::Revision
                    || self.ctx.revisions.are_last(&sources, &seen.revisions);
                is_newest.then_some(ComparisonEnd::Known)
            }
            Err(ObserveError::Refused(_)) => {
                if let Some(cluster) = &self.cached.cluster {
                    cluster.claim(&self.tracking.instance, [], &[]);
                }
                Some(ComparisonEnd::Known)
            }
            Err(error) => (!error.is_transient()).then_some(ComparisonEnd::Unknown),
        };
        if let Some(end) = end {
            self.ctx.comparisons.ended(self.key, self.mark, end);
        }
    }

    /// The same where there is no reason to compare it: it was compared with what is newest, or an
    /// operation has found a newer commit.
    pub(super) fn announce_last(&self) {
        let comparisons = &self.ctx.comparisons;
        if self.cached.memory.postponed.is_some() || !comparisons.is_expected(self.key) {
            return;
        }
        let spec = wavegate_api::read_leniently::<ApplicationSpec>(self.app.raw().spec());
        let revisions = self.app.status.sync.revisions();
        match self.ctx.revisions.are_last(&spec.sources(), &revisions) {
            true => comparisons.ended(self.key, self.mark, ComparisonEnd::Known),
            false => self.ctx.queue.enqueue(self.key, ComparisonRequest::new(Level::Revision)),
        }
    }

    /// What is not deleted of the live objects, since other Applications have it in their sources,
    /// or are compared first.
    pub(super) fn handovers(
        &self,
        destination: &ResolvedDestination,
        placed: &Placed,
        live: &Live,
        purpose: &Purpose,
    ) -> BTreeMap<ResourceKey, Handover> {
        let (cluster, instance) = (&destination.destination.cluster, &self.tracking.instance);
        let extra = self.extra(destination, placed, live, purpose);
        let held: Vec<(&ResourceKey, HeldObjects)> =
            extra.iter().map(|(key, object)| (*key, HeldObjects::of(object))).collect();
        if !matches!(purpose, Purpose::HeldBack(_)) {
            let claims: Vec<ResourceKey> =
                held.iter().flat_map(|(key, held)| held.claims(key)).collect();
            cluster.follow(instance, &claims);
        }
        let mut handovers = BTreeMap::new();
        let mut open = BTreeSet::new();
        for (key, held) in held {
            let others = self.having(cluster, key, &held, purpose);
            match others.is_empty() {
                true => drop(open.insert(key.clone())),
                false => {
                    handovers.insert(key.clone(), Handover::Left(some_of(others, NAMED)));
                }
            }
        }
        if !open.is_empty() {
            handovers.extend(self.undecided(destination, open, purpose));
        }
        handovers
    }

    /// The live objects of the Application that it does not have any more.
    fn extra<'l>(
        &self,
        destination: &ResolvedDestination,
        placed: &Placed,
        live: &'l Live,
        purpose: &Purpose,
    ) -> BTreeMap<&'l ResourceKey, &'l Arc<Value>> {
        let mut named: BTreeSet<&ResourceKey> = BTreeSet::new();
        let spec = &destination.spec;
        let own_namespace = ResourceKey::new("", "Namespace", "", &spec.destination.namespace);
        if *purpose != Purpose::Deletion {
            named.extend(placed.targets.iter().map(|target| &target.key));
            // Its metadata are those of this Application.
            let policy = spec.sync_policy.as_ref();
            let managed = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
            named.extend(managed.map(|_| &own_namespace));
        }
        let is_own =
            |object: &Value| self.tracking.owns(object) && object.owners().next().is_none();
        live.iter().filter(|(key, object)| !named.contains(key) && is_own(object)).collect()
    }

    /// The other Applications that claim an object, or track what is deleted with it.
    fn having(
        &self,
        cluster: &ClusterCache,
        key: &ResourceKey,
        held: &HeldObjects,
        purpose: &Purpose,
    ) -> BTreeSet<String> {
        let claims = held.claims(key);
        let mut others: BTreeSet<String> =
            claims.iter().flat_map(|key| cluster.claiming(key)).collect();
        // What goes back to earlier revisions leaves what others had at these.
        if let Purpose::Operation(revisions) | Purpose::HeldBack(revisions) = purpose {
            others.extend(claims.iter().flat_map(|key| cluster.claiming_at(key, revisions)));
        }
        others.extend(match held {
            HeldObjects::None => BTreeSet::new(),
            HeldObjects::OfNamespace(namespace) => cluster.tracking_in(namespace),
            HeldObjects::OfKind(group, kind) => cluster.tracking_of(group, kind),
        });
        others.remove(&self.tracking.instance);
        let control_plane = &self.ctx.settings.control_plane_namespace;
        let keys = others.iter().map(|other| {
            let (namespace, name) = from_instance_name(other, control_plane);
            ObjectKey::new(namespace, name)
        });
        keys.filter(|key| self.alive(key).is_some()).map(|key| key.to_string()).collect()
    }

    /// An Application that is not being deleted.
    fn alive(&self, key: &ObjectKey) -> Option<ListedApplication> {
        let stored = self.ctx.core.control_plane.applications.get(key)?;
        let listed: ListedApplication = stored.read_leniently();
        listed.metadata.deletion_timestamp.is_none().then_some(listed)
    }

    /// The same of objects that nobody else is known to have: those who share a repository may have
    /// them at the commit that is newest now. What was in their sources last counts if they cannot
    /// be compared.
    fn undecided(
        &self,
        destination: &ResolvedDestination,
        open: BTreeSet<ResourceKey>,
        purpose: &Purpose,
    ) -> Vec<(ResourceKey, Handover)> {
        let (ctx, server) = (self.ctx, &destination.destination.server);
        let sources = destination.spec.sources();
        let repositories: BTreeSet<String> =
            sources.iter().map(|source| repository_place(&source.repo_url)).collect();
        let acts = matches!(purpose, Purpose::Operation(_) | Purpose::Deletion);
        if acts {
            for other in ctx.revisions.behind(self.key, &sources) {
                ctx.comparisons.expect(&other, repositories.iter().cloned());
                ctx.queue.enqueue(&other, ComparisonRequest::new(Level::Newest));
            }
        }
        let is_near = |other: &ObjectKey| {
            let listed = self.alive(other);
            listed.is_some_and(|one| ctx.clusters.server_of(&one.spec.destination) == *server)
        };
        let others = ctx.comparisons.others(self.key, &repositories);
        let (awaited, failed): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, is)| *is);
        let near = awaited.into_iter().map(|(other, _)| other).filter(|other| is_near(other));
        let awaited: Vec<ObjectKey> = near.take(NAMED).collect();
        if !awaited.is_empty() {
            let request = ComparisonRequest::new(if acts { Level::None } else { Level::Live });
            ctx.comparisons.wait(self.key, &repositories, request);
            let others = awaited.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let decided = |key: ResourceKey| match self.was_left(&key, purpose) {
                true => (key, Handover::Left(others.clone())),
                false => (key, Handover::Undecided(others.clone())),
            };
            return open.into_iter().map(decided).collect();
        }
        let mut left = BTreeMap::new();
        for (other, _) in failed {
            if !is_near(&other) {
                continue;
            }
            let claimed = self.claimed_last(&other, destination);
            for key in claimed.intersection(&open) {
                left.entry(key.clone()).or_insert_with(|| other.to_string());
            }
        }
        left.into_iter().map(|(key, other)| (key, Handover::Left(other))).collect()
    }

    /// Whether the last comparison with the same revisions has left an object to others. After a
    /// start that counts until they are compared: what is Synced is not synced again meanwhile.
    fn was_left(&self, key: &ResourceKey, purpose: &Purpose) -> bool {
        let (Purpose::Comparison(revisions) | Purpose::HeldBack(revisions)) = purpose else {
            return false;
        };
        let status = &self.app.status;
        let is_known = status.sync.revisions() == *revisions
            && status.sync.status != SyncStatusCode::Unknown
            && status.sync.compared_to == Some(compared_to(self.app.spec()));
        let mut rows = status.resources.iter();
        let is_listed = rows
            .any(|row| ResourceKey::new(&row.group, &row.kind, &row.namespace, &row.name) == *key);
        is_known && !is_listed
    }

    /// What another Application has in its source according to its status.
    fn claimed_last(
        &self,
        key: &ObjectKey,
        destination: &ResolvedDestination,
    ) -> BTreeSet<ResourceKey> {
        let Some(application) = self.ctx.application(key) else { return BTreeSet::new() };
        let spec = wavegate_api::read_typed::<ApplicationSpec>(application.spec());
        let Ok(spec) = spec else { return BTreeSet::new() };
        let project = self.ctx.projects.get(access::project_name(&spec));
        let Some(Ok(project)) = project else { return BTreeSet::new() };
        let (server, cluster) = (&destination.destination.server, &destination.destination.name);
        let status: ApplicationStatus = wavegate_api::read_leniently(application.status());
        claimed_rows(&spec, &Permits { project: &project.spec, server, cluster }, &status)
    }
}
