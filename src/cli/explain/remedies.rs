//! What to do about a resource, a source or a project that holds an Application.

use serde_json::Value;

use super::wait::Action;
use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::commands::{
    at_resource, cluster_of, describe_command, kind_of, kubectl, wavegate, word,
};
use wavegate_api::annotations::SYNC_WAVE;
use wavegate_api::app_status::ResourceStatus;
use wavegate_api::conditions::application as condition;
use wavegate_api::{Raw, read_leniently};
use wavegate_application::access::project_of;
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_engine::blocking_resource::below::WorkloadCause;
use wavegate_rollout::application_set::set_of;

/// Where the spec of an Application is written.
fn spec_of(live: &Value) -> &'static str {
    match set_of(live) {
        Some(_) => "the template of the ApplicationSet",
        None => "the spec of the Application",
    }
}

/// That another Application has a resource of this one, too.
pub(super) fn shared_with(live: &Value) -> Option<&str> {
    let mut conditions = live.items("/status/conditions").iter();
    let shared = conditions
        .find(|found| found.field("type") == condition::SHARED_RESOURCE_WARNING)
        .map(|found| found.field("message"));
    shared.filter(|message| !message.is_empty())
}

/// How to permit what a project denies, by the words of the denial; `None` for other ones.
pub(super) fn about_project(live: &Value, message: &str) -> Option<String> {
    let denials = ["permitted in project", "permitted to use project", "destinations in project"];
    if !denials.iter().any(|words| message.contains(words)) {
        return None;
    }
    let fields = [
        ("permitted to use project", "spec.sourceNamespaces"),
        ("destinations in project", "spec.destinations"),
        ("application repo ", "spec.sourceRepos"),
        ("resource ", "spec.clusterResourceWhitelist or spec.namespaceResourceWhitelist"),
        ("namespace ", "spec.destinations"),
    ];
    let field = fields.into_iter().find(|(words, _)| message.contains(words));
    let field = field.map_or("spec", |(_, field)| field);
    let project = inherited_from(message).unwrap_or_else(|| project_of(live));
    let edit = kubectl("edit appproject", &control_plane_of(live), project);
    Some(format!(
        "permit it in {field} of AppProject {project}, or change the source or {}: {edit}",
        spec_of(live)
    ))
}

/// The global project that a message says an entry is from.
pub(super) fn inherited_from(message: &str) -> Option<&str> {
    message.split_once(" of global project ")?.1.split([' ', ':', ';']).next()
}

/// What to do with the blocking resource.
pub(super) fn about_resource(live: &Value, resource: Option<&BlockingResource>) -> Option<Action> {
    // An object that could not be applied may not exist, and its error says all. A hook
    // whose operation was terminated is deleted.
    let is_described = |found: &&BlockingResource| {
        let is_gone = !found.hook.is_empty() && found.is_terminated();
        !is_gone && !found.is_out_of_sync() && !found.is_refused()
    };
    if let Some(action) = resource.and_then(|resource| missing_namespace(live, resource)) {
        return Some(action.into());
    }
    if let Some(refused) = resource.filter(|resource| resource.is_refused()) {
        return Some(match about_project(live, &refused.message) {
            Some(action) => action.into(),
            None if refused.status == "PruneFailed" => {
                Action::general(describe_command(live, refused))
            }
            None => format!(
                "correct the manifest of {} {} in the source, as the message says",
                refused.kind, refused.name
            )
            .into(),
        });
    }
    let resource = resource.filter(is_described)?;
    Some(match resource.status.as_str() {
        "Suspended" => format!("resume the resource: {}", resume_command(live, resource)).into(),
        _ => Action::general(describe_command(live, resource)),
    })
}

/// The command that resumes a resource.
fn resume_command(live: &Value, resource: &BlockingResource) -> String {
    let BlockingResource { group, kind, name, .. } = resource;
    let at = at_resource(live, resource);
    let unsuspend = r#"--type merge -p '{"spec":{"suspend":false}}'"#;
    match (group.as_str(), kind.as_str()) {
        ("apps", "Deployment") => format!(
            "kubectl {at}rollout resume deployment {}, unless spec.paused is in its manifest: remove \
             it in the source then",
            word(name)
        ),
        ("batch", "Job" | "CronJob") => {
            format!("kubectl {at}patch {} {} {unsuspend}", kind_of(group, kind), word(name))
        }
        _ => describe_command(live, resource),
    }
}

/// What to do about the object that keeps a workload from being ready.
pub(super) fn about_cause(
    live: &Value,
    resource: &BlockingResource,
    cause: &WorkloadCause,
) -> Vec<String> {
    let at = at_resource(live, resource);
    let name = word(&cause.name);
    let container = match cause.container.as_str() {
        "" => String::new(),
        container => format!(" -c {}", word(container)),
    };
    let describe = format!("kubectl {at}describe {} {name}", cause.kind.to_lowercase());
    if let Some(later) = later_wave(live, resource, cause) {
        return vec![later];
    }
    if cause.has_to_be_deleted {
        return vec![format!(
            "delete it, since its StatefulSet waits for it before it creates a newer one: kubectl {at}delete pod {name}"
        )];
    }
    match cause.reason.as_str() {
        "FailedCreate" if cause.message.contains("quota") => {
            vec![format!("raise the quota, or request less: kubectl {at}describe resourcequota")]
        }
        "Unschedulable" => {
            vec![format!("add nodes, or correct its requests and selectors: {describe}")]
        }
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => {
            vec![format!("correct the image, or the Secret that it is pulled with: {describe}")]
        }
        "CrashLoopBackOff" => {
            vec![format!("see what it printed: kubectl {at}logs {name}{container} --previous")]
        }
        "Unhealthy" => vec![
            format!("see what it prints: kubectl {at}logs {name}{container}"),
            format!("see its probes: {describe}"),
        ],
        _ if !cause.container.is_empty() && cause.message.contains("exited with code") => {
            vec![format!("see what it printed: kubectl {at}logs {name}{container}")]
        }
        _ => vec![describe],
    }
}

/// The Secret or ConfigMap that a Pod needs, and that only a later wave creates, which waits for the
/// Pod: in the words of a kubelet.
fn later_wave(live: &Value, resource: &BlockingResource, cause: &WorkloadCause) -> Option<String> {
    let missing = [("Secret", "secret \""), ("ConfigMap", "configmap \"")];
    let (kind, name) = missing.into_iter().find_map(|(kind, words)| {
        let (name, rest) = cause.message.split_once(words)?.1.split_once('"')?;
        rest.starts_with(" not found").then_some((kind, name))
    })?;
    let wave_of = |group: &str, kind: &str, name: &str| {
        let mut all = live.items("/status/resources").iter();
        let found = all.find(|one| {
            let is_here = [resource.namespace.as_str(), ""].contains(&one.field("namespace"));
            is_here
                && (one.field("group"), one.field("kind"), one.field("name")) == (group, kind, name)
        })?;
        Some(read_leniently::<ResourceStatus>(found).sync_wave)
    };
    let own = wave_of(&resource.group, &resource.kind, &resource.name)?;
    let later = wave_of("", kind, name).filter(|later| *later > own)?;
    let BlockingResource { kind: of, name: workload, .. } = resource;
    Some(format!(
        "{kind} {name} is in wave {later}, which waits for {of} {workload} in wave {own}, and this for \
         it: give {kind} {name} the wave {own} or an earlier one in the source \
         (annotation {SYNC_WAVE})"
    ))
}

/// The namespace that a resource needs, in the words of an API server.
fn missing_namespace(live: &Value, resource: &BlockingResource) -> Option<String> {
    let (_, rest) = resource.message.split_once("namespaces \"")?;
    let (namespace, rest) = rest.split_once('"')?;
    let is_missing = resource.is_refused() && rest.starts_with(" not found");
    is_missing.then(|| {
        format!(
            "create the namespace: kubectl {}create namespace {}, or commit the sync option CreateNamespace=true",
            cluster_of(live),
            word(namespace)
        )
    })
}

/// What to do with a resource that is not in the source any more.
pub(super) fn about_pruning(live: &Value, resource: &BlockingResource, sync: &str) -> [String; 2] {
    if resource.is_kept_by_option() {
        let BlockingResource { group, kind, name, .. } = resource;
        let delete = format!(
            "kubectl {}delete {} {}",
            at_resource(live, resource),
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
        format!(
            "or set spec.syncPolicy.automated.prune: true in {}, or restore its manifest in the \
             source",
            spec_of(live)
        ),
    ]
}

/// What `git` and registries say to who has no password or key, or the wrong one.
const LOGIN: [&str; 9] = [
    "permission denied",
    "authentication failed",
    "could not read username",
    "could not read password",
    "terminal prompts disabled",
    "returned error: 401",
    "returned error: 403",
    "no username and password",
    "too many authentication failures",
];

/// What to do with a source that cannot be read, or that the project denies.
pub(super) fn about_source(live: &Value, name: &str) -> Option<String> {
    let mut conditions = live.items("/status/conditions").iter();
    let unread = conditions.find(|found| {
        [condition::COMPARISON_ERROR, condition::INVALID_SPEC_ERROR].contains(&found.field("type"))
    })?;
    let message = unread.field("message");
    let refresh = wavegate("refresh", live.namespace(), name);
    if let Some(action) = about_project(live, message) {
        return Some(format!("{action}; to compare it at once: {refresh}"));
    }
    let said = message.to_ascii_lowercase();
    if LOGIN.iter().any(|words| said.contains(words)) {
        let secrets = kubectl(
            "get secrets -l",
            &control_plane_of(live),
            "argocd.argoproj.io/secret-type=repository",
        );
        return Some(format!(
            "add a repository Secret with its password or private key, or correct the one that there \
             is: {secrets}; to compare it at once: {refresh}"
        ));
    }
    let is_missing = ["no such file", "does not exist", "not found"];
    let what = match is_missing.iter().any(|words| message.contains(words)) {
        true => "commit what is missing, or correct its path",
        false => "in the repository",
    };
    let spec = spec_of(live);
    Some(format!("correct its source: {what}, or {spec}; to compare it at once: {refresh}"))
}
