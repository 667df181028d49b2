//! ReplicaSets of Deployments, one for each Pod template, numbered by revision.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use super::{Children, Outcome, TEMPLATE_HASH, View, WorkloadKind, events::About};
use crate::workloads::rules::digest;

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that are its own.
const OWN: [&str; 5] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED, MAX];

/// The number in the annotation of a revision; 0 without one.
fn revision(object: &DynamicObject) -> i64 {
    object.annotations().get(REVISION).and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Children {
    pub(super) async fn deployment(
        &mut self,
        owner: &Arc<DynamicObject>,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let hash = digest(&view.spec["template"]);
        let name = format!("{}-{hash}", view.name());
        let sets = self.cache.children(owner, WorkloadKind::ReplicaSet);
        let (new, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| set.name_any() == name);
        let new = new.into_iter().next();
        if new.is_none() && view.spec["paused"] == true {
            return Ok(());
        }
        let replicas = view.replicas();
        let done = replicas == 0
            || (view.status["observedGeneration"].as_i64() == Some(view.generation())
                && view.condition("Progressing")["reason"] == "NewReplicaSetAvailable");
        let recreate = view.spec["strategy"]["type"] == "Recreate";
        let count = |set: &DynamicObject| View::new(set).replicas();
        let has_old = old.iter().any(|set| count(set) > 0);
        // An update that fails stops at its first Pod.
        let stops = self.outcome(owner) != Outcome::Succeed && has_old && !done && !recreate;
        let current = new.as_deref().map_or(0, count);
        let wanted = if stops { current.clamp(1.min(replicas), replicas) } else { replicas };

        let last = old.iter().map(|set| revision(set)).max().unwrap_or(0);
        let number = match &new {
            Some(new) if revision(new) > last => revision(new),
            Some(_) | None => last.saturating_add(1),
        };
        let annotations = set_annotations(owner, new.as_deref(), number);
        match new {
            None => self.create_set(owner, &name, &hash, wanted, annotations).await?,
            Some(new) => {
                self.align(owner, WorkloadKind::ReplicaSet, &new).await?;
                let has = new.annotations();
                let changed = annotations.iter().any(|(key, value)| has.get(key) != Some(value));
                if changed {
                    let patch = json!({ "metadata": { "annotations": annotations } });
                    self.patch(WorkloadKind::ReplicaSet, &new, &patch).await?;
                }
                self.scale_set(owner, &new, wanted).await?;
            }
        }
        if owner.annotations().get(REVISION) != Some(&number.to_string()) {
            let patch = json!({ "metadata": { "annotations": { REVISION: number.to_string() } } });
            self.patch(WorkloadKind::Deployment, owner, &patch).await?;
        }
        if done || recreate {
            for set in &old {
                self.scale_set(owner, set, 0).await?;
            }
            self.forget_sets(owner, old).await?;
        }
        Ok(())
    }

    async fn create_set(
        &mut self,
        owner: &DynamicObject,
        name: &str,
        hash: &str,
        replicas: i64,
        annotations: BTreeMap<String, String>,
    ) -> Result<(), kube::Error> {
        let view = View::new(owner);
        let mut template = view.spec["template"].clone();
        template["metadata"]["labels"][TEMPLATE_HASH] = json!(hash);
        let mut selector = view.spec["selector"].clone();
        selector["matchLabels"][TEMPLATE_HASH] = json!(hash);
        let labels = template["metadata"]["labels"].clone();
        let mut set = self.child(
            WorkloadKind::ReplicaSet,
            (WorkloadKind::Deployment, owner),
            name,
            (&labels, &json!(annotations)),
        );
        set["spec"] = json!({ "replicas": replicas, "selector": selector, "template": template });
        if let Some(ready) = view.spec.get("minReadySeconds") {
            set["spec"]["minReadySeconds"] = ready.clone();
        }
        if self.create(WorkloadKind::ReplicaSet, set).await? && replicas > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.report(About(WorkloadKind::Deployment, owner), "ScalingReplicaSet", &message)
                .await;
        }
        Ok(())
    }

    async fn scale_set(
        &mut self,
        owner: &DynamicObject,
        set: &DynamicObject,
        replicas: i64,
    ) -> Result<(), kube::Error> {
        let current = View::new(set).replicas();
        if current == replicas {
            return Ok(());
        }
        self.patch(WorkloadKind::ReplicaSet, set, &json!({ "spec": { "replicas": replicas } }))
            .await?;
        let word = if replicas > current { "up" } else { "down" };
        let message =
            format!("Scaled {word} replica set {} from {current} to {replicas}", set.name_any());
        self.report(About(WorkloadKind::Deployment, owner), "ScalingReplicaSet", &message).await;
        Ok(())
    }

    /// Deletes the oldest ReplicaSets beyond the limit of the history.
    async fn forget_sets(
        &mut self,
        owner: &DynamicObject,
        mut old: Vec<Arc<DynamicObject>>,
    ) -> Result<(), kube::Error> {
        let limit = View::new(owner).spec["revisionHistoryLimit"].as_i64().unwrap_or(10);
        let limit = usize::try_from(limit).unwrap_or(0);
        old.sort_by_key(|set| revision(set));
        let surplus = old.len().saturating_sub(limit);
        self.delete(WorkloadKind::ReplicaSet, &old[..surplus]).await
    }
}

/// Annotations of a ReplicaSet: those of its Deployment, such as the cause of a
/// change, and its place in the history.
fn set_annotations(
    owner: &DynamicObject,
    set: Option<&DynamicObject>,
    number: i64,
) -> BTreeMap<String, String> {
    let view = View::new(owner);
    let mut out: BTreeMap<String, String> = owner.annotations().clone();
    out.retain(|key, _| !OWN.contains(&key.as_str()) && !key.starts_with("simulate.wavegate.dev/"));
    let replicas = view.replicas();
    let surge = match &view.spec["strategy"]["rollingUpdate"]["maxSurge"] {
        Value::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u16>().ok());
            let hundredths = replicas.saturating_mul(i64::from(percent.unwrap_or(0)));
            // Rounded up.
            hundredths.saturating_add(99) / 100
        }
        number => number.as_i64().unwrap_or(0),
    };
    out.insert(DESIRED.to_owned(), replicas.to_string());
    out.insert(MAX.to_owned(), replicas.saturating_add(surge).to_string());
    out.insert(REVISION.to_owned(), number.to_string());
    // One that is used again keeps the revisions that it was.
    if let Some(set) = set {
        let was = revision(set);
        let history = set.annotations().get(REVISION_HISTORY);
        if was != 0 && was != number {
            let all = history.map_or_else(|| was.to_string(), |all| format!("{all},{was}"));
            out.insert(REVISION_HISTORY.to_owned(), all);
        }
    }
    out
}
