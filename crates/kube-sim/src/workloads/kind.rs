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
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::Value;

use super::{Options, rules};

/// A kind whose status is simulated, or that workloads own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the kind of its name")]
pub enum Kind {
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

/// An object as the rules see it; a part that it lacks is `Value::Null`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Names, labels, annotations, generation.
    pub metadata: &'a ObjectMeta,
    /// The `spec` as it is stored.
    pub spec: &'a Value,
    /// The `status` as it is stored.
    pub status: &'a Value,
}

/// How far the work on an object has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// At work; not ready yet.
    Progressing,
    /// Ready, available, completed or bound.
    Succeeded,
    /// Failed in the way of the kind.
    Failed,
}

impl<'a> View<'a> {
    /// The parts of `object`.
    pub fn new(object: &'a DynamicObject) -> Self {
        Self {
            metadata: &object.metadata,
            spec: &object.data["spec"],
            status: &object.data["status"],
        }
    }

    /// `metadata.name`, empty when absent.
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// `metadata.generation`, 0 when absent.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or(0)
    }

    /// `spec.replicas`, which the API server sets to 1 when absent.
    pub fn replicas(&self) -> i64 {
        self.spec["replicas"].as_i64().unwrap_or(1)
    }

    /// The status condition of type `kind`, or null.
    pub fn condition(&self, kind: &str) -> &'a Value {
        static ABSENT: Value = Value::Null;
        let conditions = self.status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&ABSENT)
    }
}

impl Kind {
    /// The kinds that `options` ask for.
    pub fn simulated(options: &Options) -> impl Iterator<Item = Self> {
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
        match self {
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::ReplicaSet => ApiResource::erase::<ReplicaSet>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
            Self::Job => ApiResource::erase::<Job>(&()),
            Self::CronJob => ApiResource::erase::<CronJob>(&()),
            Self::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
            Self::HorizontalPodAutoscaler => ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            Self::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::Ingress => ApiResource::erase::<Ingress>(&()),
            Self::Pod => ApiResource::erase::<Pod>(&()),
            Self::ControllerRevision => ApiResource::erase::<ControllerRevision>(&()),
        }
    }

    /// The name of the kind, as in `kind:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Service => "Service",
            Self::Ingress => "Ingress",
            Self::Pod => "Pod",
            Self::ControllerRevision => "ControllerRevision",
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
        stage: Stage,
        options: &Options,
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
