//! Creates what workloads own: ReplicaSets for Deployments, Pods for ReplicaSets
//! and Jobs. Only where [`super::Options::pods`] asks for it.
//!
//! Names are made from the owner and a number, so that doing it again finds what
//! is there. What is no longer wanted goes by a new scale; the rest is left to
//! the garbage collector of the API server.

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};

use super::{
    DELAY_ANNOTATION, OUTCOME_ANNOTATION,
    engine::{Written, settle},
    kind::{Kind, Stage, View},
    outcome::Outcome,
    rules::digest,
};

/// The label by which a ReplicaSet tells its Pods from those of its siblings.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Requests in flight per owner.
const PARALLEL: usize = 16;

/// Makes the children of `owner` those that `stage` wants; `None` for a kind that
/// has none.
pub(super) fn sync(
    kind: Kind,
    client: &Client,
    owner: &DynamicObject,
    stage: Stage,
    outcome: Outcome,
) -> Option<BoxFuture<'static, Written>> {
    let (client, owner) = (client.clone(), owner.clone());
    let done = async move {
        let children = Children { client, kind, owner, outcome };
        let result = match kind {
            Kind::Deployment => children.replica_sets(stage).await,
            Kind::ReplicaSet => children.replica_set_pods().await,
            _ => children.job_pods(stage).await,
        };
        settle(result)
    };
    matches!(kind, Kind::Deployment | Kind::ReplicaSet | Kind::Job).then(|| done.boxed())
}

struct Children {
    client: Client,
    kind: Kind,
    owner: DynamicObject,
    outcome: Outcome,
}

impl Children {
    async fn replica_sets(&self, stage: Stage) -> Result<(), kube::Error> {
        let owner = View::new(&self.owner);
        let api = self.api(&ApiResource::erase::<ReplicaSet>(&()));
        let mut template = owner.spec["template"].clone();
        let hash = digest(&template);
        let name = format!("{}-{hash}", owner.name());
        template["metadata"]["labels"][TEMPLATE_HASH] = json!(hash);
        let mut selector = owner.spec["selector"].clone();
        selector["matchLabels"][TEMPLATE_HASH] = json!(hash);
        let labels = template["metadata"]["labels"].clone();
        let set = self.child(
            "apps/v1",
            "ReplicaSet",
            &name,
            &labels,
            &json!({}),
            json!({
                "replicas": owner.replicas(), "selector": selector, "template": template,
            }),
        );
        if !create(&api, &set).await? {
            scale(&api, &name, owner.replicas()).await?;
        }
        if stage == Stage::Succeeded {
            let uid = self.owner.metadata.uid.as_deref();
            for old in api.list(&ListParams::default()).await? {
                let owned =
                    old.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid);
                if owned && old.name_any() != name && View::new(&old).replicas() != 0 {
                    scale(&api, &old.name_any(), 0).await?;
                }
            }
        }
        Ok(())
    }

    async fn replica_set_pods(&self) -> Result<(), kube::Error> {
        let owner = View::new(&self.owner);
        self.create_pods(owner.replicas(), None).await?;
        // What the status counts beyond the scale was created by an earlier one.
        let api = self.api(&ApiResource::erase::<Pod>(&()));
        for number in owner.replicas()..owner.status["replicas"].as_i64().unwrap_or(0) {
            match api.delete(&self.pod_name(number), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn job_pods(&self, stage: Stage) -> Result<(), kube::Error> {
        let owner = View::new(&self.owner);
        if stage != Stage::Progressing || owner.spec["suspend"] == true {
            return Ok(());
        }
        let parallelism = owner.spec["parallelism"].as_i64().unwrap_or(1);
        let count = parallelism.min(owner.spec["completions"].as_i64().unwrap_or(parallelism));
        self.create_pods(count, Some(("job-name", owner.name()))).await
    }

    async fn create_pods(
        &self,
        count: i64,
        label: Option<(&str, &str)>,
    ) -> Result<(), kube::Error> {
        let owner = View::new(&self.owner);
        let template = &owner.spec["template"];
        let mut labels = template["metadata"]["labels"].clone();
        if let Some((key, value)) = label {
            labels[key] = json!(value);
        }
        let api = self.api(&ApiResource::erase::<Pod>(&()));
        let results = stream::iter(0..count)
            .map(|number| {
                let annotations = &template["metadata"]["annotations"];
                let name = self.pod_name(number);
                let pod =
                    self.child("v1", "Pod", &name, &labels, annotations, template["spec"].clone());
                let api = &api;
                async move { create(api, &pod).await }
            })
            .buffer_unordered(PARALLEL)
            .collect::<Vec<_>>()
            .await;
        results.into_iter().try_for_each(|result| result.map(|_| ()))
    }

    fn pod_name(&self, number: i64) -> String {
        let salt = json!([self.owner.metadata.uid, number]);
        format!("{}-{}", self.owner.name_any(), &digest(&salt)[..5])
    }

    /// An object that the owner controls. It meets the owner's fate, at the owner's pace.
    fn child(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        labels: &Value,
        annotations: &Value,
        spec: Value,
    ) -> Value {
        let mut annotations = annotations.as_object().cloned().unwrap_or_else(Map::new);
        match self.outcome {
            Outcome::Succeed => {}
            Outcome::Fail => drop(annotations.insert(OUTCOME_ANNOTATION.to_owned(), json!("fail"))),
            Outcome::Hang => drop(annotations.insert(OUTCOME_ANNOTATION.to_owned(), json!("hang"))),
        }
        if let Some(delay) = self.owner.annotations().get(DELAY_ANNOTATION) {
            annotations.insert(DELAY_ANNOTATION.to_owned(), json!(delay));
        }
        let resource = self.kind.resource();
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": name, "namespace": self.owner.metadata.namespace,
                "labels": labels, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": resource.api_version, "kind": resource.kind,
                    "name": self.owner.metadata.name, "uid": self.owner.metadata.uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": spec,
        })
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        let namespace = self.owner.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, resource)
    }
}

/// Whether the object was created; false when one of its name is there already.
async fn create(api: &Api<DynamicObject>, object: &Value) -> Result<bool, kube::Error> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(false),
        Err(error) => Err(error),
    }
}

async fn scale(api: &Api<DynamicObject>, name: &str, replicas: i64) -> Result<(), kube::Error> {
    let patch = json!({ "spec": { "replicas": replicas } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ())
}
