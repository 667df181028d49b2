//! What a dry run logs: the writes that a decision intends (AS-161).

use serde_json::Value;

use super::app::Fields;
use super::deletion::asked_at;
use super::operation::{self, Stage};
use wavegate_api::annotations::{REFRESH, finalizers};

/// The intended writes, from the stored Application and the one that was decided.
pub fn lines(before: &Value, after: &Value) -> Vec<String> {
    match asked_at(before) {
        Some(_) => of_deletion(before),
        None => of_changes(before, after),
    }
}

fn of_deletion(application: &Value) -> Vec<String> {
    let finalizers: Vec<&str> = finalizers(application).collect();
    if finalizers.is_empty() {
        return Vec::new();
    }
    vec![format!("delete its resources, and remove the finalizers {}", finalizers.join(", "))]
}

fn of_changes(before: &Value, after: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    let requested = before["operation"].is_object();
    match operation::stage(&Fields::of(before)) {
        Stage::InProgress => lines.push("continue the running operation".to_owned()),
        Stage::Requested => lines.push("start the requested operation".to_owned()),
        Stage::Idle if after["operation"].is_object() => {
            let sync = &after["operation"]["sync"];
            lines.push(format!("start an automated sync to {}", operation::given(sync).join(", ")));
        }
        Stage::Idle => {}
    }
    if requested || after["operation"].is_object() {
        lines.extend(of_sync(after));
    }
    for field in ["sync", "health"] {
        let of = |object: &Value| text(&object["status"][field]["status"]);
        let (was, is) = (of(before), of(after));
        if was != is {
            let was = if was.is_empty() { "nothing" } else { &was };
            lines.push(format!("set status.{field}.status from {was} to {is}"));
        }
    }
    let conditions = after["status"]["conditions"].as_array().into_iter().flatten();
    for condition in conditions {
        let known = before["status"]["conditions"].as_array().into_iter().flatten();
        let same = |old: &Value| {
            old["type"] == condition["type"] && old["message"] == condition["message"]
        };
        if !known.into_iter().any(same) {
            let (kind, message) = (text(&condition["type"]), text(&condition["message"]));
            lines.push(format!("set the condition {kind}: {message}"));
        }
    }
    if before["metadata"]["annotations"][REFRESH].is_string()
        && after["metadata"]["annotations"][REFRESH].is_null()
    {
        lines.push(format!("remove the annotation {REFRESH}"));
    }
    if before["metadata"]["finalizers"] != after["metadata"]["finalizers"] {
        let finalizers: Vec<&str> = finalizers(after).collect();
        lines.push(format!("set the finalizers {}", finalizers.join(", ")));
    }
    lines
}

/// What the sync would do to each resource that differs from the source.
fn of_sync(application: &Value) -> Vec<String> {
    let sync = &application["operation"]["sync"];
    let selected = sync["resources"].as_array().filter(|resources| !resources.is_empty());
    let resources = application["status"]["resources"].as_array().into_iter().flatten();
    let resources = resources.filter(|resource| {
        let is_selected = selected.is_none_or(|selected| {
            let same = |field: &str, of: &Value| {
                of[field].as_str().unwrap_or_default()
                    == resource[field].as_str().unwrap_or_default()
            };
            selected.iter().any(|of| ["group", "kind", "name"].iter().all(|field| same(field, of)))
        });
        is_selected && resource["status"] == "OutOfSync"
    });
    let line = |resource: &Value| {
        let text = |field: &str| resource[field].as_str().unwrap_or_default();
        let place = [text("namespace"), text("name")].map(str::to_owned);
        let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let what = match (resource["requiresPruning"] == true, sync["prune"] == true) {
            (false, _) => "apply",
            (true, true) => "prune",
            (true, false) => "leave, since the sync does not prune,",
        };
        format!("{what} {} {}", text("kind"), place.join("/"))
    };
    resources.map(line).collect()
}
