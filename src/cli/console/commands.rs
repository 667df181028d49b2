//! Commands that users can paste.

use std::sync::OnceLock;

use serde_json::Value;

use wavegate_api::Raw;
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_rollout::rollout::report::ApplicationReport;

/// The kube context that the user gave to this command.
static CONTEXT: OnceLock<Option<String>> = OnceLock::new();

/// Records the kube context that the user gave: printed commands are for the same cluster.
pub(in crate::cli) fn use_context(given: Option<&str>) {
    CONTEXT.get_or_init(|| given.map(str::to_owned));
}

/// The options that select the cluster of the control plane, as the user gave them, and a
/// namespace; with a blank at the end.
pub(in crate::cli) fn in_namespace(namespace: &str) -> String {
    let context = match CONTEXT.get().and_then(|context| context.as_deref()) {
        Some(context) => format!("--context {} ", word(context)),
        None => String::new(),
    };
    if namespace.is_empty() { context } else { format!("{context}-n {} ", word(namespace)) }
}

/// A word of a shell: quoted if a shell would interpret it.
pub(in crate::cli) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+=-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A command of this program about an object.
pub(in crate::cli) fn wavegate(verb: &str, namespace: &str, name: &str) -> String {
    format!("wavegate {verb} {}{}", in_namespace(namespace), word(name))
}

/// A command of kubectl, such as `edit appproject`, about an object of the control plane.
pub(in crate::cli) fn kubectl(command: &str, namespace: &str, name: &str) -> String {
    format!("kubectl {}{command} {}", in_namespace(namespace), word(name))
}

/// The options that select the destination cluster: none for one that is not the cluster of
/// the control plane, since its context is not known here.
pub(in crate::cli) fn cluster_of(live: &Value) -> String {
    let server = live.text("/spec/destination/server").trim_end_matches('/');
    let name = live.text("/spec/destination/name");
    let is_here = server == IN_CLUSTER_SERVER || name == IN_CLUSTER_NAME;
    if is_here { in_namespace("") } else { String::new() }
}

/// The options that select the place of a resource.
pub(in crate::cli) fn at_resource(live: &Value, resource: &BlockingResource) -> String {
    let namespace = match resource.namespace.as_str() {
        "" => String::new(),
        namespace => format!("-n {} ", word(namespace)),
    };
    format!("{}{namespace}", cluster_of(live))
}

/// A kind as an argument of kubectl.
pub(in crate::cli) fn kind_of(group: &str, kind: &str) -> String {
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    word(&format!("{}{group}", kind.to_lowercase()))
}

/// The command that shows details of a resource.
pub(in crate::cli) fn describe_command(live: &Value, resource: &BlockingResource) -> String {
    let BlockingResource { group, kind, name, .. } = resource;
    format!(
        "kubectl {}describe {} {}",
        at_resource(live, resource),
        kind_of(group, kind),
        word(name)
    )
}

/// The command that syncs an Application, with prune if nothing else is left to do.
pub(in crate::cli) fn sync_of(live: &ApplicationReport, namespace: &str, name: &str) -> String {
    let prune = if live.only_prunes { " --prune" } else { "" };
    format!("{}{prune}", sync_commands(&[name], namespace))
}

/// What ends a sync by a person without anybody's help (ST-065).
pub(in crate::cli) const TAKEN_BACK: &str = "the next revision or spec takes it back";

/// What ends a hold, with the command that syncs an Application to what its rollout wants,
/// after a person has synced it to something else (ST-065).
pub(in crate::cli) fn take_back(live: &ApplicationReport, namespace: &str, name: &str) -> String {
    let wanted = &live.observed.revisions;
    let wanted: String =
        wanted.iter().map(|revision| format!(" --revision {}", word(revision))).collect();
    let command = format!("{}{wanted}", sync_of(live, namespace, name));
    format!("{TAKEN_BACK}; to take it back now: {command}")
}

/// The most Applications in one command.
const NAMED: usize = 10;

/// The command that syncs Applications with their own options; of many, the first ones.
pub(in crate::cli) fn sync_commands(names: &[&str], namespace: &str) -> String {
    let words: Vec<String> = names.iter().take(NAMED).map(|name| word(name)).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        // A comment of a shell, so that the line can be pasted.
        more => format!("  # and {more} more"),
    };
    format!("wavegate sync {}{}{more}", in_namespace(namespace), words.join(" "))
}
