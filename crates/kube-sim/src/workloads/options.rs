//! What is simulated, and why it may not be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::ServerClock;

/// What is simulated, and how fast.
#[derive(Clone, Debug)]
pub struct WorkloadOptions {
    /// From progressing to the end, for objects without an annotation.
    /// Zero skips the progressing status.
    pub delay: Duration,
    /// While it is true, nothing that is seen takes any time: neither the delay above nor that of
    /// an annotation is waited for.
    pub at_once: Arc<AtomicBool>,
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
    pub clock: ServerClock,
}

impl Default for WorkloadOptions {
    /// What the embedded server needs: everything but Pods for workloads.
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(300),
            at_once: Arc::default(),
            controllers: true,
            infrastructure: true,
            kubelet: true,
            pods: false,
            fail: BTreeSet::new(),
            nodes: 1,
            clock: ServerClock::default(),
        }
    }
}

impl WorkloadOptions {
    /// For a real API server that has its controller manager, but no node and
    /// no cloud, such as `tests/cluster/up` starts.
    pub fn beside_controller_manager() -> Self {
        Self { controllers: false, ..Self::default() }
    }
}

/// Why the simulation cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// The client may not watch a kind; waiting would not help.
    #[error("cannot watch {kind}: the client needs list and watch on it")]
    Forbidden {
        /// The kind that was refused.
        kind: &'static str,
        /// The refusal.
        source: Box<kube::runtime::watcher::Error>,
    },
}
