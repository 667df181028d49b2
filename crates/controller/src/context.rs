//! What both controllers share.

use std::fmt;
use std::sync::Arc;

use kube::Client;

use super::metrics::Metrics;
use super::prefetch::Prefetches;
use wavegate_cluster::act::events::Recorder;
use wavegate_cluster::watch::control_plane::{ControlPlane, WatchedScope};
use wavegate_cluster::watch::counted;
use wavegate_cluster::watch::fence::{self, MayWrite};
use wavegate_cluster::watch::trust::Trust;
use wavegate_net::clock::Clock;

/// The part of the context that both controllers have: one set of watches, one memory
/// of own writes, one recorder of Events, one clock.
#[derive(Clone)]
pub struct Core {
    /// The client for writes.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// The watched ApplicationSets, Applications, projects and Secrets.
    pub control_plane: Arc<ControlPlane>,
    /// Writes Kubernetes Events.
    pub recorder: Recorder,
    /// The metrics.
    pub metrics: Metrics,
    /// What is read ahead of the writes of ApplicationSets.
    pub(crate) prefetches: Prefetches,
    /// Whether this process may write now; `None` for always.
    pub may_write: Option<MayWrite>,
}

impl Core {
    /// With empty caches: nothing is watched, and no Event is written, until
    /// [`ControlPlane::run`] and [`Recorder::run`] are called.
    pub fn new(client: Client, scope: WatchedScope, clock: Clock) -> Self {
        Self::trusting(client, scope, Arc::default(), clock)
    }

    /// The same with what is known already about whom to trust.
    pub fn trusting(client: Client, scope: WatchedScope, trust: Arc<Trust>, clock: Clock) -> Self {
        let absent = trust.absent().clone();
        let control_plane = Arc::new(ControlPlane::trusting(scope, trust));
        let metrics = Metrics::new(
            Arc::clone(&control_plane.sets),
            Arc::clone(&control_plane.runs),
            Arc::clone(&control_plane.applications),
            absent,
            clock.clone(),
        );
        let client = counted::counted_client(client, metrics.requests());
        let recorder = Recorder::new(client.clone(), clock.clone());
        let prefetches = Prefetches::default();
        Self { client, clock, control_plane, recorder, metrics, prefetches, may_write: None }
    }

    /// The same, which writes only while it may.
    pub fn fenced(self, may_write: MayWrite) -> Self {
        let client = fence::fenced_client(self.client, Arc::clone(&may_write));
        let recorder = Recorder::new(client.clone(), self.clock.clone());
        Self { client, recorder, may_write: Some(may_write), ..self }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
