//! The limits of the policies of a set in words, for all who print them: a plan, and the conditions
//! of policies.

use gotime::duration::print_duration;

use super::policy::Rules;

/// Pauses, budgets and limits, one text each, with the policies that they are of.
pub fn limit_texts(rules: &Rules) -> Vec<String> {
    let mut limits = Vec::new();
    for (policy, why) in &rules.paused {
        limits.push(format!("paused by policy {policy}: {why}"));
    }
    limits.extend(rules.failures.as_ref().map(ToString::to_string));
    if let Some(deadline) = rules.deadline {
        limits.push(format!("one fails that is not Healthy in {}", print_duration(deadline)));
    }
    if rules.ignores_baseline {
        limits.push("one that was not Healthy before may stay so".to_owned());
    }
    if let Some((start, factor)) = rules.ramp {
        limits.push(format!("a step begins with {start}, times {factor} after each batch"));
    }
    for (index, spread) in rules.spreads.iter().enumerate() {
        let (max, label, policy) = (spread.max, &spread.label, &spread.policy);
        // A misspelt label holds the whole set to the limit of one value.
        let absent = if rules.lacks_label(index) { ", which no Application has" } else { "" };
        limits.push(format!("{max} in flight for each value of {label}{absent} (policy {policy})"));
    }
    for (policy, max) in &rules.pools {
        limits.push(format!("{max} in flight in all sets of policy {policy}"));
    }
    for (policy, max) in &rules.deletions {
        limits.push(format!("{max} may be deleted without an approval (policy {policy})"));
    }
    limits
}
