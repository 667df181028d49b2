//! Pods of ReplicaSets, DaemonSets and Jobs, which differ by name only.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    Children, MAX_PODS, Outcome, PARALLEL, REVISION_HASH, View, WorkloadKind, create, events::About,
};
use crate::workloads::outcome::{self, Failure};
use crate::workloads::rules::digest;

impl Children {
    pub(super) async fn replica_set(
        &mut self,
        owner: &Arc<DynamicObject>,
    ) -> Result<(), kube::Error> {
        let wanted = View::new(owner).replicas().clamp(0, MAX_PODS);
        let pods = self.cache.children(owner, WorkloadKind::Pod);
        // Pods that have ended count for nothing.
        let (mut pods, ended): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| !has_ended(pod));
        self.delete(WorkloadKind::Pod, &ended).await?;
        // The youngest go first.
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.clone().map(|time| time.0));
        let has = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let surplus = pods.split_off(usize::try_from(wanted.min(has)).unwrap_or(0));
        for pod in &pods {
            self.align(owner, WorkloadKind::Pod, pod).await?;
        }
        self.remove_pods((WorkloadKind::ReplicaSet, owner), &surplus).await?;
        let labels = View::new(owner).spec["template"]["metadata"]["labels"].clone();
        self.add_pods((WorkloadKind::ReplicaSet, owner), wanted - has, &labels).await
    }

    pub(super) async fn daemon_set(
        &mut self,
        owner: &Arc<DynamicObject>,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let hash = digest(&view.spec["template"]);
        self.revision(WorkloadKind::DaemonSet, owner, &hash).await?;
        let on_delete = view.spec["updateStrategy"]["type"] == "OnDelete";
        let pods = self.cache.children(owner, WorkloadKind::Pod);
        let (current, outdated): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|pod| on_delete || pod.labels().get(REVISION_HASH) == Some(&hash));
        self.remove_pods((WorkloadKind::DaemonSet, owner), &outdated).await?;
        for pod in &current {
            self.align(owner, WorkloadKind::Pod, pod).await?;
        }
        let mut labels = view.spec["template"]["metadata"]["labels"].clone();
        labels[REVISION_HASH] = json!(hash);
        let wanted = i64::from(self.options.nodes).min(MAX_PODS);
        let missing = wanted - i64::try_from(current.len()).unwrap_or(i64::MAX);
        self.add_pods((WorkloadKind::DaemonSet, owner), missing, &labels).await
    }

    pub(super) async fn job(&mut self, owner: &Arc<DynamicObject>) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let ended =
            ["Complete", "Failed"].iter().any(|kind| view.condition(kind)["status"] == "True");
        // Not before the controller has taken it up.
        if ended || view.spec["suspend"] == true || view.status["startTime"].is_null() {
            return Ok(());
        }
        let parallelism = view.spec["parallelism"].as_i64().unwrap_or(1);
        let wanted = parallelism.min(view.spec["completions"].as_i64().unwrap_or(parallelism));
        let pods = self.cache.children(owner, WorkloadKind::Pod);
        for pod in pods.iter().filter(|pod| !has_ended(pod)) {
            self.align(owner, WorkloadKind::Pod, pod).await?;
        }
        let labels = view.spec["template"]["metadata"]["labels"].clone();
        let missing = wanted.min(MAX_PODS) - i64::try_from(pods.len()).unwrap_or(i64::MAX);
        self.add_pods((WorkloadKind::Job, owner), missing, &labels).await
    }

    /// Creates Pods with names that the server makes.
    async fn add_pods(
        &mut self,
        (kind, owner): (WorkloadKind, &DynamicObject),
        count: i64,
        labels: &Value,
    ) -> Result<(), kube::Error> {
        if count <= 0 {
            return Ok(());
        }
        let pods = format!("Error creating: pods \"{}-\"", owner.name_any());
        if self.is_refused((kind, owner), &pods).await {
            return Ok(());
        }
        let template = &View::new(owner).spec["template"];
        let name = format!("{}-", owner.name_any());
        let annotations = &template["metadata"]["annotations"];
        let mut pod = self.child(WorkloadKind::Pod, (kind, owner), &name, (labels, annotations));
        pod["spec"] = template["spec"].clone();
        let client = &self.client;
        let made: Vec<Option<DynamicObject>> = stream::iter(0..count)
            .map(|_| create(client, WorkloadKind::Pod, pod.clone()))
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        for pod in made.into_iter().flatten() {
            let message = format!("Created pod: {}", pod.name_any());
            self.cache.put(WorkloadKind::Pod, pod);
            self.report(About(kind, owner), "SuccessfulCreate", &message).await;
        }
        Ok(())
    }

    /// Whether the Pods of an owner cannot be created, which it then says.
    pub(super) async fn is_refused(
        &mut self,
        (kind, owner): (WorkloadKind, &DynamicObject),
        pods: &str,
    ) -> bool {
        let fails = self.outcome(owner) == Outcome::Fail
            && outcome::failure(&View::new(owner)) == Failure::FailedCreate;
        if fails {
            let message = format!("{pods} is forbidden: exceeded quota: simulated");
            self.warn_once(About(kind, owner), "FailedCreate", &message).await;
        }
        fails
    }

    pub(super) async fn remove_pods(
        &mut self,
        (kind, owner): (WorkloadKind, &DynamicObject),
        pods: &[Arc<DynamicObject>],
    ) -> Result<(), kube::Error> {
        self.delete(WorkloadKind::Pod, pods).await?;
        for pod in pods {
            let message = format!("Deleted pod: {}", pod.name_any());
            self.report(About(kind, owner), "SuccessfulDelete", &message).await;
        }
        Ok(())
    }
}

fn has_ended(pod: &DynamicObject) -> bool {
    matches!(pod.data["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}
