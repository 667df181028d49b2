//! Reads an ApplicationSet and its Applications for a report of their rollout
//! ([`crate::rollout::report`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::application_set::deletion::Going;
use crate::application_set::generate::generated::{generated_labels, labels_of};
use crate::application_set::is_owned;
use crate::application_set::plan::observe::observe;
use crate::application_set::rollout_io::record;
use crate::application_set::status::stored;
use crate::desired::{Generation, name_of};
use crate::requests::Run;
use crate::rollout::report::{
    ApplicationReport, Awaited, Deletion, Doing, Initiator, Report, ReportedWait, Rollout, Set,
    SetCondition, Status, build_report,
};
use crate::rollout::steps::{StepStrategy, step_memberships};
use crate::rollout::wait::WaitKind;
use wavegate_api::annotations::{PAUSED, annotation_of};
use wavegate_api::app_status::ResourceStatus;
use wavegate_api::app_view::ResourceView;
use wavegate_api::application_set::{ApplicationSetCondition, RolloutStatus, WaitingFor};
use wavegate_api::conditions::{application as of_application, application_set as condition};
use wavegate_api::live::LiveApplication;
use wavegate_api::run::RunStart;
use wavegate_api::{OperationPhase, Raw, read_leniently};
use wavegate_engine::blocking_resource::{self, Blocking, BlockingResource};
use wavegate_engine::promotion::{PROMOTION, USERNAME};
use wavegate_engine::sync::TASKS_RUNNING;

/// The step of each generated Application, counted from 0; `None` when no step selects it.
pub fn generated_steps(set: &Value, generation: &Generation) -> BTreeMap<String, Option<usize>> {
    let (strategy, _) = StepStrategy::of(set);
    let labels = generated_labels(generation);
    let labels = labels.iter().map(|(name, labels)| (name.as_str(), labels));
    let members = step_memberships(strategy.steps(), labels);
    members.into_iter().map(|(name, membership)| (name, membership.step())).collect()
}

/// The report of a set, from all Applications of its namespace and its current run, if that is
/// known. The generated Applications are not known.
pub fn read_report(
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    run: Option<&Run>,
) -> Report {
    let owned = applications.iter().filter(|(_, live)| is_owned(live, set));
    let mut report = build_report(
        self::read_set(set),
        owned.map(|(name, live)| (name.clone(), read_application(live))),
    );
    if let Some(run) = run {
        report.leave_out(|name| run.goes_on_without(name));
    }
    report
}

/// A set and its status, also one that Argo CD's own controller wrote. The Applications that
/// it generates are not read.
pub fn read_set(set: &Value) -> Set {
    let raw = set.get("status").unwrap_or(&Value::Null);
    let status = stored::Status::read(raw);
    let is_true = |kind: &str| {
        let found = status.condition(kind).filter(|found| found.status == "True");
        found.map(|found| (found.reason.clone(), found.message.clone()))
    };
    let problems = [
        condition::ERROR_OCCURRED,
        condition::INVALID_ROLLOUT_CONFIG,
        condition::DELETIONS_HELD,
        condition::SETTINGS_ABSENT,
    ];
    let is_problem = |found: &&ApplicationSetCondition| {
        problems.contains(&found.type_.as_str()) && found.status == "True"
    };
    let problem = |found: &ApplicationSetCondition| SetCondition {
        kind: found.type_.clone(),
        reason: found.reason.clone(),
        message: found.message.clone(),
    };
    let listed = raw.items("/resources").len();
    let count = status.resources_count;
    let unlisted_since =
        || status.started_at().filter(|_| status.is_compact()).unwrap_or(Timestamp::UNIX_EPOCH);
    let (strategy, _) = StepStrategy::of(set);
    let paused = annotation_of(set, PAUSED).filter(|_| !strategy.steps().is_empty());
    Set {
        namespace: set.namespace().to_owned(),
        name: name_of(set).to_owned(),
        paused: paused.map(str::to_owned),
        is_deleting: set.is_deleting(),
        finalizers: wavegate_api::annotations::finalizers_of(set).map(str::to_owned).collect(),
        strategy,
        generated: None,
        status: Status {
            exists: raw.as_object().is_some_and(|status| !status.is_empty()),
            problems: status.conditions.iter().filter(is_problem).map(problem).collect(),
            error: is_true(condition::ERROR_OCCURRED),
            invalid_config: is_true(condition::INVALID_ROLLOUT_CONFIG).map(|found| found.1),
            holds_deletions: is_true(condition::DELETIONS_HELD).is_some(),
            is_up_to_date: !status.has(condition::RESOURCES_UP_TO_DATE, "False"),
            health: raw.text("/health/status").to_owned(),
            truncated: count.and_then(|count| stored::truncated_note(listed, count)),
            implied_since: status.is_compact().then(unlisted_since),
            rollout: status.rollout.as_ref().map(|summary| read_rollout(&status, summary)),
            entries: status.entries.into_iter().flatten().collect(),
        },
    }
}

/// The summary of a rollout in a status.
pub fn read_rollout(status: &stored::Status, summary: &RolloutStatus) -> Rollout {
    let progress = || {
        let (complete, total) = summary.progress.split_once('/')?;
        Some((complete.parse().ok()?, total.parse().ok()?))
    };
    let progress: Option<(u64, u64)> = progress();
    let is_over = progress.is_some_and(|(complete, total)| complete >= total);
    let reported = |wait: &WaitingFor| ReportedWait {
        application: wait.application.clone(),
        kind: WaitKind::from_name(&wait.kind),
        message: wait.reason.clone(),
        resource: wait.resource.clone(),
        since: wait.since.as_ref().map(|at| at.0),
        until: wait.until.as_ref().map(|at| at.0),
    };
    Rollout {
        step: usize::try_from(summary.step).ok().map(|step| step.saturating_sub(1)),
        is_complete: is_over || status.has(condition::ROLLOUT_PROGRESSING, "False"),
        progress,
        message: summary.message.clone(),
        started_at: status.started_at(),
        waiting: summary.waiting_for.iter().map(reported).collect(),
        stalled: status.stalled().map(|(name, _)| name.to_owned()).collect(),
    }
}

/// One Application. A field of an unexpected type counts as absent.
pub fn read_application(live: &Value) -> ApplicationReport {
    let app = LiveApplication::read(live);
    let resources = ResourceView::unsettled_rows(live);
    let mut out = resources.filter(|resource| resource.status == "OutOfSync").peekable();
    let observed = observe(live, &app, false);
    let is_of_target = |start: &RunStart| {
        let revisions = &start.revisions;
        start.goes_back && (revisions.is_empty() || *revisions == observed.revisions)
    };
    let started = RunStart::of(live);
    let started_spec = started.as_ref().map(|start| start.spec.clone());
    let back = started.filter(is_of_target).map(|start| start.good);
    let mut application = ApplicationReport {
        held_at: back.filter(|good| !good.is_empty()),
        started_spec,
        observed,
        record: record::read_record(live),
        labels: labels_of(live),
        sync: app.status.sync.status.clone().unwrap_or_default(),
        health: app.status.health.status.clone().unwrap_or_default(),
        blocking: blocking_resource::blocking_of(live),
        deletion: Going::read(live)
            .map(|going| Deletion { message: going.to_string(), since: going.since }),
        only_prunes: out.peek().is_some() && out.all(|resource| resource.requires_pruning),
        initiator: initiator(&app),
        doing: Doing::default(),
    };
    application.doing = doing(live, &app, &application);
    application
}

fn initiator(app: &LiveApplication) -> Initiator {
    let last = app.state().map(|state| &state.operation);
    match app.operation.as_ref().or(last) {
        Some(operation)
            if operation.info.iter().any(|item| item.name == PROMOTION)
                || operation.initiated_by.username == USERNAME =>
        {
            Initiator::Rollout
        }
        Some(operation) if operation.initiated_by.automated => Initiator::Automation,
        Some(_) | None => Initiator::Person,
    }
}

fn doing(live: &Value, app: &LiveApplication, application: &ApplicationReport) -> Doing {
    let is_running = application.operation().is_running();
    let (detail, since) = detail(app, application);
    let is_wait = app.state().is_some_and(|state| state.message.starts_with(WAITING));
    let resource = application.blocking.resource.as_ref();
    let is_unconfirmed = resource.is_some_and(BlockingResource::requires_confirmation);
    let started_at = app.state().and_then(|state| state.started_at.as_ref());
    Doing {
        stage: if is_running { stage(live) } else { String::new() },
        is_reason: is_running && (!is_wait || is_unconfirmed),
        started_at: started_at.map(|at| at.0.to_string()).unwrap_or_default(),
        hooks: ended_hooks(live),
        awaited: awaited(&detail),
        detail,
        since,
    }
}

/// Phase and wave of a running operation: `PreSync`, `Sync wave 0`, `PostSync`.
fn stage(live: &Value) -> String {
    let results = live.items("/status/operationState/syncResult/resources");
    let running = results
        .iter()
        .rev()
        .find(|result| OperationPhase::from_word(result.field("hookPhase")).is_running());
    let Some(at) = running.or(results.last()) else { return String::new() };
    match at.field("syncPhase") {
        "Sync" | "" => {
            let fields = ["group", "kind", "namespace", "name"];
            let same =
                |one: &&Value| fields.iter().all(|field| one.field(field) == at.field(field));
            let found = live.items("/status/resources").iter().find(same);
            let found = found.map(read_leniently::<ResourceStatus>).unwrap_or_default();
            format!("Sync wave {}", found.sync_wave)
        }
        phase => phase.to_owned(),
    }
}

fn ended_hooks(live: &Value) -> Vec<String> {
    let is_ended = |result: &&Value| {
        let phase = OperationPhase::from_word(result.field("hookPhase"));
        !result.field("hookType").is_empty() && phase.is_completed()
    };
    let name = |hook: &Value| {
        format!("{} {}/{}", hook.field("syncPhase"), hook.field("kind"), hook.field("name"))
    };
    let results = live.items("/status/operationState/syncResult/resources");
    results.iter().filter(is_ended).map(name).collect()
}

/// What it waits for, or why it failed, in few words, and the start of the wait.
fn detail(app: &LiveApplication, application: &ApplicationReport) -> (String, Option<Timestamp>) {
    let state = app.state();
    let message = state.map_or("", |state| &state.message);
    let Blocking { resource, reason, since, .. } = &application.blocking;
    let is_unconfirmed = resource.as_ref().is_some_and(BlockingResource::requires_confirmation);
    if application.deletion.is_some() {
        return ("its deletion".to_owned(), None);
    }
    if application.operation().is_running() {
        let (message, since) = without_start(message);
        let detail = match waited_for(&message) {
            Some(_) if is_unconfirmed => reason.clone(),
            Some(what) => what,
            None if message.is_empty() || message == TASKS_RUNNING => String::new(),
            None if application.operation() != OperationPhase::Running => message,
            None => reason.clone(),
        };
        let started_at = state.and_then(|state| state.started_at.as_ref());
        return (detail, since.or(started_at.map(|at| at.0)));
    }
    if application.observed.requested.is_some() {
        return ("the sync to begin".to_owned(), None);
    }
    if application.is_done() {
        return (String::new(), None);
    }
    let at_fault = resource.as_ref().filter(|resource| !resource.is_terminated());
    if let Some(resource) = at_fault.filter(|_| application.has_failed()) {
        return (resource.to_string(), None);
    }
    if application.has_failed() {
        return (without_start(message).0, None);
    }
    let conditions = &app.status.conditions;
    let condition = conditions.iter().find(|one| of_application::is_error(&one.type_));
    // A warning may explain why an Application is not in sync after its sync: one about its
    // resources, and not about settings without effect.
    let explains = |kind: &str| {
        let warnings = [
            of_application::SHARED_RESOURCE_WARNING,
            of_application::REPEATED_RESOURCE_WARNING,
            of_application::EXCLUDED_RESOURCE_WARNING,
        ];
        warnings.contains(&kind)
    };
    let mut warnings = conditions.iter().filter(|one| state.is_some() && explains(&one.type_));
    let condition = condition.or_else(|| warnings.next());
    match (condition, resource) {
        (Some(found), _) => {
            (found.message.clone(), found.last_transition_time.as_ref().map(|at| at.0))
        }
        (None, Some(resource)) if state.is_some() => (resource.to_string(), *since),
        _ => (String::new(), None),
    }
}

/// The start of the message of an operation that waits for a resource.
const WAITING: &str = "waiting for ";

/// The resource that a running operation waits for, for the screen: Argo CD has no field for
/// it but the message. Resources are named as elsewhere: `Deployment web`, not
/// `apps/Deployment/web`. `None` for any other message.
fn waited_for(message: &str) -> Option<String> {
    let what = message.strip_prefix(WAITING)?;
    let name = |word: &str| {
        let (group, rest) = word.split_once('/')?;
        let (kind, name) = rest.split_once('/').filter(|_| !group.contains(':'))?;
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase());
        (is_kind && !name.contains('/')).then(|| format!("{kind} {name}"))
    };
    let (resources, state) = what.find(" (").map_or((what, ""), |at| what.split_at(at));
    let words = resources.split(' ').map(|word| name(word).unwrap_or_else(|| word.to_owned()));
    Some(words.collect::<Vec<_>>().join(" ") + state)
}

/// The resource of such a text.
fn awaited(detail: &str) -> Option<Awaited> {
    let hook = detail.strip_prefix("completion of hook ");
    let resource = hook.or_else(|| detail.strip_prefix("healthy state of "))?.to_owned();
    Some(Awaited { resource, is_hook: hook.is_some() })
}

/// A message without its last words, the start of a wait: `(Progressing, since …)`
/// becomes `(Progressing)`, since its age is shown instead.
fn without_start(message: &str) -> (String, Option<Timestamp>) {
    let found = message.strip_suffix(')').and_then(|rest| rest.rsplit_once(", since "));
    match found.and_then(|(before, at)| Some((before, at.parse().ok()?))) {
        Some((before, at)) => (format!("{before})"), Some(at)),
        None => (message.to_owned(), None),
    }
}

#[cfg(test)]
mod tests;
