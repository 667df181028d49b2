//! What a dry run logs: the writes that a decision intends (AS-161).

use serde_json::Value;

use crate::app::Fields;
use crate::deletion::asked_at;
use crate::operation::{self, OperationStage};
use wavegate_api::annotations::{REFRESH, annotation_of, finalizers_of};
use wavegate_api::app_view::{ApplicationView, ConditionView, ResourceView};
use wavegate_api::operation::{RequestView, SyncOperationResource, SyncRequestView};

/// The intended writes, from the stored Application and the one that was decided.
pub fn intended_writes(before: &Value, after: &Value) -> Vec<String> {
    match asked_at(before) {
        Some(_) => of_deletion(before),
        None => of_changes(before, after),
    }
}

fn of_deletion(application: &Value) -> Vec<String> {
    let finalizers: Vec<&str> = finalizers_of(application).collect();
    if finalizers.is_empty() {
        return Vec::new();
    }
    vec![format!("delete its resources, and remove the finalizers {}", finalizers.join(", "))]
}

fn of_changes(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let [was, is] = [before, after].map(ApplicationView::of);
    let request = RequestView::of(&is.operation);
    let starts = is.operation.is_object();
    match operation::operation_stage(&Fields::of(before)) {
        OperationStage::InProgress => lines.push("continue the running operation".to_owned()),
        OperationStage::Requested => lines.push("start the requested operation".to_owned()),
        OperationStage::Idle if starts => {
            let revisions = request.revisions().join(", ");
            lines.push(format!("start an automated sync to {revisions}"));
        }
        OperationStage::Idle => {}
    }
    if was.operation.is_object() || starts {
        lines.extend(of_sync(&request.sync.unwrap_or_default(), after));
    }
    let (was, is) = (&was.status, &is.status);
    for (field, was, is) in [
        ("sync", &was.sync.status, &is.sync.status),
        ("health", &was.health.status, &is.health.status),
    ] {
        if was != is {
            let was = if was.is_empty() { "nothing" } else { was };
            lines.push(format!("set status.{field}.status from {was} to {is}"));
        }
    }
    let new = is.conditions.iter().filter(|condition| !was.conditions.contains(condition));
    lines.extend(
        new.map(|ConditionView { type_, message }| format!("set the condition {type_}: {message}")),
    );
    if annotation_of(before, REFRESH).is_some() && annotation_of(after, REFRESH).is_none() {
        lines.push(format!("remove the annotation {REFRESH}"));
    }
    if !finalizers_of(before).eq(finalizers_of(after)) {
        let finalizers: Vec<&str> = finalizers_of(after).collect();
        lines.push(format!("set the finalizers {}", finalizers.join(", ")));
    }
    lines
}

/// What the sync would do to each resource that differs from the source.
fn of_sync(sync: &SyncRequestView, application: &Value) -> Vec<String> {
    let is_selected = |resource: &ResourceView| {
        let ResourceView { group, kind, name, .. } = resource;
        let same =
            |one: &SyncOperationResource| (&one.group, &one.kind, &one.name) == (group, kind, name);
        sync.resources.is_empty() || sync.resources.iter().any(same)
    };
    let line = |resource: ResourceView| {
        let ResourceView { kind, namespace, name, .. } = resource;
        let slash = if namespace.is_empty() { "" } else { "/" };
        let what = match (resource.requires_pruning, sync.prune) {
            (false, _) => "apply",
            (true, true) => "prune",
            (true, false) => "leave, since the sync does not prune,",
        };
        format!("{what} {kind} {namespace}{slash}{name}")
    };
    let resources = ResourceView::unsettled_rows(application);
    resources.filter(|one| one.status == "OutOfSync" && is_selected(one)).map(line).collect()
}
