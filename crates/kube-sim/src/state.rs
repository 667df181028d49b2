//! Everything a request may change, under one lock.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::builtin;
use super::clock::{Ids, seconds};
use super::errors::ApiError;
use super::event_expiry::EventExpiry;
use super::kinds::{Kind, Registry};
use super::place::{Key, ResourceKey};
use super::record::Recorder;
use super::store::Store;
use super::stored::{Object, Stored};
use super::trees::Trees;

/// Objects, kinds and identifiers of one server.
#[derive(Debug)]
pub(crate) struct State {
    pub store: Store,
    pub trees: Trees,
    pub kinds: Registry,
    pub ids: Ids,
    pub event_expiry: EventExpiry,
    /// Last address given to a Service.
    pub cluster_ip: u32,
    /// Bumped when kinds come or go: documents made from them are then old.
    pub kinds_changed: u64,
}

impl State {
    pub fn new(seed: u64, now: Timestamp, recorder: Arc<Recorder>) -> Self {
        let mut kinds = Registry::default();
        builtin::register(&mut kinds);
        let mut state = Self {
            store: Store::new(recorder),
            trees: Trees::default(),
            kinds,
            ids: Ids::new(seed),
            event_expiry: EventExpiry::default(),
            cluster_ip: 1,
            kinds_changed: 1,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": name, "uid": state.ids.uid(), "creationTimestamp": seconds(now),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            state.store.put(&ResourceKey::namespaces(), Key::new("", name), Object::new(namespace));
        }
        state
    }

    pub fn namespace(&self, name: &str) -> Option<&Arc<Stored>> {
        self.store.get(&ResourceKey::namespaces(), &Key::new("", name))
    }

    /// Refuses to create into a namespace that is missing or going away.
    pub fn check_namespace(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(found) = self.namespace(namespace) else {
            return Err(ApiError::namespace_not_found(namespace));
        };
        if found.deleting {
            let detail = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut e = ApiError::forbidden(kind, name, &detail);
            e.details.causes.push(super::errors::Cause::new(
                "NamespaceTerminating",
                "metadata.namespace",
                format!("namespace {namespace} is being terminated"),
            ));
            return Err(e);
        }
        Ok(())
    }
}
