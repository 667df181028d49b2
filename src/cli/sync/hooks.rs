//! The hooks of a run without an Application. A hook with a stamp belongs to a run that
//! has not ended, since the stamps are removed at its end. So a run that was killed is
//! recognised, and the next one continues it.

use kube::Client;
use kube::discovery::Scope;
use serde_json::Value;

use super::super::error::{Error, note};
use super::control_plane::LABEL;
use super::manifests::{Manifests, discovered};
use crate::act::hook_stamps::{self, Place};
use crate::api::Raw;
use crate::decide::sync::{Class, OPERATION_ANNOTATION, StampedOperation, classify};
use crate::watch::cluster_cache::{Reach, kind_of};
use crate::watch::failure::reason;

/// What an earlier run has left that was interrupted.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Its operation.
    pub operation: Option<StampedOperation>,
    /// Its hooks that are being deleted, for messages.
    pub deleting: Vec<String>,
}

/// Where hooks of the manifests are.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    places: Vec<Place>,
}

impl Hooks {
    /// The kinds of the hooks, and of objects with a generated name.
    pub async fn of(manifests: &Manifests, client: &Client, reach: &Reach) -> Result<Self, Error> {
        let is_stamped = |object: &&Value| {
            matches!(classify(object), Class::Hook(_)) || object.name().is_empty()
        };
        let kinds: std::collections::BTreeSet<_> =
            manifests.objects().iter().filter(is_stamped).map(kind_of).collect();
        let mut places = Vec::new();
        for kind in kinds {
            let found = discovered(client, &kind).await.map_err(|error| {
                let place = format!("kind {}", kind.kind);
                Error::input("cannot read from the cluster", place, reason(&error))
            })?;
            let Some((resource, found)) = found else { continue };
            let namespaces = reach.namespaces.as_ref().filter(|_| found.scope != Scope::Cluster);
            match namespaces {
                None => places.push(Place { resource, namespace: None }),
                Some(namespaces) => places.extend(namespaces.iter().map(|namespace| Place {
                    resource: resource.clone(),
                    namespace: Some(namespace.clone()),
                })),
            }
        }
        Ok(Self { places })
    }

    /// The operation of an earlier run that was interrupted, if there is one.
    pub async fn interrupted(
        &self,
        client: &Client,
        instance: &str,
        uid: &str,
    ) -> Result<Earlier, Error> {
        let mut earlier = Earlier::default();
        for place in &self.places {
            let stamped = hook_stamps::stamped(client, place, (LABEL, instance)).await;
            let stamped = stamped.map_err(|why| {
                let place = format!("hooks of kind {}", place.resource.kind);
                Error::input("cannot read from the cluster", place, why)
            })?;
            let operations = stamped.iter().filter_map(|object| {
                StampedOperation::of(object.annotation(OPERATION_ANNOTATION)?, uid)
            });
            earlier.operation = earlier.operation.into_iter().chain(operations).max();
            let deleted = stamped.iter().filter(|object| object.is_deleting());
            earlier.deleting.extend(deleted.map(|object| {
                let held: Vec<&str> = object.finalizers().collect();
                let held = match held.as_slice() {
                    [] => String::new(),
                    held => format!(" (finalizers {})", held.join(", ")),
                };
                let kind = object["kind"].as_str().unwrap_or_default();
                format!("hook {kind} {}/{}{held}", object.namespace(), object.name())
            }));
        }
        Ok(earlier)
    }

    /// Removes the stamps after the end of the run.
    pub async fn release(&self, client: &Client, instance: &str) {
        for place in &self.places {
            let released = async {
                for object in hook_stamps::stamped(client, place, (LABEL, instance)).await? {
                    hook_stamps::release(client, &place.resource, &object).await?;
                }
                Ok::<(), String>(())
            };
            if let Err(why) = released.await {
                let kind = &place.resource.kind;
                note(&format!(
                    "annotation {OPERATION_ANNOTATION} of hooks of kind {kind} cannot be removed: \
                     {why}; the same command would continue this run, so remove it yourself"
                ));
            }
        }
    }
}
