//! What to do about a wait.

use serde_json::Value;

use super::remedies::{
    about_project, about_pruning, about_resource, about_source, inherited_from, shared_with,
};
use super::wait::Action;
use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::commands::{TAKEN_BACK, kubectl, sync_of, take_back, wavegate};
use crate::cli::rollout_view::run::commands_within;
use wavegate_api::annotations::{DELETION_APPROVED, SKIP_RECONCILE, is_skipped};
use wavegate_api::conditions::application as condition;
use wavegate_api::run::RunPhase;
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::access::project_of;
use wavegate_application::deletion::WAITS_FOR_APPROVAL;
use wavegate_application::global_projects::GLOBAL_PROJECTS;
use wavegate_engine::blocking_resource::BlockingResource;
use wavegate_rollout::requests::{RollbackScope, Run, is_quarantined};
use wavegate_rollout::rollout::report::{ApplicationReport, Member, Report};
use wavegate_rollout::rollout::wait::{EndedBy, RolloutWait, WaitKind};

/// An Application that is waited for.
pub(super) struct WaitContext<'a> {
    pub set: &'a Value,
    pub report: &'a Report,
    /// The latest run of the set, if one is known.
    pub run: Option<&'a Run>,
    /// What the run has started, and can go back.
    pub reach: &'a RollbackScope,
    pub wait: &'a RolloutWait,
    pub member: &'a Member,
    pub live: Option<&'a Value>,
    pub resource: Option<&'a BlockingResource>,
    /// Its phase has just begun.
    pub is_new: bool,
}

/// About one that may be held as those that the status names.
const UNNAMED: &str = "the ApplicationSet names only the first that it waits for, and people end \
                       these waits: this one may be held like them";

/// Suggested actions for a wait: at least one, be it that it continues by itself.
pub(super) fn actions(waiting: &WaitContext<'_>) -> Vec<Action> {
    let mut found = actions_alone(waiting);
    let is_shared = waiting.live.is_some_and(|live| shared_with(live).is_some());
    if is_shared {
        let what = "leave it to one of the two: remove its manifest from the source of the other";
        found.insert(0, what.to_owned().into());
    }
    found
}

/// The same but for what two owners do to each other.
fn actions_alone(waiting: &WaitContext<'_>) -> Vec<Action> {
    let &WaitContext { wait, member, live, .. } = waiting;
    if let Some(found) = about_ended_run(waiting) {
        return found;
    }
    let found = match (wait.kind, live, &member.live) {
        (WaitKind::Deletion, Some(live), _) => vec![about_deletion(live, &wait.application).into()],
        (
            WaitKind::Operation
            | WaitKind::Confirmation
            | WaitKind::FailedOperation
            | WaitKind::OutOfSync
            | WaitKind::Degraded
            | WaitKind::Deadline
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
    let mut found = match (found.is_empty(), about_run(waiting)) {
        (_, of_run) if !of_run.is_empty() => return of_run,
        (true, _) => vec![by_kind(waiting)],
        (false, _) if wait.kind == WaitKind::Deadline => [found, vec![by_kind(waiting)]].concat(),
        (false, _) => found,
    };
    // What has failed, or is held by a person, need not hold the others.
    let is_live = waiting.run.is_some_and(|run| run.is_known && !run.phase().has_ended());
    let holds = wait.kind.ended_by() == EndedBy::Person && member.step.is_some();
    // A skip keeps nothing from its way back.
    if is_live && holds && !goes_back(waiting.run) {
        let skip = wavegate("skip", waiting.set.namespace(), &wait.application);
        found.push(format!("to go on without it in this run: {skip}").into());
    }
    if is_live && wait.kind == WaitKind::Deadline {
        let of_set = |verb: &str| wavegate(verb, waiting.set.namespace(), waiting.set.name());
        found.push(format!("to take back what was started: {}", of_set("rollback")).into());
        found.push(format!("to end the run, and leave all as it is: {}", of_set("abort")).into());
    }
    found
}

/// Whether a run goes back.
fn goes_back(run: Option<&Run>) -> bool {
    run.is_some_and(|run| run.is_known && run.phase() == RunPhase::RollingBack)
}

/// About an Application of a run that goes back, was taken back or aborted, where it would be
/// advised to sync it, to skip it or to wait for its promotion: a sync leads to the target that was
/// aborted. `None` where the advice is the same as in any other run.
fn about_ended_run(waiting: &WaitContext<'_>) -> Option<Vec<Action>> {
    let &WaitContext { set, run, wait, member, live, resource, .. } = waiting;
    let run = run.filter(|run| run.is_known)?;
    let is_back = goes_back(Some(run));
    let is_ended = is_back || matches!(run.phase(), RunPhase::RolledBack | RunPhase::Aborted);
    // Also one of an earlier run, while another one goes on.
    let is_quarantined = !is_ended && of_member(run, wait, member);
    if !is_ended && !is_quarantined {
        return None;
    }
    let at = ObjectKey::of(set);
    let namespace = live.map_or(set.namespace(), |live| live.namespace());
    let own = |verb: &str| wavegate(verb, namespace, &wait.application);
    let edit = kubectl("edit applicationset", set.namespace(), set.name());
    let retry = || wavegate("retry", set.namespace(), set.name());
    let of_run = || -> Vec<Action> {
        let all = match is_quarantined {
            true => vec![("to roll the same out again".to_owned(), retry())],
            false => commands_within(run, &at, Some(waiting.reach)),
        };
        all.into_iter().map(|(what, command)| format!("{what}: {command}").into()).collect()
    };
    // A way back that has failed holds those after it.
    let by_itself = || match run.status.failed > 0 {
        true => of_run(),
        false => vec![Action::nothing("the run goes back, and continues by itself")],
    };
    let found: Vec<Action> = match wait.kind {
        WaitKind::RollbackFailed => {
            let mut found: Vec<Action> =
                live.and_then(|live| about_resource(live, resource)).into_iter().collect();
            found.push(format!("see what keeps it from being Healthy: {}", own("tree")).into());
            found.push(format!("to repeat its way back: {}", retry()).into());
            found
        }
        // While its operation runs, that has to end first.
        WaitKind::Confirmation | WaitKind::Operation | WaitKind::OtherOperation
            if member.is_operating() =>
        {
            return None;
        }
        // It has ended, and the status of the set does not say so yet.
        WaitKind::Confirmation | WaitKind::Operation | WaitKind::OtherOperation => match is_back {
            true => by_itself(),
            false => of_run(),
        },
        WaitKind::HeldByPerson => {
            let what = match is_back {
                true => "to take it back with the others",
                false => "to roll the same out to it again",
            };
            vec![format!("{what}: {}", own("retry")).into()]
        }
        WaitKind::ManualSync if is_back => {
            let what = "maxUpdate of its step is 0, so that it does not go back: raise it";
            vec![format!("{what}: {edit}").into()]
        }
        WaitKind::SyncWindow => {
            let action = match live {
                Some(live) => window_change(live, &wait.message),
                None => return None,
            };
            vec![action.into()]
        }
        WaitKind::Health | WaitKind::Comparison => vec![by_kind(waiting)],
        WaitKind::FailedOperation
        | WaitKind::OutOfSync
        | WaitKind::Degraded
        | WaitKind::Deadline
        | WaitKind::ErrorCondition => {
            let mut found: Vec<Action> =
                live.and_then(|live| about_resource(live, resource)).into_iter().collect();
            if let Some(live) = live {
                found.extend(about_source(live, &wait.application).map(Action::from));
            }
            let what = "commit a fix, or revert the change in the source or in the ApplicationSet";
            found.push(format!("{what}: {edit}").into());
            if !is_back {
                found.extend(of_run());
            }
            found
        }
        WaitKind::Promotion | WaitKind::MaxUpdate | WaitKind::StatusFull | WaitKind::ManualSync => {
            match about_run(waiting) {
                _ if is_back => by_itself(),
                of_run if !of_run.is_empty() => of_run,
                _ if wait.kind == WaitKind::ManualSync => of_run(),
                _ => vec![by_kind(waiting)],
            }
        }
        WaitKind::RollingBack if !member.is_operating() => by_itself(),
        _ => return None,
    };
    Some(found)
}

/// Whether the target of an Application is in quarantine.
fn of_member(run: &Run, wait: &RolloutWait, member: &Member) -> bool {
    let live = member.live.as_ref();
    live.is_some_and(|live| is_quarantined(run, &wait.application, live))
}

/// What ends a wait that a person or a policy has made.
fn about_run(waiting: &WaitContext<'_>) -> Vec<Action> {
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
    let commands = run
        .map(|run| commands_within(run, &ObjectKey::of(set), Some(waiting.reach)))
        .unwrap_or_default();
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
    let &WaitContext { set, report, run, wait, member, live, .. } = waiting;
    let name = &wait.application;
    let namespace = live.map_or(set.namespace(), |live| live.namespace());
    let own = |verb: &str| wavegate(verb, namespace, name);
    let sync = || match &member.live {
        Some(read) => sync_of(read, namespace, name),
        None => own("sync"),
    };
    let of_set =
        |verb: &str| kubectl(&format!("{verb} applicationset"), set.namespace(), set.name());
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
        | WaitKind::HeldBack => wait.message.clone().into(),
        WaitKind::Skipped => match run.map(|run| run.phase()) {
            // Its target is in quarantine.
            Some(RunPhase::Aborted | RunPhase::RollingBack | RunPhase::RolledBack) => {
                "the next run takes it".to_owned().into()
            }
            Some(phase) if phase.has_ended() => {
                format!("the next run takes it; to sync it before that: {}", own("sync")).into()
            }
            _ => format!("to take it into the run again: {} --undo", own("skip")).into(),
        },
        WaitKind::Soak => Action::nothing("it continues when its time has passed"),
        WaitKind::RollingBack => Action::nothing("what the run started is taken back"),
        WaitKind::RollbackFailed => wait.message.clone().into(),
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
        WaitKind::ManualSync if !report.is_rolling() => {
            format!("automated sync is not enabled, so sync it yourself: {}", sync()).into()
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
        // It is started again once its operation has ended.
        WaitKind::Deadline if member.is_operating() => format!(
            "commit a fix, or start it again: {}, once its operation has ended: {}",
            own("retry"),
            own("terminate")
        )
        .into(),
        WaitKind::Deadline => format!("commit a fix, or start it again: {}", own("retry")).into(),
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
             conditions: {}",
            kubectl("describe application", live.namespace(), name)
        ),
    }
}

/// Suggested actions by the resources, the source and the operation of an Application.
fn about_state(waiting: &WaitContext<'_>, live: &Value, read: &ApplicationReport) -> Vec<Action> {
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
        let differs = wavegate("diff", live.namespace(), name);
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

/// How to reconcile an excluded Application again: by the Secret that the wait names, if that
/// of its cluster excludes it.
fn included_again(live: Option<&Value>, wait: &RolloutWait) -> String {
    if let Some(live) = live.filter(|live| is_skipped(live)) {
        return format!(
            "remove the annotation, in the template of the ApplicationSet if it is from there: {} \
             {SKIP_RECONCILE}-",
            kubectl("annotate application", live.namespace(), &wait.application)
        );
    }
    let secret = wait.resource.as_deref().and_then(|resource| resource.strip_prefix("Secret "));
    let Some((namespace, name)) = secret.and_then(|key| key.split_once('/')) else {
        return format!(
            "remove the annotation {SKIP_RECONCILE} of the Application, or of the Secret of its cluster"
        );
    };
    let annotate = kubectl("annotate secret", namespace, name);
    format!("remove the annotation to reconcile its cluster again: {annotate} {SKIP_RECONCILE}-")
}

/// What to do about a sync window, by the message of its wait.
fn about_window(live: &Value, message: &str, sync: &str) -> String {
    let change = window_change(live, message);
    match message.contains(GLOBAL_PROJECTS) {
        true => change,
        false => {
            format!("{change}; if the window has manualSync: true, sync it yourself: {sync}")
        }
    }
}

/// The same without a sync by hand.
fn window_change(live: &Value, message: &str) -> String {
    let control_plane = control_plane_of(live);
    if message.contains(GLOBAL_PROJECTS) {
        let edit = kubectl("edit configmap", &control_plane, "argocd-cm");
        return format!("create the global project, or correct {GLOBAL_PROJECTS}: {edit}");
    }
    let project = inherited_from(message).unwrap_or_else(|| project_of(live));
    let edit = kubectl("edit appproject", &control_plane, project);
    format!(
        "wait until the window permits it, or change spec.syncWindows of AppProject {project}: \
         {edit}"
    )
}

/// The command that confirms the deletions of an operation or of an Application.
fn confirm(live: &Value, name: &str) -> String {
    let annotate = kubectl("annotate application", live.namespace(), name);
    format!("confirm the deletion: {annotate} --overwrite {DELETION_APPROVED}=$(date -u +%FT%TZ)")
}
