//! The inputs of a decision: from a spec to targets and live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::cached_state::Rendered;
use super::projects::Project;
use super::reconciliation::Reconciliation;
use super::revisions::{Wanted, wanted};
use super::target_state::{Deployed, revisions};
use crate::api::conditions::application::REPEATED_KEY_WARNING;
use crate::api::kind::{GroupVersionKind, Served};
use crate::api::resource_filter::KindFilter;
use crate::api::sources::InEffect;
use crate::api::sync_options::CREATE_NAMESPACE;
use crate::api::tracking::Tracking;
use crate::api::{ApplicationSpec, ResourceKey};
use crate::decide::app_state::access::{
    self, Access, Applicant, ClusterFact, ProjectFact, Refusal,
};
use crate::decide::app_state::deletion_scope::{self, Place, Scope};
use crate::decide::app_state::errors::ObserveError;
use crate::decide::app_state::observation::{Observation, inventory};
use crate::decide::app_state::refresh::{Level, Reason};
use crate::decide::app_state::{
    Condition, Placed, finalize, operation, targets, unlisted, unsupported,
};
use crate::decide::sync::NamespaceFact;
use crate::source::Revision;
use crate::watch::cluster_cache::{self, SurveyMode};
use crate::watch::clusters::{self, ConnectedCluster};

use super::context::Context;

/// How long a deletion waits for the first listing of all kinds, per reconcile.
const SURVEYED_WITHIN: Duration = Duration::from_secs(10);

/// The same for an operation that must know from the start what it prunes.
const SURVEYED_FIRST_WITHIN: Duration = Duration::from_secs(60);

/// The destination of an Application, and its project.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Name of the Application.
    pub application: String,
    /// The typed spec.
    pub spec: ApplicationSpec,
    /// Cluster state.
    pub destination: ConnectedCluster,
    /// The project.
    pub project: Arc<Project>,
}

impl Destination {
    /// The permissions of the Application at its destination.
    pub fn access(&self) -> Access<'_> {
        Access {
            application: &self.application,
            spec: &self.spec,
            project: &self.project.spec,
            project_name: access::project_name(&self.spec),
            windows: &self.project.windows,
            server: &self.destination.server,
            cluster: &self.destination.name,
        }
    }
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
    /// Whether the destination namespace exists.
    pub namespace: NamespaceFact,
    /// The namespace object, if a sync may have to change it.
    pub namespace_object: Option<Arc<Value>>,
}

/// Everything that was observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The destination.
    pub destination: Destination,
    /// The cluster.
    pub state: ClusterState,
    /// Target state.
    pub rendered: Rendered,
    /// Revisions of the sources.
    pub revisions: Vec<String>,
}

impl Observed {
    /// The view that decisions take.
    pub fn observation<'a>(&'a self, ctx: &'a Context, tracking: &'a Tracking) -> Observation<'a> {
        Observation {
            access: self.destination.access(),
            tracking,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
            placed: &self.state.placed,
            kinds: &self.state.kinds,
            live: &self.state.live,
            namespace: self.state.namespace.clone(),
            namespace_object: self.state.namespace_object.clone(),
        }
    }

    /// Warnings about project, cluster, source and settings.
    pub fn warnings(&self, ctx: &Context) -> Vec<Condition> {
        let name = access::project_name(&self.destination.spec);
        let mut warnings: Vec<Condition> = self.destination.project.warnings(name).collect();
        let customizations = &ctx.settings.customizations;
        warnings.extend(unsupported::without_effect(customizations, &self.state.placed.targets));
        warnings.extend(unlisted(&self.destination.destination.cluster.unlisted()));
        let repeated = self.rendered.warnings.iter();
        warnings.extend(repeated.map(|text| Condition::new(REPEATED_KEY_WARNING, text.as_str())));
        warnings
    }
}

fn refused(message: String) -> ObserveError {
    let conditions = vec![Condition::invalid_spec(message)];
    ObserveError::Refused(Refusal::of(conditions))
}

pub(super) fn of_cluster(error: cluster_cache::Error) -> ObserveError {
    ObserveError::Live(error.to_string())
}

fn namespaces() -> GroupVersionKind {
    let [group, version, kind] = ["", "v1", "Namespace"].map(str::to_owned);
    GroupVersionKind { group, version, kind }
}

/// The effective sources, as raw JSON.
pub(super) fn raw_sources(application: &Value) -> Vec<Value> {
    InEffect::of(&application["spec"]).list.into_owned()
}

/// Whether a sync may have to create or change the destination namespace.
fn creates_namespace(application: &Value) -> bool {
    let request = &application["status"]["operationState"]["operation"]["sync"];
    let lists = [&application["spec"]["syncPolicy"]["syncOptions"], &request["syncOptions"]];
    let mut options = lists.into_iter().filter_map(Value::as_array).flatten();
    options.any(|option| option == CREATE_NAMESPACE)
}

impl Reconciliation<'_> {
    /// The destination of the Application and its permissions there (SE-031).
    pub(super) async fn destination(&self) -> Result<Destination, ObserveError> {
        let (ctx, key) = (self.ctx, self.key);
        if let Some(setting) = ctx.settings.unreadable.first() {
            return Err(refused(setting.clone()));
        }
        let spec = crate::api::read::<ApplicationSpec>(&self.application["spec"]);
        let spec = spec.map_err(|error| refused(format!("spec.{error}")))?;
        let known = ctx.projects.get(access::project_name(&spec));
        let project = project_fact(known.as_ref());
        let resolved = ctx.clusters.resolve(&spec.destination).await;
        let problem = resolved.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let cluster = cluster_fact(&resolved, &problem);
        let applicant = Applicant {
            namespace: &key.namespace,
            name: &key.name,
            spec: &spec,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
        };
        access::check(&applicant, project, cluster).map_err(ObserveError::Refused)?;
        match (known, resolved) {
            (Some(Ok(project)), Ok(destination)) => {
                Ok(Destination { application: key.name.clone(), spec, destination, project })
            }
            // Both cases were rejected above.
            _ => Err(refused(problem)),
        }
    }

    /// Refuses what reads the sources of an Application whose project has guards that cannot
    /// be enforced (SE-079, SE-080). A deletion without hooks reads none, and goes on.
    pub(super) fn guarded(&self, destination: &Destination) -> Result<(), ObserveError> {
        let name = access::project_name(&destination.spec);
        let impersonation = self.ctx.settings.impersonation;
        let conditions = unsupported::refusals(
            name,
            &destination.project.spec,
            destination.project.lost.as_ref(),
            impersonation,
        );
        if conditions.is_empty() {
            return Ok(());
        }
        Err(ObserveError::Refused(Refusal::of(conditions)))
    }

    /// Assigns the manifests to the cluster and reads the live objects; also the
    /// destination namespace if a sync needs it.
    async fn cluster_state(
        &mut self,
        destination: &Destination,
        rendered: &Rendered,
        for_sync: bool,
    ) -> Result<ClusterState, ObserveError> {
        let cluster = &destination.destination.cluster;
        let instance = self.tracking.instance.as_str();
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
        let kinds =
            self.ctx.lend_slot(cluster.kinds(instance, wanted)).await.map_err(of_cluster)?;
        // The scope of each kind must be known before any decision.
        let silent = kinds.iter().find_map(|(kind, found)| match found {
            Served::Failed(reason) => Some(format!("cannot look up {}: {reason}", kind.kind)),
            Served::Namespaced | Served::ClusterScoped | Served::Missing { .. } => None,
        });
        if let Some(reason) = silent {
            return Err(ObserveError::Live(reason));
        }
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
            old.want(instance, BTreeSet::new());
        }
        self.cached.cluster = Some(cluster.clone());
        let mut keys: BTreeSet<ResourceKey> =
            placed.targets.iter().map(|target| target.key.clone()).collect();
        keys.insert(ResourceKey::new("", "Namespace", "", namespace));
        cluster.want(instance, keys);

        let exists =
            |kind: &&GroupVersionKind| !matches!(kinds.get(kind), Some(Served::Missing { .. }));
        let mut watched: BTreeSet<GroupVersionKind> =
            kinds.keys().filter(exists).cloned().collect();
        watched.extend(inventory(&self.application));
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
        let (namespace, namespace_object) = match for_sync {
            true => self.namespace(destination).await,
            false => (NamespaceFact::Exists, None),
        };
        Ok(ClusterState { placed, kinds, live, namespace, namespace_object })
    }

    async fn namespace(&self, destination: &Destination) -> (NamespaceFact, Option<Arc<Value>>) {
        let key = ResourceKey::new("", "Namespace", "", &destination.spec.destination.namespace);
        let cluster = &destination.destination.cluster;
        let reach = cluster.reach();
        let unread = reach.filter.excludes("", "Namespace");
        if (unread || reach.namespaces.is_some()) && !creates_namespace(&self.application) {
            // The API server refuses objects of a namespace that does not exist.
            return (NamespaceFact::Exists, None);
        }
        if unread || reach.namespaced_only {
            return (self.unmanaged_namespace(destination, &key).await, None);
        }
        if key.name.is_empty() || !cluster.exists(&namespaces(), &key) {
            return (NamespaceFact::Missing, None);
        }
        if !creates_namespace(&self.application) {
            return (NamespaceFact::Exists, None);
        }
        // The cache may lag behind a deletion, which would be found by the first object only.
        let results = &self.application["status"]["operationState"]["syncResult"]["resources"];
        let begins = results.as_array().is_none_or(Vec::is_empty);
        let found = match self.ctx.lend_slot(cluster.resource(&namespaces(), true)).await {
            Ok(Some((resource, _))) if begins => {
                self.ctx.lend_slot(cluster.read(&resource, &key)).await
            }
            _ => cluster.get(&namespaces(), &key).await,
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
        destination: &Destination,
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

    /// The inputs of a comparison.
    pub(super) async fn observe(&mut self, reason: &Reason) -> Result<Observed, ObserveError> {
        let destination = self.destination().await?;
        self.guarded(&destination)?;
        let sources = destination.spec.sources().to_vec();
        let wanted: Vec<Wanted> = sources.iter().map(wanted).collect();
        for gone in self.cached.sources.iter().filter(|old| !wanted.contains(old)) {
            self.ctx.revisions.release(self.key, gone);
        }
        let compared = operation::given(&self.application["status"]["sync"]);
        let known = if reason.request.level <= Level::Live { compared } else { Vec::new() };
        if known.is_empty() {
            self.cached.known.checked_at = Some(self.now());
        }
        let fresh = self.freshness(reason, &sources);
        let of = (self.key, access::project_of(&self.application));
        let revisions = revisions(self.ctx, of, &sources, &known, fresh).await;
        self.cached.sources = wanted;
        let revisions = revisions?;
        let raw = raw_sources(&self.application);
        let rendered = self.manifests(&raw, &revisions, &destination, reason.request.hard).await?;
        let state = self.cluster_state(&destination, &rendered, false).await?;
        let revisions = revisions.into_iter().map(|revision| revision.sha).collect();
        Ok(Observed { destination, state, rendered, revisions })
    }

    /// The same from the last rendering.
    pub(super) async fn observe_last(&mut self) -> Option<Observed> {
        let rendered = self.cached.rendered.last()?.clone();
        let destination = self.destination().await.ok()?;
        let state = self.cluster_state(&destination, &rendered, false).await.ok()?;
        Some(Observed { destination, state, rendered, revisions: Vec::new() })
    }

    /// Where the operation may deploy, and what: nothing is read yet.
    pub(super) async fn permitted_operation(
        &self,
    ) -> Result<(Destination, Deployed), ObserveError> {
        operation::check(&self.application).map_err(ObserveError::Operation)?;
        let destination = self.destination().await?;
        self.guarded(&destination)?;
        let raw = operation::sources(&self.application);
        if let Some(denied) = destination.access().denied_source(&raw) {
            return Err(ObserveError::Operation(denied.message));
        }
        Ok((destination, self.deployed()?))
    }

    /// The inputs of a round of the operation, with these commits of its sources.
    pub(super) async fn observe_for_operation(
        &mut self,
        destination: Destination,
        deployed: Deployed,
        commits: &[Revision],
    ) -> Result<Observed, ObserveError> {
        let rendered = match deployed {
            Deployed::Manifests(rendered, _) => rendered,
            Deployed::Sources { raw, .. } => {
                self.manifests(&raw, commits, &destination, false).await?
            }
        };
        let state = self.cluster_state(&destination, &rendered, true).await?;
        Ok(Observed { destination, state, rendered, revisions: Vec::new() })
    }

    /// The inputs of a deletion. Targets are only needed for hooks.
    pub(super) async fn observe_for_deletion(&mut self) -> Result<Deleting, ObserveError> {
        let (destination, scope) = match self.destination_for_deletion().await? {
            (Some(destination), Place::Cluster(scope)) => (destination, scope),
            (_, Place::Nowhere(why)) => return Ok(Deleting::Nowhere(why)),
            (None, Place::Cluster(_)) => {
                let message = "spec.destination: the cluster is not connected".to_owned();
                return Err(ObserveError::Operation(message));
            }
        };
        let mut rendered = Rendered::default();
        if finalize::needs_source(&self.application) {
            // Only a permitted source may be read, so hooks need a valid spec (SE-521).
            let permitted = self.destination().await?;
            self.guarded(&permitted)?;
            let sources = &destination.spec.sources();
            let known = operation::given(&self.application["status"]["sync"]);
            let age = self.age();
            let of = (self.key, access::project_of(&self.application));
            let newest = match finalize::needs_newest(&self.application) {
                true => revisions(self.ctx, of, sources, &[], age).await.ok(),
                false => None,
            };
            let revisions = match newest {
                Some(newest) => newest,
                None => revisions(self.ctx, of, sources, &known, age).await?,
            };
            let raw = raw_sources(&self.application);
            rendered = self.manifests(&raw, &revisions, &destination, false).await?;
        }
        self.cluster_state(&destination, &rendered, false).await?;
        // The resources to delete may be of any kind.
        let cluster = &destination.destination.cluster;
        if !self.ctx.lend_slot(cluster.surveyed(SURVEYED_WITHIN)).await {
            let server = cluster.server();
            let message = format!("not all kinds of the cluster {server} are listed yet");
            return Err(ObserveError::Operation(message));
        }
        let state = self.cluster_state(&destination, &rendered, false).await?;
        let observed = Observed { destination, state, rendered, revisions: Vec::new() };
        Ok(Deleting::In(Box::new(observed), scope))
    }

    /// The destination of a deletion, whatever became of the spec (SE-512).
    async fn destination_for_deletion(&self) -> Result<(Option<Destination>, Place), ObserveError> {
        let (ctx, key) = (self.ctx, self.key);
        // What they protect must not be deleted, either.
        if let Some(setting) = ctx.settings.unreadable.first() {
            return Err(refused(setting.clone()));
        }
        let spec = deletion_scope::spec(&self.application);
        let known = ctx.projects.get(access::project_name(&spec));
        let resolved = ctx.clusters.resolve(&spec.destination).await;
        let problem = resolved.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let applicant = Applicant {
            namespace: &key.namespace,
            name: &key.name,
            spec: &spec,
            control_plane_namespace: &ctx.settings.control_plane_namespace,
        };
        let place = deletion_scope::place(
            &self.application,
            &applicant,
            project_fact(known.as_ref()),
            cluster_fact(&resolved, &problem),
        );
        let place = place.map_err(ObserveError::Operation)?;
        let project =
            known.and_then(Result::ok).filter(|_| place == Place::Cluster(Scope::Tracked));
        let project = project.unwrap_or_else(|| {
            let spec = deletion_scope::without_project();
            Arc::new(Project { spec, windows: Vec::new(), problems: Vec::new(), lost: None })
        });
        let application = key.name.clone();
        let destination = resolved.ok();
        let destination =
            destination.map(|destination| Destination { application, spec, destination, project });
        Ok((destination, place))
    }
}

/// The inputs of a deletion.
pub(super) enum Deleting {
    /// There is no cluster to delete from, for this reason.
    Nowhere(String),
    /// What was observed, and which objects may be deleted.
    In(Box<Observed>, Scope),
}

fn project_fact(known: Option<&Result<Arc<Project>, String>>) -> ProjectFact<'_> {
    match known {
        None => ProjectFact::Missing,
        Some(Err(reason)) => ProjectFact::Unreadable(reason),
        Some(Ok(project)) => {
            ProjectFact::Known { spec: &project.spec, problems: &project.problems }
        }
    }
}

fn cluster_fact<'a>(
    resolved: &'a Result<ConnectedCluster, clusters::Error>,
    problem: &'a str,
) -> ClusterFact<'a> {
    match resolved {
        Ok(found) => {
            ClusterFact::Known { server: &found.server, name: &found.name, project: &found.project }
        }
        Err(clusters::Error::Unknown { .. }) => ClusterFact::Unknown(problem),
        Err(clusters::Error::Secret { .. } | clusters::Error::Disabled) => {
            ClusterFact::Unusable(problem)
        }
    }
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
            Some(Served::Namespaced) => targets::Scope::Namespaced,
            Some(Served::ClusterScoped) => targets::Scope::Cluster,
            Some(Served::Missing { .. } | Served::Failed(_)) | None => targets::Scope::Unknown,
        }
    };
    targets::place(manifests, namespace, tracking, &scope, filter)
}
