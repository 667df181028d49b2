//! What workloads own: ReplicaSets of Deployments, Pods of ReplicaSets, StatefulSets,
//! DaemonSets and Jobs, revisions to go back to. Only where
//! [`super::Options::pods`] asks for it.
//!
//! One task watches owners and children, and makes the children those that the
//! owner's specification and status want. Statuses are written by
//! [`super::engine`] and do not wait for the children: with and without them, a
//! workload becomes healthy at the same time. So all Pods of an update start
//! together, without the limits of a rolling update.

mod cache;
mod deployment;
mod events;
mod pods;
mod stateful;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use self::cache::{Cache, Uid, owner_of};
use super::{
    engine::{Written, namespaced, settle, status_code},
    kind::WorkloadKind,
    options::{OptionError, WorkloadOptions},
    outcome::{
        self, DELAY_ANNOTATION, FAILURE_ANNOTATION, MESSAGE_ANNOTATION, OUTCOME_ANNOTATION, Outcome,
    },
    pauses::Pauses,
    view::View,
};
use crate::clock::ServerClock;

/// Kinds that own, and that are owned.
const KINDS: [WorkloadKind; 7] = [
    WorkloadKind::Deployment,
    WorkloadKind::ReplicaSet,
    WorkloadKind::StatefulSet,
    WorkloadKind::DaemonSet,
    WorkloadKind::Job,
    WorkloadKind::ControllerRevision,
    WorkloadKind::Pod,
];

/// Requests in flight per owner.
const PARALLEL: usize = 16;

/// Pause before an owner is looked at again whose children could not be written.
const RETRY: Duration = Duration::from_millis(200);

/// Most Pods of one owner: more say nothing more.
const MAX_PODS: i64 = 500;

/// The label that distinguishes the Pods of a ReplicaSet from those of its siblings.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// The same for StatefulSets and DaemonSets.
const REVISION_HASH: &str = "controller-revision-hash";

/// Works until `shutdown`.
///
/// # Errors
///
/// When the client is not allowed to watch.
pub(super) async fn run(
    client: Client,
    options: Arc<WorkloadOptions>,
    shutdown: CancellationToken,
) -> Result<(), OptionError> {
    let mut events = stream::select_all(KINDS.map(|kind| {
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind.resource());
        let events = watcher(api, watcher::Config::default()).backoff(Pauses::default());
        events.map(move |event| (kind, event)).boxed()
    }));
    let mut children = Children {
        client,
        clock: options.clock.clone(),
        options,
        cache: Cache::new(KINDS),
        dirty: BTreeSet::new(),
        failed: BTreeSet::new(),
        warned: BTreeSet::new(),
    };
    loop {
        let retry = async {
            match children.failed.is_empty() {
                true => std::future::pending().await,
                false => tokio::time::sleep(RETRY).await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = retry => children.dirty.append(&mut children.failed),
            event = events.next() => match event {
                None => return Ok(()),
                Some((kind, Ok(event))) => children.observe(kind, event).await,
                Some((kind, Err(error))) if matches!(status_code(&error), Some(401 | 403)) => {
                    return Err(OptionError::Forbidden { kind: kind.name(), source: Box::new(error) });
                }
                Some((kind, Err(error))) => {
                    tracing::debug!(kind = kind.name(), %error, "watch failed; it is tried again");
                }
            },
        }
        if !children.cache.is_filled() {
            continue;
        }
        while let Some(uid) = children.dirty.pop_first() {
            if let Written::Failed = settle(children.reconcile(&uid).await) {
                children.failed.insert(uid);
            }
        }
    }
}

struct Children {
    client: Client,
    options: Arc<WorkloadOptions>,
    clock: ServerClock,
    cache: Cache,
    /// Owners to look at.
    dirty: BTreeSet<Uid>,
    /// Owners to look at again after a pause.
    failed: BTreeSet<Uid>,
    /// Warnings that were reported, by object.
    warned: BTreeSet<(Uid, String)>,
}

impl Children {
    async fn observe(&mut self, kind: WorkloadKind, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.cache.begin(kind),
            watcher::Event::InitApply(object) => {
                self.cache.listed(kind, &object);
                self.changed(kind, object, false).await;
            }
            watcher::Event::InitDone => self.dirty.extend(self.cache.end(kind)),
            watcher::Event::Apply(object) => self.changed(kind, object, true).await,
            watcher::Event::Delete(object) => {
                self.dirty.extend(owner_of(&object));
                if let Some(uid) = object.uid() {
                    self.cache.remove(&uid);
                }
            }
        }
    }

    async fn changed(&mut self, kind: WorkloadKind, object: DynamicObject, live: bool) {
        let before = self.cache.put(kind, object.clone());
        self.dirty.extend(object.uid());
        // What happens to a Pod changes nothing for its owner, unless it goes.
        if kind != WorkloadKind::Pod || object.metadata.deletion_timestamp.is_some() {
            self.dirty.extend(owner_of(&object));
        }
        if kind == WorkloadKind::Pod && live {
            self.report_pod(before.as_deref(), &object).await;
        }
    }

    /// Makes the children of one owner those that it wants.
    async fn reconcile(&mut self, uid: &Uid) -> Result<(), kube::Error> {
        let Some((kind, owner)) = self.cache.get(uid) else { return Ok(()) };
        if owner.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match kind {
            WorkloadKind::Deployment => self.deployment(&owner).await,
            WorkloadKind::ReplicaSet => self.replica_set(&owner).await,
            WorkloadKind::StatefulSet => self.stateful_set(&owner).await,
            WorkloadKind::DaemonSet => self.daemon_set(&owner).await,
            WorkloadKind::Job => self.job(&owner).await,
            _ => Ok(()),
        }
    }

    fn outcome(&self, owner: &DynamicObject) -> Outcome {
        outcome::outcome(&View::new(owner), &self.options)
    }

    /// An object that the owner controls; with `generateName` when the name ends
    /// with `-`.
    fn child(
        &self,
        kind: WorkloadKind,
        (owner_kind, owner): (WorkloadKind, &DynamicObject),
        name: &str,
        (labels, annotations): (&Value, &Value),
    ) -> Value {
        let annotations = annotations.as_object().cloned().unwrap_or_default();
        let annotations = self.fated(owner, annotations);
        let (child, owns) = (kind.resource(), owner_kind.resource());
        let name_field = if name.ends_with('-') { "generateName" } else { "name" };
        json!({
            "apiVersion": child.api_version, "kind": child.kind,
            "metadata": {
                name_field: name, "namespace": owner.metadata.namespace,
                "labels": labels, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": owns.api_version, "kind": owns.kind,
                    "name": owner.metadata.name, "uid": owner.metadata.uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
        })
    }

    /// The annotations of a child, which meets the owner's fate at the owner's pace.
    fn fated(
        &self,
        owner: &DynamicObject,
        mut annotations: Map<String, Value>,
    ) -> Map<String, Value> {
        let word = match self.outcome(owner) {
            Outcome::Succeed => None,
            Outcome::Fail => Some("fail"),
            Outcome::Hang => Some("hang"),
        };
        match word {
            Some(word) => drop(annotations.insert(OUTCOME_ANNOTATION.to_owned(), json!(word))),
            None => {
                annotations.remove(OUTCOME_ANNOTATION);
                // The template may say otherwise; the owner's own annotation goes first.
                let template = &owner.data["spec"]["template"]["metadata"]["annotations"];
                if template.get(OUTCOME_ANNOTATION).is_some() {
                    annotations.insert(OUTCOME_ANNOTATION.to_owned(), json!("succeed"));
                }
            }
        }
        for own in [DELAY_ANNOTATION, FAILURE_ANNOTATION, MESSAGE_ANNOTATION] {
            if let Some(value) = owner.annotations().get(own) {
                annotations.insert(own.to_owned(), json!(value));
            }
        }
        annotations
    }

    /// Passes a changed fate on to a child.
    async fn align(
        &mut self,
        owner: &DynamicObject,
        kind: WorkloadKind,
        child: &DynamicObject,
    ) -> Result<(), kube::Error> {
        let fate = |annotations: &Map<String, Value>| annotations.get(OUTCOME_ANNOTATION).cloned();
        let wanted = fate(&self.fated(owner, Map::new()));
        let has = child.annotations().get(OUTCOME_ANNOTATION).map(|word| json!(word));
        if wanted == has {
            return Ok(());
        }
        let patch = json!({ "metadata": { "annotations": { OUTCOME_ANNOTATION: wanted } } });
        self.patch(kind, child, &patch).await
    }

    async fn create(&mut self, kind: WorkloadKind, object: Value) -> Result<bool, kube::Error> {
        let made = create(&self.client, kind, object).await?;
        let is_new = made.is_some();
        if let Some(made) = made {
            self.cache.put(kind, made);
        }
        Ok(is_new)
    }

    async fn patch(
        &mut self,
        kind: WorkloadKind,
        object: &DynamicObject,
        patch: &Value,
    ) -> Result<(), kube::Error> {
        let api = api(&self.client, kind, object);
        let patched =
            api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.cache.put(kind, patched);
        Ok(())
    }

    async fn delete(
        &mut self,
        kind: WorkloadKind,
        objects: &[Arc<DynamicObject>],
    ) -> Result<(), kube::Error> {
        let client = &self.client;
        let gone: Vec<(Uid, Option<DynamicObject>)> = stream::iter(objects.iter().cloned())
            .map(|object| async move {
                let uid = object.uid().unwrap_or_default();
                match api(client, kind, &object)
                    .delete(&object.name_any(), &DeleteParams::default())
                    .await
                {
                    Ok(answer) => Ok((uid, answer.left())),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok((uid, None)),
                    Err(error) => Err(error),
                }
            })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        for (uid, going) in gone {
            match going {
                // The last state of what is gone at once says nothing of a deletion.
                Some(going) if going.metadata.deletion_timestamp.is_some() => {
                    self.cache.put(kind, going);
                }
                Some(_) | None => self.cache.remove(&uid),
            }
        }
        Ok(())
    }
}

fn api(client: &Client, kind: WorkloadKind, object: &DynamicObject) -> Api<DynamicObject> {
    namespaced(client, &kind.resource(), object)
}

/// The object that was created; `None` when one of its name is there already.
async fn create(
    client: &Client,
    kind: WorkloadKind,
    object: Value,
) -> Result<Option<DynamicObject>, kube::Error> {
    let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    match api(client, kind, &object).create(&PostParams::default(), &object).await {
        Ok(made) => Ok(Some(made)),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(None),
        Err(error) => Err(error),
    }
}
