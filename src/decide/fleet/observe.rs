//! What a rollout sees of an Application, read from the raw object.

use jiff::Timestamp;
use serde_json::Value;

use super::ignore::Ignore;
use super::{normalize, operation, spec_differs};
use crate::api::conditions::application as condition;
use crate::decide::health;
use crate::decide::rollout::phase::{
    Compared, Observed, OperationPhase, OperationState, RequestedOperation, SourceKey, SyncCode,
};

/// Reads an Application. `generated` is what the set wants it to be, rewritten
/// for the strategy; `None` when it is no longer generated.
///
/// A field of a surprising shape counts as absent: what is not known is never
/// taken for Synced or Healthy.
pub fn observe(live: &Value, generated: Option<&Value>, ignore: &Ignore) -> Observed {
    let status = &live["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_error = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        kind == condition::INVALID_SPEC_ERROR || kind == condition::UNKNOWN_ERROR
    };
    Observed {
        health: serde_json::from_value(status["health"]["status"].clone())
            .unwrap_or(health::Status::Unknown),
        sync: match status["sync"]["status"].as_str() {
            Some("Synced") => SyncCode::Synced,
            Some("OutOfSync") => SyncCode::OutOfSync,
            _ => SyncCode::Unknown,
        },
        revisions: revisions(&status["sync"]),
        reconciled_at: time(&status["reconciledAt"]),
        compared: compared(live),
        spec_differs: generated.is_some_and(|generated| spec_differs(generated, live, ignore)),
        requested: live["operation"]
            .is_object()
            .then(|| RequestedOperation { promotion: operation::promotion_of(&live["operation"]) }),
        operation: operation_state(&status["operationState"], text),
        has_error_condition: conditions.iter().any(has_error),
        detail: detail(status),
        sources: sources(&live["spec"]),
    }
}

fn operation_state(state: &Value, text: impl Fn(&Value) -> String) -> Option<OperationState> {
    let phase = match state["phase"].as_str()? {
        "Running" => OperationPhase::Running,
        "Terminating" => OperationPhase::Terminating,
        "Succeeded" => OperationPhase::Succeeded,
        "Failed" => OperationPhase::Failed,
        _ => OperationPhase::Error,
    };
    Some(OperationState {
        phase,
        started_at: time(&state["startedAt"]).unwrap_or(Timestamp::UNIX_EPOCH),
        // A failed attempt that will be tried again has a finish time too.
        finished_at: time(&state["finishedAt"]).filter(|_| !phase.is_running()),
        promotion: operation::promotion_of(&state["operation"]),
        revisions: revisions(&state["syncResult"]),
        message: text(&state["message"]),
    })
}

/// `revisions` if there are any, else `revision` (AS-351).
fn revisions(of: &Value) -> Vec<String> {
    let listed: Vec<String> = of["revisions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|revision| revision.as_str().map(str::to_owned))
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    of["revision"].as_str().filter(|text| !text.is_empty()).map(str::to_owned).into_iter().collect()
}

/// Whether the comparison in the status was made for the spec as it is now.
fn compared(live: &Value) -> Compared {
    let (spec, to) = (&live["spec"], &live["status"]["sync"]["comparedTo"]);
    if !to.is_object() {
        return Compared::Never;
    }
    let multiple = spec["sources"].as_array().is_some_and(|sources| !sources.is_empty());
    let field = if multiple { "sources" } else { "source" };
    let same = |field: &str| normalize::equal(&spec[field], &to[field]);
    if same(field) && same("destination") { Compared::Current } else { Compared::Stale }
}

fn sources(spec: &Value) -> Vec<SourceKey> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |source: &Value| SourceKey {
        repository: text(&source["repoURL"]).trim_end_matches('/').to_owned(),
        chart: text(&source["chart"]),
        target_revision: match text(&source["targetRevision"]).as_str() {
            "HEAD" => String::new(),
            other => other.to_owned(),
        },
    };
    match spec["sources"].as_array() {
        Some(sources) if !sources.is_empty() => sources.iter().map(key).collect(),
        _ => vec![key(&spec["source"])],
    }
}

/// What the Application waits for or suffers from, naming the resource.
fn detail(status: &Value) -> String {
    let running = matches!(
        status["operationState"]["phase"].as_str(),
        Some("Running" | "Terminating" | "Failed" | "Error")
    );
    let message = status["operationState"]["message"].as_str().unwrap_or_default();
    if running && !message.is_empty() {
        return message.to_owned();
    }
    let resources = status["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ill = resources
        .iter()
        .find(|resource| !matches!(resource["health"]["status"].as_str(), None | Some("Healthy")));
    let out = || resources.iter().find(|resource| resource["status"] == "OutOfSync");
    if let Some(resource) = ill.or_else(out) {
        let text = |field: &str| resource[field].as_str().unwrap_or_default();
        let name =
            format!("{}/{}:{}/{}", text("group"), text("kind"), text("namespace"), text("name"));
        let state =
            match (resource["health"]["status"].as_str(), resource["health"]["message"].as_str()) {
                (Some("Healthy") | None, _) => text("status").to_owned(),
                (Some(health), Some(message)) if !message.is_empty() => {
                    format!("{health}: {message}")
                }
                (Some(health), _) => health.to_owned(),
            };
        return format!("{name} is {state}");
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let error = conditions
        .iter()
        .find(|condition| condition["type"].as_str().is_some_and(condition::is_error));
    let message = error.and_then(|condition| condition["message"].as_str());
    message.or(status["health"]["message"].as_str()).unwrap_or_default().to_owned()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}
