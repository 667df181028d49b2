//! The caches that the ApplicationSet controller decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde_json::Value;

use super::follow::{follow, told};
use super::mutation_cache::MutationCache;
use super::object::{Object, resource};
use crate::api::Cluster;
use crate::api::annotations::{SECRET_TYPE_CLUSTER, SECRET_TYPE_LABEL};

/// Address of the cluster that the controller itself talks to.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Its name.
pub const IN_CLUSTER_NAME: &str = "in-cluster";

/// Watched objects of one of our kinds.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The reflector's store.
    pub store: Store<Object>,
    /// Our own writes on top.
    pub overlay: Arc<MutationCache>,
}

/// The changes of a watch; errors are told in the log and retried.
pub type Changes = BoxStream<'static, Result<Object, watcher::Error>>;

impl Cache {
    /// Starts to watch a kind in all namespaces, or in one. The stream must be
    /// polled for the cache to fill.
    pub fn watch(client: &Client, kind: &str, namespace: Option<&str>) -> (Self, Changes) {
        let resource = resource(kind);
        let api = api(client, namespace, &resource);
        let writer = reflector::store::Writer::new(resource);
        let store = writer.as_reader();
        let changes = told(follow(api, watcher::Config::default()), format!("{kind}s"));
        let overlay: Arc<MutationCache> = Arc::default();
        let known = Arc::clone(&overlay);
        // What went before any pass saw it is not there for the overlay's sake.
        let changes = changes.reflect(writer).inspect(move |event| {
            if let Ok(watcher::Event::Delete(gone)) = event {
                known.forget(gone);
            }
        });
        (Self { store, overlay }, changes.touched_objects().boxed())
    }

    /// All objects of a namespace by name, our own writes included.
    pub fn in_namespace(&self, namespace: &str) -> BTreeMap<String, Arc<Value>> {
        let mut objects: BTreeMap<String, Arc<Value>> = BTreeMap::new();
        for object in self.store.state() {
            if object.namespace() == namespace {
                let object = self.overlay.newest((*object).clone());
                objects.insert(object.name().to_owned(), Arc::clone(object.value()));
            }
        }
        for object in self.overlay.created(namespace, |name| objects.contains_key(name)) {
            objects.insert(object.name().to_owned(), Arc::clone(object.value()));
        }
        objects
    }
}

/// The API of one of our kinds, in one namespace or all.
pub fn api(client: &Client, namespace: Option<&str>, resource: &ApiResource) -> Api<Object> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// Watches the Secrets that describe clusters, in the control plane's
/// namespace.
pub fn cluster_secrets(
    client: &Client,
    namespace: &str,
) -> (Store<Secret>, impl Stream<Item = Result<Secret, watcher::Error>> + use<>) {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let (store, writer) = reflector::store();
    let labels = format!("{SECRET_TYPE_LABEL}={SECRET_TYPE_CLUSTER}");
    let events = follow(api, watcher::Config::default().labels(&labels));
    let changes = told(events, "cluster Secrets".to_owned())
        // The credentials are the application controller's business.
        .modify(|secret| {
            secret.metadata.managed_fields = None;
            if let Some(data) = &mut secret.data {
                data.retain(|key, _| key == "name" || key == "server");
            }
        })
        .reflect(writer);
    (store, changes.touched_objects())
}

/// The clusters that Applications may name, the local one included.
pub fn clusters(secrets: &Store<Secret>) -> Vec<Cluster> {
    let secrets = secrets.state();
    clusters_of(secrets.iter().map(AsRef::as_ref))
}

/// The same of Secrets that were read.
pub fn clusters_of<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = secrets
        .filter(|secret| secret.meta().deletion_timestamp.is_none())
        .map(|secret| {
            let text = |key: &str| {
                let bytes = secret.data.as_ref().and_then(|data| data.get(key));
                bytes
                    .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
                    .unwrap_or_default()
            };
            Cluster { name: text("name"), server: text("server").trim_end_matches('/').to_owned() }
        })
        .collect();
    if !clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER) {
        clusters.push(Cluster {
            name: IN_CLUSTER_NAME.to_owned(),
            server: IN_CLUSTER_SERVER.to_owned(),
        });
    }
    clusters.sort();
    clusters
}
