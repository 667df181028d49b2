//! A comparison as fields of `status` (SE-055 … SE-061).

pub mod condition;
pub mod dry_run;
pub mod events;
pub mod size;
pub(crate) mod summary;
pub(crate) mod warnings;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::app::App;
use crate::compared::ComparedResource;
use crate::pairs::ComparedApplication;
use condition::{NewCondition, OF_COMPARISON};
use summary::{with_below, with_links_of};
use wavegate_api::annotations::sync_wave;
use wavegate_api::app_status::{
    AppHealth, ApplicationSummary, ResourceHealth, ResourceStatus, SyncStatus,
};
use wavegate_api::conditions::application::{SYNC_WARNING, UNKNOWN_ERROR};
use wavegate_api::sources::{InEffect, by_field};
use wavegate_api::sync_options::SyncOptions;
use wavegate_api::time::{Time, stored_time};
use wavegate_api::{ApplicationStatus, ResourceKey, SyncStatusCode};
use wavegate_engine::health::{Health, Status};
use wavegate_engine::sync::ObjectClass;

/// Input of the status besides the comparison itself.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The resolved revisions, by source.
    pub revisions: &'a [String],
    /// The source types, by source; empty if a source has none.
    pub source_types: &'a [String],
    /// What controllers have created from the resources, where it is known (CA-506).
    pub below: &'a ApplicationSummary,
    /// Whether the health of each resource is stored in the status (SE-571).
    pub resource_health: bool,
    /// Namespace of the controller.
    pub controller_namespace: &'a str,
    /// Whether to update `reconciledAt` (SE-061).
    pub reconciled: bool,
    /// The time.
    pub now: Timestamp,
}

/// Writes a comparison to an Application, with resources that it could not read.
pub fn write_comparison(
    app: &mut App,
    comparison: &ComparedApplication,
    unread: Vec<ResourceStatus>,
    extra: &[NewCondition],
    about: &About<'_>,
) {
    let many = InEffect::of(app.spec()).is_list();
    let options = app.spec_view().sync_policy.sync_options.iter();
    let options = SyncOptions::from_list(options.map(String::as_str));
    let summary = with_below(&comparison.summary, about.below);
    let summary = with_links_of(app.raw(), &summary);
    let compared_to = compared_to(app.spec());
    app.judge();
    let status = &mut app.status;

    let (revision, revisions) = by_field(many, about.revisions);
    let compared_to = Some(compared_to);
    status.sync = SyncStatus { compared_to, status: comparison.sync, revision, revisions };
    health(status, &comparison.health, about.now);
    let all = comparison.resources.iter();
    let mut rows: Vec<ResourceStatus> =
        all.map(|resource| row(resource, about.resource_health, &options)).collect();
    if !unread.is_empty() {
        rows.extend(unread);
        rows.sort_by_cached_key(|row| {
            let ResourceStatus { group, kind, namespace, name, .. } = row;
            format!("{group}/{kind}/{namespace}/{name}")
        });
    }
    let count = rows.len();
    status.resources = size::listed(rows);
    let listed = status.resources.len();
    let elsewhere = if about.resource_health { "" } else { "appTree" };
    status.resource_health_source = elsewhere.to_owned();
    let mut all: Vec<NewCondition> = extra.to_vec();
    all.extend(comparison.conditions.iter().cloned());
    if listed < count {
        // Not an error: everything is compared and synced (SE-597).
        let message = format!(
            "{count} resources; only {listed} are listed in status.resources, those that are not \
             in sync first, since the API server stores no larger Application; all are compared \
             and synced; to list them all, divide the application into several"
        );
        all.push(NewCondition::new(SYNC_WARNING, message));
    }
    condition::replace(&mut status.conditions, OF_COMPARISON, &all, about.now);
    match (many, about.source_types) {
        (true, types) => {
            status.source_type.clear();
            status.source_types = types.to_vec();
        }
        (false, [first, ..]) if !first.is_empty() => {
            status.source_types.clear();
            status.source_type.clone_from(first);
        }
        _ => {}
    }
    status.summary = summary;
    status.controller_namespace = about.controller_namespace.to_owned();
    if about.reconciled {
        status.reconciled_at = Some(Time(stored_time(about.now)));
    }
}

/// Writes that the comparison failed. Revision and resources are kept; `known_health`
/// is the health, if it could be computed.
pub fn write_failure(
    app: &mut App,
    problems: &[NewCondition],
    known_health: Option<&Health>,
    reconciled: bool,
    now: Timestamp,
) {
    let compared_to = compared_to(app.spec());
    app.judge();
    let status = &mut app.status;
    status.sync.status = SyncStatusCode::Unknown;
    status.sync.compared_to = Some(compared_to);
    let unknown = Health::new(Status::Unknown, "");
    health(status, known_health.unwrap_or(&unknown), now);
    condition::replace(&mut status.conditions, OF_COMPARISON, problems, now);
    if reconciled {
        status.reconciled_at = Some(Time(stored_time(now)));
    }
}

/// The Application with the condition that its reconcile or its write has failed; the next
/// successful comparison removes it. `None` when it has it already.
pub fn failed_application(application: &Value, message: String, now: Timestamp) -> Option<Value> {
    let mut app = App::of(application.clone());
    let new = [NewCondition::new(UNKNOWN_ERROR, message)];
    condition::replace(&mut app.status.conditions, &[UNKNOWN_ERROR], &new, now);
    app.written()
}

/// The raw part of a spec that a comparison is made for (SE-056).
pub fn compared_to(spec: &Value) -> Value {
    let mut part = Map::new();
    let in_effect = InEffect::of(spec);
    part.insert(in_effect.field.to_owned(), in_effect.value());
    part.insert("destination".to_owned(), spec["destination"].clone());
    let ignored = spec.get("ignoreDifferences");
    if let Some(list) = ignored.filter(|list| list.as_array().is_some_and(|l| !l.is_empty())) {
        part.insert("ignoreDifferences".to_owned(), list.clone());
    }
    Value::Object(part)
}

fn health(status: &mut ApplicationStatus, health: &Health, now: Timestamp) {
    let old = status.health.take().filter(|old| old.status == health.status);
    let since = old.map_or(Some(Time(stored_time(now))), |old| old.last_transition_time);
    status.health = Some(AppHealth {
        message: health.message.clone(),
        last_transition_time: since,
        status: health.status,
    });
}

fn row(resource: &ComparedResource, with_health: bool, options: &SyncOptions) -> ResourceStatus {
    // What is not in the cluster has no other health (SE-058).
    let absent =
        resource.live.is_none() && !resource.is_hook() && resource.class != ObjectClass::Skipped;
    let missing = Health::new(Status::Missing, "");
    let health = resource.health.as_ref().or_else(|| absent.then_some(&missing));
    let object = resource.target.as_deref().or(resource.live.as_deref());
    let own = object.map(SyncOptions::of_object).unwrap_or_default();
    // The resource decides before the Application (SE-301).
    let confirms = |option| own.value(option).or(options.value(option)) == Some("confirm");
    let ResourceKey { group, kind, namespace, name } = resource.key.clone();
    ResourceStatus {
        group,
        version: resource.version.clone(),
        kind,
        namespace,
        name,
        status: resource.status(),
        health: health.filter(|_| with_health).map(|health| ResourceHealth {
            message: health.message.clone(),
            last_transition_time: None,
            status: health.status,
        }),
        hook: resource.is_hook(),
        requires_pruning: resource.requires_pruning(),
        requires_deletion_confirmation: confirms("Delete") || confirms("Prune"),
        sync_wave: object.map_or(0, sync_wave),
    }
}

#[cfg(test)]
mod tests;
