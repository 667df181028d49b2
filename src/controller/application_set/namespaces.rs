//! The UIDs of the namespaces of ApplicationSets whose policy forbids deletion: their
//! Applications get a reference to it (AS-167).

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use super::context::Context;
use crate::decide::application_set::policy::Policy;
use crate::watch::failure::reason;
use crate::watch::object::Object;

/// Delay until a namespace that could not be read is read again.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of the namespaces.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<HashMap<String, Asked>>);

#[derive(Debug)]
enum Asked {
    Uid(String),
    Failed(Instant),
}

impl Namespaces {
    /// The UID of a namespace; `None` while it is unknown.
    pub fn uid(&self, namespace: &str) -> Option<String> {
        match self.0.lock().get(namespace) {
            Some(Asked::Uid(uid)) => Some(uid.clone()),
            Some(Asked::Failed(_)) | None => None,
        }
    }

    fn is_due(&self, namespace: &str) -> bool {
        match self.0.lock().get(namespace) {
            Some(Asked::Uid(_)) => false,
            Some(Asked::Failed(at)) => at.elapsed() >= AGAIN,
            None => true,
        }
    }
}

/// The field of an ApplicationSet that holds its policy.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields {
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    sync_policy: Option<SyncPolicy>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SyncPolicy {
    applications_sync: Option<String>,
}

/// Reads the namespace of a set whose policy forbids deletion, if that is not done yet.
///
/// When it cannot be read, its Applications are protected by the finalizer of the set alone,
/// as in Argo CD; it is tried again later.
pub async fn know(set: &Object, context: &Context) {
    let namespace = set.namespace();
    let known = &context.namespaces;
    if !known.is_due(namespace) || !forbids_deletion(set, context) {
        return;
    }
    let api: Api<Namespace> = Api::all(context.core.client.clone());
    let asked = match api.get_metadata(namespace).await {
        Ok(found) => Asked::Uid(found.metadata.uid.unwrap_or_default()),
        Err(error) => {
            tracing::warn!(
                namespace,
                error = reason(&error),
                "cannot read the Namespace: Applications whose policy forbids deletion are not \
                 protected when their ApplicationSet is deleted in the foreground; allow `get` of \
                 namespaces"
            );
            Asked::Failed(Instant::now())
        }
    };
    known.0.lock().insert(namespace.to_owned(), asked);
}

fn forbids_deletion(set: &Object, context: &Context) -> bool {
    let Ok(Fields { spec }) = set.read() else { return true };
    let own = spec.sync_policy.and_then(|policy| policy.applications_sync);
    let rules = &context.rules;
    let policy: Policy = rules.policy.effective(own.as_deref(), rules.policy_override);
    !policy.deletes()
}
