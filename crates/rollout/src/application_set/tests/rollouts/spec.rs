//! The spec of the set in the simulated cluster, as its user wrote it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::application_set::DecisionSettings;
use crate::application_set::generate::generated::{Collector, Generated};
use crate::application_set::generate::policy::Policy;
use crate::desired;
use crate::desired::inputs::Reads;
use wavegate_api::annotations::RESOURCES_FINALIZER;

/// The UID of the set.
pub const SET: &str = "set-uid";

/// One step of the strategy.
#[derive(Clone, Debug)]
pub struct Step {
    /// The values of the label that it selects; all Applications without one.
    pub values: Vec<usize>,
    /// Whether it lists no value, so that it selects nothing (AS-311).
    pub selects_none: bool,
    /// Its `maxUpdate`; null means absent.
    pub limit: Value,
}

impl Step {
    fn selects(&self, label: usize) -> bool {
        !self.selects_none && (self.values.is_empty() || self.values.contains(&label))
    }

    fn json(&self) -> Value {
        let listed = self.values.iter().filter(|_| !self.selects_none);
        let values: Vec<String> = listed.map(usize::to_string).collect();
        let mut step = json!({});
        if self.selects_none || !values.is_empty() {
            step["matchExpressions"] = json!([{"key": "step", "operator": "In", "values": values}]);
        }
        if !self.limit.is_null() {
            step["maxUpdate"] = self.limit.clone();
        }
        step
    }
}

/// One element of the generator.
#[derive(Clone, Debug)]
pub struct Element {
    /// The value of the label that steps select.
    pub label: usize,
    /// The version of the spec.
    pub path: u32,
    /// `automated.enabled`, if there is such a block.
    pub automated: Option<bool>,
}

/// The spec of the set.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Whether the strategy is a RollingSync.
    pub rolling: bool,
    /// Its steps.
    pub steps: Vec<Step>,
    /// Whether `deletionOrder` is Reverse.
    pub reverse: bool,
    /// `syncPolicy.applicationsSync`.
    pub policy: &'static str,
    /// What the generators return, by the names of the Applications.
    pub elements: BTreeMap<String, Element>,
    /// Applications that validation rejects.
    pub invalid: BTreeSet<String>,
    /// The template fails.
    pub fails: bool,
}

impl Spec {
    /// The effective policy.
    pub fn policy(&self) -> Policy {
        Policy::from_name(self.policy).unwrap()
    }

    /// The steps that select an Application.
    pub fn steps_of(&self, name: &str) -> Vec<usize> {
        let Some(element) = self.elements.get(name) else { return Vec::new() };
        (0..self.steps.len()).filter(|step| self.steps[*step].selects(element.label)).collect()
    }

    /// The step that selects a live label first: the order of deletions.
    pub fn step_of_label(&self, label: &str) -> Option<usize> {
        let label = label.parse().ok()?;
        self.steps.iter().position(|step| step.selects(label))
    }

    /// How many Applications of a step may be in flight: the table of AS-342,
    /// of the number of generated Applications of the step (AS-344). `None` is
    /// unlimited.
    pub fn allowed(&self, step: usize) -> Option<u64> {
        let first = |name: &&String| self.steps_of(name).first() == Some(&step);
        let size = self.elements.keys().filter(first).count() as u64;
        match &self.steps[step].limit {
            Value::Null => None,
            Value::Number(number) => Some(number.as_i64().unwrap().max(0) as u64),
            Value::String(text) => Some(match text.as_str() {
                "0" | "0%" | "00%" | "-5%" => 0,
                "3" => 3,
                "abc" | "" | "1.5%" => 1,
                share => (share.trim_end_matches('%').parse::<u64>().unwrap() * size / 100).max(1),
            }),
            other => panic!("{other} is no maxUpdate of a case"),
        }
    }

    /// The set as it is written.
    pub fn set(&self, generation: i64) -> Value {
        let mut strategy = json!({"type": if self.rolling { "RollingSync" } else { "AllAtOnce" }});
        if self.rolling {
            let steps: Vec<Value> = self.steps.iter().map(Step::json).collect();
            strategy["rollingSync"] = json!({ "steps": steps });
        }
        if self.reverse {
            strategy["deletionOrder"] = "Reverse".into();
        }
        json!({
            "metadata": {"name": "set", "namespace": "argocd", "uid": SET, "generation": generation},
            "spec": {"strategy": strategy, "syncPolicy": {"applicationsSync": self.policy}},
        })
    }

    /// What the spec results in.
    pub fn generate(
        &self,
        generation: i64,
        is_deleting: bool,
        settings: &DecisionSettings,
    ) -> Generated {
        let set = self.set(generation);
        let mut collector = Collector::new(&set, settings);
        if !is_deleting {
            for (name, element) in &self.elements {
                collector.add(element.application(name), name);
            }
        }
        let error = desired::GenerateError::Generator {
            place: "spec.generators[0].list".to_owned(),
            cause: "it fails".to_owned(),
            limit: false,
        };
        let fails = self.fails && !is_deleting;
        collector.finish(&set, settings, Reads::default(), fails.then_some(error))
    }
}

/// A label that does not depend on the step.
pub fn zone(name: &str) -> &'static str {
    if name.ends_with(['1', '3', '5', '7', '9']) { "1" } else { "0" }
}

impl Element {
    /// The path of its source.
    pub fn path(&self) -> String {
        format!("v{}", self.path)
    }

    fn application(&self, name: &str) -> Value {
        let mut application = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": name, "namespace": "argocd", "labels": {"step": self.label.to_string(), "zone": zone(name)},
                "finalizers": [RESOURCES_FINALIZER],
            },
            "spec": {
                "project": "team",
                "source": {"repoURL": "https://example.com/r", "path": self.path(), "targetRevision": "HEAD"},
                "destination": {"name": "in-cluster", "namespace": "x"},
            },
        });
        if let Some(enabled) = self.automated {
            application["spec"]["syncPolicy"] = json!({"automated": {"enabled": enabled}});
        }
        application
    }
}
