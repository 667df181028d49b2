//! `wavegate policies`: what holds and limits rollouts.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::cluster::{ClusterArgs, ClusterConnection, block_on};
use crate::cli::console::error::note;
use crate::cli::console::output::{OutputArgs, line, or_dash, table};
use crate::cli::rollout_view::run::paused_by_annotation;
use wavegate_api::policy::{Gate, POLICY, PolicyStatus, RolloutPolicySpec};
use wavegate_api::{IntOrString, Raw, read_leniently};
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::requests::{selects_set, unpause_command};
use wavegate_rollout::rollout::report::Set;

/// The most ApplicationSets and gates in a cell.
const NAMES: usize = 3;

/// List the policies that hold and limit rollouts
///
/// With an ApplicationSet, only those that select it. Below the table is what is paused, also by
/// the annotation of an ApplicationSet, with the command that resumes it.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct PoliciesArgs {
    /// Only policies that select this ApplicationSet
    #[arg(value_name = "APPSET")]
    name: Option<String>,
    /// List the policies of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A policy, for the output.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicySummary {
    namespace: String,
    policy: String,
    /// Names of the ApplicationSets that it selects, at most 50.
    application_sets: Vec<String>,
    /// Their number.
    selected: i64,
    paused: bool,
    /// Names of its gates, with what they need.
    gates: Vec<String>,
    /// Its limits, in words.
    limits: Vec<String>,
    /// What is wrong with it.
    problems: Vec<String>,
    /// What several policies amount to, if its controller says so.
    effective: String,
    spec: Value,
}

/// Runs the command.
pub(in crate::cli) fn run(args: PoliciesArgs) -> anyhow::Result<ExitCode> {
    let (found, place, paused) = block_on(async {
        let cluster = ClusterConnection::connect(&args.cluster).await?;
        if let Some(name) = &args.name {
            let set = cluster.expect_application_set(name).await?;
            let all = cluster.list(POLICY, Some(set.namespace()), None).await?;
            let policies: Vec<PolicySummary> = all
                .iter()
                // One that is not understood may hold it.
                .filter(|policy| selects_set(policy, &set).unwrap_or(true))
                .map(|policy| PolicySummary::of(policy))
                .collect();
            let place = format!("selects ApplicationSet {}/{}", set.namespace(), set.name());
            return Ok((policies, place, paused(&[set])));
        }
        let (place, namespace, all) = match args.all_namespaces {
            true => ("exists".to_owned(), None, cluster.list(POLICY, None, None).await?),
            false => {
                let (namespace, all) = cluster.here(POLICY, None).await?;
                let place = format!("exists in namespace {namespace}; -A lists those of all");
                (place, Some(namespace).filter(|_| !all.is_empty()), all)
            }
        };
        let sets = match (&namespace, args.all_namespaces) {
            (None, false) => cluster.application_sets_here().await.map(|(_, sets)| sets),
            (namespace, _) => cluster.list("ApplicationSet", namespace.as_deref(), None).await,
        };
        let sets = sets.unwrap_or_else(|error| {
            note(&format!("which ApplicationSets are paused by annotation is not known: {error}"));
            Vec::new()
        });
        Ok((all.iter().map(|policy| PolicySummary::of(policy)).collect(), place, paused(&sets)))
    })?;
    let mut found = found;
    found.sort_by(|a, b| (&a.namespace, &a.policy).cmp(&(&b.namespace, &b.policy)));
    args.output.print(&found, |policies| {
        let text = match policies.as_slice() {
            [] => line(&format!("No RolloutPolicy {place}.")),
            policies => list(policies),
        };
        let by_policy = policies.iter().filter(|policy| policy.paused).map(|policy| {
            let PolicySummary { namespace, policy, .. } = policy;
            let command = unpause_command(namespace, policy);
            format!("RolloutPolicy {namespace}/{policy}: paused: nothing that it selects is promoted until {command}")
        });
        let together: BTreeSet<String> = policies.iter().filter_map(effective).collect();
        let lines: String =
            together.into_iter().chain(by_policy).chain(paused).map(|text| line(&text)).collect();
        if lines.is_empty() { text } else { format!("{text}\n{lines}") }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with a policy.
pub(in crate::cli) fn policy_problems(policy: &Value) -> Vec<String> {
    PolicySummary::of(policy).problems
}

/// Policies as `-o json` prints them.
pub(in crate::cli) fn summaries(policies: &[Arc<Value>]) -> Value {
    json!(policies.iter().map(|policy| PolicySummary::of(policy)).collect::<Vec<_>>())
}

/// The sets that are paused by their annotation, a line each, in the order of namespace and name.
fn paused(sets: &[Arc<Value>]) -> Vec<String> {
    let mut sets: Vec<_> = sets.iter().map(|set| report_input::read_set(set)).collect();
    sets.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let line = |set: &Set| {
        let paused = paused_by_annotation(set)?;
        Some(format!("ApplicationSet {}/{}: {paused}", set.namespace, set.name))
    };
    sets.iter().filter_map(line).collect()
}

/// What the limits of several policies amount to, if the policy is one of them.
fn effective(policy: &PolicySummary) -> Option<String> {
    let PolicySummary { namespace, effective, .. } = policy;
    (!effective.is_empty()).then(|| format!("Effective in namespace {namespace}: {effective}"))
}

fn list(policies: &[PolicySummary]) -> String {
    let row = |policy: &PolicySummary| {
        let mut holds = policy.gates.clone();
        if policy.paused {
            holds.insert(0, "paused".to_owned());
        }
        let names = policy.application_sets.iter().map(String::as_str);
        let sets = match policy.selected {
            0 => "-".to_owned(),
            count if policy.application_sets.len() <= NAMES => {
                let names: Vec<&str> = names.collect();
                format!("{count}: {}", names.join(", "))
            }
            count => {
                let more = count.saturating_sub(i64::try_from(NAMES).unwrap_or(0));
                let names: Vec<&str> = names.take(NAMES).collect();
                format!("{count}: {} and {more} more", names.join(", "))
            }
        };
        [
            policy.namespace.clone(),
            policy.policy.clone(),
            sets,
            or_dash(&some_of(holds.iter(), NAMES)),
            or_dash(&policy.limits.join(", ")),
            or_dash(&policy.problems.join("; ")),
        ]
    };
    let header = ["NAMESPACE", "POLICY", "APPSETS", "HOLDS", "LIMITS", "PROBLEMS"];
    table(header, policies.iter().map(row))
}

impl PolicySummary {
    fn of(policy: &Value) -> Self {
        let spec: RolloutPolicySpec = read_leniently(policy.spec());
        let stored = policy.get("status").filter(|status| status.is_object());
        let status: PolicyStatus = stored.map(read_leniently).unwrap_or_default();
        let condition = |wanted: &str| status.conditions.iter().find(|one| one.type_ == wanted);
        let mut problems: Vec<String> = condition("Valid")
            .filter(|valid| valid.status == "False")
            .map(|valid| valid.message.clone())
            .into_iter()
            .collect();
        if stored.is_none() {
            problems.push("no controller has read it yet".to_owned());
        } else if status.selected <= 0 {
            problems.push("it selects no ApplicationSet".to_owned());
        }
        Self {
            namespace: policy.namespace().to_owned(),
            policy: policy.name().to_owned(),
            selected: status.selected,
            application_sets: status.application_sets.clone(),
            paused: spec.paused,
            gates: spec.gates.iter().map(gate).collect(),
            limits: limits(&spec),
            effective: condition("Effective").map(|one| one.message.clone()).unwrap_or_default(),
            problems,
            spec: policy.spec().clone(),
        }
    }
}

/// `production: 2 approvals, soak 30m`.
fn gate(gate: &Gate) -> String {
    let approvals = match gate.approvals {
        0 => String::new(),
        1 => "1 approval".to_owned(),
        count => format!("{count} approvals"),
    };
    let soak = if gate.soak.is_empty() { String::new() } else { format!("soak {}", gate.soak) };
    let needs: Vec<String> =
        [approvals, soak].into_iter().filter(|text| !text.is_empty()).collect();
    if needs.is_empty() {
        gate.name.clone()
    } else {
        format!("{}: {}", gate.name, needs.join(", "))
    }
}

fn limits(spec: &RolloutPolicySpec) -> Vec<String> {
    let number = |value: &IntOrString| match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    let mut limits = Vec::new();
    if let Some(failures) = &spec.failures {
        // Without a limit, any number may fail.
        let one = IntOrString::Int(1);
        let max = failures.max.as_ref().map(|max| match *max == one {
            true => "at most 1 failure".to_owned(),
            false => format!("at most {} failures", number(max)),
        });
        let same = failures.same.map(|same| format!("{same} of the same failure"));
        let mut budgets: Vec<String> = max.into_iter().chain(same).collect();
        if let Some(first) = budgets.first_mut() {
            first.push_str(&format!(", then {}", failures.on_failure));
        }
        limits.extend(budgets);
        if !failures.deadline.is_empty() {
            limits.push(format!("deadline {}", failures.deadline));
        }
    }
    if let Some(pace) = &spec.pace {
        if let Some(ramp) = &pace.ramp {
            let (start, factor) = (ramp.start.unwrap_or(1), ramp.factor.unwrap_or(2));
            limits.push(format!("ramp from {start} times {factor}"));
        }
        if let Some(spread) = &pace.spread {
            limits.push(format!("{} for each {}", spread.max, spread.label));
        }
        limits.extend(pace.max_in_flight.map(|max| format!("{max} in flight")));
    }
    if let Some(max) = spec.deletions.as_ref().and_then(|deletions| deletions.max.as_ref()) {
        limits.push(format!("{} deletions", number(max)));
    }
    limits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_are_limited_only_by_what_is_set() {
        let cases = [
            (json!({}), ""),
            (json!({"deadline": "20m"}), "deadline 20m"),
            (json!({"onFailure": "Rollback", "deadline": "20m"}), "deadline 20m"),
            (json!({"same": 3}), "3 of the same failure, then Hold"),
            (json!({"same": 3, "onFailure": "Rollback"}), "3 of the same failure, then Rollback"),
            (json!({"max": 0}), "at most 0 failures, then Hold"),
            (json!({"max": 1}), "at most 1 failure, then Hold"),
            (
                json!({"max": "5%", "same": 3}),
                "at most 5% failures, then Hold, 3 of the same failure",
            ),
        ];
        for (failures, want) in cases {
            let policy = json!({"spec": {"failures": failures}});
            assert_eq!(PolicySummary::of(&policy).limits.join(", "), want, "{failures}");
        }
    }
}
