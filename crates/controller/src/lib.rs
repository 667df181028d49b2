//! The controllers: they observe, decide once, and apply the result. Rules about steps, waves or
//! health belong in the crates of decisions (`wavegate_engine`, `wavegate_application`,
//! `wavegate_rollout`).
//!
//! Two controllers run in one process and communicate only through fields of Kubernetes
//! resources that Argo CD has, too, so that either one can be replaced.

// Whether a reconcile is Send goes through hyper and h2, deeper than the default when
// documentation is made.
#![recursion_limit = "256"]

pub mod application;
pub mod application_set;
pub mod argocd_cache;
pub mod config;
pub mod context;
pub mod credential_programs;
pub mod credentials;
pub mod error;
pub mod evaluator;
pub mod health_scripts;
pub mod leader;
pub mod live_settings;
pub mod metrics;
pub mod orphans;
mod prefetch;
mod runtime;
pub mod serve;
pub mod settings;
mod signed;
#[cfg(test)]
mod tests;
pub mod unread;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use self::application::OwnCluster;
use self::context::Core;
use self::leader::Candidate;
use self::metrics::Metrics;
use crate::settings::{ApplicationSetSettings, ApplicationSettings, Settings};
use wavegate_cluster::watch::cluster_cache::ClusterReach;
use wavegate_cluster::watch::control_plane::{Forbidden, WatchedScope};
use wavegate_cluster::watch::read_only;
use wavegate_cluster::watch::trust::Trust;
use wavegate_net::clock::Clock;
use wavegate_source::Repositories;

/// Why the controllers stopped without a shutdown.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The Application controller cannot run.
    #[error("the application controller stopped")]
    Application(#[source] Forbidden),
    /// A controller stopped unexpectedly.
    #[error("a controller stopped unexpectedly; this is a bug")]
    Unexpected,
}

/// How long a running reconcile may take after a stop signal.
const GRACE: Duration = Duration::from_secs(20);

/// How controllers that lead ended, without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Led {
    /// They were shut down.
    UntilShutdown,
    /// Another replica holds the Lease, or it could not be renewed in time: the process must
    /// end, and write nothing more.
    UntilLeaseLost,
    /// The settings have changed; the Lease is still held.
    UntilOutdated,
}

/// The controllers: both, or, without settings for the application controller
/// (`--sync-engine=external`), only the first.
#[derive(Debug)]
pub struct Controllers {
    core: Core,
    settings: Settings,
    sources: Arc<Repositories>,
}

impl Controllers {
    /// The controllers, not running yet. In a dry run nothing is written; the client
    /// rejects writes as well.
    pub fn new(
        client: Client,
        settings: Settings,
        sources: Arc<Repositories>,
        clock: Clock,
    ) -> Self {
        Self::trusting(client, settings, sources, Arc::default(), clock)
    }

    /// The same after controllers of this process with other settings: what these knew about whom
    /// to trust, and which settings are absent, stays known.
    pub fn trusting(
        client: Client,
        settings: Settings,
        sources: Arc<Repositories>,
        trust: Arc<Trust>,
        clock: Clock,
    ) -> Self {
        let client = match settings.application_sets.dry_run {
            true => read_only::read_only_client(client),
            false => client,
        };
        Self { core: Core::trusting(client, scope(&settings), trust, clock), settings, sources }
    }

    /// Their metrics.
    pub fn metrics(&self) -> Metrics {
        self.core.metrics.clone()
    }

    /// The receiver of webhooks.
    pub fn webhook(&self) -> application_set::Webhook {
        let settings = self.settings.application_sets.clone();
        let applications = self.settings.applications.clone();
        application_set::Webhook::new(self.core.clone(), settings, applications)
    }

    /// Runs them until `shutdown`.
    ///
    /// # Errors
    ///
    /// When a controller cannot continue; the other one is stopped then.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Stopped> {
        let Self { core, settings, sources } = self;
        let own = OwnCluster { client: core.client.clone(), reach: ClusterReach::default() };
        let applications = settings.applications.map(|settings| (settings, own));
        let sets = Some(settings.application_sets);
        run_with(core, sets, applications, sources, shutdown).await
    }

    /// Runs them while the Lease is held, if there is one, or until `shutdown`, or until their
    /// settings are `outdated`; then the Lease is kept. On a shutdown it is released after the
    /// last write: another replica must not begin while a reconcile still decides and writes.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub async fn lead(
        mut self,
        lease: Option<&Candidate>,
        shutdown: &CancellationToken,
        outdated: impl Future<Output = ()>,
    ) -> Result<Led, Stopped> {
        let (stop, release) = (shutdown.child_token(), CancellationToken::new());
        // What is left of the work ends with this function, whatever the reason.
        let _guard = stop.clone().drop_guard();
        let keep = async {
            match lease {
                Some(candidate) => candidate.keep(&release).await,
                None => release.cancelled().await,
            }
        };
        tokio::pin!(keep);
        if let Some(candidate) = lease {
            self.core = self.core.fenced(candidate.may_write());
        }
        let mut run = Box::pin(self.run(stop.clone()));
        let result = tokio::select! {
            biased;
            result = &mut run => Some(result),
            () = &mut keep => return Ok(Led::UntilLeaseLost),
            () = outdated => None,
            () = shutdown.cancelled() => None,
        };
        if shutdown.is_cancelled() {
            tracing::info!("stopping");
        }
        stop.cancel();
        let result = match result {
            Some(result) => result,
            // The Lease stays ours meanwhile.
            None => tokio::select! {
                biased;
                () = &mut keep => return Ok(Led::UntilLeaseLost),
                ended = tokio::time::timeout(GRACE, &mut run) => ended.unwrap_or_else(|_| {
                    tracing::warn!(
                        "a reconcile did not finish in time; it continues after the next start"
                    );
                    Ok(())
                }),
            },
        };
        // A reconcile that did not finish in time ends here.
        drop(run);
        if result.is_ok() && !shutdown.is_cancelled() {
            return Ok(Led::UntilOutdated);
        }
        release.cancel();
        keep.await;
        result.map(|()| Led::UntilShutdown)
    }
}

/// Creates the controllers and runs them until `shutdown`.
///
/// # Errors
///
/// When a controller cannot continue; the other one is stopped then.
pub async fn run(
    client: Client,
    settings: Settings,
    sources: Arc<Repositories>,
    clock: Clock,
    shutdown: CancellationToken,
) -> Result<(), Stopped> {
    Controllers::new(client, settings, sources, clock).run(shutdown).await
}

/// Boxed here, so that what it awaits is compiled in this crate, once, and not in each crate that
/// runs it.
fn run_with(
    core: Core,
    sets: Option<ApplicationSetSettings>,
    applications: Option<(ApplicationSettings, OwnCluster)>,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Stopped>> {
    Box::pin(async move {
        let stop = shutdown.child_token();
        // All tasks are stopped when this function returns.
        let _guard = stop.clone().drop_guard();
        let watches = async {
            let watched = core.control_plane.run(&core.client, &stop).await;
            watched.map_err(Stopped::Application).and(until(&shutdown))
        };
        let audience = sets.as_ref().filter(|sets| !sets.dry_run).map(|sets| unread::Audience {
            namespace: sets.control_plane_namespace.clone(),
            others: sets.namespaces.clone(),
        });
        let unread = async {
            if let Some(audience) = audience {
                let kinds = core.control_plane.unread();
                stop.run_until_cancelled(unread::follow_unread(&core, &audience, kinds)).await;
            }
            shutdown.cancelled().await;
            until(&shutdown)
        };
        let sets = async {
            match sets {
                None => shutdown.cancelled().await,
                Some(sets) => {
                    let (core, sources) = (core.clone(), sources.clone());
                    // On the heap, as below: the stack of a thread would hold a copy of it for each
                    // function on the way here.
                    Box::pin(application_set::run(core, sets, sources, stop.clone())).await;
                }
            }
            until(&shutdown)
        };
        let applications = async {
            match applications {
                None => shutdown.cancelled().await,
                Some((settings, own)) => {
                    let (core, sources) = (core.clone(), sources.clone());
                    let run = application::run_with(core, own, settings, sources, stop.clone());
                    Box::pin(run).await;
                }
            }
            until(&shutdown)
        };
        let ended = CancellationToken::new();
        let controllers = async {
            let result = tokio::try_join!(watches, sets, applications, unread).map(|_| ());
            ended.cancel();
            result
        };
        // The Events of the last reconciles are written, too.
        tokio::join!(controllers, core.recorder.run(&ended)).0
    })
}

/// Runs only the application controller until `shutdown`, for Applications of a control
/// plane that is not in the cluster they sync to, such as one in memory.
///
/// # Errors
///
/// As [`run`].
pub async fn run_elsewhere(
    control_plane: Client,
    own: OwnCluster,
    settings: ApplicationSettings,
    sources: Arc<Repositories>,
    shutdown: CancellationToken,
) -> Result<(), Stopped> {
    let scope = WatchedScope {
        namespace: settings.control_plane_namespace.clone(),
        sets_everywhere: false,
        applications_everywhere: false,
        syncs: true,
    };
    let core = Core::new(control_plane, scope, Clock::system());
    run_with(core, None, Some((settings, own)), sources, shutdown).await
}

/// A controller may end only on shutdown.
fn until(shutdown: &CancellationToken) -> Result<(), Stopped> {
    if shutdown.is_cancelled() { Ok(()) } else { Err(Stopped::Unexpected) }
}

/// The namespaces that the controllers watch. Without additional namespaces, only the
/// control plane's own is watched.
fn scope(settings: &Settings) -> WatchedScope {
    let (sets, applications) = (&settings.application_sets, &settings.applications);
    let of_sets = !sets.namespaces.is_empty();
    let of_applications = applications.as_ref().is_some_and(|own| !own.namespaces.is_empty());
    WatchedScope {
        namespace: sets.control_plane_namespace.clone(),
        sets_everywhere: of_sets,
        applications_everywhere: of_sets || of_applications,
        syncs: applications.is_some(),
    }
}
