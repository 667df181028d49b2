//! What to do about a wait.

use serde_json::Value;

use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::commands::{
    TAKEN_BACK, at_resource, cluster_of, describe_command, in_namespace, kind_of, sync_of,
    take_back, word,
};
use crate::cli::rollout_view::run::commands;
use wavegate_api::annotations::{DELETION_APPROVED, SKIP_RECONCILE, is_skipped};
use wavegate_api::conditions::application as condition;
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::access::project_of;
use wavegate_application::deletion::WAITS_FOR_APPROVAL;
use wavegate_application::global_projects::GLOBAL_PROJECTS;
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_engine::blocking_resource::below::Cause;
use wavegate_rollout::rollout::report::{Application, Member, Report};
use wavegate_rollout::rollout::wait::{EndedBy, Wait, WaitKind};
use wavegate_rollout::steering::Run;

/// An Application that is waited for.
pub(super) struct WaitContext<'a> {
    pub set: &'a Value,
    pub report: &'a Report,
    /// The latest run of the set, if one is known.
    pub run: Option<&'a Run>,
    pub wait: &'a Wait,
    pub member: &'a Member,
    pub live: Option<&'a Value>,
    pub resource: Option<&'a BlockingResource>,
    /// Its phase has just begun.
    pub is_new: bool,
}

/// A suggested action in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Action {
    pub text: String,
    /// What is found below the resource says more.
    pub is_general: bool,
}

impl From<String> for Action {
    fn from(text: String) -> Self {
        Self { text, is_general: false }
    }
}

impl Action {
    fn general(text: String) -> Self {
        Self { text, is_general: true }
    }

    /// It continues by itself.
    fn nothing(why: &str) -> Self {
        Self::general(format!("nothing to do: {why}"))
    }
}

/// About one that may be held as those that the status names.
const UNNAMED: &str = "the ApplicationSet names only the first that it waits for, and people end \
                       these waits: this one may be held like them";

/// Suggested actions for a wait: at least one, be it that it continues by itself.
pub(super) fn actions(waiting: &WaitContext<'_>) -> Vec<Action> {
    let &WaitContext { wait, member, live, .. } = waiting;
    let found = match (wait.kind, live, &member.live) {
        (WaitKind::Deletion, Some(live), _) => vec![about_deletion(live, &wait.application).into()],
        (
            WaitKind::Operation
            | WaitKind::Confirmation
            | WaitKind::FailedOperation
            | WaitKind::OutOfSync
            | WaitKind::Degraded
            | WaitKind::Health
            | WaitKind::Comparison
            | WaitKind::ErrorCondition
            | WaitKind::OtherOperation
            | WaitKind::Promotion
            | WaitKind::MaxUpdate
            | WaitKind::StatusFull,
            Some(live),
            Some(read),
        ) => about_state(waiting, live, read),
        _ => Vec::new(),
    };
    let mut found = match (found.is_empty(), steered(waiting)) {
        (_, steered) if !steered.is_empty() => return steered,
        (true, _) => vec![by_kind(waiting)],
        (false, _) => found,
    };
    // What has failed, or is held by a person, need not hold the others.
    let is_live = waiting.run.is_some_and(|run| run.is_known && !run.phase().has_ended());
    let holds = wait.kind.ended_by() == EndedBy::Person && member.step.is_some();
    if is_live && holds {
        let at = in_namespace(waiting.set.namespace());
        let skip = format!("wavegate skip {at}{}", word(&wait.application));
        found.push(format!("to go on without it in this run: {skip}").into());
    }
    found
}

/// What ends a wait that a person or a policy has made.
fn steered(waiting: &WaitContext<'_>) -> Vec<Action> {
    let &WaitContext { set, report, run, wait, member, .. } = waiting;
    let goes_on = wait.kind.ended_by() == EndedBy::Events && !member.is_operating();
    let may_be_held = goes_on && report.may_be_held(member);
    let kinds = [
        WaitKind::Paused,
        WaitKind::Approval,
        WaitKind::FailureBudget,
        WaitKind::Quarantined,
        WaitKind::HeldBack,
    ];
    let run = run.filter(|_| may_be_held || kinds.contains(&wait.kind));
    let commands = run.map(|run| commands(run, &ObjectKey::of(set))).unwrap_or_default();
    match commands.is_empty() && may_be_held {
        true => vec![UNNAMED.to_owned().into()],
        false => {
            let all = commands.into_iter();
            all.map(|(what, command)| format!("{what}: {command}").into()).collect()
        }
    }
}

/// The suggested action by the kind of the wait alone. Exhaustive, so that a new kind needs one.
fn by_kind(waiting: &WaitContext<'_>) -> Action {
    let &WaitContext { set, report, wait, member, live, .. } = waiting;
    let name = &wait.application;
    let namespace = live.map_or(set.namespace(), |live| live.namespace());
    let own =
        |command: &str| format!("wavegate {command} {}{}", in_namespace(namespace), word(name));
    let sync = || match &member.live {
        Some(read) => sync_of(read, namespace, name),
        None => own("sync"),
    };
    let of_set = |verb: &str| {
        let at = in_namespace(set.namespace());
        format!("kubectl {at}{verb} applicationset {}", word(set.name()))
    };
    let kind = match (wait.kind, &member.live) {
        // Another sync would be refused.
        (WaitKind::ManualSync | WaitKind::FailedOperation, Some(read)) if read.is_operating() => {
            WaitKind::Operation
        }
        (WaitKind::ManualSync, Some(read)) if read.is_done() => WaitKind::Promotion,
        // It exists, and is not the set's.
        (WaitKind::Creating, None) if live.is_some() => WaitKind::Refused,
        (WaitKind::Creating, None) if report.fails_for_applications() => WaitKind::FailedWrite,
        (kind, _) => kind,
    };
    match kind {
        WaitKind::Creating => Action::nothing(&format!(
            "the controller creates it; if it stays so, check that a controller is running, and \
             what the ApplicationSet says: {}",
            of_set("describe")
        )),
        WaitKind::FailedWrite => "fix the cause: the ApplicationSet, or the permissions of its \
                                  controller, which tries again by itself"
            .to_owned()
            .into(),
        WaitKind::Refused => format!("{}: {}", about_refusal(waiting), of_set("edit")).into(),
        WaitKind::Excluded => included_again(live, wait).into(),
        WaitKind::Invalid => match live.and_then(|live| about_project(live, &wait.message)) {
            Some(action) => action.into(),
            None => {
                format!("correct the template of the ApplicationSet: {}", of_set("edit")).into()
            }
        },
        WaitKind::Comparison | WaitKind::ErrorCondition => Action::nothing(&format!(
            "it continues when a controller has compared it; to compare it at once: {}",
            own("refresh")
        )),
        WaitKind::HeldByPerson => match &member.live {
            Some(read) => take_back(read, namespace, name).into(),
            None => Action::nothing(TAKEN_BACK),
        },
        // Their messages name the command.
        WaitKind::Paused
        | WaitKind::Unreadable
        | WaitKind::Approval
        | WaitKind::FailureBudget
        | WaitKind::Quarantined
        | WaitKind::HeldBack
        | WaitKind::Skipped => wait.message.clone().into(),
        WaitKind::Soak => Action::nothing("it continues when its time has passed"),
        WaitKind::RollingBack => Action::nothing("what the run started is taken back"),
        WaitKind::Pace | WaitKind::MaxInFlight => {
            Action::nothing("it starts when another Application is done")
        }
        WaitKind::SyncWindow => match live {
            Some(live) => about_window(live, &wait.message, &own("sync")).into(),
            None => Action::nothing("it continues when the sync window permits it"),
        },
        WaitKind::OtherOperation | WaitKind::Operation | WaitKind::Confirmation => {
            Action::nothing(&format!(
                "it continues when its operation has ended; to end that at once: {}",
                own("terminate")
            ))
        }
        WaitKind::ManualSync if member.step.is_none() && report.is_rolling() => {
            format!("sync it yourself, or select it by a step: {}", sync()).into()
        }
        WaitKind::ManualSync => {
            format!("maxUpdate of its step is 0, so sync it yourself: {}", sync()).into()
        }
        WaitKind::MaxUpdate => Action::nothing(&format!(
            "it starts when another Application of its step is done; to start more at once, \
             raise maxUpdate of the step: {}",
            of_set("edit")
        )),
        WaitKind::StatusFull => {
            Action::nothing("it starts when another Application of its step is done")
        }
        WaitKind::Promotion => Action::nothing(&format!(
            "it can start now; if it does not, check that a controller is running, and what \
             the ApplicationSet says: {}",
            of_set("describe")
        )),
        WaitKind::OperationStart if waiting.is_new => {
            Action::nothing("its operation was just requested")
        }
        WaitKind::OperationStart => {
            "its operation was not started yet: check that an application controller is running"
                .to_owned()
                .into()
        }
        WaitKind::Deletion => Action::nothing("it is being deleted"),
        WaitKind::FailedOperation => {
            format!("commit a fix, or start a new sync: {}", sync()).into()
        }
        WaitKind::OutOfSync => {
            format!("nothing syncs it again by itself; start a new sync: {}", sync()).into()
        }
        WaitKind::Degraded | WaitKind::Health => Action::nothing(&format!(
            "it continues when the Application is Synced and Healthy; its resources: {}",
            own("tree")
        )),
    }
}

/// What a deletion waits for.
fn about_deletion(live: &Value, name: &str) -> String {
    let conditions = live.items("/status/conditions").iter();
    let mut waits = conditions.filter(|found| {
        found.field("type") == condition::DELETION_WARNING
            && found.field("message").starts_with(WAITS_FOR_APPROVAL)
    });
    match waits.next() {
        Some(_) => confirm(live, name),
        None => format!(
            "its finalizers are removed when its resources are deleted; for what they wait for, see its \
             conditions: kubectl {}describe application {}",
            in_namespace(live.namespace()),
            word(name)
        ),
    }
}

/// Suggested actions by the resources, the source and the operation of an Application.
fn about_state(waiting: &WaitContext<'_>, live: &Value, read: &Application) -> Vec<Action> {
    let &WaitContext { report, wait, resource, .. } = waiting;
    let name = &wait.application;
    let sync = sync_of(read, live.namespace(), name);
    let mut actions: Vec<Action> = about_resource(live, resource).into_iter().collect();
    if read.is_operating() {
        let confirmation = read.blocking.needs_confirmation.then(|| confirm(live, name).into());
        actions.extend(confirmation);
        return actions;
    }
    actions.extend(about_source(live, name).map(Action::from));
    let has_failed = read.operation().has_failed() || wait.kind == WaitKind::FailedOperation;
    let is_unhealthy = resource.is_some_and(|resource| resource.status == "Degraded");
    let by_itself =
        || Action::from("a commit that fixes the cause is rolled out by itself".to_owned());
    if let Some(resource) = resource.filter(|resource| resource.requires_pruning()) {
        actions.extend(about_pruning(live, resource, &sync).map(Action::from));
    } else if !report.is_rolling() && !read.observed.is_automated {
        let is_out = read.sync == "OutOfSync";
        let action = format!("automated sync is not enabled, so sync it yourself: {sync}");
        actions.extend((is_out || has_failed).then_some(action.into()));
    } else if has_failed {
        actions.push(by_itself());
        actions.push(format!("without a new commit, start a new sync: {sync}").into());
    } else if is_unhealthy {
        actions.push(by_itself());
    } else if resource.is_some_and(BlockingResource::is_out_of_sync) {
        // Its sync succeeded, and no controller syncs the same again.
        let namespace = in_namespace(live.namespace());
        let differs = format!("wavegate diff {namespace}{}", word(name));
        actions.push(format!("see what changes it after a sync: {differs}").into());
        actions.push(format!("start a new sync: {sync}").into());
    }
    actions
}

/// What has to change for an Application that must not be written: another owner, the policy, or a
/// rule of the set that cannot be evaluated for it.
fn about_refusal(waiting: &WaitContext<'_>) -> &'static str {
    let is_controller = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
    match (waiting.live, &waiting.member.live) {
        (None, _) => "correct the template of the ApplicationSet",
        (Some(_), Some(_)) => "correct spec.ignoreApplicationDifferences of the ApplicationSet",
        (Some(live), None) if live.items("/metadata/ownerReferences").iter().any(is_controller) => {
            "remove it from its other owner, or give it another name in the ApplicationSet"
        }
        (Some(_), None) => {
            "permit updates in the policy (spec.syncPolicy.applicationsSync), or give it another \
             name in the ApplicationSet"
        }
    }
}

/// How to permit what a project denies, by the words of the denial; `None` for other ones.
fn about_project(live: &Value, message: &str) -> Option<String> {
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
    let namespace = in_namespace(&control_plane_of(live));
    Some(format!(
        "permit it in {field} of AppProject {project}, or change the source or the template of the \
         ApplicationSet: kubectl {namespace}edit appproject {}",
        word(project)
    ))
}

/// How to reconcile an excluded Application again: by the Secret that the wait names, if that
/// of its cluster excludes it.
fn included_again(live: Option<&Value>, wait: &Wait) -> String {
    if let Some(live) = live.filter(|live| is_skipped(live)) {
        return format!(
            "remove the annotation, in the template of the ApplicationSet if it is from there: kubectl \
             {}annotate application {} {SKIP_RECONCILE}-",
            in_namespace(live.namespace()),
            word(&wait.application)
        );
    }
    let secret = wait.resource.as_deref().and_then(|resource| resource.strip_prefix("Secret "));
    let Some((namespace, name)) = secret.and_then(|key| key.split_once('/')) else {
        return format!(
            "remove the annotation {SKIP_RECONCILE} of the Application, or of the Secret of its cluster"
        );
    };
    format!(
        "remove the annotation to reconcile its cluster again: kubectl {}annotate secret {} \
         {SKIP_RECONCILE}-",
        in_namespace(namespace),
        word(name)
    )
}

/// What to do about a sync window, by the message of its wait.
fn about_window(live: &Value, message: &str, sync: &str) -> String {
    let project = inherited_from(message).unwrap_or_else(|| project_of(live));
    let namespace = in_namespace(&control_plane_of(live));
    if message.contains(GLOBAL_PROJECTS) {
        return format!(
            "create the global project, or correct {GLOBAL_PROJECTS}: kubectl {namespace}edit \
             configmap argocd-cm"
        );
    }
    format!(
        "wait until the window permits it, or change spec.syncWindows of AppProject {project}: \
         kubectl {namespace}edit appproject {}; if the window has manualSync: true, sync it yourself: {sync}",
        word(project)
    )
}

/// The global project that a message says an entry is from.
fn inherited_from(message: &str) -> Option<&str> {
    message.split_once(" of global project ")?.1.split([' ', ':', ';']).next()
}

/// What to do with the blocking resource.
fn about_resource(live: &Value, resource: Option<&BlockingResource>) -> Option<Action> {
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
pub(super) fn about_cause(live: &Value, resource: &BlockingResource, cause: &Cause) -> Vec<String> {
    let at = at_resource(live, resource);
    let name = word(&cause.name);
    let container = match cause.container.as_str() {
        "" => String::new(),
        container => format!(" -c {}", word(container)),
    };
    let describe = format!("kubectl {at}describe {} {name}", cause.kind.to_lowercase());
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
fn about_pruning(live: &Value, resource: &BlockingResource, sync: &str) -> [String; 2] {
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
        "or set spec.syncPolicy.automated.prune: true in the template of the ApplicationSet, or \
         restore its manifest in the source"
            .to_owned(),
    ]
}

/// What to do with a source that cannot be read, or that the project denies.
fn about_source(live: &Value, name: &str) -> Option<String> {
    let mut conditions = live.items("/status/conditions").iter();
    let unread = conditions.find(|found| {
        [condition::COMPARISON_ERROR, condition::INVALID_SPEC_ERROR].contains(&found.field("type"))
    })?;
    let message = unread.field("message");
    let refresh = format!("wavegate refresh {}{}", in_namespace(live.namespace()), word(name));
    if let Some(action) = about_project(live, message) {
        return Some(format!("{action}; to compare it at once: {refresh}"));
    }
    let is_missing = ["no such file", "does not exist", "not found"];
    let what = match is_missing.iter().any(|words| message.contains(words)) {
        true => "commit what is missing, or correct its path",
        false => "in the repository",
    };
    Some(format!(
        "correct its source: {what}, or the template of the ApplicationSet; to compare it at once: \
         {refresh}"
    ))
}

/// The command that confirms the deletions of an operation or of an Application.
fn confirm(live: &Value, name: &str) -> String {
    let namespace = in_namespace(live.namespace());
    format!(
        "confirm the deletion: kubectl {namespace}annotate application {} --overwrite \
         {DELETION_APPROVED}=$(date -u +%FT%TZ)",
        word(name)
    )
}
