//! Events, as the controllers and the kubelet report them.

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::json;

use super::{Children, View, WorkloadKind};
use crate::workloads::outcome::{self, Failure};

/// What an Event is about.
pub(super) struct About<'a>(pub WorkloadKind, pub &'a DynamicObject);

impl Children {
    /// Reports what is as it should be.
    pub(super) async fn report(&self, about: About<'_>, reason: &str, message: &str) {
        self.record(about, "Normal", reason, message).await;
    }

    /// Reports what keeps failing: once for each object, as it is looked at again and again.
    pub(super) async fn warn_once(&mut self, about: About<'_>, reason: &str, message: &str) {
        let uid = about.1.uid().unwrap_or_default();
        if self.warned.insert((uid, message.to_owned())) {
            self.record(about, "Warning", reason, message).await;
        }
    }

    /// Reports what became of the containers of a Pod.
    pub(super) async fn report_pod(&self, before: Option<&DynamicObject>, pod: &DynamicObject) {
        let crashes = |pod: &DynamicObject| {
            let containers = pod.data["status"]["containerStatuses"].as_array();
            containers
                .into_iter()
                .flatten()
                .any(|container| container["state"]["waiting"]["reason"] == "CrashLoopBackOff")
        };
        let runs = |pod: &DynamicObject| pod.data["status"]["phase"] == "Running";
        let containers: Vec<(&str, &str)> = pod.data["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|container| {
                Some((container["name"].as_str()?, container["image"].as_str()?))
            })
            .collect();
        if runs(pod) && !before.is_some_and(runs) {
            for (name, image) in &containers {
                let pulled = format!("Container image \"{image}\" already present on machine");
                self.report(About(WorkloadKind::Pod, pod), "Pulled", &pulled).await;
                self.report(
                    About(WorkloadKind::Pod, pod),
                    "Started",
                    &format!("Started container {name}"),
                )
                .await;
            }
        }
        let unready = |pod: &DynamicObject| {
            let view = View::new(pod);
            runs(pod)
                && outcome::failure(&view) == Failure::Unhealthy
                && view.condition("Ready")["status"] == "False"
        };
        if unready(pod) && !before.is_some_and(unready) {
            let message = "Readiness probe failed: HTTP probe failed with statuscode: 503";
            self.record(About(WorkloadKind::Pod, pod), "Warning", "Unhealthy", message).await;
        }
        if crashes(pod) && !before.is_some_and(crashes) {
            for (name, _) in &containers {
                let message = format!("Back-off restarting failed container {name}");
                self.record(About(WorkloadKind::Pod, pod), "Warning", "BackOff", &message).await;
            }
        }
    }

    /// An Event that cannot be written is dropped: it is not waited for.
    async fn record(&self, about: About<'_>, kind: &str, reason: &str, message: &str) {
        let About(of, object) = about;
        let resource = of.resource();
        let component = match of {
            WorkloadKind::Deployment => "deployment-controller",
            WorkloadKind::ReplicaSet => "replicaset-controller",
            WorkloadKind::StatefulSet => "statefulset-controller",
            WorkloadKind::DaemonSet => "daemonset-controller",
            WorkloadKind::Job => "job-controller",
            _ => "kubelet",
        };
        let now = self.clock.now();
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let event = json!({
            "metadata": { "generateName": format!("{}.", object.name_any()), "namespace": namespace },
            "involvedObject": {
                "apiVersion": resource.api_version, "kind": resource.kind, "name": object.metadata.name,
                "namespace": namespace, "uid": object.metadata.uid,
                "resourceVersion": object.metadata.resource_version,
            },
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": time, "lastTimestamp": time, "source": { "component": component },
            "reportingComponent": component,
        });
        let Ok(event) = serde_json::from_value::<Event>(event) else { return };
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, "an Event could not be written");
        }
    }
}
