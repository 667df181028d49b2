//! The rules of kinds that are code.

use serde_json::Value;

use super::status::Health;
use super::{apps, argo, autoscaling, batch, core, crds, networking, pod};

/// The rule of a kind.
pub(super) struct Rule {
    /// The supported API versions; empty means all.
    pub versions: &'static [&'static str],
    pub judge: fn(&Value) -> Option<Health>,
}

pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
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
        ("argoproj.io", "Rollout") => (ANY, |o| Some(argo::rollout_health(o))),
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
