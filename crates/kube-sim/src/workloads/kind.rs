//! The kinds that are simulated, and where the rules of each are.

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    core::v1::{PersistentVolumeClaim, Pod, Service},
    networking::v1::Ingress,
    policy::v1::PodDisruptionBudget,
};
use kube::api::ApiResource;
use serde_json::Value;

use super::options::WorkloadOptions;
use super::rules;
use super::view::{View, WorkloadStage};

/// A kind whose status is simulated, or that workloads own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the kind of its name")]
pub enum WorkloadKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    PersistentVolumeClaim,
    Service,
    Ingress,
    Pod,
    /// Has no status.
    ControllerRevision,
}

impl WorkloadKind {
    /// The kinds that `options` ask for.
    pub fn simulated(options: &WorkloadOptions) -> impl Iterator<Item = Self> {
        let groups: [(bool, &[Self]); 3] = [
            (
                options.controllers,
                &[
                    Self::Deployment,
                    Self::ReplicaSet,
                    Self::StatefulSet,
                    Self::DaemonSet,
                    Self::Job,
                    Self::CronJob,
                    Self::PodDisruptionBudget,
                    Self::HorizontalPodAutoscaler,
                ],
            ),
            (options.infrastructure, &[Self::PersistentVolumeClaim, Self::Service, Self::Ingress]),
            (options.kubelet, &[Self::Pod]),
        ];
        groups
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .flat_map(|(_, kinds)| kinds.iter().copied())
    }

    /// Group, version and plural of the kind.
    pub fn resource(self) -> ApiResource {
        self.described().0
    }

    /// The name of the kind, as in `kind:`.
    pub fn name(self) -> &'static str {
        self.described().1
    }

    fn described(self) -> (ApiResource, &'static str) {
        fn of<K>() -> (ApiResource, &'static str)
        where
            K: k8s_openapi::Resource + kube::Resource<DynamicType = ()>,
        {
            (ApiResource::erase::<K>(&()), K::KIND)
        }
        match self {
            Self::Deployment => of::<Deployment>(),
            Self::ReplicaSet => of::<ReplicaSet>(),
            Self::StatefulSet => of::<StatefulSet>(),
            Self::DaemonSet => of::<DaemonSet>(),
            Self::Job => of::<Job>(),
            Self::CronJob => of::<CronJob>(),
            Self::PodDisruptionBudget => of::<PodDisruptionBudget>(),
            Self::HorizontalPodAutoscaler => of::<HorizontalPodAutoscaler>(),
            Self::PersistentVolumeClaim => of::<PersistentVolumeClaim>(),
            Self::Service => of::<Service>(),
            Self::Ingress => of::<Ingress>(),
            Self::Pod => of::<Pod>(),
            Self::ControllerRevision => of::<ControllerRevision>(),
        }
    }

    /// The status of `object` at `stage`, as a merge patch in which null means
    /// absent; `None` when nothing is to be written at this stage.
    ///
    /// Times that the status already holds, for what has not changed, are kept:
    /// asking again for the same stage gives the same answer.
    pub fn status(
        self,
        object: &View<'_>,
        stage: WorkloadStage,
        options: &WorkloadOptions,
        now: Timestamp,
    ) -> Option<Value> {
        match self {
            Self::Deployment => rules::apps::deployment(object, stage, now),
            Self::ReplicaSet => rules::apps::replica_set(object, stage, now),
            Self::StatefulSet => rules::apps::stateful_set(object, stage),
            Self::DaemonSet => rules::apps::daemon_set(object, stage, options.nodes),
            Self::Job => rules::batch::job(object, stage, now),
            Self::CronJob => rules::batch::cron_job(object),
            Self::PodDisruptionBudget => rules::scaling::disruption_budget(object, now),
            Self::HorizontalPodAutoscaler => rules::scaling::autoscaler(object, stage, now),
            Self::PersistentVolumeClaim => rules::infrastructure::claim(object, stage),
            Self::Service => rules::infrastructure::service(object, stage),
            Self::Ingress => rules::infrastructure::ingress(object, stage),
            Self::Pod => rules::pod::pod(object, stage, now),
            Self::ControllerRevision => None,
        }
    }
}
