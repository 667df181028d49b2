//! The limits of the policies of a set, and who uses them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cli::runs::ReportedSet;
use wavegate_api::Raw;
use wavegate_api::policy::policy_spec;
use wavegate_dashboard::reports::{LimitDocument, LimitUseDocument};
use wavegate_rollout::application_set::generate::generated::labels_of;
use wavegate_rollout::rollout::policy::{Policy, Rules, Selectable};
use wavegate_rollout::rollout::policy_limits::limit_texts;
use wavegate_rollout::rollout::report::Report;

/// The most Applications that are named.
const NAMES: usize = 10;

/// The limits, in the words of `plan`, each with what uses it.
pub(super) fn limits(found: &ReportedSet, report: &Report) -> Vec<LimitDocument> {
    let ReportedSet { set, applications, run, policies } = found;
    if policies.is_empty() {
        return Vec::new();
    }
    let rules = rules(set, report, applications, policies);
    let mut limits: Vec<LimitDocument> = limit_texts(&rules)
        .into_iter()
        .map(|text| LimitDocument { text, uses: Vec::new() })
        .collect();
    let in_flight: Vec<&str> = report
        .members
        .iter()
        .filter(|(_, member)| report.is_in_flight(member))
        .map(|(name, _)| name.as_str())
        .collect();
    let some = |names: &[&str]| names.iter().take(NAMES).map(|name| (*name).to_owned()).collect();
    // Their order: those of labels, of pools, of deletions at last.
    let pools = limits.len().saturating_sub(rules.deletions.len() + rules.pools.len());
    let spreads = pools.saturating_sub(rules.spreads.len());
    for (index, spread) in rules.spreads.iter().enumerate() {
        let mut by_value: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in &in_flight {
            by_value.entry(rules.value_of(name, index)).or_default().push(name);
        }
        let uses = by_value.into_iter().map(|(value, names)| LimitUseDocument {
            of: format!("{}={value}", spread.label),
            used: names.len() as u64,
            most: Some(spread.max),
            applications: some(&names),
        });
        if let Some(limit) = limits.get_mut(spreads + index) {
            limit.uses = uses.collect();
        }
    }
    for (index, (_, max)) in rules.pools.iter().enumerate() {
        if let Some(limit) = limits.get_mut(pools + index)
            && !in_flight.is_empty()
        {
            limit.uses = vec![LimitUseDocument {
                of: "this set".to_owned(),
                used: in_flight.len() as u64,
                most: Some(*max),
                applications: some(&in_flight),
            }];
        }
    }
    if let Some(budget) = &rules.failures
        && let Some(run) = run.as_ref().filter(|run| run.status.failed > 0)
    {
        let text = budget.to_string();
        let names = run.status.failures.iter().flat_map(|one| &one.applications);
        if let Some(limit) = limits.iter_mut().find(|limit| limit.text == text) {
            limit.uses = vec![LimitUseDocument {
                of: "failed".to_owned(),
                used: u64::try_from(run.status.failed).unwrap_or_default(),
                most: budget.count.as_ref().map(|count| count.value),
                applications: names.take(NAMES).cloned().collect(),
            }];
        }
    }
    limits
}

/// What policies amount to for a set with the Applications that it has.
fn rules(
    set: &Value,
    report: &Report,
    applications: &BTreeMap<String, Arc<Value>>,
    policies: &[Arc<Value>],
) -> Rules {
    let selectable = |(name, member): (&String, &wavegate_rollout::rollout::report::Member)| {
        let live = applications.get(name);
        let labels = live.map(|live| labels_of(live)).unwrap_or_default();
        Selectable { name: name.clone(), labels, step: member.step }
    };
    let members: Vec<Selectable> = report.members.iter().map(selectable).collect();
    let read =
        |policy: &Arc<Value>| Policy { name: policy.name().to_owned(), spec: policy_spec(policy) };
    let policies: Vec<Policy> = policies.iter().map(read).collect();
    let steps = report.set.strategy.steps().len();
    Rules::of(&policies, set.name(), &labels_of(set), &members, steps)
}
