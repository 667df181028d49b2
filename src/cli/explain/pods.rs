//! Reads what is below a workload, with the permissions of the user: ReplicaSets, Pods and
//! Events. What may not be read is reported, and the rest is used.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::core::discovery::ApiResource;
use kube::core::gvk::GroupVersionKind;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::Value;

use super::wait::ExplainedWait;
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::live_app::{ControlPlaneArgs, Destinations};
use wavegate_api::Raw;
use wavegate_cluster::watch::cluster_cache::ClusterCache;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_engine::blocking_resource::below::{self, Below, WorkloadCause};

/// The most Applications whose workloads are read.
pub(super) const APPLICATIONS: usize = 10;
/// Applications that are read in parallel.
const PARALLEL: usize = 5;
/// Time limit for one Application: the explanation is printed without it then.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most ReplicaSets and Pods of one workload that are read.
const OBJECTS: u32 = 500;
/// The most Events of one object that are read.
const EVENTS: u32 = 100;
/// The most Pods whose Events are read.
const SUSPECTS: usize = 3;

/// What holds the workloads that Applications wait for, in the order of the waits, and what
/// could not be read. `live` returns an Application by name.
pub(super) async fn read(
    connection: &ClusterConnection,
    waits: &[ExplainedWait],
    live: impl Fn(&str) -> Option<Arc<Value>>,
) -> (Vec<Option<WorkloadCause>>, Vec<String>) {
    let wanted = waits.iter().enumerate().filter_map(|(index, wait)| {
        let resource = wait.resource.as_ref().filter(|resource| is_workload(resource))?;
        Some((index, resource.clone(), live(&wait.application)?))
    });
    let wanted: Vec<(usize, BlockingResource, Arc<Value>)> = wanted.take(APPLICATIONS).collect();
    let work = wanted.into_iter().map(|(index, resource, application)| async move {
        let mut unread = BTreeSet::new();
        let reading = one(connection, &resource, &application, &mut unread);
        let found = tokio::time::timeout(TIMEOUT, reading).await;
        if found.is_err() {
            unread.insert(format!("no response within {} s", TIMEOUT.as_secs()));
        }
        let title = format!("{} {}", resource.kind, place(&resource.namespace, &resource.name));
        let notes =
            unread.into_iter().map(|why| format!("not explained down to Pods: {title}: {why}"));
        (index, found.ok().flatten(), notes.collect::<Vec<String>>())
    });
    let mut causes = vec![None; waits.len()];
    let mut notes = BTreeSet::new();
    let mut answers = futures::stream::iter(work).buffer_unordered(PARALLEL);
    while let Some((index, cause, unread)) = answers.next().await {
        causes[index] = cause;
        notes.extend(unread);
    }
    (causes, notes.into_iter().collect())
}

/// Whether Pods below it may say why it is not ready.
fn is_workload(resource: &BlockingResource) -> bool {
    below::has_pods(&resource.group, &resource.kind)
        && !resource.is_out_of_sync()
        && !resource.is_refused()
        && resource.status != "Suspended"
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

async fn one(
    connection: &ClusterConnection,
    resource: &BlockingResource,
    application: &Value,
    unread: &mut BTreeSet<String>,
) -> Option<WorkloadCause> {
    let args = ControlPlaneArgs::default();
    let destinations = Destinations::of(connection, &args, application).await;
    let cluster = match destinations.resolve(application).await {
        Ok(cluster) => cluster,
        Err(why) => {
            unread.insert(why);
            return None;
        }
    };
    let kind = GroupVersionKind::gvk(&resource.group, "v1", &resource.kind);
    let kind = ApiResource::from_gvk(&kind);
    let mut reader = Reader { cluster: &cluster, namespace: &resource.namespace, unread };
    let workload = reader.get(&kind, &resource.name).await?;
    let mut found = Below { workload, ..Below::default() };
    match resource.kind.as_str() {
        "Pod" => found.pods = vec![found.workload.clone()],
        _ => {
            let selector = selector_of(&found.workload);
            let mut owners = BTreeSet::from([found.workload.uid().to_owned()]);
            if resource.kind == "Deployment" {
                let kind = ApiResource::erase::<ReplicaSet>(&());
                found.replica_sets = reader.owned(&kind, &selector, &owners).await;
                owners.extend(found.replica_sets.iter().map(|set| set.uid().to_owned()));
            }
            let kind = ApiResource::erase::<Pod>(&());
            found.pods = reader.owned(&kind, &selector, &owners).await;
        }
    }
    let newest = below::newest_replica_set(&found.replica_sets).map(Raw::uid);
    let suspects = below::suspect_pods(&found);
    let suspects = suspects.into_iter().take(SUSPECTS).map(Raw::uid);
    let uids: BTreeSet<String> = [found.workload.uid()]
        .into_iter()
        .chain(newest)
        .chain(suspects)
        .map(str::to_owned)
        .collect();
    found.events = reader.events(&uids).await;
    let cause = below::workload_cause(&found)?;
    // Also in JSON: a program may have printed its credentials when it ended.
    let message = wavegate_net::redact::redact_text(&cause.message).into_owned();
    Some(WorkloadCause { message, ..cause })
}

/// The labels of the Pods of a workload, as the parameter of a list; empty when it has none:
/// owners decide then.
fn selector_of(workload: &Value) -> String {
    let Some(selector) = workload.spec().get("selector").and_then(Value::as_object) else {
        return String::new();
    };
    let labels = match selector.get("matchLabels").and_then(Value::as_object) {
        Some(labels) => Some(labels),
        // Of a ReplicationController, it is the labels.
        None if selector.get("matchExpressions").is_none_or(Value::is_null) => Some(selector),
        None => None,
    };
    let labels = labels.into_iter().flatten();
    let terms = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    terms.collect::<Vec<_>>().join(",")
}

/// Reads from one namespace of a cluster.
struct Reader<'a> {
    cluster: &'a ClusterCache,
    namespace: &'a str,
    unread: &'a mut BTreeSet<String>,
}

impl Reader<'_> {
    /// An object; `None` when it is gone, or cannot be read.
    async fn get(&mut self, kind: &ApiResource, name: &str) -> Option<Value> {
        let found = self.cluster.api(kind, self.namespace).get_opt(name).await;
        value(&self.known(kind, found)??, kind)
    }

    /// The objects of a kind with these owners.
    async fn owned(
        &mut self,
        kind: &ApiResource,
        selector: &str,
        owners: &BTreeSet<String>,
    ) -> Vec<Value> {
        let params = ListParams::default().labels(selector).limit(OBJECTS);
        let listed = self.cluster.api(kind, self.namespace).list(&params).await;
        let Some(listed) = self.known(kind, listed) else { return Vec::new() };
        if listed.metadata.continue_.is_some_and(|token| !token.is_empty()) {
            self.unread.insert(format!("only the first {OBJECTS} {} were read", kind.plural));
        }
        let objects = listed.items.iter().filter_map(|object| value(object, kind));
        let is_owned = |object: &Value| {
            let references = object.items("/metadata/ownerReferences").iter();
            references.map(|owner| owner.field("uid")).any(|uid| owners.contains(uid))
        };
        objects.filter(is_owned).collect()
    }

    /// The Events of objects.
    async fn events(&mut self, uids: &BTreeSet<String>) -> Vec<Value> {
        let kind = ApiResource::erase::<Event>(&());
        let mut events = Vec::new();
        for uid in uids.iter().filter(|uid| !uid.is_empty()) {
            let params =
                ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(EVENTS);
            let listed = self.cluster.api(&kind, self.namespace).list(&params).await;
            let Some(listed) = self.known(&kind, listed) else { break };
            events.extend(listed.items.iter().filter_map(|object| value(object, &kind)));
        }
        events
    }

    /// What was read; notes why it was not.
    fn known<T>(&mut self, kind: &ApiResource, read: Result<T, kube::Error>) -> Option<T> {
        let unread = |error| format!("{}: {}", kind.plural, error_reason(&error));
        read.map_err(|error| self.unread.insert(unread(error))).ok()
    }
}

/// An object as JSON, with its kind, which lists leave out.
fn value(object: &DynamicObject, kind: &ApiResource) -> Option<Value> {
    let types = TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() };
    serde_json::to_value(DynamicObject { types: Some(types), ..object.clone() }).ok()
}
