//! Simulated workloads: what a controller manager, a cloud and a kubelet would
//! do to the status of objects, without running anything.
//!
//! For the demo, for tests and for simulations. A Deployment that is applied
//! becomes "progressing" at once and "available" after a delay; a Job starts and
//! completes; a claim is bound. The statuses are those that the real controllers
//! write: fields, conditions, reasons and messages.
//!
//! It works through a [`kube::Client`] only, and so on the embedded API server
//! as well as on a real one. Which part is simulated is chosen by [`WorkloadOptions`]:
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
//! | `simulate.wavegate.dev/delay` | a duration such as `300ms`, `2s`, `1m30s` | instead of [`WorkloadOptions::delay`] |
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
mod options;
mod outcome;
mod pauses;
mod rules;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use kube::Client;
use tokio_util::sync::CancellationToken;

pub use kind::WorkloadKind;
pub use options::{OptionError, WorkloadOptions};
pub use outcome::{DELAY_ANNOTATION, FAILURE_ANNOTATION, MESSAGE_ANNOTATION, OUTCOME_ANNOTATION};
pub use view::{View, WorkloadStage};

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
    options: WorkloadOptions,
    shutdown: CancellationToken,
) -> Result<(), OptionError> {
    let options = Arc::new(options);
    // One fails: the others end with it, by the drop of the set.
    let mut kinds: FuturesUnordered<_> = kind::WorkloadKind::simulated(&options)
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
