//! Objects of an Application outside of what the Secret of its cluster permits to manage (SE-433).
//!
//! They were deployed before the Secret was narrowed, and can neither be read nor deleted since.
//! Only the status knows them, so it keeps them.

use serde_json::Value;

use crate::access::Access;
use crate::condition::NewCondition;
use wavegate_api::app_status::ResourceStatus;
use wavegate_api::conditions::application::EXCLUDED_RESOURCE_WARNING;
use wavegate_api::{ApplicationStatus, ResourceKey, SyncStatusCode};
use wavegate_engine::names::some_of;

/// How many objects a message names.
const NAMED: usize = 5;

/// The resources of the last comparison that are outside now. Those of another destination are not:
/// its cluster has another Secret.
pub(crate) fn rows<'a>(
    status: &'a ApplicationStatus,
    spec: &Value,
    access: &Access<'_>,
) -> Vec<&'a ResourceStatus> {
    let compared = status.sync.compared_to.as_ref();
    let is_same = compared.is_some_and(|compared| compared["destination"] == spec["destination"]);
    let permits = access.permits();
    let rows = status.resources.iter().filter(|row| {
        let is_outside = access.scope.check(&row.kind, &row.namespace, &row.name).is_err();
        is_outside && !row.hook && permits.denial(&key(row), &Value::Null).is_none()
    });
    rows.filter(|_| is_same).collect()
}

/// Why they are neither read nor deleted, and what changes that; `None` without any.
pub(crate) fn message(rows: &[&ResourceStatus], access: &Access<'_>) -> Option<String> {
    let named = rows.iter().map(|row| key(row));
    let cluster = if access.cluster.is_empty() { access.server } else { access.cluster };
    (!rows.is_empty()).then(|| {
        format!(
            "the Secret of the cluster {cluster} does not permit to manage objects that this \
             application has deployed: {}; permit it again in its fields namespaces and \
             clusterResources",
            some_of(named, NAMED)
        )
    })
}

/// The warning about them.
pub(crate) fn condition(rows: &[&ResourceStatus], access: &Access<'_>) -> Option<NewCondition> {
    message(rows, access).map(|message| NewCondition::new(EXCLUDED_RESOURCE_WARNING, message))
}

/// What the status says of one that was in it: nothing is known of it any more.
pub(crate) fn kept(row: &ResourceStatus) -> ResourceStatus {
    ResourceStatus { status: Some(SyncStatusCode::Unknown), health: None, ..row.clone() }
}

fn key(row: &ResourceStatus) -> ResourceKey {
    ResourceKey::new(&row.group, &row.kind, &row.namespace, &row.name)
}
