//! The Applications that a set generates, with their steps.
//!
//! In a cluster, what the generators read is not at hand: the Applications of such a set are
//! those that are observed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use wavegate_api::Raw;
use wavegate_net::entropy::template_environment;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::desired;
use wavegate_rollout::desired::inputs::Inputs;

/// The step of each generated Application of a raw ApplicationSet, counted from 0; `None` when
/// no step selects it.
///
/// Fails when the template or a generator fails.
pub(in crate::cli) fn generated(
    set: &Value,
    inputs: &Inputs,
    now: Timestamp,
) -> Result<BTreeMap<String, Option<usize>>, desired::GenerateError> {
    Ok(report_input::generated_steps(
        set,
        &desired::generate(set, inputs, &mut template_environment(now))?,
    ))
}

/// The same of a set of a cluster, as far as it is known: when lists are its only generators.
pub(in crate::cli) fn of_cluster(
    set: &Value,
    now: Timestamp,
) -> Option<BTreeMap<String, Option<usize>>> {
    let is_list = |generator: &Value| {
        generator.as_object().is_some_and(|fields| {
            fields.contains_key("list")
                && fields.keys().all(|key| key == "list" || key == "selector")
        })
    };
    let is_known = set.items("/spec/generators").iter().all(is_list);
    is_known.then(|| generated(set, &Inputs::default(), now).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(strategy: &Value) -> Value {
        json!({"spec": {
            "generators": [{"list": {"elements": [
                {"name": "a", "env": "dev"}, {"name": "b", "env": "prod"}, {"name": "d", "env": "lab"},
            ]}}],
            "template": {"metadata": {"name": "{{name}}", "labels": {"env": "{{env}}"}}, "spec": {}},
            "strategy": strategy,
        }})
    }

    #[test]
    fn of_a_cluster_only_lists_are_generated() {
        let expressions = |env: &str| json!([{"key": "env", "operator": "In", "values": [env]}]);
        let mut set = set(&json!({"type": "RollingSync", "rollingSync": {"steps": [
            {"matchExpressions": expressions("dev")}, {"matchExpressions": expressions("prod")},
        ]}}));
        let listed = of_cluster(&set, Timestamp::UNIX_EPOCH).unwrap();
        let steps: Vec<_> = listed.iter().map(|(name, step)| (name.as_str(), *step)).collect();
        assert_eq!(steps, [("a", Some(0)), ("b", Some(1)), ("d", None)]);
        set["spec"]["generators"] = json!([{"clusters": {}}]);
        assert_eq!(of_cluster(&set, Timestamp::UNIX_EPOCH), None);
    }
}
