//! Comparisons of Applications without a watch, for the command line.
//!
//! Source, permissions and decision are those of the controller: only the live objects
//! are read differently, since a user may not be allowed to watch all kinds of a cluster.
//! Each object that a target or the status names is requested, and the metadata of their
//! kinds is listed for other tracked objects. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::BACKOFF;
use super::cached_state::{CachedState, Rendered};
use super::context::Context;
use super::destination::of_cluster;
use super::observe::{kinds, place, raw_sources, schemas};
use super::predictions::predictions_of;
use super::queue::{Queue, Trigger};
use super::reconciliation::Reconciliation;
use super::target_state::revisions;
use crate::context::Core;
use crate::credential_programs::CredentialPrograms;
use crate::settings::ApplicationSettings;
use wavegate_api::app_status::ResourceStatus;
use wavegate_api::kind::{GroupVersionKind, Served};
use wavegate_api::raw::edit_metadata;
use wavegate_api::tracking::Tracking;
use wavegate_api::{ApplicationSource, ApplicationStatus, ObjectKey, Raw, ResourceKey, sources};
use wavegate_application::app::App;
use wavegate_application::errors::ObserveError;
use wavegate_application::observation::{Live, Observation, known_kinds};
use wavegate_application::predicted::Predicted;
use wavegate_application::predictions::Predictions;
use wavegate_application::request::{ComparisonRequest, Level};
use wavegate_application::{self as app_state, DiffCache, NewCondition, Placed, access, spec};
use wavegate_cluster::watch::cluster_cache::once::{self, ListedObjects, in_time};
use wavegate_cluster::watch::cluster_cache::{ClusterCache, TrackingMark};
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_cluster::watch::control_plane::{Origin, WatchedScope};
use wavegate_cluster::watch::secrets::is_cluster;
use wavegate_cluster::watch::trust::Trust;
use wavegate_engine::diff;
use wavegate_engine::sync::NamespaceFact;
use wavegate_net::clock::Clock;
use wavegate_source::Repositories;

/// How old the commit of a branch may be: comparisons of one command share it.
const FRESH: Duration = Duration::from_secs(60);

/// What comparisons need.
pub struct ComparisonInputs {
    /// The client of the control plane's cluster.
    pub client: Client,
    /// The settings of the controller.
    pub settings: ApplicationSettings,
    /// Where repositories are checked out.
    pub sources: Arc<Repositories>,
    /// The AppProjects of the Applications and their global projects, as far as they exist.
    pub projects: Vec<Value>,
    /// The Secrets of clusters and repositories.
    pub secrets: Vec<Secret>,
    /// Whom Git servers are trusted to be.
    pub trust: Arc<Trust>,
}

/// Compares Applications with their clusters, one by one or several at a time: repositories,
/// clusters and what is known of them are read once.
pub struct Comparer {
    ctx: Context,
    _stop: DropGuard,
}

/// A resource that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The resource, with target and live object.
    pub resource: app_state::ComparedResource,
    /// The normalized objects and their changes, without values of Secrets.
    pub comparison: diff::Comparison,
}

impl Difference {
    /// Drops the namespace of the destination, which it may not have.
    fn without_namespace(&mut self) {
        self.resource.key = self.resource.key.clone().in_namespace("");
        edit_metadata(&mut self.comparison.predicted, |metadata| {
            metadata.remove("namespace");
        });
    }
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct ComparisonOutcome {
    /// The compared revisions, by source.
    pub revisions: Vec<String>,
    /// The sync status of the Application.
    pub sync: diff::SyncStatus,
    /// The compared resources, without hooks.
    pub keys: Vec<ResourceKey>,
    /// The resources that are OutOfSync, by group, kind, namespace and name.
    pub differences: Vec<Difference>,
    /// Errors and warnings.
    pub conditions: Vec<NewCondition>,
    /// Resources that could not be read, and why: they are not compared.
    pub unread: BTreeMap<ResourceKey, String>,
    /// Listings that failed, and why: tracked objects that are neither in the source nor
    /// in the status may be missing.
    pub unlisted: BTreeMap<String, String>,
}

impl Comparer {
    /// Nothing is read before the first comparison.
    pub fn new(inputs: &ComparisonInputs) -> Self {
        let stop = CancellationToken::new();
        Self { ctx: context(inputs, &stop), _stop: stop.drop_guard() }
    }

    /// Compares an Application, as it is stored or would be, with its cluster. `revisions` are
    /// those to compare with, by source; empty for those of the spec.
    ///
    /// # Errors
    ///
    /// [`ObserveError`] when the spec is refused, or the source or the cluster cannot be read.
    pub fn compare<'a>(
        &'a self,
        application: &'a Value,
        revisions: &'a [String],
    ) -> BoxFuture<'a, Result<ComparisonOutcome, ObserveError>> {
        Box::pin(compare(&self.ctx, application.clone(), revisions))
    }
}

async fn compare(
    ctx: &Context,
    mut application: Value,
    given: &[String],
) -> Result<ComparisonOutcome, ObserveError> {
    let mut spec =
        spec::normalized_spec(application.spec()).unwrap_or_else(|| application.spec().clone());
    // Another controller may hydrate the manifests: only a sync here is refused.
    sources::in_place_of_hydrator(&mut spec);
    if let Some(fields) = application.as_object_mut() {
        fields.insert("spec".to_owned(), spec);
    }
    let key = ObjectKey::new(application.namespace(), application.name());
    let mut cached = CachedState::default();
    let request = ComparisonRequest::new(Level::Newest);
    let trigger = Trigger { request, at: Instant::now(), conflicts: 0 };
    let mut this = Reconciliation::new(ctx, &key, trigger, &mut cached, (application, 0));

    let destination = this.destination().await?;
    this.guarded(&destination)?;
    let namespace = destination.spec.destination.namespace.clone();
    let raw = raw_sources(this.app.raw());
    let sources = raw.iter().map(wavegate_api::read_typed::<ApplicationSource>);
    let sources: Vec<ApplicationSource> = sources
        .collect::<Result<_, _>>()
        .map_err(|error| ObserveError::Operation(format!("spec.source: {error}")))?;
    let of = (&key, access::project_of(this.app.raw()));
    let found = revisions(ctx, of, &sources, given, FRESH).await?;
    let rendered = this.manifests(&raw, &found, &destination, false).await?;

    let cluster = &destination.destination.cluster;
    let reader = Reader { cluster, tracking: &this.tracking, app: &this.app };
    // Of a kind that the cluster does not serve yet, only the manifest knows the scope.
    let own_namespaces: BTreeSet<ResourceKey> = rendered
        .objects()
        .iter()
        .filter(|manifest| !manifest.namespace().is_empty())
        .filter_map(ResourceKey::from_object)
        .map(|key| key.in_namespace(""))
        .collect();
    let (kinds, placed) = reader.targets(&rendered, &namespace).await?;
    placed.check(&destination.destination.scope).map_err(ObserveError::Unmanaged)?;
    let Read { live, unread, unlisted } = reader.live(&placed, &kinds, &namespace).await?;
    let no_handovers = BTreeMap::new();
    let (nothing, schemas) = (Predicted::new(), schemas(cluster, &kinds).await);
    let mut observation = Observation {
        access: destination.access(),
        tracking: &this.tracking,
        control_plane_namespace: &ctx.settings.control_plane_namespace,
        checks: &ctx.settings.checks,
        jq: &ctx.jq,
        placed: &placed,
        kinds: &kinds,
        live: &live,
        handovers: &no_handovers,
        schemas: &schemas,
        predicted: &nothing,
        compared: &ctx.settings.compared,
        namespace: NamespaceFact::Exists,
        namespace_object: None,
    };
    let asked = (&observation, this.app.raw(), true);
    let mut kept = Predictions::default();
    let predicted = predictions_of(ctx, &this.tracking, cluster, asked, &mut kept).await;
    observation.predicted = &predicted;
    let compared = observation.compare(&this.app, &DiffCache::default());
    let mut conditions = compared.conditions;
    conditions.extend(placed.conditions.iter().cloned());
    let customizations = &ctx.settings.customizations;
    conditions.extend(app_state::unsupported::without_effect(customizations, &placed.targets));
    conditions.extend(rendered.conditions());
    let comparison = compared.comparison;
    conditions.extend(comparison.conditions);
    let readable = |resource: &&app_state::ComparedResource| !unread.contains_key(&resource.key);
    let resources: Vec<&app_state::ComparedResource> =
        comparison.resources.iter().filter(readable).collect();
    let differences = resources.iter().filter(|resource| is_difference(resource)).map(|resource| {
        let comparison = observation.difference(resource, &compared.config);
        let mut difference = Difference { resource: (**resource).clone(), comparison };
        if let Some(target) = &difference.resource.target
            && matches!(kinds.get(&GroupVersionKind::of(target)), Some(Served::Missing { .. }))
            && !own_namespaces.contains(&difference.resource.key.clone().in_namespace(""))
        {
            difference.without_namespace();
        }
        difference
    });
    Ok(ComparisonOutcome {
        revisions: found.into_iter().map(|revision| revision.sha).collect(),
        sync: comparison.sync,
        keys: resources
            .iter()
            .filter(|resource| resource.status().is_some())
            .map(|resource| resource.key.clone())
            .collect(),
        differences: differences.collect(),
        conditions,
        unread,
        unlisted,
    })
}

/// Whether a resource makes its Application OutOfSync.
fn is_difference(resource: &app_state::ComparedResource) -> bool {
    let ignored = || {
        let live = resource.live.as_deref();
        live.is_some_and(|live| diff::compare_options(live).any(|one| one == "IgnoreExtraneous"))
    };
    resource.status() == Some(diff::SyncStatus::OutOfSync)
        && !(resource.target.is_none() && ignored())
}

/// A context whose caches contain only what this comparison needs.
fn context(inputs: &ComparisonInputs, stop: &CancellationToken) -> Context {
    let settings = ApplicationSettings { events: false, ..inputs.settings.clone() };
    let scope = WatchedScope {
        namespace: settings.control_plane_namespace.clone(),
        sets_everywhere: false,
        applications_everywhere: true,
        syncs: true,
    };
    let core = Core::new(inputs.client.clone(), scope, Clock::system());
    core.control_plane.trust.take_over(&inputs.trust);
    for project in &inputs.projects {
        core.control_plane.projects.wrote(project.clone().into(), Origin::Watch);
    }
    let mark = TrackingMark {
        method: settings.tracking_method,
        label: settings.instance_label.clone(),
        ..TrackingMark::default()
    };
    // Nothing is watched, so nothing is triggered.
    let (trigger, _) = mpsc::unbounded_channel();
    let clusters = Clusters::new(core.client.clone(), mark, trigger, stop.clone())
        .with_settings(settings.resource_filter.clone(), settings.in_cluster_enabled)
        .running_inside(settings.runs_in_cluster)
        .with_programs(Arc::new(CredentialPrograms(settings.render.programs.clone())))
        .read_only();
    let queue = Arc::new(Queue::new(BACKOFF));
    let ctx = Context::new(core, settings, inputs.sources.clone(), clusters, queue);
    for secret in &inputs.secrets {
        match is_cluster(secret) {
            true => drop(ctx.clusters.put(secret)),
            false => drop(ctx.credentials.put(secret)),
        }
    }
    ctx
}

/// Reads the destination cluster.
struct Reader<'a> {
    cluster: &'a Arc<ClusterCache>,
    tracking: &'a Tracking,
    app: &'a App,
}

/// What was read.
#[derive(Default)]
struct Read {
    live: Live,
    unread: BTreeMap<ResourceKey, String>,
    unlisted: BTreeMap<String, String>,
}

type Kinds = BTreeMap<GroupVersionKind, Served>;

impl Reader<'_> {
    /// The kinds and the targets of the manifests.
    async fn targets(
        &self,
        rendered: &Rendered,
        namespace: &str,
    ) -> Result<(Kinds, Placed), ObserveError> {
        let manifests = rendered.objects();
        let wanted: BTreeSet<GroupVersionKind> =
            manifests.iter().map(GroupVersionKind::of).collect();
        let kinds = kinds(self.cluster, &self.tracking.instance, wanted).await?;
        let filter = &self.cluster.reach().filter;
        let placed = place(manifests, namespace, self.tracking, &kinds, filter);
        Ok((kinds, placed))
    }

    /// The live objects: those of the targets, those in the status, and others that are
    /// tracked.
    async fn live(
        &self,
        placed: &Placed,
        kinds: &Kinds,
        namespace: &str,
    ) -> Result<Read, ObserveError> {
        let mut read = Read::default();
        let targets = placed.targets.iter().filter(|target| !target.key.name.is_empty());
        let exists =
            |kind: &GroupVersionKind| !matches!(kinds.get(kind), Some(Served::Missing { .. }));
        let mut keys: BTreeMap<ResourceKey, GroupVersionKind> = targets
            .map(|target| (target.key.clone(), GroupVersionKind::of(&target.object)))
            .filter(|(_, kind)| exists(kind))
            .collect();
        for (key, kind) in in_status(&self.app.status) {
            keys.entry(key).or_insert(kind);
        }
        let mut namespaces: BTreeSet<String> =
            keys.keys().map(|key| key.namespace.clone()).collect();
        namespaces.insert(namespace.to_owned());
        namespaces.remove("");
        let mut listed: BTreeSet<GroupVersionKind> =
            kinds.keys().filter(|kind| exists(kind)).cloned().collect();
        listed.extend(known_kinds(&self.app.status));
        for (key, kind) in self.tracked(listed, &namespaces, &mut read).await? {
            keys.entry(key).or_insert(kind);
        }
        let mut requests = Vec::new();
        for (key, kind) in keys {
            let found = self.cluster.resource(&kind, true).await.map_err(of_cluster)?;
            // A namespaced object without a namespace does not exist.
            let Some((resource, namespaced)) = found else { continue };
            if namespaced != key.namespace.is_empty() && self.reaches(&kind, &key.namespace) {
                requests.push((key, resource));
            }
        }
        let work = requests.into_iter().map(|(key, resource)| async move {
            let answer = in_time(self.cluster.read(&resource, &key)).await;
            let answer = answer.and_then(|answer| answer.map_err(|error| error.to_string()));
            (key, answer)
        });
        for (key, answer) in once::all_answers(work).await {
            match answer {
                Ok(Some(object)) => drop(read.live.insert(key, object)),
                Ok(None) => {}
                Err(why) => drop(read.unread.insert(key, why)),
            }
        }
        Ok(read)
    }

    /// Whether objects of a kind and a namespace are managed in this cluster.
    fn reaches(&self, kind: &GroupVersionKind, namespace: &str) -> bool {
        let reach = self.cluster.reach();
        let named = || reach.namespaces.as_ref().is_none_or(|names| names.contains(namespace));
        let scope = if namespace.is_empty() { !reach.namespaced_only } else { named() };
        scope && !reach.filter.excludes(&kind.group, &kind.kind)
    }

    /// The tracked objects of some kinds, by metadata.
    async fn tracked(
        &self,
        kinds: BTreeSet<GroupVersionKind>,
        namespaces: &BTreeSet<String>,
        read: &mut Read,
    ) -> Result<BTreeMap<ResourceKey, GroupVersionKind>, ObserveError> {
        let mut work = BTreeMap::new();
        for kind in kinds {
            let found = self.cluster.resource(&kind, true).await.map_err(of_cluster)?;
            let Some((resource, namespaced)) = found else { continue };
            let each: Vec<String> = match namespaced {
                true => namespaces.iter().cloned().collect(),
                false => vec![String::new()],
            };
            for namespace in each.into_iter().filter(|name| self.reaches(&kind, name)) {
                let place = (resource.group.clone(), resource.kind.clone(), namespace);
                work.entry(place).or_insert_with(|| resource.clone());
            }
        }
        let places = work.into_iter().map(|((_, _, namespace), resource)| (resource, namespace));
        let Tracking { method, label, instance, .. } = self.tracking;
        let labels = method.is_by_label().then(|| format!("{label}={instance}"));
        let tracked = |object: Value| {
            let owned = !object.items("/metadata/ownerReferences").is_empty();
            let is_own = !owned && self.tracking.owns(&object);
            is_own
                .then(|| Some((ResourceKey::from_object(&object)?, GroupVersionKind::of(&object))))
                .flatten()
        };
        let mut keys = BTreeMap::new();
        let labels = labels.as_deref();
        for ListedObjects { resource, namespace, objects, done } in
            self.cluster.list_all_once(places, labels, tracked).await
        {
            let why = match done {
                Ok(true) => {
                    keys.extend(objects);
                    continue;
                }
                Ok(false) => format!("it has more than {} objects", once::MOST),
                Err(why) => why,
            };
            let place = match namespace.as_str() {
                "" => resource.kind.clone(),
                namespace => format!("{} in namespace {namespace}", resource.kind),
            };
            read.unlisted.insert(place, why);
        }
        Ok(keys)
    }
}

/// The resources in the status of an Application.
fn in_status(
    status: &ApplicationStatus,
) -> impl Iterator<Item = (ResourceKey, GroupVersionKind)> + '_ {
    let known = |row: &&ResourceStatus| {
        !row.kind.is_empty() && !row.version.is_empty() && !row.name.is_empty()
    };
    status.resources.iter().filter(known).map(|row| {
        let ResourceStatus { group, version, kind, namespace, name, .. } = row;
        (
            ResourceKey::new(group, kind, namespace, name),
            GroupVersionKind::new(group, version, kind),
        )
    })
}
