//! The blocking resource of an Application: the one that keeps it from being
//! Synced and Healthy, and the reason.
//!
//! This is the only implementation: the status of a set, Events, `explain`,
//! `status` and the demo use it.

mod attempt;
pub mod below;
mod kept;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use self::attempt::Attempt;
pub use self::kept::WAITS_FOR_CONFIRMATION;
use wavegate_api::app_view::{
    ApplicationView, HealthView, ResourceView, ResultView, SpecView, StatusView,
};
use wavegate_api::conditions::application as condition;
use wavegate_api::time::of_field;
use wavegate_api::{HealthStatus, OperationPhase, ResourceKey};

/// What an Application waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocking {
    /// The blocking resource, if there is one.
    pub resource: Option<BlockingResource>,
    /// The reason, for users; empty if unknown.
    pub reason: String,
    /// The start of the wait, if known.
    pub since: Option<Timestamp>,
    /// The end of the wait, if it ends by itself: the next attempt of an operation.
    pub until: Option<Timestamp>,
    /// An operation waits until a person confirms its deletions.
    pub needs_confirmation: bool,
}

/// A resource and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockingResource {
    /// API group, empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for a cluster-scoped resource.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Phase of the hook, such as `PreSync`; empty for a resource that is no hook.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// A health, the result of a sync, a phase of an operation, OutOfSync,
    /// RequiresPruning or RequiresConfirmation.
    pub status: String,
    /// The message, empty if the state is sufficient.
    pub message: String,
}

impl BlockingResource {
    fn of(key: ResourceKey, hook: &str, status: &str, message: &str) -> Self {
        let ResourceKey { group, kind, namespace, name } = key;
        let [hook, status, message] = [hook, status, message].map(str::to_owned);
        Self { group, kind, namespace, name, hook, status, message }
    }

    fn of_resource(resource: &ResourceView, status: &str, message: &str) -> Self {
        Self::of(resource.key(), "", status, message)
    }

    fn of_result(result: &ResultView, status: &str, message: &str) -> Self {
        Self::of(result.key(), &result.hook_type, status, message)
    }

    /// The key of the resource.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }

    /// Whether it is no longer in the source, and nothing prunes it.
    pub fn requires_pruning(&self) -> bool {
        self.status == kept::REQUIRES_PRUNING
    }

    /// Whether an operation waits until a person confirms its deletion.
    pub fn requires_confirmation(&self) -> bool {
        self.status == kept::REQUIRES_CONFIRMATION
    }

    /// Whether only the last sync has not pruned it.
    pub fn is_left_by_last_sync(&self) -> bool {
        self.requires_pruning() && self.message == kept::BY_LAST_SYNC
    }

    /// Whether no automated sync is about to prune it.
    pub fn needs_a_person_to_prune(&self) -> bool {
        self.requires_pruning() && !self.is_left_by_last_sync()
    }

    /// Whether it stays even in a sync with prune.
    pub fn is_kept_by_option(&self) -> bool {
        self.requires_pruning() && kept::is_by_option(&self.message)
    }

    /// Whether it failed only because its operation was terminated.
    pub fn is_terminated(&self) -> bool {
        is_failure(&self.status) && self.message == "Terminated"
    }

    /// Whether the API server refused to apply or to prune it.
    pub fn is_refused(&self) -> bool {
        matches!(self.status.as_str(), "SyncFailed" | "PruneFailed")
    }

    /// Whether it differs from the source: its status says nothing more.
    pub fn is_out_of_sync(&self) -> bool {
        self.status == OUT_OF_SYNC || self.requires_confirmation() || self.requires_pruning()
    }
}

/// `Kind namespace/name is Status: message`, for users.
impl fmt::Display for BlockingResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        let Self { kind, namespace, name, hook, status, message, .. } = self;
        if !hook.is_empty() {
            write!(f, "{hook} hook ")?;
        }
        write!(f, "{kind} {namespace}{slash}{name} ")?;
        match status.as_str() {
            "SyncFailed" => f.write_str("cannot be applied")?,
            "PruneFailed" => f.write_str("cannot be pruned")?,
            "Failed" | "Error" => f.write_str("failed")?,
            kept::REQUIRES_PRUNING | kept::REQUIRES_CONFIRMATION => {
                return write!(f, "{} {message}", kept::NOT_IN_SOURCE);
            }
            status => write!(f, "is {status}")?,
        }
        match message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// Determines what an Application is waiting for, from its status.
///
/// The reason names the resource and its state, in the words of its health: the one
/// that a failed sync failed on, the one that a running sync waits for, or the one
/// that is not Healthy. Without such a resource it is the message of the operation,
/// an error condition, or the message of the Application's health. Of an operation that
/// is retried, it names the attempt, and when it begins.
pub fn blocking_of(application: &Value) -> Blocking {
    let status = &ApplicationView::of(application).status;
    let operation = &status.operation_state;
    let phase = OperationPhase::from_word(&operation.phase);
    let of_operation = of_results(application, status, phase);
    let is_result = of_operation.is_some();
    let found = of_operation.or_else(|| of_resources(application, status));
    let (resource, since) = found.map_or((None, None), |(resource, at)| (Some(resource), at));
    let message = operation.message.as_str();
    let result = resource.as_ref().filter(|_| is_result);
    // One that is being terminated is not attempted again.
    let is_retried = phase == OperationPhase::Running;
    let attempt = is_retried.then(|| Attempt::of(operation)).flatten();
    let reason = if phase.has_failed() {
        match (result, message) {
            // Nothing is wrong with what it waited for.
            (Some(resource), message) if resource.is_terminated() && !message.is_empty() => {
                format!("{FAILED}: {message}")
            }
            (Some(resource), _) => format!("{FAILED}: {resource}"),
            (None, "") => FAILED.to_owned(),
            (None, message) => format!("{FAILED}: {message}"),
        }
    } else if let Some(attempt) = &attempt {
        attempt.reason(message, result.map(|resource| resource as &dyn fmt::Display))
    } else if phase.is_running() && !message.is_empty() {
        match result {
            // The message names the resource without its state.
            Some(resource) if !is_failure(&resource.status) => resource.to_string(),
            // The message contains that of the resource already.
            Some(resource)
                if !resource.message.is_empty() && message.contains(&resource.message) =>
            {
                resource.to_string()
            }
            Some(resource) => format!("{message}; {resource}"),
            None => message.to_owned(),
        }
    } else {
        of_state(status, resource.as_ref())
    };
    let until = attempt.and_then(|attempt| attempt.at);
    let needs_confirmation = phase.is_running() && message.starts_with(WAITS_FOR_CONFIRMATION);
    Blocking { resource, reason, since, until, needs_confirmation }
}

/// What a sync failed on: a reason without the statement that it failed.
pub fn cause_of_failure(reason: &str) -> &str {
    match reason.strip_prefix(FAILED) {
        Some("") => "",
        Some(rest) => rest.strip_prefix(": ").unwrap_or(reason),
        None => reason,
    }
}

/// The start of the reason after a failed sync.
const FAILED: &str = "its sync failed";

/// The reason outside of an operation.
fn of_state(status: &StatusView, resource: Option<&BlockingResource>) -> String {
    let error = status.conditions.iter().find(|found| condition::is_error(&found.type_));
    // Without a comparison, the states of resources are those of an earlier one.
    let is_compared = status.sync.status != "Unknown";
    match (resource, error) {
        // That it is OutOfSync may be a consequence of the error.
        (Some(resource), None) => resource.to_string(),
        (Some(resource), Some(_)) if is_compared && !resource.is_out_of_sync() => {
            resource.to_string()
        }
        (_, Some(error)) => error.message.clone(),
        (None, None) => status.health.message.clone(),
    }
}

const OUT_OF_SYNC: &str = "OutOfSync";

type Found = (BlockingResource, Option<Timestamp>);

/// The failed result of the operation, else what it waits for: a running hook
/// before other resources. The results of a successful operation are ignored.
fn of_results(application: &Value, status: &StatusView, phase: OperationPhase) -> Option<Found> {
    if phase == OperationPhase::Succeeded {
        return None;
    }
    let operation = &status.operation_state;
    let results: Vec<ResultView> = ResultView::open_rows(application).collect();
    let found = |result: &ResultView, health: Option<&HealthView>, state: &str| {
        let (state, message) = match health {
            Some(health) => (health.status.as_str(), &health.message),
            None => (state, &result.message),
        };
        let since = of_field(&result.since).or_else(|| operation.started());
        (BlockingResource::of_result(result, state, message), since)
    };
    let failed = results.iter().find_map(|result| {
        let states = [&result.status, &result.hook_phase];
        let state = states.into_iter().find(|state| is_failure(state))?;
        let health = live_health(application, result).filter(|_| state == "Failed");
        Some(found(result, health.as_ref(), state))
    });
    if failed.is_some() || !phase.is_running() {
        return failed;
    }
    if let Some(resource) = unconfirmed(application, status) {
        return Some((resource, None));
    }
    let is_running = |result: &&ResultView| {
        OperationPhase::from_word(&result.hook_phase) == OperationPhase::Running
    };
    let mut running = results.iter().filter(is_running);
    let hook = running.clone().find(|result| !result.hook_type.is_empty());
    let result = hook.or_else(|| running.next())?;
    Some(found(result, live_health(application, result).as_ref(), "Running"))
}

/// The health of a resource of the operation, if it is not Healthy.
fn live_health(application: &Value, result: &ResultView) -> Option<HealthView> {
    let key = result.key();
    let resource = ResourceView::unsettled_rows(application).find(|one| one.key() == key)?;
    let blocks = rank_of(&resource) > 0;
    resource.health.filter(|_| blocks)
}

/// The resource with the worst health, else one that is not synced, rather one that a
/// sync would change than one that nothing prunes; the first one listed in case of a tie.
fn of_resources(application: &Value, status: &StatusView) -> Option<Found> {
    let resources: Vec<ResourceView> = ResourceView::unsettled_rows(application).collect();
    // `max_by_key` returns the last maximum.
    let ill = resources.iter().rev().filter(|one| rank_of(one) > 0 && counts(status, one));
    if let Some(worst) = ill.max_by_key(|one| rank_of(one)) {
        let health = worst.health.as_ref()?;
        let since = of_field(&health.last_transition_time);
        let since = since.or_else(|| of_field(&status.health.last_transition_time));
        let found = BlockingResource::of_resource(worst, &health.status, &health.message);
        return Some((found, since));
    }
    let mut out = resources.iter().filter(|resource| resource.status == OUT_OF_SYNC).peekable();
    out.peek()?;
    // Also of a rollout, which disables automated sync and keeps this setting.
    let automated = SpecView::of(application).sync_policy.automated;
    let prunes = automated.is_some_and(|automated| automated.prune);
    let operation = &status.operation_state.operation;
    let results = LazyCell::new(|| ResultView::rows(application).collect::<Vec<_>>());
    let kept = |resource: &ResourceView| kept::why(resource, prunes, operation, || &results);
    if let Some(resource) = out.clone().find(|resource| kept(resource).is_none()) {
        return Some((BlockingResource::of_resource(resource, OUT_OF_SYNC, ""), None));
    }
    let first = out.next()?;
    Some((BlockingResource::of_resource(first, kept::REQUIRES_PRUNING, kept(first)?), None))
}

fn is_failure(state: &str) -> bool {
    matches!(state, "SyncFailed" | "PruneFailed" | "Failed" | "Error")
}

/// Whether the health of a resource counts towards that of the Application: not of a hook, and
/// not when it is worse than the whole, as of an object whose health is ignored.
fn counts(status: &StatusView, resource: &ResourceView) -> bool {
    let whole = HealthStatus::parse(&status.health.status);
    let own = resource.health.as_ref().map_or("", |health| &health.status);
    let own = HealthStatus::from_word(own);
    !resource.hook && !whole.is_some_and(|whole| own.is_worse_than(whole))
}

/// Severity of the health of a resource; 0 does not block. What is still to be created is
/// OutOfSync, and no failure.
fn rank_of(resource: &ResourceView) -> u8 {
    let word = resource.health.as_ref().map_or("", |health| &health.status);
    match HealthStatus::from_word(word) {
        _ if word.is_empty() => 0,
        HealthStatus::Missing if resource.status == OUT_OF_SYNC => 0,
        HealthStatus::Healthy => 0,
        HealthStatus::Unknown => 1,
        HealthStatus::Suspended => 2,
        HealthStatus::Progressing => 3,
        HealthStatus::Missing => 4,
        HealthStatus::Degraded => 5,
    }
}

/// The resource whose deletion a running operation waits to be confirmed. Argo CD has no
/// field for it but the message.
fn unconfirmed(application: &Value, status: &StatusView) -> Option<BlockingResource> {
    let message = status.operation_state.message.strip_prefix(WAITS_FOR_CONFIRMATION)?;
    let wanted = message.split(' ').next()?;
    let is_named = |resource: &ResourceView| {
        let ResourceView { group, kind, name, .. } = resource;
        wanted == format!("{group}/{kind}/{name}")
    };
    let resource = ResourceView::rows(application).find(is_named)?;
    let (state, why) = (kept::REQUIRES_CONFIRMATION, kept::TO_CONFIRM);
    Some(BlockingResource::of_resource(&resource, state, why))
}
