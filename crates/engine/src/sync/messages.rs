//! Messages that users and their scripts rely on (SE-206..SE-208, SE-262,
//! SE-272). They are part of the compatibility surface.

use std::collections::BTreeSet;

use super::plan::WaitReason;
use super::snapshot::Denial;
use super::task::Task;
use wavegate_api::operation::ResourceResult;
use wavegate_api::operation::{ResultCode, SyncPhase};
use wavegate_api::resource_key::ResourceKey;

pub(super) const NO_MORE_TASKS: &str = "successfully synced (no more tasks)";
pub(super) const ALL_TASKS_RUN: &str = "successfully synced (all tasks run)";
/// The message of an operation that applies resources: it says only that it is running.
pub const TASKS_RUNNING: &str = "one or more tasks are running";
pub(super) const FAILED_TO_APPLY: &str = "one or more objects failed to apply";
pub(super) const FAILED_DRY_RUN: &str = "one or more objects failed to apply (dry run)";
pub(super) const FAILED_NAMESPACE: &str = "the namespace failed to apply";
pub(super) const UNSUCCESSFUL: &str = "one or more synchronization tasks completed unsuccessfully";
pub(super) const INVALID: &str = "one or more synchronization tasks are not valid";
pub(super) const TERMINATING: &str = "operation is terminating";
pub(super) const TIMED_OUT: &str = "operation is terminating due to timeout";
/// The message of an operation that was terminated, without errors.
pub const TERMINATED: &str = "Operation terminated";
pub(super) const TERMINATED_WITH_ERRORS: &str = "Operation termination had errors";
/// Results of actions that were announced and not recorded yet.
pub(super) const ABOUT_TO_PRUNE: &str = "about to be pruned";
pub(super) const ABOUT_TO_CREATE: &str = "about to be created";
pub(super) const ABOUT_TO_APPLY: &str = "about to be applied";
/// What the message of an operation adds that the time limit has terminated.
pub const BY_TIMEOUT: &str = ", triggered by controller sync timeout";

/// Why an object is not pruned that these other Applications have.
pub(super) fn left_to(others: &str) -> String {
    format!("ignored (left to {others}, which has it in its source)")
}

/// What a wait for comparisons adds: of which other Applications.
pub(super) fn of_others(message: &str, others: &str) -> String {
    format!("{message}, of Applications that may have it in their sources: {others}")
}

/// `waiting for <reason> <group>/<kind>/<name> and <n> more <type>`; empty when
/// nothing is awaited (SE-262).
pub(super) fn waiting(reason: WaitReason, tasks: &[&Task<'_>]) -> String {
    let Some(first) = tasks.iter().find(|task| task.hook).or(tasks.first()) else {
        return String::new();
    };
    let ResourceKey { group, kind, name, .. } = &first.key.resource;
    let message = format!("waiting for {} {group}/{kind}/{name}", reason.as_str());
    let kind = if tasks.iter().all(|task| task.hook) { "hooks" } else { "resources" };
    match tasks.len() - 1 {
        0 => message,
        others => format!("{message} and {others} more {kind}"),
    }
}

/// The message of a failed operation: the cause, then the API server's messages
/// without duplicates, in order of the results (SE-272).
pub(super) fn failure(base: &str, results: &[ResourceResult]) -> String {
    let reasons = |of_sync_fail: bool| {
        let mut distinct: Vec<&str> = Vec::new();
        for result in results {
            let failed = result.status == ResultCode::SyncFailed;
            let wanted = (result.sync_phase == SyncPhase::SyncFail) == of_sync_fail;
            if failed && wanted && !distinct.contains(&result.message.as_str()) {
                distinct.push(&result.message);
            }
        }
        distinct.join(",")
    };
    let mut message = base.to_owned();
    match reasons(false) {
        reasons if reasons.is_empty() => {}
        reasons => message.push_str(&format!(", reason: {reasons}")),
    }
    match reasons(true) {
        reasons if reasons.is_empty() => {}
        reasons => {
            let base = "one or more SyncFail hooks failed";
            message.push_str(&format!("\n{base}, reason: {reasons}"));
        }
    }
    message
}

/// Why an operation could not start (SE-207): the distinct messages, sorted.
pub(super) fn invalid<'m>(messages: impl Iterator<Item = &'m str>) -> String {
    let distinct: BTreeSet<&str> = messages.filter(|message| !message.is_empty()).collect();
    match distinct.is_empty() {
        true => INVALID.to_owned(),
        false => {
            format!("{INVALID}: {}", distinct.into_iter().collect::<Vec<_>>().join("; "))
        }
    }
}

impl Denial {
    /// Why the resource is rejected (SE-206).
    pub fn message(&self, key: &ResourceKey, project: &str) -> String {
        let (Self::Kind(rule) | Self::Namespace(rule)) = self;
        format!("{}: {rule}", self.words(key, project))
    }

    /// The words of Argo CD, without the rule.
    fn words(&self, key: &ResourceKey, project: &str) -> String {
        let ResourceKey { group, kind, namespace, .. } = key;
        match self {
            Self::Kind(_) => {
                format!("resource {group}:{kind} is not permitted in project {project}")
            }
            Self::Namespace(_) => {
                format!("namespace {namespace} is not permitted in project '{project}'")
            }
        }
    }
}

/// The project forbids to create or label the destination namespace.
pub(super) fn namespace_denied(key: &ResourceKey, denial: &Denial, project: &str) -> String {
    let name = &key.name;
    let why = denial.words(key, project);
    format!(
        "namespace {name} cannot be created or labelled: {why}: allow kind Namespace of group \
         '' in spec.clusterResourceWhitelist of the AppProject, and do not deny it in \
         spec.clusterResourceBlacklist"
    )
}

/// A kind that the API server does not have, at all or in this version (SE-208).
pub(super) fn missing_kind(
    key: &ResourceKey,
    version: &str,
    installed: Option<&(String, String)>,
) -> String {
    let ResourceKey { group, kind, namespace, name } = key;
    match installed {
        None => format!(
            "The Kubernetes API could not find {group}/{kind} for requested resource \
             {namespace}/{name}. Make sure the \"{kind}\" CRD is installed on the destination \
             cluster."
        ),
        Some((other_group, other_version)) => format!(
            "The Kubernetes API could not find version \"{version}\" of {group}/{kind} for \
             requested resource {namespace}/{name}. Version \"{other_version}\" of \
             {other_group}/{kind} is installed on the destination cluster."
        ),
    }
}

pub(super) fn namespace_unreadable(error: &str) -> String {
    format!("namespace auto creation failed: {error}")
}

/// The API server's error, with a hint for common mistakes.
pub(super) fn refusal(error: &str) -> String {
    if error.contains("metadata.annotations: Too long: must have at most 262144 bytes") {
        return format!(
            "{error}; the object is too large for the last-applied annotation: \
             sync it with ServerSideApply=true or Replace=true"
        );
    }
    error.to_owned()
}

/// `deployment.apps/web created`, as printed by kubectl.
pub fn as_by_kubectl(key: &ResourceKey, verb: &str) -> String {
    let kind = key.kind.to_lowercase();
    let group = if key.group.is_empty() { String::new() } else { format!(".{}", key.group) };
    format!("{kind}{group}/{} {verb}", key.name)
}

/// `pruned` and `created` in a dry run (SE-282).
pub(super) fn dry_run(message: &str) -> String {
    match message.ends_with("(dry run)") {
        true => message.to_owned(),
        false => format!("{message} (dry run)"),
    }
}
