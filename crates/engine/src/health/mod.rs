//! Health of a live object, and of an Application from its resources.
//!
//! Every rule uses the object only, and what it reports about itself (SE section 10). Two
//! principles:
//!
//! - A status of an older generation of the object gives `Progressing`, whatever else it
//!   reports.
//! - An absent field is not treated as zero: each rule defines the meaning of an absent field.
//!
//! The kinds of Kubernetes, and those of Argo that need more than fields and conditions, have
//! one file per family. Kinds of other projects have rules as data, in `kinds/*.rules`
//! (see `table`). All others are assessed by what well-behaved controllers report (see
//! `generic`). Scripts of administrators go before all of these; their results are part of
//! the input (see [`scripts`]). Which of these apply is a choice, [`Checks`].
//!
//! No rule accesses a cluster or a clock, fails or panics: an object of unexpected shape
//! is assessed by its valid fields.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod application;
mod apps;
mod argo;
mod autoscaling;
mod batch;
mod checks;
mod core;
mod crds;
mod generic;
mod networking;
mod pod;
mod read;
pub mod scripts;
mod table;
mod words;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use application::{Combined, Resource, combine};
pub use checks::{Checks, KindPattern};
use wavegate_api::Raw;
use wavegate_api::annotations::is_held_as_hook;

/// Health status, ordered from best to worst; an Application has the worst status of its
/// resources (SE-440).
pub use wavegate_api::HealthStatus as Status;

/// A health status and its message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The status.
    pub status: Status,
    /// Details; empty when the status is sufficient.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Health {
    /// A status with a message.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    fn healthy(message: impl Into<String>) -> Self {
        Self::new(Status::Healthy, message)
    }

    fn progressing(message: impl Into<String>) -> Self {
        Self::new(Status::Progressing, message)
    }

    fn suspended(message: impl Into<String>) -> Self {
        Self::new(Status::Suspended, message)
    }

    fn degraded(message: impl Into<String>) -> Self {
        Self::new(Status::Degraded, message)
    }

    fn unknown(message: impl Into<String>) -> Self {
        Self::new(Status::Unknown, message)
    }
}

/// Health of a live object by the default [`Checks`].
pub fn of(object: &Value) -> Option<Health> {
    Checks::default().of(object)
}

/// `Progressing` for an object that is being deleted, unless it is a hook that is kept
/// for its result (SE-441.1). Evaluated before scripts.
pub fn pending_deletion(object: &Value) -> Option<Health> {
    // An empty string is a zero timestamp and not a deletion.
    (object.is_deleting() && !is_held_as_hook(object))
        .then(|| Health::progressing("Pending deletion"))
}

/// The rule of the object's kind by the default [`Checks`], without its deletion.
pub fn by_kind(object: &Value) -> Option<Health> {
    Checks::default().by_kind(object)
}

/// Whether the default [`Checks`] have a check for a kind.
pub fn has_check(group: &str, kind: &str) -> bool {
    Checks::default().has_check(group, kind)
}

/// The rule of a kind.
struct Rule {
    /// The supported API versions; empty means all.
    versions: &'static [&'static str],
    judge: fn(&Value) -> Option<Health>,
}

fn rule(group: &str, kind: &str) -> Option<Rule> {
    const V1: &[&str] = &["v1"];
    const ANY: &[&str] = &[];
    let (versions, judge): (_, fn(&Value) -> Option<Health>) = match (group, kind) {
        ("apps", "Deployment") => (V1, |o| Some(apps::deployment(o))),
        ("apps", "StatefulSet") => (V1, |o| Some(apps::stateful_set(o))),
        ("apps", "DaemonSet") => (V1, |o| Some(apps::daemon_set(o))),
        ("apps", "ReplicaSet") => (V1, |o| Some(apps::replica_set(o))),
        ("", "Pod") => (V1, |o| Some(pod::pod(o))),
        ("", "Service") => (V1, |o| Some(core::service(o))),
        ("", "PersistentVolumeClaim") => (V1, |o| Some(core::persistent_volume_claim(o))),
        ("batch", "Job") => (V1, |o| Some(batch::job(o))),
        ("batch", "CronJob") => (ANY, |o| Some(batch::cron_job(o))),
        ("networking.k8s.io" | "extensions", "Ingress") => (ANY, |o| Some(networking::ingress(o))),
        ("gateway.networking.k8s.io", "Gateway") => (ANY, |o| Some(networking::gateway(o))),
        ("apiregistration.k8s.io", "APIService") => {
            (&["v1", "v1beta1"], |o| Some(core::api_service(o)))
        }
        ("policy", "PodDisruptionBudget") => (ANY, |o| Some(core::pod_disruption_budget(o))),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            (&["v1", "v2"], |o| Some(autoscaling::horizontal_pod_autoscaler(o)))
        }
        ("argoproj.io", "Workflow") => (ANY, |o| Some(argo::workflow(o))),
        ("argoproj.io", "Rollout") => (ANY, |o| Some(argo::rollout(o))),
        ("argoproj.io", "ApplicationSet") => (ANY, |o| Some(argo::application_set(o))),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => (ANY, |o| Some(crds::crd(o))),
        ("cert-manager.io", "Certificate") => (ANY, |o| Some(crds::certificate(o))),
        ("cert-manager.io", "Issuer") => (ANY, |o| Some(crds::issuer(o))),
        ("external-secrets.io", "ExternalSecret") => (ANY, |o| Some(crds::external_secret(o))),
        ("bitnami.com", "SealedSecret") => (ANY, |o| Some(crds::sealed_secret(o))),
        // The kinds of SE-467 and Application itself (SE-468) have no health.
        _ => return None,
    };
    Some(Rule { versions, judge })
}
