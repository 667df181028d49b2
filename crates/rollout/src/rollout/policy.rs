//! What the policies of a set amount to (ST-001, ST-010 … ST-050), for its generated
//! Applications.
//!
//! All gates hold, each limit is the strictest, and a pause of one pauses. What cannot be
//! used holds more, never less: a policy that cannot be read pauses, a gate with an unknown
//! selector holds everything.

use std::collections::BTreeMap;

use gotime::duration;
use jiff::SignedDuration;
use serde_json::json;

use crate::notify::sink;
use crate::rollout::failure_budget::FailureBudget;
use crate::rollout::steps::Labels;
use wavegate_api::policy::{Baseline, RolloutPolicySpec, SetSelector, Sink};
use wavegate_api::selector::Selector;
use wavegate_api::{IntOrString, ReadError};

/// A policy as it is stored.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its spec, or why it cannot be read.
    pub spec: Result<RolloutPolicySpec, ReadError>,
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the policy.
    pub policy: String,
    /// The path of the field, such as `spec.gates[0].soak`; empty if it is none by itself.
    pub field: String,
    /// What is wrong with it, and what is done instead.
    pub text: String,
}

/// With the field, without the policy.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.text),
            field => write!(f, "{field}: {}", self.text),
        }
    }
}

/// A generated Application, as far as policies select it.
#[derive(Clone, Debug)]
pub struct Selectable {
    /// Its name.
    pub name: String,
    /// Its generated labels.
    pub labels: Labels,
    /// Its step, counted from 0.
    pub step: Option<usize>,
}

/// What the policies of a set amount to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The policies that pause it, each with the reason.
    pub paused: Vec<(String, String)>,
    /// The gates.
    pub gates: Vec<GateRule>,
    /// What the failure budgets amount to.
    pub failures: Option<FailureBudget>,
    /// How long after its promotion an Application fails that is not Healthy.
    pub deadline: Option<SignedDuration>,
    /// Whether Applications do not count that were not Healthy before (ST-041).
    pub ignores_baseline: bool,
    /// Start and factor of the ramp.
    pub ramp: Option<(u64, u64)>,
    /// The limits for each value of a label.
    pub spreads: Vec<SpreadRule>,
    /// The limits that sets share, by policy.
    pub pools: Vec<(String, u64)>,
    /// The most deletions of one generation, by policy.
    pub deletions: Vec<(String, Max)>,
    /// Where transitions are posted to; without those that cannot be used.
    pub sinks: Vec<SinkRule>,
    /// The names of the policies that select the set.
    pub policies: Vec<String>,
    /// What is wrong with the policies, in their order.
    pub problems: Vec<Problem>,
    members: BTreeMap<String, Selected>,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRule {
    /// The policy.
    pub policy: String,
    /// The name.
    pub name: String,
    /// How many people have to approve.
    pub approvals: u64,
    /// How long all earlier steps have to be Healthy; `Err` with the text that is no duration.
    pub soak: Result<SignedDuration, String>,
    /// The first step that it holds Applications of, counted from 0.
    pub first_step: Option<usize>,
}

/// The limit for each value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadRule {
    /// The policy.
    pub policy: String,
    /// The label.
    pub label: String,
    /// The limit.
    pub max: u64,
}

/// Where transitions are posted to.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkRule {
    /// The policy.
    pub policy: String,
    /// Its index in the list of the policy.
    pub index: usize,
    /// What the policy says.
    pub sink: Sink,
}

/// A number, or a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Max {
    /// So many.
    Count(u64),
    /// So many per cent, rounded down.
    Percent(u64),
}

impl Max {
    /// Reads the field; `None` for any other text.
    pub fn read(value: &IntOrString) -> Option<Self> {
        match value {
            IntOrString::Int(count) => Some(Self::Count(u64::try_from(*count).unwrap_or_default())),
            IntOrString::String(text) => match text.strip_suffix('%') {
                Some(share) => share.parse().ok().map(Self::Percent),
                None => text.parse().ok().map(Self::Count),
            },
        }
    }

    /// The limit for a group of `size`.
    pub fn of(self, size: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => size.saturating_mul(percent) / 100,
        }
    }
}

impl std::fmt::Display for Max {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What selects an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selected {
    gates: Vec<usize>,
    /// The value of the label of each spread.
    values: Vec<String>,
}

impl Rules {
    /// What the policies amount to that select the set of this name and labels.
    pub fn of(
        policies: &[Policy],
        set: &str,
        labels: &Labels,
        applications: &[Selectable],
        steps: usize,
    ) -> Self {
        let mut rules = Self::default();
        let mut counts_baseline = false;
        for policy in policies {
            match &policy.spec {
                Ok(spec) => match policy_selects(&spec.application_sets, set, labels) {
                    Ok(true) => {
                        rules.policies.push(policy.name.clone());
                        let rule = spec.failures.as_ref();
                        counts_baseline |= rule.is_some_and(|one| one.baseline == Baseline::Count);
                        rules.add(&policy.name, spec, applications, steps);
                        rules.check_effect(&policy.name, spec, set, steps);
                    }
                    Ok(false) => {}
                    Err(text) => rules.hold_all(&policy.name, "spec.applicationSets", text),
                },
                Err(error) => {
                    rules.hold_all(&policy.name, &error.path, error.reason.clone());
                }
            }
        }
        rules.ignores_baseline = !counts_baseline && rules.failures.is_some();
        rules
    }

    /// Whether nothing holds or limits anything.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.paused.is_empty()
    }

    /// The gates that hold an Application, as indices.
    pub fn gates_of(&self, application: &str) -> &[usize] {
        self.members.get(application).map_or(&[], |member| &member.gates)
    }

    /// The value of the label of a spread.
    pub fn value_of(&self, application: &str, spread: usize) -> &str {
        let member = self.members.get(application);
        member.and_then(|member| member.values.get(spread)).map_or("", String::as_str)
    }

    /// Whether no Application has the label of a spread.
    pub fn lacks_label(&self, spread: usize) -> bool {
        let values = self.members.values().filter_map(|member| member.values.get(spread));
        values.into_iter().all(String::is_empty)
    }

    fn hold_all(&mut self, policy: &str, field: &str, text: String) {
        self.policies.push(policy.to_owned());
        let problem = Problem { policy: policy.to_owned(), field: field.to_owned(), text };
        self.paused.push((policy.to_owned(), format!("it cannot be used: {problem}")));
        self.problems.push(problem);
    }

    fn problem(&mut self, policy: &str, field: impl Into<String>, text: impl Into<String>) {
        let (field, text) = (field.into(), text.into());
        self.problems.push(Problem { policy: policy.to_owned(), field, text });
    }

    fn add(
        &mut self,
        policy: &str,
        spec: &RolloutPolicySpec,
        applications: &[Selectable],
        steps: usize,
    ) {
        let name = || policy.to_owned();
        if spec.paused {
            self.paused.push((name(), "spec.paused is true".to_owned()));
        }
        for (at, gate) in spec.gates.iter().enumerate() {
            self.add_gate(policy, at, gate, applications, steps);
        }
        if let Some(failures) = &spec.failures {
            let max = failures.max.as_ref().map(|max| self.max(policy, "spec.failures.max", max));
            let same = failures.same.map(|same| u64::try_from(same).unwrap_or_default().max(1));
            let (count, percent) = match max {
                Some(Max::Count(count)) => (Some(count), None),
                Some(Max::Percent(percent)) => (None, Some(percent)),
                None => (None, None),
            };
            let own = FailureBudget::of(policy, count, percent, same, failures.on_failure);
            self.failures = Some(match self.failures.take() {
                Some(known) => known.together(own),
                None => own,
            });
            if let Some(deadline) = self.deadline_of(policy, &failures.deadline) {
                self.deadline = Some(self.deadline.map_or(deadline, |known| known.min(deadline)));
            }
        }
        if let Some(pace) = &spec.pace {
            if let Some(ramp) = &pace.ramp {
                let of = |value: Option<i64>, or: u64| {
                    value.map_or(or, |value| u64::try_from(value).unwrap_or_default().max(1))
                };
                let (start, factor) = (of(ramp.start, 1), of(ramp.factor, 2));
                self.ramp =
                    Some(self.ramp.map_or((start, factor), |(s, f)| (s.min(start), f.min(factor))));
            }
            if let Some(spread) = &pace.spread {
                let max = u64::try_from(spread.max).unwrap_or_default();
                self.spreads.push(SpreadRule { policy: name(), label: spread.label.clone(), max });
                for one in applications {
                    let value = one.labels.get(&spread.label).cloned().unwrap_or_default();
                    self.members.entry(one.name.clone()).or_default().values.push(value);
                }
            }
            if let Some(max) = pace.max_in_flight {
                self.pools.push((name(), u64::try_from(max).unwrap_or_default()));
            }
        }
        for (index, sink) in spec.notify.iter().enumerate() {
            match sink::sink_problem(sink) {
                Some((field, text)) => {
                    self.problem(policy, format!("spec.notify[{index}]{field}"), text);
                }
                None => self.sinks.push(SinkRule { policy: name(), index, sink: sink.clone() }),
            }
        }
        if let Some(max) = spec.deletions.as_ref().and_then(|deletions| deletions.max.as_ref()) {
            let max = self.max(policy, "spec.deletions.max", max);
            self.deletions.push((name(), max));
        }
    }

    /// A set without steps promotes nothing, so that nothing holds it back.
    fn check_effect(&mut self, policy: &str, spec: &RolloutPolicySpec, set: &str, steps: usize) {
        let holds =
            spec.paused || !spec.gates.is_empty() || spec.failures.is_some() || spec.pace.is_some();
        if steps == 0 && holds {
            let text = format!(
                "ApplicationSet {set} has no steps of a RollingSync: paused, gates, failures and pace \
                 hold nothing there"
            );
            self.problem(policy, "", text);
        }
    }

    fn add_gate(
        &mut self,
        policy: &str,
        at: usize,
        gate: &wavegate_api::policy::Gate,
        applications: &[Selectable],
        steps: usize,
    ) {
        let problem = |rules: &mut Self, field: &str, text: String| {
            let text = format!("gate {}: {text}", gate.name);
            rules.problem(policy, format!("spec.gates[{at}]{field}"), text);
        };
        for step in &gate.steps {
            if !usize::try_from(*step).is_ok_and(|step| (1..=steps).contains(&step)) {
                problem(self, ".steps", format!("there is no step {step} of {steps}"));
            }
        }
        // One that cannot be read holds everything.
        let selector = gate.applications.as_ref().map(|selector| {
            Selector::read_of_labels(&json!({
                "matchLabels": selector.match_labels,
                "matchExpressions": selector.match_expressions,
            }))
        });
        if let Some(Err(error)) = &selector {
            problem(self, ".applications", format!("{error}, so it holds all Applications"));
        }
        let is_selected = |one: &Selectable| {
            let by_labels = match &selector {
                Some(Ok(selector)) => selector.selects(&one.labels),
                Some(Err(_)) => true,
                None => false,
            };
            let number = one.step.and_then(|step| i64::try_from(step + 1).ok());
            by_labels || number.is_some_and(|number| gate.steps.contains(&number))
        };
        let soak = match gate.soak.as_str() {
            "" => Ok(SignedDuration::ZERO),
            text => duration::parse(text).map_err(|_| text.to_owned()),
        };
        if let Err(text) = &soak {
            let text = format!("{text:?} is no duration such as 30m, so it stays shut");
            problem(self, ".soak", text);
        }
        let index = self.gates.len();
        let mut first_step = None;
        let mut count = 0;
        for one in applications.iter().filter(|one| is_selected(one)) {
            count += 1;
            self.members.entry(one.name.clone()).or_default().gates.push(index);
            first_step = [first_step, one.step].into_iter().flatten().min();
        }
        if count == 0 {
            let field = match (&gate.applications, gate.steps.as_slice()) {
                (Some(_), _) => ".applications",
                (None, [_, ..]) => ".steps",
                (None, []) => "",
            };
            problem(self, field, "it selects no Application".to_owned());
        }
        self.gates.push(GateRule {
            policy: policy.to_owned(),
            name: gate.name.clone(),
            approvals: u64::try_from(gate.approvals).unwrap_or_default(),
            soak,
            first_step,
        });
    }

    /// The strictest reading of what is neither a number nor a percentage is 0.
    fn max(&mut self, policy: &str, field: &str, max: &IntOrString) -> Max {
        Max::read(max).unwrap_or_else(|| {
            self.problem(policy, field, "it is neither a number nor a percentage, so it is 0");
            Max::Count(0)
        })
    }

    fn deadline_of(&mut self, policy: &str, text: &str) -> Option<SignedDuration> {
        if text.is_empty() {
            return None;
        }
        let parsed = duration::parse(text);
        if parsed.is_err() {
            let text = format!("{text:?} is no duration such as 20m, so there is no deadline");
            self.problem(policy, "spec.failures.deadline", text);
        }
        parsed.ok()
    }
}

/// Whether a policy selects a set.
///
/// # Errors
///
/// When the selector cannot be read, with the field in it.
pub fn policy_selects(selector: &SetSelector, set: &str, labels: &Labels) -> Result<bool, String> {
    let by_labels = Selector::read_of_labels(&json!({
        "matchLabels": selector.match_labels,
        "matchExpressions": selector.match_expressions,
    }))?;
    let by_name = selector.names.is_empty() || selector.names.iter().any(|name| name == set);
    Ok(by_name && by_labels.selects(labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, spec: serde_json::Value) -> Policy {
        Policy { name: name.to_owned(), spec: Ok(serde_json::from_value(spec).unwrap()) }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn rules(policies: &[Policy]) -> Rules {
        let application = |name: &str, env: &str, step| Selectable {
            name: name.to_owned(),
            labels: labels(&[("env", env)]),
            step: Some(step),
        };
        let applications =
            [application("a", "dev", 0), application("b", "prod", 1), application("c", "prod", 1)];
        Rules::of(policies, "shop", &labels(&[("tier", "prod")]), &applications, 2)
    }

    #[test]
    fn policies_select_sets_by_names_and_labels_as_st_001() {
        let cases = [
            (json!({}), true),
            (json!({"names": ["shop"]}), true),
            (json!({"names": ["other"]}), false),
            (json!({"matchLabels": {"tier": "prod"}}), true),
            (json!({"matchLabels": {"tier": "dev"}}), false),
            (json!({"names": ["shop"], "matchLabels": {"tier": "dev"}}), false),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["prod"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
        ];
        for (selector, selected) in cases {
            let rules = rules(&[policy("p", json!({"applicationSets": selector, "paused": true}))]);
            assert_eq!(!rules.paused.is_empty(), selected, "{selector}");
        }
    }

    #[test]
    fn what_cannot_be_read_holds_more_as_st_013() {
        let error = ReadError { path: "spec.paused".to_owned(), reason: "a string".to_owned() };
        let unreadable = Policy { name: "p".to_owned(), spec: Err(error) };
        let why = "it cannot be used: spec.paused: a string";
        assert_eq!(rules(&[unreadable]).paused, [("p".to_owned(), why.to_owned())]);
        let odd =
            json!({"applicationSets": {"matchExpressions": [{"key": "a", "operator": "Near"}]}});
        let held = rules(&[policy("p", odd)]);
        assert_eq!((held.paused.len(), held.problems.len()), (1, 1));
        let field = "spec.applicationSets: matchExpressions[0].operator: ";
        assert!(held.problems[0].to_string().starts_with(field), "{:?}", held.problems);
        let gate = |gate: serde_json::Value| rules(&[policy("p", json!({"gates": [gate]}))]);
        let none = gate(json!({"name": "g", "applications": {"matchLabels": {"env": "qa"}}}));
        let [problem] = none.problems.as_slice() else { panic!("{:?}", none.problems) };
        let text = "spec.gates[0].applications: gate g: it selects no Application";
        assert_eq!(problem.to_string(), text);
        let step = gate(json!({"name": "g", "steps": [2, 3]}));
        assert!(step.problems[0].text.contains("no step 3 of 2"), "{:?}", step.problems);
        assert_eq!(step.gates_of("b"), [0]);
        assert_eq!(step.gates_of("a"), [0_usize; 0]);
        let both = gate(json!({
            "name": "g", "steps": [1], "applications": {"matchLabels": {"env": "prod"}},
        }));
        assert!(["a", "b", "c"].iter().all(|name| both.gates_of(name) == [0]), "their union");
        assert_eq!(both.gates[0].first_step, Some(0));
        let odd = gate(json!({
            "name": "g", "soak": "soon",
            "applications": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
        }));
        assert!(["a", "b", "c"].iter().all(|name| odd.gates_of(name) == [0]));
        assert_eq!(odd.gates[0].soak, Err("soon".to_owned()));
        assert_eq!(odd.problems.len(), 2);
        let start = "spec.gates[0].applications: gate g: matchExpressions[0].operator: ";
        let is_named = |problem: &Problem| problem.to_string().starts_with(start);
        assert!(odd.problems.iter().any(is_named), "{:?}", odd.problems);
    }

    #[test]
    fn a_set_without_steps_is_a_problem_of_what_holds_promotions_as_st_013() {
        let rules = |spec: serde_json::Value| {
            let spec = serde_json::from_value(spec).unwrap();
            let policy = Policy { name: "p".to_owned(), spec: Ok(spec) };
            Rules::of(&[policy], "shop", &BTreeMap::new(), &[], 0).problems
        };
        for spec in [
            json!({"paused": true}),
            json!({"failures": {"max": 1}}),
            json!({"pace": {"maxInFlight": 1}}),
        ] {
            let problems = rules(spec);
            assert!(
                problems[0].text.contains("shop has no steps of a RollingSync"),
                "{problems:?}"
            );
        }
        assert_eq!(rules(json!({"deletions": {"max": 1}})), []);
    }

    #[test]
    fn of_several_policies_the_strictest_limit_holds_as_st_001() {
        let one = json!({
            "failures": {"max": 2, "deadline": "20m", "baseline": "Ignore", "onFailure": "Abort"},
            "pace": {"ramp": {"start": 4}, "maxInFlight": 5},
            "deletions": {"max": "10%"},
        });
        let other = json!({
            "failures": {"max": "x", "deadline": "1h", "same": 0},
            "pace": {"ramp": {"start": 2, "factor": 3}, "spread": {"label": "env", "max": 1}},
        });
        let found = rules(&[policy("one", one.clone()), policy("other", other)]);
        assert_eq!(found.deadline, Some(SignedDuration::from_mins(20)));
        assert_eq!(found.ramp, Some((2, 2)));
        assert!(!found.ignores_baseline, "one counts them");
        assert!(rules(&[policy("one", one)]).ignores_baseline);
        // What cannot be read is 0; the default is Hold.
        let want = "0 (policy other) may fail, but not 1 in the same way (policy other), then Abort \
                    (policy one)";
        assert_eq!(found.failures.as_ref().unwrap().to_string(), want);
        assert_eq!(found.pools, [("one".to_owned(), 5)]);
        assert_eq!(found.deletions, [("one".to_owned(), Max::Percent(10))]);
        assert_eq!((found.value_of("a", 0), found.value_of("b", 0)), ("dev", "prod"));
        assert_eq!(found.problems.len(), 1);
    }

    #[test]
    fn a_sink_that_cannot_be_used_is_a_problem_as_st_084() {
        let sinks = json!({"notify": [
            {"url": "https://x"}, {"url": "https://me:s3cr3t@x/y"}, {}, {"secretRef": {"name": "s"}},
        ]});
        let found = rules(&[policy("p", sinks)]);
        assert_eq!(found.sinks.iter().map(|sink| sink.index).collect::<Vec<_>>(), [0, 3]);
        let problems: Vec<String> = found.problems.iter().map(Problem::to_string).collect();
        assert!(problems[0].starts_with("spec.notify[1].url: it contains a user"), "{problems:?}");
        assert!(
            problems[1].starts_with("spec.notify[2]: a sink needs url, or secretRef"),
            "{problems:?}"
        );
        assert!(!problems.concat().contains("s3cr3t"));
    }

    #[test]
    fn a_maximum_is_a_number_or_a_share_rounded_down_as_st_042() {
        let cases = [
            ("0", 7, 0),
            ("2", 7, 2),
            ("10%", 9, 0),
            ("10%", 10, 1),
            ("34%", 3, 1),
            ("100%", 7, 7),
        ];
        for (text, size, want) in cases {
            let max = Max::read(&IntOrString::String(text.to_owned())).unwrap();
            assert_eq!((max.of(size), max.to_string().as_str()), (want, text));
        }
        assert_eq!(Max::read(&IntOrString::Int(-1)), Some(Max::Count(0)));
        assert_eq!(Max::read(&IntOrString::String("-1%".to_owned())), None);
    }
}
