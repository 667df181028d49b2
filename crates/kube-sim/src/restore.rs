//! Objects that another server has held, put back as they were.
//!
//! A controller that was killed finds the cluster as it left it: with the same UIDs and versions,
//! with deletions that have begun, with statuses. No request can make such an object, so what
//! shall be continued is not created but put into the store.

use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kind;
use super::place::Key;
use super::state::State;
use super::stored::Object;
use super::trees::Trees;
use super::{convert, crd};

/// An object that cannot be put back.
#[derive(Debug, thiserror::Error)]
#[error("cannot restore {kind} {name}: {reason}")]
pub struct NotRestored {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why not, and what to do.
    pub reason: String,
}

impl State {
    /// Puts objects back; nobody is told, and no watch can be resumed from before.
    pub fn restore(&mut self, objects: &[&Value], now: Timestamp) -> Result<(), NotRestored> {
        // What others need goes first.
        let is_first = |object: &Value| {
            matches!(object["kind"].as_str(), Some("Namespace" | "CustomResourceDefinition"))
        };
        let (first, rest): (Vec<&Value>, Vec<&Value>) =
            objects.iter().copied().partition(|object| is_first(object));
        for object in first.into_iter().chain(rest) {
            self.restore_one(object, now).map_err(|reason| NotRestored {
                kind: object["kind"].as_str().unwrap_or_default().to_owned(),
                name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                reason,
            })?;
        }
        // Kept by revision, and those of the other server are the same numbers.
        self.trees = Trees::default();
        self.store.compact();
        Ok(())
    }

    fn restore_one(&mut self, object: &Value, now: Timestamp) -> Result<(), String> {
        let kind = self.kind_of(object)?;
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        for field in ["name", "uid", "creationTimestamp"] {
            if text(field).is_empty() {
                return Err(format!("metadata.{field} is missing"));
            }
        }
        if text("resourceVersion").parse::<u64>().is_err() {
            return Err("metadata.resourceVersion is not a version of this server".to_owned());
        }
        let key = Key::new(text("namespace"), text("name"));
        if kind.namespaced && self.namespace(&key.namespace).is_none() {
            return Err(format!("the namespace {:?} does not exist", key.namespace));
        }
        let place = (kind.storage.clone(), key);
        if self.store.place(text("uid")).is_some_and(|other| *other != place) {
            return Err("another object has its UID; use another seed".to_owned());
        }
        let mut value = convert::to_version(&kind, &kind.stored_as, object.clone());
        // As the definition of now reads it. What is built in was stored as it is read.
        if let Some(schema) = kind.schema() {
            schema.normalise(&mut value, None, &mut Vec::new());
        }
        let object = Object::new(value);
        let stored = self.store.restore(&place.0, place.1.clone(), &object);
        if kind.is_crd() {
            crd::register(self, &object.value);
        }
        if kind.is_event() {
            self.event_expiry.written(&place.1, None, stored.revision, now);
        }
        if kind.is("", "services") {
            self.cluster_ip = self.cluster_ip.max(address_number(&object.value));
        }
        Ok(())
    }

    /// The kind of an object, which a definition may have added.
    fn kind_of(&self, object: &Value) -> Result<Arc<Kind>, String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (version, name) = (text("apiVersion"), text("kind"));
        let mut kinds = self.kinds.iter();
        let kind = kinds.find(|kind| kind.kind == name && kind.api_version() == version);
        kind.cloned().ok_or_else(|| format!("the server has no such kind in {version:?}"))
    }
}

/// The number from which the address of a Service was made, so that it is not given twice.
fn address_number(service: &Value) -> u32 {
    let address = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok());
    let [_, high, middle, low] = address.map_or([0; 4], |address: Ipv4Addr| address.octets());
    u32::from_be_bytes([0, high.saturating_sub(96), middle, low])
}
