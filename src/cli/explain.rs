//! `wavegate explain`: what a rollout is waiting for, down to the resource.

mod advice;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use self::advice::{NOTHING, Waiting, about_cause, actions};
pub(super) use self::advice::{in_namespace, sync_commands, take_back, taking_back, word};
use super::cluster::{ClusterArgs, ClusterConnection, block_on};
use super::error::note;
use super::follow::{self, Request, View, WatchArgs};
use super::output::{self, Output, or_dash, printable, some_of};
use super::rollout_summary::{
    MemberSummary, RolloutSummary, State, current_reason, is_of_applications,
};
use crate::api::Raw;
use crate::api::conditions::application_set as condition;
use crate::api::time::to_rfc3339;
use crate::decide::application_set::rollout_storage::with_rollout;
use crate::decide::blocking_resource::below::Cause;
use crate::decide::blocking_resource::{self, Blocking, BlockingResource};
use crate::decide::rollout::WAITING_LIMIT;
use crate::decide::rollout::phase::Phase;

/// Explain what a rollout is waiting for: which Application and which resource
///
/// Reads from the cluster of the kube context and changes nothing. The first line is the
/// summary, details follow: down to the Pod of a workload, as far as the user may read it.
/// With --watch, the summary is printed whenever it changes.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wavegate explain APPSET    (wavegate status lists the names)\n\nExit codes of --watch: 0 complete; 1 only a person can continue, the set was deleted, or \
                        --timeout is over; 2 wrong use, or the cluster cannot be read; 130 interrupted; \
                        141 standard output was closed."
)]
pub(super) struct Args {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: String,
    /// Show all Applications that are waited for, and all that wait behind them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: Output,
}

/// What a set is waiting for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub namespace: String,
    pub application_set: String,
    pub state: State,
    /// Summary in one line.
    pub summary: String,
    /// The Applications that the rollout is waiting for, most important first; at most
    /// those listed in the status, unless all are requested.
    pub waits: Vec<Wait>,
    /// How many more it is waiting for.
    pub more: usize,
    /// The Applications of later steps that wait for this step; `null` when there are none.
    pub behind: Option<Behind>,
    /// Conditions that report a problem.
    pub conditions: Vec<Condition>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// An Application that the rollout is waiting for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    pub application: String,
    /// Step, counted from 1; `null` outside a rollout.
    pub step: Option<usize>,
    pub phase: String,
    pub sync: String,
    pub health: String,
    /// Reason of the wait.
    pub reason: String,
    /// The blocking resource; `null` when there is none.
    pub resource: Option<BlockingResource>,
    /// The object below the resource that keeps it from being ready, such as a Pod; `null`
    /// when there is none, or it could not be read.
    pub cause: Option<Cause>,
    /// Start and latest end of the wait; empty when unknown.
    pub since: String,
    pub until: String,
    /// Suggested actions in one line; empty when no action is required.
    pub advice: String,
    /// The same, one by one.
    #[serde(skip)]
    pub actions: Vec<String>,
}

/// Applications that wait until the current step is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Behind {
    /// The first ones, in the order of the steps.
    pub applications: Vec<String>,
    /// How many there are.
    pub count: usize,
    /// The first and the last of their steps, counted from 1.
    pub first_step: usize,
    pub last_step: usize,
}

/// A condition of the set.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub reason: String,
    pub message: String,
}

/// Runs the command.
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.watch.watch {
        return follow::run(&Request {
            cluster: &args.cluster,
            name: Some(&args.name),
            all_namespaces: false,
            timeout: args.watch.timeout,
            no_refresh: args.watch.no_refresh,
            view: View::Reason,
        });
    }
    let explanation = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let set = cluster.expect_application_set(&args.name).await?;
        let applications = cluster.applications_by_name(set.namespace()).await?;
        let mut explanation = explain_as(&set, &applications, Timestamp::now(), args.all);
        explanation.look_below(&cluster, &applications).await;
        Ok(explanation)
    })?;
    explanation.notes.iter().for_each(|text| note(text));
    args.output.print(&explanation, show)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains a set from its status and the Applications of its namespace.
pub(super) fn explain(set: &Value, applications: &BTreeMap<String, Arc<Value>>) -> Explanation {
    explain_as(set, applications, Timestamp::now(), false)
}

/// Like [`explain`], at this time.
#[cfg(test)]
pub(super) fn explain_at(
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    now: Timestamp,
) -> Explanation {
    explain_as(set, applications, now, false)
}

impl Explanation {
    /// Reads what is below the workloads that are waited for, and says what holds them.
    pub async fn look_below(
        &mut self,
        cluster: &ClusterConnection,
        applications: &BTreeMap<String, Arc<Value>>,
    ) {
        let live = |name: &str| applications.get(name).cloned();
        let (causes, notes) = pods::read(cluster, &self.waits, live).await;
        self.notes = notes;
        for (wait, cause) in self.waits.iter_mut().zip(causes) {
            let (Some(cause), Some(resource)) = (cause, &wait.resource) else { continue };
            let Some(live) = applications.get(&wait.application) else { continue };
            let mut actions = about_cause(live, resource, &cause);
            // It says more than the description of the workload.
            let is_less = |action: &String| {
                action.starts_with(NOTHING)
                    || (action.starts_with("kubectl ") && action.contains(" describe "))
            };
            actions.extend(wait.actions.drain(..).filter(|action| !is_less(action)));
            wait.advice = actions.join("; ");
            wait.actions = actions;
            wait.cause = Some(cause);
        }
    }
}

fn explain_as(
    set: &Value,
    applications: &BTreeMap<String, Arc<Value>>,
    now: Timestamp,
    all: bool,
) -> Explanation {
    let set = &*with_rollout(set);
    let rollout = RolloutSummary::read(set, applications);
    let waits = waits(set, &rollout, applications, now, all);
    Explanation {
        summary: summary(set, &rollout, &waits),
        more: unfinished(set, &rollout).count().saturating_sub(waits.len()),
        notes: Vec::new(),
        behind: behind(set, &rollout, all),
        namespace: rollout.namespace,
        application_set: rollout.application_set,
        state: rollout.state,
        waits,
        conditions: conditions(set),
    }
}

fn summary(set: &Value, rollout: &RolloutSummary, waits: &[Wait]) -> String {
    let name = &rollout.application_set;
    let first = waits.first().map(|wait| {
        let more = match unfinished(set, rollout).count().max(waits.len()) - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!("{}: {}{more}", wait.application, wait.reason)
    });
    match (rollout.state, first) {
        (State::Rolling | State::Failed, Some(first)) if rollout.step.is_some() => {
            let step = rollout.step.unwrap_or_default();
            format!("{name} waits in step {step} of {}: {first}", rollout.steps)
        }
        (State::Rolling, _) => format!("{name} is progressing: {}", rollout.message),
        (State::Complete, Some(first)) => {
            format!("{name} has completed all {} steps and waits for {first}", rollout.steps)
        }
        (State::Complete, None) => format!("{name} is not waiting: {}", rollout.message),
        (State::AllAtOnce, Some(first)) => format!("{name} has no steps and waits for {first}"),
        (State::AllAtOnce, None) => format!("{name} is not waiting: {}", rollout.message),
        (State::Failed, _) if is_of_applications(set) => {
            format!("{name} cannot write all of its Applications: {}", rollout.message)
        }
        (State::Failed, _) => format!("{name} is stopped by an error: {}", rollout.message),
        (State::Deleting, _) => format!("{name}: {}", rollout.message),
        (State::Unseen | State::SwitchedOff, _) => {
            format!("{name} does not roll out: {}", rollout.message)
        }
    }
}

/// Whether a step is open and its Applications are rolled out.
fn is_rolling(set: &Value, rollout: &RolloutSummary) -> bool {
    let fails = rollout.state == State::Failed && is_of_applications(set);
    rollout.step.is_some() && (rollout.state == State::Rolling || fails)
}

/// The Applications that are not complete in the current step; without steps, those that
/// are not Synced and Healthy, or whose sync failed.
fn unfinished<'a>(
    set: &Value,
    rollout: &'a RolloutSummary,
) -> impl Iterator<Item = &'a MemberSummary> {
    let is_rolling = is_rolling(set, rollout);
    rollout.applications.iter().filter(move |member| match rollout.state {
        _ if is_rolling => member.step == rollout.step && member.phase != Phase::Healthy.name(),
        State::AllAtOnce => !member.is_ready,
        State::Deleting => member.is_going,
        State::Complete => member.is_outside,
        _ => false,
    })
}

/// The most names of Applications behind a step.
const BEHIND: usize = 10;

fn behind(set: &Value, rollout: &RolloutSummary, all: bool) -> Option<Behind> {
    let step = rollout.step.filter(|_| is_rolling(set, rollout))?;
    // In the order of the steps.
    let waiting = rollout.applications.iter().filter_map(|member| {
        let later = member.step.filter(|later| *later > step)?;
        (member.phase != Phase::Healthy.name()).then_some((later, &member.application))
    });
    let waiting: Vec<(usize, &String)> = waiting.collect();
    let ((first_step, _), (last_step, _)) = (*waiting.first()?, *waiting.last()?);
    Some(Behind {
        applications: waiting
            .iter()
            .take(if all { usize::MAX } else { BEHIND })
            .map(|(_, name)| (*name).clone())
            .collect(),
        count: waiting.len(),
        first_step,
        last_step,
    })
}

fn waits(
    set: &Value,
    rollout: &RolloutSummary,
    applications: &BTreeMap<String, Arc<Value>>,
    now: Timestamp,
    all: bool,
) -> Vec<Wait> {
    let reported = set.items("/status/rollout/waitingFor");
    if is_rolling(set, rollout) && !reported.is_empty() {
        let wait = |reported: &Value| {
            let name = reported.field("application");
            let member = rollout.applications.iter().find(|member| member.application == name);
            let mut wait = wait_of(set, name, member, applications, Some(reported), now);
            let field = |name: &str, known: &mut String| {
                let reported = reported.field(name);
                if !reported.is_empty() {
                    *known = reported.to_owned();
                }
            };
            field("since", &mut wait.since);
            if wait.until.is_empty() {
                field("until", &mut wait.until);
            }
            wait.step = wait.step.or(rollout.step);
            wait
        };
        let mut waits: Vec<Wait> = reported.iter().map(wait).collect();
        if all {
            let known: BTreeSet<String> =
                waits.iter().map(|wait| wait.application.clone()).collect();
            let others = unfinished(set, rollout).filter(|one| !known.contains(&one.application));
            waits.extend(others.map(|member| {
                wait_of(set, &member.application, Some(member), applications, None, now)
            }));
        }
        return waits;
    }
    let most = if all { usize::MAX } else { WAITS };
    unfinished(set, rollout)
        .take(most)
        .map(|member| wait_of(set, &member.application, Some(member), applications, None, now))
        .collect()
}

/// The most Applications that are shown without a status that lists them: as many as one
/// lists.
const WAITS: usize = WAITING_LIMIT;

fn wait_of(
    set: &Value,
    name: &str,
    member: Option<&MemberSummary>,
    applications: &BTreeMap<String, Arc<Value>>,
    reported: Option<&Value>,
    now: Timestamp,
) -> Wait {
    let live = applications.get(name);
    let of = |field: fn(&MemberSummary) -> &String| member.map(field).cloned().unwrap_or_default();
    let phase = of(|member| &member.phase);
    let step = member.and_then(|member| member.step);
    let is_going = member.is_some_and(|member| member.is_going);
    // Resources do not block an Application whose sync has not started.
    let started = phase != Phase::Waiting.name();
    let blocking = live.filter(|_| started && !is_going).map(|live| blocking_resource::of(live));
    let Blocking { resource, reason, since, until } = blocking.unwrap_or_default();
    // The controller knows more than the Application does; another controller reports nothing.
    let known = reported.map(|reported| reported.field("reason")).unwrap_or_default();
    let reason = match (known, resource.is_some()) {
        ("", true) => reason,
        ("", false) => match (of(|member| &member.message), live) {
            (message, _) if !message.is_empty() => message,
            (_, _) if !reason.is_empty() => reason,
            (_, None) => "the Application does not exist yet".to_owned(),
            (_, Some(live)) => format!(
                "sync status {}, health status {}",
                or_unknown(live.text("/status/sync/status")),
                or_unknown(live.text("/status/health/status"))
            ),
        },
        (known, _) => current_reason(&phase, known, live.map(Arc::as_ref)),
    };
    let is_new = member.is_some_and(|member| {
        let since: Option<Timestamp> = member.since.parse().ok();
        since.is_some_and(|since| now.duration_since(since) < STARTS)
    });
    let mut actions = actions(&Waiting {
        set,
        name,
        phase: &phase,
        member,
        live: live.map(Arc::as_ref),
        resource: resource.as_ref(),
        reason: &reason,
    });
    if phase == Phase::Pending.name() && is_new {
        actions = vec![format!("{NOTHING}its operation was just requested")];
    }
    Wait {
        application: name.to_owned(),
        advice: actions.join("; "),
        actions,
        step,
        sync: of(|member| &member.sync),
        health: of(|member| &member.health),
        since: match of(|member| &member.since) {
            _ if is_going => {
                live.map_or("", |live| live.text("/metadata/deletionTimestamp")).to_owned()
            }
            entry if entry.is_empty() => since.map(to_rfc3339).unwrap_or_default(),
            entry => entry,
        },
        // Of the Application that was just read: the status of the set follows it.
        until: until.map(to_rfc3339).unwrap_or_default(),
        phase,
        reason,
        resource,
        cause: None,
    }
}

/// An operation starts within this time; before, nothing is advised.
const STARTS: SignedDuration = SignedDuration::from_secs(10);

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "Unknown" } else { text }
}

fn conditions(set: &Value) -> Vec<Condition> {
    let wrong = |found: &&Value| {
        let kinds = [
            condition::ERROR_OCCURRED,
            condition::INVALID_ROLLOUT_CONFIG,
            condition::DELETIONS_HELD,
        ];
        kinds.contains(&found.field("type")) && found.field("status") == "True"
    };
    let condition = |found: &Value| Condition {
        kind: found.field("type").to_owned(),
        reason: found.field("reason").to_owned(),
        message: found.field("message").to_owned(),
    };
    set.items("/status/conditions").iter().filter(wrong).map(condition).collect()
}

/// The most names in a line.
const NAMES: usize = 3;

/// The advice of each wait, with the names that it is for: the same for several ones once.
fn advice(waits: &[Wait]) -> Vec<(Vec<&str>, &str)> {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for wait in waits {
        for action in &wait.actions {
            match lines.iter_mut().find(|(_, known)| known == action) {
                Some((names, _)) => names.push(&wait.application),
                None => lines.push((vec![&wait.application], action)),
            }
        }
    }
    lines
}

/// The text output.
pub(super) fn show(explanation: &Explanation) -> String {
    show_at(explanation, Timestamp::now())
}

/// Like [`show`], with ages at this time.
pub(super) fn show_at(explanation: &Explanation, now: Timestamp) -> String {
    let mut out = printable(&explanation.summary) + "\n";
    if !explanation.waits.is_empty() {
        let row = |wait: &Wait| {
            [
                wait.application.clone(),
                wait.step.map_or_else(|| "-".to_owned(), |step| step.to_string()),
                or_dash(&wait.phase),
                or_dash(&wait.sync),
                or_dash(&wait.health),
                output::age(&wait.since, now),
                output::ahead(&wait.until, now),
                wait.reason.clone(),
            ]
        };
        let header = ["APPLICATION", "STEP", "PHASE", "SYNC", "HEALTH", "FOR", "LEFT", "WAITS FOR"];
        out.push('\n');
        out.push_str(&output::table(header, explanation.waits.iter().map(row)));
        if explanation.more > 0 {
            let more = explanation.more;
            out.push_str(&format!("… {more} more of them: --all shows them\n"));
        }
    }
    let causes = explanation.waits.iter().filter_map(|wait| Some((wait, wait.cause.as_ref()?)));
    for (index, (wait, cause)) in causes.enumerate() {
        if index == 0 {
            out.push_str("\nCause:\n");
        }
        out.push_str(&printable(&format!("  {}: {cause}", wait.application)));
        out.push('\n');
    }
    if let Some(behind) = &explanation.behind {
        let names = behind.applications.iter().map(String::as_str);
        let more = match behind.count.saturating_sub(behind.applications.len()) {
            0 => String::new(),
            more => format!(" and {more} more (--all shows them)"),
        };
        let steps = match (behind.first_step, behind.last_step) {
            (first, last) if first == last => format!("step {first}"),
            (first, last) => format!("steps {first} to {last}"),
        };
        let names = names.collect::<Vec<_>>().join(", ");
        out.push('\n');
        out.push_str(&printable(&format!("Behind it, in {steps}: {names}{more}")));
        out.push('\n');
    }
    if explanation.waits.iter().any(|wait| !wait.actions.is_empty()) {
        out.push_str("\nWhat to do:\n");
        for (names, action) in advice(&explanation.waits) {
            let names = some_of(names, NAMES);
            out.push_str(&printable(&format!("  {names}: {action}")));
            out.push('\n');
        }
    }
    for condition in &explanation.conditions {
        let line = format!("{} ({}): {}", condition.kind, condition.reason, condition.message);
        out.push('\n');
        out.push_str(&printable(&line));
        out.push('\n');
    }
    out
}
