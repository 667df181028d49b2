//! The inputs of a decision: from a spec to targets and live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::cached_state::Rendered;
use super::context::Context;
use super::destination::{ResolvedDestination, of_cluster};
use super::reconciliation::Reconciliation;
use super::revisions::{WantedRevision, wanted};
use super::target_state::{Deployed, revisions};
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::listed::ListedSpec;
use wavegate_api::resource_filter::KindFilter;
use wavegate_api::sources::InEffect;
use wavegate_api::sync_options::CREATE_NAMESPACE;
use wavegate_api::tracking::Tracking;
use wavegate_api::{ApplicationSource, Raw, ResourceKey, read_leniently};
use wavegate_application::access::{self, Refusal};
use wavegate_application::app::App;
use wavegate_application::deletion_scope::{DeletionPlace, DeletionScope};
use wavegate_application::errors::ObserveError;
use wavegate_application::finalize::UnlistedKinds;
use wavegate_application::observation::{Observation, known_kinds};
use wavegate_application::predicted::Predicted;
use wavegate_application::refresh::Reason;
use wavegate_application::{
    NewCondition, Placed, finalize, held_back, operation, signatures, targets, unlisted_condition,
    unsupported,
};
use wavegate_cluster::watch::cluster_cache::{ClusterCache, SurveyMode};
use wavegate_engine::diff::Schemas;
use wavegate_engine::health::Checks;
use wavegate_engine::sync::{Handover, NamespaceFact};
use wavegate_source::Revision;

/// How long a deletion waits for the first listing of all kinds, per reconcile.
const SURVEYED_WITHIN: Duration = Duration::from_secs(10);

/// The same for an operation that must know from the start what it prunes.
const SURVEYED_FIRST_WITHIN: Duration = Duration::from_secs(60);

/// How often a reconcile goes on with the next connection when the Secret of its cluster
/// changes.
const RECONNECTS: usize = 5;

/// The reads of one observation: those whose connection ended are repeated with the next one.
#[derive(Default)]
pub(super) struct Reconnects(usize);

impl Reconnects {
    /// Whether a read is repeated.
    pub fn repeats<T>(&mut self, read: &Result<T, ObserveError>) -> bool {
        let repeats = matches!(read, Err(ObserveError::Ended(_))) && self.0 < RECONNECTS;
        self.0 += usize::from(repeats);
        repeats
    }
}

/// What an Application is observed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A comparison with these revisions.
    Comparison(Vec<String>),
    /// A comparison with those at which a rollback holds it.
    HeldBack(Vec<String>),
    /// A round of an operation that deploys these.
    Operation(Vec<String>),
    /// A step of a deletion.
    Deletion,
}

/// The target state and the live state.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// The target objects.
    pub placed: Arc<Placed>,
    /// The API resources of their kinds.
    pub kinds: BTreeMap<GroupVersionKind, Served>,
    /// The live objects: those that are tracked and those that a target names.
    pub live: BTreeMap<ResourceKey, Arc<Value>>,
    /// Which of them other Applications have in their sources, or may have.
    pub handovers: BTreeMap<ResourceKey, Handover>,
    /// The health checks, with the results of scripts for the live objects.
    pub checks: Checks,
    /// The schemas of their kinds, of custom ones.
    pub schemas: Arc<Schemas>,
    /// What the API server predicts of objects: empty until it is asked.
    pub predicted: Predicted,
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// The namespace object, if a sync may have to change it.
    pub namespace_object: Option<Arc<Value>>,
}

/// Everything that was observed.
#[derive(Clone, Debug)]
pub struct ObservedApplication {
    /// The destination.
    pub destination: ResolvedDestination,
    /// The cluster.
    pub state: ClusterState,
    /// Target state.
    pub rendered: Rendered,
    /// Why nothing of it is deployed: commits that are not signed as the project demands (SE-080).
    pub refused: Vec<NewCondition>,
    /// Revisions of the sources.
    pub revisions: Vec<String>,
    /// The same for the revisions at which a rollback holds the Application (ST-061).
    pub held: Option<HeldBack>,
    /// The condition about objects that no Application manages (SE-078).
    pub orphans: Option<NewCondition>,
}

/// The state for the revisions at which a rollback holds an Application.
#[derive(Clone, Debug)]
pub struct HeldBack {
    /// These revisions.
    pub revisions: Vec<String>,
    /// The state.
    pub state: Result<ClusterState, ObserveError>,
}

impl ObservedApplication {
    /// The view that decisions take.
    pub fn observation<'a>(&'a self, ctx: &'a Context, tracking: &'a Tracking) -> Observation<'a> {
        self.observation_of(&self.state, ctx, tracking)
    }

    /// The same of another state of the cluster.
    pub fn observation_of<'a>(
        &'a self,
        state: &'a ClusterState,
        ctx: &'a Context,
        tracking: &'a Tracking,
    ) -> Observation<'a> {
        Observation {
            access: self.destination.access(),
            tracking,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
            checks: &state.checks,
            jq: &ctx.jq,
            placed: &state.placed,
            kinds: &state.kinds,
            live: &state.live,
            handovers: &state.handovers,
            schemas: &state.schemas,
            predicted: &state.predicted,
            compared: &ctx.settings.compared,
            namespace: state.namespace.clone(),
            namespace_object: state.namespace_object.clone(),
        }
    }

    /// The summary of the tree below the resources, if resource trees are read.
    pub fn below(&self, ctx: &Context, instance: &str) -> ApplicationSummary {
        ctx.publisher.as_ref().map_or_else(Default::default, |publisher| publisher.below(instance))
    }

    /// Warnings about project, cluster, source and settings.
    pub fn warnings(&self, ctx: &Context) -> Vec<NewCondition> {
        let name = access::project_name(&self.destination.spec);
        let mut warnings: Vec<NewCondition> = self.destination.project.warnings(name).collect();
        let customizations = &ctx.settings.customizations;
        warnings.extend(unsupported::without_effect(customizations, &self.state.placed.targets));
        warnings.extend(unlisted_condition(&self.destination.destination.cluster.unlisted()));
        warnings.extend(self.orphans.clone());
        warnings.extend(self.rendered.conditions());
        warnings.extend(self.refused.iter().cloned());
        warnings
    }
}

fn namespaces() -> GroupVersionKind {
    let [group, version, kind] = ["", "v1", "Namespace"].map(str::to_owned);
    GroupVersionKind { group, version, kind }
}

/// The effective sources, as raw JSON.
pub(super) fn raw_sources(application: &Value) -> Vec<Value> {
    InEffect::of(application.spec()).list.into_owned()
}

/// Whether a sync may have to create or change the destination namespace.
fn creates_namespace(app: &App) -> bool {
    let request = app.status.operation_state.operation.sync.as_ref();
    let requested = request.and_then(|sync| sync.sync_options.as_deref()).unwrap_or_default();
    let own = read_leniently::<ListedSpec>(app.raw().spec()).sync_policy.sync_options;
    own.iter().chain(requested).any(|option| option == CREATE_NAMESPACE)
}

impl Reconciliation<'_> {
    /// Assigns the manifests to the cluster and reads the live objects; also the
    /// destination namespace if a sync needs it. Ends with the connection.
    async fn cluster_state(
        &mut self,
        destination: &ResolvedDestination,
        rendered: &Rendered,
        purpose: Purpose,
    ) -> Result<ClusterState, ObserveError> {
        let cluster = &destination.destination.cluster;
        let read = self.read_cluster(destination, rendered, &purpose);
        cluster.while_connected(read).await.map_err(of_cluster)?
    }

    async fn read_cluster(
        &mut self,
        destination: &ResolvedDestination,
        rendered: &Rendered,
        purpose: &Purpose,
    ) -> Result<ClusterState, ObserveError> {
        let cluster = &destination.destination.cluster;
        let instance = self.tracking.instance.clone();
        let instance = instance.as_str();
        if cluster.reach().survey == SurveyMode::First
            && !self.ctx.lend_slot(cluster.surveyed(SURVEYED_FIRST_WITHIN)).await
        {
            let message =
                format!("not all kinds of the cluster {} are listed yet", cluster.server());
            return Err(ObserveError::Live(message));
        }
        let namespace = &destination.spec.destination.namespace;
        let mut manifests = None;
        let wanted: BTreeSet<GroupVersionKind> = match &self.parsed.placed {
            Some((from, kinds, _)) if *from == rendered.from => kinds.keys().cloned().collect(),
            _ => manifests.insert(rendered.objects()).iter().map(GroupVersionKind::of).collect(),
        };
        // A server that does not answer must not take the slots of all Applications.
        let kinds = self.ctx.lend_slot(kinds(cluster, instance, wanted)).await?;
        // Another cluster may exclude other kinds.
        let same = self.cached.cluster.as_ref().is_some_and(|old| Arc::ptr_eq(old, cluster));
        let placed = match &self.parsed.placed {
            Some((from, by, placed)) if same && *from == rendered.from && *by == kinds => {
                placed.clone()
            }
            _ => {
                let manifests = manifests.unwrap_or_else(|| rendered.objects());
                let filter = &cluster.reach().filter;
                let placed = place(manifests, namespace, &self.tracking, &kinds, filter);
                let placed = Arc::new(placed);
                self.parsed.placed = Some((rendered.from, kinds.clone(), placed.clone()));
                placed
            }
        };

        placed.check(&destination.destination.scope).map_err(ObserveError::Unmanaged)?;
        if let Some(old) = self.cached.cluster.take().filter(|old| !Arc::ptr_eq(old, cluster)) {
            old.leave(instance, cluster);
        }
        self.cached.cluster = Some(cluster.clone());
        self.cached.acting = Some(destination.acting.clone());
        let own_namespace = ResourceKey::new("", "Namespace", "", namespace);
        let keys = placed.targets.iter().map(|target| &target.key);
        cluster.want(instance, keys.chain([&own_namespace]));
        self.claim(destination, &placed.targets, purpose);

        let exists =
            |kind: &&GroupVersionKind| !matches!(kinds.get(kind), Some(Served::Missing { .. }));
        let mut watched: BTreeSet<GroupVersionKind> =
            kinds.keys().filter(exists).cloned().collect();
        watched.extend(known_kinds(&self.app.status));
        watched.extend(cluster.marked(instance));
        // Users of some namespaces may not list them.
        if cluster.reach().namespaces.is_none() {
            watched.insert(namespaces());
        }
        self.ctx.lend_slot(cluster.watch(watched)).await.map_err(of_cluster)?;

        let mut live = cluster.tracked(instance);
        for target in placed.targets.iter().filter(|target| !target.key.name.is_empty()) {
            let kind = GroupVersionKind::of(&target.object);
            // Tracked objects include it in this version.
            if live.get(&target.key).is_some_and(|found| GroupVersionKind::of(found) == kind) {
                continue;
            }
            let found = self.ctx.lend_slot(cluster.get(&kind, &target.key)).await;
            if let Some(found) = found.map_err(of_cluster)? {
                live.insert(target.key.clone(), found);
            }
        }
        let handovers = self.handovers(destination, &placed, &live, purpose);
        let (namespace, namespace_object) = match purpose {
            Purpose::Operation(_) => self.namespace(destination).await,
            _ => (NamespaceFact::Exists, None),
        };
        let checks = self.checks(live.values().chain(&namespace_object)).await;
        let schemas = self.ctx.lend_slot(schemas(cluster, &kinds)).await;
        let predicted = Predicted::new();
        Ok(ClusterState {
            placed,
            kinds,
            live,
            handovers,
            checks,
            schemas,
            predicted,
            namespace,
            namespace_object,
        })
    }

    /// The health checks, with the results of scripts for these objects.
    async fn checks(&mut self, objects: impl Iterator<Item = &Arc<Value>>) -> Checks {
        let (ctx, known) = (self.ctx, Arc::clone(&self.cached.script_results));
        let checks = &ctx.settings.checks;
        let run = ctx.health_scripts.checked(checks, objects, &known, self.now());
        // Without scripts there is nothing to wait for.
        let checks = match checks.scripts.is_empty() {
            true => run.await,
            false => ctx.lend_slot(run).await,
        };
        self.cached.script_results = Arc::clone(&checks.results);
        checks
    }

    async fn namespace(
        &self,
        destination: &ResolvedDestination,
    ) -> (NamespaceFact, Option<Arc<Value>>) {
        let key = ResourceKey::new("", "Namespace", "", &destination.spec.destination.namespace);
        let cluster = &destination.destination.cluster;
        let reach = cluster.reach();
        let unread = reach.filter.excludes("", "Namespace");
        if (unread || reach.namespaces.is_some()) && !creates_namespace(&self.app) {
            // The API server refuses objects of a namespace that does not exist.
            return (NamespaceFact::Exists, None);
        }
        if unread || reach.namespaced_only {
            return (self.unmanaged_namespace(destination, &key).await, None);
        }
        if key.name.is_empty() || !cluster.exists(&namespaces(), &key) {
            return (NamespaceFact::Missing, None);
        }
        if !creates_namespace(&self.app) {
            return (NamespaceFact::Exists, None);
        }
        // The cache may lag behind a deletion, which would be found by the first object only.
        let state = &self.app.status.operation_state;
        let result = state.sync_result.as_ref();
        let begins = result.is_none_or(|result| result.resources.is_empty());
        // Once something was sent, its answer says more.
        let begins = begins && state.progress.is_empty();
        let found = match self.ctx.lend_slot(cluster.resource(&namespaces(), true)).await {
            Ok(Some((resource, _))) if begins => {
                self.ctx.lend_slot(cluster.read(&resource, &key)).await
            }
            _ => self.ctx.lend_slot(Box::pin(cluster.get(&namespaces(), &key))).await,
        };
        match found {
            Ok(Some(found)) => (NamespaceFact::Exists, Some(found)),
            Ok(None) => (NamespaceFact::Missing, None),
            Err(error) => (NamespaceFact::Failed(error.to_string()), None),
        }
    }

    /// Whether the destination namespace exists, where Namespaces are not managed: it can
    /// neither be created nor changed.
    async fn unmanaged_namespace(
        &self,
        destination: &ResolvedDestination,
        key: &ResourceKey,
    ) -> NamespaceFact {
        let cluster = &destination.destination.cluster;
        let found = match self.ctx.lend_slot(cluster.resource(&namespaces(), true)).await {
            Ok(Some((resource, _))) => self.ctx.lend_slot(cluster.read(&resource, key)).await,
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            Ok(Some(_)) => NamespaceFact::Exists,
            Ok(None) => NamespaceFact::Failed(
                match destination.destination.scope.check(&key.kind, "", &key.name) {
                    Err(why) => why,
                    Ok(()) => format!("Namespace {} is excluded in the settings", key.name),
                },
            ),
            Err(error) => NamespaceFact::Failed(error.to_string()),
        }
    }

    /// The inputs of a comparison, from the next connection when one ends.
    pub(super) async fn observe(
        &mut self,
        reason: &Reason,
    ) -> Result<ObservedApplication, ObserveError> {
        let mut reconnects = Reconnects::default();
        loop {
            let observed = self.observe_once(reason).await;
            if !reconnects.repeats(&observed) {
                return observed;
            }
        }
    }

    async fn observe_once(&mut self, reason: &Reason) -> Result<ObservedApplication, ObserveError> {
        let destination = self.destination().await?;
        self.guarded(&destination)?;
        if reason.request.hard && reason.asked_for {
            destination.destination.cluster.survey_anew();
        }
        if let Some(rendered) = self.kept_manifests(&destination) {
            return self.observe_manifests(rendered, destination).await;
        }
        let sources = destination.spec.sources().to_vec();
        let wanted: Vec<WantedRevision> = sources.iter().map(wanted).collect();
        for gone in self.cached.sources.iter().filter(|old| !wanted.contains(old)) {
            self.ctx.revisions.release(self.key, gone);
        }
        let now = self.now();
        let known = self.cached.memory.known_commits(&self.app, reason, now);
        let synced = operation::pinned_revisions(&self.app.status.operation_state);
        let is_synced = || self.ctx.revisions.are_last(&sources, &synced);
        let fresh = reason.freshness(is_synced, self.age(), &self.ctx.intervals(self.key), now);
        let of = (self.key, access::project_of(self.app.raw()));
        let revisions = revisions(self.ctx, of, &sources, &known, fresh).await;
        self.cached.sources = wanted;
        let revisions = revisions?;
        let raw = raw_sources(self.app.raw());
        let shas: Vec<String> = revisions.iter().map(|revision| revision.sha.clone()).collect();
        // First: the objects that are followed are those that were read last.
        let held = match held_back::held_revisions(self.app.raw(), &shas) {
            Some(good) => Some(self.observe_held_back(good, &raw, &sources, &destination).await),
            None => None,
        };
        // As Argo CD, it is compared with commits that are refused, and says so.
        let refused = Box::pin(self.refused_commits(&raw, &revisions, &destination)).await?;
        let hard = reason.request.hard;
        let rendered = self.compared_manifests(&raw, &revisions, &destination, hard).await?;
        let purpose = Purpose::Comparison(shas.clone());
        let state = self.cluster_state(&destination, &rendered, purpose).await?;
        let orphans = self.orphans(&destination, &state.live).await;
        let revisions = shas;
        Ok(ObservedApplication { destination, state, rendered, refused, revisions, held, orphans })
    }

    /// The manifests of the last operation, if they are still compared. Those that cannot be read, or
    /// that the project refuses, were not deployed.
    fn kept_manifests(&self, destination: &ResolvedDestination) -> Option<Rendered> {
        let name = access::project_name(&destination.spec);
        let is_kept = operation::keeps_manifests(&self.app)
            && signatures::local_manifests(name, &destination.project.spec).is_none();
        is_kept.then(|| self.literal().ok().flatten()).flatten()
    }

    /// The state for the manifests of the last operation, which have no revision (SE-046).
    async fn observe_manifests(
        &mut self,
        rendered: Rendered,
        destination: ResolvedDestination,
    ) -> Result<ObservedApplication, ObserveError> {
        let now = self.now();
        // Nothing is resolved: it counts as checked.
        self.cached.memory.checked_at = Some(now);
        self.cached.keep(rendered.clone());
        self.ctx.bound_renderings(self.key, self.cached);
        let purpose = Purpose::Comparison(Vec::new());
        let state = self.cluster_state(&destination, &rendered, purpose).await?;
        let orphans = self.orphans(&destination, &state.live).await;
        let (revisions, refused, held) = (Vec::new(), Vec::new(), None);
        Ok(ObservedApplication { destination, state, rendered, refused, revisions, held, orphans })
    }

    /// The state for the revisions at which a rollback holds the Application.
    async fn observe_held_back(
        &mut self,
        good: Vec<String>,
        raw: &[Value],
        sources: &[ApplicationSource],
        destination: &ResolvedDestination,
    ) -> HeldBack {
        let project = access::project_of(self.app.raw()).to_owned();
        let at_good = sources.iter().zip(&good).map(|(source, revision)| ApplicationSource {
            target_revision: revision.clone(),
            ..source.clone()
        });
        // Also released, then.
        self.cached.sources.extend(at_good.map(|source| wanted(&source)));
        let read = async {
            let of = (self.key, project.as_str());
            let revisions = revisions(self.ctx, of, sources, &good, Duration::MAX).await?;
            let rendered = self.manifests(raw, &revisions, destination, false).await?;
            self.cluster_state(destination, &rendered, Purpose::HeldBack(good.clone())).await
        };
        let state = read.await;
        HeldBack { revisions: good, state }
    }

    /// The same from the last rendering.
    pub(super) async fn observe_last(&mut self) -> Option<ObservedApplication> {
        let rendered = self.cached.rendered.last()?.clone();
        let mut reconnects = Reconnects::default();
        let (destination, state) = loop {
            let destination = self.destination().await.ok()?;
            let purpose = Purpose::Comparison(self.app.status.sync.revisions());
            let state = self.cluster_state(&destination, &rendered, purpose).await;
            if !reconnects.repeats(&state) {
                break (destination, state.ok()?);
            }
        };
        let orphans = self.orphans(&destination, &state.live).await;
        let (revisions, refused, held) = (Vec::new(), Vec::new(), None);
        Some(ObservedApplication {
            destination,
            state,
            rendered,
            refused,
            revisions,
            held,
            orphans,
        })
    }

    /// Where the operation may deploy, and what: nothing is read yet.
    pub(super) async fn permitted_operation(
        &self,
    ) -> Result<(ResolvedDestination, Deployed), ObserveError> {
        operation::check(&self.app.status.operation_state).map_err(ObserveError::Operation)?;
        let destination = self.destination().await?;
        self.guarded(&destination)?;
        let raw = operation::operation_sources(&self.app);
        if let Some(denied) = destination.access().denied_source(&raw) {
            return Err(ObserveError::Operation(denied.message));
        }
        if let Err(why) = &destination.acting {
            return Err(ObserveError::Operation(why.clone()));
        }
        Ok((destination, self.deployed()?))
    }

    /// The inputs of a round of the operation, with these commits of its sources.
    pub(super) async fn observe_for_operation(
        &mut self,
        destination: ResolvedDestination,
        deployed: Deployed,
        commits: &[Revision],
    ) -> Result<ObservedApplication, ObserveError> {
        let rendered = match deployed {
            Deployed::Manifests(rendered, _) => {
                let name = access::project_name(&destination.spec);
                let refusal = signatures::local_manifests(name, &destination.project.spec);
                if let Some(refused) = refusal {
                    return Err(ObserveError::Refused(Refusal::of(vec![refused])));
                }
                rendered
            }
            Deployed::Sources { raw, .. } => {
                self.manifests(&raw, commits, &destination, false).await?
            }
        };
        let deployed = operation::pinned_revisions(&self.app.status.operation_state);
        let found = commits.iter().map(|commit| commit.sha.clone());
        let revisions = deployed.into_iter().chain(found).collect();
        let purpose = Purpose::Operation(revisions);
        let state = self.cluster_state(&destination, &rendered, purpose).await?;
        let (revisions, refused, held, orphans) = (Vec::new(), Vec::new(), None, None);
        Ok(ObservedApplication { destination, state, rendered, refused, revisions, held, orphans })
    }

    /// The inputs of a deletion, from the next connection when one ends. Targets are only needed
    /// for hooks.
    pub(super) async fn observe_for_deletion(&mut self) -> Result<Deleting, ObserveError> {
        let mut reconnects = Reconnects::default();
        loop {
            let observed = self.observe_for_deletion_once().await;
            if !reconnects.repeats(&observed) {
                return observed;
            }
        }
    }

    async fn observe_for_deletion_once(&mut self) -> Result<Deleting, ObserveError> {
        let (destination, scope) = match self.destination_for_deletion().await? {
            (Some(destination), DeletionPlace::Cluster(scope)) => (destination, scope),
            (_, DeletionPlace::Nowhere(why)) => return Ok(Deleting::Nowhere(why)),
            (None, DeletionPlace::Cluster(_)) => {
                let message = "spec.destination: the cluster is not connected".to_owned();
                return Err(ObserveError::Operation(message));
            }
        };
        let mut rendered = Rendered::default();
        if finalize::needs_source(&self.app) {
            // Only a permitted source may be read, so hooks need a valid spec (SE-521).
            let permitted = self.destination().await;
            let permitted = permitted.and_then(|permitted| self.guarded(&permitted));
            permitted.map_err(|error| finalize::without_hooks(&self.app, error))?;
            let sources = &destination.spec.sources();
            let known = self.app.status.sync.revisions();
            let age = self.age();
            let of = (self.key, access::project_of(self.app.raw()));
            let newest = match finalize::needs_newest(&self.app) {
                true => revisions(self.ctx, of, sources, &[], age).await.ok(),
                false => None,
            };
            let revisions = match newest {
                Some(newest) => newest,
                None => revisions(self.ctx, of, sources, &known, age).await?,
            };
            let raw = raw_sources(self.app.raw());
            rendered = self.manifests(&raw, &revisions, &destination, false).await?;
        }
        self.cluster_state(&destination, &rendered, Purpose::Deletion).await?;
        // The resources to delete may be of any kind.
        let cluster = &destination.destination.cluster;
        let surveyed = cluster.while_connected(cluster.surveyed(SURVEYED_WITHIN));
        if !self.ctx.lend_slot(surveyed).await.map_err(of_cluster)? {
            let server = cluster.server();
            let message = format!("not all kinds of the cluster {server} are listed yet");
            return Err(ObserveError::Operation(message));
        }
        // Before the live objects: what is listed later is not among them.
        let unlisted = cluster.unlisted_for_now();
        let state = self.cluster_state(&destination, &rendered, Purpose::Deletion).await?;
        let (revisions, refused, held, orphans) = (Vec::new(), Vec::new(), None, None);
        let observed =
            ObservedApplication { destination, state, rendered, refused, revisions, held, orphans };
        Ok(Deleting::In(Box::new(observed), scope, unlisted))
    }
}

/// The inputs of a deletion.
pub(super) enum Deleting {
    /// There is no cluster to delete from, for this reason.
    Nowhere(String),
    /// What was observed, which objects may be deleted, and the kinds that could not be listed.
    In(Box<ObservedApplication>, DeletionScope, UnlistedKinds),
}

/// The API resources of some kinds. The scope of each must be known before any decision.
pub(super) async fn kinds(
    cluster: &ClusterCache,
    instance: &str,
    wanted: BTreeSet<GroupVersionKind>,
) -> Result<BTreeMap<GroupVersionKind, Served>, ObserveError> {
    let kinds = cluster.kinds(instance, wanted).await.map_err(of_cluster)?;
    let silent = kinds.iter().find_map(|(kind, found)| match found {
        Served::Failed(reason) => Some(format!("cannot look up {}: {reason}", kind.kind)),
        Served::Namespaced | Served::ClusterScoped | Served::Missing { .. } => None,
    });
    silent.map_or(Ok(kinds), |reason| Err(ObserveError::Live(reason)))
}

/// The schemas of the custom kinds. One that cannot be read makes comparisons more lenient.
pub(super) async fn schemas(
    cluster: &ClusterCache,
    kinds: &BTreeMap<GroupVersionKind, Served>,
) -> Arc<Schemas> {
    let is_served = |found: &Served| matches!(found, Served::Namespaced | Served::ClusterScoped);
    let custom =
        kinds.iter().filter(|(kind, found)| is_served(found) && !kind.borrowed().is_built_in());
    let custom: Vec<GroupVersionKind> = custom.map(|(kind, _)| kind.clone()).collect();
    if custom.is_empty() {
        return Arc::default();
    }
    Arc::new(Schemas::of_kinds(cluster.structures(custom).await))
}

/// The targets of rendered manifests.
pub(super) fn place(
    manifests: Vec<Value>,
    namespace: &str,
    tracking: &Tracking,
    kinds: &BTreeMap<GroupVersionKind, Served>,
    filter: &KindFilter,
) -> Placed {
    let scope = |group: &str, version: &str, kind: &str| {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        match kinds.get(&GroupVersionKind { group, version, kind }) {
            Some(Served::Namespaced) => targets::KindScope::Namespaced,
            Some(Served::ClusterScoped) => targets::KindScope::Cluster,
            Some(Served::Missing { .. } | Served::Failed(_)) | None => targets::KindScope::Unknown,
        }
    };
    targets::place_targets(manifests, namespace, tracking, &scope, filter)
}
