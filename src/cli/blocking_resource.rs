//! The one resource that keeps an Application, as its status tells.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::rollout_summary::text;

/// A resource and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Culprit {
    pub group: String,
    pub kind: String,
    /// Empty for a cluster-scoped resource.
    pub namespace: String,
    pub name: String,
    /// A health, the result of a sync, or a phase of a hook.
    pub status: String,
    /// Why, empty where the status says it all.
    pub message: String,
}

impl Culprit {
    /// How to look at it.
    pub fn look(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", self.group) };
        let namespace = if self.namespace.is_empty() {
            String::new()
        } else {
            format!("-n {} ", self.namespace)
        };
        format!("kubectl {namespace}describe {}{group} {}", self.kind.to_lowercase(), self.name)
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        let Self { kind, namespace, name, status, message, .. } = self;
        write!(f, "{kind} {namespace}{slash}{name} is {status}")?;
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

/// Finds it. What failed in the last operation comes first, then what is not
/// healthy, the worst first, then a hook that still runs, then what is not
/// synced; among equals the first one listed.
pub(super) fn of(application: &Value) -> Option<Culprit> {
    let status = &application["status"];
    let results = list(&status["operationState"]["syncResult"]["resources"]);
    let resources = list(&status["resources"]);
    // Results of an operation that succeeded are history.
    let operation = text(status, "/operationState/phase");
    let results = if operation == "Succeeded" { &[] } else { results };

    let failed = results.iter().find_map(|result| {
        let (sync, hook) = (text(result, "/status"), text(result, "/hookPhase"));
        let failed = [&sync, &hook].into_iter().find(|state| is_failure(state))?;
        Some(culprit(result, failed, &text(result, "/message")))
    });
    let ill = || {
        let rank =
            |resource: &&Value| rank(resource["health"]["status"].as_str().unwrap_or_default());
        // The first of the worst: min_by_key keeps the first of equals.
        let worst =
            resources.iter().filter(|one| rank(one) > 0).min_by_key(|one| u8::MAX - rank(one))?;
        let health = text(worst, "/health/status");
        Some(culprit(worst, &health, &text(worst, "/health/message")))
    };
    let running = || {
        let is_hook =
            |result: &&Value| result["hookType"].as_str().is_some_and(|hook| !hook.is_empty());
        let hook =
            results.iter().filter(is_hook).find(|result| result["hookPhase"] == "Running")?;
        Some(culprit(hook, "Running", &text(hook, "/message")))
    };
    let unsynced = || {
        let resource = resources.iter().find(|resource| resource["status"] == "OutOfSync")?;
        Some(culprit(resource, "OutOfSync", ""))
    };
    failed.or_else(ill).or_else(running).or_else(unsynced)
}

fn is_failure(state: &str) -> bool {
    matches!(state, "SyncFailed" | "PruneFailed" | "Failed" | "Error")
}

/// How bad a health is; 0 keeps nobody.
fn rank(health: &str) -> u8 {
    match health {
        "" | "Healthy" => 0,
        "Suspended" => 2,
        "Progressing" => 3,
        "Missing" => 4,
        "Degraded" => 5,
        _ => 1,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn culprit(resource: &Value, status: &str, message: &str) -> Culprit {
    Culprit {
        group: text(resource, "/group"),
        kind: text(resource, "/kind"),
        namespace: text(resource, "/namespace"),
        name: text(resource, "/name"),
        status: status.to_owned(),
        message: message.to_owned(),
    }
}
