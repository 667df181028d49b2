//! What is read of Pods and of what they belong to: a few fields of the core API, whatever else
//! the object has.

use std::collections::BTreeMap;

use serde_json::Value;

lenient! {
    /// A Pod.
    pub struct PodView {
        /// The desired state.
        pub spec: PodSpecView,
        /// The observed state.
        pub status: PodStatusView,
    }

    /// The desired state of a Pod.
    pub struct PodSpecView {
        /// The Node that it runs on.
        pub node_name: String,
        /// Containers that run before the others.
        pub init_containers: Vec<ContainerView>,
        /// The containers.
        pub containers: Vec<ContainerView>,
    }

    /// A container.
    pub struct ContainerView {
        /// Its name.
        pub name: String,
        /// Its image.
        pub image: String,
        /// `Always` for an init container that runs beside the others.
        pub restart_policy: String,
        /// The probe of its start, if it has one.
        pub startup_probe: Option<Value>,
        /// The probe of its readiness, if it has one.
        pub readiness_probe: Option<Value>,
        /// What it requests.
        pub resources: ContainerResources,
    }

    /// What a container requests.
    pub struct ContainerResources {
        /// Quantities by resource.
        pub requests: BTreeMap<String, Value>,
    }

    /// The observed state of a Pod.
    pub struct PodStatusView {
        /// Its phase.
        pub phase: String,
        /// A word for its state.
        pub reason: String,
        /// Details of its state.
        pub message: String,
        /// Its conditions.
        pub conditions: Vec<ObjectCondition>,
        /// States of the init containers.
        pub init_container_statuses: Vec<ContainerStatusView>,
        /// States of the containers.
        pub container_statuses: Vec<ContainerStatusView>,
    }

    /// The state of a container.
    pub struct ContainerStatusView {
        /// Its name.
        pub name: String,
        /// Whether it is ready.
        pub ready: bool,
        /// Whether its startup probe has succeeded.
        pub started: bool,
        /// How often it was restarted.
        pub restart_count: i64,
        /// Its state.
        pub state: ContainerState,
        /// Its state before.
        pub last_state: ContainerState,
    }

    /// One of three states.
    pub struct ContainerState {
        /// It waits.
        pub waiting: Option<ContainerWaiting>,
        /// It runs.
        pub running: Option<Value>,
        /// It has ended.
        pub terminated: Option<ContainerTerminated>,
    }

    /// Why a container waits.
    pub struct ContainerWaiting {
        /// A word.
        pub reason: String,
        /// Details.
        pub message: String,
    }

    /// How a container ended.
    pub struct ContainerTerminated {
        /// Its exit code.
        pub exit_code: Option<i64>,
        /// The signal that ended it.
        pub signal: i64,
        /// A word.
        pub reason: String,
        /// Its termination message.
        pub message: String,
    }

    /// A condition in the status of any object.
    pub struct ObjectCondition {
        /// Its type.
        #[serde(rename = "type")]
        pub type_: String,
        /// `True`, `False` or `Unknown`.
        pub status: String,
        /// A word for the last transition.
        pub reason: String,
        /// Details.
        pub message: String,
    }

    /// A workload, such as a StatefulSet: what is read of any of them.
    pub struct WorkloadView {
        /// The desired state.
        pub spec: WorkloadSpecView,
        /// The observed state.
        pub status: WorkloadStatusView,
    }

    /// The desired state of a workload.
    pub struct WorkloadSpecView {
        /// The number of Pods.
        pub replicas: Option<u64>,
        /// The number of Pods of a Job at a time.
        pub parallelism: Option<u64>,
        /// How Pods of a StatefulSet are created.
        pub pod_management_policy: String,
        /// How Pods are replaced.
        pub update_strategy: UpdateStrategyView,
    }

    /// How the Pods of a StatefulSet are replaced.
    pub struct UpdateStrategyView {
        /// `RollingUpdate` or `OnDelete`.
        #[serde(rename = "type")]
        pub type_: String,
        /// Settings of a rolling update.
        pub rolling_update: RollingUpdateView,
    }

    /// Settings of a rolling update.
    pub struct RollingUpdateView {
        /// Pods below this ordinal are not replaced.
        pub partition: u64,
    }

    /// The observed state of a workload.
    pub struct WorkloadStatusView {
        /// The number of Pods that a DaemonSet wants.
        pub desired_number_scheduled: Option<u64>,
        /// Its conditions.
        pub conditions: Vec<ObjectCondition>,
    }

    /// An Event.
    pub struct EventView {
        /// `Normal` or `Warning`.
        #[serde(rename = "type")]
        pub type_: String,
        /// A word.
        pub reason: String,
        /// Details.
        pub message: String,
        /// What it is about.
        pub involved_object: InvolvedObjectView,
        /// Repetitions of it.
        pub series: EventSeriesView,
        /// When it happened last.
        pub last_timestamp: String,
        /// When it happened.
        pub event_time: String,
    }

    /// What an Event is about.
    pub struct InvolvedObjectView {
        /// UID of the object.
        pub uid: String,
    }

    /// Repetitions of an Event.
    pub struct EventSeriesView {
        /// When it was observed last.
        pub last_observed_time: String,
    }
}

impl PodStatusView {
    /// Whether the Pod has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// The first condition of a type.
pub fn find_condition<'a>(
    conditions: &'a [ObjectCondition],
    type_: &str,
) -> Option<&'a ObjectCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}
