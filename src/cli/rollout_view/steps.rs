//! The steps of a set, their limits, and the Applications it generates.
//!
//! The limits that the demo checks come from the set itself, and not from the controller.
//! In a cluster, what the generators read is not at hand: the Applications of such a set
//! are those that are observed, and their steps those of its status, else of their labels.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::decide::rollout::budget::{Limit, MaxUpdate};
use crate::decide::rollout::steps::{Expression, Labels, Operator, Step, Strategy, memberships};
use crate::desired::inputs::Inputs;
use crate::desired::{self, Generation};
use crate::entropy::environment;

/// A step, or the whole set without steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ExpectedStep {
    /// The selected Applications, such as `env = prod`.
    pub selects: String,
    /// `maxUpdate` as written; empty when absent.
    pub max_update: String,
    /// Most Applications in flight; `None` means no limit.
    pub limit: Option<u64>,
    /// What the limit is computed from.
    rule: MaxUpdate,
}

impl ExpectedStep {
    fn new(step: &Step, size: u64) -> Self {
        let max_update = match &step.max_update {
            MaxUpdate::Unlimited => String::new(),
            written => written.to_string(),
        };
        let mut new =
            Self { selects: selects(step), max_update, limit: None, rule: step.max_update.clone() };
        new.resize(size);
        new
    }

    /// Computes the limit for this number of Applications.
    pub fn resize(&mut self, size: u64) {
        self.limit = match self.rule.limit(size) {
            Limit::AtMost(limit) => Some(limit),
            Limit::Unlimited => None,
        };
    }
}

/// The steps of a set, as specified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct ExpectedSteps {
    /// Whether it is a RollingSync; otherwise there is one group and no step.
    pub rolling: bool,
    /// The steps in order.
    pub steps: Vec<ExpectedStep>,
    /// The step of each generated Application, counted from 0; `None` when no
    /// step selects it.
    pub applications: BTreeMap<String, Option<usize>>,
    /// How the step of an observed Application is found; `None` when they are generated.
    pub observed: Option<Vec<Step>>,
}

impl ExpectedSteps {
    /// The step of an observed Application with these labels, counted from 0.
    pub fn step_of(&self, labels: &Labels) -> Option<usize> {
        match &self.observed {
            Some(_) if !self.rolling => Some(0),
            Some(steps) => steps.iter().position(|step| step.selects(labels)),
            None => None,
        }
    }
}

/// Reads a raw ApplicationSet.
///
/// Fails when the template or a generator fails.
pub(in crate::cli) fn plan(
    set: &Value,
    inputs: &Inputs,
    now: Timestamp,
) -> Result<ExpectedSteps, desired::Error> {
    let generation = desired::generate(set, inputs, &mut environment(now))?;
    Ok(expected(set, &generation))
}

/// The steps of a set and its generated Applications.
pub(in crate::cli) fn expected(set: &Value, generation: &Generation) -> ExpectedSteps {
    let generated: BTreeMap<String, Labels> = generation
        .called()
        .map(|(name, application)| (name.to_owned(), labels(application)))
        .collect();
    let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
    let Strategy::RollingSync(steps) = &strategy else {
        let applications = generated.into_keys().map(|name| (name, Some(0))).collect();
        return ExpectedSteps { steps: vec![all_at_once()], applications, ..Default::default() };
    };
    let members =
        memberships(steps, generated.iter().map(|(name, labels)| (name.as_str(), labels)));
    let applications: BTreeMap<String, Option<usize>> =
        members.iter().map(|(name, membership)| (name.clone(), membership.step())).collect();
    let size = |step: usize| applications.values().filter(|of| **of == Some(step)).count() as u64;
    let steps = steps.iter().enumerate();
    let steps = steps.map(|(index, step)| ExpectedStep::new(step, size(index))).collect();
    ExpectedSteps { rolling: true, steps, applications, observed: None }
}

/// The steps of a set of a cluster. Its Applications are generated when lists are its only
/// generators, so that those to come are known.
pub(in crate::cli) fn of_cluster(set: &Value, now: Timestamp) -> ExpectedSteps {
    let generators = set["spec"]["generators"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_list = |generator: &Value| {
        generator.as_object().is_some_and(|fields| {
            fields.contains_key("list")
                && fields.keys().all(|key| key == "list" || key == "selector")
        })
    };
    if generators.iter().all(is_list)
        && let Ok(expected) = plan(set, &Inputs::default(), now)
    {
        return expected;
    }
    match Strategy::read(set["spec"].get("strategy")).0 {
        Strategy::AllAtOnce => ExpectedSteps {
            steps: vec![all_at_once()],
            observed: Some(Vec::new()),
            ..Default::default()
        },
        Strategy::RollingSync(rules) => ExpectedSteps {
            rolling: true,
            steps: rules.iter().map(|step| ExpectedStep::new(step, 0)).collect(),
            applications: BTreeMap::new(),
            observed: Some(rules),
        },
    }
}

fn all_at_once() -> ExpectedStep {
    ExpectedStep {
        selects: "all at once".to_owned(),
        max_update: String::new(),
        limit: None,
        rule: MaxUpdate::Unlimited,
    }
}

/// The labels of a raw Application.
pub(in crate::cli) fn labels(application: &Value) -> Labels {
    let labels = application["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn selects(step: &Step) -> String {
    if step.match_expressions.is_empty() {
        return "all Applications".to_owned();
    }
    step.match_expressions.iter().map(expression).collect::<Vec<_>>().join(" and ")
}

fn expression(expression: &Expression) -> String {
    let values: Vec<&str> = expression.values.iter().map(String::as_str).collect();
    match (&expression.operator, values.as_slice()) {
        (Operator::In, [one]) => format!("{} = {one}", expression.key),
        (Operator::In, several) => format!("{} in {}", expression.key, several.join(", ")),
        (Operator::NotIn, several) => format!("{} not in {}", expression.key, several.join(", ")),
        (Operator::Unsupported(word), _) => format!("{} {word}?", expression.key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(strategy: &Value) -> Value {
        json!({"spec": {
            "generators": [{"list": {"elements": [
                {"name": "a", "env": "dev"}, {"name": "b", "env": "prod"},
                {"name": "c", "env": "prod"}, {"name": "d", "env": "lab"},
            ]}}],
            "template": {"metadata": {"name": "{{name}}", "labels": {"env": "{{env}}"}}, "spec": {}},
            "strategy": strategy,
        }})
    }

    #[test]
    fn steps_limits_and_members_are_read_from_the_set() {
        let expressions = |env: &str| json!([{"key": "env", "operator": "In", "values": [env]}]);
        let plan = plan(
            &set(&json!({"type": "RollingSync", "rollingSync": {"steps": [
                {"matchExpressions": expressions("dev")},
                {"matchExpressions": expressions("prod"), "maxUpdate": "60%"},
            ]}})),
            &Inputs::default(),
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        assert!(plan.rolling);
        let shown: Vec<_> = plan
            .steps
            .iter()
            .map(|s| (s.selects.as_str(), s.max_update.as_str(), s.limit))
            .collect();
        assert_eq!(shown, [("env = dev", "", None), ("env = prod", "60%", Some(1))]);
        let steps: Vec<_> = plan.applications.iter().map(|(n, s)| (n.as_str(), *s)).collect();
        assert_eq!(steps, [("a", Some(0)), ("b", Some(1)), ("c", Some(1)), ("d", None)]);
    }

    #[test]
    fn of_a_cluster_only_lists_are_generated() {
        let expressions = |env: &str| json!([{"key": "env", "operator": "In", "values": [env]}]);
        let mut set = set(&json!({"type": "RollingSync", "rollingSync": {"steps": [
            {"matchExpressions": expressions("dev")},
            {"matchExpressions": expressions("prod"), "maxUpdate": "25%"},
        ]}}));
        let listed = of_cluster(&set, Timestamp::UNIX_EPOCH);
        assert_eq!((listed.applications.len(), listed.observed.is_some()), (4, false));
        set["spec"]["generators"] = json!([{"clusters": {}}]);
        let mut observed = of_cluster(&set, Timestamp::UNIX_EPOCH);
        assert_eq!((observed.applications.len(), observed.observed.is_some()), (0, true));
        let labels = |env: &str| Labels::from([("env".to_owned(), env.to_owned())]);
        assert_eq!(observed.step_of(&labels("prod")), Some(1));
        assert_eq!(observed.step_of(&labels("lab")), None);
        observed.steps[1].resize(9);
        assert_eq!(observed.steps[1].limit, Some(2), "a share of those that are observed");
    }

    #[test]
    fn without_a_rolling_sync_all_applications_sync_at_once() {
        let plan = plan(&set(&Value::Null), &Inputs::default(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(!plan.rolling);
        assert_eq!(plan.steps.len(), 1);
        assert!(plan.applications.values().all(|step| *step == Some(0)));
    }
}
