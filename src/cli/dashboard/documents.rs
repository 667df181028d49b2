//! The reports of `status` and `explain` as the documents of the page. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::limits;
use crate::cli::explain::{ExplainedWait, Explanation, explain_report};
use crate::cli::rollout_view::run::RunSummary;
use crate::cli::rollout_view::set::{WORD, is_run_in, max_update, outcome_with};
use crate::cli::runs::{ReportedSet, history};
use crate::cli::status::SetSummary;
use crate::cli::tree::view::short;
use wavegate_api::conditions::application::SHARED_RESOURCE_WARNING;
use wavegate_api::time::to_rfc3339;
use wavegate_api::{ObjectKey, Raw};
use wavegate_dashboard::reports::{
    Attention, CellDocument, CellState, PageObject, RolloutDocument, RunDocument, StepDocument,
    WaitDocument,
};
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::rollout::report::{Member, Report, RolloutOutcome, StepStatus};
use wavegate_rollout::rollout::wait::{EndedBy, WaitKind};

/// The document of a report that is printed as JSON.
pub(super) fn document<T: DeserializeOwned + Default>(report: Value) -> T {
    serde_json::from_value(report).unwrap_or_default()
}

/// Namespace and name of an object.
pub(super) fn page_object(object: &Value) -> PageObject {
    PageObject { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
}

/// A set, without what is below its workloads.
pub(super) fn rollout(
    found: &ReportedSet,
    run: Option<&Arc<Value>>,
    now: Timestamp,
) -> (RolloutDocument, Explanation) {
    let ReportedSet { set, applications, run: known, policies } = found;
    // Read once: this is done for each set that changes while a page is open.
    let report = report_input::read_report(set, applications, known.as_ref());
    let summary = SetSummary::of(&report, set, known.as_ref(), policies);
    let outcome = outcome_with(&report, known.as_ref());
    let waits_for_word = is_run_in(&report, known.as_ref(), &WORD);
    let holds = report.set.status.holds_deletions;
    let started = report.set.status.rollout.as_ref().and_then(|rollout| rollout.started_at);
    let steps = steps(&report, applications);
    let limits = limits(found, &report);
    let known = known.as_ref();
    let explanation = explain_report(report, set, applications, known, policies, now, false);
    let attention = match outcome {
        _ if waits_for_word || holds => Attention::Person,
        RolloutOutcome::Running => Attention::Running,
        RolloutOutcome::Complete => Attention::Done,
        _ => Attention::Person,
    };
    let records = history::records(set, &run.cloned().into_iter().collect::<Vec<_>>(), now);
    let run_document = document::<Vec<RunDocument>>(records).pop();
    let summary_of_run = explanation.run.as_ref();
    let message = &summary.message;
    let document = RolloutDocument {
        of: page_object(set),
        labels: labels(set),
        strategy: summary.strategy.to_owned(),
        state: serde_json::to_value(summary.state)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default(),
        attention,
        complete: summary.complete,
        total: summary.total,
        health: summary.health.clone(),
        message: message.clone(),
        summary: explanation.summary.clone(),
        paused: explanation.paused.clone().unwrap_or_default(),
        truncated: summary.truncated.clone().unwrap_or_default(),
        run: run_document,
        cause: summary_of_run.and_then(|run| run.cause.clone()).unwrap_or_default(),
        left: summary_of_run.and_then(|run: &RunSummary| run.left.clone()).unwrap_or_default(),
        started: started.map(to_rfc3339).unwrap_or_default(),
        steps,
        waits: explanation.waits.iter().map(wait).collect(),
        more_waits: explanation.more,
        behind: explanation.behind.as_ref().map(behind).unwrap_or_default(),
        advice: explanation.actions.clone(),
        limits,
        conditions: conditions(&explanation),
        notes: Vec::new(),
    };
    (document, explanation)
}

/// Type and message of the conditions that report a problem.
pub(super) fn conditions(explanation: &Explanation) -> Vec<(String, String)> {
    let pair = |one: &wavegate_rollout::rollout::report::SetCondition| {
        (one.kind.clone(), one.message.clone())
    };
    explanation.conditions.iter().map(pair).collect()
}

/// The former revisions of an Application, the newest first: time, revision, who.
pub(super) fn deployed(live: &Value) -> Vec<(String, String, String)> {
    let of = |one: &Value| {
        let by = one.text("/initiatedBy/username").to_owned();
        (one.text("/deployedAt").to_owned(), one.text("/revision").to_owned(), by)
    };
    live.items("/status/history").iter().rev().map(of).collect()
}

/// The Applications that have resources of one as theirs, too: those that exist, of what its condition
/// names.
pub(super) fn other_owners(live: &Value, exists: impl Fn(&ObjectKey) -> bool) -> Vec<PageObject> {
    let conditions = live.items("/status/conditions").iter();
    let shared = conditions.filter(|one| one.field("type") == SHARED_RESOURCE_WARNING);
    let names = shared.flat_map(|one| one.field("message").split_whitespace());
    let own = ObjectKey::of(live);
    let mut others: Vec<ObjectKey> = names
        .map(|word| {
            let (namespace, name) = word.split_once('/').unwrap_or((live.namespace(), word));
            ObjectKey::new(namespace, name)
        })
        .filter(|key| *key != own && exists(key))
        .collect();
    others.sort();
    others.dedup();
    let object = |key: ObjectKey| PageObject { namespace: key.namespace, name: key.name };
    others.into_iter().map(object).collect()
}

/// A wait.
pub(super) fn wait(wait: &ExplainedWait) -> WaitDocument {
    let words = [wait.phase, wait.sync.as_str(), wait.health.as_str()];
    WaitDocument {
        application: wait.application.clone(),
        step: wait.step,
        words: words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", "),
        kind: wait.kind.to_owned(),
        ended_by: WaitKind::from_name(wait.kind)
            .map_or("", |kind| who_ends(kind.ended_by()))
            .to_owned(),
        reason: wait.reason.clone(),
        cause: wait.cause.as_ref().map(ToString::to_string).unwrap_or_default(),
        since: wait.since.clone(),
        until: wait.until.clone(),
        advice: wait.actions.iter().map(|action| action.text.clone()).collect(),
        others: Vec::new(),
        log: None,
    }
}

/// Who ends a wait, in words.
fn who_ends(ended_by: EndedBy) -> &'static str {
    match ended_by {
        EndedBy::Events => "goes on by itself",
        EndedBy::Turn => "goes on in its turn",
        EndedBy::Sync => "until a person syncs it",
        EndedBy::Word => "until a person approves or resumes",
        EndedBy::Person => "until a person removes the cause",
    }
}

fn behind(behind: &crate::cli::explain::Behind) -> String {
    let more = match behind.count.saturating_sub(behind.applications.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let steps = match (behind.first_step, behind.last_step) {
        (first, last) if first == last => format!("step {first}"),
        (first, last) => format!("steps {first} to {last}"),
    };
    format!("Behind it, in {steps}: {}{more}", behind.applications.join(", "))
}

fn labels(set: &Value) -> Vec<String> {
    let labels = set.pointer("/metadata/labels").and_then(Value::as_object);
    let pair =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    labels.into_iter().flatten().map(pair).collect()
}

/// The steps with their Applications, and last those that no step selects.
fn steps(report: &Report, applications: &BTreeMap<String, Arc<Value>>) -> Vec<StepDocument> {
    let mut steps: Vec<StepDocument> = report
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| StepDocument {
            selects: match report.is_rolling() {
                true => step.rule.to_string(),
                false => "all at once".to_owned(),
            },
            limit: match max_update(&step.rule.max_update) {
                limit if limit.is_empty() => String::new(),
                limit => format!("at most {limit} at a time"),
            },
            status: match report.step_status(index) {
                StepStatus::Closed => "closed",
                StepStatus::Open => "open",
                StepStatus::Done => "done",
            }
            .to_owned(),
            total: step.count.total,
            done: step.count.done,
            in_flight: step.count.in_flight,
            ..StepDocument::default()
        })
        .collect();
    let mut outside = StepDocument::default();
    for (name, member) in report.ordered() {
        let cell = cell(report, name, member, applications.get(name).map(Arc::as_ref));
        let index = report.counted_in(member);
        let is_counted = index.is_some_and(|index| index < steps.len());
        let step = index.and_then(|index| steps.get_mut(index)).unwrap_or(&mut outside);
        step.stuck += u64::from(cell.state == CellState::Stuck);
        if !is_counted {
            step.total += 1;
            step.done += u64::from(cell.state == CellState::Done);
            step.status = "closed".to_owned();
        }
        step.cells.push(cell);
    }
    steps.extend(Some(outside).filter(|step| !step.cells.is_empty()));
    steps
}

fn cell(report: &Report, name: &str, member: &Member, live: Option<&Value>) -> CellDocument {
    let why = report.why(member);
    let state = match () {
        () if report.is_done(member) => CellState::Done,
        () if why.kind == WaitKind::Skipped => CellState::Skipped,
        () if report.hold(member).is_some() => CellState::Stuck,
        () if report.is_in_flight(member) => CellState::Moving,
        () => CellState::Waiting,
    };
    let known = member.live.as_ref();
    let phase = member.phase().map(|phase| phase.name().to_owned()).unwrap_or_default();
    let words = [
        phase,
        known.map(|live| live.operation_text().to_owned()).unwrap_or_default(),
        known.map(|live| live.sync.clone()).unwrap_or_default(),
        known.map(|live| live.health.clone()).unwrap_or_default(),
    ];
    let to = |field: &str| live.map_or("", |live| live.text(&format!("/spec/destination/{field}")));
    let cluster = if to("name").is_empty() { to("server") } else { to("name") };
    let revision = live.map(|live| live.text("/status/sync/revision")).unwrap_or_default();
    CellDocument {
        name: name.to_owned(),
        state,
        words: words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", "),
        cluster: cluster.to_owned(),
        revision: short(revision).to_owned(),
        message: if state == CellState::Done { String::new() } else { why.message },
    }
}
