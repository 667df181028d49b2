//! Pods and claims of StatefulSets, and the revisions of StatefulSets and DaemonSets.

use std::sync::Arc;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::json;

use super::{
    Children, MAX_PODS, Outcome, REVISION_HASH, View, WorkloadKind, create, events::About,
};
use crate::workloads::rules::digest;

impl Children {
    pub(super) async fn stateful_set(
        &mut self,
        owner: &Arc<DynamicObject>,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let hash = digest(&view.spec["template"]);
        let revision = format!("{}-{hash}", view.name());
        self.revision(WorkloadKind::StatefulSet, owner, &hash).await?;
        let replicas = view.replicas().clamp(0, MAX_PODS);
        let strategy = &view.spec["updateStrategy"];
        let partition = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
        let start = view.spec["ordinals"]["start"].as_i64().unwrap_or(0);
        // An update that fails stops at its first Pod, which has the highest number.
        let first = match self.outcome(owner) {
            Outcome::Succeed => start.saturating_add(partition),
            Outcome::Fail | Outcome::Hang => start.saturating_add(replicas - 1),
        };
        let ordinal = |pod: &DynamicObject| {
            let name = pod.name_any();
            name.rsplit_once('-').and_then(|(_, number)| number.parse::<i64>().ok()).unwrap_or(-1)
        };
        let numbers = start..start.saturating_add(replicas);
        let mut surplus = Vec::new();
        for pod in self.cache.children(owner, WorkloadKind::Pod) {
            let number = ordinal(&pod);
            let outdated = pod.labels().get(REVISION_HASH) != Some(&revision);
            let replaced = outdated && number >= first && strategy["type"] != "OnDelete";
            if !numbers.contains(&number) || replaced {
                surplus.push(pod);
            } else if !outdated {
                self.align(owner, WorkloadKind::Pod, &pod).await?;
            }
        }
        // Those that are replaced come back when they are gone: their names are taken.
        self.remove_pods((WorkloadKind::StatefulSet, owner), &surplus).await?;
        for number in numbers {
            let name = format!("{}-{number}", view.name());
            if !self.cache.has(owner, WorkloadKind::Pod, &name) {
                self.add_numbered(owner, &name, number, &revision).await?;
            }
        }
        Ok(())
    }

    async fn add_numbered(
        &mut self,
        owner: &DynamicObject,
        name: &str,
        number: i64,
        revision: &str,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let set = view.name();
        let pod = format!("create Pod {name} in StatefulSet {set} failed error: pods \"{name}\"");
        if self.is_refused((WorkloadKind::StatefulSet, owner), &pod).await {
            return Ok(());
        }
        let template = &view.spec["template"];
        let mut spec = template["spec"].clone();
        if !spec["volumes"].is_array() {
            spec["volumes"] = json!([]);
        }
        for claim in view.spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let volume = claim["metadata"]["name"].as_str().unwrap_or_default();
            let claim_name = format!("{volume}-{name}");
            if let Some(volumes) = spec["volumes"].as_array_mut() {
                volumes.push(json!({
                    "name": volume, "persistentVolumeClaim": { "claimName": claim_name },
                }));
            }
            // They outlive the set, and so have no owner.
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": claim_name, "namespace": owner.metadata.namespace,
                    "labels": view.spec["selector"]["matchLabels"],
                },
                "spec": claim["spec"],
            });
            create(&self.client, WorkloadKind::PersistentVolumeClaim, claim).await?;
        }
        spec["hostname"] = json!(name);
        if let Some(service) = view.spec["serviceName"].as_str().filter(|name| !name.is_empty()) {
            spec["subdomain"] = json!(service);
        }
        let mut labels = template["metadata"]["labels"].clone();
        labels[REVISION_HASH] = json!(revision);
        labels["statefulset.kubernetes.io/pod-name"] = json!(name);
        labels["apps.kubernetes.io/pod-index"] = json!(number.to_string());
        let annotations = &template["metadata"]["annotations"];
        let mut pod = self.child(
            WorkloadKind::Pod,
            (WorkloadKind::StatefulSet, owner),
            name,
            (&labels, annotations),
        );
        pod["spec"] = spec;
        if self.create(WorkloadKind::Pod, pod).await? {
            let message = format!("create Pod {name} in StatefulSet {} successful", view.name());
            self.report(About(WorkloadKind::StatefulSet, owner), "SuccessfulCreate", &message)
                .await;
        }
        Ok(())
    }

    /// Keeps the Pod template of this revision, to go back to it.
    pub(super) async fn revision(
        &mut self,
        kind: WorkloadKind,
        owner: &DynamicObject,
        hash: &str,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let name = format!("{}-{hash}", view.name());
        let mut all = self.cache.children(owner, WorkloadKind::ControllerRevision);
        let number = |revision: &DynamicObject| revision.data["revision"].as_i64().unwrap_or(0);
        all.sort_by_key(|revision| number(revision));
        let last = all.last().map_or(0, |revision| number(revision));
        match all.iter().find(|revision| revision.name_any() == name) {
            Some(known) if number(known) == last => {}
            Some(known) => {
                let patch = json!({ "revision": last.saturating_add(1) });
                self.patch(WorkloadKind::ControllerRevision, known, &patch).await?;
            }
            None => {
                let mut labels = view.spec["template"]["metadata"]["labels"].clone();
                labels[REVISION_HASH] = json!(hash);
                let cause = owner.annotations().get("kubernetes.io/change-cause");
                let annotations = cause.map(|cause| json!({ "kubernetes.io/change-cause": cause }));
                let mut revision = self.child(
                    WorkloadKind::ControllerRevision,
                    (kind, owner),
                    &name,
                    (&labels, &annotations.unwrap_or_default()),
                );
                let mut template = view.spec["template"].clone();
                template["$patch"] = json!("replace");
                revision["data"] = json!({ "spec": { "template": template } });
                revision["revision"] = json!(last.saturating_add(1));
                self.create(WorkloadKind::ControllerRevision, revision).await?;
                let limit = view.spec["revisionHistoryLimit"].as_i64().unwrap_or(10);
                let surplus = all.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
                self.delete(WorkloadKind::ControllerRevision, &all[..surplus]).await?;
            }
        }
        Ok(())
    }
}
