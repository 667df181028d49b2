//! The policies of the cluster, what they say about a planned rollout, and the hash of the plan
//! (ST-081).

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::note;
use crate::cli::files::generate::strategy_of;
use crate::cli::plan::live_diff::{Change, LiveChange};
use wavegate_api::Raw;
use wavegate_api::policy::{POLICY, policy_spec};
use wavegate_api::sources::compared_revisions;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::generate::generated::{
    generated_labels, labels_of, spec_digest,
};
use wavegate_rollout::desired::Generation;
use wavegate_rollout::rollout::policy::{Policy, Problem, Rules, Selectable, policy_selects};
use wavegate_rollout::rollout::policy_limits::limit_texts;
use wavegate_rollout::rollout::steps::step_memberships;

/// The most names of Applications in a line.
const NAMES: usize = 5;

/// The policies of namespaces, each read once.
pub(in crate::cli) struct Policies<'a> {
    cluster: &'a ClusterConnection,
    known: BTreeMap<String, Option<Vec<Arc<Value>>>>,
}

impl<'a> Policies<'a> {
    /// Those of a cluster.
    pub fn new(cluster: &'a ClusterConnection) -> Self {
        Self { cluster, known: BTreeMap::new() }
    }

    /// Those of a namespace; none where they cannot exist. `None` when they cannot be read, which
    /// is noted: they may hold and limit anything.
    pub async fn of(&mut self, namespace: &str) -> Option<&[Arc<Value>]> {
        if !self.known.contains_key(namespace) {
            let read = match self.cluster.list(POLICY, Some(namespace), None).await {
                Ok(policies) => Some(policies),
                Err(error) if error.is_undefined() => Some(Vec::new()),
                Err(error) => {
                    note(&format!("{error}; what policies hold and limit is not known"));
                    None
                }
            };
            self.known.insert(namespace.to_owned(), read);
        }
        self.known.get(namespace)?.as_deref()
    }
}

/// What holds and limits a planned rollout.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct PlanPolicies {
    /// The policies that select the set.
    pub policies: Vec<String>,
    /// What holds it, in the order of the steps.
    pub gates: Vec<PlannedGate>,
    /// Pauses, budgets and limits, in words.
    pub limits: Vec<String>,
    /// What is wrong with the policies.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_words")]
    pub problems: Vec<Problem>,
    /// Of the targets, the steps, the gates and the deletions: another plan has another one. Empty
    /// without a cluster, and while the gates are not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// A gate of a policy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct PlannedGate {
    pub name: String,
    pub policy: String,
    pub approvals: u64,
    /// A duration such as `30m`; empty without one.
    pub soak: String,
    /// The Applications that it holds.
    pub applications: Vec<String>,
}

/// What policies amount to for a set with these generated Applications.
pub(in crate::cli) fn rules(
    policies: &[Arc<Value>],
    set: &Value,
    generation: &Generation,
) -> Rules {
    let (strategy, _) = strategy_of(set);
    let labels = generated_labels(generation);
    let of = labels.iter().map(|(name, labels)| (name.as_str(), labels));
    let steps = step_memberships(strategy.steps(), of);
    let selectable = |(name, labels): (&String, &_)| Selectable {
        name: name.clone(),
        labels: Clone::clone(labels),
        step: steps.get(name).and_then(|membership| membership.step()),
    };
    let applications: Vec<Selectable> = labels.iter().map(selectable).collect();
    let policies: Vec<Policy> = policies.iter().map(|policy| read(policy)).collect();
    let count = strategy.steps().len();
    Rules::of(&policies, set.name(), &labels_of(set), &applications, count)
}

/// Whether a policy is for a set of its namespace; also one whose selector cannot be read.
pub(in crate::cli) fn selects(policy: &Value, set: &Value) -> bool {
    match read(policy).spec {
        Ok(spec) => {
            policy_selects(&spec.application_sets, set.name(), &labels_of(set)).unwrap_or(true)
        }
        Err(_) => true,
    }
}

/// Says that a policy is for none of the sets.
pub(in crate::cli) fn note_unused(policy: &Value) {
    note(&format!("RolloutPolicy {} selects none of the ApplicationSets", policy.name()));
}

/// Says that a policy is in another namespace than the sets, which are in these.
pub(in crate::cli) fn note_elsewhere(policy: &Value, these: &str) {
    note(&format!(
        "RolloutPolicy {}/{} is not used: it is for ApplicationSets of its namespace, and these \
         are in {these}",
        policy.namespace(),
        policy.name()
    ));
}

impl PlanPolicies {
    /// For the generated Applications of a set, and the existing ones.
    pub fn of(
        rules: Rules,
        set: &Value,
        generation: &Generation,
        existing: &BTreeMap<String, Arc<Value>>,
        live: &[LiveChange],
    ) -> Self {
        let (strategy, _) = strategy_of(set);
        let labels = generated_labels(generation);
        let of = labels.iter().map(|(name, labels)| (name.as_str(), labels));
        let steps = step_memberships(strategy.steps(), of);
        let gates: Vec<PlannedGate> = rules
            .gates
            .iter()
            .enumerate()
            .map(|(index, rule)| PlannedGate {
                name: rule.name.clone(),
                policy: rule.policy.clone(),
                approvals: rule.approvals,
                soak: match &rule.soak {
                    Ok(soak) if soak.is_zero() => String::new(),
                    Ok(soak) => gotime::duration::print_duration(*soak),
                    Err(text) => text.clone(),
                },
                applications: labels
                    .keys()
                    .filter(|name| rules.gates_of(name).contains(&index))
                    .cloned()
                    .collect(),
            })
            .collect();
        let targets = generation.called().map(|(name, application)| {
            let known = existing.get(name).map(|live| compared_revisions(live));
            let step = steps.get(name).and_then(|membership| membership.step());
            (name, spec_digest(application.spec()), known.unwrap_or_default(), step)
        });
        let mut hash = Sha256::new();
        for (name, spec, revisions, step) in targets {
            hash.update(format!("target {name} {spec} {} {step:?}\n", revisions.join(",")));
        }
        for step in strategy.steps() {
            hash.update(format!("step {}\n", step.max_update));
        }
        for gate in &gates {
            let PlannedGate { name, policy, approvals, soak, applications } = gate;
            let applications = applications.join(",");
            hash.update(format!("gate {policy} {name} {approvals} {soak} {applications}\n"));
        }
        for deleted in live.iter().filter(|one| one.change == Change::Delete) {
            hash.update(format!("delete {}\n", deleted.application));
        }
        let hash = HEXLOWER.encode(&hash.finalize()[..8]);
        Self {
            gates,
            limits: limit_texts(&rules),
            problems: rules.problems,
            policies: rules.policies,
            hash,
        }
    }

    /// For people, without the problems.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for gate in &self.gates {
            let PlannedGate { name, policy, approvals, soak, applications } = gate;
            let mut asks = Vec::new();
            match approvals {
                0 => {}
                1 => asks.push("1 approval".to_owned()),
                count => asks.push(format!("{count} approvals")),
            }
            if !soak.is_empty() {
                asks.push(format!("a soak of {soak}"));
            }
            if applications.is_empty() {
                text.push_str(&format!("gate {name} (policy {policy}) holds no Application\n"));
                continue;
            }
            let names = some_of(applications.iter(), NAMES);
            let count = applications.len();
            let holds = match asks.as_slice() {
                // An API server refuses it; the controller opens it at once.
                [] => format!("holds none of {count}, since it needs neither approvals nor a soak"),
                asks => format!("holds {count} until {}", asks.join(" and ")),
            };
            text.push_str(&format!("gate {name} (policy {policy}) {holds}: {names}\n"));
        }
        for limit in &self.limits {
            text.push_str(&format!("{limit}\n"));
        }
        if !self.hash.is_empty() {
            text.push_str(&format!("plan hash {}\n", self.hash));
        }
        text
    }
}

/// Each as one text.
fn in_words<S: serde::Serializer>(problems: &[Problem], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(problems.iter().map(|problem| format!("{}: {problem}", problem.policy)))
}

fn read(policy: &Value) -> Policy {
    Policy { name: policy.name().to_owned(), spec: policy_spec(policy) }
}
