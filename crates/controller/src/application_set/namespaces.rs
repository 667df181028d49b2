//! The UIDs of the namespaces of ApplicationSets whose policy forbids deletion: their
//! Applications get a reference to it (AS-167).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::context::Core;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::DecisionSettings;

/// Delay until a namespace that could not be read is read again.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of the namespaces.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<HashMap<String, KnownNamespaces>>);

/// What is known of one namespace. No ApplicationSet outlives its namespace: while one that was
/// there before the read exists, the namespace is the one that was read. A later set may be in
/// another one of the same name.
#[derive(Debug, Default)]
struct KnownNamespaces {
    uid: String,
    /// The UIDs of the ApplicationSets that were there before it was read.
    sets: HashSet<String>,
    /// When it could not be read last, since the last success.
    failed_at: Option<Instant>,
}

impl Namespaces {
    /// The UID of the namespace of an ApplicationSet; `None` while it is unknown.
    pub fn uid(&self, set: &StoredObject) -> Option<String> {
        let all = self.0.lock();
        let known = all.get(set.namespace()).filter(|known| known.sets.contains(set.uid()))?;
        Some(known.uid.clone())
    }

    /// Reads the namespace of a set whose policy forbids deletion, if that is not done yet.
    ///
    /// When it cannot be read, its Applications are protected by the finalizer of the set alone,
    /// as in Argo CD; it is tried again later.
    pub async fn read(&self, set: &StoredObject, core: &Core, settings: &DecisionSettings) {
        let namespace = set.namespace();
        if !self.is_due(set) || !forbids_deletion(set, settings) {
            return;
        }
        let all = core.control_plane.sets.in_namespace(namespace);
        let sets: HashSet<String> = all.values().map(|set| set.uid().to_owned()).collect();
        let api: Api<Namespace> = Api::all(core.client.clone());
        match api.get_metadata(namespace).await {
            Ok(found) => {
                let uid = found.metadata.uid.unwrap_or_default();
                let read = KnownNamespaces { uid, sets, failed_at: None };
                self.0.lock().insert(namespace.to_owned(), read);
            }
            Err(error) => {
                tracing::warn!(
                    namespace,
                    error = error_reason(&error),
                    "cannot read the Namespace: Applications whose policy forbids deletion are not \
                     protected when their ApplicationSet is deleted in the foreground; allow `get` of \
                     namespaces"
                );
                let now = Instant::now();
                self.0.lock().entry(namespace.to_owned()).or_default().failed_at = Some(now);
            }
        }
    }

    fn is_due(&self, set: &StoredObject) -> bool {
        let all = self.0.lock();
        let Some(known) = all.get(set.namespace()) else { return true };
        !known.sets.contains(set.uid()) && known.failed_at.is_none_or(|at| at.elapsed() >= AGAIN)
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

fn forbids_deletion(set: &StoredObject, settings: &DecisionSettings) -> bool {
    let Ok(Fields { spec }) = set.read() else { return true };
    let own = spec.sync_policy.and_then(|policy| policy.applications_sync);
    !settings.policy.effective(own.as_deref(), settings.policy_override).deletes()
}
