//! `wavegate explain`: what a rollout is waiting for, down to the resource.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{ClusterArgs, ClusterConnection, block_on};
use super::follow::{self, Request, View, WatchArgs};
use super::output::{self, Output, or_dash, printable};
use super::rollout_summary::{MemberSummary, RolloutSummary, State};
use crate::api::conditions::application_set as condition;
use crate::api::time::to_rfc3339;
use crate::api::{OperationPhase, Raw};
use crate::decide::blocking_resource::{self, Blocking, BlockingResource};
use crate::decide::rollout::budget::Limit;
use crate::decide::rollout::phase::Phase;
use crate::decide::rollout::steps::Strategy;

/// Explain what a rollout is waiting for: which Application and which resource
///
/// Reads from the cluster of the kube context and changes nothing. The first line is the
/// summary, details follow. With --watch, the summary is printed whenever it changes.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes of --watch: 0 complete; 1 only a person can continue, the set was deleted, or \
                        --timeout is over; 2 wrong use, or the cluster cannot be read; 130 interrupted; \
                        141 standard output was closed."
)]
pub(super) struct Args {
    /// Name of the ApplicationSet
    #[arg(value_name = "APPSET")]
    name: String,
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
    /// those listed in the status.
    pub waits: Vec<Wait>,
    /// Conditions that report a problem.
    pub conditions: Vec<Condition>,
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
    /// Start and latest end of the wait; empty when unknown.
    pub since: String,
    pub until: String,
    /// Suggested action; empty when no action is required.
    pub advice: String,
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
            view: View::Reason,
        });
    }
    let (set, applications) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        let set = cluster.expect_application_set(&args.name).await?;
        let applications = cluster.applications_by_name(&cluster.namespace).await?;
        Ok((set, applications))
    })?;
    args.output.print(&explain(&set, &applications), show)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains a set from its status and the Applications of its namespace.
pub(super) fn explain(set: &Value, applications: &BTreeMap<String, Arc<Value>>) -> Explanation {
    let rollout = RolloutSummary::read(set, applications);
    let waits = waits(set, &rollout, applications);
    Explanation {
        summary: summary(&rollout, &waits),
        namespace: rollout.namespace,
        application_set: rollout.application_set,
        state: rollout.state,
        waits,
        conditions: conditions(set),
    }
}

fn summary(rollout: &RolloutSummary, waits: &[Wait]) -> String {
    let name = &rollout.application_set;
    let first = waits.first().map(|wait| {
        let more = match unfinished(rollout).count().max(waits.len()) - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let application = &wait.application;
        match &wait.resource {
            Some(resource) => format!("{application}: {resource}{more}"),
            None => format!("{application}: {}{more}", wait.reason),
        }
    });
    match (rollout.state, first) {
        (State::Rolling, Some(first)) => {
            let step = rollout.step.unwrap_or_default();
            format!("{name} waits in step {step} of {}: {first}", rollout.steps)
        }
        (State::Rolling, None) => format!("{name} is progressing: {}", rollout.message),
        (State::Complete, _) => format!("{name} is not waiting: {}", rollout.message),
        (State::AllAtOnce, Some(first)) => format!("{name} has no steps and waits for {first}"),
        (State::AllAtOnce, None) => format!("{name} is not waiting: {}", rollout.message),
        (State::Failed, _) => format!("{name} is stopped by an error: {}", rollout.message),
        (State::Deleting, _) => format!("{name}: {}", rollout.message),
        (State::Unseen | State::SwitchedOff, _) => {
            format!("{name} does not roll out: {}", rollout.message)
        }
    }
}

/// The Applications that are not complete in the current step; without steps, those that
/// are not Healthy.
fn unfinished(rollout: &RolloutSummary) -> impl Iterator<Item = &MemberSummary> {
    rollout.applications.iter().filter(|member| match rollout.state {
        State::Rolling => {
            member.step.is_some()
                && member.step == rollout.step
                && member.phase != Phase::Healthy.name()
        }
        State::AllAtOnce => member.health != "Healthy",
        State::Deleting => member.is_going,
        _ => false,
    })
}

fn waits(
    set: &Value,
    rollout: &RolloutSummary,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Vec<Wait> {
    let reported = set.items("/status/rollout/waitingFor");
    if rollout.state == State::Rolling && !reported.is_empty() {
        let wait = |reported: &Value| {
            let name = reported.field("application");
            let member = rollout.applications.iter().find(|member| member.application == name);
            let mut wait = wait_of(set, name, member, applications);
            for (field, name) in [
                (&mut wait.reason, "reason"),
                (&mut wait.since, "since"),
                (&mut wait.until, "until"),
            ] {
                let reported = reported.field(name);
                if !reported.is_empty() {
                    *field = reported.to_owned();
                }
            }
            wait.step = wait.step.or(rollout.step);
            wait
        };
        return reported.iter().map(wait).collect();
    }
    unfinished(rollout)
        .map(|member| wait_of(set, &member.application, Some(member), applications))
        .collect()
}

fn wait_of(
    set: &Value,
    name: &str,
    member: Option<&MemberSummary>,
    applications: &BTreeMap<String, Arc<Value>>,
) -> Wait {
    let live = applications.get(name);
    let of = |field: fn(&MemberSummary) -> &String| member.map(field).cloned().unwrap_or_default();
    let phase = of(|member| &member.phase);
    let step = member.and_then(|member| member.step);
    let is_going = member.is_some_and(|member| member.is_going);
    // Resources do not block an Application whose sync has not started.
    let started = phase != Phase::Waiting.name();
    let blocking = live.filter(|_| started && !is_going).map(|live| blocking_resource::of(live));
    let Blocking { resource, since, .. } = blocking.unwrap_or_default();
    let mut reason = of(|member| &member.message);
    if reason.is_empty() {
        reason = match live {
            None => "the Application does not exist yet".to_owned(),
            Some(live) => format!(
                "sync status {}, health status {}",
                or_unknown(live.text("/status/sync/status")),
                or_unknown(live.text("/status/health/status"))
            ),
        };
    }
    Wait {
        application: name.to_owned(),
        advice: advice(set, name, &phase, step, live.map(Arc::as_ref), resource.as_ref()),
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
        until: String::new(),
        phase,
        reason,
        resource,
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "Unknown" } else { text }
}

/// Suggested action for a wait.
fn advice(
    set: &Value,
    name: &str,
    phase: &str,
    step: Option<usize>,
    live: Option<&Value>,
    resource: Option<&BlockingResource>,
) -> String {
    if live.is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null()) {
        let namespace = match live.map_or("", Raw::namespace) {
            "" => String::new(),
            namespace => format!("-n {namespace} "),
        };
        return format!(
            "its finalizers are removed when its resources are deleted; for what they wait for, see its \
             conditions: kubectl {namespace}describe application {name}"
        );
    }
    let strategy = Strategy::read(set["spec"].get("strategy")).0;
    let max_update = step.and_then(|step| strategy.steps().get(step.checked_sub(1)?));
    let held = max_update.is_some_and(|step| step.max_update.limit(u64::MAX) == Limit::AtMost(0));
    let operation = live.map_or("", |live| live.text("/status/operationState/phase"));
    if phase == Phase::Waiting.name() && held {
        return format!(
            "maxUpdate of its step is 0: sync the Application manually, for example: {}",
            sync_manually(name, live)
        );
    }
    if phase == Phase::Pending.name() {
        return "its operation was not started yet: check that an application controller is running"
            .to_owned();
    }
    match resource {
        Some(resource) if resource.status != "Suspended" => describe_command(resource),
        Some(resource) => format!("resume the resource: {}", describe_command(resource)),
        None if OperationPhase::from_word(operation).has_failed() => {
            format!(
                "fix the cause of the failed operation, then sync the Application again: {}",
                sync_manually(name, live)
            )
        }
        None => String::new(),
    }
}

/// The command that shows details of a resource.
fn describe_command(resource: &BlockingResource) -> String {
    let BlockingResource { group, kind, namespace, name, .. } = resource;
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let namespace = match namespace.as_str() {
        "" => String::new(),
        namespace => format!("-n {namespace} "),
    };
    format!("kubectl {namespace}describe {}{group} {name}", kind.to_lowercase())
}

/// The command that syncs an Application. A manual operation uses only its own sync
/// options (SE-304), so it includes those of the spec.
fn sync_manually(name: &str, live: Option<&Value>) -> String {
    let namespace = match live.map_or("", Raw::namespace) {
        "" => String::new(),
        namespace => format!("-n {namespace} "),
    };
    let options = live.and_then(|live| live.pointer("/spec/syncPolicy/syncOptions"));
    let sync = match options {
        Some(Value::Array(options)) if !options.is_empty() => json!({ "syncOptions": options }),
        _ => json!({}),
    };
    let patch = json!({ "operation": { "sync": sync } }).to_string().replace('\'', r"'\''");
    format!("kubectl {namespace}patch application {name} --type merge -p '{patch}'")
}

fn conditions(set: &Value) -> Vec<Condition> {
    let wrong = |found: &&Value| {
        let kinds = [condition::ERROR_OCCURRED, condition::INVALID_ROLLOUT_CONFIG];
        kinds.contains(&found.field("type")) && found.field("status") == "True"
    };
    let condition = |found: &Value| Condition {
        kind: found.field("type").to_owned(),
        reason: found.field("reason").to_owned(),
        message: found.field("message").to_owned(),
    };
    set.items("/status/conditions").iter().filter(wrong).map(condition).collect()
}

/// The text output.
pub(super) fn show(explanation: &Explanation) -> String {
    let mut out = printable(&explanation.summary) + "\n";
    if !explanation.waits.is_empty() {
        let row = |wait: &Wait| {
            let what =
                wait.resource.as_ref().map_or_else(|| wait.reason.clone(), ToString::to_string);
            [
                wait.application.clone(),
                wait.step.map_or_else(|| "-".to_owned(), |step| step.to_string()),
                or_dash(&wait.phase),
                or_dash(&wait.sync),
                or_dash(&wait.health),
                or_dash(&wait.since),
                or_dash(&wait.until),
                what,
            ]
        };
        let header =
            ["APPLICATION", "STEP", "PHASE", "SYNC", "HEALTH", "SINCE", "UNTIL", "WAITS FOR"];
        out.push('\n');
        out.push_str(&output::table(header, explanation.waits.iter().map(row)));
    }
    let reported = |wait: &&Wait| !wait.advice.is_empty();
    if explanation.waits.iter().any(|wait| reported(&wait)) {
        out.push_str("\nWhat to do:\n");
        for wait in explanation.waits.iter().filter(reported) {
            out.push_str(&printable(&format!("  {}: {}", wait.application, wait.advice)));
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
