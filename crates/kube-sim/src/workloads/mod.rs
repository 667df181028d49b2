//! Simulated workloads: what a controller manager, a cloud and a kubelet would
//! do to the status of objects, without running anything.
//!
//! For the demo, for tests and for simulations. A Deployment that is applied
//! becomes "progressing" at once and "available" after a delay; a Job starts and
//! completes; a claim is bound. The statuses are those that the real controllers
//! write: fields, conditions, reasons and messages.
//!
//! It works through a [`kube::Client`] only, and so on the embedded API server
//! as well as on a real one. Which part is simulated is chosen by [`Options`]:
//! an embedded server has no controllers at all, a real test cluster has a
//! controller manager but neither node nor cloud. Never switch on what the
//! cluster already has: two would write the same status in turns.
//!
//! # Annotations
//!
//! On the object, or on its Pod template; the object's own go first.
//!
//! | annotation | value | meaning |
//! |---|---|---|
//! | `simulate.wavegate.dev/outcome` | `succeed` (default) | ready, completed or bound after the delay |
//! | | `fail` | failed after the delay, in the way of the kind, see below |
//! | | `hang` | progresses for ever |
//! | `simulate.wavegate.dev/failure` | `CrashLoopBackOff` (default), `ImagePullBackOff`, `Unschedulable`, `Unhealthy` | what its Pods say when they fail |
//! | | `FailedCreate` | a quota forbids its Pods |
//! | `simulate.wavegate.dev/message` | text | the termination message of containers that fail |
//! | `simulate.wavegate.dev/delay` | a duration such as `300ms`, `2s`, `1m30s` | instead of [`Options::delay`] |
//!
//! What `fail` means: a Deployment ends with `Progressing=False` and
//! `ProgressDeadlineExceeded`; a Job with the condition `Failed`; a Pod with the
//! phase `Failed`, or, when its restart policy is `Always`, waiting with
//! `CrashLoopBackOff`; a claim with the phase `Lost`; an autoscaler with
//! `FailedGetScale`. A ReplicaSet, StatefulSet, DaemonSet, Service or Ingress
//! has no failed state: it never becomes ready.
//!
//! On a real cluster the controllers copy the Pod template's annotations to the
//! Pods. A Deployment with a failing template ends there with
//! `ProgressDeadlineExceeded` after its own `progressDeadlineSeconds`, a Job
//! with `Failed` after `backoffLimit` retries with growing pauses: set both low.
//!
//! # Timing
//!
//! The delay restarts for each generation and for each change of the outcome.
//! Timers are tokio's, so that paused time moves them. An object that is found
//! finished stays finished: a restart of the simulation repeats nothing.
//!
//! # Not simulated
//!
//! Runs of CronJobs, `ttlSecondsAfterFinished`, ReplicationControllers,
//! `autoscaling/v1` (its conditions are an annotation), retries of Jobs, surge and
//! unavailability limits of a rolling update, and Nodes.

mod children;
mod engine;
mod kind;
mod outcome;
mod pauses;
mod rules;
#[cfg(test)]
mod tests;
mod view;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use kind::Kind;
pub use outcome::{DELAY_ANNOTATION, FAILURE_ANNOTATION, MESSAGE_ANNOTATION, OUTCOME_ANNOTATION};
pub use view::{Stage, View};

use crate::clock::Clock;

/// What is simulated, and how fast.
#[derive(Clone, Debug)]
pub struct Options {
    /// From progressing to the end, for objects without an annotation.
    /// Zero skips the progressing status.
    pub delay: Duration,
    /// The part of the controller manager: Deployments, ReplicaSets,
    /// StatefulSets, DaemonSets, Jobs, CronJobs, PodDisruptionBudgets and
    /// HorizontalPodAutoscalers.
    pub controllers: bool,
    /// The part of cloud and storage: PersistentVolumeClaims, Services of type
    /// LoadBalancer, Ingresses.
    pub infrastructure: bool,
    /// The part of the kubelet: Pods run, complete, and end when deleted.
    pub kubelet: bool,
    /// With `controllers`: creates what workloads own: ReplicaSets of Deployments,
    /// Pods, claims of StatefulSets, revisions, and Events about all of them.
    /// Without it, their status changes anyway.
    pub pods: bool,
    /// Names of Applications whose objects fail, as if annotated so; an
    /// annotation goes first. An object belongs to the Application that its
    /// annotation `argocd.argoproj.io/tracking-id`, or else its label
    /// `app.kubernetes.io/instance`, names. What a real controller manager
    /// creates carries neither, unless the Pod template has the label.
    pub fail: BTreeSet<String>,
    /// Nodes that DaemonSets pretend to run on.
    pub nodes: u32,
    /// What statuses are dated by: share that of the server ([`crate::Server::clock`])
    /// in a simulation.
    pub clock: Clock,
}

impl Default for Options {
    /// What the embedded server needs: everything but Pods for workloads.
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(300),
            controllers: true,
            infrastructure: true,
            kubelet: true,
            pods: false,
            fail: BTreeSet::new(),
            nodes: 1,
            clock: Clock::default(),
        }
    }
}

impl Options {
    /// For a real API server that has its controller manager, but no node and
    /// no cloud, such as `tests/cluster/up` starts.
    pub fn beside_controller_manager() -> Self {
        Self { controllers: false, ..Self::default() }
    }
}

/// Why the simulation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client may not watch a kind; waiting would not help.
    #[error("cannot watch {kind}: the client needs list and watch on it")]
    Forbidden {
        /// The kind that was refused.
        kind: &'static str,
        /// The refusal.
        source: Box<kube::runtime::watcher::Error>,
    },
}

/// Simulates until `shutdown` is cancelled.
///
/// Every other trouble (conflict, missing object, lost connection) is retried or
/// forgotten. A kind that the server does not have is left out. Safe to cancel
/// and to start again at any time.
///
/// # Errors
///
/// When the client is not allowed to watch what is to be simulated.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let options = Arc::new(options);
    // One fails: the others end with it, by the drop of the set.
    let mut kinds: FuturesUnordered<_> = kind::Kind::simulated(&options)
        .map(|kind| {
            engine::Engine::new(kind, client.clone(), Arc::clone(&options))
                .run(shutdown.clone())
                .boxed()
        })
        .collect();
    if options.pods && options.controllers {
        kinds.push(children::run(client, Arc::clone(&options), shutdown).boxed());
    }
    while let Some(ended) = kinds.next().await {
        ended?;
    }
    Ok(())
}
