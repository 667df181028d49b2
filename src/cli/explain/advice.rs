//! What to do about a wait.

use serde_json::Value;

use crate::api::annotations::DELETION_APPROVED;
use crate::api::conditions::application as condition;
use crate::api::{OperationPhase, Raw};
use crate::cli::rollout_summary::{MemberSummary, is_of_applications, is_ready};
use crate::decide::application_set::observe::revisions;
use crate::decide::application_set::{autosync, is_owned};
use crate::decide::blocking_resource::{BlockingResource, WAITS_FOR_CONFIRMATION};
use crate::decide::rollout::budget::Limit;
use crate::decide::rollout::held::HELD;
use crate::decide::rollout::phase::Phase;
use crate::decide::rollout::steps::Strategy;

/// An Application that is waited for.
pub(super) struct Waiting<'a> {
    pub set: &'a Value,
    pub name: &'a str,
    pub phase: &'a str,
    pub member: Option<&'a MemberSummary>,
    pub live: Option<&'a Value>,
    pub resource: Option<&'a BlockingResource>,
}

/// Suggested actions for a wait.
pub(super) fn actions(waiting: &Waiting<'_>) -> Vec<String> {
    let &Waiting { set, name, phase, member, live, resource } = waiting;
    let Some(live) = live else {
        let fails = is_of_applications(set);
        let action = "fix the cause: the ApplicationSet, or the permissions of its controller, \
                      which tries again by itself";
        return fails.then(|| action.to_owned()).into_iter().collect();
    };
    if !live["metadata"]["deletionTimestamp"].is_null() {
        let namespace = in_namespace(live.namespace());
        return vec![format!(
            "its finalizers are removed when its resources are deleted; for what they wait for, see its \
             conditions: kubectl {namespace}describe application {}",
            word(name)
        )];
    }
    if !is_owned(live, set) {
        return vec![
            "give it another name in the ApplicationSet, or remove it from its other owner"
                .to_owned(),
        ];
    }
    let strategy = Strategy::read(set["spec"].get("strategy")).0;
    let step = member.and_then(|member| member.step);
    let max_update = step.and_then(|step| strategy.steps().get(step.checked_sub(1)?));
    let held = max_update.is_some_and(|step| step.max_update.limit(u64::MAX) == Limit::AtMost(0));
    let last = OperationPhase::from_word(live.text("/status/operationState/phase"));
    // An operation that runs, or is requested, refuses another one.
    let is_busy = last.is_running() || !live["operation"].is_null();
    let sync = sync_of(live, name);
    if phase == Phase::Waiting.name()
        && member.is_some_and(|member| member.message.starts_with(HELD))
    {
        return vec![
            "it is left as it is until the next revision or spec; whoever may sync it can take it back"
                .to_owned(),
            take_back(live, name),
        ];
    }
    if phase == Phase::Waiting.name() && held {
        let action = format!("maxUpdate of its step is 0, so sync it yourself: {sync}");
        return if is_busy || is_ready(live) { Vec::new() } else { vec![action] };
    }
    if step.is_none() && phase == Phase::Waiting.name() && !strategy.steps().is_empty() {
        let action = format!("sync it yourself, or select it by a step: {sync}");
        return if is_busy { Vec::new() } else { vec![action] };
    }
    if phase == Phase::Pending.name() {
        return vec![
            "its operation was not started yet: check that an application controller is running"
                .to_owned(),
        ];
    }
    let mut actions: Vec<String> = about_resource(resource).into_iter().collect();
    if is_busy {
        actions.extend(confirmation(live, name));
        return actions;
    }
    actions.extend(about_source(live, name));
    let has_failed = last.has_failed() || member.is_some_and(|member| member.has_failed);
    let is_unhealthy = resource.is_some_and(|resource| resource.status == "Degraded");
    let by_itself = || "a commit that fixes the cause is rolled out by itself".to_owned();
    if let Some(resource) = resource.filter(|resource| resource.requires_pruning()) {
        actions.extend(about_pruning(resource, &sync));
    } else if strategy.steps().is_empty() && !autosync::is_enabled(live) {
        let is_out = live.text("/status/sync/status") == "OutOfSync";
        let action = format!("automated sync is not enabled, so sync it yourself: {sync}");
        actions.extend((is_out || has_failed).then_some(action));
    } else if has_failed {
        actions.push(by_itself());
        actions.push(format!("without a new commit, start a new sync: {sync}"));
    } else if is_unhealthy {
        actions.push(by_itself());
    } else if resource.is_some_and(BlockingResource::is_out_of_sync) {
        // Its sync succeeded, and no controller syncs the same again.
        let namespace = in_namespace(live.namespace());
        let differs = format!("wavegate diff {namespace}{}", word(name));
        actions.push(format!("see what changes it after a sync: {differs}"));
        actions.push(format!("start a new sync: {sync}"));
    }
    actions
}

/// What to do with the blocking resource.
fn about_resource(resource: Option<&BlockingResource>) -> Option<String> {
    // An object that could not be applied may not exist, and its error says all. A hook
    // whose operation was terminated is deleted.
    let is_described = |found: &&BlockingResource| {
        let is_gone = !found.hook.is_empty() && found.is_terminated();
        !is_gone && !found.is_out_of_sync() && !found.is_refused()
    };
    if let Some(action) = resource.and_then(missing_namespace) {
        return Some(action);
    }
    let resource = resource.filter(is_described)?;
    let describe = describe_command(resource);
    Some(match resource.status.as_str() {
        "Suspended" => format!("resume the resource: {describe}"),
        _ => describe,
    })
}

/// The namespace that a resource needs, in the words of an API server.
fn missing_namespace(resource: &BlockingResource) -> Option<String> {
    let (_, rest) = resource.message.split_once("namespaces \"")?;
    let (namespace, rest) = rest.split_once('"')?;
    let is_missing = resource.is_refused() && rest.starts_with(" not found");
    is_missing.then(|| {
        format!(
            "create the namespace: kubectl create namespace {}, or commit the sync option CreateNamespace=true",
            word(namespace)
        )
    })
}

/// What to do with a resource that is not in the source any more.
fn about_pruning(resource: &BlockingResource, sync: &str) -> [String; 2] {
    if resource.is_kept_by_option() {
        let BlockingResource { group, kind, namespace, name, .. } = resource;
        let delete = format!(
            "kubectl {}delete {} {}",
            in_namespace(namespace),
            kind_of(group, kind),
            word(name)
        );
        return [
            format!("delete it yourself: {delete}"),
            "or restore its manifest in the source".to_owned(),
        ];
    }
    if resource.is_left_by_last_sync() {
        return [format!("prune it: {sync}"), "or restore its manifest in the source".to_owned()];
    }
    [
        format!("prune it: {sync}"),
        "or set spec.syncPolicy.automated.prune: true in the template of the ApplicationSet, or \
         restore its manifest in the source"
            .to_owned(),
    ]
}

/// What to do with a source that cannot be read.
fn about_source(live: &Value, name: &str) -> Option<String> {
    let conditions = live.items("/status/conditions").iter();
    let is_unread = conditions
        .map(|found| found.field("type"))
        .any(|kind| kind == condition::COMPARISON_ERROR || kind == condition::INVALID_SPEC_ERROR);
    let namespace = in_namespace(live.namespace());
    is_unread.then(|| {
        format!(
            "correct its source, in the repository or in the template of the ApplicationSet; to compare it at \
             once: wavegate refresh {namespace}{}",
            word(name)
        )
    })
}

/// How to confirm the deletions that an operation waits for.
fn confirmation(live: &Value, name: &str) -> Option<String> {
    let message = live.text("/status/operationState/message");
    let namespace = in_namespace(live.namespace());
    message.starts_with(WAITS_FOR_CONFIRMATION).then(|| {
        format!(
            "confirm the deletion: kubectl {namespace}annotate application {} --overwrite \
             {DELETION_APPROVED}=$(date -u +%FT%TZ)",
            word(name)
        )
    })
}

/// The option that selects a namespace, with a blank at its end.
fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("-n {} ", word(namespace)) }
}

/// A word of a shell: quoted if a shell would interpret it.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+=-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A kind as an argument of kubectl.
fn kind_of(group: &str, kind: &str) -> String {
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    word(&format!("{}{group}", kind.to_lowercase()))
}

/// The command that shows details of a resource.
fn describe_command(resource: &BlockingResource) -> String {
    let BlockingResource { group, kind, namespace, name, .. } = resource;
    format!("kubectl {}describe {} {}", in_namespace(namespace), kind_of(group, kind), word(name))
}

/// The command that syncs an Application, with prune if nothing else is left to do.
fn sync_of(live: &Value, name: &str) -> String {
    let resources = live.items("/status/resources").iter();
    let mut out = resources.filter(|resource| resource.field("status") == "OutOfSync").peekable();
    let prunes = out.peek().is_some() && out.all(|resource| resource["requiresPruning"] == true);
    let prune = if prunes { " --prune" } else { "" };
    format!("{}{prune}", sync_commands(&[name], live.namespace()))
}

/// The command that syncs an Application to what its rollout wants, after a person has synced
/// it to something else (ST-065).
pub(in crate::cli) fn take_back(live: &Value, name: &str) -> String {
    let wanted = revisions(&live["status"]["sync"]);
    let wanted: String =
        wanted.iter().map(|revision| format!(" --revision {}", word(revision))).collect();
    format!("to take it back: {}{wanted}", sync_of(live, name))
}

/// The most Applications in one command.
const NAMED: usize = 10;

/// The command that syncs Applications with their own options; of many, the first ones.
pub(in crate::cli) fn sync_commands(names: &[&str], namespace: &str) -> String {
    let words: Vec<String> = names.iter().take(NAMED).map(|name| word(name)).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("wavegate sync {}{}{more}", in_namespace(namespace), words.join(" "))
}
