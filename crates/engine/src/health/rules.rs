//! The rules of kinds that are code.

use serde_json::Value;

use super::status::Health;
use super::{apps, argo, autoscaling, batch, core, crds, networking, pod};

/// The rule of a kind.
pub(super) struct Rule {
    /// The supported API versions; empty means all.
    pub versions: &'static [&'static str],
    pub judge: fn(&Value) -> Health,
}

pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
    const V1: &[&str] = &["v1"];
    const ANY: &[&str] = &[];
    let (versions, judge): (_, fn(&Value) -> Health) = match (group, kind) {
        ("apps", "Deployment") => (V1, apps::deployment),
        ("apps", "StatefulSet") => (V1, apps::stateful_set),
        ("apps", "DaemonSet") => (V1, apps::daemon_set),
        ("apps", "ReplicaSet") => (V1, apps::replica_set),
        ("", "Pod") => (V1, pod::pod),
        ("", "Service") => (V1, core::service),
        ("", "PersistentVolumeClaim") => (V1, core::persistent_volume_claim),
        ("batch", "Job") => (V1, batch::job),
        ("batch", "CronJob") => (ANY, batch::cron_job),
        ("networking.k8s.io" | "extensions", "Ingress") => (ANY, networking::ingress),
        ("gateway.networking.k8s.io", "Gateway") => (ANY, networking::gateway),
        ("apiregistration.k8s.io", "APIService") => (&["v1", "v1beta1"], core::api_service),
        ("policy", "PodDisruptionBudget") => (ANY, core::pod_disruption_budget),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            (&["v1", "v2"], autoscaling::horizontal_pod_autoscaler)
        }
        ("argoproj.io", "Rollout") => (ANY, argo::rollout_health),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => (ANY, crds::crd),
        // The kinds of SE-467 and Application itself (SE-468) have no health.
        _ => return None,
    };
    Some(Rule { versions, judge })
}
