//! The ApplicationSets and the policies about them.

use std::sync::Arc;

use serde_json::Value;

use super::finding::Finding;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::Error;
use crate::cli::runs::policies::policy_problems;
use wavegate_api::Raw;
use wavegate_api::policy::POLICY;
use wavegate_controller::config::{Config, PROGRESSIVE_SYNCS_KEY};
use wavegate_rollout::rollout::steps::{StepStrategy, strategy_problems};

/// What is wrong with the sets and policies of the namespaces that may be read.
pub(super) async fn examine(cluster: &ClusterConnection, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match everywhere(cluster, "ApplicationSet").await {
        Ok(sets) => findings.extend(sets.iter().flat_map(|set| of_set(set, config))),
        Err(error) => findings.push(Finding::unread(&error)),
    }
    match everywhere(cluster, POLICY).await {
        Ok(policies) => findings.extend(policies.iter().flat_map(|policy| of_policy(policy))),
        Err(error) => findings.push(Finding::unread(&error)),
    }
    findings
}

/// The objects of all namespaces, or, for those who may not list them, of the control plane.
async fn everywhere(cluster: &ClusterConnection, kind: &str) -> Result<Vec<Arc<Value>>, Error> {
    match cluster.list(kind, None, None).await {
        Err(error) if error.is_forbidden => {
            cluster.list(kind, Some(&cluster.namespace), None).await
        }
        listed => listed,
    }
}

fn of_set(set: &Value, config: Option<&Config>) -> Vec<Finding> {
    let about = format!("ApplicationSet {}/{}", set.namespace(), set.name());
    let mut findings = Vec::new();
    for problem in strategy_problems(set) {
        let text = format!("{}; nothing of it is written until this is corrected", problem.message);
        findings.push(Finding::error(about.clone(), text));
    }
    let settings = config.map(|config| &config.application_sets);
    if let Some(settings) = settings.filter(|settings| !settings.covers(set.namespace())) {
        let problem = format!(
            "the controller in namespace {} does not watch its namespace; name it in \
             --applicationset-namespaces",
            settings.control_plane_namespace
        );
        findings.push(Finding::warning(about, problem));
        return findings;
    }
    let (strategy, _) = StepStrategy::of(set);
    let is_off = settings.is_some_and(|settings| !settings.decisions.progressive_syncs);
    if is_off && !strategy.steps().is_empty() {
        let problem = format!(
            "its steps have no effect, since RollingSync is not enabled: all its Applications \
             change at once; set {PROGRESSIVE_SYNCS_KEY}, or --enable-progressive-syncs"
        );
        findings.push(Finding::error(about.clone(), problem));
    }
    let failed = set.items("/status/conditions").iter().find(|condition| {
        condition.field("type") == "ErrorOccurred" && condition.field("status") == "True"
    });
    if let Some(failed) = failed {
        findings.push(Finding::warning(about, failed.field("message")));
    }
    findings
}

fn of_policy(policy: &Value) -> Vec<Finding> {
    let about = format!("RolloutPolicy {}/{}", policy.namespace(), policy.name());
    let problems = policy_problems(policy).into_iter();
    problems.map(|problem| Finding::warning(about.clone(), problem)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Severity;
    use super::*;

    fn set(spec: Value) -> Value {
        json!({"metadata": {"namespace": "argocd", "name": "web"}, "spec": spec})
    }

    fn found(spec: Value, config: Option<&Config>) -> Vec<(Severity, String)> {
        let findings = of_set(&set(spec), config);
        findings.into_iter().map(|finding| (finding.severity, finding.problem)).collect()
    }

    fn config(keys: &[(&str, &str)]) -> Config {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let flags = wavegate_controller::config::Flags::default();
        Config::resolve(flags, &|_| None, &keys.collect()).unwrap()
    }

    #[test]
    fn a_strategy_that_is_not_understood_holds_the_set() {
        let misspelt = json!({"strategy": {"type": "RollingSync", "rollingsync": {"steps": []}}});
        let found = found(misspelt, None);
        assert!(
            matches!(&found[..], [(Severity::Error, text), ..] if text.contains("nothing of it is written")),
            "{found:?}"
        );
    }

    #[test]
    fn steps_without_progressive_syncs_have_no_effect() {
        let steps = json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [{}]}}});
        let (off, on) = (
            config(&[(PROGRESSIVE_SYNCS_KEY, "false")]),
            config(&[(PROGRESSIVE_SYNCS_KEY, "true")]),
        );
        assert!(
            matches!(&found(steps.clone(), Some(&off))[..], [(Severity::Error, text)] if text.contains("at once"))
        );
        assert_eq!(found(steps.clone(), Some(&on)), []);
        assert_eq!(found(steps, None), [], "it is not known");
        assert_eq!(found(json!({}), Some(&off)), [], "it has no steps");
    }

    #[test]
    fn a_namespace_that_is_not_watched_is_named() {
        let mut elsewhere = set(json!({}));
        elsewhere["metadata"]["namespace"] = "team".into();
        let found = of_set(&elsewhere, Some(&config(&[])));
        assert!(
            matches!(&found[..], [one] if one.problem.contains("--applicationset-namespaces")),
            "{found:?}"
        );
        let covered = config(&[("applicationsetcontroller.namespaces", "team")]);
        assert_eq!(of_set(&elsewhere, Some(&covered)), []);
    }

    #[test]
    fn a_policy_that_no_controller_has_read_is_a_warning() {
        let policy = json!({"metadata": {"namespace": "argocd", "name": "slow"}, "spec": {}});
        let found = of_policy(&policy);
        assert!(matches!(&found[..], [one] if one.severity == Severity::Warning), "{found:?}");
    }
}
