//! Reports that the control plane cannot read what it decides from: its settings, projects,
//! or Secrets. Nothing is decided until it can, so nothing else would say why.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch::Receiver;

use super::context::Core;
use crate::settings::Namespaces;
use wavegate_cluster::act::control_plane::application_set_status as status_writer;
use wavegate_cluster::watch::control_plane::UnreadKind;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::{StoredObject, kind_api, kind_resource};
use wavegate_net::clock::Clock;
use wavegate_net::redact;
use wavegate_rollout::application_set::status::error_status;
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;

/// Interval at which sets that were created meanwhile get the report.
const AGAIN: Duration = Duration::from_secs(10);

/// Sets per page of a listing.
const PAGE: u32 = 500;

/// The namespaces of the sets that get a report.
#[derive(Clone, Debug)]
pub struct Audience {
    /// The control plane's.
    pub namespace: String,
    /// Further ones.
    pub others: Namespaces,
}

impl Audience {
    fn has(&self, namespace: &str) -> bool {
        namespace == self.namespace || self.others.matches(namespace)
    }
}

/// Writes the error to the status of each ApplicationSet that does not have it yet. The next
/// reconcile removes it.
pub async fn report_unread(client: &Client, audience: &Audience, error: &str, clock: &Clock) {
    let is_alone = audience.others.is_empty();
    let namespace = is_alone.then_some(audience.namespace.as_str());
    let api: Api<StoredObject> = kind_api(client, namespace, &kind_resource("ApplicationSet"));
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = match api.list(&page).await {
            Ok(list) => list,
            // The log has the error itself.
            Err(error) => {
                return tracing::debug!(
                    error = error_reason(&error),
                    "cannot list ApplicationSets"
                );
            }
        };
        for object in list.items.iter().filter(|object| audience.has(object.namespace())) {
            let set = StoredApplicationSet::read(&object.parse());
            let redact = |text: &str| redact::redact_text(text).into_owned();
            let status = error_status::unread_status(&set, error, redact, clock.now());
            // A conflict is repeated with the next report.
            if let Err(error) = status_writer::write_set_status(client, &set, &status).await {
                tracing::debug!(
                    set = set.id.name,
                    error = error_reason(&error),
                    "cannot write the status"
                );
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return,
        }
    }
}

/// Reports the kinds that cannot be read, while there are some. Runs until dropped.
pub async fn follow_unread(core: &Core, audience: &Audience, mut unread: Receiver<UnreadKind>) {
    loop {
        let kinds = unread.borrow_and_update().clone();
        let next = unread.changed();
        match kinds.first_key_value() {
            None => {
                if next.await.is_err() {
                    return std::future::pending().await;
                }
            }
            Some((kind, why)) => {
                let (what, namespace) = (kind.plural(), &audience.namespace);
                let error = format!("{what} of namespace {namespace} cannot be read: {why}");
                report_unread(&core.client, audience, &error, &core.clock).await;
                // Ends early when something has changed.
                let _ = tokio::time::timeout(AGAIN, next).await;
            }
        }
    }
}
