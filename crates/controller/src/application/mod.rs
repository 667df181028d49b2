//! The Application controller: compares each Application with its cluster, runs its
//! operations, and writes its status.
//!
//! ```text
//! Applications, projects, clusters ──┐
//! live objects of each cluster ──────┼──> queue ──> reconcile: operate, compare ──> one write
//! revisions of repositories ─────────┘
//! ```
//!
//! A reconcile reads the caches (`watch::control_plane` and `watch::cluster_cache` of
//! [`wavegate_cluster`]), decides with [`wavegate_application`], applies, and writes the status
//! once. It holds no resources while it waits: an event or a due time triggers the next reconcile.
//! An Application is reconciled by one worker at a time; different Applications in
//! parallel.
//!
//! The identity of an operation is stored before it has any effect. All state is in the
//! Application; caches only save work.

mod acting;
mod cached_state;
mod cluster_counts;
pub mod compare_once;
mod comparisons;
mod context;
mod destination;
mod handover;
mod left_hooks;
mod observe;
mod orphans;
mod predictions;
mod prefetch;
mod project_deletion;
mod projects;
mod queue;
mod reconcile;
mod reconciliation;
mod revisions;
mod target_state;
#[cfg(test)]
mod tests;
mod triggers;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::argocd_cache::{self, Publisher};
use super::context::Core;
use super::error::ReconcileError;
use super::runtime::{self, FailureBackoff, Reconciler};
use crate::credential_programs::CredentialPrograms;
use crate::settings::ApplicationSettings;
use wavegate_api::tracking::from_instance_name;
use wavegate_application::request::{ComparisonRequest, Level};
use wavegate_application::status;
use wavegate_application::updates::Updates;
use wavegate_cluster::act::control_plane::application_status;
use wavegate_cluster::act::redis::Writer;
use wavegate_cluster::watch::cluster_cache::{ClusterReach, Relevance, TrackingMark, TreeReaders};
use wavegate_cluster::watch::clusters::Clusters;
use wavegate_source::Repositories;

use cluster_counts::ClusterCounts;
use context::Context;
use queue::{Queue, ReconcileResult, Trigger};
use wavegate_api::ObjectKey;

/// The longest pause after failures.
const BACKOFF: FailureBackoff = FailureBackoff { longest: Duration::from_secs(120) };

/// Runs the controller until `shutdown`.
///
/// It can be interrupted at any time: the next run continues, without repeating or
/// skipping a step.
pub async fn run(
    core: Core,
    settings: ApplicationSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) {
    let own = OwnCluster { client: core.client.clone(), reach: ClusterReach::default() };
    run_with(core, own, settings, sources, shutdown).await;
}

/// The cluster that Applications call `https://kubernetes.default.svc`.
#[derive(Clone)]
pub struct OwnCluster {
    /// Its client.
    pub client: kube::Client,
    /// The part of it that is read.
    pub reach: ClusterReach,
}

impl std::fmt::Debug for OwnCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnCluster").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// Like [`run`], with a control plane that is not in its own cluster.
pub async fn run_with(
    core: Core,
    own: OwnCluster,
    mut settings: ApplicationSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) {
    let stop = shutdown.child_token();
    // The watches of clusters end when this function returns.
    let _guard = stop.clone().drop_guard();
    let queue = Arc::new(Queue::new(BACKOFF));
    core.metrics.queue("app_reconciliation_queue", queue.clone());
    core.metrics.show_applications(&settings);
    let mark = TrackingMark {
        method: settings.tracking_method,
        label: settings.instance_label.clone(),
        relevance: relevance(&settings),
    };
    let (trigger, triggered) = mpsc::unbounded_channel();
    let compare = trigger.clone();
    let clusters = Clusters::new(own.client, mark, trigger, stop.clone())
        .within(ClusterReach { writes: settings.parallel_applies, ..own.reach })
        .with_settings(settings.resource_filter.clone(), settings.in_cluster_enabled)
        .running_inside(settings.runs_in_cluster)
        .with_programs(Arc::new(CredentialPrograms(settings.render.programs.clone())))
        .fenced(core.may_write.clone());
    let clusters = if settings.dry_run { clusters.read_only() } else { clusters };
    let (publisher, trees, of_trees) = match open_readers(&core, &mut settings, compare) {
        Some((publisher, trees, changes)) => (Some(publisher), trees, Some(changes)),
        None => (None, argocd_cache::owners_only(), None),
    };
    let clusters = clusters.with_trees(Some(trees));
    let ctx = Context::new(core, settings, sources, clusters, queue).with_readers(publisher);
    let ctx = Arc::new(ctx);
    let caches = &ctx.core.control_plane;
    let changes = [&caches.applications, &caches.projects, &caches.secrets];
    let changes = changes.map(|cache| triggers::run(&ctx, cache.subscribe()));
    let work = async {
        // Without projects, clusters and credentials, all Applications would fail at first.
        ctx.core.control_plane.listed_for_applications().await;
        triggers::take_secrets(&ctx);
        triggers::expect_all(&ctx);
        let controller = Arc::new(Controller(ctx.clone()));
        runtime::run(controller, ctx.queue.clone(), ctx.slots.clone(), stop.clone()).await;
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        _ = futures::future::join_all(changes) => {}
        () = triggers::run_trust(&ctx) => {}
        () = forward(ctx.clone(), triggered) => {}
        () = project_deletion::run(ctx.clone()) => {}
        () = prefetch::run(ctx.clone()) => {}
        () = run_readers(&ctx, of_trees, stop.clone()) => {}
        () = work => {}
    }
}

/// Which changes of live objects cause a comparison.
fn relevance(settings: &ApplicationSettings) -> Relevance {
    let updates = Updates::new(&settings.compared, &settings.checks);
    updates.map_or_else(Relevance::default, |updates| {
        Relevance::new(move |object, instance| updates.digest(object, instance))
    })
}

/// What keeps the copies for Argo CD's API server, if there is a Redis. One that cannot be used
/// is switched off, so that the status of Applications does not refer to it (CA-416).
fn open_readers(
    core: &Core,
    settings: &mut ApplicationSettings,
    compare: mpsc::UnboundedSender<String>,
) -> Option<(Arc<Publisher>, TreeReaders, argocd_cache::Changes)> {
    if !settings.redis.is_on() || settings.dry_run {
        return None;
    }
    match Writer::new(settings.redis.clone(), core.metrics.redis()) {
        Ok(writer) => {
            let instances = context::instances(core, settings);
            Some(argocd_cache::open_cache(settings, instances, writer, compare))
        }
        Err(error) => {
            tracing::error!(%error, "Argo CD's web page will show nothing of Applications");
            settings.redis.switch_off();
            None
        }
    }
}

/// Keeps these copies, and the labels of the Secrets of clusters.
async fn run_readers(
    ctx: &Context,
    changes: Option<argocd_cache::Changes>,
    stop: CancellationToken,
) {
    let counts = ClusterCounts::new(ctx);
    let applications = || counts.by_server();
    let round = argocd_cache::Round {
        publisher: ctx.publisher.clone(),
        client: (!ctx.settings.dry_run).then(|| ctx.core.client.clone()),
        clusters: &ctx.clusters,
        applications: &applications,
        clock: &ctx.core.clock,
        every: ctx.settings.redis.cluster_info_every,
    };
    let rounds = argocd_cache::run_clusters(round, stop.clone());
    let (Some(publisher), Some(changes)) = (&ctx.publisher, changes) else {
        return rounds.await;
    };
    tokio::join!(
        publisher.writer().run(stop.clone()),
        argocd_cache::run_changes(publisher.clone(), changes, &ctx.core.clock, stop),
        rounds,
    );
}

/// Triggers the Applications whose live objects have changed.
async fn forward(ctx: Arc<Context>, mut triggered: mpsc::UnboundedReceiver<String>) {
    while let Some(instance) = triggered.recv().await {
        let control_plane = &ctx.settings.control_plane_namespace;
        let (namespace, name) = from_instance_name(&instance, control_plane);
        let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
        if ctx.core.control_plane.applications.get(&key).is_some() {
            ctx.queue.enqueue(&key, ComparisonRequest::new(Level::Live));
        }
    }
}

struct Controller(Arc<Context>);

impl Reconciler for Controller {
    type Request = ComparisonRequest;
    const FINISHES: bool = false;

    fn span(key: &ObjectKey) -> Span {
        tracing::debug_span!("reconcile", application = %key)
    }

    /// A comparison waits itself where it may, and an operation must not wait.
    async fn gather(&self, _: &ObjectKey) {}

    async fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger,
    ) -> Result<ReconcileResult, ReconcileError> {
        reconcile::reconcile(&self.0, key, trigger).await
    }

    async fn report(&self, key: &ObjectKey, error: &ReconcileError) {
        report(&self.0, key, error).await;
    }

    async fn forget(&self, key: &ObjectKey) {
        self.0.forget(key).await;
    }
}

/// Sets a condition on the Application that its reconcile failed because of a bug. The
/// next successful comparison removes it.
async fn report(ctx: &Context, key: &ObjectKey, error: &ReconcileError) {
    let Some(application) = ctx.application(key).filter(|_| !ctx.settings.dry_run) else { return };
    let text = format!("{error}; this is a bug of wavegate; other Applications are not affected");
    let now = ctx.now();
    let Some(wanted) = status::failed_application(&application, text, now) else { return };
    let Some(patch) = application_status::status_patch(&application, &wanted) else { return };
    match application_status::send_patch(&ctx.core.client, &application, patch, now).await {
        Ok(application_status::Sent { object: stored, .. }) => {
            let object = stored.parse();
            let cached = ctx.cached_state(key);
            let mut cached = cached.lock().await;
            cached.announced.publish(&ctx.events, &application, &object);
            cached.announced.stored();
            ctx.stored(stored, &object);
        }
        Err(error) => {
            tracing::warn!(application = %key, %error, "cannot write the failure to the status")
        }
    }
}
