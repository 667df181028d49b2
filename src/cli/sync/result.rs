//! The result of an operation, for output and for the last lines of its progress. Pure.

use serde::Serialize;
use serde_json::Value;

use super::progress::{ProgressLine, readable, state_of, title};
use wavegate_api::Raw;
use wavegate_api::app_view::{ApplicationView, ResultView};
use wavegate_api::resource_key::ResourceKey;

/// The result of an operation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct OperationResult {
    pub namespace: String,
    pub application: String,
    pub phase: String,
    pub message: String,
    /// One for each source.
    pub revisions: Vec<String>,
    pub started_at: String,
    pub finished_at: String,
    /// Results of resources, in the order of the sync.
    pub resources: Vec<ResourceResult>,
}

/// The result of one resource in one phase.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct ResourceResult {
    pub phase: String,
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Type of the hook; empty for resources.
    pub hook: String,
    pub status: String,
    pub message: String,
}

impl ResourceResult {
    /// Whether it has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.status.as_str(), "SyncFailed" | "Failed" | "Error")
    }

    /// `Deployment shop/web: SyncFailed: …`.
    pub fn text(&self) -> String {
        let key = ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name);
        let hook = match self.hook.as_str() {
            "" => String::new(),
            hook => format!("{hook} hook "),
        };
        format!("{hook}{}: {}: {}", title(&key), self.status, self.message)
    }
}

impl OperationResult {
    /// The result in the status of an Application.
    pub fn of(application: &Value) -> Self {
        let state = ApplicationView::of(application).status.operation_state;
        let revisions = state.sync_result.revisions();
        let text = |time: &Value| time.as_str().unwrap_or_default().to_owned();
        let resource = |result: ResultView| ResourceResult {
            status: state_of(&result).to_owned(),
            phase: result.sync_phase,
            group: result.group,
            kind: result.kind,
            namespace: result.namespace,
            name: result.name,
            hook: result.hook_type,
            message: result.message,
        };
        Self {
            namespace: application.namespace().to_owned(),
            application: application.name().to_owned(),
            phase: state.phase,
            message: state.message,
            revisions,
            started_at: text(&state.started_at),
            finished_at: text(&state.finished_at),
            resources: ResultView::rows(application).map(resource).collect(),
        }
    }

    /// An operation that has only been requested.
    pub fn requested(application: &Value) -> Self {
        let mut result = Self::of(&Value::Null);
        application.namespace().clone_into(&mut result.namespace);
        application.name().clone_into(&mut result.application);
        "Requested".clone_into(&mut result.phase);
        result
    }

    /// Why it has not succeeded: the first resource that failed, with its message.
    pub fn cause(&self) -> String {
        let mut failed = self.resources.iter().filter(|resource| resource.has_failed());
        match (failed.next(), failed.count()) {
            (None, _) => readable(&self.message),
            (Some(first), 0) => first.text(),
            (Some(first), more) => format!("{}; {more} more failed", first.text()),
        }
    }

    /// The last lines of the progress. A single failure is not repeated: it has its line,
    /// and the error names it.
    pub fn lines(&self) -> Vec<ProgressLine> {
        let failed = || self.resources.iter().filter(|resource| resource.has_failed());
        let repeated = |one: &ResourceResult| {
            !one.message.is_empty() && self.message.contains(one.message.as_str())
        };
        // The message is that of the failures after its cause.
        let message = match self.message.split_once(", reason: ") {
            Some((cause, _)) if failed().any(repeated) => cause.to_owned(),
            _ => readable(&self.message),
        };
        let mut lines = vec![ProgressLine::new("operation", &self.phase, message)];
        let failed = failed().filter(|_| failed().count() > 1);
        lines.extend(
            failed.map(|resource| ProgressLine::new(format!("  {}", resource.text()), "", "")),
        );
        lines
    }
}
